"""The two-moons picture: chosen data do what the text says, and the intervals are right."""

import re

import numpy as np
import pytest

from mononet import moons, parameters, statistics
from mononet.experiments import record


@pytest.fixture(scope="module")
def chapter(tmp_path_factory):
    pairs = [("results_dir", str(tmp_path_factory.mktemp("moons")))]
    chapter = moons.open_chapter(parameters.resolve("two_moons", pairs=pairs))
    record(chapter.experiment, moons.PARTS)
    return chapter


def test_the_network_loses_on_average_and_a_few_seeds_win(chapter):
    gaps = moons.gaps(chapter.experiment)["gap"]
    assert len(gaps) == 10
    assert gaps.mean() < 0
    assert 1 <= (gaps > 0).sum() <= 4


def test_intervals_are_those_of_one_network_over_blocks(chapter):
    frame = chapter.experiment.table("losses")
    assert frame.groupby("seed").size().eq(moons.BLOCKS).all()
    loss = frame.pivot(index="seed", columns="block", values="loss").to_numpy()
    found = statistics.block_bootstrap(loss[0] - loss[4], 1000)
    row = moons.gaps(chapter.experiment).loc[3]
    assert (row["gap"], row["low"], row["high"]) == (found.mean, found.low, found.high)


def test_seeds_move_the_network_and_not_the_rows(chapter):
    frame = chapter.experiment.table("losses").pivot(index="seed", columns="block", values="loss")
    assert np.unique(frame.to_numpy(), axis=0).shape == frame.shape


def test_words_and_figure_hold_no_gaps(chapter):
    for name in moons.SHOWN:
        assert not re.search(r"\bnan\b|None", re.sub(r"<[^>]+>", " ", chapter.show(name))), name
    assert "worse by" in chapter.show("words")
    assert chapter.show("figure").count("<img") == 1
