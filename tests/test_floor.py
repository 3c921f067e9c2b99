"""The floor of an all-convex stack: it holds, is reached, and is gone with one other unit."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mononet import data, parameters
from mononet.diagnostics import floor
from mononet.models import CATALOGUE, Problem
from mononet.training import Run

RNG = np.random.default_rng(3)
X = RNG.normal(size=(80, 5))
PROBLEM = Problem(
    X, (X[:, 0] + X[:, 2] > 0).astype(float), np.array([1, -1, 0, 0, 0]), "classification"
)
CONFIGURATION = {
    "width": 8, "depth": 2, "batch_size": 16, "learning_rate": 0.02, "convex_fraction": 1.0,
    "weight_decay": 0.0, "learning_rate_decay": 1.0, "dropout": 0.0,
}  # fmt: skip


FAR = torch.full((2,), 1e9)


def trained(model, epochs=3, low=-FAR, high=FAR, **changes):
    """Three trainings, and their bounds for constrained columns between ``low`` and ``high``."""
    rows, configuration = np.arange(80), CONFIGURATION | changes
    runs = [Run(rows, rows, (seed,)) for seed in range(3)]
    entry = CATALOGUE[model]
    stack = entry.stack(configuration, PROBLEM, runs, "eager", dtype=torch.float64)
    stack.train([epochs])
    return stack, floor.bounds(stack, entry.architecture(configuration), low, high)


@pytest.mark.parametrize("model", floor.MODELS)
@pytest.mark.parametrize(("fraction", "bounded"), [(1.0, (True, False)), (0.0, (False, True))])
def test_units_of_one_kind_bound_one_side_and_the_bound_is_reached(model, fraction, bounded):
    stack, bounds = trained(model, convex_fraction=fraction)
    assert (np.abs(bounds) < 1e3).all(axis=0).tolist() == list(bounded)
    side = 0 if fraction else 1
    # Far out, an embedded column at its end and the constrained ones at theirs give the bound.
    monotone, free, _ = stack.table
    far = torch.full_like(monotone, -1e7 if fraction else 1e7)
    outputs = []
    for scale in RNG.normal(size=(300, free.shape[1])):
        stack.table = (far, torch.as_tensor(1e7 * scale).expand_as(free), stack.table[2])
        outputs.append([output[0] for output in stack.outputs([np.arange(1)] * 3)])
    ends = np.min(outputs, axis=0) if fraction else np.max(outputs, axis=0)
    inside = ends >= bounds[:, 0] - 1e-9 if fraction else ends <= bounds[:, 1] + 1e-9
    assert inside.all()
    if not fraction:  # a positive embedding grows without end: the ceiling is come near
        assert ends == pytest.approx(bounds[:, side], rel=0.2, abs=0.5)


@pytest.mark.parametrize("model", floor.MODELS)
@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.8])
def test_one_unit_of_the_other_kind_in_every_layer_leaves_no_bound(model, fraction):
    _, bounds = trained(model, convex_fraction=fraction)
    assert (bounds[:, 0] < -1e3).all() and (bounds[:, 1] > 1e3).all()


def test_split_has_no_bound():
    _, bounds = trained("split")
    assert (bounds[:, 0] < -1e3).all() and (bounds[:, 1] > 1e3).all()


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(floor.MODELS),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(0, 10_000),
    st.floats(0.1, 1e4),
)
def test_no_row_leaves_the_bounds(model, fraction, seed, scale):
    low, high = -torch.ones(2), torch.full((2,), 0.5)
    stack, bounds = trained(model, epochs=1, low=low, high=high, convex_fraction=fraction)
    rng = np.random.default_rng(seed)
    monotone, free, target = stack.table
    drawn = [torch.as_tensor(rng.normal(scale=scale, size=part.shape)) for part in (monotone, free)]
    stack.table = (drawn[0].clamp(-1.0, 0.5), drawn[1], target)
    assert (bounds[:, 0] > -1e3).all()  # the embedding never falls below −1
    outputs = np.stack(stack.outputs([np.arange(80)] * 3))
    slack = 1e-9 * (1 + np.abs(outputs))
    assert (outputs >= bounds[:, :1] - slack).all() and (outputs <= bounds[:, 1:] + slack).all()


def test_a_hand_computed_floor():
    """One hidden layer of two convex units: b − |w₁| − |w₂|."""
    stack, _ = trained("mixed", depth=1, width=2, epochs=1)
    parameters_ = stack.state.parameters
    parameters_["readout.weight"][:] = torch.tensor([[-2.0], [0.5]])
    parameters_["readout.bias"][:] = 0.75
    architecture = CATALOGUE["mixed"].architecture({"depth": 1})
    assert floor.bounds(stack, architecture, -FAR, FAR)[0, 0] == pytest.approx(0.75 - 2.0 - 0.5)
    # With the constrained columns at 1 and −1 and the embedding at −1, by its own formula.
    weight, bias = (parameters_[f"stack.0.{name}"][0].numpy() for name in ("weight", "bias"))
    h = np.array([1.0, -1.0, -1.0, -1.0]) @ np.abs(weight) + bias[0]
    expected = 0.75 + np.where(h > 0, h, np.expm1(h)) @ [2.0, 0.5]
    found = floor.bounds(stack, architecture, torch.tensor([1.0, -1.0]), FAR)[0, 0]
    assert found == pytest.approx(expected, rel=1e-9)


def text(shown: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r'src="[^"]*"', "", shown)))


@pytest.mark.skipif(not data.routes("heart").local, reason="the rows of Heart are not here")
def test_the_chapter(tmp_path, monkeypatch):
    monkeypatch.setenv("MONONET_TRAIN", "1")
    values = parameters.resolve("convex_floor", ["quick"])
    values |= {"results_dir": str(tmp_path), "engine": "eager"}
    chapter = floor.open_chapter(values)
    frame = chapter.experiment.table("runs")
    assert len(frame) == 2 * 3 * 2 * 2  # models, fractions, folds, seeds
    assert frame.groupby("fraction")["convex"].unique().map(list).to_dict() == {
        0.0: [0],
        0.5: [16],
        1.0: [32],
    }
    assert floor.arms(chapter.experiment)["beyond"].sum() == 0
    assert "With convex units alone no training gave any row" in text(chapter.show("finding"))
    assert "Heart, mixed, 32" in text(chapter.show("table"))
    assert "Of 24 trainings, none gave a probability outside" in text(chapter.show("held"))
    assert re.search(r"Heart, mixed \d+ of \d+", text(chapter.show("selected")))
    assert "all 32 convex: smallest" in chapter.show("figure")
