"""The datasets: where their files are, verified rows, folds, the guarded test part."""

import difflib
import hashlib
import os
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pooch
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from mononet import parts, zenodo
from mononet.ledger import KINDS, LedgerError, read_openings, record_opening
from mononet.published import INDICATORS, SPECS, Spec

ENVIRONMENT = "MONONET_DATA_DIR"
PARTS = ("train", "test")


class DataError(Exception):
    """Something about a dataset is not as it must be; the message is one clear sentence."""


class UnknownDataset(DataError):  # noqa: N818 - it is raised by name, as a KeyError is
    """No dataset has this name."""


@contextmanager
def _as_data_error():
    """Raise what a room below refuses as a DataError, in the same words."""
    try:
        yield
    except (parts.PartError, zenodo.DownloadError, LedgerError) as error:
        raise DataError(str(error)) from error


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

        Classification is stratified. One fold is an 80/20 holdout; loan and blog have one,
        whatever `folds` says, and blog's keeps the rows of one post together. Raises DataError
        where there are too few rows (or posts) for that.
        """
        self._enough_rows(folds)
        rows = np.arange(len(self.y_train))
        labels = self.y_train if self.task == "classification" else None
        if self.groups is not None:
            validation = np.isin(self.groups, _fifth_of_rows(self.groups, cv_seed))
            return [(rows[~validation], rows[validation])]
        if self.holdout or folds == 1:
            train, validation = train_test_split(
                rows, test_size=0.2, random_state=cv_seed, stratify=labels
            )
            return [(np.sort(train), np.sort(validation))]
        splitter = KFold if labels is None else StratifiedKFold
        return list(splitter(folds, shuffle=True, random_state=cv_seed).split(rows, labels))

    def _enough_rows(self, folds: int) -> None:
        """DataError unless each fold can have a row to validate on (of each class, or a post)."""
        what, sizes = "rows", [len(self.y_train)]
        if self.groups is not None:
            what, sizes = "posts", [len(np.unique(self.groups))]
        elif self.task == "classification":
            what = "rows of each class"
            sizes = [int((self.y_train == label).sum()) for label in (0, 1)]
        least, split = folds, f"{folds} folds"
        if self.holdout or folds == 1:
            least, split = 2, "an 80/20 holdout"
        if min(sizes) < least:
            raise DataError(
                f"{self.name}: expected at least {least} {what} for {split}, found {min(sizes)} "
                f"among {len(self.y_train):,} training rows; "
                "raise max_rows, or set cv_folds lower."
            )

    def open_test(self, ledger: Path, study, kind: str, reason: str) -> TestPart:
        """Record one opening of the test part in `ledger`, then return the part.

        `study` has the attributes identity, model, configuration_hash and revision. The same
        study, configuration and kind again adds no row. Raises DataError for an unknown kind.
        """
        _among("kind of opening", kind, KINDS)
        row = [kind, study.identity, study.model, reason, study.configuration_hash, study.revision]
        with _as_data_error():
            record_opening(Path(ledger), [str(value) for value in row], self.seen_before)
        return self._test


def load(
    name: str,
    data_dir: str | Path | None = None,
    *,
    indicator: str = "corrected",
    max_rows: int | None = None,
    cache_dir: str | Path | None = None,
    base_url: str = zenodo.SITE,
    timeout: float = zenodo.TIMEOUT,
) -> Dataset:
    """Load and verify one dataset over the first route that has it (see `routes`).

    `indicator` is "corrected" or "published", which differ for blog only. `max_rows` keeps a
    seeded random subset of the training rows, in their order; fingerprint and test part stay those
    of the whole data. `timeout` (seconds without an answer) and `base_url` are for the download.
    Raises DataError, its message one sentence that names the file, what was expected and found.
    """
    spec = _find(name)
    _among("indicator", indicator, INDICATORS)
    route = routes(name, data_dir, cache_dir=cache_dir)
    files = route.files
    if not route.local:
        try:
            fetched = fetch(name, cache_dir, base_url=base_url, timeout=timeout)
            fetched = dict(zip(PARTS, fetched, strict=True))
        except DataError as error:
            raise DataError(_no_route_left(spec, cache_dir, error)) from error
        files = {part: files[part] or fetched[part] for part in PARTS}
    values = _verified(spec, files)
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
        indicator=_read_only(spec.indicator(indicator)),
        task=spec.task,
        metric=spec.metric,
        source=source,
        fingerprint=signature,
        groups=_read_only(_posts(spec, X_train)) if spec.post else None,
        holdout=spec.holdout,
        seen_before=spec.seen_before,
        _test=TestPart(_read_only(X_test), _read_only(y_test), _read_only(block)),
    )


def fetch(
    name: str,
    cache_dir: str | Path | None = None,
    *,
    base_url: str = zenodo.SITE,
    timeout: float = zenodo.TIMEOUT,
) -> list[Path]:
    """Download the files of one dataset, or of "all", into the cache and return their paths.

    A file whose checksum in the cache is already right is not downloaded again. `timeout` is in
    seconds without an answer. Raises DataError; the cache then holds no partial or wrong file.
    """
    specs = SPECS.values() if name == "all" else [_find(name)]
    names = [_file_name(spec, part) for spec in specs for part in PARTS]
    with _as_data_error():
        return zenodo.fetch(names, _cache(cache_dir), base_url=base_url, timeout=timeout)


def read_ledger(ledger: str | Path) -> pd.DataFrame:
    """Return the openings recorded in `ledger`, a row each; DataError where it is no ledger."""
    with _as_data_error():
        return read_openings(ledger)


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

    Raises DataError when `data_dir` is given and is no folder or lacks a file.
    """
    spec = _find(name)
    located = {part: _locate(spec, part, data_dir, cache_dir) for part in PARTS}
    kinds = dict.fromkeys(kind for kind, _ in located.values())
    return Route(" + ".join(kinds), {part: file for part, (_, file) in located.items()})


def describe(
    data_dir: str | Path | None = None, *, cache_dir: str | Path | None = None
) -> pd.DataFrame:
    """Return a row a dataset: route, shape, fingerprint, and whether that is the published one.

    `problem` is a sentence where the rows are not here or not as they must be, else empty.
    """
    table = []
    for name, spec in SPECS.items():
        row = {"dataset": name, "route": "", "train": spec.train_rows, "test": spec.test_rows}
        row |= {"features": len(spec.features), "fingerprint": "", "as_published": "not here"}
        row["problem"] = ""
        table.append(row)
        try:
            row["route"] = routes(name, data_dir, cache_dir=cache_dir).kind
            if "zenodo" in row["route"]:
                row["problem"] = (
                    "its rows are not on this machine; "
                    f"`python -m mononet data fetch {name}` downloads them"
                )
                continue
            dataset = load(name, data_dir, cache_dir=cache_dir)
        except DataError as error:
            row |= {"as_published": "unusable", "problem": str(error)}
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
    return _folder(cache_dir or pooch.os_cache("mononet"))


def _folder(path: str | Path) -> Path:
    """Return `path` with ~ as the home of its user, where there is such a user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _file_in(folder: str | Path, name: str) -> Path | None:
    candidates = (_folder(folder) / f"{name}{suffix}" for suffix in ("", ".gz"))
    return next((file for file in candidates if file.is_file()), None)


def _locate(spec: Spec, part: str, data_dir, cache_dir) -> tuple[str, Path | None]:
    name = _file_name(spec, part)
    if data_dir is not None:
        file, wish = _file_in(data_dir, name), f"data_dir {data_dir}: expected a folder"
        if not _folder(data_dir).is_dir():
            is_ = "is a file" if _folder(data_dir).exists() else "does not exist"
            raise DataError(f"{wish} with {name} or {name}.gz, found that it {is_}.")
        if file is None:
            raise DataError(f"{wish} with {name} or {name}.gz, found neither file in it.")
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


# --- what the files hold -----------------------------------------------------------------------


def _verified(spec: Spec, files: dict[str, Path | None]) -> dict[str, np.ndarray]:
    """Return the values of both parts, features and target; what has no file is made."""
    with _as_data_error():
        values = parts.auto_mpg() if None in files.values() else {}
        for part, file in files.items():
            if file:
                values[part] = parts.read(file, spec.columns)
            parts.check(
                values[part],
                file or f"{_file_name(spec, part)} as made from mlxtend",
                spec.columns,
                classes=spec.task == "classification",
                rows=spec.rows(part),
                head=spec.head if part == "train" else (),
            )
    return values


def _features_and_target(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ascontiguousarray(values[:, :-1]), np.ascontiguousarray(values[:, -1])


def _read_only(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


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
    with _as_data_error():
        return np.arange(rows) if file is None else parts.blocks(file, rows)
