"""Planted faults: which check of a model catches which mistake.

One small monotone network on the two moons, sound and with one fault at a time; each goes through
the same checks as every selected configuration of the book (`mononet.checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import torch
from sklearn.datasets import make_moons
from torch import nn

from mononet import checks, experiments, figures, printing, prose
from mononet.experiments import Chapter, Experiment
from mononet.layers import ACTIVATIONS
from mononet.models import NetworkModel, Problem
from mononet.printing import Column, Html
from mononet.training import Run, Stack, make_step

ROWS, NOISE = 200, 0.2
# The lower moon is class 1: its probability must not increase in the second coordinate.
INDICATOR = np.array([0, -1])
CONFIGURATION = {
    "width": 6,
    "depth": 1,
    "learning_rate": 0.01,
    "weight_decay": 0.0,
    "learning_rate_decay": 1.0,
    "dropout": 0.0,
    "batch_size": 32,
}
BIAS = 3.0
FAULTS = {
    "none": "none",
    "default weights": "output weights not rescaled",
    "bias": f"output bias +{BIAS:g}",
    "labels": "labels reshuffled at every step",
    "no gradient": "a layer that gets no gradient",
    "flipped": "a flipped sign in one unit's gradient",
    "read-out": "a nonlinear read-out (ReLU)",
    "wrong sign": "max(−W, 0) for W⁻ in the split layer",
}
STARTS = {"none": "small output weights", **{k: FAULTS[k] for k in ("default weights", "bias")}}
CHECKS = {
    "initial_loss": "initial loss",
    "gradient": "gradient",
    "eight_rows": "eight rows",
    "monotonicity": "monotonicity",
    "shapes": "shapes",
}


def moons(seed: int) -> Problem:
    """Two moons, in the coordinates in which they are drawn."""
    X, y = make_moons(ROWS, noise=NOISE, random_state=seed)
    return Problem(X, y.astype(float), INDICATOR, "classification")


def wrong_sign(layer: nn.Module, inputs: tuple, _) -> torch.Tensor:
    """What the split layer would give with max(−W, 0) in place of W⁻ = min(W, 0)."""
    rho, (x,) = ACTIVATIONS[layer.activation], inputs
    positive, negative = layer.weight.clamp(min=0), (-layer.weight).clamp(min=0)
    return rho(layer.affine(x, positive)) - rho(layer.affine(x, negative))


def flipped(layer: nn.Module, inputs: tuple, output: torch.Tensor) -> torch.Tensor:
    """The output as it is, with the opposite gradient for the first unit's weights."""
    unit = output[..., :1]
    return torch.cat([2 * unit.detach() - unit, output[..., 1:]], dim=-1)


# Faults inside the network: the part, and what becomes of its output.
HOOKS: dict[str, tuple[Callable[[nn.Module], nn.Module], Callable]] = {
    "no gradient": (lambda network: network.embedding, lambda layer, x, out: out.detach()),
    "flipped": (lambda network: network.embedding, flipped),
    "read-out": (lambda network: network.readout, lambda layer, x, out: out.relu()),
    "wrong sign": (lambda network: network.stack[0], wrong_sign),
}


def reshuffled(step: Callable) -> Callable:
    """The training step with its labels in another order each time."""

    def faulty(state, buffers, constants, schedule, batch, table):
        monotone, free, target = table
        shuffled = target[torch.randperm(len(target), generator=generator)]
        return step(state, buffers, constants, schedule, batch, (monotone, free, shuffled))

    generator = torch.Generator().manual_seed(0)
    return faulty


@dataclass(frozen=True)
class Planted(NetworkModel):
    """The split network with one of ``FAULTS``."""

    name: str = "split"
    mode: str = "split"
    fault: str = "none"

    def hyperparameters(self, configuration, optimizer):
        rescaled = self.fault not in ("default weights", "bias")
        sound = super().hyperparameters(configuration, optimizer)
        return replace(sound, rescale_readout=rescaled)

    def stack(self, configuration, problem, runs, engine="eager", **options) -> Stack:
        stack = super().stack(configuration, problem, runs, engine, **options)
        if self.fault == "bias":
            stack.state.parameters["readout.bias"] += BIAS
        if self.fault in HOOKS:
            part, hook = HOOKS[self.fault]
            part(stack.skeleton).register_forward_hook(hook)
            stack.step = make_step(stack.skeleton, stack.task)
        if self.fault == "labels":
            stack.step = reshuffled(stack.step)
        return stack


def initial(experiment: Experiment) -> pd.DataFrame:
    """Loss before training of many initializations: small, default, and default with the bias.

    ``loss`` is the mean over rows, ``mixed`` that over all pairs of an output and a target, which
    the check looks at.
    """
    problem = moons(experiment.parameters["simulation_seed"])
    rows = np.arange(ROWS)
    runs = [Run(rows, rows, (seed,)) for seed in range(experiment.parameters["initializations"])]
    found = []
    for fault in STARTS:
        stack = Planted(fault=fault).stack(CONFIGURATION, problem, runs, dtype=torch.float64)
        losses, outputs = checks.losses_of(stack), stack.outputs([run.train for run in runs])
        for run, loss, output in zip(runs, losses, outputs, strict=True):
            covariance = np.cov(output, problem.y, ddof=0)[0, 1]
            row = {"weights": fault, "seed": run.seed[0], "loss": loss.mean()}
            found.append(row | {"mixed": loss.mean() + covariance})
    return pd.DataFrame(found)


def caught(experiment: Experiment) -> pd.DataFrame:
    """Every check of the sound network and of every planted fault, a row each."""
    seed = experiment.parameters["simulation_seed"]
    return pd.DataFrame(
        {"fault": fault, **asdict(check)}
        for fault in FAULTS
        for check in checks.check(Planted(fault=fault), CONFIGURATION, moons(seed), seed)
        if check.name in CHECKS
    )


PARTS = {"initial": initial, "caught": caught}


# --- what the chapter shows ----------------------------------------------------------------------


def table(experiment: Experiment) -> Html:
    """Faults by checks: what fails, with its value."""
    frame = experiment.table("caught")
    wide = frame.pivot(index="fault", columns="name", values=["passed", "value"]).reindex(FAULTS)
    wide.columns = [f"{kind} {name}" for kind, name in wide.columns]

    def cell(name: str) -> Callable[[Mapping], str]:
        def text(row: Mapping) -> str:
            value = printing.significant(float(row[f"value {name}"]))
            return "passes" if row[f"passed {name}"] else f"fails: {value}"

        return text

    return printing.render(
        wide.rename(index=FAULTS),
        [Column(title, cell(name), "") for name, title in CHECKS.items()],
        "Which check catches which fault.",
        "Values of failed checks: initial loss, relative to ln 2; gradient, relative error; eight "
        "rows, the best loss reached (it should fall below "
        f"{checks.EIGHT_ROWS_LOSS:g}); monotonicity, the largest fall as a share of the largest "
        "output.",
        source=experiments.source(experiment, "caught"),
        corner="fault",
        numbers=frame,
    )


def starts(experiment: Experiment) -> Html:
    """The initial loss over initializations, a row a kind of weights."""
    frame = experiment.table("initial").groupby("weights", sort=False)["mixed"]
    summary = frame.agg(["mean", "min", "max", "size"]).rename(index=STARTS)

    def digits(name: str) -> Callable[[Mapping], str]:
        return lambda row: printing.number(row[name], 2)

    return printing.render(
        summary,
        [
            Column("mean", digits("mean")),
            Column("smallest", digits("min")),
            Column("largest", digits("max")),
        ],
        "Loss before the first step; ln 2 is 0.693.",
        f"{summary['size'].iloc[0]} initializations; every output against every row's label.",
        source=experiments.source(experiment, "initial"),
        corner="output weights",
    )


@mpl.rc_context(figures.STYLE)
def figure(experiment: Experiment) -> Html:
    """The initial loss of every initialization, beside what the check lets pass."""
    frame = experiment.table("initial")
    drawn, axes = figures.panels(1, 1, 1.9)
    axis, spots = axes[0], np.random.default_rng(0)
    for y, (weights, color) in enumerate(zip(STARTS, (2, 0, 3), strict=True)):
        values = frame.loc[frame["weights"] == weights, "mixed"]
        jitter = y + spots.uniform(-0.2, 0.2, len(values))
        axis.plot(values, jitter, "osD"[y], ms=4, mew=0, alpha=0.6, color=figures.PALETTE[color])
    expected = np.log(2)
    band = (1 - checks.INITIAL_LOSS_LIMIT) * expected, (1 + checks.INITIAL_LOSS_LIMIT) * expected
    axis.axvspan(*band, color="0.85", zorder=0)
    axis.set_yticks(range(len(STARTS)), list(STARTS.values()))
    axis.set_ylim(len(STARTS) - 0.5, -0.5)
    axis.set_xlabel("log loss before the first step")
    told = frame.groupby("weights", sort=False)["mixed"].mean().rename(index=STARTS)
    means = "; ".join(f"{name} {value:.2f}" for name, value in told.items())
    caption = (
        "Every dot is one initialization. The gray band is what the check lets pass: ln 2 within "
        f"{100 * checks.INITIAL_LOSS_LIMIT:g} %. Only where a sound network always starts inside "
        "it does a start outside it mean anything."
    )
    alt = f"Loss before training by kind of output weights. Means: {means}."
    return figures.show(drawn, alt, caption, experiments.source(experiment, "initial"))


def _failed(experiment: Experiment) -> dict[str, list[str]]:
    """Fault → the checks that it fails, in the order of ``CHECKS``."""
    frame = experiment.table("caught").set_index(["fault", "name"])["passed"]
    return {f: [n for n in CHECKS if frame[f, n] in (False, "False")] for f in FAULTS}


def words(experiment: Experiment) -> Html:
    """What each check caught, and what it let pass."""
    failed = _failed(experiment)
    sound = failed.pop("none")
    first = (
        "The sound network passes every check."
        if not sound
        else f"The sound network itself fails: {', '.join(CHECKS[n] for n in sound)}."
    )
    items = []
    for name, title in CHECKS.items():
        by = [FAULTS[fault] for fault, names in failed.items() if name in names]
        alone = [FAULTS[fault] for fault, names in failed.items() if names == [name]]
        only = f" No other check catches: {'; '.join(alone)}." if alone else ""
        items.append(f"{title.capitalize()}: catches {'; '.join(by) or 'none of these'}.{only}")
    escaped = [FAULTS[fault] for fault, names in failed.items() if not names]
    last = (
        f"No check catches: {'; '.join(escaped)}."
        if escaped
        else "Every fault is caught by at least one of them."
    )
    return prose.paragraph(first) + prose.bullets(items) + prose.paragraph(last)


def start_is_not_enough(experiment: Experiment) -> Html:
    """Faults that start at the right loss and cannot memorize eight rows."""
    failed = _failed(experiment)
    late = [
        FAULTS[fault]
        for fault, names in failed.items()
        if "eight_rows" in names and "initial_loss" not in names
    ]
    if not late:
        return prose.paragraph("No fault here starts at the right loss and fails the eight rows.")
    verb = "starts at the right loss and fails" if len(late) == 1 else "start at the right loss "
    verb += "" if len(late) == 1 else "and fail"
    return prose.paragraph(
        f"{len(late)} of the {len(failed) - 1} faults {verb} the eight rows: {'; '.join(late)}. "
        "A right start says that the frequency of the labels, the scales and the output layer fit "
        "together. It does not see whether a label belongs to its row, and says nothing about "
        "learning."
    )


SHOWN = {
    "table": table,
    "starts": starts,
    "figure": figure,
    "words": words,
    "start is not enough": start_is_not_enough,
}


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters, checked; other names are left alone."""
    return experiments.open_chapter("faults", given, PARTS, SHOWN)
