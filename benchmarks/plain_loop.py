"""The plain way, for comparison: one run at a time, over the layers of the public package mononet.

Run in a child process whose path has that package in front: it shares our import name. Prints
microseconds for one step of one run, once a line, each time a line arrives on standard input.
"""

import sys
import time

import torch
from mononet.torch import MonoLinear

ROWS, EPOCHS = 256, 12


class TwoBranch(torch.nn.Module):
    """The network of the book: embedding, a stack of depth 2, linear read-out; mixed units."""

    def __init__(self, monotone: int, free: int, width: int):
        super().__init__()
        self.embedding = torch.nn.Linear(free, width)
        self.stack = torch.nn.Sequential(
            MonoLinear(monotone + width, width, activation="elu"),
            MonoLinear(width, width, activation="elu"),
            MonoLinear(width, 1),
        )

    def forward(self, monotone: torch.Tensor, free: torch.Tensor) -> torch.Tensor:
        embedded = torch.nn.functional.elu(self.embedding(free))
        embedded = torch.nn.functional.dropout(embedded, 0.1)
        return self.stack(torch.cat([monotone, embedded], dim=-1)).squeeze(-1)


def microseconds(width: int, batch: int) -> float:
    """Of one step: draw the batch, zero the gradient, forward, backward, AdamW; float64, eager."""
    network = TwoBranch(3, 4, width).double()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-2)
    monotone, free, target = (
        torch.randn(ROWS, *shape, dtype=torch.float64) for shape in ((3,), (4,), ())
    )
    start = time.perf_counter()
    for _ in range(EPOCHS):
        for rows in torch.randperm(ROWS).split(batch):
            optimizer.zero_grad()
            (network(monotone[rows], free[rows]) - target[rows]).square().mean().backward()
            optimizer.step()
    return (time.perf_counter() - start) / (EPOCHS * ROWS // batch) * 1e6


if __name__ == "__main__":
    torch.set_num_threads(1)
    size = [int(argument) for argument in sys.argv[1:]]
    microseconds(*size)
    for _ in sys.stdin:
        print(microseconds(*size), flush=True)
