"""Selection by cross-validation: an objective that punishes instability, rounds of trials.

Search code sees training rows only. Trials are asked for in rounds; the sampler of a round is made
anew from the seed, the round's number and the trials told so far, so that a search interrupted at
any moment continues as if nothing had happened, on any number of workers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import optuna
import pandas as pd
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from mononet import statistics
from mononet.models import Configuration, Model, NetworkModel, Problem, Space
from mononet.training import Run
from mononet.workers import at_once, in_parallel

Split = tuple[np.ndarray, np.ndarray]
MINIMIZED = {"mse": True, "rmse": True, "accuracy": False}


class SearchError(RuntimeError):
    """A search that cannot end in a selection."""


@dataclass(frozen=True)
class Budget:
    """What a search may spend, and how it judges. ``objective`` is risk_adjusted or mean."""

    n_trials: int
    search_seeds: int
    search_seed: int
    round_size: int
    objective: str
    max_epochs: int
    max_depth: int | None


@dataclass(frozen=True)
class Evaluation:
    """One configuration over folds and seeds: arrays (stages, folds, seeds)."""

    values: np.ndarray
    constant: np.ndarray
    non_finite: np.ndarray


@dataclass(frozen=True)
class Trial:
    """One row of trials.csv: a configuration at its best stage."""

    number: int
    configuration: dict
    stage: int
    at_bound: bool
    objective: float
    mean: float
    std: float
    std_fold: float
    std_seed: float
    constant: int
    non_finite: int
    values: np.ndarray  # (folds, seeds) at the chosen stage


def spread(values: np.ndarray) -> float:
    """Sample standard deviation (ddof 1); zero for a single value, which has none to show."""
    return float(np.std(values, ddof=1)) if np.size(values) > 1 else 0.0


def one_sigma_bound(values: np.ndarray, minimized: bool, kind: str = "risk_adjusted") -> float:
    """The objective over all fold × seed values: mean + std when minimized, mean − std when not;
    the plain mean for ``kind`` mean."""
    penalty = spread(values) if kind == "risk_adjusted" else 0.0
    return float(np.mean(values)) + (penalty if minimized else -penalty)


def score_runs(
    predictions: Sequence[np.ndarray], runs: Sequence[Run], problem: Problem, metric: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Metric, constant and non-finite flags of every run on the rows it predicted, each
    (runs, stages). The metric of a non-finite run is NaN."""
    values, constant, non_finite = [], [], []
    for predicted, run in zip(predictions, runs, strict=True):
        finite = np.isfinite(predicted).all(axis=-1)
        scores = np.full(len(predicted), np.nan)
        if finite.any():
            truth = problem.y[run.predict]
            scores[finite] = statistics.metric(metric, truth, predicted[finite])
        flat = statistics.constant(
            predicted, problem.task, float(problem.y[run.train].std()) or 1.0
        )
        values.append(scores)
        constant.append(flat & finite)
        non_finite.append(~finite)
    return np.stack(values), np.stack(constant), np.stack(non_finite)


def evaluate(
    model: Model,
    configurations: Sequence[Configuration],
    problem: Problem,
    metric: str,
    splits: Sequence[Split],
    seeds: Sequence[int],
    stages: Sequence[int],
    engine: str,
) -> list[Evaluation]:
    """Fit configurations of one share on every fold with every seed, all in one stack of runs."""
    runs = [
        Run(train, validation, (seed, fold))
        for fold, (train, validation) in enumerate(splits)
        for seed in seeds
    ]
    shape = (len(stages), len(splits), len(seeds))
    evaluations = []
    for predictions in model.fit_together(configurations, problem, runs, stages, engine):
        parts = score_runs(predictions, runs, problem, metric)
        evaluations.append(Evaluation(*(part.T.reshape(shape) for part in parts)))
    return evaluations


def judge(
    number: int,
    configuration: Configuration,
    evaluation: Evaluation,
    stages: Sequence[int],
    minimized: bool,
    kind: str,
) -> Trial:
    """A trial at its best stage; ties go to the smaller one.

    A run that is constant makes the objective of that stage infinitely bad, a run that is not
    finite that of every later stage too.
    """
    values = evaluation.values
    worst = np.inf if minimized else -np.inf
    lost = np.maximum.accumulate(evaluation.non_finite, axis=0) | evaluation.constant
    bounds = [
        worst if bad else one_sigma_bound(v, minimized, kind)
        for v, bad in zip(values, lost.any(axis=(1, 2)), strict=True)
    ]
    best = int(np.argmin(bounds) if minimized else np.argmax(bounds))
    chosen = values[best]
    many_seeds = chosen.shape[1] > 1 and np.isfinite(chosen).all()
    return Trial(
        number=number,
        configuration=dict(configuration),
        stage=stages[best],
        at_bound=len(stages) > 1 and stages[best] == stages[-1],
        objective=bounds[best],
        mean=float(np.mean(chosen)),
        std=spread(chosen),
        std_fold=spread(chosen.mean(axis=1)),
        std_seed=statistics.seed_sd(chosen) if many_seeds else 0.0,
        constant=int(evaluation.constant.any(axis=0).sum()),
        non_finite=int(evaluation.non_finite.any(axis=0).sum()),
        values=chosen,
    )


def select(trials: Sequence[Trial], minimized: bool) -> Trial:
    """The trial with the best objective, the earliest of equals. SearchError if all collapsed."""
    best = min(trials, key=lambda t: (t.objective if minimized else -t.objective, t.number))
    if not np.isfinite(best.objective):
        raise SearchError(
            f"all {len(trials)} trials had a collapsed or non-finite run at every stage; "
            "there is nothing to select"
        )
    return best


def to_frame(trials: Sequence[Trial]) -> pd.DataFrame:
    """trials.csv: a trial a row, its fold × seed values at the chosen stage in the last columns."""
    rows = []
    for trial in trials:
        row = {"trial": trial.number, **trial.configuration, "epochs": trial.stage}
        names = "at_bound objective mean std std_fold std_seed constant non_finite"
        row |= {name: getattr(trial, name) for name in names.split()}
        row |= {f"fold{f}_seed{s}": float(v) for (f, s), v in np.ndenumerate(trial.values)}
        rows.append(row)
    return pd.DataFrame(rows)


def from_frame(frame: pd.DataFrame, space: Space) -> list[Trial]:
    """The trials of a trials.csv, as they were told."""
    columns = [name for name in frame if name.startswith("fold")]
    folds = 1 + max(int(name.split("_")[0][4:]) for name in columns)
    trials = []
    for row in frame.to_dict("records"):
        values = np.array([row[name] for name in columns], dtype=float).reshape(folds, -1)
        trials.append(
            Trial(
                number=int(row["trial"]),
                configuration={name: row[name] for name in space},
                stage=int(row["epochs"]),
                at_bound=bool(row["at_bound"]),
                constant=int(row["constant"]),
                non_finite=int(row["non_finite"]),
                values=values,
                **{k: float(row[k]) for k in ("objective", "mean", "std", "std_fold", "std_seed")},
            )
        )
    return trials


def suggest(
    space: Space, told: Sequence[Trial], count: int, budget: Budget, minimized: bool
) -> list[dict]:
    """The next round's configurations: TPE (Bergstra et al., 2011) over the trials told so far.

    The sampler's seed is made from the search's and the round's number; the study is rebuilt from
    the trials alone, so that the answer does not depend on the process that asks.
    """
    distributions = {name: _distribution(entry) for name, entry in space.items()}
    number = len(told) // budget.round_size
    seed = int(np.random.SeedSequence([budget.search_seed, number]).generate_state(1)[0])
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed,
            multivariate=True,
            constant_liar=True,
            n_startup_trials=budget.round_size,
        )
        study = optuna.create_study(
            sampler=sampler, direction="minimize" if minimized else "maximize"
        )
        study.add_trials(
            [
                optuna.create_trial(
                    params=trial.configuration, distributions=distributions, value=trial.objective
                )
                for trial in told
            ]
        )
        return [study.ask(distributions).params for _ in range(count)]


def _distribution(entry: dict) -> BaseDistribution:
    if entry["type"] == "choice":
        return CategoricalDistribution(entry["values"])
    kind = IntDistribution if entry["type"] == "int" else FloatDistribution
    return kind(entry["low"], entry["high"], log=entry["log"])


def search(
    model: Model,
    problem: Problem,
    metric: str,
    splits: Sequence[Split],
    budget: Budget,
    *,
    engine: str,
    workers: int,
    told: Sequence[Trial] = (),
    on_trial: Callable[[Trial], None] = lambda trial: None,
    on_round: Callable[[list[Trial]], None] = lambda trials: None,
) -> list[Trial]:
    """All trials of a search over the problem's rows; ``told`` are those of finished rounds.

    ``on_trial`` sees each trial as it ends, ``on_round`` all of them after each round: what it
    has recorded then, an interrupted search takes up again.
    """
    trials = list(told)
    minimized = MINIMIZED[metric]
    space = model.space(len(problem.y), budget.max_depth)
    stages = model.stages(budget.max_epochs)
    seeds = range(1 if model.deterministic else budget.search_seeds)
    compiled: set = set()
    while len(trials) < budget.n_trials:
        count = min(budget.round_size, budget.n_trials - len(trials))
        configurations = suggest(space, trials, count, budget, minimized)
        shares = [[number] for number in range(count)]  # eager bits depend on the stack
        if engine == "compiled":
            most = -(-count // at_once(workers))
            shares = model.shares(configurations, len(splits) * len(seeds), most)
            if isinstance(model, NetworkModel):
                compile_once(model, configurations, problem, compiled, workers)
        rest = (problem, metric, splits, seeds, stages, engine)
        tasks = [(model, [configurations[n] for n in share], *rest) for share in shares]
        judged: dict[int, Trial] = {}
        for share, evaluations in zip(shares, in_parallel(evaluate, tasks, workers), strict=True):
            for place, evaluation in zip(share, evaluations, strict=True):
                number = len(trials) + place
                judged[number] = judge(
                    number, configurations[place], evaluation, stages, minimized, budget.objective
                )
                on_trial(judged[number])
        trials += [judged[number] for number in sorted(judged)]
        on_round(trials)
    return trials


def compile_once(
    model: NetworkModel,
    configurations: Sequence[Configuration],
    problem: Problem,
    compiled: set,
    workers: int,
) -> None:
    """Compile each graph that these configurations need and ``compiled`` lacks, each in one worker:
    two workers that met the same new graph would both compile it; later ones find it on disk."""
    new = {model.architecture(c): c for c in configurations}
    tasks = [(model, c, problem) for graph, c in new.items() if graph not in compiled]
    for _ in in_parallel(_compile, tasks, workers):
        pass
    compiled.update(new)


def _compile(model: NetworkModel, configuration: Configuration, problem: Problem) -> None:
    rows = np.arange(len(problem.y))
    model.stack(configuration, problem, [Run(rows, rows, (0,))], "compiled")
