"""The workers of a Dask cluster in the place of this machine's: same tasks, same bits.

joblib hands the tasks over. Each task first holds its worker to what the promise of equal bytes
rests on: one thread a worker, and the versions, the processor and the source of the process that
records.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from urllib.parse import urlsplit

import joblib
from distributed import Client, KilledWorker, get_worker
from joblib._dask import DaskDistributedBackend

from mononet import machine
from mononet.record import source_revision
from mononet.workers import DeadWorkerError, WorkerError, runner

CONNECT_SECONDS = 10
WORKERS_SECONDS = 60  # a node that has just been given needs some to start its workers


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Let the workers of the scheduler at ``address`` (tcp://host:port) do what ``in_parallel``
    is asked inside this block. WorkerError when there is no such scheduler, or no worker."""
    client = _client(address)
    fit()
    token = runner.set(functools.partial(on_cluster, client))
    try:
        yield
    finally:
        runner.reset(token)
        client.close(CONNECT_SECONDS)


def _client(address: str) -> Client:
    try:
        parts = urlsplit(address)
        well_formed = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port
    except ValueError:  # a port that is no number, or none that exists
        well_formed = False
    if not well_formed:
        raise WorkerError(f"{address!r} is no scheduler's address, such as tcp://127.0.0.1:8786")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # one sentence says it
    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except Exception as error:  # a refusal, a time-out, a port that speaks something else
        raise WorkerError(
            f"no Dask scheduler answers at {address} within {CONNECT_SECONDS} s; "
            "start one with `dask scheduler`, or look the address up in its log"
        ) from error


class Workers(DaskDistributedBackend):
    """joblib's Dask backend, which would do the work of a single worker in this process."""

    def effective_n_jobs(self, n_jobs: int) -> int:
        return max(2, super().effective_n_jobs(n_jobs))


def on_cluster(client: Client, function: Callable, tasks: list[tuple], workers: int) -> Iterator:
    """function(*task) for each task, in order, on all workers of the cluster, however many."""
    if not tasks:
        return
    # What all tasks share (rows, folds) travels to each worker once.
    shared = [each[0] for each in zip(*tasks, strict=True) if all(a is each[0] for a in each)]
    try:
        _wait_for_a_worker(client)
        backend = Workers(client=client, scatter=shared)
        with joblib.parallel_config(backend=backend):
            # All tasks at once: a worker that joins later finds one.
            pool = joblib.Parallel(n_jobs=-1, return_as="generator", pre_dispatch="all")
        yield from pool(joblib.delayed(held_to)(fit(), function, *task) for task in tasks)
    except (KilledWorker, CancelledError, OSError) as error:
        raise DeadWorkerError(
            f"the cluster at {client.scheduler.address} lost its workers or its scheduler, twice; "
            "what was recorded is kept"
        ) from error


def _wait_for_a_worker(client: Client) -> None:
    """Ask for something that any worker can do; a cluster that adapts starts one for it."""
    try:
        client.submit(int, pure=False).result(WORKERS_SECONDS)
    except TimeoutError as error:
        if client.status != "running":
            raise
        raise WorkerError(
            f"the scheduler had no workers for {WORKERS_SECONDS} s; start some with "
            f"`dask worker {client.scheduler.address} --nthreads 1`"
        ) from error


@functools.cache
def fit() -> tuple[dict, str]:
    """Kind of machine and source revision, as they were when this process first asked: a commit
    that is made meanwhile does not change what is loaded."""
    return machine.kind(), source_revision()


def held_to(expected: tuple[dict, str], function: Callable, *task):
    """function(*task) on a worker that is fit for it; WorkerError otherwise."""
    worker = get_worker()
    if worker.state.nthreads != 1:
        raise WorkerError(
            f"worker {worker.address} has {worker.state.nthreads} threads, and the same bits need "
            "one; start it with --nthreads 1"
        )
    differs = machine.differences(expected[0], fit()[0])
    if expected[1] != fit()[1]:
        differs.append("another source revision")
    if differs:
        raise WorkerError(
            f"worker {worker.address} has {', '.join(differs)} than this process; a study's "
            "trials must come from machines of one kind"
        )
    return function(*task)
