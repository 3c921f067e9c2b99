"""Layers that are non-decreasing in every input, and the unconstrained layer beside them.

Every layer takes an optional leading axis of runs: with ``runs=(15,)`` its weight is
(15, in, out), its input (15, rows, in), and the fifteen runs are one batched matrix product.
With ``runs=None`` it is an ordinary layer on (rows, in).
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

ACTIVATIONS = {
    "relu": F.relu,
    "elu": F.elu,
    "selu": F.selu,
    "softplus": F.softplus,
    "identity": lambda h: h,
}
MODES = ("mixed", "split")

# He's standard deviation, reduced: with non-negative weights every product adds up, none cancels.
GAIN = 0.7
# A gate's sharpness, and the raw gates that give 1 (the skip) and 0.1 (the branch).
SHARPNESS = 0.4
SKIP_GATE, BRANCH_GATE = 0.9, -0.9


def convex_units(units: int, fraction: float) -> torch.Tensor:
    """Signs (1, units): +1 for the first ⌈fraction·units⌉ units (convex), −1 for the rest."""
    signs = torch.full((1, units), -1.0)
    signs[:, : math.ceil(fraction * units)] = 1.0
    return signs


class Linear(nn.Module):
    """Unconstrained ρ(xW + b): (…, rows, in_features) → (…, rows, out_features).

    ``weight`` is (*runs, in_features, out_features), drawn from N(0, 2/in_features) × 0.7;
    ``bias`` is (*runs, 1, out_features), zero.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        activation: str = "elu",
        bias: bool = True,
        runs: tuple[int, ...] | None = None,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation is {activation!r}; choose from {', '.join(ACTIVATIONS)}")
        self.activation = activation
        stack = runs or ()
        self.weight = nn.Parameter(torch.empty(*stack, in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(*stack, 1, out_features)) if bias else None
        std = GAIN * math.sqrt(2 / max(in_features, 1))
        nn.init.normal_(self.weight, std=std, generator=generator)

    def affine(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x @ weight if self.bias is None else x @ weight + self.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ACTIVATIONS[self.activation](self.affine(x, self.weight))


class MonoLinear(Linear):
    """A layer that is non-decreasing in every input, for every finite weight.

    mixed: ρ(h) for convex units and −ρ(−h) for concave ones, h = x|W| + b; the first
    ⌈convex_fraction · out_features⌉ units are convex (Runje & Shankaranarayana, 2023).
    split: ρ(xW⁺ + b) − ρ(xW⁻ + b), W⁻ = min(W, 0) with its sign (Sartor et al., 2025).
    With the identity activation either mode is x|W| + b: the read-out.

    Shapes as in :class:`Linear`. Raises ValueError for an unknown mode or activation, and for a
    ``convex_fraction`` outside [0, 1].
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        mode: str = "mixed",
        activation: str = "elu",
        convex_fraction: float = 0.5,
        bias: bool = True,
        runs: tuple[int, ...] | None = None,
        generator: torch.Generator | None = None,
    ):
        super().__init__(
            in_features,
            out_features,
            activation=activation,
            bias=bias,
            runs=runs,
            generator=generator,
        )
        if mode not in MODES:
            raise ValueError(f"mode is {mode!r}; choose from {', '.join(MODES)}")
        if not 0 <= convex_fraction <= 1:
            raise ValueError(f"convex_fraction is {convex_fraction}; it lies between 0 and 1")
        self.mode = mode
        # A mask and not two slices: the graph stays the same for every fraction.
        self.register_buffer("convexity", convex_units(out_features, convex_fraction))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rho = ACTIVATIONS[self.activation]
        if self.activation == "identity":
            return self.affine(x, self.weight.abs())
        if self.mode == "mixed":
            h = self.affine(x, self.weight.abs())
            return self.convexity * rho(self.convexity * h)
        # Both signs side by side: one matrix product where two would do the same.
        both = x @ torch.cat([self.weight.clamp(min=0), self.weight.clamp(max=0)], dim=-1)
        positive, negative = both.chunk(2, dim=-1)
        shift = 0 if self.bias is None else self.bias
        return rho(positive + shift) - rho(negative + shift)


def gate(raw: torch.Tensor) -> torch.Tensor:
    """A positive number for every raw value: (α + √(α² + 0.4))/2, kept off the float's zero.

    Squareplus (Barron, 2021) and not softplus: its operations round alike in vector and scalar
    code, so that a run's bits do not depend on its place in a stack.
    """
    return (raw + (raw.square() + SHARPNESS).sqrt()) / 2 + 1e-6


class MonoResidual(nn.Module):
    """g(α)·skip(x) + g(β)·F(x), F one monotone layer, with positive gates a unit.

    ``skip`` is the identity where the widths agree, else a projection with positive weights.
    The gates have shape (*runs, 1, out_features) and start at (1, 0.1), so that a block starts
    near the identity.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        mode: str = "mixed",
        activation: str = "elu",
        convex_fraction: float = 0.5,
        runs: tuple[int, ...] | None = None,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        shared = {"mode": mode, "runs": runs, "generator": generator}
        self.layer = MonoLinear(
            in_features,
            out_features,
            activation=activation,
            convex_fraction=convex_fraction,
            **shared,
        )
        self.projection = (
            None
            if in_features == out_features
            else MonoLinear(in_features, out_features, activation="identity", bias=False, **shared)
        )
        shape = (*(runs or ()), 1, out_features)
        self.skip_gate = nn.Parameter(torch.full(shape, SKIP_GATE))
        self.branch_gate = nn.Parameter(torch.full(shape, BRANCH_GATE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = x if self.projection is None else self.projection(x)
        return gate(self.skip_gate) * skip + gate(self.branch_gate) * self.layer(x)
