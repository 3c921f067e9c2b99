"""Which selection avoids configurations that collapse on other seeds than those it saw.

One pool of random configurations with coupled weight decay, each trained on every fold with every
search seed. Resampled searches draw their trials from the pool and differ in how they judge them;
what they select is then trained on fresh seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mononet import statistics
from mononet.diagnostics.grid import MODEL, compile_graphs, problem_of, seeds_of
from mononet.experiments import Experiment
from mononet.models import Problem
from mononet.parameters import ParameterError
from mononet.search import Budget, Evaluation, evaluate, judge, suggest
from mononet.training import Run
from mononet.workers import in_parallel

FRESH_PARTITION = 1  # seed of folds that no trial saw
SPLITS = 0  # seed of the search's folds


@dataclass(frozen=True)
class Arm:
    """One way to select: the objective, one or every search seed a fold, and how many trials."""

    name: str
    objective: str
    every_seed: bool
    equal_compute: bool = False

    def seeds(self, values: Mapping) -> int:
        return values["search_seeds"] if self.every_seed else 1

    def trials(self, values: Mapping) -> int:
        """Trials of one of its searches; as many times more as it has fewer seeds, at equal
        compute."""
        return values["n_trials"] * (values["search_seeds"] if self.equal_compute else 1)


ARMS = (
    Arm("mean, one seed", "mean", False),
    Arm("mean, several seeds", "mean", True),
    Arm("risk-adjusted, one seed", "risk_adjusted", False),
    Arm("risk-adjusted, several seeds", "risk_adjusted", True),
    Arm("mean, one seed, equal compute", "mean", False, equal_compute=True),
)


def check(values: Mapping) -> None:
    """Raise ParameterError where the pool is too small for a search at equal compute."""
    most = max(arm.trials(values) for arm in ARMS)
    if values["pool"] < most:
        raise ParameterError(
            f"pool: {values['pool']} configurations are fewer than the {most} trials of a search "
            "at equal compute, n_trials × search_seeds"
        )
    if values["fresh_seeds"] > values["final_seeds"]:
        raise ParameterError(
            f"fresh_seeds: {values['fresh_seeds']} of {values['final_seeds']} final_seeds"
        )


def _problem(experiment: Experiment) -> tuple[Problem, list, list]:
    """The pool's rows (those of the first dataset), the search's folds and fresh ones."""
    name = experiment.parameters["datasets"][0]
    loaded, folds = experiment.load(name), experiment.parameters["cv_folds"]
    splits = [loaded.splits(seed, folds) for seed in (SPLITS, FRESH_PARTITION)]
    return problem_of(experiment, name), *splits


def configurations(experiment: Experiment, rows: int) -> list[dict]:
    """The pool: so many independent random draws from the model's search space."""
    count, values = experiment.parameters["pool"], experiment.parameters
    budget = Budget(
        count, values["search_seeds"], 0, count, "mean", values["max_epochs"], values["max_depth"]
    )
    return suggest(MODEL.space(rows, values["max_depth"]), [], count, budget, minimized=False)


def pool(experiment: Experiment) -> pd.DataFrame:
    """Every configuration as each kind of arm judges it, a row a trial, objective and number of
    seeds: the best stage, its objective and mean accuracy, collapsed runs that it saw."""
    problem, splits, _ = _problem(experiment)
    found = configurations(experiment, len(problem.y))
    stages = MODEL.stages(experiment.parameters["max_epochs"])
    compile_graphs(experiment, sorted({c["depth"] for c in found}), problem)
    seeds = range(experiment.parameters["search_seeds"])
    tasks = [
        (MODEL, [each], problem, "accuracy", splits, seeds, stages, experiment.engine)
        for each in found
    ]
    rows = []
    evaluations = in_parallel(evaluate, tasks, experiment.workers)
    for number, (each, [evaluation]) in enumerate(zip(found, evaluations, strict=True)):
        for objective in ("mean", "risk_adjusted"):
            for count in sorted({1, len(seeds)}):
                parts = (evaluation.values, evaluation.constant, evaluation.non_finite)
                seen = Evaluation(*(part[:, :, :count] for part in parts))
                trial = judge(number, each, seen, stages, minimized=False, kind=objective)
                row = {"trial": number, **each, "judged_by": objective, "seeds": count}
                row |= {"epochs": trial.stage, "objective": trial.objective, "mean": trial.mean}
                rows.append(row | {"constant": trial.constant, "non_finite": trial.non_finite})
    return pd.DataFrame(rows).round(6)


def searches(experiment: Experiment) -> pd.DataFrame:
    """What each resampled search selects, a row a search and arm. The searches of one number share
    their trials; those of equal compute draw more of them. The earliest of equals wins."""
    values, pooled = experiment.parameters, experiment.table("pool")
    rng, rows = np.random.default_rng(statistics.SEED), []
    orders = [rng.permutation(values["pool"]) for _ in range(values["searches"])]
    for arm in ARMS:
        kind = (pooled["judged_by"] == arm.objective) & (pooled["seeds"] == arm.seeds(values))
        judged = pooled[kind].set_index("trial")
        for search, order in enumerate(orders):
            drawn = judged.loc[order[: arm.trials(values)]]
            best = int(drawn["objective"].idxmax())
            if not np.isfinite(drawn.loc[best, "objective"]):
                continue  # every trial collapsed: nothing is selected
            row = {"arm": arm.name, "search": search, "trials": len(drawn), "selected": best}
            rows.append(row | {"epochs": int(drawn.loc[best, "epochs"])})
    return pd.DataFrame(rows)


def fresh(experiment: Experiment) -> pd.DataFrame:
    """What some search selected, trained on fresh seeds: a row a configuration, epoch and seed.

    The rows are four fifths of the training part, drawn anew; `constant` and `one_sided` are of
    the predictions on them, `accuracy` of the rows left out.
    """
    problem, _, partition = _problem(experiment)
    selected = experiment.table("searches")
    found = configurations(experiment, len(problem.y))
    stages = selected.groupby("selected")["epochs"].unique().map(sorted)
    seeds = seeds_of(experiment.parameters["final_seeds"])
    compile_graphs(experiment, sorted({found[n]["depth"] for n in stages.index}), problem)
    tasks = [
        (found[number], problem, partition[0], seeds, epochs, experiment.engine)
        for number, epochs in stages.items()
    ]
    frames = in_parallel(train_fresh, tasks, experiment.workers)
    return pd.concat(
        [frame.assign(trial=n) for n, frame in zip(stages.index, frames, strict=True)]
    )[["trial", "epochs", "seed", "constant", "one_sided", "accuracy"]]


def train_fresh(
    configuration: dict,
    problem: Problem,
    split: tuple[np.ndarray, np.ndarray],
    seeds: Sequence[int],
    stages: Sequence[int],
    engine: str,
) -> pd.DataFrame:
    """One configuration on one split with every seed, at each stage asked for."""
    learned, held = split
    both = np.concatenate([learned, held])
    runs = [Run(learned, both, (seed,)) for seed in seeds]
    fits = MODEL.fit(configuration, problem, runs, stages, engine)
    rows = []
    for seed, predicted in zip(seeds, fits.predictions, strict=True):
        on_learned, on_held = predicted[:, : len(learned)], predicted[:, len(learned) :]
        rows.append(
            pd.DataFrame(
                {
                    "epochs": list(stages),
                    "seed": seed,
                    "constant": statistics.constant(on_learned, problem.task),
                    "one_sided": statistics.one_sided(on_learned),
                    "accuracy": statistics.metric("accuracy", problem.y[held], on_held),
                }
            )
        )
    return pd.concat(rows).round(5)


# --- what the recorded parts say --------------------------------------------------------------


def outcomes(experiment: Experiment) -> pd.DataFrame:
    """A row an arm: searches, the `different` selections at which they end and how many of those
    are `failing`, collapse on some fresh seed; the share of searches that end at one (`first`: on
    some of the first ``fresh_seeds``), mean number of such seeds, accuracy over all seeds."""
    runs = experiment.table("fresh")
    early = runs["seed"].isin(seeds_of(experiment.parameters["fresh_seeds"]))
    by_selection = (
        runs.assign(early=runs["constant"] & early)
        .groupby(["trial", "epochs"])
        .agg(collapsed=("constant", "sum"), early=("early", "sum"), accuracy=("accuracy", "mean"))
    )
    chosen = experiment.table("searches").rename(columns={"selected": "trial"})
    chosen = chosen.merge(by_selection.reset_index(), on=["trial", "epochs"])
    chosen["some"], chosen["first"] = chosen["collapsed"] > 0, chosen["early"] > 0
    grouped = chosen.groupby("arm")
    failing = chosen[chosen["some"]].groupby("arm")["trial"].nunique()
    frame = pd.DataFrame(
        {
            "trials": grouped["trials"].max(),
            "searches": grouped.size(),
            "different": grouped["trial"].nunique(),
            "failing": failing.reindex(grouped.groups, fill_value=0),
            "some": grouped["some"].mean(),
            "first": grouped["first"].mean(),
            "collapsed": grouped["collapsed"].mean(),
            "accuracy": grouped["accuracy"].mean(),
        }
    )
    return frame.reindex([arm.name for arm in ARMS if arm.name in frame.index])


def reports(experiment: Experiment) -> pd.DataFrame:
    """The selections that collapse on some fresh seed but not on all, a row each: what mean, std,
    median, IQM and count say of them; those that were selected most often first."""
    runs = experiment.table("fresh")
    often = experiment.table("searches").groupby(["selected", "epochs"]).size()
    rows = []
    for (trial, epochs), each in runs.groupby(["trial", "epochs"]):
        lost = int(each["constant"].sum())
        if 0 < lost < len(each):
            summary = statistics.summarize(each["accuracy"])
            row = {"trial": trial, "epochs": epochs, "selected": int(often[trial, epochs])}
            row |= {"n": summary.n, "mean": summary.mean, "std": summary.std}
            row |= {"median": summary.median, "iqm": summary.iqm, "collapsed": lost}
            rest = each.loc[~each["constant"], "accuracy"]
            rows.append(row | {"others": rest.mean(), "fallen": each["accuracy"].min()})
    frame = pd.DataFrame(rows)
    return frame if frame.empty else frame.sort_values("selected", ascending=False)
