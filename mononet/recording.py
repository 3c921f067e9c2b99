"""Brings a study to its end, part by part, and retrains recorded seeds to verify one.

Each part is recorded whole as soon as it is there, so that an interrupted study continues where
it stood. The test part is opened last, after every choice has been made and recorded.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd

from mononet import checks, data, machine, statistics
from mononet.models import Configuration, Fits, Model, Problem
from mononet.parameters import read_rule, rule_sha256
from mononet.progress import Progress
from mononet.record import Record
from mononet.search import MINIMIZED, Split, Trial, score_runs, search, to_frame
from mononet.study import SEARCH_STEPS, TAKEN_OVER, Study, slice_mask
from mononet.training import Run, resolve_engine
from mononet.workers import at_once, in_parallel

EFFECT_POINTS, EFFECT_ROWS = 21, 300
TRAIN = "MONONET_TRAIN"  # the one switch: 1 lets an executed notebook train what it lacks


class StudyError(RuntimeError):
    """A study that cannot be recorded or verified as asked."""


@dataclass(frozen=True)
class Verification:
    """What retraining some recorded seeds showed. ``outcome`` is a phrase for a reader."""

    passed: bool
    same_bits: bool
    seeds: tuple[int, ...]
    outcome: str


def record(
    study: Study,
    *,
    on_told: Callable[[list[Trial]], None] = lambda trials: None,
    on_trial: Callable[[Trial], None] = lambda trial: None,
    on_step: Callable[[str], None] = lambda step: None,
) -> Study:
    """Record a study, from wherever it stands: search, curves, validation runs, checks, test.

    ``on_told`` sees the trials that the search goes on from, ``on_trial`` each trial as it ends,
    ``on_step`` the name of each later part as it begins.
    Returns the study, whose fingerprint is that of the rows found. Raises DataError without rows,
    RecordError while another process writes, SearchError when every trial collapsed.
    """
    dataset = load(study)
    study = replace(study, fingerprint=dataset.fingerprint)
    with Record.locked(study.folder) as folder:
        if study.complete:
            study.record.check()
        else:
            _Recording(study, dataset, folder).run(on_told, on_trial, on_step)
    return study


def record_visibly(study: Study) -> Study:
    """``record`` with its progress on standard error: best objective so far and time left."""
    load(study).splits(study.parameters["cv_seed"], study.parameters["cv_folds"])
    data.read_ledger(study.ledger)
    with Record.locked(study.folder):
        pass  # what is not as it must be is told before a bar is shown
    better = min if MINIMIZED[data.SPECS[study.dataset].metric] else max
    objectives: list[float] = []
    total, every = study.parameters["n_trials"], study.parameters["round_size"]
    with Progress(f"{study.dataset} {study.model}", total, "trial", every=every) as progress:

        def best() -> str:
            return f"best objective {better(objectives):.4g}"

        def on_told(trials: list[Trial]) -> None:
            objectives.extend(trial.objective for trial in trials)
            progress.resume(len(trials), best())

        def on_trial(trial: Trial) -> None:
            objectives.append(trial.objective)
            progress.advance(best())

        def on_step(step: str) -> None:
            progress.say(f"{best()}; {step}")

        return record(study, on_told=on_told, on_trial=on_trial, on_step=on_step)


def asked() -> bool:
    """Whether an executed notebook may train what is not recorded."""
    return os.environ.get(TRAIN) == "1"


def load(study: Study) -> data.Dataset:
    """The rows that a study uses."""
    parameters = study.parameters
    return data.load(
        study.dataset,
        parameters["data_dir"],
        indicator=parameters["indicator"],
        max_rows=parameters["max_rows"],
    )


def problem_of(study: Study, dataset: data.Dataset) -> Problem:
    """The training rows, as every model takes them."""
    return Problem(
        dataset.X_train,
        dataset.y_train,
        dataset.indicator,
        dataset.task,
        study.parameters["inputs"],
        study.parameters["optimizer"],
    )


class _Recording:
    """One study being recorded under its lock; a method a part."""

    def __init__(self, study: Study, dataset: data.Dataset, folder: Record):
        self.study, self.dataset, self.folder = study, dataset, folder
        self.problem = problem_of(study, dataset)
        self.workers = study.parameters["workers"] or os.cpu_count() or 1
        self.costs = (
            folder.read_csv("cost.csv").to_dict("records") if folder.has("cost.csv") else []
        )
        begun = folder.has("study.json")
        made = machine.taken_up(study.description["provenance"]) if begun else provenance(study)
        folder.write_json("study.json", head(study) | {"provenance": made})
        self.engine = made["engine"]

    def run(self, on_told: Callable, on_trial: Callable, on_step: Callable) -> None:
        self.search(on_told, on_trial)
        parts = {
            "curves.csv": ("learning curves", self.curves),
            "runs.csv": ("validation runs over fresh partitions", self.validation),
            "checks.json": ("correctness checks", self.checks),
        }
        for artifact, (name, part) in parts.items():
            if not self.folder.has(artifact):
                on_step(name)
                part()
        on_step("refit and the one opening of the test part")
        self.test()

    def spent(self, step: str, seconds: float, runs: int) -> None:
        """One row of cost.csv; a part measured again after an interruption counts again."""
        self.costs.append({"step": step, "seconds": round(seconds, 6), "runs": runs})
        self.folder.write_csv("cost.csv", pd.DataFrame(self.costs))

    def search(self, on_told: Callable, on_trial: Callable) -> None:
        study, folder = self.study, self.folder
        if not folder.has("trials.csv"):
            self.take_over()
        told = study.trials() if folder.has("trials.csv") else []
        if told:
            on_told(told)
        start = time.perf_counter()

        def on_round(trials: list[Trial]) -> None:
            nonlocal start
            folder.write_csv("trials.csv", to_frame(trials))
            size = (len(trials) - 1) % study.budget.round_size + 1
            self.spent("search", time.perf_counter() - start, size * trials[-1].values.size)
            start = time.perf_counter()

        search(
            study.entry,
            self.problem,
            self.dataset.metric,
            self.splits(0),
            study.budget,
            engine=self.engine,
            workers=self.workers,
            told=told,
            on_trial=on_trial,
            on_round=on_round,
        )

    def take_over(self) -> None:
        """Begin with the rounds that another study of the same search has tried: one that differs
        in its refit or in its number of trials. What they took is taken over with them."""
        best, most = None, 0
        for path in sorted(self.study.shelf.glob(f"{self.study.model}-*/study.json")):
            other = Record(path.parent)
            described = other.read_json("study.json")
            same_engine = described["provenance"]["engine"] == self.engine
            if same_engine and self.study.searches_like(described) and other.has("trials.csv"):
                trials = other.read_csv("trials.csv")
                if self.common(len(trials)) > most:
                    best, most = (other, described["provenance"], trials), self.common(len(trials))
        if best is None:
            return
        other, there, trials = best
        runs = most * sum(column.startswith("fold") for column in trials)
        cost = other.read_csv("cost.csv")
        spent = cost[cost["step"].isin(SEARCH_STEPS)]
        spent = spent[spent["runs"].cumsum() <= runs].assign(step=TAKEN_OVER)
        self.costs = spent.to_dict("records")
        source = {"study": other.folder.name, "trials": most}
        described = self.study.description
        described["provenance"]["taken_over"] = source | {k: there[k] for k in machine.kind()}
        self.folder.write_json("study.json", described)
        self.folder.write_csv("cost.csv", spent)
        self.folder.write_csv("trials.csv", trials.head(most))

    def common(self, tried: int) -> int:
        """How many of another study's trials this one would try too: those of whole rounds, and
        the last round's where both end in it."""
        planned, size = self.study.budget.n_trials, self.study.budget.round_size
        return planned if tried == planned else min(tried, planned) // size * size

    def splits(self, partition: int) -> list[Split]:
        """Folds: partition 0 selects, the others are fresh."""
        parameters = self.study.parameters
        return self.dataset.splits(parameters["cv_seed"] + partition, parameters["cv_folds"])

    def fit(self, problem: Problem, runs: Sequence[Run], stages: Sequence[int]) -> Fits:
        """Runs of the selected configuration: networks in one stack here, others on all workers."""
        model, configuration = self.study.entry, self.study.selected.configuration
        tasks = [
            (configuration, problem, portion, stages, self.engine)
            for portion in model.portions(runs, at_once(self.workers))
        ]
        if len(tasks) == 1:
            return model.fit(*tasks[0])
        return Fits.joined(list(in_parallel(model.fit, tasks, self.workers)))

    def curves(self) -> None:
        """Metric on training and validation rows of the selection folds, epoch by epoch."""
        study, start = self.study, time.perf_counter()
        stages = study.entry.curve_stages(study.parameters["max_epochs"])
        seeds = range(1 if study.entry.deterministic else study.parameters["search_seeds"])
        halves = [
            (Run(train, train, (seed, fold)), Run(train, validation, (seed, fold)))
            for fold, (train, validation) in enumerate(self.splits(0))
            for seed in seeds
        ]
        # One training serves both: it predicts training and validation rows together.
        both = [Run(t.train, np.concatenate([t.predict, v.predict]), t.seed) for t, v in halves]
        fits = self.fit(self.problem, both, stages)
        rows = []
        for (train, validation), predicted in zip(halves, fits.predictions, strict=True):
            parts = np.split(predicted, [len(train.predict)], axis=1)
            values, _, _ = score_runs(parts, (train, validation), self.problem, self.dataset.metric)
            seed, fold = train.seed
            for split, curve in zip(("train", "validation"), values, strict=True):
                for epoch, value in zip(stages, curve, strict=True):
                    rows.append((split, fold, seed, epoch, float(value)))
        columns = ["split", "fold", "seed", "epoch", "value"]
        self.folder.write_csv("curves.csv", pd.DataFrame(rows, columns=columns))
        self.spent("curves", time.perf_counter() - start, len(both))

    def validation(self) -> None:
        """The selected configuration with the final seeds over partitions that selected nothing."""
        study, selected = self.study, self.study.selected
        rest = (self.problem, self.dataset.metric, self.engine)
        tasks = []
        for partition in range(1, study.parameters["partitions"] + 1):
            runs = fresh_runs(self.splits(partition), study.final_seeds, partition)
            tasks += [
                (study.entry, selected.configuration, selected.stage, portion, *rest)
                for portion in study.entry.portions(runs, at_once(self.workers))
            ]
        rows = []
        for found, seconds in in_parallel(validate, tasks, self.workers):
            rows += found
            self.spent("validation", seconds, len(found))
        self.folder.write_csv("runs.csv", pd.DataFrame(rows))

    def checks(self) -> None:
        start = time.perf_counter()
        found = checks.check(self.study.entry, self.study.selected.configuration, self.problem)
        self.folder.write_json("checks.json", [asdict(check) for check in found])
        self.spent("checks", time.perf_counter() - start, 1)

    def test(self) -> None:
        """Refit on all training rows with every final seed, open the test part, report."""
        study, dataset, folder = self.study, self.dataset, self.folder
        selected, metric = study.selected, dataset.metric
        problem, part = opened(study, dataset)
        n, m = len(dataset.y_train), len(part.y)
        everything = np.arange(n, len(problem.X))
        runs = [Run(np.arange(n), everything, (seed, 0, 0)) for seed in study.final_seeds]
        fits = self.fit(problem, runs, (selected.stage,))
        predicted = np.stack([p[0] for p in fits.predictions])
        folder.write_csv("effects.csv", effects(study.final_seeds, predicted[:, m:], dataset))
        folder.write_npz("predictions.npz", **self.test_arrays(predicted[:, :m], part))

        known = replace(problem, y=np.concatenate([dataset.y_train, part.y]))
        tests = [replace(run, predict=np.arange(n, n + m)) for run in runs]
        rows = run_rows(
            [p[None, :m] for p in predicted], tests, known, metric, selected.stage, "test"
        )
        validation = study.runs("validation")
        folder.write_csv("runs.csv", pd.concat([validation, pd.DataFrame(rows)]))
        self.spent("refit", fits.train_seconds, len(runs))
        self.spent("predict 1,000 rows", 1000 * fits.predict_seconds / fits.predicted_rows, 1)

        values = [row["value"] for row in rows]
        chosen = {k: v for k, v in asdict(selected).items() if k != "values"}
        summary = {
            "metric": metric,
            "parameters": fits.size,
            "test": asdict(statistics.summarize(values)) if np.isfinite(values).all() else None,
            "constant": sum(row["constant"] for row in rows),
            "one_sided": sum(row["one_sided"] for row in rows),
        }
        provenance = study.description["provenance"]
        folder.write_json(
            "study.json",
            head(study) | {"selected": chosen, "summary": summary, "provenance": provenance},
        )

    def test_arrays(self, predictions: np.ndarray, part: data.TestPart) -> dict[str, np.ndarray]:
        """predictions.npz: predictions (seeds, rows) float32, target, block, and a boolean row
        for each slice and group of the decision rule."""
        rule, arrays = read_rule(self.study.dataset), {}
        for kind in ("slices", "groups"):
            masks = [
                slice_mask(p, self.dataset.features, self.dataset.X_train, part.X)
                for p in rule[kind]
            ]
            arrays[kind] = np.array(masks, dtype=bool).reshape(-1, len(part.y))
            arrays[f"{kind}_names"] = np.array([p["name"] for p in rule[kind]], dtype=str)
        block = np.asarray(part.block)
        return {"predictions": predictions, "target": part.y, "block": block, **arrays}


def head(study: Study) -> dict:
    """The first entries of study.json: what the study is."""
    return {
        "identity": study.identity,
        "search_identity": study.search_identity,
        "dataset": study.dataset,
        "model": study.model,
        "content": study.content,
    }


def provenance(study: Study) -> dict:
    """What the bits may depend on beside the content, as it is when the search starts."""
    parameters = study.parameters
    batches = parameters["n_trials"] * parameters["max_epochs"] * study.rows // 64
    engine = resolve_engine(parameters["engine"], batches)
    return machine.environment(engine) | {"rule_sha256": rule_sha256(study.dataset)}


def run_rows(
    predictions: Sequence[np.ndarray],
    runs: Sequence[Run],
    problem: Problem,
    metric: str,
    stage: int,
    split: str,
) -> list[dict]:
    """Rows of runs.csv for runs predicted at one stage, [(1, rows)]; loss is the mean row loss.

    A run's seed is (seed, fold, partition).
    """
    values, constant, non_finite = score_runs(predictions, runs, problem, metric)
    rows = []
    for r, (run, predicted) in enumerate(zip(runs, predictions, strict=True)):
        finite = not non_finite[r, 0]
        loss = one_sided = None
        if finite:
            truth = problem.y[run.predict]
            loss = float(np.mean(statistics.row_loss(problem.task, truth, predicted[0])))
            one_sided = problem.task == "classification" and statistics.one_sided(predicted)[0]
        rows.append(
            {
                "split": split,
                "partition": run.seed[2],
                "fold": run.seed[1],
                "seed": run.seed[0],
                "epochs": stage,
                "metric": metric,
                "value": float(values[r, 0]),
                "loss": loss,
                "constant": bool(constant[r, 0] or not finite),
                "one_sided": bool(one_sided),
            }
        )
    return rows


def fresh_runs(splits: Sequence[Split], seeds: Sequence[int], partition: int) -> list[Run]:
    """The runs of one fresh partition, every fold with every seed."""
    return [
        Run(train, validation, (seed, fold, partition))
        for fold, (train, validation) in enumerate(splits)
        for seed in seeds
    ]


def validate(
    model: Model,
    configuration: Configuration,
    stage: int,
    runs: Sequence[Run],
    problem: Problem,
    metric: str,
    engine: str,
) -> tuple[list[dict], float]:
    """Rows of runs.csv of runs on fresh folds, and the seconds that they took."""
    start = time.perf_counter()
    fits = model.fit(configuration, problem, runs, (stage,), engine)
    rows = run_rows(fits.predictions, runs, problem, metric, stage, "validation")
    return rows, time.perf_counter() - start


def opened(study: Study, dataset: data.Dataset) -> tuple[Problem, data.TestPart]:
    """Training, test and effect rows, in this order: the one place that opens the test part."""
    part = dataset.open_test(study.ledger, study, "final", "report of the selected configuration")
    rows, _ = effect_rows(dataset)
    return problem_of(study, dataset).with_rows(np.concatenate([part.X, rows])), part


def effect_rows(dataset: data.Dataset) -> tuple[np.ndarray, pd.DataFrame]:
    """Training rows with one constrained feature set to each point of a grid, and what was set.

    At most 300 evenly spaced training rows, at most 21 quantiles of the feature. Returns the rows
    stacked, (points × rows, features), and a frame with a (feature, value) row a point.
    """
    X = dataset.X_train
    base = X[np.unique(np.linspace(0, len(X) - 1, EFFECT_ROWS).round().astype(int))]
    rows, points = [], []
    for j in np.flatnonzero(dataset.indicator):
        for value in np.unique(np.quantile(X[:, j], np.linspace(0, 1, EFFECT_POINTS))):
            moved = base.copy()
            moved[:, j] = value
            rows.append(moved)
            points.append({"feature": dataset.features[j], "value": float(value)})
    return np.concatenate(rows), pd.DataFrame(points)


def effects(seeds: Sequence[int], predicted: np.ndarray, dataset: data.Dataset) -> pd.DataFrame:
    """effects.csv: mean prediction at each point of each constrained feature, by seed;
    ``predicted`` (seeds, points × rows) are those of ``effect_rows``."""
    _, points = effect_rows(dataset)
    means = predicted.reshape(len(seeds), len(points), -1).mean(axis=2, dtype=np.float64)
    frames = [points.assign(seed=seed, mean=row) for seed, row in zip(seeds, means, strict=True)]
    return pd.concat(frames)


# --- verification -------------------------------------------------------------------------------


def verify(study: Study, seeds: int = 2) -> Verification:
    """Retrain the first recorded final seeds from the recorded configuration and compare.

    The same bits are asked for on the same engine, versions and kind of processor; otherwise the
    mean of the retrained seeds must lie within 3 seed sd/√k of the recorded one. StudyError when
    the study is not complete; RecordError when a recorded file is not what was recorded;
    DataError when its rows are not on this machine.
    """
    if not study.complete:
        raise StudyError(f"{study.folder} holds no complete study; record it first")
    study.record.check()
    dataset = load(study)
    if dataset.fingerprint != study.fingerprint:
        raise StudyError(f"the rows found here are not those of {study.folder} (fingerprint)")
    problem, part = opened(study, dataset)
    n, m = len(dataset.y_train), len(part.y)
    again = study.final_seeds[:seeds]
    runs = [Run(np.arange(n), np.arange(n, n + m), (seed, 0, 0)) for seed in again]
    selected, then = study.selected, study.description["provenance"]
    fits = study.entry.fit(selected.configuration, problem, runs, (selected.stage,), then["engine"])
    retrained = np.stack([p[0] for p in fits.predictions])
    recorded = study.record.read_npz("predictions.npz")["predictions"]
    if np.array_equal(retrained, recorded[: len(again)], equal_nan=True):
        return Verification(True, True, tuple(again), "the same predictions, bit for bit")
    differs = _differences(then, provenance(study))
    if not differs:
        return Verification(False, False, tuple(again), "not the recorded predictions")
    values = statistics.metric(dataset.metric, part.y, retrained)
    tests = study.runs("test")["value"]
    # A model that seeds do not move still rounds otherwise elsewhere.
    sd = max(float(tests.std()) if len(tests) > 1 else 0.0, 1e-3 * abs(tests.mean()))
    tolerance = 3 * sd / len(again) ** 0.5
    return Verification(
        bool(abs(np.mean(values) - tests.mean()) <= tolerance),
        False,
        tuple(again),
        f"not bit-comparable ({', '.join(differs)}); mean {np.mean(values):.4g} against "
        f"{tests.mean():.4g} over all {len(tests)} recorded seeds, tolerance {tolerance:.2g}",
    )


def _differences(then: dict, now: dict) -> list[str]:
    """What keeps a retraining here from being bit-comparable with a recorded one."""
    # Eager training rounds alike only in the same stack.
    eager = ["the eager engine"] if then["engine"] == "eager" else []
    return machine.differences(then, now) + eager
