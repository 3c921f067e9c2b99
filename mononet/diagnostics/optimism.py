"""Selection optimism: the best of k noisy scores promises more than what it selects can hold.

Simulated on k configurations that are equally good, where every advantage is luck; measured on the
recorded trials of the studies, by reading a selection on folds that it did not see.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from scipy import stats

from mononet import data, experiments, figures, frames, printing, prose, statistics
from mononet.experiments import Chapter, Experiment
from mononet.printing import NONE, TITLES, Column, Html, number, render, significant
from mononet.search import MINIMIZED, Trial, one_sigma_bound
from mononet.study import Study, recorded_studies

CHOICES = (1, 2, 5, 10, 20, 50, 100, 200)
QUANTILES = (0.05, 0.5, 0.95)
ORDERS = 400  # random orders of a study's trials


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters (other names are left alone), checked."""
    return experiments.open_chapter("selection_optimism", given, PARTS, SHOWN)


# --- simulated --------------------------------------------------------------------------------


def simulate(k: int, noise_sd: float, truth: float, repetitions: int, seed: int) -> pd.DataFrame:
    """Loss of the best of `k` equally good configurations, and of the same one on fresh rows.

    A row a repetition. Every score is N(truth, noise_sd²); selection takes the smallest of k.
    """
    rng = np.random.default_rng([seed, k])
    best = rng.normal(truth, noise_sd, (repetitions, k)).min(axis=1)
    return pd.DataFrame({"best": best, "fresh": rng.normal(truth, noise_sd, repetitions)})


def _simulated(values: Mapping, k: int) -> pd.DataFrame:
    names = ("noise_sd", "truth", "repetitions", "simulation_seed")
    return simulate(k, *(values[name] for name in names)).round(6)


def simulated(experiment: Experiment) -> pd.DataFrame:
    """Every repetition with the number of configurations that the parameters name."""
    return _simulated(experiment.parameters, experiment.parameters["configurations"])


def by_number(experiment: Experiment) -> pd.DataFrame:
    """Mean and quantiles of the best score and of the fresh one, a row a number of choices."""
    truth = experiment.parameters["truth"]
    rows = []
    for k in sorted({*CHOICES, experiment.parameters["configurations"]}):
        drawn = _simulated(experiment.parameters, k)
        row = {"k": k, "best": drawn["best"].mean(), "fresh": drawn["fresh"].mean()}
        row |= {f"best_{q:g}": drawn["best"].quantile(q) for q in QUANTILES}
        row |= {"below_truth": (drawn["best"] < truth).mean()}
        row |= {"fresh_below_truth": (drawn["fresh"] < truth).mean()}
        rows.append(row)
    return pd.DataFrame(rows)


PARTS = {"simulated": simulated, "by_number": by_number}


@mpl.rc_context(figures.STYLE)
def distribution(experiment: Experiment) -> Html:
    """The whole distribution of the best of k and of its fresh score, with the density."""
    values, drawn = experiment.parameters, experiment.table("simulated")
    k, sd, truth = values["configurations"], values["noise_sd"], values["truth"]
    figure, (axis,) = figures.panels(1, 1, 2.8)
    ends = drawn.to_numpy().min(), drawn.to_numpy().max()
    bins = np.linspace(*ends, 50)
    colors = {"best": figures.PALETTE[3], "fresh": figures.PALETTE[0]}
    labels = {"best": f"best of {k}, as reported", "fresh": "the same one on fresh rows"}
    for name, label in labels.items():
        style = {"color": colors[name], "alpha": 0.45, "label": label}
        axis.hist(drawn[name], bins, density=True, **style)
    x = np.linspace(*ends, 300)
    one = stats.norm(truth, sd)
    # The smallest of k independent scores exceeds x when all of them do.
    axis.plot(x, k * one.pdf(x) * one.sf(x) ** (k - 1), color=colors["best"], lw=1.8)
    axis.plot(x, one.pdf(x), color=colors["fresh"], lw=1.8, ls="--")
    axis.axvline(truth, color="k", lw=1, label="truth, the same for all")
    axis.set(xlabel="loss", ylabel="density (1 / loss)")
    axis.legend(loc="upper left", fontsize=9)
    axis.set_ylim(top=1.35 * axis.get_ylim()[1])
    caption = (
        f"What the best of {k} equally good configurations reports (solid curve: its density) and "
        f"what it then gets on rows that had no part in choosing it (dashed), over "
        f"{len(drawn):,} repetitions. Selection moves the distribution as a whole and narrows it, "
        "so that a report looks not only better than the truth but also surer."
    )
    means = drawn.mean()
    alt = (
        f"Two histograms of a loss. The best of {k} has mean {means['best']:.4f} and standard "
        f"deviation {drawn['best'].std():.4f}, the fresh score {means['fresh']:.4f} and "
        f"{drawn['fresh'].std():.4f}; the truth is {truth:g}."
    )
    return figures.show(figure, alt, caption, experiments.source(experiment, "simulated"))


def numbers(experiment: Experiment) -> Html:
    """The table of the best score by the number of configurations chosen among."""
    frame, truth = experiment.table("by_number").set_index("k"), experiment.parameters["truth"]
    sd = experiment.parameters["noise_sd"]
    digits = printing.decimals(sd)

    def loss(name: str):
        return lambda row: number(row[name], digits)

    columns = [
        Column("best, mean", loss("best")),
        Column("5 to 95 %", lambda row: f"{loss('best_0.05')(row)} to {loss('best_0.95')(row)}"),
        Column("better than the truth", lambda row: f"{100 * row['below_truth']:.1f} %"),
        Column("on fresh rows, mean", loss("fresh")),
        Column("optimism", lambda row: number(row["fresh"] - row["best"], digits)),
        Column("in sd of the noise", lambda row: number((row["fresh"] - row["best"]) / sd, 1)),
    ]
    note = (
        f"Truth {truth:g} for every configuration, noise of standard deviation {sd:g} on a score, "
        f"{experiment.parameters['repetitions']:,} repetitions a row; k is the number of "
        "configurations chosen among."
    )
    source = experiments.source(experiment, "by_number")
    title = "Best of k equally good configurations (a loss)"
    return render(frame, columns, title, note, source=source, corner="k")


# --- measured ---------------------------------------------------------------------------------


def held_back(
    trials: Sequence[Trial], kind: str, minimized: bool, orders: int, seed: int
) -> pd.DataFrame:
    """The selection repeated without each fold in turn: a row an order, a fold and a number k.

    The first k trials of a random order are the search; `kind` (risk_adjusted or mean) over the
    other folds selects; `optimism` is by how much the held-back fold is worse than the other folds'
    mean, for the trial so selected. For a trial chosen without looking it is zero over all folds,
    however much harder one is than another. Trials without a finite objective are left out, as
    they are in a search. Empty where there is no second fold.
    """
    kept = [trial for trial in trials if np.isfinite(trial.objective)]
    sign = 1.0 if minimized else -1.0
    values = sign * np.array([trial.values for trial in kept])  # (trials, folds, seeds), losses
    count, folds, _ = values.shape
    rng, rows = np.random.default_rng(seed), []
    order = np.array([rng.permutation(count) for _ in range(orders)])
    for fold in range(folds if folds > 1 else 0):
        seen = np.delete(values, fold, axis=1).reshape(count, -1)
        worse = values[:, fold].mean(axis=1) - seen.mean(axis=1)
        objective = np.array([one_sigma_bound(each, True, kind) for each in seen])
        for k in sorted({*(k for k in CHOICES if k < count), count}):
            first = order[:, :k]
            best = first[np.arange(orders), objective[first].argmin(axis=1)]
            rows.append(pd.DataFrame({"k": k, "fold": fold, "optimism": worse[best]}))
    return pd.concat(rows) if rows else pd.DataFrame(columns=["k", "fold", "optimism"])


def by_trials(study: Study) -> pd.DataFrame:
    """Optimism by number k of recorded trials: mean over folds, smallest and largest fold."""
    minimized = MINIMIZED[data.SPECS[study.dataset].metric]
    kind = study.parameters["objective"]
    rows = held_back(study.trials(), kind, minimized, ORDERS, statistics.SEED)
    folds = rows.groupby(["k", "fold"])["optimism"].mean().groupby("k")
    return folds.agg(["mean", "min", "max"]).round(12)  # zero where nothing changes


def measured(found: Sequence[Study]) -> pd.DataFrame:
    """A row a study: CV score, fresh folds, their gap with the sd of a partition, and the optimism
    that its recorded trials show when folds are held back."""
    rows = {}
    for study in found:
        minimized = MINIMIZED[data.SPECS[study.dataset].metric]
        runs = study.runs("validation")
        score, fresh = study.selected.mean, frames.fresh_mean(runs)
        gap = (fresh - score) * (1 if minimized else -1)
        noise = frames.partition_noise(runs)
        row = {"cv_score": score, "fresh": fresh, "gap": gap, "noise": noise}
        several = by_trials(study)
        held = several.iloc[-1] if len(several) else {"mean": np.nan, "min": np.nan, "max": np.nan}
        rows[study.dataset, study.model] = row | {f"held_{name}": v for name, v in held.items()}
    return pd.DataFrame(rows).T.rename_axis(["dataset", "model"])


def recorded(experiment: Experiment) -> Html:
    """The table of the recorded studies."""
    found = recorded_studies(experiment.parameters["studies_dir"])
    if not found:
        return nothing()
    frame = measured(found)
    printed = frame.reset_index()
    printed.index = printed["dataset"].map(TITLES) + ", " + printed["model"]

    def value(name: str):
        def text(row: Mapping) -> str:
            metric = data.SPECS[row["dataset"]].metric
            return number(printing.scale(metric) * row[name], 4 if metric == "rmse" else 2)

        return text

    fresh, held = "fresh folds − selection", "one fold held back"
    columns = [
        Column("selection", value("cv_score"), group="validation value"),
        Column("fresh folds", value("fresh"), group="validation value"),
        Column("optimism", value("gap"), group=fresh),
        Column("noise (sd)", value("noise"), group=fresh),
        Column("optimism, mean", value("held_mean"), group=held),
        Column(
            "by fold",
            lambda row: f"{value('held_min')(row)} to {value('held_max')(row)}"
            if math.isfinite(row["held_min"])
            else NONE,
            group=held,
        ),
    ]  # fmt: skip
    titles = ", ".join(
        f"{TITLES[d]} {printing.metric_title(d)}" for d in printed["dataset"].unique()
    )
    note = (
        f"{titles}. Optimism is positive where the selection promised more than came. Noise: by "
        "how much another partition into folds moves such a difference, from the fresh partitions "
        "of the study. One fold held back: the study's own objective selects among its own trials "
        "on the other folds, and the choice is read on that one, each in turn. The values by fold "
        "differ so much because folds are hard or easy for every trial, which cancels in their "
        "mean; it is 0 where the same trial is selected whichever fold is missing."
    )
    return render(
        printed,
        columns,
        "Optimism of the recorded selections",
        note,
        source=printing.source(found, "trials.csv", "runs.csv"),
        corner="study",
        numbers=frame,
    )


@mpl.rc_context(figures.STYLE)
def growth(experiment: Experiment) -> Html:
    """Measured optimism against the number of recorded trials chosen among, a panel a dataset."""
    found = recorded_studies(experiment.parameters["studies_dir"])
    found = [each for each in found if each.trials()[0].values.shape[0] > 1]
    if not found:
        return nothing()
    datasets = list(dict.fromkeys(study.dataset for study in found))
    figure, axes = figures.panels(len(datasets), 2, 2.8)
    told = []
    for axis, dataset in zip(axes, datasets, strict=True):
        spec = data.SPECS[dataset]
        factor, longest = printing.scale(spec.metric), []
        for study in (each for each in found if each.dataset == dataset):
            curve = factor * by_trials(study)["mean"]
            longest = max(longest, list(curve.index), key=lambda ks: ks[-1:])
            style = {"color": figures.COLORS[study.model], "marker": figures.MARKERS[study.model]}
            axis.plot(curve.index, curve, ms=5, lw=1.2, label=study.model, **style)
            told.append(f"{TITLES[dataset]} {study.model} {significant(curve.iloc[-1])}")
        axis.axhline(0, color=figures.GRAY, lw=1)
        axis.set(xscale="log", title=TITLES[dataset], xlabel="trials chosen among")
        axis.set_xticks(longest, [str(k) for k in longest])
        axis.minorticks_off()
        axis.set_ylabel(f"optimism ({prose.unit_of(dataset).strip()})")
    handles = {
        h.get_label(): h for axis in axes for h in axis.get_lines() if h.get_label()[0] != "_"
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, fontsize=9)
    caption = (
        "What a selection on all folds but one promised beyond what the held-back fold gave, mean "
        "over the folds, when it chose among so many of the study's recorded trials, drawn at "
        "random. With one trial nothing is selected and the mean difference is zero."
    )
    alt = f"Optimism against the number of trials. With all of them: {'; '.join(told)}."
    return figures.show(figure, alt, caption, printing.source(found, "trials.csv"))


def nothing() -> Html:
    """Instead of a table or figure while no study is recorded."""
    return printing.box("missing", "No study is recorded yet", printing.commands("make studies"))


# --- words ------------------------------------------------------------------------------------


def finding(experiment: Experiment) -> Html:
    """The chapter's finding in one sentence."""
    values, drawn = experiment.parameters, experiment.table("simulated")
    digits = printing.decimals(values["noise_sd"])
    means = drawn.mean()
    promised = number(means["fresh"] - means["best"], digits)
    best, fresh = (number(means[name], digits) for name in ("best", "fresh"))
    told = (
        f"The best of {values['configurations']} configurations that are all worth "
        f"{number(values['truth'], digits)} reports {best} on average, and {fresh} on rows that "
        f"had no part in choosing it: {promised} of the score is nothing but selection."
    )
    return Html(
        prose.paragraph(told).replace("<p>", "<p><strong>").replace("</p>", "</strong></p>")
    )


def spread(experiment: Experiment) -> Html:
    """What the distribution says beyond its mean."""
    values, drawn = experiment.parameters, experiment.table("simulated")
    k, truth = values["configurations"], values["truth"]
    below = (drawn["best"] < truth).mean()
    # By so many repetitions that the third digit, which is printed, stands.
    expected = truth - statistics.expected_best_of(k, values["noise_sd"], truth, 400_000)
    ratio = drawn["best"].std() / drawn["fresh"].std()
    return prose.paragraph(
        f"In {100 * below:.1f} % of the repetitions the report is better than the truth, where an "
        f"honest score is so in {100 * (drawn['fresh'] < truth).mean():.0f} %; with k equally good "
        f"configurations all k must be unlucky for it to fail, which happens once in 2 to the "
        f"power of k, here {100 * 0.5**k:.2g} % of the time. The mean shift of "
        f"{significant(truth - drawn['best'].mean(), 3)} is the one that the normal distribution "
        f"predicts ({significant(expected, 3)}). And the reports of different repetitions vary "
        f"{ratio:.2f} times as much as honest scores do, so that repeating the whole procedure "
        "and finding the same value again does not show that the value is right."
    )


def verdict(experiment: Experiment) -> Html:
    """What the recorded studies show, for either outcome."""
    found = recorded_studies(experiment.parameters["studies_dir"])
    if not found:
        return nothing()
    frame = measured(found).astype(float)
    positive, total = int((frame["gap"] > 0).sum()), len(frame)
    beyond = int((frame["gap"].abs() > 2 * frame["noise"]).sum())
    held = frame["held_mean"].dropna()
    items = []
    for dataset in frame.index.get_level_values("dataset").unique():
        rows, factor = frame.loc[dataset], printing.scale(data.SPECS[dataset].metric)
        text = (
            f"{TITLES[dataset]}: mean optimism over the studies recorded, "
            f"{significant(factor * rows['gap'].mean())}{prose.unit_of(dataset)} by fresh folds"
        )
        if rows["held_mean"].notna().any():
            text += f", {significant(factor * rows['held_mean'].mean())} with a fold held back"
        items.append(f"{text}.")
    several = "selections" if total > 1 else "selection"
    return prose.paragraph(
        f"Of {total} recorded {several}, {positive or 'none'} did worse on fresh folds than the "
        f"score that selected them and {total - positive or 'none'} as well or better; differences "
        f"of more than twice the noise of a partition: {beyond or 'none'}. With one fold held "
        f"back, which judges a selection for every fold instead of one, the mean optimism is "
        f"positive in {int((held > 0).sum()) or 'none'} of {len(held)}."
    ) + prose.bullets(items)


SHOWN = {
    "finding": finding,
    "distribution": distribution,
    "spread": spread,
    "numbers": numbers,
    "recorded": recorded,
    "growth": growth,
    "verdict": verdict,
}
