"""The tables of a results page, printed: each takes recorded studies and gives HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from mononet import data, frames, parameters, printing
from mononet.models import CATALOGUE
from mononet.printing import NONE, TITLES, Column, Html, number, plus_minus, render, significant
from mononet.secondary import Secondary
from mononet.study import Study


def _metric(name: str, metric: str):
    """Prints a metric in a column of the frame with as many decimals as the spread has."""
    factor = printing.scale(metric)
    return lambda row: number(factor * row[name], decimals_of(row, factor))


def decimals_of(row: Mapping, factor: float) -> int:
    """Decimals of the spread over seeds; of a hundredth of the value where there is none."""
    if pd.notna(row["std"]) and row["std"] > 0:
        return printing.decimals(factor * row["std"])
    return max(2, printing.decimals(0.01 * factor * row["mean"]))


def mean_std(metric: str, seeds: float = math.nan):
    """Prints mean ± std (n); leaves n out where it is the number of `seeds` in the heading."""
    factor = printing.scale(metric)

    def text(row: Mapping) -> str:
        n = None if row["n"] == seeds or pd.isna(row["n"]) else row["n"]
        if pd.isna(row["std"]):
            alone = number(factor * row["mean"], decimals_of(row, factor))
            return alone + (f" (n = {n:.0f})" if n is not None else "")
        return plus_minus(factor * row["mean"], factor * row["std"], n)

    return text


def _iqm(metric: str):
    factor = printing.scale(metric)

    def text(row: Mapping) -> str:
        digits = decimals_of(row, factor)
        low, high = (number(factor * row[name], digits) for name in ("iqm_low", "iqm_high"))
        interval = f" [{low}, {high}]" if low != NONE else ""
        return number(factor * row["iqm"], digits) + interval

    return text


def _loss(row: Mapping) -> str:
    digits = printing.decimals(row["loss_std"])
    return number(row["loss"], min(digits, 3) if pd.notna(row["loss_std"]) else 3)


def _count(name: str):
    return lambda row: NONE if pd.isna(row[name]) else f"{row[name]:,.0f}"


def _significant(name: str, factor: float = 1.0, digits: int = 2):
    return lambda row: significant(factor * row[name], digits)


def _interval(row: Mapping, value: str, factor: float) -> str:
    """value [low, high], with the digits of the interval; *not shown* where there is none."""
    if not math.isfinite(row.get(value, math.nan)):
        return "not shown"
    digits = printing.decimals(factor * (row["high"] - row["low"]) / 4)
    mean, low, high = (number(factor * row[name], digits) for name in (value, "low", "high"))
    return f"{mean} [{low}, {high}]"


def _with_level(frame: pd.DataFrame) -> pd.DataFrame:
    """The word *validation-level* beside the model that it holds for."""
    marked = {name for name in frame.index if isinstance(frame.at[name, "level"], str)}
    return frame.rename(lambda name: f"{name} (validation-level)" if name in marked else name)


def estimators(studies: Sequence[Study], y_train: np.ndarray | None) -> Html:
    """Selection score, test estimators and collapse counts of every model, side by side."""
    dataset = studies[0].dataset
    metric = data.SPECS[dataset].metric
    trivial = frames.trivial(studies, y_train)
    frame = frames.estimators(studies, trivial)
    seeds = frame["n"].max()
    counts = [Column("constant", _count("constant"), group="runs")]
    losses = []
    if data.SPECS[dataset].task == "classification":
        losses = [Column("log loss", _loss, group="test")]
        counts.append(Column("one-sided", _count("one_sided"), group="runs"))
    if metric == "mse":
        counts.append(Column("outlier", _count("outliers"), group="runs"))
    columns = [
        Column(f"mean ± std, n = {seeds:.0f}", mean_std(metric, seeds), group="test"),
        Column("median", _metric("median", metric), group="test"),
        Column("IQM [95 %]", _iqm(metric), group="test"),
        Column("SE, rows", _significant("row_se", printing.scale(metric)), group="test"),
        *losses,
        *counts,
        Column("CV score*", _metric("cv_score", metric), group="validation"),
        Column("fresh folds", _metric("fresh", metric), group="validation"),
    ]
    note = (
        "Test: mean ± standard deviation over n final seeds (ddof 1); median; interquartile mean "
        "with its interval, retraining only; standard error over test rows of one training, the "
        "first final seed. linear draws nothing and has n = 1. Runs: how many "
        "of the n. *The CV score is the mean of the selected trial, "
        "the best of many by its objective, and no estimate of test error; "
        "fresh folds are validation values of the same configuration on partitions that selected "
        "nothing."
    )
    if losses:
        note += " Log loss, lower is better: mean over seeds; no model was selected by it."
    for study in studies:
        if why := study.validation_level():
            note += f" {study.model} is validation-level: {why}."
    note += _still(frame)
    if not trivial:
        note += " The trivial predictor needs the training rows, which are not on this machine."
    files = printing.source(studies, "runs.csv", "predictions.npz", "trials.csv")
    title = f"{TITLES[dataset]}: every estimator of every model, {printing.metric_title(dataset)}"
    return render(_with_level(frame), columns, title, note, source=files, corner="model")


def _still(frame: pd.DataFrame) -> str:
    """Said of models whose final seeds all have one value: one trained model, or several that the
    metric cannot tell apart."""
    still = frame[(frame["std"] == 0) & (frame["n"] > 1)]
    said = ""
    for model, row in still.iterrows():
        what = (
            "are one and the same model and count as one: its selected configuration draws nothing"
            if row["distinct"] == 1
            else "differ in their predictions, and in no value of the metric"
        )
        said += f" ± 0: the {row['n']:.0f} final trainings of {model} {what}."
    return said


def costs(studies: Sequence[Study]) -> Html:
    """Size, trials and seconds of every model."""
    columns = [
        Column("parameters or tree nodes", _count("parameters")),
        Column("trials", _count("trials")),
        Column("search, s", _significant("search_seconds")),
        Column("whole study, s", _significant("all_seconds")),
        Column("one final training, s", _significant("refit_seconds")),
        Column("1,000 predictions, ms", _significant("predict_seconds", 1000.0)),
    ]
    note = (
        "Every model had the same number of trials on the same folds and seeds. Seconds are those "
        "of the machine that recorded the study; networks train many at a time, and the time of "
        "one final training is its share. Trials taken over from another study of the same "
        "search count with the seconds that they took there."
    )
    frame = frames.estimators(studies)
    files = printing.source(studies, "cost.csv")
    return render(frame, columns, "What each model cost", note, source=files, corner="model")


def configurations(studies: Sequence[Study]) -> Html:
    """The selected configuration of every model, a column a model."""
    frame = frames.configurations(studies)

    def cell(value) -> str:
        return significant(value, 3) if isinstance(value, float) else str(value)

    columns = [Column(m, lambda row, m=m: cell(row[m])) for m in frame]
    note = (
        "A dash: the model has no such choice. At its bound: the largest number of epochs or "
        "iterations offered was chosen. The objective is what the search looked at; the one-sigma "
        "bound, unless the parameters say otherwise."
    )
    metric = data.SPECS[studies[0].dataset].metric
    printed = frame.rename(lambda name: name.replace("_", " "))
    printed.loc["objective"] = [printing.scale(metric) * value for value in frame.loc["objective"]]
    printed = printed.rename(
        {"objective": f"objective, {printing.metric_title(studies[0].dataset)}"}
    )
    title, files = "The selected configurations", printing.source(studies, "trials.csv")
    return render(printed, columns, title, note, source=files, corner="choice", numbers=frame)


def checks(studies: Sequence[Study]) -> Html:
    """The correctness checks of every model."""
    frame = frames.checks(studies).fillna(NONE)
    columns = [Column(c.replace("_", " "), lambda row, c=c: row[c], "") for c in frame]
    note = (
        "In parentheses what was measured: arrays of a wrong shape; relative error of the "
        "gradient; largest violation of monotonicity; loss on eight rows learned by heart; "
        "distance of the initial loss from what it must be; error of boosting and linear models "
        "when one feature gives the answer away. n/a: says nothing about such a model. The files "
        "have the limits."
    )
    title, files = "Checks of the selected configurations", printing.source(studies, "checks.json")
    return render(frame, columns, title, note, source=files, corner="model")


def slices(studies: Sequence[Study]) -> Html:
    """The metric of one training on each slice of the decision rule, with its interval."""
    long, blocks = frames.slices(studies), frames.drawn_of(studies[0])
    factor = printing.scale(data.SPECS[studies[0].dataset].metric)
    sizes = dict(zip(long["slice"], long["n"], strict=True))
    cells = {(row["slice"], row["model"]): row for row in long.to_dict("records")}
    frame = pd.DataFrame(
        {s: [_interval(cells[s, m.model], "value", factor) for m in studies] for s in sizes},
        index=[study.model for study in studies],
    )
    columns = [
        Column(f"{s}, n\u00a0=\u00a0{n:,}", lambda row, s=s: row[s]) for s, n in sizes.items()
    ]
    title = f"The slices of the decision rule, {printing.metric_title(studies[0].dataset)}"
    note = (
        f"One training a model (first final seed), with a 95 % interval over test {blocks}; it "
        f"says nothing about training again. A slice below {frames.FEWEST_ROWS} rows is not shown."
    )
    files = printing.source(studies, "predictions.npz")
    return render(frame, columns, title, note, source=files, corner="model", numbers=long)


def comparisons(studies: Sequence[Study], rule: Mapping) -> Html:
    """The challenger against the rule's baselines: gaps, intervals, and what could be seen."""
    long = frames.comparisons(studies, rule)
    dataset, challenger = studies[0].dataset, long["challenger"].iloc[0]
    factor = printing.scale(data.SPECS[dataset].metric)
    sizes = dict(zip(long["rows"], long["n"], strict=True))
    cells = {(row["rows"], row["baseline"]): row for row in long.to_dict("records")}
    frame, columns = (
        pd.DataFrame(index=[f"{rows}, n\u00a0=\u00a0{n:,}" for rows, n in sizes.items()]),
        [],
    )
    for name in dict.fromkeys(long["baseline"]):
        found = [cells[rows, name] for rows in sizes]
        texts = {
            "gap [95 %]": [_interval(row, "gap", factor) for row in found],
            "detectable": [significant(factor * row.get("detectable", math.nan)) for row in found],
            "matters": [significant(factor * row.get("matters", math.nan)) for row in found],
        }
        for title, column in texts.items():
            key = f"{name} {title}"
            frame[key] = column
            text = lambda row, key=key: row[key]  # noqa: E731
            columns.append(Column(title, text, group=f"{challenger} against {name}"))
    blocks = frames.drawn(rule, long.iloc[0])
    title = f"{challenger} against the baselines of the rule, {printing.metric_title(dataset)}"
    note = (
        f"The gap is of one trained pair on the same rows, positive where {challenger} is better; "
        f"its interval draws the {blocks} again and says nothing about training again. "
        f"Detectable: the smallest true difference that so many paired {blocks} show four times in "
        f"five{'' if blocks == 'rows' else ', each counted with its rows'}. Matters: the smallest "
        "difference that the rule cares about, on the scale of this metric. Where the first "
        "exceeds the second, an interval around zero shows nothing either way."
    )
    pair = [s for s in studies if s.model in {challenger, *long["baseline"]}]
    files = printing.source(pair, "predictions.npz")
    return render(frame, columns, title, note, source=files, corner="test rows", numbers=long)


def _named(each: Secondary) -> str:
    """A secondary study's name, and what differs where the name does not say it."""
    changed = each.changed.replace("_", " ")
    said = set(changed.removeprefix("n ").split()) <= set(each.name.split())
    return each.name if said else f"{each.name} ({changed})"


def _seeds(n: float) -> str:
    return "the" if pd.isna(n) else f"{n:.0f}"


def secondary(dataset: str, found: Sequence[Secondary]) -> Html:
    """The secondary studies of a dataset, each beside the headline study of the same model."""
    frame = frames.secondary(found)
    metric = data.SPECS[dataset].metric
    factor = printing.scale(metric)
    marked = frame["level"].map(lambda level: "*" if isinstance(level, str) else "")
    numbers = frame.copy()
    frame.index = frame["name"] + ": " + frame["model"] + marked

    def headline(row: Mapping) -> dict:
        return {name: row["headline_" + name] for name in ("n", "mean", "std", "fresh")}

    def here(row: Mapping) -> str:
        return mean(row) if row["recorded"] else "not recorded yet"

    def gap(row: Mapping) -> str:
        return _interval(row, "gap", factor) if row["recorded"] else NONE

    seeds = frame["headline_n"].max()
    mean, fresh = mean_std(metric, seeds), _metric("fresh", metric)
    columns = [
        Column("headline study", lambda row: mean(headline(row)), group="test"),
        Column("this study", here, group="test"),
        Column("gap of a pair [95 %]", gap, group="test"),
        Column("headline study", lambda row: fresh(headline(row)), group="fresh folds"),
        Column("this study", fresh, group="fresh folds"),
    ]
    note = (
        f"Test: mean ± standard deviation over {_seeds(seeds)} final seeds; a cell with "
        "another number says so. The gap is of one trained pair on the same test rows, positive "
        "where this study is better than the headline one; its interval draws the test rows or "
        "days again."
    )
    for level in frame["level"].dropna().unique():
        note += f" *Validation-level: {level}."
    for why in dict.fromkeys(each.why for each in found):
        names = dict.fromkeys(_named(each) for each in found if each.why == why)
        listed = ", ".join(names)
        note += f" {listed[:1].upper()}{listed[1:]}: {why}"
    complete = [study for each in found for study in (each.study,) if study.complete]
    files = printing.source(complete, "runs.csv", "predictions.npz")
    if not frame["recorded"].all():
        todo = printing.commands(f"python -m mononet study {dataset} --secondary")
        files = Html(f'<p class="mn-note">The missing ones are recorded by:</p>{todo}{files}')
    title = f"Secondary studies, {printing.metric_title(dataset)}"
    return render(frame, columns, title, note, source=files, corner="study", numbers=numbers)


def published(dataset: str) -> Html:
    """Published figures, in a table of their own and in no order of merit."""
    frame = frames.published(dataset)
    factor = printing.scale(data.SPECS[dataset].metric)
    columns = [
        Column("paper of the model", lambda row: row["source"], ""),
        Column("[prior protocol]", lambda row: printing.as_published(row, factor), "num mn-prior"),
    ]
    if frame["parameters"].notna().any():
        columns.append(Column("parameters", _count("parameters"), "num mn-prior"))
    note = (
        "With as many digits as printed. The test part served as validation data there, and the "
        "best five of ten runs were averaged: optimistic by construction, unranked, and no "
        "opponents of the numbers above."
    )
    for model, row in frame.iterrows():
        if row["note"]:
            note += f" {model}: {row['note']}."
    title = f"Figures as published, {printing.metric_title(dataset)}"
    return render(frame, columns, title, note, corner="model")


def ledger(studies: Sequence[Study]) -> Html:
    """Every opening of the test part."""
    frame = frames.ledger(studies)
    times = frame["time"].str.replace("T", " ").str.replace("+00:00", " UTC")
    # The first row was written with the first opening; what it tells of came before.
    frame.index = times.where(frame["kind"] != "planning", "before the book")
    columns = [
        Column("kind", lambda row: row["kind"], ""),
        Column("model", lambda row: row["model"] or NONE, ""),
        Column("study", lambda row: row["study"][:8] or NONE, ""),
        Column("configuration", lambda row: row["configuration"][:8] or NONE, ""),
        Column("what changed since the last", lambda row: row["changed"] or NONE, ""),
    ]
    reasons = frame[["kind", "reason"]].drop_duplicates().itertuples(index=False)
    note = " ".join(f"{kind.capitalize()}: {reason}." for kind, reason in reasons)
    link = printing.link(studies[0], "test_access.csv", "test_access.csv")
    files = Html(f'<p class="mn-source">Made from {link}.</p>')
    title = "Every opening of this test part"
    return render(frame, columns, title, note, source=files, corner="opened")


def constraints(dataset: data.Dataset) -> Html:
    """The constrained features, and whether the training rows agree."""
    frame = frames.constraints(dataset)
    unit = {"auto_mpg": ", mpg", "blog": ", comments ÷ 8"}.get(dataset.name, "")

    def held(row: Mapping) -> str:
        return number(row["held"], 2) if pd.notna(row["held"]) else "no such slope"

    columns = [
        Column("prediction must not", lambda r: "increase" if r["sign"] < 0 else "decrease", ""),
        Column("rank correlation", lambda row: number(row["rank"], 2)),
        Column("explained, this direction", lambda row: f"{100 * row['declared']:.0f} %"),
        Column("explained, the other", lambda row: f"{100 * row['opposite']:.0f} %"),
        Column(f"slope, others held{unit}", held),
    ]
    note = (
        "Spearman's rank correlation with the target; share of the target's variance that the best "
        "monotone curve in this feature alone explains, in the declared direction and in the "
        "other; least-squares slope for one standard deviation of the feature, all other columns "
        "held fixed."
    )
    if frame["held"].isna().any():
        note += (
            " There is no such slope where other columns determine the feature exactly: it cannot "
            "move while they stay."
        )
    title = f"The constraints against the {len(dataset.y_train):,} training rows"
    return render(frame, columns, title, note, corner="feature")


def headline(results_dir: str | Path) -> Html:
    """The front page's table: test mean ± std (n) of every model and dataset that is recorded."""
    columns, cells, numbers = [], {}, {}
    for dataset in data.SPECS:
        values = parameters.resolve(dataset) | {"results_dir": str(results_dir)}
        studies = [Study.of(dataset, model, values) for model in values["models"]]
        studies = [study for study in studies if study.complete]
        if not studies:
            continue
        frame, factor = frames.estimators(studies), printing.scale(data.SPECS[dataset].metric)
        mean = mean_std(data.SPECS[dataset].metric, values["final_seeds"])
        texts = {name: mean(row) for name, row in _with_level(frame).to_dict("index").items()}
        errors = factor * frame["row_se"].astype(float)
        ends = [significant(errors.min()), significant(errors.max())]
        texts["one training, SE over test rows"] = " to ".join(dict.fromkeys(ends))
        cells[dataset] = texts
        numbers[dataset] = frame[["n", "mean", "std", "row_se"]]
        title = f"{TITLES[dataset]}, {printing.metric_title(dataset)}, n = {values['final_seeds']}"
        columns.append(Column(title, lambda row, d=dataset: row[d]))
    if not cells:
        lines = (printing.commands("make studies"),)
        return printing.box(
            "missing", "Not recorded yet", "No study is recorded. All are, by:", *lines
        )
    rows = [model for model in CATALOGUE if any(model in texts for texts in cells.values())]
    rows.append("one training, SE over test rows")
    frame = pd.DataFrame({d: [t.get(row, NONE) for row in rows] for d, t in cells.items()}, rows)
    note = (
        "Mean ± standard deviation over n trainings of one selected configuration, in the order "
        "of the catalogue, which is no ranking; a cell with another n says so. The last row is the "
        "other noise, how far the value of one training moves with other test rows; whether a "
        "smaller difference means anything, only a comparison on the same rows can say."
    )
    toc = (printing.ROOT / "_toc.yml").read_text()
    pages = [
        f'<a href="notebooks/{dataset}.html">{TITLES[dataset]}</a>'
        for dataset in cells
        if f"notebooks/{dataset}\n" in toc + "\n"
    ]
    more = Html(f'<p class="mn-source">The whole story: {", ".join(pages)}.</p>' if pages else "")
    options = {"numbers": pd.concat(numbers, names=["dataset", "model"]), "source": more}
    return render(frame, columns, "Test metric of every model", note, corner="model", **options)
