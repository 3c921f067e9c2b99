"""The first version beside the present one: what changed, and what other rules would select."""

import re

import numpy as np

from mononet import first_version
from mononet.search import Trial


def trial(number, values):
    values = np.array(values, dtype=float)
    return Trial(number, {}, 1, False, 0.0, values.mean(), values.std(), 0.0, 0.0, 0, 0, values)


STEADY = trial(0, [[6.0, 6.0, 6.0], [6.2, 6.2, 6.2]])
LUCKY = trial(1, [[5.0, 9.0, 9.0], [5.0, 9.0, 9.0]])  # its first seed hides the others
UNEVEN = trial(2, [[5.0, 5.0, 5.0], [6.9, 6.9, 6.9]])  # a better mean, a larger spread


def test_each_rule_selects_its_own_trial():
    found = first_version.selections([STEADY, LUCKY, UNEVEN], minimized=True)
    assert {name: t.number for name, t in found.items()} == {
        "mean, one seed": 1,
        "mean": 2,
        "one-sigma bound": 0,
    }


def test_accuracies_are_maximized():
    accuracies = [trial(n, t.values / -100 + 1) for n, t in enumerate([STEADY, LUCKY, UNEVEN])]
    found = first_version.selections(accuracies, minimized=False)
    assert [t.number for t in found.values()] == [1, 2, 0]


def test_the_chapter_names_every_change_and_what_is_missing(tmp_path):
    chapter = first_version.open_chapter({"results_dir": str(tmp_path)})
    shown = re.sub("<[^>]+>", " ", chapter.show("changes"))
    assert all(name in shown for name in ("objective", "search_seeds", "final_seeds"))
    assert "mean" in shown and "risk_adjusted" in shown
    assert "not recorded yet" in chapter.show("results")
    assert "recorded yet" in chapter.show("others") and chapter.show("agreement") == ""
