"""The eight corners: arithmetic on constructed runs, Shapley shares; the chapter."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mononet import data, parameters, prior, recording

VALUES = st.lists(st.floats(-100, 100), min_size=8, max_size=8)


@given(VALUES, st.booleans())
def test_shares_add_up_to_the_whole_difference(values, minimized):
    means = dict(zip(prior.CORNERS, values, strict=True))
    found = prior.shares(means, minimized)
    whole = (means[(True,) * 3] - means[(False,) * 3]) * (-1 if minimized else 1)
    assert found["share"].sum() == pytest.approx(whole, abs=1e-9)
    assert (found["low"] <= found["share"] + 1e-9).all()
    assert (found["alone"] <= found["high"] + 1e-9).all()


def test_additive_practices_have_no_range():
    means = {c: 10.0 - np.dot(c, (1.0, 0.5, 0.25)) for c in prior.CORNERS}
    found = prior.shares(means, minimized=True)
    assert found["share"].tolist() == pytest.approx([1.0, 0.5, 0.25])
    assert found["low"].tolist() == pytest.approx(found["high"].tolist())


def test_corners_keep_the_best_five_in_the_right_direction(monkeypatch):
    runs = pd.DataFrame({"selection": "cross-validation", "repetition": 0, "run": range(10)})
    runs["at_selected"], runs["best"] = np.arange(10.0), np.arange(10.0) / 2
    both = pd.concat([runs, runs.assign(selection="test part")])
    made = type("Made", (), {"table": lambda self, name: both})()
    corner = prior.corners(made, "auto_mpg")
    assert corner.loc[(False, False, False), "mean"] == 4.5
    assert corner.loc[(False, False, True), "mean"] == 2.0  # an error: the five smallest
    assert corner.loc[(True, True, True), "mean"] == 1.0
    assert prior.corners(made, "heart").loc[(False, False, True), "mean"] == 7.0


def test_the_chapter_is_recorded_and_shown(tmp_path, monkeypatch):
    monkeypatch.setenv(recording.TRAIN, "1")
    pairs = [("results_dir", str(tmp_path)), ("workers", "1")]
    values = parameters.resolve("prior_protocol", ["quick"], pairs)
    chapter = prior.open_chapter(values)
    assert chapter.experiment.complete
    for name in prior.SHOWN:
        shown = chapter.show(name)
        assert "nan" not in shown.split("base64")[0] and "None" not in shown, name
    # As many digits as the papers print.
    shown = chapter.show("literature")
    assert "Constrained MNN 8.37 ± 0.08" in shown and "8.370" not in shown
    corner = prior.corners(chapter.experiment, "auto_mpg")["mean"]
    # Picking the favorable side can only make the printed figure better.
    assert corner[(False, True, False)] <= corner[(False, False, False)]
    assert corner[(True, True, True)] <= corner[(True, False, False)]
    ledger = data.read_ledger(tmp_path / "auto_mpg/test_access.csv")
    assert ledger["kind"].tolist() == ["planning", "diagnostic"]
