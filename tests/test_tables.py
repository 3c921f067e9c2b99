"""The frames behind a page's tables, and how they are printed."""

import base64
import io
import itertools
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import trim_mean

from mononet import data, frames, parameters, printing, prose, recording, statistics, tables
from mononet.models import CATALOGUE
from mononet.printing import ROOT, Column, Html, render
from mononet.study import Study

pytestmark = pytest.mark.xdist_group("results")


@pytest.fixture(scope="module")
def rule():
    return parameters.read_rule("auto_mpg")


@pytest.fixture(scope="module")
def auto():
    return data.load("auto_mpg")


@pytest.fixture(scope="module")
def heart(tmp_path_factory):
    """A recorded study of a classification: rows that only look like the published ones."""
    folder, spec = tmp_path_factory.mktemp("heart"), data.SPECS["heart"]
    rng = np.random.default_rng(0)
    for part, rows in (("train", spec.train_rows), ("test", spec.test_rows)):
        X = rng.normal(size=(rows, len(spec.features)))
        values = np.column_stack([X, (X[:, 0] + rng.normal(size=rows) > 0.8).astype(float)])
        if part == "train":
            values[: len(spec.head)] = spec.head
        frame = pd.DataFrame(values, columns=spec.columns)
        frame.to_csv(folder / f"{part}_heart.csv", index=False)
    pairs = [("results_dir", str(folder / "results")), ("data_dir", str(folder)), ("workers", "1")]
    values = parameters.resolve("heart", ["quick"], pairs)
    return recording.record(Study.of("heart", "linear", values))


@pytest.mark.parametrize(
    ("spread", "expected"),
    [(0.26, 2), (2.9, 1), (31.0, 0), (0.0996, 2), (0.0099, 4), (-0.0049, 4), (0.0, 2), (np.nan, 2)],
)
def test_a_spread_decides_the_decimals(spread, expected):
    assert printing.decimals(spread) == expected


def test_numbers_are_printed_as_a_reader_expects():
    assert printing.plus_minus(9.5189, 0.2604, 20) == "9.52 ± 0.26 (n = 20)"
    assert printing.plus_minus(11.4473, np.nan, 1) == "11.45 (n = 1)"
    assert printing.number(-1.26, 1) == "−1.3"
    assert printing.number(-0.04, 1) == "0.0"
    assert printing.number(np.nan, 1) == printing.NONE
    assert printing.significant(0.0001234) == "0.00012"
    assert printing.significant(1234.0) == "1,234"
    assert printing.significant(0.0) == "0"


def test_everything_but_html_is_escaped():
    frame = pd.DataFrame({"x": ["<b>"]}, index=["<i>"])
    columns = [
        Column("<u>", lambda row: row["x"]),
        Column("link", lambda row: Html("<a></a>"), ""),
    ]
    shown = render(frame, columns, 'a "caption" <p>', "a <note>", corner="&")
    assert "&lt;b&gt;" in shown and "&lt;i&gt;" in shown and "&lt;u&gt;" in shown
    assert "&lt;note&gt;" in shown and "&quot;caption&quot;" in shown
    assert "<a></a>" in shown
    assert 'role="region"' in shown and 'scope="row"' in shown


def test_estimators_are_those_of_the_files(studies):
    frame = frames.estimators(studies)
    for study in studies:
        runs = pd.read_csv(study.folder / "runs.csv")
        test = runs.query("split == 'test'")["value"]
        row = frame.loc[study.model]
        assert row["n"] == len(test)
        assert row["mean"] == pytest.approx(test.mean())
        assert row["median"] == pytest.approx(test.median())
        assert row["iqm"] == pytest.approx(trim_mean(test, 0.25))
        assert row["fresh"] == pytest.approx(runs.query("split == 'validation'")["value"].mean())
        with np.load(study.folder / "predictions.npz") as arrays:
            squares = (arrays["predictions"][0].astype(float) - arrays["target"]) ** 2
        assert row["row_se"] == pytest.approx(squares.std(ddof=1) / np.sqrt(len(squares)))
    assert frame.loc["split", "std"] > 0
    assert np.isnan(frame.loc["linear", "std"])
    assert list(frame.index) == ["split", "linear"]  # the order given, not that of the values


def test_the_printed_estimators_name_every_caveat(studies, auto):
    shown = tables.estimators(studies, auto.y_train)
    assert "training mean" in shown
    assert "CV score*" in shown and "no estimate of test error" in shown
    assert "retraining only" in shown
    assert "validation-level" not in shown
    assert "not on this machine" in tables.estimators(studies, None)


def test_a_validation_level_study_says_so(studies, monkeypatch):
    monkeypatch.setattr(Study, "validation_level", lambda study: "someone <looked>")
    shown = tables.estimators(studies, None)
    assert "split (validation-level)" in shown
    assert "someone &lt;looked&gt;" in shown


def test_the_trivial_predictor_needs_no_features(studies, auto, monkeypatch):
    with np.load(studies[0].folder / "predictions.npz") as arrays:
        expected = np.mean((arrays["target"] - auto.y_train.mean()) ** 2)
    assert frames.trivial(studies, auto.y_train) == {"training mean": pytest.approx(expected)}
    assert frames.trivial(studies, None) == {}  # of how many rows, nobody knows here
    monkeypatch.setitem(studies[0].parameters, "max_rows", None)  # its folder is known by now
    assert frames.trivial(studies, None) == {"training mean": pytest.approx(expected)}


def test_a_comparison_is_of_the_same_rows(studies, rule):
    frame = frames.comparisons(studies, rule)
    assert set(frame["baseline"]) == {"linear"}  # hgb-monotone is not recorded
    assert list(frame["rows"]) == ["all test rows", *(part["name"] for part in rule["slices"])]
    losses = []
    for study in studies:
        with np.load(study.folder / "predictions.npz") as arrays:
            losses.append((arrays["predictions"][0].astype(float) - arrays["target"]) ** 2)
    d = losses[1] - losses[0]
    row = frame.iloc[0]
    assert row["gap"] == pytest.approx(d.mean())
    assert row["low"] < row["gap"] < row["high"]
    expected = statistics.detectable_difference(d.std(ddof=1), len(d))
    assert row["detectable"] == pytest.approx(expected)
    assert frames.comparisons(studies[:1], rule).empty


def test_what_matters_is_put_on_the_metrics_scale(rule):
    better = (3.0 - 0.25) ** 2
    assert frames.matters(rule, "mse", 3.0) == pytest.approx(9 - better)
    assert frames.matters(rule, "rmse", 3.0) == 0.25


def test_few_rows_are_not_shown(studies, rule, monkeypatch):
    assert "not shown" not in tables.slices(studies).split("mn-note")[0]
    monkeypatch.setattr(frames, "FEWEST_ROWS", 40)
    long = frames.slices(studies).set_index(["slice", "model"])
    small = long[long["n"] < 40]
    assert len(small) and small["value"].isna().all()
    assert long[long["n"] >= 40]["value"].notna().all()
    assert "not shown" in tables.slices(studies).split("mn-note")[0]
    assert "not shown" in tables.comparisons(studies, rule).split("mn-note")[0]


def test_an_interval_of_one_network_is_about_its_value(studies):
    frame = frames.slices(studies)
    assert (frame["low"] < frame["value"]).all() and (frame["value"] < frame["high"]).all()
    every = frame[frame["slice"] == "all test rows"].set_index("model")["value"]
    first = studies[0].runs("test")["value"].iloc[0]
    assert every["split"] == pytest.approx(first)


def test_published_figures_stand_apart():
    for dataset in data.SPECS:
        frame = frames.published(dataset)
        assert frame["mean"].notna().all() and frame["source"].str.contains(r"\d{4}").all()
        shown = tables.published(dataset)
        assert "[prior protocol]" in shown and "mn-prior" in shown
    assert frames.published("compas").loc["Constrained MNN", "mean"] == pytest.approx(0.692)
    assert "69.2 ± 0.2" in tables.published("compas")
    assert "86 ± 3" in tables.published("heart")
    assert "8.37 ± 0.08" in tables.published("auto_mpg")


def test_the_other_tables_show_what_was_recorded(studies):
    assert "pass" in tables.checks(studies)
    chosen = frames.configurations(studies)
    assert chosen.loc["width", "split"] in (8, 16, 21, 32, 64)
    assert pd.isna(chosen.loc["width", "linear"])
    assert "learning rate" in tables.configurations(studies)
    assert tables.costs(studies).count('scope="row"') == 2
    openings = frames.ledger(studies)
    assert openings["kind"].iloc[0] == "planning"
    mine = openings[openings["study"].isin([study.identity for study in studies])]
    assert list(mine["kind"]) == ["final", "final"]
    shown = tables.ledger(studies)
    assert "before this book existed" in shown and shown.count("before the book") == 1


def test_training_rows_are_asked_about_the_constraints(auto):
    frame = frames.constraints(auto)
    assert list(frame.index) == ["Displacement", "Horsepower", "Weight"]
    assert (frame["rank"] < -0.8).all()
    assert (frame["declared"] > frame["opposite"]).all()
    assert frame.loc["Displacement", "held"] > 0  # the rows disagree, all else held
    assert "Displacement" in prose.agreement(auto)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([-1.0, -1.0, -1.0], "has the declared sign for all of them too.</p>"),
        ([-1.0, np.nan, -1.0], "has the declared sign for all the others. For b it cannot say"),
        ([-1.0, 1.0, -1.0], "disagrees about b: its slope has the other sign."),
    ],
)
def test_agreement_is_said_in_whole_sentences(auto, monkeypatch, held, said):
    frame = pd.DataFrame({"sign": -1, "rank": -0.9, "held": held}, index=list("abc"))
    monkeypatch.setattr(frames, "constraints", lambda _: frame)
    assert said in prose.agreement(auto)


def test_a_validation_run_that_came_to_nothing_is_not_left_out(studies):
    fresh = studies[0].runs("validation")
    assert frames.fresh_mean(fresh) == pytest.approx(fresh["value"].mean())
    fresh.loc[fresh.index[0], ["value", "loss"]] = np.nan
    assert np.isnan(frames.fresh_mean(fresh)) and np.isnan(frames.fold_sd(fresh, "loss"))


def test_the_ledger_names_what_a_study_changed_as_a_whole():
    rows = [{"model": "split", "study": name} for name in ("a", "b", "c")]
    content = {"space": {"depth": [1, 4]}, "indicator": [1], "cv": {"cv_folds": 5}}
    known = {"a": content, "b": content | {"space": {"depth": [1, 2]}}}
    assert frames._changed(rows[0], rows[1], known) == "the search space"
    known["b"] = content | {"cv": {"cv_folds": 3}, "indicator": [-1]}
    assert frames._changed(rows[0], rows[1], known) == "cv_folds 5 → 3; the constrained columns"
    gone = frames._changed(rows[1], rows[2], known)
    assert gone == "a study that is not recorded here any more"


def test_accuracy_is_a_fraction_in_frames_and_percent_in_print(heart):
    frame = frames.estimators([heart])
    assert 0 < frame.loc["linear", "mean"] < 1
    y_train = recording.load(heart).y_train
    shown = tables.estimators([heart], y_train)
    assert f"{100 * frame.loc['linear', 'mean']:.2f}" in shown
    assert "accuracy (%)" in shown and "one-sided" in shown and "outlier" not in shown
    assert "majority class" in shown
    row = frames.slices([heart]).iloc[0]
    assert 0 <= row["low"] <= row["value"] <= row["high"] <= 1
    assert "percentage points" in prose.results([heart])


def test_links_only_lead_to_files_that_the_site_carries(studies, quick, monkeypatch):
    assert '<a href="../' not in tables.estimators(studies, None)
    monkeypatch.setattr(printing, "RESULTS", studies[0].shelf.parent.resolve())
    name = studies[0].folder.name
    assert f'<a href="../results/auto_mpg/{name}/runs.csv">' in tables.estimators(studies, None)


def test_headline(studies, quick, monkeypatch, tmp_path):
    assert "Not recorded yet" in tables.headline(tmp_path)
    monkeypatch.setattr(tables.parameters, "resolve", lambda dataset: dict(quick))
    shown = tables.headline(quick["results_dir"])
    assert "Auto MPG, MSE (mpg²)" in shown and 'href="notebooks/auto_mpg.html"' in shown
    assert shown.index(">split<") < shown.index(">linear<") < shown.index("SE over test rows")
    assert "no ranking" in shown and "best" not in shown


@pytest.mark.parametrize(
    ("low", "high", "fresh_gap", "said"),
    [
        (-1.0, 3.0, 9.0, "shows no difference"),
        (0.5, 3.0, 9.0, "leave split better than linear"),
        (0.5, 3.0, 0.1, "no more is claimed"),
        (0.5, 3.0, -9.0, "no more is claimed"),
        (-3.0, -0.5, -9.0, "leave linear better than split"),
    ],
)
def test_a_conclusion_claims_no_more_than_both_noises_allow(
    low, high, fresh_gap, said, studies, rule, monkeypatch
):
    row = {"rows": "all test rows", "baseline": "linear", "challenger": "split", "n": 78}
    row |= {"gap": (low + high) / 2, "low": low, "high": high, "fresh_gap": fresh_gap}
    row |= {"seed_sd": 0.3, "detectable": 5.0, "matters": 1.5}
    monkeypatch.setattr(frames, "comparisons", lambda *_: pd.DataFrame([row]))
    assert said in prose.conclusion(studies, rule)
    assert "too few to see" in prose.detectable(studies, rule)


def test_a_comparison_without_its_sides_says_so(studies, rule):
    assert "not both recorded" in prose.unrecorded(rule)
    assert prose.conclusion(studies[:1], rule) == prose.detectable(studies[:1], rule) == ""


def test_the_hardest_rows_are_counted_and_kept(studies, heart):
    said = prose.hardest(studies)
    with np.load(studies[0].folder / "predictions.npz") as arrays:
        assert f"of the {len(arrays['target'])} test rows" in said
    assert "No row is left out" in said
    assert prose.hardest([heart]) == ""


def test_what_is_not_supported_comes_from_the_flavors_recorded(studies):
    assert "one flavor" not in prose.unsupported(studies)
    again = [studies[0], studies[0]]
    assert "one flavor" in prose.unsupported(again)
    assert "another dataset" in prose.unsupported(studies)


@pytest.mark.parametrize(
    ("at_bound", "said"), [(True, "the protocol allows for split,"), (False, "")]
)
def test_a_model_that_trained_to_its_bound_is_named(studies, monkeypatch, at_bound, said):
    selected = replace(studies[0].selected, at_bound=at_bound)
    monkeypatch.setitem(vars(studies[0]), "selected", selected)
    found = prose.unsupported(studies[:1])
    assert ("more may do better" in found) == at_bound
    assert said in found


def test_a_table_saves_its_numbers_unrounded(studies):
    shown = tables.estimators(studies, None)
    name, content = re.search(
        r'download="([^"]+)" href="data:text/csv;base64,([^"]+)"', shown
    ).groups()
    assert name == "auto-mpg-every-estimator-of-every-model-mse-mpg.csv"
    saved = pd.read_csv(io.BytesIO(base64.b64decode(content)), index_col=0)
    assert saved.loc["split", "mean"] == pytest.approx(
        frames.estimators(studies).loc["split", "mean"]
    )


@pytest.mark.parametrize(
    ("distinct", "said"),
    [(1, "one and the same model and count as one"), (20, "and in no value of the metric")],
)
def test_final_trainings_with_one_value_are_explained(distinct, said):
    rows = {"std": [0.0, 0.1, np.nan], "n": [20, 20, 1], "distinct": [distinct, 20, 1]}
    note = tables._still(pd.DataFrame(rows, ["hgb-monotone", "split", "linear"]))
    assert note.startswith(" ± 0: the 20 final trainings of hgb-monotone ")
    assert said in note and "split" not in note and "linear" not in note


def test_seeds_that_move_nothing_count_as_one_model(studies, monkeypatch):
    arrays = {"predictions": np.array([[1.0, 2, 3], [1, 2, 3], [2, 2, 3], [1, 2, 3]])}
    assert frames.distinct(arrays["predictions"]).tolist() == [0, 2]
    split, linear = studies
    pairs = frames.pairs_apart(linear, split).size
    same = split.record.read_npz("predictions.npz")
    same["predictions"][:] = same["predictions"][0]
    other = linear.record.read_npz("predictions.npz")
    monkeypatch.setattr(
        type(split.record),
        "read_npz",
        lambda self, _: same if "split" in str(self.folder) else other,
    )
    assert (pairs, frames.pairs_apart(linear, split).size) == (len(same["predictions"]), 1)
    assert frames.estimators([split]).loc["split", "distinct"] == 1


def test_the_gap_to_fresh_folds_is_luck_only_beyond_the_noise_of_a_partition(studies, monkeypatch):
    def frame(noise):
        rows = {"cv_score": 6.0, "fresh": 6.5, "mean": 8.0, "fresh_noise": noise}
        return lambda *_: pd.DataFrame([rows, rows], ["split", "linear"])

    monkeypatch.setattr(frames, "estimators", frame(0.2))
    assert "0.5 mpg² worse than that score: luck with the folds that" in prose.selection(studies)
    monkeypatch.setattr(frames, "estimators", frame(0.3))
    shown = prose.selection(studies)
    assert "does not show, since another partition moves such a difference by a standard" in shown
    assert "deviation of 0.30." in shown
    monkeypatch.setattr(frames, "estimators", frame(np.nan))
    assert "that selected cannot be told, with fresh folds of one" in prose.selection(studies)
    fresh = pd.DataFrame({"partition": [1, 1, 2, 2], "value": [1.0, 3, 3, 5]})
    assert frames.partition_noise(fresh) == pytest.approx(np.sqrt(2) * np.sqrt(1.5))
    assert np.isnan(frames.partition_noise(fresh[:2]))


def test_the_front_page_saves_numbers_in_the_order_of_the_catalogue():
    shown = tables.headline(ROOT / "book/results")
    content = re.search(r'href="data:text/csv;base64,([^"]+)"', shown)[1]
    saved = pd.read_csv(io.BytesIO(base64.b64decode(content)), index_col=["dataset", "model"])
    assert saved.loc[("heart", "split"), "mean"] == pytest.approx(0.84, abs=0.005)
    assert all(map(pd.api.types.is_numeric_dtype, saved.dtypes))
    assert re.findall(r'<th scope="row">([^<]+)</th>', shown)[:-1] == list(CATALOGUE)


def test_most_printed_differences_are_smaller_than_the_noise_of_the_test_rows():
    """The first sentence of the protocol chapter."""
    for dataset in ("auto_mpg", "heart", "compas"):
        values = parameters.resolve(dataset) | {"results_dir": str(ROOT / "book/results")}
        error = frames.estimators([Study.of(dataset, "split", values)]).loc["split", "row_se"]
        printed = frames.published(dataset)["mean"].dropna()
        apart = [abs(a - b) for a, b in itertools.combinations(printed, 2)]
        assert np.mean(np.array(apart) < error) > 0.5


def test_the_number_of_seeds_in_a_head_is_not_broken_over_lines(studies):
    heads = re.findall("<th [^>]*>([^<]*=[^<]*)</th>", tables.estimators(studies, None))
    assert heads and all(re.search(r"n\xa0=\xa0\d+$", head) for head in heads)


def test_a_feature_that_others_determine_has_no_slope(auto):
    X = np.column_stack([auto.X_train, auto.X_train[:, 1] - auto.X_train[:, 2]])
    slopes = frames._slopes(X, auto.y_train)
    assert np.isnan(slopes[[1, 2, 7]]).all() and np.isfinite(slopes[[0, 3, 4, 5, 6]]).all()
    design = np.column_stack([np.ones(len(X)), auto.X_train])
    expected = np.linalg.lstsq(design, auto.y_train, rcond=None)[0][1:]
    expected = expected * auto.X_train.std(axis=0, ddof=1)
    assert frames._slopes(auto.X_train, auto.y_train) == pytest.approx(expected)


def test_the_smallest_difference_is_worded_in_its_unit(rule):
    assert "0.25 miles per gallon (RMSE)" in prose.decision(rule)
    heart = prose.decision(parameters.read_rule("heart"))
    assert "3 percentage points of accuracy (0.03 as a fraction of patients)" in heart


@pytest.mark.parametrize(
    ("fresh_gap", "low", "high", "expected"),
    [
        (0.5, 0.1, 0.3, "the slices and the checks have the last word"),
        (0.5, -0.1, 0.3, "is not shown either, so the rule names none"),
        (0.1, 0.1, 0.3, "is not shown either, so the rule names none"),
        (-0.5, -0.3, 0.1, "is not shown either, so the rule names none"),
        (0.1, -0.1, 0.1, "leave no difference that matters; where training again leaves none"),
        (-0.5, -0.3, -0.1, "not recommended, and both speak for linear instead"),
    ],
)
def test_the_verdict_names_a_baseline_that_both_bars_speak_for(fresh_gap, low, high, expected):
    row = {"baseline": "linear", "fresh_gap": fresh_gap, "seed_sd": 0.1, "low": low, "high": high}
    row["matters"] = 0.2
    rule = {"challenger": "split", "gap_over_sd": 2, "baselines": ["linear"]}
    assert expected in prose.verdict([row], rule)


def test_the_verdict_waits_for_every_baseline():
    row = {"baseline": "linear", "fresh_gap": 0.5, "seed_sd": 0.1, "low": 0.1, "high": 0.3}
    rule = {"challenger": "split", "gap_over_sd": 2, "baselines": ["hgb-monotone", "linear"]}
    said = prose.verdict([row | {"matters": 0.2}], rule)
    assert "Both hold against linear; nothing is said before hgb-monotone is compared" in said
