"""Bad input, as a person meets it: one clear sentence before any training, and nothing written."""

import dataclasses
import gzip
import itertools
import math
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import quick_of, write_rows
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mononet import commands as command
from mononet import data, ledger, parameters, parts, recording, tables
from mononet.study import Study
from mononet.training import Run

ROWS = 60  # of the made-up training part
TRAIN, TEST = "train_heart.csv", "test_heart.csv"
fuzzed = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def _nothing_trains(monkeypatch, tmp_path):
    """Rows come from where a test says; what is not refused fails at once instead of training."""

    def started(*_, **__):
        raise AssertionError("training has begun")

    monkeypatch.chdir(tmp_path)  # where the results of a command that names no folder would go
    monkeypatch.delenv(data.ENVIRONMENT, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no cache"))
    monkeypatch.setattr(recording, "search", started)
    monkeypatch.setattr(command.papermill, "execute_notebook", started)


@pytest.fixture
def heart(monkeypatch, tmp_path):
    """A folder with rows that look like heart's."""
    folder = tmp_path / "rows"
    folder.mkdir()
    write_rows("heart", folder, monkeypatch, train=ROWS, test=30)
    return folder


def refused(capsys, *words, status=1):
    """What the command line answers, one line; it ends with `status` and writes nothing."""
    before = listed()
    try:
        assert command.main([str(word) for word in words]) == status
    except SystemExit as end:
        assert end.code == status
    said = capsys.readouterr()
    assert said.out == "" and "Traceback" not in said.err
    *usage, line = said.err.strip().split("\n")
    assert "error: " in line and (status == 2 or not usage)
    assert listed() == before
    return line.split("error: ", 1)[1]


def listed():
    """The files in the working folder, which a refused command leaves as they are."""
    return sorted(Path.cwd().rglob("*"))


# --- files --------------------------------------------------------------------------------------


def table(change=lambda frame: frame, **form):
    """Bytes of a CSV file from a changed frame of the part's rows."""
    return lambda frame: change(frame.copy()).to_csv(index=False, **form).encode()


def cell(row, column, value):
    def put(frame):
        frame = frame.astype(object)
        frame.loc[row, column] = value
        return frame

    return table(put)


def as_bytes(content):
    return lambda frame: content


FILES = {
    "a missing column": (table(lambda f: f.drop(columns="chol")), "missing: 'chol'"),
    "two missing": (table(lambda f: f.drop(columns=["chol", "age"])), "missing: 'age', 'chol'"),
    "an extra column": (table(lambda f: f.assign(shoe=1)), "not expected: 'shoe'"),
    "an index column": (lambda f: f.to_csv().encode(), "not expected: ''"),
    "another order": (
        table(lambda f: f[["sex", "age", *f.columns[2:]]]),
        "another order: column 1 is sex, not age",
    ),
    "a name twice": (table(lambda f: f.rename(columns={"chol": "age"})), "twice: 'age'"),
    "no header": (table(header=False), "expected a header of 14 column names"),
    "text in a number": (
        cell(8, "chol", "high"),
        "expected a number in row 9, column chol, found 'high'",
    ),
    "a comma for a point": (cell(8, "chol", "0,5"), "column chol, found '0,5'"),
    "an empty field": (cell(8, "chol", ""), "found nan in row 9, column chol"),
    "nan": (cell(8, "chol", "nan"), "expected finite numbers, found nan in row 9, column chol"),
    "an infinity": (cell(8, "chol", "-inf"), "found -inf in row 9, column chol"),
    "too large": (cell(8, "chol", "1e999"), "found inf in row 9, column chol"),
    "a third label": (
        cell(8, "ground_truth", 2),
        "expected both classes 0 and 1 in ground_truth, found 0, 1, 2",
    ),
    "labels -1 and 1": (
        table(lambda f: f.assign(ground_truth=2 * f["ground_truth"] - 1)),
        "expected both classes 0 and 1 in ground_truth, found -1, 1",
    ),
    "one class": (table(lambda f: f.assign(ground_truth=1)), "ground_truth, found 1."),
    "zero rows": (table(lambda f: f[:0]), "expected rows below the header, found zero rows"),
    "a row too few": (table(lambda f: f[:-1]), "rows, found"),
    "a long row": (lambda f: table()(f) + b"1," * 20 + b"1\n", "expected 14 values a row, found a"),
    "short rows": (as_bytes(b",".join([b"1"] * 13) + b"\n"), "expected a header of 14"),
    "a byte-order mark": (lambda f: b"\xef\xbb\xbf" + table()(f), "without a byte-order mark"),
    "UTF-16": (lambda f: table()(f).decode().encode("utf-16"), "without a byte-order mark"),
    "semicolons": (table(sep=";"), "separated by commas; found 'age;sex"),
    "tabs": (table(sep="\t"), "without any comma"),
    "an empty file": (as_bytes(b""), "found '', without any comma"),
    "no text": (as_bytes(bytes(range(128, 256)) + b",\n"), "not UTF-8"),
    "a wide name cut short": (as_bytes(b"a" * 59 + "é".encode() * 9), "without any comma"),
}


@pytest.mark.parametrize("part", [TRAIN, TEST])
@pytest.mark.parametrize("fault", FILES)
def test_a_file_is_refused(capsys, heart, tmp_path, fault, part):
    change, words = FILES[fault]
    file, results = heart / part, tmp_path / "results"
    file.write_bytes(change(pd.read_csv(file)))
    scratch = ("-p", "data_dir", heart, "-p", "results_dir", results)
    said = refused(capsys, "study", "heart", "linear", *scratch)
    assert said.startswith(f"{file}: expected ") and words in said and len(said) < 500
    assert said == refused(capsys, "run", "heart", *scratch, "-o", tmp_path / "out/of/it.ipynb")
    assert not (tmp_path / "out").exists()
    assert not results.exists()


@pytest.mark.parametrize(
    "change", [lambda content: content, lambda content: gzip.compress(content)[:-20]]
)
def test_a_gz_that_is_no_whole_gz_is_refused(capsys, heart, change):
    (heart / f"{TRAIN}.gz").write_bytes(change((heart / TRAIN).read_bytes()))
    (heart / TRAIN).unlink()
    said = refused(capsys, "study", "heart", "-p", f"data_dir={heart}")
    assert said.startswith(f"{heart / TRAIN}.gz: expected a whole gzip file, found that ")


def test_a_target_that_does_not_vary_is_refused(capsys, monkeypatch, tmp_path):
    write_rows("auto_mpg", tmp_path, monkeypatch)
    file = tmp_path / "test_auto.csv"
    pd.read_csv(file).assign(ground_truth=21.5).to_csv(file, index=False)
    said = refused(capsys, "study", "auto_mpg", "-p", "data_dir", tmp_path)
    assert (
        said == f"{file}: expected a target that varies in ground_truth, found 21.5 in every row."
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"day\n1\n", "expected a column named block"), (b"block\n1\n", "expected 30 blocks")],
)
def test_labels_of_other_blocks_are_refused(capsys, monkeypatch, tmp_path, content, words):
    write_rows("blog", tmp_path, monkeypatch, test=30)
    (tmp_path / "test_blog_blocks.csv").write_bytes(content)
    said = refused(capsys, "study", "blog", "-p", "data_dir", tmp_path)
    assert said.startswith(f"{tmp_path / 'test_blog_blocks.csv'}: {words}")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "expected a folder with train_heart.csv or train_heart.csv.gz, found "
         "that it does not exist"),
        (lambda path: path.write_text("rows"), "found that it is a file"),
        (lambda path: path.mkdir(), "found neither file in it"),
        (lambda path: (path / TRAIN).mkdir(parents=True), "found neither file in it"),
    ],
)  # fmt: skip
def test_a_folder_without_the_files_is_refused(capsys, tmp_path, make, words):
    make(tmp_path / "rows")
    said = refused(capsys, "study", "heart", "-p", "data_dir", tmp_path / "rows")
    assert said.startswith(f"data_dir {tmp_path / 'rows'}: expected a folder") and words in said


def test_a_home_of_nobody_does_not_exist(capsys):
    said = refused(capsys, "study", "heart", "-p", "data_dir", "~nobody-has-this-name/rows")
    assert "~nobody-has-this-name/rows: expected a folder" in said and "does not exist" in said


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\xff\xfe\x00,\n", b'time,"\n'])
def test_a_ledger_that_is_none_is_refused_before_training(capsys, heart, tmp_path, content):
    file = tmp_path / "results/heart/test_access.csv"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    said = refused(
        *(capsys, "study", "heart", "linear"),
        *("-p", "data_dir", heart, "-p", "results_dir", tmp_path / "results"),
    )
    assert said.startswith(f"{file}: expected ")
    assert file.read_bytes() == content and list(file.parent.iterdir()) == [file]


# --- too few rows for the folds -----------------------------------------------------------------


def split(classes, folds, **more):
    """Folds of made-up rows with these labels."""
    rows = len(classes)
    task = more.pop("task", "classification")
    given = {"groups": None, "holdout": False} | more
    return data.Dataset(
        *("made up", np.zeros((rows, 1)), np.array(classes, float), ("a",), np.zeros(1, int)),
        *(task, "accuracy", "", "", given["groups"], given["holdout"], ""),
        data.TestPart(np.zeros((1, 1)), np.zeros(1), np.zeros(1, int)),
    ).splits(0, folds)


@pytest.mark.parametrize(
    ("classes", "folds", "more", "words"),
    [
        ([0] * 20 + [1] * 4, 5, {}, "at least 5 rows of each class for 5 folds, found 4 among 24"),
        ([0] * 20, 5, {}, "found 0 among 20"),
        ([0] * 20 + [1], 1, {}, "at least 2 rows of each class for an 80/20 holdout, found 1"),
        ([0] * 20 + [1], 9, {"holdout": True}, "at least 2 rows of each class for an 80/20"),
        (range(4), 5, {"task": "regression"}, "at least 5 rows for 5 folds, found 4 among 4"),
        (
            range(9),
            1,
            {"task": "regression", "groups": np.zeros(9)},
            "at least 2 posts for an 80/20 holdout, found 1 among 9",
        ),
    ],
)
def test_more_folds_than_rows_are_refused(classes, folds, more, words):
    with pytest.raises(data.DataError, match=words) as caught:
        split(classes, folds, **more)
    assert "raise max_rows, or set cv_folds lower" in str(caught.value)


def test_one_fold_is_a_holdout_of_a_fifth():
    ((train, validation),) = split([0] * 40 + [1] * 10, 1)
    assert sorted([*train, *validation]) == list(range(50))
    assert (len(validation), (validation >= 40).sum()) == (10, 2)


def test_more_folds_than_a_class_has_rows_are_refused(capsys, heart, tmp_path):
    frame = pd.read_csv(heart / TRAIN)
    frame.loc[5:, "ground_truth"] = 0.0  # the first five rows stay as published
    frame.to_csv(heart / TRAIN, index=False)
    fewer, folds = int(frame["ground_truth"].sum()), int(frame["ground_truth"].sum()) + 1
    said = refused(
        *(capsys, "study", "heart", "linear", "-p", "cv_folds", folds),
        *("-p", "data_dir", heart, "-p", "results_dir", tmp_path / "results"),
    )
    assert f"heart: expected at least {folds} rows of each class for {folds} folds" in said
    assert f"found {fewer} among 60 training rows" in said
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("inputs", ["published", "quantile"])
@pytest.mark.parametrize("model", ["split", "hgb-monotone", "linear"])
def test_a_constant_feature_trains(monkeypatch, tmp_path, model, inputs):
    """It says nothing, and a subset of rows can have one: no model may stumble over it."""
    write_rows("heart", tmp_path, monkeypatch, train=ROWS, test=30)
    monkeypatch.setitem(data.SPECS, "heart", dataclasses.replace(data.SPECS["heart"], head=()))
    for name in (TRAIN, TEST):
        file = tmp_path / name
        pd.read_csv(file).assign(chol=0.25).to_csv(file, index=False)
    values = quick_of("heart", tmp_path, model) | {"inputs": inputs}
    study = Study.of("heart", model, values)
    rows = recording.load(study)
    configuration = {
        name: kind["values"][0] if "values" in kind else kind["low"]
        for name, kind in study.content["space"].items()
    }
    moved, points = recording.effect_rows(rows)
    everything = np.arange(ROWS + len(moved))
    problem = recording.problem_of(study, rows).with_rows(moved)
    runs = [Run(everything[:ROWS], everything, (0,))]
    predicted = study.entry.fit(configuration, problem, runs, (2,)).predictions[0]
    assert predicted.shape == (1, len(everything)) and np.isfinite(predicted).all()
    assert (points["feature"] == "chol").sum() == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy says that a constant correlates with nothing
        shown = tables.constraints(rows)
    assert "chol" in shown and "nan" not in shown.split("base64")[0]


# --- parameters ---------------------------------------------------------------------------------

COMMANDS = {
    "unknown parameter": ("run auto_mpg -p n_trial 5", "'n_trial' for auto_mpg; did you mean n_t"),
    "unknown, with =": ("run auto_mpg -p n_trial=5", "did you mean n_trials"),
    "wrong type": ("run auto_mpg -p n_trials many", "n_trials: expected whole number from 1 to"),
    "a fraction": ("run auto_mpg -p n_trials 2.5", "given '2.5' (str)"),
    "too small": ("study auto_mpg -p n_trials=0", "from 1 to 10000; given 0 (int)"),
    "negative": ("study auto_mpg -p max_rows -5", "max_rows: expected whole number from 50 to"),
    "too large": ("verify auto_mpg -p cv_folds 21", "cv_folds: expected whole number from 1 to 20"),
    "no choice": ("study heart -p objective best", "objective: expected risk_adjusted | mean"),
    "unknown model": ("study heart -p models split,lienar", "did you mean linear"),
    "model twice": ("study heart linear linear", "names the same thing twice"),
    "unknown model named": ("study heart lienar", "did you mean linear"),
    "contradictory": (
        "run auto_mpg -p cv_folds 1 -p search_seeds 1",
        "risk_adjusted needs a spread, and cv_folds 1 with search_seeds 1",
    ),
    "a parameter of others": ("run provenance -p n_trials 5", "'n_trials' for provenance"),
    "unknown notebook": ("run hart", "unknown notebook 'hart'; did you mean heart?"),
    "a file": ("run notebooks/heart.ipynb", "unknown notebook 'notebooks/heart.ipynb'"),
    "an overlay to run": ("run quick", "quick is an overlay; a notebook is one of auto_mpg,"),
    "unknown dataset": ("study hart", "Unknown dataset 'hart': did you mean heart?"),
    "no dataset": ("study provenance", "Unknown dataset 'provenance'"),
    "unknown to verify": ("verify hart", "Unknown dataset 'hart': did you mean heart?"),
    "unknown to fetch": ("data fetch hart", "Unknown dataset 'hart': did you mean heart?"),
    "unknown to help": ("study hart --help", "Unknown dataset 'hart': did you mean heart?"),
    "no secondary": ("study heart linear --secondary", "models that have one: split, mixed"),
    "not recorded": (
        "verify auto_mpg linear -p results_dir nowhere/at/all",
        "holds no complete study; record it first",
    ),
    "unknown overlay": ("run heart -f quik", "overlays in"),
    "a folder": ("run heart -f here", "here is a folder; an overlay is a YAML file"),
    "a folder's path": ("run heart -f ./here/", "is a folder; an overlay is a YAML file"),
    "a notebook's file": ("run heart -f ROOT/params/heart.yaml", "is no overlay: it needs"),
    "the source": ("run heart -o ROOT/notebooks/heart.ipynb", "outside the folder notebooks/"),
    "another file": ("run heart -o README.md", "-o README.md: expected a file that ends in .ipynb"),
}
USAGE = {
    "no value": ("run auto_mpg -p n_trials", "'n_trials' has no value; as in -p n_trials 5, or"),
    "no value, then more": ("run auto_mpg -p n_trials -f quick", "'n_trials' has no value"),
    "no pair": ("run auto_mpg -p", "-p/--parameter: expected one argument"),
    "no notebook": ("run", "required: notebook"),
    "unknown command": ("rnu auto_mpg", "invalid choice: 'rnu' (choose from 'run'"),
    "no such action": ("data fetsh", "invalid choice: 'fetsh' (choose from 'fetch')"),
    "no seeds": ("verify auto_mpg --seeds 0", "'0' is not a whole number from 1 up"),
}


@pytest.mark.parametrize("fault", COMMANDS)
def test_a_command_is_refused(capsys, tmp_path, fault):
    (tmp_path / "here").mkdir()
    words, expected = COMMANDS[fault]
    assert expected in refused(capsys, *words.replace("ROOT", str(command.ROOT)).split())


@pytest.mark.parametrize("fault", USAGE)
def test_a_usage_is_refused(capsys, fault):
    words, expected = USAGE[fault]
    assert expected in refused(capsys, *words.split(), status=2)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("-p n_trials 5", [["n_trials", "5"]]),
        ("-p n_trials=5 -p max_rows null", [["n_trials", "5"], ["max_rows", "null"]]),
        ("--parameter data_dir=a=b", [["data_dir", "a=b"]]),
        ("-p data_dir a=b", [["data_dir", "a=b"]]),
        ("-p max_rows -5", [["max_rows", "-5"]]),
        ("-p data_dir=-x", [["data_dir", "-x"]]),
    ],
)
def test_pairs_are_typed_in_two_ways(words, values):
    for typed in (f"run {words} heart", f"run heart {words}"):
        arguments = command.parser().parse_args(command.joined(typed.split()))
        assert (arguments.notebook, arguments.parameter) == ("heart", values)


@pytest.mark.parametrize("words", ["run heart --help", "study heart linear -h", "verify heart -h"])
def test_help_lists_the_parameters_of_what_is_named(capsys, words):
    with pytest.raises(SystemExit) as end:
        command.main(words.split())
    said = capsys.readouterr().out
    assert not end.value.code and parameters.explain("heart") in said


LAUGH = "all:\n  n_trials:\n  - &a [ha, ha]\n" + "".join(  # ten lines that unfold to a billion ha
    f"  - &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in itertools.pairwise("abcdefghij")
)
OVERLAYS = {
    "a list": ("- n_trials\n", "expected a mapping of names to values"),
    "a word": ("quick\n", "expected a mapping of names to values"),
    "nothing": ("# nothing\n", "is no overlay: it needs sections, `all:` or a notebook's name"),
    "no section": ("n_trials: 5\n", "is no overlay"),
    "unknown section": ("hart: {n_trials: 5}\n", "unknown section 'hart'; did you mean heart"),
    "unknown name": ("all: {n_trial: 5}\n", "unknown parameter 'n_trial'; did you mean n_trials"),
    "text": ("all: {n_trials: '5'}\n", "n_trials: expected whole number from 1 to 10000"),
    "a list for one": ("all: {n_trials: [5]}\n", "given [5] (list)"),
    "a mapping for one": ("all: {n_trials: {of: 5}}\n", "given {'of': 5} (dict)"),
    "a date": ("all: {n_trials: 2026-01-02}\n", "given datetime.date(2026, 1, 2) (date)"),
    "not a number": ("all: {n_trials: .nan}\n", "given nan (float)"),
    "400 digits": (f"all: {{n_trials: {'9' * 400}}}\n", "given a number of about 400 digits (int)"),
    "5,000 digits": (f"all: {{n_trials: {'9' * 5000}}}\n", "is not usable YAML"),
    "hexadecimal": (f"all: {{n_trials: 0x{'f' * 5000}}}\n", "a number of about 6,021 digits (int)"),
    "a key twice": ("all: {n_trials: 5, n_trials: 6}\n", "key 'n_trials' stands twice"),
    "no YAML": ("all: [\n", "is not usable YAML"),
    "a tab": ("all:\n\tn_trials: 5\n", "line 2 is not usable YAML"),
    "a control character": ("all: {data_dir: a\x07}\n", "is not usable YAML"),
    "a NUL": ('all: {results_dir: "a\\0b"}\n', "results_dir: expected text; given 'a\\x00b'"),
    "two lines": ('all: {data_dir: "a\\nb"}\n', "data_dir: expected text, or null; given 'a\\nb'"),
    "a wrong int": ("all: {n_trials: !!int five}\n", "is not usable YAML: invalid literal"),
    "no such day": ("all: {n_trials: 2026-02-30}\n", "is not usable YAML: day is out of range"),
    "no mapping": ("all: !!map five\n", "is not usable YAML"),
    "too deep": (f"all: {'[' * 500}\n", "is not usable YAML"),
    "itself": ("all: &a {n_trials: *a}\n", "n_trials: expected whole number"),
    "a laugh": (LAUGH, "n_trials: expected whole number"),
    "code": ("all: {n_trials: !!python/object/apply:os.getcwd []}\n", "determine a constructor"),
    "a class": ("all: !!python/object/new:os.system [echo]\n", "determine a constructor"),
    "a name": ("all: {n_trials: !!python/name:os.system }\n", "determine a constructor"),
}  # fmt: skip


@pytest.mark.parametrize("fault", OVERLAYS)
def test_an_overlay_is_refused(capsys, tmp_path, fault):
    text, words = OVERLAYS[fault]
    overlay = tmp_path / "mine.yaml"
    overlay.write_text(text)
    said = refused(capsys, "run", "heart", "-f", overlay)
    assert str(overlay) in said and words in said and len(said) < 600


def test_an_overlay_that_is_no_text_is_refused(capsys, tmp_path):
    overlay = tmp_path / "mine.yaml"
    overlay.write_bytes(b"\xff\xfe\x00a")
    assert f"{overlay} is not UTF-8 text" in refused(capsys, "run", "heart", "-f", overlay)


def test_results_cannot_lie_in_a_file(capsys, tmp_path):
    (tmp_path / "results").write_text("mine")
    said = refused(capsys, "study", "auto_mpg", "linear", "-p", f"results_dir={tmp_path}/results")
    assert said.startswith(f"cannot write in {tmp_path}/results/auto_mpg/linear-")
    assert (tmp_path / "results").read_text() == "mine"


def test_debug_shows_the_traceback():
    for words in (["--debug", "run", "hart"], ["run", "hart", "--debug"]):
        with pytest.raises(parameters.ParameterError):
            command.main(words)


def test_auto_mpg_needs_no_fetch(capsys):
    assert command.main(["data", "fetch", "auto_mpg"]) == 0
    assert "nothing to fetch, its rows come with" in capsys.readouterr().out


def test_the_list_of_data_says_what_to_do(capsys, monkeypatch, heart):
    (heart / TEST).write_bytes(b"age\n")
    monkeypatch.setenv(data.ENVIRONMENT, str(heart))
    assert command.main(["data"]) == 0
    said = capsys.readouterr().out
    assert f"\nheart: {heart / TEST}: expected a header of 14 column names" in said
    assert "\nloan: its rows are not on this machine; `python -m mononet data fetch loan`" in said


def test_a_terminal_sees_one_line(heart, tmp_path):
    (heart / TRAIN).write_bytes(b"")
    results = tmp_path / "results"
    words = ["study", "heart", "-p", f"data_dir={heart}", "-p", f"results_dir={results}"]
    done = subprocess.run(
        [sys.executable, "-m", "mononet", *words], capture_output=True, text=True, cwd=command.ROOT
    )
    assert (done.returncode, done.stdout, results.exists()) == (1, "", False)
    assert done.stderr.startswith(f"error: {heart / TRAIN}: expected a header of 14 column names")
    assert done.stderr.count("\n") == 1


# --- anything at all ----------------------------------------------------------------------------

HEADER = b"age,chol,ground_truth\n"
pieces = st.sampled_from(
    [b"1", b"0.5", b"-1e3", b",", b",", b",", b"\n", b"\n", b"\r", b'"', b"nan", b"x", b"\x00",
     b"\xff", b"\xc3\xa9", b"1e999", b"0x1", b"_", b" ", b";", b"#", b"True", b"9" * 400]
)  # fmt: skip
contents = st.binary(max_size=80) | st.lists(pieces, max_size=30).map(b"".join)


def read_or_refused(file, read, error):
    """What `read` makes of the file, or None where it refuses it in one line that names it."""
    try:
        return read(file)
    except error as refusal:
        assert str(file) in str(refusal) and "\n" not in str(refusal)
        return None


@fuzzed
@given(contents, st.booleans(), st.sampled_from(["", ".gz"]), st.booleans())
@example(b"a" * 59 + "é".encode(), False, "", False)
def test_any_bytes_are_rows_or_refused(tmp_path, content, below_header, suffix, packed):
    file = tmp_path / f"train.csv{suffix}"
    content = HEADER + content if below_header else content
    file.write_bytes(gzip.compress(content) if packed else content)

    def rows(file):
        values = parts.read(file, ["age", "chol", "ground_truth"])
        parts.check(values, file, ["age", "chol", "ground_truth"], classes=True, rows=None)
        return values

    values = read_or_refused(file, rows, parts.PartError)
    assert values is None or (values.shape[1] == 3 and np.isfinite(values).all())


@fuzzed
@given(contents, st.integers(0, 5000), st.sampled_from([TRAIN, TEST]))
def test_any_change_leaves_a_dataset_or_is_refused(heart, content, at, part):
    file, good = heart / part, heart / f"good {part}"
    if not good.exists():
        good.write_bytes(file.read_bytes())
    text = good.read_bytes()
    at %= len(text)
    file.write_bytes(text[:at] + content + text[at:])
    found = read_or_refused(file, lambda _: data.load("heart", heart), data.DataError)
    assert found is None or found.X_train.shape == (ROWS, 13)
    file.write_bytes(text)


@fuzzed
@given(contents, st.booleans())
def test_any_bytes_are_labels_or_refused(tmp_path, content, below_header):
    file = tmp_path / "blocks.csv"
    file.write_bytes(b"block\n" + content if below_header else content)
    labels = read_or_refused(file, lambda path: parts.blocks(path, 3), parts.PartError)
    assert labels is None or labels.shape == (3,)


@fuzzed
@given(contents, st.booleans())
def test_any_bytes_are_a_ledger_or_refused(tmp_path, content, below_header):
    file = tmp_path / "test_access.csv"
    header = ",".join(ledger.COLUMNS).encode() + b"\n"
    file.write_bytes(header + content if below_header else content)
    found = read_or_refused(file, ledger.read_openings, ledger.LedgerError)
    assert found is None or list(found) == ledger.COLUMNS


lines = st.sampled_from(
    ["all:", "heart:", " n_trials: 5", " data_dir: x", "- a", "{", "}", "[", "]", "&a", "*a", "? ",
     "!!int ", "!!map ", "!!set ", "!!omap ", "!!pairs ", "!!timestamp ", "!!bool ", "!!float ",
     "!!binary ", "!!python/name:os.system ", "<<: ", ": ", "\n", "\n", "\n", "5", "2026-02-30",
     "x", "'", '"', "|", ">", "%", "@", "`", "---", "...", "\t", "=", "~", "0x", "1:60", ".inf"]
)  # fmt: skip


@fuzzed
@given(st.binary(max_size=60) | st.lists(lines, max_size=14).map(lambda t: "".join(t).encode()))
@example(b"all: !!map 5")
@example(b"all: !!bool x")
@example(b"all: !!timestamp x")
@example(b"<<: {all: 5}")
def test_any_bytes_are_an_overlay_or_refused(tmp_path, content):
    file = tmp_path / "mine.yaml"
    file.write_bytes(content)
    read_or_refused(file, parameters.read_yaml, parameters.ParameterError)
    (tmp_path / "heart.yaml").write_text("n_trials: 5\ndata_dir: null\n")

    def resolved(path):
        return parameters.resolve("heart", [str(path)], params_dir=tmp_path)

    found = read_or_refused(file, resolved, parameters.ParameterError)
    assert found is None or set(found) == {"n_trials", "data_dir"}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@fuzzed
@given(st.sampled_from(sorted(parameters.TABLE)), values)
@example("n_trials", 10**400)
@example("results_dir", "\udcff")
def test_any_value_is_taken_or_refused(tmp_path, name, value):
    try:
        taken = parameters.check(name, value)
    except parameters.ParameterError as error:
        assert str(error).startswith(f"{name}: ") and "\n" not in str(error)
    else:
        assert taken == value
        # What is taken can be typed after -p, and means the same there.
        row = parameters.TABLE[name]
        assert parameters._parse(row, parameters.typed(taken)) == taken or row.kind == "str"
        assert yaml.safe_load(yaml.safe_dump(taken)) == taken


@fuzzed
@given(st.sampled_from(sorted(parameters.TABLE)), st.text() | st.from_regex(r"[-+0-9.eE_,\[\]]*"))
def test_any_text_is_parsed_or_refused(name, text):
    row = parameters.TABLE[name]
    try:
        taken = parameters.check(name, parameters._parse(row, text))
    except parameters.ParameterError as error:
        assert str(error).startswith(f"{name}: ") and "\n" not in str(error)
    else:
        assert taken is None or parameters.check(name, taken) == taken
        assert not isinstance(taken, float) or math.isfinite(taken)
