"""The ladder of a recorded comparison, and the words of the claim that is left of it."""

from __future__ import annotations

from collections.abc import Sequence

from mononet import bounded, data, groups, rungs
from mononet import middle_rungs as middle
from mononet.evidence import UNREADABLE, Comparison, usable
from mononet.ladder import (
    LOSS,
    NOT,
    NOTHING,
    RUNGS,
    SHOWN,
    TEST_GRADE,
    TIE,
    UNFAIR,
    VALIDATION,
    WIN,
    Contest,
    Ladder,
    Rung,
    chain,
)
from mononet.printing import TITLES

BETTER = {"mse": "lower MSE", "rmse": "lower RMSE", "accuracy": "higher accuracy"}
PASSED = {True: "pass", False: "fail", None: "not shown"}


def climb(comparison: Comparison) -> Ladder:
    """The ladder of one comparison."""
    parts = (
        [rungs.checked(comparison, study) for study in comparison.both],
        [part(comparison) for part in rungs.FAIR],
        [part(comparison) for part in middle.NOISE],
        [part(comparison) for part in middle.RELEVANT],
        [part for find in bounded.BOUNDED for part in find(comparison)],
    )
    found = tuple(Rung(name, tuple(each)) for name, each in zip(RUNGS, parts, strict=True))
    return Ladder(contest(comparison, found), found, *kind(comparison, found[1]))


def kind(comparison: Comparison, fair: Rung) -> tuple[str, str]:
    """What kind of number the test gap is, and why: the ledger and the study records decide."""
    for study in comparison.both:
        if not usable(study):
            return NOTHING, f"the study of {comparison.named(study)} is not recorded"
    *others, opening = fair.parts
    if opening.status == NOT:
        return VALIDATION, opening.found or f"it lacks {opening.missing}"
    unequal = [part.missing for part in others if part.status == NOT]
    return (UNFAIR, f"it lacks {unequal[0]}") if unequal else (TEST_GRADE, "")


def checks(comparison: Comparison) -> list[tuple[str, bool | None]]:
    """The three checks of the rule, in favor of the challenger; None where nothing can be shown."""
    try:
        row, bar = comparison.whole, comparison.rule["gap_over_sd"]
        names = comparison.rule["slices"]
        shifted = next(part["name"] for part in names if part.get("shifted"))
        slice_row = next((each for each in comparison.rows if each["rows"] == shifted), None)
    except (*UNREADABLE, ValueError):
        return []
    if slice_row is None:  # the rule was changed since the study recorded its slices
        return []
    sd = row["seed_sd"] if row["seed_sd"] == row["seed_sd"] else 0.0
    return [
        (f"validation gap above {bar:g} seed sd", bool(row["fresh_gap"] > bar * sd)),
        ("test interval above zero", row["low"] > 0 if "low" in row else None),
        (f"not worse on {shifted}", middle.holds(slice_row, WIN)),
    ]


def moved(comparison: Comparison) -> bool:
    """`groups.moved` of the two studies; False without groups, or where files do not say."""
    try:
        return bool(comparison.rule.get("groups")) and groups.moved(*comparison.both)
    except (*UNREADABLE, ValueError):
        return False


# --- the words of the sentence ------------------------------------------------------------------


def contest(comparison: Comparison, found: Sequence[Rung]) -> Contest:
    """The two sides in words; what its files do not hold is left out."""
    spec, ours = data.SPECS[comparison.dataset], comparison.challenger
    rows = (
        f"{ours.rows:,} training and {spec.test_rows:,} test rows of the published split, "
        f"{len(spec.features)} features"
    )
    words = {
        "challenger": comparison.label,
        "baseline": comparison.named(comparison.baseline),
        "outcome": comparison.outcome,
        "where": f"{TITLES[comparison.dataset]} ({rows})",
        "metric": "accuracy" if comparison.metric == "accuracy" else comparison.metric.upper(),
        "better_metric": BETTER[comparison.metric],
        "untested": " ".join(comparison.rule["limits"]),
        "triggers": tuple(comparison.rule["triggers"]),
    }
    parts = {each.name: each for rung in found for each in rung.parts}
    words["budget"] = parts["tuning budget"].found.replace(" against ", " and ")
    size = parts["size"]
    words["bounds"] = size.found[:1].upper() + size.found[1:] if size.status == SHOWN else ""
    try:
        words |= _measured(comparison)
    except (*UNREADABLE, ValueError):
        words |= dict.fromkeys(("gap", "matters", "retraining", "sampling"), "unknown")
    return Contest(**words)


def _measured(comparison: Comparison) -> dict[str, str]:
    row, outcome = comparison.whole, comparison.outcome
    sign = -1 if outcome == LOSS else 1
    (train, predict), (train_b, predict_b) = comparison.cost
    cheaper = comparison.label if train + predict < train_b + predict_b else None
    good = [each["rows"] for each in comparison.rows[1:] if middle.holds(each, outcome)]
    known = "gap" in row
    return {
        "gap": middle.amount(comparison, row["gap"]) if known else "an unknown amount",
        "matters": middle.amount(comparison, row["matters"]) if known else "what",
        "retraining": _retraining(comparison),
        "sampling": _sampling(comparison, sign) if known else "a prediction is not finite",
        "cost": middle.cost(comparison),
        "cheaper": cheaper or comparison.named(comparison.baseline),
        "timed": comparison.timed,
        "slices": chain(good) if good else "",
    }


def _sampling(comparison: Comparison, sign: int) -> str:
    _, low, high = middle.interval(comparison, sign)
    whose = comparison.label if sign > 0 else comparison.named(comparison.baseline)
    return (
        f"drawing the {middle.blocks(comparison)} again leaves the gap between {low} and {high} "
        f"(95 %, positive for {whose})"
    )


def _retraining(comparison: Comparison) -> str:
    if comparison.outcome != TIE:
        return middle.fresh(comparison)
    difference, spread = (middle.amount(comparison, value) for value in comparison.fresh)
    seeds, bar = comparison.seeds(), comparison.rule["gap_over_sd"]
    return (
        f"on fresh folds the two differ by {difference}, with a seed standard deviation of "
        f"{spread} (n = {seeds}; {bar:g} of them have to fit as well)"
    )
