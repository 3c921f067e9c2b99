"""The page behind a results notebook: its studies, the boxes around them, and what is live.

A page never needs all of its studies: what is not recorded yet says so, with the command that
records it. Studies are recorded from here only where the environment variable `MONONET_TRAIN` is 1.
"""

from __future__ import annotations

import functools
import html
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

import pandas as pd

from mononet import (
    data,
    evidence_page,
    figures,
    groups,
    machine,
    parameters,
    printing,
    prose,
    recording,
    secondary,
    tables,
)
from mononet.parameters import typed
from mononet.printing import Column, Html, box, commands
from mononet.search import SearchError
from mononet.study import Study

SHOWN_VERSIONS = (*machine.LIBRARIES, "matplotlib", "jupyter-book")


def open_page(notebook: str, given: Mapping) -> Page:
    """The page of a dataset's notebook, from its parameters (other names are left alone).

    Checks every parameter (ParameterError); with MONONET_TRAIN=1 records the studies that are not
    complete.
    """
    values = parameters.given(notebook, given)
    studies = [Study.of(notebook, model, values) for model in values["models"]]
    if recording.asked():
        studies = [study if study.complete else record(study) for study in studies]
    return Page(notebook, values, tuple(studies))


def record(study: Study) -> Study:
    """Record one study with its progress; one whose trials all collapsed stays as it is."""
    try:
        return recording.record_visibly(study)
    except SearchError as error:
        print(f"{study.model}: {error}")
        return study


@dataclass(frozen=True)
class Page:
    """One dataset's page: its checked parameters and a study a model, recorded or not."""

    dataset: str
    parameters: Mapping
    studies: tuple[Study, ...]

    @functools.cached_property
    def recorded(self) -> list[Study]:
        return [study for study in self.studies if study.complete]

    @functools.cached_property
    def secondary(self) -> list[secondary.Secondary]:
        """The dataset's secondary studies, recorded or not."""
        return secondary.of(self.dataset, self.parameters)

    @functools.cached_property
    def evidence(self) -> list[evidence_page.Case]:
        """The comparisons of the rule on the evidence ladder, recorded or not."""
        return evidence_page.cases(self.dataset, self.parameters)

    @functools.cached_property
    def rule(self) -> dict:
        return parameters.read_rule(self.dataset)

    @functools.cached_property
    def rows(self) -> data.Dataset | None:
        """The dataset, when its files are on this machine."""
        local = data.routes(self.dataset, self.parameters["data_dir"]).local
        return recording.load(self.studies[0]) if local else None

    def command(self, **changes) -> str:
        """The command that makes this page, or the page with some parameters changed."""
        return parameters.command(self.dataset, self.parameters | changes)

    # --- boxes ------------------------------------------------------------------------------

    def status(self) -> Html:
        """What the page rests on, and what is missing."""
        given = self.parameters
        folds = given["cv_folds"] if not data.SPECS[self.dataset].holdout else 1
        done = f"{len(self.recorded)} of {len(self.studies)} studies are recorded."
        protocol = (
            f"Each of them: {given['n_trials']} trials, {folds} × {given['search_seeds']} runs a "
            f"trial (folds × seeds), then {given['final_seeds']} final seeds; linear, "
            "which draws nothing, has one seed throughout."
        )
        return Html(box("", "What this page rests on", f"{done} {protocol}") + self.missing())

    def missing(self) -> Html:
        """The box of studies that are absent or partial; nothing when all are recorded."""
        absent = [study for study in self.studies if study not in self.recorded]
        if not absent:
            return Html("")
        names = ", ".join(f"{study.model} ({_stand(study)})" for study in absent)
        fetch = [] if self.rows is not None else [f"python -m mononet data fetch {self.dataset}"]
        todo = commands(*fetch, self.command())
        return box("missing", "Not recorded yet", names, "This records what is missing:", todo)

    def nothing(self) -> Html:
        """Instead of a table or figure while no study is recorded."""
        return Html('<p class="mn-note">Not recorded yet: see the top of this page.</p>')

    def verify(self) -> Html:
        """Retrain two recorded seeds of one configuration and say whether they came out again."""
        if not self.recorded:
            return box("missing", "Nothing to verify yet", "No study of this page is recorded.")
        if self.rows is None:
            fetch = commands(f"python -m mononet data fetch {self.dataset}")
            why = "The rows of this dataset are not on the machine that built this page."
            return box("missing", "Not verified here", why, fetch)
        challenger = [s for s in self.recorded if s.model == self.rule["challenger"]]
        study = (challenger or self.recorded)[0]
        try:
            found = recording.verify(study)
        except (recording.StudyError, data.DataError) as error:
            return box("warn", f"{study.model} could not be verified", str(error))
        seeds = " and ".join(map(str, found.seeds))
        said = (
            f"While this page was built, the selected configuration of {study.model} was trained "
            f"again with the recorded seed{'s' if len(found.seeds) > 1 else ''} {seeds}: "
            f"{found.outcome}."
        )
        title = "Came out as recorded" if found.passed else "Did not come out as recorded"
        return box("ok" if found.passed else "warn", title, said)

    def source(self) -> Html:
        """Where the rows came from, in this execution."""
        if self.rows is None:
            fetch = commands(f"python -m mononet data fetch {self.dataset}")
            return box(
                "missing",
                "Built without the rows of this dataset",
                "Who builds the book fetches them by:",
                fetch,
            )
        X, found = self.rows.X_train, self.rows
        text = f"{len(X):,} training rows and {X.shape[1]} features. Source, {found.source}."
        return box("", "The rows of this execution", text, f"Fingerprint {found.fingerprint}.")

    def colophon(self) -> Html:
        """How this page was made and how to make it again."""
        live = ", ".join(f"{name} {metadata.version(name)}" for name in SHOWN_VERSIONS)
        source = self.rows.source if self.rows is not None else "not on this machine"
        more = 50 if self.parameters["final_seeds"] != 50 else 20
        defaults = parameters.resolve(self.dataset)
        values = pd.DataFrame(
            {"value": [typed(value) for value in self.parameters.values()]}, [*self.parameters]
        )
        values["default"] = [typed(defaults[name]) for name in values.index]
        columns = [Column(name, lambda row, name=name: row[name], "") for name in values]
        caption = "The parameters of this execution, and the full protocol's."
        table = tables.render(values, columns, caption, corner="parameter")
        fingerprint = self.studies[0].fingerprint
        return box(
            "",
            "How this page was made",
            "The same page again:",
            commands(self.command()),
            "With another number of final seeds, which takes the recorded searches over:",
            commands(self.command(final_seeds=more)),
            f"Data: {source}; fingerprint {fingerprint}.",
            f"Executed with Python {platform.python_version()}, {live}.",
            self._studies(),
            Html(f"<details><summary>Parameters of this execution</summary>{table}</details>"),
        )

    def _studies(self) -> Html:
        """The studies that the page read, with links to their descriptions."""
        lines = []
        for study in self.recorded:
            made = study.description["provenance"]
            link = printing.link(study, f"{study.folder.name}/study.json", study.folder.name)
            how = f"engine {made['engine']}, torch {made['versions']['torch']}"
            revision, dirty, _ = made["source_revision"].partition("+dirty")
            how += f", source revision {revision[:8]}{' with changes' if dirty else ''}"
            lines.append(f"<li>{link}: {html.escape(how)}</li>")
        if not lines:
            return Html("<p>No study was read.</p>")
        return Html(f"<p>Studies read:</p><ul>{''.join(lines)}</ul>")

    # --- tables, figures, words -------------------------------------------------------------

    def table(self, name: str) -> Html:
        """A table of `tables`, or of `evidence_page`, by name."""
        if name in ("ladder", "rungs", "log"):
            return evidence_page.show(name, self.evidence)
        if name == "published":
            return tables.published(self.dataset)
        if name == "secondary":
            return tables.secondary(self.dataset, self.secondary)
        if name == "constraints":
            lacking = Html('<p class="mn-note">Built without the rows that this table needs.</p>')
            return tables.constraints(self.rows) if self.rows is not None else lacking
        if not self.recorded:
            return self.nothing()
        if name == "estimators":
            y_train = self.rows.y_train if self.rows is not None else None
            return tables.estimators(self.recorded, y_train)
        if name == "comparisons":
            both = not tables.frames.comparisons(self.recorded, self.rule).empty
            made = tables.comparisons(self.recorded, self.rule) if both else None
            return made or prose.unrecorded(self.rule)
        if name in groups.RATES:
            return groups.table(self.recorded, name)
        return getattr(tables, name)(self.recorded)

    def figure(self, name: str) -> Html:
        """A figure of `figures`, by name."""
        return getattr(figures, name)(self.recorded) if self.recorded else self.nothing()

    def words(self, name: str) -> Html:
        """Words of `prose`, or of `evidence_page`, by name."""
        if name in evidence_page.SHOWN_ON_PAGE:
            return evidence_page.show(name, self.evidence)
        if name in ("decision", "limits"):
            rule = self.rule
            return prose.decision(rule) if name == "decision" else prose.bullets(rule[name])
        if name in ("agreement", "base_rate"):
            return getattr(prose, name)(self.rows) if self.rows is not None else Html("")
        if name in ("indicator", "first_version"):
            return getattr(prose, name)(self.secondary)
        if not self.recorded:
            return Html("")
        if name == "inputs":
            return prose.inputs(self.secondary, self.recorded, self.rule)
        if name == "groups":
            return groups.words(self.recorded, self.rule)
        more = (self.rule,) if name in ("detectable", "needed", "conclusion") else ()
        return getattr(prose, name)(self.recorded, *more)


def _stand(study: Study) -> str:
    """How far a study that is not complete has come."""
    if not study.record.names():
        return "absent"
    told, wanted = 0, study.parameters["n_trials"]
    if study.record.has("trials.csv"):
        told = len(study.trials())
    return f"partial: {told} of {wanted} trials"
