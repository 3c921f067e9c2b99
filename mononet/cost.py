"""What training costs on this machine, measured: time and memory of a stack of runs.

A cell is one stack, trained for a while in a process of its own, so that its peak of memory is its
own; one thing is varied at a time around a stack like those of a search. Beside it stands what the
arithmetic alone would take.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from mononet.network import Architecture
from mononet.training import Hyperparameters, Run, Stack, Table, one_thread
from mononet.workers import die_with

if TYPE_CHECKING:  # the processes that measure load no more than training needs
    from mononet.experiments import Experiment

MONOTONE, FREE = 3, 4  # features of the simulated rows
RUNS, ROWS = 15, 300  # five folds × three seeds, on a small dataset
MODES = ("mixed", "split")
SQUARE = 1024  # of the large matrix product


@dataclass(frozen=True)
class Cell:
    """One stack: what it is made of, and how many processes train one like it at once."""

    mode: str = "mixed"
    engine: str = "compiled"
    runs: int = RUNS
    rows: int = ROWS
    width: int = 21
    depth: int = 2
    batch_size: int = 16
    workers: int = 1


def make_stack(cell: Cell) -> Stack:
    """Runs that all learn from the same simulated rows; one epoch done, so that it is compiled."""
    rng = np.random.default_rng(0)
    shapes = ((cell.rows, MONOTONE), (cell.rows, FREE), (cell.rows,))
    table, rows = Table(*(rng.normal(size=shape) for shape in shapes)), np.arange(cell.rows)
    stack = Stack(
        Architecture(cell.mode, cell.depth),
        Hyperparameters(cell.width, cell.batch_size, 1e-3, 1e-2, dropout=0.1),
        "regression",
        table,
        [Run(rows, rows[: ROWS // 5], (seed,)) for seed in range(cell.runs)],
        engine=cell.engine,
    )
    stack.train_epoch(0)
    return stack


def multiplications(cell: Cell) -> list[tuple[int, int, int]]:
    """The matrix products of one step of one run, [(rows, inner, columns)] of each.

    A layer's output, the gradient of its weight, and that of its input, which the embedding lacks.
    split multiplies by both signs of a weight at once.
    """
    batch, width = cell.batch_size, cell.width
    twice = 2 * width if cell.mode == "split" else width
    inputs = [MONOTONE + width, *[width] * (cell.depth - 1)]
    products = [(batch, FREE, width), (FREE, batch, width)]
    for inner, outer in [*((i, twice) for i in inputs), (width, 1)]:
        products += [(batch, inner, outer), (inner, batch, outer), (batch, outer, inner)]
    return products


def seconds_of(action: Callable[[], object], least: float) -> float:
    """Median seconds of one call, over as many calls as fit in ``least`` seconds, three or more."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < least:
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def train(cell: Cell, least: float) -> dict:
    """Microseconds of one step of one run, and of it the compiled step alone; of one prediction of
    a run's held-out fold; and MiB at the peak."""
    stack, epochs, within = make_stack(cell), itertools.count(1), []
    steps = stack.draws[0].steps * cell.runs
    with one_thread():
        # The first epochs of a process are slow; what follows is the median of whole epochs.
        whole = seconds_of(lambda: stack.train_epoch(next(epochs)), least)
        step = stack.step

        def timed(*arguments):
            start = time.perf_counter()
            result = step(*arguments)
            within.append(time.perf_counter() - start)
            return result

        stack.step = timed
        seconds_of(lambda: stack.train_epoch(next(epochs)), least / 2)
        predict = functools.partial(stack.predict, [run.predict for run in stack.runs])
        predicting = seconds_of(predict, least / 10)
    return {
        "us": 1e6 * whole / steps,
        "step_us": 1e6 * float(np.mean(within)) / cell.runs,
        "predict_us": 1e6 * predicting / cell.runs,
        "peak_mib": _peak_mib(),
    }


def products(cell: Cell, least: float) -> float:
    """Microseconds that the matrix products of one step of one run take alone, as a stack."""
    pairs = [
        (torch.randn(cell.runs, a, b), torch.randn(cell.runs, b, c), torch.empty(cell.runs, a, c))
        for a, b, c in multiplications(cell)
    ]
    with torch.no_grad(), one_thread():
        taken = seconds_of(lambda: [torch.bmm(x, y, out=z) for x, y, z in pairs], least)
    return 1e6 * taken / cell.runs


def large_product(least: float) -> float:
    """Floating-point operations a second, in 10⁹, of one large product on one thread."""
    x, y, z = (torch.randn(SQUARE, SQUARE) for _ in range(3))
    with torch.no_grad(), one_thread():
        return 2e-9 * SQUARE**3 / seconds_of(lambda: torch.mm(x, y, out=z), least)


def _peak_mib() -> float:
    """The most memory that this process has held; NaN where the system does not say."""
    # Not getrusage: a process inherits the peak of the one that started it.
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(x.split()[1]) / 1024 for x in lines if x.startswith("VmHWM")), float("nan"))


def alone(function: Callable, *arguments, workers: int = 1) -> list:
    """function(*arguments) in so many new processes at once, one result each."""
    with ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=die_with,
        initargs=(os.getpid(),),
    ) as pool:
        return [
            each.result() for each in [pool.submit(function, *arguments) for _ in range(workers)]
        ]


def grid(values: Mapping) -> list[tuple[str, Cell]]:
    """(what is varied, cell) for every cell that the parameters name."""
    base = Cell(width=values["width"], depth=values["depth"], batch_size=values["batch_size"])
    kinds = [base, replace(base, mode="split"), replace(base, engine="eager")]
    cells = [("runs", replace(kind, runs=n)) for kind in kinds for n in values["stack_sizes"]]
    varied = {
        "rows": "row_counts",
        "width": "widths",
        "depth": "depths",
        "batch_size": "batch_sizes",
        "workers": "worker_counts",
    }
    for field, name in varied.items():
        cells += [(field, replace(base, **{field: value})) for value in values[name]]
    return [(varied, replace(cell, engine=_engine(values, cell))) for varied, cell in cells]


def _engine(values: Mapping, cell: Cell) -> str:
    return "eager" if values["engine"] == "eager" else cell.engine


def cells(experiment: Experiment) -> pd.DataFrame:
    """Every cell of the grid, a row each; with several workers the mean of what each measured."""
    values, rows, known = experiment.parameters, [], {}
    least = values["seconds"]
    for varied, cell in grid(values):
        if cell not in known:
            several = pd.DataFrame(alone(train, cell, least, workers=cell.workers))
            taken = several.mean().to_dict() | {"peak_mib": several["peak_mib"].sum()}
            known[cell] = taken | {"products_us": products(cell, least / 10)}
        operations = 2 * sum(a * b * c for a, b, c in multiplications(cell))
        rows.append({"varied": varied, **asdict(cell), "operations": operations, **known[cell]})
    return pd.DataFrame(rows)


def rate(experiment: Experiment) -> pd.DataFrame:
    """What one core can multiply: 10⁹ floating-point operations a second."""
    return pd.DataFrame({"gflops": [large_product(experiment.parameters["seconds"])]})


def start(experiment: Experiment) -> pd.DataFrame:
    """Seconds until a process trains: importing, then compiling with an empty cache and a full one.

    Measured for the cell that everything else is varied around.
    """
    values = experiment.parameters
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import mononet.training"], check=True)
    rows = [{"mode": "", "what": "import", "seconds": time.perf_counter() - begin}]
    for mode in MODES:
        cell = Cell(mode, width=values["width"], depth=values["depth"])
        cell = replace(cell, engine=_engine(values, cell))
        with tempfile.TemporaryDirectory(prefix="mononet-cost-") as cache:
            for what in ("empty cache", "full cache"):
                [seconds] = alone(first_epoch, cell, cache)
                rows.append({"mode": mode, "what": what, "seconds": seconds})
    return pd.DataFrame(rows)


def first_epoch(cell: Cell, cache: str) -> float:
    """Seconds of the first epoch in this process, with compiled graphs kept in ``cache``."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    begin = time.perf_counter()
    make_stack(cell)
    return time.perf_counter() - begin


PARTS = {"rate": rate, "start": start, "cells": cells}
