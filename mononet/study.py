"""One dataset × one model: what a study is, where it lies, and how its artifacts are read.

A study is its content: its folder is named after the hash of everything that its numbers depend
on. ``recording`` brings one to its end; pages and evidence read it through this room.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

from mononet import data, parameters
from mononet.models import CATALOGUE, Model
from mononet.record import Record, identity
from mononet.search import MINIMIZED, Budget, Trial, from_frame, select

PROTOCOL_VERSION = 1
FIRST_FINAL_SEED = 1000  # disjoint from the search's seeds
TAKEN_OVER = "search taken over"  # the step in cost.csv of rounds that another study had tried
SEARCH_STEPS = ("search", TAKEN_OVER)
# Left out of the identity where they have these values, so that a parameter added later leaves
# the identity of every study recorded before it alone.
DEFAULTS = {
    "optimizer": "adamw",
    "inputs": "published",
    "objective": "risk_adjusted",
    "max_rows": None,
    "cv_seed": 0,
    "search_seed": 0,
    "round_size": 10,
    "partitions": 5,
}


@dataclass(frozen=True)
class Study:
    """A dataset, a model and the parameters of a notebook; recorded or not yet."""

    dataset: str
    model: str
    parameters: Mapping
    fingerprint: str

    @classmethod
    def of(cls, dataset: str, model: str, parameters: Mapping) -> Study:
        """The study that these parameters mean for the published data (or, where no fingerprint
        is published, for the rows found on this machine)."""
        fingerprint, folder = data.SPECS[dataset].fingerprint, parameters["data_dir"]
        route = None if fingerprint else data.routes(dataset, folder)
        if route is not None and route.local:
            files = tuple((path, path.stat().st_mtime_ns) for path in route.files.values())
            fingerprint = _fingerprint(dataset, folder, files)
        return cls(dataset, model, parameters, fingerprint or "unknown")

    # --- what it is -------------------------------------------------------------------------

    @property
    def entry(self) -> Model:
        return CATALOGUE[self.model]

    @property
    def rows(self) -> int:
        """Training rows in use."""
        spec, most = data.SPECS[self.dataset], self.parameters["max_rows"]
        return spec.train_rows if most is None else min(most, spec.train_rows)

    @functools.cached_property
    def content(self) -> dict:
        """Everything that the numbers depend on, defaults left out."""

        def part(*names: str) -> dict:
            values = {name: self.parameters[name] for name in names}
            return {k: v for k, v in values.items() if k not in DEFAULTS or DEFAULTS[k] != v}

        indicator = data.SPECS[self.dataset].indicator(self.parameters["indicator"])
        return {
            "dataset": self.fingerprint,
            "model": self.model,
            "space": self.entry.space(self.rows, self.parameters["max_depth"]),
            "indicator": indicator.tolist(),
            "training": part("optimizer", "inputs", "max_rows"),
            "cv": part("cv_folds", "cv_seed"),
            "search": part(
                "n_trials", "search_seeds", "search_seed", "round_size", "objective", "max_epochs"
            ),
            "refit": part("final_seeds", "partitions"),
            "protocol_version": PROTOCOL_VERSION,
        }

    @functools.cached_property
    def identity(self) -> str:
        return identity(self.content)

    @property
    def search_identity(self) -> str:
        """Hash of what the search depends on: studies that share it share their trials."""
        return identity({k: v for k, v in self.content.items() if k != "refit"})

    def searches_like(self, described: Mapping) -> bool:
        """Whether a described study tries the same configurations, for as long as it goes on."""
        return identity(_endless(described["content"])) == identity(_endless(self.content))

    @property
    def folder(self) -> Path:
        return self.shelf / f"{self.model}-{self.identity[:8]}"

    @property
    def ledger(self) -> Path:
        return self.shelf / "test_access.csv"

    @property
    def shelf(self) -> Path:
        """The folder of all studies of this dataset."""
        return Path(self.parameters["results_dir"]) / self.dataset

    @property
    def budget(self) -> Budget:
        names = Budget.__dataclass_fields__
        return Budget(**{name: self.parameters[name] for name in names})

    @property
    def final_seeds(self) -> list[int]:
        count = 1 if self.entry.deterministic else self.parameters["final_seeds"]
        return list(range(FIRST_FINAL_SEED, FIRST_FINAL_SEED + count))

    # --- what is recorded -------------------------------------------------------------------

    @property
    def record(self) -> Record:
        return Record(self.folder)

    @property
    def complete(self) -> bool:
        return self.record.has("study.json") and "summary" in self.description

    @property
    def description(self) -> dict:
        """study.json: content, selected configuration, summary, provenance."""
        return self.record.read_json("study.json")

    def trials(self) -> list[Trial]:
        return from_frame(self.record.read_csv("trials.csv"), self.content["space"])

    def runs(self, split: str) -> pd.DataFrame:
        """runs.csv of one split: validation (fresh partitions) or test."""
        runs = self.record.read_csv("runs.csv")
        return runs[runs["split"] == split].reset_index(drop=True)

    @functools.cached_property
    def selected(self) -> Trial:
        """The selected trial. SearchError when every trial collapsed."""
        return select(self.trials(), MINIMIZED[data.SPECS[self.dataset].metric])

    def search_seconds(self) -> float:
        """What all its trials took, those taken over as long as they took where they were tried."""
        cost = self.record.read_csv("cost.csv")
        return cost.loc[cost["step"].isin(SEARCH_STEPS), "seconds"].sum()

    @property
    def configuration_hash(self) -> str:
        selected = {"configuration": self.selected.configuration, "epochs": self.selected.stage}
        return identity(selected)

    @property
    def revision(self) -> str:
        return self.description["provenance"]["source_revision"]

    def validation_level(self) -> str | None:
        """Why this study's test numbers are validation-level, or None when they are test-grade."""
        if self.parameters["inputs"] != "published":
            return "its inputs were proposed after a look at the test part"
        ledger = data.read_ledger(self.ledger)
        mine = ledger[(ledger["study"] == self.identity) & (ledger["kind"] == "final")]
        if mine["configuration"].nunique() > 1:
            return "the test part was opened for more than one configuration"
        if len(mine) and self.complete and _time(mine["time"].min()) < self._selection_ended():
            return "the test part was opened before its selection had ended"
        return None

    def _selection_ended(self) -> datetime:
        """The earliest moment at which the search can have ended, by what it took."""
        spent = self.record.read_csv("cost.csv")
        seconds = spent.loc[spent["step"] == "search", "seconds"].sum()
        started = _time(self.description["provenance"]["started"])
        return started + timedelta(seconds=max(0, seconds - 2))  # both times are whole seconds


def _endless(content: Mapping) -> dict:
    """What a search depends on apart from the number of its trials."""
    search = {k: v for k, v in content["search"].items() if k != "n_trials"}
    return {k: v for k, v in content.items() if k != "refit"} | {"search": search}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


@functools.lru_cache
def _fingerprint(dataset: str, data_dir: str | None, files: tuple) -> str:
    """Fingerprint of the rows in `files`, (path, time of change) each; read once for all models."""
    return data.load(dataset, data_dir).fingerprint


def slice_mask(part: Mapping, features, X_train: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Which rows of X a slice or group of the decision rule holds; quantiles are of X_train."""
    j = list(features).index(part["feature"])
    column = X[:, j]
    if "equals" in part:
        return column == part["equals"]
    if "above" in part or "below" in part:
        return column > part["above"] if "above" in part else column < part["below"]
    if "above_quantile" in part:
        return column > np.quantile(X_train[:, j], part["above_quantile"])
    return column < np.quantile(X_train[:, j], part["below_quantile"])


def recorded_studies(studies_dir: str) -> list[Study]:
    """The complete studies in a folder of the full protocol, those of the datasets' pages."""
    found = []
    for dataset in data.SPECS:
        values = parameters.resolve(dataset, pairs=[("results_dir", studies_dir)])
        found += [Study.of(dataset, model, values) for model in values["models"]]
    return [study for study in found if study.complete]
