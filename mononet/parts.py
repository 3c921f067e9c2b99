"""The rows of one part of a dataset: read from a file or made from mlxtend, then checked.

What is wrong with a file is told in one sentence: the file, what was expected and what was found.
"""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd


class PartError(Exception):
    """The rows of a part are not as they must be; the message is one clear sentence."""


def read(file: Path, columns: Sequence[str]) -> np.ndarray:
    """Return the file's values, rows × `columns`, float64, after checking its form."""
    columns = list(columns)
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            _check_header(stream.readline(), columns, file)
            frame = pd.read_csv(stream, header=None, dtype="float64")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise PartError(f"{file}: expected a whole gzip file, found that {error}.") from error
    except pd.errors.EmptyDataError as error:
        raise PartError(f"{file}: expected rows below the header, found zero rows.") from error
    except pd.errors.ParserError as error:
        found = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise PartError(
            f"{file}: expected {len(columns)} values a row, found a row that has not ({found})."
        ) from error
    except OSError as error:
        raise PartError(f"{file}: expected a readable file, found that {error}.") from error
    except ValueError as error:
        raise PartError(f"{file}: expected {_no_number(file, columns)}.") from error
    if frame.shape[1] != len(columns):
        raise PartError(
            f"{file}: expected {len(columns)} values a row, found {frame.shape[1]} in row 1."
        )
    return frame.to_numpy()


def _no_number(file: Path, columns: list[str]) -> str:
    """Return in words which text in the file is no number."""
    form = {"header": None, "dtype": str, "keep_default_na": False, "encoding_errors": "replace"}
    try:
        frame = pd.read_csv(file, skiprows=1, **form)
    except ValueError:  # no table as text either
        frame = pd.DataFrame()
    numbers = frame.apply(pd.to_numeric, errors="coerce")
    for row, column in np.argwhere(numbers.isna().to_numpy()):
        name = columns[column] if column < len(columns) else column + 1
        found = repr(frame.iat[row, column][:40])
        return f"a number in row {row + 1}, column {name}, found {found}"
    return "a number in every field, found one that cannot be read as such"


def _check_header(line: bytes, expected: list[str], file: Path) -> None:
    wish = f"{file}: expected a header of {len(expected)} column names separated by commas"
    if line.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise PartError(f"{wish}, in UTF-8 without a byte-order mark; found such a mark.")
    try:
        found = line.decode().rstrip("\r\n").split(",")
    except UnicodeDecodeError as error:
        raise PartError(f"{wish}, in UTF-8; found bytes that are not UTF-8.") from error
    if found == expected:
        return
    if len(found) <= 1:
        raise PartError(f"{wish}; found {found[0][:60]!r}, without any comma.")
    differences = {
        "missing": [name for name in expected if name not in found],
        "not expected": [name for name in found if name not in expected],
        "twice": sorted({name for name in found if found.count(name) > 1}),
    }
    words = [f"{what}: {_some(names)}" for what, names in differences.items() if names]
    if not words:
        place = [a == b for a, b in zip(found, expected, strict=True)].index(False)
        words = [f"another order: column {place + 1} is {found[place]}, not {expected[place]}"]
    raise PartError(f"{wish}; found {len(found)} ({'; '.join(words)}).")


def _some(names: list[str]) -> str:
    shown = [repr(name[:40]) for name in names[:5]]
    return ", ".join(shown) + (f" and {len(names) - 5} more" if names[5:] else "")


def check(
    values: np.ndarray,
    where: Path | str,
    columns: Sequence[str],
    *,
    classes: bool,
    rows: int | None,
    head: Sequence[Sequence[float]] = (),
) -> None:
    """Check one part's values against what is published: numbers, classes, rows, first rows.

    The last column is the target, which holds both classes 0 and 1 if `classes`. `rows` is None
    where their number is not known.
    """
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise PartError(
            f"{where}: expected finite numbers, found {values[row, column]} in row {row + 1}, "
            f"column {columns[column]} ({len(bad)} such values in all)."
        )
    if classes:
        labels = np.unique(values[:, -1])
        if not np.array_equal(labels, [0, 1]):
            found = ", ".join(f"{label:g}" for label in labels[:5])
            raise PartError(
                f"{where}: expected both classes 0 and 1 in {columns[-1]}, found {found}."
            )
    elif len(values) and (values[:, -1] == values[0, -1]).all():
        raise PartError(
            f"{where}: expected a target that varies in {columns[-1]}, found "
            f"{values[0, -1]:g} in every row."
        )
    if rows is not None and len(values) != rows:
        raise PartError(f"{where}: expected {rows:,} rows, found {len(values):,}.")
    if len(head):
        head = np.array(head)
        # 6 decimals were published: half a unit of the last one, and a little for the arithmetic
        unlike = np.argwhere(np.abs(values[: len(head)] - head) > 5.1e-7)
        if len(unlike):
            row, column = unlike[0]
            raise PartError(
                f"{where}: expected the published {head[row, column]:g} in row {row + 1}, column "
                f"{columns[column]}, found {values[row, column]:g}; these are other rows."
            )


def blocks(file: Path, rows: int) -> np.ndarray:
    """Return the labels in the file's column `block`, one a row."""
    try:
        labels = pd.read_csv(file, dtype=str, usecols=["block"])["block"].to_numpy(dtype=str)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        found = str(error).partition("\n")[0]
        raise PartError(f"{file}: expected a column named block, found that {found}.") from error
    if len(labels) != rows:
        raise PartError(f"{file}: expected {rows:,} blocks, one a row, found {len(labels):,}.")
    return labels


# Positions of the published test rows among mlxtend's 392, in the published order (COMET's split).
_AUTO_MPG_TEST = """
    322 2 123 46 291 307 220 337 195 83 16 205 171 17 243 62 391 334 175 316 45 143 292 349 371 8
    114 24 281 237 271 98 340 356 18 47 352 260 58 336 310 217 247 157 377 351 332 74 93 137 270
    283 178 329 164 63 373 387 43 386 287 117 64 342 174 376 250 295 381 256 213 384 12 75 108 330
    230 112
"""


def auto_mpg() -> dict[str, np.ndarray]:
    """Make Auto MPG's parts from mlxtend's raw rows: z-scored with the training part (ddof 1)."""
    from mlxtend.data import autompg_data

    X, mpg = autompg_data()
    test = [int(position) for position in _AUTO_MPG_TEST.split()]
    raw = pd.DataFrame(X[:, :7])  # the eighth column is the car's name
    train = raw.drop(index=test)
    scaled = (raw - train.mean()) / train.std()
    return {
        part: np.column_stack([scaled.loc[rows], mpg[rows]])
        for part, rows in (("train", train.index), ("test", test))
    }
