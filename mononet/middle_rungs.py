"""The middle rungs of a recorded comparison: Larger than noise, and Relevant.

Larger than noise is two lines, one a noise; each says what it covers, and neither contains the
other. A tie climbs as well: its noises have to leave no room for a difference that matters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mononet import frames, prose, statistics
from mononet.evidence import Comparison
from mononet.ladder import LOSS, NOT, OPEN, PARTLY, SHOWN, TIE, WIN, Part
from mononet.printing import Html, decimals, number, significant
from mononet.rungs import Found, judged, part

RULE_FIRST = "a rule that was committed before the first final opening, and not changed since"


# --- 3 Larger than noise ------------------------------------------------------------------------


def signed(comparison: Comparison, value: float, digits: int) -> str:
    return number(comparison.factor * value, digits)


def retraining(comparison: Comparison) -> Part:
    """The gap on fresh folds against the spread over seeds."""

    def find() -> Found:
        row, outcome, bar = comparison.whole, comparison.outcome, comparison.rule["gap_over_sd"]
        gap, sd = row["fresh_gap"], row["seed_sd"] if math.isfinite(row["seed_sd"]) else 0.0
        found = f"Training again: {fresh(comparison)}."
        if comparison.rule["loss"] == "log_loss":
            found += " Neither side was tuned for log loss; accuracy selected both, and on the "
            found += f"same folds {_in_accuracy(comparison)}."
        if outcome == TIE:
            difference, spread = comparison.fresh
            holds = abs(difference) + bar * spread < row["matters"]
            missing = (
                f"seeds enough that {amount(comparison, row['matters'])} more or less on fresh "
                "folds can be excluded"
            )
        else:
            # Where the test rows leave it open, the claim is the one that somebody would like to
            # make: that the challenger is better.
            holds = (-1 if outcome == LOSS else 1) * gap > bar * sd
            missing = (
                f"a gap on fresh folds of more than {bar:g} seed standard deviations in favor of "
                f"{comparison.ahead or comparison.label}"
            )
            if outcome == OPEN:
                missing += f", and {_decided(comparison)}"
        status, found, missing = judged(holds, found, missing)
        if status == SHOWN and not comparison.standing.rule:
            return PARTLY, found, RULE_FIRST
        return status, found, missing

    return part("retraining", comparison, find, ["runs.csv"])


def _in_accuracy(comparison: Comparison) -> str:
    """The gap of the accuracy on the fresh folds; a clause."""
    difference, _ = comparison.fresh
    return (
        f"the accuracy of {comparison.label} is {amount(comparison, difference)} "
        f"{'higher' if difference > 0 else 'lower'}"
    )


def fresh(comparison: Comparison) -> str:
    """The gap on the fresh folds, beside the seed sd; a clause."""
    row, ours, theirs = comparison.whole, comparison.label, comparison.named(comparison.baseline)
    gap, sd, bar = row["fresh_gap"], row["seed_sd"], comparison.rule["gap_over_sd"]
    loss = comparison.rule["loss"].replace("_", " ")
    said = f"on fresh folds the mean {loss} of {ours} is {significant(abs(gap))} "
    said += f"{'lower' if gap > 0 else 'higher'} than that of {theirs}"
    if not (math.isfinite(sd) and sd > 0):
        return said + ", and seeds move neither (n = 1)"
    said += f", {significant(abs(gap) / sd)} seed standard deviations of {significant(sd)}"
    return said + f" (n = {comparison.seeds()}; the rule asks for more than {bar:g})"


def sampling(comparison: Comparison) -> Part:
    """The gap of one trained pair with the test rows, or days, drawn again."""

    def find() -> Found:
        row = comparison.whole
        if "gap" not in row:
            return NOT, "", "predictions that are finite"
        ours, theirs = comparison.label, comparison.named(comparison.baseline)
        apart = comparison.apart
        found = (
            f"Drawing the {blocks(comparison)} again: {_pair(comparison)}. So many show a true "
            f"difference four times in five when it is {amount(comparison, row['detectable'])} or "
            f"more. Of {apart.size} pairs of trained models, {_count(apart > 0)} leave zero out in "
            f"favor of {ours}, {_count(apart < 0)} in favor of {theirs}, by "
            f"{statistics.RESAMPLES:,} resamples; others can move such a count by a few."
        )
        found = " ".join(filter(None, [found, prose.mcnemar(row), prose.log_loss(row)]))
        status, found, missing = judged(comparison.outcome != OPEN, found, _decided(comparison))
        wanted = comparison.rule["blocks"]
        if status == SHOWN and frames.drawn(comparison.rule, row) != wanted:
            return PARTLY, found, f"the {wanted} of the test rows; rows were drawn in their place"
        if comparison.outcome == TIE and not comparison.standing.rule:
            return PARTLY, found, RULE_FIRST
        return status, found, missing

    return part(f"drawing {comparison.rule['blocks']} again", comparison, find, ["predictions.npz"])


def _decided(comparison: Comparison) -> str:
    row = comparison.whole
    size = f"{amount(comparison, row['matters'])} on both sides" if "gap" in row else "what matters"
    return f"a test interval that leaves zero out, or that lies within {size}"


def _count(which: np.ndarray) -> str:
    return f"{which.sum()}" if which.any() else "none"


def blocks(comparison: Comparison) -> str:
    row = comparison.whole
    kind = frames.drawn(comparison.rule, row)
    if kind == "rows":
        return f"{row['n']:,} test rows"
    return f"{row['blocks']:,.0f} test {kind} with their {row['n']:,} rows"


def interval(comparison: Comparison, sign: int = 1) -> tuple[str, str, str]:
    """The gap of one trained pair and the ends of its interval; `sign` −1 turns it around."""
    row = comparison.whole
    digits = decimals(comparison.factor * (row["high"] - row["low"]) / 4)
    low, high = sorted((sign * row["low"], sign * row["high"]))
    return tuple(signed(comparison, value, digits) for value in (sign * row["gap"], low, high))


def _pair(comparison: Comparison) -> str:
    gap, low, high = interval(comparison)
    return (
        f"the gap of one trained pair, the first final seeds, is {gap}{comparison.unit}, positive "
        f"for {comparison.label}, with a 95 % interval from {low} to {high}"
    )


def amount(comparison: Comparison, value: float) -> str:
    """A difference of the metric with its unit, two digits."""
    return f"{significant(comparison.factor * abs(value))}{comparison.unit}"


# --- 4 Relevant ---------------------------------------------------------------------------------


def gap(comparison: Comparison) -> Part:
    """The gap against the smallest difference declared to matter, and what it costs."""

    def find() -> Found:
        row, outcome = comparison.whole, comparison.outcome
        if outcome == OPEN:
            return NOT, "", "a gap, or a tie, that drawing the rows again leaves standing"
        size, matters = (amount(comparison, row[name]) for name in ("gap", "matters"))
        _, low, high = interval(comparison, -1 if outcome == LOSS else 1)
        found = f"{size} [{low}, {high}], where {matters} matter; {cost(comparison)}"
        if outcome == TIE:
            return SHOWN, found, ""
        missing = f"a gap of at least {matters} (it is {size})"
        return judged(abs(row["gap"]) >= row["matters"], found, missing)

    files = ["predictions.npz", "cost.csv"]
    return part("gap against what matters", comparison, find, files, needed=True)


def cost(comparison: Comparison) -> str:
    (train, predict), (train_b, predict_b) = comparison.cost
    return (
        f"one final training takes {significant(train)} s with {comparison.label} and "
        f"{significant(train_b)} s with {comparison.named(comparison.baseline)}, 1,000 predictions "
        f"{significant(1000 * predict)} and {significant(1000 * predict_b)} ms"
        + (f", {comparison.timed}" if comparison.timed else "")
    )


def holds(row: Mapping, outcome: str) -> bool | None:
    """Whether a result holds on a slice; None where so few rows could not have told: below 30, or
    where the difference that matters could not be detected and none was."""
    if outcome == OPEN or "gap" not in row:
        return None
    powerful, told = row["detectable"] <= row["matters"], row["low"] > 0 or row["high"] < 0
    if outcome == TIE:
        return abs(row["gap"]) < row["matters"] if powerful else None
    if not (powerful or told):
        return None
    return row["gap"] >= 0 if outcome == WIN else row["gap"] <= 0


WORDS = {True: "holds", False: "does not hold", None: "not shown"}


def slices(comparison: Comparison) -> Part:
    """Whether the result holds on every slice that the rule declares."""

    def find() -> Found:
        found = {row["rows"]: (holds(row, comparison.outcome), row) for row in comparison.rows[1:]}
        said = "; ".join(
            f"{name}: {on_slice(comparison, row)}, {WORDS[word]}"
            for name, (word, row) in found.items()
        )
        words = [word for word, _ in found.values()]
        against = [name for name, (word, _) in found.items() if word is False]
        unknown = [name for name, (word, _) in found.items() if word is None]
        if against:
            return NOT, said, f"the result on {against[0]}"
        if unknown:
            needs = f"enough rows in the slice {unknown[0]} to see what matters there"
            return (PARTLY if True in words else NOT), said, needs
        return SHOWN, said, ""

    return part("declared slices", comparison, find, ["predictions.npz"])


def on_slice(comparison: Comparison, row: Mapping) -> str:
    if "gap" not in row:
        return f"n = {row['n']:,}"
    digits = decimals(comparison.factor * (row["high"] - row["low"]) / 4)
    gap, low, high = (signed(comparison, row[name], digits) for name in ("gap", "low", "high"))
    return (
        f"n = {row['n']:,}, {gap} [{low}, {high}], detectable "
        f"{significant(comparison.factor * row['detectable'])}"
    )


def declared(comparison: Comparison) -> Part:
    """What matters and the slices were declared before anything could be seen."""

    def find() -> Found:
        standing = comparison.standing
        return judged(standing.rule, f"{standing.name}: {standing.said}", RULE_FIRST)

    also = Html(f"<code>params/{comparison.dataset}.rule.yaml</code>")
    return part("declared beforehand", comparison, find, ["study.json"], also=also)


NOISE = (retraining, sampling)
RELEVANT = (gap, slices, declared)
