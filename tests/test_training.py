"""The training step against torch's own optimizers, and runs that do not notice each other."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mononet.models import CATALOGUE, FLAVORS, Problem
from mononet.network import Architecture
from mononet.training import Draws, Hyperparameters, Run, Stack, Table, resolve_engine

GOLDEN_MESSAGE = (
    "a three-epoch training gives other numbers than recorded. If that is meant: raise "
    "PROTOCOL_VERSION in mononet/study.py, so that recorded studies are not taken for the new "
    "ones (ENGINE_VERSION in mononet/training.py when only bits moved), and record them anew here"
)
ARCHITECTURES = {
    "mixed": Architecture("mixed", 2),
    "split": Architecture("split", 3),
    "residual": Architecture("mixed", 2, residual=True),
    "mlp": Architecture("free", 2),
}


@pytest.fixture(autouse=True)
def one_thread_throughout():
    """Threads that come and go between epochs cost more than these small products."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def table(rows=60, task="regression", monotone=2, free=3, seed=0):
    rng = np.random.default_rng(seed)
    m, f = rng.normal(size=(rows, monotone)), rng.normal(size=(rows, free))
    y = m.sum(1) + np.sin(2 * f.sum(1)) + 0.3 * rng.normal(size=rows)
    return Table(m, f, (y > 0).astype(float) if task == "classification" else 20 + 5 * y)


def hyper(**changes):
    return Hyperparameters(**({"width": 8, "batch_size": 8, "learning_rate": 0.01} | changes))


def stack(runs, architecture="mixed", task="regression", of=None, engine="eager", **changes):
    dtype = changes.pop("dtype", torch.float64)
    of = of or table(task=task)
    return Stack(
        ARCHITECTURES[architecture], hyper(**changes), task, of, runs, engine=engine, dtype=dtype
    )


def run(seed, rows=60, start=0):
    return Run(np.arange(start, start + rows), np.arange(60), (seed,))


def parameters(of, number=0):
    return {name: p[number].clone() for name, p in of.state.parameters.items()}


def largest_difference(a, b):
    return max(float((a[name].detach() - b[name].detach()).abs().max()) for name in a)


def reference(of: Stack, number: int, epochs: int) -> dict[str, torch.Tensor]:
    """The same training by torch: a plain module, autograd, torch.optim, the same batches."""
    module, h, one = of.skeleton, of.hyper, of.runs[number]
    module.load_state_dict(parameters(of, number) | {k: b[number] for k, b in of.buffers.items()})
    kind = torch.optim.AdamW if h.optimizer == "adamw" else torch.optim.Adam
    optimizer = kind(module.parameters(), lr=h.learning_rate, weight_decay=h.weight_decay)
    monotone, free, target = of.table
    rows = target[torch.as_tensor(one.train)]
    if of.task == "regression":
        target = (target - rows.mean()) / rows.std(correction=0)
    draws = Draws(one, h.batch_size, h.width, h.dropout)
    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = h.learning_rate * h.learning_rate_decay**epoch
        index = np.zeros((draws.steps, h.batch_size), dtype=np.int64)
        draws.epoch(index, keep=np.empty(0))
        order = torch.as_tensor(index.reshape(-1)[: len(one.train)])
        for batch in order.split(h.batch_size):  # the last batch is shorter: a mean of its rows
            output = module(monotone[batch], free[batch])
            loss = (
                F.mse_loss(output, target[batch])
                if of.task == "regression"
                else F.binary_cross_entropy_with_logits(output, target[batch])
            )
            optimizer.zero_grad()
            loss.backward()
            if np.isfinite(h.clip_norm):
                nn.utils.clip_grad_norm_(module.parameters(), h.clip_norm)
            optimizer.step()
    return dict(module.named_parameters())


@pytest.mark.parametrize(
    ("architecture", "task", "changes"),
    [
        ("mixed", "regression", {}),
        ("mixed", "regression", {"weight_decay": 0.2}),
        ("mixed", "regression", {"weight_decay": 0.2, "optimizer": "adam"}),
        ("mixed", "regression", {"weight_decay": 0.1, "clip_norm": 0.05}),
        ("split", "classification", {"weight_decay": 0.1, "learning_rate_decay": 0.9}),
        ("residual", "regression", {"weight_decay": 0.1, "optimizer": "adam", "clip_norm": 0.5}),
        ("mlp", "classification", {"weight_decay": 0.01, "batch_size": 32}),
    ],
)
def test_step_is_torch_optim(architecture, task, changes):
    """200 steps; 60 rows in batches of 8, so that every eighth batch holds four rows."""
    of = stack([run(3)], architecture, task, **changes)
    before = parameters(of)
    epochs = -(-200 // of.draws[0].steps)
    expected = reference(of, 0, epochs)
    for epoch in range(epochs):
        of.train_epoch(epoch)
    assert of.done[0] >= 200
    assert largest_difference(parameters(of), expected) < 1e-10
    assert largest_difference(parameters(of), before) > 1e-2


@pytest.mark.parametrize(
    "changes", [{"clip_norm": 0.05}, {"optimizer": "adam"}, {"weight_decay": 0.0}]
)
def test_each_option_changes_the_training(changes):
    plain = stack([run(3)], weight_decay=0.2)
    other = stack([run(3)], **({"weight_decay": 0.2} | changes))
    assert largest_difference(parameters(plain), parameters(other)) == 0
    for of in (plain, other):
        of.train_epoch(0)
    assert largest_difference(parameters(plain), parameters(other)) > 1e-4


def test_first_step_moves_every_weight_by_the_learning_rate():
    """Adam's bias corrections: without them the first step would be about three times as long."""
    of = stack([run(0)], batch_size=64, learning_rate=1e-3)
    before = parameters(of)
    of.train_epoch(0)
    after = parameters(of)
    moved = torch.cat([(after[n] - before[n]).abs().flatten() for n in after])
    assert float(moved.median()) == pytest.approx(1e-3, rel=1e-4)
    assert float(moved.max()) <= 1e-3 * (1 + 1e-9)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_run_alone_is_the_run_in_company(architecture, dropout):
    runs = [run(seed, rows=40 + seed, start=seed % 3) for seed in range(15)]
    changes = {"dropout": dropout, "weight_decay": 0.05}
    alone, three, fifteen = (stack(runs[:n], architecture, **changes) for n in (1, 3, 15))
    for of in (alone, three, fifteen):
        for epoch in range(3):
            of.train_epoch(epoch)
    for other in (three, fifteen):
        assert largest_difference(parameters(alone), parameters(other)) < 1e-10
    assert largest_difference(parameters(fifteen, 0), parameters(fifteen, 1)) > 1e-2
    predictions = [of.predict([r.predict for r in of.runs])[0] for of in (alone, three, fifteen)]
    np.testing.assert_allclose(predictions[0], predictions[1], rtol=1e-6)
    np.testing.assert_allclose(predictions[0], predictions[2], rtol=1e-6)


def test_runs_with_hyperparameters_of_their_own_train_as_each_would_alone():
    changes = [
        {"learning_rate": 0.1, "weight_decay": 0.2, "dropout": 0.4},
        {"optimizer": "adam", "weight_decay": 0.05, "learning_rate_decay": 0.9},
        {"clip_norm": 0.1, "dropout": 0.1},
    ]
    runs, hypers = [run(seed) for seed in range(3)], [hyper(**each) for each in changes]
    together = Stack(
        ARCHITECTURES["split"], hypers, "regression", table(), runs, engine="eager",
        dtype=torch.float64,
    )  # fmt: skip
    for epoch in range(3):
        together.train_epoch(epoch)
    for number, each in enumerate(changes):
        one = stack(runs, "split", **each)
        for epoch in range(3):
            one.train_epoch(epoch)
        assert largest_difference(parameters(together, number), parameters(one, number)) < 1e-12


def test_hyperparameters_that_shape_the_stack_are_shared():
    runs = [run(0), run(1)]
    for name, other in {"width": 16, "batch_size": 4, "standardize": False}.items():
        hypers = [hyper(), hyper(**{name: other})]
        with pytest.raises(ValueError, match=f"one {name}"):
            Stack(ARCHITECTURES["mixed"], hypers, "regression", table(), runs, engine="eager")
    with pytest.raises(ValueError, match="3 sets of hyperparameters for 2 runs"):
        Stack(ARCHITECTURES["mixed"], [hyper()] * 3, "regression", table(), runs, engine="eager")


def test_shorter_fold_is_left_alone_by_the_batch_it_lacks():
    """200 and 201 rows in batches of 8: the 26th batch holds one row of the second run only."""
    of = table(rows=201)
    short, long = run(0, rows=200), run(1, rows=201)
    together, alone = stack([short, long], of=of), stack([short], of=of)
    for epoch in range(4):
        together.train_epoch(epoch)
        alone.train_epoch(epoch)
        assert together.done.tolist() == [25 * (epoch + 1), 26 * (epoch + 1)]
    for part in ("parameters", "first", "second"):
        a, b = getattr(together.state, part), getattr(alone.state, part)
        assert max(float((a[name][0] - b[name][0]).abs().max()) for name in a) < 1e-10


@pytest.mark.parametrize("optimizer", ["adamw", "adam"])
def test_batch_without_rows_moves_nothing(optimizer):
    of = stack([run(0), run(1)], weight_decay=0.1, optimizer=optimizer)
    of.train_epoch(0)  # moments that are not zero
    schedule = torch.tensor([[0.0, 0.01, 0.1, 0.1], [8.0, 0.01, 0.1, 0.1]]).double()
    batch = (torch.arange(8).repeat(2, 1), torch.ones(2, 8, 8, dtype=torch.bool))
    after = of.step(of.state, of.buffers, of.constants, schedule, batch, of.table)
    for part in ("parameters", "first", "second"):
        for name, old in getattr(of.state, part).items():
            new = getattr(after, part)[name]
            assert torch.equal(new[0], old[0]), (part, name)
            assert not torch.equal(new[1], old[1]), (part, name)


def test_loss_of_a_short_batch_is_the_mean_of_its_rows():
    """Three rows in a batch of 8 and of 3 are the same step: padding has no weight."""
    wide, narrow = (stack([run(0, rows=3)], batch_size=size) for size in (8, 3))
    for of in (wide, narrow):
        of.train_epoch(0)
    assert largest_difference(parameters(wide), parameters(narrow)) < 1e-12
    gradient = [of.state.first["readout.bias"][0] for of in (wide, narrow)]
    torch.testing.assert_close(*gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize(
    ("flavor", "depth"), [*((f, 2) for f in FLAVORS), ("split", 4), ("deep", 16), ("mlp", 2)]
)
def test_initial_output_has_mean_zero_and_sd_a_tenth(flavor, depth, task):
    of = table(task=task)
    X = np.column_stack([of.monotone, of.free])
    problem = Problem(X, of.target, np.array([1, 1, 0, 0, 0]), task)
    configuration = {"width": 21, "depth": depth, "mode": "split", "batch_size": 8}
    rest = dict.fromkeys(("learning_rate", "weight_decay", "dropout", "convex_fraction"), 0.1)
    configuration |= {"learning_rate_decay": 1.0} | rest
    runs = [Run(np.arange(n), np.arange(60), (n,)) for n in (40, 50, 60)]
    fresh = CATALOGUE[flavor].stack(configuration, problem, runs)
    for output in fresh.outputs([r.train for r in runs]):
        assert output.std() == pytest.approx(0.1, rel=1e-3)
        assert output.mean() == pytest.approx(0, abs=1e-3)


def test_initial_prediction_is_the_mean_of_the_training_target():
    of = table()
    rows = np.arange(45)
    fresh = stack([Run(rows, rows, (0,))], of=of)
    prediction = fresh.predict([rows, rows])[0]
    assert prediction.mean() == pytest.approx(of.target[:45].mean(), rel=1e-5)
    assert prediction.std() == pytest.approx(0.1 * of.target[:45].std(), rel=1e-3)
    assert prediction.dtype == np.float32


def test_without_rescaling_a_deep_plain_stack_starts_far_off():
    def spread(**changes):
        fresh = Stack(Architecture("mixed", 4), hyper(width=64, **changes), "regression", table(),
                      [run(0)])  # fmt: skip
        return fresh.outputs([run(0).train] * 2)[0].std()

    assert spread(rescale_readout=False) > 100 * spread()


def test_seeds_differ_and_repeat():
    first, again, other = (stack([run(s)], dropout=0.2, dtype=torch.float32) for s in (0, 0, 1))
    assert largest_difference(parameters(first), parameters(again)) == 0
    assert largest_difference(parameters(first), parameters(other)) > 0.1
    predictions = [of.train([1, 2]).predictions[0] for of in (first, again, other)]
    assert np.array_equal(predictions[0], predictions[1])
    assert not np.allclose(predictions[0], predictions[2])


def test_seeds_are_tuples_of_numbers():
    weights = [
        parameters(stack([Run(np.arange(9), np.arange(9), seed)]))["readout.weight"]
        for seed in ((1, 2), (2, 1), (1, 2, 3))
    ]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.5])
def test_dropout_rate(dropout):
    draws = Draws(run(0), 8, 500, dropout)
    index = np.zeros((draws.steps, 8), dtype=np.int64)
    keep = np.ones((draws.steps, 8, 500), dtype=bool)
    draws.epoch(index, keep)
    assert keep.mean() == pytest.approx(1 - dropout, abs=0.01)
    assert np.array_equal(np.sort(index.flat[:60]), np.arange(60))
    scale = stack([run(0)], dropout=dropout).constants.keep_scale
    assert float(scale[0]) == pytest.approx(1 / (1 - dropout), rel=1e-4)


def test_every_epoch_has_its_own_order_and_mask():
    draws = Draws(run(0), 8, 4, 0.5)
    epochs = []
    for _ in range(2):
        index, keep = np.zeros((8, 8), dtype=np.int64), np.ones((8, 8, 4), dtype=bool)
        draws.epoch(index, keep)
        epochs.append((index, keep))
    assert not np.array_equal(epochs[0][0], epochs[1][0])
    assert not np.array_equal(epochs[0][1], epochs[1][1])


def test_constant_target_divides_by_nothing():
    of = table()
    constant = Table(of.monotone, of.free, np.full(60, 7.0))
    trained = stack([run(0)], of=constant).train([1, 5])
    assert np.isfinite(trained.predictions[0]).all()
    assert trained.predictions[0][0].mean() == pytest.approx(7, abs=0.5)


def test_rows_without_target_are_predicted_and_not_learned_from():
    of = table()
    known = np.where(np.arange(60) < 40, of.target, np.nan)
    runs = [run(0, rows=40)]
    blind, seeing = (
        stack(runs, of=Table(of.monotone, of.free, y)).train([3]) for y in (known, of.target)
    )
    assert blind.predictions[0].shape == (1, 60)
    assert np.array_equal(blind.predictions[0], seeing.predictions[0])


def test_predictions_at_an_epoch_do_not_depend_on_the_others_asked_for():
    both, last = stack([run(0)]).train([1, 2, 4]), stack([run(0)]).train([4])
    assert both.predictions[0].shape == (3, 60)
    assert np.array_equal(both.predictions[0][2], last.predictions[0][0])


def test_classification_predicts_probabilities():
    trained = stack([run(0), run(1)], "split", "classification").train([30])
    for predictions in trained.predictions:
        assert ((predictions >= 0) & (predictions <= 1)).all()
        right = (predictions[0] > 0.5) == table(task="classification").target
        assert right.mean() > 0.75


def test_engine_is_resolved():
    assert resolve_engine("eager", 10**9) == "eager"
    assert resolve_engine("compiled", 1) == "compiled"
    assert resolve_engine("auto", 1) == "eager"


@pytest.mark.parametrize(
    ("architecture", "task", "expected"),
    [
        ("mixed", "regression", [23.653431, 18.91976, 25.788382, 19.664835, 23.011591, 26.64595]),
        ("split", "classification", [0.606023, 0.448391, 0.62583, 0.535081, 0.67305, 0.763108]),
        (
            "residual",
            "regression",
            [23.084015, 19.314186, 25.817539, 19.951893, 22.536154, 26.609198],
        ),
        ("mlp", "classification", [0.518376, 0.46727, 0.714273, 0.483746, 0.533106, 0.56638]),
    ],
)
def test_golden_training(architecture, task, expected):
    """Three epochs on a generated table: first, second and last prediction of two runs."""
    runs = [run(0, rows=50), run(1, rows=45, start=10)]
    changes = {"dropout": 0.25, "weight_decay": 0.1, "learning_rate_decay": 0.9}
    of = stack(runs, architecture, task, dtype=torch.float32, **changes)
    found = [float(p[-1][row]) for p in of.train([3]).predictions for row in (0, 1, -1)]
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-5), GOLDEN_MESSAGE


# Compiled: one graph each is a quarter to two thirds of a minute.


def compilations():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["split", "residual"])
def test_one_graph_for_every_size_and_the_same_bits_in_every_stack(architecture):
    """Widths, batches and stacks are dynamic; a run's bits do not depend on its company."""
    runs = [run(seed, rows=40 + seed % 7, start=seed % 3) for seed in range(60)]
    warm = stack(runs[:2], architecture, engine="compiled", dtype=torch.float32)
    warm.train_epoch(0)
    graphs = compilations()
    assert graphs > 0  # the counter counts
    trained = {}
    for size in (1, 2, 3, 15, 60):
        of = stack(
            runs[:size], architecture, engine="compiled", dtype=torch.float32, dropout=0.2,
            weight_decay=0.1, width=21, batch_size=16,
        )  # fmt: skip
        trained[size] = of.train([3])
        assert compilations() == graphs, f"a stack of {size} was compiled anew"
    for size, of in trained.items():
        for name, values in of.state.parameters.items():
            same = torch.equal(values[0], trained[60].state.parameters[name][0])
            assert same, f"{name} of run 0 has other bits in a stack of {size}"
        assert np.array_equal(of.predictions[0], trained[60].predictions[0])
    for width in (8, 16, 32, 64):
        for batch in (8, 64, 1024):
            for size in (2, 8, 60) if width == 8 else (2, 16):
                of = stack(runs[:size], architecture, engine="compiled", dtype=torch.float32,
                           width=width, batch_size=batch, clip_norm=1.0)  # fmt: skip
                of.train_epoch(0)
                assert compilations() == graphs, f"width {width}, batch {batch}, {size} runs"


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["mixed", "residual"])
def test_compiled_is_eager_in_float64(architecture):
    """Twenty steps agree to 1e-10: the same function, in another order of operations."""
    runs = [run(seed, rows=40) for seed in range(3)]
    both = [
        stack(runs, architecture, engine=engine, dropout=0.2, weight_decay=0.1)
        for engine in ("eager", "compiled")
    ]
    for of in both:
        for epoch in range(4):
            of.train_epoch(epoch)
        assert of.done.tolist() == [20, 20, 20]
    for number in range(3):
        assert largest_difference(*(parameters(of, number) for of in both)) < 1e-10
