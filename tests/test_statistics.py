"""The statistics, against numbers worked by hand, scipy, and cases constructed to be clear."""

import dataclasses
import inspect

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from mononet import statistics as s
from mononet.statistics import StatisticsError

# Six weekly losses of the chapter's worked example.
BOOSTING = [0.521, 0.498, 0.544, 0.512, 0.533, 0.506]
NETWORK = [0.510, 0.502, 0.535, 0.499, 0.531, 0.501]
losses = st.floats(0.01, 100)


def toy_log():
    return np.random.default_rng(56).normal(0.003, 0.02, 52)


def test_paired_t_worked_by_hand():
    t = s.paired_t(BOOSTING, NETWORK)
    found = (t.mean, t.std, t.se, t.t, t.low, t.high, t.p)
    expected = (0.0060, 0.00632, 0.00258, 2.32, -0.0006, 0.0126, 0.068)
    tolerance = (5e-5, 5e-6, 5e-6, 5e-3, 5e-5, 5e-5, 5e-4)
    assert np.all(np.abs(np.subtract(found, expected)) <= tolerance), found
    assert t.df == 5
    assert stats.t.ppf(0.975, t.df) == pytest.approx(2.571, abs=5e-4)


def test_welch_t_worked_by_hand():
    t = s.welch_t(BOOSTING, NETWORK)
    assert t.se == pytest.approx(0.0096, abs=5e-5)
    assert t.t == pytest.approx(0.63, abs=5e-3)
    assert t.p == pytest.approx(0.55, abs=5e-3)
    variance = s.pairing(BOOSTING, NETWORK)
    assert t.se**2 * 6 == pytest.approx(variance.var_baseline + variance.var_challenger)


def test_toy_log():
    mlp, gbm = [0.536, 0.541, 0.532, 0.546, 0.539], [0.541, 0.540, 0.543, 0.539, 0.542]
    gap = s.summarize(gbm).mean - s.summarize(mlp).mean
    sd = max(s.summarize(mlp).std, s.summarize(gbm).std)
    assert gap == pytest.approx(0.0022, abs=5e-5)
    assert sd == pytest.approx(0.0053, abs=5e-5)
    assert gap / sd == pytest.approx(0.42, abs=5e-3)
    interval = s.block_bootstrap(toy_log())
    assert interval.mean == pytest.approx(0.0085, abs=5e-5)
    assert (round(interval.low, 4), round(interval.high, 4)) == (0.0029, 0.0137)
    assert interval.mean / sd == pytest.approx(1.62, abs=5e-3)


@pytest.mark.parametrize("n", [5, 52])
def test_resamples_are_those_of_one_choice_after_the_other(monkeypatch, n):
    d = toy_log()[:n]
    rng = np.random.default_rng(7)
    means = [rng.choice(d, n).mean() for _ in range(300)]
    for chunk in (s.CHUNK, 3 * n):
        monkeypatch.setattr(s, "CHUNK", chunk)
        found = s.block_bootstrap(d, resamples=300, seed=7)
        assert (found.low, found.high) == pytest.approx(tuple(np.percentile(means, s.TAILS)))


def test_summarize_values():
    summary = s.summarize([1, 2, 3, 4, 5, 6, 7, 100])
    assert summary.n == 8 and summary.mean == 16.0 and summary.median == 4.5
    assert summary.iqm == 4.5  # the mean of 3, 4, 5, 6
    assert summary.std == pytest.approx(np.std([1, 2, 3, 4, 5, 6, 7, 100], ddof=1))
    assert np.isnan(s.summarize([2.0]).std)


@given(values=st.lists(losses, min_size=4, max_size=30), shift=st.floats(-50, 50))
def test_iqm_lies_inside_moves_along_and_ignores_one_collapse(values, shift):
    values = np.array(values)
    assert values.min() - 1e-9 <= s.iqm(values) <= values.max() + 1e-9
    assert s.iqm(values + shift) == pytest.approx(s.iqm(values) + shift, abs=1e-9)
    worse = values.copy()
    worse[np.argmax(worse)] = 1e6
    assert s.iqm(worse) == pytest.approx(s.iqm(values))
    interval = s.iqm_interval(values, resamples=200)
    assert interval.low - 1e-9 <= interval.mean <= interval.high + 1e-9 or np.ptp(values) > 0


def test_iqm_interval_repeats_and_narrows_with_seeds():
    values = np.random.default_rng(0).normal(size=400)
    few, many = s.iqm_interval(values[:20]), s.iqm_interval(values)
    assert few == s.iqm_interval(values[:20])
    assert many.high - many.low < 0.5 * (few.high - few.low)


def test_seed_sd_leaves_out_the_folds_difficulty():
    assert s.seed_sd([[1, 3], [101, 103]]) == pytest.approx(np.sqrt(2))
    assert s.seed_sd([[1, 1], [5, 5]]) == 0
    with pytest.raises(StatisticsError, match="one seed a fold"):
        s.seed_sd([[1.0], [2.0]])


@given(value=losses, seeds=st.integers(2, 20))
@example(value=1 / 49, seeds=20)  # the mean of twenty of these is another number
def test_what_does_not_vary_has_no_spread_and_no_dependence(value, seeds):
    assert s.lag1_autocorrelation([value] * (seeds + 1)) == 0
    assert s.seed_sd([[value] * seeds, [2 * value] * seeds]) == 0
    assert s.summarize([value] * seeds).std == 0


def test_expected_best_of():
    assert s.expected_best_of(1, 1.0, 10.0) == pytest.approx(10.0, abs=0.03)
    assert s.expected_best_of(50, 2.0, 10.0) == pytest.approx(10 - 2 * 2.2491, abs=0.03)
    assert s.expected_best_of(50, 0.0, 10.0) == 10.0
    assert s.expected_best_of(9, 1.0) == s.expected_best_of(9, 1.0)


# Collapse: predictions constructed so that there is no doubt


ROWS = 60
runs = st.tuples(st.integers(0, 10_000), st.integers(2, 8))


@given(draw=runs, level=st.floats(0, 1), noise=st.floats(0, 4e-4))
def test_constant_and_nearly_constant_probabilities(draw, level, noise):
    seed, seeds = draw
    wiggle = np.random.default_rng(seed).uniform(-noise, noise, (seeds, ROWS))
    predictions = level + wiggle
    assert s.constant(predictions, "classification").all()
    assert not s.one_sided(predictions).any()


@given(draw=runs, level=st.floats(-30, 30), sd=st.floats(0.1, 20))
def test_constant_and_nearly_constant_regression(draw, level, sd):
    seed, seeds = draw
    wiggle = np.random.default_rng(seed).uniform(-1, 1, (seeds, ROWS)) * 1e-3 * sd
    assert s.constant(level + wiggle, "regression", sd).all()
    assert not s.constant(level + 10 * wiggle, "regression", sd).any()


@given(draw=runs)
def test_inverted_and_noisy_predictions_are_bad_but_not_collapsed(draw):
    seed, seeds = draw
    rng = np.random.default_rng(seed)
    y = np.arange(ROWS) % 2
    inverted = np.tile(1.0 - y, (seeds, 1))
    noisy = rng.permuted(np.tile(np.linspace(0.01, 0.99, ROWS), (seeds, 1)), axis=1)
    for predictions in (inverted, noisy):
        assert not s.constant(predictions, "classification").any()
        assert not s.one_sided(predictions).any()
        assert not s.constant(30 * predictions, "regression", 7.8).any()
    assert (s.metric("accuracy", y, inverted) == 0).all()


@given(draw=runs)
def test_half_of_the_seeds_collapsed(draw):
    seed, half = draw
    rng = np.random.default_rng(seed)
    healthy = rng.permuted(np.tile(np.linspace(0.05, 0.95, ROWS), (half, 1)), axis=1)
    flat = np.full((half, ROWS), rng.uniform(0, 1))
    flat[0, 0] = np.nan
    predictions = np.concatenate([healthy, flat])
    expected = np.repeat([False, True], half)
    np.testing.assert_array_equal(s.constant(predictions, "classification"), expected)
    np.testing.assert_array_equal(s.constant(30 * predictions, "regression", 8.0), expected)
    np.testing.assert_array_equal(s.one_sided(predictions), np.zeros(2 * half, bool))
    mse = np.concatenate([rng.uniform(9, 10, half), rng.uniform(55, 65, half)])
    np.testing.assert_array_equal(s.outlier(mse), expected)


def test_one_sided_is_not_constant():
    probabilities = np.array([[0.1, 0.2, 0.4], [0.6, 0.7, 0.9], [0.2, 0.6, 0.9], [0.3, 0.3, 0.3]])
    assert s.one_sided(probabilities).tolist() == [True, True, False, False]
    assert s.constant(probabilities, "classification").tolist() == [False, False, False, True]
    assert s.constant(probabilities[3], "classification")


def test_outlier_reference():
    assert s.outlier([10, 10, 10, 14.9, 15.1]).tolist() == [False] * 4 + [True]
    assert s.outlier([10, 40, 60, 60]).tolist() == [False, True, True, True]  # better half: 25
    assert s.outlier([10, 11, 60, 60, 60]).tolist() == [False, False, True, True, True]
    assert s.outlier([10, 10, np.nan, np.inf]).tolist() == [False, False, True, True]
    with pytest.raises(StatisticsError, match="no finite value"):
        s.outlier([np.nan])


# Metrics


def test_metrics_by_hand():
    y, predictions = np.array([0.0, 1.0, 1.0]), np.array([[0.2, 0.9, 0.4], [0.0, 1.0, 0.5]])
    assert s.metric("accuracy", y, predictions).tolist() == pytest.approx([2 / 3, 2 / 3])
    assert s.metric("mse", y, predictions)[1] == pytest.approx(0.25 / 3)
    assert s.metric("rmse", y, predictions)[1] == pytest.approx(np.sqrt(0.25 / 3))
    log_loss = -np.log([0.8, 0.9, 0.4])
    np.testing.assert_allclose(s.row_loss("classification", y, predictions[0]), log_loss)
    assert s.metric("log_loss", y, predictions)[0] == pytest.approx(log_loss.mean())
    certain = s.row_loss("classification", np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    np.testing.assert_allclose(certain, -np.log(1e-7), rtol=1e-6)


def test_a_prediction_that_is_not_finite_is_neither_right_nor_wrong():
    found = s.row_metric("accuracy", np.array([1.0, 0.0, 0.0]), np.array([0.9, np.nan, 0.2]))
    np.testing.assert_array_equal(found, [1.0, np.nan, 1.0])


def test_row_standard_error():
    squared = np.random.default_rng(0).exponential(9.0, 78)
    se = np.std(squared, ddof=1) / np.sqrt(78)
    assert s.row_standard_error("mse", squared) == pytest.approx(se)
    rmse = np.sqrt(squared.mean())
    assert s.row_standard_error("rmse", squared) == pytest.approx(se / (2 * rmse))
    right = np.repeat([1.0, 0.0], [49, 12])
    p = 49 / 61
    assert s.row_standard_error("accuracy", right) == pytest.approx(np.sqrt(p * (1 - p) / 60))
    assert s.row_standard_error("rmse", np.zeros(5)) == 0


def test_row_standard_error_with_blocks():
    days = np.random.default_rng(0).exponential(9.0, 12)
    rows, blocks = np.repeat(days, 5), np.repeat(np.arange(12), 5)
    # Five equal rows a day tell no more than one.
    assert s.row_standard_error("mse", rows, blocks) == pytest.approx(
        np.std(days, ddof=1) / np.sqrt(12)
    )
    assert s.row_standard_error("mse", rows, np.arange(60)) == s.row_standard_error("mse", rows)


# Paired comparisons


@given(pairs=st.lists(st.tuples(losses, losses), min_size=3, max_size=20))
def test_paired_t_agrees_with_scipy_and_turns_around(pairs):
    a, c = np.array(pairs).T
    t, back = s.paired_t(a, c), s.paired_t(c, a)
    assert (t.mean, t.low, t.high) == pytest.approx((-back.mean, -back.high, -back.low), abs=1e-9)
    if np.std(a - c) > 1e-6:
        assert t.p == pytest.approx(stats.ttest_rel(a, c).pvalue)
        assert t.std**2 == pytest.approx(s.pairing(a, c).var_difference, rel=1e-6)


def test_paired_t_without_spread():
    t = s.paired_t([2.0, 3.0, 4.0], [1.0, 2.0, 3.0])
    assert (t.mean, t.se, t.t, t.p, t.low, t.high) == (1.0, 0.0, np.inf, 0.0, 1.0, 1.0)
    assert s.paired_t([1.0, 2.0], [1.0, 2.0]).p == 1.0


def test_mcnemar():
    baseline = np.repeat([True, True, False, False], [50, 2, 9, 4])
    challenger = np.repeat([True, False, True, False], [50, 2, 9, 4])
    test = s.mcnemar_exact(baseline, challenger)
    assert (test.baseline_only, test.challenger_only) == (2, 9)
    assert test.p == pytest.approx(2 * sum((1, 11, 55)) / 2**11)
    assert s.mcnemar_exact([True, False], [True, False]).p == 1.0


def test_detectable_difference():
    large = s.detectable_difference(2.0, 10_000)
    assert large == pytest.approx(2.0 * (1.95996 + 0.84162) / 100, rel=1e-3)
    assert s.detectable_difference(1.0, 6) == pytest.approx(1.4349, abs=2e-3)
    assert s.detectable_difference(0.0, 6) == 0
    assert s.detectable_difference(1.0, 2) > s.detectable_difference(1.0, 3)
    assert s.detectable_difference(1.0, 9, 0.9) > s.detectable_difference(1.0, 9, 0.8)
    assert np.isfinite(s.detectable_difference(1.0, 70_212))


def test_detectable_difference_by_simulation():
    n, sd = 8, 3.0
    shift = s.detectable_difference(sd, n)
    samples = np.random.default_rng(0).normal(shift, sd, (20_000, n))
    found = (stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05).mean()
    assert found == pytest.approx(0.8, abs=0.01)


# Bootstraps and variances


def test_weighted_blocks_are_the_mean_over_rows():
    rng = np.random.default_rng(0)
    days = np.repeat(np.arange(12), rng.integers(3, 20, 12))
    a, c = rng.exponential(2.0, days.size), rng.exponential(1.0, days.size)
    rows = np.bincount(days)
    by_day = np.bincount(days, a - c) / rows
    weighted = s.block_bootstrap(by_day, weights=rows)
    assert weighted.mean == pytest.approx((a - c).mean())
    assert dataclasses.astuple(s.metric_bootstrap("mse", a, c, days)) == pytest.approx(
        dataclasses.astuple(weighted)
    )
    assert weighted.mean != pytest.approx(s.block_bootstrap(by_day).mean)


def test_metric_is_computed_inside_each_resample():
    rng = np.random.default_rng(1)
    a, c = rng.exponential(4.0, 40), rng.exponential(1.0, 40)
    index = np.random.default_rng(s.SEED).integers(40, size=(s.RESAMPLES, 40))
    gaps = np.sqrt(a[index].mean(axis=1)) - np.sqrt(c[index].mean(axis=1))
    found = s.metric_bootstrap("rmse", a, c)
    assert found.mean == pytest.approx(np.sqrt(a.mean()) - np.sqrt(c.mean()))
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(gaps, s.TAILS)))


@pytest.mark.parametrize("name", ["mse", "rmse", "accuracy"])
def test_influences_give_the_standard_error_of_the_gap_over_blocks_of_unequal_size(name):
    rng = np.random.default_rng(5)
    days = np.repeat(np.arange(80), rng.integers(2, 60, 80))
    a = rng.exponential(4.0, days.size) * rng.uniform(0.5, 2.0, 80)[days]
    c = 0.5 * a + rng.exponential(1.0, days.size)
    if name == "accuracy":
        a, c = (a < 3).astype(float), (c < 3).astype(float)
    moved = s.influences(name, a, days) - s.influences(name, c, days)
    assert moved.size == 80 and moved.mean() == pytest.approx(0, abs=1e-12)
    drawn = s.metric_bootstrap(name, a, c, days, resamples=20_000)
    normal = moved.std(ddof=1) / np.sqrt(80)
    assert (drawn.high - drawn.low) / (2 * 1.96) == pytest.approx(normal, rel=0.05)
    # Days alike, whatever their rows, are another spread.
    alike = (np.bincount(days, a - c) / np.bincount(days)).std(ddof=1) / np.sqrt(80)
    assert name == "rmse" or alike != pytest.approx(normal, rel=0.01)


def test_influences_of_single_rows_are_their_differences():
    a, c = np.array([4.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0])
    assert (s.influences("mse", a) - s.influences("mse", c)).tolist() == pytest.approx(
        [5 / 3, -4 / 3, -1 / 3]
    )
    # Of an RMSE: over twice √2 and twice √(2/3); without any error there is nothing to move.
    parts = (a - 2) / (2 * np.sqrt(2)) - (c - 2 / 3) / (2 * np.sqrt(2 / 3))
    assert s.influences("rmse", a) - s.influences("rmse", c) == pytest.approx(parts)
    assert s.influences("rmse", a) - s.influences("rmse", 0 * c) == pytest.approx(
        (a - 2) / (2 * np.sqrt(2))
    )


def test_accuracy_gap_is_positive_for_a_better_challenger():
    baseline, challenger = np.repeat([1.0, 0.0], [30, 30]), np.repeat([1.0, 0.0], [50, 10])
    found = s.metric_bootstrap("accuracy", baseline, challenger)
    assert found.mean == pytest.approx(20 / 60) and found.low > 0


def test_two_level_covers_more_than_either_level():
    rng = np.random.default_rng(0)
    shared = rng.normal(0, 1, 30)
    baseline = 5.0 + shared + rng.normal(0, 0.5, (12, 1)) + rng.normal(0, 0.3, (12, 30))
    challenger = 4.5 + shared + rng.normal(0, 0.5, (10, 1)) + rng.normal(0, 0.3, (10, 30))
    both = s.two_level_bootstrap(baseline, challenger)
    assert both == s.two_level_bootstrap(baseline, challenger)
    assert both.mean == pytest.approx(baseline.mean() - challenger.mean())
    averaged = s.block_bootstrap(baseline.mean(axis=0) - challenger.mean(axis=0))
    assert both.high - both.low > 1.5 * (averaged.high - averaged.low)
    t = s.two_component_t(baseline, challenger)
    assert t.mean == pytest.approx(both.mean)
    assert t.high - t.low == pytest.approx(both.high - both.low, rel=0.25)
    assert 9 < t.df < 60


def test_two_level_without_seed_variance_is_the_block_bootstrap():
    a, c = np.tile(np.arange(20.0), (3, 1)), np.zeros((4, 20))
    two, one = s.two_level_bootstrap(a, c), s.block_bootstrap(np.arange(20.0))
    assert (two.mean, two.low, two.high) == pytest.approx((one.mean, one.low, one.high), rel=0.05)


def test_gap_variance_one_side_and_both():
    one = s.gap_variance(0.005, 5, 0.02, 12)
    assert one.seed_term == pytest.approx(5e-6) and one.block_term == pytest.approx(4e-4 / 12)
    assert one.total == one.seed_term + one.block_term
    both = s.gap_variance((0.005, 0.003), (5, 9), 0.02, 12)
    assert both.seed_term == pytest.approx(5e-6 + 1e-6)
    assert both.block_term == one.block_term


@given(seeds=st.integers(1, 50), blocks=st.integers(1, 50))
def test_only_more_blocks_shrink_the_block_term(seeds, blocks):
    here, more = (s.gap_variance(1.0, k, 2.0, blocks) for k in (seeds, 2 * seeds))
    assert more.block_term == here.block_term and more.seed_term < here.seed_term


def test_lag1_autocorrelation():
    steps = np.repeat(np.random.default_rng(0).normal(size=40), 10)
    assert s.lag1_autocorrelation(steps) > 0.8
    assert s.lag1_autocorrelation([1, -1] * 20) < -0.9
    assert abs(s.lag1_autocorrelation(np.random.default_rng(0).normal(size=2000))) < 0.06
    assert s.lag1_autocorrelation([3, 3, 3]) == 0


# Errors


ONE = [s.iqm, s.summarize, s.iqm_interval, s.block_bootstrap, s.lag1_autocorrelation]
TWO = [s.paired_t, s.welch_t, s.pairing]


@pytest.mark.parametrize("function", ONE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("values", [[], [1.0, np.nan, 2.0], [1.0, np.inf, 3.0], [[1.0, 2.0]]])
def test_one_sample_refused(function, values):
    with pytest.raises(StatisticsError):
        function(values)


@pytest.mark.parametrize("function", TWO, ids=lambda f: f.__name__)
@pytest.mark.parametrize("values", [[], [1.0], [1.0, np.nan, 2.0]])
def test_two_samples_refused(function, values):
    with pytest.raises(StatisticsError):
        function(values, [1.0, 2.0, 4.0])
    with pytest.raises(StatisticsError):
        function([1.0, 2.0, 4.0], values)


def test_unpaired_and_other_refusals():
    ones = np.ones((3, 4))
    for call, match in (
        (lambda: s.paired_t([1, 2, 3], [1, 2]), "not paired: 3 against 2"),
        (lambda: s.mcnemar_exact([True], [True, False]), "not paired"),
        (lambda: s.two_level_bootstrap(ones, ones[:, :3]), "not paired: 4 against 3 blocks"),
        (lambda: s.two_level_bootstrap(ones[:1], ones), "one seed says nothing"),
        (lambda: s.two_component_t(ones, ones), "neither seeds nor blocks"),
        (lambda: s.welch_t([1, 1], [2, 2]), "no spread"),
        (lambda: s.metric_bootstrap("mse", [1, 2, 3], [1, 2, 3], [0, 0]), "blocks for 3 rows"),
        (lambda: s.metric_bootstrap("mse", [1, 2], [1, 2], [0, 0]), "one block"),
        (lambda: s.metric_bootstrap("mape", [1, 2], [1, 2]), "unknown metric 'mape'"),
        (lambda: s.block_bootstrap([1, 2], weights=[1, 0]), "positive weights"),
        (lambda: s.block_bootstrap([1, 2], resamples=0), "resamples"),
        (lambda: s.constant([1.0, 2.0], "ranking"), "unknown task"),
        (lambda: s.constant([1.0, 2.0], "regression"), "target's sd"),
        (lambda: s.constant([], "classification"), "predictions"),
        (lambda: s.detectable_difference(1.0, 1), "n must be"),
        (lambda: s.gap_variance(-1.0, 5, 1.0, 5), "at least 0"),
        (lambda: s.gap_variance(1.0, 0, 1.0, 5), "at least 1"),
        (lambda: s.expected_best_of(0, 1.0), "at least 1"),
    ):
        with pytest.raises(StatisticsError, match=match):
            call()
    assert issubclass(StatisticsError, ValueError)


def test_every_public_function_says_what_it_is():
    for name, function in inspect.getmembers(s, inspect.isfunction):
        if function.__module__ == s.__name__ and not name.startswith("_"):
            assert function.__doc__, name


@pytest.mark.parametrize("name", ["mse", "rmse", "accuracy"])
@pytest.mark.parametrize("blocked", [True, False])
def test_pairs_apart_says_of_every_pair_what_its_interval_says(name, blocked):
    rng = np.random.default_rng(3)
    blocks = np.repeat(np.arange(15), 4) if blocked else None
    sides = [(rng.random((n, 60)) < p).astype(float) for n, p in ((3, 0.55), (2, 0.75), (2, 0.55))]
    for challenger in sides[1:]:
        found = s.pairs_apart(name, sides[0], challenger, blocks, resamples=200)
        assert found.shape == (3, 2)
        for a, c in np.ndindex(found.shape):
            one = s.metric_bootstrap(name, sides[0][a], challenger[c], blocks, resamples=200)
            assert found[a, c] == (one.low > 0) - (one.high < 0)


def test_pairs_apart_needs_the_same_rows():
    with pytest.raises(s.StatisticsError, match="not paired"):
        s.pairs_apart("mse", np.ones((2, 5)), np.ones((2, 4)))
