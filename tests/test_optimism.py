"""Selection optimism: what luck alone adds, and how recorded trials show it."""

import re

import numpy as np
import pytest

from mononet import parameters, printing, statistics
from mononet.diagnostics import optimism
from mononet.search import Trial
from mononet.study import recorded_studies


def chapter_of(folder, monkeypatch, **changes):
    monkeypatch.setenv("MONONET_TRAIN", "1")
    values = parameters.resolve("selection_optimism", ["quick"])
    return optimism.open_chapter(values | {"results_dir": str(folder)} | changes)


def text(shown: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", shown))


def trials_of(values: np.ndarray) -> list[Trial]:
    """Trials with these (trials, folds, seeds) values; what decides is made from them."""
    return [
        Trial(n, {}, 1, False, v.mean(), v.mean(), v.std(), 0.0, 0.0, 0, 0, v)
        for n, v in enumerate(values)
    ]


def test_the_best_of_ten_and_what_it_holds():
    drawn = optimism.simulate(10, 0.012, 0.4, 2000, 0)
    expected = statistics.expected_best_of(10, 0.012, 0.4)
    assert expected == pytest.approx(0.3815, abs=2e-4)
    assert drawn["best"].mean() == pytest.approx(expected, abs=5e-4)
    assert drawn["fresh"].mean() == pytest.approx(0.4, abs=1e-3)
    # The standard deviation of the smallest of ten normal values is 0.587 (order statistics).
    assert drawn["best"].std() == pytest.approx(0.587 * 0.012, rel=0.05)
    assert (drawn["best"] < 0.4).mean() == pytest.approx(1 - 2**-10, abs=2e-3)


def test_one_configuration_has_no_optimism():
    drawn = optimism.simulate(1, 0.012, 0.4, 20_000, 3)
    assert drawn["best"].mean() == pytest.approx(drawn["fresh"].mean(), abs=4e-4)


@pytest.mark.parametrize("minimized", [True, False])
def test_trials_of_equal_merit_show_the_optimism_of_their_noise(minimized):
    rng = np.random.default_rng(1)
    found = []
    for _ in range(150):
        trials = trials_of(rng.normal(5.0, 1.0, (20, 5, 1)))
        rows = optimism.held_back(trials, "mean", minimized, 5, 0)
        found.append(rows.groupby("k")["optimism"].mean())
    means = np.mean(found, axis=0)
    expected = [-statistics.expected_best_of(k, 1.0 / np.sqrt(4)) for k in found[0].index]
    assert means == pytest.approx(expected, abs=0.12)
    assert means[0] == pytest.approx(0.0, abs=0.05) and means[-1] > 0.8


def test_merit_and_hard_folds_are_no_optimism():
    merit = np.linspace(1, 3, 10)[:, None, None]
    folds = np.array([0.0, 5.0, -2.0, 1.0, 9.0])[None, :, None]
    rows = optimism.held_back(trials_of(merit + folds + np.zeros((10, 5, 2))), "mean", True, 7, 0)
    assert rows.groupby("k")["optimism"].mean().abs().max() < 1e-12
    assert rows["optimism"].abs().max() > 5


def test_one_fold_has_nothing_to_hold_back_and_infinite_trials_are_left_out():
    assert optimism.held_back(trials_of(np.ones((3, 1, 3))), "mean", True, 5, 0).empty
    values = np.stack([np.full((2, 1), np.nan), np.ones((2, 1))])
    trials = trials_of(values)
    trials[0] = Trial(0, {}, 1, False, np.inf, *[np.nan] * 4, 1, 0, values[0])
    rows = optimism.held_back(trials, "risk_adjusted", True, 5, 0)
    assert set(rows["k"]) == {1} and (rows["optimism"] == 0).all()


def test_the_chapter_words_its_own_numbers(tmp_path, monkeypatch):
    chapter = chapter_of(tmp_path, monkeypatch, repetitions=2000)
    assert chapter.experiment.complete
    assert "The best of 10 configurations that are all worth 0.400 reports 0.38" in text(
        chapter.show("finding")
    )
    by_number = chapter.experiment.table("by_number").set_index("k")
    assert by_number["best"].is_monotonic_decreasing and len(by_number) == 8
    assert "density" in chapter.show("distribution") and "order" not in chapter.show("spread")


def test_the_recorded_studies_are_read_where_they_are(tmp_path, monkeypatch):
    chapter = chapter_of(tmp_path, monkeypatch, studies_dir=str(printing.RESULTS))
    frame = optimism.measured(recorded_studies(chapter.experiment.parameters["studies_dir"]))
    row = frame.loc["auto_mpg", "linear"]
    assert row["gap"] == pytest.approx(row["fresh"] - row["cv_score"])
    assert row["cv_score"] == pytest.approx(11.4972, abs=1e-3) and row["noise"] > 0
    for name in optimism.SHOWN:
        assert not re.search(r"\bnan\b|None", text(chapter.show(name))), name


def test_without_studies_the_simulation_stands_alone(tmp_path, monkeypatch):
    chapter = chapter_of(tmp_path, monkeypatch, studies_dir=str(tmp_path / "none"))
    for name in ("recorded", "growth", "verdict"):
        assert "No study is recorded yet" in chapter.show(name)
    assert "best of" in text(chapter.show("finding"))
