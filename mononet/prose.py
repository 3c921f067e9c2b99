"""Sentences of a results page whose numbers come from recorded studies, never typed.

Each says no more than the artifacts carry: a difference is named only where an interval excludes
zero, and what could have been seen stands beside what was not.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

import numpy as np

from mononet import data, frames, printing
from mononet.models import FLAVORS
from mononet.printing import Html, decimals, number, significant
from mononet.search import MINIMIZED
from mononet.secondary import Secondary
from mononet.study import Study


def paragraph(*sentences: str) -> Html:
    """Sentences of plain text, as one paragraph."""
    return Html(f"<p>{html.escape(' '.join(s for s in sentences if s))}</p>")


def led(lead: str, *sentences: str) -> Html:
    """A paragraph that begins with its subject in bold."""
    return Html(
        paragraph(*sentences).replace("<p>", f"<p><strong>{html.escape(lead)}</strong> ", 1)
    )


def not_yet(what: str) -> Html:
    """Instead of words about studies that are not all there."""
    return Html(f'<p class="mn-note">Still to be recorded: {html.escape(what)}.</p>')


def bullets(items: Sequence[str]) -> Html:
    """Plain texts as a list."""
    return Html("<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>")


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _count(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def unit_of(dataset: str) -> str:
    return f" {printing.UNITS[dataset]}" if dataset in printing.UNITS else " percentage points"


def results(studies: Sequence[Study]) -> Html:
    """How far the models' means lie apart, beside the noise of the test rows; what collapsed."""
    dataset = studies[0].dataset
    factor = printing.scale(data.SPECS[dataset].metric)
    frame = frames.estimators(studies)
    means, errors = (factor * frame[name].astype(float) for name in ("mean", "row_se"))
    apart, unit = means.max() - means.min(), unit_of(dataset)
    digits = decimals(errors.median())
    low, high = significant(errors.min()), significant(errors.max())
    between = f"between {low} and {high}" if low != high else f"about {low}"
    said = (
        "The group as a whole differs by less than what such a test part leaves open about any one "
        "of them."
        if apart < errors.min()
        else "The best and the worst of them lie further apart than that."
        if apart > errors.max()
        else "Both are of one size."
    )
    sentences = [
        f"The means of {_count(len(studies), 'model')} lie within {number(apart, digits)}{unit} of "
        f"each other; the standard error of one training over the test rows is {between}{unit}. "
        f"{said}"
        if len(studies) > 1
        else f"The standard error of one training over the test rows is {low}{unit}.",
        _collapses(frame, data.SPECS[dataset].task),
    ]
    return paragraph(*sentences)


def _collapses(frame, task: str) -> str:
    runs, constant = int(frame["n"].sum()), int(frame["constant"].sum())
    outliers = int(frame["outliers"].astype(float).sum())
    one_sided = int(frame["one_sided"].sum())
    text = f"Of {runs} final trainings, {constant or 'none'} ended at a constant prediction"
    if frame["outliers"].notna().any():
        return f"{text}, and {outliers or 'none'} as an outlier."
    if task == "regression":
        return f"{text}."
    return f"{text}, and {one_sided or 'none'} put every row in one class without being constant."


def hardest(studies: Sequence[Study], rows: int = 2) -> Html:
    """How much of a regression's test error the hardest rows carry, over models and seeds."""
    spec = data.SPECS[studies[0].dataset]
    if spec.task != "regression":
        return Html("")
    target = studies[0].record.read_npz("predictions.npz")["target"]
    losses = np.mean([frames.test_losses(study) for study in studies], axis=0)
    if not np.isfinite(losses).all():
        return Html("")
    worst = np.argsort(-losses)[:rows]
    others = np.delete(losses, worst).mean()
    share = losses[worst].sum() / losses.sum()
    fresh = np.mean([frames.fresh_mean(study.runs("validation"), "loss") for study in studies])
    named = " and ".join(f"{n} (target {target[n]:.3g})" for n in map(int, worst))
    return paragraph(
        f"Part of why the rows weigh so much: averaged over the recorded models, {rows} of the "
        f"{len(losses):,} test rows carry {100 * share:.0f} % of the squared error. They are rows "
        f"{named} of the published file, counted from 0. The mean squared error of all rows is "
        f"{significant(losses.mean(), 3)}, that of the others {significant(others, 3)}; on fresh "
        f"folds of the training rows it is {significant(fresh, 3)}. No row is left out of any "
        "number here: this only shows how much of a mean so few rows can decide.",
    )


def unsupported(studies: Sequence[Study]) -> Html:
    """What these studies do not show about the flavors and the rest."""
    dataset = studies[0].dataset
    factor, unit = printing.scale(data.SPECS[dataset].metric), unit_of(dataset)
    flavors = [study for study in studies if study.model in FLAVORS]
    items = [
        "That any of these models is better than a published one: those figures come from another "
        "protocol.",
        "That the order found here would be found on another dataset, or with other test rows.",
    ]
    at_bound = [study.model for study in studies if study.selected.at_bound]
    if at_bound:
        items.append(
            "That every model was trained to its best: the search chose the largest number of "
            f"epochs or iterations that the protocol allows for {_listed(at_bound)}, where more "
            "may do better."
        )
    if len(flavors) > 1:
        frame = factor * frames.estimators(flavors)[["mean", "row_se"]].astype(float)
        apart, error = frame["mean"].max() - frame["mean"].min(), frame["row_se"].median()
        items.insert(
            0,
            "That one flavor of the network is better than another. The test means of "
            f"{len(flavors)} flavors lie within {number(apart, decimals(error))}{unit}, where the "
            "standard error of one training over the test rows is about "
            f"{significant(error)}{unit}, and the rule declared no comparison among them on these "
            "rows.",
        )
    return bullets(items)


def selection(studies: Sequence[Study]) -> Html:
    """The gap between selection score and test, split at the fresh folds."""
    spec = data.SPECS[studies[0].dataset]
    sign = printing.scale(spec.metric) * (1 if MINIMIZED[spec.metric] else -1)
    frame = frames.estimators(studies)
    score, fresh, mean = (frame[n].astype(float).mean() for n in ("cv_score", "fresh", "mean"))
    whole, luck, rest = sign * (mean - score), sign * (fresh - score), sign * (mean - fresh)
    unit = unit_of(spec.name)
    harder = int((sign * (frame["mean"] - frame["fresh"]).astype(float) > 0).sum())

    digits = decimals(whole)
    noise = printing.scale(spec.metric) * frame["fresh_noise"].astype(float).mean()

    def apart(value: float) -> str:
        return f"{number(abs(value), digits)}{unit} {'worse' if value >= 0 else 'better'}"

    chosen = "holdout" if spec.holdout else "folds"
    many = f" for {harder} of the {len(frame)} models the test part is the harder of the two."
    return paragraph(
        f"Averaged over the models, the test value is {apart(whole)} than the score that selected "
        "the configuration.",
        "On fresh folds of the same training rows, where nothing was selected, the same "
        "configurations "
        + (f"are {apart(luck)} than" if round(luck, digits) else "come to about the same as")
        + f" that score: luck with the {chosen} that selected"
        + (
            "."
            if luck > 2 * noise
            else " does not show, since another partition moves such a difference by a standard "
            f"deviation of {significant(noise)}."
            if math.isfinite(noise)
            else " cannot be told, with fresh folds of one partition."
        ),
        "Luck with the rows themselves, which all these folds share, would not show here.",
        f"From the fresh folds to the test part they are {apart(rest)};"
        + (many if len(frame) > 1 else " the test part has rows of its own."),
    )


def detectable(studies: Sequence[Study], rule: Mapping) -> Html:
    """What these test rows could have shown, beside what matters; empty without both sides."""
    frame = frames.comparisons(studies, rule)
    if frame.empty or "gap" not in frame:
        return Html("")
    dataset = studies[0].dataset
    factor, unit = printing.scale(data.SPECS[dataset].metric), unit_of(dataset)
    sentences = []
    for row in frame[frame["rows"] == "all test rows"].dropna(subset="gap").to_dict("records"):
        seen, matters = factor * row["detectable"], factor * row["matters"]
        enough = "enough to see" if seen <= matters else "too few to see"
        days = row.get("blocks", row["n"])
        rows = f"{row['n']:,} paired rows" + (f" in {days:,.0f} blocks" if days < row["n"] else "")
        sentences.append(
            f"Between {row['challenger']} and {row['baseline']}, {rows} show "
            f"a true difference four times in five when it is {significant(seen)}{unit} or more; "
            f"{significant(matters)} would matter. They are {enough} it."
        )
    return paragraph(*sentences)


def needed(studies: Sequence[Study], rule: Mapping) -> Html:
    """How many rows or blocks would show what matters; empty where those at hand do."""
    frame = frames.comparisons(studies, rule)
    if frame.empty or "gap" not in frame:
        return Html("")
    sentences = []
    for row in frame[frame["rows"] == "all test rows"].dropna(subset="gap").to_dict("records"):
        times = (row["detectable"] / row["matters"]) ** 2
        if times > 1:
            kind = frames.drawn(rule, row)
            wanted = float(f"{times * row['blocks']:.1e}")
            sentences.append(
                f"To see what would matter between {row['challenger']} and {row['baseline']}, "
                f"about {wanted:,.0f} test {kind} would be needed instead of "
                f"{row['blocks']:,.0f}, if the pair differed on them as it does on these."
            )
    return paragraph(*sentences) if sentences else Html("")


def mistakes(studies: Sequence[Study]) -> Html:
    """Missed positives and false alarms of a classification's test part, as counts."""
    arrays = [study.record.read_npz("predictions.npz") for study in studies]
    positive = arrays[0]["target"] > 0.5
    called = np.stack([each["predictions"][0] > 0.5 for each in arrays])
    missed, alarms = (~called[:, positive]).sum(axis=1), called[:, ~positive].sum(axis=1)
    p, n = int(positive.sum()), int((~positive).sum())

    def counts(found) -> str:
        low, high = int(found.min()), int(found.max())
        return f"{low}" if low == high else f"between {low} and {high}"

    widest = 100 * 1.96 * 0.5 / math.sqrt(p) if p else math.nan
    return paragraph(
        f"The test part holds {p:,} positive and {n:,} negative rows. The recorded models (one "
        f"training each, the first final seed) miss {counts(missed)} of the positive ones "
        f"and raise {counts(alarms)} false alarms on the negative ones. A share of {p:,} rows is "
        f"known to about ± {significant(widest)} percentage points at worst."
    )


def conclusion(studies: Sequence[Study], rule: Mapping) -> Html:
    """The strongest sentences about challenger and baselines that the artifacts carry."""
    frame = frames.comparisons(studies, rule)
    if frame.empty or "gap" not in frame:
        return Html("")
    dataset = studies[0].dataset
    factor = printing.scale(data.SPECS[dataset].metric)
    every = frame[frame["rows"] == "all test rows"].dropna(subset="gap")
    rows = every.to_dict("records")
    return Html("".join(_against(row, factor, dataset, rule) for row in rows) + verdict(rows, rule))


def verdict(rows: Sequence[Mapping], rule: Mapping) -> Html:
    """What the rule's two bars say of the challenger: the fresh folds and the test interval."""

    def both_bars(row: Mapping, side: int) -> bool:
        bar = rule["gap_over_sd"] * _or_zero(row["seed_sd"])
        return side * row["fresh_gap"] > bar and min(side * row["low"], side * row["high"]) > 0

    missed = [row["baseline"] for row in rows if not both_bars(row, 1)]
    absent = [name for name in rule["baselines"] if name not in {row["baseline"] for row in rows}]
    better = [row["baseline"] for row in rows if both_bars(row, -1)]
    ours = rule["challenger"]
    asked = (
        f"To recommend {ours}, the rule asks that its gap on fresh folds exceed "
        f"{rule['gap_over_sd']:g} seed standard deviations and that the test interval leave zero "
        "out, both in its favor and against every baseline."
    )
    no = f"That is not the case against {' and '.join(missed)}: {ours} is not recommended"
    tied = all(max(-row["low"], row["high"]) < row["matters"] for row in rows)
    if not missed and absent:
        found = (
            f"Both hold against {' and '.join(row['baseline'] for row in rows)}; nothing is said "
            f"before {' and '.join(absent)} is compared as well."
        )
    elif not missed:
        found = "Both hold against each of them; the slices and the checks have the last word."
    elif better:
        found = f"{no}, and both speak for {' and '.join(better)} instead."
    elif tied:
        found = (
            f"{no}. The test intervals leave no difference that matters; where training again "
            "leaves none either, the cheapest of the models compared is the one to take."
        )
    else:
        found = (
            f"{no} on this evidence. That nothing which matters is lost with a cheaper model is "
            "not shown either, so the rule names none."
        )
    return led("By the rule.", asked, found)


def _or_zero(sd: float) -> float:
    return sd if math.isfinite(sd) else 0.0


def _against(row: Mapping, factor: float, dataset: str, rule: Mapping) -> Html:
    ours, theirs, unit = row["challenger"], row["baseline"], unit_of(dataset)
    gap, sd, bar = row["fresh_gap"], row["seed_sd"], rule["gap_over_sd"]
    loss = rule["loss"].replace("_", " ")
    has_sd = math.isfinite(sd) and sd > 0
    fresh = (
        f"On fresh folds the mean {loss} of {ours} is {significant(abs(gap))} "
        f"{'lower' if gap > 0 else 'higher'} than that of {theirs}"
        + (f", {significant(abs(gap) / sd)} seed standard deviations" if has_sd else "")
        + (f" (the rule asks for more than {bar:g} in favor of {ours})." if has_sd else ".")
    )
    digits = decimals(factor * (row["high"] - row["low"]) / 4)
    low, high = (number(factor * row[name], digits) for name in ("low", "high"))
    apart = number(abs(factor * row["gap"]), digits)
    differs = (
        f"differs by {apart}{unit} in favor of {ours if row['gap'] > 0 else theirs}"
        if round(abs(factor * row["gap"]), digits) > 0
        else "comes out alike"
    )
    test = (
        f"On the {row['n']:,} test rows one trained pair {differs}; the 95 % interval of the gap "
        f"over {frames.drawn(rule, row)}, positive for {ours}, goes from {low} to {high}"
    )
    exact = " ".join(filter(None, [mcnemar(row), log_loss(row)]))
    if row["low"] <= 0 <= row["high"]:
        return led(
            f"{ours} against {theirs}.", fresh, f"{test} and holds zero.", exact,
            "The test part shows no difference between the two, and it does not show that there is "
            "none.",
        )  # fmt: skip
    better, worse = (ours, theirs) if row["low"] > 0 else (theirs, ours)
    agree = (gap > 0) == (row["low"] > 0) and (not has_sd or abs(gap) > bar * sd)
    last = (
        f"Both noises, taken one at a time, leave {better} better than {worse} on these data, with "
        "this search and budget. Whether the two were compared fairly is another question, which "
        "the ladder under Evidence asks first."
        if agree
        else f"For this trained pair and rows like these {better} is better; the fresh folds do "
        "not say the same as clearly, so no more is claimed."
    )
    return led(f"{ours} against {theirs}.", fresh, f"{test} and leaves zero out.", exact, last)


def mcnemar(row: Mapping) -> str:
    """The exact test of two classifiers on the rows where they disagree; empty for a regression."""
    if not math.isfinite(row.get("p", math.nan)):
        return ""
    p = f"p = {row['p']:.2f}" if row["p"] >= 0.005 else "p below 0.005"
    return (
        f"Only {row['challenger']} has {row['challenger_only']:,.0f} of the rows right, only "
        f"{row['baseline']} {row['baseline_only']:,.0f} (exact McNemar test, {p})."
    )


def log_loss(row: Mapping) -> str:
    """The same pair in log loss, the loss of a classification's rule; empty for a regression."""
    if "loss_gap" not in row or not math.isfinite(row["loss_gap"]):
        return ""
    digits = decimals((row["loss_high"] - row["loss_low"]) / 4)
    gap, low, high = (number(row[f"loss_{name}"], digits) for name in ("gap", "low", "high"))
    return (
        f"In log loss, in which the rule states its gaps, the same pair has {gap} [{low}, {high}]; "
        "accuracy decides here, since the difference that matters is declared on its scale."
    )


def unrecorded(rule: Mapping) -> Html:
    """Instead of a comparison that lacks one of its sides."""
    names = f"{rule['challenger']} and one of {', '.join(rule['baselines'])}"
    return paragraph(f"This needs the studies of {names}, which are not both recorded yet.")


def checked(studies: Sequence[Study]) -> Html:
    """How many correctness checks apply, and which of them failed."""
    found = [(s.model, c) for s in studies for c in s.record.read_json("checks.json")]
    applies = [(model, check) for model, check in found if check["passed"] is not None]
    failed = [f"{check['name']} of {model}" for model, check in applies if not check["passed"]]
    said = f"failed: {', '.join(failed)}" if failed else "all passed"
    return paragraph(f"{_count(len(applies), 'check')} apply; {said}.".replace("_", " "))


def agreement(dataset: data.Dataset) -> Html:
    """Whether the training rows agree with the constraints, alone and with the others held."""
    frame = frames.constraints(dataset)
    alone = frame.index[frame["sign"] * frame["rank"] > 0]
    against = frame.index[frame["sign"] * frame["held"] < 0]
    tied = frame.index[frame["held"].isna()]
    text = (
        f"Taken one at a time, {len(alone)} of the {len(frame)} constrained features rise and fall "
        "with the target as the constraint says."
    )
    if len(against):
        have = "its slope has" if len(against) == 1 else "their slopes have"
        text += (
            " A constraint says something else, though: what happens when this feature changes and "
            "nothing else does. There a least-squares plane disagrees about "
            f"{_listed(against)}: {have} the other sign. {_together(dataset)}The constraint "
            "answers that question from what is known about the subject, not from these rows."
        )
    elif frame["held"].notna().any():
        text += (
            " A constraint says something else, though: what happens when this feature changes and "
            "nothing else does. A least-squares plane, which holds the other columns fixed, has "
            f"the declared sign for all {'the others' if len(tied) else 'of them too'}."
        )
    if len(tied):
        text += (
            f" For {_listed(tied)} it cannot say anything: other columns determine "
            f"{'it' if len(tied) == 1 else 'them'} exactly."
        )
    return paragraph(text)


def _together(dataset: data.Dataset) -> str:
    """Said where the constrained columns all go up and down together."""
    columns = dataset.X_train[:, np.flatnonzero(dataset.indicator)]
    if columns.shape[1] < 2:
        return ""
    together = np.abs(np.corrcoef(columns.T)).min()
    if not together > 0.7:
        return ""
    return (
        "The constrained columns go up and down together (no two of them correlate by less than "
        f"{math.floor(100 * together) / 100:.2f}), so the rows say little about it. "
    )


def base_rate(dataset: data.Dataset) -> Html:
    """How many training rows of a classification are positive, and what one test row is worth."""
    spec, positive = data.SPECS[dataset.name], int(dataset.y_train.sum())
    rows = len(dataset.y_train)
    return paragraph(
        f"Of the {rows:,} training rows {positive:,} are positive, {100 * positive / rows:.1f} %. "
        f"One of the {spec.test_rows:,} test rows is worth {significant(100 / spec.test_rows)} "
        "percentage points: accuracy moves in steps of that size."
    )


def comments(studies: Sequence[Study]) -> Html:
    """Blog's RMSE in comments a post: the target was divided by 8."""
    frame = frames.estimators(studies)
    low, high = (8 * value for value in (frame["mean"].min(), frame["mean"].max()))
    between = f"from {low:.2f} to {high:.2f}" if len(frame) > 1 else f"{low:.2f}"
    alone, days = (significant(8 * frame[name].median()) for name in ("row_se", "block_se"))
    known = frames.drawn_of(studies[0]) != "rows"
    return paragraph(
        f"Times 8, the test RMSE of the recorded models is {between} comments a post. The standard "
        f"error of one training over the test rows is {alone} comments when the rows are taken for "
        f"independent{f', and {days} when days are what is drawn' if known else ''}."
    )


# A constrained model and the same kind of model without the constraint. The residual flavors have
# no free twin: they differ from the mlp in their construction as well.
TWINS = (("hgb-monotone", "hgb"), ("mixed", "mlp"), ("split", "mlp"))


def price(studies: Sequence[Study]) -> Html:
    """What the constraint costs or buys: each constrained model against its free twin."""
    recorded = {study.model: study for study in studies}
    pairs = {
        twins: pair
        for twins in TWINS
        if set(twins) <= recorded.keys()
        and (pair := frames.paired(*(recorded[name] for name in reversed(twins))))
    }
    if not pairs:
        return not_yet("a constrained model and its free twin")
    dataset = studies[0].dataset
    factor, better = printing.scale(data.SPECS[dataset].metric), {"constrained": 0, "free": 0}
    items = []
    for (name, free), pair in pairs.items():
        apart = frames.pairs_apart(recorded[free], recorded[name])
        better["constrained"] += pair["low"] > 0
        better["free"] += pair["high"] < 0
        ours, theirs = (apart > 0).sum(), (apart < 0).sum()
        items.append(
            f"{name} against {free}: {interval(pair, factor)}; of all {apart.size} pairs, the "
            f"interval leaves zero out for the constrained one in {ours} and for the free one in "
            f"{theirs}"
        )
    neither = len(pairs) - sum(better.values())
    return paragraph(
        f"Of {_count(len(pairs), 'trained pair')} (first final seeds), the interval of the gap "
        f"speaks for the constrained model in {better['constrained'] or 'none'}, for the free one "
        f"in {better['free'] or 'none'}, and holds zero in {neither or 'none'}. "
        f"In{unit_of(dataset)}, positive where the constrained one is better, with 95 % intervals "
        "(other resamples can move the counts of pairs by a few):"
    ) + bullets(items)


def indicator(found: Sequence[Secondary]) -> Html:
    """What constraining the wrong columns cost, model by model; empty before it is recorded."""
    both = changing("indicator", found)
    if not both:
        return not_yet("those studies")
    factor, items = printing.scale(data.SPECS[both[0].study.dataset].metric), []
    for each in both:
        pair = frames.paired(each.study, each.headline)
        means = [factor * each.study.runs("test")["value"].mean()]
        means += [factor * each.headline.runs("test")["value"].mean()]
        text = f"{each.study.model}: {significant(means[0], 4)} with the published indicator, "
        text += f"{significant(means[1], 4)} with the corrected one"
        if pair:
            sign = (
                "the correction is better"
                if pair["low"] > 0
                else "the correction is worse"
                if pair["high"] < 0
                else "no difference is shown"
            )
            text += f"; one pair differs by {interval(pair, factor)}, positive where the "
            text += f"corrected one is better: {sign}"
        items.append(text + ".")
    return Html(
        paragraph("What the mistake cost, test means over the final seeds:") + bullets(items)
    )


def inputs(found: Sequence[Secondary], recorded: Sequence[Study], rule: Mapping) -> Html:
    """What other inputs change, on fresh folds and for one pair on the test rows, and how far a
    gain beyond the rule's bar goes towards hgb-monotone; empty before it is recorded."""
    boosted = next((study for study in recorded if study.model == "hgb-monotone"), None)
    items = []
    for each in changing("inputs", found):
        metric = data.SPECS[each.study.dataset].metric
        ours, theirs = each.changes["inputs"], each.headline.parameters["inputs"]
        factor, sign = printing.scale(metric), 1 if MINIMIZED[metric] else -1
        text, gained, sd = on_fresh_folds(each, f"{ours} inputs", f"the {theirs} ones")
        last = one_pair(each, f"{ours} inputs are", factor)
        if boosted is not None:
            goal = frames.fresh_mean(boosted.runs("validation"))
            away = sign * (frames.fresh_mean(each.headline.runs("validation")) - goal)
            if rule["gap_over_sd"] * sd < gained < away:
                share = f"{100 * gained / away:.0f} % of the way to hgb-monotone"
                text += f", {share} ({number(factor * goal, decimals(factor * sd))})"
                if pair := frames.paired(boosted, each.study):
                    last += f" It then differs from hgb-monotone by {interval(pair, factor)}, "
                    last += "positive where the network is better."
        items.append(f"{text}.{last}")
    return bullets(items) if items else Html("")


def changing(name: str, found: Sequence[Secondary]) -> list[Secondary]:
    """The secondary studies that change this parameter, recorded with their headline studies."""
    both = [each for each in found if each.study.complete and each.headline.complete]
    return [each for each in both if name in each.changes]


def on_fresh_folds(each: Secondary, ours: str, theirs: str) -> tuple[str, float, float]:
    """What a change does on fresh folds, as a clause; the gain, and the larger seed sd of the two
    sides, on the scale of the metric."""
    metric = data.SPECS[each.study.dataset].metric
    factor, sign = printing.scale(metric), 1 if MINIMIZED[metric] else -1
    fresh = [study.runs("validation") for study in (each.study, each.headline)]
    (after, before), sd = [frames.fresh_mean(f) for f in fresh], max(map(frames.fold_sd, fresh))
    gained, digits = sign * (before - after), decimals(factor * sd)
    new, old = (number(factor * value, digits) for value in (after, before))
    side = "better" if gained > 0 else "worse" if gained < 0 else "alike"
    apart = (
        f"{significant(abs(gained) / sd)} seed standard deviations {side}"
        if sd > 0
        else f"{side}, which seeds do not move"
    )
    text = (
        f"{each.study.model}, {printing.metric_title(each.study.dataset)} on fresh folds: {new} "
        f"with {ours} and {old} with {theirs}, {apart}"
    )
    return text, gained, sd


def one_pair(each: Secondary, better: str, factor: float) -> str:
    """The gap of one pair on the test rows, as a sentence, where these are paired."""
    if not (pair := frames.paired(each.headline, each.study)):
        return ""
    return (
        f" On the test rows one pair differs by {interval(pair, factor)}, positive where {better} "
        "better."
    )


def interval(pair: Mapping, factor: float, unit: str = "") -> str:
    """The gap of `frames.paired` in the unit shown, and its 95 % interval."""
    digits = decimals(factor * (pair["high"] - pair["low"]) / 4)
    gap, low, high = (number(factor * pair[name], digits) for name in ("gap", "low", "high"))
    return f"{gap}{unit} [{low}, {high}]"


def first_version(found: Sequence[Secondary]) -> Html:
    """The protocol's first version beside the present one; empty before it is recorded."""
    items = []
    for each in found:
        overlay = "objective" in each.changes
        if not (overlay and each.study.complete and each.headline.complete):
            continue
        factor = printing.scale(data.SPECS[each.study.dataset].metric)
        told = []
        for study in (each.study, each.headline):
            test = study.runs("test")
            values = factor * test["value"]
            summary = printing.plus_minus(values.mean(), values.std(ddof=1), len(values))
            told.append(f"{summary}, {int(test['constant'].sum()) or 'none'} constant")
        same = each.study.configuration_hash == each.headline.configuration_hash
        chose = "the same configuration" if same else "another configuration"
        items.append(
            f"{each.study.model}: the first version ({each.changed}) gives {told[0]} on the test "
            f"part; the present one, which chose {chose}, {told[1]}."
        )
    return bullets(items) if items else Html("")


def decision(rule: Mapping) -> Html:
    """Who decides what, and the smallest difference that matters; from the rule's file."""
    smallest = rule["smallest_difference"]
    value = np.format_float_positional(smallest["value"], trim="-")
    size = f"{value} {smallest['unit']} ({smallest['scale'].upper()})"
    if smallest["scale"] == "accuracy":
        points = np.format_float_positional(round(100 * smallest["value"], 9), trim="-")
        noun = "point" if points == "1" else "points"
        size = f"{points} percentage {noun} of accuracy ({value} as a {smallest['unit']})"
    return paragraph(rule["decision"]) + paragraph(
        f"The smallest difference that matters: {size}. {smallest['why']}"
    )
