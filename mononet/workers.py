"""Worker processes of one thread each, which do not outlive the process that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar

import joblib
from joblib.externals.loky.process_executor import BrokenProcessPool

PR_SET_PDEATHSIG = 1


class WorkerError(RuntimeError):
    """Workers that cannot do what they are asked; the message is one clear sentence."""


class DeadWorkerError(WorkerError):
    """A worker ended before it answered."""


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends; loky's would go on otherwise.

    Nothing heavy is imported here, so that a worker comes to this line at once. The signal that a
    terminal sends to all of them (Ctrl-C) is left to the parent, which ends its workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it had ended before
        os._exit(1)


def on_this_machine(function: Callable, tasks: list[tuple], workers: int) -> Iterator:
    """function(*task) for each task, in order, on so many worker processes of this machine."""
    pool = joblib.Parallel(
        n_jobs=workers,
        return_as="generator",
        initializer=die_with,
        initargs=(os.getpid(),),
    )
    try:
        yield from pool(joblib.delayed(function)(*task) for task in tasks)
    except BrokenProcessPool as error:
        raise DeadWorkerError(
            f"one of {workers} worker processes died twice, killed from outside or for want of "
            "memory; what was recorded is kept, and fewer workers (-p workers 1) need less of it"
        ) from error


# What runs the tasks; ``cluster.connected`` puts the workers of a cluster here.
runner: ContextVar[Callable] = ContextVar("runner", default=on_this_machine)


def at_once(workers: int) -> int:
    """For how many tasks at once work is best cut: the workers of this machine; on a cluster,
    whose workers come and go, any number."""
    return workers if runner.get() is on_this_machine else sys.maxsize


def in_parallel(function: Callable, tasks: Iterable[tuple], workers: int) -> Iterator:
    """function(*task) for each task, in order, on so many worker processes.

    A worker that dies (out of memory, say) makes the unanswered tasks run again, once; then it is
    DeadWorkerError.
    """
    tasks, answered = list(tasks), 0
    for last_try in (False, True):
        try:
            for result in runner.get()(function, tasks[answered:], workers):
                answered += 1
                yield result
            return
        except DeadWorkerError:
            if last_try:
                raise
