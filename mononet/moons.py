"""The classic of two noises: a small network and logistic regression on the two moons.

Synthetic data, drawn so that the network is worse on average and a few of its trainings win all
the same. It is a picture of two questions, not a result about networks.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
import pandas as pd
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from mononet import experiments, figures, printing, prose, statistics
from mononet.experiments import Chapter, Experiment
from mononet.printing import Html, number

TRAIN, VALIDATION, BLOCKS, NOISE = 100, 100, 10, 0.35
BASELINE = "logistic regression"


def losses(experiment: Experiment) -> pd.DataFrame:
    """Mean validation log loss by block: the baseline (seed −1), and the network by seed."""
    values = experiment.parameters
    X, y = make_moons(TRAIN + VALIDATION, noise=NOISE, random_state=values["simulation_seed"])
    models = {-1: LogisticRegression()} | {
        seed: MLPClassifier(
            (values["hidden_units"],),
            activation="tanh",
            solver="adam",
            learning_rate_init=values["learning_rate"],
            max_iter=values["max_epochs"],
            random_state=seed,
        )
        for seed in range(values["final_seeds"])
    }
    rows = []
    for seed, model in models.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the epochs are the experiment's
            model.fit(X[:TRAIN], y[:TRAIN])
        predicted = model.predict_proba(X[TRAIN:])[:, 1]
        loss = statistics.row_loss("classification", y[TRAIN:], predicted)
        rows += [
            {"seed": seed, "block": block, "loss": value}
            for block, value in enumerate(loss.reshape(BLOCKS, -1).mean(axis=1))
        ]
    return pd.DataFrame(rows)


PARTS = {"losses": losses}


# --- what the chapter shows ----------------------------------------------------------------------


def gaps(experiment: Experiment) -> pd.DataFrame:
    """Baseline loss minus network loss, a row a seed: mean over blocks and its block interval."""
    frame = experiment.table("losses").pivot(index="seed", columns="block", values="loss")
    baseline = frame.loc[-1].to_numpy()
    found = {
        seed: statistics.block_bootstrap(baseline - row, experiment.parameters["resamples"])
        for seed, row in zip(frame.index[1:], frame.to_numpy()[1:], strict=True)
    }
    rows = {seed: (each.mean, each.low, each.high) for seed, each in found.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["gap", "low", "high"])


@mpl.rc_context(figures.STYLE)
def figure(experiment: Experiment) -> Html:
    """Left: the gap of every seed. Right: the same networks, each with its block interval."""
    frame = gaps(experiment)
    drawn, (left, right) = figures.panels(2, 2, 0.22 * len(frame) + 1.0, sharex=True, sharey=True)
    spread = statistics.summarize(frame["gap"])
    won = frame["gap"] > 0
    for axis in (left, right):
        for chosen, marker, color in ((~won, "o", 0), (won, "D", 1)):
            points = frame[chosen]
            axis.plot(points["gap"], points.index, marker, ms=5, color=figures.PALETTE[color])
        axis.axvline(0, color=figures.GRAY, lw=1, ls="--")
        axis.grid(axis="x", color="0.9")
        axis.set_axisbelow(True)
        axis.set_xlabel("gap in log loss")
    left.axvspan(spread.mean - spread.std, spread.mean + spread.std, color="0.88", zorder=0)
    left.axvline(spread.mean, color="k", lw=1.5)
    right.hlines(frame.index, frame["low"], frame["high"], color=figures.GRAY, lw=2, zorder=1)
    left.set(title="train again (same rows)", ylabel="seed")
    left.set_yticks(frame.index[:: 1 + len(frame) // 12])
    left.set_ylim(len(frame) - 0.4, -0.6)
    right.set(title="draw the blocks again (same network)")
    caption = (
        f"Loss of {BASELINE} minus loss of the network: right of the dashed line the network is "
        "better (orange diamonds). Left: every training, their mean (line) and ± 1 standard "
        "deviation (gray). Right: the same networks, each with the 95 % interval of its own gap "
        "over blocks. The left panel keeps the blocks, the right one keeps the network: neither "
        "contains the other. Synthetic data."
    )
    alt = (
        f"Gap of {len(frame)} trainings: mean {number(spread.mean, 3)}, standard deviation "
        f"{number(spread.std, 3)}, {int(won.sum())} above zero. Block intervals on average "
        f"{number((frame['high'] - frame['low']).mean(), 3)} wide."
    )
    return figures.show(drawn, alt, caption, experiments.source(experiment, "losses"))


def words(experiment: Experiment) -> Html:
    """What each panel says, and what one training alone would have said."""
    frame = gaps(experiment)
    spread, n = statistics.summarize(frame["gap"]), len(frame)
    digits = printing.decimals(spread.std)
    won, side = int((frame["gap"] > 0).sum()), "better" if spread.mean > 0 else "worse"
    for_network, against = int((frame["low"] > 0).sum()), int((frame["high"] < 0).sum())
    first = (
        f"On average over {n} trainings the network is {side} by "
        f"{number(abs(spread.mean), digits)} in log loss; its trainings scatter with a standard "
        f"deviation of {number(spread.std, digits)}. Even so, {won or 'none'} of the {n} "
        f"{'beats' if won == 1 else 'beat'} {BASELINE}."
    )
    second = (
        f"The interval of one network over the {BLOCKS} blocks is on average "
        f"{number((frame['high'] - frame['low']).mean(), digits)} wide. Of the {n} intervals, "
        f"{for_network or 'none'} {'leaves' if for_network == 1 else 'leave'} zero out in favor of "
        f"the network and {against or 'none'} against it."
    )
    lucky = frame["gap"].idxmax()
    third = (
        f"Whoever had trained seed {lucky} alone would have reported a gap of "
        f"{number(frame.loc[lucky, 'gap'], digits)} "
        f"[{number(frame.loc[lucky, 'low'], digits)}, {number(frame.loc[lucky, 'high'], digits)}]: "
        "an honest interval for that network, and silent about the next training."
    )
    return prose.paragraph(first) + prose.paragraph(second) + prose.paragraph(third)


def variance(experiment: Experiment) -> Html:
    """The two terms of the variance of the mean gap, and what each would need to shrink."""
    frame = experiment.table("losses").pivot(index="seed", columns="block", values="loss")
    blocks = frame.loc[-1].to_numpy() - frame.iloc[1:].to_numpy().mean(axis=0)
    seeds = statistics.summarize(gaps(experiment)["gap"])
    terms = statistics.gap_variance(seeds.std, seeds.n, float(np.std(blocks, ddof=1)), BLOCKS)
    share = 100 * terms.seed_term / terms.total
    return prose.paragraph(
        "Adding the two as if they were independent, the standard error of the mean gap is "
        f"{printing.significant(terms.total**0.5)}; {share:.0f} % of its square comes from "
        f"{seeds.n} seeds and {100 - share:.0f} % from {BLOCKS} blocks. Ten times as many seeds "
        f"would leave {printing.significant((terms.seed_term / 10 + terms.block_term) ** 0.5)}, "
        "ten times as many blocks "
        f"{printing.significant((terms.seed_term + terms.block_term / 10) ** 0.5)}."
    )


SHOWN = {"figure": figure, "words": words, "variance": variance}


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters, checked; other names are left alone."""
    return experiments.open_chapter("two_moons", given, PARTS, SHOWN)
