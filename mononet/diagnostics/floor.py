"""The floor of an all-convex stack: how few probabilities a mixed network can give.

A convex elu unit never falls below −1, and every weight behind it is non-negative. So a stack whose
units are all convex has a smallest output, whatever comes in, and one whose units are all concave a
largest. Measured on the validation folds of training rows, by the share of convex units.
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.func import functional_call

from mononet import data, experiments, figures, printing, prose, statistics
from mononet.experiments import Chapter, Experiment, source
from mononet.layers import convex_units
from mononet.models import CATALOGUE, Problem
from mononet.network import Architecture, Network
from mononet.printing import TITLES, Column, Html, number, render, significant
from mononet.study import recorded_studies
from mononet.training import Run, Stack

MODELS = ("mixed", "mixed-residual")
# About what the search selected for mixed on Heart: without it the losses tell of overfitting.
REGULARIZED = {"weight_decay": 0.02, "learning_rate_decay": 0.85, "dropout": 0.45}
NOTHING = 1e-6  # a bound so near to 0 or 1 bounds nothing
FAR = 1e9  # an embedding beyond any that occurs, where elu is at its limit


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters (other names are left alone), checked."""
    return experiments.open_chapter("convex_floor", given, PARTS, SHOWN)


def bounds(stack: Stack, architecture: Architecture, low: Tensor, high: Tensor) -> np.ndarray:
    """The smallest and largest logit of each run, (runs, 2), for any row whose constrained columns
    lie between ``low`` and ``high``, each (constrained columns,) as the stack's table has them.

    The stack is monotone in those columns and in the embedding, so its bounds are its values at
    the ends of both: an elu embedding lies between −1 and infinity, whatever the free columns are.
    """
    network, monotone = stack.skeleton, len(low)
    embedded = network.embedding.weight.shape[-1] if network.embedding is not None else 0
    behind = Network(architecture, monotone + embedded, 0, embedded or 1).double()
    state = {
        name: values.double()
        for name, values in (stack.state.parameters | stack.buffers).items()
        if not name.startswith("embedding")
    }
    found = []
    for constrained, end in ((low, -1.0), (high, FAR)):
        row = torch.cat([constrained.double(), torch.full((embedded,), end, dtype=torch.float64)])
        rows = row.expand(len(stack.runs), 1, -1)
        with torch.no_grad():
            found.append(functional_call(behind, state, (rows, rows[..., :0]))[:, 0])
    return torch.stack(found, dim=1).numpy()[: stack.asked]


def train(experiment: Experiment, dataset: data.Dataset, model: str) -> pd.DataFrame:
    """Every share of convex units × fold × seed of one model, trained as one stack."""
    values = experiment.parameters
    problem = Problem(dataset.X_train, dataset.y_train, dataset.indicator, dataset.task)
    names = ("width", "depth", "batch_size", "learning_rate")
    configuration = {name: values[name] for name in names} | REGULARIZED
    arms = [
        (fraction, Run(train, validation, (1000 + seed, fold)))
        for fraction in values["convex_fractions"]
        for fold, (train, validation) in enumerate(
            dataset.splits(values["cv_seed"], values["cv_folds"])
        )
        for seed in range(values["final_seeds"])
    ]
    entry = CATALOGUE[model]
    stack = entry.stack(
        [configuration | {"convex_fraction": fraction} for fraction, _ in arms],
        problem,
        [run for _, run in arms],
        experiment.engine,
    )
    trained = stack.train([values["max_epochs"]])
    seen = stack.table[0][: len(problem.y)]
    architecture = entry.architecture(configuration)
    ends = bounds(stack, architecture, seen.amin(dim=0), seen.amax(dim=0))
    rows = []
    for (fraction, run), predicted, (low, high) in zip(
        arms, trained.predictions, ends, strict=True
    ):
        p, truth, base = predicted[0], problem.y[run.predict], problem.y[run.train].mean()
        trivial = np.full(len(truth), base)
        rows.append(
            {"dataset": dataset.name, "model": model, "fraction": fraction}
            | {"convex": int((convex_units(values["width"], fraction) > 0).sum())}
            | {"fold": run.seed[1], "seed": run.seed[0]}
            | {"smallest": p.min(), "largest": p.max(), "floor_logit": low, "ceiling_logit": high}
            | {"accuracy": float(np.mean((p > 0.5) == truth))}
            | {"loss": float(statistics.row_loss("classification", truth, p).mean())}
            | {"base_accuracy": float(np.mean((base > 0.5) == truth))}
            | {"base_loss": float(statistics.row_loss("classification", truth, trivial).mean())}
        )
    return pd.DataFrame(rows)


def runs(experiment: Experiment) -> pd.DataFrame:
    """A row a training."""
    loaded = [experiment.load(name) for name in experiment.parameters["datasets"]]
    return pd.concat([train(experiment, of, model) for of in loaded for model in MODELS])


PARTS = {"runs": runs}


# --- what the chapter shows ----------------------------------------------------------------------


def arms(experiment: Experiment) -> pd.DataFrame:
    """Means over the trainings of each arm, with the bounds as probabilities and who left them."""
    frame = experiment.table("runs")
    with np.errstate(over="ignore"):
        floor, ceiling = (1 / (1 + np.exp(-frame[f"{n}_logit"])) for n in ("floor", "ceiling"))
    beyond = (frame["smallest"] < floor - 1e-6) | (frame["largest"] > ceiling + 1e-6)
    frame = frame.assign(floor=floor, ceiling=ceiling, beyond=beyond)
    keys = ["dataset", "model", "convex"]
    means = frame.groupby(keys, sort=False).mean(numeric_only=True)
    groups = frame.groupby(keys, sort=False)
    extremes = groups.agg(lowest=("smallest", "min"), n=("smallest", "size"))
    return means.join(extremes).reset_index()


@mpl.rc_context(figures.STYLE)
def figure(experiment: Experiment) -> Html:
    """Probabilities given and possible, and both losses, by the number of convex units."""
    frame = arms(experiment)
    datasets = list(dict.fromkeys(frame["dataset"]))
    drawn, axes = figures.panels(2 * len(datasets), 2, 2.6)
    told = []
    for name, (left, right) in zip(datasets, zip(axes[::2], axes[1::2], strict=True), strict=True):
        for model, color, line in zip(MODELS, figures.PALETTE, ("-", "--"), strict=False):
            rows = frame[(frame["dataset"] == name) & (frame["model"] == model)]
            style = {"color": color, "ls": line, "marker": "o", "ms": 4, "lw": 1.3}
            for end in ("smallest", "largest"):
                label = model if end == "smallest" else None
                left.plot(rows["convex"], rows[end], label=label, **style)
            for end in ("floor", "ceiling"):
                binding = rows[(rows[end] > NOTHING) & (rows[end] < 1 - NOTHING)]
                left.plot(binding["convex"], binding[end], "_", ms=18, mew=2, color=color)
            right.plot(rows["convex"], rows["loss"], **style)
            last = rows.iloc[-1]
            told.append(
                f"{TITLES[name]} {model}, all {last['convex']} convex: smallest "
                f"{number(last['smallest'], 2)}, log loss {number(last['loss'], 2)}"
            )
        right.axhline(rows["base_loss"].mean(), color=figures.GRAY, ls=":", lw=1)
        left.set(title=TITLES[name], ylabel="probabilities given", ylim=(-0.03, 1.03))
        right.set(title=TITLES[name], ylabel="log loss")
        for axis in (left, right):
            axis.set_xlabel(f"convex units of {experiment.parameters['width']} in every layer")
    handles, labels = axes[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9)
    caption = (
        "Left: the smallest and the largest probability that a network gave to a row of its "
        "validation fold, mean over folds and seeds; a bar: what its weights allow at least, or "
        "at most, where that is not 0 or 1. Right: the log loss on the same rows; dotted, that of "
        "the training rows' base rate."
    )
    return figures.show(drawn, "; ".join(told) + ".", caption, source(experiment, "runs"))


def table(experiment: Experiment) -> Html:
    """Every arm in numbers."""
    frame = arms(experiment)
    frame.index = [
        f"{TITLES[row.dataset]}, {row.model}, {row.convex}" for row in frame.itertuples()
    ]
    columns = [
        Column("smallest", lambda row: number(row["smallest"], 3), group="probability given"),
        Column("largest", lambda row: number(row["largest"], 3), group="probability given"),
        Column("at least", lambda row: _limit(row["floor"]), group="possible"),
        Column("at most", lambda row: _limit(row["ceiling"]), group="possible"),
        Column("accuracy, %", lambda row: number(100 * row["accuracy"], 1)),
        Column("log loss", lambda row: number(row["loss"], 3)),
        Column("of the base rate", lambda row: number(row["base_loss"], 3)),
    ]
    note = (
        "The number is that of convex units in every layer; the rest are concave. Means over "
        f"{frame['n'].iloc[0]} trainings an arm (folds × seeds); the bounds are those of the "
        "weights, for any row whose constrained columns lie within those of the training rows."
    )
    return render(
        frame, columns, "Probabilities by the number of convex units", note,
        source=source(experiment, "runs"), corner="dataset, model, convex units",
    )  # fmt: skip


def _limit(p: float) -> str:
    return number(p, 3) if NOTHING < p < 1 - NOTHING else printing.NONE


def selected(experiment: Experiment) -> Html:
    """What the recorded studies of mixed networks selected on the classification datasets."""
    found = recorded_studies(experiment.parameters["studies_dir"])
    rows = {}
    for study in found:
        chosen = study.selected.configuration
        if data.SPECS[study.dataset].task != "classification" or "convex_fraction" not in chosen:
            continue
        if chosen.get("mode", "mixed") != "mixed":
            continue
        units, p = int(chosen["width"]), study.record.read_npz("predictions.npz")["predictions"]
        convex = int((convex_units(units, float(chosen["convex_fraction"])) > 0).sum())
        test = study.runs("test")
        rows[f"{TITLES[study.dataset]}, {study.model}"] = {
            "units": units,
            "convex": convex,
            "smallest": float(p.min()),
            "largest": float(p.max()),
            "accuracy": float(test["value"].mean()),
            "loss": float(test["loss"].mean()),
        }
    if not rows:
        return printing.box(
            "missing", "No study is recorded yet", printing.commands("make studies")
        )
    columns = [
        Column("convex units", lambda row: f"{row['convex']} of {row['units']}"),
        Column("smallest probability", lambda row: number(row["smallest"], 3)),
        Column("largest", lambda row: number(row["largest"], 3)),
        Column("accuracy, %", lambda row: number(100 * row["accuracy"], 1)),
        Column("log loss", lambda row: number(row["loss"], 3)),
    ]
    note = (
        "Studies of networks with mixed units, of the full protocol, which selects by accuracy. "
        "Probabilities over all final seeds and test rows; accuracy and log loss are means over "
        "the seeds."
    )
    frame = pd.DataFrame.from_dict(rows, orient="index")
    return render(frame, columns, "What the searches of this book selected", note, corner="study")


def ends(experiment: Experiment) -> dict[str, pd.DataFrame]:
    """The all-convex arms and those nearest to half convex, a row a dataset and model."""
    frame, units = arms(experiment), experiment.parameters["width"]
    keys = ["dataset", "model"]
    half = frame.assign(off=(frame["convex"] - units / 2).abs()).sort_values("off", kind="stable")
    half = half.groupby(keys, sort=False).first()
    full = frame[frame["convex"] == units].set_index(keys)
    return {"half": half.reindex(full.index), "full": full}


def finding(experiment: Experiment) -> Html:
    """The chapter in one sentence."""
    both = ends(experiment)
    full, half = both["full"], both["half"]
    if full.empty:
        return prose.led("Finding.", "No arm had convex units alone.")
    worse, n = int((full["loss"] > 1.25 * half["loss"]).sum()), len(full)
    apart = 100 * (full["accuracy"] - half["accuracy"])
    return prose.led(
        "Finding.",
        f"With convex units alone no training gave any row a probability below "
        f"{_between(full['lowest'], 2)} (by dataset and model), where networks with half their "
        f"units convex go down to {_between(half['lowest'], 3)}. The log loss is more than a "
        f"quarter larger in {worse} of {n} cases; the accuracy, which does not see it, differs by "
        f"{_between(apart, 1)} percentage points, positive where the all-convex network is more "
        "accurate.",
    )


def _between(values: pd.Series, digits: int) -> str:
    ends = [number(end, digits) for end in (values.min(), values.max())]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def held(experiment: Experiment) -> Html:
    """Whether any training left its bounds, and what a single unit of the other kind changes."""
    frame, units = arms(experiment), experiment.parameters["width"]
    trainings = int(frame["n"].sum())
    beyond = round((frame["beyond"] * frame["n"]).sum())
    text = (
        f"Of {trainings:,} trainings, {beyond or 'none'} gave a probability outside of what its "
        "weights allow."
    )
    one = frame[frame["convex"] == units - 1]
    if len(one):
        text += (
            f" With one concave unit among {units} in every layer the smallest probability "
            f"given is {significant(one['smallest'].min())} to "
            f"{significant(one['smallest'].max())}."
        )
    return prose.paragraph(text)


SHOWN = {
    "finding": finding,
    "figure": figure,
    "table": table,
    "held": held,
    "selected": selected,
}
