"""Seed collapse: a collapsing configuration collapses, and what the chapter says of it."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from mononet import data, experiments, parameters, statistics
from mononet.diagnostics import cure, grid, seeds
from mononet.network import Architecture
from mononet.parameters import ParameterError
from mononet.training import Hyperparameters, Run, Stack, Table

ROWS = np.arange(96)
VALUES = parameters.resolve("seed_collapse")


def rows() -> Table:
    rng = np.random.default_rng(4)
    monotone, free = rng.normal(size=(96, 2)), rng.normal(size=(96, 4))
    return Table(monotone, free, (monotone.sum(1) + free[:, 0] > 0.4).astype(float))


def stack_of(hypers, **options) -> Stack:
    runs = [Run(ROWS, ROWS, (1000 + seed,)) for seed in range(len(hypers))]
    return Stack(
        Architecture("split", 2), hypers, "classification", rows(), runs, engine="eager", **options
    )


def with_tables(changes=None, **tables) -> SimpleNamespace:
    """What the chapter reads of an experiment: parameters and recorded parts."""
    folder = SimpleNamespace(name="seed_collapse-0")
    return SimpleNamespace(
        parameters=VALUES | {"results_dir": "/nowhere"} | (changes or {}),
        table=tables.__getitem__,
        folder=folder,
    )


def text(shown: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", shown))


def test_coupled_decay_collapses_where_decoupled_decay_does_not():
    shared = {"width": 21, "batch_size": 16, "learning_rate": 0.03, "weight_decay": 0.2}
    hypers = [
        Hyperparameters(**shared, optimizer=grid.OPTIMIZERS[kind])
        for kind in ("coupled", "decoupled")
        for _ in range(3)
    ]
    predicted = grid.train(
        Architecture("split", 2), hypers, rows(),
        [Run(ROWS, ROWS, (1000 + n % 3,)) for n in range(6)], 60, "eager",
    )  # fmt: skip
    assert statistics.constant(predicted, "classification").tolist() == [True] * 3 + [False] * 3
    accuracy = statistics.metric("accuracy", rows().target, predicted)
    assert accuracy[:3] == pytest.approx([max(rows().target.mean(), 1 - rows().target.mean())] * 3)
    assert accuracy[3:].min() > 0.85


def test_cells_train_what_has_no_decay_once_and_show_it_twice():
    values = {"learning_rates": [0.01, 0.1], "weight_decays": [0.0, 0.1, 0.2]}
    frame = grid.cells(with_tables(values), "heart")
    assert len(frame) == 2 * 2 * (1 + 2 * 2) and not frame.duplicated().any()
    assert set(frame.loc[frame["weight_decay"] == 0, "decay"]) == {"none"}
    runs = frame.merge(pd.DataFrame({"seed": [1000, 1001]}), how="cross")
    runs["constant"] = (runs["decay"] == "coupled") | (runs["seed"] == 1001)
    runs["one_sided"], runs["accuracy"] = False, 0.5
    counted = grid.counts(with_tables(values, grid=runs))
    assert len(counted) == 2 * 2 * 2 * 3 and set(counted["decay"]) == set(seeds.KINDS)
    share = seeds.shares(counted, "decay")["share"]
    assert share["coupled"] == 1 and share["decoupled"] == 0.5
    divided = grid.divided(with_tables(values, grid=runs)).set_index("decay")
    assert divided.loc["decoupled", "constant"] == 1 and not divided["clipped"].any()


def test_steps_become_whole_epochs():
    experiment = with_tables({"steps": 2000, "batch_size": 16})
    assert grid.epochs_of(experiment, 242) == 125 and grid.epochs_of(experiment, 4937) == 7
    assert grid.epochs_of(with_tables({"steps": 1, "batch_size": 16}), 4937) == 1


def test_measures_are_those_of_each_run():
    hyper = Hyperparameters(width=8, batch_size=16, learning_rate=0.01)
    stack = stack_of([hyper] * 3, dtype=torch.float64)
    before = grid.measures(stack)
    assert before["spread"].to_numpy() == pytest.approx([0.1] * 3, rel=1e-6)
    # Adam's two moments are zero at the start, and so are the biases, except that of the read-out.
    biases, numbers = 8 + 8 + 8, stack.parameters_per_run
    expected = (2 * numbers + biases) / (3 * numbers)
    assert before["tiny"].to_numpy() == pytest.approx([expected] * 3, abs=1e-12)
    weights = torch.cat(
        [stack.state.parameters[f"stack.{n}.weight"][1].flatten() for n in range(2)]
    )
    assert before["weight"][1] == pytest.approx(float(weights.square().mean().sqrt()))
    stack.train_epoch(0)
    after = grid.measures(stack)
    assert (after["tiny"] < 0.01).all() and (after["gradient"] > 0).all()


def test_a_dead_run_has_no_spread_and_no_gradient():
    stack = stack_of([Hyperparameters(width=8, batch_size=16, learning_rate=0.01)] * 2)
    for name in stack.state.parameters:
        stack.state.parameters[name][0] = 0.0
    measured = grid.measures(stack)
    assert measured.loc[0, ["weight", "spread"]].tolist() == [0, 0] and measured["tiny"][0] == 1
    # Only the bias of the read-out is still moved, by the mean residual.
    residual = abs(0.5 - rows().target.mean())
    assert measured["gradient"][0] == pytest.approx(residual, rel=1e-4)


def test_a_pool_too_small_for_equal_compute_is_refused():
    with pytest.raises(ParameterError, match="pool: 100 configurations are fewer than the 150"):
        seeds.open_chapter(VALUES | {"pool": 100})
    with pytest.raises(ParameterError, match="fresh_seeds: 60 of 50"):
        cure.check(VALUES | {"fresh_seeds": 60})


CURE = {"pool": 3, "searches": 40, "n_trials": 1, "search_seeds": 3, "final_seeds": 4}


@pytest.fixture
def cured():
    """A pool of three trials: the first looks best with one seed and collapses on some."""
    judged = [
        (trial, objective, count, value)
        for objective in ("mean", "risk_adjusted")
        for count in (1, 3)
        for trial, value in enumerate((0.9, 0.8, 0.7) if count == 1 else (-np.inf, 0.8, 0.7))
    ]
    pooled = pd.DataFrame(judged, columns=["trial", "judged_by", "seeds", "objective"])
    pooled["epochs"] = 5
    fresh = pd.DataFrame(
        [(trial, 5, 1000 + s, trial == 0 and s == 1) for trial in range(3) for s in range(4)],
        columns=["trial", "epochs", "seed", "constant"],
    )
    fresh["accuracy"] = np.where(fresh["constant"], 0.6, 0.8)
    changes = CURE | {"fresh_seeds": 2}
    searches = cure.searches(with_tables(changes, pool=pooled))
    return with_tables(changes, pool=pooled, searches=searches, fresh=fresh)


def test_searches_of_one_number_share_trials_and_infinite_ones_select_nothing(cured):
    frame = cured.table("searches").pivot(index="search", columns="arm", values="selected")
    one, several = frame["mean, one seed"], frame["mean, several seeds"]
    assert (frame["mean, one seed, equal compute"] == 0).all()
    assert several.isna().sum() == (one == 0).sum() > 0
    assert (one[one != 0] == several[one != 0]).all()


def test_outcomes_count_searches_and_reports_summarize_seeds(cured):
    outcomes = cure.outcomes(cured)
    assert outcomes.loc["mean, one seed, equal compute", "some"] == 1
    assert outcomes.loc["mean, one seed, equal compute", "collapsed"] == 1
    assert outcomes.loc["mean, several seeds", "some"] == 0
    assert outcomes.loc["mean, one seed, equal compute", "failing"] == 1
    assert outcomes.loc["mean, several seeds", "failing"] == 0
    # The second fresh seed is the one that collapses: not seen among the first alone.
    assert outcomes.loc["mean, one seed, equal compute", "first"] == 1
    cured.parameters["fresh_seeds"] = 1
    assert cure.outcomes(cured).loc["mean, one seed, equal compute", "first"] == 0
    assert cure.outcomes(cured).loc["mean, one seed, equal compute", "some"] == 1
    assert outcomes.loc["mean, several seeds", "accuracy"] == pytest.approx(0.8)
    (report,) = cure.reports(cured).to_dict("records")
    assert report["trial"] == 0 and report["collapsed"] == 1 and report["n"] == 4
    assert report["mean"] == pytest.approx(0.75) and report["median"] == pytest.approx(0.8)
    assert report["iqm"] == pytest.approx(0.8) and report["others"] == pytest.approx(0.8)
    assert "0.0" in text(seeds.about_reported(cured)) and "5.0" in text(seeds.about_reported(cured))
    assert "raises" in text(seeds.about_arms(cured)) and "1 of 4" in text(seeds.reported(cured))


def test_the_seeds_that_collapse_are_those_of_the_map_or_the_page_says_so():
    cell = {"dataset": "heart", "decay": "coupled", "weight_decay": 0.1, "learning_rate": 0.01}
    frame = pd.DataFrame([cell | {"seed": seed, "clipped": False} for seed in range(4)])
    mapped = frame.assign(constant=[True, True, True, False])
    clipped = mapped.assign(clipped=True, constant=True)
    other = mapped.assign(learning_rate=0.1, constant=True)
    experiment = SimpleNamespace(table=lambda name: pd.concat([mapped, clipped, other]))
    said = seeds._mapped(experiment, frame.assign(collapsed=[True, True, True, False]))
    assert said == "in the map they are the same seeds"
    said = seeds._mapped(experiment, frame.assign(collapsed=[True, False, False, True]))
    assert "they are 3, 1 of them the same" in said


def test_numbers_far_from_one_are_powers_of_ten():
    assert [seeds._tiny(v) for v in (0.0, 3.2e-12, 0.12, np.nan)] == [
        "0", "3.2·10⁻¹²", "0.12", "no finite value",
    ]  # fmt: skip
    assert [seeds.percent(v) for v in (0, 0.004, 0.5, 0.999, 1)] == [
        "0 %", "0.4 %", "50 %", "99.9 %", "100 %",
    ]  # fmt: skip


@pytest.mark.skipif(not data.routes("heart").local, reason="the rows of Heart are not here")
def test_the_chapter_is_recorded_and_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("MONONET_TRAIN", "1")
    changes = {"results_dir": str(tmp_path), "workers": 1}
    chapter = seeds.open_chapter(parameters.resolve("seed_collapse", ["quick"]) | changes)
    assert chapter.experiment.complete and isinstance(chapter, experiments.Chapter)
    pooled = chapter.experiment.table("pool")
    assert len(pooled) == 4 * 2 and pooled["objective"].notna().all()
    for name in seeds.SHOWN:
        assert not re.search(r"\bnan\b|None", text(chapter.show(name))), name
