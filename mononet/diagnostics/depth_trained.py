"""Depth explosion, the trainings: plain and residual stacks of the same depth, side by side.

They start as the protocol starts every network, read-out rescaled, so that what differs is what
lies before it. Rows are those of training parts; every seed is trained on one fold, in turn.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import torch
from torch.func import functional_call

from mononet import statistics
from mononet.data import Dataset
from mononet.diagnostics.depth_start import spread
from mononet.experiments import Experiment
from mononet.layers import MODES
from mononet.network import Architecture
from mononet.search import Split
from mononet.training import Hyperparameters, Run, Stack, Table, loss_rows, one_thread
from mononet.workers import in_parallel


def stack_of(of: Dataset, splits, mode, residual, depth, rate, given, engine: str) -> Stack:
    """All seeds of one arm before training; the number of a seed decides its fold."""
    hyper = Hyperparameters(given["width"], given["batch_size"], rate)
    folds = [(fold, *splits[fold]) for fold in range(len(splits))]
    runs = [
        Run(train, validation, (1000 + seed, fold))
        for seed, (fold, train, validation) in zip(
            range(given["final_seeds"]), itertools.cycle(folds), strict=False
        )
    ]
    table = Table.of(of.X_train, of.indicator, of.y_train.copy())
    architecture = Architecture(mode, depth, residual=residual)
    return Stack(architecture, hyper, of.task, table, runs, engine=engine)


def epochs(stack: Stack, steps: int) -> int:
    """The whole epochs that hold so many steps."""
    return math.ceil(steps / min(draw.steps for draw in stack.draws))


def losses(stack: Stack) -> np.ndarray:
    """Mean training loss of each run, a regression's in units of the target's variance."""
    found = []
    outputs = stack.outputs([run.train for run in stack.runs])
    for number, (run, output) in enumerate(zip(stack.runs, outputs, strict=True)):
        target = stack.table[2][torch.as_tensor(run.train)]
        center, scale = (float(c[number]) for c in stack.constants[-2:])
        rows = loss_rows(stack.task, torch.as_tensor(output), (target - center) / scale)
        found.append(float(rows.mean()))
    return np.array(found)


def _arm(of: Dataset, splits: list[Split], arm: tuple, given, engine: str) -> list[dict]:
    mode, residual, depth, rate = arm
    stack = stack_of(of, splits, *arm, given, engine)
    first = losses(stack)
    for epoch in range(epochs(stack, given["steps"])):
        stack.train_epoch(epoch)
    last, found = losses(stack), []
    predicted = stack.predict([run.predict for run in stack.runs])
    for number, run in enumerate(stack.runs[: stack.asked]):
        truth, y = of.y_train[run.predict], of.y_train[run.train]
        values, finite = predicted[number], bool(np.isfinite(predicted[number]).all())
        guess = np.full(len(truth), y.mean() if of.task == "regression" else y.mean() > 0.5)
        constant = bool(statistics.constant(values, of.task, float(y.std())))
        found.append(
            {"dataset": of.name, "mode": mode, "residual": residual, "depth": depth}
            | {"learning_rate": rate, "seed": run.seed[0], "fold": run.seed[1]}
            | {"value": float(statistics.metric(of.metric, truth, values)) if finite else np.nan}
            | {"trivial": float(statistics.metric(of.metric, truth, guess.astype(float)))}
            | {"loss_start": first[number], "loss_end": last[number]}
            | {"constant": constant and finite, "non_finite": not finite}
        )
    return found


def trainings(experiment: Experiment) -> pd.DataFrame:
    """A row a training: dataset, mode, construction, depth, learning rate and seed.

    ``value`` and ``trivial`` (the training mean or larger class) are the dataset's metric on the
    fold's validation rows; a run that is not finite has no value.
    """
    given, tasks = experiment.parameters, []
    for name in given["datasets"]:
        of = experiment.load(name)
        splits = of.splits(given["cv_seed"], given["cv_folds"])
        arms = itertools.product(MODES, (False, True), given["depths"], given["learning_rates"])
        tasks += [(of, splits, arm, dict(given), experiment.engine) for arm in arms]
    found = in_parallel(_arm, tasks, experiment.workers)
    frame = pd.DataFrame(list(itertools.chain.from_iterable(found)))
    return frame.round(dict.fromkeys(("value", "trivial", "loss_start", "loss_end"), 6))


def profile(stack: Stack) -> tuple[np.ndarray, np.ndarray]:
    """sd and effective rank after the embedding (layer 0) and after each layer of a stack, over
    each run's training rows, (layers + 1, runs); NaN where the activations are not finite."""
    longest = min(len(run.train) for run in stack.runs)
    rows = torch.as_tensor(np.stack([run.train[:longest] for run in stack.runs]))
    values = {k: v.double() for k, v in (stack.state.parameters | stack.buffers).items()}
    monotone, free, _ = (part.double() for part in stack.table)

    def through(part: str, x: torch.Tensor) -> torch.Tensor:
        own = {k.removeprefix(part): v for k, v in values.items() if k.startswith(part)}
        return functional_call(stack.skeleton.get_submodule(part[:-1]), own, (x,))

    with torch.no_grad(), one_thread():
        x = torch.cat([monotone[rows], through("embedding.", free[rows])], dim=-1)
        found = [spread(x)]
        for number in range(len(stack.skeleton.stack)):
            x = through(f"stack.{number}.", x)
            bad = ~torch.isfinite(x).all(-1).all(-1)
            sd, rank = spread(torch.nan_to_num(x))
            found.append(tuple(torch.where(bad, torch.nan, each) for each in (sd, rank)))
    return tuple(torch.stack(each).numpy() for each in zip(*found, strict=True))


def layers(experiment: Experiment) -> pd.DataFrame:
    """Scale and effective rank by layer on auto_mpg, before and after training.

    A row a mode, construction, moment and layer, medians over seeds; the deepest depth, the
    middle learning rate.
    """
    given, found = experiment.parameters, []
    of = experiment.load("auto_mpg")
    splits = of.splits(given["cv_seed"], given["cv_folds"])
    rates, depth = sorted(given["learning_rates"]), max(given["depths"])
    for mode, residual in itertools.product(MODES, (False, True)):
        arm = (mode, residual, depth, rates[(len(rates) - 1) // 2])
        stack = stack_of(of, splits, *arm, given, experiment.engine)
        for moment in ("start", "trained"):
            sd, rank = (np.median(each, axis=1) for each in profile(stack))
            key = {"mode": mode, "residual": residual, "depth": depth, "learning_rate": arm[-1]}
            found += [
                key | {"moment": moment, "layer": number, "sd": s, "rank": r}
                for number, (s, r) in enumerate(zip(sd, rank, strict=True))
            ]
            if moment == "start":
                for epoch in range(epochs(stack, given["steps"])):
                    stack.train_epoch(epoch)
    return pd.DataFrame(found)
