"""The two-branch network and its unconstrained twin, built from a small frozen description.

Columns that carry a monotonicity indicator go straight into the stack (negated where it is −1);
the others pass through an unconstrained embedding first. The read-out is linear.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from mononet.layers import Linear, MonoLinear, MonoResidual


@dataclass(frozen=True)
class Architecture:
    """What shapes the computation graph, and nothing else: widths, rows and runs stay free.

    ``mode`` is mixed, split, or free (no constraint: the MLP); ``depth`` counts the layers of a
    plain stack, or the blocks after the input layer of a residual one. ``head`` is the read-out's
    activation: identity, unless the head-collapse diagnostic asks for another by name.
    """

    mode: str
    depth: int
    residual: bool = False
    activation: str = "elu"
    head: str = "identity"


class Network(nn.Module):
    """(monotone columns, free columns) → one output a row, before any link function.

    Shapes: monotone (*runs, rows, monotone_features), free (*runs, rows, free_features), output
    (*runs, rows). ``keep``, if given, is the embedding's dropout mask, already scaled,
    (*runs, rows, width).
    """

    def __init__(
        self,
        architecture: Architecture,
        monotone_features: int,
        free_features: int,
        width: int,
        *,
        convex_fraction: float = 0.5,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        mode, activation = architecture.mode, architecture.activation
        shared = {"generator": generator}
        constraint = {"mode": mode, "convex_fraction": convex_fraction} if mode != "free" else {}
        layer = Linear if mode == "free" else MonoLinear

        def stacked(inputs: int, outputs: int, activation: str) -> nn.Module:
            return layer(inputs, outputs, activation=activation, **constraint, **shared)

        self.embedding = (
            Linear(free_features, width, activation=activation, **shared) if free_features else None
        )
        inputs = monotone_features + (width if free_features else 0)
        self.stack = nn.ModuleList([stacked(inputs, width, activation)])
        for _ in range(architecture.depth if architecture.residual else architecture.depth - 1):
            self.stack.append(
                MonoResidual(width, width, activation=activation, **constraint, **shared)
                if architecture.residual
                else stacked(width, width, activation)
            )
        self.readout = stacked(width, 1, architecture.head)

    def forward(
        self, monotone: torch.Tensor, free: torch.Tensor, keep: torch.Tensor | None = None
    ) -> torch.Tensor:
        x = monotone
        if self.embedding is not None:
            embedded = self.embedding(free)
            if keep is not None:
                embedded = embedded * keep
            x = torch.cat([monotone, embedded], dim=-1)
        for layer in self.stack:
            x = layer(x)
        return self.readout(x).squeeze(-1)
