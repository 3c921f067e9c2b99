"""The five datasets: where their files come from, verification, folds, the guarded test part.

The rows are the published, preprocessed files of "Constrained Monotonic Neural Networks" (ICML
2023), Zenodo record 7968969, doi:10.5281/zenodo.7968969, CC-BY-4.0; no split is ever re-drawn.
``published_heads.json`` beside this module holds their column names and first five training rows
(6 decimals), as the reference experiments print them.
"""

import difflib
import fcntl
import gzip
import hashlib
import ipaddress
import json
import os
import re
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import numpy as np
import pandas as pd
import pooch
import requests
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

ZENODO = "https://zenodo.org"
RECORD = "7968969"
ENVIRONMENT = "MONONET_DATA_DIR"
TARGET = "ground_truth"
PARTS = ("train", "test")
LEDGER_COLUMNS = ["time", "kind", "study", "model", "reason", "configuration", "revision"]
KINDS = ("final", "diagnostic", "planning")
TRIES = 4  # of one request that Zenodo throttles
MAX_WAIT = 90.0  # seconds that one request waits in all


class DataError(Exception):
    """Something about a dataset is not as it must be; the message is one clear sentence."""


class UnknownDataset(DataError):  # noqa: N818 - it is raised by name, as a KeyError is
    """No dataset has this name."""


@dataclass(frozen=True)
class Spec:
    """What is published about one dataset. `monotone` maps a feature to its sign, -1 or +1."""

    name: str
    stem: str
    task: str
    metric: str
    train_rows: int
    test_rows: int
    features: tuple[str, ...]
    head: tuple[tuple[float, ...], ...]  # first five training rows, the target last
    monotone: dict[str, int]
    published_monotone: dict[str, int]  # what the reference experiments constrained
    fingerprint: str | None
    seen_before: str  # row 0 of its ledger
    holdout: bool = False  # one 80/20 holdout instead of folds
    post: tuple[str, ...] = ()  # features that together tell one post from another
    test_rows_exact: bool = True

    def indicator(self, kind: str = "corrected") -> np.ndarray:
        """-1, 0 or +1 a feature; `kind` is "corrected" or "published"."""
        _among("indicator", kind, ("corrected", "published"))
        signs = self.published_monotone if kind == "published" else self.monotone
        return np.array([signs.get(feature, 0) for feature in self.features])


FINGERPRINTS = {
    "auto_mpg": "d9284829d48051033b1b6633399af10d6433e4e2bcebd6351493a6000f621f67",
    "heart": "215319162fdf96cbd202b10fdcd7fd4c6ac3c19f1f78807351d2ffdfa97be634",
    "compas": "031e081be8cece171107f1e1d8256c00c801495b55d1cc8d7f2883739760b733",
    "blog": "8ee22a033911c57c9dbcdd45fe3ed0f5e7645f53284791c324d49cc57dd9bf5e",
}
MONOTONE = {
    "auto_mpg": {"Displacement": -1, "Horsepower": -1, "Weight": -1},
    "heart": {"trestbps": 1, "chol": 1},
    "compas": {"priors_count": 1, "juv_fel_count": 1, "juv_misd_count": 1, "juv_other_count": 1},
    # The preprocessing moved the raw columns 50-53 and 55-58 to the front; the reference
    # experiments constrain the features that bear the raw numbers.
    "blog": {f"feature_{i}": 1 for i in range(8)},
    "blog as published": {f"feature_{i}": 1 for i in (50, 51, 52, 53, 55, 56, 57, 58)},
    "loan": {"feature_0": -1, "feature_1": 1, "feature_2": -1, "feature_3": -1, "feature_4": 1},
}
# Features that tell one blog post from another: length, 200 words, weekday of the publication.
_POST = tuple(f"feature_{i}" for i in (58, *range(59, 259), *range(266, 273)))
_PUBLISHED = json.loads(Path(__file__).with_name("published_heads.json").read_text())
_SEEN = (
    "before this book existed, while its protocol was planned: test scores of untuned ridge, "
    "random forest, boosting and logistic regression, and, with both optimizers and both kinds "
    "of inputs, of a prototype of "
)


def _spec(name: str, stem: str, *task_metric_rows, prototype: str = "", **more) -> Spec:
    published = _PUBLISHED[stem]
    return Spec(
        name,
        stem,
        *task_metric_rows,
        features=tuple(published["columns"][:-1]),
        head=tuple(map(tuple, published["rows"])),
        monotone=MONOTONE[name],
        published_monotone=MONOTONE.get(f"{name} as published", MONOTONE[name]),
        fingerprint=FINGERPRINTS.get(name),
        seen_before=prototype and _SEEN + prototype,
        **more,
    )


_SPECS = (
    _spec("auto_mpg", "auto", "regression", "mse", 314, 78, prototype="split and mixed"),
    _spec("heart", "heart", "classification", "accuracy", 242, 61, prototype="split and mixed"),
    _spec(
        "compas", "compas", "classification", "accuracy", 4937, 1235, prototype="split and mixed"
    ),
    _spec(
        "blog",
        "blog",
        "regression",
        "rmse",
        47302,
        6968,
        prototype="split",
        holdout=True,
        post=_POST,
    ),
    # loan's test count is from the literature: its file has not been seen yet
    _spec(
        "loan",
        "loan",
        "classification",
        "accuracy",
        418697,
        70212,
        holdout=True,
        test_rows_exact=False,
    ),
)
SPECS: dict[str, Spec] = {spec.name: spec for spec in _SPECS}


class TestPart(NamedTuple):
    """The test part: X (rows × features), y, and one block label a row for the block bootstrap."""

    X: np.ndarray
    y: np.ndarray
    block: np.ndarray


@dataclass(frozen=True, eq=False)
class Dataset:
    """One dataset, its training part open, its test part behind `open_test`. Arrays are read-only.

    `X_train` is float64, rows × features; `y_train` float64 (classes 0 and 1); `indicator` holds
    -1, 0 or +1 a feature; `groups` the number of its post a training row, for blog.
    """

    name: str
    X_train: np.ndarray = field(repr=False)
    y_train: np.ndarray = field(repr=False)
    features: tuple[str, ...] = field(repr=False)
    indicator: np.ndarray = field(repr=False)
    task: str
    metric: str
    source: str
    fingerprint: str
    groups: np.ndarray | None = field(repr=False)
    holdout: bool
    seen_before: str = field(repr=False)
    _test: TestPart = field(repr=False)

    def splits(self, cv_seed: int = 0, folds: int = 5) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return (training rows, validation rows) a fold, shuffled with `cv_seed`.

        Classification is stratified. Loan and blog have one 80/20 holdout, whatever `folds` says;
        blog's keeps the rows of one post together.
        """
        rows = np.arange(len(self.y_train))
        labels = self.y_train if self.task == "classification" else None
        if self.groups is not None:
            validation = np.isin(self.groups, _fifth_of_rows(self.groups, cv_seed))
            return [(rows[~validation], rows[validation])]
        if self.holdout:
            train, validation = train_test_split(
                rows, test_size=0.2, random_state=cv_seed, stratify=labels
            )
            return [(np.sort(train), np.sort(validation))]
        splitter = KFold if labels is None else StratifiedKFold
        return list(splitter(folds, shuffle=True, random_state=cv_seed).split(rows, labels))

    def open_test(self, ledger: Path, study, kind: str, reason: str) -> TestPart:
        """Record one opening of the test part in `ledger`, then return the part.

        `study` has the attributes identity, model, configuration_hash and revision. The same
        study, configuration and kind again adds no row. Raises DataError for an unknown kind.
        """
        _among("kind of opening", kind, KINDS)
        row = [kind, study.identity, study.model, reason, study.configuration_hash, study.revision]
        _record_opening(Path(ledger), [str(value) for value in row], self.seen_before)
        return self._test


def load(
    name: str,
    data_dir: str | Path | None = None,
    *,
    indicator: str = "corrected",
    max_rows: int | None = None,
    cache_dir: str | Path | None = None,
    base_url: str = ZENODO,
    timeout: float = 30.0,
) -> Dataset:
    """Load and verify one dataset over the first route that has it (see `routes`).

    `indicator` is "corrected" or "published", which differ for blog only. `max_rows` keeps a
    seeded random subset of the training rows, in their order; fingerprint and test part stay those
    of the whole data. `timeout` (seconds without an answer) and `base_url` are for the download.
    Raises DataError, its message one sentence that names the file, what was expected and found.
    """
    spec = _find(name)
    signs = spec.indicator(indicator)
    route = routes(name, data_dir, cache_dir=cache_dir)
    files = route.files
    if not route.local:
        try:
            fetched = fetch(name, cache_dir, base_url=base_url, timeout=timeout)
            fetched = dict(zip(PARTS, fetched, strict=True))
        except DataError as error:
            raise DataError(_no_route_left(spec, cache_dir, error)) from error
        files = {part: files[part] or fetched[part] for part in PARTS}
    made = _auto_mpg_from_mlxtend() if "mlxtend" in route.kind else {}
    values = {}
    for part in PARTS:
        where = files[part] or f"{_file_name(spec, part)} as made from mlxtend"
        values[part] = _read(files[part], spec) if files[part] else made[part]
        _check(values[part], spec, part, where)
    X_train, y_train = _features_and_target(values["train"])
    X_test, y_test = _features_and_target(values["test"])
    source = f"{route.kind}: {', '.join(_file_name(spec, part) for part in PARTS)}"
    if len(y_test) != spec.test_rows:
        source += f"; {len(y_test):,} test rows, where the literature says {spec.test_rows:,}"
    signature = fingerprint(spec.features, X_train, y_train, X_test, y_test)
    if spec.fingerprint not in (None, signature):
        source += "; not as published (another fingerprint)"
    block = _blocks(spec, files["test"], len(y_test))
    if max_rows is not None and max_rows < len(y_train):
        kept = np.random.default_rng(0).choice(len(y_train), max_rows, replace=False)
        X_train, y_train = X_train[np.sort(kept)], y_train[np.sort(kept)]
    return Dataset(
        name,
        X_train=_read_only(X_train),
        y_train=_read_only(y_train),
        features=spec.features,
        indicator=_read_only(signs),
        task=spec.task,
        metric=spec.metric,
        source=source,
        fingerprint=signature,
        groups=_read_only(_posts(spec, X_train)) if spec.post else None,
        holdout=spec.holdout,
        seen_before=spec.seen_before,
        _test=TestPart(_read_only(X_test), _read_only(y_test), _read_only(block)),
    )


def fingerprint(features: Iterable[str], *arrays: np.ndarray) -> str:
    """Return the SHA-256 of feature names and arrays (X_train, y_train, X_test, y_test).

    Values count to 6 decimals, as little-endian float64: rebuilt files are known to equal the
    published ones that far. -0.0 counts as 0.0.
    """
    digest = hashlib.sha256("\n".join(features).encode())
    for array in arrays:
        digest.update((np.round(np.asarray(array, dtype="<f8"), 6) + 0.0).tobytes())
    return digest.hexdigest()


# --- where the files are -----------------------------------------------------------------------


class Route(NamedTuple):
    """How a dataset would be served: data_dir, MONONET_DATA_DIR, cache, mlxtend or zenodo.

    `kind` joins two of them with " + " where the two files come over different routes. `files`
    maps train and test to their file, or to None where it is made (mlxtend) or fetched (zenodo).
    """

    kind: str
    files: dict[str, Path | None]

    @property
    def local(self) -> bool:
        """Whether the rows are on this machine."""
        return "zenodo" not in self.kind


def routes(
    name: str, data_dir: str | Path | None = None, *, cache_dir: str | Path | None = None
) -> Route:
    """Return the first route that has both files of a dataset; touches no network.

    Raises DataError when `data_dir` is given and lacks a file.
    """
    spec = _find(name)
    located = {part: _locate(spec, part, data_dir, cache_dir) for part in PARTS}
    kinds = dict.fromkeys(kind for kind, _ in located.values())
    return Route(" + ".join(kinds), {part: file for part, (_, file) in located.items()})


def describe(
    data_dir: str | Path | None = None, *, cache_dir: str | Path | None = None
) -> pd.DataFrame:
    """Return a row a dataset: route, shape, fingerprint, and whether that is the published one."""
    table = []
    for name, spec in SPECS.items():
        row = {"dataset": name, "route": "", "train": spec.train_rows, "test": spec.test_rows}
        row |= {"features": len(spec.features), "fingerprint": "", "as_published": "not here"}
        table.append(row)
        try:
            row["route"] = routes(name, data_dir, cache_dir=cache_dir).kind
            if "zenodo" in row["route"]:
                continue
            dataset = load(name, data_dir, cache_dir=cache_dir)
        except DataError as error:
            row["as_published"] = str(error)
            continue
        row |= {"train": len(dataset.y_train), "test": len(dataset._test.y)}
        row["fingerprint"] = dataset.fingerprint
        known = {None: "unknown", dataset.fingerprint: "yes"}
        row["as_published"] = known.get(spec.fingerprint, "no")
    return pd.DataFrame(table)


def _find(name: str) -> Spec:
    _among("dataset", name, SPECS, UnknownDataset)
    return SPECS[name]


def _among(what: str, value: str, valid: Iterable[str], error: type = DataError) -> None:
    if value in valid:
        return
    near = difflib.get_close_matches(str(value), valid, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else "no valid one is near."
    raise error(f"Unknown {what} {value!r}: {hint} Valid: {', '.join(valid)}.")


def _file_name(spec: Spec, part: str) -> str:
    return f"{part}_{spec.stem}.csv"


def _cache(cache_dir: str | Path | None) -> Path:
    return Path(cache_dir or pooch.os_cache("mononet")).expanduser()


def _file_in(folder: str | Path, name: str) -> Path | None:
    candidates = (Path(folder).expanduser() / f"{name}{suffix}" for suffix in ("", ".gz"))
    return next((file for file in candidates if file.is_file()), None)


def _locate(spec: Spec, part: str, data_dir, cache_dir) -> tuple[str, Path | None]:
    name = _file_name(spec, part)
    if data_dir is not None:
        file = _file_in(data_dir, name)
        if file is None:
            raise DataError(f"{data_dir}: expected {name} or {name}.gz in data_dir, found neither.")
        return "data_dir", file
    for route, folder in ((ENVIRONMENT, os.environ.get(ENVIRONMENT)), ("cache", _cache(cache_dir))):
        if folder and (file := _file_in(folder, name)):
            return route, file
    return ("mlxtend" if spec.name == "auto_mpg" else "zenodo"), None


def _no_route_left(spec: Spec, cache_dir, error: DataError) -> str:
    names = " and ".join(_file_name(spec, part) for part in PARTS)
    folder = os.environ.get(ENVIRONMENT)
    return (
        f"{spec.name}: no route has {names}: (1) data_dir was not given and {ENVIRONMENT} "
        f"{f'({folder}) lacks them' if folder else 'is not set'}; (2) the cache "
        f"{_cache(cache_dir)} lacks them; (3) the package mlxtend holds auto_mpg only; "
        f"(4) Zenodo: {error}"
    )


# --- what the files must hold ------------------------------------------------------------------


def _read(file: Path, spec: Spec) -> np.ndarray:
    """Return the file's values, rows × (features + target), float64, after checking its form."""
    expected = [*spec.features, TARGET]
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            _check_header(stream.readline(), expected, file)
            frame = pd.read_csv(stream, header=None, dtype="float64")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{file}: expected a whole gzip file, found that {error}.") from error
    except pd.errors.EmptyDataError as error:
        raise DataError(f"{file}: expected rows below the header, found zero rows.") from error
    except pd.errors.ParserError as error:
        found = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise DataError(
            f"{file}: expected {len(expected)} values a row, found a row that has not ({found})."
        ) from error
    except OSError as error:
        raise DataError(f"{file}: expected a readable file, found that {error}.") from error
    except ValueError as error:  # some text is no number; look for it
        frame = pd.read_csv(
            file,
            header=None,
            skiprows=1,
            dtype=str,
            keep_default_na=False,
            encoding_errors="replace",
        )
        numbers = frame.apply(pd.to_numeric, errors="coerce")
        row, column = np.argwhere(numbers.isna().to_numpy())[0]
        name = expected[column] if column < len(expected) else column + 1
        raise DataError(
            f"{file}: expected a number in row {row + 1}, column {name}, "
            f"found {frame.iat[row, column][:40]!r}."
        ) from error
    if frame.shape[1] != len(expected):
        raise DataError(
            f"{file}: expected {len(expected)} values a row, found {frame.shape[1]} in row 1."
        )
    return frame.to_numpy()


def _check_header(line: bytes, expected: list[str], file: Path) -> None:
    wish = f"{file}: expected a header of {len(expected)} column names separated by commas"
    if line.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{wish}, in UTF-8 without a byte-order mark; found such a mark.")
    try:
        found = line.decode().rstrip("\r\n").split(",")
    except UnicodeDecodeError as error:
        raise DataError(f"{wish}, in UTF-8; found bytes that are not UTF-8.") from error
    if found == expected:
        return
    if len(found) <= 1:
        raise DataError(f"{wish}; found {line[:60].decode()!r}, without any comma.")
    differences = {
        "missing": [name for name in expected if name not in found],
        "not expected": [name for name in found if name not in expected],
        "twice": sorted({name for name in found if found.count(name) > 1}),
    }
    words = [f"{what}: {_some(names)}" for what, names in differences.items() if names]
    if not words:
        place = [a == b for a, b in zip(found, expected, strict=True)].index(False)
        words = [f"another order: column {place + 1} is {found[place]}, not {expected[place]}"]
    raise DataError(f"{wish}; found {len(found)} ({'; '.join(words)}).")


def _some(names: list[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if names[5:] else "")


def _check(values: np.ndarray, spec: Spec, part: str, where: Path | str) -> None:
    """Check one part's values against what is published: numbers, classes, rows, first rows."""
    columns = [*spec.features, TARGET]
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"{where}: expected finite numbers, found {values[row, column]} in row {row + 1}, "
            f"column {columns[column]} ({len(bad)} such values in all)."
        )
    if spec.task == "classification":
        labels = np.unique(values[:, -1])
        if not np.array_equal(labels, [0, 1]):
            found = ", ".join(f"{label:g}" for label in labels[:5])
            raise DataError(f"{where}: expected both classes 0 and 1 in {TARGET}, found {found}.")
    exact = part == "train" or spec.test_rows_exact
    rows = spec.train_rows if part == "train" else spec.test_rows
    if exact and len(values) != rows:
        raise DataError(f"{where}: expected {rows:,} rows, found {len(values):,}.")
    if part == "train":
        head = np.array(spec.head)
        # 6 decimals were published: half a unit of the last one, and a little for the arithmetic
        unlike = np.argwhere(np.abs(values[: len(head)] - head) > 5.1e-7)
        if len(unlike):
            row, column = unlike[0]
            raise DataError(
                f"{where}: expected the published {head[row, column]:g} in row {row + 1}, column "
                f"{columns[column]}, found {values[row, column]:g}; these are other rows."
            )


def _features_and_target(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ascontiguousarray(values[:, :-1]), np.ascontiguousarray(values[:, -1])


def _read_only(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


# Positions of the published test rows among mlxtend's 392, in the published order (COMET's split).
_AUTO_MPG_TEST = """
    322 2 123 46 291 307 220 337 195 83 16 205 171 17 243 62 391 334 175 316 45 143 292 349 371 8
    114 24 281 237 271 98 340 356 18 47 352 260 58 336 310 217 247 157 377 351 332 74 93 137 270
    283 178 329 164 63 373 387 43 386 287 117 64 342 174 376 250 295 381 256 213 384 12 75 108 330
    230 112
"""


def _auto_mpg_from_mlxtend() -> dict[str, np.ndarray]:
    """Make both parts from mlxtend's raw rows: z-scored with the training part (ddof 1)."""
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


# --- blog: posts and days ----------------------------------------------------------------------


def _posts(spec: Spec, X: np.ndarray) -> np.ndarray:
    columns = [spec.features.index(feature) for feature in spec.post]
    frame = pd.DataFrame(X[:, columns])
    return frame.groupby(list(frame), sort=False).ngroup().to_numpy()


def _fifth_of_rows(groups: np.ndarray, seed: int) -> np.ndarray:
    """Return randomly drawn groups that together hold as near to a fifth of the rows as it gets."""
    names, sizes = np.unique(groups, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(names))
    rows = np.cumsum(sizes[order])[:-1]  # never all of them
    return names[order[: np.argmin(np.abs(rows - len(groups) / 5)) + 1]]


def _blocks(spec: Spec, test_file: Path | None, rows: int) -> np.ndarray:
    file = _file_in(test_file.parent, f"test_{spec.stem}_blocks.csv") if test_file else None
    if file is None:
        return np.arange(rows)
    try:
        labels = pd.read_csv(file, dtype=str, usecols=["block"])["block"].to_numpy(dtype=str)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file}: expected a column named block, found that {error}.") from error
    if len(labels) != rows:
        raise DataError(f"{file}: expected {rows:,} blocks, one a row, found {len(labels):,}.")
    return labels


# --- Zenodo ------------------------------------------------------------------------------------


def fetch(
    name: str, cache_dir: str | Path | None = None, *, base_url: str = ZENODO, timeout: float = 30.0
) -> list[Path]:
    """Download the files of one dataset, or of "all", into the cache and return their paths.

    A file whose checksum in the cache is already right is not downloaded again. `timeout` is in
    seconds without an answer. Raises DataError; the cache then holds no partial or wrong file.
    """
    specs = SPECS.values() if name == "all" else [_find(name)]
    published = _published_files(base_url, timeout)
    fetched = []
    for file in (_file_name(spec, part) for spec in specs for part in PARTS):
        if file not in published:
            raise DataError(
                f"Zenodo record {RECORD} at {base_url}: expected {file} among its files, "
                f"found {_some(sorted(published))}."
            )
        checksum, link = published[file]
        if not re.fullmatch("md5:[0-9a-f]{32}", str(checksum)):
            raise DataError(f"{link}: expected an MD5 sum in the record, found {checksum!r}.")
        # The name is ours, not the record's: nothing in a record can lead out of the cache.
        retrieve = partial(
            pooch.retrieve,
            known_hash=checksum,
            fname=file,
            path=_cache(cache_dir),
            downloader=pooch.HTTPDownloader(True, chunk_size=65536, **_settings(timeout)),
        )
        fetched.append(Path(_patiently(retrieve, _allowed(link))))
    return fetched


def _published_files(base_url: str, timeout: float) -> dict[str, tuple[str, str]]:
    """Return {file name: (checksum, link)} from the record's JSON: one GET."""

    def get(url: str) -> dict[str, tuple[str, str]]:
        response = requests.get(url, **_settings(timeout))
        response.raise_for_status()
        try:
            files = response.json()["files"]
            return {file["key"]: (file["checksum"], file["links"]["self"]) for file in files}
        except (requests.JSONDecodeError, KeyError, TypeError) as error:
            raise DataError(f"{url}: expected a record's files as JSON, found none.") from error

    return _patiently(get, _allowed(f"{base_url.rstrip('/')}/api/records/{RECORD}"))


def _settings(timeout: float) -> dict:
    agent = f"mononet/0.1 (executable book on monotone networks; pooch {pooch.__version__})"
    return {
        "timeout": timeout,
        "headers": {"User-Agent": agent},  # Zenodo refuses clients that do not say who they are
        "hooks": {"response": _check_redirect},
        "proxies": {"http": ""},  # plain http is for this machine alone, which needs no proxy
    }


def _check_redirect(response: requests.Response, *_, **__) -> None:
    if response.is_redirect:
        _allowed(urljoin(response.url, response.headers["location"]))


def _allowed(url: str) -> str:
    """Return `url` in normal form when it is https, or http to a loopback host; else refuse it."""
    try:
        # as requests reads it, so that the host checked is the host called
        normal = requests.Request("GET", url).prepare().url
        scheme, host = urlsplit(normal).scheme, urlsplit(normal).hostname
        loopback = host == "localhost" or (
            scheme == "http" and ipaddress.ip_address(host).is_loopback
        )
    except ValueError:  # no URL, or a host name where an address was hoped for
        scheme, loopback = "", False
    if scheme == "https" or (scheme == "http" and loopback):
        return normal
    raise DataError(f"{url}: refused; expected a link over https, or to this machine itself.")


def _patiently(request: Callable, url: str):
    """Return `request(url)`, waiting and trying again as a throttling server asks.

    At most TRIES times and MAX_WAIT seconds in all; every failure becomes a DataError.
    """
    waited = 0.0
    for attempt in range(1, TRIES + 1):
        try:
            return request(url)
        except (requests.RequestException, ValueError, OSError) as error:
            wait = _seconds_to_wait(error, attempt)
            if attempt == TRIES or waited + wait > MAX_WAIT:
                raise DataError(f"{url}: {_why(error, attempt, wait)}; {_BY_HAND}") from error
        time.sleep(wait)
        waited += wait


_BY_HAND = (
    f"or else download the files by hand from {ZENODO}/records/{RECORD} into a folder and name it "
    f"with data_dir or {ENVIRONMENT}."
)


def _seconds_to_wait(error: Exception, attempt: int) -> float:
    """Return what Retry-After (seconds or a date) asks for; infinity where waiting cannot help."""
    response = getattr(error, "response", None)
    if response is None or response.status_code not in (429, 503):
        return np.inf
    asked = response.headers.get("Retry-After", "")
    if re.fullmatch("[0-9]+", asked):
        return float(asked)
    try:
        return max(0.0, (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # none, or nonsense
        return 2.0**attempt


def _why(error: Exception, attempt: int, wait: float) -> str:
    """Return in words why a download failed."""
    if isinstance(error, requests.HTTPError):
        status = error.response.status_code
        said = f"the server answered {status} {error.response.reason}"
        more = {
            403: ": it refuses this client, as Zenodo does when it is busy; try again later",
            404: ": there is no such record or file",
        }
        if np.isfinite(wait):
            more[status] = (
                f": it is throttling, and at try {attempt} of {TRIES} asks to wait {wait:.0f} s; "
                "try again later"
            )
        return said + more.get(status, "")
    if "does not match the known hash" in str(error):
        return "the file arrived with another MD5 sum than the record's and was not kept; try again"
    # requests reports a stall in the middle of a file as a connection error
    if isinstance(error, requests.Timeout) or "timed out" in str(error):
        return "the server stopped answering, and nothing was kept; try again"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the download broke off before the file was whole, and nothing was kept; try again"
    if isinstance(error, requests.RequestException):
        return "the server cannot be reached (is there a network?)"
    return f"the file could not be stored in the cache ({error})"


# --- the ledger of openings --------------------------------------------------------------------


def read_ledger(ledger: str | Path) -> pd.DataFrame:
    """Return the openings recorded in `ledger`, a row each, all text; empty when it is missing."""
    if not Path(ledger).exists():
        return pd.DataFrame(columns=LEDGER_COLUMNS, dtype=str)
    table = pd.read_csv(ledger, dtype=str, keep_default_na=False)
    if list(table) != LEDGER_COLUMNS:
        raise DataError(f"{ledger}: expected columns {LEDGER_COLUMNS}, found {list(table)}.")
    return table


def _record_opening(ledger: Path, row: list[str], seen_before: str) -> None:
    """Append [kind, study, model, reason, configuration, revision] under a lock, once."""
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with ledger.with_name(f"{ledger.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        table = read_ledger(ledger)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        if table.empty and seen_before:
            table.loc[0] = [now, "planning", "", "", seen_before, "", ""]
        added = pd.Series([now, *row], LEDGER_COLUMNS)
        once = ["kind", "study", "configuration"]
        if (table[once] == added[once]).all(axis="columns").any():
            return
        table.loc[len(table)] = added
        _write_whole(ledger, table.to_csv(index=False, lineterminator="\n"))


def _write_whole(path: Path, text: str) -> None:
    """Replace `path` in one step, so that neither a kill nor a full disk leaves a part of it."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with temporary.open("w", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
