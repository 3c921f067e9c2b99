"""Coverage, measured: how often each interval holds the truth that it is taken for.

Simulated studies whose truths are known exactly. A row has eight features φ ~ N(0, I); the target
is their weighted sum plus noise z. A trained network knows the weights up to an error: the fixed
vector b of its algorithm plus θ ~ N(0, τ² I), drawn anew by every training. With w = b + θ its loss
of a row is (z + w·φ)², its expected loss Var(z) + |w|², and that of its algorithm, retraining
included, Var(z) + |b|² + 8τ². Both algorithms are equally good, so that every interval of theirs
that leaves zero out is a false alarm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

import matplotlib as mpl
import numpy as np
import pandas as pd
from scipy import stats

from mononet import experiments, figures, printing, prose, statistics
from mononet.experiments import Chapter, Experiment
from mononet.printing import Column, Html
from mononet.workers import in_parallel

FEATURES, ROWS = 8, 20  # features of a row, rows of a block
REDUCIBLE = 0.3  # |b|² + 8τ², beside Var(z) = 1: the same for both algorithms
RETRAINING = np.array([0.15, 0.6])  # share of it that retraining draws anew: baseline, network
ALIKE = 0.5  # correlation of features, and of noise, of two rows of one block
TRUTHS = {"pair": "this pair of networks", "algorithms": "the algorithms, retraining included"}
INTERVALS = {
    "rows": "paired t over rows, one pair",
    "welch": "Welch (unpaired), one pair",
    "paired": "paired t over blocks, one pair",
    "block": "block bootstrap, one pair",
    "averaged_loss": "block bootstrap, seed-averaged loss",
    "averaged_predictions": "block bootstrap, averaged predictions",
    "two_level": "two-level bootstrap",
    "two_component": "two-component t",
}
FLOOR = 0.93  # what counts as covering here: 95 %, less two points
SMALLEST = 2  # seeds a side where retraining changes nothing


@dataclass(frozen=True)
class Cell:
    """Blocks of a study, seeds a side (0: retraining changes nothing), rows of a block alike."""

    blocks: int
    seeds: int
    correlated: bool


def errors(cell: Cell, rng: np.random.Generator) -> np.ndarray:
    """Weight errors w of the networks of both sides, (2, seeds, FEATURES)."""
    share = RETRAINING if cell.seeds else np.zeros(2)
    fixed = np.zeros((2, 1, FEATURES))
    fixed[[0, 1], 0, [0, 1]] = np.sqrt(REDUCIBLE * (1 - share))
    tau = np.sqrt(REDUCIBLE * share / FEATURES)[:, None, None]
    return fixed + tau * rng.normal(size=(2, cell.seeds or SMALLEST, FEATURES))


def residuals(cell: Cell, w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Target minus prediction of every network, (2, seeds, blocks, rows)."""
    rho = ALIKE if cell.correlated else 0.0
    own = rng.normal(size=(cell.blocks, ROWS, FEATURES + 1))
    shared = rng.normal(size=(cell.blocks, 1, FEATURES + 1))
    both = np.sqrt(rho) * shared + np.sqrt(1 - rho) * own
    return both[..., -1] + np.einsum("asf,brf->asbr", w, both[..., :-1])


def truths(w: np.ndarray) -> dict[str, float]:
    """Expected loss of the baseline minus that of the network: first seeds, and algorithms."""
    baseline, network = np.square(w[:, 0]).sum(axis=-1)
    return {"pair": baseline - network, "algorithms": 0.0}


def intervals(left: np.ndarray, resamples: int, seed: int) -> dict[str, tuple[float, float]]:
    """Every interval of one study from its residuals (2, seeds, blocks, rows): (low, high)."""
    rows = np.square(left)
    baseline, network = rows.mean(axis=-1)
    gaps = {
        "block": baseline[0] - network[0],
        "averaged_loss": baseline.mean(axis=0) - network.mean(axis=0),
        "averaged_predictions": -np.diff(np.square(left.mean(axis=1)).mean(axis=-1), axis=0)[0],
    }
    pair, welch = rows[:, 0].reshape(2, -1), statistics.welch_t(baseline[0], network[0])
    half, mean = stats.t.ppf(0.975, welch.df) * welch.se, gaps["block"].mean()
    found = {
        "rows": statistics.paired_t(*pair),
        "paired": statistics.paired_t(baseline[0], network[0]),
        "two_level": statistics.two_level_bootstrap(baseline, network, resamples, seed),
        "two_component": statistics.two_component_t(baseline, network),
    }
    found |= {k: statistics.block_bootstrap(gap, resamples, seed) for k, gap in gaps.items()}
    ends = {name: (each.low, each.high) for name, each in found.items()}
    return ends | {"welch": (mean - half, mean + half)}


def simulate(cell: Cell, studies: int, resamples: int, seed: int) -> list[dict]:
    """One cell: covered share and mean width of every interval for both truths, a row each."""
    held = np.zeros((len(INTERVALS), len(TRUTHS)))
    width = np.zeros(len(INTERVALS))
    for number in range(studies):
        rng = np.random.default_rng((seed, *map(int, astuple(cell)), number))
        w = errors(cell, rng)
        ends = intervals(residuals(cell, w, rng), resamples, number)
        low, high = np.array([ends[name] for name in INTERVALS]).T[..., None]
        true = np.array([truths(w)[name] for name in TRUTHS])
        held += (low <= true) & (true <= high)
        width += (high - low)[:, 0]
    return [
        {
            "blocks": cell.blocks,
            "seeds": cell.seeds,
            "correlated": cell.correlated,
            "interval": interval,
            "truth": truth,
            "studies": studies,
            "covered": held[i, j] / studies,
            "width": width[i] / studies,
        }
        for i, interval in enumerate(INTERVALS)
        for j, truth in enumerate(TRUTHS)
    ]


def coverage(experiment: Experiment) -> pd.DataFrame:
    """The recorded table: every cell, largest studies first so that workers end together."""
    values = experiment.parameters
    cells = [
        Cell(blocks, seeds, correlated)
        for blocks in sorted(values["block_counts"], reverse=True)
        for seeds in sorted([0, *values["seed_counts"]], reverse=True)
        for correlated in (True, False)
    ]
    options = (values["studies"], values["resamples"], values["simulation_seed"])
    found = in_parallel(simulate, [(cell, *options) for cell in cells], experiment.workers)
    return pd.DataFrame([row for rows in found for row in rows])


PARTS = {"coverage": coverage}

ALIKE_AND_RETRAINED = "With rows of a block alike, and retraining:"


# --- what the chapter shows ----------------------------------------------------------------------


def monte_carlo(covered, studies):
    """Standard error of a covered share measured on so many studies."""
    return np.sqrt(covered * (1 - covered) / studies)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _table(correlated: bool, seeds: int | None):
    """The table of one world; `seeds` None is the smallest number that the experiment has."""

    def shown(experiment: Experiment) -> Html:
        chosen = min(experiment.parameters["seed_counts"]) if seeds is None else seeds
        frame = experiment.table("coverage")
        frame = frame[(frame["correlated"] == correlated) & (frame["seeds"] == chosen)]
        error = monte_carlo(frame["covered"], frame["studies"]).max()
        wide = frame.pivot(index="interval", columns=["truth", "blocks"], values="covered")
        wide = wide.reindex(INTERVALS).rename(index=INTERVALS)
        wide.columns = [f"{truth} {blocks}" for truth, blocks in wide.columns]
        columns = [
            Column(
                f"{blocks}", lambda row, n=f"{truth} {blocks}": f"{100 * row[n]:.1f}", group=text
            )
            for truth, text in TRUTHS.items()
            for blocks in sorted(frame["blocks"].unique())
        ]
        rows = "rows of a block alike" if correlated else "independent rows"
        again = f"{chosen} seeds a side" if chosen else "retraining changes nothing"
        return printing.render(
            wide,
            columns,
            f"Coverage in percent by number of blocks: {rows}, {again}.",
            f"Nominal 95. {frame['studies'].iloc[0]:,} simulated studies a cell; Monte Carlo "
            f"standard error at most {100 * error:.1f}.",
            source=experiments.source(experiment, "coverage"),
            corner="interval",
        )

    return shown


@mpl.rc_context(figures.STYLE)
def figure(experiment: Experiment) -> Html:
    """Coverage against blocks, a panel a truth, in the world with both noises."""
    seeds = min(experiment.parameters["seed_counts"])
    frame = experiment.table("coverage")
    frame = frame[frame["correlated"] & (frame["seeds"] == seeds)].sort_values("blocks")
    drawn, axes = figures.panels(2, 2, 3.0, sharey=True)
    colors = dict(
        zip(INTERVALS, (figures.PALETTE[i] for i in (7, 5, 0, 9, 1, 4, 2, 3)), strict=True)
    )
    for axis, (truth, text) in zip(axes, TRUTHS.items(), strict=True):
        axis.axhline(95, color=figures.GRAY, lw=1, ls="--")
        for marker, (name, label) in zip("sv^oXPD*", INTERVALS.items(), strict=True):
            rows = frame[(frame["truth"] == truth) & (frame["interval"] == name)]
            style = {"color": colors[name], "marker": marker, "ms": 6, "lw": 1.2}
            axis.plot(rows["blocks"], 100 * rows["covered"], label=label, **style)
        ticks = sorted(frame["blocks"].unique())
        axis.set(xscale="log", title=text, xlabel="blocks")
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.minorticks_off()
        axis.grid(axis="y", color="0.9")
    axes[0].set_ylabel("coverage (%)")
    handles, labels = axes[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=2)
    last = frame[frame["blocks"] == frame["blocks"].max()]
    told = "; ".join(
        f"{INTERVALS[row['interval']]} {percent(row['covered'])}"
        for row in last[last["truth"] == "algorithms"].to_dict("records")
    )
    caption = (
        f"How often each interval holds the truth, with rows of a block alike and {seeds} seeds a "
        "side. Left, the truth is the gap of the first pair of networks; right, that of the "
        "algorithms, retraining included. Dashed: the 95 % that every one of them promises. The "
        "same interval can be right for one question and wrong for the other."
    )
    alt = (
        f"Coverage by number of blocks for both truths. At {frame['blocks'].max()} blocks, for the "
        f"algorithms: {told}."
    )
    return figures.show(drawn, alt, caption, experiments.source(experiment, "coverage"))


def _worst(frame: pd.DataFrame) -> Mapping:
    return frame.loc[frame["covered"].idxmin()]


def _where(row: Mapping) -> str:
    again = f"{row['seeds']} seeds a side" if row["seeds"] else "no retraining noise"
    near = round(row["covered"], 3) == FLOOR
    share = f"{100 * row['covered']:.2f} %" if near else percent(row["covered"])
    return f"{share} at {row['blocks']} blocks and {again}"


def _sorted_out(frame: pd.DataFrame, names: Sequence[str]) -> str:
    """Which intervals keep the floor in every cell of the frame, and where the others fail."""
    lowest = {name: _worst(frame[frame["interval"] == name]) for name in names}
    kept = [INTERVALS[n] for n, row in lowest.items() if row["covered"] >= FLOOR]
    lost = [f"{INTERVALS[n]} ({_where(r)})" for n, r in lowest.items() if r["covered"] < FLOOR]
    first = f"At least {100 * FLOOR:.0f} % in all of these cells: {'; '.join(kept) or 'none'}."
    return f"{first} Below it somewhere, with the worst cell: {'; '.join(lost) or 'none'}."


def pair(experiment: Experiment) -> Html:
    """What covers this pair of networks."""
    frame = experiment.table("coverage").query("truth == 'pair' and correlated and seeds > 0")
    said = _sorted_out(frame, list(INTERVALS))
    return prose.led("This pair of networks.", ALIKE_AND_RETRAINED, said)


def algorithms(experiment: Experiment) -> Html:
    """What covers the algorithms, retraining included."""
    frame = experiment.table("coverage").query("truth == 'algorithms' and correlated and seeds > 0")
    said = _sorted_out(frame, list(INTERVALS))
    welch = _worst(
        experiment.table("coverage").query(
            "truth == 'algorithms' and not correlated and seeds > 0 and interval == 'welch'"
        )
    )
    fallen = f"With independent rows and retraining even Welch falls to {_where(welch)}."
    after = fallen if welch["covered"] < FLOOR else ""
    return prose.led("The algorithms.", ALIKE_AND_RETRAINED, said, after)


def averaging(experiment: Experiment) -> Html:
    """Whether averaging over seeds first covers either truth."""
    frame = experiment.table("coverage").query("correlated and seeds > 0")
    items = []
    for name in ("averaged_loss", "averaged_predictions"):
        mine = frame[frame["interval"] == name]
        low = {truth: _worst(mine[mine["truth"] == truth]) for truth in TRUTHS}
        ends = [TRUTHS[truth] for truth, row in low.items() if row["covered"] >= FLOOR]
        said = f"holds {ends[0]}" if len(ends) == 1 else "holds both" if ends else "holds neither"
        told = "; ".join(f"{TRUTHS[t]}: {_where(row)}" for t, row in low.items())
        label = INTERVALS[name].capitalize()
        items.append(f"{label}: {said} in all of these cells. Worst cells: {told}.")
    return prose.paragraph(ALIKE_AND_RETRAINED) + prose.bullets(items)


def few_blocks(experiment: Experiment) -> Html:
    """Percentile bootstrap against paired t where blocks are few, for the pair that both are of."""
    frame = experiment.table("coverage").query("truth == 'pair' and not correlated and seeds == 0")
    fewest, most = frame["blocks"].min(), frame["blocks"].max()
    frame = frame.set_index(["interval", "blocks"])["covered"]
    t, block = frame["paired"], frame["block"]
    return prose.paragraph(
        f"With {fewest} blocks, independent rows and nothing but the blocks to vary, the "
        f"percentile bootstrap holds the truth in {percent(block[fewest])} of the studies and the "
        f"paired t in {percent(t[fewest])}; with {most} blocks it is {percent(block[most])} and "
        f"{percent(t[most])}.",
        "The bootstrap knows no more than the blocks it was given and takes no account of how "
        "badly a handful of them shows their spread; t does."
        if block[fewest] < t[fewest] - 0.01
        else "Here the two do not differ by much.",
    )


def rows(experiment: Experiment) -> Html:
    """What taking rows for blocks does with and without correlation inside blocks."""
    frame = experiment.table("coverage").query("truth == 'pair' and seeds == 0")
    most = frame["blocks"].max()
    frame = frame[frame["blocks"] == most].set_index(["interval", "correlated"])["covered"]
    by_rows, by_blocks = frame["rows"], frame["paired"]
    return prose.paragraph(
        f"With {most} blocks of {ROWS} rows each, the paired t over rows holds the truth in "
        f"{percent(by_rows[False])} of the studies where rows are independent and in "
        f"{percent(by_rows[True])} where those of a block are alike. The same t over blocks: "
        f"{percent(by_blocks[False])} and {percent(by_blocks[True])}.",
        "Rows that are alike are counted as if each told something new."
        if by_rows[True] < FLOOR <= by_blocks[True]
        else "",
    )


def seeds(experiment: Experiment) -> Html:
    """What more seeds do to the intervals that resample or add them."""
    counts = sorted(experiment.parameters["seed_counts"])
    frame = experiment.table("coverage").query("truth == 'algorithms' and correlated")
    frame = frame[frame["blocks"] == frame["blocks"].max()]
    frame = frame.set_index(["interval", "seeds"])
    told = [
        f"{INTERVALS[name]}: "
        + ", ".join(
            f"{percent(frame.loc[(name, n), 'covered'])} with {n} seeds a side (mean width "
            f"{printing.significant(frame.loc[(name, n), 'width'])})"
            for n in counts
        )
        for name in ("block", "two_level", "two_component")
    ]
    blocks = experiment.table("coverage")["blocks"].max()
    return prose.paragraph(
        f"With {blocks} blocks, rows of a block alike, taken for the algorithms:"
    ) + prose.bullets(told)


def world(experiment: Experiment) -> Html:
    """The numbers of the simulated world."""
    share = " and ".join(f"{100 * each:.0f} %" for each in RETRAINING)
    return prose.paragraph(
        f"A block has {ROWS} rows, a row {FEATURES} features. The noise has variance 1; what a "
        f"better network could still remove is {REDUCIBLE:g} on average for both algorithms. Of "
        f"this, retraining draws {share} anew (baseline and network), so that the network is the "
        "more restless of the two. Where rows of a block are alike, their features and their noise "
        f"correlate by {ALIKE:g}, and by nothing across blocks. Where retraining changes nothing, "
        "the two truths are the same."
    )


SHOWN = {
    "world": world,
    "figure": figure,
    "both noises": _table(True, None),
    "blocks alone": _table(True, 0),
    "seeds alone": _table(False, None),
    "neither": _table(False, 0),
    "pair": pair,
    "algorithms": algorithms,
    "averaging": averaging,
    "few blocks": few_blocks,
    "rows": rows,
    "seeds": seeds,
}


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters, checked; other names are left alone."""
    return experiments.open_chapter("coverage", given, PARTS, SHOWN)
