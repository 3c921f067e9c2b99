"""A review of anybody's run log: the reviewer's checks, both noises, the ladder, what is left.

Such files show nothing about code or fairness, and the ladder says so.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from mononet import parameters, runlog, statistics
from mononet.ladder import LOSS, NOT, OPEN, RUNGS, SHOWN, TIE, WIN, Ladder, Part, Rung
from mononet.printing import Column, Html, number, render, significant
from mononet.prose import bullets

FEW_BLOCKS, FEW_SEEDS = 20, 10
DEPENDENT = 0.3  # lag-1 autocorrelation above which longer blocks are asked for

WORD = {True: "pass", False: "fail", None: "not shown"}
PARTS = ["passed", "found", "meaning"]  # of a check, behind its name


class Review(runlog.Log):
    """What a reviewer asks of a log."""

    def checks(self) -> list[tuple[str, bool | None, str, str]]:
        """Name, whether it passed (None: the log cannot tell), what was found, what it means."""
        gap, shifted, block = self.gap("validation"), self.shifted, self.block
        times = f", {significant(gap / self.seed_sd)} seed sd" if self.seed_sd else ""
        return [
            (
                "validation gap above the bar",
                gap > self.bar,
                f"gap {self.text(gap)}{times}; bar {self.text(self.bar)}",
                "training again would hardly turn the order around.",
            ),
            (
                "test interval above zero",
                None if block is None else block.low > 0,
                "no losses by block" if block is None else self._interval(),
                "other blocks like these would still favor this trained challenger.",
            ),
            (
                "not worse on the shifted slice",
                None if shifted is None else shifted >= 0,
                "no such split" if shifted is None else f"gap {self.text(shifted)}",
                "nothing is lost where tomorrow's rows differ most from today's.",
            ),
        ]

    def recommended(self) -> bool:
        """Whether all three checks pass."""
        return all(passed for _, passed, _, _ in self.checks())

    def _interval(self) -> str:
        mean, low, high = (self.text(v) for v in (self.block.mean, self.block.low, self.block.high))
        said = f"mean {mean}, 95 % interval [{low}, {high}]"
        if not self.seed_sd:
            return said
        return f"{said}, {number(self.block.mean / self.seed_sd, 2)} seed sd"

    def noises(self) -> list[str]:
        """One line a noise, with what it covers; then what makes either doubtful."""
        gap, n = self.gap("validation"), min(map(self.seeds, self.moved), default=0)
        names = f"{self.challenger} against {self.baseline}"
        lines = []
        if self.seed_sd:
            lines.append(
                f"Training again ({names}, validation, n = {n} seeds): gap {self.text(gap)}, seed "
                f"standard deviation {self.text(self.seed_sd)}, the larger of the two. It covers "
                "retraining on the same rows, and no other rows."
            )
        else:
            lines.append("Training again: seeds move neither model, so there is no such noise.")
        if n < FEW_SEEDS and self.seed_sd:
            lines.append(f"A spread from {n} seeds is rough: its second digit means nothing.")
        if self.losses is None:
            return [*lines, "Drawing the blocks again: not known without losses by block."]
        lines.append(
            f"Drawing the {len(self.losses)} blocks again: {self._interval()}. It covers blocks "
            "like these for one trained pair, and no other training."
        )
        return lines + self._doubts()

    def _doubts(self) -> list[str]:
        """Ways in which this interval over blocks can mislead, as far as the blocks show them."""
        baseline, challenger = self.losses[self.baseline], self.losses[self.challenger]
        d, lines = (baseline - challenger).to_numpy(), []
        if len(d) < FEW_BLOCKS:
            t = statistics.paired_t(baseline, challenger)
            lines.append(
                f"With {len(d)} blocks the interval to trust is the paired t's, "
                f"[{self.text(t.low)}, {self.text(t.high)}]."
            )
        if len(d) >= 4:
            lag = statistics.lag1_autocorrelation(d)
            verdict = "longer blocks are needed" if lag > DEPENDENT else "no reason for longer ones"
            lines.append(f"Lag-1 autocorrelation of the blocks {number(lag, 2)}: {verdict}.")
            halves = [self.text(half.mean()) for half in np.array_split(d, 2)]
            lines.append(f"Drift: first half of the blocks {halves[0]}, second half {halves[1]}.")
        return lines

    def ladder(self) -> Ladder:
        """The ladder, with the rungs that a log cannot show marked as such."""
        _, blocks, shifted = (found for _, _, found, _ in self.checks())
        parts = {
            "Correct": [Part("checks", NOT, missing="checks of both models, not in a log of runs")],
            "Fair": [
                Part("metric", SHOWN, f"{self.metric} on both sides"),
                Part(
                    "rows, features, budget, openings",
                    NOT,
                    missing="rows, features, tuning budget and openings of both sides",
                    needed=True,
                ),
            ],
            "Larger than noise": [
                self._part("training again", self._trained(), "a validation gap above the bar"),
                self._part(
                    "drawing blocks again",
                    self.outcome != OPEN,
                    "losses by block whose interval leaves zero out",
                    blocks,
                ),
            ],
            "Relevant": [
                self._size(),
                self._part(
                    "shifted slice", self._holds(), "the result on a shifted slice", shifted
                ),
            ],
            "Bounded": [Part("bounds", NOT, missing="slices, sizes, limits and dated triggers")],
        }
        return Ladder(None, tuple(Rung(name, tuple(parts[name])) for name in RUNGS))

    def _part(self, name: str, holds: bool, missing: str, found: str = "") -> Part:
        found = found or self.checks()[0][2]
        return Part(name, SHOWN if holds else NOT, found, "" if holds else missing)

    @property
    def _sign(self) -> int:
        return -1 if self.outcome == LOSS else 1

    def _trained(self) -> bool:
        """Whether the validation gap carries what the interval over blocks says."""
        gap = self.gap("validation")
        if self.outcome == TIE:
            return abs(gap) + self.bar < self.matters
        return self._sign * gap > self.bar

    def _holds(self) -> bool:
        if self.shifted is None or self.outcome == OPEN:
            return False
        if self.outcome == TIE:
            return abs(self.shifted) < self.matters
        return self._sign * self.shifted >= 0

    def _size(self) -> Part:
        if self.matters is None:
            missing = "a smallest difference that matters, declared beforehand"
            return Part("gap against what matters", NOT, missing=missing, needed=True)
        size = abs(self.block.mean if self.block is not None else self.gap("validation"))
        unit = self.rule["smallest_difference"].get("unit", self.metric)
        found = f"{self.text(size)} against {self.matters:g} {unit}"
        holds = (self.outcome in (WIN, LOSS) and size >= self.matters) or self.outcome == TIE
        missing = "" if holds else f"a gap of at least {self.matters:g} beyond noise, or a tie"
        return Part("gap against what matters", SHOWN if holds else NOT, found, missing, "", True)

    def sentence(self) -> str:
        """The strongest sentences that the log leaves."""
        c, b = self.challenger, self.baseline
        return (
            f"By itself this log supports no claim that {c} is better than {b}, nor the other way "
            "around: it shows neither that both compute what they should nor that they were given "
            f"the same chances. Granted both, {self._granted()}."
        )

    def _again(self) -> str:
        """What training again would add to the interval over blocks, as the clause behind it."""
        gap = self.gap("validation")
        if self.outcome == OPEN and abs(gap) > self.bar:
            return "but training again would show one"
        if self.outcome == OPEN:
            return "and nothing says that training again would show one"
        if self._trained():
            return "and training again would say the same"
        if self.outcome != TIE and -self._sign * gap > self.bar:
            return "but training again would say the opposite"
        return "but nothing says that training again would find it so"

    def _granted(self) -> str:
        c, b, gap = self.challenger, self.baseline, self.gap("validation")
        times = f", {significant(abs(gap) / self.seed_sd)} of them" if self.seed_sd else ""
        where = "above" if gap > self.bar else "beyond" if -gap > self.bar else "not above"
        side = f", in favor of {b}" if -gap > self.bar else ""
        training = (
            f"the validation gap of {self.text(gap)} is {where} the bar of {self.text(self.bar)} "
            f"set by {self.rule.get('gap_over_sd', 2):g} seed standard deviations{times}{side}"
        )
        if self.block is None:
            return f"{training}, and how much other rows would change is not known"
        blocks = {
            WIN: f"this trained {c} has the lower loss than this trained {b} on blocks like these",
            LOSS: f"this trained {b} has the lower loss than this trained {c} on blocks like these",
            TIE: f"this trained pair of {c} and {b} differs by less than what matters",
            OPEN: f"no difference of this trained pair of {c} and {b} is shown, and none excluded",
        }[self.outcome]
        said = f"{blocks} ({self._interval()}), {self._again()}: {training}"
        if self.shifted is not None:
            word = "not worse" if self.shifted >= 0 else "worse"
            said += f"; on the shifted slice {c} is {word} (gap {self.text(self.shifted)})"
        return said


def review(
    runs: str | Path, blocks: str | Path | None = None, rule: str | Path | None = None
) -> Review:
    """The review of a log from its files; runlog.ReviewError where one of them is not usable."""
    log = runlog.read(runs, blocks, rule)
    return Review(log.runs, log.losses, log.challenger, log.baseline, log.lower, log.rule)


def sections(found: Review) -> dict[str, list[str]]:
    """The review as lines of text under headings, in the order of a review."""
    ladder = found.ladder()
    rungs = [
        f"{n} {rung.name}: {rung.status}" + (f"; lacking {rung.missing}" if rung.missing else "")
        for n, rung in enumerate(ladder.rungs, 1)
    ]
    recommended = "yes, once rungs 1 and 2 are shown" if found.recommended() else "no"
    return {
        "Checks": [
            f"{name}: {WORD[passed]} ({said}). A pass means: {meaning}"
            for name, passed, said, meaning in found.checks()
        ],
        "Two noises": found.noises(),
        "The ladder": rungs,
        "What is left": [found.sentence(), f"Recommend {found.challenger}: {recommended}."],
    }


def as_text(found: Review) -> str:
    """The review for a terminal."""
    lines = [f"Review: {found.challenger} against {found.baseline}, {found.metric}"]
    for title, said in sections(found).items():
        lines += ["", title, *(textwrap.fill(line, 96, subsequent_indent="  ") for line in said)]
    return "\n".join(lines)


def as_html(found: Review, title: str) -> Html:
    """One section of the review for a page."""
    if title != "Checks":
        return bullets(sections(found)[title])
    rows = found.checks()
    frame = pd.DataFrame([row[1:] for row in rows], [row[0] for row in rows], PARTS)
    columns = [
        Column("result", lambda row: WORD[row["passed"]], ""),
        Column("found", lambda row: row["found"], ""),
        Column("a pass means", lambda row: row["meaning"], ""),
    ]
    caption = f"{found.challenger} against {found.baseline}, {found.metric}"
    return render(frame.astype(object), columns, caption, corner="check")


def open_chapter(given: Mapping) -> Review:
    """The review of a notebook's parameters (other names are left alone), checked."""
    values = parameters.given("review", given)
    return review(values["runs"], values["blocks"], values["rule"])
