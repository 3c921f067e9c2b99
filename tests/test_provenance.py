"""What the files show about themselves: arithmetic on made-up columns, and the published ones."""

import numpy as np
import pandas as pd
import pytest

from mononet import data, experiments, parameters, provenance, recording


def test_explained_is_one_for_an_exact_line_and_small_for_noise():
    rng = np.random.default_rng(0)
    X = rng.random((200, 2))
    r2, residual = provenance.explained(X, 0.5 + X @ [2.0, -3.0])
    assert r2 == pytest.approx(1.0) and residual < 1e-12
    assert provenance.explained(X, rng.random(200))[0] < 0.1


def test_a_column_scaled_by_a_test_row_is_found(monkeypatch):
    columns = pd.DataFrame(
        [
            ("compas", "whole", True, 9, 0.0, 1.0),
            ("compas", "short", True, 9, 0.0, 0.5),
            ("auto_mpg", "z-scored", True, 9, -2.0, 0.7),
        ],
        columns=["dataset", "feature", "constrained", "distinct", "low", "high"],
    )
    made = type("Made", (), {"table": lambda self, name: columns})()
    found = provenance.stretched(made)
    assert found["feature"].tolist() == ["short"] and found["factor"].tolist() == [2.0]
    assert "1 of 2 columns" in provenance.leak(made)


def test_the_chapter_without_blog(tmp_path, monkeypatch):
    monkeypatch.setenv(recording.TRAIN, "1")
    pairs = [("results_dir", str(tmp_path))]
    chapter = provenance.open_chapter(parameters.resolve("provenance", ["quick"], pairs))
    for name in provenance.SHOWN:
        assert "nan" not in chapter.show(name), name
    assert "Auto MPG: the target runs from 9 to 46.6" in chapter.show("balance")


def test_the_corrected_indicator_is_proved_by_the_columns(tmp_path):
    if not data.routes("blog").local:
        pytest.skip("the rows of blog are not on this machine")
    values = {"datasets": ["blog"], "data_dir": None, "results_dir": str(tmp_path)}
    found = provenance.identities(experiments.Experiment("provenance", values))
    exact = found[found["r2"] > provenance.EXACT].set_index("feature")
    assert exact[["first", "second"]].to_numpy().tolist() == [
        ["feature_1", "feature_2"],
        ["feature_5", "feature_6"],
    ]
    assert exact.index.tolist() == ["feature_55", "feature_56"]
    assert found["r2"].sort_values().iloc[-3] < 0.999
