"""Head collapse: read-outs are linear and clear the base rate; an activation there does neither."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mononet import parameters
from mononet.diagnostics import head, head_runs
from mononet.diagnostics.head_runs import HEADS, PARTS, generated, losses, stack_of
from mononet.experiments import Chapter, Experiment, record
from mononet.layers import MODES
from mononet.models import CATALOGUE, FLAVORS
from mononet.network import Network

GIVEN = {"width": 16, "depth": 2, "batch_size": 16, "learning_rate": 0.01, "final_seeds": 10}
ROWS = generated(0, 5)


def quick(folder, **changes) -> Experiment:
    pairs = [("results_dir", str(folder)), ("workers", "1"), *changes.items()]
    return Experiment("head_collapse", parameters.resolve("head_collapse", ["quick"], pairs))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    experiment = quick(tmp_path_factory.mktemp("results"))
    record(experiment, PARTS)
    return experiment


def trained(mode, activation, epochs=10):
    """Ten seeds on the first fold of the generated rows, judged."""
    stack = stack_of(ROWS, mode, activation, ROWS.splits[:1], GIVEN, "eager")
    stack.train([epochs])
    at = [run.predict for run in stack.runs]
    found = zip(stack.outputs(at), stack.predict(at), stack.runs, strict=True)
    return [head_runs.judged(output, p, run, ROWS) for output, p, run in found]


@pytest.fixture(scope="module")
def truth():
    """Class 1 or not, of the validation rows of the first fold; and the base rate."""
    y = ROWS.y[ROWS.splits[0][1]]
    return y, max(y.mean(), 1 - y.mean())


@pytest.mark.parametrize("name", FLAVORS)
def test_read_outs_are_linear(name):
    configuration = {"depth": 2, "mode": "split"}
    net = Network(CATALOGUE[name].architecture(configuration), 2, 3, 8).double()
    a, b = torch.randn(2, 50, 8, dtype=torch.float64)
    with torch.no_grad():
        net.readout.bias.fill_(0.7)
        bent = net.readout(a) + net.readout(b) - net.readout(a + b) - net.readout(0 * a)
    assert float(bent.abs().max()) < 1e-12


@pytest.mark.parametrize("mode", MODES)
def test_classification_clears_the_base_rate(mode, truth):
    for run in trained(mode, "identity"):
        assert run["value"] > truth[1] + 0.05
        assert run["smallest"] < -1 and not run["constant"]


def test_a_relu_head_collapses_in_mixed_mode(truth):
    for run in trained("mixed", "relu"):
        assert run["smallest"] >= 0
        assert run["value_yes"] == pytest.approx(truth[0].mean())
        assert run["value_yes"] < truth[1]


def test_a_relu_head_escapes_in_split_mode(truth):
    assert all(run["value_yes"] > truth[1] for run in trained("split", "relu"))


@settings(max_examples=15, deadline=None)
@given(scale=st.floats(0.01, 100), shift=st.floats(-5, 5), name=st.sampled_from(["relu", "elu"]))
def test_no_mixed_network_is_below_its_floor(scale, shift, name):
    stack = stack_of(ROWS, "mixed", name, ROWS.splits[:1], GIVEN | {"final_seeds": 2}, "eager")
    for key, value in stack.state.parameters.items():
        value.mul_(scale)
        if key.endswith("bias"):
            value.add_(shift)
    assert (losses(stack, ROWS) >= head_runs.floor(ROWS, ROWS.splits[0][0], name) - 1e-6).all()


def test_floors_by_hand():
    y = np.array([0.0, 0.0, 0.0, 1.0])
    two = head_runs.Rows("two", y[:, None], y, np.array([1]), "classification", [])
    rows = np.arange(4)
    assert head_runs.floor(two, rows, "relu") == pytest.approx(0.75 * np.log(2))
    assert head_runs.floor(two, rows, "elu") == pytest.approx(0.75 * np.log(1 + np.exp(-1)))
    assert head_runs.floor(two, rows, "identity") == 0
    y = np.array([10.0, 20.0, 30.0, 20.0])  # standardized: −√2, 0, √2, 0
    many = head_runs.Rows("many", y[:, None], y, np.array([1]), "regression", [])
    assert head_runs.floor(many, rows, "relu") == pytest.approx(2 / 4)
    raw = head_runs.Rows("raw", y[:, None], y, np.array([1]), "regression", [], standardize=False)
    assert head_runs.floor(raw, rows, "relu") == 0


def test_a_raw_target_is_learned_in_its_own_units():
    rng = np.random.default_rng(0)
    x = rng.random((80, 1))
    raw = head_runs.Rows(
        "raw", x, 5 + 3 * x[:, 0], np.array([1]), "regression",
        [(np.arange(60), np.arange(60, 80))], standardize=False,
    )  # fmt: skip
    stack = stack_of(raw, "mixed", "relu", raw.splits, GIVEN | {"final_seeds": 3}, "eager")
    assert (stack.constants.center == 0).all() and (stack.constants.scale == 1).all()
    before = losses(stack, raw)
    stack.train([40])
    after = losses(stack, raw)
    outputs, predicted = (f([raw.splits[0][1]] * 3)[0] for f in (stack.outputs, stack.predict))
    np.testing.assert_array_equal(outputs, predicted)
    assert (after < 0.1).all() and (before > 10).all()
    mean = np.mean([np.mean((o - raw.y[:60]) ** 2) for o in stack.outputs([np.arange(60)] * 3)])
    assert after.mean() == pytest.approx(mean / raw.y[:60].var(), rel=1e-5)


def test_the_generated_rows_are_the_same_everywhere():
    again = generated(0, 5)
    np.testing.assert_array_equal(again.X, ROWS.X)
    assert 0.3 < ROWS.y.mean() < 0.45
    for column, sign in enumerate(ROWS.indicator[:3]):
        assert sign * np.corrcoef(ROWS.X[:, column], ROWS.y)[0, 1] > 0.15


def test_a_run_that_is_not_finite_is_constant_and_has_no_value():
    run = head_runs.Run(ROWS.splits[0][0], ROWS.splits[0][1], (0,))
    nothing = np.full(len(run.predict), np.nan)
    found = head_runs.judged(nothing, nothing, run, ROWS)
    assert found["constant"] and np.isnan(found["value"])


def test_every_arm_is_recorded(recorded):
    runs, base = recorded.table("runs"), recorded.table("base")
    names = ["generated", "auto_mpg, standardized target", "auto_mpg, raw target"]
    assert list(dict.fromkeys(base["set"])) == names
    assert len(runs) == len(names) * len(MODES) * len(HEADS) * 2 * 2
    classes = runs[runs["set"] == "generated"].merge(base, on=["set", "fold"])
    stuck = classes[(classes["mode"] == "mixed") & (classes["head"] == "relu")]
    np.testing.assert_allclose(stuck["value_yes"], stuck["class_1"], atol=1e-5)
    counted = recorded.table("outputs").groupby(["set", "head", "rows"])["count"].sum()
    assert counted["generated", "relu"].sum() == 2 * 300
    assert counted["auto_mpg, raw target", "relu", "target"] == 157


def test_the_chapter_shows_every_part(recorded):
    chapter = Chapter(recorded, tuple(PARTS), head.SHOWN)
    for name in head.SHOWN:
        shown = re.sub(r"<[^>]+>", " ", chapter.show(name))
        assert not re.search(r"\bnan\b|None", shown), name
    assert "Finding." in chapter.show("finding")
    for figure in ("counts", "outputs", "curves"):
        assert chapter.show(figure).count("<img") == 1
    assert chapter.show("table").count("<table") == 2


def test_words_follow_the_numbers(recorded, monkeypatch):
    assert "none of 2 seeds ever gave" in head.finding(recorded)
    assert "all of them stayed at or under" in head.finding(recorded)
    tables = {name: recorded.table(name) for name in PARTS}
    runs = tables["runs"]
    runs["smallest"] = -1.0
    runs["value_yes"] = runs["value"] = 1.0
    monkeypatch.setattr(Experiment, "table", lambda self, name: tables[name].copy())
    assert "2 of 2 seeds ever gave" in head.finding(recorded)
    assert "trainings are zero on every row" not in head.classification(recorded)
    runs["tied"] = np.where(runs["fold"] == 0, 1.0, 0.5)
    zero = (runs["fold"] == 0) & (runs["mode"] == "mixed") & (runs["head"] == "relu")
    one = runs["set"] == "generated"
    assert f"; {(zero & one).sum()} of 4 trainings are zero on every row; the" in re.sub(
        r"\s+", " ", head.classification(recorded)
    )
    runs["value_yes"] = runs["value"] = 0.0
    assert "By either count it is: no seed clears it" in head.classification(recorded)
