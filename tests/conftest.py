"""What several test files share: two studies of Auto MPG, recorded in seconds."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings

from mononet import data, parameters, recording
from mononet.study import Study

# How long an example takes depends on what else the machine does: speed is no part of a test.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def quick(tmp_path_factory):
    """Quick parameters of the page of Auto MPG whose results lie in a scratch folder."""
    folder = str(tmp_path_factory.mktemp("results"))
    pairs = [("results_dir", folder), ("workers", "1"), ("models", "mixed,split,linear")]
    return parameters.resolve("auto_mpg", ["quick"], pairs)


@pytest.fixture(scope="session")
def studies(quick):
    """Recorded studies of split and linear; mixed, the third model of the page, stays absent."""
    return [recording.record(Study.of("auto_mpg", model, quick)) for model in ("split", "linear")]


def write_rows(name, folder, patch, train=240, test=120):
    """Writes rows that only look like a dataset's published ones, few of them, and lets `patch` (a
    MonkeyPatch) make the dataset expect so many."""
    spec = dataclasses.replace(data.SPECS[name], train_rows=train, test_rows=test, fingerprint=None)
    patch.setitem(data.SPECS, name, spec)
    rng = np.random.default_rng(7)
    for part, rows in (("train", train), ("test", test)):
        values = rng.integers(0, 2, (rows, len(spec.features) + 1)).astype(float)
        values[:, :5] = rng.random((rows, 5)).round(6)
        if part == "train":
            values[: len(spec.head)] = spec.head
        frame = pd.DataFrame(values, columns=spec.columns)
        frame.to_csv(folder / f"{part}_{spec.stem}.csv", index=False)


def quick_of(name, folder, models):
    """Quick parameters of a dataset whose rows lie in `folder`, results beside them."""
    pairs = [("data_dir", str(folder)), ("results_dir", str(folder / "results"))]
    return parameters.resolve(name, ["quick"], [*pairs, ("workers", "1"), ("models", models)])


@pytest.fixture
def made_up(monkeypatch, tmp_path):
    """Makes rows that only look like a dataset's; gives quick parameters that read them."""

    def make(name, models="split,linear,mlp"):
        write_rows(name, tmp_path, monkeypatch)
        return quick_of(name, tmp_path, models)

    return make
