"""What the prior protocol does to a printed number: three practices, each on and off.

Selection on the test part, a run's best epoch on its test curve, the best five of ten runs: the
eight corners of the cube are printed from the same network, data, search space and seeds. Test
rows are opened as *diagnostic*; nothing here enters a results table.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
import pandas as pd

from mononet import data, experiments, figures, frames, parameters, printing, prose
from mononet.experiments import Chapter, Experiment, source
from mononet.models import CATALOGUE, Problem
from mononet.printing import TITLES, Column, Html, number, plus_minus, render
from mononet.search import (
    MINIMIZED,
    Budget,
    Trial,
    from_frame,
    score_runs,
    search,
    select,
    to_frame,
)
from mononet.study import FIRST_FINAL_SEED, Study
from mononet.training import Run
from mononet.workers import in_parallel

PRACTICES = ("selection on the test part", "best epoch on the test curve", "best 5 of 10 runs")
RUNS, BEST = 10, 5
CORNERS = list(itertools.product((False, True), repeat=3))


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters, checked; records it where asked to."""
    datasets = parameters.given("prior_protocol", given)["datasets"]
    parts = {
        f"{dataset}_{name}": functools.partial(part, dataset=dataset)
        for dataset in datasets
        for name, part in (("trials", trials), ("runs", runs))
    }
    return experiments.open_chapter("prior_protocol", given, parts, SHOWN)


# --- what is recorded -------------------------------------------------------------------------


def opened(experiment: Experiment, dataset: str) -> tuple[Problem, int]:
    """Training rows, then test rows with their targets; and the number of the former."""
    rows = experiment.load(dataset)
    part = experiment.open_test(rows, experiment.parameters["model"], "eight corners of a protocol")
    X, y = np.concatenate([rows.X_train, part.X]), np.concatenate([rows.y_train, part.y])
    return Problem(X, y, rows.indicator, rows.task), len(rows.y_train)


def trials(experiment: Experiment, dataset: str) -> pd.DataFrame:
    """The trials of both searches: by cross-validation, and by the test part itself."""
    given = experiment.parameters
    budget = Budget(**{name: given[name] for name in Budget.__dataclass_fields__})
    model, metric = CATALOGUE[given["model"]], data.SPECS[dataset].metric
    rows = experiment.load(dataset)
    run = functools.partial(search, engine=experiment.engine, workers=experiment.workers)

    study = Study.of(dataset, model.name, {**parameters.resolve(dataset), **given})
    if study.record.has("trials.csv") and len(study.trials()) == budget.n_trials:
        by_folds = study.trials()  # the headline study's search is this search
    else:
        problem = Problem(rows.X_train, rows.y_train, rows.indicator, rows.task)
        folds = rows.splits(given["cv_seed"], given["cv_folds"])
        by_folds = run(model, problem, metric, folds, budget)

    problem, n = opened(experiment, dataset)
    on_test = [(np.arange(n), np.arange(n, len(problem.y)))]
    by_test = run(model, problem, metric, on_test, budget)
    found = {"cross-validation": by_folds, "test part": by_test}
    both = [to_frame(told).assign(selection=name) for name, told in found.items()]
    return pd.concat(both, ignore_index=True)


def selected(experiment: Experiment, dataset: str) -> dict[str, Trial]:
    """The trial that each search selects."""
    metric = data.SPECS[dataset].metric
    space = CATALOGUE[experiment.parameters["model"]].space(data.SPECS[dataset].train_rows)
    told = experiment.table(f"{dataset}_trials").groupby("selection", sort=False)
    return {
        name: select(from_frame(found.dropna(axis=1), space), MINIMIZED[metric])
        for name, found in told
    }


def runs(experiment: Experiment, dataset: str) -> pd.DataFrame:
    """Final runs of both selected configurations, ten a repetition, each trained to the last
    epoch: the test metric at the selected epoch, and at the best epoch of the run's own curve."""
    count = RUNS * experiment.parameters["repetitions"]
    chosen = selected(experiment, dataset)
    tasks = [(experiment, dataset, trial, count) for trial in chosen.values()]
    found = zip(chosen, in_parallel(curves, tasks, experiment.workers), strict=True)
    better = np.nanmin if MINIMIZED[data.SPECS[dataset].metric] else np.nanmax
    rows = []
    for name, values in found:
        at = values[:, chosen[name].stage - 1]
        frame = pd.DataFrame({"run": range(count), "at_selected": at, "best": better(values, 1)})
        rows.append(frame.assign(selection=name, repetition=frame["run"] // RUNS))
    columns = ["selection", "repetition", "run", "at_selected", "best"]
    return pd.concat(rows, ignore_index=True)[columns]


def curves(experiment: Experiment, dataset: str, trial: Trial, count: int) -> np.ndarray:
    """The test metric of every run at every epoch, (runs, epochs)."""
    problem, n = opened(experiment, dataset)
    model, everything = CATALOGUE[experiment.parameters["model"]], np.arange(len(problem.y))
    final = [
        Run(everything[:n], everything[n:], (FIRST_FINAL_SEED + seed, 0, 0))
        for seed in range(count)
    ]
    epochs = range(1, experiment.parameters["max_epochs"] + 1)
    fits = model.fit(trial.configuration, problem, final, epochs, experiment.engine)
    return score_runs(fits.predictions, final, problem, data.SPECS[dataset].metric)[0]


# --- what is made of it -----------------------------------------------------------------------


def corners(experiment: Experiment, dataset: str) -> pd.DataFrame:
    """The printed figure of each corner, a row a corner (index: three booleans, as PRACTICES):
    mean and std as printed, averaged over the repetitions; se of the mean over repetitions."""
    found = experiment.table(f"{dataset}_runs")
    minimized = MINIMIZED[data.SPECS[dataset].metric]
    rows = []
    for on_test, best_epoch, best_runs in CORNERS:
        chosen = found[found["selection"] == ("test part" if on_test else "cross-validation")]
        values = chosen["best" if best_epoch else "at_selected"].to_numpy().reshape(-1, RUNS)
        ordered = np.sort(values if minimized else -values)[:, : BEST if best_runs else RUNS]
        ordered = ordered if minimized else -ordered
        means = ordered.mean(axis=1)
        se = means.std(ddof=1) / math.sqrt(len(means)) if len(means) > 1 else math.nan
        rows.append((means.mean(), ordered.std(axis=1, ddof=1).mean(), se))
    index = pd.MultiIndex.from_tuples(CORNERS, names=PRACTICES)
    return pd.DataFrame(rows, index, ["mean", "std", "se"])


def shares(means: Mapping[tuple[bool, ...], float], minimized: bool) -> pd.DataFrame:
    """How much each practice flatters, a row a practice: its Shapley share (Shapley, 1953), the
    mean over all orders of what it adds to those before it; the range over orders; its effect when
    it alone is switched on. Positive: the printed figure gets better. The shares add up."""
    sign = -1.0 if minimized else 1.0
    added: dict[int, list[float]] = {p: [] for p in range(len(PRACTICES))}
    for order in itertools.permutations(added):
        corner = [False] * len(PRACTICES)
        for practice in order:
            before = means[tuple(corner)]
            corner[practice] = True
            added[practice].append(sign * (means[tuple(corner)] - before))
    alone = [sign * (means[tuple(np.arange(3) == p)] - means[(False,) * 3]) for p in added]
    rows = [(np.mean(a), min(a), max(a)) for a in added.values()]
    return pd.DataFrame(rows, list(PRACTICES), ["share", "low", "high"]).assign(alone=alone)


def shares_of(experiment: Experiment, dataset: str) -> pd.DataFrame:
    """`shares` of one dataset."""
    means = corners(experiment, dataset)["mean"].to_dict()
    return shares(means, MINIMIZED[data.SPECS[dataset].metric])


# --- what the chapter shows -------------------------------------------------------------------


def _files(experiment: Experiment, name: str) -> Html:
    return source(experiment, *(f"{dataset}_{name}" for dataset in _datasets(experiment)))


def _datasets(experiment: Experiment) -> list[str]:
    return experiment.parameters["datasets"]


def table(experiment: Experiment) -> Html:
    """All eight corners of every dataset."""
    found = {dataset: corners(experiment, dataset) for dataset in _datasets(experiment)}
    names = [" + ".join(p for p, on in zip(PRACTICES, c, strict=True) if on) for c in CORNERS]
    names = [name or "none (held out)" for name in names]
    numbers = pd.concat(found, axis=1).set_axis(pd.Index(names, name="practices"))
    numbers.columns = [f"{dataset} {name}" for dataset, name in numbers.columns]

    def cell(dataset: str):
        factor = printing.scale(data.SPECS[dataset].metric)

        def text(row: Mapping) -> str:
            mean, std, se = (factor * row[f"{dataset} {n}"] for n in ("mean", "std", "se"))
            digits = printing.decimals(se if math.isfinite(se) else std)
            return f"{number(mean, digits)} ± {number(std, digits)}"

        return text

    columns = [
        Column(f"{TITLES[d]}, {printing.metric_title(d)}", cell(d)) for d in _datasets(experiment)
    ]
    model, count = experiment.parameters["model"], experiment.parameters["repetitions"]
    note = (
        f"{model}. Mean ± standard deviation over the runs that a corner keeps, as such a figure "
        f"is printed, averaged over {count} repetitions of ten runs; as many digits as the "
        "repetitions allow. First line: nothing about the test part entered any choice. Each of "
        "the two searches was run once, so that the share of selection is that of two "
        "configurations: another sampler seed would move it, and more than the repetitions show."
    )
    caption = "The same network printed under eight protocols"
    files = _files(experiment, "runs")
    return render(
        numbers, columns, caption, note, source=files, corner="practices", numbers=numbers
    )


def effects(experiment: Experiment) -> Html:
    """What each practice adds, alone and on average over orders."""
    rows = {}
    for dataset in _datasets(experiment):
        factor = printing.scale(data.SPECS[dataset].metric)
        for practice, row in (factor * shares_of(experiment, dataset)).iterrows():
            rows[(TITLES[dataset], practice)] = row
    numbers = pd.DataFrame(rows).T.rename_axis(["dataset", "practice"])
    shown = numbers.set_axis([f"{dataset}: {practice}" for dataset, practice in numbers.index])
    columns = [
        Column("Shapley share", lambda row: printing.significant(row["share"])),
        Column("range over orders", _range),
        Column("alone", lambda row: printing.significant(row["alone"])),
    ]
    note = (
        "In the unit of the metric (points for an accuracy); positive: the printed figure gets "
        "better. The shares of a dataset add up to its whole difference, the effects of one "
        "practice alone need not."
    )
    caption = "What each practice adds to a printed figure"
    files = _files(experiment, "runs")
    return render(shown, columns, caption, note, source=files, corner="", numbers=numbers)


def _range(row: Mapping) -> str:
    return f"{printing.significant(row['low'])} to {printing.significant(row['high'])}"


@mpl.rc_context(figures.STYLE)
def waterfall(experiment: Experiment) -> Html:
    """From the held-out figure to the printed one, a panel a dataset."""
    datasets = _datasets(experiment)
    figure, axes = figures.panels(len(datasets), 3, 2.9)
    told = []
    labels = ["held out", "selection", "best epoch", "best 5 of 10", "as printed"]
    for axis, dataset in zip(axes, datasets, strict=True):
        metric = data.SPECS[dataset].metric
        factor, sign = printing.scale(metric), -1.0 if MINIMIZED[metric] else 1.0
        means = factor * corners(experiment, dataset)["mean"]
        level, found = means.iloc[0], factor * shares_of(experiment, dataset)
        reached = [means.min(), means.max()]
        axis.bar(0, level, color=figures.GRAY)
        for x, (share, low, high) in enumerate(found[["share", "low", "high"]].to_numpy(), 1):
            axis.bar(x, sign * share, bottom=level, color=figures.PALETTE[x - 1])
            ends = [level + sign * low, level + sign * high]
            axis.plot([x, x], ends, color="black", lw=1)
            reached += ends
            level += sign * share
        axis.bar(4, means.iloc[-1], color=figures.GRAY)
        room = 0.1 * (max(reached) - min(reached)) or 1.0
        axis.set_ylim(min(reached) - room, max(reached) + room)
        axis.set_xticks(range(5), labels, rotation=40, ha="right")
        axis.set(title=TITLES[dataset], ylabel=printing.metric_title(dataset))
        told.append(f"{TITLES[dataset]} {means.iloc[0]:.4g} held out, {means.iloc[-1]:.4g} printed")
    caption = (
        "From the held-out figure (left) to the one the prior protocol would print (right). "
        "Colored bars: the share of each practice, averaged over the six orders in which the three "
        "can be switched on; black lines: the range over orders. The vertical axes do not begin at "
        "zero."
    )
    alt = f"Waterfall of three practices, a panel a dataset: {'; '.join(told)}."
    return figures.show(figure, alt, caption, _files(experiment, "runs"))


def finding(experiment: Experiment) -> Html:
    """The chapter's sentence, from its own numbers."""
    told = []
    for dataset in _datasets(experiment):
        factor = printing.scale(data.SPECS[dataset].metric)
        found = corners(experiment, dataset)
        values = [_printed(factor * found.iloc[c]) for c in (0, -1)]
        told.append(f"{TITLES[dataset]} {values[0]} held out, {values[1]} as printed")
    return prose.paragraph(
        f"The same network ({experiment.parameters['model']}), the same rows and the same budget "
        f"of search, printed under two protocols: {'; '.join(told)} ({_units(experiment)})."
    )


def _units(experiment: Experiment) -> str:
    return ", ".join(f"{TITLES[d]}: {printing.metric_title(d)}" for d in _datasets(experiment))


def _printed(row: Mapping) -> str:
    return plus_minus(row["mean"], row["std"])


def words(experiment: Experiment) -> Html:
    """Dataset by dataset: the difference, its largest share, the orders, the printed spread."""
    items = []
    for dataset in _datasets(experiment):
        factor, unit = printing.scale(data.SPECS[dataset].metric), prose.unit_of(dataset)
        found, parts = corners(experiment, dataset), factor * shares_of(experiment, dataset)
        total, alone = parts["share"].sum(), parts["alone"].sum()
        largest = parts["share"].idxmax()
        spreads = factor * found["std"]
        ten, five = spreads.iloc[0], spreads.loc[(False, False, True)]
        seen = factor * selected(experiment, dataset)["test part"].mean
        fresh = factor * found.loc[(True, False, False), "mean"]
        digits = printing.decimals(factor * found.loc[(True, False, False), "std"])
        direction = "flatters" if total > 0 else "does not flatter"
        hurts = [name for name, share in parts["share"].items() if share < 0]
        items.append(
            f"{TITLES[dataset]}: the prior protocol {direction}, by "
            f"{printing.significant(total)}{unit}. The largest share, "
            f"{printing.significant(parts['share'].max())}, is that of {largest}{_hurt(hurts)}. "
            f"Switched on one at a time the three add up to {printing.significant(alone)}. Keeping "
            "the best five of ten runs alone changes the printed standard deviation from "
            f"{printing.significant(ten)} to {printing.significant(five)}. The search on the test "
            f"part saw {number(seen, digits)} with its own seeds, and what it selected gives "
            f"{number(fresh, digits)} with fresh ones."
        )
    return prose.bullets(items)


def _hurt(names: list[str]) -> str:
    """The practices that made the printed figure worse; a clause."""
    return f"; {' and '.join(names)} made the figure worse" if names else ""


def literature(experiment: Experiment) -> Html:
    """What the literature prints for a network of this construction, beside the last corner."""
    items = []
    for dataset in _datasets(experiment):
        factor = printing.scale(data.SPECS[dataset].metric)
        published = frames.published(dataset)
        ours = _printed(factor * corners(experiment, dataset).iloc[-1])
        printed = [
            f"{name} {printing.as_published(published.loc[name], factor)}"
            for name in ("Constrained MNN", "Switch MNN")
            if name in published.index
        ]
        if printed:
            items.append(f"{TITLES[dataset]}: here {ours}; printed, {', '.join(printed)}.")
    return prose.bullets(items)


def configurations(experiment: Experiment) -> Html:
    """What the two searches selected."""
    rows = {}
    for dataset in _datasets(experiment):
        factor = printing.scale(data.SPECS[dataset].metric)
        for name, trial in selected(experiment, dataset).items():
            key = f"{TITLES[dataset]}, by {name}"
            rows[key] = trial.configuration | {"epochs": trial.stage, "score": factor * trial.mean}
    frame = pd.DataFrame(rows).T
    columns = [Column(name.replace("_", " "), functools.partial(_value, name)) for name in frame]
    note = "Score: the mean of the values that selected, on the folds or on the test part."
    caption = "What the two searches selected"
    files = _files(experiment, "trials")
    return render(frame, columns, caption, note, source=files, corner="dataset, selection")


def _value(name: str, row: Mapping) -> str:
    value = row[name]
    return f"{value:.0f}" if float(value).is_integer() else printing.significant(float(value), 3)


SHOWN = {
    "finding": finding,
    "table": table,
    "effects": effects,
    "waterfall": waterfall,
    "words": words,
    "literature": literature,
    "configurations": configurations,
}
