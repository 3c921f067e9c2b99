"""The datasets: routes, verification, folds, the ledger, and the download against loopback."""

import gzip
import hashlib
import multiprocessing
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
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


# --- what is published -------------------------------------------------------------------------


def test_specs_name_features_that_exist():
    for spec in data.SPECS.values():
        assert set(spec.monotone) | set(spec.published_monotone) <= set(spec.features)
        assert set(spec.post) <= set(spec.features)
        assert np.shape(spec.head) == (5, len(spec.features) + 1)
    assert [len(spec.features) for spec in data.SPECS.values()] == [7, 13, 13, 276, 28]


def test_auto_mpg_needs_no_file_and_equals_the_published_text(tmp_path):
    auto = data.load("auto_mpg")
    assert (auto.source, data.routes("auto_mpg").kind) == (
        "mlxtend: train_auto.csv, test_auto.csv",
        "mlxtend",
    )
    assert auto.fingerprint == data.FINGERPRINTS["auto_mpg"]
    test = auto.open_test(tmp_path / "ledger.csv", STUDY, "diagnostic", "compare the text")
    hashes = []
    for part, X, y in (("train", auto.X_train, auto.y_train), ("test", test.X, test.y)):
        text = as_csv(pd.DataFrame(X, columns=auto.features).assign(ground_truth=y))
        hashes.append(hashlib.sha256(text).hexdigest())
        (tmp_path / f"{part}_auto.csv").write_bytes(text)
    assert hashes == [
        "3a826e341eeff0f121fadb4345dfa0bbed65dd7813f059ad8020087565a4409c",
        "f35372e4003a92bc8de844842fbaa64943787321e81c495e31f0950d2187347e",
    ]
    assert np.array_equal(data.load("auto_mpg", tmp_path).X_train, auto.X_train)  # to the bit
    assert auto.indicator.tolist() == [0, -1, -1, -1, 0, 0, 0]
    assert test.block.tolist() == list(range(78))


@needs_files
@pytest.mark.parametrize("name", ["auto_mpg", "heart", "compas", "blog"])
def test_files_are_as_published(name):
    dataset, spec = data.load(name, FOLDER), data.SPECS[name]
    assert dataset.fingerprint == spec.fingerprint
    assert dataset.X_train.shape == (spec.train_rows, len(spec.features))
    assert np.abs(dataset.indicator).sum() == len(spec.monotone)


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
    with pytest.raises(data.DataError, match=r"expected train_auto\.csv or train_auto\.csv\.gz"):
        data.load("auto_mpg", tmp_path)


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
    assert "expected a header" in table.as_published["compas"]
    assert table.as_published["loan"] == "not here"


# --- verification on arrival -------------------------------------------------------------------

_HEART = made_up("heart")


def _changed(row, column, value):
    frame = _HEART.astype(object)
    frame.loc[row, column] = value
    return as_csv(frame)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (as_csv(_HEART.drop(columns="chol")), "missing: 'chol'"),
        (as_csv(_HEART.assign(more=1)), "not expected: 'more'"),
        (as_csv(_HEART.rename(columns={"chol": "age"})), "missing: 'chol'; twice: 'age'"),
        (as_csv(_HEART[[*_HEART.columns[1:], "age"]]), "another order: column 1 is sex, not age"),
        (_changed(8, "chol", "abc"), "expected a number in row 9, column chol, found 'abc'"),
        (_changed(8, "chol", "1_0"), "expected a number in row 9, column chol, found '1_0'"),
        (_changed(8, "chol", ""), "expected finite numbers, found nan in row 9, column chol"),
        (_changed(8, "chol", np.inf), "found inf in row 9, column chol"),
        (_changed(8, "ground_truth", 2), "expected both classes 0 and 1 in ground_truth, found 0"),
        (as_csv(_HEART.assign(ground_truth=0)), "both classes 0 and 1 in ground_truth, found 0."),
        (as_csv(_HEART[:0]), "found zero rows"),
        (b"", "without any comma"),
        (as_csv(_HEART[:-1]), "expected 242 rows, found 241"),
        (_changed(1, "age", 0.5), "published 1.41507 in row 2, column age, found 0.5"),
        (b"\xef\xbb\xbf" + as_csv(_HEART), "without a byte-order mark"),
        (_HEART.to_csv(index=False, sep=";").encode(), "without any comma"),
        (_HEART.to_csv().encode(), "not expected: ''"),
        (as_csv(_HEART) + b"1,2,3,4,5,6,7,8,9,10,11,12,13,0,15\n", "Expected 14 fields in line"),
        (as_csv(_HEART).split(b"\n")[0] + b"\n1,2\n", "expected 14 values a row, found 2"),
        (b"\xff\xfe\x00", "without a byte-order mark"),
        (b"\x89\xff,\n", "not UTF-8"),
    ],
)
def test_wrong_files_are_told_in_one_sentence(tmp_path, content, words):
    write(tmp_path, train=content)
    with pytest.raises(data.DataError) as caught:
        data.load("heart", tmp_path)
    assert str(tmp_path / "train_heart.csv") in str(caught.value)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 60_000), st.binary(min_size=0, max_size=6), st.integers(0, 30))
def test_no_bytes_end_in_another_error(tmp_path, at, put, cut):
    text = as_csv(_HEART)
    at %= len(text)
    write(tmp_path, train=text[:at] + put + text[at + cut :])
    try:
        assert data.load("heart", tmp_path).X_train.shape == (242, 13)
    except data.DataError as error:
        assert "expected" in str(error)


@pytest.mark.parametrize("content", [as_csv(_HEART), gzip.compress(as_csv(_HEART))[:-400]])
def test_gz_that_is_no_whole_gzip(tmp_path, content):
    write(tmp_path)
    (tmp_path / "train_heart.csv").unlink()
    (tmp_path / "train_heart.csv.gz").write_bytes(content)
    with pytest.raises(data.DataError, match=r"train_heart\.csv\.gz: expected a whole gzip file"):
        data.load("heart", tmp_path)


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


def test_ledger_begins_with_what_was_seen_and_counts_an_opening_once(tmp_path):
    ledger, auto = tmp_path / "new" / "test_access.csv", data.load("auto_mpg")
    assert data.read_ledger(ledger).empty
    assert list(data.read_ledger(ledger)) == data.LEDGER_COLUMNS
    for _ in range(2):
        auto.open_test(ledger, STUDY, "final", 'a report, "final"\nof two lines')
    auto.open_test(ledger, STUDY, "diagnostic", "")
    table = data.read_ledger(ledger)
    assert table.kind.tolist() == ["planning", "final", "diagnostic"]
    assert "ridge" in table.reason[0]
    assert table.reason[1] == 'a report, "final"\nof two lines'
    assert table.loc[1, ["study", "model", "configuration", "revision"]].tolist() == [
        "s1",
        "split",
        "c1",
        "r1",
    ]
    assert [file.name for file in ledger.parent.glob("*") if file.suffix != ".lock"] == [
        "test_access.csv"
    ]


def test_no_arrays_without_a_row(tmp_path, monkeypatch):
    ledger, auto = tmp_path / "test_access.csv", data.load("auto_mpg")
    auto.open_test(ledger, STUDY, "final", "report")
    before = ledger.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        auto.open_test(ledger, STUDY, "diagnostic", "another")
    assert ledger.read_bytes() == before
    assert not list(tmp_path.glob("*.tmp"))


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path):
    ledger = tmp_path / "test_access.csv"
    ledger.write_text("a,b\n1,2\n")
    with pytest.raises(data.DataError, match="expected columns"):
        data.load("auto_mpg").open_test(ledger, STUDY, "final", "report")
    assert ledger.read_text() == "a,b\n1,2\n"


def _open(ledger, number):
    study = SimpleNamespace(**{**vars(STUDY), "identity": f"s{number}"})
    data.load("auto_mpg").open_test(ledger, study, "final", "report")


def test_openings_at_once_are_all_recorded(tmp_path):
    ledger = tmp_path / "test_access.csv"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_open, args=(ledger, number)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(data.read_ledger(ledger).study) == ["", *(f"s{number}" for number in range(6))]


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
    assert {agent.split("/")[0] for _, agent in zenodo.requests} == {"mononet"}
    assert len(zenodo.requests) == 3
    assert data.load("heart", cache_dir=tmp_path).source.startswith("cache: ")
    data.fetch("heart", tmp_path, base_url=zenodo.url)
    assert len(zenodo.requests) == 4  # the record alone


TRAIN = "/api/records/7968969/files/train_heart.csv/content"
RECORD = "/api/records/7968969"


@pytest.mark.parametrize("path", [RECORD, TRAIN])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (404, "404 Not Found: there is no such record or file"),
        (403, "403 Forbidden: it refuses this client, as Zenodo does when it is busy"),
        (500, "the server answered 500"),
        ((429, {"Retry-After": "0"}), "it is throttling, and at try 4 of 4 asks to wait 0 s"),
        ((503, {"Retry-After": "86400"}), "at try 1 of 4 asks to wait 86400 s"),
        ("stalled", "the server stopped answering, and nothing was kept"),
        ("truncated", "the download broke off before the file was whole"),
        ((302, {"Location": "http://192.0.2.1/x"}), "http://192.0.2.1/x: refused"),
        (b"something else", None),
    ],
)
def test_failures_are_clear_and_leave_nothing(zenodo, tmp_path, path, answer, words):
    zenodo.answers[path] = [answer]
    if words is None:
        words = "another MD5 sum" if path == TRAIN else "expected a record's files as JSON"
    with pytest.raises(data.DataError) as caught:
        data.fetch("heart", tmp_path, base_url=zenodo.url, timeout=0.3)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert zenodo.url in str(caught.value) or "refused" in words
    assert not list(tmp_path.iterdir())


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


def test_a_throttling_server_is_waited_for(zenodo, tmp_path):
    zenodo.answers[RECORD] = [(429, {"Retry-After": "1"}), (503, {"Retry-After": "0"}), 200]
    zenodo.answers[TRAIN] = [(429, {"Retry-After": "Mon, 01 Jan 2024 00:00:00 GMT"}), 200]
    assert len(data.fetch("heart", tmp_path, base_url=zenodo.url)) == 2


def test_no_server_at_all(tmp_path):
    with stand_in({}) as server:
        pass
    with pytest.raises(data.DataError, match="cannot be reached"):
        data.fetch("heart", tmp_path, base_url=server.url)


def test_a_broken_file_in_the_cache_is_replaced(zenodo, tmp_path):
    (tmp_path / "train_heart.csv").write_text("half")
    data.fetch("heart", tmp_path, base_url=zenodo.url)
    assert (tmp_path / "train_heart.csv").read_bytes() == zenodo.files["train_heart.csv"]


@pytest.mark.parametrize(
    "link",
    [
        "http://example.org/train_heart.csv",
        "ftp://127.0.0.1/train_heart.csv",
        "file:///etc/hosts",
        "http://127.0.0.1@example.org/",
        "http://example.org\\@127.0.0.1/",
        "http://127.0.0.1.example.org/",
        "http://localhost.example.org/",
        "//example.org/x",
    ],
)
def test_links_elsewhere_are_refused(zenodo, tmp_path, link):
    zenodo.entry("train_heart.csv")["links"]["self"] = link
    with pytest.raises(data.DataError, match="refused; expected a link over https"):
        data.fetch("heart", tmp_path, base_url=zenodo.url)
    with pytest.raises(data.DataError, match="refused"):
        data.fetch("heart", tmp_path, base_url=link)
    assert not list(tmp_path.iterdir())


def test_names_in_the_record_cannot_leave_the_cache(zenodo, tmp_path):
    cache = tmp_path / "cache"
    for entry in zenodo.record["files"]:
        entry["key"] = f"../{entry['key']}"
    with pytest.raises(data.DataError, match=r"expected train_heart\.csv among its files"):
        data.fetch("heart", cache, base_url=zenodo.url)
    assert not list(tmp_path.iterdir())


def test_a_record_without_checksum_is_not_trusted(zenodo, tmp_path):
    zenodo.entry("train_heart.csv")["checksum"] = ""
    with pytest.raises(data.DataError, match="expected an MD5 sum"):
        data.fetch("heart", tmp_path, base_url=zenodo.url)


def test_fetch_all_asks_for_the_record_once(tmp_path):
    names = [f"{p}_{s.stem}.csv" for s in data.SPECS.values() for p in ("train", "test")]
    with stand_in({name: name.encode() for name in names}) as server:
        assert [path.name for path in data.fetch("all", tmp_path, base_url=server.url)] == names
        assert len(server.requests) == 11


def test_a_cache_that_cannot_be_written_is_told(zenodo, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(data.DataError, match="could not be stored in the cache"):
        data.fetch("heart", tmp_path / "cache", base_url=zenodo.url)
