"""Seed collapse: configurations that train on one seed and end at a constant on another.

A grid of learning rates and weight decays with many seeds a cell, the decay once added to Adam's
gradient (coupled) and once kept apart from it (decoupled), with and without clipped gradients;
and what happens inside the runs that collapse. ``cure`` asks which selection avoids them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch.func import functional_call

from mononet import statistics
from mononet.experiments import Experiment
from mononet.models import CATALOGUE, Problem
from mononet.network import Architecture
from mononet.search import compile_once
from mononet.study import FIRST_FINAL_SEED
from mononet.training import Hyperparameters, Run, Stack, Table, loss_rows
from mononet.workers import in_parallel

MODEL = CATALOGUE["split"]
STACKED = 240  # runs of one stack: large ones are the cheap ones
POINTS = 40  # of a trajectory
CELL = ["dataset", "decay", "clipped", "learning_rate", "weight_decay"]
OPTIMIZERS = {"none": "adamw", "coupled": "adam", "decoupled": "adamw"}


def problem_of(experiment: Experiment, name: str) -> Problem:
    """The training rows of a dataset; weight decay is added to the gradient."""
    loaded = experiment.load(name)
    return Problem(
        loaded.X_train, loaded.y_train, loaded.indicator, loaded.task, "published", "adam"
    )


def table(problem: Problem) -> Table:
    return Table.of(problem.X, problem.indicator, np.array(problem.y))


def seeds_of(count: int) -> list[int]:
    """So many seeds that no search uses."""
    return list(range(FIRST_FINAL_SEED, FIRST_FINAL_SEED + count))


def epochs_of(experiment: Experiment, rows: int) -> int:
    """The epochs that make up the steps of the grid; at least one."""
    batches = math.ceil(rows / experiment.parameters["batch_size"])
    return math.ceil(experiment.parameters["steps"] / batches)


def hyperparameters(experiment: Experiment, cell: pd.Series | dict) -> Hyperparameters:
    """What a cell of the grid trains with."""
    values = experiment.parameters
    return Hyperparameters(
        width=values["width"],
        batch_size=values["batch_size"],
        learning_rate=float(cell["learning_rate"]),
        weight_decay=float(cell["weight_decay"]),
        optimizer=OPTIMIZERS[cell["decay"]],
        clip_norm=values["clip_norm"] if cell["clipped"] else float("inf"),
    )


# --- the grid ---------------------------------------------------------------------------------


def cells(experiment: Experiment, dataset: str) -> pd.DataFrame:
    """The cells of a dataset's grid, a row each. Without decay there is nothing to couple."""
    values = experiment.parameters
    found = [
        (dataset, decay, clipped, rate, weight_decay)
        for clipped in (False, True)
        for rate in values["learning_rates"]
        for weight_decay in values["weight_decays"]
        for decay in (("coupled", "decoupled") if weight_decay else ("none",))
    ]
    return pd.DataFrame(found, columns=CELL)


def train(
    architecture: Architecture,
    hypers: Sequence[Hyperparameters],
    rows: Table,
    runs: Sequence[Run],
    epochs: int,
    engine: str,
) -> np.ndarray:
    """Probabilities (runs, rows) after the last epoch, of runs of one stack."""
    stack = Stack(architecture, hypers, "classification", rows, runs, engine=engine)
    return np.stack(stack.train([epochs]).predictions)[:, 0]


def grid(experiment: Experiment) -> pd.DataFrame:
    """Every training of the grid, a row each: whether it is constant or one-sided on its own
    training rows, and its accuracy there."""
    return pd.concat([_grid(experiment, d) for d in experiment.parameters["datasets"]])


def _grid(experiment: Experiment, dataset: str) -> pd.DataFrame:
    values, problem = experiment.parameters, problem_of(experiment, dataset)
    seeds = pd.DataFrame({"seed": seeds_of(values["grid_seeds"])})
    rows, every = table(problem), np.arange(len(problem.y))
    architecture, epochs = Architecture("split", values["depth"]), epochs_of(experiment, len(every))
    frame = cells(experiment, dataset).merge(seeds, how="cross")
    hypers = [hyperparameters(experiment, row) for row in frame.to_dict("records")]
    runs = [Run(every, every, (seed,)) for seed in frame["seed"]]
    compile_graphs(experiment, [values["depth"]], problem)
    tasks = [
        (architecture, hypers[i : i + STACKED], rows, runs[i : i + STACKED], epochs)
        for i in range(0, len(runs), STACKED)
    ]
    tasks = [(*task, experiment.engine) for task in tasks]
    predicted = np.concatenate(list(in_parallel(train, tasks, experiment.workers)))
    frame["constant"] = statistics.constant(predicted, "classification")
    frame["one_sided"] = statistics.one_sided(predicted)
    frame["accuracy"] = statistics.metric("accuracy", problem.y, predicted).round(5)
    return frame


def compile_graphs(experiment: Experiment, depths: Sequence[int], problem: Problem) -> None:
    """Compile the graph of each depth in one worker; the others find it on disk."""
    if experiment.engine == "compiled":
        shape = {"width": 8, "batch_size": 16, "learning_rate": 0.01, "weight_decay": 0.0}
        shape |= {"learning_rate_decay": 1.0, "dropout": 0.0}
        configurations = [shape | {"depth": depth} for depth in depths]
        compile_once(MODEL, configurations, problem, set(), experiment.workers)


def counts(experiment: Experiment) -> pd.DataFrame:
    """Constant and one-sided trainings of each cell, of `n`; cells without decay stand under both
    kinds of decay."""
    frame = experiment.table("grid")
    summed = frame.groupby(CELL, sort=False).agg(
        constant=("constant", "sum"), one_sided=("one_sided", "sum"), n=("seed", "size")
    )
    summed = summed.reset_index()
    none = summed["decay"] == "none"
    both = [summed[none].assign(decay=kind) for kind in ("coupled", "decoupled")]
    return pd.concat([*both, summed[~none]], ignore_index=True)


# --- inside a collapsing run ------------------------------------------------------------------


def divided(experiment: Experiment) -> pd.DataFrame:
    """For each kind of decay, the cell without clipping whose seeds are most divided."""
    frame = counts(experiment)
    frame = frame[~frame["clipped"] & (frame["weight_decay"] > 0)]
    distance = (frame["constant"] / frame["n"] - 0.5).abs()
    return frame.loc[distance.groupby(frame["decay"]).idxmin()]


def measures(stack: Stack) -> pd.DataFrame:
    """What a run looks like from inside, a row a run: root mean square of the constrained weights,
    sd of the logits and norm of the loss's gradient over its training rows, and the share of its
    parameters and moments that lie below the smallest normal number (zeros included: training
    flushes what is smaller)."""
    index = torch.as_tensor(np.stack([run.train for run in stack.runs]))
    monotone, free, target = (part[index] for part in stack.table)
    parameters = {n: p.clone().requires_grad_() for n, p in stack.state.parameters.items()}
    output = functional_call(stack.skeleton, (parameters, stack.buffers), (monotone, free))
    loss = loss_rows(stack.task, output, target).mean(dim=-1).sum()
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    weights = [p for n, p in parameters.items() if n.startswith("stack") and n.endswith("weight")]

    def by_run(tensors) -> torch.Tensor:
        return torch.cat([t.detach().flatten(start_dim=1) for t in tensors], dim=1)

    held = by_run([t for part in stack.state for t in part.values()])
    tiny = torch.finfo(stack.dtype).tiny
    return pd.DataFrame(
        {
            "weight": by_run(weights).square().mean(dim=1).sqrt(),
            "spread": output.detach().std(dim=1, correction=0),
            "gradient": by_run(gradients).square().sum(dim=1).sqrt(),
            "tiny": (held.abs() < tiny).double().mean(dim=1),
        }
    )


def trajectories(experiment: Experiment) -> pd.DataFrame:
    """`measures` of every seed of the divided cells, over the epochs of a training with the eager
    engine; `collapsed` says how the seed ended there."""
    found = []
    for cell in divided(experiment).to_dict("records"):
        problem = problem_of(experiment, cell["dataset"])
        every, epochs = np.arange(len(problem.y)), epochs_of(experiment, len(problem.y))
        seeds = seeds_of(experiment.parameters["grid_seeds"])
        stack = Stack(
            Architecture("split", experiment.parameters["depth"]),
            hyperparameters(experiment, cell),
            "classification",
            table(problem),
            [Run(every, every, (seed,)) for seed in seeds],
            engine="eager",
        )
        shown = set(np.linspace(0, epochs, min(POINTS, epochs) + 1).round().astype(int))
        rows = []
        for epoch in range(epochs + 1):
            if epoch in shown:
                rows.append(measures(stack).assign(seed=seeds, epoch=epoch))
            if epoch < epochs:
                stack.train_epoch(epoch)
        ended = statistics.constant(np.stack(stack.predict([every] * len(seeds))), problem.task)
        frame = pd.concat(rows).assign(**{name: cell[name] for name in CELL})
        found.append(
            frame.assign(collapsed=frame["seed"].map(dict(zip(seeds, ended, strict=True))))
        )
    return pd.concat(found)
