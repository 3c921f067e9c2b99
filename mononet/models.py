"""The catalogue: five flavors of the monotone network and the baselines, one way to fit them all.

Every model takes a configuration, a problem and a list of runs, and returns for each run the
predictions on the rows that the run asks for, at every stage asked for: epochs of a network,
boosting iterations, or the one fit of a linear model.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from threadpoolctl import threadpool_limits

from mononet.network import Architecture
from mononet.training import Hyperparameters, Run, Stack, Table

CANDIDATE_EPOCHS = (1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90, 130)
BOOSTING_ITERATIONS = 500
LARGE = 20_000  # training rows above which batches are larger
BATCHES = (8, 16, 32, 64, 128, 256)
LARGE_BATCHES = (64, 128, 256, 512, 1024)
# Measured: where one layer of a stack has more activations than this (128 KiB), stacking more runs
# costs more in the cache than it saves in calls.
CACHED = 2**15
DISTINCT = 50  # a column with more distinct values than this has a smooth distribution


@dataclass(frozen=True)
class Problem:
    """Rows to learn from and to predict: X (rows, features) float64, y of the first len(y) rows.

    Rows beyond ``y`` can be predicted but not learned from. ``indicator`` is −1, 0 or +1 a
    feature; ``task`` regression or classification; ``inputs`` published or quantile.
    """

    X: np.ndarray
    y: np.ndarray
    indicator: np.ndarray
    task: str
    inputs: str = "published"
    optimizer: str = "adamw"

    def with_rows(self, extra: np.ndarray) -> Problem:
        """The same problem with rows to predict behind its own."""
        return replace(self, X=np.concatenate([self.X, extra]))


@dataclass(frozen=True)
class Fits:
    """Predictions [(stages, rows)] a run, float32; seconds spent; size of one fitted model.

    ``predict_seconds`` is for one run and one stage over ``predicted_rows`` rows; ``size`` counts
    weights, coefficients or tree nodes.
    """

    predictions: list[np.ndarray]
    train_seconds: float
    predict_seconds: float
    predicted_rows: int
    size: int

    @classmethod
    def joined(cls, parts: Sequence[Fits]) -> Fits:
        """The fits of one configuration's runs, cut into portions, as if they were made in one."""
        runs = [len(part.predictions) for part in parts]
        return cls(
            [predicted for part in parts for predicted in part.predictions],
            sum(part.train_seconds for part in parts),
            float(np.average([part.predict_seconds for part in parts], weights=runs)),
            parts[0].predicted_rows,
            parts[-1].size,
        )


Configuration = Mapping[str, float | int | str]
Space = dict[str, dict]


def integer(low: int, high: int, log: bool = False) -> dict:
    return {"type": "int", "low": low, "high": high, "log": log}


def real(low: float, high: float, log: bool = False) -> dict:
    return {"type": "float", "low": low, "high": high, "log": log}


def choice(*values) -> dict:
    return {"type": "choice", "values": list(values)}


@dataclass(frozen=True)
class Quantiles:
    """Columns through their ranks, fitted on given rows: monotone, so that a constraint survives.

    Columns with more than 50 distinct values become clipped normal scores; the others with more
    than two values unclipped ranks in [0, 1]; two-valued columns stay.
    """

    columns: tuple[tuple[QuantileTransformer, bool] | None, ...]

    @classmethod
    def fit(cls, X: np.ndarray) -> Quantiles:
        def column(values: np.ndarray):
            distinct = len(np.unique(values))
            if distinct <= 2:
                return None
            smooth = distinct > DISTINCT
            transformer = QuantileTransformer(
                n_quantiles=min(1000, len(values)),
                output_distribution="normal" if smooth else "uniform",
                random_state=0,
            )
            return transformer.fit(values[:, None]), smooth

        return cls(tuple(column(values) for values in X.T))

    def transform(self, X: np.ndarray) -> np.ndarray:
        result = np.array(X, dtype=np.float64)
        for j, fitted in enumerate(self.columns):
            if fitted is not None:
                transformer, smooth = fitted
                ranks = transformer.transform(X[:, [j]])[:, 0]
                result[:, j] = np.clip(ranks, -2.5, 2.5) / 1.5 if smooth else ranks
        return result


def _inputs_by_run(problem: Problem, runs: Sequence[Run]) -> list[tuple[np.ndarray, list[Run]]]:
    """Runs grouped by the inputs they see, [(X, runs)]: all together unless quantiles are fitted,
    one group for each set of training rows then."""
    if problem.inputs == "published":
        return [(problem.X, list(runs))]
    groups: dict[bytes, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.train.tobytes(), []).append(run)
    return [
        (Quantiles.fit(problem.X[group[0].train]).transform(problem.X), group)
        for group in groups.values()
    ]


class Model:
    """One entry of the catalogue. ``deterministic``: seeds do not move it, one fit says all."""

    name: str
    deterministic = False

    def space(self, rows: int, max_depth: int | None = None) -> Space:
        """Parameter name → its distribution, for a training part of so many rows."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def stages(self, max_epochs: int) -> tuple[int, ...]:
        """The stages among which cross-validation chooses, increasing."""
        return (*(e for e in CANDIDATE_EPOCHS if e < max_epochs), max_epochs)

    def curve_stages(self, max_epochs: int) -> tuple[int, ...]:
        """The stages at which a learning curve is drawn."""
        return tuple(range(1, max_epochs + 1))

    def fit(
        self,
        configuration: Configuration,
        problem: Problem,
        runs: Sequence[Run],
        stages: Sequence[int],
        engine: str = "eager",
    ) -> Fits:
        """Fit every run on its training rows and predict its other rows at each stage."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def portions(self, runs: Sequence[Run], most: int) -> list[list[Run]]:
        """How the runs of one configuration are best cut into tasks, ``most`` at the most."""
        return [list(runs)]

    def shares(
        self, configurations: Sequence[Configuration], runs: int, most: int
    ) -> list[list[int]]:
        """How a round of configurations, each of so many runs, is best cut into tasks: lists of
        their numbers, at most ``most`` in one."""
        return [[number] for number in range(len(configurations))]

    def fit_together(
        self,
        configurations: Sequence[Configuration],
        problem: Problem,
        runs: Sequence[Run],
        stages: Sequence[int],
        engine: str = "eager",
    ) -> list[list[np.ndarray]]:
        """Predictions of each configuration of one share on the same runs, as ``fit`` has them."""
        return [self.fit(c, problem, runs, stages, engine).predictions for c in configurations]


@dataclass(frozen=True)
class NetworkModel(Model):
    """A flavor of the two-branch network; ``mode`` None is searched, free is unconstrained."""

    name: str
    mode: str | None
    residual: bool = False
    depths: tuple[int, ...] = (1, 2, 3, 4)

    def space(self, rows: int, max_depth: int | None = None) -> Space:
        # The cap reaches down to a flavor's shallowest form, and no further.
        depths = [d for d in self.depths if max_depth is None or d <= max_depth]
        space = {
            "width": choice(8, 16, 21, 32, 64),
            "depth": choice(*(depths or self.depths[:1])),
            "learning_rate": real(1e-4, 1e-1, log=True),
            "weight_decay": real(1e-5, 0.2, log=True),
            "dropout": real(0.0, 0.5),
            "learning_rate_decay": real(0.85, 1.0),
            "batch_size": choice(*(LARGE_BATCHES if rows > LARGE else BATCHES)),
        }
        if self.mode is None:
            space["mode"] = choice("mixed", "split")
        if self.mode in ("mixed", None):
            space["convex_fraction"] = real(0.0, 1.0)
        return space

    def architecture(self, configuration: Configuration) -> Architecture:
        mode = self.mode or str(configuration["mode"])
        return Architecture(mode, int(configuration["depth"]), self.residual)

    def hyperparameters(self, configuration: Configuration, optimizer: str) -> Hyperparameters:
        return Hyperparameters(
            width=int(configuration["width"]),
            batch_size=int(configuration["batch_size"]),
            learning_rate=float(configuration["learning_rate"]),
            weight_decay=float(configuration["weight_decay"]),
            learning_rate_decay=float(configuration["learning_rate_decay"]),
            dropout=float(configuration["dropout"]),
            convex_fraction=float(configuration.get("convex_fraction", 0.5)),
            optimizer=optimizer,
        )

    def shares(self, configurations, runs, most) -> list[list[int]]:
        """Configurations of the same graph, width and batch size share a stack as long as its
        activations stay in the cache. The longest share is first, so that workers end together."""
        groups: dict[tuple, list[int]] = {}
        for number, c in enumerate(configurations):
            groups.setdefault((self.architecture(c), c["width"], c["batch_size"]), []).append(
                number
            )
        shares = []
        for (_, width, batch), numbers in groups.items():
            size = min(most, max(1, CACHED // (int(width) * int(batch) * runs)))
            shares += [numbers[at : at + size] for at in range(0, len(numbers), size)]

        def work(share: list[int]) -> float:
            c = configurations[share[0]]
            return len(share) * self.architecture(c).depth / int(c["batch_size"])

        return sorted(shares, key=work, reverse=True)

    def stack(
        self,
        configuration: Configuration | Sequence[Configuration],
        problem: Problem,
        runs: Sequence[Run],
        engine: str = "eager",
        **options,
    ) -> Stack:
        """The runs as one stack, rows and columns laid out for the network's two branches; with
        one configuration for all of them or, out of one share, one a run."""
        parts, renumbered, offset = [], {}, 0
        for X, group in _inputs_by_run(problem, runs):
            parts.append(X)
            for run in group:
                renumbered[id(run)] = Run(run.train + offset, run.predict + offset, run.seed)
            offset += len(X)
        X = parts[0] if len(parts) == 1 else np.concatenate(parts)
        target = np.full(len(problem.X), np.nan)
        target[: len(problem.y)] = problem.y
        table = Table.of(X, problem.indicator, np.tile(target, len(parts)))
        many = [configuration] if isinstance(configuration, Mapping) else configuration
        return Stack(
            self.architecture(many[0]),
            [self.hyperparameters(each, problem.optimizer) for each in many],
            problem.task,
            table,
            [renumbered[id(run)] for run in runs],
            engine=engine,
            **options,
        )

    def fit_together(self, configurations, problem, runs, stages, engine="eager"):
        one_a_run = [c for c in configurations for _ in runs]
        stack = self.stack(one_a_run, problem, [*runs] * len(configurations), engine)
        predictions = iter(stack.train(stages).predictions)
        return [[next(predictions) for _ in runs] for _ in configurations]

    def fit(self, configuration, problem, runs, stages, engine="eager") -> Fits:
        start = time.perf_counter()
        stack = self.stack(configuration, problem, runs, engine)
        trained = stack.train(stages)
        middle = time.perf_counter()
        rows = [run.predict for run in stack.runs]
        stack.outputs(rows)
        seconds = (time.perf_counter() - middle) / len(rows)
        return Fits(
            trained.predictions,
            middle - start,
            seconds,
            len(runs[0].predict),
            trained.parameters_per_run,
        )


class SklearnModel(Model):
    """Fits one run after the other; a subclass says how one run is fitted."""

    def portions(self, runs, most) -> list[list[Run]]:
        size = -(-len(runs) // most)
        return [list(runs[at : at + size]) for at in range(0, len(runs), size)]

    def fit(self, configuration, problem, runs, stages, engine="eager") -> Fits:
        predictions, seconds, predicting, size = [], 0.0, 0.0, 0
        for X, group in _inputs_by_run(problem, runs):
            for run in group:
                with threadpool_limits(1):
                    start = time.perf_counter()
                    estimator = self.estimator(configuration, problem, run, stages)
                    estimator.fit(X[run.train], problem.y[run.train])
                    middle = time.perf_counter()
                    last = _predict(estimator, problem.task, X[run.predict])
                    end = time.perf_counter()
                    staged = (
                        last[None]
                        if len(stages) == 1
                        else self.staged(estimator, problem.task, X[run.predict], stages)
                    )
                seconds, predicting = seconds + middle - start, predicting + end - middle
                size = self.size(estimator)
                predictions.append((id(run), staged.astype(np.float32)))
        by_run = dict(predictions)
        return Fits(
            [by_run[id(run)] for run in runs],
            seconds,
            predicting / len(runs),
            len(runs[0].predict),
            size,
        )


def _predict(estimator, task: str, X: np.ndarray) -> np.ndarray:
    return estimator.predict_proba(X)[:, 1] if task == "classification" else estimator.predict(X)


@dataclass(frozen=True)
class Boosting(SklearnModel):
    """scikit-learn's histogram boosting, with or without the same monotonicity indicator."""

    name: str
    monotone: bool

    def space(self, rows: int, max_depth: int | None = None) -> Space:
        return {
            "learning_rate": real(0.01, 0.3, log=True),
            "max_leaf_nodes": integer(4, 63),
            "min_samples_leaf": integer(2, 100, log=True),
            "l2_regularization": real(1e-6, 10.0, log=True),
            "max_features": real(0.3, 1.0),
        }

    def shares(self, configurations, runs, most) -> list[list[int]]:
        """The fits with the most leaves first, so that workers end together."""
        leaves = [int(c["max_leaf_nodes"]) for c in configurations]
        return [[number] for number in np.argsort(leaves, kind="stable")[::-1].tolist()]

    def stages(self, max_epochs: int) -> tuple[int, ...]:
        """As many stages of one fit as a network has candidate epochs: the same free choice."""
        count = len(super().stages(max_epochs))
        return tuple(int(s) for s in np.unique(np.geomspace(5, BOOSTING_ITERATIONS, count).round()))

    def curve_stages(self, max_epochs: int) -> tuple[int, ...]:
        return tuple(range(5, BOOSTING_ITERATIONS + 1, 5))

    def estimator(self, configuration, problem, run, stages):
        kind = (
            HistGradientBoostingClassifier
            if problem.task == "classification"
            else HistGradientBoostingRegressor
        )
        return kind(
            max_iter=max(stages),
            early_stopping=False,
            monotonic_cst=problem.indicator if self.monotone else None,
            random_state=int(np.random.SeedSequence(run.seed).generate_state(1)[0]),
            **configuration,
        )

    def staged(self, estimator, task: str, X: np.ndarray, stages: Sequence[int]) -> np.ndarray:
        steps = (
            (p[:, 1] for p in estimator.staged_predict_proba(X))
            if task == "classification"
            else estimator.staged_predict(X)
        )
        return np.stack([p for stage, p in enumerate(steps, start=1) if stage in stages])

    def size(self, estimator) -> int:
        return sum(len(tree.nodes) for stage in estimator._predictors for tree in stage)


@dataclass(frozen=True)
class LinearModel(SklearnModel):
    """Ridge or logistic regression on standardized columns, without a constraint."""

    name: str = "linear"
    deterministic = True

    def space(self, rows: int, max_depth: int | None = None) -> Space:
        return {"regularization": real(1e-4, 1e4, log=True)}

    def stages(self, max_epochs: int) -> tuple[int, ...]:
        return (1,)

    def curve_stages(self, max_epochs: int) -> tuple[int, ...]:
        return self.stages(max_epochs)

    def estimator(self, configuration, problem, run, stages):
        strength = float(configuration["regularization"])
        if problem.task == "classification":
            return make_pipeline(
                StandardScaler(), LogisticRegression(C=1 / strength, max_iter=1000)
            )
        return make_pipeline(StandardScaler(), Ridge(alpha=strength))

    def size(self, estimator) -> int:
        return int(np.size(estimator[-1].coef_)) + 1


DEEP = (6, 10, 16)
CATALOGUE: dict[str, Model] = {
    model.name: model
    for model in (
        NetworkModel("mixed", "mixed"),
        NetworkModel("split", "split"),
        NetworkModel("mixed-residual", "mixed", residual=True),
        NetworkModel("split-residual", "split", residual=True),
        NetworkModel("deep", None, residual=True, depths=DEEP),
        Boosting("hgb-monotone", monotone=True),
        Boosting("hgb", monotone=False),
        LinearModel(),
        NetworkModel("mlp", "free"),
    )
}
FLAVORS = ("mixed", "split", "mixed-residual", "split-residual", "deep")
