"""Head collapse, the pictures: frames made from the recorded trainings, a table, three figures."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd

from mononet import figures, printing
from mononet.diagnostics.head_runs import HEADS, LOGIT_BINS, MPG_BINS
from mononet.experiments import Experiment, source
from mononet.layers import MODES
from mononet.printing import NONE, TITLES, Column, Html, number, significant

COLORS = dict(zip(HEADS, (figures.PALETTE[i] for i in (3, 1, 0)), strict=True))
LINES = dict(zip(MODES, ("-", "--"), strict=True))
CUT = 45  # % of rows: where the histograms end


def title(name: str) -> str:
    """A set of rows as it is printed."""
    dataset, comma, rest = name.partition(",")
    return TITLES.get(dataset, dataset.capitalize()) + comma + rest


def seeds(experiment: Experiment) -> pd.DataFrame:
    """A row a set, mode, head and seed: means over folds beside the trivial predictor's.

    ``better`` and ``better_yes``: more accurate than the base rate with one half counted as a no or
    a yes; ``better`` of a regression: a smaller MSE than that of the training mean.
    """
    runs, base = experiment.table("runs"), experiment.table("base")
    merged = runs.merge(base, on=["set", "fold"])
    keys = ["set", "task", "mode", "head", "seed"]
    frame = merged.groupby(keys, sort=False).mean(numeric_only=True).reset_index()
    classify = frame["task"] == "classification"
    gain = np.where(classify, 1, -1) * (frame["value"] - frame["trivial"])
    return frame.assign(better=gain > 0, better_yes=frame["value_yes"] > frame["trivial"])


def arms(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over the seeds of each arm, counts of ``better`` and of seeds."""
    groups = frame.groupby(["set", "task", "mode", "head"], sort=False)
    means = groups.mean(numeric_only=True)
    counts = groups[["better", "better_yes"]].sum()
    return means.assign(**counts, seeds=groups.size()).reset_index()


def chosen(frame: pd.DataFrame, **values: str) -> pd.DataFrame:
    """The rows that have these values in these columns."""
    return frame.loc[(frame[list(values)] == pd.Series(values)).all(axis=1)]


def table(experiment: Experiment) -> Html:
    """Every arm in numbers, a table for classification and one for regression."""
    runs = experiment.table("runs")
    keys = ["set", "mode", "head"]
    flat = runs.groupby(keys, sort=False)["constant"].agg(["sum", "size"]).reset_index()
    frame = seeds(experiment)
    spread = frame.groupby(keys, sort=False)["value"].std(ddof=1).rename("std").reset_index()
    whole = arms(frame).merge(flat, on=keys).merge(spread, on=keys)

    def percent(name: str, digits: int = 1):
        return lambda row: number(100 * row[name], digits)

    constant = Column("constant trainings", lambda row: f"{row['sum']} of {row['size']}")
    columns = {
        "classification": [
            Column("½ is a no", lambda r: printing.plus_minus(100 * r["value"], 100 * r["std"])),
            Column("½ is a yes", percent("value_yes")),
            Column("base rate", percent("trivial")),
            Column("called positive", percent("positive", 0)),
            Column("logit exactly 0", percent("tied", 0)),
            Column("smallest logit, mean", lambda row: number(row["smallest"], 1)),
            constant,
        ],
        "regression": [
            Column("MSE", lambda row: printing.plus_minus(row["value"], row["std"])),
            Column("MSE of the mean", lambda row: number(row["trivial"], 1)),
            Column("output exactly 0", percent("tied", 0)),
            constant,
        ],
    }
    notes = {
        "classification": "Accuracy on validation rows, mean ± standard deviation over seeds of "
        "the means over folds, in percent like the base rate and the shares of rows; called "
        "positive counts one half as a no. Smallest logit: of the rows of one training, the mean "
        "over trainings.",
        "regression": "On validation rows, in mpg², mean ± standard deviation over seeds of the "
        "means over folds. Shares of rows in percent.",
    }
    shown = Html("")
    for task, rows in whole.groupby("task", sort=False):
        rows.index = rows["set"].map(title) + ": " + rows["mode"] + ", " + rows["head"]
        caption = f"Every head, {task}"
        shown += printing.render(
            rows, columns[task], caption, notes[task], corner="rows: mode, head",
            source=source(experiment, "runs", "base"),
        )  # fmt: skip
    return shown


@mpl.rc_context(figures.STYLE)
def counts(experiment: Experiment) -> Html:
    """Heat maps: seeds no better than the trivial predictor by both counts, constant trainings."""
    runs, frame = experiment.table("runs"), seeds(experiment)
    keys = ["set", "mode", "head"]
    regress = frame["task"] == "regression"
    failed = frame.assign(
        no=~frame["better"], yes=np.where(regress, np.nan, ~frame["better_yes"])
    ).groupby(keys, sort=False)
    flat = runs.groupby(keys, sort=False)["constant"]
    of, trainings = failed.size().max(), flat.size().max()
    shown = (
        ("not better than trivial, ½ is a no", failed["no"].sum(), of),
        ("not better than trivial, ½ is a yes", failed["yes"].sum(min_count=1), of),
        ("constant trainings", flat.sum(), trainings),
    )
    names, columns = list(dict.fromkeys(frame["set"])), [(m, h) for m in MODES for h in HEADS]
    figure, axes = figures.panels(len(shown), 1, 0.29 * len(names) + 0.75)
    told = []
    for axis, (what, counted, of) in zip(axes, shown, strict=True):
        grid = np.array([[float(counted[(n, *c)]) for c in columns] for n in names])
        axis.imshow(np.nan_to_num(grid) / of, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for (y, x), value in np.ndenumerate(grid):
            text = NONE if np.isnan(value) else f"{value:.0f}"
            axis.text(x, y, text, ha="center", va="center", color="w" if value > of / 2 else "k")
        axis.set_yticks(range(len(names)), [title(n) for n in names])
        axis.set_xticks(range(len(columns)), [f"{m}\n{h}" for m, h in columns])
        axis.set_title(f"{what} (of {of})", loc="left")
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        worst = {f"{m} {h}": int(np.nansum(grid[:, x])) for x, (m, h) in enumerate(columns)}
        told.append(f"{what}: " + ", ".join(f"{a} {n}" for a, n in worst.items()))
    caption = (
        "Counts by set of rows, mode and head. Upper two: seeds whose mean over folds is no better "
        "than the trivial predictor, with a probability of exactly one half counted as a no, and "
        "as a yes. Below: single trainings that predict one value for all validation rows."
    )
    alt = f"Heat maps of counts, summed over sets: {'; '.join(told)}."
    return figures.show(figure, alt, caption, source(experiment, "runs", "base"))


@mpl.rc_context(figures.STYLE)
def outputs(experiment: Experiment) -> Html:
    """Trained outputs of mixed networks with a relu head and with the identity."""
    frame = experiment.table("outputs")
    names = list(dict.fromkeys(frame["set"]))
    heads = ("relu", "identity")
    figure, axes = figures.panels(2 * len(names), 2, 1.45)
    styles = {
        "0": ("class 0", figures.PALETTE[1]),
        "1": ("class 1", figures.PALETTE[0]),
        "prediction": ("prediction", figures.PALETTE[2]),
        "target": ("target", figures.GRAY),
    }
    tallest, drawn = {}, {}
    for axis, (name, head) in zip(axes, ((n, h) for n in names for h in heads), strict=True):
        rows = chosen(frame, set=name, head=head)
        for part, bars in rows.groupby("rows", sort=False):
            label, color = styles[part]
            width, share = np.diff(bars["left"]).mean(), 100 * bars["count"] / bars["count"].sum()
            style = {"histtype": "step", "lw": 1.6} if part == "target" else {"alpha": 0.55}
            edges = [*bars["left"], bars["left"].iloc[-1] + width]
            _, _, (drawn[label], *_) = axis.hist(
                bars["left"], edges, weights=share, color=color, **style
            )
            tallest[name] = max(tallest.get(name, 0), min(share.max(), CUT))
            if share.max() > CUT:  # a spike: its height in words, the rest at a readable scale
                at, above = bars["left"][share.idxmax()] + width, 0.9 - 0.2 * (part == "1")
                text = f" {share.max():.0f} % of {label}"
                axis.text(at, above * CUT, text, color=color, fontsize=9, va="center")
        raw = "mpg" in name and "prediction" in set(rows["rows"])
        axis.set_title(f"{title(name)}: {head}")
        axis.set_xlabel("prediction (mpg)" if raw else "logit")
        axis.set_xticks(MPG_BINS[::5] if raw else LOGIT_BINS[::8])
        if not raw:
            axis.axvline(0, color="k", lw=0.8, ls=":")
    for axis, name in zip(axes, (n for n in names for _ in heads), strict=True):
        axis.set_ylim(0, 1.05 * tallest[name])
    for axis in axes[::2]:
        axis.set_ylabel("rows (%)")
    figure.legend(drawn.values(), drawn, loc="outside lower center", ncols=len(drawn))
    below = {
        (n, h): 100 * r.loc[(r["left"] < 0) & r["rows"].isin(["0", "1"]), "count"].sum()
        / r["count"].sum()
        for (n, h), r in frame.groupby(["set", "head"], sort=False)
        if set(r["rows"]) == {"0", "1"}
    }  # fmt: skip
    told = "; ".join(f"{title(n)} with {h} {v:.0f} %" for (n, h), v in below.items() if h in heads)
    caption = (
        "Outputs of mixed networks after training, on the validation rows of the first fold, over "
        "all seeds: before the fix (left, a relu head) and after it (right, the identity). Shares "
        "are of each class; values beyond the axis stand at its ends, and a bar that is cut has "
        "its height beside it. Left of the dotted line a row is called negative. Below, "
        "predictions of a regression beside its target."
    )
    return figures.show(
        figure, f"Share of logits below zero: {told}.", caption, source(experiment, "outputs")
    )


@mpl.rc_context(figures.STYLE)
def curves(experiment: Experiment) -> Html:
    """Training loss of every arm with the floors of the relu and the elu head."""
    runs, base = experiment.table("runs"), experiment.table("base")
    names = list(dict.fromkeys(runs["set"]))
    columns = [name for name in runs.columns if name.startswith("loss_")]
    epochs = [int(name.removeprefix("loss_")) for name in columns]
    figure, axes = figures.panels(len(names), 2, 2.2)
    told = []
    for axis, name in zip(axes, names, strict=True):
        for mode in MODES:
            for head in HEADS:
                curve = chosen(runs, set=name, mode=mode, head=head)[columns].median()
                style = {"color": COLORS[head], "ls": LINES[mode], "lw": 1.8}
                axis.plot(epochs, curve, label=f"{mode}, {head}", **style)
                if (mode, head) == ("mixed", "relu"):
                    told.append(f"{title(name)} mixed relu {significant(curve.iloc[-1])}")
        for head in ("relu", "elu"):
            level = chosen(base, set=name)[f"floor_{head}"].mean()
            if level > 0:
                axis.axhline(level, color=COLORS[head], lw=1, ls=":")
        axis.set(yscale="log", title=title(name), xlabel="epoch")
        axis.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 3)))
        axis.yaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda v, _: f"{v:g}"))
        axis.yaxis.set_minor_locator(mpl.ticker.NullLocator())
        axis.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    for axis in axes[::2]:
        axis.set_ylabel("training loss")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        "Training loss, median over folds and seeds: cross-entropy of two classes, squared error "
        "in units of the target's variance. The dotted lines are the floors of the mixed heads of "
        "their color, known before any training. Where there is none, the floor is zero."
    )
    alt = f"Training loss against epoch, last values: {'; '.join(told)}."
    return figures.show(figure, alt, caption, source(experiment, "runs", "base"))
