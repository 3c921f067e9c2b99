"""Head collapse, the trainings: networks whose read-out has an activation, on five sets of rows.

Weights are drawn and used as they are: the rescaling of the read-out, by which the protocol starts
at a known loss, presumes that the output is linear in the read-out's weights, and it is not behind
an activation. So no arm has it. Rows are those of training parts only.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import StratifiedKFold

from mononet import statistics
from mononet.experiments import Experiment
from mononet.layers import MODES
from mononet.models import CANDIDATE_EPOCHS
from mononet.network import Architecture
from mononet.search import Split
from mononet.training import Hyperparameters, Run, Stack, Table, loss_rows
from mononet.workers import in_parallel

HEADS = ("relu", "elu", "identity")
# The smallest output of a mixed head: ρ(h) of one convex unit. A split head has none.
SMALLEST = {"relu": 0.0, "elu": -1.0, "identity": -np.inf}
LOGIT_BINS, MPG_BINS = np.linspace(-8, 8, 33), np.linspace(0, 50, 26)


@dataclass(frozen=True)
class Rows:
    """One set of rows, training part only, and its folds; ``standardize`` is of the target."""

    name: str
    X: np.ndarray
    y: np.ndarray
    indicator: np.ndarray
    task: str
    splits: Sequence[Split]
    standardize: bool = True


def generated(cv_seed: int, folds: int, rows: int = 600, seed: int = 20) -> Rows:
    """Rows that need no download: six standard-normal columns and a class.

    The log odds of class 1 rise in the first two columns, fall in the third, wave along the fourth
    and do not depend on the others; about a third of the rows are of class 1.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6))
    logit = 2 * X[:, 0] + np.exp(0.7 * X[:, 1]) - 1.5 * X[:, 2] + np.sin(3 * X[:, 3]) - 2.3
    y = (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(float)
    splits = list(StratifiedKFold(folds, shuffle=True, random_state=cv_seed).split(X, y))
    indicator = np.array([1, 1, -1, 0, 0, 0])
    return Rows("generated", X, y, indicator, "classification", splits)


def sets(experiment: Experiment) -> list[Rows]:
    """Every set of rows; a regression twice, with its target standardized and raw."""
    given = experiment.parameters
    cv = given["cv_seed"], given["cv_folds"]
    found = []
    for name in given["datasets"]:
        of = experiment.load(name)
        y = of.y_train.copy()  # a dataset's arrays are read-only, which tensors cannot be
        rows = Rows(name, of.X_train, y, of.indicator, of.task, of.splits(*cv))
        if of.task == "classification":
            found.append(rows)
        else:
            found.append(replace(rows, name=f"{name}, standardized target"))
            found.append(replace(rows, name=f"{name}, raw target", standardize=False))
    return [generated(*cv), *found]


# --- what is known before any training ----------------------------------------------------------


def floor(rows: Rows, train: np.ndarray, head: str) -> float:
    """The mean loss on training rows that no mixed network with this head can go below.

    With outputs ≥ L a row of class 0 costs at least ln(1 + e^L), one of class 1 may cost nothing;
    a row with target z costs at least max(L − z, 0)² (in units of the target's variance).
    """
    y, smallest = rows.y[train], SMALLEST[head]
    if rows.task == "classification":
        return float(np.mean(y == 0) * np.logaddexp(0, smallest))
    z = (y - y.mean() if rows.standardize else y) / y.std()
    bound = smallest if rows.standardize else smallest / y.std()
    return float(np.square(np.maximum(bound - z, 0)).mean())


def base(experiment: Experiment) -> pd.DataFrame:
    """A row a set and fold: its sizes, the trivial predictor's value, the floors of the loss.

    The trivial predictor names the training rows' larger class (its accuracy is the base rate) or
    their mean; ``class_1`` is the share of class 1 among the validation rows.
    """
    found = []
    for rows in sets(experiment):
        for fold, (train, validation) in enumerate(rows.splits):
            y, truth = rows.y[train], rows.y[validation]
            classify = rows.task == "classification"
            guess = float(y.mean() > 0.5) if classify else y.mean()
            name = "accuracy" if classify else "mse"
            found.append(
                {"set": rows.name, "task": rows.task, "fold": fold}
                | {"train_rows": len(train), "validation_rows": len(validation)}
                | {"class_1": truth.mean() if classify else np.nan}
                | {"trivial": float(statistics.metric(name, truth, np.full(len(truth), guess)))}
                | {f"floor_{head}": floor(rows, train, head) for head in HEADS}
            )
    return pd.DataFrame(found)


# --- the trainings -------------------------------------------------------------------------------


def stages(max_epochs: int) -> tuple[int, ...]:
    """The epochs at which the training loss is recorded; 0 is before the first step."""
    return (0, *(e for e in CANDIDATE_EPOCHS if e < max_epochs), max_epochs)


def stack_of(rows: Rows, mode: str, head: str, splits: Sequence[Split], given, engine) -> Stack:
    """All folds and seeds of one arm, before training."""
    hyper = Hyperparameters(
        given["width"],
        given["batch_size"],
        given["learning_rate"],
        rescale_readout=False,
        standardize=rows.standardize,
    )
    runs = [
        Run(train, validation, (1000 + seed, fold))
        for fold, (train, validation) in enumerate(splits)
        for seed in range(given["final_seeds"])
    ]
    architecture = Architecture(mode, given["depth"], head=head)
    table = Table.of(rows.X, rows.indicator, rows.y)
    return Stack(architecture, hyper, rows.task, table, runs, engine=engine)


def losses(stack: Stack, rows: Rows) -> np.ndarray:
    """Mean training loss of each run; a regression's in units of the target's variance."""
    found = []
    for run, output in zip(stack.runs, stack.outputs([r.train for r in stack.runs]), strict=True):
        y = rows.y[run.train]
        target = (y - y.mean()) / y.std() if rows.task == "regression" and rows.standardize else y
        mean = float(loss_rows(rows.task, *map(torch.as_tensor, (output, target))).mean())
        found.append(mean if rows.standardize else mean / y.var())
    return np.array(found)


def judged(output: np.ndarray, predicted: np.ndarray, run: Run, rows: Rows) -> dict:
    """One trained run on its validation rows.

    ``value`` is the accuracy with one half counted as a no, or the MSE; ``value_yes`` the accuracy
    with one half counted as a yes. ``positive`` is the share of rows called class 1 (a half: no),
    ``tied`` that of outputs of exactly zero.
    """
    truth, classify = rows.y[run.predict], rows.task == "classification"
    sd = float(rows.y[run.train].std())
    finite = bool(np.isfinite(predicted).all())
    name = "accuracy" if classify else "mse"
    return {
        "value": float(statistics.metric(name, truth, predicted)) if finite else np.nan,
        "value_yes": float(((output >= 0) == (truth > 0.5)).mean()) if classify else np.nan,
        "positive": float((output > 0).mean()) if classify else np.nan,
        "tied": float((output == 0).mean()),
        "smallest": float(output.min()),
        "constant": bool(statistics.constant(predicted, rows.task, sd)),
    }


def _arm(rows: Rows, mode: str, head: str, given, engine: str) -> list[dict]:
    stack = stack_of(rows, mode, head, rows.splits, given, engine)
    count, curve = stack.asked, {}
    for stage in range(given["max_epochs"] + 1):
        if stage in stages(given["max_epochs"]):
            curve[f"loss_{stage}"] = losses(stack, rows)[:count]
        if stage < given["max_epochs"]:
            stack.train_epoch(stage)
    at = [run.predict for run in stack.runs]
    outputs, predicted = stack.outputs(at), stack.predict(at)
    return [
        {"set": rows.name, "mode": mode, "head": head}
        | {"seed": run.seed[0], "fold": run.seed[1]}
        | judged(outputs[r], predicted[r], run, rows)
        | {name: values[r] for name, values in curve.items()}
        for r, run in enumerate(stack.runs[:count])
    ]


def _tasks(experiment: Experiment) -> list[tuple]:
    arms = itertools.product(sets(experiment), MODES, HEADS)
    return [(*arm, dict(experiment.parameters), experiment.engine) for arm in arms]


def runs(experiment: Experiment) -> pd.DataFrame:
    """A row a training: every set, mode, head, fold and seed, as `judged`, and the loss curve."""
    found = in_parallel(_arm, _tasks(experiment), experiment.workers)
    frame = pd.DataFrame(list(itertools.chain.from_iterable(found)))
    return frame.round(dict.fromkeys(frame.select_dtypes("number"), 6))


def _histogram(rows: Rows, head: str, given, engine: str) -> list[dict]:
    stack = stack_of(rows, "mixed", head, rows.splits[:1], given, engine)
    stack.train([given["max_epochs"]])
    count, validation = stack.asked, rows.splits[0][1]
    classify = rows.task == "classification"
    at = [validation] * len(stack.runs)
    shown = np.stack((stack.outputs if classify else stack.predict)(at)[:count])
    bins = LOGIT_BINS if classify else MPG_BINS
    shown = np.clip(np.nan_to_num(shown), bins[0], bins[-1])
    truth = rows.y[validation]
    parts = {"0": truth == 0, "1": truth == 1} if classify else {"prediction": truth == truth}
    drawn = {name: shown[:, rows_of] for name, rows_of in parts.items()}
    drawn |= {} if classify else {"target": truth}
    return [
        {"set": rows.name, "head": head, "rows": name, "left": left, "count": n}
        for name, values in drawn.items()
        for left, n in zip(bins, np.histogram(values, bins)[0], strict=False)
    ]


def outputs(experiment: Experiment) -> pd.DataFrame:
    """How the outputs of mixed networks on the first fold's validation rows are distributed.

    Logits by class, or predictions in the target's units beside the target, over all seeds; values
    beyond the bins count in the outermost.
    """
    tasks = [(rows, *rest) for rows, mode, *rest in _tasks(experiment) if mode == "mixed"]
    found = in_parallel(_histogram, tasks, experiment.workers)
    return pd.DataFrame(list(itertools.chain.from_iterable(found)))


PARTS = {"base": base, "runs": runs, "outputs": outputs}
