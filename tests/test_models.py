"""The catalogue: what each model searches, and that all are fitted in one way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mononet.models import (
    CACHED,
    CANDIDATE_EPOCHS,
    CATALOGUE,
    FLAVORS,
    LARGE,
    Fits,
    Problem,
    Quantiles,
)
from mononet.training import Run

NETWORKS = [*FLAVORS, "mlp"]


def problem(task="regression", rows=90, **more):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(rows, 4))
    y = X[:, 0] - X[:, 1] + np.sin(2 * X[:, 2]) + 0.3 * rng.normal(size=rows)
    y = (y > 0).astype(float) if task == "classification" else 100 + 10 * y
    return Problem(X, y, np.array([1, -1, 0, 0]), task, **more)


def a_configuration(name):
    """The middle of the space, by its bounds."""
    middle = {}
    for parameter, d in CATALOGUE[name].space(100).items():
        if d["type"] == "choice":
            middle[parameter] = d["values"][0]
        elif d["log"]:
            middle[parameter] = (d["low"] * d["high"]) ** 0.5
        else:
            middle[parameter] = (d["low"] + d["high"]) / 2
        if d["type"] == "int":
            middle[parameter] = round(middle[parameter])
    return middle


def fit(name, of, runs, stages=None, **changes):
    model = CATALOGUE[name]
    stages = stages or model.stages(3)
    return model.fit({**a_configuration(name), **changes}, of, runs, stages)


def run(rows, seed=0, predict=90):
    return Run(np.asarray(rows), np.arange(predict), (seed,))


def test_catalogue():
    assert tuple(CATALOGUE) == (*FLAVORS, "hgb-monotone", "hgb", "linear", "mlp")
    assert FLAVORS == ("mixed", "split", "mixed-residual", "split-residual", "deep")
    assert all(name == model.name for name, model in CATALOGUE.items())
    assert [name for name, model in CATALOGUE.items() if model.deterministic] == ["linear"]


@pytest.mark.parametrize("name", NETWORKS)
def test_space_of_networks(name):
    space = CATALOGUE[name].space(LARGE)

    def values(parameter):
        return tuple(space[parameter]["values"])

    def bounds(parameter):
        d = space[parameter]
        return d["type"], d["low"], d["high"], d["log"]

    assert values("width") == (8, 16, 21, 32, 64)
    assert values("depth") == ((6, 10, 16) if name == "deep" else (1, 2, 3, 4))
    assert values("batch_size") == (8, 16, 32, 64, 128, 256)
    assert bounds("learning_rate") == ("float", 1e-4, 1e-1, True)
    assert bounds("weight_decay") == ("float", 1e-5, 0.2, True)
    assert bounds("dropout") == ("float", 0, 0.5, False)
    assert bounds("learning_rate_decay") == ("float", 0.85, 1, False)
    assert ("mode" in space) == (name == "deep")
    assert ("convex_fraction" in space) == (name in ("mixed", "mixed-residual", "deep"))
    if "mode" in space:
        assert values("mode") == ("mixed", "split")
    if "convex_fraction" in space:
        assert bounds("convex_fraction") == ("float", 0, 1, False)
    large = CATALOGUE[name].space(LARGE + 1)
    assert tuple(large.pop("batch_size")["values"]) == (64, 128, 256, 512, 1024)
    assert large == {k: v for k, v in space.items() if k != "batch_size"}


sizes = st.sampled_from([8, 16, 21, 32, 64]), st.sampled_from([8, 32, 256]), st.integers(1, 4)


@given(st.lists(st.tuples(*sizes), min_size=1, max_size=12), st.integers(1, 30), st.integers(1, 9))
def test_shares_hold_every_configuration_once_and_only_what_fits_one_stack(drawn, runs, most):
    keys = ("width", "batch_size", "depth")
    configurations = [dict(zip(keys, values, strict=True)) for values in drawn]
    shares = CATALOGUE["mixed"].shares(configurations, runs, most)
    assert sorted(number for share in shares for number in share) == list(range(len(drawn)))
    for share in shares:
        [(width, batch, _)] = {drawn[number] for number in share}
        assert len(share) <= most
        assert len(share) == 1 or len(share) * runs * width * batch <= CACHED
    # The longest is first: layers a step, times steps, times configurations.
    work = [len(share) * drawn[share[0]][2] / drawn[share[0]][1] for share in shares]
    assert work == sorted(work, reverse=True)


def test_small_trials_of_the_same_shape_share_one_stack_and_large_ones_do_not():
    small, large = ({"width": w, "batch_size": b, "depth": 2} for w, b in ((8, 8), (64, 256)))
    assert CATALOGUE["mixed"].shares([large, small, large, small], 15, 5) == [[1, 3], [0], [2]]
    few, many = {"max_leaf_nodes": 4}, {"max_leaf_nodes": 63}
    assert CATALOGUE["hgb"].shares([few, many, few], 15, 5) == [[1], [2], [0]]
    assert CATALOGUE["linear"].shares([{}, {}], 15, 5) == [[0], [1]]


@given(st.integers(1, 30), st.integers(1, 12))
def test_portions_hold_every_run_once_in_order_and_networks_stay_one_stack(count, most):
    runs = [run(range(60), seed) for seed in range(count)]
    portions = CATALOGUE["hgb"].portions(runs, most)
    assert [each for portion in portions for each in portion] == runs
    assert len(portions) <= most
    assert max(map(len, portions)) == -(-count // most)
    assert CATALOGUE["mixed"].portions(runs, most) == [runs]


def test_portions_joined_are_the_fits_of_all_runs():
    of = problem(inputs="quantile")
    runs = [run(range(n, 60 + n), seed=n) for n in range(5)]
    whole = fit("hgb", of, runs)
    parts = [fit("hgb", of, portion) for portion in CATALOGUE["hgb"].portions(runs, 2)]
    joined = Fits.joined(parts)
    assert np.array_equal(joined.predictions, whole.predictions)
    assert (joined.size, joined.predicted_rows) == (whole.size, whole.predicted_rows)
    assert joined.train_seconds == sum(part.train_seconds for part in parts)
    three, two = (part.predict_seconds for part in parts)
    assert joined.predict_seconds == pytest.approx((3 * three + 2 * two) / 5)


@pytest.mark.slow
@pytest.mark.parametrize("inputs", ["published", "quantile"])
def test_a_configuration_has_the_same_bits_whatever_shares_its_stack(inputs):
    of = problem("classification", inputs=inputs)
    runs = [run(np.arange(60 + seed), seed) for seed in range(3)]
    many = [
        a_configuration("mixed") | {"convex_fraction": c, "dropout": d, "weight_decay": 0.1 * d}
        for c, d in ((0.0, 0.0), (0.3, 0.5), (1.0, 0.1))
    ]
    together = CATALOGUE["mixed"].fit_together(many, of, runs, (1, 3), "compiled")
    for configuration, predictions in zip(many, together, strict=True):
        alone = CATALOGUE["mixed"].fit(configuration, of, runs, (1, 3), "compiled").predictions
        assert np.array_equal(predictions, alone)
    assert not np.array_equal(*together[:2])


def test_mlp_has_the_space_of_split():
    assert CATALOGUE["mlp"].space(500) == CATALOGUE["split"].space(500)


@pytest.mark.parametrize(
    ("name", "cap", "depths"),
    [("mixed", 2, (1, 2)), ("mixed", None, (1, 2, 3, 4)), ("deep", 2, (6,)), ("deep", 10, (6, 10))],
)
def test_depth_is_capped_no_further_than_the_shallowest_form(name, cap, depths):
    assert tuple(CATALOGUE[name].space(500, max_depth=cap)["depth"]["values"]) == depths


@pytest.mark.parametrize("name", ["hgb", "hgb-monotone"])
def test_space_of_boosting(name):
    assert CATALOGUE[name].space(500) == {
        "learning_rate": {"type": "float", "low": 0.01, "high": 0.3, "log": True},
        "max_leaf_nodes": {"type": "int", "low": 4, "high": 63, "log": False},
        "min_samples_leaf": {"type": "int", "low": 2, "high": 100, "log": True},
        "l2_regularization": {"type": "float", "low": 1e-6, "high": 10, "log": True},
        "max_features": {"type": "float", "low": 0.3, "high": 1, "log": False},
    }


def test_space_of_the_linear_model():
    assert CATALOGUE["linear"].space(500) == {
        "regularization": {"type": "float", "low": 1e-4, "high": 1e4, "log": True}
    }


@pytest.mark.parametrize("name", NETWORKS)
def test_stages_of_networks(name):
    model = CATALOGUE[name]
    assert model.stages(130) == CANDIDATE_EPOCHS == (1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90, 130)
    assert model.stages(50) == (1, 2, 3, 5, 8, 12, 18, 27, 40, 50)
    assert model.stages(3) == (1, 2, 3)
    assert model.stages(1) == (1,)
    assert model.stages(4) == (1, 2, 3, 4)


@pytest.mark.parametrize("max_epochs", [3, 50, 130])
def test_boosting_chooses_among_as_many_stages(max_epochs):
    stages = CATALOGUE["hgb"].stages(max_epochs)
    assert len(stages) == len(CATALOGUE["split"].stages(max_epochs))
    assert stages[-1] == 500
    assert list(stages) == sorted(set(stages))


def test_linear_has_one_stage():
    assert CATALOGUE["linear"].stages(130) == (1,)


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_model_fits(name, task):
    of = problem(task)
    runs = [
        Run(np.arange(70), np.arange(70, 90), (0,)),
        Run(np.arange(20, 90), np.arange(15), (1,)),
    ]
    model = CATALOGUE[name]
    stages = model.stages(12)
    fits = fit(name, of, runs, stages, learning_rate=0.02) if name != "linear" else fit(
        name, of, runs, stages
    )  # fmt: skip
    assert [p.shape for p in fits.predictions] == [(len(stages), 20), (len(stages), 15)]
    assert all(p.dtype == np.float32 for p in fits.predictions)
    assert fits.train_seconds > 0
    assert fits.predict_seconds > 0
    assert fits.predicted_rows == 20
    assert fits.size > 3
    for r, predictions in zip(runs, fits.predictions, strict=True):
        assert np.isfinite(predictions).all()
        target = of.y[r.predict]
        if task == "classification":
            assert ((predictions >= 0) & (predictions <= 1)).all()
            assert ((predictions[-1] > 0.5) == target).mean() > 0.6
        else:  # the data's own units: nearer than the training mean
            error = np.mean((predictions[-1] - target) ** 2)
            assert error < np.mean((of.y[r.train].mean() - target) ** 2)


@pytest.mark.parametrize("name", ["mixed", "hgb", "linear"])
def test_predictions_follow_the_order_of_the_runs(name):
    of = problem(inputs="quantile")
    runs = [run(range(n % 3, 60 + n), seed=n) for n in (3, 1, 2, 0)]
    together = fit(name, of, runs).predictions
    for r, found in zip(runs, together, strict=True):
        np.testing.assert_allclose(found, fit(name, of, [r]).predictions[0], rtol=2e-5)


@pytest.mark.parametrize("name", CATALOGUE)
def test_same_seed_same_predictions(name):
    first, again, other = (
        fit(name, problem(), [run(range(60), seed)]).predictions[0] for seed in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert np.array_equal(first, other) == CATALOGUE[name].deterministic


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("name", ["hgb", "hgb-monotone"])
def test_staged_predictions_are_those_of_shorter_fits(name, task):
    of = problem(task)
    staged = fit(name, of, [run(range(60))], (5, 20, 60)).predictions[0]
    for k, stage in enumerate((5, 20, 60)):
        alone = fit(name, of, [run(range(60))], (stage,)).predictions[0]
        assert alone.shape == (1, 90)
        assert np.array_equal(staged[k], alone[0])


def falls(name):
    """The largest decrease along either constrained column, in its direction."""
    of = problem()
    grid = np.repeat(of.X[:20], 50, axis=0)
    largest = 0.0
    for column, sign in ((0, 1), (1, -1)):
        moved = grid.copy()
        moved[:, column] = np.tile(sign * np.linspace(-3, 3, 50), 20)
        extended = of.with_rows(moved)
        r = Run(np.arange(90), 90 + np.arange(1000), (0,))
        last = fit(name, extended, [r], (200,), min_samples_leaf=2).predictions[0][-1]
        largest = max(largest, float(-np.diff(last.reshape(20, 50), axis=1).min()))
    return largest


def test_boosting_is_monotone_under_the_constraint_only():
    assert falls("hgb-monotone") <= 1e-5
    assert falls("hgb") > 0.1


def test_with_rows():
    of = problem(inputs="quantile", optimizer="adam")
    extended = of.with_rows(np.zeros((5, 4)))
    assert extended.X.shape == (95, 4)
    assert extended.y is of.y
    assert (extended.inputs, extended.optimizer, extended.task) == ("quantile", "adam", of.task)


def test_optimizer_reaches_the_training():
    of = CATALOGUE["split"].stack(
        a_configuration("split"), problem(optimizer="adam"), [run(range(60))]
    )
    assert float(of.constants.decoupled_decay.max()) == 0
    assert float(of.constants.coupled_decay.min()) > 0


def columns(rows=300):
    rng = np.random.default_rng(0)
    return np.column_stack([
        rng.lognormal(size=rows),
        rng.integers(0, 5, size=rows),
        rng.integers(0, 2, size=rows),
        np.full(rows, 3.0),
    ])  # fmt: skip


def test_quantile_inputs():
    X = columns()
    Z = Quantiles.fit(X).transform(X)
    smooth, few, two, constant = Z.T
    assert np.abs(smooth).max() == pytest.approx(2.5 / 1.5)
    assert np.median(smooth) == pytest.approx(0, abs=0.01)
    assert smooth.std() == pytest.approx(1 / 1.5, abs=0.05)
    assert (few.min(), few.max()) == (0, 1)
    assert len(np.unique(few)) == 5
    assert np.array_equal(two, X[:, 2])
    assert np.array_equal(constant, X[:, 3])


def test_quantile_inputs_are_monotone_column_by_column():
    fitted = Quantiles.fit(columns())
    for column, values in enumerate(np.sort(columns(2000), axis=0).T):
        beyond = np.concatenate([[values[0] - 10], values, [values[-1] + 10]])
        X = np.zeros((len(beyond), 4))
        X[:, column] = beyond
        transformed = fitted.transform(X)[:, column]
        assert (np.diff(transformed) >= 0).all()
        others = np.delete(fitted.transform(X), column, axis=1)
        assert (others == others[0]).all()


@pytest.mark.parametrize("name", ["split", "hgb-monotone", "linear"])
def test_quantiles_see_the_training_rows_only(name):
    """Other values in the rows that are only predicted change nothing for the rest of them."""
    plain = problem(inputs="quantile")
    X = plain.X.copy()
    X[60:80] = 50 + 9 * X[60:80]
    other = Problem(X, plain.y, plain.indicator, plain.task, "quantile")
    runs = [run(range(60), 0), run(range(5, 60), 1)]
    for a, b in zip(fit(name, plain, runs).predictions, fit(name, other, runs).predictions,
                    strict=True):  # fmt: skip
        kept = np.r_[0:60, 80:90]
        assert np.array_equal(a[:, kept], b[:, kept])
        assert not np.array_equal(a[:, 60:80], b[:, 60:80])


def test_quantile_inputs_of_a_run_are_fitted_on_its_own_rows():
    of = problem(inputs="quantile")
    runs = [run(range(40), 0), run(range(40, 90), 1), run(range(40), 2)]
    monotone, free, _ = CATALOGUE["split"].stack(a_configuration("split"), of, runs).table
    assert len(monotone) == len(free) == 2 * 90  # two sets of training rows
    for k, rows in enumerate((range(40), range(40, 90))):
        expected = Quantiles.fit(of.X[list(rows)]).transform(of.X)
        part = slice(90 * k, 90 * (k + 1))
        np.testing.assert_allclose(monotone[part], expected[:, :2] * [1, -1], rtol=1e-6)
        np.testing.assert_allclose(free[part], expected[:, 2:], rtol=1e-6)


@pytest.mark.parametrize("name", ["mixed", "deep"])
def test_quantile_inputs_keep_the_constraint(name):
    of = problem(inputs="quantile")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    higher = X + rng.exponential(size=X.shape) * of.indicator
    r = Run(np.arange(90), 90 + np.arange(400), (0,))
    extended = of.with_rows(np.concatenate([X, higher]))
    low, high = fit(name, extended, [r], learning_rate=0.02).predictions[0][-1].reshape(2, 200)
    assert (low - high).max() <= 1e-4  # float32 at a level of about 100
    assert (high - low).max() > 1
