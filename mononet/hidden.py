"""Hidden randomness: defaults that draw at random, read from the installed libraries themselves.

Nothing is recorded. Every cell is found by asking the installed version: its signature, or what a
small fit did.
"""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata

import numpy as np
import pandas as pd
import torch
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from mononet import parameters, printing, prose
from mononet.printing import Column, Html

BINNED = 200_000  # rows; with more, the edges of boosting's bins are found on a sample of them
LIBRARIES = ("scikit-learn", "numpy", "pandas", "scipy", "torch")


@dataclass(frozen=True)
class Chapter:
    """Numbers of training rows at which the defaults that depend on them are looked at."""

    rows: tuple[int, ...]

    def show(self, name: str) -> Html:
        """A table or words, by name."""
        return SHOWN[name](self)


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters, checked; other names are left alone."""
    return Chapter(tuple(parameters.given("hidden_randomness", given)["row_counts"]))


def default(function: Callable, name: str):
    """The default of a parameter, from the signature."""
    return inspect.signature(function).parameters[name].default


def rows_of(n: int) -> tuple[np.ndarray, np.ndarray]:
    """So many rows of three columns and a class that depends on them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, (X.sum(axis=1) + rng.normal(size=n) > 0).astype(int)


def steps(n: int) -> int:
    """Gradient steps that MLPClassifier takes in one epoch over n rows, by its default batch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MLPClassifier((2,), max_iter=1, random_state=0).fit(*rows_of(n))._optimizer.t


def stops_early(n: int) -> bool:
    """Whether HistGradientBoosting holds rows out to stop early, by default, with n rows."""
    return bool(HistGradientBoostingClassifier(max_iter=1).fit(*rows_of(n)).do_early_stopping_)


@functools.cache
def threshold(low: int = 100, high: int = 200_000) -> int | None:
    """The smallest number of rows with which boosting stops early by default; None up to high."""
    if stops_early(low) or not stops_early(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if stops_early(middle) else (middle, high)
    return high


def seeds_move(n: int) -> bool:
    """Whether ten iterations of boosting, else at its defaults, differ between two seeds."""
    X, y = rows_of(n)
    kind = functools.partial(HistGradientBoostingClassifier, max_iter=10)
    first, second = (kind(random_state=seed).fit(X, y) for seed in (0, 1))
    return not np.array_equal(first.predict_proba(X), second.predict_proba(X))


@functools.cache
def bins_move(n: int) -> bool:
    """Whether boosting of n rows, all of them learned from and its one column always considered,
    differs between two seeds: the edges of its bins may be found on a sample of the rows."""
    X, y = rows_of(n)
    kind = functools.partial(HistGradientBoostingClassifier, max_iter=1, early_stopping=False)
    first, second = (kind(random_state=seed).fit(X[:, :1], y) for seed in (0, 1))
    return not np.array_equal(first.predict_proba(X[:, :1]), second.predict_proba(X[:, :1]))


def ddof(std: Callable) -> int | None:
    """The delta degrees of freedom of a function's default standard deviation."""
    values = np.array([1.0, 2.0, 4.0, 8.0])
    found = float(std(values))
    return next((d for d in (0, 1) if math.isclose(found, np.std(values, ddof=d))), None)


def versions(_: Chapter) -> Html:
    """The versions that everything below was read from."""
    told = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    return prose.paragraph(f"Read from the installed versions: {told}.")


def _table(rows: list[tuple[str, str, str, str]], caption: str) -> Html:
    frame = pd.DataFrame(rows, columns=["where", "what", "found", "why"]).set_index("where")
    columns = [
        Column("parameter or quantity", lambda row: row["what"], ""),
        Column("default", lambda row: row["found"], ""),
        Column("why it matters", lambda row: row["why"], ""),
    ]
    return printing.render(frame, columns, caption)


def draws(chapter: Chapter) -> Html:
    """Defaults that draw at random."""
    mlp, boosting = MLPClassifier, HistGradientBoostingClassifier
    counted = ", ".join(f"{steps(n):,} with {n:,} rows" for n in chapter.rows)
    limit = threshold()
    above = f"from {limit:,} rows on" if limit else "at no size looked at"
    rows = [
        (
            "MLPClassifier",
            "random_state",
            str(default(mlp, "random_state")),
            "Two calls give two networks. Without a seed a result cannot be repeated, and with one "
            "seed its spread is not known.",
        ),
        (
            "MLPClassifier",
            "shuffle",
            str(default(mlp, "shuffle")),
            "The order of batches is drawn anew every epoch: a second noise beside initialization.",
        ),
        (
            "MLPClassifier",
            "batch_size",
            f"{default(mlp, 'batch_size')}; steps an epoch: {counted}",
            "The batch depends on the number of rows, min(200, n): with few rows one step an "
            "epoch, so that equal epochs are not equal training.",
        ),
        (
            "MLPClassifier",
            "early_stopping",
            str(default(mlp, "early_stopping")),
            "It trains until the training loss stalls or the epochs end; no row is held out.",
        ),
        (
            "MLPClassifier",
            "validation_fraction",
            str(default(mlp, "validation_fraction")),
            "Once early stopping is on, this share of the training rows is drawn by the seed and "
            "not learned from: the seed then also decides which rows the network sees.",
        ),
        (
            "HistGradientBoosting",
            "early_stopping",
            f"{default(boosting, 'early_stopping')}: on {above}",
            "A model that needed no seed starts to need one when the data grow.",
        ),
        (
            "HistGradientBoosting",
            "random_state",
            str(default(boosting, "random_state")),
            "Without effect until early stopping, a share of features below 1, or the sample of "
            f"{BINNED:,} rows on which the edges of bins are found draws something.",
        ),
        (
            "train_test_split",
            "shuffle, random_state",
            f"{default(train_test_split, 'shuffle')}, {default(train_test_split, 'random_state')}",
            "Another split at every call; scores of two runs are not paired.",
        ),
        (
            "KFold",
            "shuffle",
            str(default(KFold, "shuffle")),
            "Folds follow the order of the file: nothing is drawn, and a sorted file gives folds "
            "that differ in kind.",
        ),
    ]
    return _table(rows, "Defaults that decide what is drawn at random.")


def boosting(_: Chapter) -> Html:
    """What the threshold does to boosting's dependence on its seed."""
    limit = threshold()
    if limit is None:
        return prose.paragraph("Boosting's early stopping does not depend on the number of rows.")
    below, above = seeds_move(limit - 1), seeds_move(limit)
    changes = {False: "gives the same predictions", True: "gives other predictions"}
    return prose.paragraph(
        f"Tried with ten iterations: with {limit - 1:,} rows another seed "
        f"{changes[below]}, with {limit:,} rows it {changes[above]}.",
        "One row more, and boosting is not free of seeds either."
        if above and not below
        else "The threshold alone does not decide whether its seed matters.",
        f"Tried without early stopping: with {BINNED:,} rows another seed "
        f"{changes[bins_move(BINNED)]}, with {BINNED + 1:,} rows it "
        f"{changes[bins_move(BINNED + 1)]}; of the datasets here only Loan has so many.",
        "In this book early stopping is off for every boosting model, the number of iterations "
        "is chosen by cross-validation, and the share of features is searched, so that seeds "
        "can move it.",
    )


def spreads(_: Chapter) -> Html:
    """Which divisor each library's standard deviation takes."""
    asked = {
        "numpy.std": np.std,
        "pandas.Series.std": lambda x: pd.Series(x).std(),
        "torch.std": lambda x: torch.std(torch.as_tensor(x)),
        "scipy.stats.sem (times √n)": lambda x: stats.sem(x) * math.sqrt(len(x)),
        "StandardScaler": lambda x: StandardScaler().fit(x[:, None]).scale_[0],
    }
    why = {
        0: "Divides by n: describes these values; as an estimate from few of them it is too small.",
        1: "Divides by n − 1: estimates the spread of more such values.",
        None: "Neither divisor.",
    }
    rows = [(name, "ddof", str(ddof(f)), why[ddof(f)]) for name, f in asked.items()]
    return _table(rows, "The standard deviation of the same values is not the same everywhere.")


def ratio(_: Chapter) -> Html:
    """How much the two divisors differ for a few seeds."""
    told = ", ".join(f"{100 * (1 - math.sqrt((n - 1) / n)):.0f} % for {n}" for n in (3, 5, 10, 20))
    return prose.paragraph(
        f"With ddof 0 the spread over seeds comes out too small by {told} seeds. Every spread "
        "of this book has ddof 1."
    )


SHOWN = {
    "versions": versions,
    "draws": draws,
    "boosting": boosting,
    "spreads": spreads,
    "ratio": ratio,
}
