"""The figures of a results page, each made from recorded studies, with its alt text and caption.

A function returns the whole HTML figure. Colors are those of seaborn's color-blind palette and an
indigo, one a model wherever it appears, doubled by a marker; pictures are SVG, the same bytes for
the same data.
"""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Sequence

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure

from mononet import data, frames, printing, tables
from mononet.models import CATALOGUE
from mononet.printing import Html, significant
from mononet.search import MINIMIZED
from mononet.study import Study

WIDTH = 7.2  # inches: that of the text on a desktop
LEAST = 0.8  # of its size, on a narrow screen; what does not fit then scrolls
PALETTE = sns.color_palette("colorblind", 10)
# In the order of the catalogue. Yellow (8) cannot be seen on white, and gray is no model's.
INDIGO = mpl.colors.to_rgb("#332288")
SHADES = (*(PALETTE[i] for i in (0, 1, 2, 3, 4, 5, 6, 9)), INDIGO)
COLORS = dict(zip(CATALOGUE, SHADES, strict=True))
MARKERS = dict(zip(CATALOGUE, "osD^vX*hP", strict=True))
GRAY = "0.45"
STYLE = {
    "svg.hashsalt": "mononet",
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
}
TARGETS = {"auto_mpg": "mean prediction (mpg)", "blog": "mean prediction (comments ÷ 8)"}
SUBJECTS = dict(zip(data.SPECS, ("cars", "patients", "people", "posts", "loans"), strict=True))
SCALED = ("auto_mpg", "heart")  # features are z-scored with the training rows


def show(figure: Figure, alt: str, caption: str, source: str = "") -> Html:
    """A matplotlib figure as an HTML figure with an SVG inside; closes it. `source` is HTML."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    picture = base64.b64encode(buffer.getvalue()).decode()
    width = round(96 * figure.get_figwidth())
    return Html(
        f'<figure class="mn-figure"><div class="mn-wide"><img width="{width}" '
        f'style="min-width: {LEAST * width:.0f}px" alt="{html.escape(alt, quote=True)}" '
        f'src="data:image/svg+xml;base64,{picture}"></div><figcaption>{html.escape(caption)}'
        f"</figcaption></figure>{source}"
    )


def panels(count: int, across: int, height: float, **options):
    """A figure of so many panels, at most `across` a row; the unused ones are removed."""
    across = min(across, max(count, 1))
    down = math.ceil(count / across)
    size = (WIDTH, 0.4 + height * down)
    figure, axes = plt.subplots(down, across, figsize=size, squeeze=False, **options)
    for axis in axes.flat[count:]:
        axis.remove()
    return figure, list(axes.flat[:count])


def _bar(axis, low: float, high: float, y: float, **options) -> None:
    axis.plot([low, high], [y, y], solid_capstyle="butt", **options)


@mpl.rc_context(STYLE)
def noises(studies: Sequence[Study]) -> Html:
    """Test metric of every final seed with the IQM, and the error of one over rows."""
    spec = data.SPECS[studies[0].dataset]
    factor, frame = printing.scale(spec.metric), frames.estimators(studies)
    figure, (left, right) = panels(2, 2, 0.42 * len(studies) + 0.9, sharey=True)
    spots = np.random.default_rng(0)
    for y, study in enumerate(studies):
        color, row = COLORS[study.model], frame.loc[study.model]
        values = factor * study.runs("test")["value"].to_numpy()
        jitter = spots.uniform(-0.16, 0.16, len(values)) if len(values) > 1 else [0.0]
        left.plot(values, y + np.array(jitter), "o", ms=4, color=color, alpha=0.55, mew=0)
        if math.isfinite(row["iqm_low"]):
            _bar(left, factor * row["iqm_low"], factor * row["iqm_high"], y + 0.33, color="k", lw=2)
        left.plot(factor * row["iqm"], y + 0.33, "d", ms=6, color="k")
        _bar(right, np.nanmin(values), np.nanmax(values), y - 0.17, color=color, lw=6)
        first, error = values[0], factor * row["row_se"]
        _bar(right, first - error, first + error, y + 0.17, color=GRAY, lw=2)
        right.plot(first, y + 0.17, "|", ms=10, mew=2, color=GRAY)
    left.set_yticks(range(len(studies)), [study.model for study in studies])
    left.set_ylim(len(studies) - 0.4, -0.6)
    title = printing.metric_title(studies[0].dataset)
    left.set(title="train again (same test rows)", xlabel=f"test {title}")
    right.set(title="draw other test rows (wider scale)", xlabel=f"test {title}")
    for axis in (left, right):
        axis.grid(axis="x", color="0.9")
        axis.set_axisbelow(True)
    mean = tables.mean_std(spec.metric, frame["n"].max())
    told = "; ".join(
        f"{m} {mean(r)}, standard error over rows {printing.significant(factor * r['row_se'])}"
        for m, r in frame.iterrows()
    )
    caption = (
        "Two noises. Left: every dot is one training of the selected configuration, which differs "
        "from the others in its seed alone; the black diamond is the interquartile mean with its "
        "95 % interval, retraining only. Right, on another scale: the colored bar is the range of "
        "the same dots, the gray bar one training (the first final seed) ± 1 standard error over "
        "the test rows. More seeds narrow the diamond's interval and leave the gray bar as it is."
    )
    if still := [model for model, row in frame.iterrows() if row["std"] == 0]:
        caption += f" No colored bar: every seed of {' and '.join(still)} has the same value."
    alt = f"Test {title} of every seed, and its standard error over test rows: {told}."
    return show(figure, alt, caption, printing.source(studies, "runs.csv", "predictions.npz"))


@mpl.rc_context(STYLE)
def selection(studies: Sequence[Study]) -> Html:
    """CV-selection score and fresh folds against the test metric, with the diagonal."""
    metric = data.SPECS[studies[0].dataset].metric
    factor, frame = printing.scale(metric), frames.estimators(studies)
    figure, axis = plt.subplots(figsize=(0.65 * WIDTH, 0.62 * WIDTH))
    for model, row in frame.iterrows():
        score, fresh, mean = (factor * row[name] for name in ("cv_score", "fresh", "mean"))
        style = {"color": COLORS[model], "marker": MARKERS[model], "ms": 8, "ls": ""}
        axis.plot([score, fresh], [mean, mean], color=COLORS[model], lw=1, alpha=0.6)
        if math.isfinite(row["std"]):
            spread = [mean - factor * row["std"], mean + factor * row["std"]]
            axis.plot([score, score], spread, color=COLORS[model], lw=1.5)
        axis.plot(score, mean, label=model, **style)
        axis.plot(fresh, mean, mfc="w", **style)
    points = factor * frame[["cv_score", "fresh", "mean"]].to_numpy(dtype=float)
    margin = 0.06 * np.ptp(points[np.isfinite(points)]) + factor * frame["std"].fillna(0).max()
    ends = (np.nanmin(points) - margin, np.nanmax(points) + margin)
    axis.plot(ends, ends, color=GRAY, lw=1, ls="--", zorder=0, label="test = validation")
    title = printing.metric_title(studies[0].dataset)
    axis.set(xlim=ends, ylim=ends, aspect="equal")
    axis.set(xlabel=f"validation {title}", ylabel=f"test {title}, mean ± std")
    axis.legend(loc="best")
    told = "; ".join(
        f"{m}: selection {significant(factor * r['cv_score'], 4)}, fresh folds "
        f"{significant(factor * r['fresh'], 4)}, test {significant(factor * r['mean'], 4)}"
        for m, r in frame.iterrows()
    )
    caption = (
        "Validation against test. Filled: the score with which the configuration was selected, the "
        "mean of the trial with the best objective. Hollow: the same configuration on fresh folds "
        "of the same training rows. The way from filled to hollow is what other folds make of "
        "it, luck with those that selected among it; the way from hollow to the dashed diagonal is "
        "what the test part has of its own. The vertical bars are one standard deviation over "
        "seeds."
    )
    alt = f"Validation against test {title}. {told}."
    return show(figure, alt, caption, printing.source(studies, "trials.csv", "runs.csv"))


@mpl.rc_context(STYLE)
def curves(studies: Sequence[Study]) -> Html:
    """Learning curves of the selected configurations, a panel a model that has stages."""
    staged = [
        study for study in studies if study.record.read_csv("curves.csv")["epoch"].nunique() > 1
    ]
    if not staged:
        return Html("<p>The models recorded so far learn in one step and have no curve.</p>")
    spec = data.SPECS[studies[0].dataset]
    factor = printing.scale(spec.metric)
    figure, axes = panels(len(staged), 3, 2.1, sharey=True)
    told, learned = [], []
    for axis, study in zip(axes, staged, strict=True):
        rows = study.record.read_csv("curves.csv")
        for split, color in (("train", GRAY), ("validation", COLORS[study.model])):
            by_run = rows[rows["split"] == split].pivot_table(
                index="epoch", columns=["fold", "seed"], values="value"
            )
            axis.plot(factor * by_run, color=color, lw=0.5, alpha=0.35)
            axis.plot(factor * by_run.mean(axis=1), color=color, lw=2, label=split)
        axis.axvline(study.selected.stage, color="k", lw=1, ls=":")
        axis.set_title(study.model)
        boosted = study.model.startswith("hgb")
        axis.set_xlabel("boosting iteration" if boosted else "epoch")
        told.append(f"{study.model} chose {study.selected.stage}")
        learned += [by_run[np.isfinite(by_run) & (by_run > 0)].mean(axis=1).dropna().to_numpy()]
    if MINIMIZED[spec.metric]:
        values = factor * np.concatenate(learned)
        best, worst = values.min(), min(values.max(), 12 * values.min())
        # Half as much room below as above: training may leave the axis at the bottom, the first
        # epochs and collapsed runs at the top.
        _error_axis(axes, best / min(2.5, math.sqrt(worst / best)), worst)
    for axis in axes[::3]:
        axis.set_ylabel(printing.metric_title(studies[0].dataset))
    caption = (
        "Learning curves of the selected configurations on the folds that selected them: a thin "
        "line is one fold and seed, a thick one their mean, gray on training rows and colored on "
        "validation rows. The dotted line marks the epoch or iteration that was selected. "
        "What falls below the axis (boosting learns its training rows by heart) or above it is cut."
    )
    alt = f"Learning curves, selected epoch or iteration marked: {', '.join(told)}."
    return show(figure, alt, caption, printing.source(staged, "curves.csv"))


def _error_axis(axes, low: float, high: float) -> None:
    """The shared axis of an error, logarithmic where its ends are far apart."""
    axes[0].set_ylim(low, high)
    if high > 4 * low:
        axes[0].set_yscale("log")
        for axis in axes:
            plain_log(axis)


def plain_log(axis, subs: Sequence[int] = (1, 2, 3, 5, 7)) -> None:
    """Plain numbers on a logarithmic axis, at these multiples of the powers of ten."""
    axis.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=subs))
    axis.yaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda v, _: f"{v:g}"))
    axis.yaxis.set_minor_locator(mpl.ticker.NullLocator())


@mpl.rc_context(STYLE)
def effects(studies: Sequence[Study]) -> Html:
    """Mean prediction along each constrained feature, by model, over training rows."""
    rows = {study.model: study.record.read_csv("effects.csv") for study in studies}
    features = list(dict.fromkeys(next(iter(rows.values()))["feature"]))
    figure, axes = panels(len(features), min(len(features), 4), 3.1, sharey=True)
    for axis, feature in zip(axes, features, strict=True):
        for model, frame in rows.items():
            one = frame[frame["feature"] == feature].groupby("value")["mean"]
            mean, std = one.mean(), one.std(ddof=1).fillna(0.0)
            style = {"ls": "-" if CATALOGUE[model].name != "linear" else "--", "lw": 1.5}
            axis.plot(mean.index, mean, color=COLORS[model], label=model, **style)
            axis.fill_between(
                mean.index, mean - std, mean + std, color=COLORS[model], alpha=0.2, lw=0
            )
        unit = "standard deviations" if studies[0].dataset in SCALED else "published units"
        axis.set_xlabel(f"{feature}\n({unit})")
        axis.grid(color="0.92")
    axes[0].set_ylabel(TARGETS.get(studies[0].dataset, "mean predicted probability"))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    told = "; ".join(
        f"{f}: " + ", ".join(f"{m} {_fall(r, f)}" for m, r in rows.items()) for f in features
    )
    return show(
        figure,
        f"Mean prediction from the smallest to the largest value of each feature. {told}.",
        _effects_caption(studies),
        printing.source(studies, "effects.csv"),
    )


def _fall(rows, feature: str) -> str:
    mean = rows[rows["feature"] == feature].groupby("value")["mean"].mean()
    return f"{printing.significant(mean.iloc[0], 3)} to {printing.significant(mean.iloc[-1], 3)}"


def _effects_caption(studies: Sequence[Study]) -> str:
    free = [s.model for s in studies if s.model in ("linear", "mlp", "hgb")]
    text = (
        "What each constrained feature does to the prediction: the mean over training rows with "
        "this one column set to each of its quantiles in turn and all others left as they are. "
        "Line and band: mean and standard deviation over the final seeds."
    )
    if free:
        text += f" Not constrained: {', '.join(free)}."
    what = SUBJECTS[studies[0].dataset]
    return (
        f"{text} Some of these rows cannot exist; the curves describe the models, not the {what}."
    )


@mpl.rc_context(STYLE)
def trials(studies: Sequence[Study]) -> Html:
    """Objective of every trial in its order, best so far, and the trials that collapsed."""
    spec = data.SPECS[studies[0].dataset]
    minimized, factor = MINIMIZED[spec.metric], printing.scale(spec.metric)
    found = {s.model: factor * np.array([t.objective for t in s.trials()]) for s in studies}
    every = np.concatenate(list(found.values()))
    finite = every[np.isfinite(every)]
    good = finite.min() if minimized else finite.max()
    figure, axes = panels(len(studies), 3, 1.9, sharex=True, sharey=True)
    if minimized:
        worst = min(1.3 * np.quantile(finite, 0.99), 20 * good)
        _error_axis(axes, 0.9 * good, worst)
    else:
        worst = finite.min() - 0.05 * (good - finite.min()) - 1e-9
        axes[0].set(ylim=(worst, good + 0.05 * (good - worst)))
    for axis, (model, values) in zip(axes, found.items(), strict=True):
        trial, best = np.arange(len(values)), (np.fmin if minimized else np.fmax).accumulate(values)
        out = ~np.isfinite(values) | ((values > worst) if minimized else (values < worst))
        axis.plot(trial[~out], values[~out], "o", ms=3.5, color=COLORS[model], alpha=0.75)
        if out.any():  # on the edge of the panel, where the worst values would be
            edge = np.full(out.sum(), worst)
            axis.plot(trial[out], edge, "x", ms=6, mew=1.5, color="k", clip_on=False)
        axis.step(trial, best, where="post", color="k", lw=1.2)
        axis.set_title(model)
        axis.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    for axis in axes[::3]:
        axis.set_ylabel(f"objective\n({printing.UNITS[spec.name] if minimized else '%'})")
    for axis in axes[-3:]:
        axis.tick_params(labelbottom=True)
        axis.set_xlabel("trial")
    lost = {model: int((~np.isfinite(values)).sum()) for model, values in found.items()}
    told = "; ".join(
        f"{m} best {significant(float(np.min(v) if minimized else np.max(v)), 4)}, "
        f"{lost[m]} of {len(v)} trials collapsed"
        for m, v in found.items()
    )
    caption = (
        "The search, trial by trial. A dot is the objective of one configuration at its best "
        "epoch, the line the best so far; the first round is random. A cross at the edge: every "
        "epoch had a collapsed run (an infinitely bad objective), or the value is beyond the axis."
    )
    alt = f"Objective against trial number. {told}."
    return show(figure, alt, caption, printing.source(studies, "trials.csv"))
