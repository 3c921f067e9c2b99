"""What the published files show about themselves: ranges, identities between columns, shared posts.

Training rows alone are read, so nothing here opens a test part. A column that was scaled over both
parts gives itself away when its training rows do not fill the whole range.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from mononet import experiments, prose, statistics
from mononet.experiments import Chapter, Experiment, source
from mononet.printing import TITLES, Column, Html, number, render, significant

SCALED_TOGETHER = ("compas", "blog")  # min-max over training and test rows
FRONT = range(8)  # blog's columns that the preprocessing moved to the front
NUMERIC = range(8, 59)  # the columns behind them; words and weekdays follow
EXACT = 1 - 1e-9


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters, checked; records it where asked to."""
    return experiments.open_chapter("provenance", given, PARTS, SHOWN)


# --- what is recorded -------------------------------------------------------------------------


def columns(experiment: Experiment) -> pd.DataFrame:
    """Every column of the training parts: distinct values, smallest and largest."""
    found = []
    for name in experiment.parameters["datasets"]:
        rows = experiment.load(name)
        X = rows.X_train
        frame = pd.DataFrame({"dataset": name, "feature": rows.features})
        frame["constrained"] = rows.indicator != 0
        frame["distinct"] = [len(np.unique(column)) for column in X.T]
        found.append(frame.assign(low=X.min(axis=0), high=X.max(axis=0)))
    return pd.concat(found, ignore_index=True)


def labels(experiment: Experiment) -> pd.DataFrame:
    """Training rows, and how many of them are positive (classification) or zero (regression)."""
    found = []
    for name in experiment.parameters["datasets"]:
        rows = experiment.load(name)
        y, task = rows.y_train, rows.task
        count = (y == 1).sum() if task == "classification" else (y == 0).sum()
        found.append((name, task, len(y), count, y.mean(), y.min(), y.max()))
    names = ["dataset", "task", "rows", "count", "mean", "low", "high"]
    return pd.DataFrame(found, columns=names)


def identities(experiment: Experiment) -> pd.DataFrame:
    """For each of blog's numeric columns behind the front: the pair of front columns that explains
    most of its variance, with that share (R²), the next pair's, and the largest residual."""
    if "blog" not in experiment.parameters["datasets"]:
        return pd.DataFrame(columns=["feature", "first", "second", "r2", "next_r2", "residual"])
    rows = experiment.load("blog")
    X, names = rows.X_train, rows.features
    pairs = list(itertools.combinations(FRONT, 2))
    found = []
    for target in NUMERIC:
        fits = [explained(X[:, pair], X[:, target]) for pair in pairs]
        order = np.argsort([-r2 for r2, _ in fits], kind="stable")
        (first, second), (r2, residual) = pairs[order[0]], fits[order[0]]
        row = (names[target], names[first], names[second], r2, fits[order[1]][0], residual)
        found.append(row)
    return pd.DataFrame(found, columns=["feature", "first", "second", "r2", "next_r2", "residual"])


def explained(X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """R² of the least-squares line of y (rows,) on X (rows, columns), and its largest residual."""
    design = np.column_stack([X, np.ones(len(X))])
    solution, *_ = np.linalg.lstsq(design, y, rcond=None)
    residual = y - design @ solution
    return float(1 - residual.var() / y.var()), float(np.abs(residual).max())


def holdouts(experiment: Experiment) -> pd.DataFrame:
    """Blog: validation RMSE of boosting at its defaults on a fifth of the training rows, drawn by
    row or by post, and the share of rows whose post has another row in the training part."""
    if "blog" not in experiment.parameters["datasets"]:
        return pd.DataFrame(columns=["drawn", "seed", "rmse", "shared"])
    rows = experiment.load("blog")
    X, y = rows.X_train, rows.y_train
    sizes = np.bincount(rows.groups)
    shared = float((sizes[rows.groups] > 1).mean())
    found = []
    for seed in range(experiment.parameters["repetitions"]):
        by_row = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed)
        for drawn, (train, validation) in (("row", by_row), ("post", rows.splits(seed, 1)[0])):
            with threadpool_limits(1):  # more would wait for each other on a busy machine
                model = HistGradientBoostingRegressor(random_state=0).fit(X[train], y[train])
            rmse = statistics.metric("rmse", y[validation], model.predict(X[validation]))
            found.append((drawn, seed, float(rmse), shared))
    return pd.DataFrame(found, columns=["drawn", "seed", "rmse", "shared"])


PARTS = {
    "columns": columns,
    "labels": labels,
    "identities": identities,
    "holdouts": holdouts,
}


# --- what the chapter shows -------------------------------------------------------------------


def stretched(experiment: Experiment) -> pd.DataFrame:
    """Columns scaled over both parts whose largest or smallest value lies in the test part."""
    found = experiment.table("columns")
    together = found["dataset"].isin(SCALED_TOGETHER)
    short = (found["high"] < 1 - 1e-9) | ((found["low"] > 1e-9) & (found["distinct"] > 2))
    found = found[together & short]
    return found.assign(factor=1 / (found["high"] - found["low"]))


def ranges(experiment: Experiment) -> Html:
    """The columns whose scale was set by a test row."""
    found = stretched(experiment)
    if found.empty:
        return prose.paragraph("No column read here was scaled by a row of the test part.")
    found = found.set_index(found["dataset"].map(TITLES) + ", " + found["feature"])
    columns = [
        Column("constrained", lambda row: "yes" if row["constrained"] else "no", ""),
        Column("smallest", lambda row: number(row["low"], 3)),
        Column("largest", lambda row: number(row["high"], 3)),
        Column("factor", lambda row: number(row["factor"], 2)),
    ]
    note = (
        "Training rows. Had the column been scaled with training rows alone, they would fill 0 to "
        "1: every value would be less by the smallest, and then larger by the factor."
    )
    caption = "Columns whose scale was set by a test row"
    files = source(experiment, "columns")
    return render(found, columns, caption, note, source=files, corner="column")


def leak(experiment: Experiment) -> Html:
    """How many columns the joint scaling touched."""
    found, every = stretched(experiment), experiment.table("columns")
    items = []
    for name in (d for d in SCALED_TOGETHER if d in every["dataset"].to_numpy()):
        touched = found[found["dataset"] == name]
        count = (every["dataset"] == name).sum()
        largest = f", by a factor of up to {touched['factor'].max():.2f}" if len(touched) else ""
        items.append(
            f"{TITLES[name]}: {len(touched)} of {count} columns would be scaled otherwise with "
            f"training rows alone{largest}; {touched['constrained'].sum()} of them constrained."
        )
    return prose.bullets(items)


def indicator(experiment: Experiment) -> Html:
    """The proof, from the columns alone: which columns are exact functions of two front ones."""
    found = experiment.table("identities")
    if found.empty:
        return prose.paragraph("Blog's rows were not read.")
    exact, others = found[found["r2"] > EXACT], found[found["r2"] <= EXACT]
    exact = exact.set_index("feature")
    columns = [
        Column("of", lambda row: f"{row['first']}, {row['second']}", ""),
        Column("R²", lambda row: number(row["r2"], 6)),
        Column("next pair's R²", lambda row: number(row["next_r2"], 3)),
        Column("largest residual", lambda row: f"{row['residual']:.0e}".replace("-", "−")),
    ]
    note = (
        f"All {len(found)} numeric columns behind the front were set against all "
        f"{len(FRONT) * (len(FRONT) - 1) // 2} pairs of the eight columns at the front. Of the "
        f"{len(others)} that are not in the table none has an R² above "
        f"{number(others['r2'].max(), 3)}."
    )
    caption = "Columns that are exact linear functions of two of feature_0 … feature_7"
    files = source(experiment, "identities")
    return render(exact, columns, caption, note, source=files, corner="column")


def posts(experiment: Experiment) -> Html:
    """What a holdout drawn by row would have flattered."""
    found = experiment.table("holdouts")
    if found.empty:
        return prose.paragraph("Blog's rows were not read.")
    rmse = found.pivot(index="seed", columns="drawn", values="rmse")
    gap = rmse["post"] - rmse["row"]
    told = f"{significant(rmse['row'].mean(), 3)} by row, {significant(rmse['post'].mean(), 3)}"
    se = gap.std(ddof=1) / len(gap) ** 0.5 if len(gap) > 1 else math.nan
    seen = (
        "so a holdout drawn by row flatters"
        if gap.mean() > 2 * se
        else "so no flattery by rows of the same post can be told from the luck of the draw"
    )
    return prose.paragraph(
        f"{100 * found['shared'].iloc[0]:.1f} % of the training rows share their post with another "
        "training row. Boosting at its defaults, trained on four fifths of them and judged on the "
        f"rest, has an RMSE of {told} by post (means of {len(gap)} holdouts each). The difference "
        f"is {significant(gap.mean())} with a standard error of {significant(se)}, {seen}. Rows of "
        "one post are not independent all the same, and the holdout that selects keeps them on one "
        "side."
    )


def balance(experiment: Experiment) -> Html:
    """Rows and labels of each training part."""
    items = []
    for row in experiment.table("labels").to_dict("records"):
        percent = f"{100 * row['count'] / row['rows']:.1f} %"
        share = f"{row['count']:,} of {row['rows']:,} training rows ({percent})"
        if row["task"] == "classification":
            items.append(f"{TITLES[row['dataset']]}: {share} are positive.")
        else:
            items.append(
                f"{TITLES[row['dataset']]}: the target runs from {row['low']:g} to "
                f"{row['high']:g}, mean {significant(row['mean'], 3)}; {share} are zero."
            )
    return prose.bullets(items)


SHOWN = {
    "ranges": ranges,
    "leak": leak,
    "indicator": indicator,
    "posts": posts,
    "balance": balance,
}
