"""The size table: the gap of a pair at 25, 50 and 100 % of the training rows, as recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from mononet import statistics
from mononet.record import Record, RecordError
from mononet.study import Study

SHARES = (0.25, 0.5, 1.0)


def table(studies: Sequence[Study]) -> tuple[pd.DataFrame, str] | None:
    """sizes.csv of the newest complete size table that was made from the selections of these
    studies of one dataset, and its folder's name; None where there is none."""
    dataset, results = studies[0].dataset, Path(studies[0].parameters["results_dir"])
    wanted = {f"{dataset} {study.model}": study.identity for study in studies}
    found = []
    for folder in results.glob("experiments/size_table-*"):
        record = Record(folder)
        try:
            if not (record.has("experiment.json") and record.has("sizes.csv")):
                continue
            description = record.read_json("experiment.json")
            used = description["content"].get("studies", {})
            if "seconds" in description and wanted.items() <= used.items():
                started = description["provenance"]["started"]
                found.append((started, folder.name, record.read_csv("sizes.csv")))
        except RecordError:
            continue
    if not found:
        return None
    _, name, frame = max(found, key=lambda each: each[:2])
    return frame[frame["dataset"] == dataset], name


def gaps(
    frame: pd.DataFrame, challenger: str, baseline: str, shares: Sequence[float] = SHARES
) -> pd.DataFrame | None:
    """A row a share: rows (mean over folds), number of folds, mean gap in the loss over folds
    (positive: the challenger is better) and its standard error, over folds, or over the seeds of
    both sides where there is one fold; None unless both models have every share."""
    found = []
    for share in shares:
        part = frame[np.isclose(frame["share"], share)]
        losses = {
            model: part[part["model"] == model].pivot_table(
                index="fold", columns="seed", values="loss"
            )
            for model in (baseline, challenger)
        }
        if any(each.empty for each in losses.values()):
            return None
        a, c = (losses[model].mean(axis=1) for model in (baseline, challenger))
        if len(a) > 1:
            test = statistics.paired_t(a, c)
            gap, se = test.mean, test.se
        else:
            gap = float((a - c).iloc[0])
            sides = [each.to_numpy() for each in losses.values()]
            spreads = [statistics.seed_sd(s) / np.sqrt(s.shape[1]) for s in sides if s.shape[1] > 1]
            se = float(np.hypot.reduce(spreads)) if spreads else np.nan
        rows = round(part["rows"].mean())
        found.append({"share": share, "rows": rows, "folds": len(a), "gap": gap, "se": se})
    return pd.DataFrame(found)
