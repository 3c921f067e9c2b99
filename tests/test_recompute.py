"""Ten lines of pandas, those that the reproduce page shows, give every cell of a results table."""

import html
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mononet import data, parameters, tables
from mononet.study import Study

ROOT = Path(__file__).resolve().parents[1]
LINES = re.search(r"```python\n(.*?)```", (ROOT / "book/rerun.md").read_text(), re.DOTALL)[1]
# Column of the printed table, without the number of seeds: column of the ten lines.
CELLS = {
    "mean ± std": "mean",
    "median": "median",
    "IQM [95 %]": "IQM",
    "constant": "constant",
    "one-sided": "one_sided",
    "log loss": "log loss",
    "fresh folds": "fresh folds",
}


def recomputed(dataset: str) -> pd.DataFrame:
    """What the lines of the page print, unrounded, a row a study's folder."""
    names: dict = {}
    exec(LINES.replace("auto_mpg", dataset), names)
    return pd.DataFrame(names["rows"]).T


def cells(table: str) -> pd.DataFrame:
    """The printed cells, models × columns."""

    def texts(row: str) -> list[str]:
        found = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        return [html.unescape(re.sub("<[^>]+>", "", cell)) for cell in found]

    head, body = re.search(r"<thead>(.*)</thead>.*<tbody>(.*)</tbody>", table, re.DOTALL).groups()
    titles = texts(re.findall(r"<tr.*?</tr>", head, re.DOTALL)[-1])
    rows = [texts(row) for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL)]
    return pd.DataFrame(rows, columns=titles).set_index(titles[0])


def agrees(printed: str, value: float) -> bool:
    """Whether `value`, rounded to the digits that are printed, is what is printed."""
    digits = len(printed.partition(".")[2])
    return abs(float(printed.replace(",", "")) - value) <= 0.5000001 * 10**-digits


def recorded(dataset: str) -> list[Study]:
    values = parameters.resolve(dataset, pairs=[("results_dir", str(ROOT / "book/results"))])
    found = [Study.of(dataset, model, values) for model in values["models"]]
    return [study for study in found if study.complete]


@pytest.mark.parametrize("dataset", list(data.SPECS))
def test_every_cell_of_the_results_table_is_recomputed(dataset, monkeypatch):
    studies = recorded(dataset)
    if not studies:
        pytest.skip(f"no study of {dataset} is recorded")
    monkeypatch.chdir(ROOT)
    again = recomputed(dataset)
    factor = 100 if data.SPECS[dataset].metric == "accuracy" else 1
    shown = cells(tables.estimators(studies, None))
    compared = 0
    for study in studies:
        expected, row = again.loc[study.folder.name], shown.loc[study.model]
        for title, text in row.items():
            name = CELLS.get(title.partition(",")[0])
            if name is None:
                continue
            scale = factor if name in ("mean", "std", "median", "IQM", "fresh folds") else 1
            printed = re.match(r"[\d.,]+", text)[0]
            assert agrees(printed, scale * expected[name]), (study.model, title, text)
            if "±" in text:
                spread = re.search(r"± ([\d.,]+)", text)[1]
                assert agrees(spread, scale * expected["std"]), (study.model, title, text)
            compared += 1
    assert compared >= 5 * len(studies)


@pytest.mark.parametrize("dataset", list(data.SPECS))
def test_the_other_two_columns_follow_from_the_files_that_the_page_names(dataset):
    studies = recorded(dataset)
    if not studies:
        pytest.skip(f"no study of {dataset} is recorded")
    metric = data.SPECS[dataset].metric
    factor = 100 if metric == "accuracy" else 1
    shown = cells(tables.estimators(studies, None))
    for study in studies:
        selected = json.loads((study.folder / "study.json").read_text())["selected"]
        assert agrees(shown.loc[study.model, "CV score*"], factor * selected["mean"])
        with np.load(study.folder / "predictions.npz") as arrays:
            target, predicted = arrays["target"], arrays["predictions"][0]
        if metric == "accuracy":
            rows = ((predicted > 0.5) == (target > 0.5)).astype(float)
        else:
            rows = (predicted - target) ** 2
        se = stats.sem(rows)
        if metric == "rmse":  # the delta method
            se /= 2 * np.sqrt(rows.mean())
        assert agrees(shown.loc[study.model, "SE, rows"], factor * se), study.model
