"""The same gap under other intervals: those of the trained pair, and those of the algorithms.

The ladder decides by one of them, blocks of one pair drawn again. What the others say stands beside
it, so that a reader sees what the choice of an interval is worth on the rows at hand.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from mononet import frames, statistics
from mononet.evidence import UNREADABLE, Comparison, usable
from mononet.printing import Column, Html, decimals, number, render, source

PAIR, ALGORITHMS = "this pair", "the algorithms"
AT_ONCE = 3  # blocks joined to see whether dependence reaches across them


@dataclass(frozen=True)
class Losses:
    """Losses in the unit of the metric, (seeds, blocks) of each side, and the rows of each block.

    A wrong row is the loss of an accuracy. Squared errors become losses of an RMSE by division
    through the sum of both RMSEs: a − c = (a² − c²) / (a + c). A side that seeds do not move stands
    twice: it has a spread over seeds, of zero.
    """

    baseline: np.ndarray
    challenger: np.ndarray
    rows: np.ndarray

    @property
    def differences(self) -> np.ndarray:
        """Those of the first trained pair, (blocks,), in the order of the blocks."""
        return self.baseline[0] - self.challenger[0]


def by_row(comparison: Comparison) -> tuple[list[np.ndarray], np.ndarray]:
    """`frames.by_row` of the two sides, its blocks numbered in order."""
    values, block = frames.by_row(comparison.baseline, comparison.challenger)
    return values, np.unique(block, return_inverse=True)[1]


def by_block(comparison: Comparison) -> Losses:
    """The losses of all trained models, block by block."""
    values, block = by_row(comparison)
    if comparison.metric == "accuracy":
        values = [1.0 - each for each in values]
    if comparison.metric == "rmse":
        scale = sum(np.sqrt(each.mean()) for each in values)
        values = [each / scale for each in values]
    rows = np.bincount(block)
    means = [np.stack([np.bincount(block, run) / rows for run in each]) for each in values]
    studies = (comparison.baseline, comparison.challenger)
    return Losses(
        *(
            np.repeat(mean, 2, axis=0) if study.entry.deterministic and len(mean) == 1 else mean
            for mean, study in zip(means, studies, strict=True)
        ),
        rows,
    )


def longer(comparison: Comparison) -> statistics.Interval:
    """The interval of the first trained pair with three blocks joined to one."""
    (baseline, challenger), block = by_row(comparison)
    return statistics.metric_bootstrap(
        comparison.metric, baseline[0], challenger[0], block // AT_ONCE
    )


def intervals(comparison: Comparison) -> pd.DataFrame:
    """A row an interval: what it draws, what it answers for, gap, low and high in the unit of the
    metric, positive where the challenger is better. Empty where a prediction is not finite."""
    whole = comparison.whole
    if "gap" not in whole:
        return pd.DataFrame()
    blocks, losses = frames.drawn(comparison.rule, whole), by_block(comparison)
    found = {(f"{blocks} drawn again", PAIR): {n: whole[n] for n in ("gap", "low", "high")}}
    if blocks != "rows":
        (baseline, challenger), _ = by_row(comparison)
        alone = statistics.metric_bootstrap(comparison.metric, baseline[0], challenger[0])
        found["rows drawn again, as if unrelated", PAIR] = asdict(alone)
        found[f"{AT_ONCE} {blocks} at a time drawn again", PAIR] = asdict(longer(comparison))
    found[f"paired t over {blocks}", PAIR] = asdict(
        statistics.paired_t(losses.baseline[0], losses.challenger[0])
    )
    if min(len(losses.baseline), len(losses.challenger)) > 1:
        both = (losses.baseline, losses.challenger)
        found[f"seeds and {blocks} drawn again", ALGORITHMS] = asdict(
            statistics.two_level_bootstrap(*both, weights=losses.rows)
        )
        found[f"two-component t over seeds and {blocks}", ALGORITHMS] = asdict(
            statistics.two_component_t(*both)
        )
    rows = [
        {"interval": name, "answers for": what, "gap": row.get("gap", row.get("mean"))}
        | {end: row[end] for end in ("low", "high")}
        for (name, what), row in found.items()
    ]
    return pd.DataFrame(rows)


def table(comparison: Comparison) -> Html:
    """The intervals of one comparison; empty where there are none, as a rung then says."""
    if not all(usable(study) for study in comparison.both):
        return Html("")
    try:
        frame = intervals(comparison)
    except (*UNREADABLE, ValueError):
        return Html("")
    if frame.empty:
        return Html("")
    digits = decimals(comparison.factor * (frame["high"] - frame["low"]).min() / 4)

    def value(name: str):
        return lambda row: number(comparison.factor * row[name], digits)

    columns = [
        Column("answers for", lambda row: row["answers for"], ""),
        Column("gap", value("gap")),
        Column("from", value("low"), group="95 % interval"),
        Column("to", value("high"), group="95 % interval"),
    ]
    blocks = frames.drawn(comparison.rule, comparison.whole)
    note = (
        f"In{comparison.unit}, positive for {comparison.label}. The first row decides on the "
        "ladder. This pair: the first final seeds, and no other training. The algorithms: the mean "
        "gap over all final seeds, with training drawn again too."
    )
    if blocks != "rows":
        note += f" The two t intervals count every one of the {blocks} alike, the others every row."
    return render(
        frame.set_index("interval"),
        columns,
        f"Other intervals of the gap, {comparison.label} against "
        f"{comparison.named(comparison.baseline)}",
        note,
        source=source(comparison.both, "predictions.npz"),
        corner="interval",
    )
