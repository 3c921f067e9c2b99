"""Worker processes of one thread each, which do not outlive the process that started them."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterable, Iterator

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError

PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends; loky's would go on otherwise.

    Nothing heavy is imported here, so that a worker comes to this line at once.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it had ended before
        os._exit(1)


def in_parallel(function: Callable, tasks: Iterable[tuple], workers: int) -> Iterator:
    """function(*task) for each task, in order, on so many worker processes.

    A worker that dies (out of memory, say) makes the unanswered tasks run again, once.
    """
    tasks, answered = list(tasks), 0
    for last_try in (False, True):
        pool = joblib.Parallel(
            n_jobs=workers,
            return_as="generator",
            initializer=die_with,
            initargs=(os.getpid(),),
        )
        results = pool(joblib.delayed(function)(*task) for task in tasks[answered:])
        try:
            for result in results:
                answered += 1
                yield result
            return
        except TerminatedWorkerError:
            if last_try:
                raise
