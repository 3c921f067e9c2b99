"""Anybody's run log: what its files hold, and the two noises in it.

A log is a table of final runs (model, seed, split, metric, value) and, where there is one, a table
of losses by block of the evaluation part (block, model, loss).
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from mononet import parameters, statistics
from mononet.ladder import LOSS, OPEN, TIE, WIN
from mononet.printing import decimals, number

RUNS = ("model", "seed", "split", "metric", "value")
BLOCKS = ("block", "model", "loss")
RULE = (
    *("challenger", "baseline", "gap_over_sd", "shifted"),
    *("smallest_difference", "lower_is_better", "deterministic"),
)
LOWER = ("mse", "rmse", "mae", "log_loss", "loss", "error", "error_rate", "brier")
HIGHER = ("accuracy", "auc", "roc_auc", "r2", "f1", "precision", "recall")


class ReviewError(Exception):
    """A log or a rule that cannot be reviewed; the message is one clear sentence."""


@dataclass(frozen=True)
class Log:
    """A run log and the two models compared.

    ``runs`` has one metric. The columns of ``losses``, a row a block, are baseline and challenger;
    it is None without a table of blocks.
    """

    runs: pd.DataFrame
    losses: pd.DataFrame | None
    challenger: str
    baseline: str
    lower: bool
    rule: Mapping

    @property
    def metric(self) -> str:
        return self.runs["metric"].iloc[0]

    def gap(self, split: str) -> float:
        """Mean over runs, positive where the challenger is better."""
        means = self.runs[self.runs["split"] == split].groupby("model")["value"].mean()
        difference = means[self.baseline] - means[self.challenger]
        return float(difference if self.lower else -difference)

    @property
    def moved(self) -> list[str]:
        """Those of the two models that seeds move."""
        named = self.rule.get("deterministic", [])
        return [model for model in (self.challenger, self.baseline) if model not in named]

    def seeds(self, model: str) -> int:
        """Seeds of a model's validation values, from which its spread is taken."""
        return _seeds(self.runs, model)

    def sd(self, model: str) -> float:
        """Seed sd of a model's validation values; 0 for one that seeds do not move."""
        if model in self.rule.get("deterministic", []):
            return 0.0
        mine = self.runs[(self.runs["model"] == model) & (self.runs["split"] == "validation")]
        folds = mine.assign(fold=mine.get("fold", 0))
        values = folds.pivot_table(index="fold", columns="seed", values="value").to_numpy()
        if not np.isfinite(values).all():
            raise ReviewError(f"{model}: every fold needs a validation value of every seed")
        return statistics.seed_sd(values)

    @functools.cached_property
    def seed_sd(self) -> float:
        """The larger of the two models' seed sds."""
        return max(self.sd(self.challenger), self.sd(self.baseline))

    @property
    def bar(self) -> float:
        return self.rule.get("gap_over_sd", 2) * self.seed_sd

    @functools.cached_property
    def block(self) -> statistics.Interval | None:
        """Mean difference by block, positive where the challenger is better, and its interval."""
        if self.losses is None:
            return None
        return statistics.block_bootstrap(self.losses[self.baseline] - self.losses[self.challenger])

    @property
    def shifted(self) -> float | None:
        """Gap on the shifted split; None where the log has none."""
        split = self.rule.get("shifted", "shifted")
        return self.gap(split) if split in set(self.runs["split"]) else None

    @property
    def matters(self) -> float | None:
        return self.rule.get("smallest_difference", {}).get("value")

    @property
    def outcome(self) -> str:
        """Win, loss, tie or open, by the interval over blocks."""
        if self.block is None:
            return OPEN
        low, high = self.block.low, self.block.high
        if low > 0 or high < 0:
            return WIN if low > 0 else LOSS
        inside = self.matters is not None and -self.matters < low and high < self.matters
        return TIE if inside else OPEN

    def text(self, value: float) -> str:
        """A loss with the decimals of the spread over seeds (or blocks, or of the gap itself)."""
        spread = self.seed_sd
        if not spread and self.losses is not None:
            spread = float(self.losses.diff(axis=1).iloc[:, -1].std())
        return number(value, decimals(spread or self.gap("validation")))


def read(runs: str | Path, blocks: str | Path | None = None, rule: str | Path | None = None) -> Log:
    """A log from its files. ReviewError says in one sentence what is wrong with them."""
    chosen = _rule(rule)
    table = _table(runs, RUNS, ("fold",), "value")
    if table["metric"].nunique() != 1:
        found = ", ".join(map(str, table["metric"].unique()))
        raise ReviewError(f"{runs}: expected one metric, found {found or 'no row'}")
    once = [name for name in ("model", "seed", "split", "fold") if name in table]
    if table.duplicated(once).any():
        twice = dict(table.loc[table.duplicated(once), once].iloc[0])
        raise ReviewError(f"{runs}: two rows for {', '.join(f'{k} {v}' for k, v in twice.items())}")
    challenger, baseline = _models(runs, table, chosen)
    for split in table["split"].unique():
        for model in (challenger, baseline):
            if not ((table["split"] == split) & (table["model"] == model)).any():
                raise ReviewError(f"{runs}: the split {split} has no run of {model}")
        _same_folds(runs, table[table["split"] == split], challenger, baseline)
    if "validation" not in set(table["split"]):
        raise ReviewError(f"{runs}: no row of the split validation, which decides")
    for model in (challenger, baseline):
        if _seeds(table, model) < 2 and model not in chosen.get("deterministic", []):
            raise ReviewError(
                f"{runs}: one validation seed of {model} says nothing about training again; two "
                "are needed, or the rule names it under deterministic"
            )
    for model in chosen.get("deterministic", []):
        _stands_still(runs, table, model)
    lower = _direction(runs, str(table["metric"].iloc[0]), chosen)
    losses = None if blocks is None else _losses(blocks, challenger, baseline)
    return Log(table, losses, challenger, baseline, lower, chosen)


def _same_folds(path: str | Path, runs: pd.DataFrame, *models: str) -> None:
    """Folds are hard or easy for both models: those of one side alone would decide the gap."""
    if "fold" not in runs:
        return
    folds = {model: set(runs.loc[runs["model"] == model, "fold"]) for model in models}
    for model, other in (models, models[::-1]):
        if alone := folds[model] - folds[other]:
            raise ReviewError(
                f"{path}: the split {runs['split'].iloc[0]} has fold {min(alone, key=str)} of "
                f"{model} and not of {other}; folds are paired"
            )


def _stands_still(path: str | Path, table: pd.DataFrame, model: str) -> None:
    """A model that the rule calls deterministic is in the log, and its seeds agree there."""
    mine = table[table["model"] == model]
    if mine.empty:
        raise ReviewError(f"{path}: no run of {model}, which the rule names under deterministic")
    cell = [name for name in ("split", "fold") if name in mine]
    if (mine.groupby(cell)["value"].nunique() > 1).any():
        raise ReviewError(f"{path}: seeds move {model}, which the rule names under deterministic")


def _seeds(runs: pd.DataFrame, model: str) -> int:
    mine = (runs["model"] == model) & (runs["split"] == "validation")
    return runs.loc[mine, "seed"].nunique()


def _rule(path: str | Path | None) -> dict:
    rule = {} if path is None else parameters.read_yaml(path)
    for name in rule:
        if name not in RULE:
            raise ReviewError(f"{path}: unknown name {name!r}; names: {', '.join(RULE)}")
    value = rule.get("gap_over_sd", 2)
    smallest = rule.get("smallest_difference", {"value": 1})
    sizes = [value, smallest.get("value") if isinstance(smallest, dict) else None]
    if not all(type(size) in (int, float) and 0 < size < np.inf for size in sizes):
        raise ReviewError(
            f"{path}: gap_over_sd and the value of smallest_difference are finite numbers above 0, "
            "as in smallest_difference: {value: 0.005}"
        )
    if type(rule.get("lower_is_better", True)) is not bool:
        raise ReviewError(f"{path}: lower_is_better is true or false")
    names = rule.get("deterministic", [])
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ReviewError(f"{path}: deterministic is a list of models, as in [gbm]")
    if not isinstance(rule.get("shifted", ""), str):
        raise ReviewError(f"{path}: shifted is the name of one split")
    return rule


def _table(path: str | Path, columns: tuple, optional: tuple, numeric: str) -> pd.DataFrame:
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as lines:
            rows = csv.reader(lines)
            head = next(rows, [])
            long = next((n for n, row in enumerate(rows, 2) if len(row) > len(head)), None)
        if long is not None:  # pandas would take the first field of each row for its name
            raise ReviewError(
                f"{path}, line {long}: more fields than the header; a comma too many?"
            )
        table = pd.read_csv(path, dtype=dict.fromkeys(("model", "split", "metric"), str))
    except (
        csv.Error,
        pd.errors.ParserError,
        pd.errors.EmptyDataError,
        UnicodeDecodeError,
    ) as error:
        raise ReviewError(f"{path} is no table of comma-separated values: {error}") from error
    if not set(columns) <= set(table) <= {*columns, *optional}:
        may = f" (and {', '.join(optional)})" if optional else ""
        raise ReviewError(
            f"{path}: expected the columns {', '.join(columns)}{may}; found {', '.join(table)}"
        )
    values = pd.to_numeric(table[numeric], errors="coerce")
    wrong = table.index[~np.isfinite(values) | table.isna().any(axis=1)]
    if len(wrong):
        raise ReviewError(f"{path}, line {wrong[0] + 2}: {numeric} is no number, or a field empty")
    return table.assign(**{numeric: values})


def _models(path: str | Path, table: pd.DataFrame, rule: Mapping) -> tuple[str, str]:
    found = list(dict.fromkeys(table["model"]))
    named = [rule.get("challenger"), rule.get("baseline")]
    for name in filter(None, named):
        if name not in found:
            raise ReviewError(f"{path}: no run of {name}; models there: {', '.join(found)}")
    if len(found) < 2:
        raise ReviewError(f"{path}: a comparison needs two models, found {', '.join(found)}")
    if None in named and len(found) > 2:
        raise ReviewError(
            f"{path}: {len(found)} models; a rule has to name the challenger and the baseline"
        )
    challenger = named[0] or next(name for name in found if name != named[1])
    baseline = named[1] or next(name for name in found if name != challenger)
    if challenger == baseline:
        raise ReviewError(f"challenger and baseline are both {challenger}")
    return challenger, baseline


def _direction(path: str | Path, metric: str, rule: Mapping) -> bool:
    """Whether lower values of a metric are better."""
    if "lower_is_better" in rule:
        return rule["lower_is_better"]
    name = metric.lower().replace("-", "_").replace(" ", "_")
    if name not in LOWER + HIGHER:
        raise ReviewError(
            f"{path}: whether a lower {metric} is better is not known; a rule says so with "
            "lower_is_better: true or false"
        )
    return name in LOWER


def _losses(path: str | Path, challenger: str, baseline: str) -> pd.DataFrame:
    """Losses (blocks × baseline, challenger), in the order of the file."""
    table = _table(path, BLOCKS, (), "loss")
    table = table[table["model"].isin([challenger, baseline])]
    if table.duplicated(["block", "model"]).any():
        twice = table[table.duplicated(["block", "model"])].iloc[0]
        raise ReviewError(f"{path}: two losses of {twice['model']} for block {twice['block']}")
    wide = table.pivot(index="block", columns="model", values="loss")
    wide = wide.reindex(index=table["block"].unique(), columns=[baseline, challenger])
    for block, row in wide.iterrows():
        if row.isna().any():
            model = row.index[row.isna()][0]
            raise ReviewError(f"{path}: block {block} has no loss of {model}; blocks are paired")
    if len(wide) < 2:
        raise ReviewError(f"{path}: {len(wide)} block of both models; two are needed")
    return wide
