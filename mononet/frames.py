"""What a results page tabulates, as frames of numbers made from recorded studies.

A frame holds the numbers as they are: accuracy as a fraction, NaN where there is none. Rows stay in
the order of the parameters: no table ranks. `tables` prints them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd
import yaml
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from mononet import data, parameters, statistics
from mononet.printing import ROOT
from mononet.secondary import Secondary
from mononet.study import Study

FEWEST_ROWS = 30  # of a slice that is shown
_OF_A_STUDY = ["n", "mean", "std", "cv_score", "fresh", "row_se"]
SECONDARY = [
    *("name", "changed", "model", "recorded", "level"),
    *("headline_" + name for name in _OF_A_STUDY),
    *_OF_A_STUDY,
    *("gap", "low", "high"),
]


def estimators(studies: Sequence[Study], trivial: Mapping[str, float] | None = None):
    """Every estimator of every complete study, a row a model; then the trivial predictors."""
    frame = pd.DataFrame({study.model: _estimators(study) for study in studies}).T
    for name, value in (trivial or {}).items():
        frame.loc[name, ["mean", "level"]] = [value, None]
    return frame


def _estimators(study: Study) -> dict:
    spec, description = data.SPECS[study.dataset], study.description
    test, fresh, cost = (
        study.runs("test"),
        study.runs("validation"),
        study.record.read_csv("cost.csv"),
    )
    values = test["value"].to_numpy()
    whole = np.isfinite(values).all()
    summary = (
        statistics.summarize(values) if whole else statistics.Summary(len(values), *4 * [np.nan])
    )
    typical = statistics.iqm_interval(values) if whole else statistics.Interval(*3 * [np.nan])
    several = whole and len(values) > 1
    seconds = cost.groupby("step")["seconds"].sum()
    arrays = study.record.read_npz("predictions.npz")
    rows = statistics.row_metric(spec.metric, arrays["target"], arrays["predictions"][0])
    finite = np.isfinite(rows).all()
    return {
        "cv_score": study.selected.mean,
        "fresh": fresh_mean(fresh),
        "fresh_sd": fold_sd(fresh) if not study.entry.deterministic else np.nan,
        "fresh_noise": partition_noise(fresh),
        "n": summary.n,
        "mean": summary.mean,
        "std": summary.std,
        "median": summary.median,
        "iqm": summary.iqm,
        "iqm_low": typical.low if several else np.nan,
        "iqm_high": typical.high if several else np.nan,
        "row_se": statistics.row_standard_error(spec.metric, rows) if finite else np.nan,
        "block_se": statistics.row_standard_error(spec.metric, rows, arrays["block"])
        if finite
        else np.nan,
        "distinct": len(distinct(arrays["predictions"])),
        "constant": int(test["constant"].sum()),
        "one_sided": int(test["one_sided"].sum()),
        "outliers": int(statistics.outlier(values).sum()) if spec.metric == "mse" else np.nan,
        "loss": test["loss"].astype(float).mean(),
        "loss_std": test["loss"].astype(float).std(ddof=1),
        "parameters": description["summary"]["parameters"],
        "trials": len(study.trials()),
        "search_seconds": study.search_seconds(),
        "refit_seconds": seconds.get("refit", np.nan) / len(values),
        "all_seconds": seconds.drop("predict 1,000 rows", errors="ignore").sum(),
        "predict_seconds": cost.loc[cost["step"] == "predict 1,000 rows", "seconds"].iloc[-1],
        "level": study.validation_level(),
    }


def fresh_mean(fresh: pd.DataFrame, column: str = "value") -> float:
    """Mean of validation runs; NaN where one of them came to nothing, as it would be too good
    without it."""
    return float(fresh[column].astype(float).mean(skipna=False))


def fold_sd(fresh: pd.DataFrame, column: str = "value") -> float:
    """Seed sd of validation runs: root of the mean over folds of the variance over seeds; NaN where
    one of them came to nothing."""
    if fresh[column].isna().any():
        return math.nan
    by_seed = fresh.pivot_table(index=["partition", "fold"], columns="seed", values=column)
    return statistics.seed_sd(by_seed.to_numpy())


def partition_noise(fresh: pd.DataFrame) -> float:
    """Sd by which another partition into folds moves the difference between a score on one
    partition and the mean of these: the partition that selected and these are draws of one kind."""
    by_partition = fresh.groupby("partition")["value"].agg(
        lambda v: v.astype(float).mean(skipna=False)
    )
    count = len(by_partition)
    return float(by_partition.std(ddof=1) * np.sqrt(1 + 1 / count)) if count > 1 else np.nan


def trivial(studies: Sequence[Study], y_train: np.ndarray | None) -> dict[str, float]:
    """Test metric of the predictor that needs no features: training mean or majority class.

    Without the training rows it is that of the published ones; empty where their mean is not known.
    """
    spec = data.SPECS[studies[0].dataset]
    whole = studies[0].parameters["max_rows"] is None
    mean = np.mean(y_train) if y_train is not None else spec.target_mean if whole else None
    if mean is None:
        return {}
    target = studies[0].record.read_npz("predictions.npz")["target"]
    one_value = np.full(len(target), mean)
    name = "majority class" if spec.task == "classification" else "training mean"
    return {name: float(statistics.metric(spec.metric, target, one_value))}


def configurations(studies: Sequence[Study]) -> pd.DataFrame:
    """The selected configuration of each study: a row a hyperparameter, a column a model."""
    columns = {}
    for study in studies:
        selected = study.selected
        # A search draws every parameter; those that the selected mode has no use for are no choice.
        used = dict(selected.configuration)
        if used.get("mode") == "split":
            del used["convex_fraction"]
        columns[study.model] = {
            **used,
            "epochs or iterations": selected.stage,
            "at its bound": "yes" if selected.at_bound else "no",
            "trial": selected.number,
            "objective": selected.objective,
        }
    names = dict.fromkeys(name for column in columns.values() for name in column)
    last = ["epochs or iterations", "at its bound", "trial", "objective"]
    return pd.DataFrame(columns, index=[n for n in names if n not in last] + last, dtype=object)


def checks(studies: Sequence[Study]) -> pd.DataFrame:
    """checks.json: a row a model, a column a check: pass, fail or not applicable; and the value."""
    word = {True: "pass", False: "fail", None: "n/a"}
    table = {}
    for study in studies:
        table[study.model] = {}
        for check in study.record.read_json("checks.json"):
            value = "" if check["value"] is None else f" ({check['value']:.2g})"
            table[study.model][check["name"]] = word[check["passed"]] + value
    return pd.DataFrame(table).T


def slices(studies: Sequence[Study]) -> pd.DataFrame:
    """A row a slice of the decision rule and model: rows, metric of one training (the first final
    seed), 95 % interval over test rows. NaN below 30 rows, or where a prediction is not finite."""
    found = []
    for study in studies:
        metric, arrays = data.SPECS[study.dataset].metric, study.record.read_npz("predictions.npz")
        every = np.ones(len(arrays["target"]), dtype=bool)
        names = ["all test rows", *arrays["slices_names"]]
        masks = [every, *arrays["slices"]]
        rows = statistics.row_metric(metric, arrays["target"], arrays["predictions"][0])
        for name, mask in zip(names, masks, strict=True):
            found.append({"slice": str(name), "model": study.model, "n": int(mask.sum())})
            if mask.sum() >= FEWEST_ROWS and np.isfinite(rows[mask]).all():
                # Against a model without any error: the interval of one model's own metric.
                zero = np.zeros(mask.sum())
                inner = statistics.metric_bootstrap(metric, rows[mask], zero, arrays["block"][mask])
                sign = -1.0 if metric == "accuracy" else 1.0
                ends = sorted((sign * inner.low, sign * inner.high))
                found[-1] |= {"value": sign * inner.mean, "low": ends[0], "high": ends[1]}
    return pd.DataFrame(found, columns=["slice", "model", "n", "value", "low", "high"])


def ledger(studies: Sequence[Study]) -> pd.DataFrame:
    """Every opening of the dataset's test part, in order of time; `changed` is what a final one
    has other than the final one before it."""
    frame, before = data.read_ledger(studies[0].ledger), None
    known = contents(studies[0])
    changed = []
    for row in frame.to_dict("records"):
        final = row["kind"] == "final"
        changed.append(_changed(before, row, known) if final and before else "")
        before = row if final else before
    return frame.assign(changed=changed)


def contents(study: Study) -> dict[str, dict]:
    """What every study of a dataset is (identity → content), as recorded beside this one."""
    found = {}
    for path in study.shelf.glob("*/study.json"):
        description = json.loads(path.read_text())
        found[description["identity"]] = description["content"]
    return found


# Parts of a study's content that are named where they differ, and not listed.
WHOLE = {"indicator": "the constrained columns", "space": "the search space", "dataset": "the rows"}


def _changed(before: Mapping, row: Mapping, known: Mapping[str, dict]) -> str:
    """What differs between two final openings: model, parameters, or the configuration alone."""
    if before["model"] != row["model"]:
        return f"the model, {before['model']} before"
    if before["study"] == row["study"]:
        return "the configuration of the same study"
    sides = [_flat(known.get(each["study"], {})) for each in (before, row)]
    if not all(sides):
        return "a study that is not recorded here any more"
    differ = [n for n in sides[0] | sides[1] if sides[0].get(n) != sides[1].get(n)]
    told = [
        WHOLE.get(n) or f"{n} {sides[0].get(n, 'default')} → {sides[1].get(n, 'default')}"
        for n in differ
    ]
    return "; ".join(told) or "the same model, studied anew"


def _flat(content: Mapping) -> dict:
    """The parameters of a study's content by name, and what is told of as a whole."""
    parts = (content.get(name, {}) for name in ("training", "cv", "search", "refit"))
    flat = {name: value for part in parts for name, value in part.items()}
    return flat | {name: content[name] for name in WHOLE if name in content}


def published(dataset: str) -> pd.DataFrame:
    """Published figures of the prior protocol, a row a model; accuracy as a fraction."""
    entry = yaml.safe_load((ROOT / "book/published.yaml").read_text())[dataset]
    percent = entry["unit"] == "percent"
    rows = []
    for figure in entry["figures"]:
        size, mean, std = (np.nan if value is None else value for value in figure["figure"])
        mean, std = (value / 100 if percent else value for value in (mean, std))
        printed = entry["decimals"] - (2 if entry["unit"] == "fraction" else 0)
        rows.append(
            {"model": figure["model"], "source": figure["source"], "parameters": size, "mean": mean}
            | {"std": std, "decimals": printed, "note": figure.get("note", "")}
        )
    return pd.DataFrame(rows).set_index("model")


# --- the challenger against its baselines -------------------------------------------------------


def comparisons(studies: Sequence[Study], rule: Mapping) -> pd.DataFrame:
    """The rule's challenger against each baseline, a row a baseline and set of test rows.

    A gap is positive where the challenger is better, in the unit of the metric. `gap`, `low` and
    `high` are of one trained pair (first final seeds), test rows or blocks drawn again;
    `detectable` is the smallest true difference that such rows show at 80 % power, `matters` the
    rule's smallest difference that matters. `fresh_gap` and `seed_sd` (in the rule's loss, over
    the fresh folds) stand in the row of all test rows. Empty unless both sides are recorded.
    """
    recorded = {study.model: study for study in studies}
    found = []
    for name in rule["baselines"]:
        if name in recorded and rule["challenger"] in recorded:
            found += comparison(recorded[rule["challenger"]], recorded[name], rule)
    return pd.DataFrame(found)


def comparison(challenger: Study, baseline: Study, rule: Mapping) -> list[dict]:
    """One challenger against one baseline: the rows of `comparisons`, all test rows first."""
    metric = data.SPECS[challenger.dataset].metric
    arrays = challenger.record.read_npz("predictions.npz")
    fresh = [study.runs("validation") for study in (baseline, challenger)]
    sds = [
        fold_sd(runs, "loss")
        for study, runs in zip((baseline, challenger), fresh, strict=True)
        if not study.entry.deterministic
    ]
    gap = fresh_mean(fresh[0], "loss") - fresh_mean(fresh[1], "loss")
    rows = []
    every = np.ones(len(arrays["target"]), dtype=bool)
    masks = dict(zip(arrays["slices_names"], arrays["slices"], strict=True))
    for name, mask in {"all test rows": every, **masks}.items():
        row = {"rows": str(name), "baseline": baseline.model, "challenger": challenger.model}
        rows.append(row | {"n": int(mask.sum())})
        if name == "all test rows":
            rows[-1] |= {"fresh_gap": gap, "seed_sd": max(sds, default=np.nan)}
        if pair := paired(baseline, challenger, mask):
            rows[-1] |= pair | {"matters": matters(rule, metric, pair["rmse"])}
    if rule["loss"] == "log_loss" and "gap" in rows[0]:
        rows[0] |= loss_gap(baseline, challenger)
    return rows


def _on_the_same_rows(*studies: Study) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Test predictions (seeds, rows) of each study; target and block of the rows."""
    arrays = [study.record.read_npz("predictions.npz") for study in studies]
    return [each["predictions"] for each in arrays], arrays[-1]["target"], arrays[-1]["block"]


def by_row(baseline: Study, challenger: Study) -> tuple[list[np.ndarray], np.ndarray]:
    """`statistics.row_metric` of the baseline and of the challenger, (seeds, rows) each, and the
    block of every row."""
    both, target, block = _on_the_same_rows(baseline, challenger)
    metric = data.SPECS[challenger.dataset].metric
    return [statistics.row_metric(metric, target, predictions) for predictions in both], block


def test_losses(study: Study) -> np.ndarray:
    """The squared error of each test row of a regression, mean over the final seeds."""
    arrays = study.record.read_npz("predictions.npz")
    return statistics.row_loss("regression", arrays["target"], arrays["predictions"]).mean(axis=0)


def distinct(predictions: np.ndarray) -> np.ndarray:
    """The first seed of every trained model among `predictions` (seeds, rows): seeds that move
    nothing train one model, however many they are."""
    return np.sort(np.unique(predictions, axis=0, return_index=True)[1])


def pairs_apart(baseline: Study, challenger: Study) -> np.ndarray:
    """`statistics.pairs_apart` over all pairs of trained models, the baseline's × the challenger's,
    those with a prediction that is not finite left out."""
    metric = data.SPECS[challenger.dataset].metric
    both, target, block = _on_the_same_rows(baseline, challenger)
    sides = [statistics.row_metric(metric, target, each[distinct(each)]) for each in both]
    a, c = (side[np.isfinite(side).all(axis=1)] for side in sides)
    return statistics.pairs_apart(metric, a, c, block)


def loss_gap(baseline: Study, challenger: Study) -> dict:
    """The paired gap of the log loss on all test rows, as `paired` has that of the accuracy."""
    both, target, block = _on_the_same_rows(baseline, challenger)
    a, c = (statistics.row_loss("classification", target, each[0]) for each in both)
    # A mean row loss is resampled as an MSE is.
    inner = statistics.metric_bootstrap("mse", a, c, block)
    return {"loss_gap": inner.mean, "loss_low": inner.low, "loss_high": inner.high}


def paired(baseline: Study, challenger: Study, mask: np.ndarray | None = None) -> dict:
    """One trained pair (first final seeds) on the same test rows; empty where nothing is shown.

    `gap` with `low` and `high`, test rows or blocks drawn again, is positive where the challenger
    is better, in the unit of the metric; `detectable` is the smallest true difference that so many
    rows or `blocks` show at 80 % power; `rmse` the root of the baseline's mean row loss. For an
    accuracy the rows that only one side has right, and the exact McNemar `p`.
    """
    metric = data.SPECS[challenger.dataset].metric
    both, target, block = _on_the_same_rows(baseline, challenger)
    mask = np.ones(len(target), dtype=bool) if mask is None else mask
    if mask.sum() < FEWEST_ROWS:
        return {}
    a, c = (statistics.row_metric(metric, target, each[0])[mask] for each in both)
    if not np.isfinite([a, c]).all():
        return {}
    inner = statistics.metric_bootstrap(metric, a, c, block[mask])
    moved = np.subtract(*(statistics.influences(metric, side, block[mask]) for side in (a, c)))
    disagree = asdict(statistics.mcnemar_exact(a, c)) if metric == "accuracy" else {}
    return disagree | {
        "gap": inner.mean,
        "low": inner.low,
        "high": inner.high,
        "detectable": statistics.detectable_difference(moved.std(ddof=1), len(moved)),
        "rmse": float(np.sqrt(a.mean())) if metric != "accuracy" else np.nan,
        "blocks": len(moved),
    }


def drawn(rule: Mapping, row: Mapping) -> str:
    """What an interval draws again: the rule's blocks; rows where no row's block is known."""
    return rule["blocks"] if row.get("blocks", 0) < row["n"] else "rows"


def drawn_of(study: Study) -> str:
    """What an interval over a study's test rows draws again."""
    block = study.record.read_npz("predictions.npz")["block"]
    row = {"blocks": len(np.unique(block)), "n": len(block)}
    return drawn(parameters.read_rule(study.dataset), row)


def matters(rule: Mapping, metric: str, rmse: float) -> float:
    """The rule's smallest difference that matters on the metric's scale, from an error of `rmse`:
    an RMSE better by v is an MSE better by 2 · rmse · v − v²."""
    value, given = rule["smallest_difference"]["value"], rule["smallest_difference"]["scale"]
    if given == metric:
        return value
    if (given, metric) == ("rmse", "mse"):
        return 2 * rmse * value - value**2
    if (given, metric) == ("mse", "rmse"):
        return value / (2 * rmse)
    return math.nan


def secondary(found: Sequence[Secondary]) -> pd.DataFrame:
    """A row a secondary study: mean, std, n and score of its headline study and of itself.

    `gap`, `low` and `high` are of one trained pair on the same test rows, positive where the
    secondary study is better. NaN where one of the two is not recorded.
    """
    rows = []
    for each in found:
        row = {"name": each.name, "changed": each.changed, "model": each.study.model}
        row |= {"recorded": each.study.complete}
        row["level"] = each.study.validation_level()
        for prefix, study in (("headline_", each.headline), ("", each.study)):
            values = _estimators(study) if study.complete else {}
            row |= {prefix + name: values.get(name, np.nan) for name in _OF_A_STUDY}
        if each.study.complete and each.headline.complete:
            row |= paired(each.headline, each.study)
        rows.append(row)
    return pd.DataFrame(rows, columns=SECONDARY)


# --- the training rows --------------------------------------------------------------------------


def constraints(dataset: data.Dataset) -> pd.DataFrame:
    """Do the training rows agree with the constraints? A row a constrained feature.

    `rank` is Spearman's correlation with the target; `declared` and `opposite` the share of the
    target's variance that the best monotone curve in this feature alone explains, in the declared
    direction and in the other; `held` the least-squares slope with the other columns held fixed, in
    the target's unit a training sd of the feature, NaN where the others determine the feature.
    """
    X, y = dataset.X_train, dataset.y_train
    slopes = _slopes(X, y)
    rows = {}
    for j in np.flatnonzero(dataset.indicator):
        sign = int(dataset.indicator[j])
        declared, opposite = (
            1
            - np.var(y - IsotonicRegression(increasing=up).fit(X[:, j], y).predict(X[:, j]))
            / np.var(y)
            for up in (sign > 0, sign < 0)
        )
        rank = float(stats.spearmanr(X[:, j], y).statistic)
        rows[dataset.features[j]] = {
            "sign": sign,
            "rank": rank,
            "declared": float(declared),
            "opposite": float(opposite),
            "held": float(slopes[j]),
        }
    return pd.DataFrame(rows).T


def _slopes(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Least-squares slopes of y, one training sd of a column, (columns,); NaN where a column is a
    linear combination of others, so that no slope with the others held fixed exists."""
    sd = X.std(axis=0, ddof=1)
    Z = (X - X.mean(axis=0)) / np.where(sd > 0, sd, 1.0)
    values, vectors = np.linalg.eigh(Z.T @ Z / len(Z))
    free = values > 1e-9 * values.max()
    slopes = vectors[:, free] @ (vectors[:, free].T @ (Z.T @ (y - y.mean())) / values[free])
    tied = np.abs(vectors[:, ~free]).max(axis=1, initial=0.0) > 1e-6
    return np.where(tied, np.nan, slopes / len(Z))
