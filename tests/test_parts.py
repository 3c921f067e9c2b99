"""The rows of a part: wrong files are told in one sentence, and Auto MPG is made to the bit."""

import gzip
import hashlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mononet import parts
from mononet.published import SPECS

_TABLE = pd.DataFrame(
    np.random.default_rng(7).random((40, 3)).round(6), columns=["age", "chol", "rate"]
).assign(ground_truth=[0.0, 1.0] * 20)
_COLUMNS = list(_TABLE)


def as_csv(frame):
    return frame.to_csv(index=False).encode()


def read_and_check(file):
    values = parts.read(file, _COLUMNS)
    parts.check(values, file, _COLUMNS, classes=True, rows=40, head=_TABLE[:5].to_numpy())
    return values


def _changed(row, column, value):
    frame = _TABLE.astype(object)
    frame.loc[row, column] = value
    return as_csv(frame)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (as_csv(_TABLE.drop(columns="chol")), "missing: 'chol'"),
        (as_csv(_TABLE.assign(more=1)), "not expected: 'more'"),
        (as_csv(_TABLE.rename(columns={"chol": "age"})), "missing: 'chol'; twice: 'age'"),
        (
            as_csv(_TABLE[["chol", "rate", "ground_truth", "age"]]),
            "another order: column 1 is chol, not age",
        ),
        (_changed(8, "chol", "abc"), "expected a number in row 9, column chol, found 'abc'"),
        (_changed(8, "chol", "1_0"), "expected a number in row 9, column chol, found '1_0'"),
        (_changed(8, "chol", ""), "expected finite numbers, found nan in row 9, column chol"),
        (_changed(8, "chol", np.inf), "found inf in row 9, column chol"),
        (_changed(8, "ground_truth", 2), "expected both classes 0 and 1 in ground_truth, found 0"),
        (as_csv(_TABLE.assign(ground_truth=0)), "both classes 0 and 1 in ground_truth, found 0."),
        (as_csv(_TABLE[:0]), "found zero rows"),
        (b"", "without any comma"),
        (as_csv(_TABLE[:-1]), "expected 40 rows, found 39"),
        (_changed(1, "age", 0.5), "published 0.225207 in row 2, column age, found 0.5"),
        (b"\xef\xbb\xbf" + as_csv(_TABLE), "without a byte-order mark"),
        (_TABLE.to_csv(index=False, sep=";").encode(), "without any comma"),
        (_TABLE.to_csv().encode(), "not expected: ''"),
        (as_csv(_TABLE) + b"1,2,3,0,5\n", "Expected 4 fields in line"),
        (as_csv(_TABLE).split(b"\n")[0] + b"\n1,2\n", "expected 4 values a row, found 2"),
        (b"\xff\xfe\x00", "without a byte-order mark"),
        (b"\x89\xff,\n", "not UTF-8"),
    ],
)
def test_wrong_files_are_told_in_one_sentence(tmp_path, content, words):
    file = tmp_path / "train.csv"
    file.write_bytes(content)
    with pytest.raises(parts.PartError) as caught:
        read_and_check(file)
    assert str(file) in str(caught.value)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2_000), st.binary(min_size=0, max_size=6), st.integers(0, 30))
def test_no_bytes_end_in_another_error(tmp_path, at, put, cut):
    file, text = tmp_path / "train.csv", as_csv(_TABLE)
    at %= len(text)
    file.write_bytes(text[:at] + put + text[at + cut :])
    try:
        assert read_and_check(file).shape == (40, 4)
    except parts.PartError as error:
        assert "expected" in str(error)


def test_a_gz_is_read(tmp_path):
    file = tmp_path / "train.csv.gz"
    file.write_bytes(gzip.compress(as_csv(_TABLE)))
    assert np.array_equal(read_and_check(file), _TABLE)


@pytest.mark.parametrize("content", [as_csv(_TABLE), gzip.compress(as_csv(_TABLE))[:-400]])
def test_gz_that_is_no_whole_gzip(tmp_path, content):
    file = tmp_path / "train.csv.gz"
    file.write_bytes(content)
    with pytest.raises(parts.PartError, match=r"train\.csv\.gz: expected a whole gzip file"):
        read_and_check(file)


def test_what_is_not_known_is_not_checked():
    parts.check(np.eye(4)[:, ::-1], "made", _COLUMNS, classes=False, rows=None)


def test_blocks_are_labels_one_a_row(tmp_path):
    file = tmp_path / "blocks.csv"
    file.write_text("block\n01\n01\n02\n")
    assert parts.blocks(file, 3).tolist() == ["01", "01", "02"]
    with pytest.raises(parts.PartError, match="expected 4 blocks, one a row, found 3"):
        parts.blocks(file, 4)
    file.write_text("day\n1\n")
    with pytest.raises(parts.PartError, match="expected a column named block"):
        parts.blocks(file, 1)


def test_auto_mpg_equals_the_published_text(tmp_path):
    columns, hashes = SPECS["auto_mpg"].columns, []
    for part, values in parts.auto_mpg().items():
        file, text = tmp_path / f"{part}.csv", as_csv(pd.DataFrame(values, columns=columns))
        hashes.append(hashlib.sha256(text).hexdigest())
        file.write_bytes(text)
        assert np.array_equal(parts.read(file, columns), values)  # to the bit
    assert hashes == [
        "3a826e341eeff0f121fadb4345dfa0bbed65dd7813f059ad8020087565a4409c",
        "f35372e4003a92bc8de844842fbaa64943787321e81c495e31f0950d2187347e",
    ]
