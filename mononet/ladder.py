"""The evidence ladder: parts, rungs, how far a claim climbs, and the sentence that is left of it.

Plain values and words, whatever they were read from. A claim "A beats B" stops below the first
rung, from the bottom, that is not *shown*; *partly shown* caps like *not shown*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SHOWN, PARTLY, NOT = "shown", "partly shown", "not shown"
RUNGS = ("Correct", "Fair", "Larger than noise", "Relevant", "Bounded")
WIN, LOSS, TIE, OPEN = "win", "loss", "tie", "open"  # as the challenger sees it
TEST_GRADE, UNFAIR, VALIDATION = "test-grade", "unfair comparison", "validation-level"
NOTHING = "no number yet"


@dataclass(frozen=True)
class Part:
    """One thing that a rung asks for: what was found, in which files, and what is missing.

    ``found`` and ``missing`` are text, the latter a noun phrase; ``source`` is HTML (links to the
    files) or empty. Without a ``needed`` part its rung is not shown at all.
    """

    name: str
    status: str
    found: str = ""
    missing: str = ""
    source: str = ""
    needed: bool = False


@dataclass(frozen=True)
class Rung:
    """A rung and what it asks for."""

    name: str
    parts: tuple[Part, ...]

    @property
    def status(self) -> str:
        statuses = {part.status for part in self.parts}
        if statuses == {SHOWN}:
            return SHOWN
        lacking = any(part.needed and part.status == NOT for part in self.parts)
        return NOT if lacking or statuses == {NOT} else PARTLY

    @property
    def missing(self) -> str:
        """The one thing missing: that of a needed part first, of a part not shown at all next."""
        lacking = [part for part in self.parts if part.status != SHOWN]
        lacking.sort(key=lambda part: (not part.needed, part.status != NOT))
        return lacking[0].missing if lacking else ""


@dataclass(frozen=True)
class Contest:
    """Two sides and what lies between them, each entry in the words of the sentence it goes into.

    ``gap`` has no sign. ``retraining`` and ``sampling`` are the two noises, ``slices`` names those
    on which the result holds, ``bounds`` says where it was followed to, ``untested`` what was not.
    """

    challenger: str
    baseline: str
    outcome: str
    where: str  # data, split and features, after "On "
    budget: str
    metric: str  # what selected, and what the gap is measured in
    better_metric: str  # as in "the lower MSE"
    gap: str
    matters: str
    retraining: str
    sampling: str
    cost: str = ""
    cheaper: str = ""
    timed: str = ""  # where the seconds were taken, unless on one kind of processor
    slices: str = ""
    bounds: str = ""
    untested: str = ""
    triggers: tuple[str, ...] = ()

    @property
    def ahead(self) -> str:
        """The side that the result speaks for; empty where it speaks for neither."""
        return {WIN: self.challenger, LOSS: self.baseline}.get(self.outcome, "")

    @property
    def both(self) -> str:
        return f"{self.challenger} and {self.baseline}"


@dataclass(frozen=True)
class Ladder:
    """One comparison on the ladder. ``kind`` says what kind of number its gap is, ``why`` why."""

    contest: Contest
    rungs: tuple[Rung, ...]
    kind: str = TEST_GRADE
    why: str = ""

    @property
    def height(self) -> int:
        """How many rungs, from the bottom, are shown without a gap between them."""
        for n, rung in enumerate(self.rungs):
            if rung.status != SHOWN:
                return n
        return len(self.rungs)

    @property
    def lacking(self) -> str:
        """The one thing whose absence stops the claim; empty on top of the ladder."""
        return "" if self.height == len(self.rungs) else self.rungs[self.height].missing

    @property
    def title(self) -> str:
        return f"{self.contest.challenger} against {self.contest.baseline}"

    @property
    def wanted(self) -> str:
        """The claim that one would like to make."""
        contest = self.contest
        if contest.outcome == TIE:
            return f"{contest.challenger} does as well as {contest.baseline}."
        ahead = contest.ahead or contest.challenger
        behind = contest.baseline if ahead == contest.challenger else contest.challenger
        return f"{ahead} beats {behind}."

    def sentence(self) -> str:
        """The strongest sentences that the shown rungs carry."""
        return " ".join(text for text in _SENTENCES[self.height](self) if text)

    def recommendation(self) -> str:
        """Which of the two to take, from how far the claim climbed."""
        contest, height = self.contest, self.height
        if contest.outcome == LOSS and height >= 3:
            return f"Take {contest.baseline}."
        if contest.outcome == WIN and height >= 4:
            return f"Take {contest.challenger}."
        cheaper = contest.cheaper or "the cheaper of the two"
        if contest.outcome == TIE and height == 5:
            return f"Take {cheaper}, the cheaper of the two: nothing that matters is lost."
        if contest.outcome == TIE and height >= 3:
            return f"Take {cheaper}, the cheaper of the two, within what was looked at."
        neither = "Neither, on this evidence"
        if height == 0 or not (contest.ahead or contest.cheaper):
            return f"{neither}."
        if contest.ahead:
            return f"{neither}, although the test interval speaks for {contest.ahead}."
        where = f" ({contest.timed})" if contest.timed else ""
        return (
            f"{neither}. Of the two, {cheaper} costs less, one training and 1,000 predictions "
            f"together{where}."
        )


def chain(clauses: Sequence[str]) -> str:
    """Clauses with commas and a last *and*."""
    *others, last = clauses
    return f"{', '.join(others)} and {last}" if others else last


# --- the sentence, a function a height ----------------------------------------------------------


def _nothing(ladder: Ladder) -> list[str]:
    return [
        f"Nothing is claimed about {ladder.contest.both} on {ladder.contest.where}: a difference "
        "between them could be a fault of the code.",
        _lacking(ladder),
    ]


def _correct(ladder: Ladder) -> list[str]:
    return [
        f"On {ladder.contest.where}, {ladder.contest.both} pass the checks that apply to them. "
        "Which of the two is better is not known, because the contest between them was not shown "
        "to be fair in all five respects.",
        _lacking(ladder),
        _waiting(ladder),
    ]


def _fair(ladder: Ladder) -> list[str]:
    contest, number = ladder.contest, f"{ladder.contest.gap} ({ladder.kind})"
    if contest.outcome in (WIN, LOSS):
        found = (
            f"One trained pair differs by {number} in favor of {contest.ahead}, but this "
            f"does not order the two yet: {contest.retraining}; {contest.sampling}."
        )
    elif contest.outcome == TIE:
        found = (
            f"One trained pair {_apart(ladder)}, less than the {contest.matters} that "
            f"would matter, but this does not make it a tie yet: {contest.retraining}; "
            f"{contest.sampling}."
        )
    else:
        found = (
            "That either of them is better was not shown, nor that the two are as good as each "
            f"other: one trained pair {_apart(ladder)}, where {contest.matters} would "
            f"matter; {contest.retraining}; {contest.sampling}."
        )
    return [_contest(contest), found, _lacking(ladder)]


def _noise(ladder: Ladder) -> list[str]:
    last = "That the difference matters was not shown."
    if ladder.contest.outcome == TIE:
        last = "That this holds beyond the average over all rows was not shown."
    return [_contest(ladder.contest), _result(ladder), last, _lacking(ladder)]


def _relevant(ladder: Ladder) -> list[str]:
    return [
        _contest(ladder.contest),
        _result(ladder),
        _weight(ladder.contest),
        "Where the result stops holding was not shown.",
        _lacking(ladder),
    ]


def _bounded(ladder: Ladder) -> list[str]:
    contest = ladder.contest
    return [
        _contest(contest),
        _result(ladder),
        _weight(contest),
        f"{contest.bounds}." if contest.bounds else "",
        f"Not tested: {contest.untested}" if contest.untested else "",
        f"What would reopen the question: {' '.join(contest.triggers)}" if contest.triggers else "",
    ]


def _apart(ladder: Ladder) -> str:
    """How far one trained pair is apart; a gap of exactly zero has no size to name."""
    gap = ladder.contest.gap
    return f"{'comes out alike' if gap.startswith('0 ') else f'differs by {gap}'} ({ladder.kind})"


def _contest(contest: Contest) -> str:
    return (
        f"On {contest.where}, {contest.both} were selected by {contest.metric} in the same kind of "
        f"search, {contest.budget}, and the test part was opened once for each of these studies, "
        "after all choices."
    )


def _result(ladder: Ladder) -> str:
    contest, number = ladder.contest, f"{ladder.contest.gap} ({ladder.kind})"
    if contest.outcome == TIE:
        return (
            f"They do equally well as far as it matters: one trained pair {_apart(ladder)}, "
            f"{contest.sampling}, all of it less than the {contest.matters} that would matter, and "
            f"{contest.retraining}."
        )
    return (
        f"There {contest.ahead} has the {contest.better_metric}, by {number}, which is larger than "
        f"either noise: {contest.retraining}; {contest.sampling}."
    )


def _weight(contest: Contest) -> str:
    said = (
        "The tie holds"
        if contest.outcome == TIE
        else f"The gap is no smaller than the {contest.matters} declared to matter, and it holds"
    )
    where = f" on {contest.slices}" if contest.slices else " on every declared slice"
    return said + where + (f"; {contest.cost}." if contest.cost else ".")


def _lacking(ladder: Ladder) -> str:
    return f"What is lacking: {ladder.lacking}." if ladder.lacking else ""


def _waiting(ladder: Ladder) -> str:
    """The rungs that are shown further up: they carry nothing before this one does."""
    above = [rung.name for rung in ladder.rungs[ladder.height + 1 :] if rung.status == SHOWN]
    return f"Shown, but without weight until then: {chain(above)}." if above else ""


_SENTENCES = (_nothing, _correct, _fair, _noise, _relevant, _bounded)
