"""The network of every flavor: linear read-out, monotone where it must be, and of which size."""

import dataclasses

import numpy as np
import pytest
import torch
from torch.func import functional_call

from mononet.layers import Linear, MonoLinear, MonoResidual
from mononet.models import CATALOGUE, FLAVORS, Problem
from mononet.network import Architecture, Network
from mononet.training import Run

NETWORKS = [*FLAVORS, "mlp"]
CONFIGURATION = {
    "width": 6,
    "depth": 2,
    "mode": "mixed",
    "learning_rate": 0.01,
    "weight_decay": 0.0,
    "dropout": 0.0,
    "learning_rate_decay": 1.0,
    "batch_size": 16,
    "convex_fraction": 0.6,
}


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(0)


def problem(indicator=(1, -1, 0, 0, 1), rows=40, task="regression"):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rows, len(indicator)))
    y = X @ np.linspace(1, -1, len(indicator)) + rng.normal(size=rows)
    y = (y > 0).astype(float) if task == "classification" else y
    return Problem(X, y, np.array(indicator), task)


def stacked(name, of=None, seeds=(0,), **configuration):
    of = of or problem()
    rows = np.arange(len(of.y))
    runs = [Run(rows, rows, (s,)) for s in seeds]
    return CATALOGUE[name].stack({**CONFIGURATION, **configuration}, of, runs, dtype=torch.float64)


def outputs(stack, X, indicator):
    """The first run's outputs on rows X, before the link function."""
    indicator = np.asarray(indicator)
    constrained = indicator != 0
    values = {k: v[0] for k, v in (stack.state.parameters | stack.buffers).items()}
    inputs = (X[:, constrained] * indicator[constrained], X[:, ~constrained])
    with torch.no_grad():
        return functional_call(stack.skeleton, values, tuple(map(torch.as_tensor, inputs))).numpy()


def shake(stack, scale=1.0, seed=0):
    """Weights drawn anew: whatever the training would find."""
    rng = np.random.default_rng(seed)
    for p in stack.state.parameters.values():
        p += scale * torch.as_tensor(rng.normal(size=tuple(p.shape)))
    return stack


@pytest.mark.parametrize("name", NETWORKS)
def test_readout_is_linear(name):
    stack = stacked(name)
    readout = stack.skeleton.readout
    assert CATALOGUE[name].architecture(CONFIGURATION).head == "identity"
    assert readout.activation == "identity"
    assert type(readout) is (Linear if name == "mlp" else MonoLinear)
    X, indicator = problem().X, problem().indicator
    before = outputs(stack, X, indicator)
    stack.state.parameters["readout.bias"].zero_()
    plain = outputs(stack, X, indicator)
    stack.state.parameters["readout.weight"].mul_(1e6)
    np.testing.assert_allclose(outputs(stack, X, indicator), 1e6 * plain, rtol=1e-9)
    assert before.min() < 0 < before.max()  # no half of the range is cut off


def test_another_head_only_by_name():
    assert [f.name for f in dataclasses.fields(Architecture) if f.default == "identity"] == ["head"]
    assert Network(Architecture("split", 1, head="elu"), 2, 0, 4).readout.activation == "elu"
    for name in NETWORKS:
        for depth in CATALOGUE[name].depths:
            for mode in ("mixed", "split"):
                chosen = CATALOGUE[name].architecture({"depth": depth, "mode": mode})
                assert chosen.head == "identity"


@pytest.mark.parametrize("scale", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("name", FLAVORS)
def test_monotone_in_the_signed_columns(name, scale):
    of = problem()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) * 2
    steps = rng.exponential(size=X.shape) * (rng.random(X.shape) < 0.5) * of.indicator
    for mode in ("mixed", "split") if name == "deep" else ("mixed",):
        stack = shake(stacked(name, of, mode=mode), scale)
        low, high = outputs(stack, X, of.indicator), outputs(stack, X + steps, of.indicator)
        assert (low - high).max() <= 1e-12 * np.abs(low).max()
        assert (high - low).max() > 0
        # Against the indicator, and in the free columns, it is not.
        assert (outputs(stack, X - steps, of.indicator) - low).max() <= 1e-12 * np.abs(low).max()


def test_mlp_is_not_monotone():
    of = problem()
    X = np.random.default_rng(0).normal(size=(400, 5))
    stack = shake(stacked("mlp", of))
    low = outputs(stack, X, of.indicator)
    assert (low - outputs(stack, X + 0.5 * of.indicator, of.indicator)).max() > 0.1


@pytest.mark.parametrize("name", FLAVORS)
def test_free_columns_are_unconstrained(name):
    """Some network falls in a free column and some rises: the embedding has both signs."""
    of = problem()
    signs = set()
    for seed in range(8):
        stack = shake(stacked(name, of), seed=seed)
        step = np.array([0, 0, 1.0, 0, 0])
        change = outputs(stack, of.X + step, of.indicator) - outputs(stack, of.X, of.indicator)
        signs |= set(np.sign(change))
    assert {-1.0, 1.0} <= signs


def layer(inputs, outputs):
    return inputs * outputs + outputs


@pytest.mark.parametrize(
    ("name", "depth", "expected"),
    [
        # 3 constrained and 2 free columns, width 6: the embedding, the stack, the read-out
        ("mixed", 1, layer(2, 6) + layer(9, 6) + layer(6, 1)),
        ("split", 3, layer(2, 6) + layer(9, 6) + 2 * layer(6, 6) + layer(6, 1)),
        ("mlp", 3, layer(2, 6) + layer(9, 6) + 2 * layer(6, 6) + layer(6, 1)),
        ("mixed-residual", 1, layer(2, 6) + layer(9, 6) + layer(6, 6) + 12 + layer(6, 1)),
        ("deep", 6, layer(2, 6) + layer(9, 6) + 6 * (layer(6, 6) + 12) + layer(6, 1)),
    ],
)
def test_parameter_counts(name, depth, expected):
    assert stacked(name, depth=depth).parameters_per_run == expected


def test_depth_counts_layers_or_blocks():
    plain = Network(Architecture("mixed", 3), 2, 1, 4)
    assert [type(layer) for layer in plain.stack] == [MonoLinear] * 3
    residual = Network(Architecture("mixed", 3, residual=True), 2, 1, 4)
    assert [type(layer) for layer in residual.stack] == [MonoLinear] + [MonoResidual] * 3
    assert all(block.projection is None for block in residual.stack[1:])


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("indicator", [(0, 0, 0), (1, -1, 1), (0, 0, 1), (0, -1, -1)])
@pytest.mark.parametrize("name", ["mixed", "split-residual", "mlp"])
def test_works_without_free_or_without_constrained_columns(name, indicator, task):
    stack = stacked(name, problem(indicator, task=task), seeds=(0, 1))
    assert (stack.skeleton.embedding is None) == (0 not in indicator)
    trained = stack.train([1, 2])
    assert [p.shape for p in trained.predictions] == [(2, 40), (2, 40)]
    assert np.isfinite(trained.predictions).all()


def test_convex_fraction_reaches_every_layer():
    network = Network(Architecture("mixed", 2), 2, 1, 8, convex_fraction=0.25)
    for layer in network.stack:
        assert layer.convexity.flatten().tolist() == [1.0] * 2 + [-1.0] * 6


def test_keep_multiplies_the_embedding_only():
    network = Network(Architecture("split", 1), 2, 3, 4)
    monotone, free = torch.randn(5, 2), torch.randn(5, 3)
    shut = network(monotone, free, torch.zeros(5, 4))
    torch.testing.assert_close(shut, network(monotone, torch.randn(5, 3), torch.zeros(5, 4)))
    open_ = network(monotone, free, torch.ones(5, 4))
    torch.testing.assert_close(open_, network(monotone, free))
    assert not torch.equal(open_, shut)
