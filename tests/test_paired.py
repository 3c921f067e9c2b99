"""The worked example: the numbers that the chapter prints are the ones computed by hand."""

import re

import pytest

from mononet import paired, parameters
from mononet.statistics import StatisticsError


@pytest.fixture
def chapter():
    return paired.open_chapter(parameters.resolve("paired"))


def text(shown) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", shown))


def test_the_worked_numbers(chapter):
    shown = text(chapter.show("by hand"))
    for value in ("0.0060", "0.00632", "0.00258", "2.32", "2.571", "[−0.0006, 0.0126]", "0.068"):
        assert value in shown, value
    shown = text(chapter.show("unpaired"))
    for value in ("0.0096", "0.63", "0.55"):
        assert value in shown, value


def test_everything_is_shown_and_reads_for_either_outcome(chapter):
    clear = paired.Chapter(tuple(x + 0.02 for x in chapter.baseline), chapter.challenger, 200)
    for each in (chapter, clear):
        for name in paired.SHOWN:
            assert not re.search(r"\bnan\b|None", text(each.show(name))), name
    assert "holds zero" in chapter.show("verdict")
    assert "leaves out zero" in clear.show("verdict")


def test_losses_that_are_equal_twice_are_losses(chapter):
    values = parameters.resolve("paired") | {"baseline_losses": [0.5, 0.5, 0.6]}
    with pytest.raises(StatisticsError, match="not paired"):
        paired.open_chapter(values).show("by hand")
