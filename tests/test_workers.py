"""Workers answer in order, are replaced once, and end with their parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mononet.workers import DeadWorkerError, at_once, in_parallel, runner

START = (
    "import time; from mononet.workers import in_parallel; list(in_parallel({}, [(60,)] * 2, 2))"
)


def square(x):
    return x * x


@pytest.mark.parametrize("workers", [1, 2])
def test_answers_come_in_the_order_of_the_tasks(workers):
    assert list(in_parallel(square, [(x,) for x in range(7)], workers)) == [0, 1, 4, 9, 16, 25, 36]


def test_work_is_cut_for_the_workers_of_this_machine_and_finely_for_a_cluster():
    assert at_once(2) == 2
    token = runner.set(lambda function, tasks, workers: iter(()))
    try:
        assert at_once(2) > 10**6
    finally:
        runner.reset(token)
    assert at_once(3) == 3


def children(pid):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("seconds", [0.0, 3.0])
def test_no_worker_outlives_a_killed_parent(seconds):
    parent = subprocess.Popen([sys.executable, "-c", START])
    while len(started := children(parent.pid)) < 2:
        time.sleep(0.01)
    time.sleep(seconds)
    started = children(parent.pid)
    parent.kill()
    parent.wait()
    waited = 0.0
    while any(Path(f"/proc/{pid}").exists() for pid in started) and waited < 10:
        time.sleep(0.1)
        waited += 0.1
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]


def die_once(flag):
    """A task that kills its worker the first time and answers the second."""
    if not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "answered"


def always_die():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_dies_has_its_tasks_run_again_once(tmp_path):
    found = list(in_parallel(die_once, [(str(tmp_path / "flag"),)] * 4, workers=2))
    assert found == ["answered"] * 4


def test_a_worker_that_dies_twice_ends_the_search():
    with pytest.raises(DeadWorkerError, match="died twice"):
        list(in_parallel(always_die, [(), ()], workers=2))
