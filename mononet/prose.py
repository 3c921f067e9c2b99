"""Sentences of a results page whose numbers come from recorded studies, never typed.

Each says no more than the artifacts carry: a difference is named only where an interval excludes
zero, and what could have been seen stands beside what was not.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

import numpy as np

from mononet import data, frames, printing
from mononet.models import FLAVORS
from mononet.printing import Html, decimals, number, significant
from mononet.search import MINIMIZED
from mononet.study import Study


def paragraph(*sentences: str) -> Html:
    """Sentences of plain text, as one paragraph."""
    return Html(f"<p>{html.escape(' '.join(s for s in sentences if s))}</p>")


def led(lead: str, *sentences: str) -> Html:
    """A paragraph that begins with its subject in bold."""
    return Html(
        paragraph(*sentences).replace("<p>", f"<p><strong>{html.escape(lead)}</strong> ", 1)
    )


def bullets(items: Sequence[str]) -> Html:
    """Plain texts as a list."""
    return Html("<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>")


def _count(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def _unit(dataset: str) -> str:
    return f" {printing.UNITS[dataset]}" if dataset in printing.UNITS else " percentage points"


def results(studies: Sequence[Study]) -> Html:
    """How far the models' means lie apart, beside the noise of the test rows; what collapsed."""
    dataset = studies[0].dataset
    factor = printing.scale(data.SPECS[dataset].metric)
    frame = frames.estimators(studies)
    means, errors = (factor * frame[name].astype(float) for name in ("mean", "row_se"))
    apart, unit = means.max() - means.min(), _unit(dataset)
    digits = decimals(errors.median())
    low, high = significant(errors.min()), significant(errors.max())
    between = f"between {low} and {high}" if low != high else f"about {low}"
    said = (
        "The group as a whole differs by less than what such a test part leaves open about any one "
        "of them."
        if apart < errors.min()
        else "At least one of them stands apart from the others by more than that."
        if apart > errors.max()
        else "Both are of one size."
    )
    sentences = [
        f"The means of {_count(len(studies), 'model')} lie within {number(apart, digits)}{unit} of "
        f"each other; the standard error of one network over the test rows is {between}{unit}. "
        f"{said}"
        if len(studies) > 1
        else f"The standard error of one network over the test rows is {low}{unit}.",
        _collapses(frame),
    ]
    return paragraph(*sentences)


def _collapses(frame) -> str:
    runs, constant = int(frame["n"].sum()), int(frame["constant"].sum())
    outliers = int(frame["outliers"].astype(float).sum())
    one_sided = int(frame["one_sided"].sum())
    text = f"Of {runs} final trainings, {constant or 'none'} ended at a constant prediction"
    if frame["outliers"].notna().any():
        return f"{text}, and {outliers or 'none'} as an outlier."
    return f"{text}, and {one_sided or 'none'} put every row in one class without being constant."


def hardest(studies: Sequence[Study], rows: int = 2) -> Html:
    """How much of a regression's test error the hardest rows carry, over models and seeds."""
    spec = data.SPECS[studies[0].dataset]
    if spec.task != "regression":
        return Html("")
    arrays = [study.record.read_npz("predictions.npz") for study in studies]
    target = arrays[0]["target"]
    losses = np.mean(
        [np.square(a["predictions"] - target, dtype=float).mean(axis=0) for a in arrays], axis=0
    )
    worst = np.argsort(-losses)[:rows]
    others = np.delete(losses, worst).mean()
    share = losses[worst].sum() / losses.sum()
    named = " and ".join(f"{n} (target {target[n]:.3g})" for n in map(int, worst))
    return paragraph(
        f"Part of why the rows weigh so much: averaged over the recorded models, {rows} of the "
        f"{len(losses):,} test rows carry {100 * share:.0f} % of the squared error. They are rows "
        f"{named} of the published file, counted from 0. The mean squared error of all rows is "
        f"{significant(losses.mean(), 3)}, that of the others {significant(others, 3)}. No row is "
        "left out of any number here: this only shows how much of a mean so few rows can decide.",
    )


def unsupported(studies: Sequence[Study]) -> Html:
    """What these studies do not show about the flavors and the rest."""
    dataset = studies[0].dataset
    factor, unit = printing.scale(data.SPECS[dataset].metric), _unit(dataset)
    flavors = [study for study in studies if study.model in FLAVORS]
    items = [
        "That any of these models is better than a published one: those figures come from another "
        "protocol.",
        "That the order found here would be found on another dataset, or with other test rows.",
    ]
    if len(flavors) > 1:
        frame = factor * frames.estimators(flavors)[["mean", "row_se"]].astype(float)
        apart, error = frame["mean"].max() - frame["mean"].min(), frame["row_se"].median()
        items.insert(
            0,
            "That one flavor of the network is better than another. The test means of "
            f"{len(flavors)} flavors lie within {number(apart, decimals(error))}{unit}, where the "
            "standard error of one network over the test rows is about "
            f"{significant(error)}{unit}, and the rule declared no comparison among them on these "
            "rows.",
        )
    return bullets(items)


def selection(studies: Sequence[Study]) -> Html:
    """The gap between selection score and test, split at the fresh folds."""
    spec = data.SPECS[studies[0].dataset]
    sign = printing.scale(spec.metric) * (1 if MINIMIZED[spec.metric] else -1)
    frame = frames.estimators(studies)
    score, fresh, mean = (frame[n].astype(float).mean() for n in ("cv_score", "fresh", "mean"))
    whole, luck, rest = sign * (mean - score), sign * (fresh - score), sign * (mean - fresh)
    unit = _unit(spec.name)
    harder = int((sign * (frame["mean"] - frame["fresh"]).astype(float) > 0).sum())

    digits = decimals(whole)

    def apart(value: float) -> str:
        return f"{number(abs(value), digits)}{unit} {'worse' if value >= 0 else 'better'}"

    lucky = round(luck, digits) > 0
    many = f" for {harder} of the {len(frame)} models the test part is the harder of the two."
    return paragraph(
        f"Averaged over the models, the test value is {apart(whole)} than the score that selected "
        "the configuration.",
        f"On fresh folds of the same training rows, where nothing was selected, the same "
        f"configurations are {apart(luck)} than that score: so much was luck with the folds."
        if lucky
        else "On fresh folds of the same training rows, where nothing was selected, the same "
        "configurations are no worse than that score, so that luck with the folds does not explain "
        "the difference.",
        "Luck with the rows themselves, which all these folds share, would not show here.",
        f"From the fresh folds to the test part they are {apart(rest)};"
        + (many if len(frame) > 1 else " the test part has rows of its own."),
    )


def detectable(studies: Sequence[Study], rule: Mapping) -> Html:
    """What these test rows could have shown, beside what matters; empty without both sides."""
    frame = frames.comparisons(studies, rule)
    if frame.empty or "gap" not in frame:
        return Html("")
    dataset = studies[0].dataset
    factor, unit = printing.scale(data.SPECS[dataset].metric), _unit(dataset)
    sentences = []
    for row in frame[frame["rows"] == "all test rows"].dropna(subset="gap").to_dict("records"):
        seen, matters = factor * row["detectable"], factor * row["matters"]
        enough = "enough to see" if seen <= matters else "too few to see"
        sentences.append(
            f"Between {row['challenger']} and {row['baseline']}, {row['n']:,} paired rows show "
            f"a true difference four times in five when it is {significant(seen)}{unit} or more; "
            f"{significant(matters)} would matter. They are {enough} it."
        )
    return paragraph(*sentences)


def conclusion(studies: Sequence[Study], rule: Mapping) -> Html:
    """The strongest sentences about challenger and baselines that the artifacts carry."""
    frame = frames.comparisons(studies, rule)
    if frame.empty or "gap" not in frame:
        return Html("")
    dataset = studies[0].dataset
    factor = printing.scale(data.SPECS[dataset].metric)
    every = frame[frame["rows"] == "all test rows"].dropna(subset="gap")
    return Html("".join(_against(row, factor, dataset, rule) for row in every.to_dict("records")))


def _against(row: Mapping, factor: float, dataset: str, rule: Mapping) -> Html:
    ours, theirs, unit = row["challenger"], row["baseline"], _unit(dataset)
    gap, sd, bar = row["fresh_gap"], row["seed_sd"], rule["gap_over_sd"]
    loss = rule["loss"].replace("_", " ")
    has_sd = math.isfinite(sd) and sd > 0
    fresh = (
        f"On fresh folds the mean {loss} of {ours} is {significant(abs(gap))} "
        f"{'lower' if gap > 0 else 'higher'} than that of {theirs}"
        + (f", {significant(abs(gap) / sd)} seed standard deviations" if has_sd else "")
        + (f" (the rule asks for more than {bar:g} in favor of {ours})." if has_sd else ".")
    )
    digits = decimals(factor * (row["high"] - row["low"]) / 4)
    low, high = (number(factor * row[name], digits) for name in ("low", "high"))
    test = (
        f"On the {row['n']:,} test rows one trained pair differs by "
        f"{number(abs(factor * row['gap']), digits)}{unit} in favor of "
        f"{ours if row['gap'] > 0 else theirs}; the 95 % interval of the gap over rows, positive "
        f"for {ours}, goes from {low} to {high}"
    )
    if row["low"] <= 0 <= row["high"]:
        return led(
            f"{ours} against {theirs}.", fresh, f"{test} and holds zero.",
            "The test part shows no difference between the two, and it does not show that there is "
            "none.",
        )  # fmt: skip
    better, worse = (ours, theirs) if row["low"] > 0 else (theirs, ours)
    agree = (gap > 0) == (row["low"] > 0) and (not has_sd or abs(gap) > bar * sd)
    last = (
        f"Both noises, taken one at a time, leave {better} better than {worse} on these data, with "
        "this search and budget."
        if agree
        else f"For this trained pair and rows like these {better} is better; the fresh folds do "
        "not say the same as clearly, so no more is claimed."
    )
    return led(f"{ours} against {theirs}.", fresh, f"{test} and leaves zero out.", last)


def unrecorded(rule: Mapping) -> Html:
    """Instead of a comparison that lacks one of its sides."""
    names = f"{rule['challenger']} and one of {', '.join(rule['baselines'])}"
    return paragraph(f"This needs the studies of {names}, which are not both recorded yet.")


def checked(studies: Sequence[Study]) -> Html:
    """How many correctness checks apply, and which of them failed."""
    found = [(s.model, c) for s in studies for c in s.record.read_json("checks.json")]
    applies = [(model, check) for model, check in found if check["passed"] is not None]
    failed = [f"{check['name']} of {model}" for model, check in applies if not check["passed"]]
    said = f"failed: {', '.join(failed)}" if failed else "all passed"
    return paragraph(f"{_count(len(applies), 'check')} apply; {said}.".replace("_", " "))


def agreement(dataset: data.Dataset) -> Html:
    """Whether the training rows agree with the constraints, alone and with the others held."""
    frame = frames.constraints(dataset)
    alone = frame.index[frame["sign"] * frame["rank"] > 0]
    against = frame.index[frame["sign"] * frame["held"] < 0]
    text = (
        f"Taken one at a time, {len(alone)} of the {len(frame)} constrained features rise and fall "
        "with the target as the constraint says."
    )
    if len(against):
        have = "its slope has" if len(against) == 1 else "their slopes have"
        text += (
            " A constraint says something else, though: what happens when this feature changes and "
            "nothing else does. There a least-squares plane disagrees about "
            f"{' and '.join(against)}: {have} the other sign. The "
            "constrained columns go up and down together, so the rows say little about that "
            "question; the constraint answers it from what is known about the subject."
        )
    return paragraph(text)


def decision(rule: Mapping) -> Html:
    """Who decides what, and the smallest difference that matters; from the rule's file."""
    smallest = rule["smallest_difference"]
    value = smallest["value"] * printing.scale(smallest["scale"])
    return Html(
        paragraph(rule["decision"])
        + paragraph(
            f"The smallest difference that matters: {np.format_float_positional(value, trim='-')} "
            f"{smallest['unit']} ({smallest['scale'].upper()}). {smallest['why']}"
        )
    )
