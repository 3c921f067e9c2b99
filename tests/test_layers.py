"""The layers, against the same weights written out in NumPy, and monotone for every weight."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mononet import layers
from mononet.layers import ACTIVATIONS, MODES, Linear, MonoLinear, MonoResidual, gate

RHO = {
    "relu": lambda h: np.maximum(h, 0),
    "elu": lambda h: np.where(h > 0, h, np.expm1(np.minimum(h, 0))),
    "selu": lambda h: (
        1.0507009873554805 * np.where(h > 0, h, 1.6732632423543772 * np.expm1(np.minimum(h, 0)))
    ),
    "softplus": lambda h: np.logaddexp(0, h),
    "identity": lambda h: h,
}


def written_out(x, W, b, mode, activation, fraction):
    """The definition of a monotone layer, without torch."""
    rho = RHO[activation]
    if activation == "identity":
        return x @ np.abs(W) + b
    if mode == "split":
        return rho(x @ np.maximum(W, 0) + b) - rho(x @ np.minimum(W, 0) + b)
    h = x @ np.abs(W) + b
    convex = np.arange(W.shape[1]) < math.ceil(fraction * W.shape[1])
    return np.where(convex, rho(h), -rho(-h))


def drawn(module, seed=0, scale=1.0):
    """The module in float64 with every parameter drawn anew, biases and gates too."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(scale * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return module


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(0)


def array(tensor):
    return tensor.detach().numpy()


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    ("mode", "fraction"),
    [("split", 0.5), *(("mixed", f) for f in (0.0, 0.2, 0.5, 0.61, 1.0))],
)
def test_layer_is_its_definition(mode, activation, fraction):
    layer = drawn(MonoLinear(4, 7, mode=mode, activation=activation, convex_fraction=fraction))
    x = torch.randn(9, 4, dtype=torch.float64)
    expected = written_out(
        x.numpy(), array(layer.weight), array(layer.bias), mode, activation, fraction
    )
    np.testing.assert_allclose(array(layer(x)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_layer_without_bias_is_its_definition(mode):
    layer = drawn(MonoLinear(4, 7, mode=mode, bias=False))
    x = torch.randn(9, 4, dtype=torch.float64)
    expected = written_out(x.numpy(), array(layer.weight), 0.0, mode, "elu", 0.5)
    np.testing.assert_allclose(array(layer(x)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("fraction", "convex"), [(0.0, 0), (0.01, 1), (0.5, 4), (0.58, 5), (1.0, 7)]
)
def test_first_units_are_convex(fraction, convex):
    layer = drawn(MonoLinear(1, 7, activation="relu", convex_fraction=fraction))
    x = torch.linspace(-50, 50, 1001, dtype=torch.float64)[:, None]
    bend = layer(x).diff(n=2, dim=0)
    assert (bend[:, :convex] > -1e-9).all()
    assert (bend[:, convex:] < 1e-9).all()
    assert (bend.abs().max(0).values > 1e-3).all()  # every unit bends somewhere


@pytest.mark.parametrize("mode", MODES)
def test_identity_is_the_affine_map_with_absolute_weights(mode):
    layer = drawn(MonoLinear(3, 2, mode=mode, activation="identity"))
    x = torch.randn(5, 3, dtype=torch.float64)
    np.testing.assert_allclose(
        array(layer(x)), x.numpy() @ np.abs(array(layer.weight)) + array(layer.bias), rtol=1e-12
    )


def build(kind, inputs=4, outputs=5, runs=None, activation="elu"):
    if kind == "linear":
        return Linear(inputs, outputs, activation=activation, runs=runs)
    layer = MonoResidual if kind.startswith("residual") else MonoLinear
    return layer(inputs, outputs, mode=kind.split("-")[-1], activation=activation, runs=runs)


KINDS = ["linear", "mixed", "split", "residual-mixed", "residual-split"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("outputs", [4, 6])
def test_each_run_is_the_layer_alone(kind, outputs):
    stack = drawn(build(kind, outputs=outputs, runs=(3,)))
    x = torch.randn(3, 8, 4, dtype=torch.float64)
    together = stack(x)
    assert together.shape == (3, 8, outputs)
    for run in range(3):
        alone = build(kind, outputs=outputs).double()
        alone.load_state_dict(
            {
                name: value if name.endswith("convexity") else value[run]
                for name, value in stack.state_dict().items()
            }
        )
        torch.testing.assert_close(alone(x[run]), together[run], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("runs", [None, (3,), (2, 3)])
def test_shapes(runs):
    stack = runs or ()
    block = MonoResidual(4, 6, runs=runs)
    assert block.layer.weight.shape == (*stack, 4, 6)
    assert block.layer.bias.shape == (*stack, 1, 6)
    assert block.projection.weight.shape == (*stack, 4, 6)
    assert block.projection.bias is None
    assert block.skip_gate.shape == block.branch_gate.shape == (*stack, 1, 6)
    assert block(torch.zeros(*stack, 8, 4)).shape == (*stack, 8, 6)
    assert MonoResidual(4, 4, runs=runs).projection is None


def test_initial_weights():
    weight = MonoLinear(50, 4000, generator=torch.Generator().manual_seed(0)).weight
    assert float(weight.detach().std()) == pytest.approx(0.7 * math.sqrt(2 / 50), rel=0.01)
    assert float(weight.detach().mean()) == pytest.approx(0, abs=0.002)
    assert (MonoLinear(50, 40).bias == 0).all()
    same = MonoLinear(50, 4000, generator=torch.Generator().manual_seed(0)).weight
    assert torch.equal(weight, same)


def test_block_starts_near_the_identity():
    block = MonoResidual(5, 5).double()
    assert gate(block.skip_gate).detach().numpy() == pytest.approx(1, abs=1e-5)
    assert gate(block.branch_gate).detach().numpy() == pytest.approx(0.1, abs=1e-5)
    x = torch.randn(20, 5, dtype=torch.float64)
    torch.testing.assert_close(block(x), x + 0.1 * block.layer(x), rtol=1e-4, atol=1e-4)


def test_block_is_its_definition():
    block = drawn(MonoResidual(3, 5, mode="split"))
    x = torch.randn(9, 3, dtype=torch.float64)
    g = {
        name: (raw + np.sqrt(raw**2 + 0.4)) / 2 + 1e-6
        for name, raw in ((n, array(getattr(block, n))) for n in ("skip_gate", "branch_gate"))
    }
    layer = written_out(
        x.numpy(), array(block.layer.weight), array(block.layer.bias), "split", "elu", 0.5
    )
    skip = x.numpy() @ np.abs(array(block.projection.weight))
    expected = g["skip_gate"] * skip + g["branch_gate"] * layer
    np.testing.assert_allclose(array(block(x)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gates_are_positive_for_every_raw_value(dtype):
    raw = torch.cat([torch.linspace(-1e4, 1e4, 4001), torch.linspace(-120, 20, 4001)]).to(dtype)
    assert (gate(raw) > 0).all()
    assert torch.isfinite(gate(raw)).all()


def largest_fall(layer, x, steps):
    """The largest decrease from x to x + steps, as a share of what the layer adds up.

    Rounding is relative to the terms of a sum and not to the sum: the scale is the layer's own
    sum with all signs positive.
    """
    with torch.no_grad():
        fall = layer(x) - layer(x + steps)
        size = (x.abs() + steps) @ torch.ones(x.shape[-1], 1, dtype=x.dtype)
        largest = max(float(p.abs().max()) for p in layer.parameters())
        scale = (1 + size) * (1 + largest) ** 2
    return float((fall / scale).max())


numbers = st.one_of(
    st.floats(-3, 3), st.floats(-1e6, 1e6), st.sampled_from([0.0, -0.0, 1e-300, -1e-12, 1e9])
)


def floats(shape, elements=numbers):
    return arrays(np.float64, shape, elements=elements)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", KINDS[1:])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_monotone_for_every_finite_weight(kind, activation, data):
    outputs = data.draw(st.sampled_from([3, 4]))  # a block of 3 → 3 has no projection
    layer = build(kind, inputs=3, outputs=outputs, activation=activation).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.as_tensor(data.draw(floats(tuple(p.shape)))))
    x = torch.as_tensor(data.draw(floats((4, 3))))
    steps = torch.as_tensor(data.draw(floats((4, 3), st.floats(0, 1e6))))
    assert largest_fall(layer, x, steps) <= 1e-14


@pytest.mark.parametrize("raw", [-1e4, -100.0, -1.0, 0.0, 1.0, 1e4])
@pytest.mark.parametrize("mode", MODES)
def test_block_monotone_for_every_gate(mode, raw):
    block = drawn(MonoResidual(3, 4, mode=mode))
    with torch.no_grad():
        block.skip_gate.fill_(raw)
        block.branch_gate.fill_(-raw)
    x = torch.randn(200, 3, dtype=torch.float64)
    assert largest_fall(block, x, torch.rand(200, 3, dtype=torch.float64)) <= 1e-14
    rise = block(x + 1) - block(x)
    assert (rise > 0).all()  # and no gate shuts a block


def test_split_with_a_positive_second_part_is_not_monotone():
    """max(−W, 0) in the place of min(W, 0): the mistake that this layer invites."""

    class Wrong(MonoLinear):
        def forward(self, x):
            positive, negative = self.weight.clamp(min=0), (-self.weight).clamp(min=0)
            rho = ACTIVATIONS[self.activation]
            return rho(self.affine(x, positive)) - rho(self.affine(x, negative))

    x = torch.randn(200, 3, dtype=torch.float64)
    steps = torch.rand(200, 3, dtype=torch.float64)
    assert largest_fall(drawn(Wrong(3, 4, mode="split")), x, steps) > 1e-3
    assert largest_fall(drawn(MonoLinear(3, 4, mode="split")), x, steps) <= 1e-14


def test_unconstrained_layer_is_not_monotone():
    x = torch.randn(200, 3, dtype=torch.float64)
    assert largest_fall(drawn(Linear(3, 4)), x, torch.rand(200, 3, dtype=torch.float64)) > 1e-3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "splt"}, "mode is 'splt'; choose from mixed, split"),
        (
            {"activation": "tanh"},
            "activation is 'tanh'; choose from relu, elu, selu, softplus, identity",
        ),
        ({"convex_fraction": 1.2}, "convex_fraction is 1.2; it lies between 0 and 1"),
        ({"convex_fraction": -0.1}, "convex_fraction is -0.1; it lies between 0 and 1"),
    ],
)
@pytest.mark.parametrize("layer", [MonoLinear, MonoResidual])
def test_errors_name_the_parameter_and_what_is_accepted(layer, arguments, message):
    with pytest.raises(ValueError) as error:
        layer(3, 4, **arguments)
    assert str(error.value) == message


def test_activations_and_modes():
    assert tuple(layers.ACTIVATIONS) == ("relu", "elu", "selu", "softplus", "identity")
    assert layers.MODES == ("mixed", "split")
