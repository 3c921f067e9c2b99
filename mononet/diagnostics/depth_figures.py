"""Depth explosion, the pictures: growth, rank, scales, and what training makes of the stacks."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd

from mononet import data, figures, printing
from mononet.diagnostics import depth_start
from mononet.experiments import Experiment, source
from mononet.layers import MODES
from mononet.printing import TITLES, Column, Html, number, significant

KINDS = {False: "plain", True: "residual"}
COLORS = dict(zip(KINDS.values(), (figures.PALETTE[3], figures.PALETTE[0]), strict=True))
SHADES = [figures.PALETTE[i] for i in (9, 2, 4, 1, 7, 5)]


def failures(runs: pd.DataFrame) -> pd.DataFrame:
    """A row an arm: seeds, those that are constant or not finite, those better than trivial, mean
    value, start and end of the loss."""
    minimized = runs["dataset"].map(lambda name: data.SPECS[name].metric != "accuracy")
    gain = np.where(minimized, -1, 1) * (runs["value"] - runs["trivial"])
    runs = runs.assign(
        failed=runs["constant"] | runs["non_finite"], better=gain > 0, gain=gain, seeds=1
    )
    keys = ["dataset", "mode", "residual", "depth", "learning_rate"]
    groups = runs.groupby(keys, sort=False)
    sums = groups[["seeds", "failed", "constant", "non_finite", "better"]].sum()
    means = groups[["value", "trivial", "gain", "loss_start", "loss_end"]].mean()
    return sums.join(means).reset_index()


def best(runs: pd.DataFrame) -> pd.DataFrame:
    """Of each dataset, mode, construction and depth the learning rate with the fewest failed seeds,
    then the best mean value; the selection is by the values that are shown."""
    order = failures(runs).sort_values(["failed", "gain"], ascending=[True, False], kind="stable")
    keys = ["dataset", "mode", "residual", "depth"]
    return order.drop_duplicates(keys).sort_values(keys, kind="stable").reset_index(drop=True)


def _plain_ticks(axis) -> None:
    axis.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda v, _: f"{v:g}"))
    axis.yaxis.set_minor_formatter(mpl.ticker.NullFormatter())


@mpl.rc_context(figures.STYLE)
def growth(experiment: Experiment) -> Html:
    """sd against layer, plain and residual, with the law drawn through the plain stacks."""
    frame = experiment.table("start")
    widths = sorted(experiment.parameters["widths"])
    figure, axes = figures.panels(2, 2, 3.4, sharey=True)
    told, start = [], depth_start.SETTLED
    for axis, mode in zip(axes, MODES, strict=True):
        for width, color in zip(widths, SHADES, strict=False):
            for grid, style in (("width", "o"), ("residual", "^")):
                rows = frame[
                    (frame["grid"] == grid) & (frame["mode"] == mode)
                    & (frame["activation"] == "elu") & (frame["width"] == width)
                ]  # fmt: skip
                at, sd = rows["layer"].to_numpy(), rows["sd"].to_numpy()
                axis.fill_between(at, rows["sd_low"], rows["sd_high"], color=color, alpha=0.2, lw=0)
                name = f"width {width}" if grid == "width" else None
                axis.plot(at, sd, style, ms=3.5, color=color, label=name)
                told.append(f"{mode} {grid} {width}: {sd[-1]:.2g}".replace(" width ", " plain "))
                if grid == "width":
                    factor = depth_start.law(depth_start.Setting("width", mode, "elu", width))
                    axis.plot(at, sd[start] * factor ** (at - start), color=color, lw=1)
        axis.set(yscale="log", title=mode, xlabel="layer or block")
        axis.set_xticks(range(0, depth_start.LAYERS + 1, 5))
        axis.plot([], [], "^", ms=3.5, color="k", label="residual blocks")
        axis.plot([], [], "-", lw=1, color="k", label="the law, through layer 5")
    axes[0].set_ylabel("sd of the activations")
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3)
    caption = (
        "Scale of the activations on standard-normal input, at the start. Dots: plain stacks with "
        "He's normal weights; triangles: residual blocks as the networks of this book are drawn; "
        "elu, half of the units convex, median over seeds, the band from the smallest to the "
        "largest. The lines have the slope of the law and are laid through layer 5."
    )
    alt = f"sd after the last layer: {'; '.join(told)}."
    return figures.show(figure, alt, caption, source(experiment, "start"))


@mpl.rc_context(figures.STYLE)
def rank(experiment: Experiment) -> Html:
    """Effective rank against layer, plain and residual."""
    frame = experiment.table("start")
    widths = sorted(experiment.parameters["widths"])
    figure, axes = figures.panels(2, 2, 3.2, sharey=True)
    for axis, mode in zip(axes, MODES, strict=True):
        for width, color in zip(widths, SHADES, strict=False):
            for grid, style in (("width", "-"), ("residual", "--")):
                rows = frame[
                    (frame["grid"] == grid) & (frame["mode"] == mode)
                    & (frame["activation"] == "elu") & (frame["width"] == width)
                ]  # fmt: skip
                label = f"width {width}" if grid == "width" else None
                axis.plot(rows["layer"], rows["rank"], style, color=color, lw=1.8, label=label)
        axis.set(yscale="log", title=mode, xlabel="layer or block")
        axis.set_xticks(range(0, depth_start.LAYERS + 1, 5))
        axis.plot([], [], "--", lw=1.8, color="k", label="residual blocks")
        _plain_ticks(axis)
    axes[0].set_ylabel("effective rank")
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3)
    three = frame[(frame["layer"] == 3) & (frame["activation"] == "elu")]
    told = "; ".join(
        f"{m} {g} {significant(r['rank'].min(), 3)} to {significant(r['rank'].max(), 3)}"
        for (m, g), r in three[three["grid"].isin(["width", "residual"])].groupby(["mode", "grid"])
    )
    caption = (
        "Effective rank of the activations: the exponential of the entropy of their covariance's "
        "eigenvalues. Solid: plain stacks; dashed: residual blocks; settings as in the figure "
        "before. At 1 all units rise and fall together."
    )
    return figures.show(
        figure, f"Effective rank after layer 3: {told}.", caption, source(experiment, "start")
    )


@mpl.rc_context(figures.STYLE)
def scales(experiment: Experiment) -> Html:
    """Factor a layer and effective rank after layer 3 against the scalar scale of the weights."""
    frame = depth_start.growth(experiment.table("start"))
    frame = frame[frame["grid"] == "scale"].sort_values("scale")
    figure, (left, right) = figures.panels(2, 2, 3.0)
    told = []
    for mode, line in zip(MODES, ("-", "--"), strict=True):
        for activation, color in (("relu", figures.PALETTE[3]), ("elu", figures.PALETTE[0])):
            rows = frame[(frame["mode"] == mode) & (frame["activation"] == activation)]
            style = {"ls": line, "color": color, "marker": "o", "ms": 3.5}
            left.plot(rows["scale"], rows["factor"], label=f"{mode}, {activation}", **style)
            right.plot(rows["scale"], rows["rank_3"], **style)
            told.append(
                f"{mode} {activation} {rows['rank_3'].min():.2f}–{rows['rank_3'].max():.2f}"
            )
    left.plot(rows["scale"], rows["law"], color="k", lw=1, ls=":", label="the law")
    left.axhline(1, color="0.7", lw=0.8, zorder=0)
    left.set(xscale="log", yscale="log", ylabel="factor a layer")
    right.set(xscale="log", ylabel="effective rank after layer 3", ylim=(0.95, None))
    for axis in (left, right):
        axis.set_xlabel("scale c of He's normal weights")
        axis.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda v, _: f"{v:g}"))
    _plain_ticks(left)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        f"What a scalar can do, at width {frame['width'].iloc[0]}: it moves the growth, through 1 "
        "if one wants, and gives no effective rank back. With elu the small scales have a regime "
        "of their own: small activations do not reach the bend, every unit is nearly linear, and "
        "the factor tends to twice the law's."
    )
    alt = f"Effective rank after layer 3 over all scales: {'; '.join(told)}."
    return figures.show(figure, alt, caption, source(experiment, "start"))


@mpl.rc_context(figures.STYLE)
def trained(experiment: Experiment) -> Html:
    """Scale and rank by layer on the rows of Auto MPG, before and after training."""
    frame = experiment.table("layers")
    figure, axes = figures.panels(4, 2, 2.3, sharex=True)
    told = []
    for column, mode in enumerate(MODES):
        for residual, kind in KINDS.items():
            for moment, line in (("start", "--"), ("trained", "-")):
                rows = frame[
                    (frame["mode"] == mode) & (frame["residual"] == residual)
                    & (frame["moment"] == moment)
                ]  # fmt: skip
                style = {"ls": line, "color": COLORS[kind], "lw": 1.8}
                axes[column].plot(rows["layer"], rows["sd"], label=f"{kind}, {moment}", **style)
                axes[2 + column].plot(rows["layer"], rows["rank"], **style)
                last = significant(rows["rank"].iloc[-1], 3)
                told.append(f"{mode} {kind} {moment} {last}")
        axes[column].set(yscale="log", title=mode)
        axes[2 + column].set(yscale="log", xlabel="layer or block")
        _plain_ticks(axes[2 + column])
    axes[0].set_ylabel("sd of the activations")
    axes[2].set_ylabel("effective rank")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    row = frame.iloc[0]
    caption = (
        f"The same on the training rows of Auto MPG, in networks of width "
        f"{experiment.parameters['width']} and depth {row['depth']}, before training and after it "
        f"(learning rate {row['learning_rate']:g}), medians over seeds. Layer 0 is what enters the "
        "monotone stack: the constrained columns and the embedding of the free ones."
    )
    alt = f"Effective rank after the last layer: {'; '.join(told)}."
    return figures.show(figure, alt, caption, source(experiment, "layers"))


def _panels(runs: pd.DataFrame, height: float, **options):
    """A panel a dataset and mode, with its arms."""
    frame = failures(runs)
    keys = [(d, m) for d in dict.fromkeys(frame["dataset"]) for m in MODES]
    figure, axes = figures.panels(len(keys), 2, height, **options)
    parts = [frame[(frame["dataset"] == d) & (frame["mode"] == m)] for d, m in keys]
    return figure, list(zip(axes, keys, parts, strict=True))


@mpl.rc_context(figures.STYLE)
def counts(experiment: Experiment) -> Html:
    """Heat maps of the seeds that ended constant, not finite, or no better than trivial."""
    runs, depths = experiment.table("trainings"), experiment.parameters["depths"]
    rows = [(depth, kind) for depth in depths for kind in KINDS]
    figure, parts = _panels(runs, 0.3 * len(rows) + 0.8)
    told = []
    for position, (axis, (dataset, mode), part) in enumerate(parts):
        lost = (part["seeds"] - part["better"]).to_numpy()
        grid = part.assign(lost=lost).pivot(
            index=["depth", "residual"], columns="learning_rate", values="lost"
        )
        grid = grid.reindex(rows)
        of = int(part["seeds"].max())
        axis.imshow(grid.to_numpy(dtype=float) / of, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for (y, x), value in np.ndenumerate(grid.to_numpy()):
            color = "w" if value > of / 2 else "k"
            axis.text(x, y, f"{value:.0f}", ha="center", va="center", color=color)
        labels = [f"{KINDS[k]} {d}" for d, k in rows] if position % 2 == 0 else [""] * len(rows)
        axis.set_yticks(range(len(rows)), labels)
        axis.set_xticks(range(grid.shape[1]), [f"{rate:g}" for rate in grid.columns])
        axis.set(title=f"{TITLES[dataset]}, {mode}", xlabel="learning rate")
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        for residual, kind in KINDS.items():
            n = int(lost[(part["residual"] == residual).to_numpy()].sum())
            told.append(f"{TITLES[dataset]} {mode} {kind} {n}")
    caption = (
        f"Seeds of {of} that are not better than the trivial predictor on the validation rows "
        "(constant and non-finite runs among them), by construction and depth, and learning rate."
    )
    alt = f"Heat maps of counts, summed over depths and learning rates: {'; '.join(told)}."
    return figures.show(figure, alt, caption, source(experiment, "trainings"))


@mpl.rc_context(figures.STYLE)
def values(experiment: Experiment) -> Html:
    """Training loss at the end against depth, at each arm's best learning rate."""
    chosen = best(experiment.table("trainings"))
    figure, axes = figures.panels(2 * chosen["dataset"].nunique(), 2, 2.3, sharex=True)
    told = []
    for row, (dataset, part) in enumerate(chosen.groupby("dataset", sort=False)):
        factor = printing.scale(data.SPECS[dataset].metric)
        panes = (("loss_end", 1, "training loss"), ("value", factor, ""))
        for axis, (name, scale, title) in zip(axes[2 * row :], panes, strict=False):
            for mode, line in zip(MODES, ("-", "--"), strict=True):
                for residual, kind in KINDS.items():
                    arm = part[(part["mode"] == mode) & (part["residual"] == residual)]
                    style = {"ls": line, "color": COLORS[kind], "marker": "o", "ms": 4}
                    axis.plot(arm["depth"], scale * arm[name], label=f"{mode}, {kind}", **style)
                    if name == "value":
                        ends = " to ".join(number(scale * v, 1) for v in arm[name].iloc[[0, -1]])
                        told.append(f"{TITLES[dataset]} {mode} {kind} {ends}")
            if name == "value":
                axis.axhline(scale * part["trivial"].mean(), color=figures.GRAY, lw=1, ls=":")
            axis.set_title(TITLES[dataset])
            axis.set_ylabel(title or f"validation {printing.metric_title(dataset)}")
            axis.set_xticks(sorted(chosen["depth"].unique()))
            axis.set_xlabel("depth (layers or blocks)")
            axis.tick_params(labelbottom=True)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    caption = (
        "Plain and residual stacks against depth, each at the learning rate that served it best: "
        "training loss at the end (left) and the metric on validation rows (right), means over "
        "seeds. Dotted: the trivial predictor."
    )
    alt = f"Validation metric from the smallest to the largest depth: {'; '.join(told)}."
    return figures.show(figure, alt, caption, source(experiment, "trainings"))


def table(experiment: Experiment) -> Html:
    """Measured factor a layer beside the law, for every kind of stack but those of other scales."""
    frame = depth_start.growth(experiment.table("start"))
    frame = frame[frame["grid"].isin(["width", "fraction", "scheme"])].reset_index(drop=True)
    convex = (100 * frame["fraction"]).map(", {:.0f} % convex".format)
    frame.index = (
        frame["mode"] + ", " + frame["activation"] + ", width " + frame["width"].astype(str)
        + convex.where(frame["mode"] == "mixed", "") + ", " + frame["scheme"]
    )  # fmt: skip
    frame = frame[~frame.index.duplicated()]  # the grids meet in the stacks of width 64
    columns = [
        Column("factor", lambda row: number(row["factor"], 2)),
        Column("law", lambda row: number(row["law"], 2)),
        Column("off by, %", lambda row: number(100 * (row["factor"] / row["law"] - 1), 1)),
        Column("rank, layer 3", lambda row: number(row["rank_3"], 2)),
        Column("rank, last layer", lambda row: number(row["rank_last"], 2)),
    ]
    note = "Factor: geometric mean over the layers after the fifth of 20, medians over seeds."
    return printing.render(
        frame, columns, "Growth a layer, measured and predicted", note, corner="stack",
        source=source(experiment, "start"),
    )  # fmt: skip
