"""The size table: nested subsets, values that did not choose their epochs, gaps with errors."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest

from mononet import data, parameters, sizes
from mononet.experiments import record
from mononet.recording import StudyError

pytestmark = pytest.mark.xdist_group("results")


@pytest.fixture(scope="module")
def chapter(tmp_path_factory):
    pairs = [("results_dir", str(tmp_path_factory.mktemp("sizes")))]
    chapter = sizes.open_chapter(parameters.resolve("size_table", ["quick"], pairs))
    record(chapter.experiment, sizes.PARTS)
    return chapter


def test_subsets_are_nested_and_keep_the_validation_rows():
    dataset = data.load("auto_mpg")
    quarter, half, whole = (sizes.subsets(dataset, 2, 5, share) for share in (0.25, 0.5, 1.0))
    for (a, v), (b, w), (c, x), (train, _) in zip(
        quarter, half, whole, dataset.splits(2, 5), strict=True
    ):
        assert set(a) < set(b) < set(c) == set(train)
        assert len(a) == round(0.25 * len(c))
        assert np.array_equal(v, w) and np.array_equal(w, x)
        assert not set(c) & set(v)


def test_rows_of_a_post_stay_together():
    dataset = data.load("auto_mpg")
    posts = np.arange(len(dataset.y_train)) // 4
    grouped = dataclasses.replace(dataset, groups=posts)
    for train, _ in sizes.subsets(grouped, 1, 5, 0.5):
        held = np.bincount(posts[train], minlength=posts.max() + 1)
        whole = np.bincount(posts[grouped.splits(1, 5)[0][0]], minlength=posts.max() + 1)
        assert ((held == 0) | (held == whole)).sum() >= len(held) - 1


def test_every_share_fold_and_seed_is_recorded(chapter):
    frame = chapter.experiment.table("sizes")
    assert list(frame) == sizes.COLUMNS
    counts = frame.groupby(["model", "share"]).size().unstack()
    assert set(counts.index) == set(sizes.MODELS)
    assert (counts.loc["split"] == 10).all() and (counts.loc["linear"] == 5).all()
    assert frame.groupby("share")["rows"].max().to_dict() == {0.5: 40, 1.0: 80}
    assert frame["loss"].to_numpy() == pytest.approx(frame["value"].to_numpy())  # both are the MSE


def test_gaps_are_paired_by_fold():
    rows = [
        {"dataset": "auto_mpg", "share": 1.0, "model": model, "rows": 80, "fold": f, "seed": s}
        | {"loss": loss + 10 * f + (s if model == "split" else 0)}
        for model, loss in (("split", 1.0), ("hgb-monotone", 2.0), ("linear", 4.0))
        for f in (0, 1)
        for s in (0, 1)
    ]
    found = sizes.gaps(pd.DataFrame(rows)).set_index("baseline")
    assert found["gap"].to_dict() == {"hgb-monotone": 0.5, "linear": 2.5}
    assert found["se"].tolist() == [0, 0] and set(found["over"]) == {"folds"}
    alone = sizes.gaps(pd.DataFrame(rows).query("fold == 0")).set_index("baseline")
    assert set(alone["over"]) == {"seeds"}
    assert alone.loc["linear", "se"] == pytest.approx(0.5)


def test_identity_holds_the_studies_that_are_used(chapter):
    used = chapter.experiment.content["studies"]
    assert set(used) == {f"auto_mpg {model}" for model in sizes.MODELS}
    assert "studies_dir" not in chapter.experiment.content["parameters"]


def test_the_chapter_shows_everything(chapter):
    for name in sizes.SHOWN:
        assert not re.search(r"\bnan\b|None", re.sub(r"<[^>]+>", " ", chapter.show(name))), name


def test_datasets_without_studies_are_left_out_and_said(tmp_path):
    pairs = [("results_dir", str(tmp_path)), ("studies_dir", str(tmp_path))]
    values = parameters.resolve("size_table", ["quick"], pairs)
    experiment = sizes.SizeTable("size_table", values)
    assert "Auto MPG" in sizes.missing(experiment)
    with pytest.raises(StudyError, match="no dataset has complete studies"):
        sizes.sizes(experiment)
    assert not experiment.complete


def test_models_that_learned_nothing_are_named(chapter, monkeypatch):
    experiment, dataset = chapter.experiment, data.load("auto_mpg", max_rows=200)
    values = experiment.studies["auto_mpg"][0].parameters
    y, errors = dataset.y_train, []
    for train, validation in dataset.splits(values["cv_seed"] + sizes.REPORTED, values["cv_folds"]):
        errors += list((y[validation] - y[train].mean()) ** 2)
    mean = sizes.training_mean(experiment, "auto_mpg")
    monkeypatch.setitem(experiment.parameters, "max_rows", 200)
    assert sizes.training_mean(experiment, "auto_mpg") == pytest.approx(np.mean(errors))
    monkeypatch.undo()
    frame = experiment.table("sizes")
    found = frame.groupby(["rows", "model"])["loss"].mean()
    shown = re.sub(r"<[^>]+>", " ", sizes.learned(experiment))
    for model in sizes.MODELS:
        assert (f"{model} (" in shown) == (found.xs(model, level="model") > mean).any()
    monkeypatch.setattr(sizes, "training_mean", lambda *_: None)
    assert "What predicting the mean costs on Auto MPG was not computed" in sizes.learned(
        experiment
    )
