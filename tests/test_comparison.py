"""The comparison chapter: any part of the studies recorded, none of them averaged over datasets."""

import base64
import io
import re

import numpy as np
import pandas as pd
import pytest
from conftest import quick_of, write_rows
from sklearn.metrics import log_loss

from mononet import (
    comparison,
    data,
    frames,
    pages,
    parameters,
    printing,
    prose,
    recording,
    secondary,
)
from mononet.study import Study

pytestmark = pytest.mark.xdist_group("results")


def chapter_of(*studies) -> comparison.Chapter:
    return comparison.Chapter(tuple(studies), ())


def text(shown: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", shown))


@pytest.fixture(scope="module")
def compas(tmp_path_factory):
    """A folder with rows that only look like COMPAS, and studies of all but the last model."""
    folder = tmp_path_factory.mktemp("compas")
    with pytest.MonkeyPatch.context() as patch:
        write_rows("compas", folder, patch)
        values = quick_of("compas", folder, "split,mixed,hgb-monotone,mlp,linear")
        found = [Study.of("compas", model, values) for model in values["models"]]
        return folder, [*map(recording.record, found[:-1]), found[-1]]


@pytest.fixture
def two(studies, compas, monkeypatch):
    """Auto MPG with split and linear, COMPAS with all but linear."""
    write_rows("compas", compas[0], monkeypatch)
    return chapter_of(*studies, *compas[1])


def test_every_part_works_on_what_is_recorded(two):
    assert list(two.recorded) == ["auto_mpg", "compas"]
    status = text(two.status())
    assert "Auto MPG: 2 of 2" in status and "COMPAS: 4 of 5" in status
    assert "without linear" in status and "Loan: 0 of 0" in status
    for name in comparison.SHOWN:
        shown = two.show(name)
        assert not re.search(r"\bnan\b|None", text(shown)), name
    assert two.show("selection").count("<img") == 1
    named = re.findall(r"(Auto MPG|COMPAS): every estimator", text(two.show("estimators")))
    assert named == ["Auto MPG", "COMPAS"]


def test_nothing_recorded_is_said_everywhere(tmp_path):
    chapter = comparison.open_chapter({"results_dir": str(tmp_path), "other": 1})
    assert "Auto MPG: 0 of 9 studies recorded" in text(chapter.status())
    assert "make studies" in chapter.status()
    for name in comparison.SHOWN:
        assert "No study is recorded yet" in chapter.show(name)


def test_the_chapter_is_that_of_the_full_protocol(tmp_path):
    chapter = comparison.open_chapter({"results_dir": str(tmp_path)})
    wanted = parameters.resolve("blog", pairs=[("results_dir", str(tmp_path))])
    blog = [study for study in chapter.studies if study.dataset == "blog"]
    assert [study.model for study in blog] == wanted["models"]
    assert blog[0].identity == Study.of("blog", blog[0].model, wanted).identity
    assert {each.study.dataset for each in chapter.beside} == set(data.SPECS)


def test_parameters_are_checked(tmp_path):
    with pytest.raises(parameters.ParameterError, match="results_dir"):
        comparison.open_chapter({})
    with pytest.raises(parameters.ParameterError, match="results_dir"):
        comparison.open_chapter({"results_dir": 3})


def test_ranks_follow_the_metric_and_share_ties():
    index = pd.MultiIndex.from_product([["auto_mpg", "heart"], ["a", "b", "c"]])
    frame = pd.DataFrame(
        {"mean": [3.0, 1.0, 2.0, 0.7, 0.9, 0.9], "median": 1.0, "fresh": [1, 2, 3, 1, 2, np.nan]},
        index.set_names(["dataset", "model"]),
    )
    found = comparison.ranks(frame)
    assert found["mean"].tolist() == [3, 1, 2, 3, 1, 1]
    assert found["median"].tolist() == [1] * 6
    # 50 of 61 right, as one mean and as a mean of twenty: a tie whose last bits differ.
    frame.loc["heart", "mean"] = [0.7, 50 / 61, np.nextafter(50 / 61, 1)]
    assert comparison.ranks(frame).loc["heart", "mean"].tolist() == [3, 1, 1]
    assert found.loc[("heart", "b"), "fresh"] == 1 and np.isnan(found.loc[("heart", "c"), "fresh"])


def test_no_rank_is_averaged(two):
    shown = text(two.show("ranks"))
    assert "suggestive" in shown and "No rank is averaged" in shown
    saved = re.search(r"base64,([^\"]+)", two.show("ranks"))[1]
    frame = pd.read_csv(io.BytesIO(base64.b64decode(saved)))
    assert set(frame["dataset"]) == {"auto_mpg", "compas"}


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-1.0, 2.0, "no difference is shown"),
        (0.5, 2.0, "this trained split is better"),
        (-2.0, -0.5, "this trained hgb-monotone is better"),
    ],
)
def test_boosting_is_judged_by_the_interval(two, low, high, said, monkeypatch):
    pair = {"gap": (low + high) / 2, "low": low, "high": high, "detectable": 1.0, "blocks": 9}
    monkeypatch.setattr(frames, "paired", lambda *_: pair)
    shown = text(comparison.boosting(two))
    assert said in shown
    assert "Of 1 dataset," in shown and "is not recorded yet" in shown


@pytest.mark.parametrize(
    ("boosting", "ahead", "verdict", "said"),
    [
        # 68.8, 69.3, 69.2 and 69.3 % are above the 68.5 % of boosting, 66.3, 67.9, 67.8, 67.3 not.
        (0.685, 4, "open", "no difference is shown"),
        (0.685, 4, "better", "the network is better"),
        (0.685, 4, "worse", "boosting is better"),
        (0.6, 8, "open", "that order is not found again, and not refuted either"),
        (0.6, 8, "better", "that order is found again"),
        (0.6, 8, "worse", "that order is reversed"),
        (0.7, 0, "better", "that order is reversed"),
        (0.7, 0, "worse", "that order is found again"),
    ],
)
def test_a_printed_order_is_held_against_the_interval(
    two, boosting, ahead, verdict, said, monkeypatch
):
    challenger, boosted = two.recorded["compas"][:2]
    found = {"compas": (challenger, boosted, {}, verdict)}
    monkeypatch.setattr(comparison, "contests", lambda _: found)
    printed = frames.published("compas")
    printed.loc[comparison.PRINTED_BOOSTING, "mean"] = boosting
    monkeypatch.setattr(frames, "published", lambda _: printed)
    shown = text(comparison.printed_orders(two))
    assert f"COMPAS: {ahead} of 8 printed networks stand before the printed boosting" in shown
    assert said in shown and "past none of the printed networks" in shown
    monkeypatch.setattr(comparison, "contests", lambda _: {})
    assert comparison.printed_orders(two) == ""


@pytest.mark.parametrize(
    ("gap", "spread", "values", "said", "speaks", "enough"),
    [
        (1.0, 2.0, (6.9, 7.1), "1.4 {} worse", (0, 0, 1), "none"),
        (3.0, 1.0, (5.9, 6.1), "5.7 {} better", (1, 0, 0), "1"),
        (-2.0, 1.0, (6.0, 6.0), "alike, which seeds do not move", (0, 1, 0), "none"),
    ],
)
def test_a_larger_budget_is_told_by_what_it_bought(
    quick, monkeypatch, gap, spread, values, said, speaks, enough
):
    every = secondary.of("auto_mpg", quick | {"n_trials": 50})
    each = next(e for e in every if e.name == "250 trials")
    other = {250: values, 50: (6.8, 6.8) if values[0] != values[1] else values}

    def runs(study, split):
        value = other[study.parameters["n_trials"]]
        return pd.DataFrame({"partition": 1, "fold": 0, "seed": [0, 1], "value": value})

    monkeypatch.setattr(Study, "runs", runs)
    monkeypatch.setattr(Study, "complete", True)
    pair = {"gap": gap, "low": gap - spread, "high": gap + spread, "rmse": 3.5}
    monkeypatch.setattr(frames, "paired", lambda *_: dict(pair))
    shown = text(comparison.budget(comparison.Chapter((each.headline,), (each,))))
    assert f" with 250 trials and {other[50][0]:.2f} with 50, " in shown
    assert said.format("seed standard deviations") in shown
    assert "positive where more trials are better. A gain of 1.7 would matter." in shown
    summary = "Of 1 dataset, the interval speaks for more trials on {}, for fewer on {}, and for "
    assert (summary + "neither on {}; ").format(*speaks) in shown
    assert f"they gained what would matter on {enough}." in shown


def test_collapses_count_what_the_metric_defines(two, monkeypatch):
    rows = dict.fromkeys(comparison.COUNTS, 0) | {"n": 10, "outliers": np.nan}
    index = pd.MultiIndex.from_tuples([("blog", "split"), ("compas", "split")])
    frame = pd.DataFrame([rows, rows], index.set_names(["dataset", "model"]))
    monkeypatch.setattr(type(two), "estimators", frame)
    shown = text(comparison.collapses(two))
    assert "0 · – of 10" in shown and "0 · 0 of 10" in shown


def test_flavors_are_ordered_by_validation_and_judged_by_the_test_part(two, monkeypatch):
    fresh = {s.model: s.runs("validation")["value"].mean() for s in two.recorded["compas"]}
    best = max(("split", "mixed"), key=fresh.get)
    other = "mixed" if best == "split" else "split"
    pair = {"gap": -1.0, "low": -2.0, "high": -0.5}
    monkeypatch.setattr(frames, "paired", lambda baseline, chosen: pair)
    shown = text(comparison.flavors(two))
    assert f"fresh folds put {best} first of 2" in shown
    assert f"leaves zero out in favor of {other}" in shown
    assert "one in twenty" in shown
    alone = chapter_of(*two.recorded["auto_mpg"])
    assert "Two flavors on one dataset are needed" in comparison.flavors(alone)


def test_search_noise_is_that_of_searches(quick, tmp_path):
    values = quick | {"results_dir": str(tmp_path), "models": ["split"]}
    beside = [
        each
        for each in comparison.secondary.of("auto_mpg", values)
        if each.study.model == "split" and "search_seed" in each.changes
    ]
    assert comparison.search_frame(comparison.Chapter((), tuple(beside))).empty
    for study in (beside[0].headline, beside[0].study, beside[1].study):
        recording.record(study)
    whole = comparison.Chapter((beside[0].headline,), tuple(beside))
    frame = comparison.search_frame(whole)
    assert frame["search_seed"].tolist() == [0, 1, 2]
    shown = text(whole.show("search noise"))
    sd = printing.significant(frame["mean"].astype(float).std(ddof=1))
    assert f"3 searches have a standard deviation of {sd} mpg²" in shown
    pair = frames.paired(beside[0].headline, beside[1].study)
    assert frame["gap"].iloc[2] == pair["gap"] and np.isnan(frame["gap"].iloc[0])
    apart = frame.assign(gap=-0.9, low=-1.7, high=-0.3)
    assert "seeds 0 and 0 has a gap of −0.90 [−1.70, −0.30]" in comparison.search_words(apart)
    assert "luck" not in comparison.search_words(frame.assign(low=-1.0, high=1.0))


@pytest.mark.parametrize("name", ["heart", "compas", "blog", "loan"])
def test_a_page_of_every_dataset_is_made_without_a_change_of_code(name, made_up, monkeypatch):
    monkeypatch.delenv(recording.TRAIN, raising=False)
    values = made_up(name)
    before = pages.open_page(name, values)
    status = before.status()
    assert "0 of 3 studies are recorded" in status
    assert "<img" not in before.figure("noises")
    for study in before.studies:
        recording.record(study)
    page = pages.open_page(name, values)
    assert len(page.recorded) == 3
    words = ["agreement", "results", "unsupported", "selection", "detectable", "needed"]
    words += ["conclusion", "price", "first_version", "indicator", "inputs", "checked"]
    names = ["constraints", "estimators", "slices", "comparisons", "secondary", "costs", "ledger"]
    if name != "blog":
        words += ["base_rate", "mistakes"]
    else:
        words += ["comments"]
    if name == "compas":
        words += ["groups"]
        names += ["error", "false_positive", "false_negative"]
    for shown in (*map(page.words, words), *map(page.table, names)):
        assert not re.search(r"\bnan\b|None", text(shown))
    for figure in ("noises", "selection", "curves", "effects", "trials"):
        assert "<img" in page.figure(figure)
    assert "mn-ok" in page.verify() or "mn-warn" not in page.verify()


def test_a_page_without_rows_and_studies_names_the_two_commands(monkeypatch, tmp_path):
    monkeypatch.delenv(data.ENVIRONMENT, raising=False)
    monkeypatch.setattr(data.pooch, "os_cache", lambda name: tmp_path / "cache")
    monkeypatch.setattr(printing, "RESULTS", tmp_path)
    values = parameters.resolve("loan", pairs=[("results_dir", str(tmp_path))])
    status = pages.open_page("loan", values).status()
    assert "python -m mononet data fetch loan" in status and "python -m mononet run loan" in status


def test_a_classification_counts_its_mistakes(made_up):
    values = made_up("heart", models="linear")
    page = pages.open_page("heart", values)
    recording.record(page.studies[0])
    page = pages.open_page("heart", values)
    with np.load(page.recorded[0].folder / "predictions.npz") as arrays:
        positive = arrays["target"] > 0.5
        missed = int((arrays["predictions"][0][positive] <= 0.5).sum())
    said = text(page.words("mistakes"))
    assert f"{positive.sum()} positive" in said and f"miss {missed} of" in said
    assert "percentage points: accuracy moves in steps" in text(page.words("base_rate"))


def test_accuracy_is_compared_by_the_exact_test_too(two):
    split, _, boosted, mlp = two.recorded["compas"]
    pair = frames.paired(boosted, split)
    right = []
    for study in (boosted, split):
        with np.load(study.folder / "predictions.npz") as arrays:
            right.append((arrays["predictions"][0] > 0.5) == (arrays["target"] > 0.5))
    assert pair["baseline_only"] == (right[0] & ~right[1]).sum()
    assert pair["gap"] == pytest.approx(right[1].mean() - right[0].mean())
    said = prose.conclusion([split, boosted, mlp], parameters.read_rule("compas"))
    assert "exact McNemar test, p" in said
    both = [study.record.read_npz("predictions.npz") for study in (split, boosted)]
    losses = [log_loss(each["target"], each["predictions"][0].astype(float)) for each in both]
    gap = frames.loss_gap(boosted, split)
    assert gap["loss_gap"] == pytest.approx(losses[1] - losses[0])
    assert gap["loss_low"] < gap["loss_gap"] < gap["loss_high"]
    assert "In log loss, in which the rule states its gaps, the same pair has" in said
    auto = two.recorded["auto_mpg"]
    assert "p" not in frames.paired(*auto)


def test_the_price_of_a_constraint_is_counted(two, monkeypatch):
    studies = two.recorded["compas"]
    monkeypatch.setattr(frames, "paired", lambda *_: {"gap": -0.1, "low": -0.2, "high": -0.05})
    said = text(prose.price(studies))
    assert "Of 2 trained pairs" in said and "for the free one in 2" in said
    assert "split against mlp: −10.0 [−20.0, −5.0]; of all" in said
    assert "residual" not in said and "deep" not in said
    assert "Still to be recorded: a constrained model" in prose.price(two.recorded["auto_mpg"])


def test_what_would_be_needed_grows_with_the_square(two, monkeypatch):
    row = {"rows": "all test rows", "baseline": "linear", "challenger": "split", "n": 100}
    row |= {"gap": 0.0, "detectable": 0.04, "matters": 0.01, "blocks": 100}
    monkeypatch.setattr(frames, "comparisons", lambda *_: pd.DataFrame([row]))
    rule = parameters.read_rule("compas")
    said = prose.needed(two.recorded["compas"], rule)
    assert "about 1,600 test rows would be needed instead of 100" in said
    row |= {"detectable": 0.005}
    assert prose.needed(two.recorded["compas"], rule) == ""
