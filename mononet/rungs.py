"""The lower rungs of a recorded comparison, Correct and Fair, part by part.

Each part is read from the files that stand beside it. A file that is missing, or is not what was
recorded, takes its part with it and is named as what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mononet import data, printing
from mononet.checks import NAMES
from mononet.evidence import UNREADABLE, Comparison
from mononet.ladder import NOT, PARTLY, SHOWN, Part, chain
from mononet.models import Boosting, NetworkModel
from mononet.printing import Html, significant
from mononet.record import RecordError
from mononet.study import Study

RULE_FIRST = "a rule that was committed before the first final opening, and not changed since"
Found = tuple[str, str, str]  # status, what was found, what is missing


class Lacking(Exception):  # noqa: N818 - it says what a part is, not that something failed
    """A file that a part needs is missing or damaged; the message names it."""


def part(
    name: str,
    comparison: Comparison,
    find: Callable[[], Found],
    files: Sequence[str],
    studies: Sequence[Study] | None = None,
    *,
    also: str = "",
    needed: bool = False,
) -> Part:
    """A part of a rung from `find`, or what its files lack; `also` is HTML of further files."""
    studies = comparison.both if studies is None else studies
    source = Html("; ".join(filter(None, [printing.files(studies, *files) if files else "", also])))
    try:
        for study in studies:
            for file in files:
                held(comparison, study, file)
        return Part(name, *find(), source=source, needed=needed)
    except Lacking as lacking:
        return Part(name, NOT, missing=str(lacking), source=source, needed=needed)
    except UNREADABLE as error:
        said = f"files that can be read: {error}"
        return Part(name, NOT, missing=said, source=source, needed=needed)


def held(comparison: Comparison, study: Study, file: str) -> None:
    """Raise Lacking unless a file of a study is there and is what was recorded."""
    whose = comparison.named(study)
    try:
        recorded = study.record.names()
        if not recorded:
            raise Lacking(f"the study of {whose}")
        if file not in recorded:
            raise Lacking(f"{file} of {whose}")
        study.record.check(file)
        if file == "study.json" and not study.complete:
            raise Lacking(f"the study of {whose}, recorded to its end")
    except RecordError as error:
        raise Lacking(f"{file} of {whose}, as it was recorded") from error


def judged(holds: bool, found: str, missing: str) -> Found:
    """Shown, or not shown with what is missing."""
    return (SHOWN, found, "") if holds else (NOT, found, missing)


# --- 1 Correct ----------------------------------------------------------------------------------


def applies(study: Study) -> set[str]:
    """The checks that say something about such a model."""
    constrained = bool(np.any(study.content["indicator"]))
    if isinstance(study.entry, NetworkModel):
        monotone = constrained and study.entry.mode != "free"
        found = {"shapes", "gradient", "eight_rows", "initial_loss"}
    else:
        monotone = constrained and isinstance(study.entry, Boosting) and study.entry.monotone
        found = {"shapes", "perfect_feature"}
    return found | ({"monotonicity"} if monotone else set())


def checked(comparison: Comparison, study: Study) -> Part:
    """Every check that applies to a model passed."""

    def find() -> Found:
        passed = {c["name"]: c["passed"] for c in study.record.read_json("checks.json")}
        wanted = [name for name in NAMES if name in applies(study)]
        lacking = [name.replace("_", " ") for name in wanted if not passed.get(name)]
        count = f"{len(wanted) - len(lacking)} of {len(wanted)} checks that apply passed"
        whose = comparison.named(study)
        return judged(not lacking, count, f"{chain(lacking or ['–'])} of {whose}, passed")

    return part(f"checks of {study.model}", comparison, find, ["checks.json"], [study])


# --- 2 Fair -------------------------------------------------------------------------------------


def _contents(comparison: Comparison) -> list[dict]:
    return [study.description["content"] for study in comparison.both]


def split(comparison: Comparison) -> Part:
    """The same rows: training, folds, test."""

    def find() -> Found:
        ours, theirs = _contents(comparison)
        spec = data.SPECS[comparison.dataset]
        same = all(ours[name] == theirs[name] for name in ("dataset", "cv"))
        same &= ours["training"].get("max_rows") == theirs["training"].get("max_rows")
        arrays = [study.record.read_npz("predictions.npz") for study in comparison.both]
        same &= all(np.array_equal(*(a[name] for a in arrays)) for name in ("target", "block"))
        folds = "one holdout" if spec.holdout else f"{ours['cv']['cv_folds']} folds"
        found = (
            f"{comparison.challenger.rows:,} training rows in the same {folds}, "
            f"{len(arrays[0]['target']):,} test rows"
        )
        return judged(same, found, "the same rows on both sides")

    return part("split rows", comparison, find, ["study.json", "predictions.npz"])


def features(comparison: Comparison) -> Part:
    """The same columns, and preprocessing that was fitted on training rows."""

    def find() -> Found:
        ours, theirs = _contents(comparison)
        spec = data.SPECS[comparison.dataset]
        inputs = [content["training"].get("inputs", "published") for content in (ours, theirs)]
        found = f"all {len(spec.features)} features, inputs as {inputs[0]}, on both sides"
        if inputs[0] != inputs[1] or ours["indicator"] != theirs["indicator"]:
            return NOT, "", "the same inputs and constrained features on both sides"
        if spec.joint_scaling:
            missing = f"preprocessing fitted on training rows ({spec.joint_scaling})"
            return PARTLY, found, missing
        return SHOWN, f"{found}; scaled by the training rows", ""

    return part("features and preprocessing", comparison, find, ["study.json"])


def metric(comparison: Comparison) -> Part:
    """The same metric on the same scale, and a loss for every run."""

    def find() -> Found:
        runs = [study.record.read_csv("runs.csv") for study in comparison.both]
        names = {name for each in runs for name in each["metric"].unique()}
        title, loss = printing.metric_title(comparison.dataset), comparison.rule["loss"]
        found = f"{title} and {loss.replace('_', ' ')} of every run"
        return judged(names == {comparison.metric}, found, "one metric on both sides")

    return part("metric", comparison, find, ["runs.csv"])


def budget(comparison: Comparison) -> Part:
    """The same search with as many configurations tried on both sides."""
    studies = [study for side in comparison.spent for study in side]

    def find() -> Found:
        sides = [[_search(study) for study in side] for side in comparison.spent]
        tried = [sum(each["trials"] for each in side) for side in sides]
        said = [_told(comparison, k, side) for k, side in enumerate(sides)]
        found = f"{said[0]} against {said[1]}"
        if comparison.absent:
            lacking = chain(comparison.absent)
            studies = "study" if len(comparison.absent) == 1 else "studies"
            return NOT, found, f"the {studies} of {lacking}"
        if len({str(each["how"]) for side in sides for each in side}) > 1:
            return NOT, found, "the same search on both sides"
        if any(each["trials"] != each["planned"] for side in sides for each in side):
            return NOT, found, "all trials that the search was to have"
        missing = f"as many configurations tried on both sides ({tried[0]} against {tried[1]})"
        return judged(tried[0] == tried[1], found, missing)

    files = ["study.json", "trials.csv", "cost.csv"]
    return part("tuning budget", comparison, find, files, studies)


def _search(study: Study) -> dict:
    """What a search was to try, what it tried, and what it took."""
    content, trials = study.description["content"], study.trials()
    how = {k: v for k, v in content["search"].items() if k not in ("n_trials", "search_seed")}
    return {
        "how": how | content["cv"],
        "planned": content["search"]["n_trials"],
        "trials": len(trials),
        "runs": trials[0].values.size,
        "seconds": study.search_seconds(),
    }


def _told(comparison: Comparison, side: int, searches: Sequence[Mapping]) -> str:
    whose = comparison.label if side == 0 else comparison.named(comparison.baseline)
    if not searches:
        return f"no trial for {whose}"
    trials = sum(each["trials"] for each in searches)
    seconds = significant(sum(each["seconds"] for each in searches))
    many = f" over {len(searches)} flavors" if len(searches) > 1 else ""
    runs = searches[0]["runs"]
    each = f"{runs} run{'' if runs == 1 else 's'}"
    return f"{trials} trials of {each}{many} for {whose} ({seconds} s)"


def opened(comparison: Comparison) -> Part:
    """The test part was opened once for each side, after all choices."""

    def find() -> Found:
        ledger = data.read_ledger(comparison.challenger.ledger)
        final = ledger[ledger["kind"] == "final"]
        times = []
        for study in comparison.both:
            name = comparison.named(study)
            mine = final[final["study"] == study.identity]
            if mine.empty:
                return NOT, "", f"a final opening of {name} in test_access.csv"
            why = study.validation_level()
            if not why and mine["configuration"].iloc[0] != study.configuration_hash:
                why = "the test part was opened for another configuration than the recorded one"
            if why:
                return NOT, f"{name}: {why}", f"one opening for {name}, after all choices"
            times.append(mine["time"].iloc[0].replace("T", " ").replace("+00:00", " UTC"))
        return SHOWN, f"opened once each, after the choices, at {times[0]} and {times[1]}", ""

    also = printing.link(comparison.challenger, "test_access.csv", "test_access.csv")
    files = ["study.json", "cost.csv", "trials.csv"]
    return part("test part", comparison, find, files, also=also)


FAIR = (split, features, metric, budget, opened)
