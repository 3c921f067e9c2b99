"""Paired tests worked by hand: six weeks of losses, every number from `mononet.statistics`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import pandas as pd
from scipy import stats

from mononet import figures, parameters, printing, prose, statistics
from mononet.printing import Column, Html, number

DIGITS = 4


@dataclass(frozen=True)
class Chapter:
    """Paired losses of two models, (blocks,) each; nothing is recorded, all is computed anew."""

    baseline: tuple[float, ...]
    challenger: tuple[float, ...]
    resamples: int

    @functools.cached_property
    def paired(self) -> statistics.PairedT:
        return statistics.paired_t(self.baseline, self.challenger)

    @functools.cached_property
    def welch(self) -> statistics.WelchT:
        return statistics.welch_t(self.baseline, self.challenger)

    @functools.cached_property
    def pairing(self) -> statistics.Pairing:
        return statistics.pairing(self.baseline, self.challenger)

    @property
    def bar(self) -> float:
        """The t value to exceed: t(B − 1, 0.975)."""
        return float(stats.t.ppf(0.975, self.paired.df))

    def show(self, name: str) -> Html:
        """A table, a figure or words, by name."""
        return SHOWN[name](self)


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters, checked; other names are left alone."""
    values = parameters.given("paired", given)
    both = (tuple(values[name]) for name in ("baseline_losses", "challenger_losses"))
    return Chapter(*both, values["resamples"])


def losses(chapter: Chapter) -> Html:
    """The losses, week by week, with their differences."""
    frame = pd.DataFrame({"boosting": chapter.baseline, "network": chapter.challenger})
    frame["difference"] = frame["boosting"] - frame["network"]
    frame.index = [f"week {n}" for n in range(1, 1 + len(frame))]
    columns = [
        Column(name, lambda row, n=name, d=digits: number(row[n], d))
        for name, digits in (("boosting", 3), ("network", 3), ("difference", 3))
    ]
    return printing.render(frame, columns, "Log loss by week, and boosting minus network.")


@mpl.rc_context(figures.STYLE)
def figure(chapter: Chapter) -> Html:
    """Left: both losses by week. Right: their differences with the interval of the mean."""
    drawn, (left, right) = figures.panels(2, 2, 2.6)
    weeks = np.arange(1, 1 + len(chapter.baseline))
    for losses, name, color, marker in (
        (chapter.baseline, "boosting", 7, "s"),
        (chapter.challenger, "network", 0, "o"),
    ):
        left.plot(weeks, losses, marker=marker, color=figures.PALETTE[color], label=name)
    left.set(xlabel="week", ylabel="log loss", title="the losses")
    left.legend()
    d = np.subtract(chapter.baseline, chapter.challenger)
    right.plot(weeks, d, "D", color=figures.PALETTE[2])
    right.axhline(0, color=figures.GRAY, lw=1, ls="--")
    right.axhline(chapter.paired.mean, color="k", lw=1.2)
    right.axhspan(chapter.paired.low, chapter.paired.high, color="0.88", zorder=0)
    right.set(xlabel="week", ylabel="difference", title="the differences, mean and interval")
    for axis in (left, right):
        axis.set_xticks(weeks)
    t = chapter.paired
    caption = (
        "Left: both losses, week by week. Right: boosting minus network, above zero "
        "where the network is better; line and gray band are the mean and its 95 % interval by the "
        "paired t."
    )
    alt = (
        f"Two lines over {len(d)} weeks, and their differences: mean {number(t.mean, DIGITS)}, "
        f"interval {number(t.low, DIGITS)} to {number(t.high, DIGITS)}."
    )
    return figures.show(drawn, alt, caption)


def by_hand(chapter: Chapter) -> Html:
    """The paired t, one line a step."""
    t, b = chapter.paired, len(chapter.baseline)
    four = functools.partial(number, digits=DIGITS)
    steps = {
        "Mean of the differences": four(t.mean),
        "Standard deviation of the differences, ddof 1": number(t.std, 5),
        f"Standard error: {number(t.std, 5)} / √{b}": number(t.se, 5),
        f"t: {four(t.mean)} / {number(t.se, 5)}": number(t.t, 2),
        f"To exceed: t({t.df}, 0.975)": number(chapter.bar, 3),
        f"Interval: {four(t.mean)} ± {number(chapter.bar, 3)} · {number(t.se, 5)}": (
            f"[{four(t.low)}, {four(t.high)}]"
        ),
        "p": number(t.p, 3),
    }
    return _steps(steps, "The paired t test, step by step.")


def unpaired(chapter: Chapter) -> Html:
    """The same losses analyzed as if the weeks of one side had nothing to do with the other's."""
    w, v = chapter.welch, chapter.pairing
    steps = {
        "Variance of boosting's losses": number(v.var_baseline, 6),
        "Variance of the network's losses": number(v.var_challenger, 6),
        "Covariance of the two": number(v.covariance, 6),
        "Variance of the difference: sum of both, less twice the covariance": number(
            v.var_difference, 6
        ),
        "Welch's standard error, covariance left out": number(w.se, DIGITS),
        "t": number(w.t, 2),
        "p": number(w.p, 2),
    }
    return _steps(steps, "The unpaired analysis of the same numbers.")


def _steps(steps: Mapping[str, str], caption: str) -> Html:
    frame = pd.DataFrame({"value": steps.values()}, index=list(steps))
    return printing.render(frame, [Column("", lambda row: row["value"])], caption)


def verdict(chapter: Chapter) -> Html:
    """What the paired t says, and what pairing bought."""
    t, w = chapter.paired, chapter.welch
    holds = t.low <= 0 <= t.high
    first = (
        f"|t| is {number(abs(t.t), 2)}, {'below' if holds else 'above'} {number(chapter.bar, 3)}, "
        f"and the interval {'holds' if holds else 'leaves out'} zero, which is the same statement "
        "twice. "
    )
    first += (
        f"{len(chapter.baseline)} weeks do not show a difference. They do not show that there is "
        "none: the interval also holds "
        f"{number(max(t.low, t.high, key=abs), DIGITS)}."
        if holds
        else "For this pair of trained models and weeks like these, the difference is shown."
    )
    ratio = w.se / t.se if t.se else math.inf
    second = (
        f"The unpaired standard error of the same numbers is {number(ratio, 1)} times as large "
        f"(p = {number(w.p, 2)} instead of {number(t.p, 3)}): it counts hard weeks as noise on "
        "both sides. Subtracting first removes what the two sides share."
        if ratio > 1
        else "Here pairing buys nothing: the two losses do not go up and down together."
    )
    return prose.paragraph(first) + prose.paragraph(second)


def bootstrap(chapter: Chapter) -> Html:
    """The block bootstrap of the same differences beside the t interval."""
    d = np.subtract(chapter.baseline, chapter.challenger)
    block, t = statistics.block_bootstrap(d, chapter.resamples), chapter.paired
    ends = f"[{number(block.low, DIGITS)}, {number(block.high, DIGITS)}]"
    ratio = (block.high - block.low) / (t.high - t.low)
    said = "narrower" if ratio < 1 else "wider"
    both = (block.low <= 0 <= block.high) == (t.low <= 0 <= t.high)
    return prose.paragraph(
        f"The block bootstrap of the same {len(d)} differences ({chapter.resamples:,} resamples) "
        f"gives {ends}, {said} by a factor of {number(max(ratio, 1 / ratio), 2)}.",
        "The two agree about zero."
        if both
        else "The two disagree about zero. With so few blocks the t interval is the one to trust.",
    )


def detectable(chapter: Chapter) -> Html:
    """The smallest difference that so many weeks would have shown."""
    t, b = chapter.paired, len(chapter.baseline)
    seen = statistics.detectable_difference(t.std, b)
    enough = next(
        (n for n in range(b, 100_000) if statistics.detectable_difference(t.std, n) <= abs(t.mean)),
        None,
    )
    weeks = f"{enough:,} weeks" if enough else "more weeks than anybody has"
    return prose.paragraph(
        f"If the differences scatter as they do here, {b} weeks show a true difference four times "
        f"in five when it is {number(seen, DIGITS)} or more. A true difference as large as the one "
        f"measured would need about {weeks}."
    )


SHOWN: dict[str, Callable[[Chapter], Html]] = {
    "losses": losses,
    "figure": figure,
    "by hand": by_hand,
    "unpaired": unpaired,
    "verdict": verdict,
    "bootstrap": bootstrap,
    "detectable": detectable,
}
