"""The comparison chapter: the headline studies of all datasets side by side, recorded or not.

Nothing is averaged over datasets, and a rank is never more than a remark: what the numbers support
is said dataset by dataset, with the intervals that it rests on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import pandas as pd

from mononet import data, figures, frames, parameters, printing, prose, recording, secondary, tables
from mononet.models import CATALOGUE, FLAVORS
from mononet.printing import NONE, TITLES, Column, Html, number, render, significant
from mononet.search import MINIMIZED
from mononet.study import Study

PRINTED_BOOSTING, NO_NETWORKS = "XGBoost", ("Isotonic",)  # names in published.yaml
COUNTS = ("constant", "one_sided", "outliers")


def open_chapter(given: Mapping, overlays: Sequence[str] = ()) -> Chapter:
    """The chapter from its notebook's parameters (other names are left alone), checked.

    The studies are those of the full protocol of each dataset, or of `overlays` over it.
    """
    values = parameters.given("comparison", given)
    pairs = [("results_dir", values["results_dir"])]
    by_dataset = {d: parameters.resolve(d, overlays, pairs) for d in data.SPECS}
    studies = tuple(
        Study.of(dataset, model, values)
        for dataset, values in by_dataset.items()
        for model in values["models"]
    )
    beside = tuple(each for d, v in by_dataset.items() for each in secondary.of(d, v))
    return Chapter(studies, beside)


@dataclass(frozen=True)
class Chapter:
    """The headline studies of all datasets and the secondary ones beside them."""

    studies: tuple[Study, ...]
    beside: tuple[secondary.Secondary, ...]

    @functools.cached_property
    def recorded(self) -> dict[str, list[Study]]:
        """The complete headline studies of each dataset that has some."""
        by_dataset = {d: [s for s in self.studies if s.dataset == d] for d in data.SPECS}
        by_dataset = {d: [s for s in found if s.complete] for d, found in by_dataset.items()}
        return {d: found for d, found in by_dataset.items() if found}

    @functools.cached_property
    def estimators(self) -> pd.DataFrame:
        """`frames.estimators` of every dataset, a row a dataset and model."""
        by_dataset = {d: frames.estimators(found) for d, found in self.recorded.items()}
        return pd.concat(by_dataset, names=["dataset", "model"])

    @property
    def every(self) -> list[Study]:
        return [study for found in self.recorded.values() for study in found]

    # --- boxes ------------------------------------------------------------------------------

    def status(self) -> Html:
        """What the chapter rests on, and what is missing."""
        lines = []
        for dataset in data.SPECS:
            whole = [study.model for study in self.studies if study.dataset == dataset]
            found = [study.model for study in self.recorded.get(dataset, [])]
            absent = [model for model in whole if model not in found]
            text = f"{TITLES[dataset]}: {len(found)} of {len(whole)} studies recorded"
            if found and absent:
                text += f", without {', '.join(absent)}"
            lines.append(text + ".")
        absent = [each for each in self.beside if not each.study.complete]
        beside = len(self.beside) - len(absent)
        text = f"Secondary studies: {beside} of {len(self.beside)} recorded"
        if beside and absent:
            names = (f"{TITLES[e.study.dataset]}, {e.study.model}, {e.name}" for e in absent)
            text += f", without {'; '.join(names)}"
        lines.append(text + ".")
        todo = []
        if absent or len(self.every) < len(self.studies):
            todo.append("What is missing, where its rows are on the machine, is recorded by:")
            todo.append(printing.commands("make studies"))
        return printing.box("", "What this chapter rests on", prose.bullets(lines), *todo)

    def nothing(self) -> Html:
        """Instead of a table or figure while no study is recorded."""
        return printing.box(
            "missing", "No study is recorded yet", printing.commands("make studies")
        )

    def show(self, name: str) -> Html:
        """A table, a figure or words of the chapter, by name."""
        return SHOWN[name](self) if self.recorded else self.nothing()


# --- tables ---------------------------------------------------------------------------------


def estimators(chapter: Chapter) -> Html:
    """Every estimator of every model, a table a dataset."""
    shown = []
    for dataset, found in chapter.recorded.items():
        local = data.routes(dataset, found[0].parameters["data_dir"]).local
        y_train = recording.load(found[0]).y_train if local else None
        shown.append(tables.estimators(found, y_train))
    return Html("".join(shown))


def _table(frame: pd.DataFrame, cell, caption: str, note: str, source: str, numbers=None) -> Html:
    """A table models × datasets; `cell(dataset, row)` prints a row of `frame`, whose index is
    (dataset, model)."""
    rows = zip(frame.index, frame.to_dict("records"), strict=True)
    cells = {(dataset, model): cell(dataset, row) for (dataset, model), row in rows}
    datasets = list(dict.fromkeys(frame.index.get_level_values("dataset")))
    models = [model for model in CATALOGUE if any(key[1] == model for key in cells)]
    printed = pd.DataFrame(
        {d: [cells.get((d, model), NONE) for model in models] for d in datasets}, models
    )
    columns = [Column(TITLES[d], lambda row, d=d: row[d]) for d in datasets]
    options = {"source": source, "corner": "model"}
    options["numbers"] = frame if numbers is None else numbers
    return render(printed, columns, caption, note, **options)


def _source(chapter: Chapter, *files: str) -> Html:
    """The files behind a table or figure, dataset by dataset."""
    lines = "".join(
        printing.source(found, *files).replace("Made from", f"{TITLES[dataset]}:")
        for dataset, found in chapter.recorded.items()
    )
    return Html(f'<details class="mn-source"><summary>Files behind it</summary>{lines}</details>')


def means(chapter: Chapter) -> Html:
    """Test mean ± std (n) of every model and dataset."""

    def cell(dataset: str, row: Mapping) -> str:
        marked = " *" if isinstance(row["level"], str) else ""
        return tables.mean_std(data.SPECS[dataset].metric, seeds[dataset])(row) + marked

    seeds = chapter.estimators["n"].groupby(level="dataset").max()
    titles = ", ".join(
        f"{TITLES[d]} {printing.metric_title(d)} n = {seeds[d]:.0f}" for d in chapter.recorded
    )
    return _table(
        chapter.estimators,
        cell,
        "Test mean ± standard deviation over n final seeds",
        f"{titles}; a cell with another n says so, and linear, which draws nothing, has 1. In "
        "the order of the catalogue, which is no ranking. A dash: not "
        "recorded yet, or not among the dataset's models."
        + (" *Validation-level." if chapter.estimators["level"].notna().any() else ""),
        _source(chapter, "runs.csv"),
        chapter.estimators[["n", "mean", "std", "median", "iqm", "row_se"]],
    )


def ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """Rank of every model of a dataset by test mean, by median and by fresh folds, 1 the best; the
    smaller rank for a tie."""
    found = {}
    for dataset, rows in frame.groupby(level="dataset", sort=False):
        minimized = MINIMIZED[data.SPECS[dataset].metric]
        # Rounded: means of the same counts can differ in their last bit.
        values = rows[["mean", "median", "fresh"]].astype(float).round(9)
        found[dataset] = values.rank(ascending=minimized, method="min").droplevel("dataset")
    return pd.concat(found, names=["dataset", "model"])


def rank(chapter: Chapter) -> Html:
    """Ranks by dataset, by three estimators, with no average over datasets."""

    def cell(dataset: str, row: Mapping) -> str:
        return " · ".join(NONE if pd.isna(value) else f"{value:.0f}" for value in row.values())

    return _table(
        ranks(chapter.estimators),
        cell,
        "Ranks within a dataset, suggestive only: by test mean · by test median · on fresh folds",
        "1 is the best of the models recorded on that dataset. Where the three disagree, the order "
        "is not settled; where they agree, the distances may still be smaller than either noise. "
        "No rank is averaged over datasets: with this many models and so few datasets an average "
        "would have to differ by several ranks to mean anything.",
        _source(chapter, "runs.csv"),
    )


def collapses(chapter: Chapter) -> Html:
    """How many of the final trainings collapsed, by model and dataset."""

    def cell(dataset: str, row: Mapping) -> str:
        classes = data.SPECS[dataset].task == "classification"
        second = row["one_sided"] if classes else row["outliers"]
        return f"{row['constant']:.0f} · {number(second, 0)} of {row['n']:.0f}"

    return _table(
        chapter.estimators,
        cell,
        "Collapsed final trainings: constant · one-sided or outlier, of n",
        "Constant: one prediction for every row, or a value that is not finite. The second count "
        "is that of one-sided trainings (classification: one class for every row without being "
        "constant) or of outliers (MSE: more than one and a half times the median of the better "
        "half); an RMSE has neither.",
        _source(chapter, "runs.csv"),
        chapter.estimators[["n", *COUNTS]],
    )


def costs(chapter: Chapter) -> Html:
    """Parameters, seconds of a final training and of 1,000 predictions."""

    def cell(dataset: str, row: Mapping) -> str:
        seconds = [row["refit_seconds"], 1000 * row["predict_seconds"]]
        return " · ".join([f"{row['parameters']:,.0f}", *map(significant, seconds)])

    names = ["parameters", "search_seconds", "refit_seconds", "predict_seconds", "all_seconds"]
    return _table(
        chapter.estimators,
        cell,
        "Parameters or tree nodes · s for a final training · ms for 1,000 predictions",
        "Measured on the machine that recorded the study. Networks train many at a time, and the "
        "time of one final training is its share.",
        _source(chapter, "cost.csv"),
        chapter.estimators[names],
    )


def search_frame(chapter: Chapter) -> pd.DataFrame:
    """A row a dataset, model and search seed among studies that differ in nothing else: test mean,
    std, n, median, CV score, fresh folds, standard error over rows; and the paired `gap` to the
    first search with its interval, positive where the other search did better."""
    rows = []
    groups: dict[tuple, list[Study]] = {}
    for each in chapter.beside:
        if list(each.changes) == ["search_seed"] and each.study.complete:
            if each.headline.complete:
                groups.setdefault((each.study.dataset, each.study.model), [each.headline])
            groups.setdefault((each.study.dataset, each.study.model), []).append(each.study)
    for (dataset, model), found in groups.items():
        for study in found:
            row = frames.estimators([study]).iloc[0]
            names = ["mean", "std", "n", "median", "cv_score", "fresh", "row_se"]
            pair = frames.paired(found[0], study) if study is not found[0] else {}
            gap = {name: pair.get(name, math.nan) for name in ("gap", "low", "high")}
            seed = study.parameters["search_seed"]
            key = {"dataset": dataset, "model": model, "search_seed": seed}
            rows.append(key | {"trials": len(study.trials())} | dict(row[names]) | gap)
    return pd.DataFrame(rows)


def search_noise(chapter: Chapter) -> Html:
    """Searches that differ in the sampler's seed alone, beside seed noise and row noise."""
    frame = search_frame(chapter)
    if frame.empty:
        return printing.box(
            "missing",
            "No study with another search seed is recorded yet",
            printing.commands("python -m mononet study auto_mpg --secondary"),
        )
    printed = frame.set_index(
        frame["dataset"].map(TITLES) + ", " + frame["model"] + ", search seed "
        + frame["search_seed"].astype(str)
    )  # fmt: skip
    metric = data.SPECS[frame["dataset"].iloc[0]].metric
    factor = printing.scale(metric)

    def value(name: str):
        return lambda row: number(factor * row[name], tables.decimals_of(row, factor))

    columns = [
        Column("test, mean ± std", tables.mean_std(metric)),
        Column("SE, rows", lambda row: significant(factor * row["row_se"])),
        Column("CV score", value("cv_score")),
        Column("fresh folds", value("fresh")),
    ]
    note = (
        f"Every line is one whole search of {frame['trials'].max():,} trials and the final "
        "trainings of what it selected. The lines of one model differ in the seed of the sampler "
        "of trials alone."
    )
    title = f"Searches with other sampler seeds, {printing.metric_title(frame['dataset'].iloc[0])}"
    return render(printed, columns, title, note, corner="search", numbers=frame) + Html(
        search_words(frame)
    )


def search_words(frame: pd.DataFrame) -> Html:
    """How far searches lie apart, beside the noise of seeds and rows."""
    items = []
    for (dataset, model), rows in frame.groupby(["dataset", "model"], sort=False):
        if len(rows) < 2:
            continue
        factor = printing.scale(data.SPECS[dataset].metric)
        sd, seeds, error = (
            factor * value
            for value in (
                rows["mean"].astype(float).std(ddof=1),
                rows["std"].astype(float).mean(),
                rows["row_se"].astype(float).mean(),
            )
        )
        items.append(
            f"{TITLES[dataset]}, {model}: the test means of {len(rows)} searches have a standard "
            f"deviation of {significant(sd)}{prose.unit_of(dataset)}; that over the seeds of one "
            f"configuration is {significant(seeds)}, the standard error over test rows "
            f"{significant(error)}.{_chance(rows, factor)}"
        )
    return prose.bullets(items) if items else Html("")


def _chance(rows: pd.DataFrame, factor: float) -> str:
    """Said where the interval of a pair from two searches of one model leaves zero out."""
    apart = rows[(rows["low"] > 0) | (rows["high"] < 0)]
    if apart.empty:
        return ""
    row = apart.iloc[0]
    return (
        f" One trained pair of search seeds {rows['search_seed'].iloc[0]} and "
        f"{row['search_seed']} has a gap of {prose.interval(row, factor)}: the luck of a search "
        "alone can leave zero out of the interval over rows."
    )


# --- the figure -----------------------------------------------------------------------------


@mpl.rc_context(figures.STYLE)
def selection(chapter: Chapter) -> Html:
    """CV-selection score against test for all studies, a panel a dataset."""
    figure, axes = figures.panels(len(chapter.recorded), 2, 2.9)
    told, shown = [], {}
    for axis, (dataset, found) in zip(axes, chapter.recorded.items(), strict=True):
        factor = printing.scale(data.SPECS[dataset].metric)
        others = [
            e.study for e in chapter.beside if e.study.dataset == dataset and e.study.complete
        ]
        points = []
        for study, hollow in [(s, False) for s in found] + [(s, True) for s in others]:
            row = frames.estimators([study]).iloc[0]
            score, mean = factor * row["cv_score"], factor * row["mean"]
            color = figures.COLORS[study.model]
            face = "w" if hollow else color
            style = {"color": color, "mfc": face, "marker": figures.MARKERS[study.model]}
            (mark,) = axis.plot(score, mean, ls="", ms=7, **style)
            shown.setdefault(study.model, mark) if not hollow else None
            points.append((score, mean))
        ends = [np.nanmin(points), np.nanmax(points)]
        margin = 0.06 * (ends[1] - ends[0]) or 1.0
        ends = [ends[0] - margin, ends[1] + margin]
        axis.plot(ends, ends, color=figures.GRAY, lw=1, ls="--", zorder=0)
        axis.set(xlim=ends, ylim=ends, aspect="equal", title=TITLES[dataset])
        axis.set_xlabel(f"CV score, {printing.metric_title(dataset)}")
        axis.set_ylabel("test mean")
        below = "worse" if MINIMIZED[data.SPECS[dataset].metric] else "better"
        above = sum(mean > score for score, mean in points)
        told.append(
            f"{TITLES[dataset]}: {above} of {len(points)} studies above the diagonal ({below} on "
            "the test part)"
        )
    models = [model for model in CATALOGUE if model in shown]
    figure.legend([shown[m] for m in models], models, loc="outside lower center", ncols=5)
    caption = (
        "The score that selected a configuration against its test mean, for every recorded study; "
        "hollow: secondary studies. On the dashed line the two agree. Above it the test part was "
        "worse than the score where the metric is an error, and better where it is an accuracy. "
        "The score is the best of a search's trials and partly luck, and the test part may be "
        "harder or easier than the training rows: the figure shows the sum of both."
    )
    alt = f"CV-selection score against test mean. {'; '.join(told)}."
    return figures.show(figure, alt, caption, _source(chapter, "trials.csv", "runs.csv"))


# --- words ----------------------------------------------------------------------------------


def flavors(chapter: Chapter) -> Html:
    """What the numbers support about flavors, dataset by dataset."""
    items, first = [], {}
    for dataset, found in chapter.recorded.items():
        ours = [study for study in found if study.model in FLAVORS]
        if len(ours) < 2:
            continue
        fresh = {study.model: frames.fresh_mean(study.runs("validation")) for study in ours}
        better = min if MINIMIZED[data.SPECS[dataset].metric] else max
        best = better(fresh, key=fresh.get)
        first[dataset] = best
        chosen = next(study for study in ours if study.model == best)
        pairs = {s.model: frames.paired(s, chosen) for s in ours if s is not chosen}
        won = [name for name, pair in pairs.items() if pair and pair["low"] > 0]
        lost = [name for name, pair in pairs.items() if pair and pair["high"] < 0]
        holds = [name for name, pair in pairs.items() if pair and name not in won + lost]
        told = [
            f"{what} {', '.join(names)}"
            for what, names in (
                ("leaves zero out in its favor against", won),
                ("leaves zero out in favor of", lost),
                ("holds zero against", holds),
            )
            if names
        ]
        items.append(
            f"{TITLES[dataset]}: fresh folds put {best} first of {len(ours)} flavors. On the test "
            f"rows the interval of one trained pair {'; it '.join(told) or 'is not shown'}."
        )
    if not items:
        return prose.paragraph("Two flavors on one dataset are needed for a word about flavors.")
    names = set(first.values())
    last = (
        "One dataset says nothing about the next."
        if len(first) == 1
        else f"The same flavor, {names.pop()}, comes first on all {len(first)} datasets so far."
        if len(names) == 1
        else f"On {len(first)} datasets {len(names)} different flavors come first."
    )
    chance = (
        "Several intervals were looked at here; one in twenty leaves zero out when nothing differs."
    )
    return prose.bullets(items) + prose.paragraph(last, chance, _loan(chapter))


def contests(chapter: Chapter) -> dict[str, tuple[Study, Study, Mapping, str]]:
    """Dataset → the challenger of its rule, hgb-monotone, their paired gap on the test rows, and
    what its interval says of the challenger: better, worse or open."""
    found = {}
    for dataset, studies in chapter.recorded.items():
        recorded = {study.model: study for study in studies}
        challenger = recorded.get(parameters.read_rule(dataset)["challenger"])
        boosted = recorded.get("hgb-monotone")
        pair = frames.paired(boosted, challenger) if challenger and boosted else None
        if pair:
            verdict = "better" if pair["low"] > 0 else "worse" if pair["high"] < 0 else "open"
            found[dataset] = (challenger, boosted, pair, verdict)
    return found


def boosting(chapter: Chapter) -> Html:
    """What the numbers support about the challenger against constrained boosting."""
    items, verdicts = [], {"better": 0, "worse": 0, "open": 0}
    for dataset, (challenger, boosted, pair, verdict) in contests(chapter).items():
        factor, unit = printing.scale(data.SPECS[dataset].metric), prose.unit_of(dataset)
        seen = significant(factor * pair["detectable"])
        verdicts[verdict] += 1
        said = {
            "better": f"this trained {challenger.model} is better",
            "worse": "this trained hgb-monotone is better",
            "open": "no difference is shown",
        }[verdict]
        items.append(
            f"{TITLES[dataset]}: {challenger.model} against hgb-monotone "
            f"{prose.interval(pair, factor, unit)}, positive where the network is better: {said}; "
            f"{seen} could have been seen. {_seconds(challenger, boosted)}"
        )
    if not items:
        return prose.paragraph("This needs the challenger and hgb-monotone on one dataset.")
    total = sum(verdicts.values())
    summary = (
        f"Of {total} dataset{'s' if total > 1 else ''}, the interval speaks for the network on "
        f"{verdicts['better']}, for constrained boosting on {verdicts['worse']}, and for neither "
        f"on {verdicts['open']}. It is of one trained pair and one draw of rows; each page holds "
        "its own decision rule, with training noise beside it."
    )
    return prose.bullets(items) + prose.paragraph(summary, _loan(chapter))


def printed_orders(chapter: Chapter) -> Html:
    """Which printed order of networks and boosting is found again with equal budgets."""
    items = []
    for dataset, (challenger, boosted, _, verdict) in contests(chapter).items():
        printed = frames.published(dataset)["mean"]
        if PRINTED_BOOSTING not in printed:
            continue
        metric = data.SPECS[dataset].metric
        sign, factor = (-1 if MINIMIZED[metric] else 1), printing.scale(metric)
        networks = printed.drop([PRINTED_BOOSTING, *NO_NETWORKS], errors="ignore")
        ahead = int((sign * (networks - printed[PRINTED_BOOSTING]) > 0).sum())
        value = boosted.runs("test")["value"].mean()
        clear = 2 * frames.estimators([boosted])["block_se"].iloc[0]
        beyond = int((sign * (value - networks) > clear).sum())
        past = "past" if sign * (value - printed[PRINTED_BOOSTING]) > clear else "not past"
        if 0 < ahead < len(networks):
            said = {
                "better": "the network is better",
                "worse": "boosting is better",
                "open": "no difference is shown",
            }[verdict]
        else:
            found = {"better": ahead > 0, "worse": ahead == 0}.get(verdict)
            said = {
                True: "that order is found again",
                False: "that order is reversed",
                None: "that order is not found again, and not refuted either",
            }[found]
        blocks = frames.drawn_of(boosted)
        digits = printing.decimals(0.01 * factor * value)
        unit = " %" if metric == "accuracy" else prose.unit_of(dataset)
        items.append(
            f"{TITLES[dataset]}: {ahead} of {len(networks)} printed networks stand before the "
            f"printed boosting. With equal budgets, between {challenger.model} and hgb-monotone, "
            f"{said}. The held-out {number(factor * value, digits)}{unit} of hgb-monotone "
            f"is {past} the printed boosting and past {beyond or 'none'} of the printed networks "
            f"by more than twice its standard error over the test {blocks}."
        )
    if not items:
        return Html("")
    return prose.bullets(items) + prose.paragraph(
        "The printed figures were read off the test part, as its best epochs and runs, which "
        "flatters them; so a held-out value clearly past one of them is not explained by the "
        "protocol, and one that is not past it says nothing. Boosting was printed for no other "
        "dataset that is recorded here."
    )


def _seconds(challenger: Study, boosted: Study) -> str:
    both = frames.estimators([challenger, boosted])["refit_seconds"].astype(float)
    each = [f"{significant(seconds)} s with {model}" for model, seconds in both.items()]
    return f"One final training took {' and '.join(each)}."


def constraint(chapter: Chapter) -> Html:
    """What the constraint costs or buys, where the unconstrained twins are recorded."""
    parts = [
        prose.led(f"{TITLES[dataset]}.") + prose.price(found)
        for dataset, found in chapter.recorded.items()
    ]
    if not parts:
        return prose.paragraph("This needs hgb or mlp beside a constrained model on one dataset.")
    return Html("".join(parts))


def inputs(chapter: Chapter) -> Html:
    """What quantile inputs change for a network, where such studies are recorded."""
    parts = []
    for dataset, found in chapter.recorded.items():
        beside = [each for each in chapter.beside if each.study.dataset == dataset]
        if said := prose.inputs(beside, found, parameters.read_rule(dataset)):
            parts.append(prose.led(f"{TITLES[dataset]}.") + said)
    if not parts:
        return prose.paragraph("This needs a study with quantile inputs beside its headline study.")
    return Html("".join(parts))


def budget(chapter: Chapter) -> Html:
    """What more trials change for constrained boosting, where such studies are recorded."""
    items, pairs = [], []
    for each in prose.changing("n_trials", chapter.beside):
        dataset = each.study.dataset
        metric = data.SPECS[dataset].metric
        factor, rule = printing.scale(metric), parameters.read_rule(dataset)
        ours, theirs = f"{each.changes['n_trials']} trials", each.headline.parameters["n_trials"]
        said = f"{TITLES[dataset]}: {prose.on_fresh_folds(each, ours, str(theirs))[0]}."
        if pair := frames.paired(each.headline, each.study):
            pair["matters"] = frames.matters(rule, metric, pair["rmse"])
            pairs.append(pair)
            said += prose.one_pair(each, "more trials are", factor)
            said += f" A gain of {significant(factor * pair['matters'])} would matter."
        items.append(said)
    if not items:
        return prose.paragraph("This needs a study with more trials beside its headline study.")
    more, fewer = sum(p["low"] > 0 for p in pairs), sum(p["high"] < 0 for p in pairs)
    enough = sum(p["gap"] >= p["matters"] for p in pairs)
    summary = (
        f"Of {len(pairs)} dataset{'s' if len(pairs) > 1 else ''}, the interval speaks for more "
        f"trials on {more}, for fewer on {fewer}, and for neither on {len(pairs) - more - fewer}; "
        f"they gained what would matter on {enough or 'none'}."
    )
    return prose.bullets(items) + prose.paragraph(summary)


def _loan(chapter: Chapter) -> str:
    if "loan" in chapter.recorded:
        return ""
    return "Loan, by far the largest of the datasets, is not recorded yet."


SHOWN = {
    "means": means,
    "estimators": estimators,
    "ranks": rank,
    "collapses": collapses,
    "costs": costs,
    "search noise": search_noise,
    "selection": selection,
    "flavors": flavors,
    "boosting": boosting,
    "printed orders": printed_orders,
    "constraint": constraint,
    "inputs": inputs,
    "budget": budget,
}
