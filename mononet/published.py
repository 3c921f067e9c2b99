"""What is published about the five datasets, and what had been seen of them before this book.

The rows are the published, preprocessed files of "Constrained Monotonic Neural Networks" (ICML
2023), Zenodo record 7968969, doi:10.5281/zenodo.7968969, CC-BY-4.0; no split is ever re-drawn.
``published_heads.json`` beside this module holds their column names and first five training rows
(6 decimals), as the reference experiments print them.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TARGET = "ground_truth"
INDICATORS = ("corrected", "published")


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
    target_mean: float | None  # of the training rows: all that the trivial predictor needs
    seen_before: str  # row 0 of its ledger
    holdout: bool = False  # one 80/20 holdout instead of folds
    post: tuple[str, ...] = ()  # features that together tell one post from another
    test_rows_exact: bool = True
    joint_scaling: str = ""  # why the preprocessing was not fitted on training rows alone

    @property
    def columns(self) -> list[str]:
        """The features, then the target."""
        return [*self.features, TARGET]

    def rows(self, part: str) -> int | None:
        """Return how many rows "train" or "test" must have; None where that is not known."""
        if part == "train":
            return self.train_rows
        return self.test_rows if self.test_rows_exact else None

    def indicator(self, kind: str = "corrected") -> np.ndarray:
        """-1, 0 or +1 a feature; `kind` is "corrected" or "published"."""
        signs = dict(zip(INDICATORS, (self.monotone, self.published_monotone), strict=True))[kind]
        return np.array([signs.get(feature, 0) for feature in self.features])


FINGERPRINTS = {
    "auto_mpg": "d9284829d48051033b1b6633399af10d6433e4e2bcebd6351493a6000f621f67",
    "heart": "215319162fdf96cbd202b10fdcd7fd4c6ac3c19f1f78807351d2ffdfa97be634",
    "compas": "031e081be8cece171107f1e1d8256c00c801495b55d1cc8d7f2883739760b733",
    "blog": "8ee22a033911c57c9dbcdd45fe3ed0f5e7645f53284791c324d49cc57dd9bf5e",
}
# Facts of the rows with these fingerprints, for pages that are built where the rows are not.
TARGET_MEANS = {
    "auto_mpg": 23.254140127388535,
    "heart": 0.2892561983471074,
    "compas": 0.4599959489568564,
    "blog": 0.09407900300198722,
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
_JOINT = "its columns are min-max scaled over training and test rows together, as published"
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
        target_mean=TARGET_MEANS.get(name),
        seen_before=prototype and _SEEN + prototype,
        **more,
    )


_SPECS = (
    _spec("auto_mpg", "auto", "regression", "mse", 314, 78, prototype="split and mixed"),
    _spec("heart", "heart", "classification", "accuracy", 242, 61, prototype="split and mixed"),
    _spec(
        "compas",
        "compas",
        "classification",
        "accuracy",
        4937,
        1235,
        prototype="split and mixed",
        joint_scaling=_JOINT,
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
        joint_scaling=_JOINT,
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
        joint_scaling="on which rows its columns were scaled is not published",
    ),
)
SPECS: dict[str, Spec] = {spec.name: spec for spec in _SPECS}
