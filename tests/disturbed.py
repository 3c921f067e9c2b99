"""Studies recorded in processes that a test may kill, and where such a process is found.

The processes are forked from one that has imported everything, so that twenty kills cost seconds.
"""

import multiprocessing
import os
import signal
import time
from pathlib import Path

from mononet import parameters, recording
from mononet.study import Study

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["mononet.recording"])
MARK = "MONONET_TEST_MARK"
# Everything that must come out byte for byte; the ledger and the costs need not.
SAME = (
    "trials.csv",
    "runs.csv",
    "predictions.npz",
    "curves.csv",
    "effects.csv",
    "checks.json",
)
SMALL = {
    "n_trials": 12,
    "round_size": 3,
    "cv_folds": 2,
    "search_seeds": 2,
    "max_epochs": 3,
    "max_depth": 1,
    "final_seeds": 3,
    "partitions": 2,
    "engine": "eager",
    "workers": 1,
}


def small(results, model="linear", **changes):
    """A study of Auto MPG that takes a second; what is killed does not depend on the model."""
    pairs = SMALL | {"results_dir": str(results)} | changes
    return Study.of("auto_mpg", model, parameters.resolve("auto_mpg", pairs=pairs.items()))


def start(function, *arguments):
    """function(*arguments, tell) in a process of its own; what it tells comes out of the pipe."""
    told, telling = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=function, args=(*arguments, telling))
    process.start()
    telling.close()
    return process, told


def recorded(study, mark, tell):
    """Record a study, telling each trial and each later step as it comes."""
    os.environ[MARK] = mark
    try:
        recording.record(
            study,
            on_trial=lambda trial: tell.send("trial"),
            on_step=tell.send,
        )
    except Exception as error:
        tell.send(str(error))
        os._exit(3)


def kill(process, told, word, seconds):
    """SIGKILL so many seconds after the process told the word; False where it was faster."""
    try:
        while told.recv() != word:
            pass
    except EOFError:
        pass
    process.join(seconds)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def marked(mark, command=""):
    """Processes that carry the mark in their environment, the workers of a marked one, say."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            carries = f"{MARK}={mark}".encode() in (process / "environ").read_bytes()
            if carries and command.encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def until(condition, seconds=60.0):
    """Wait for a condition; its value once it is true, or as it is when time is up."""
    end = time.perf_counter() + seconds
    while not (value := condition()) and time.perf_counter() < end:
        time.sleep(0.01)
    return value
