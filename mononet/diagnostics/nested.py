"""Nested cross-validation on Auto MPG: the whole search inside every outer fold.

Three estimates of one procedure side by side: the score that selected, the nested estimate, the
published test part. Between the first two lies what selection promised too much, between the last
two how hard the published split is; the place of that split among random ones is measured apart.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mononet import experiments, figures, frames, parameters, printing, prose, search, statistics
from mononet.experiments import Chapter, Experiment, Part
from mononet.models import CATALOGUE, Model, Problem
from mononet.printing import Column, Html, number, render
from mononet.record import identity
from mononet.study import FIRST_FINAL_SEED, Study
from mononet.workers import in_parallel

DATASET, METRIC = "auto_mpg", "mse"
PUBLISHED = -1  # the number of the published split among the random ones
CHUNK = 25  # random splits of one task
REASON = "place of the published split among random ones, two untuned models"
ESTIMATES = {
    "selection": "CV-selection score",
    "nested": "nested estimate",
    "test": "published test part",
}


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters (other names are left alone), checked."""
    values = parameters.given("nested_cv", given)
    return experiments.open_chapter("nested_cv", given, parts(values), SHOWN)


def parts(values: Mapping) -> dict[str, Part]:
    """One part a model and partition, so that an interruption costs one of them; and the splits."""
    found: dict[str, Part] = {
        part_name(model, partition): functools.partial(outer, model=model, partition=partition)
        for model in values["models"]
        for partition in range(1, values["partitions"] + 1)
    }
    return found | {"splits": splits}


def part_name(model: str, partition: int) -> str:
    return f"{model}-{partition}"


# --- the nested estimate ----------------------------------------------------------------------


def outer(experiment: Experiment, model: str, partition: int) -> pd.DataFrame:
    """One partition into outer folds: a search on the other folds' rows, and its selection trained
    on them with the final seeds and read on the fold; a row an outer fold and seed.

    Every run is kept, however large its error. Where there is no finite prediction, or the search
    ends without a selection (trial −1), the mean of the training rows predicts in its place.
    """
    values, entry, loaded = experiment.parameters, CATALOGUE[model], experiment.load(DATASET)
    whole = Problem(loaded.X_train, loaded.y_train, loaded.indicator, loaded.task)
    folds = KFold(values["outer_folds"], shuffle=True, random_state=partition)
    seeds = range(1 if entry.deterministic else values["final_seeds"])
    seeds = [FIRST_FINAL_SEED + seed for seed in seeds]
    outers = []
    for fold, (kept, held) in enumerate(folds.split(whole.X)):
        inside = replace(whole, X=whole.X[kept], y=whole.y[kept])
        best = selection(experiment, entry, inside, [partition, fold])
        trivial = np.full(len(held), whole.y[kept].mean())
        runs = pd.DataFrame({"seed": seeds, "value": np.nan, "failed": True})
        shared = {"trial": -1, "epochs": 0, "cv_score": np.nan, "objective": np.nan}
        if best:
            [found] = search.evaluate(
                entry, [best.configuration], whole, METRIC, [(kept, held)], seeds, [best.stage],
                experiment.engine,
            )  # fmt: skip
            runs["value"] = found.values[0, 0]
            runs["failed"] = (found.constant | found.non_finite)[0, 0]
            shared = {"trial": best.number, "epochs": best.stage, "cv_score": best.mean}
            shared |= {"objective": best.objective}
            shared |= {"configuration": json.dumps(best.configuration, sort_keys=True)}
        runs["value"] = runs["value"].fillna(statistics.metric(METRIC, whole.y[held], trivial))
        where = {"partition": partition, "fold": fold, "learned": len(kept), "held": len(held)}
        outers.append(pd.DataFrame(where | shared, runs.index).join(runs))
    return pd.concat(outers)


def selection(
    experiment: Experiment, entry: Model, inside: Problem, place: list[int]
) -> search.Trial | None:
    """What a whole search on these rows selects; None where every trial collapsed. Each place, a
    partition and fold, has a sampler of its own: its luck is part of what is estimated."""
    values = experiment.parameters
    inner = KFold(values["cv_folds"], shuffle=True, random_state=values["cv_seed"])
    own = np.random.SeedSequence([values["search_seed"], *place]).generate_state(1)[0]
    names = search.Budget.__dataclass_fields__
    budget = search.Budget(**{n: values[n] for n in names} | {"search_seed": int(own)})
    trials = search.search(
        entry, inside, METRIC, list(inner.split(inside.X)), budget,
        engine=experiment.engine, workers=experiment.workers,
    )  # fmt: skip
    try:
        return search.select(trials, minimized=True)
    except search.SearchError:
        return None


def outer_runs(experiment: Experiment, model: str) -> pd.DataFrame:
    """All outer runs of a model, all partitions."""
    partitions = range(1, experiment.parameters["partitions"] + 1)
    return pd.concat([experiment.table(part_name(model, p)) for p in partitions], ignore_index=True)


def fold_error(values: pd.Series) -> float:
    """Standard error of a mean over folds, from fold means indexed by (partition, fold).

    The root of the mean over partitions of var(folds) / folds. Partitions divide the same rows
    anew, so that more of them make this better known and not smaller.
    """
    within = values.groupby(level="partition").agg(lambda folds: folds.var(ddof=1) / len(folds))
    return float(np.sqrt(within.mean()))


@dataclass(frozen=True)
class Estimate:
    """A mean squared error and its standard error."""

    mean: float
    error: float


def fold_means(runs: pd.DataFrame) -> pd.Series:
    """The mean over seeds of each outer fold, indexed by (partition, fold)."""
    return runs.groupby(["partition", "fold"])["value"].mean()


def estimate(folds: pd.Series) -> Estimate:
    """Mean over partitions and folds of values indexed by them, with its standard error."""
    return Estimate(float(folds.mean()), fold_error(folds))


def headline(experiment: Experiment, model: str) -> Study | None:
    """The recorded study of the whole training part with the published split, if there is one."""
    pairs = [("results_dir", experiment.parameters["studies_dir"])]
    study = Study.of(DATASET, model, parameters.resolve(DATASET, pairs=pairs))
    return study if study.complete else None


def selection_estimate(study: Study) -> Estimate:
    """The score that selected: mean over folds and seeds at the selected epoch."""
    folds = pd.Series(study.selected.values.mean(axis=1)).rename_axis("fold")
    return estimate(pd.concat({0: folds}, names=["partition"]))


def test_estimate(study: Study) -> Estimate:
    """Mean over final seeds on the published test part, its standard error over the test rows."""
    rows = frames.test_losses(study)
    return Estimate(float(rows.mean()), statistics.row_standard_error(METRIC, rows))


def estimates(experiment: Experiment) -> pd.DataFrame:
    """Mean and standard error of each estimate, a row a model and estimate; those of the headline
    study are missing where it is not recorded."""
    rows = []
    for model in experiment.parameters["models"]:
        study = headline(experiment, model)
        found = {"nested": estimate(fold_means(outer_runs(experiment, model)))}
        if study:
            found |= {"selection": selection_estimate(study), "test": test_estimate(study)}
        rows += [
            {"model": model, "estimate": name, "mean": found[name].mean, "se": found[name].error}
            for name in ESTIMATES
            if name in found
        ]
    return pd.DataFrame(rows).set_index(["model", "estimate"])


# --- how hard the published split is ----------------------------------------------------------


@dataclass(frozen=True)
class Opening:
    """What the ledger writes down about this opening of the test part."""

    identity: str
    revision: str
    model: str = "ridge, forest"
    configuration_hash: str = identity({"ridge": {"alpha": 1.0}, "forest": {"trees": 100}})


def untuned(number: int) -> dict:
    """Two models with their library's settings; the forest's seed is the split's number."""
    forest = RandomForestRegressor(100, random_state=number + 1)  # the published split has −1
    return {"ridge": make_pipeline(StandardScaler(), Ridge()), "forest": forest}


def score_splits(
    X: np.ndarray, y: np.ndarray, tests: Mapping[int, np.ndarray]
) -> list[dict[str, float]]:
    """MSE of both models for each split, number → test rows: trained on the other rows."""
    rows = []
    for split, test in tests.items():
        learned = np.setdiff1d(np.arange(len(y)), test)
        row = {"split": split}
        for name, model in untuned(split).items():
            model.fit(X[learned], y[learned])
            row[name] = float(statistics.metric(METRIC, y[test], model.predict(X[test])))
        rows.append(row)
    return rows


def splits(experiment: Experiment) -> pd.DataFrame:
    """MSE of both models on the published split (number −1) and on random ones of its size."""
    loaded, count = experiment.load(DATASET), experiment.parameters["splits"]
    opening = Opening(experiment.identity, experiment.description["provenance"]["source_revision"])
    ledger = Path(experiment.parameters["results_dir"]) / DATASET / "test_access.csv"
    part = loaded.open_test(ledger, opening, "diagnostic", REASON)
    X, y = np.concatenate([loaded.X_train, part.X]), np.concatenate([loaded.y_train, part.y])
    rng = np.random.default_rng(statistics.SEED)
    tests = {PUBLISHED: np.arange(len(loaded.y_train), len(y))}
    tests |= {n: rng.choice(len(y), len(part.y), replace=False) for n in range(count)}
    numbers = list(tests)
    tasks = [
        (X, y, {n: tests[n] for n in numbers[i : i + CHUNK]}) for i in range(0, len(numbers), CHUNK)
    ]
    found = in_parallel(score_splits, tasks, experiment.workers)
    return pd.DataFrame([row for rows in found for row in rows]).round(6)


def place(frame: pd.DataFrame, model: str) -> float:
    """Share of the random splits on which the model does better than on the published one."""
    published = frame.loc[frame["split"] == PUBLISHED, model].item()
    return float((frame.loc[frame["split"] != PUBLISHED, model] < published).mean())


# --- what is shown ----------------------------------------------------------------------------


@mpl.rc_context(figures.STYLE)
def bars(experiment: Experiment) -> Html:
    """The three estimates of each model with their standard errors."""
    frame = estimates(experiment)
    models = experiment.parameters["models"]
    figure, (axis,) = figures.panels(1, 1, 2.9)
    colors = dict(zip(ESTIMATES, (figures.PALETTE[i] for i in (3, 0, 7)), strict=True))
    width = 0.8 / len(ESTIMATES)
    for j, (name, label) in enumerate(ESTIMATES.items()):
        found = frame[frame.index.get_level_values("estimate") == name].droplevel("estimate")
        x = [models.index(model) + (j - 1) * width for model in found.index]
        style = {"color": colors[name], "label": label, "ecolor": "k", "capsize": 4}
        axis.bar(x, found["mean"], 0.92 * width, yerr=found["se"], **style)
        for at, (mean, error) in zip(x, found[["mean", "se"]].to_numpy(), strict=True):
            text = number(mean, 2)
            axis.annotate(text, (at, mean + error), (0, 4), textcoords="offset points", ha="center")
    axis.set_xticks(range(len(models)), models)
    axis.set_ylabel(printing.metric_title(DATASET))
    axis.set_ylim(top=1.15 * axis.get_ylim()[1])
    figure.legend(loc="outside lower center", ncols=3)
    values = experiment.parameters
    caption = (
        "Three estimates of what the whole procedure gets, ± 1 standard error: the score that "
        "selected in the recorded study (over its folds), the nested estimate "
        f"({values['outer_folds']} outer folds, {values['partitions']} partitions, one whole "
        "search in each; over folds), and the published test part (over its rows)."
    )
    told = "; ".join(
        f"{model} {ESTIMATES[name]} {number(row['mean'], 2)} ± {number(row['se'], 2)}"
        for (model, name), row in frame.iterrows()
    )
    alt = f"Bars of {printing.metric_title(DATASET)}. {told}."
    return figures.show(figure, alt, caption, _source(experiment))


def _source(experiment: Experiment) -> Html:
    """The outer runs, and the headline studies beside them."""
    names = [name for name in parts(experiment.parameters) if name != "splits"]
    found = [headline(experiment, model) for model in experiment.parameters["models"]]
    studies = [study for study in found if study]
    beside = printing.source(studies, "trials.csv", "predictions.npz")
    return Html(experiments.source(experiment, *names) + beside)


def gap(experiment: Experiment) -> Html:
    """The gap between test and selection score, split in two, a row a model."""
    frame, rows = estimates(experiment), {}
    for model in experiment.parameters["models"]:
        own, runs = frame.loc[model], outer_runs(experiment, model)
        study = headline(experiment, model)
        row = {"nested": own.loc["nested", "mean"]} | dict.fromkeys(
            ("objective", "selection", "test", "optimism", "difficulty", "optimism_se", "error"),
            math.nan,
        )
        if study:
            mean, error = own["mean"], own["se"]
            row |= {"objective": study.selected.objective}
            row |= {"selection": mean["selection"], "test": mean["test"]}
            row |= {"optimism": mean["nested"] - mean["selection"]}
            row |= {"difficulty": mean["test"] - mean["nested"]}
            row |= {"optimism_se": math.hypot(error["nested"], error["selection"])}
            row |= {"error": math.hypot(error["nested"], error["test"])}
        row |= {"inner": runs.groupby(["partition", "fold"])["cv_score"].first().mean()}
        row |= {"failed": int(runs["failed"].sum()), "runs": len(runs)}
        rows[model] = row
    printed = pd.DataFrame(rows).T

    def value(name: str):
        return lambda row: number(row[name], 2)

    columns = [
        Column("objective", value("objective"), group="recorded study"),
        Column("CV score", value("selection"), group="recorded study"),
        Column("test", value("test"), group="recorded study"),
        Column("inner CV score", value("inner"), group="nested"),
        Column("outer folds", value("nested"), group="nested"),
        Column(
            "failed runs", lambda row: f"{row['failed']:.0f} of {row['runs']:.0f}", group="nested"
        ),
        Column("selection optimism", _with_error("optimism", "optimism_se"), group="the gap"),
        Column("split difficulty", _with_error("difficulty", "error"), group="the gap"),
    ]
    learned, folds = runs["learned"].mean(), experiment.parameters["cv_folds"]
    note = (
        "Selection optimism: outer folds − CV score. A selection of the nested estimate is trained "
        f"on about {learned:.0f} rows, its inner folds on about {learned * (1 - 1 / folds):.0f}, "
        "and the folds of the recorded study, which has 314, on about 251. Split difficulty: "
        "published test − outer folds; the refit of the study learns from all 314 training rows, "
        "so that this holds the effect of the additional rows too. ± 1 standard "
        "error, the two estimates taken for independent, which they are not entirely: they share "
        "training rows. Failed: constant, or without a finite prediction, where the mean of the "
        "training rows stands in; kept in every mean."
    )
    title = f"The gap between selection and test, {printing.metric_title(DATASET)}"
    return render(printed, columns, title, note, source=_source(experiment), corner="model")


def _with_error(name: str, error: str):
    def text(row: Mapping) -> str:
        if not math.isfinite(row[name]):
            return printing.NONE
        return f"{number(row[name], 2)} ± {number(row[error], 2)}"

    return text


def _far(value: float, error: float) -> bool:
    return abs(value) > 2 * error


def _seen(value: float, error: float) -> str:
    return (
        "more than twice its standard error"
        if _far(value, error)
        else "no more than what two standard errors leave open"
    )


def _side(gap: float) -> str:
    return "lower" if gap > 0 else "higher"


def procedures(experiment: Experiment) -> Html:
    """The first model's whole procedure against each other one's, outer fold by outer fold."""
    first, *others = experiment.parameters["models"]
    ours, items = fold_means(outer_runs(experiment, first)), []
    means = estimates(experiment)["mean"]
    for other in others:
        gaps = fold_means(outer_runs(experiment, other)) - ours
        gap = estimate(gaps)
        items.append(
            f"{first} against {other}: on the same {len(gaps)} outer folds the mean squared error "
            f"of {first} is {number(abs(gap.mean), 2)} ± {number(gap.error, 2)} mpg² "
            f"{_side(gap.mean)}, {_seen(gap.mean, gap.error)}. It is the "
            f"lower one on {(gaps > 0).sum()} of the {len(gaps)} folds."
        )
        if {(first, "test"), (other, "test")} <= set(means.index):
            published = means[other, "test"] - means[first, "test"]
            items[-1] += (
                f" On the published test rows that of the recorded studies is "
                f"{number(abs(published), 2)} {_side(published)}."
            )
    return prose.bullets(items) if items else Html("")


@mpl.rc_context(figures.STYLE)
def difficulty(experiment: Experiment) -> Html:
    """Where the published split stands among random ones, for two untuned models."""
    frame = experiment.table("splits")
    figure, axes = figures.panels(2, 2, 2.5, sharey=True)
    drawn = frame[frame["split"] != PUBLISHED]
    told = []
    for axis, model in zip(axes, ("ridge", "forest"), strict=True):
        published = frame.loc[frame["split"] == PUBLISHED, model].item()
        axis.hist(drawn[model], 40, color=figures.PALETTE[0], alpha=0.6)
        axis.axvline(published, color=figures.PALETTE[3], lw=2, label="published split")
        axis.axvline(drawn[model].median(), color="k", lw=1, ls="--", label="median")
        title = {"ridge": "ridge", "forest": "random forest"}[model]
        axis.set(title=title, xlabel=f"test {printing.metric_title(DATASET)}")
        told.append(
            f"{title}: published {published:.2f}, median {drawn[model].median():.2f}, "
            f"{100 * place(frame, model):.0f} % of the random splits are easier"
        )
    axes[0].set_ylabel("random splits")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    caption = (
        f"Test error of two models with their library's settings on {len(drawn):,} random splits "
        "into 314 training and 78 test rows, and on the published one. Nothing was selected."
    )
    source = experiments.source(experiment, "splits")
    return figures.show(figure, f"Two histograms. {'; '.join(told)}.", caption, source)


def about_difficulty(experiment: Experiment) -> Html:
    """The place of the published split in words."""
    frame = experiment.table("splits")
    drawn = frame[frame["split"] != PUBLISHED]
    items = []
    for model, title in {"ridge": "Ridge regression", "forest": "Random forest"}.items():
        published, share = frame.loc[frame["split"] == PUBLISHED, model].item(), place(frame, model)
        usual = "within" if 0.05 <= share <= 0.95 else "outside"
        items.append(
            f"{title}: an MSE of {number(published, 2)} on the published test rows, a median of "
            f"{number(drawn[model].median(), 2)} on random ones (standard deviation "
            f"{number(drawn[model].std(), 2)}). {100 * share:.1f} % of the random splits are "
            f"easier than the published one: it lies {usual} the middle 90 % of them."
        )
    items += [together(frame), *carried(experiment)]
    return prose.bullets(items)


def together(frame: pd.DataFrame) -> str:
    """What a split says of one untuned model against the other, the split being shared."""
    gaps = frame["ridge"] - frame["forest"]
    published, drawn = gaps[frame["split"] == PUBLISHED].item(), frame["split"] != PUBLISHED
    correlation = frame.loc[drawn, ["ridge", "forest"]].corr().iloc[0, 1]
    return (
        f"The two on the same rows: the forest's error is {number(abs(published), 2)} mpg² "
        f"{_side(published)} than ridge's on the published rows, and in the median "
        f"{number(abs(gaps[drawn].median()), 2)} {_side(gaps[drawn].median())} on random ones. "
        f"It is the lower one on {(gaps[drawn] > 0).sum():,} of the {drawn.sum():,}; the "
        "difference is more in its favor than on the published rows on "
        f"{(gaps[drawn] > published).sum():,}. "
        f"Over the random splits the errors of the two correlate with {number(correlation, 2)}, "
        f"and their difference has a standard deviation of {number(gaps[drawn].std(), 2)}."
    )


def carried(experiment: Experiment, rows: int = 2) -> list[str]:
    """How much of the published test error the hardest cars carry, for the chapter's models and
    the linear one; nothing where one of the studies is not recorded."""
    models = [*experiment.parameters["models"], "linear"]
    studies = {model: headline(experiment, model) for model in models}
    if not all(studies.values()):
        return []
    losses = pd.DataFrame({model: frames.test_losses(study) for model, study in studies.items()})
    worst = losses.mean(axis=1).nlargest(rows).index
    shares, others = losses.loc[worst].sum() / losses.sum(), losses.drop(worst).mean()
    told = (f"{100 * shares[m]:.0f} % of it with {m} ({number(others[m], 2)})" for m in losses)
    return [
        f"What a few cars do: {rows} of the {len(losses)} published test cars carry much of the "
        "error of the recorded studies, and not the same part of each (in brackets the mean "
        f"squared error of the others): {', '.join(told)}."
    ]


def split_words(experiment: Experiment) -> Html:
    """What the gap is made of, model by model, for either outcome."""
    frame, items = estimates(experiment), []
    for model in experiment.parameters["models"]:
        own = frame.loc[model]
        if "test" not in own.index:
            items.append(f"{model}: its study of the published split is not recorded yet.")
            continue
        mean, error = own["mean"], own["se"]
        optimism, hard = mean["nested"] - mean["selection"], mean["test"] - mean["nested"]
        noise = math.hypot(error["test"], error["nested"])
        far = mean["test"] - mean["selection"]
        above = 1 if far > 0 else -1
        items.append(
            f"{model}: the error on the test part is {number(abs(far), 2)} mpg² "
            f"{'above' if far > 0 else 'below'} the score that selected. Selection accounts for "
            f"{number(above * optimism, 2)} of it, the published split, with a quarter more "
            f"rows to learn from, for {number(above * hard, 2)}, {_seen(hard, noise)}."
        )
    return prose.bullets(items)


def finding(experiment: Experiment) -> Html:
    """The chapter's finding in one sentence."""
    frame = estimates(experiment)
    told, shares, far = [], [], []
    for model in experiment.parameters["models"]:
        own, error = frame.loc[model, "mean"], frame.loc[model, "se"]
        if "test" in own.index:
            optimism, hard = own["nested"] - own["selection"], own["test"] - own["nested"]
            shares.append(abs(optimism) < abs(hard))
            noise = [math.hypot(error["nested"], error[name]) for name in ("selection", "test")]
            far += [_far(optimism, noise[0]), _far(hard, noise[1])]
            told.append(
                f"{number(optimism, 2)} ± {number(noise[0], 2)} of selection optimism and "
                f"{number(hard, 2)} ± {number(noise[1], 2)} of the published split for {model}"
            )
        else:
            told.append(f"a nested estimate of {number(own['nested'], 2)} for {model}")
    points = "By its estimates the gap between the selection score and the published test part"
    lead = (
        "Nested cross-validation gives"
        if not shares
        else f"{points} is mostly the split"
        if all(shares)
        else f"{points} is mostly selection"
        if not any(shares)
        else "The gap between selection score and published test part is not one thing"
    )
    joint = ": " if shares else " "
    near = ", each within two standard errors of zero" if far and not any(far) else ""
    return prose.led(f"{lead}{joint}{'; '.join(told)} (MSE in mpg², ± 1 standard error){near}.")


SHOWN = {
    "finding": finding,
    "bars": bars,
    "gap": gap,
    "split words": split_words,
    "procedures": procedures,
    "difficulty": difficulty,
    "about difficulty": about_difficulty,
}
