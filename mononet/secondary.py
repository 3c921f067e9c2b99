"""Secondary studies: headline studies with something changed, named in one file.

`params/secondary.studies.yaml` lists them by name: what differs, for which models of which dataset,
and why. Nothing else of a study is written there, so that the headline protocol stands once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mononet import data, parameters
from mononet.parameters import MODELS, PARAMS, ParameterError
from mononet.study import Study

FILE = "secondary.studies.yaml"
ENTRIES = ("changes", "overlay", "models", "why")


@dataclass(frozen=True)
class Secondary:
    """A named secondary study, and the headline study that it stands beside."""

    name: str
    why: str
    changes: Mapping
    headline: Study
    study: Study

    @property
    def changed(self) -> str:
        """What differs, as in `search_seed 1`."""
        return ", ".join(f"{name} {value}" for name, value in self.changes.items())


def of(dataset: str, values: Mapping, folder: str | Path = PARAMS) -> list[Secondary]:
    """The secondary studies of a dataset, in the order of the file, recorded or not.

    `values` are the parameters of the headline studies; what the file names is changed over them,
    and a study that is no other than its headline study is left out. Raises ParameterError.
    """
    found = []
    for name, entry in read(folder).items():
        changes = changes_of(dataset, entry, folder)
        for model in entry["models"].get(dataset, []):
            headline = Study.of(dataset, model, values)
            study = replace(headline, parameters={**values, **changes})
            if study.identity != headline.identity:
                found.append(Secondary(name, entry["why"], changes, headline, study))
    return found


def changes_of(dataset: str, entry: Mapping, folder: str | Path = PARAMS) -> dict:
    """The parameters that an entry changes for a dataset, checked."""
    changes = dict(entry.get("changes", {}))
    if "overlay" in entry:
        plain = parameters.resolve(dataset, params_dir=folder)
        other = parameters.resolve(dataset, [entry["overlay"]], params_dir=folder)
        changes = {n: v for n, v in other.items() if v != plain[n]} | changes
    return {name: parameters.check(name, value) for name, value in changes.items()}


def read(folder: str | Path = PARAMS) -> dict[str, dict]:
    """The file's entries, held to its form; ParameterError names what is wrong."""
    path = Path(folder) / FILE
    entries = parameters.read_yaml(path)
    for name, entry in entries.items():
        where = f"{path}: {name}"
        if not isinstance(entry, dict) or not {"models", "why"} <= set(entry) <= set(ENTRIES):
            raise ParameterError(
                f"{where}: expected models, why, and changes or overlay; given {entry!r}"
            )
        if ("changes" in entry) == ("overlay" in entry):
            raise ParameterError(f"{where}: expected either changes or overlay")
        for dataset, models in entry["models"].items():
            if dataset not in data.SPECS:
                raise ParameterError(
                    f"{where}: unknown dataset {dataset!r}; datasets: {', '.join(data.SPECS)}"
                )
            unknown = [model for model in models if model not in MODELS]
            if unknown:
                raise ParameterError(
                    f"{where}: unknown model {unknown[0]!r}; models: {', '.join(MODELS)}"
                )
    return entries
