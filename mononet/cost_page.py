"""What training costs, the chapter: tables, figures and words made from the measured cells."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
import pandas as pd

from mononet import experiments, figures, frames, printing, prose
from mononet.cost import PARTS, ROWS, RUNS
from mononet.experiments import Chapter, Experiment, source
from mononet.printing import TITLES, Column, Html, number, render, significant
from mononet.study import recorded_studies

EPOCHS = 50  # of the training that is counted by the second
KINDS = {
    ("mixed", "compiled"): (0, "o"),
    ("split", "compiled"): (1, "s"),
    ("mixed", "eager"): (7, "^"),
}
VARIED = {
    "rows": "training rows",
    "width": "width",
    "depth": "depth (layers)",
    "batch_size": "batch size (rows)",
}


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters (other names are left alone), checked."""
    return experiments.open_chapter("cost", given, PARTS, SHOWN)


def cells(experiment: Experiment, varied: str) -> pd.DataFrame:
    """The cells in which one thing is varied, with what follows from them.

    ``limit_us``: what their products would take at the rate of a large one. ``per_second``:
    trainings of 50 epochs over the base's rows, on all workers.
    """
    frame = experiment.table("cells")
    frame = frame[frame["varied"] == varied].reset_index(drop=True)
    gflops = experiment.table("rate")["gflops"].iloc[0]
    steps = EPOCHS * np.ceil(ROWS / frame["batch_size"])
    return frame.assign(
        limit_us=frame["operations"] / gflops / 1e3,
        per_second=frame["workers"] * 1e6 / (frame["us"] * steps),
    )


def kind(frame: pd.DataFrame, mode: str, engine: str) -> pd.DataFrame:
    """The cells of one mode and engine (of the mode alone where all were trained eagerly)."""
    of_mode = frame[frame["mode"] == mode]
    chosen = of_mode[of_mode["engine"] == engine]
    return (chosen if len(chosen) else of_mode).drop_duplicates("runs")


# --- stacks -------------------------------------------------------------------------------------


@mpl.rc_context(figures.STYLE)
def stacks(experiment: Experiment) -> Html:
    """Microseconds of a step of a run, and trainings a second, against the runs of a stack."""
    frame = cells(experiment, "runs")
    figure, (left, right) = figures.panels(2, 2, 3.4)
    for (mode, engine), (color, marker) in KINDS.items():
        rows = kind(frame, mode, engine)
        style = {"color": figures.PALETTE[color], "marker": marker, "ms": 5, "lw": 1.4}
        left.plot(rows["runs"], rows["us"], label=f"{mode}, {engine}", **style)
        right.plot(rows["runs"], rows["per_second"], **style)
    rows = kind(frame, "mixed", "compiled")
    left.plot(rows["runs"], rows["products_us"], "k--", lw=1.2, label="mixed, its products alone")
    left.axhline(rows["limit_us"].iloc[0], color="k", lw=1, ls=":", label="mixed, arithmetic limit")
    for axis in (left, right):
        axis.set(xscale="log", yscale="log", xlabel="runs in a stack")
        axis.set_xticks(rows["runs"], [str(n) for n in rows["runs"]])
        axis.minorticks_off()
        figures.plain_log(axis, (1, 3))
        axis.grid(color="0.92")
        axis.set_axisbelow(True)
    left.set_ylabel("µs a step and run")
    right.set_ylabel("trainings a second")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
    values = experiment.parameters
    caption = (
        f"One core; width {values['width']}, depth {values['depth']}, batches of "
        f"{values['batch_size']} rows, drawing them included. Left: what one step of one run costs "
        "(lower is better); dashed, the matrix products of that step measured alone in stacks of "
        "the same size; dotted, the same products at the rate of one large product. Right: "
        f"trainings of {EPOCHS} epochs over {ROWS} rows a second (higher is better)."
    )
    alt = "Microseconds of a step of a run: " + "; ".join(
        f"{n} run{'s' if n > 1 else ''} {significant(us)}"
        for n, us in zip(rows["runs"], rows["us"], strict=True)
    )
    return figures.show(figure, f"{alt}.", caption, source(experiment, "cells", "rate"))


def stack_table(experiment: Experiment) -> Html:
    """The same in numbers, with the share of the compiled step and the memory."""
    frame = cells(experiment, "runs")
    rows = kind(frame, "mixed", "compiled").set_index("runs")
    for mode, engine in KINDS:
        rows[f"{mode} {engine}"] = kind(frame, mode, engine).set_index("runs")["us"]
    columns = [
        Column("mixed", _significant("us", 3), group="compiled, µs a step and run"),
        Column("of it the step", _significant("step_us", 3), group="compiled, µs a step and run"),
        Column("split", _significant("split compiled", 3), group="compiled, µs a step and run"),
        Column("mixed", _significant("mixed eager", 3), group="eager, µs"),
        Column("products alone", _significant("products_us"), group="mixed, µs"),
        Column("trainings a second", _significant("per_second"), group="mixed, compiled"),
        Column("peak memory, MiB", lambda row: f"{row['peak_mib']:,.0f}", group="mixed, compiled"),
    ]
    note = (
        "What a step takes beyond the compiled step itself is drawing the batches and the dropout "
        "masks and handing them over. A stack of one run is padded to two, so that its numbers are "
        "rounded like those of any other. The memory is that of the whole process, libraries "
        f"included. A training: {EPOCHS} epochs over {ROWS} rows."
    )
    title = "One step of one run, by the size of its stack"
    return render(rows, columns, title, note, source=source(experiment, "cells"), corner="runs")


def _significant(name: str, digits: int = 2):
    return lambda row: significant(row[name], digits)


# --- rows, width, depth, batch ------------------------------------------------------------------


@mpl.rc_context(figures.STYLE)
def sweeps(experiment: Experiment) -> Html:
    """Microseconds of a step of a run against rows, width, depth and batch size."""
    figure, axes = figures.panels(len(VARIED), 2, 2.5)
    told = []
    for axis, (varied, title) in zip(axes, VARIED.items(), strict=True):
        frame = cells(experiment, varied)
        axis.plot(frame[varied], frame["us"], "o-", ms=5, lw=1.4, color=figures.PALETTE[0])
        axis.plot(frame[varied], frame["limit_us"], "k:", lw=1.2)
        axis.set(yscale="log", xlabel=title, ylabel="µs a step and run")
        if varied != "depth":
            axis.set_xscale("log")
        axis.set_xticks(frame[varied], [f"{n:,}" for n in frame[varied]])
        axis.minorticks_off()
        figures.plain_log(axis, (1, 3))
        axis.grid(color="0.92")
        axis.set_axisbelow(True)
        ends = " to ".join(significant(frame["us"].iloc[end]) for end in (0, -1))
        told.append(f"{title} {frame[varied].iloc[0]} to {frame[varied].iloc[-1]}: {ends}")
    caption = (
        f"One thing varied at a time around a stack of {RUNS} runs as in the first figure (mixed, "
        "compiled, one core). Dotted: what the matrix products would take at the rate of one "
        "large product."
    )
    alt = "Microseconds of a step of a run. " + "; ".join(told)
    return figures.show(figure, f"{alt}.", caption, source(experiment, "cells", "rate"))


def sweep_table(experiment: Experiment) -> Html:
    """The same in numbers: an epoch of the whole stack, share of the limit, memory."""
    found = []
    for varied, title in VARIED.items():
        frame = cells(experiment, varied)
        frame.index = [f"{title.split(' (')[0]} {value:,}" for value in frame[varied]]
        found.append(frame)
    rows = pd.concat(found)
    steps = np.ceil(rows["rows"] / rows["batch_size"])
    rows["epoch"] = rows["us"] * steps * rows["runs"] / 1e6
    columns = [
        Column("µs a step and run", _significant("us", 3)),
        Column("of it the step", _significant("step_us", 3)),
        Column("arithmetic limit, µs", _significant("limit_us")),
        Column("share of it", lambda row: f"{100 * row['limit_us'] / row['us']:.0f} %"),
        Column(f"epoch of {RUNS} runs, s", _significant("epoch")),
        Column("peak memory, MiB", lambda row: f"{row['peak_mib']:,.0f}"),
    ]
    note = (
        "The rows change what is held in memory and the number of steps, not the step. Share: of "
        "the time, how much the arithmetic would need on a core that did nothing else."
    )
    title = "One step of one run, by what it is made of"
    return render(rows, columns, title, note, source=source(experiment, "cells"), corner="varied")


# --- workers, start, the protocol ---------------------------------------------------------------


def workers(experiment: Experiment) -> Html:
    """Trainings a second on so many workers at once, and the memory of all of them."""
    frame = cells(experiment, "workers").set_index("workers", drop=False)
    frame["gain"] = frame["per_second"] / frame["per_second"].iloc[0]
    columns = [
        Column("µs a step and run, each", _significant("us", 3)),
        Column("trainings a second, all", _significant("per_second", 3)),
        Column("times the first row", _significant("gain")),
        Column("peak memory of all, MiB", lambda row: f"{row['peak_mib']:,.0f}"),
    ]
    note = f"Stacks of {RUNS} runs, one in each worker at the same time; a training as above."
    title = "Several workers at once"
    return render(frame, columns, title, note, source=source(experiment, "cells"), corner="workers")


def start(experiment: Experiment) -> Html:
    """What a process needs before its first step."""
    frame = experiment.table("start").fillna({"mode": ""})
    imported = frame.loc[frame["what"] == "import", "seconds"].iloc[0]
    wide = frame[frame["what"] != "import"].pivot(index="mode", columns="what", values="seconds")
    columns = [
        Column("compiled anew, s", _significant("empty cache")),
        Column("found on disk, s", _significant("full cache")),
    ]
    note = (
        f"Importing the libraries takes {significant(imported)} s before that. Every architecture "
        "(mode and depth) is one graph, compiled once on a machine and then kept on disk; widths, "
        "batches, rows and stacks are sizes of the same graph. Each worker process reads it once."
    )
    title = "Seconds until a process has trained its first epoch"
    return render(wide, columns, title, note, source=source(experiment, "start"), corner="mode")


def protocol(experiment: Experiment) -> Html:
    """Seconds of every recorded study, a column a dataset, and their sum."""
    studies = recorded_studies(experiment.parameters["studies_dir"])
    if not studies:
        return printing.box(
            "missing", "No study is recorded yet", printing.commands("make studies")
        )
    by_dataset: dict[str, pd.Series] = {}
    for dataset in dict.fromkeys(study.dataset for study in studies):
        found = [study for study in studies if study.dataset == dataset]
        by_dataset[dataset] = frames.estimators(found)["all_seconds"].astype(float)
    order = dict.fromkeys(study.model for study in studies)
    frame = pd.DataFrame(by_dataset).reindex(order)
    frame.loc["all that are recorded"] = frame.sum()
    columns = [Column(TITLES[name], lambda row, n=name: _seconds(row[n])) for name in frame.columns]
    note = (
        "By the clock of the machine that recorded each study, on one or two workers and beside "
        "whatever else it did: a study of minutes can have taken twice what it needs. Validation "
        "runs are counted by worker. A dash: not recorded."
    )
    title = "What the full protocol took, in seconds"
    files = " · ".join(
        f"{TITLES[name]} {printing.files([s for s in studies if s.dataset == name], 'cost.csv')}"
        for name in by_dataset
    )
    files = f'<p class="mn-source">Made from {files}.</p>'
    return render(frame, columns, title, note, source=files, corner="model")


def _seconds(value: float) -> str:
    if np.isnan(value):
        return printing.NONE
    return f"{value:,.0f}" if value >= 10 else significant(value)


# --- words --------------------------------------------------------------------------------------


def finding(experiment: Experiment) -> Html:
    """The chapter in one sentence."""
    rows = kind(cells(experiment, "runs"), "mixed", "compiled").set_index("runs")
    first, best = rows.index[0], rows["us"].idxmin()
    slow, fast = rows.loc[first], rows.loc[best]
    how = "trained by itself" if first == 1 else f"trained in a stack of {first}"
    middle = (
        f"{significant(rows.loc[RUNS, 'us'])} µs in one of {RUNS}, " if RUNS in rows.index else ""
    )
    return prose.led(
        "Finding.",
        f"A step of one small network takes {significant(slow['us'])} µs when it is {how}, "
        f"{middle}{significant(fast['us'])} µs in one of {best}, which is "
        f"{significant(slow['us'] / fast['us'])} times less: what a small network costs is not its "
        f"arithmetic ({significant(slow['limit_us'])} µs) but being called.",
    )


def limit(experiment: Experiment) -> Html:
    """The arithmetic limit, and where the rest of a large stack's step goes."""
    gflops = experiment.table("rate")["gflops"].iloc[0]
    rows = kind(cells(experiment, "runs"), "mixed", "compiled").set_index("runs")
    best = rows["us"].idxmin()
    row, smallest = rows.loc[best], rows.index.min()
    alone = rows.loc[smallest]
    drawing = row["us"] - row["step_us"]
    return prose.paragraph(
        f"One core multiplied two large matrices at {significant(gflops, 3)} × 10⁹ operations a "
        f"second. One step of one run needs {row['operations']:,.0f} of them for its products, or "
        f"{significant(row['limit_us'])} µs. Products of matrices this small do not reach that "
        f"rate: measured alone, in a stack of {best}, they take {significant(row['products_us'])} "
        f"µs. Of the {significant(row['us'])} µs of the whole, {significant(drawing)} go into "
        "drawing batches and masks; the rest are the products and all that stands between them: "
        "gathering rows, activations and their derivatives, the optimizer, and the calls. In a "
        f"stack of {smallest} the products by themselves take {significant(alone['products_us'])} "
        f"µs of {significant(alone['us'], 3)}: what every call costs is divided by the runs that "
        "share it, and a small stack cannot get below its products however lean the rest is."
    )


def evaluating(experiment: Experiment) -> Html:
    """What looking at the held-out fold costs beside an epoch."""
    rows = kind(cells(experiment, "runs"), "mixed", "compiled").set_index("runs")
    row = rows.loc[RUNS] if RUNS in rows.index else rows.iloc[-1]
    epoch = row["us"] * np.ceil(ROWS / row["batch_size"])
    return prose.paragraph(
        f"Predicting a held-out fold of {ROWS // 5} rows takes {number(row['predict_us'], 0)} µs a "
        f"run, {100 * row['predict_us'] / epoch:.0f} % of an epoch. A search does so at no more "
        "than twelve of its epochs; a learning curve at every one."
    )


SHOWN = {
    "finding": finding,
    "stacks": stacks,
    "stack table": stack_table,
    "limit": limit,
    "evaluating": evaluating,
    "sweeps": sweeps,
    "sweep table": sweep_table,
    "workers": workers,
    "start": start,
    "protocol": protocol,
}
