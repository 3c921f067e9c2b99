"""Secondary studies: one file names them, and they stand beside headline studies."""

from dataclasses import replace

import pandas as pd
import pytest

from mononet import frames, pages, parameters, prose, recording, secondary, tables
from mononet.commands import main
from mononet.parameters import ParameterError
from mononet.study import Study

pytestmark = pytest.mark.xdist_group("results")


@pytest.fixture
def found(quick):
    return secondary.of("auto_mpg", quick)


def named(found, name, model="split"):
    return next(each for each in found if (each.name, each.study.model) == (name, model))


def test_the_file_of_the_project_names_what_the_book_needs():
    def of(dataset):
        every = secondary.of(dataset, parameters.resolve(dataset))
        return {(each.changed, each.study.model) for each in every}

    auto, blog = of("auto_mpg"), of("blog")
    assert {("search_seed 1", "split"), ("search_seed 2", "hgb-monotone")} <= auto
    assert ("search_seeds 1, objective mean, final_seeds 10", "split") in auto & of("heart")
    for dataset in ("auto_mpg", "heart", "compas", "blog"):
        assert {("inputs quantile", "mixed"), ("inputs quantile", "split")} <= of(dataset)
        # The second comparison of the rule is unfair without a baseline of as many trials.
        trials = parameters.read_rule(dataset)["second_comparison"]["trials"]
        assert (f"n_trials {trials}", "hgb-monotone") in of(dataset)
    indicators = {("indicator published", m) for m in ("mixed", "split", "hgb-monotone")}
    assert indicators <= blog and not indicators & auto


def test_a_secondary_study_differs_where_the_file_says_so(quick, found):
    each = named(found, "search seed 1")
    assert each.headline.parameters == quick
    assert each.study.parameters == quick | {"search_seed": 1}
    assert each.study.folder != each.headline.folder
    assert each.study.fingerprint == each.headline.fingerprint


def test_a_study_that_is_no_other_is_left_out(quick, found):
    again = secondary.of("auto_mpg", quick | {"search_seed": 1})
    assert len(again) == len(found) - 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {models: {auto_mpg: [split]}, changes: {n_trials: 2}}", "expected models, why"),
        ("a: {models: {auto_mpg: [split]}, why: w}", "either changes or overlay"),
        ("a: {models: {auto: [split]}, why: w, changes: {n_trials: 2}}", "unknown dataset 'auto'"),
        ("a: {models: {heart: [splt]}, why: w, changes: {n_trials: 2}}", "unknown model 'splt'"),
        ("a: {models: {heart: [split]}, why: w, changes: {n_trials: 0}}", "n_trials: expected"),
        ("a: {models: {heart: [split]}, why: w, changes: {n_trial: 2}}", "did you mean n_trials"),
    ],
)
def test_a_wrong_file_is_refused(text, said, quick, tmp_path):
    (tmp_path / secondary.FILE).write_text(text)
    with pytest.raises(ParameterError, match=said):
        secondary.of("heart", parameters.resolve("heart"), tmp_path)


def test_the_table_names_what_is_not_recorded(studies, found):
    frame = frames.secondary(found)
    assert len(frame) == len(found) and not frame["recorded"].any()
    split = frame[frame["model"] == "split"]
    assert (split["headline_n"] == 2).all() and split["mean"].isna().all()
    shown = tables.secondary("auto_mpg", found)
    assert shown.count("not recorded yet") == len(found)
    assert "quantile inputs: split*" in shown and "Search seed 1, search seed 2: " in shown
    assert "python -m mononet study auto_mpg --secondary" in shown
    assert "nan" not in shown.split("base64")[0]


def test_a_name_that_says_what_differs_is_not_explained_again():
    blog = tables.secondary("blog", secondary.of("blog", parameters.resolve("blog")))
    for said in (" 125 trials: Whoever", " Quantile inputs: Columns", " Published indicator: The"):
        assert said in blog
    auto = tables.secondary("auto_mpg", secondary.of("auto_mpg", parameters.resolve("auto_mpg")))
    assert " First version (" in auto and "final seeds 10): The protocol" in auto


def test_a_recorded_one_stands_beside_its_headline_study(quick, tmp_path):
    found = secondary.of("auto_mpg", quick | {"results_dir": str(tmp_path)})
    quantile = named(found, "quantile inputs")
    first = named(found, "first version")
    for study in (quantile.headline, quantile.study, first.study):
        recording.record(study)
    row = frames.secondary(found).set_index(["name", "model"]).loc[("quantile inputs", "split")]
    headline, runs = (s.runs("test")["value"] for s in (quantile.headline, quantile.study))
    assert row["mean"] == pytest.approx(runs.mean()) and row["low"] <= row["gap"] <= row["high"]
    assert row["gap"] == pytest.approx(headline.iloc[0] - runs.iloc[0])
    shown = tables.secondary("auto_mpg", found)
    assert "quantile inputs: split*" in shown and "Validation-level: its inputs" in shown
    said = prose.first_version(found)
    assert "the first version" in said and f"n = {len(first.study.final_seeds)}" in said
    assert "Still to be recorded: those studies" in prose.indicator(found)


@pytest.mark.parametrize(
    ("quantile", "published", "boosted", "said"),
    [
        (4.0, 6.0, 3.0, "20 {} better, 67 % of the way to hgb-monotone (3.00)."),
        (7.0, 6.0, 3.0, "10 {} worse."),
        (5.85, 6.0, 3.0, "1.5 {} better."),  # within the rule's bar
        (4.0, 6.0, 5.0, "20 {} better."),  # past boosting
        (4.0, 6.0, 7.0, "20 {} better."),  # boosting was behind
    ],
)
def test_other_inputs_are_told_by_what_they_change(
    found, monkeypatch, quantile, published, boosted, said
):
    """The change is measured on fresh folds, and its share only where it exceeds the rule's bar."""
    each = named(found, "quantile inputs")
    means = {"quantile": quantile, "published": published}

    def runs(study, split):
        mean = boosted if study.model == "hgb-monotone" else means[study.parameters["inputs"]]
        values = [mean - 0.1 / 2**0.5, mean + 0.1 / 2**0.5]  # seed sd 0.1
        return pd.DataFrame({"partition": 1, "fold": 0, "seed": [0, 1], "value": values})

    monkeypatch.setattr(Study, "runs", runs)
    monkeypatch.setattr(Study, "complete", True)
    monkeypatch.setattr(frames, "paired", lambda *_: {"gap": 1.5, "low": -0.5, "high": 3.5})
    recorded = [each.headline, replace(each.headline, model="hgb-monotone")]
    shown = prose.inputs([each], recorded, {"gap_over_sd": 2})
    said = said.format("seed standard deviations")
    values = f"{quantile:.2f} with quantile inputs and {published:.2f} with the published ones"
    after = "On the test rows one pair differs by 1.5 [−0.5, 3.5], positive "
    after += "where quantile inputs are better."
    assert f"split, MSE (mpg²) on fresh folds: {values}, {said} {after}" in shown
    against = "It then differs from hgb-monotone by 1.5 [−0.5, 3.5], positive where the network"
    assert (against in shown) == ("of the way" in said)


def test_the_page_shows_its_secondary_studies(studies, quick):
    page = pages.open_page("auto_mpg", quick)
    assert "Secondary studies" in page.table("secondary")


def test_the_command_records_them(tmp_path, capsys, monkeypatch):
    seen = []
    monkeypatch.setattr(recording, "record_visibly", lambda study: seen.append(study) or study)
    scratch = ["-p", "results_dir", str(tmp_path)]
    assert main(["study", "auto_mpg", "split", "--secondary", *scratch]) == 0
    wanted = secondary.of("auto_mpg", parameters.resolve("auto_mpg", pairs=[scratch[1:]]))
    assert [s.identity for s in seen] == [
        each.study.identity for each in wanted if each.study.model == "split"
    ]
    assert "auto_mpg split" in capsys.readouterr().out


def test_all_datasets_are_those_whose_rows_are_here(tmp_path, capsys, monkeypatch):
    from mononet import data

    monkeypatch.delenv(data.ENVIRONMENT, raising=False)
    monkeypatch.setattr(data.pooch, "os_cache", lambda name: tmp_path / "cache")
    seen = []
    monkeypatch.setattr(recording, "record_visibly", lambda study: seen.append(study) or study)
    assert main(["study", "all", "-p", "results_dir", str(tmp_path)]) == 0
    assert {study.dataset for study in seen} == {"auto_mpg"}
    assert [s.model for s in seen] == parameters.resolve("auto_mpg")["models"]
    said = capsys.readouterr().out
    for dataset in ("heart", "compas", "blog", "loan"):
        assert f"{dataset}: skipped, its rows are not on this machine" in said


def test_a_mistyped_model_is_refused(capsys):
    assert main(["study", "all", "splitt", "--secondary"]) == 1
    assert "split" in capsys.readouterr().err


def test_studies_can_be_told_apart_by_their_folders():
    values = parameters.resolve("auto_mpg")
    folders = [each.study.folder for each in secondary.of("auto_mpg", values)]
    folders += [Study.of("auto_mpg", model, values).folder for model in values["models"]]
    assert len(set(folders)) == len(folders)
