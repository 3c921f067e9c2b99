"""The last rung of a recorded comparison, Bounded: where the result stops holding, with data."""

from __future__ import annotations

import re

import pandas as pd

from mononet import data, frames, intervals, printing, size_gaps, statistics
from mononet.evidence import Comparison
from mononet.ladder import NOT, PARTLY, SHOWN, Part, chain
from mononet.middle_rungs import on_slice, signed
from mononet.printing import Html, decimals
from mononet.rungs import Found, judged, part


def bounds(comparison: Comparison) -> list[Part]:
    """Every declared slice has enough rows for an interval."""

    def find() -> Found:
        rows = comparison.rows[1:]
        shown = [row["rows"] for row in rows if "gap" in row]
        few = [f"{row['rows']} (n = {row['n']})" for row in rows if "gap" not in row]
        found = f"{len(shown)} of {len(rows)} slices with an interval"
        if not few:
            return SHOWN, found, ""
        missing = f"{frames.FEWEST_ROWS} rows or more on {few[0]}"
        return (PARTLY if shown else NOT), found, missing

    return [part("slices with data", comparison, find, ["predictions.npz"], needed=True)]


def periods(comparison: Comparison) -> list[Part]:
    """First against second half of the test days; nothing where rows have no order in time."""
    if comparison.rule["blocks"] == "rows":
        return []

    def find() -> Found:
        if frames.drawn(comparison.rule, comparison.whole) == "rows":
            return NOT, "", "the day of every test row"
        _, day = intervals.by_row(comparison)
        early = day < (day.max() + 1) / 2
        halves = [
            frames.paired(comparison.baseline, comparison.challenger, mask)
            for mask in (early, ~early)
        ]
        if not all(halves):
            return NOT, "", "enough rows in both halves of the days"
        said = [on_slice(comparison, half | {"n": int(mask.sum())})
                for half, mask in zip(halves, (early, ~early), strict=True)]  # fmt: skip
        found = f"first half of the days {said[0]}; second half {said[1]}"
        lag, low, high = _dependence(comparison)
        return (
            SHOWN,
            f"{found}; lag-1 autocorrelation of the days {lag:.2f}, interval over blocks of three "
            f"days {low} to {high}",
            "",
        )

    return [part("periods", comparison, find, ["predictions.npz"])]


def _dependence(comparison: Comparison) -> tuple[float, str, str]:
    """Lag-1 autocorrelation of the paired differences by day, and the interval's ends with three
    days to a block."""
    by_day, longer = intervals.by_block(comparison).differences, intervals.longer(comparison)
    digits = decimals(comparison.factor * (longer.high - longer.low) / 4)
    ends = (signed(comparison, value, digits) for value in (longer.low, longer.high))
    return statistics.lag1_autocorrelation(by_day), *ends


def size(comparison: Comparison) -> list[Part]:
    """The gap at 25, 50 and 100 % of the training rows, on validation folds."""

    def find() -> Found:
        table = size_gaps.table(comparison.both)
        names = [study.model for study in comparison.both]
        frame = None if table is None else size_gaps.gaps(table[0], *names)
        if frame is None:
            return NOT, "", "the size table"
        return SHOWN, _sizes(frame, comparison.label), ""

    table = size_gaps.table(comparison.both)
    also = ""
    if table and printing.is_published(comparison.challenger.parameters["results_dir"]):
        also = f'<a href="../results/experiments/{table[1]}/sizes.csv"><code>sizes.csv</code></a>'
    return [part("size", comparison, find, [], also=also)]


def _sizes(frame: pd.DataFrame, challenger: str) -> str:
    shares = chain([f"{100 * share:.0f}" for share in frame["share"]])
    told = chain([printing.plus_minus(row.gap, row.se) for row in frame.itertuples()])
    over = "folds" if frame["folds"].min() > 1 else "seeds, of one holdout"
    return (
        f"with {shares} % of the training rows, epochs chosen again at each size, the gap of the "
        f"loss on validation folds, positive for {challenger}, is {told} (standard errors over "
        f"{over})"
    )


def untested(comparison: Comparison) -> list[Part]:
    """What was used and what was never tested, as the rule lists it."""
    limits, spec = comparison.rule["limits"], data.SPECS[comparison.dataset]
    said = f"{len(spec.features)} features used; {len(limits)} limits listed"
    also = Html(f"<code>params/{comparison.dataset}.rule.yaml</code>")
    return [part("never tested", comparison, lambda: (SHOWN, said, ""), [], also=also)]


def triggers(comparison: Comparison) -> list[Part]:
    """What would reopen the question, one of it with a date."""

    def find() -> Found:
        dated = [
            text for text in comparison.rule["triggers"] if re.search(r"\d{4}-\d\d-\d\d", text)
        ]
        found = f"{len(comparison.rule['triggers'])} triggers, {len(dated)} with a date"
        return judged(bool(dated), found, "a trigger with a date")

    also = Html(f"<code>params/{comparison.dataset}.rule.yaml</code>")
    return [part("triggers", comparison, find, [], also=also)]


BOUNDED = (bounds, periods, size, untested, triggers)
