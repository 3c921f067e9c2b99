"""Depth explosion: growth by the law, rank lost, residual stacks that grow by a tenth of it."""

import math
import re

import numpy as np
import pandas as pd
import pytest
import torch

from mononet import data, parameters
from mononet.diagnostics import depth, depth_figures, depth_start, depth_trained
from mononet.diagnostics.depth import PARTS
from mononet.diagnostics.depth_start import LAYERS, SETTLED, Setting, law, profile, spread
from mononet.experiments import Chapter, Experiment, record
from mononet.layers import MODES


def factor(setting, seeds=3):
    sd = np.median(profile(setting, seeds)[0], axis=0)
    return (sd[LAYERS] / sd[SETTLED]) ** (1 / (LAYERS - SETTLED))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    pairs = [("results_dir", str(tmp_path_factory.mktemp("results"))), ("workers", "1")]
    values = parameters.resolve("depth_explosion", ["quick"], pairs)
    experiment = Experiment("depth_explosion", values)
    record(experiment, PARTS)
    return experiment


@pytest.mark.parametrize("mode", MODES)
def test_plain_growth_at_width_64(mode):
    found = factor(Setting("width", mode, "elu", 64))
    assert 4 < found < 5
    assert found == pytest.approx(math.sqrt(64 / math.pi), rel=0.02)


@pytest.mark.parametrize(
    "setting",
    [
        Setting("x", "mixed", "selu", 32),
        Setting("x", "mixed", "softplus", 32),
        Setting("x", "mixed", "identity", 32),
        Setting("x", "mixed", "relu", 32, fraction=0.75),
        Setting("x", "mixed", "relu", 32, fraction=0.25),
        Setting("x", "split", "relu", 32, scheme="Glorot uniform"),
        Setting("x", "mixed", "relu", 32, scheme="He uniform", scale=0.3),
    ],
    ids=lambda s: f"{s.mode}-{s.activation}-{s.fraction}-{s.scheme}",
)
def test_the_law_is_measured(setting):
    assert factor(setting) == pytest.approx(law(setting), rel=0.03)


def test_the_law_by_hand():
    half = math.sqrt(64 / math.pi)
    assert law(Setting("x", "mixed", "elu", 64)) == pytest.approx(half)
    assert law(Setting("x", "split", "relu", 64)) == pytest.approx(half)
    assert law(Setting("x", "mixed", "relu", 64, fraction=0.75)) == pytest.approx(1.5 * half)
    assert law(Setting("x", "mixed", "relu", 64, fraction=0.0)) == pytest.approx(2 * half)
    assert law(Setting("x", "mixed", "identity", 64, fraction=0.0)) == pytest.approx(2 * half)
    assert law(Setting("x", "mixed", "selu", 64)) == pytest.approx(1.0507 * half, rel=1e-4)
    assert law(Setting("x", "mixed", "elu", 64, scale=0.1)) == pytest.approx(0.1 * half)


def test_small_elu_stacks_are_linear_and_leave_the_law():
    setting = Setting("x", "mixed", "elu", 64, scale=0.05)
    assert factor(setting) == pytest.approx(2 * law(setting), rel=0.03)


@pytest.mark.parametrize("mode", MODES)
def test_residual_blocks_grow_by_a_tenth_of_the_law(mode):
    setting = Setting("x", mode, "elu", 64, scheme="design", residual=True)
    assert factor(setting) == pytest.approx(1 + 0.1 * law(setting), rel=0.05)
    sd = np.median(profile(setting, 3)[0], axis=0)
    assert (sd[1:] / sd[:-1]).max() < 1.5  # a block; a plain layer of the same weights: above 3
    assert sd[LAYERS] / sd[0] < 100


def test_rank_is_lost_by_the_third_layer_at_any_scale():
    for scale in (0.05, 0.22, 1.0):
        for mode in MODES:
            rank = profile(Setting("x", mode, "relu", 64, scale=scale), 3)[1]
            assert (rank[:, 0] > 50).all() and (rank[:, 3:] < 2).all()


def test_two_directions_are_what_a_mixed_stack_keeps():
    s = np.random.default_rng(0).normal(size=200_000)
    x = torch.tensor(np.stack([np.maximum(s, 0), np.minimum(s, 0)], 1))[None]
    assert float(spread(x)[1]) == pytest.approx(depth_start.two_directions(), abs=0.01)
    rank = profile(Setting("x", "mixed", "relu", 64), 3)[1]
    assert np.median(rank[:, -1]) == pytest.approx(depth_start.two_directions(), abs=0.06)


def test_spread_by_hand():
    rows = torch.tensor([[[1.0, 0], [-1, 0], [0, 2], [0, -2]]], dtype=torch.float64)
    sd, rank = spread(rows + 7)
    assert float(sd) == pytest.approx(math.sqrt((0.5 + 2) / 2))
    p = np.array([0.2, 0.8])
    assert float(rank) == pytest.approx(np.exp(-(p * np.log(p)).sum()))
    assert torch.isnan(spread(torch.ones(1, 5, 2, dtype=torch.float64))[1]).all()


def test_profile_of_a_trained_network_is_that_of_its_layers():
    rows = data.load("auto_mpg")
    given = {"width": 8, "batch_size": 32, "final_seeds": 3}
    stack = depth_trained.stack_of(rows, rows.splits(0, 2), "split", True, 2, 0.01, given, "eager")
    assert [run.seed for run in stack.runs] == [(1000, 0), (1001, 1), (1002, 0)]
    seen = []
    for layer in stack.skeleton.stack:
        layer.register_forward_hook(lambda _, __, output: seen.append(output))
    sd, rank = depth_trained.profile(stack)
    assert sd.shape == rank.shape == (len(seen) + 1, 3) == (4, 3)
    last = seen[-1]  # what runs through the stack later is seen as well
    np.testing.assert_allclose(sd[-1], spread(last)[0], rtol=1e-12)
    outputs = stack.outputs([run.train for run in stack.runs])
    readout = {k.removeprefix("readout."): v for k, v in stack.state.parameters.items()}
    by_hand = last @ readout["weight"].abs().double() + readout["bias"].double()
    np.testing.assert_allclose(by_hand[0, :, 0], outputs[0][: len(by_hand[0])], atol=1e-4)


def test_everything_is_recorded(recorded):
    runs = recorded.table("trainings")
    assert len(runs) == 2 * 2 * 2 * 1 * 2
    assert (runs["loss_start"] - 1).abs().max() < 0.2  # the read-out is rescaled
    layers = recorded.table("layers")
    assert set(layers["moment"]) == {"start", "trained"} and layers["rank"].min() >= 1
    start = depth_start.growth(recorded.table("start"))
    assert len(start) == len(depth_start.settings([16, 32]))


def test_the_chapter_shows_every_part(recorded):
    chapter = Chapter(recorded, tuple(PARTS), depth.SHOWN)
    for name in depth.SHOWN:
        shown = re.sub(r"<[^>]+>", " ", chapter.show(name))
        assert not re.search(r"\bnan\b|None", shown), name
    assert "Finding." in chapter.show("finding") and "The law holds" in chapter.show("law")


def test_the_best_learning_rate_fails_least_then_scores_best():
    rows = [
        {"dataset": "auto_mpg", "mode": "mixed", "residual": False, "depth": 6, "seed": seed}
        | {"learning_rate": rate, "value": value, "trivial": 60.0, "constant": constant}
        | {"non_finite": not np.isfinite(value), "loss_start": 1.0, "loss_end": 0.5}
        for rate, pairs in {
            0.001: [(30.0, False), (30.0, False)],
            0.01: [(20.0, False), (70.0, False)],
            0.1: [(5.0, False), (np.nan, False)],
            0.2: [(5.0, False), (60.0, True)],
        }.items()
        for seed, (value, constant) in enumerate(pairs)
    ]
    frame = pd.DataFrame(rows)
    found = depth_figures.failures(frame).set_index("learning_rate")
    assert found["failed"].to_dict() == {0.001: 0, 0.01: 0, 0.1: 1, 0.2: 1}
    assert found["better"].to_dict() == {0.001: 2, 0.01: 1, 0.1: 1, 0.2: 1}
    assert depth_figures.best(frame)["learning_rate"].tolist() == [0.001]
