"""The datasets: routes, verification, folds, openings, and what has to be downloaded."""

import gzip
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from servers import stand_in

from mononet import data

FOLDER = os.environ.get("MONONET_DATA_DIR")
needs_files = pytest.mark.skipif(
    not FOLDER, reason="MONONET_DATA_DIR is not set: no heart, compas and blog on this machine"
)
STUDY = SimpleNamespace(identity="s1", model="split", configuration_hash="c1", revision="r1")


@pytest.fixture(autouse=True)
def _nothing_from_this_machine(monkeypatch, tmp_path):
    monkeypatch.delenv("MONONET_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-cache"))


def made_up(name, part="train", rows=None):
    """Return a frame as the published files are: names, number of rows, first rows; else random."""
    spec = data.SPECS[name]
    rows = rows or (spec.train_rows if part == "train" else spec.test_rows)
    rng = np.random.default_rng(7)
    values = rng.integers(0, 2, (rows, len(spec.features) + 1)).astype(float)
    values[:, :5] = rng.random((rows, 5)).round(6)
    if part == "train":
        values[:5] = spec.head
    return pd.DataFrame(values, columns=[*spec.features, "ground_truth"])


def as_csv(frame):
    return frame.to_csv(index=False).encode()


def write(folder, name="heart", train=None, test=None):
    """Write both files of a made-up dataset; `train` and `test` replace a file's bytes."""
    stem = data.SPECS[name].stem
    train = as_csv(made_up(name)) if train is None else train
    test = as_csv(made_up(name, "test")) if test is None else test
    (folder / f"train_{stem}.csv").write_bytes(train)
    (folder / f"test_{stem}.csv").write_bytes(test)
    return folder


# --- as published ------------------------------------------------------------------------------


def test_auto_mpg_needs_no_file(tmp_path):
    auto = data.load("auto_mpg")
    assert (auto.source, data.routes("auto_mpg").kind) == (
        "mlxtend: train_auto.csv, test_auto.csv",
        "mlxtend",
    )
    assert auto.fingerprint == data.SPECS["auto_mpg"].fingerprint
    assert auto.indicator.tolist() == [0, -1, -1, -1, 0, 0, 0]
    test = auto.open_test(tmp_path / "ledger.csv", STUDY, "diagnostic", "look at the blocks")
    assert test.block.tolist() == list(range(78))


@needs_files
@pytest.mark.parametrize("name", ["auto_mpg", "heart", "compas", "blog"])
def test_files_are_as_published(name):
    dataset, spec = data.load(name, FOLDER), data.SPECS[name]
    assert dataset.fingerprint == spec.fingerprint
    assert dataset.y_train.mean() == pytest.approx(spec.target_mean)
    assert dataset.X_train.shape == (spec.train_rows, len(spec.features))
    assert np.abs(dataset.indicator).sum() == len(spec.monotone)


@needs_files
def test_hearts_file_has_more_codes_than_uci_documents(tmp_path):
    heart = data.load("heart", FOLDER)
    test = heart.open_test(tmp_path / "ledger.csv", STUDY, "diagnostic", "count the codes")
    rows = np.concatenate([heart.X_train, test.X])[:, [2, 12]]
    assert [heart.features[column] for column in (2, 12)] == ["cp", "thal"]
    counts = [np.sort(np.unique(column, return_counts=True)[1]).tolist() for column in rows.T]
    assert counts == [[4, 24, 49, 84, 142], [1, 1, 18, 115, 168]]


@needs_files
def test_blog_keeps_posts_whole_and_knows_its_days(tmp_path):
    blog = data.load("blog", FOLDER)
    for seed in range(5):
        ((train, validation),) = blog.splits(seed)
        assert not set(blog.groups[train]) & set(blog.groups[validation])
        assert sorted([*train, *validation]) == list(range(47302))
        assert 0.17 < len(validation) / 47302 < 0.23
    test = blog.open_test(tmp_path / "ledger.csv", STUDY, "diagnostic", "look at the days")
    assert test.block.shape == test.y.shape and len(set(test.block)) == 60
    published = data.load("blog", FOLDER, indicator="published", max_rows=50)
    named = [f for f, sign in zip(blog.features, published.indicator, strict=True) if sign]
    assert named == [f"feature_{i}" for i in (50, 51, 52, 53, 55, 56, 57, 58)]
    assert published.fingerprint == blog.fingerprint and len(published.groups) == 50


# --- routes ------------------------------------------------------------------------------------


def test_unknown_names_get_the_nearest(tmp_path):
    with pytest.raises(data.UnknownDataset, match=r"'auto_mpgs': did you mean auto_mpg\?"):
        data.load("auto_mpgs")
    with pytest.raises(data.DataError, match="did you mean published"):
        data.load("auto_mpg", indicator="publised")
    with pytest.raises(data.DataError, match="did you mean final"):
        data.load("auto_mpg").open_test(tmp_path / "ledger.csv", STUDY, "finall", "")


def test_data_dir_that_lacks_a_file_is_an_error(tmp_path):
    with pytest.raises(
        data.DataError, match=r"with train_auto\.csv or train_auto\.csv\.gz, found n"
    ):
        data.load("auto_mpg", tmp_path)
    with pytest.raises(data.DataError, match="found that it does not exist"):
        data.load("auto_mpg", tmp_path / "elsewhere")


def test_a_file_that_the_environment_lacks_is_looked_for_further_on(tmp_path, monkeypatch):
    named, cache = tmp_path / "named", tmp_path / "cache"
    named.mkdir()
    cache.mkdir()
    write(cache)
    monkeypatch.setenv("MONONET_DATA_DIR", str(named))
    assert data.routes("heart", cache_dir=cache).kind == "cache"
    assert data.routes("auto_mpg", cache_dir=cache).kind == "mlxtend"
    (named / "train_heart.csv.gz").write_bytes(gzip.compress(as_csv(made_up("heart"))))
    route = data.routes("heart", cache_dir=cache)
    assert (route.kind, route.local) == ("MONONET_DATA_DIR + cache", True)
    assert data.load("heart", cache_dir=cache).source.startswith("MONONET_DATA_DIR + cache")
    assert not data.routes("compas", cache_dir=cache).local


def test_no_route_left_names_all_four(tmp_path):
    with stand_in({}) as zenodo, pytest.raises(data.DataError) as caught:
        data.load("heart", cache_dir=tmp_path, base_url=zenodo.url)
    for words in ("data_dir was not given", "MONONET_DATA_DIR is not set", "mlxtend", "Zenodo"):
        assert words in str(caught.value)


def test_describe_tells_what_is_here(tmp_path):
    write(tmp_path)
    (tmp_path / "train_compas.csv").write_text("a,b\n")
    (tmp_path / "test_compas.csv").write_text("a,b\n")
    table = data.describe(cache_dir=tmp_path).set_index("dataset")
    assert table.route.tolist() == ["mlxtend", "cache", "cache", "zenodo", "zenodo"]
    assert table.as_published.tolist()[:2] == ["yes", "no"]
    assert table.as_published["compas"] == "unusable"
    assert "expected a header" in table.problem["compas"] and not table.problem["heart"]
    assert table.as_published["loan"] == "not here"
    assert "data fetch loan" in table.problem["loan"]


# --- verification on arrival -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.drop(columns="chol"), "missing: 'chol'"),
        (lambda frame: frame[:-1], "expected 242 rows, found 241"),
        (lambda frame: frame[::-1], "expected the published"),
        (lambda frame: frame.assign(ground_truth=2), "expected both classes 0 and 1"),
    ],
)
def test_files_unlike_the_published_are_refused(tmp_path, change, words):
    write(tmp_path, train=as_csv(change(made_up("heart"))))
    with pytest.raises(data.DataError) as caught:
        data.load("heart", tmp_path)
    assert str(tmp_path / "train_heart.csv") in str(caught.value)
    assert words in str(caught.value)


def test_other_test_rows_are_an_error_except_for_loan(tmp_path):
    write(tmp_path, test=as_csv(made_up("heart", "test", 60)))
    with pytest.raises(data.DataError, match=r"test_heart\.csv: expected 61 rows, found 60"):
        data.load("heart", tmp_path)


def test_the_source_tells_other_rows_than_published(tmp_path):
    heart = data.load("heart", write(tmp_path))
    assert heart.source.endswith("not as published (another fingerprint)")


_LOAD_LOAN = """
import resource, sys
from mononet import data
loan = data.load("loan", sys.argv[1])
((train, validation),) = loan.splits()
print(loan.X_train.shape, len(validation), loan.source)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_full_size_loan_fits_in_memory(tmp_path):
    write(tmp_path, "loan", test=as_csv(made_up("loan", "test", 1000)))
    command = [sys.executable, "-c", _LOAD_LOAN, str(tmp_path)]
    root = Path(data.__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    told, peak = done.stdout.splitlines()
    assert told.startswith("(418697, 28) 83740 ")
    assert told.endswith("1,000 test rows, where the literature says 70,212")
    assert int(peak) * 1024 < 4 * 2**30


# --- datasets: fingerprints, folds, read-only --------------------------------------------------

_MATRIX = hnp.arrays(
    np.float64, (4, 3), elements=st.floats(-100, 100).map(lambda value: round(value, 3))
)


@given(_MATRIX)
def test_fingerprint_ignores_dtype_order_and_the_sign_of_zero(X):
    same = data.fingerprint("abc", X)
    assert data.fingerprint("abc", X.astype(">f8")) == same
    small = (X / 50).round(3)  # float32 holds six decimals of numbers up to about 4
    assert data.fingerprint("abc", small.astype("float32")) == data.fingerprint("abc", small)
    assert data.fingerprint("abc", np.asfortranarray(X)) == same
    assert data.fingerprint("abc", np.where(X == 0, -0.0, X)) == same
    assert data.fingerprint("abc", X + 1e-8) == same
    assert data.fingerprint("abc", -np.zeros(3)) == data.fingerprint("abc", np.zeros(3))


@given(_MATRIX, st.integers(0, 3), st.integers(0, 2), st.sampled_from([-2.0, 1e-3, 1.0]))
def test_fingerprint_sees_every_value_name_and_row(X, row, column, change):
    before = data.fingerprint("abc", X)
    other = X.copy()
    other[row, column] += change
    assert data.fingerprint("abc", other) != before
    assert data.fingerprint("abd", X) != before
    if not np.array_equal(X[0], X[1]):
        assert data.fingerprint("abc", X[[1, 0, 2, 3]]) != before


def _dataset(rows, task="regression", groups=None, holdout=False, y=None):
    y = np.zeros(rows) if y is None else y
    return data.Dataset(
        "made up", np.zeros((rows, 1)), y, ("a",), np.zeros(1, int), task, "mse", "", "", groups,
        holdout, "", data.TestPart(np.zeros((1, 1)), np.zeros(1), np.zeros(1, int)),
    )  # fmt: skip


def _holds_each_row_once(splits, rows):
    for train, validation in splits:
        assert sorted([*train, *validation]) == list(range(rows))
    return np.concatenate([validation for _, validation in splits])


@given(st.integers(12, 60), st.integers(2, 6), st.integers(0, 1000))
def test_folds_partition_the_rows(rows, folds, seed):
    dataset = _dataset(rows)
    validated = _holds_each_row_once(dataset.splits(seed, folds), rows)
    assert sorted(validated) == list(range(rows))
    again = dataset.splits(seed, folds)
    assert all(map(np.array_equal, dataset.splits(seed, folds)[0], again[0]))


@given(st.integers(0, 1000), st.integers(5, 20), st.booleans())
def test_classification_is_stratified(seed, positives, holdout):
    y = (np.arange(100) < positives).astype(float)
    dataset = _dataset(100, "classification", holdout=holdout, y=y)
    splits = dataset.splits(seed)
    _holds_each_row_once(splits, 100)
    assert len(splits) == (1 if holdout else 5)
    for _, validation in splits:
        assert abs(y[validation].sum() - positives / 5) <= 1


@settings(max_examples=50)
@given(st.lists(st.integers(0, 9), min_size=20, max_size=80), st.integers(0, 1000))
def test_a_holdout_by_group_keeps_groups_whole(groups, seed):
    groups = np.array([*groups, 10, 11])
    splits = _dataset(len(groups), groups=groups, holdout=True).splits(seed)
    _holds_each_row_once(splits, len(groups))
    ((train, validation),) = splits
    assert len(train) and len(validation)
    assert not set(groups[train]) & set(groups[validation])


def test_datasets_cannot_be_changed(tmp_path):
    auto = data.load("auto_mpg")
    test = auto.open_test(tmp_path / "ledger.csv", STUDY, "final", "report")
    for array in (auto.X_train, auto.y_train, auto.indicator, *test):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(FrozenInstanceError):
        auto.y_train = None
    assert "array" not in repr(auto)


def test_max_rows_keeps_rows_in_their_order():
    whole, part = data.load("auto_mpg"), data.load("auto_mpg", max_rows=50)
    at = [np.flatnonzero((whole.X_train == row).all(axis=1))[0] for row in part.X_train]
    assert len(at) == 50 and at == sorted(at)
    assert np.array_equal(part.y_train, whole.y_train[at])
    assert part.fingerprint == whole.fingerprint


# --- the ledger --------------------------------------------------------------------------------


def test_an_opening_is_recorded_with_what_was_seen_before(tmp_path):
    ledger, auto = tmp_path / "test_access.csv", data.load("auto_mpg")
    auto.open_test(ledger, STUDY, "final", "report")
    table = data.read_ledger(ledger)
    assert table.kind.tolist() == ["planning", "final"]
    assert table.reason.tolist() == [auto.seen_before, "report"] and "ridge" in auto.seen_before
    told = table.loc[1, ["study", "model", "configuration", "revision"]]
    assert told.tolist() == ["s1", "split", "c1", "r1"]


def test_no_arrays_without_a_row(tmp_path):
    ledger, auto = tmp_path / "test_access.csv", data.load("auto_mpg")
    ledger.write_text("a,b\n1,2\n")
    with pytest.raises(data.DataError, match="expected columns"):
        auto.open_test(ledger, STUDY, "final", "report")
    with pytest.raises(data.DataError, match="expected columns"):
        data.read_ledger(ledger)


# --- the download ------------------------------------------------------------------------------


@pytest.fixture
def zenodo():
    files = {f"{part}_heart.csv": as_csv(made_up("heart", part)) for part in ("train", "test")}
    with stand_in(files) as server:
        yield server


def test_download_once_then_from_the_cache(zenodo, tmp_path):
    heart = data.load("heart", cache_dir=tmp_path, base_url=zenodo.url)
    assert heart.source.startswith("zenodo: train_heart.csv, test_heart.csv")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["test_heart.csv", "train_heart.csv"]
    assert len(zenodo.requests) == 3
    assert data.load("heart", cache_dir=tmp_path).source.startswith("cache: ")
    data.fetch("heart", tmp_path, base_url=zenodo.url)
    assert len(zenodo.requests) == 4  # the record alone


def test_only_a_file_that_no_folder_has_comes_from_zenodo(zenodo, tmp_path, monkeypatch):
    named, cache = tmp_path / "named", tmp_path / "cache"
    named.mkdir()
    changed = made_up("heart")
    changed.loc[9, "chol"] = 0.25
    (named / "train_heart.csv").write_bytes(as_csv(changed))
    monkeypatch.setenv("MONONET_DATA_DIR", str(named))
    heart = data.load("heart", cache_dir=cache, base_url=zenodo.url)
    assert heart.X_train[9, 4] == 0.25
    assert heart.source.startswith("MONONET_DATA_DIR + zenodo: ")


def test_fetch_all_asks_for_the_record_once(tmp_path):
    names = [f"{p}_{s.stem}.csv" for s in data.SPECS.values() for p in ("train", "test")]
    with stand_in({name: name.encode() for name in names}) as server:
        assert [path.name for path in data.fetch("all", tmp_path, base_url=server.url)] == names
        assert len(server.requests) == 11


def test_a_failed_fetch_is_told_with_the_way_by_hand(zenodo, tmp_path):
    zenodo.answers[zenodo.record_path] = [404]
    with pytest.raises(data.DataError, match=f"404.*name it with data_dir or {data.ENVIRONMENT}"):
        data.fetch("heart", tmp_path, base_url=zenodo.url)
    with pytest.raises(data.UnknownDataset, match="did you mean heart"):
        data.fetch("hart", tmp_path, base_url=zenodo.url)
