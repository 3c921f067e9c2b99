"""Training a whole stack of runs at once, in one compiled pure function a step.

The protocol trains the same small network thousands of times: folds × seeds × trials. Here the
runs are the leading axis of every parameter; each keeps its own seed, rows, batch order and
dropout, so that a run's result never depends on which runs shared its stack.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad
from torch.nn import functional as F

from mononet.network import Architecture, Network

ENGINE_VERSION = 1
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
READOUT_SD = 0.1
# Rows of one forward pass without gradient. It depends on the table alone, never on the stack:
# a matrix product of another shape may round otherwise.
CHUNKS = ((4096, 128), (None, 1024))
# Measured: below about this many steps of a stack, compiling costs more than it saves.
STEPS_TO_PAY = 20_000

Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class Run:
    """One training: the rows it learns from, the rows it predicts, and the seed of its draws."""

    train: np.ndarray
    predict: np.ndarray
    seed: tuple[int, ...]


@dataclass(frozen=True)
class Table:
    """Rows of both branches, ready for the network: float arrays (rows, features), target (rows,).

    Rows that are only predicted need no target: ``target`` may be shorter than the columns.
    """

    monotone: np.ndarray
    free: np.ndarray
    target: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, indicator: np.ndarray, target: np.ndarray) -> Table:
        """X (rows, features) laid out by its monotonicity indicator (features,)."""
        constrained = indicator != 0
        return cls(X[:, constrained] * indicator[constrained], X[:, ~constrained], target)


@dataclass(frozen=True)
class Hyperparameters:
    """What one training needs beside its rows. ``clip_norm`` infinite means no clipping.

    ``rescale_readout`` and ``standardize`` (of a regression's target) are switched off by the
    stability experiments alone.
    """

    width: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    learning_rate_decay: float = 1.0
    dropout: float = 0.0
    convex_fraction: float = 0.5
    optimizer: str = "adamw"
    clip_norm: float = float("inf")
    rescale_readout: bool = True
    standardize: bool = True


class Constants(NamedTuple):
    """Scalars of a run that stay the same from step to step, each (runs, 1, 1)."""

    decoupled_decay: Tensor
    coupled_decay: Tensor
    clip_norm: Tensor
    keep_scale: Tensor
    center: Tensor
    scale: Tensor


class State(NamedTuple):
    """Parameters and Adam's two moments, name → (runs, …)."""

    parameters: Parameters
    first: Parameters
    second: Parameters


@dataclass(frozen=True)
class Trained:
    """Predictions of each run at each epoch asked for, [(epochs, rows)], in the target's units
    (regression) or as probabilities (classification), float32; and the last state."""

    predictions: list[np.ndarray]
    state: State
    parameters_per_run: int


def loss_rows(task: str, output: Tensor, target: Tensor) -> Tensor:
    """Squared error of the standardized target, or binary cross-entropy of the logit, a row."""
    if task == "regression":
        return (output - target).square()
    return F.binary_cross_entropy_with_logits(output, target, reduction="none")


def make_step(skeleton: Network, task: str) -> Callable[..., State]:
    """The pure function (state, buffers, constants, schedule, batch, table) → state.

    ``schedule`` is (runs, 4): rows with weight in this batch, learning rate, and the two bias
    corrections 1 − β₁ᵗ and √(1 − β₂ᵗ). ``batch`` is (row numbers (runs, batch), dropout mask
    (runs, batch, width)). A run whose batch has no rows is left as it was.
    Source of the update: Loshchilov & Hutter (2019), in the order of operations of torch.optim.
    """

    def objective(parameters, buffers, monotone, free, keep, target, weight, rows):
        output = functional_call(skeleton, (parameters, buffers), (monotone, free, keep))
        losses = loss_rows(task, output, target) * weight
        return (losses.sum(-1) / rows.clamp(min=1)).sum()

    def step(state, buffers, constants, schedule, batch, table):
        index, keep = batch
        monotone, free, target = table
        rows = schedule[:, 0]
        weight = (torch.arange(index.shape[1]) < rows[:, None]).to(monotone.dtype)
        keep = keep * constants.keep_scale
        target = (target[index] - constants.center[..., 0]) / constants.scale[..., 0]
        gradient = grad(objective)(
            state.parameters, buffers, monotone[index], free[index], keep, target, weight, rows
        )
        active = (rows > 0)[:, None, None]
        rate, correction1, correction2 = schedule[:, 1:, None, None].unbind(1)
        # One axis at a time: a reduction over two is compiled anew where their product is large.
        squares = (g.square().sum(-1, keepdim=True) for g in gradient.values())
        norm = sum(s.sum(-2, keepdim=True) for s in squares).sqrt()
        clip = (constants.clip_norm / (norm + 1e-6)).clamp(max=1.0)
        after = State({}, {}, {})
        for name, p in state.parameters.items():
            g = gradient[name] * clip + constants.coupled_decay * p
            m = BETA1 * state.first[name] + (1 - BETA1) * g
            v = BETA2 * state.second[name] + (1 - BETA2) * g.square()
            moved = p * (1 - rate * constants.decoupled_decay) - (rate / correction1) * m / (
                v.sqrt() / correction2 + EPSILON
            )
            after.parameters[name] = torch.where(active, moved, p)
            after.first[name] = torch.where(active, m, state.first[name])
            after.second[name] = torch.where(active, v, state.second[name])
        return after

    return step


@functools.cache
def _step(
    architecture: Architecture,
    features: tuple[int, int],
    task: str,
    dtype: torch.dtype,
    compiled: bool,
):
    """The step of one graph; widths, rows, runs and features beyond two are of no importance."""
    skeleton = Network(architecture, *features, width=2)
    step = make_step(skeleton, task)
    if not compiled:
        return step
    # One process needs a graph for every architecture: the default limit ends it at the ninth.
    torch._dynamo.config.recompile_limit = 1024
    torch._dynamo.config.accumulated_recompile_limit = 4096
    torch._dynamo.config.specialize_float = True  # the constants of Adam, not inputs of the graph
    torch._inductor.config.compile_threads = 1
    torch._inductor.config.size_asserts = False
    step = torch.compile(step, fullgraph=True, dynamic=True)
    # Sizes that agree at the first call become one symbol of the graph. So it is traced where they
    # agree by their meaning alone: 3 runs, 5 rows a batch, 11 rows, width 13.
    rows = np.arange(11)
    table = Table(*(np.ones((11, n)) for n in features), rows % 2.0)
    hyper = Hyperparameters(13, 5, 1e-3, dropout=0.5)
    runs = [Run(rows, rows, (seed,)) for seed in range(3)]
    example = Stack(architecture, hyper, task, table, runs, engine="eager", dtype=dtype)
    example.step = step
    example.train_epoch(0)
    return step


def resolve_engine(engine: str, steps: int) -> str:
    """compiled or eager; ``auto`` compiles where a C++ compiler is there and the steps pay."""
    if engine != "auto":
        return engine
    compiler = any(shutil.which(name) for name in ("c++", "g++", "clang++"))
    return "compiled" if compiler and steps >= STEPS_TO_PAY else "eager"


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One thread, and no denormals: a collapsing run decays its weights into them, where a step
    costs six to twelve times as much."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)


class Draws:
    """Everything random of one run after its initialization, epoch by epoch."""

    def __init__(self, run: Run, batch_size: int, width: int, dropout: float):
        self.rng = np.random.default_rng(run.seed)
        self.rows, self.batch_size = run.train, batch_size
        self.width, self.threshold = width, round(dropout * 2**16)
        self.steps = -(-len(run.train) // batch_size)

    def epoch(self, index: np.ndarray, keep: np.ndarray) -> None:
        """Fill row numbers (steps, batch) and, with dropout, the mask (steps, batch, width)."""
        flat = np.zeros(self.steps * self.batch_size, dtype=np.int64)
        flat[: len(self.rows)] = self.rng.permutation(self.rows)
        index[: self.steps] = flat.reshape(self.steps, self.batch_size)
        if self.threshold > 0:
            shape = (self.steps, self.batch_size, self.width)
            drawn = self.rng.integers(0, 2**16, size=shape, dtype=np.uint16)
            np.greater_equal(drawn, self.threshold, out=keep[: self.steps])


def _stack(items: Sequence[Parameters]) -> Parameters:
    return {name: torch.stack([item[name] for item in items]) for name in items[0]}


class Stack:
    """Runs of one architecture on one table, with one set of hyperparameters or one a run.

    ``runs`` of any length: a single one is padded to two, since a stack of one would take
    another matrix product with other rounding. Single runs may differ in all hyperparameters but
    width, batch size and the two switches of the experiments; ValueError otherwise.
    """

    def __init__(
        self,
        architecture: Architecture,
        hyper: Hyperparameters | Sequence[Hyperparameters],
        task: str,
        table: Table,
        runs: Sequence[Run],
        *,
        engine: str = "compiled",
        dtype: torch.dtype = torch.float32,
    ):
        self.task, self.dtype = task, dtype
        self.asked = len(runs)
        self.runs = list(runs) * 2 if len(runs) == 1 else list(runs)
        self.hypers = _one_a_run(hyper, len(self.runs))
        self.hyper = hyper = self.hypers[0]  # what all of them share is read here
        # Contiguous, wherever the columns came from: strides are part of a compiled graph.
        self.table = tuple(
            torch.as_tensor(np.ascontiguousarray(part), dtype=dtype)
            for part in (table.monotone, table.free, table.target)
        )
        widths = (table.monotone.shape[1], table.free.shape[1])
        networks = [
            Network(
                architecture,
                *widths,
                own.width,
                convex_fraction=own.convex_fraction,
                generator=torch.Generator().manual_seed(_torch_seed(run.seed)),
            ).to(dtype)
            for run, own in zip(self.runs, self.hypers, strict=True)
        ]
        self.skeleton = networks[0]
        self.parameters_per_run = sum(p.numel() for p in self.skeleton.parameters())
        self.buffers = _stack([dict(network.named_buffers()) for network in networks])
        parameters = _stack(
            [{k: p.detach() for k, p in net.named_parameters()} for net in networks]
        )
        zeros = {name: torch.zeros_like(p) for name, p in parameters.items()}
        self.state = State(parameters, zeros, {k: z.clone() for k, z in zeros.items()})
        self.draws = [
            Draws(run, own.batch_size, own.width, own.dropout)
            for run, own in zip(self.runs, self.hypers, strict=True)
        ]
        self.constants = self._constants(table.target)
        self.done = np.zeros(len(self.runs))  # steps each run has taken
        self.chunk = next(c for limit, c in CHUNKS if limit is None or len(table.free) <= limit)
        # A single column, or none, makes another graph; beyond that their number is a size.
        features = (min(widths[0], 2), 7 if widths[1] > 1 else widths[1])
        self.step = _step(architecture, features, task, dtype, engine == "compiled")
        if hyper.rescale_readout:
            self._rescale_readout()

    def _constants(self, target: np.ndarray) -> Constants:
        moments = [(0.0, 1.0)] * len(self.runs)
        if self.task == "regression" and self.hyper.standardize:
            moments = [(target[r.train].mean(), target[r.train].std()) for r in self.runs]
        coupled = np.array([hyper.optimizer == "adam" for hyper in self.hypers])
        decay = np.array([hyper.weight_decay for hyper in self.hypers])

        def column(values) -> Tensor:
            values = np.broadcast_to(values, len(self.runs))
            return torch.tensor(values, dtype=self.dtype)[:, None, None]

        return Constants(
            decoupled_decay=column(np.where(coupled, 0.0, decay)),
            coupled_decay=column(np.where(coupled, decay, 0.0)),
            clip_norm=column([hyper.clip_norm for hyper in self.hypers]),
            keep_scale=column([1 / (1 - draw.threshold / 2**16) for draw in self.draws]),
            center=column([m for m, _ in moments]),
            # A constant target leaves its scale at one instead of dividing by zero.
            scale=column([s if s > 0 else 1.0 for _, s in moments]),
        )

    def _rescale_readout(self) -> None:
        """Scale the read-out so that its output over each run's training rows has sd 0.1, and
        set its bias so that the mean is 0. A plain deep stack starts at a loss of a million
        otherwise."""
        outputs = self.outputs([run.train for run in self.runs])
        weight = self.state.parameters["readout.weight"]
        bias = self.state.parameters["readout.bias"]
        for r, output in enumerate(outputs):
            output = output.astype(np.float64)
            spread = output.std()
            factor = READOUT_SD / spread if np.isfinite(spread) and spread > 0 else 1.0
            weight[r] *= factor
            bias[r] = -factor * output.mean() if np.isfinite(output).all() else 0.0

    def outputs(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The network's outputs (logits, or standardized target) on each run's own rows."""
        longest = max(len(r) for r in rows)
        index = np.zeros((len(rows), -(-longest // self.chunk) * self.chunk), dtype=np.int64)
        for r, numbers in enumerate(rows):
            index[r, : len(numbers)] = numbers
        state = (self.state.parameters, self.buffers)
        monotone, free, _ = self.table
        with torch.no_grad(), one_thread():
            parts = [
                functional_call(self.skeleton, state, (monotone[part], free[part]))
                for part in torch.as_tensor(index).split(self.chunk, dim=1)
            ]
        output = torch.cat(parts, dim=1).numpy()
        return [output[r, : len(numbers)] for r, numbers in enumerate(rows)]

    def predict(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Predictions in the target's units, or probabilities, on each run's own rows, float32."""
        outputs = self.outputs(rows)
        if self.task == "classification":
            return [torch.sigmoid(torch.as_tensor(o).double()).float().numpy() for o in outputs]
        center, scale = self.constants.center.flatten(), self.constants.scale.flatten()
        return [
            (o.astype(np.float64) * float(s) + float(c)).astype(np.float32)
            for o, c, s in zip(outputs, center, scale, strict=True)
        ]

    def train_epoch(self, epoch: int) -> None:
        """One pass of every run over its own rows; ``epoch`` counts from 0 (for the decay)."""
        runs, hyper = len(self.runs), self.hyper
        steps = max(draw.steps for draw in self.draws)
        # Steps first: every batch is contiguous then, and strides are part of a compiled graph.
        index = np.zeros((steps, runs, hyper.batch_size), dtype=np.int64)
        keep = np.ones((steps, runs, hyper.batch_size, hyper.width), dtype=bool)
        schedule = np.ones((steps, runs, 4))
        rows = np.zeros((steps, runs))
        for r, draw in enumerate(self.draws):
            draw.epoch(index[:, r], keep[:, r])
            rows[: draw.steps, r] = hyper.batch_size
            rows[draw.steps - 1, r] = len(draw.rows) - (draw.steps - 1) * hyper.batch_size
        taken = self.done + np.cumsum(rows > 0, axis=0)
        self.done = taken[-1]
        schedule[..., 0] = rows
        schedule[..., 1] = [h.learning_rate * h.learning_rate_decay**epoch for h in self.hypers]
        schedule[..., 2] = 1 - BETA1**taken
        schedule[..., 3] = np.sqrt(1 - BETA2**taken)
        schedule = schedule.astype(torch.empty(0, dtype=self.dtype).numpy().dtype)
        with torch.no_grad(), one_thread():
            for arrays in zip(schedule, index, keep, strict=True):
                # Not slices of a tensor: what a view is a view of is part of a compiled graph.
                scheduled, numbers, mask = map(torch.from_numpy, arrays)
                self.state = self.step(
                    self.state, self.buffers, self.constants, scheduled, (numbers, mask), self.table
                )

    def train(self, epochs: Sequence[int]) -> Trained:
        """Train to the last of ``epochs`` (increasing); predictions of every run at each."""
        kept: list[list[np.ndarray]] = [[] for _ in self.runs]
        for epoch in range(max(epochs)):
            self.train_epoch(epoch)
            if epoch + 1 in epochs:
                predictions = self.predict([run.predict for run in self.runs])
                for run, values in zip(kept, predictions, strict=True):
                    run.append(values)
        stacked = [np.stack(run) for run in kept[: self.asked]]
        return Trained(stacked, self.state, self.parameters_per_run)


def _one_a_run(
    hyper: Hyperparameters | Sequence[Hyperparameters], runs: int
) -> list[Hyperparameters]:
    """The hyperparameters of each run; ValueError where they do not fit into one stack."""
    given = [hyper] if isinstance(hyper, Hyperparameters) else list(hyper)
    hypers = given * runs if len(given) == 1 else given
    if len(hypers) != runs:
        raise ValueError(f"{len(hypers)} sets of hyperparameters for {runs} runs")
    shared = ("width", "batch_size", "rescale_readout", "standardize")
    for name in shared:
        if len({getattr(each, name) for each in hypers}) > 1:
            raise ValueError(f"the runs of one stack have one {name}")
    return hypers


def _torch_seed(seed: tuple[int, ...]) -> int:
    """The initialization's seed, apart from the stream of batch orders and masks."""
    return int(np.random.SeedSequence((*seed, 1)).generate_state(1, np.uint64)[0] >> 1)
