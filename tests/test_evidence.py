"""The ladder: every rung falls with its artifact, and the claim is cut to the rung below."""

import dataclasses
import html
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mononet import (
    bounded,
    claims,
    data,
    evidence,
    evidence_page,
    frames,
    intervals,
    middle_rungs,
    pages,
    parameters,
    recording,
    rules,
)
from mononet.ladder import (
    LOSS,
    NOT,
    NOTHING,
    OPEN,
    PARTLY,
    RUNGS,
    SHOWN,
    TEST_GRADE,
    TIE,
    UNFAIR,
    VALIDATION,
    WIN,
    Contest,
    Ladder,
    Part,
    Rung,
)
from mononet.record import Record
from mononet.study import Study

pytestmark = pytest.mark.xdist_group("results")
SENTENCES = Path(__file__).with_name("sentences.txt")


# --- the ladder as values -----------------------------------------------------------------------


def ladder(height: int, outcome: str, status: str = NOT) -> Ladder:
    """A made-up ladder that is shown up to `height`; the rung above it has `status`."""
    contest = Contest(
        challenger="split",
        baseline="hgb-monotone",
        outcome=outcome,
        where="Toy (100 training and 50 test rows of the published split, 3 features)",
        budget="50 trials of 15 runs for split (9 s) and 50 of 15 for hgb-monotone (8 s)",
        metric="MSE",
        better_metric="lower MSE",
        gap="1.2 mpg²",
        matters="0.5 mpg²",
        retraining="the fresh folds say so much",
        sampling="drawing the rows again says so much",
        cost="one takes 1 s and the other 2 s",
        cheaper="split",
        slices="old and new",
        bounds="With 25, 50 and 100 % of the training rows the gap is 1, 1 and 1",
        untested="Other places.",
        triggers=("More rows.", "2027-12-31: again."),
    )
    rungs = []
    for n, name in enumerate(RUNGS):
        found = SHOWN if n < height else status if n == height else NOT
        rungs.append(Rung(name, (Part("part", found, missing=f"the {name.lower()} file"),)))
    return Ladder(contest, tuple(rungs))


def sentences() -> str:
    """Sentence and recommendation of every height and outcome, as text."""
    lines = []
    for outcome in (WIN, LOSS, TIE, OPEN):
        for height in range(6):
            if outcome != OPEN or height <= 2:
                each = ladder(height, outcome)
                lines += [f"## {outcome}, {height} rungs", f"Wanted: {each.wanted}"]
                lines += [each.sentence(), each.recommendation(), ""]
    return "\n".join(lines)


def test_the_sentence_left_is_that_of_the_snapshot():
    """Written anew by `python -m tests.test_evidence` from the root; read the difference."""
    assert sentences() == SENTENCES.read_text()


@pytest.mark.parametrize("height", range(5))
def test_partly_shown_caps_like_not_shown(height):
    partly, absent = (ladder(height, WIN, status) for status in (PARTLY, NOT))
    assert partly.height == absent.height == height
    assert partly.sentence() == absent.sentence()


def test_a_rung_above_a_gap_does_not_count():
    first, *others = ladder(5, WIN).rungs
    holed = Rung(first.name, (Part("part", PARTLY, missing="a check"),))
    assert Ladder(ladder(5, WIN).contest, (holed, *others)).height == 0


def test_a_rung_is_shown_when_all_its_parts_are():
    shown, partly, absent = (Part(s, s, missing=s) for s in (SHOWN, PARTLY, NOT))
    needed = dataclasses.replace(absent, needed=True, missing="the needed one")
    assert Rung("r", (shown, shown)).status == SHOWN
    assert Rung("r", (shown, partly)).status == Rung("r", (shown, absent)).status == PARTLY
    assert Rung("r", (absent, absent)).status == Rung("r", (shown, needed)).status == NOT
    assert Rung("r", (partly, absent, needed)).missing == "the needed one"
    assert Rung("r", (partly, absent)).missing == NOT


def test_the_tie_of_a_whole_ladder_recommends_the_cheaper_model():
    assert ladder(5, TIE).recommendation().startswith("Take split, the cheaper")
    assert ladder(2, TIE).recommendation().startswith("Neither")
    assert ladder(5, WIN).recommendation() == "Take split."
    assert ladder(3, WIN).recommendation().startswith("Neither")
    assert ladder(3, LOSS).recommendation() == "Take hgb-monotone."
    begun = ladder(1, OPEN)
    bare = dataclasses.replace(begun, contest=dataclasses.replace(begun.contest, cheaper=""))
    assert bare.recommendation() == "Neither, on this evidence."


@pytest.mark.parametrize("outcome", [TIE, OPEN])
def test_a_pair_without_a_gap_is_not_said_to_differ_by_nothing(outcome):
    each = ladder(2, outcome)
    even = dataclasses.replace(
        each, contest=dataclasses.replace(each.contest, gap="0 percentage points")
    )
    assert "one trained pair comes out alike (" in even.sentence().lower()
    assert "one trained pair differs by 1.2 mpg² (" in each.sentence().lower()


# --- over recorded studies ----------------------------------------------------------------------


def rewrite(path, ledger):
    """Puts another ledger in the place of one, with a checksum of its own."""
    with Record.locked(path.parent) as shelf:
        shelf.write_csv(path.name, ledger)


@pytest.fixture(scope="session")
def recorded(quick, studies):
    """Quick parameters; split, linear and hgb-monotone are recorded."""
    recording.record(Study.of("auto_mpg", "hgb-monotone", quick))
    return quick


@pytest.fixture
def values(recorded, tmp_path):
    """The same studies in a folder of this test's own."""
    shutil.copytree(recorded["results_dir"], tmp_path / "results")
    return recorded | {"results_dir": str(tmp_path / "results")}


def change(study, name, edit):
    """Record a file of a study anew, edited: a frame, a description or arrays."""
    kind = name.rsplit(".", 1)[1]
    with Record.locked(study.folder) as folder:
        content = edit(getattr(folder, f"read_{kind}")(name))
        if kind == "npz":
            folder.write_npz(name, **content)
        else:
            getattr(folder, f"write_{kind}")(name, content)


def remove(study, name):
    """Take a file out of a study, and out of its list of files."""
    (study.folder / name).unlink()
    sums = study.folder / "checksums.txt"
    lines = [line for line in sums.read_text().splitlines() if not line.endswith(f"  {name}")]
    sums.write_text("".join(f"{line}\n" for line in lines))


def errors(size):
    """Errors of one training on the test rows: of that size, in both directions, hardly varying."""
    return lambda n, seed: size * (1 + 0.01 * np.sin(np.arange(n) + seed)) * (-1) ** np.arange(n)


def made(values, challenger=1.0, baseline=5.0):
    """Studies of split and hgb-monotone whose predictions miss by so much on every row, and a size
    table: the pair that a whole ladder needs."""
    pair = [Study.of("auto_mpg", model, values) for model in ("split", "hgb-monotone")]
    for study, size in zip(pair, (challenger, baseline), strict=True):

        def miss(arrays, size=size):
            target = arrays["target"]
            wrong = [errors(size)(len(target), k) for k in range(len(arrays["predictions"]))]
            return arrays | {"predictions": (target + np.array(wrong)).astype(np.float32)}

        def lose(runs, size=size):
            loss = size**2 * (1 + 0.01 * (runs["seed"] - 1000))
            return runs.assign(loss=loss, value=loss)

        def pass_all(checks):
            return [c | {"passed": None if c["passed"] is None else True} for c in checks]

        change(study, "predictions.npz", miss)
        change(study, "runs.csv", lose)
        change(study, "checks.json", pass_all)
    size_table(values)
    return pair


def size_table(values, shares=(0.25, 0.5, 1.0), seconds=True, other=False):
    rows = [
        {"dataset": "auto_mpg", "model": model, "share": share, "rows": int(314 * share)}
        | {"fold": fold, "seed": seed, "epochs": 3, "value": loss + fold, "loss": loss + fold}
        for model, loss in (("split", 1.0), ("hgb-monotone", 25.0))
        for share in shares
        for fold in range(3)
        for seed in range(2)
    ]
    folder = Path(values["results_dir"]) / "experiments/size_table-12345678"
    pair = [Study.of("auto_mpg", model, values) for model in ("split", "hgb-monotone")]
    used = {f"auto_mpg {study.model}": study.identity for study in pair}
    if other:
        used["auto_mpg split"] = "0" * 64
    description = {
        "content": {"studies": used},
        "provenance": {"started": "2026-11-30T00:00:00Z"},
    }
    with Record.locked(folder) as record:
        record.write_csv("sizes.csv", pd.DataFrame(rows))
        record.write_json("experiment.json", description | ({"seconds": {}} if seconds else {}))


def climb(values, which=0) -> Ladder:
    return claims.climb(evidence.comparisons("auto_mpg", values)[which])


def rung(found: Ladder, name: str) -> Rung:
    return found.rungs[RUNGS.index(name)]


def part(found: Ladder, name: str) -> Part:
    return next(each for rung in found.rungs for each in rung.parts if each.name == name)


def test_a_win_with_every_artifact_reaches_the_top(values):
    made(values)
    found = climb(values)
    assert [each.status for each in found.rungs] == [SHOWN] * 5, found.lacking
    assert found.contest.outcome == WIN and found.kind == TEST_GRADE
    assert found.recommendation() == "Take split."
    said = found.sentence()
    for word in (
        *("split", "hgb-monotone", "Auto MPG", "314 training and 78 test rows", "7 features"),
        *("2 trials of 2 runs", "MSE", "seed standard deviation", "78 test rows again"),
        *("newer half", "25, 50 and 100 %", "2027-12-31"),
    ):
        assert word in said, word


def test_a_loss_climbs_as_a_win_does(values):
    made(values, challenger=5.0, baseline=1.0)
    found = climb(values)
    assert found.contest.outcome == LOSS and found.height == 5, found.lacking
    assert found.wanted == "hgb-monotone beats split."
    assert found.recommendation() == "Take hgb-monotone."


def test_a_tie_with_every_rung_shown_recommends_the_cheaper_model(values):
    pair = made(values, challenger=1.0, baseline=1.0)
    change(pair[0], "cost.csv", lambda cost: cost.assign(seconds=cost["seconds"] + 100))
    later = "2030-01-01T00:00:00+00:00"
    ledger = data.read_ledger(pair[0].ledger).assign(time=later)
    rewrite(pair[0].ledger, ledger)
    found = climb(values)
    assert found.contest.outcome == TIE and found.contest.cheaper == "hgb-monotone"
    assert found.height == 5, found.lacking
    assert found.recommendation().startswith("Take hgb-monotone, the cheaper of the two")


ARTIFACTS = {
    "checks.json": ("Correct", 0),
    "study.json": ("Correct", 0),
    "trials.csv": ("Fair", 1),
    "runs.csv": ("Fair", 1),
    "cost.csv": ("Fair", 1),
    "predictions.npz": ("Fair", 1),
}


@pytest.mark.parametrize("model", ["split", "hgb-monotone"])
@pytest.mark.parametrize("name", ARTIFACTS)
def test_a_missing_artifact_cuts_the_claim_and_is_named(values, name, model):
    remove(dict(zip(("split", "hgb-monotone"), made(values), strict=True))[model], name)
    found = climb(values)
    wanted, height = ARTIFACTS[name]
    if name == "study.json":  # checks stand, and nothing says any more what was checked
        wanted, height = "Fair", 1
        assert found.kind == NOTHING
    assert found.height == height
    assert rung(found, wanted).status in (PARTLY, NOT)
    assert (name if name != "study.json" else "study") in found.lacking
    assert model in found.lacking
    assert f"What is lacking: {found.lacking}." in found.sentence()


@pytest.mark.parametrize("name", ["checks.json", "runs.csv", "predictions.npz"])
def test_a_damaged_artifact_is_as_good_as_none(values, name):
    split, _ = made(values)
    path = split.folder / name
    path.write_bytes(path.read_bytes() + b" ")
    found = climb(values)
    assert found.height == ARTIFACTS[name][1]
    assert found.lacking == f"{name} of split, as it was recorded"


def test_a_failed_check_is_named(values):
    split, _ = made(values)

    def fail(checks):
        return [c | {"passed": False} if c["name"] == "gradient" else c for c in checks]

    change(split, "checks.json", fail)
    found = climb(values)
    assert found.height == 0 and found.lacking == "gradient of split, passed"


def test_a_check_that_applies_and_was_not_made_is_no_pass(values):
    split, _ = made(values)
    change(split, "checks.json", lambda checks: [c | {"passed": None} for c in checks])
    assert climb(values).height == 0


def test_unequal_budgets_make_the_contest_unfair(values):
    split, _ = made(values)
    change(split, "trials.csv", lambda trials: pd.concat([trials, trials.assign(trial=2)]))
    found = climb(values)
    assert found.height == 1 and found.kind == UNFAIR
    assert part(found, "tuning budget").status == NOT


def test_the_best_flavor_needs_a_baseline_with_as_many_trials(values):
    made(values)
    found = climb(values, which=2)
    assert found.contest.challenger == "the best flavor by objective (split)"
    assert found.kind == UNFAIR and found.height <= 1
    assert "hgb-monotone with 250 trials" in found.why and "deep" in found.why


def reopened(study, **changes):
    """Adds a final opening of a study to the ledger, with changes."""
    ledger = data.read_ledger(study.ledger)
    row = ledger[ledger["study"] == study.identity].iloc[-1].copy()
    for name, value in changes.items():
        row[name] = value
    rewrite(study.ledger, pd.concat([ledger, row.to_frame().T]))


def test_a_second_configuration_makes_the_number_validation_level(values):
    split, _ = made(values)
    reopened(split, configuration="another", time="2031-01-01T00:00:00+00:00")
    found = climb(values)
    assert found.kind == VALIDATION and "more than one configuration" in found.why
    assert found.height == 1


def test_an_opening_before_the_selection_ended_makes_it_validation_level(values):
    split, _ = made(values)
    ledger = data.read_ledger(split.ledger).assign(time="2020-01-01T00:00:00+00:00")
    rewrite(split.ledger, ledger)
    found = climb(values)
    assert found.kind == VALIDATION and "before its selection had ended" in found.why


def test_an_opening_that_the_ledger_lacks_is_missed(values):
    split, _ = made(values)
    ledger = data.read_ledger(split.ledger)
    rewrite(split.ledger, ledger[ledger["study"] != split.identity])
    found = climb(values)
    assert found.kind == VALIDATION
    assert found.lacking == "a final opening of split in test_access.csv"


def test_a_gap_below_the_seed_spread_is_not_larger_than_noise(values):
    split, _ = made(values)

    def spread(runs):
        return runs.assign(loss=1 + 100 * (runs["seed"] - 1000))

    change(split, "runs.csv", spread)
    found = climb(values)
    assert found.height == 2 and rung(found, "Larger than noise").status == PARTLY
    assert "2 seed standard deviations in favor of split" in found.lacking
    assert "does not order the two yet" in found.sentence()


def noisy(arrays):
    """Predictions that are mostly better than the baseline's, and on some rows far worse."""
    n = len(arrays["target"])
    wrong = np.where(np.arange(n) % 9 == 0, 15.0, 1.0)
    predictions = arrays["target"] + np.stack([wrong] * len(arrays["predictions"]))
    return arrays | {"predictions": predictions.astype(np.float32)}


def test_an_interval_around_zero_leaves_the_question_open(values):
    split, _ = made(values)
    change(split, "predictions.npz", noisy)
    found = climb(values)
    assert found.contest.outcome == OPEN and found.height == 2
    assert "a test interval that leaves zero out" in found.lacking
    assert found.recommendation().startswith("Neither")


def test_a_gap_on_fresh_folds_against_the_claim_does_not_support_it(values):
    """Where the test rows leave the question open, the claim is still that the challenger wins."""
    split, _ = made(values)
    change(split, "predictions.npz", noisy)
    assert part(climb(values), "retraining").status == SHOWN
    change(split, "runs.csv", lambda runs: runs.assign(loss=26.0, value=26.0))
    found = climb(values)
    assert found.contest.outcome == OPEN
    assert part(found, "retraining").status == NOT
    assert "in favor of split, and a test interval" in part(found, "retraining").missing


def test_what_is_shown_above_the_cut_is_named_and_carries_nothing(values):
    made(values)
    whole = climb(values)
    holed = list(whole.rungs)
    holed[1] = Rung("Fair", (Part("scaling", PARTLY, missing="scaling by training rows"),))
    found = dataclasses.replace(whole, rungs=tuple(holed))
    assert found.height == 1
    assert found.sentence().endswith(
        "Shown, but without weight until then: Larger than noise, Relevant and Bounded."
    )
    assert found.recommendation() == (
        "Neither, on this evidence, although the test interval speaks for split."
    )


def test_seconds_of_two_processors_are_told_apart(values):
    split, _ = made(values)

    def elsewhere(described):
        described["provenance"]["processor"] = "an abacus, family 1"
        return described

    assert "processors" not in climb(values).contest.cost
    older = split.description["provenance"]["processor"].split(",")[0]

    def named_alone(described):
        described["provenance"]["processor"] = older
        return described

    change(split, "study.json", named_alone)
    assert climb(values).contest.cost.endswith(" ms, on processors not known to be alike")
    change(split, "study.json", elsewhere)
    found = climb(values).contest
    assert found.cost.endswith(" ms, on different processors")
    tie = dataclasses.replace(climb(values), contest=dataclasses.replace(found, outcome=OPEN))
    assert (
        "together (on different processors)."
        in dataclasses.replace(tie, rungs=ladder(2, OPEN).rungs).recommendation()
    )


def test_a_gap_that_does_not_matter_is_not_relevant(values):
    made(values, challenger=5.0, baseline=5.1)
    found = climb(values)
    assert found.contest.outcome == WIN and found.height == 3
    assert rung(found, "Relevant").status == NOT
    assert "a gap of at least" in found.lacking
    assert found.recommendation().startswith("Neither")


def test_a_slice_where_it_does_not_hold_is_named(values):
    split, _ = made(values)

    def worse(arrays):
        row = list(arrays["slices_names"]).index("heavy half")
        wrong = np.where(arrays["slices"][row], 6.0, 1.0)
        return arrays | {"predictions": np.stack([arrays["target"] + wrong] * 2).astype(np.float32)}

    change(split, "predictions.npz", worse)
    found = climb(values)
    assert found.height == 3 and found.lacking == "the result on heavy half"


def few(rows):
    """Slices of which the first holds so few rows."""

    def edit(arrays):
        slices = arrays["slices"].copy()
        slices[0] = np.arange(slices.shape[1]) < rows
        return arrays | {"slices": slices}

    return edit


def test_a_slice_too_small_to_decide_is_neither_pass_nor_fail(values):
    for study in made(values):
        change(study, "predictions.npz", few(29))
    found = climb(values)
    assert found.height == 3 and part(found, "declared slices").status == PARTLY
    assert "enough rows in the slice newer half" in found.lacking
    assert "n = 29, not shown" in part(found, "declared slices").found
    assert part(found, "slices with data").status == PARTLY
    comparison = evidence.comparisons("auto_mpg", values)[0]
    assert [word for _, word in claims.checks(comparison)] == [True, True, None]


@pytest.mark.parametrize(
    ("low", "high", "detectable", "outcome", "expected"),
    [
        (-1.0, 3.0, 0.5, WIN, True),  # the margin of 1 could be seen, and the gap is no loss
        (-3.0, 1.0, 0.5, WIN, False),
        (-1.0, 3.0, 2.0, WIN, None),  # it could not, and nothing was
        (0.5, 3.0, 2.0, WIN, True),  # it could not, but a larger one was seen
        (-3.0, -0.5, 2.0, WIN, False),
        (-3.0, -0.5, 2.0, LOSS, True),
        (-0.9, 1.0, 0.5, TIE, True),
        (0.5, 3.0, 0.5, TIE, False),
        (-0.9, 1.0, 2.0, TIE, None),
        (0.5, 3.0, 0.5, OPEN, None),
    ],
)
def test_a_slice_decides_where_it_could_tell_or_has_told(low, high, detectable, outcome, expected):
    row = {"gap": (low + high) / 2, "low": low, "high": high}
    row |= {"detectable": detectable, "matters": 1.0}
    assert middle_rungs.holds(row, outcome) is expected


def test_a_slice_that_could_not_show_the_margin_is_neither(values):
    for study in made(values):
        baseline = study.model == "hgb-monotone"

        def noisy(arrays, baseline=baseline):
            rows = np.arange(len(arrays["target"]))
            few = rows < 36  # where both have the same errors, at other rows
            wrong = np.where(rows % 3 == int(baseline), 4.0, 1.0)
            wrong = np.where(few, wrong, 5.0 if baseline else 1.0)
            predictions = np.stack([arrays["target"] + wrong] * 2).astype(np.float32)
            return arrays | {"predictions": predictions, "slices": np.stack([few, *3 * [~few]])}

        change(study, "predictions.npz", noisy)
    found = climb(values)
    assert part(found, "declared slices").status == PARTLY
    assert found.lacking == (
        "enough rows in the slice newer half (model years 1977 to 1982) to see what matters there"
    )


@pytest.mark.parametrize("spoil", ["absent", "partial", "shares", "other"])
def test_without_a_whole_size_table_the_result_has_no_bounds(values, spoil):
    made(values)
    if spoil == "absent":
        shutil.rmtree(Path(values["results_dir"]) / "experiments")
    else:
        shares = (0.25, 1.0) if spoil == "shares" else (0.25, 0.5, 1.0)
        size_table(values, shares, seconds=spoil != "partial", other=spoil == "other")
    found = climb(values)
    assert found.height == 4 and found.lacking == "the size table"
    assert "Where the result stops holding was not shown" in found.sentence()


def test_days_are_looked_at_by_halves_and_in_longer_blocks(values):
    for study in made(values):

        def by_day(arrays):
            days = [f"2012.02.{row // 2 + 10}" for row in range(len(arrays["target"]))]
            return arrays | {"block": np.array(days)}  # days are text, as in Blog's files

        change(study, "predictions.npz", by_day)
    comparison = evidence.comparisons("auto_mpg", values)[0]
    rule = {**comparison.rule, "blocks": "days"}
    found = claims.climb(dataclasses.replace(comparison, rule=rule))
    assert found.height == 5
    said = part(found, "periods").found
    assert "first half of the days n = 40" in said and "second half n = 38" in said
    assert "lag-1 autocorrelation" in said and "blocks of three days" in said
    assert "39 test days with their 78 rows" in part(found, "drawing days again").found


def test_joint_scaling_is_partly_shown_at_most(values, monkeypatch):
    made(values)
    spec = dataclasses.replace(data.SPECS["auto_mpg"], joint_scaling="it is scaled jointly")
    monkeypatch.setitem(data.SPECS, "auto_mpg", spec)
    found = climb(values)
    assert part(found, "features and preprocessing").status == PARTLY
    assert found.height == 1 and "it is scaled jointly" in found.lacking
    assert found.kind == TEST_GRADE  # alike on both sides
    assert data.SPECS["compas"].joint_scaling and data.SPECS["blog"].joint_scaling


def test_a_description_caps_the_claim(values, monkeypatch):
    made(values)
    standing = rules.Standing(False, "It was changed.")
    monkeypatch.setattr(evidence.rules, "standing", lambda *_: standing)
    found = climb(values)
    assert found.height == 2 and rung(found, "Larger than noise").status == PARTLY
    assert "committed before the first final opening" in found.lacking
    assert "a description, not a rule" in part(found, "declared beforehand").found


def test_nothing_recorded_claims_nothing(quick, tmp_path):
    found = climb(quick | {"results_dir": str(tmp_path)})
    assert found.height == 0 and found.kind == NOTHING
    assert found.lacking == "the study of split"


# --- rule or description --------------------------------------------------------------------------


def git(folder, *words, when=""):
    stamp = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when} if when else {}
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(
        ["git", *who, "-C", str(folder), *words], check=True, capture_output=True, env=stamp or None
    )


@pytest.fixture
def history(tmp_path):
    """A project whose rule was committed on the first of January; its params folder."""
    folder = tmp_path / "project/params"
    folder.mkdir(parents=True)
    shutil.copy(parameters.PARAMS / "heart.rule.yaml", folder)
    git(folder.parent, "init", "-q")
    git(folder.parent, "add", ".")
    git(folder.parent, "commit", "-qm", "rule", when="2026-01-01T00:00:00+00:00")
    return folder


def ledger(*times):
    return pd.DataFrame({"time": list(times), "kind": ["planning", *["final"] * (len(times) - 1)]})


def standing(folder, times, hashes=None):
    now = parameters.rule_sha256("heart", folder)
    return rules.standing("heart", {"split": now} | (hashes or {}), ledger(*times), folder)


BEFORE, AFTER = "2025-01-01T00:00:00+00:00", "2027-01-01T00:00:00+00:00"


def test_a_rule_committed_first_is_a_rule(history):
    found = standing(history, [BEFORE, AFTER])
    assert found.rule and "before the first final opening" in found.said
    assert "and after the looks that the ledger's row of planning tells of" in found.said
    assert found.name == "a rule"


def test_a_rule_committed_after_the_first_final_opening_is_a_description(history):
    found = standing(history, [BEFORE, BEFORE, AFTER])
    assert not found.rule and "after the first final opening" in found.said
    assert found.name == "a description, not a rule"


def test_a_rule_changed_after_a_search_is_a_description(history):
    found = standing(history, [BEFORE, AFTER], {"linear": "0" * 64})
    assert not found.rule and "changed after the search of linear" in found.said


def test_a_rule_that_was_changed_and_committed_later_is_a_description(history):
    path = history / "heart.rule.yaml"
    path.write_text(path.read_text() + "# later\n")
    assert "in no commit" in standing(history, [BEFORE, AFTER]).said
    git(history.parent, "commit", "-qam", "later", when="2028-01-01T00:00:00+00:00")
    found = standing(history, [BEFORE, AFTER])
    assert not found.rule and "2028-01-01" in found.said
    path.write_text(path.read_text().removesuffix("# later\n"))
    assert standing(history, [BEFORE, AFTER]).rule  # back to what it was


def test_without_a_history_the_recorded_hashes_are_all_there_is(history):
    shutil.rmtree(history.parent / ".git")
    found = standing(history, [BEFORE, AFTER])
    assert found.rule and "No git history" in found.said
    assert not standing(history, [BEFORE, AFTER], {"linear": "0" * 64}).rule


def test_a_slice_that_the_rule_renamed_leaves_no_checks(values):
    made(values)
    comparison = evidence.comparisons("auto_mpg", values)[0]
    slices = [{**each, "name": f"{each['name']}, renamed"} for each in comparison.rule["slices"]]
    renamed = dataclasses.replace(comparison, rule={**comparison.rule, "slices": slices})
    assert len(claims.checks(comparison)) == 3 and claims.checks(renamed) == []


def test_days_that_nobody_recorded_cap_the_claim(values):
    made(values)
    [comparison, *_] = evidence.comparisons("auto_mpg", values)
    daily = dataclasses.replace(comparison, rule={**comparison.rule, "blocks": "days"})
    drawing = middle_rungs.sampling(daily)
    assert drawing.status == PARTLY and "78 test rows again" in drawing.found
    assert drawing.missing == "the days of the test rows; rows were drawn in their place"
    [periods] = bounded.periods(daily)
    assert periods.status == NOT and periods.missing == "the day of every test row"


# --- other intervals ------------------------------------------------------------------------------


def by_days(values):
    """A comparison over 26 days of three rows, whose errors are those of `made`."""
    for study in made(values):
        change(study, "predictions.npz", lambda a: a | {"block": np.arange(78) // 3})
    [comparison, *_] = evidence.comparisons("auto_mpg", values)
    return dataclasses.replace(comparison, rule={**comparison.rule, "blocks": "days"})


def test_other_intervals_agree_where_rows_are_alike(values):
    made(values)
    [comparison, *_] = evidence.comparisons("auto_mpg", values)
    frame = intervals.intervals(comparison).set_index("interval")
    assert list(frame.index) == [
        "rows drawn again",
        "paired t over rows",
        "seeds and rows drawn again",
        "two-component t over seeds and rows",
    ]
    decides, *others = frame[["gap", "low", "high"]].to_numpy()
    whole = comparison.whole
    np.testing.assert_array_equal(decides, [whole["gap"], whole["low"], whole["high"]])
    for other in others:
        np.testing.assert_allclose(other, decides, atol=0.1)
    assert list(frame["answers for"]) == ["this pair"] * 2 + ["the algorithms"] * 2


def test_other_intervals_draw_days_in_three_ways(values):
    comparison = by_days(values)
    frame = intervals.intervals(comparison)
    assert list(frame["interval"]) == [
        "days drawn again",
        "rows drawn again, as if unrelated",
        "3 days at a time drawn again",
        "paired t over days",
        "seeds and days drawn again",
        "two-component t over seeds and days",
    ]
    losses = intervals.by_block(comparison)
    assert losses.baseline.shape == (len(losses.baseline), 26) and (losses.rows == 3).all()
    assert losses.differences.mean() == pytest.approx(comparison.whole["gap"])


@pytest.mark.parametrize(
    ("metric", "better"), [("mse", 25.0 - 1.0), ("rmse", 5.0 - 1.0), ("accuracy", 1.0)]
)
def test_losses_by_block_have_the_gap_of_the_metric(values, monkeypatch, metric, better):
    comparison = by_days(values)
    ones = np.ones((2, 78))
    rows = {"mse": (25 * ones, ones), "rmse": (25 * ones, ones), "accuracy": (0 * ones, ones)}
    monkeypatch.setattr(intervals, "by_row", lambda _: (list(rows[metric]), np.arange(78) // 3))
    monkeypatch.setattr(evidence.Comparison, "metric", metric)
    np.testing.assert_allclose(intervals.by_block(comparison).differences, better)


def test_a_model_that_seeds_do_not_move_has_a_spread_of_zero(values):
    made(values)
    comparison = evidence.comparisons("auto_mpg", values)[1]
    losses = intervals.by_block(comparison)
    assert comparison.baseline.model == "linear" and len(losses.baseline) == 2
    np.testing.assert_array_equal(losses.baseline[0], losses.baseline[1])
    assert len(intervals.intervals(comparison)) == 4


def test_a_damaged_file_leaves_no_other_intervals(values):
    split, _ = made(values)
    (split.folder / "predictions.npz").write_bytes(b"")
    assert "No recorded gap can be read here." in pages.open_page("auto_mpg", values).words(
        "intervals"
    )


# --- what pages show ------------------------------------------------------------------------------


def text(shown: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", shown)))


def test_a_page_opens_with_what_is_lacking_and_ends_with_the_decision(values):
    made(values)
    page = pages.open_page("auto_mpg", values)
    assert "split against hgb-monotone: nothing; all five rungs" in text(page.words("lacking"))
    assert "“split beats hgb-monotone.”" in text(page.words("wanted"))
    assert "rungs 1 to 5 test-grade" in text(page.table("ladder"))
    assert "predictions.npz" in page.table("rungs") and page.table("rungs").count("<details") == 3
    noises = text(page.words("noises in words"))
    assert "Training again:" in noises and "Drawing the 78 test rows again:" in noises
    assert "Kind of number: test-grade." in text(page.words("claim"))
    log = text(page.table("log"))
    assert "Take split." in log and "validation gap above 2 seed sd: pass" in log
    assert "2027-12-31" in log and "a rule" in log


def test_the_ledger_says_what_changed_between_openings(values):
    split, _ = made(values)
    reopened(split, configuration="another")
    changed = frames.ledger([split])["changed"].tolist()
    assert changed[:2] == ["", ""]  # the planning row, and the first final opening
    assert changed[2] == "the model, split before"
    more = recording.record(Study.of("auto_mpg", "linear", values | {"partitions": 1}))
    assert frames.ledger([more])["changed"].tolist()[-1] == "the model, split before"
    again = recording.record(Study.of("auto_mpg", "linear", values | {"partitions": 3}))
    assert frames.ledger([again])["changed"].tolist()[-1] == "partitions 1 → 3"


def test_the_reviewers_page_shows_every_comparison(values):
    made(values)
    chapter = evidence_page.open_chapter({"results_dir": values["results_dir"]}, ["quick"])
    assert len(chapter.every) == 3 * len(data.SPECS)
    said = {name: text(chapter.show(name)) for name in evidence_page.SHOWN_FOR_REVIEW}
    assert "declare 15 comparisons" in said["summary"] and "1 claim stands on" in said["summary"]
    assert "COMPAS: split against linear not shown" in said["ladder"]
    assert "Auto MPG, split against hgb-monotone: test-grade" in said["kinds"]
    assert said["rules"].count("rule") >= len(data.SPECS)
    with pytest.raises(parameters.ParameterError, match="results_dir"):
        evidence_page.open_chapter({})


if __name__ == "__main__":
    SENTENCES.write_text(sentences())
