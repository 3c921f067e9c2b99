"""The comparisons that a dataset's rule declares, and what their studies' files say of them.

Nothing is remembered: a comparison is two studies, and everything about it is read from their
folders, the ledger, the rule and its history.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mononet import data, frames, parameters, printing, rules, secondary
from mononet.ladder import LOSS, OPEN, TIE, WIN
from mononet.prose import unit_of
from mononet.record import RecordError
from mononet.search import MINIMIZED, SearchError
from mononet.statistics import StatisticsError
from mononet.study import Study

UNREADABLE = (RecordError, SearchError, StatisticsError, data.DataError, KeyError)


@dataclass(frozen=True)
class Comparison:
    """A challenger and a baseline of one dataset, and all studies whose trials each side spent.

    ``label`` is the challenger's name in words; ``absent`` names the studies that the comparison
    asks for and that are not recorded; ``trials`` are those of a headline study.
    """

    dataset: str
    rule: Mapping
    standing: rules.Standing
    challenger: Study
    baseline: Study
    label: str
    trials: int
    spent: tuple[tuple[Study, ...], tuple[Study, ...]]
    absent: tuple[str, ...] = ()

    @property
    def both(self) -> tuple[Study, Study]:
        return self.challenger, self.baseline

    @property
    def metric(self) -> str:
        return data.SPECS[self.dataset].metric

    @property
    def factor(self) -> float:
        return printing.scale(self.metric)

    @property
    def unit(self) -> str:
        return unit_of(self.dataset)

    def named(self, study: Study) -> str:
        """A study's model, with its trials where they are not those of a headline study."""
        trials = study.parameters["n_trials"]
        return study.model if trials == self.trials else f"{study.model} with {trials} trials"

    @functools.cached_property
    def rows(self) -> list[dict]:
        """`frames.comparison`: all test rows, then each declared slice."""
        return frames.comparison(self.challenger, self.baseline, self.rule)

    @functools.cached_property
    def whole(self) -> dict:
        """The row of all test rows; without a gap where a prediction is not finite."""
        return self.rows[0]

    @functools.cached_property
    def outcome(self) -> str:
        """What the test interval says: win, loss, tie (inside what matters), or open."""
        try:
            row = self.whole
        except (*UNREADABLE, ValueError):
            return OPEN
        if "gap" not in row:
            return OPEN
        if row["low"] > 0:
            return WIN
        if row["high"] < 0:
            return LOSS
        return TIE if -row["matters"] < row["low"] and row["high"] < row["matters"] else OPEN

    @property
    def ahead(self) -> str:
        return {WIN: self.label, LOSS: self.named(self.baseline)}.get(self.outcome, "")

    @functools.cached_property
    def fresh(self) -> tuple[float, float]:
        """Gap of the metric over the fresh folds, positive where the challenger is better, and the
        larger seed sd of the two (0 where seeds change neither)."""
        runs = [study.runs("validation") for study in self.both]
        sign = -1 if MINIMIZED[self.metric] else 1
        gap = sign * (frames.fresh_mean(runs[0]) - frames.fresh_mean(runs[1]))
        return gap, max((_fold_sd(each) for each in runs), default=0.0)

    @functools.cached_property
    def apart(self) -> np.ndarray:
        """`frames.pairs_apart` of the two studies."""
        return frames.pairs_apart(self.baseline, self.challenger)

    def seeds(self) -> int:
        """Final seeds of the side that has more."""
        return max(len(study.final_seeds) for study in self.both)

    @functools.cached_property
    def cost(self) -> list[tuple[float, float]]:
        """Seconds of one final training and of 1,000 predictions, challenger and baseline."""
        found = []
        for study in self.both:
            cost, runs = study.record.read_csv("cost.csv"), len(study.runs("test"))
            train = cost.loc[cost["step"] == "refit", "seconds"].sum() / runs
            predict = cost.loc[cost["step"] == "predict 1,000 rows", "seconds"].iloc[-1]
            found.append((float(train), float(predict)))
        return found

    @property
    def timed(self) -> str:
        """Where the seconds of the two sides were taken; empty for one kind of processor."""
        kinds = {each.description["provenance"]["processor"] for each in self.both}
        names = {kind.split(",")[0] for kind in kinds}
        whole = kinds.isdisjoint(names)  # a record of the name alone may mean several kinds
        if len(names) > 1 or (whole and len(kinds) > 1):
            return "on different processors"
        return "" if whole else "on processors not known to be alike"


def _fold_sd(runs: pd.DataFrame) -> float:
    return frames.fold_sd(runs) if runs["seed"].nunique() > 1 else 0.0


def usable(study: Study) -> bool:
    """Whether a study is recorded to its end, and its description is what was recorded."""
    try:
        return study.complete
    except RecordError:
        return False


def comparisons(dataset: str, values: Mapping) -> list[Comparison]:
    """The comparisons that the rule of a dataset declares, recorded or not.

    The challenger against each baseline; then the best of the flavors, by the objective of their
    selection, against the baseline that was given as many trials as all of them together.
    """
    rule = parameters.read_rule(dataset)
    second = rule["second_comparison"]
    names = [rule["challenger"], *rule["baselines"], *second["flavors"], second["baseline"]]
    headline = {name: Study.of(dataset, name, values) for name in dict.fromkeys(names)}
    larger = Study.of(dataset, second["baseline"], {**values, "n_trials": second["trials"]})
    ours, flavors = headline[rule["challenger"]], [headline[name] for name in second["flavors"]]
    beside = [each.study for each in secondary.of(dataset, values)]
    hashes = {
        f"{study.model} ({study.identity[:8]})": study.description["provenance"]["rule_sha256"]
        for study in [*headline.values(), larger, *beside]
        if usable(study)
    }
    common = {
        "dataset": dataset,
        "rule": rule,
        "standing": rules.standing(dataset, hashes, openings(ours)),
        "trials": values["n_trials"],
    }
    found = [
        Comparison(
            challenger=ours,
            baseline=headline[name],
            label=rule["challenger"],
            spent=((ours,), (headline[name],)),
            **common,
        )
        for name in rule["baselines"]
    ]
    recorded = [study for study in flavors if usable(study)]
    best = _best(recorded)
    against = larger if usable(larger) else headline[second["baseline"]]
    absent = [study.model for study in flavors if study not in recorded]
    if against is not larger:
        absent.append(f"{second['baseline']} with {second['trials']} trials")
    last = Comparison(
        challenger=best or ours,
        baseline=against,
        label=f"the best flavor by objective ({best.model})" if best else "the best flavor",
        spent=(tuple(recorded), (against,)),
        absent=tuple(absent),
        **common,
    )
    return [*found, last]


def _best(studies: Sequence[Study]) -> Study | None:
    """The study with the best objective: five searches are judged as the trials of one are."""
    found = []
    for study in studies:
        try:
            found.append((study.selected.objective, study))
        except UNREADABLE:
            continue
    if not found:
        return None
    minimized = MINIMIZED[data.SPECS[studies[0].dataset].metric]
    return (min if minimized else max)(found, key=lambda each: each[0])[1]


def openings(study: Study) -> pd.DataFrame:
    """The ledger of a study's dataset; empty where the file is none, as a rung then says."""
    try:
        return data.read_ledger(study.ledger)
    except data.DataError:
        return data.read_ledger(study.shelf / "no ledger")
