"""Planted faults: each is what it says, and the checks catch what the chapter rests on."""

import re

import numpy as np
import pytest
import torch

from mononet import checks, faults, parameters
from mononet.experiments import record
from mononet.faults import CONFIGURATION, FAULTS, Planted, moons
from mononet.training import Run

ROWS = [np.arange(faults.ROWS)] * 2  # a stack of one run is padded to two


def stack(fault, seed=0):
    run = Run(ROWS[0], ROWS[0], (seed,))
    return Planted(fault=fault).stack(CONFIGURATION, moons(0), [run], dtype=torch.float64)


def failed(fault):
    found = checks.check(Planted(fault=fault), CONFIGURATION, moons(0), 0)
    return {check.name for check in found if check.passed is False}


@pytest.mark.parametrize("fault", ["no gradient", "flipped", "labels"])
def test_faults_of_the_gradient_leave_the_output_alone(fault):
    assert np.array_equal(stack(fault).outputs(ROWS)[0], stack("none").outputs(ROWS)[0])


def test_the_bias_is_on_top_of_default_weights():
    both = [stack(fault).outputs(ROWS)[0] for fault in ("bias", "default weights")]
    assert both[0] - both[1] == pytest.approx(faults.BIAS)


def test_the_faulty_layers_are_what_they_say():
    assert stack("read-out").outputs(ROWS)[0].min() >= 0
    frozen = stack("no gradient")
    before = frozen.state.parameters["embedding.weight"].clone()
    frozen.train_epoch(0)
    assert torch.equal(frozen.state.parameters["embedding.weight"], before)
    sound, flipped = stack("none"), stack("flipped")
    for each in (sound, flipped):
        each.train_epoch(0)
    assert not torch.equal(
        sound.state.parameters["embedding.weight"], flipped.state.parameters["embedding.weight"]
    )


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("none", set()),
        ("default weights", {"initial_loss"}),
        ("bias", {"initial_loss"}),
        ("flipped", {"gradient"}),
        ("wrong sign", {"monotonicity"}),
    ],
)
def test_each_check_catches_its_fault(fault, expected):
    assert failed(fault) == expected


@pytest.mark.parametrize("fault", ["labels", "read-out"])
def test_two_faults_start_right_and_cannot_memorize(fault, monkeypatch):
    monkeypatch.setattr(checks, "EIGHT_ROWS_STEPS", 1000)
    assert "eight_rows" in failed(fault) and "initial_loss" not in failed(fault)


def test_the_chapter_shows_everything(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "EIGHT_ROWS_STEPS", 20)
    pairs = [("results_dir", str(tmp_path))]
    chapter = faults.open_chapter(parameters.resolve("faults", ["quick"], pairs))
    record(chapter.experiment, faults.PARTS)
    for name in faults.SHOWN:
        text = re.sub(r"<[^>]+>", " ", chapter.show(name))
        assert not re.search(r"\bnan\b|None", text), name
    table = chapter.experiment.table("caught")
    assert set(table["fault"]) == set(FAULTS) and len(table) == len(FAULTS) * len(faults.CHECKS)
    means = chapter.experiment.table("initial").groupby("weights")["mixed"].mean()
    assert means["none"] == pytest.approx(0.694, abs=0.002)
    assert means["bias"] > means["default weights"] + 0.5
