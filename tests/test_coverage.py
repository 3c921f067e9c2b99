"""Coverage: the simulated truths are right, and the intervals cover what they should."""

import re

import numpy as np
import pandas as pd
import pytest

from mononet import coverage, parameters
from mononet.coverage import FEATURES, INTERVALS, REDUCIBLE, RETRAINING, ROWS, Cell
from mononet.experiments import record


def test_both_algorithms_are_equally_good_retraining_included():
    rng, cell = np.random.default_rng(0), Cell(6, 200, correlated=False)
    expected = np.square(coverage.errors(cell, rng)).sum(axis=-1).mean(axis=1)
    assert expected == pytest.approx([REDUCIBLE, REDUCIBLE], abs=0.03)
    assert coverage.truths(coverage.errors(cell, rng))["algorithms"] == 0


def test_without_retraining_noise_every_seed_is_the_same_network():
    w = coverage.errors(Cell(6, 0, correlated=True), np.random.default_rng(0))
    assert np.ptp(w, axis=1).max() == 0
    assert coverage.truths(w)["pair"] == pytest.approx(0)


@pytest.mark.parametrize("correlated", [False, True])
def test_the_expected_loss_is_one_plus_the_squared_error_of_the_weights(correlated):
    rng, cell = np.random.default_rng(1), Cell(20_000, 3, correlated)
    w = coverage.errors(cell, rng)
    loss = np.square(coverage.residuals(cell, w, rng)).mean(axis=(2, 3))
    assert loss == pytest.approx(1 + np.square(w).sum(axis=-1), rel=0.03)


def test_rows_of_a_block_are_alike_only_where_asked():
    def alike(correlated):
        cell, rng = Cell(4000, 0, correlated), np.random.default_rng(2)
        left = coverage.residuals(cell, coverage.errors(cell, rng), rng)[0, 0]
        return np.corrcoef(left[:, 0], left[:, 1])[0, 1]

    assert alike(False) == pytest.approx(0, abs=0.06)
    assert alike(True) == pytest.approx(coverage.ALIKE, abs=0.06)


def test_a_cell_counts_every_interval_for_both_truths():
    found = pd.DataFrame(coverage.simulate(Cell(6, 3, correlated=True), 5, 100, 0))
    assert len(found) == 2 * len(INTERVALS)
    assert set(found["covered"] * 5) <= set(range(6))
    assert (found["width"] > 0).all()
    again = pd.DataFrame(coverage.simulate(Cell(6, 3, correlated=True), 5, 100, 0))
    pd.testing.assert_frame_equal(found, again)


def test_the_right_interval_covers_and_the_wrong_one_does_not():
    """With 60 blocks retraining is the larger noise: a pair's interval misses the algorithms."""
    found = pd.DataFrame(coverage.simulate(Cell(60, 5, correlated=True), 150, 200, 0))
    covered = found.set_index(["interval", "truth"])["covered"]
    assert covered["two_component", "algorithms"] > 0.9
    assert covered["paired", "pair"] > 0.88
    assert covered["paired", "algorithms"] < 0.85
    assert covered["rows", "pair"] < 0.75
    assert covered["averaged_loss", "pair"] < 0.85
    assert RETRAINING.max() < 1 and FEATURES * ROWS > 1


def test_monte_carlo_error_is_that_of_a_share():
    assert coverage.monte_carlo(0.95, 2000) == pytest.approx(0.00487, abs=1e-5)


def test_everything_of_the_chapter_is_shown(tmp_path):
    pairs = [("results_dir", str(tmp_path))]
    chapter = coverage.open_chapter(parameters.resolve("coverage", ["quick"], pairs))
    assert "Not recorded yet" in chapter.status()
    record(chapter.experiment, coverage.PARTS)
    for name in coverage.SHOWN:
        assert not re.search(r"\bnan\b|None", re.sub(r"<[^>]+>", " ", chapter.show(name))), name
    assert "of 95" not in chapter.show("pair") and "%" in chapter.show("pair")
