"""The correctness checks of one model, the first rung of the evidence ladder.

Each catches faults that others let pass. A check that says nothing about a model is *not
applicable* to it (``passed`` is None). They run on training rows with the eager engine, in
seconds (eight rows in a deep stack: up to a minute), and are the same for the same seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.func import functional_call

from mononet.models import Configuration, Model, NetworkModel, Problem, Quantiles
from mononet.training import BETA1, BETA2, Run, Stack, loss_rows, one_thread

GRADIENT_LIMIT = 1e-6
MONOTONICITY_LIMIT = 1e-9  # of the largest output: far above rounding, far below a fault
EIGHT_ROWS_LOSS, EIGHT_ROWS_STEPS = 0.02, 2000
EIGHT_ROWS_RATES, EIGHT_ROWS_STARTS = (1e-2, 3e-3, 1e-3, 3e-4), 2
INITIAL_LOSS_LIMIT = 0.02
PERFECT_FEATURE_LIMIT = 0.95
BASELINE_ROWS = 5000  # boosting and linear models are checked on at most so many
NAMES = (
    "shapes",
    "gradient",
    "monotonicity",
    "eight_rows",
    "initial_loss",
    "perfect_feature",
)


@dataclass(frozen=True)
class Check:
    """``passed`` None: not applicable. ``value`` and ``limit`` in the unit ``meaning`` names."""

    name: str
    passed: bool | None
    value: float | None
    limit: float | None
    meaning: str


def check(
    model: Model, configuration: Configuration, problem: Problem, seed: int = 0
) -> list[Check]:
    """All six checks of a catalogue entry, in the order of ``NAMES``.

    ``configuration`` is the selected one, ``problem`` holds training rows only.
    """
    if problem.inputs == "quantile":  # fitted once, on all rows, and not anew on eight of them
        X = Quantiles.fit(problem.X).transform(problem.X)
        problem = replace(problem, X=X, inputs="published")
    with one_thread():
        found = (network if isinstance(model, NetworkModel) else baseline)(
            model, configuration, problem, seed
        )
    by_name = {c.name: c for c in found}
    return [by_name.get(n, Check(n, None, None, None, "not applicable")) for n in NAMES]


def network(
    model: NetworkModel, configuration: Configuration, problem: Problem, seed: int
) -> list[Check]:
    """The checks of a network, each a function below."""
    rows = np.arange(len(problem.y))
    run = Run(rows, rows[:1], (seed,))
    stack = model.stack(configuration, problem, [run], dtype=torch.float64)
    return [
        shapes(model, configuration, stack),
        gradient(model, configuration, problem, seed),
        monotonicity(model, problem, stack, seed),
        eight_rows(model, configuration, problem, seed),
        initial_loss(stack),
    ]


def judged(name: str, value: float, limit: float, meaning: str) -> Check:
    """Passed up to the limit, on either side of zero. A value that is no number fails."""
    value = float(value)
    finite = math.isfinite(value)
    return Check(name, finite and abs(value) <= limit, value if finite else None, limit, meaning)


def expected_shapes(model: NetworkModel, configuration: Configuration, features: tuple[int, int]):
    """Parameter name → shape of one run, written down from the description alone.

    ``features`` counts the constrained and the free columns.
    """
    architecture, width = model.architecture(configuration), int(configuration["width"])
    constrained, free = features
    expected = {}

    def layer(name: str, inputs: int, outputs: int) -> None:
        expected[f"{name}.weight"], expected[f"{name}.bias"] = (inputs, outputs), (1, outputs)

    if free:
        layer("embedding", free, width)
    layer("stack.0", constrained + (width if free else 0), width)
    for k in range(1, architecture.depth + (1 if architecture.residual else 0)):
        layer(f"stack.{k}.layer" if architecture.residual else f"stack.{k}", width, width)
        if architecture.residual:
            expected[f"stack.{k}.skip_gate"] = expected[f"stack.{k}.branch_gate"] = (1, width)
    layer("readout", width, 1)
    return expected


def shapes(model: NetworkModel, configuration: Configuration, stack: Stack) -> Check:
    """Every weight, bias and gate, and what every layer returns for three rows."""
    monotone, free, _ = stack.table
    found = {name: tuple(p.shape[1:]) for name, p in stack.state.parameters.items()}
    expected = expected_shapes(model, configuration, (monotone.shape[1], free.shape[1]))

    def note(name):
        return lambda module, inputs, output: found.update({name: tuple(output.shape)})

    hooks = []
    for name, module in stack.skeleton.named_modules():
        if name and name != "stack":
            hooks.append(module.register_forward_hook(note(f"{name}()")))
            expected[f"{name}()"] = (3, 1 if name == "readout" else int(configuration["width"]))
    with torch.no_grad():
        stack.skeleton(monotone[:3], free[:3])
    for hook in hooks:
        hook.remove()
    wrong = sorted(n for n in found.keys() | expected.keys() if found.get(n) != expected.get(n))
    meaning = f"arrays without the shape written down, of {len(expected)}"
    if wrong:
        name = wrong[0]
        meaning += f": {name} is {found.get(name)}, expected {expected.get(name)}"
    return judged("shapes", len(wrong), 0, meaning)


def shake(stack: Stack, rng: np.random.Generator, scale: float) -> None:
    """Move every parameter at random, then off zero, where |W|, W⁺ and W⁻ have a kink."""
    for p in stack.state.parameters.values():
        p += torch.as_tensor(rng.normal(0, scale, tuple(p.shape)), dtype=p.dtype)
        p.copy_(torch.where(p < 0, p.clamp(max=-1e-3), p.clamp(min=1e-3)))


def gradient(
    model: NetworkModel, configuration: Configuration, problem: Problem, seed: int
) -> Check:
    """The gradient that the training step used, against central differences of the mean loss.

    On sixteen rows in float64; at most ten entries of each array; the relative error is that of
    the norms, array by array, and the largest counts. An array with less than 1e-4 of the whole
    norm is measured against that: differences cannot resolve it.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(problem.y))[:16]
    calm = {"weight_decay": 0.0, "dropout": 0.0, "batch_size": len(rows)}
    run = Run(rows, rows, (seed,))
    stack = model.stack({**configuration, **calm}, problem, [run], dtype=torch.float64)
    shake(stack, rng, 0.1)
    parameters = {name: p[0].clone() for name, p in stack.state.parameters.items()}
    monotone, free, target = (part[rows] for part in stack.table)
    target = (target - stack.constants.center[0, 0]) / stack.constants.scale[0, 0]

    def loss() -> float:
        output = functional_call(stack.skeleton, parameters, (monotone, free))
        return float(loss_rows(problem.task, output, target).mean())

    stack.train_epoch(0)  # one step: Adam's first moment is (1 − β₁) times the gradient
    differences, norms = [], []
    with torch.no_grad():
        for name, p in parameters.items():
            entries, values = p.view(-1), []
            chosen = rng.permutation(len(entries))[:10]
            for k in chosen:
                before, h = float(entries[k]), 1e-6
                entries[k] = before + h
                above = loss()
                entries[k] = before - h
                values.append((above - loss()) / (2 * h))
                entries[k] = before
            analytic = stack.state.first[name][0].reshape(-1)[chosen].numpy() / (1 - BETA1)
            differences.append(np.linalg.norm(analytic - values))
            norms.append(np.linalg.norm(analytic) + np.linalg.norm(values))
    error = np.max(differences / np.maximum(norms, 1e-4 * np.linalg.norm(norms) + 1e-30))
    return judged("gradient", error, GRADIENT_LIMIT, "relative error, analytic against numerical")


def larger(X: np.ndarray, indicator: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """X′ ≥ X in the indicator's direction: about half of the constrained columns of a row move,
    by up to a few standard deviations; the free columns are the same."""
    steps = rng.exponential(np.std(X, axis=0) + 0.1, X.shape) * (rng.random(X.shape) < 0.5)
    return X + steps * indicator


def monotonicity(model: NetworkModel, problem: Problem, stack: Stack, seed: int) -> Check:
    """No pair x ≤ x′ with a smaller output for x′, over 500 pairs and four random networks."""
    limit = MONOTONICITY_LIMIT
    if model.mode == "free" or not np.any(problem.indicator):
        return Check("monotonicity", None, None, None, "not applicable: nothing is constrained")
    rng = np.random.default_rng(seed)
    constrained = problem.indicator != 0
    X = problem.X[rng.integers(len(problem.y), size=500)]
    inputs = [
        torch.as_tensor(np.stack([part[:, constrained] * problem.indicator[constrained]]))
        for part in (X, larger(X, problem.indicator, rng))
    ]
    free = torch.as_tensor(X[:, ~constrained])
    initial, worst = stack.state, 0.0
    with torch.no_grad():
        for scale in (0.0, 0.1, 1.0, 3.0):
            copies = {name: p.clone() for name, p in initial.parameters.items()}
            stack.state = initial._replace(parameters=copies)
            if scale:
                shake(stack, rng, scale)
            values = {n: p[0] for n, p in (copies | stack.buffers).items()}
            low, high = (functional_call(stack.skeleton, values, (x[0], free)) for x in inputs)
            fall = (low - high).max() / low.abs().max().clamp(min=1e-300)
            worst = np.maximum(worst, float(fall)) if torch.isfinite(high).all() else math.nan
    stack.state = initial
    return judged("monotonicity", worst, limit, "largest fall, as a share of the largest output")


def contradicts(x: np.ndarray, y: float, others: np.ndarray, targets: np.ndarray, indicator):
    """Whether a row and one of the others break the indicator, so that no network can fit both.

    They do where their free columns are identical, one is at least the other in every constrained
    column (in its direction), and the targets are in the reverse order; equal rows contradict each
    other with any difference. With a continuous free column this hardly ever happens.
    """
    same = (others[:, indicator == 0] == x[indicator == 0]).all(axis=1)
    signed = (others - x) * indicator
    above, below = (signed >= 0).all(axis=1), (signed <= 0).all(axis=1)
    return bool((same & ((above & (targets < y)) | (below & (targets > y)))).any())


def consistent_rows(problem: Problem, count: int = 8) -> np.ndarray:
    """The first rows, skipping each that contradicts one already taken."""
    taken: list[int] = []
    for row in range(len(problem.y)):
        if len(taken) == count:
            break
        x, y = problem.X[row], problem.y[row]
        if not contradicts(x, y, problem.X[taken], problem.y[taken], problem.indicator):
            taken.append(row)
    return np.array(taken)


def eight_rows(
    model: NetworkModel, configuration: Configuration, problem: Problem, seed: int
) -> Check:
    """A network that cannot memorize eight rows cannot learn the task.

    The selected width, depth and mode, without decay and dropout, all rows in every batch. The
    question is whether this network *can*, so that the selected learning rate has no say (at 1e-4
    two thousand steps of Adam move a weight by about 0.2 at most): four rates from two starts
    each train side by side, and the best counts. A wide plain stack keeps jumping at 1e-2, a
    narrow one is too slow at 3e-4, some starts get stuck; a faulty network fails from all.
    """
    taken = consistent_rows(problem)
    few = replace(problem, X=problem.X[taken], y=problem.y[taken])
    rows = np.arange(len(taken))
    calm = {"weight_decay": 0.0, "dropout": 0.0, "batch_size": len(rows)}
    runs = [Run(rows, rows, (seed, k)) for k in range(EIGHT_ROWS_STARTS) for _ in EIGHT_ROWS_RATES]
    stack = model.stack({**configuration, **calm}, few, runs)
    schedule = torch.full((len(runs), 4), float(len(rows)))
    schedule[:, 1] = torch.tensor(EIGHT_ROWS_RATES).repeat(EIGHT_ROWS_STARTS)
    batch = (torch.as_tensor(rows).repeat(len(runs), 1),
             torch.ones(len(runs), len(rows), stack.hyper.width, dtype=torch.bool))  # fmt: skip
    value, step = math.inf, 0
    while value >= EIGHT_ROWS_LOSS and step < EIGHT_ROWS_STEPS:
        step += 1
        schedule[:, 2], schedule[:, 3] = 1 - BETA1**step, math.sqrt(1 - BETA2**step)
        with torch.no_grad():
            stack.state = stack.step(
                stack.state, stack.buffers, stack.constants, schedule, batch, stack.table
            )
        if step % 10 == 0:
            value = np.fmin.reduce([np.mean(losses) for losses in losses_of(stack)])
    meaning = f"loss of {len(rows)} rows after {step} steps, the best of {len(runs)} runs"
    return judged("eight_rows", value, EIGHT_ROWS_LOSS, meaning)


def standardized(stack: Stack, run: int) -> Tensor:
    """What a run's output is compared with on its training rows, (rows,), float64."""
    center, scale = (float(c[run]) for c in (stack.constants.center, stack.constants.scale))
    return (stack.table[2][stack.runs[run].train].double() - center) / scale


def losses_of(stack: Stack) -> list[np.ndarray]:
    """Loss of every run on its own training rows, [(rows,)]."""
    outputs = stack.outputs([run.train for run in stack.runs])
    return [
        loss_rows(stack.task, torch.as_tensor(output).double(), standardized(stack, r)).numpy()
        for r, output in enumerate(outputs)
    ]


def initial_loss(stack: Stack) -> Check:
    """Mean loss over the training rows before the first step: ln 2, or 1 if standardized.

    It is taken over all pairs of an output and a target, rows mixed. A fresh monotone network
    already points the right way, so that its outputs (sd 0.1) correlate with their own targets,
    and a fresh unconstrained one by chance: this moves the plain mean by up to 0.2 and is no
    fault. Mixing the rows takes out the covariance and nothing else; a wrong scale of labels or
    outputs, or a bias of the read-out, stays.
    """
    expected, slope = (math.log(2), 1) if stack.task == "classification" else (1.0, 2)
    own = losses_of(stack)[0].mean()
    output = stack.outputs([run.train for run in stack.runs])[0]
    loss = own + slope * np.cov(output, standardized(stack, 0), ddof=0)[0, 1]
    meaning = f"relative to {expected:.3f}: loss {loss:.4f} ({own:.4f} with each row's own target)"
    return judged("initial_loss", loss / expected - 1, INITIAL_LOSS_LIMIT, meaning)


def baseline(
    model: Model, configuration: Configuration, problem: Problem, seed: int
) -> list[Check]:
    """Boosting and linear models: shapes and range of the predictions, the constraint where there
    is one, and whether a column that equals the target is found.

    The last fits the selected configuration with that column, standardized, behind the others to
    four fifths of the rows, and asks of the rest a correlation of predictions and target
    (classification: the area under the ROC curve) of at least 0.95. On rows not fitted, since
    boosting fits its own without any help; both ignore scale, so that a strong, rightly chosen
    shrinkage is no fault.
    """
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(problem.y))[:BASELINE_ROWS]
    problem = replace(problem, X=problem.X[chosen], y=problem.y[chosen])
    rows = np.arange(len(chosen))
    train, rest = rows[: len(rows) * 4 // 5], rows[len(rows) * 4 // 5 :]
    stages = model.stages(2)
    X = problem.X[rng.integers(len(rows), size=500)]
    pairs = problem.with_rows(np.concatenate([X, larger(X, problem.indicator, rng)]))
    behind = len(rows) + np.arange(1000)
    predictions = model.fit(configuration, pairs, [Run(rows, behind, (seed,))], stages).predictions
    wrong = predictions[0].shape != (len(stages), 1000) or predictions[0].dtype != np.float32
    outside = problem.task == "classification" and not np.all(np.abs(predictions[0] - 0.5) <= 0.5)
    wrong = wrong or outside or not np.isfinite(predictions[0]).all()
    meaning = "predictions of another shape or type, not finite, or no probabilities"
    found = [judged("shapes", wrong, 0, meaning)]
    if getattr(model, "monotone", False) and np.any(problem.indicator):
        low, high = predictions[0][-1].astype(np.float64).reshape(2, 500)
        fall = max((low - high).max(), 0) / np.abs(low).max()
        meaning = "largest fall, as a share of the largest prediction"
        found.append(judged("monotonicity", fall, 1e-6, meaning))  # predictions are float32
    spread = np.std(problem.y) or 1.0  # the column in units like those of the others
    perfect = replace(
        problem,
        X=np.column_stack([problem.X, (problem.y - np.mean(problem.y)) / spread]),
        indicator=np.append(problem.indicator, 1),
    )
    run = Run(train, rest, (seed,))
    last = model.fit(configuration, perfect, [run], stages).predictions[0][-1]
    if problem.task == "classification":
        reached = roc_auc_score(problem.y[rest], last)
    else:
        reached = np.corrcoef(problem.y[rest], last)[0, 1]
    meaning = "one minus the agreement with the target on held-out rows, a perfect column given"
    return [*found, judged("perfect_feature", 1 - reached, 1 - PERFECT_FEATURE_LIMIT, meaning)]
