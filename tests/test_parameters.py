"""One table for every parameter: what YAML, overlays and `-p` accept and how they refuse."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mononet.parameters import (
    MODELS,
    PARAMS,
    TABLE,
    ParameterError,
    check,
    explain,
    notebooks,
    read_rule,
    resolve,
    rule_sha256,
)

SOURCE = PARAMS.parent / "mononet/parameters.py"
DATASETS = ("auto_mpg", "heart", "compas", "blog", "loan")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "auto_mpg.yaml").write_text("n_trials: 50\nmodels: [split]\nmax_rows: null\n")
    (tmp_path / "heart.yaml").write_text("n_trials: 50\nfinal_seeds: 20\n")
    (tmp_path / "heart.rule.yaml").write_text("anything: 1\n")
    (tmp_path / "fast.yaml").write_text(
        "all: {n_trials: 2, final_seeds: 2}\nheart: {n_trials: 3}\n"
    )
    return tmp_path


def test_every_notebook_and_overlay_of_the_project_resolves():
    assert set(DATASETS) <= set(notebooks())
    for notebook in notebooks():
        for overlays in ((), ("quick",), ("first_version",), ("quick", "first_version")):
            assert set(resolve(notebook, overlays)) == set(resolve(notebook))


@pytest.mark.parametrize("dataset", DATASETS)
def test_dataset_notebooks_hold_the_full_protocol(dataset):
    values, large = resolve(dataset), dataset in ("blog", "loan")
    expected = {
        "n_trials": 25 if large else 50,
        "search_seeds": 3,
        "cv_folds": 1 if large else 5,
        "max_epochs": 50 if large else 130,
        "final_seeds": 10 if large else 20,
        "objective": "risk_adjusted",
        "partitions": 5,
        "round_size": 10,
        "optimizer": "adamw",
    }
    assert {name: values[name] for name in expected} == expected
    assert values["models"] == list(MODELS)


def test_no_parameter_stands_twice():
    written = re.findall(r'^ +(?:Parameter\()?"(\w+)",', SOURCE.read_text(), re.MULTILINE)
    written = [name for name in written if name in TABLE]
    assert sorted(written) == sorted(TABLE)


def test_quick_and_first_version():
    quick = resolve("blog", ["quick"])
    assert (quick["max_rows"], quick["n_trials"], quick["cv_folds"], quick["max_epochs"]) == (
        400,
        2,
        2,
        3,
    )
    assert quick["results_dir"] == "build/quick" and quick["engine"] == "eager"
    first = resolve("heart", ["first_version"])
    assert (first["objective"], first["search_seeds"], first["final_seeds"]) == ("mean", 1, 10)
    assert first["n_trials"] == 50


def test_files_start_with_a_comment():
    for path in PARAMS.glob("*.yaml"):
        assert path.read_text().startswith("# "), path


def test_overlays_then_pairs_in_order(folder):
    assert resolve("auto_mpg", ["fast"], params_dir=folder)["n_trials"] == 2
    assert resolve("heart", ["fast"], params_dir=folder) == {"n_trials": 3, "final_seeds": 2}
    own = folder / "elsewhere" / "mine.yaml"
    own.parent.mkdir()
    own.write_text("heart: {n_trials: 9}\n")
    pairs = [("n_trials", "4"), ("n_trials", "5")]
    assert resolve("heart", ["fast", str(own)], params_dir=folder)["n_trials"] == 9
    assert resolve("heart", ["fast", str(own)], pairs, folder)["n_trials"] == 5
    assert notebooks(folder) == ["auto_mpg", "heart"]


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        (("n_trials", " 5 "), 5),
        (("models", "split, linear"), ["split", "linear"]),
        (("models", "[deep]"), ["deep"]),
        (("models", "hgb"), ["hgb"]),
        (("max_rows", "null"), None),
        (("max_rows", "400"), 400),
        (("data_dir", "somewhere/else"), "somewhere/else"),
        (("objective", "mean"), "mean"),
        (("n_trials", 5), 5),
    ],
)
def test_pairs_are_parsed_by_type(pair, value):
    assert resolve("heart", pairs=[pair])[pair[0]] == value


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("n_trials", True, r"n_trials: expected whole number from 1 to 10000; given True \(bool\)"),
        ("n_trials", 5.0, r"given 5\.0 \(float\)"),
        ("n_trials", "5", r"given '5' \(str\)"),
        ("n_trials", None, "given null"),
        ("n_trials", 0, r"from 1 to 10000; given 0 \(int\)"),
        ("n_trials", 10_001, "given 10001"),
        ("final_seeds", 1, "from 2 to 1000"),
        ("max_depth", 65, "from 1 to 64, or null"),
        (
            "engine",
            "eagre",
            r"auto \| compiled \| eager; given 'eagre' \(str\); did you mean eager",
        ),
        ("objective", False, r"given False \(bool\)"),
        ("results_dir", "", "expected text; given ''"),
        ("models", "split", r"expected list of mixed \| split"),
        ("models", [], "expected list"),
        ("models", ["split", "split"], "twice"),
        ("models", ["spilt"], "did you mean split"),
        ("models", ["split", 1], r"given 1 \(int\)"),
        ("n_trial", 5, "unknown parameter 'n_trial'; did you mean n_trials"),
    ],
)
def test_check_refuses(name, value, match):
    with pytest.raises(ParameterError, match=match):
        check(name, value)


@pytest.mark.parametrize(
    "pair",
    [("n_trials", "5.0"), ("n_trials", "five"), ("n_trials", "5_0"), ("n_trials", "9" * 5000),
     ("n_trials", ""), ("n_trials", "٥"), ("models", ""), ("models", "split,,mlp"),
     ("final_seeds", "null"), ("engine", "true")],
)  # fmt: skip
def test_pairs_refused(pair):
    with pytest.raises(ParameterError, match=rf"^{pair[0]}: expected"):
        resolve("heart", pairs=[pair])


@given(value=st.integers() | st.floats() | st.booleans() | st.none() | st.text())
def test_check_returns_the_value_or_one_error(value):
    for name, row in TABLE.items():
        try:
            assert check(name, value) == value
        except ParameterError as error:
            assert str(error).startswith(f"{name}: expected {row.accepted}; given ")


def test_unknown_names(folder):
    with pytest.raises(ParameterError, match="unknown notebook 'hart'; did you mean heart"):
        resolve("hart", params_dir=folder)
    with pytest.raises(ParameterError, match=r"unknown notebook '\.\./heart'"):
        resolve("../heart", params_dir=folder)
    with pytest.raises(ParameterError, match="fast is an overlay; a notebook is one of auto_mpg,"):
        resolve("fast", params_dir=folder)
    with pytest.raises(
        ParameterError, match=r"'n_trails' for heart; did you mean n_trials.*final_"
    ):
        resolve("heart", pairs=[("n_trails", "3")], params_dir=folder)
    with pytest.raises(ParameterError, match=r"no overlay fats: looked for .*fats\.yaml;.*: fast"):
        resolve("heart", ["fats"], params_dir=folder)
    with pytest.raises(ParameterError, match=r"auto_mpg\.yaml is no overlay"):
        resolve("heart", ["auto_mpg"], params_dir=folder)


def test_overlay_sections_are_checked(folder):
    overlay = folder / "mine.yaml"
    for text, match in (
        ("heart: {max_rows: 100}", r"mine\.yaml: unknown parameter 'max_rows' for heart"),
        ("all: {n_trails: 3}", r"mine\.yaml: unknown parameter 'n_trails'; did you mean n_trials"),
        ("auto_mgp: {n_trials: 3}", "unknown section 'auto_mgp'; did you mean auto_mpg"),
        ("auto_mpg: {n_trials: three}", r"mine\.yaml: n_trials: expected"),
    ):
        overlay.write_text(text)
        with pytest.raises(ParameterError, match=match):
            resolve("heart", ["mine"], params_dir=folder)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("- n_trials\n", "expected a mapping"),
        ("5\n", "expected a mapping"),
        ("1: 2\n", "expected a mapping"),
        ("n_trials: [5\n", "line 2 is not usable YAML"),
        ("n_trials: 5\nn_trials: 6\n", r"line 1 is not usable YAML: key 'n_trials' stands twice"),
        ("n_trials: !!python/object/apply:os.getcwd []\n", "could not determine a constructor"),
        ("n_trials: 5\n\tx: 1\n", "is not usable YAML"),
        ("? [a]\n: 1\n", "is not usable YAML"),
        ("n_trials: '5'\n", r"heart\.yaml: n_trials: expected whole number"),
        ("colour: red\n", r"heart\.yaml: unknown parameter 'colour'"),
    ],
)
def test_bad_files_are_named(tmp_path, text, match):
    (tmp_path / "heart.yaml").write_text(text)
    with pytest.raises(ParameterError, match=match) as caught:
        resolve("heart", params_dir=tmp_path)
    assert "heart.yaml" in str(caught.value)


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "heart.yaml").write_bytes(b"\xff\xfe\x00n")
    with pytest.raises(ParameterError, match=r"heart\.yaml is not UTF-8 text"):
        resolve("heart", params_dir=tmp_path)


def test_a_spread_needs_two_values():
    pairs = [("cv_folds", "1"), ("search_seeds", "1")]
    with pytest.raises(ParameterError, match="risk_adjusted needs a spread"):
        resolve("heart", pairs=pairs)
    assert resolve("heart", pairs=[*pairs, ("objective", "mean")])["cv_folds"] == 1


def test_explain_names_value_meaning_and_bounds():
    text = explain("heart")
    for name, value in resolve("heart").items():
        assert f"{name} = " in text
        assert TABLE[name].help in text and TABLE[name].accepted in text
        assert value is not None or f"{name} = null" in text


def test_an_empty_file_is_a_notebook_without_parameters(tmp_path):
    (tmp_path / "plain.yaml").write_text("# nothing to set\n")
    assert resolve("plain", params_dir=tmp_path) == {}


@pytest.mark.parametrize("dataset", DATASETS)
def test_decision_rules_stand(dataset):
    from mononet.data import SPECS

    rule, spec = read_rule(dataset), SPECS[dataset]
    assert rule["loss"] == ("squared_error" if spec.task == "regression" else "log_loss")
    assert rule["smallest_difference"]["scale"] == (
        "rmse" if spec.task == "regression" else "accuracy"
    )
    assert sum(part.get("shifted", False) for part in rule["slices"]) == 1
    names = [part["name"] for part in rule["slices"] + rule["groups"]]
    assert len(set(names)) == len(names)
    assert {part["feature"] for part in rule["slices"] + rule["groups"]} <= set(spec.features)
    assert rule["second_comparison"]["trials"] == 5 * resolve(dataset)["n_trials"]
    assert rule["blocks"] == ("days" if dataset == "blog" else "rows")
    assert bool(rule["groups"]) == (dataset == "compas")
    content = (PARAMS / f"{dataset}.rule.yaml").read_bytes()
    assert rule_sha256(dataset) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("challenger: split", "challenger: spilt", r"challenger: expected mixed \|.*given 'spilt'"),
        ("challenger: split", "chalenger: split", "unknown name 'chalenger'; did you mean chal"),
        ("loss: squared_error\n", "", "loss is missing"),
        ("gap_over_sd: 2", "gap_over_sd: true", "gap_over_sd: expected a number > 0; given True"),
        ("trials: 250", "trials: 2.5", "second_comparison: trials: expected a whole number"),
        ("value: 0.25", "value: 0", "smallest_difference: value: expected a number > 0"),
        ("blocks: rows", "blocks: weeks", r"blocks: expected rows \| days; given 'weeks'"),
        ("groups: []", "groups: none", "groups: expected a list"),
        ("    shifted: true\n", "", "exactly one must be `shifted: true`"),
        ("    shifted: true\n", "    shifted: false\n", "can only be true"),
        ("above_quantile: 0.5", "above_quantile: 50", "above_quantile 50 is out of range"),
        ("above_quantile: 0.5", "over: 0.5", "slices: expected one of above, below"),
        ("    above: 0\n", "    above: 0\n    below: 2\n", "slices: expected one of above, below"),
        ("    feature: Origin\n", "", "slices: feature is missing"),
    ],
)
def test_rules_refused(tmp_path, old, new, match):
    text = (PARAMS / "auto_mpg.rule.yaml").read_text()
    assert old in text
    (tmp_path / "auto_mpg.rule.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(ParameterError, match=match) as caught:
        read_rule("auto_mpg", tmp_path)
    assert "auto_mpg.rule.yaml" in str(caught.value)


def test_unknown_rule():
    with pytest.raises(ParameterError, match="unknown rule 'hart'; did you mean heart"):
        read_rule("hart")
    with pytest.raises(ParameterError, match="unknown rule"):
        rule_sha256("../params/heart")
