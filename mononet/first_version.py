"""The protocol's first version beside the present one: what changed, why, and what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mononet import data, parameters, printing, prose, secondary, tables
from mononet.printing import TITLES, Column, Html, number, render
from mononet.search import MINIMIZED, Trial, spread
from mononet.secondary import Secondary
from mononet.study import Study

NAME = "first version"
REASONS = {
    "objective": (
        "A mean does not ask how much the runs vary; the bound charges one standard deviation, "
        "which is dearest where some of them come close to a collapse."
    ),
    "search_seeds": (
        "One seed a fold can miss a collapse altogether; several see more, and a collapse that is "
        "seen rules the trial out under either objective."
    ),
    "final_seeds": (
        "A collapse on one seed in fifteen is missed by ten seeds every other time, by twenty "
        "every fourth."
    ),
}


@dataclass(frozen=True)
class Chapter:
    """The studies of the first version, recorded or not, and all headline studies of networks."""

    beside: tuple[Secondary, ...]
    headline: tuple[Study, ...]

    def show(self, name: str) -> Html:
        """A table or words of the chapter, by name."""
        return SHOWN[name](self)


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters (other names are left alone), checked."""
    folder = [("results_dir", parameters.given("first_version_page", given)["results_dir"])]
    beside, headline = [], []
    for dataset in data.SPECS:
        values = parameters.resolve(dataset, pairs=folder)
        beside += [each for each in secondary.of(dataset, values) if each.name == NAME]
        networks = [model for model in values["models"] if not model.startswith(("hgb", "linear"))]
        headline += [Study.of(dataset, model, values) for model in networks]
    return Chapter(tuple(beside), tuple(headline))


def changes(chapter: Chapter) -> Html:
    """What differs between the two versions, from the overlay's file, and why."""
    each = chapter.beside[0]
    rows = {
        name: {"first": first, "present": each.headline.parameters[name], "why": REASONS[name]}
        for name, first in each.changes.items()
    }
    columns = [Column(name, lambda row, name=name: row[name], "") for name in ("first", "present")]
    columns.append(Column("why it was changed", lambda row: row["why"], ""))
    note = "From params/first_version.yaml; everything else is the same in both."
    caption = "The first version of the protocol and the present one"
    return render(pd.DataFrame(rows).T, columns, caption, note, corner="parameter")


def results(chapter: Chapter) -> Html:
    """The studies of both versions side by side, a table a dataset."""
    shown = []
    for dataset in dict.fromkeys(each.study.dataset for each in chapter.beside):
        found = [each for each in chapter.beside if each.study.dataset == dataset]
        shown.append(f"<h3>{TITLES[dataset]}</h3>")
        shown += [tables.secondary(dataset, found), prose.first_version(found)]
    return Html("".join(shown))


# --- the same trials, selected by other rules -------------------------------------------------


def selections(trials: Sequence[Trial], minimized: bool) -> dict[str, Trial]:
    """Which trial three rules select from the same trials, each at its recorded epoch: the mean of
    the first seed of every fold, the mean of all values, the one-sigma bound."""
    sign = 1.0 if minimized else -1.0
    rules = {
        "mean, one seed": lambda v: sign * v[:, 0].mean(),
        "mean": lambda v: sign * v.mean(),
        "one-sigma bound": lambda v: sign * v.mean() + spread(v),
    }
    usable = [trial for trial in trials if np.isfinite(trial.values).all()]
    return {
        name: min(usable, key=lambda t: (rule(t.values), t.number)) for name, rule in rules.items()
    }


def others(chapter: Chapter) -> Html:
    """What the other rules would have selected in the recorded searches of all networks."""
    rows, numbers = {}, []
    for study in (s for s in chapter.headline if s.complete):
        metric = data.SPECS[study.dataset].metric
        factor = printing.scale(metric)
        found = selections(study.trials(), MINIMIZED[metric])
        row = {}
        for name, trial in found.items():
            digits = printing.decimals(factor * trial.std)
            mean, std = (number(factor * value, digits) for value in (trial.mean, trial.std))
            row[name] = f"{trial.number}: {mean} ± {std}"
            numbers.append(
                {"dataset": study.dataset, "model": study.model, "rule": name}
                | {"trial": trial.number, "mean": trial.mean, "std": trial.std}
                | {"constant": trial.constant}
            )
        row["some"] = sum(0 < t.constant < t.values.size for t in study.trials())
        rows[f"{TITLES[study.dataset]}, {study.model}"] = row
    if not rows:
        return Html('<p class="mn-note">No study of a network is recorded yet.</p>')
    columns = [
        Column(name, lambda row, name=name: row[name])
        for name in ("mean, one seed", "mean", "one-sigma bound")
    ]
    columns.append(Column("trials with some constant runs", lambda row: str(row["some"])))
    note = (
        "Number of the trial: mean ± standard deviation of all its fold × seed values. Values are "
        "those at the epoch that the one-sigma bound chose, so the first two rules are given a "
        "little less freedom than they would have had. Last column: trials of which some runs were "
        "constant at some epoch, and some never were; one seed a fold sees only a part of them."
    )
    caption = "What three rules select from the same recorded trials"
    frame = pd.DataFrame(rows).T
    return render(frame, columns, caption, note, corner="study", numbers=pd.DataFrame(numbers))


def agreement(chapter: Chapter) -> Html:
    """How often the rules agree."""
    found = [
        selections(study.trials(), MINIMIZED[data.SPECS[study.dataset].metric])
        for study in chapter.headline
        if study.complete
    ]
    if not found:
        return Html("")
    bound = "one-sigma bound"
    counts = {
        rule: sum(each[rule].number == each[bound].number for each in found)
        for rule in ("mean, one seed", "mean")
    }
    return prose.paragraph(
        f"In {len(found)} recorded searches of networks the mean of all values selects the same "
        f"trial as the bound {counts['mean']} times, the mean of one seed a fold "
        f"{counts['mean, one seed']} times."
    )


SHOWN = {"changes": changes, "results": results, "others": others, "agreement": agreement}
