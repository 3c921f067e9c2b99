"""Depth explosion, the chapter: why plain monotone stacks are shallow, and deep ones residual."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from mononet import data, experiments, printing, prose
from mononet.diagnostics import depth_figures, depth_start, depth_trained
from mononet.diagnostics.depth_figures import KINDS, best, failures
from mononet.experiments import Chapter, Experiment
from mononet.layers import MODES
from mononet.printing import TITLES, Html, number, significant

BRANCH_GATE = 0.1  # of a residual block, at the start
CLOSE = 0.05  # relative deviation up to which the law is said to hold

PARTS = {
    "start": depth_start.start,
    "trainings": depth_trained.trainings,
    "layers": depth_trained.layers,
}


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters (other names are left alone), checked."""
    return experiments.open_chapter("depth_explosion", given, PARTS, SHOWN)


def _power(value: float) -> str:
    """A large factor in words: as it is below a thousand, as a power of ten above."""
    if value < 1000:
        return f"{significant(value, 2)}-fold"
    return (
        f"10{str(round(np.log10(value))).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}-fold"
    )


def _one(frame: pd.DataFrame, **values) -> pd.Series:
    return frame.loc[(frame[list(values)] == pd.Series(values)).all(axis=1)].iloc[0]


def _width(experiment: Experiment) -> int:
    """The width that sentences speak of: 64, or the largest."""
    widths = experiment.parameters["widths"]
    return depth_start.MIDDLE if depth_start.MIDDLE in widths else max(widths)


def finding(experiment: Experiment) -> Html:
    """The chapter in one sentence."""
    frame, width = depth_start.growth(experiment.table("start")), _width(experiment)
    plain = _one(frame, grid="width", mode="mixed", activation="elu", width=width)
    block = _one(frame, grid="residual", mode="mixed", width=width)
    chosen = best(experiment.table("trainings"))
    deepest = chosen[chosen["depth"] == chosen["depth"].max()]
    trained = {
        kind: (int(arm["better"].sum()), int(arm["seeds"].sum()))
        for residual, kind in KINDS.items()
        for arm in [deepest[deepest["residual"] == residual]]
    }
    return prose.led(
        "Finding.",
        f"A plain stack of width {width} multiplies the scale of its activations by "
        f"{number(plain['factor'], 2)} a layer once it has settled, {_power(plain['total'])} from "
        f"the input to layer {depth_start.LAYERS}, and a residual block by "
        f"{number(block['factor'], 2)}, {_power(block['total'])}; "
        f"at depth {deepest['depth'].iloc[0]}, each at its best learning rate, "
        f"{trained['plain'][0]} of {trained['plain'][1]} plain trainings and "
        f"{trained['residual'][0]} of {trained['residual'][1]} residual ones beat the trivial "
        "predictor.",
    )


def law(experiment: Experiment) -> Html:
    """How far the measured factors lie from the law, and where they leave it."""
    frame = depth_start.growth(experiment.table("start"))
    plain = frame[~frame["residual"]].drop_duplicates(frame.columns[1:8].tolist())
    off = (plain["factor"] / plain["law"] - 1).abs()
    inside, outside = plain[off < CLOSE], plain[off >= CLOSE]
    verdict = (
        f"The law holds within {significant(100 * off[off < CLOSE].max())} % in {len(inside)} of "
        f"{len(plain)} kinds of plain stacks."
    )
    if outside.empty:
        return prose.paragraph(verdict)
    kinds = sorted(set(outside["activation"]))
    twice = outside["factor"] / outside["law"]
    return prose.paragraph(
        verdict,
        f"The other {len(outside)} are stacks with {' and '.join(kinds)} at scales c from "
        f"{outside['scale'].min():g} to {outside['scale'].max():g}, where the factor is "
        f"{number(twice.min(), 2)} to {number(twice.max(), 2)} times what the law says.",
    )


def rank(experiment: Experiment) -> Html:
    """The effective rank by layer 3, over scales, and what two directions alone would give."""
    frame = depth_start.growth(experiment.table("start"))
    plain = frame[~frame["residual"]]
    scaled = frame[frame["grid"] == "scale"]
    half = plain[(plain["activation"] == "relu") & (plain["fraction"] == 0.5)]
    mixed = half[half["mode"] == "mixed"]
    block = frame[frame["residual"]]
    return prose.bullets(
        [
            "By layer 3 the effective rank of every kind of plain stack, the median over its "
            "initializations, lies between "
            f"{number(plain['rank_3'].min(), 2)} and {number(plain['rank_3'].max(), 2)}, at any "
            f"width, activation and scheme; over all scales c, from {scaled['scale'].min():g} to "
            f"{scaled['scale'].max():g}, between {number(scaled['rank_3'].min(), 2)} and "
            f"{number(scaled['rank_3'].max(), 2)}.",
            "Mixed relu stacks with half of their units convex end between "
            f"{number(mixed['rank_last'].min(), 2)} and {number(mixed['rank_last'].max(), 2)}; two "
            "directions, one for each kind of unit, give "
            f"{number(depth_start.two_directions(), 2)}.",
            f"Residual stacks keep {number(block['rank_3'].min(), 1)} (width "
            f"{block['width'].min()}) to {number(block['rank_3'].max(), 1)} (width "
            f"{block['width'].max()}) after three blocks, and "
            f"{number(block['rank_last'].min(), 2)} to {number(block['rank_last'].max(), 2)} after "
            f"{depth_start.LAYERS}: the blocks postpone the loss of rank at the start"
            + (" and do not prevent it." if block["rank_last"].max() < 2.5 else " and soften it."),
        ]
    )


def residual(experiment: Experiment) -> Html:
    """The factor of a residual block against one plus a tenth of the law."""
    frame = depth_start.growth(experiment.table("start"))
    block = frame[frame["residual"]]
    expected = 1 + BRANCH_GATE * block["law"]
    off = (block["factor"] / expected - 1).abs().max()
    wide = block[block["width"] == block["width"].max()]
    keeps = block["total"].max() < 3
    gate = (3 ** (1 / depth_start.LAYERS) - 1) / wide["law"].iloc[0]
    return prose.paragraph(
        f"Measured: {number(block['factor'].min(), 2)} a block at width {block['width'].min()} to "
        f"{number(block['factor'].max(), 2)} at width {block['width'].max()}, within "
        f"{significant(100 * off)} % of one plus a tenth of the law's factor "
        f"({number(expected.min(), 2)} to {number(expected.max(), 2)}). Over "
        f"{depth_start.LAYERS} blocks, of which the first ones grow more slowly, it comes to "
        f"{_power(block['total'].min())} to {_power(block['total'].max())}"
        + (
            ": the scale stays near one."
            if keeps
            else ", far from the plain stacks, and yet not near one: the scale grows with the "
            f"width, and a branch gate that kept it below 3 at width {block['width'].max()} would "
            f"have to start at about {gate:.3f}."
        )
    )


def deep(experiment: Experiment) -> Html:
    """Whether plain stacks train where residual ones do, depth by depth."""
    runs = experiment.table("trainings")
    chosen, items = best(runs), []
    for (dataset, depth), part in chosen.groupby(["dataset", "depth"], sort=False):
        factor, told = printing.scale(data.SPECS[dataset].metric), []
        for residual_, kind in KINDS.items():
            arm = part[part["residual"] == residual_]
            shown = " and ".join(
                f"{number(factor * one['value'], 1)} ({mode}, rate {one['learning_rate']:g})"
                for mode in MODES
                for one in [_one(arm, mode=mode)]
            )
            won, of = int(arm["better"].sum()), int(arm["seeds"].sum())
            told.append(f"{kind} {shown}, {won} of {of} seeds better than trivial")
        items.append(
            f"{TITLES[dataset]}, depth {depth}, {printing.metric_title(dataset)}: "
            f"{'; '.join(told)}."
        )
    frame = failures(runs)
    totals = frame.groupby("residual")[["seeds", "constant", "non_finite", "better"]].sum()
    counted = "; ".join(
        f"{kind}: {totals.loc[residual_, 'constant']} constant, "
        f"{totals.loc[residual_, 'non_finite']} not finite, {totals.loc[residual_, 'better']} "
        f"better than trivial, of {totals.loc[residual_, 'seeds']}"
        for residual_, kind in KINDS.items()
    )
    return prose.bullets(items) + prose.paragraph(
        f"Over all depths and learning rates: {counted}. The learning rates named were chosen by "
        "the validation values that they are shown with; a difference between two constructions "
        "has to be larger than that to count."
    )


def meaning(experiment: Experiment) -> Html:
    """What somebody who designs such a network takes along."""
    frame = depth_start.growth(experiment.table("start"))
    width = _width(experiment)
    factor = _one(frame, grid="width", mode="mixed", activation="relu", width=width)["law"]
    chosen = best(experiment.table("trainings"))
    keys = ["dataset", "mode", "depth"]
    gain = chosen.pivot(index=keys, columns="residual", values="gain").reset_index()
    ahead = gain[gain["depth"] > gain["depth"].min()]
    won = int((ahead[True] > ahead[False]).sum())
    return prose.bullets(
        [
            "Know the factor before you choose the depth: m E|W| max(f, 1 − f) a layer. It grows "
            "with the root of the width, so that a width that was harmless at two layers is not at "
            "ten.",
            f"To hold the scale of a wide relu stack, multiply He's weights by one over that "
            f"factor, {number(1 / factor, 2)} at width {width}. It does not give the rank back: "
            "non-negative weights turn all rows to one direction, whatever multiplies them.",
            "Rescaling the read-out repairs the loss at the start and nothing behind it. In these "
            f"trainings the residual construction has the better mean in {won} of {len(ahead)} "
            "pairs of dataset, mode and depth beyond the smallest.",
            "A residual block starts near the identity only as long as its gate is small against "
            "the factor of the layer inside; wide networks want smaller gates.",
        ]
    )


SHOWN = {
    "finding": finding,
    "law": law,
    "rank": rank,
    "residual": residual,
    "deep": deep,
    "meaning": meaning,
    "table": depth_figures.table,
    "growth figure": depth_figures.growth,
    "rank figure": depth_figures.rank,
    "scales": depth_figures.scales,
    "trained": depth_figures.trained,
    "counts": depth_figures.counts,
    "values": depth_figures.values,
}
