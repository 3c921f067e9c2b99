"""Experiments that are no studies: recorded part by part, like studies, and shown by a chapter.

An experiment is its notebook, its parameters and the data it reads. Each of its parts is one table,
computed by one function from the experiment and the parts before it, and recorded as soon as it is
there; an interrupted experiment goes on with the part that is missing.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pandas as pd

from mononet import data, parameters, printing
from mononet.machine import environment, taken_up
from mononet.printing import Html, box
from mononet.progress import Progress
from mononet.record import Record, identity, source_revision
from mononet.recording import asked
from mononet.training import resolve_engine

VERSION = 1  # raised when the numbers of recorded experiments change
# Where and how; no number depends on it.
ELSEWHERE = ("engine", "workers", "data_dir", "results_dir", "studies_dir")


@dataclass(frozen=True)
class Experiment:
    """A notebook and its checked parameters; recorded or not yet."""

    notebook: str
    parameters: Mapping

    @functools.cached_property
    def content(self) -> dict:
        """Everything that the numbers depend on."""
        values = {k: v for k, v in self.parameters.items() if k not in ELSEWHERE}
        datasets = [name for name in values.get("datasets", []) if name in data.SPECS]
        return {
            "notebook": self.notebook,
            "parameters": values,
            "data": {name: data.SPECS[name].fingerprint for name in datasets},
            "version": VERSION,
        }

    @functools.cached_property
    def identity(self) -> str:
        return identity(self.content)

    @property
    def folder(self) -> Path:
        shelf = Path(self.parameters["results_dir"]) / "experiments"
        return shelf / f"{self.notebook}-{self.identity[:8]}"

    @property
    def record(self) -> Record:
        return Record(self.folder)

    @property
    def complete(self) -> bool:
        return self.record.has("experiment.json") and "seconds" in self.description

    @property
    def description(self) -> dict:
        """experiment.json: identity, content, provenance, and seconds a part when all are there."""
        return self.record.read_json("experiment.json")

    @property
    def engine(self) -> str:
        """compiled or eager; as recorded, once the experiment has begun."""
        if self.record.has("experiment.json"):
            return self.description["provenance"]["engine"]
        return resolve_engine(self.parameters.get("engine", "eager"), 10**9)

    @property
    def workers(self) -> int:
        return self.parameters.get("workers") or os.cpu_count() or 1

    def table(self, name: str) -> pd.DataFrame:
        """A recorded part."""
        return self.record.read_csv(f"{name}.csv")

    def load(self, dataset: str) -> data.Dataset:
        """A dataset over the first route that has it."""
        return data.load(dataset, self.parameters.get("data_dir"))

    def open_test(self, dataset: data.Dataset, model: str, reason: str) -> data.TestPart:
        """The test part, for an experiment about the protocol itself: a *diagnostic* opening."""
        opening = SimpleNamespace(
            identity=self.identity,
            model=model,
            configuration_hash="",
            revision=source_revision(),
        )
        ledger = Path(self.parameters["results_dir"]) / dataset.name / "test_access.csv"
        return dataset.open_test(ledger, opening, "diagnostic", reason)


Part = Callable[[Experiment], pd.DataFrame]


def record(experiment: Experiment, parts: Mapping[str, Part]) -> None:
    """Record the parts that are missing, in their order, and show the progress.

    Raises RecordError while another process writes there, DataError where rows are missing.
    """
    with Record.locked(experiment.folder) as folder:
        if not folder.has("experiment.json"):
            description = {
                "identity": experiment.identity,
                "content": experiment.content,
                "provenance": environment(experiment.engine),
            }
            folder.write_json("experiment.json", description)
        description = folder.read_json("experiment.json")
        seconds = folder.read_json("cost.json") if folder.has("cost.json") else {}
        missing = [name for name in parts if not folder.has(f"{name}.csv")]
        if missing:
            description["provenance"] = taken_up(description["provenance"])
        done = len(parts) - len(missing)
        with Progress(experiment.notebook, len(parts), "part") as progress:
            if done:
                progress.resume(done)
            for name in missing:
                progress.say(name)
                start = time.perf_counter()
                folder.write_csv(f"{name}.csv", parts[name](experiment))
                seconds[name] = round(time.perf_counter() - start, 3)
                folder.write_json("cost.json", seconds)
                progress.advance()
        folder.write_json("experiment.json", description | {"seconds": seconds})


def open_chapter(
    notebook: str,
    given: Mapping,
    parts: Mapping[str, Part],
    shown: Mapping[str, Callable[[Experiment], Html]],
) -> Chapter:
    """The chapter of an experiment from its notebook's parameters (other names are left alone).

    ``parts`` name and compute the recorded tables, ``shown`` what the chapter can show. Checks
    every parameter (ParameterError); with MONONET_TRAIN=1 records what is missing.
    """
    experiment = Experiment(notebook, parameters.given(notebook, given))
    if asked() and not experiment.complete:
        record(experiment, parts)
    return Chapter(experiment, tuple(parts), shown)


@dataclass(frozen=True)
class Chapter:
    """An experiment, and the tables, figures and sentences made from it by name."""

    experiment: Experiment
    parts: tuple[str, ...]
    shown: Mapping[str, Callable[[Experiment], Html]]

    def status(self) -> Html:
        """What the chapter rests on, or how to record what is missing."""
        experiment = self.experiment
        if not experiment.complete:
            todo = printing.commands(parameters.command(experiment.notebook, experiment.parameters))
            return box("missing", "Not recorded yet", "This chapter is recorded by:", todo)
        made, seconds = experiment.description["provenance"], experiment.description["seconds"]
        revision, dirty, _ = made["source_revision"].partition("+dirty")
        spent = sum(seconds.values())
        took = f"{spent:,.0f} s" if spent >= 1 else "less than a second"
        text = (
            f"One recorded experiment, {took} with the {made['engine']} "
            f"engine at source revision {revision[:8]}{' with changes' if dirty else ''}."
        )
        elsewhere = {**experiment.parameters, "results_dir": "build/again"}
        again = printing.commands(parameters.command(experiment.notebook, elsewhere))
        files = source(experiment, *self.parts)
        return box(
            "", "What this chapter rests on", text, files, "Recorded again, elsewhere, by:", again
        )

    def show(self, name: str) -> Html:
        """A table, a figure or words of the chapter, by name."""
        if not self.experiment.complete:
            return Html('<p class="mn-note">Not recorded yet: see the top of this page.</p>')
        return self.shown[name](self.experiment)


def source(experiment: Experiment, *parts: str) -> Html:
    """The line under a table or figure: the recorded files that it was made from."""
    names = [f"{part}.csv" for part in parts]
    if not printing.is_published(experiment.parameters["results_dir"]):
        links = [f"<code>{name}</code>" for name in names]
    else:
        folder = f"../results/experiments/{experiment.folder.name}"
        links = [f'<a href="{folder}/{name}"><code>{name}</code></a>' for name in names]
    return Html(f'<p class="mn-source">Made from {", ".join(links)}.</p>')
