"""The figures of a page: complete, described, and the same bytes for the same data."""

import base64
import dataclasses
import re
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pytest

from mononet import figures
from mononet.models import CATALOGUE
from mononet.study import Study

pytestmark = pytest.mark.xdist_group("results")
ALL = ("noises", "selection", "curves", "effects", "trials")


def picture(shown: str) -> str:
    return base64.b64decode(re.search(r"base64,([^\"]+)", shown)[1]).decode()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("count", [1, 2])
def test_a_figure_has_a_picture_words_and_its_files(name, count, studies):
    shown = getattr(figures, name)(studies[:count])
    assert ElementTree.fromstring(picture(shown)).tag.endswith("svg")
    alt = re.search(r'alt="([^"]*)"', shown)[1]
    assert len(alt) > 40 and "split" in alt and "nan" not in alt
    assert len(re.search(r"<figcaption>(.*?)</figcaption>", shown)[1]) > 100
    assert "Made from <code>" in shown
    assert plt.get_fignums() == []


@pytest.mark.parametrize("name", ALL)
def test_a_figure_is_the_same_for_the_same_data(name, studies):
    assert getattr(figures, name)(studies) == getattr(figures, name)(studies)


def test_models_can_be_told_apart():
    assert len(set(figures.COLORS.values())) == len(set(figures.MARKERS.values())) == len(CATALOGUE)


def test_no_model_has_the_gray_of_training_rows_and_of_standard_errors():
    assert all(max(color) - min(color) > 0.15 for color in figures.COLORS.values())


@pytest.mark.parametrize(("high", "scale"), [(0.3, "linear"), (2.0, "log")])
def test_an_axis_of_errors_is_logarithmic_where_its_ends_are_far_apart(high, scale):
    figure, axis = plt.subplots()
    figures._error_axis([axis], 0.15, high)
    figure.canvas.draw()
    inside = [t for t in axis.get_yticks() if 0.15 <= t <= high]
    plt.close(figure)
    assert axis.get_yscale() == scale and len(inside) >= 3


def test_alt_text_and_caption_are_escaped():
    shown = figures.show(plt.figure(), 'a "b" <c>', "<d>")
    assert 'alt="a &quot;b&quot; &lt;c&gt;"' in shown and "&lt;d&gt;" in shown


def test_collapsed_trials_are_marked(studies, monkeypatch):
    whole = Study.trials

    def trials(study):
        first, *others = whole(study)
        return [dataclasses.replace(first, objective=np.inf), *others]

    before = figures.trials(studies[:1])
    monkeypatch.setattr(Study, "trials", trials)
    after = figures.trials(studies[:1])
    assert "1 of 2 trials collapsed" in after and "0 of 2 trials collapsed" in before
    assert picture(after) != picture(before)


def test_a_model_without_stages_has_no_learning_curve(studies):
    assert "split chose" in figures.curves(studies) and "linear" not in figures.curves(studies)
    assert "<img" not in figures.curves(studies[1:])
