"""The size table: does the gap between network and baselines hold with fewer training rows?

Training rows only. The selected configurations of the headline studies are trained on nested
subsets of each fold's training rows. At every size, on both sides, the number of epochs or
iterations is chosen again by the objective of the search on one partition that selected nothing,
and the values reported are of another one.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import pandas as pd
from scipy.stats import entropy

from mononet import (
    data,
    experiments,
    figures,
    parameters,
    printing,
    prose,
    recording,
    search,
    size_gaps,
    statistics,
)
from mononet.experiments import Chapter, Experiment
from mononet.ladder import chain
from mononet.printing import TITLES, Column, Html, number, significant
from mononet.recording import StudyError
from mononet.study import FIRST_FINAL_SEED, Study
from mononet.workers import in_parallel

MODELS = ("split", "hgb-monotone", "linear")
CHALLENGER, *BASELINES = MODELS
CHOSEN_ON, REPORTED = 1, 2  # fresh partitions: the first chooses epochs, the second is reported
COLUMNS = ["dataset", "model", "share", "rows", "fold", "seed", "epochs", "value", "loss"]


@dataclass(frozen=True)
class SizeTable(Experiment):
    """An experiment that also depends on what the headline studies selected."""

    @functools.cached_property
    def studies(self) -> dict[str, list[Study]]:
        """The studies of the datasets that have all of ``MODELS`` recorded."""
        pairs = [("results_dir", self.parameters["studies_dir"])]
        by_dataset = {
            name: [Study.of(name, model, parameters.resolve(name, pairs=pairs)) for model in MODELS]
            for name in self.parameters["datasets"]
        }
        return {n: found for n, found in by_dataset.items() if all(s.complete for s in found)}

    @functools.cached_property
    def content(self) -> dict:
        found = (study for studies in self.studies.values() for study in studies)
        used = {f"{study.dataset} {study.model}": study.identity for study in found}
        content = super().content
        values = {k: v for k, v in content["parameters"].items() if k != "studies_dir"}
        return content | {"parameters": values, "studies": used}


def subsets(dataset: data.Dataset, cv_seed: int, folds: int, share: float) -> list[search.Split]:
    """The folds of a partition with a share of their training rows, nested from share to share.

    Rows of one group (a post) stay together, in or out, but for the one at the border.
    """
    found = []
    for fold, (train, validation) in enumerate(dataset.splits(cv_seed, folds)):
        groups = train if dataset.groups is None else dataset.groups[train]
        _, place = np.unique(groups, return_inverse=True)
        shuffled = np.random.default_rng((cv_seed, fold)).permutation(place.max() + 1)
        order = np.argsort(shuffled[place], kind="stable")
        found.append((np.sort(train[order[: round(share * len(train))]]), validation))
    return found


def measure(
    study: Study,
    dataset: data.Dataset,
    shares: Sequence[float],
    count: int,
    most_epochs: int | None,
    engine: str,
) -> list[dict]:
    """The rows of one dataset and model: every share, fold and seed."""
    model, chosen, values = study.entry, study.selected.configuration, study.parameters
    problem = recording.problem_of(study, dataset)
    seeds = range(FIRST_FINAL_SEED, FIRST_FINAL_SEED + (1 if model.deterministic else count))
    stages, minimized = model.stages(values["max_epochs"]), search.MINIMIZED[dataset.metric]
    if most_epochs is not None:
        stages = tuple(s for s in stages if s <= most_epochs) or stages[:1]
    found = []
    for share in shares:
        choosing, reported = (
            subsets(dataset, values["cv_seed"] + partition, values["cv_folds"], share)
            for partition in (CHOSEN_ON, REPORTED)
        )
        [evaluation] = search.evaluate(
            model, [chosen], problem, dataset.metric, choosing, seeds, stages, engine
        )
        objective = values["objective"]
        best = search.judge(0, chosen, evaluation, stages, minimized, objective).stage
        runs = recording.fresh_runs(reported, seeds, REPORTED)
        rows, _ = recording.validate(model, chosen, best, runs, problem, dataset.metric, engine)
        of = {"dataset": study.dataset, "model": study.model, "share": share}
        found += [row | of | {"rows": len(reported[row["fold"]][0])} for row in rows]
    return found


def sizes(experiment: SizeTable) -> pd.DataFrame:
    """The recorded table, columns ``COLUMNS``. StudyError where no dataset has its studies."""
    if not experiment.studies:
        raise StudyError(
            f"no dataset has complete studies of {', '.join(MODELS)} in "
            f"{experiment.parameters['studies_dir']}; `make studies` records them"
        )
    values, tasks = experiment.parameters, []
    for name, studies in experiment.studies.items():
        dataset = data.load(name, values["data_dir"], max_rows=values["max_rows"])
        options = [values[option] for option in ("shares", "final_seeds", "most_epochs")]
        tasks += [(study, dataset, *options, experiment.engine) for study in studies]
    found = in_parallel(measure, tasks, experiment.workers)
    return pd.DataFrame([row for rows in found for row in rows])[COLUMNS]


PARTS = {"sizes": sizes}


def gaps(frame: pd.DataFrame) -> pd.DataFrame:
    """Loss of each baseline minus that of the challenger by dataset and share, with its se.

    Means over seeds are paired by fold; the standard error is that over folds, a rough one since
    folds share training rows. With a single fold it is that over the seeds of both sides.
    """
    found = []
    for dataset, of in frame.groupby("dataset", sort=False):
        over = "folds" if of["fold"].nunique() > 1 else "seeds"
        for baseline in BASELINES:
            pair = size_gaps.gaps(of, CHALLENGER, baseline, of["share"].unique())
            found.append(pair.assign(dataset=dataset, baseline=baseline, over=over))
    return pd.concat(found, ignore_index=True)


# --- what the chapter shows ----------------------------------------------------------------------


def _loss(dataset: str) -> str:
    task = data.SPECS[dataset].task
    return "log loss" if task == "classification" else "squared error"


def missing(experiment: SizeTable) -> Html:
    """Which datasets are left out because their studies are not recorded."""
    absent = [n for n in experiment.parameters["datasets"] if n not in experiment.studies]
    if not absent:
        return Html("")
    names = ", ".join(TITLES[name] for name in absent)
    return prose.paragraph(f"Left out, since their studies are not all recorded yet: {names}.")


def losses(experiment: SizeTable) -> Html:
    """Mean validation loss by model and share, with the chosen epochs."""
    frame = experiment.table("sizes")
    shares = sorted(frame["share"].unique())
    wide = frame.groupby(["dataset", "model", "share"], sort=False)[["loss", "epochs"]].mean()
    wide = wide.unstack("share")
    wide.columns = [f"{name} {share:g}" for name, share in wide.columns]
    wide.index = [f"{TITLES[dataset]}, {model}" for dataset, model in wide.index]
    columns = []
    for share in shares:
        loss, epochs = f"loss {share:g}", f"epochs {share:g}"
        group = f"{100 * share:g} % of the rows"
        columns += [
            Column("loss", lambda row, n=loss: significant(row[n], 3), group=group),
            Column("stage", lambda row, n=epochs: f"{row[n]:.0f}", group=group),
        ]
    note = (
        "Mean over folds and seeds of the loss of a row (squared error or log loss) on a fresh "
        "partition. Stage: epochs, or boosting iterations, chosen again at this size on another."
    )
    source = experiments.source(experiment, "sizes")
    return printing.render(wide, columns, "Validation loss by size.", note, source=source)


def table(experiment: SizeTable) -> Html:
    """Gaps by dataset, baseline and share."""
    frame = gaps(experiment.table("sizes"))
    wide = frame.pivot(index=["dataset", "baseline"], columns="share", values=["gap", "se", "rows"])
    shares = sorted(frame["share"].unique())
    wide = wide.reindex(dict.fromkeys(zip(frame["dataset"], frame["baseline"], strict=True)))
    wide.columns = [f"{name} {share:g}" for name, share in wide.columns]
    wide.index = [f"{TITLES[dataset]}, against {baseline}" for dataset, baseline in wide.index]
    columns = [
        Column(
            f"{100 * share:g} %",
            lambda row, s=f"{share:g}": (
                f"{printing.plus_minus(row[f'gap {s}'], row[f'se {s}'])} ({row[f'rows {s}']:,.0f})"
            ),
        )
        for share in shares
    ]
    note = (
        "Loss of the baseline minus loss of split ± standard error (training rows). Over folds the "
        "error is a rough one, because folds share training rows; where there is a single fold it "
        "is that over seeds."
    )
    source = experiments.source(experiment, "sizes")
    return printing.render(
        wide, columns, "The gap by share of the training rows.", note, source=source, numbers=frame
    )


@mpl.rc_context(figures.STYLE)
def figure(experiment: SizeTable) -> Html:
    """The gap by number of training rows, a panel a dataset."""
    frame = gaps(experiment.table("sizes"))
    drawn, axes = figures.panels(frame["dataset"].nunique(), 2, 2.3)
    told = []
    for axis, (dataset, of) in zip(axes, frame.groupby("dataset", sort=False), strict=True):
        axis.axhline(0, color=figures.GRAY, lw=1, ls="--")
        both = of.groupby("baseline", sort=False)
        for shift, (baseline, rows) in zip((0.985, 1.015), both, strict=True):
            style = {"color": figures.COLORS[baseline], "marker": figures.MARKERS[baseline]}
            x, y = shift * rows["rows"], rows["gap"]
            axis.errorbar(x, y, rows["se"], label=baseline, capsize=3, lw=1.2, ms=6, **style)
            gap = ", ".join(significant(value) for value in y)
            told.append(f"{TITLES[dataset]}, against {baseline}: {gap}")
        ticks = sorted(of["rows"].unique())
        axis.set(xscale="log", title=TITLES[dataset], xlabel="training rows of a fold")
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.minorticks_off()
        axis.set_ylabel(f"gap ({_loss(dataset)})")
    handles, labels = axes[0].get_legend_handles_labels()
    labels = [f"against {label}" for label in labels]
    drawn.legend(handles, labels, loc="outside lower center", ncols=2)
    caption = (
        "Loss of the baseline minus loss of split, above zero where the network is better, by the "
        "number of training rows. Bars: ± 1 standard error. All values are of validation rows."
    )
    alt = f"Gap by growing number of training rows. {'; '.join(told)}."
    return figures.show(drawn, alt, caption, experiments.source(experiment, "sizes"))


def words(experiment: SizeTable) -> Html:
    """Where the gap holds its sign, dataset by dataset; never averaged."""
    items = []
    for (dataset, baseline), rows in gaps(experiment.table("sizes")).groupby(
        ["dataset", "baseline"], sort=False
    ):
        rows = rows.sort_values("share")
        signs = np.sign(rows["gap"]) * (rows["gap"].abs() > 2 * rows["se"])
        better = [f"{n:,}" for n in rows.loc[signs > 0, "rows"]]
        worse = [f"{n:,}" for n in rows.loc[signs < 0, "rows"]]
        first, last = rows.iloc[0], rows.iloc[-1]
        digits = printing.decimals(rows["se"].min())
        told = [
            f"{which} with {', '.join(at)} rows"
            for which, at in (("better", better), ("worse", worse))
            if at
        ]
        said = (
            f"by more than two standard errors the network is {'; '.join(told)}."
            if told
            else "at no size does it exceed two standard errors."
        )
        items.append(
            f"{TITLES[dataset]}, against {baseline}: the gap in {_loss(dataset)} goes from "
            f"{number(first['gap'], digits)} with {first['rows']:,} training rows to "
            f"{number(last['gap'], digits)} with {last['rows']:,}; {said}"
        )
    return prose.bullets(items)


def training_mean(experiment: SizeTable, dataset: str) -> float | None:
    """Mean loss on the reported folds of predicting the mean of the other folds' rows.

    Where the rows are not on this machine, a classifier's is the entropy of the training labels,
    which differs by how the folds divide them alone, and a regression's is None.
    """
    data_dir, most = (experiment.parameters[name] for name in ("data_dir", "max_rows"))
    if not data.routes(dataset, data_dir).local:
        share = data.SPECS[dataset].target_mean
        known = data.SPECS[dataset].task == "classification" and share is not None
        return float(entropy([share, 1 - share])) if known else None
    loaded = data.load(dataset, data_dir, max_rows=most)
    values, y = experiment.studies[dataset][0].parameters, loaded.y_train
    losses = [
        statistics.row_loss(loaded.task, y[validation], np.full(len(validation), y[train].mean()))
        for train, validation in loaded.splits(values["cv_seed"] + REPORTED, values["cv_folds"])
    ]
    return float(np.mean(np.concatenate(losses)))


def learned(experiment: SizeTable) -> Html:
    """Where a model is no better than predicting the mean of the training rows."""
    frame = experiment.table("sizes")
    items, unknown = [], []
    for dataset, of in frame.groupby("dataset", sort=False):
        mean = training_mean(experiment, dataset)
        if mean is None:
            unknown.append(TITLES[dataset])
            continue
        sizes = of.groupby("share")["rows"].mean().round().astype(int)  # folds differ by a row
        found = of.groupby(["share", "model"], sort=False)["loss"].mean()
        above = found[found > mean].groupby("share", sort=True)
        told = [
            f"with {sizes[share]:,} rows "
            + chain([f"{model} ({significant(loss, 3)})" for (_, model), loss in each.items()])
            for share, each in above
        ]
        items.append(
            f"{TITLES[dataset]}: predicting the mean of the training rows costs "
            f"{significant(mean, 3)} in {_loss(dataset)}"
            + (
                f". No better than that: {'; '.join(told)}."
                if told
                else ", more than any of these models."
            )
        )
    after = (
        f"What predicting the mean costs on {chain(unknown)} was not computed here, where the "
        "rows are not present."
        if unknown
        else ""
    )
    return prose.bullets(items) + (prose.paragraph(after) if after else Html(""))


SHOWN = {
    "missing": missing,
    "losses": losses,
    "table": table,
    "figure": figure,
    "words": words,
    "learned": learned,
}


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters, checked; other names are left alone."""
    experiment = SizeTable("size_table", parameters.given("size_table", given))
    if recording.asked() and not experiment.complete:
        experiments.record(experiment, PARTS)
    return Chapter(experiment, tuple(PARTS), SHOWN)
