"""Each check passes sound models and catches the fault that it is there for."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from mononet import checks
from mononet.checks import check, consistent_rows, contradicts
from mononet.layers import ACTIVATIONS, Linear, MonoLinear
from mononet.models import CATALOGUE, FLAVORS, Boosting, LinearModel, Problem
from mononet.training import Stack

NETWORK = {
    "width": 16,
    "depth": 2,
    "learning_rate": 1e-4,
    "weight_decay": 0.1,
    "dropout": 0.4,
    "learning_rate_decay": 0.85,
    "batch_size": 32,
    "convex_fraction": 0.5,
    "mode": "split",
}
BOOSTING = {
    "learning_rate": 0.05,
    "max_leaf_nodes": 8,
    "min_samples_leaf": 10,
    "l2_regularization": 0.1,
    "max_features": 0.7,
}


def problem(task="regression", indicator=(1, -1, 0, 0, 0), rows=120, **more):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, 5))
    y = X[:, 0] - X[:, 1] + np.sin(2 * X[:, 2]) + 0.5 * rng.normal(size=rows)
    y = (y > 0.3).astype(float) if task == "classification" else 20 + 8 * y
    return Problem(X, y, np.array(indicator), task, **more)


def configuration(name):
    model = CATALOGUE[name]
    if isinstance(model, Boosting):
        return BOOSTING
    return {"regularization": 1.0} if isinstance(model, LinearModel) else NETWORK


def checked(name, of=None, seed=0, **changes):
    of = problem() if of is None else of
    found = check(CATALOGUE[name], {**configuration(name), **changes}, of, seed)
    return {c.name: c for c in found}


APPLICABLE = {
    **{name: set(checks.NAMES) - {"perfect_feature"} for name in FLAVORS},
    "mlp": {"shapes", "gradient", "eight_rows", "initial_loss"},
    "hgb-monotone": {"shapes", "monotonicity", "perfect_feature"},
    "hgb": {"shapes", "perfect_feature"},
    "linear": {"shapes", "perfect_feature"},
}


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("name", CATALOGUE)
def test_sound_models_pass(name, task):
    found = checked(name, problem(task))
    assert tuple(found) == checks.NAMES
    assert {n for n, c in found.items() if c.passed is not None} == APPLICABLE[name]
    assert [c for c in found.values() if c.passed is False] == []
    for c in found.values():
        assert (c.value is None) == (c.limit is None) == (c.passed is None)
        assert c.passed is None or abs(c.value) <= c.limit


@pytest.mark.parametrize("name", ["mixed-residual", "hgb-monotone"])
def test_same_seed_same_checks_and_plain_json(name):
    first, again = (list(checked(name, seed=3).values()) for _ in range(2))
    assert first == again
    text = json.dumps([asdict(c) for c in first], allow_nan=False)
    assert json.loads(text) == [asdict(c) for c in first]


@pytest.mark.parametrize("name", ["split", "mlp", "hgb-monotone"])
def test_without_constrained_columns_there_is_nothing_to_violate(name):
    found = checked(name, problem(indicator=(0, 0, 0, 0, 0)))
    assert found["monotonicity"].passed is None
    assert all(c.passed is not False for c in found.values())


@pytest.mark.parametrize("name", ["split", "linear"])
def test_quantile_inputs(name):
    found = checked(name, problem(inputs="quantile"))
    assert all(c.passed is not False for c in found.values())


def failed(found):
    return {name for name, c in found.items() if c.passed is False}


@pytest.fixture
def quickly(monkeypatch):
    """Faults need not be trained for two thousand steps to be seen."""
    monkeypatch.setattr(checks, "EIGHT_ROWS_STEPS", 300)


def test_wrong_sign_of_the_split_layer_is_caught(monkeypatch, quickly):
    def forward(self, x):
        rho = ACTIVATIONS[self.activation]
        if self.activation == "identity":
            return self.affine(x, self.weight.abs())
        negative = (-self.weight).clamp(min=0)
        return rho(self.affine(x, self.weight.clamp(min=0))) - rho(self.affine(x, negative))

    monkeypatch.setattr(MonoLinear, "forward", forward)
    found = checked("split")
    assert failed(found) == {"monotonicity"}
    assert found["monotonicity"].value > 1e-3


def test_layer_without_gradient_is_caught(monkeypatch, quickly):
    sound = Linear.affine

    def affine(self, x, weight):
        return sound(self, x, weight.detach() if weight.shape[-1] == 1 else weight)

    monkeypatch.setattr(Linear, "affine", affine)
    found = checked("mlp")
    assert "gradient" in failed(found)
    assert found["gradient"].value == pytest.approx(1)


def test_flipped_gradient_is_caught(monkeypatch, quickly):
    class Flipped(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x.clone()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, gradient):
            return -gradient

    sound = Linear.affine
    monkeypatch.setattr(
        Linear, "affine", lambda self, x, weight: sound(self, x, Flipped.apply(weight))
    )
    found = checked("mlp")
    assert {"gradient", "eight_rows"} <= failed(found)
    assert "initial_loss" not in failed(found)


def test_bias_of_the_output_is_caught(monkeypatch, quickly):
    """Log odds of 3 before any training: the loss is far above ln 2."""
    sound = Stack._rescale_readout

    def biased(self):
        sound(self)
        self.state.parameters["readout.bias"] += 3

    monkeypatch.setattr(Stack, "_rescale_readout", biased)
    found = checked("split", problem("classification"))
    assert failed(found) == {"initial_loss"}
    assert found["initial_loss"].value > 0.5


def test_outputs_that_are_not_rescaled_are_caught(monkeypatch, quickly):
    monkeypatch.setattr(Stack, "_rescale_readout", lambda self: None)
    assert "initial_loss" in failed(checked("mixed", depth=4))


def test_nonlinear_readout_cannot_memorize(monkeypatch, quickly):
    """A convex read-out (elu) never falls below −1, and a row lies 2.6 sd below the mean."""
    sound = CATALOGUE["mixed"]

    class Cut(type(sound)):
        def architecture(self, configuration):
            return replace(super().architecture(configuration), head="elu")

    of = problem()
    lowest = np.argmin(of.X[:8, 0])
    one_below = replace(of, y=np.where(np.arange(len(of.y)) == lowest, -10.0, 10.0))
    assert "eight_rows" not in failed(checked("mixed", one_below))
    found = {c.name: c for c in check(Cut("mixed", "mixed"), NETWORK, one_below)}
    assert found["eight_rows"].value > (2.6 - 1) ** 2 / 8 - 0.1
    assert "eight_rows" in failed(found)


def test_wrong_shape_is_named(monkeypatch, quickly):
    sound = checks.expected_shapes

    def another(*arguments):
        return sound(*arguments) | {"stack.1.weight": (16, 17)}

    monkeypatch.setattr(checks, "expected_shapes", another)
    found = checked("mixed")
    assert failed(found) == {"shapes"}
    assert found["shapes"].value == 1
    assert found["shapes"].meaning.endswith("stack.1.weight is (16, 16), expected (16, 17)")


def test_boosting_without_its_constraint_is_caught(monkeypatch):
    sound = Boosting.estimator

    def free(self, *arguments):
        return sound(self, *arguments).set_params(monotonic_cst=None)

    monkeypatch.setattr(Boosting, "estimator", free)
    assert failed(checked("hgb-monotone")) == {"monotonicity"}


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("name", ["hgb", "linear"])
def test_column_order_that_is_mixed_up_is_caught(monkeypatch, name, task):
    """The perfect column is lost where fitting and predicting order the columns differently."""
    model = type(CATALOGUE[name])
    sound = model.estimator

    def estimator(self, *arguments):
        fitted = sound(self, *arguments)
        fit = fitted.fit
        fitted.fit = lambda X, y: fit(X[:, ::-1], y)
        return fitted

    monkeypatch.setattr(model, "estimator", estimator)
    assert "perfect_feature" in failed(checked(name, problem(task)))


def test_predictions_that_are_no_number_are_caught(monkeypatch):
    sound = LinearModel.fit

    def broken(self, *arguments):
        fits = sound(self, *arguments)
        return replace(fits, predictions=[p * np.nan for p in fits.predictions])

    monkeypatch.setattr(LinearModel, "fit", broken)
    found = checked("linear")
    assert failed(found) == {"shapes", "perfect_feature"}
    assert found["perfect_feature"].value is None


@pytest.mark.parametrize(
    ("x", "y", "other", "target", "expected"),
    [
        # columns: increasing, decreasing, free
        ([2, 0, 5], 0.0, [1, 0, 5], 1.0, True),  # more of the first, less of the target
        ([2, 0, 5], 1.0, [1, 0, 5], 0.0, False),
        ([1, 2, 5], 1.0, [1, 1, 5], 0.0, True),  # more of the second, more of the target
        ([1, 2, 5], 0.0, [1, 1, 5], 1.0, False),
        ([2, 0, 5], 0.0, [1, 0, 6], 1.0, False),  # another free column explains it
        ([2, 2, 5], 0.0, [1, 1, 5], 1.0, False),  # not comparable
        ([1, 1, 5], 0.0, [1, 1, 5], 1.0, True),  # the same row twice
        ([1, 1, 5], 1.0, [1, 1, 5], 1.0, False),
    ],
)
def test_contradicts(x, y, other, target, expected):
    indicator = np.array([1, -1, 0])
    x, others = np.array(x, float), np.array([other], float)
    assert contradicts(x, y, others, np.array([target]), indicator) is expected
    assert contradicts(others[0], target, x[None], np.array([y]), indicator) is expected


def test_consistent_rows_are_the_first_eight_but_for_contradictions():
    of = problem()
    assert consistent_rows(of).tolist() == list(range(8))
    X, y = of.X.copy(), of.y.copy()
    X[3], y[3] = X[1], y[1] + 1  # the same row, another target
    X[5], y[5] = X[0] + [1, 0, 0, 0, 0], y[0] - 1  # better in the first column, yet lower
    assert consistent_rows(replace(of, X=X, y=y)).tolist() == [0, 1, 2, 4, 6, 7, 8, 9]


def test_eight_rows_do_not_depend_on_the_selected_learning_rate():
    model, of = CATALOGUE["split"], problem("classification")
    slow, fast = (
        checks.eight_rows(model, {**NETWORK, "learning_rate": rate}, of, 0) for rate in (1e-4, 0.1)
    )
    assert slow == fast
    assert slow.passed
