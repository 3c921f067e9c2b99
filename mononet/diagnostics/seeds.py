"""The chapter on seed collapse: the grid, what happens inside, the cure and the report."""

from __future__ import annotations

import math
from collections.abc import Mapping

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mononet import experiments, figures, parameters, prose
from mononet.diagnostics import cure, grid
from mononet.experiments import Chapter, Experiment
from mononet.printing import TITLES, Column, Html, number, render, significant

PARTS = {
    "grid": grid.grid,
    "trajectories": grid.trajectories,
    "pool": cure.pool,
    "searches": cure.searches,
    "fresh": cure.fresh,
}
KINDS = ("coupled", "decoupled")
SHOWN_REPORTS = 10


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters (other names are left alone), checked."""
    cure.check(parameters.given("seed_collapse", given))
    return experiments.open_chapter("seed_collapse", given, PARTS, SHOWN)


def percent(share: float) -> str:
    """A share in percent, whole ones unless that would be 0 or 100 for something in between."""
    digits = 0 if share in (0, 1) or 0.01 <= share <= 0.99 else 1
    return f"{number(100 * share, digits)} %"


# --- the grid ---------------------------------------------------------------------------------


@mpl.rc_context(figures.STYLE)
def heat_maps(experiment: Experiment) -> Html:
    """Constant and one-sided trainings of every cell, a figure a dataset."""
    frame = grid.counts(experiment)
    return Html("".join(_heat_map(experiment, d, f) for d, f in frame.groupby("dataset")))


def _heat_map(experiment: Experiment, dataset: str, frame: pd.DataFrame) -> Html:
    values, n = experiment.parameters, int(frame["n"].max())
    rates, decays = values["learning_rates"], values["weight_decays"]
    height = 0.8 + 0.3 * len(decays)
    figure, axes = plt.subplots(
        2, 2, figsize=(figures.WIDTH, 2 * height), sharex=True, sharey=True, squeeze=False
    )
    told = []
    for axis, (clipped, kind) in zip(
        axes.flat, [(c, k) for c in (False, True) for k in KINDS], strict=True
    ):
        part = frame[(frame["clipped"] == clipped) & (frame["decay"] == kind)]
        indexed = part.set_index(["weight_decay", "learning_rate"])
        square = indexed["constant"].unstack().loc[decays, rates]
        sided = indexed["one_sided"].unstack().loc[decays, rates].to_numpy()
        image = axis.imshow(square / n, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for (row, column), count in np.ndenumerate(square.to_numpy()):
            text = f"{count}" + (f"+{sided[row, column]}" if sided[row, column] else "")
            color = "w" if count > 0.55 * n else "k"
            axis.text(column, row, text, ha="center", va="center", color=color, fontsize=9)
        title = f"{kind}, {'gradients clipped' if clipped else 'no clipping'}"
        axis.set_title(title)
        axis.set_xticks(range(len(rates)), [f"{r:g}" for r in rates])
        axis.set_yticks(range(len(decays)), [f"{d:g}" for d in decays])
        axis.spines[:].set_visible(False)
        axis.tick_params(length=0)
        told.append(f"{title} {int(part['constant'].sum())} constant of {int(part['n'].sum())}")
    figure.supxlabel("learning rate", fontsize=10)
    figure.supylabel("weight decay", fontsize=10)
    bar = figure.colorbar(image, ax=axes, shrink=0.7, aspect=30)
    bar.set_label("share of constant trainings")
    caption = (
        f"{TITLES[dataset]}: how many of {n} seeds end at a constant prediction on their own "
        f"training rows, by learning rate and weight decay; after a plus sign, how many put every "
        f"row in one class without being constant. Plain split network, width {values['width']}, "
        f"depth {values['depth']}, batch {values['batch_size']}, about {values['steps']:,} steps. "
        "Left the decay is added to the gradient before Adam scales it, right it is applied apart "
        f"from it. Lower row: gradients clipped at norm {values['clip_norm']:g}. The first line of "
        "each panel, without decay, is the same training left and right."
    )
    alt = f"Four heat maps for {TITLES[dataset]}: {'; '.join(told)}."
    return figures.show(figure, alt, caption, experiments.source(experiment, "grid"))


def shares(frame: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Constant trainings, all trainings and their share among cells with decay, by columns."""
    summed = frame[frame["weight_decay"] > 0].groupby(list(by))[["constant", "n"]].sum()
    return summed.assign(share=summed["constant"] / summed["n"])


def about_decay(experiment: Experiment) -> Html:
    """Coupled against decoupled, clipping against none, and whether more decay is always worse."""
    frame, items = grid.counts(experiment), []
    for dataset in experiment.parameters["datasets"]:
        own = frame[frame["dataset"] == dataset]
        kinds, clipped = shares(own, "decay"), shares(own, "decay", "clipped")
        zero = own[(own["weight_decay"] == 0) & (own["decay"] == "coupled")]
        lost, n = int(zero["constant"].sum()), int(zero["n"].sum())
        text = (
            f"{TITLES[dataset]}: with weight decay {percent(kinds.loc['coupled', 'share'])} of the "
            f"trainings are constant when it is coupled, "
            f"{percent(kinds.loc['decoupled', 'share'])} when it is decoupled"
        )
        text += f"; without any, {lost or 'none'} of {n}. " if n else ". "
        for kind in KINDS:
            without, with_it = (clipped.loc[(kind, c), "constant"] for c in (False, True))
            text += (
                f"Of {clipped.loc[(kind, True), 'n']} with {kind} decay, {without or 'none'} are "
                f"constant without clipping and {with_it or 'none'} with it. "
            )
        items.append(text + _in_order(own))
    return prose.bullets(items)


def _in_order(frame: pd.DataFrame) -> str:
    """Whether counts rise with decay in every column of the maps, and where they do not."""
    falling = 0
    columns = frame.groupby(["decay", "clipped", "learning_rate"])
    for _, column in columns:
        counts = column.sort_values("weight_decay")["constant"].to_numpy()
        falling += bool((np.diff(counts) < 0).any())
    if not falling:
        return f"In each of the {columns.ngroups} columns, more decay never collapses fewer seeds."
    return (
        f"In {falling} of the {columns.ngroups} columns some larger decay collapses fewer seeds "
        "than a smaller one: the count is not monotone in the decay."
    )


# --- inside -----------------------------------------------------------------------------------

MEASURES = {
    "weight": "weights,\nRMS",
    "spread": "logits,\nsd over rows",
    "gradient": "gradient,\nnorm",
    "tiny": "share of\ntiny numbers",
}


@mpl.rc_context(figures.STYLE)
def inside(experiment: Experiment) -> Html:
    """Trajectories of collapsing and of healthy seeds in the divided cells."""
    frame = experiment.table("trajectories")
    kinds = [kind for kind in KINDS if kind in set(frame["decay"])]
    size = (figures.WIDTH, 1.5 * len(MEASURES) + 0.6)
    figure, axes = plt.subplots(
        len(MEASURES), len(kinds), figsize=size, sharey="row", sharex="col", squeeze=False
    )
    colors = {False: figures.PALETTE[0], True: figures.PALETTE[3]}
    told = []
    for j, kind in enumerate(kinds):
        part = frame[frame["decay"] == kind]
        for i, (name, label) in enumerate(MEASURES.items()):
            axis = axes[i, j]
            for (collapsed, _), run in part.groupby(["collapsed", "seed"])[["epoch", name]]:
                style = {"ls": "--"} if collapsed else {}
                # The moments are zero before the first step; and logarithms have no zero.
                run = run[run["epoch"] > 0] if name == "tiny" else run.clip(lower=1e-12)
                axis.plot(
                    run["epoch"], run[name], color=colors[collapsed], lw=0.9, alpha=0.7, **style
                )
            axis.set_yscale("linear" if name == "tiny" else "log")
            if name == "tiny":
                axis.set_ylim(-0.03, 1.03)
            if j == 0:
                axis.set_ylabel(label, fontsize=9)
        axes[0, j].set_title(_cell_title(part), fontsize=9)
        axes[-1, j].set_xlabel("epoch")
        told.append(f"{kind}: {_ended(part)}")
    handles = [
        mpl.lines.Line2D([], [], color=colors[c], ls="--" if c else "-", label=label)
        for c, label in ((True, "ends constant"), (False, "does not"))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    caption = (
        "Inside the runs of the cell that divides the seeds most, for each kind of decay (no "
        "clipping), trained again with the eager engine so that every epoch can be looked into. "
        "From above: root mean square of the constrained weights, standard deviation of the logits "
        "over the training rows, norm of the loss's gradient over all of them, and the share of "
        "parameters and moments that are zero or too small to be a normal float. Values below "
        "10⁻¹² are drawn there; the moments are zero before the first step, which is left out."
    )
    alt = f"Trajectories of single seeds. {'; '.join(told)}."
    return figures.show(figure, alt, caption, experiments.source(experiment, "trajectories"))


def _cell_title(part: pd.DataFrame) -> str:
    cell = part.iloc[0]
    return (
        f"{TITLES[cell['dataset']]}, {cell['decay']} decay {cell['weight_decay']:g},\n"
        f"learning rate {cell['learning_rate']:g}"
    )


def _ended(part: pd.DataFrame) -> str:
    ended = part.groupby("seed")["collapsed"].first()
    return f"{int(ended.sum()) or 'none'} of {len(ended)} seeds end constant"


def _mapped(experiment: Experiment, part: pd.DataFrame) -> str:
    """Which seeds of the same cell end constant in the map, beside those of the trajectories."""
    table, cell = experiment.table("grid"), part.iloc[0]
    names = ["dataset", "decay", "weight_decay", "learning_rate"]
    in_map = table[(table[names] == cell[names]).all(axis=1) & ~table["clipped"]]
    mapped = set(in_map.loc[in_map["constant"], "seed"])
    here = set(part.loc[part["collapsed"], "seed"])
    if mapped == here:
        return "in the map they are the same seeds"
    return (
        f"in the map, whose engine rounds otherwise, they are {len(mapped)}, "
        f"{len(mapped & here) or 'none'} of them the same. Not the seed alone decides in this "
        "cell: the last bits do too"
    )


def about_inside(experiment: Experiment) -> Html:
    """Medians at the last epoch of collapsing and of healthy seeds."""
    frame, items = experiment.table("trajectories"), []
    for kind in KINDS:
        part = frame[frame["decay"] == kind]
        if part.empty:
            continue
        last = part[part["epoch"] == part["epoch"].max()]
        text = f"{_cell_title(part)}: {_ended(part)}; {_mapped(experiment, part)}."
        text = text.replace("\n", " ")
        for collapsed, rows in last.groupby("collapsed"):
            middle = rows[list(MEASURES)].median()
            who = "Those that end constant" if collapsed else "The others"
            text += (
                f" {who} have, in the median, weights of {_tiny(middle['weight'])}, a spread of "
                f"{_tiny(middle['spread'])}, a gradient of {_tiny(middle['gradient'])} and "
                f"{percent(middle['tiny'])} of their numbers below the smallest normal one."
            )
        items.append(text)
    return prose.bullets(items)


def _tiny(value: float) -> str:
    """Two digits, as a power of ten where that is shorter."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "no finite value"
    if 1e-3 <= abs(value) < 1e4:
        return significant(value)
    power = math.floor(math.log10(abs(value)))
    digits = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value / 10**power:.1f}·10{digits}"


# --- the cure ---------------------------------------------------------------------------------


def arms(experiment: Experiment) -> Html:
    """How often each way to select ends at a configuration that collapses on a fresh seed."""
    frame, values = cure.outcomes(experiment), experiment.parameters
    collapse = "searches that end at one (%)"

    def share(name: str):
        return lambda row: number(100 * row[name], 1)

    columns = [
        Column("trials", lambda row: f"{row['trials']:.0f}"),
        Column("searches", lambda row: f"{row['searches']:.0f}"),
        Column("all", lambda row: f"{row['different']:.0f}", group="different selections"),
        Column("collapse", lambda row: f"{row['failing']:.0f}", group="different selections"),
        Column(f"on some of {values['final_seeds']}", share("some"), group=collapse),
        Column(f"of the first {values['fresh_seeds']}", share("first"), group=collapse),
        Column("collapsed seeds, mean", lambda row: number(row["collapsed"], 2)),
        Column("accuracy (%), mean", lambda row: number(100 * row["accuracy"], 1)),
    ]
    note = (
        f"{TITLES[values['datasets'][0]]}, split, decay coupled. {values['searches']} searches an "
        f"arm, their trials drawn without replacement from one pool of {values['pool']} random "
        f"configurations, each trained on {values['cv_folds']} folds with seeds 0 to "
        f"{values['search_seeds'] - 1}; searches of one number share their trials, and all "
        f"overlap. Several seeds: {values['search_seeds']} a fold. A collapse that a search sees "
        "disqualifies the trial at that epoch in every arm. The selected configuration is trained "
        f"on {values['final_seeds']} fresh seeds on four fifths of the training rows, accuracy on "
        "the fifth left out."
    )
    source = experiments.source(experiment, "searches", "fresh")
    title = "What the selected configuration does on fresh seeds"
    return render(frame, columns, title, note, source=source, corner="selection by")


def about_arms(experiment: Experiment) -> Html:
    """What several seeds, the penalty and more trials each do to the share."""
    frame = cure.outcomes(experiment)
    some = frame["some"]

    def change(lead: str, before: str, after: str) -> str:
        if before not in some or after not in some:
            return ""
        low, high = some[before], some[after]
        verb = "lowers" if high < low else "raises" if high > low else "leaves"
        start, end = (f"{number(100 * share, 1)} %" for share in (low, high))
        end = f"from {start} to {end}" if verb != "leaves" else f"at {start}"
        return f"{lead} {verb} the share of searches that end at a collapsing configuration {end}."

    one, several = ("one seed", "several seeds")
    items = [
        change("With the mean, taking several seeds a fold", f"mean, {one}", f"mean, {several}"),
        change(
            "With one seed, the penalty for spread", f"mean, {one}", f"risk-adjusted, {one}"
        ),
        change(
            "With the penalty, taking several seeds a fold",
            f"risk-adjusted, {one}",
            f"risk-adjusted, {several}",
        ),
        change("Doing both", f"mean, {one}", f"risk-adjusted, {several}"),
        change(
            "The compute of several seeds spent on more trials instead",
            f"mean, {one}",
            "mean, one seed, equal compute",
        ),
    ]  # fmt: skip
    least, most = frame["different"].min(), frame["different"].max()
    fewest, worst = frame["failing"].min(), frame["failing"].max()
    return prose.bullets([item for item in items if item]) + prose.paragraph(
        f"The searches of an arm overlap and end at {least} to {most} different configurations. "
        f"{fewest} to {worst} of them collapse on some fresh seed, so that a difference of a point "
        "or two says nothing."
    )


# --- the report -------------------------------------------------------------------------------


def reported(experiment: Experiment) -> Html:
    """Mean ± std, median, IQM and count of selections that collapse on some seeds."""
    frame = cure.reports(experiment)
    if frame.empty:
        return prose.paragraph(
            "No configuration that some search selected collapses on some fresh seeds and not on "
            "others, so that there is nothing to report here."
        )
    shown = frame.head(SHOWN_REPORTS).copy()
    shown.index = [f"trial {t}, epoch {e}" for t, e in zip(shown.trial, shown.epochs, strict=True)]

    def value(name: str):
        return lambda row: number(100 * row[name], 1)

    columns = [
        Column("selected", lambda row: f"{row['selected']:.0f}×"),
        Column("mean ± std", lambda row: f"{value('mean')(row)} ± {value('std')(row)}"),
        Column("median", value("median")),
        Column("IQM", value("iqm")),
        Column("constant", lambda row: f"{row['collapsed']:.0f} of {row['n']:.0f}"),
        Column("mean of the others", value("others")),
    ]
    more = f" The {len(shown)} most often selected of {len(frame)}." if len(frame) > 10 else ""
    note = (
        "Accuracy in percent on the fifth of the training rows left out, over all fresh seeds, "
        f"collapsed ones included.{more} A constant prediction is as accurate as the larger class "
        "is frequent, which is why a collapse costs an accuracy little."
    )
    source = experiments.source(experiment, "fresh", "searches")
    title = "The same runs, summarized five ways"
    options = {"source": source, "corner": "selection", "numbers": frame}
    return render(shown, columns, title, note, **options)


def about_reported(experiment: Experiment) -> Html:
    """How much each summary moves by the collapsed seeds."""
    frame = cure.reports(experiment)
    if frame.empty:
        return Html("")
    gaps = {
        name: (100 * (frame["others"] - frame[column])).median()
        for name, column in {"mean": "mean", "median": "median", "IQM": "iqm"}.items()
    }
    told = ", ".join(f"the {name} by {number(gap, 1)}" for name, gap in gaps.items())
    one = "configuration" if len(frame) == 1 else "configurations"
    return prose.paragraph(
        f"Over the {len(frame)} {one} that collapse on some seeds, the summaries lie below the "
        f"mean of the seeds that did not collapse, in the median: {told} percentage points. None "
        "of them says that something failed; the count does."
    )


# --- the finding ------------------------------------------------------------------------------


def finding(experiment: Experiment) -> Html:
    """The chapter's finding in one sentence."""
    kinds = shares(grid.counts(experiment), "decay")["share"]
    some = cure.outcomes(experiment)["some"]
    coupled, decoupled = kinds["coupled"], kinds["decoupled"]
    verdict = (
        "No training with weight decay collapsed"
        if coupled == decoupled == 0
        else "Much of seed collapse is the coupling of weight decay to Adam's gradient"
        if coupled > 2 * decoupled
        else "How weight decay is coupled to Adam's gradient does not explain seed collapse"
    )
    text = (
        f"{verdict}: over this grid {percent(coupled)} of the trainings with coupled decay end at "
        f"a constant prediction and {percent(decoupled)} of those with decoupled decay"
    )
    clauses = {
        "mean, one seed": "of the searches by the mean of one seed a fold, {} end at a "
        "configuration that collapses on some of "
        f"{experiment.parameters['final_seeds']} fresh seeds",
        "mean, several seeds": "with several seeds {}",
        "risk-adjusted, one seed": "with the risk-adjusted objective {}",
        "risk-adjusted, several seeds": "with both {}",
    }
    if set(clauses) <= set(some.index):
        told = [said.format(f"{number(100 * some[arm], 1)} %") for arm, said in clauses.items()]
        text += f"; {', '.join(told)}"
    return prose.led(f"{text}.")


SHOWN = {
    "finding": finding,
    "heat maps": heat_maps,
    "about decay": about_decay,
    "inside": inside,
    "about inside": about_inside,
    "arms": arms,
    "about arms": about_arms,
    "reported": reported,
    "about reported": about_reported,
}
