"""Head collapse, the chapter: what an activation on the read-out does to a monotone network."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mononet import experiments, prose
from mononet.diagnostics import head_figures
from mononet.diagnostics.head_figures import arms, chosen, seeds, title
from mononet.diagnostics.head_runs import PARTS
from mononet.experiments import Chapter, Experiment
from mononet.printing import Html, number


def open_chapter(given: Mapping) -> Chapter:
    """The chapter from its notebook's parameters (other names are left alone), checked."""
    return experiments.open_chapter("head_collapse", given, PARTS, SHOWN)


# --- words --------------------------------------------------------------------------------------


def finding(experiment: Experiment) -> Html:
    """The chapter in one sentence."""
    frame = chosen(seeds(experiment), task="classification", mode="mixed")
    relu, identity = chosen(frame, head="relu"), chosen(frame, head="identity")
    below, total = int((relu["smallest"] < 0).sum()), len(relu)
    locked = total - int(relu["better_yes"].sum())
    return prose.led(
        "Finding.",
        f"With a relu on the read-out of a mixed classifier, {below or 'none'} of {total} seeds "
        "ever gave a probability below one half, and with one half counted as a yes "
        f"{'all' if locked == total else locked} of them stayed at or under the base rate; with "
        f"the identity in its place {int(identity['better'].sum())} of {len(identity)} cleared it.",
    )


def classification(experiment: Experiment) -> Html:
    """What the two ways of counting one half say, and what split and identity make of it."""
    frame = arms(chosen(seeds(experiment), task="classification"))
    mixed = chosen(frame, mode="mixed", head="relu")
    runs, items = chosen(experiment.table("runs"), mode="mixed", head="relu"), []
    for row in mixed.to_dict("records"):
        plain = chosen(frame, set=row["set"], mode="mixed", head="identity").iloc[0]
        cleared = row["better"] == row["seeds"]
        zero = chosen(runs, set=row["set"])["tied"] == 1
        dead = f"; {zero.sum()} of {len(zero)} trainings are zero on every row" if any(zero) else ""
        items.append(
            f"{title(row['set'])}: a relu head calls every row positive where one half is a yes, "
            f"and is right on {100 * row['value_yes']:.1f} % of the rows, the share of class 1 "
            f"(base rate {100 * row['trivial']:.1f} %). Where one half is a no, "
            f"{100 * row['tied']:.0f} % of the logits are exactly zero and count as a no: "
            f"{100 * row['value']:.1f} %, {'every' if cleared else row['better']} "
            f"{'seed' if cleared else 'of ' + str(row['seeds']) + ' seeds'} above the base rate"
            f"{dead}; the identity reaches {100 * plain['value']:.1f} %."
        )
    split = chosen(frame, mode="split", head="relu")
    escaped = int(split["better_yes"].sum()), int(split["seeds"].sum())
    identity = chosen(frame, head="identity")
    cleared = int(identity["better"].sum()), int(identity["seeds"].sum())
    won, total = int(mixed["better"].sum()), int(mixed["seeds"].sum())
    return prose.bullets(items) + prose.paragraph(
        "A classifier with a relu head is said to be locked at the base rate. By either count it "
        "is: no seed clears it."
        if won + mixed["better_yes"].sum() == 0
        else "A classifier with a relu head is said to be locked at the base rate. That is right "
        "about its probabilities. About its calls it depends on the "
        f"convention for one half: {int(mixed['better_yes'].sum())} of {total} seeds clear the "
        f"base rate with it as a yes, {won} with it as a no. In the second case the dead zone of "
        "the activation serves as the class no: a network that is not zero everywhere still ranks "
        "rows, and those that it would have called negative it pushes to zero. The accuracy alone "
        "does not show the fault then; the probabilities do.",
        f"In split mode, whose head is a difference of two activations, {escaped[0]} of "
        f"{escaped[1]} seeds with a relu head clear the base rate under the unfavorable count. "
        f"With the identity, both modes together, it is {cleared[0]} of {cleared[1]}.",
    )


def regression(experiment: Experiment) -> Html:
    """Whether a raw target hides the fault and a standardized one shows it."""
    frame = arms(chosen(seeds(experiment), task="regression"))
    if frame.empty:
        return prose.paragraph("No regression is among the datasets of this run.")
    items = []
    for name, rows in frame.groupby("set", sort=False):
        value = {(r["mode"], r["head"]): r["value"] for r in rows.to_dict("records")}
        ratio = value["mixed", "relu"] / value["mixed", "identity"]
        verdict = (
            "The fault is there to see."
            if ratio > 1.5
            else "Nothing of the fault is to be seen."
            if ratio < 1.1
            else "The fault shows faintly."
        )
        items.append(
            f"{title(name)}: MSE {number(value['mixed', 'relu'], 1)} mpg² with a relu head in "
            f"mixed mode, {number(value['mixed', 'elu'], 1)} with elu and "
            f"{number(value['mixed', 'identity'], 1)} with the identity (split with relu: "
            f"{number(value['split', 'relu'], 1)}; the training mean: "
            f"{number(rows['trivial'].iloc[0], 1)}). {verdict}"
        )
    return prose.bullets(items)


def floors(experiment: Experiment) -> Html:
    """How close the trained losses come to the floors of their heads."""
    frame = arms(seeds(experiment))
    last = [name for name in frame.columns if name.startswith("loss_")][-1]
    mixed = chosen(frame, mode="mixed")
    relu, identity = chosen(mixed, head="relu"), chosen(mixed, head="identity")
    held = relu[relu["floor_relu"] > 0]
    above = held[last] / held["floor_relu"]
    under = identity.set_index("set").loc[held["set"], last].to_numpy() < held["floor_relu"]
    return prose.paragraph(
        f"On the {len(held)} sets where the floor of a relu head lies above zero, its mean "
        f"training loss ends at {number(above.min(), 2)} to {number(above.max(), 2)} times the "
        f"floor. The identity ends below that floor on {int(under.sum())} of the {len(held)}."
    )


def meaning(experiment: Experiment) -> Html:
    """What somebody who designs such a network takes along."""
    mixed = chosen(seeds(experiment), mode="mixed")
    groups = mixed.groupby(["task", "set", "head"])["value"]
    mean, error = groups.mean().unstack("head"), groups.sem().unstack("head")
    sign = np.where(mean.index.get_level_values("task") == "classification", 1, -1)
    ahead = sign * (mean["elu"] - mean["identity"])
    better = int((ahead > 2 * np.hypot(error["elu"], error["identity"])).sum())
    return prose.bullets(
        [
            "Leave the read-out linear. It costs nothing: x|W| + b is monotone as it is.",
            "An elu head is the same fault in a milder form: its logits end at −1, so that no "
            f"probability falls below {1 / (1 + np.e):.2f}. On {better} of {len(mean)} sets its "
            "mean on validation rows is better than that of the identity, by more than two "
            "standard errors over seeds. A bound on confidence can help where a network overfits; "
            "who wants such a bound sets it on purpose, on both sides.",
            "Look at the smallest logit and the largest, not at the accuracy alone. A threshold "
            "that counts one half as a no can make a classifier that never says no look like one "
            "that works, and its probabilities are wrong all the same.",
            "A regression on a positive, raw target does not test a head. Standardize the target, "
            "or test on two classes.",
        ]
    )


SHOWN = {
    "finding": finding,
    "classification": classification,
    "regression": regression,
    "floors": floors,
    "meaning": meaning,
    "table": head_figures.table,
    "counts": head_figures.counts,
    "outputs": head_figures.outputs,
    "curves": head_figures.curves,
}
