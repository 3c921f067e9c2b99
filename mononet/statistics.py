"""Summaries, collapse counts, paired comparisons, bootstraps: pure functions on arrays.

A difference is baseline loss − challenger loss everywhere, so a positive one favors the challenger.
Intervals are two-sided at 95 %. Empty, non-finite or unpaired input is a StatisticsError.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

RESAMPLES = 2000
SEED = 56
TAILS = (2.5, 97.5)
# Index entries drawn at once: bounds the memory of a bootstrap over many rows.
CHUNK = 2_000_000
METRICS = ("mse", "rmse", "accuracy", "log_loss")


class StatisticsError(ValueError):
    """Input that the statistic is not defined for."""


@dataclass(frozen=True)
class Summary:
    """n values: mean, std (ddof 1, NaN for a single value), median, interquartile mean."""

    n: int
    mean: float
    std: float
    median: float
    iqm: float


@dataclass(frozen=True)
class Interval:
    """A point value (a mean, unless the function says otherwise) and its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class PairedT:
    """Mean difference, its sd (ddof 1) and standard error, t test and 95 % interval."""

    mean: float
    std: float
    se: float
    t: float
    df: float
    p: float
    low: float
    high: float


@dataclass(frozen=True)
class WelchT:
    """The unpaired test of the same two samples."""

    se: float
    t: float
    df: float
    p: float


@dataclass(frozen=True)
class Pairing:
    """Var(difference) = var_baseline + var_challenger − 2 covariance (ddof 1)."""

    var_baseline: float
    var_challenger: float
    covariance: float
    var_difference: float


@dataclass(frozen=True)
class TwoComponentT:
    """Mean gap with seed and block variance added, Welch–Satterthwaite df and 95 % interval."""

    mean: float
    se: float
    df: float
    low: float
    high: float


@dataclass(frozen=True)
class GapVariance:
    """The two terms of the variance of a mean gap, and their sum."""

    seed_term: float
    block_term: float
    total: float


@dataclass(frozen=True)
class McNemar:
    """Rows that only one side has right, and the exact two-sided p that both are as likely."""

    baseline_only: int
    challenger_only: int
    p: float


# Summaries over seeds


def iqm(values) -> float:
    """Interquartile mean: a quarter (rounded down) of `values` (n,) trimmed from each end.

    Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice",
    NeurIPS 2021.
    """
    return float(stats.trim_mean(_finite(values), 0.25))


def summarize(values) -> Summary:
    """n, mean, std (ddof 1), median and IQM of `values` (n,)."""
    values = _finite(values)
    std = float(np.sqrt(_variance(values))) if values.size > 1 else float("nan")
    mean, median = float(values.mean()), float(np.median(values))
    return Summary(values.size, mean, std, median, iqm(values))


def _variance(values: np.ndarray) -> np.ndarray:
    """ddof-1 variance over the last axis, about the first value: exactly zero where all are equal,
    which the distance from their mean need not be in floating point."""
    return np.var(values - values[..., :1], axis=-1, ddof=1)


def iqm_interval(values, resamples=RESAMPLES, seed=SEED) -> Interval:
    """IQM of `values` (seeds,) with a percentile bootstrap over seeds: retraining only."""
    values = _finite(values)
    draws = [
        stats.trim_mean(values[index], 0.25, axis=1)
        for index in _resamples(np.random.default_rng(seed), values.size, resamples)
    ]
    return _interval(iqm(values), draws)


def seed_sd(values) -> float:
    """Root of the mean over folds of the ddof-1 variance over seeds; `values` (folds, seeds)."""
    values = _finite(values, ndim=2)
    if values.shape[1] < 2:
        raise StatisticsError("one seed a fold has no spread over seeds; two are needed")
    return float(np.sqrt(_variance(values).mean()))


def expected_best_of(k, sd, loss=0.0, repetitions=20_000, seed=SEED) -> float:
    """Expected smallest of `k` measured losses when every one is N(loss, sd²): selection's luck."""
    if k < 1 or repetitions < 1 or sd < 0:
        raise StatisticsError("k and repetitions must be at least 1, sd at least 0")
    draws = np.random.default_rng(seed).normal(loss, sd, (repetitions, k))
    return float(draws.min(axis=1).mean())


# Collapse: `predictions` are (seeds, rows), or (rows,) for one run; the answer is a bool a run


def constant(predictions, task, y_train_sd=None):
    """Whether a run predicts one value for every row, or anything that is not finite.

    Classification (probabilities): range below 1e-3. Regression: sd below 1e-3 of `y_train_sd`.
    """
    predictions = _rows(predictions)
    finite = np.isfinite(predictions).all(axis=-1)
    safe = np.where(finite[..., None], predictions, 0.0)
    if _classification(task):
        flat = np.ptp(safe, axis=-1) < 1e-3
    elif y_train_sd is None or not y_train_sd > 0:
        raise StatisticsError(f"regression needs the target's sd, a positive number: {y_train_sd}")
    else:
        flat = np.std(safe, axis=-1) < 1e-3 * y_train_sd
    return flat | ~finite


def one_sided(probabilities):
    """Whether a run puts every row in one class (at 0.5) without being constant."""
    positive = _rows(probabilities) > 0.5
    one_class = positive.all(axis=-1) | ~positive.any(axis=-1)
    return one_class & ~constant(probabilities, "classification")


def outlier(values):
    """Whether a run's MSE is more than half above the reference; `values` (seeds,), bool a seed.

    The reference is the median of the better half, so that it stands when more than half of the
    runs fail. Values that are not finite count as outliers.
    """
    values = np.asarray(values, dtype=float)
    finite = np.sort(values[np.isfinite(values)])
    if not finite.size:
        raise StatisticsError("no finite value to take the reference from")
    half = max(values.size // 2, 1)
    return ~np.isfinite(values) | (values > 1.5 * np.median(finite[:half]))


# Metrics


def row_loss(task, y, predictions):
    """Squared error, or log loss of probabilities clipped at 1e-7; (…, rows)."""
    y, predictions = _finite(y), _rows(predictions)
    if not _classification(task):
        return np.square(predictions - y)
    p = np.clip(predictions, 1e-7, 1 - 1e-7)
    return -(y * np.log(p) + (1 - y) * np.log1p(-p))


def row_metric(name, y, predictions):
    """What `metric` averages, by row: squared error, 0/1 for right at 0.5, or log loss; NaN where
    a prediction is not finite."""
    _known(name)
    if name == "accuracy":
        p = _rows(predictions)
        return np.where(np.isfinite(p), (p > 0.5) == (_finite(y) > 0.5), np.nan)
    return row_loss("classification" if name == "log_loss" else "regression", y, predictions)


def metric(name, y, predictions):
    """mse, rmse, accuracy (a fraction) or log_loss along the last axis of `predictions`."""
    return _mean_metric(name, row_metric(name, y, predictions).mean(axis=-1))


def influences(name, rows, blocks=None) -> np.ndarray:
    """What each block of `rows`, from `row_metric`, moves the metric by, (blocks,), with sum 0.

    The delta method: a block counts with its rows (`blocks` (rows,) labels them; None: every row is
    one), and an RMSE moves by the change of its square over twice itself. The gap between two
    trainings moves by the difference of theirs.
    """
    _known(name)
    rows = _finite(rows, least=2)
    mean = rows.mean()
    sums, counts = _block_sums((rows - mean)[None], blocks)
    moved = sums[0] / counts.mean()
    return moved / (2 * np.sqrt(mean)) if name == "rmse" and mean > 0 else moved


def row_standard_error(name, rows, blocks=None) -> float:
    """Standard error of one training's metric over its evaluation rows, or blocks of them: the
    ddof-1 standard deviation of the `influences` over the root of their number."""
    moved = influences(name, rows, blocks)
    return float(moved.std(ddof=1) / np.sqrt(moved.size))


# Paired comparisons: `baseline` and `challenger` are losses (n,) of the same rows or blocks


def paired_t(baseline, challenger) -> PairedT:
    """Student's t on the differences: mean(d) ± t(n−1, 0.975) · sd(d) / √n."""
    baseline, challenger = _paired(baseline, challenger)
    d = baseline - challenger
    mean, std, df = float(d.mean()), float(np.std(d, ddof=1)), d.size - 1
    if np.ptp(d) == 0:  # scipy's t is 0/0 here
        t, p = (0.0, 1.0) if mean == 0 else (float(np.copysign(np.inf, mean)), 0.0)
        return PairedT(mean, 0.0, 0.0, t, df, p, mean, mean)
    test = stats.ttest_1samp(d, 0.0)
    low, high = test.confidence_interval(0.95)
    return PairedT(
        mean, std, std / np.sqrt(d.size), float(test.statistic), df, float(test.pvalue),
        float(low), float(high),
    )  # fmt: skip


def welch_t(baseline, challenger) -> WelchT:
    """Welch's t of two samples, (n,) and (m,), each with at least two values and some spread."""
    baseline, challenger = _finite(baseline, least=2), _finite(challenger, least=2)
    se = np.hypot(stats.sem(baseline), stats.sem(challenger))
    if np.ptp(baseline) == np.ptp(challenger) == 0:
        raise StatisticsError("two constant samples have no spread to compare with")
    test = stats.ttest_ind(baseline, challenger, equal_var=False)
    return WelchT(float(se), float(test.statistic), float(test.df), float(test.pvalue))


def pairing(baseline, challenger) -> Pairing:
    """What pairing buys: the variances of both losses, their covariance, that of the difference."""
    covariance = np.cov(*_paired(baseline, challenger))
    a, c, both = covariance[0, 0], covariance[1, 1], covariance[0, 1]
    return Pairing(float(a), float(c), float(both), float(a + c - 2 * both))


def mcnemar_exact(baseline_right, challenger_right) -> McNemar:
    """McNemar's exact test of two classifiers; bool (rows,), whether each has the row right."""
    baseline, challenger = _paired(baseline_right, challenger_right, least=1)
    baseline, challenger = baseline > 0.5, challenger > 0.5
    b, c = int((baseline & ~challenger).sum()), int((challenger & ~baseline).sum())
    p = stats.binomtest(b, b + c).pvalue if b + c else 1.0
    return McNemar(b, c, float(p))


def detectable_difference(sd, n, power=0.8) -> float:
    """Smallest mean of `n` paired differences with that `sd` that a t test finds at `power`.

    Two-sided at 5 %, from the noncentral t distribution (its wrong tail, negligible at such power,
    left out); in the unit of `sd`.
    """
    if n < 2 or not sd >= 0 or not 0.05 < power < 1:
        raise StatisticsError("n must be at least 2, sd at least 0, power between 0.05 and 1")
    df, bar = n - 1, stats.t.ppf(0.975, n - 1)

    def missing(shift):
        return stats.nct.sf(bar, df, shift) - power

    upper = 2 * (bar + stats.t.ppf(power, df)) + 1
    return float(sd * optimize.brentq(missing, 0, upper) / np.sqrt(n))


# Bootstraps and variances


def block_bootstrap(differences, resamples=RESAMPLES, seed=SEED, weights=None) -> Interval:
    """Mean of one trained pair's paired `differences` (blocks,), blocks drawn again.

    `weights` (blocks,) are the rows behind each difference (None: all alike). Says nothing about
    retraining.
    """
    differences = _finite(differences, least=2)
    weights = _weights(weights, differences.size)
    draws = [
        (differences * weights)[index].sum(axis=1) / weights[index].sum(axis=1)
        for index in _resamples(np.random.default_rng(seed), differences.size, resamples)
    ]
    return _interval(np.average(differences, weights=weights), draws)


def metric_bootstrap(
    name, baseline, challenger, blocks=None, resamples=RESAMPLES, seed=SEED
) -> Interval:
    """Gap of a metric between two trained models, blocks of rows drawn again.

    `baseline` and `challenger` (rows,) come from `row_metric`; `blocks` (rows,) labels each row's
    block (None: every row is one). The metric is computed anew inside each resample; the gap is
    positive where the challenger is better, accuracy included.
    """
    _known(name)
    pair = np.stack(_paired(baseline, challenger))
    sums, rows = _block_sums(pair, blocks)

    def gap(sums, rows):
        a, c = (_mean_metric(name, side / rows) for side in sums)
        return c - a if name == "accuracy" else a - c

    draws = [
        gap(sums[:, index].sum(axis=2), rows[index].sum(axis=1))
        for index in _resamples(np.random.default_rng(seed), rows.size, resamples)
    ]
    return _interval(gap(sums.sum(axis=1), rows.sum()), draws)


def pairs_apart(name, baseline, challenger, blocks=None, resamples=RESAMPLES, seed=SEED):
    """For every pair of trained models, whether the interval of `metric_bootstrap` leaves zero out.

    `baseline` (seeds, rows) and `challenger` (seeds, rows) come from `row_metric`; the answer is
    (baseline seeds, challenger seeds): +1 in favor of the challenger, -1 of the baseline, else 0.
    """
    _known(name)
    sides = [_finite(baseline, 2, least=2), _finite(challenger, 2, least=2)]
    if sides[0].shape[1] != sides[1].shape[1]:
        raise StatisticsError(f"not paired: {sides[0].shape[1]} against {sides[1].shape[1]} values")
    sums, rows = _block_sums(np.concatenate(sides), blocks)
    means = []
    for index in _resamples(np.random.default_rng(seed), rows.size, resamples):
        labels = index + rows.size * np.arange(len(index))[:, None]
        drawn = np.bincount(labels.ravel(), minlength=index.size).reshape(index.shape)
        means.append(_mean_metric(name, (drawn @ sums.T) / (drawn @ rows)[:, None]))
    means = np.concatenate(means) * (-1 if name == "accuracy" else 1)
    a, c = means[:, : len(sides[0])], means[:, len(sides[0]) :]
    low, high = np.percentile(a[:, :, None] - c[:, None, :], TAILS, axis=0)
    return (low > 0).astype(int) - (high < 0)


def two_level_bootstrap(
    baseline, challenger, resamples=RESAMPLES, seed=SEED, weights=None
) -> Interval:
    """Mean gap with the seeds of each side drawn again, then the same blocks for both.

    `baseline` (seeds, blocks) and `challenger` (seeds, blocks) are losses; the numbers of seeds may
    differ. `weights` (blocks,) as in `block_bootstrap`. With few seeds the seed level is coarse.
    """
    baseline, challenger = _two_level(baseline, challenger)
    weights = _weights(weights, baseline.shape[1])
    rng, draws = np.random.default_rng(seed), []
    for index in _resamples(rng, weights.size, resamples):
        gap = _seed_shares(rng, baseline, len(index)) - _seed_shares(rng, challenger, len(index))
        drawn = np.take_along_axis(gap * weights, index, axis=1)
        draws.append(drawn.sum(axis=1) / weights[index].sum(axis=1))
    gap = baseline.mean(axis=0) - challenger.mean(axis=0)
    return _interval(np.average(gap, weights=weights), draws)


def two_component_t(baseline, challenger) -> TwoComponentT:
    """t interval of the mean gap over seeds and blocks; losses (seeds, blocks) of both sides.

    Variance s²_A/S_A + s²_C/S_C + σ²_block/B, assuming independent sources; degrees of freedom by
    Welch–Satterthwaite.
    """
    baseline, challenger = _two_level(baseline, challenger)
    blocks = baseline.mean(axis=0) - challenger.mean(axis=0)
    samples = [baseline.mean(axis=1), challenger.mean(axis=1), blocks]
    terms = np.array([_variance(each) / each.size for each in samples])
    dfs = np.array([each.size - 1 for each in samples])
    mean, total = float(blocks.mean()), float(terms.sum())
    if total == 0:
        raise StatisticsError("neither seeds nor blocks vary")
    df = total**2 / float((terms**2 / dfs).sum())
    half = stats.t.ppf(0.975, df) * np.sqrt(total)
    return TwoComponentT(mean, float(np.sqrt(total)), df, float(mean - half), float(mean + half))


def gap_variance(seed_sd, seeds, block_sd, blocks) -> GapVariance:
    """Var(gap) ≈ seed_sd² / seeds + block_sd² / blocks, assuming independent sources.

    Numbers for `seed_sd` and `seeds` say that one side varies; pairs (baseline, challenger) take
    both sides. `block_sd` is that of the paired differences.
    """
    given = np.broadcast_arrays(seed_sd, seeds, block_sd, blocks)
    if not np.isfinite(given).all() or np.min(given) < 0 or min(np.min(seeds), blocks) < 1:
        raise StatisticsError("sds must be finite and at least 0, seeds and blocks at least 1")
    seed_term = float(np.sum(np.square(seed_sd) / np.asarray(seeds)))
    block_term = float(block_sd**2 / blocks)
    return GapVariance(seed_term, block_term, seed_term + block_term)


def lag1_autocorrelation(differences) -> float:
    """Correlation of consecutive `differences` (blocks, in order of time); 0 if they are equal."""
    d = _finite(differences, least=3)
    d = d - d[0]  # exactly zero where all are equal
    d = d - d.mean()
    return float((d[1:] * d[:-1]).sum() / (d * d).sum()) if d.any() else 0.0


# What the functions above share


def _finite(values, ndim=1, least=1):
    values = np.asarray(values, dtype=float)
    if values.ndim != ndim:
        raise StatisticsError(f"expected {ndim} axes, found the shape {values.shape}")
    if values.shape[-1] < least or not values.size:
        raise StatisticsError(f"expected at least {least} values, found the shape {values.shape}")
    if not np.isfinite(values).all():
        raise StatisticsError(f"{(~np.isfinite(values)).sum()} of {values.size} values not finite")
    return values


def _rows(predictions):
    predictions = np.asarray(predictions, dtype=float)
    if not predictions.ndim or not predictions.size:
        raise StatisticsError(f"expected predictions (…, rows), found shape {predictions.shape}")
    return predictions


def _paired(baseline, challenger, least=2):
    baseline, challenger = _finite(baseline, least=least), _finite(challenger, least=least)
    if baseline.shape != challenger.shape:
        raise StatisticsError(f"not paired: {baseline.size} against {challenger.size} values")
    return baseline, challenger


def _two_level(baseline, challenger):
    baseline, challenger = _finite(baseline, 2, least=2), _finite(challenger, 2, least=2)
    if baseline.shape[1] != challenger.shape[1]:
        raise StatisticsError(
            f"not paired: {baseline.shape[1]} against {challenger.shape[1]} blocks"
        )
    if min(len(baseline), len(challenger)) < 2:
        raise StatisticsError("one seed says nothing about retraining; two a side are needed")
    return baseline, challenger


def _weights(weights, n):
    if weights is None:
        return np.ones(n)
    weights = _finite(weights)
    if weights.size != n or (weights <= 0).any():
        raise StatisticsError(f"expected {n} positive weights, found {weights.size}")
    return weights


def _known(name):
    if name not in METRICS:
        raise StatisticsError(f"unknown metric {name!r}; metrics: {', '.join(METRICS)}")


def _classification(task):
    if task not in ("regression", "classification"):
        raise StatisticsError(f"unknown task {task!r}; tasks: regression, classification")
    return task == "classification"


def _mean_metric(name, mean):
    return np.sqrt(mean) if name == "rmse" else mean


def _resamples(rng, n, resamples) -> Iterator[np.ndarray]:
    """Index arrays (some, n), `resamples` in all: the draws of one rng.choice after the other."""
    if resamples < 1:
        raise StatisticsError(f"resamples must be at least 1, given {resamples}")
    step = max(1, CHUNK // n)
    for start in range(0, resamples, step):
        yield rng.integers(n, size=(min(step, resamples - start), n))


def _block_sums(values, blocks):
    """Sums of `values` (sides, rows) over each block, (sides, blocks), and the blocks' rows."""
    if blocks is None:
        sums, rows = values, np.ones(values.shape[1])
    else:
        if np.shape(blocks) != values.shape[1:]:
            raise StatisticsError(f"{np.shape(blocks)} blocks for {values.shape[1]} rows")
        _, label = np.unique(blocks, return_inverse=True)
        sums = np.stack([np.bincount(label, side) for side in values])
        rows = np.bincount(label)
    if rows.size < 2:
        raise StatisticsError("one block cannot be drawn again; two are needed")
    return sums, rows


def _seed_shares(rng, losses, resamples):
    """Mean loss (resamples, blocks) over seeds drawn again with replacement."""
    seeds = len(losses)
    return rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples) / seeds @ losses


def _interval(value, draws) -> Interval:
    low, high = np.percentile(np.concatenate(draws), TAILS)
    return Interval(float(value), float(low), float(high))
