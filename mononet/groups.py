"""Error rates of a classification by group of the decision rule: frame, tables and words.

A rate is the mean over the final trainings, at the threshold 0.5, with a Wilson interval that
speaks of the rows alone; beside it the lowest and the highest of the trainings. Nothing here
recommends anything about the people behind the rows.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from mononet import frames, printing
from mononet.printing import Column, Html, number, render
from mononet.study import Study

RATES = {
    "false_positive": "false positive rate",
    "false_negative": "false negative rate",
    "error": "error rate",
}
MOVES = 0.05  # of a false positive rate between two models: a trigger of the rule
TRIGGER = "false positive rate moves"  # in the rule's words


def frame(studies: Sequence[Study]) -> pd.DataFrame:
    """A row a group, model and rate: `n` rows that could be wrong; `value`, the mean over final
    seeds, with `low` and `high` over such rows; `least`, `most` and the sample standard deviation
    `seed_sd` of the seeds. NaN below 30 such rows.

    A false positive rate is the share of positive calls among the negatives, a false negative rate
    that of negative calls among the positives, the error rate that of wrong calls among all; the
    share of positives among all, which no model changes, has the model "rows".
    """
    found = []
    for study in studies:
        arrays = study.record.read_npz("predictions.npz")
        positive, called = arrays["target"] > 0.5, arrays["predictions"] > 0.5
        among = {"false_positive": ~positive, "false_negative": positive}
        for name, mask in _masks(arrays).items():
            for rate in RATES:
                rows = mask & among.get(rate, True)
                wrong = called[:, rows] != positive[rows]
                found.append(_row(name, study.model, rate, wrong))
    if studies:
        arrays = studies[0].record.read_npz("predictions.npz")
        for name, mask in _masks(arrays).items():
            found.append(_row(name, "rows", "positive", (arrays["target"][mask] > 0.5)[None]))
    columns = ["group", "model", "rate", "n", "value", "low", "high", "least", "most", "seed_sd"]
    return pd.DataFrame(found, columns=columns)


def _masks(arrays: Mapping) -> dict[str, np.ndarray]:
    every = {"all test rows": np.ones(len(arrays["target"]), dtype=bool)}
    return every | dict(zip(map(str, arrays["groups_names"]), arrays["groups"], strict=True))


def _row(group: str, model: str, rate: str, hits: np.ndarray) -> dict:
    """One rate from `hits`, bool (seeds, rows)."""
    seeds, n = hits.shape
    row = {"group": group, "model": model, "rate": rate, "n": n}
    if n < frames.FEWEST_ROWS:
        return row
    shares = hits.mean(axis=1)
    # That of one training whose rate is the mean: averaging trainings adds no rows.
    test = stats.binomtest(round(n * shares.mean()), n)
    interval = test.proportion_ci(0.95, method="wilson")
    return row | {
        "value": float(shares.mean()),
        "low": float(interval.low),
        "high": float(interval.high),
        "least": float(shares.min()),
        "most": float(shares.max()),
        "seed_sd": float(shares.std(ddof=1)) if seeds > 1 else math.nan,
    }


def table(studies: Sequence[Study], rate: str) -> Html:
    """One rate of every model by group, with intervals and the number of rows behind them."""
    long = frame(studies)
    saved = long[long["rate"].isin([rate, "positive"])]
    one = long[long["rate"] == rate]
    sizes = dict(zip(one["group"], one["n"], strict=True))
    few = [f"{group} ({n})" for group, n in sizes.items() if n < frames.FEWEST_ROWS]
    sizes = {group: n for group, n in sizes.items() if n >= frames.FEWEST_ROWS}
    cells = {(row["group"], row["model"]): row for row in saved.to_dict("records")}
    models = [study.model for study in studies]
    names = [*models, "rows"] if rate == "error" else models
    printed = pd.DataFrame({g: [_cell(cells[g, m]) for m in names] for g in sizes}, index=names)
    printed = printed.rename(index={"rows": "share of positives"})
    columns = [
        Column(f"{group}, n\u00a0=\u00a0{n:,}", lambda row, group=group: row[group], "num mn-break")
        for group, n in sizes.items()
    ]
    among = {
        "false_positive": "share of positive calls among the n rows whose label is negative",
        "false_negative": "share of negative calls among the n rows whose label is positive",
        "error": "share of wrong calls; the last row is the share of positive labels",
    }
    note = (
        f"{RATES[rate].capitalize()}: {among[rate]}. Mean over the final trainings, threshold 0.5, "
        "with a 95 % interval over the rows (Wilson); in parentheses the lowest and the highest "
        "of the trainings, where they differ."
    )
    if few:
        note += f" Not shown, below {frames.FEWEST_ROWS} such rows: {', '.join(few)}."
    title = f"{RATES[rate].capitalize()} by group (%)"
    files = printing.source(studies, "predictions.npz")
    options = {"source": files, "corner": "model", "numbers": saved}
    return render(printed, columns, title, note, **options)


def _cell(row: Mapping) -> str:
    value, low, high = (number(100 * row[name], 0) for name in ("value", "low", "high"))
    least, most = (number(100 * row[name], 0) for name in ("least", "most"))
    interval = f"{value}\u00a0[{low},\u00a0{high}]"  # a narrow column breaks before the seeds
    return interval + (f" ({least}–{most})" if least != most else "")


def words(studies: Sequence[Study], rule: Mapping) -> Html:
    """How far the rates of the rule's models lie apart among groups, and whether a trigger of the
    rule is met."""
    whole = frame(studies)
    long = whole[whole["group"] != "all test rows"]
    features = {part["name"]: part["feature"].split("_")[0] for part in rule["groups"]}
    long = long.assign(attribute=long["group"].map(features))
    shown = long.dropna(subset="value")
    named = [m for m in (rule["challenger"], *rule["baselines"]) if m in set(shown["model"])]
    said = [
        f"{model}, by {attribute}: {text}."
        for model in named or [study.model for study in studies]
        for attribute, rows in shown[shown["model"] == model].groupby("attribute", sort=False)
        if (text := _apart(rows))
    ]
    items = "".join(f"<li>{html.escape(text)}</li>" for text in said)
    small = long[(long["rate"] == "error") & long["value"].isna()]["group"].unique()
    after = f" Too few rows to say anything about: {', '.join(small)}." if len(small) else ""
    return Html(f"<ul>{items}</ul><p>{html.escape(_trigger(shown, rule) + after)}</p>")


def moved(challenger: Study, baseline: Study) -> bool:
    """Whether a group's mean false positive rate moves by more than `MOVES` between the two."""
    long = frame([challenger, baseline])
    rates = _false_positives(long[long["group"] != "all test rows"])
    return bool(((rates[challenger.model] - rates[baseline.model]).abs() > MOVES).any())


def _false_positives(long: pd.DataFrame) -> pd.DataFrame:
    """False positive rates, groups × models."""
    one = long[long["rate"] == "false_positive"]
    return one.pivot_table(index="group", columns="model", values="value")


def _apart(rows: pd.DataFrame) -> str:
    parts = []
    for rate in ("false_positive", "false_negative"):
        one = rows[rows["rate"] == rate]
        if len(one) < 2:
            continue
        low, high = (one.loc[index] for index in (one["value"].idxmin(), one["value"].idxmax()))
        lie = "apart" if low["high"] < high["low"] else "overlapping"
        parts.append(
            f"{RATES[rate]} from {_percent(low)} ({low['group']}) to {_percent(high)} "
            f"({high['group']}), intervals {lie}"
        )
    return "; ".join(parts)


def _percent(row: Mapping) -> str:
    return f"{100 * row['value']:.0f} %"


def _trainings(row: Mapping) -> str:
    least, most = (f"{100 * row[name]:.1f}" for name in ("least", "most"))
    return f"{least} %" if least == most else f"{least} to {most} %"


def _trigger(long: pd.DataFrame, rule: Mapping) -> str:
    """Whether a group's false positive rate moves between challenger and a baseline."""
    rates = _false_positives(long)
    sides = [name for name in rule["baselines"] if name in rates]
    if rule["challenger"] not in rates or not sides:
        return ""
    moves = rates[sides].sub(rates[rule["challenger"]], axis=0)
    group, other = moves.abs().stack().idxmax()
    one = long[(long["group"] == group) & (long["rate"] == "false_positive")].set_index("model")
    sides = one.loc[[rule["challenger"], other]]
    told = " and ".join(f"{_trainings(row)} with {model}" for model, row in sides.iterrows())
    met = (
        "is met, which reopens the decision"
        if (moves.abs() > MOVES).any(axis=None)
        else "is not met"
    )
    return (
        f"Between {rule['challenger']} and the baselines of the rule, the mean false positive rate "
        f"changes most for {group} (n = {one['n'].iloc[0]:,}): by "
        f"{number(100 * moves.loc[group, other], 1)} percentage points from {rule['challenger']} "
        f"to {other}; single trainings have {told}. The rule's trigger at {100 * MOVES:g} "
        f"points, taken on the means, {met}."
    )
