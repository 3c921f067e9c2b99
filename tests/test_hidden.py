"""Hidden randomness: what the page says is what the installed libraries do."""

import re

import numpy as np
import pandas as pd
import pytest

from mononet import hidden, parameters


@pytest.fixture(scope="module")
def chapter():
    return hidden.open_chapter(parameters.resolve("hidden_randomness"))


def test_ddof_is_found():
    assert hidden.ddof(np.std) == 0
    assert hidden.ddof(lambda x: pd.Series(x).std()) == 1
    assert hidden.ddof(np.ptp) is None


def test_a_step_sees_at_most_two_hundred_rows():
    assert [hidden.steps(n) for n in (100, 200, 201, 1000)] == [1, 1, 2, 5]


def test_the_threshold_is_where_early_stopping_begins(monkeypatch):
    monkeypatch.setattr(hidden, "stops_early", lambda n: n > 777)
    assert hidden.threshold.__wrapped__() == 778
    monkeypatch.setattr(hidden, "stops_early", lambda n: True)
    assert hidden.threshold.__wrapped__() is None


def test_the_page_shows_everything(chapter):
    for name in hidden.SHOWN:
        text = re.sub(r"<[^>]+>", " ", chapter.show(name))
        assert not re.search(r"\bnan\b", text), name
    limit = hidden.threshold()
    assert not hidden.stops_early(limit - 1) and hidden.stops_early(limit)
    assert f"{limit:,}" in chapter.show("draws")
    assert "scikit-learn" in chapter.show("versions")


def test_bins_are_found_on_a_sample_of_many_rows(chapter):
    assert [hidden.bins_move(hidden.BINNED + more) for more in (0, 1)] == [False, True]
    told = re.sub(r"<[^>]+>", " ", chapter.show("boosting"))
    assert "with 200,000 rows another seed gives the same predictions" in told
    assert "with 200,001 rows it gives other predictions" in told
