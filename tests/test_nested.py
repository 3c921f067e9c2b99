"""Nested cross-validation: what is estimated, with which error, and how hard a split is."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from mononet import data, parameters, printing
from mononet.diagnostics import nested
from mononet.ledger import read_openings


def text(shown: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", shown))


@pytest.fixture(scope="module")
def chapter(tmp_path_factory):
    """The quick chapter, recorded, beside the published headline studies."""
    folder = tmp_path_factory.mktemp("results")
    changes = {"results_dir": str(folder), "workers": 1, "max_epochs": 2}
    values = parameters.resolve("nested_cv", ["quick"], list(changes.items()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MONONET_TRAIN", "1")
        return nested.open_chapter(values | {"studies_dir": str(printing.RESULTS)})


def test_every_outer_fold_has_a_search_and_rows_of_its_own(chapter):
    runs = nested.outer_runs(chapter.experiment, "split")
    assert len(runs) == 2 * 2 * 2 and set(runs["partition"]) == {1, 2}
    assert set(runs["learned"]) == {157} and set(runs["held"]) == {157}
    assert runs.groupby(["partition", "fold"])["trial"].nunique().eq(1).all()
    assert runs["configuration"].nunique() > 1 and not runs["failed"].any()
    assert set(json.loads(runs["configuration"][0])) >= {"width", "depth", "learning_rate"}
    folds = nested.fold_means(runs)
    assert folds[1, 0] == pytest.approx(runs["value"][:2].mean())
    assert nested.estimate(folds).mean == pytest.approx(runs["value"].mean())


def test_a_search_without_a_selection_leaves_the_training_mean(chapter, monkeypatch):
    monkeypatch.setattr(nested, "selection", lambda *_: None)
    runs = nested.outer(chapter.experiment, "split", 1)
    assert runs["failed"].all() and set(runs["trial"]) == {-1}
    y = chapter.experiment.load("auto_mpg").y_train
    assert runs["value"].mean() == pytest.approx(y.var(), rel=0.05)


def test_the_error_is_that_of_one_partition():
    index = pd.MultiIndex.from_product([[1, 2], range(4)], names=["partition", "fold"])
    values = pd.Series([1.0, 2.0, 3.0, 4.0, 1.0, 1.0, 1.0, 1.0], index)
    assert nested.fold_error(values) == pytest.approx(
        np.sqrt((np.var([1, 2, 3, 4], ddof=1) / 4) / 2)
    )


def test_a_run_that_diverges_stays_in_the_mean():
    rows = [
        (1, fold, seed, 1e6 if (fold, seed) == (0, 1) else 8.0)
        for fold in (0, 1)
        for seed in (0, 1)
    ]
    runs = pd.DataFrame(rows, columns=["partition", "fold", "seed", "value"])
    assert nested.estimate(nested.fold_means(runs)).mean == pytest.approx((3 * 8.0 + 1e6) / 4)


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        # Gaps 1, 3, 1, 3: a mean of 2 with the standard error of two folds, 1.
        ([5.0, 8.0, 7.0, 10.0], "2.00 ± 1.00 mpg² lower, no more than what two standard errors"),
        ([3.0, 4.1, 5.0, 6.1], "0.95 ± 0.05 mpg² higher, more than twice its standard error"),
    ],
)
def test_procedures_are_compared_fold_by_fold(chapter, monkeypatch, theirs, said):
    index = pd.MultiIndex.from_product([[1, 2], [0, 1]], names=["partition", "fold"])
    runs = {"split": [4.0, 5.0, 6.0, 7.0], "linear": theirs}
    frames = {m: pd.Series(v, index, name="value").reset_index() for m, v in runs.items()}
    monkeypatch.setattr(nested, "outer_runs", lambda _, model: frames[model])
    shown = text(nested.procedures(chapter.experiment))
    assert f"on the same 4 outer folds the mean squared error of split is {said}" in shown
    assert f"the lower one on {4 if theirs[0] > 4 else 0} of the 4 folds" in shown


def test_estimates_stand_beside_the_recorded_study(chapter):
    frame = nested.estimates(chapter.experiment).loc["linear"]
    assert list(frame.index) == ["selection", "nested", "test"]
    assert frame.loc["selection", "mean"] == pytest.approx(11.497244, abs=1e-5)
    study = nested.headline(chapter.experiment, "linear")
    assert frame.loc["test", "mean"] == pytest.approx(study.runs("test")["value"].mean(), rel=1e-5)
    assert (frame["se"] > 0).all()


def test_the_opening_of_the_test_part_is_in_the_ledger_once(chapter):
    experiment = chapter.experiment
    ledger = f"{experiment.parameters['results_dir']}/auto_mpg/test_access.csv"
    before = read_openings(ledger)
    mine = before[before["kind"] == "diagnostic"]
    assert len(mine) == 1 and mine["study"].item() == experiment.identity
    nested.splits(experiment)
    assert len(read_openings(ledger)) == len(before)


def test_the_published_split_is_scored_like_the_random_ones(chapter):
    frame = chapter.experiment.table("splits")
    assert frame["split"].tolist() == [nested.PUBLISHED, 0, 1, 2]
    # Ridge with a penalty of 1, trained on the 314 published rows and read on the 78.
    assert frame.loc[0, "ridge"] == pytest.approx(11.508968, rel=1e-4)
    assert frame["ridge"].between(5, 25).all() and frame["forest"].between(3, 20).all()


def test_the_place_of_a_split_counts_easier_ones():
    frame = pd.DataFrame({"split": [-1, 0, 1, 2, 3], "ridge": [5.0, 1.0, 2.0, 7.0, 4.0]})
    assert nested.place(frame, "ridge") == 0.75


def test_two_models_are_compared_split_by_split():
    forest = [2.0, 1.0, 3.0, 1.0, 5.0]
    frame = pd.DataFrame({"split": [-1, 0, 1, 2, 3], "ridge": [2.5, 4, 4, 5, 4], "forest": forest})
    # Differences 3, 1, 4, −1 on random splits, 0.5 on the published one.
    said = nested.together(frame)
    assert "0.50 mpg² lower than ridge's on the published rows" in said
    assert "in the median 2.00 lower on random ones. It is the lower one on 3 of the 4" in said
    assert "more in its favor than on the published rows on 3." in said
    # Deviations −0.25, −0.25, 0.75, −0.25 and −1.5, 0.5, −1.5, 2.5: −1.5 / √(0.75 · 11).
    assert "correlate with −0.52, and their difference has a standard deviation of 2.22" in said


def test_a_few_cars_decide_for_some_models_more_than_for_others(chapter):
    # Squared errors of the recorded predictions; the two rows are the hardest of these two models.
    (said,) = nested.carried(chapter.experiment)
    assert "2 of the 78 published test cars" in said
    assert "30 % of it with split (7.41), 23 % of it with linear (9.11)." in said


def test_the_finding_says_when_nothing_is_far_from_zero(chapter, monkeypatch):
    index = pd.MultiIndex.from_product([["split"], nested.ESTIMATES], names=["model", "estimate"])
    values = {**chapter.experiment.parameters, "models": ["split"]}
    experiment = type(chapter.experiment)("nested_cv", values)
    for error, far in ((1.0, True), (0.5, False)):
        frame = pd.DataFrame({"mean": [6.0, 6.5, 9.0], "se": error}, index)
        monkeypatch.setattr(nested, "estimates", lambda _, frame=frame: frame)
        said = text(nested.finding(experiment))
        assert "is mostly the split: 0.50 ± " in said and "2.50 ± " in said
        assert said.rstrip(" .").endswith("each within two standard errors of zero") == far


def test_scores_train_on_the_other_rows():
    loaded = data.load("auto_mpg")
    (row,) = nested.score_splits(loaded.X_train, loaded.y_train, {3: np.arange(60)})
    assert row["split"] == 3 and row["ridge"] > 0
    learned = np.arange(60, 314)
    model = nested.untuned(3)["forest"].fit(loaded.X_train[learned], loaded.y_train[learned])
    expected = np.mean((model.predict(loaded.X_train[:60]) - loaded.y_train[:60]) ** 2)
    assert row["forest"] == pytest.approx(expected)


def test_everything_is_shown(chapter):
    for name in nested.SHOWN:
        assert not re.search(r"\bnan\b", text(chapter.show(name))), name
    assert "about 157 rows, its inner folds on about 78" in text(chapter.show("gap"))


def test_without_headline_studies_the_nested_estimate_stands_alone(chapter, tmp_path):
    values = {**chapter.experiment.parameters, "studies_dir": str(tmp_path)}
    alone = type(chapter)(
        type(chapter.experiment)("nested_cv", values), chapter.parts, nested.SHOWN
    )
    assert alone.experiment.complete
    assert "Nested cross-validation gives a nested estimate" in text(alone.show("finding"))
    assert "not recorded yet" in text(alone.show("split words"))
    for name in nested.SHOWN:
        assert not re.search(r"\bnan\b", text(alone.show(name))), name
