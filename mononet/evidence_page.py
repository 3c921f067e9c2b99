"""What pages show of the ladder: what is lacking, rungs with their files, noises, claim, decision.

Each piece takes comparisons with their ladders: those of one dataset on its page, those of all
datasets on the reviewer's page.
"""

from __future__ import annotations

import functools
import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from mononet import claims, data, evidence, groups, intervals, parameters
from mononet.evidence import Comparison
from mononet.ladder import RUNGS, Ladder, chain
from mononet.printing import NONE, TITLES, Column, Html, render
from mononet.prose import bullets, led, paragraph


@dataclass(frozen=True)
class Case:
    """A comparison and its ladder."""

    comparison: Comparison
    ladder: Ladder

    @property
    def title(self) -> str:
        return self.ladder.title


def cases(dataset: str, values: Mapping) -> list[Case]:
    """The comparisons of a dataset's rule on the ladder, recorded or not."""
    return [Case(each, claims.climb(each)) for each in evidence.comparisons(dataset, values)]


def show(name: str, found: Sequence[Case]) -> Html:
    """A piece of a dataset's evidence, by name."""
    return SHOWN_ON_PAGE[name](found)


def lacking(found: Sequence[Case]) -> Html:
    """The proof that is still missing: one thing a comparison."""
    return paragraph("The proof that is still lacking:") + _lacking(found)


def _lacking(found: Sequence[Case]) -> Html:
    items = []
    for case in found:
        ladder = case.ladder
        if ladder.height == len(RUNGS):
            items.append(f"{case.title}: nothing; all five rungs are shown.")
        else:
            rung = ladder.rungs[ladder.height]
            items.append(f"{case.title}: {ladder.lacking} ({rung.name}, {rung.status}).")
    return bullets(items)


def wanted(found: Sequence[Case]) -> Html:
    """The claims that one would like to make."""
    claims_wanted = [f"“{case.ladder.wanted}”" for case in found]
    return paragraph("The claims that one would like to make:") + bullets(claims_wanted)


def overview(found: Sequence[Case], names: Sequence[str] | None = None) -> Html:
    """One line a comparison: its rungs, where the claim stops, what kind of number its gap is."""
    rows = [
        dict(zip(RUNGS, (rung.status for rung in case.ladder.rungs), strict=True))
        | {"shown": case.ladder.height, "kind": case.ladder.kind}
        for case in found
    ]
    frame = pd.DataFrame(rows, index=names or [case.title for case in found])
    columns = [
        Column(f"{n} {name}", lambda row, name=name: row[name], "")
        for n, name in enumerate(RUNGS, 1)
    ]
    columns += [
        Column("the claim stands on", lambda row: _rungs(row["shown"]), ""),
        Column("the gap is", lambda row: row["kind"], ""),
    ]
    note = (
        "A claim stops below the first rung, from the left, that is not shown; partly shown caps "
        "like not shown. Test-grade: estimated on test rows that chose nothing. Unfair comparison: "
        "the two sides were not given the same. Validation-level: the test part had a hand in the "
        "choice."
    )
    return render(frame, columns, "The evidence ladder", note, corner="comparison")


def _rungs(height: int) -> str:
    return "no rung" if height == 0 else "rung 1" if height == 1 else f"rungs 1 to {height}"


def rungs(found: Sequence[Case]) -> Html:
    """Every part of every rung with the files that it was decided from, folded comparison by
    comparison."""
    return Html("".join(_folded(case, first=case is found[0]) for case in found))


def _folded(case: Case, first: bool) -> str:
    rows, names = [], []
    for n, rung in enumerate(case.ladder.rungs, 1):
        for part in rung.parts:
            names.append(f"{n} {rung.name}")
            rows.append({"asks for": part.name} | part.__dict__)
    frame = pd.DataFrame(rows, index=names)
    columns = [
        Column("asks for", lambda row: row["asks for"], ""),
        Column("is", lambda row: row["status"], ""),
        Column("found", lambda row: row["found"] or NONE, ""),
        Column("missing", lambda row: row["missing"] or NONE, ""),
        Column("decided from", lambda row: Html(row["source"] or NONE), ""),
    ]
    numbers = frame[["asks for", "status", "found", "missing"]]
    table = render(frame, columns, f"The rungs of {case.title}", corner="rung", numbers=numbers)
    summary = html.escape(f"{case.title}: {_rungs(case.ladder.height)} shown")
    return f"<details{' open' if first else ''}><summary>{summary}</summary>{table}</details>"


def noises(found: Sequence[Case]) -> Html:
    """The two noises of every comparison, a line each, with what it covers."""
    said = []
    for case in found:
        lines = [part.found for part in case.ladder.rungs[2].parts]
        covers = (
            "It covers training again on the same rows, and no other rows.",
            "It covers rows like these for these two trained models, and no other training.",
        )
        lines = [f"{line} {what}" for line, what in zip(lines, covers, strict=True) if line]
        said.append(led(f"{case.title}.") + bullets(lines or ["Neither noise is known."]))
    return Html("".join(said))


def other_intervals(found: Sequence[Case]) -> Html:
    """The gap of every comparison under the intervals that did not decide."""
    shown = "".join(intervals.table(case.comparison) for case in found)
    return Html(shown) if shown else paragraph("No recorded gap can be read here.")


def claim(found: Sequence[Case]) -> Html:
    """The sentence that is left of every claim, and what kind of number stands in it."""
    said = []
    for case in found:
        ladder = case.ladder
        kind = f"Kind of number: {ladder.kind}" + (f", {ladder.why}." if ladder.why else ".")
        said.append(led(f"{case.title}.", ladder.sentence(), kind))
    return Html("".join(said))


def log(found: Sequence[Case]) -> Html:
    """The decision-log entry: recommendation, alternatives, evidence, reconsider when."""
    rows = {}
    for case in found:
        contest, ladder = case.ladder.contest, case.ladder
        checks = claims.checks(case.comparison)
        told = [f"{name}: {claims.PASSED[passed]}" for name, passed in checks]
        reopens = f"This is no longer lacking: {ladder.lacking}." if ladder.lacking else "As below."
        rows[case.title] = {
            "recommendation": ladder.recommendation(),
            "alternatives": contest.both,
            "evidence": f"{_rungs(ladder.height)} shown. {'; '.join(told) or 'Nothing recorded'}.",
            "reconsider when": reopens,
        }
    frame = pd.DataFrame(rows).T
    columns = [Column(name, lambda row, name=name: row[name], "") for name in frame]
    rule = found[0].comparison.rule
    note = (
        f"A row is of one baseline. The rule recommends {rule['challenger']} where, against every "
        "one of them, its three checks pass and the gap matters, on the declared slices too. A "
        "check is neither passed nor failed where the rows could not have told."
    )
    table = render(frame, columns, "The decision log", note, corner="decision")
    standing = found[0].comparison.standing
    which = led("The rule.", f"This decision rests on {standing.name}.", standing.said)
    reopen = paragraph("Whatever is lacking, this reopens the decision:") + triggers(found)
    return Html(table + which + reopen)


def triggers(found: Sequence[Case]) -> Html:
    """What reopens the decision, as the rule lists it; that about groups says where it is met."""
    met = [case.title for case in found if claims.moved(case.comparison)]
    rule = found[0].comparison.rule
    said = f" Met by {'; '.join(met)}." if met else ""
    return bullets([t + said if groups.TRIGGER in t else t for t in rule["triggers"]])


SHOWN_ON_PAGE: dict[str, Callable[[Sequence[Case]], Html]] = {
    "lacking": lacking,
    "wanted": wanted,
    "ladder": overview,
    "rungs": rungs,
    "noises in words": noises,
    "intervals": other_intervals,
    "claim": claim,
    "log": log,
    "triggers": triggers,
}


# --- the reviewer's page ------------------------------------------------------------------------


def open_chapter(given: Mapping, overlays: Sequence[str] = ()) -> Chapter:
    """The reviewer's page from its notebook's parameters (other names are left alone), checked.

    The comparisons are those of the full protocol of each dataset, or of `overlays` over it.
    """
    values = parameters.given("evidence", given)
    pairs = [("results_dir", values["results_dir"])]
    return Chapter({d: parameters.resolve(d, overlays, pairs) for d in data.SPECS})


@dataclass(frozen=True)
class Chapter:
    """All comparisons of the book; `values` are the parameters of each dataset's studies."""

    values: Mapping[str, Mapping]

    @functools.cached_property
    def cases(self) -> dict[str, list[Case]]:
        return {dataset: cases(dataset, values) for dataset, values in self.values.items()}

    @property
    def every(self) -> list[Case]:
        return [case for found in self.cases.values() for case in found]

    def show(self, name: str) -> Html:
        """A piece of the page, by name."""
        return SHOWN_FOR_REVIEW[name](self)


def summary(chapter: Chapter) -> Html:
    """How far the claims of the book climb, in one paragraph."""
    every = chapter.every
    counts = {name: sum(c.ladder.height == n for c in every) for n, name in enumerate(RUNGS)}
    stops = [f"{count} below {name}" for name, count in counts.items() if count]
    top = sum(case.ladder.height == len(RUNGS) for case in every)
    stand = f"{top} {'claim stands' if top == 1 else 'claims stand'}" if top else "No claim stands"
    others = "; the others stop" if top else ": they stop"
    return paragraph(
        f"The rules of {len(chapter.cases)} datasets declare {len(every)} comparisons. {stand} on "
        f"all five rungs{f'{others}, {chain(stops)}' if stops else ''}."
    )


def all_ladders(chapter: Chapter) -> Html:
    """Every comparison of the book on one table."""
    names = [f"{TITLES[d]}: {case.title}" for d, found in chapter.cases.items() for case in found]
    return overview(chapter.every, names)


def _each(piece: Callable[[Sequence[Case]], Html]) -> Callable[[Chapter], Html]:
    def shown(chapter: Chapter) -> Html:
        said = (led(f"{TITLES[d]}.") + piece(found) for d, found in chapter.cases.items())
        return Html("".join(said))

    return shown


def kinds(chapter: Chapter) -> Html:
    """The comparisons by what kind of number their gap is, with the reason."""
    items = [
        f"{TITLES[d]}, {case.title}: {case.ladder.kind}"
        + (f", since {case.ladder.why}." if case.ladder.why else ".")
        for d, found in chapter.cases.items()
        for case in found
    ]
    return bullets(items)


def standings(chapter: Chapter) -> Html:
    """Which of the decision rules is a rule."""
    items = []
    for dataset, found in chapter.cases.items():
        standing = found[0].comparison.standing
        items.append(f"{TITLES[dataset]}: {standing.name}. {standing.said}")
    return bullets(items)


def decisions(chapter: Chapter) -> Html:
    """Recommendation and what would change it, comparison by comparison."""
    rows = {
        f"{TITLES[d]}: {case.title}": {
            "recommendation": case.ladder.recommendation(),
            "lacking": case.ladder.lacking or NONE,
        }
        for d, found in chapter.cases.items()
        for case in found
    }
    frame = pd.DataFrame(rows).T
    columns = [Column(name, lambda row, name=name: row[name], "") for name in frame]
    return render(frame, columns, "What follows, comparison by comparison", corner="comparison")


SHOWN_FOR_REVIEW = {
    "summary": summary,
    "lacking": _each(_lacking),
    "ladder": all_ladders,
    "kinds": kinds,
    "rules": standings,
    "claims": _each(claim),
    "decisions": decisions,
}
