"""Error rates by group: counted right, with their rows and intervals, and little said."""

from types import SimpleNamespace

import numpy as np
import pytest

from mononet import evidence_page, groups, parameters

RULE = {
    "challenger": "split",
    "baselines": ["linear"],
    "groups": [
        {"name": "a", "feature": "race_0"},
        {"name": "b", "feature": "race_1"},
        {"name": "few", "feature": "race_2"},
    ],
}


def study(model, calls):
    """A stand-in with 100 rows in a, 100 in b and 10 in few; half of each positive."""
    target = np.tile([1.0, 0.0], 105)
    masks = [np.arange(210) < 100, (np.arange(210) >= 100) & (np.arange(210) < 200)]
    arrays = {
        "target": target,
        "predictions": np.where(np.atleast_2d(calls), 0.9, 0.1),
        "groups": np.array([*masks, np.arange(210) >= 200]),
        "groups_names": np.array(["a", "b", "few"]),
    }
    record = SimpleNamespace(read_npz=lambda name: arrays)
    folder, scratch = SimpleNamespace(name=model), {"results_dir": "nowhere"}
    return SimpleNamespace(
        model=model, record=record, folder=folder, dataset="compas", parameters=scratch
    )


@pytest.fixture
def pair():
    """split calls everybody in a positive and nobody else; linear is right for everyone."""
    split = study("split", [np.arange(210) < 100, np.zeros(210, dtype=bool)])
    return [split, study("linear", np.tile([1, 0], 105) == 1)]


def test_rates_have_their_own_denominators(pair):
    frame = groups.frame(pair).set_index(["model", "group", "rate"])
    a = frame.loc[("split", "a", "false_positive")]
    # The first seed calls everybody in a, the second nobody: rates of 1 and 0. Averaging them adds
    # no rows: the Wilson interval of 25 among 50 (Newcombe, 1998, formula 3).
    assert a[["n", "value", "least", "most"]].tolist() == [50, 0.5, 0.0, 1.0]
    z = 1.959964
    half = z * np.sqrt(0.25 * 50 + z**2 / 4) / (50 + z**2)
    assert [a["low"], a["high"]] == pytest.approx([0.5 - half, 0.5 + half])
    assert frame.loc[("split", "a", "false_negative"), "value"] == 0.5
    assert frame.loc[("split", "b", "false_negative"), "value"] == 1
    assert frame.loc[("split", "a", "error"), ["n", "value"]].tolist() == [100, 0.5]
    assert frame.loc[("linear", "all test rows", "error"), "value"] == 0
    assert frame.loc[("rows", "b", "positive"), "value"] == 0.5
    assert a["seed_sd"] == pytest.approx(np.std([1, 0], ddof=1))
    assert np.isnan(frame.loc[("linear", "a", "error"), "seed_sd"])


def test_few_rows_are_not_shown(pair):
    frame = groups.frame(pair)
    assert frame[frame["group"] == "few"]["value"].isna().all()
    for rate in groups.RATES:
        shown = groups.table(pair, rate)
        assert f"below 30 such rows: few ({10 if rate == 'error' else 5})" in shown
        assert "few, n" not in shown and "a, n\u00a0=\u00a0" in shown
        assert "nan" not in shown.split("base64")[0]
    assert "share of positives" in groups.table(pair, "error")


def test_words_compare_groups_of_one_kind_and_name_the_trigger(pair):
    said = groups.words(pair, RULE)
    assert "split, by race: false positive rate from 0 % (b) to 50 % (a), intervals apart" in said
    assert "changes most for a (n = 50): by −50.0 percentage points from split to linear" in said
    assert "single trainings have 0.0 to 100.0 % with split and 0.0 % with linear" in said
    assert "trigger at 5 points, taken on the means, is met, which reopens the decision" in said
    assert "Too few rows to say anything about: few" in said
    assert "recommend" not in said
    assert "trigger" not in groups.words(pair[:1], RULE)


def test_one_extreme_training_does_not_meet_the_trigger():
    calls = np.zeros((20, 210), dtype=bool)
    calls[0, :100] = True  # of 20 trainings the first alone calls everybody in a
    said = groups.words([study("split", calls[:, :]), study("linear", calls[1])], RULE)
    assert "by −5.0 percentage points" in said and "taken on the means, is not met" in said
    assert "5\u00a0[1,\u00a013] (0–100)" in groups.table([study("split", calls)], "false_positive")


def test_without_groups_only_all_rows_are_counted(pair):
    arrays = pair[0].record.read_npz("")
    arrays |= {"groups": np.zeros((0, 210), dtype=bool), "groups_names": np.array([], dtype=str)}
    assert set(groups.frame(pair[:1])["group"]) == {"all test rows"}


def test_the_trigger_is_that_of_the_rule(pair):
    triggers = parameters.read_rule("compas")["triggers"]
    (text,) = [text for text in triggers if groups.TRIGGER in text]
    assert f"moves by more than {groups.MOVES}" in text
    assert groups.moved(*pair) and not groups.moved(
        pair[1], study("hgb", np.tile([1, 0], 105) == 1)
    )


@pytest.mark.parametrize("met", [True, False])
def test_a_trigger_that_is_met_is_marked_where_it_is_listed(monkeypatch, met):
    found = evidence_page.cases("compas", parameters.resolve("compas"))
    monkeypatch.setattr(groups, "moved", lambda challenger, baseline: met)
    shown = evidence_page.show("triggers", found)
    assert ("two models compared. Met by split against hgb-monotone; split" in shown) == met
    assert shown.count("<li>") == 4 and shown.count("Met by") == met
