"""Anybody's run log: the toy numbers, what each file lacks, and what is left to claim."""

import shutil

import numpy as np
import pandas as pd
import pytest

from mononet import parameters, review
from mononet.commands import ROOT, main
from mononet.ladder import NOT, PARTLY, SHOWN
from mononet.runlog import ReviewError

TOY = ROOT / "book/_static/review"


@pytest.fixture
def files(tmp_path):
    """The toy log in a folder of this test's own."""
    for path in TOY.iterdir():
        shutil.copy(path, tmp_path)
    return {name: tmp_path / file for name, file in
            (("runs", "runs.csv"), ("blocks", "blocks.csv"), ("rule", "rule.yaml"))}  # fmt: skip


def edit(path, change):
    change(pd.read_csv(path)).to_csv(path, index=False)


def losses(path, difference):
    """Blocks on which the challenger's loss is lower by `difference`."""
    n = len(difference)
    baseline = 0.5 + 0.01 * np.sin(np.arange(n))
    sides = {"gbm": baseline, "mlp": baseline - difference}
    rows = [{"block": k, "model": m, "loss": v[k]} for k in range(n) for m, v in sides.items()]
    pd.DataFrame(rows).to_csv(path, index=False)


def test_the_toy_log_comes_out_as_worked_by_hand(files):
    found = review.review(**files)
    assert found.gap("validation") == pytest.approx(0.0022)
    assert found.seed_sd == pytest.approx(0.0053, abs=5e-5)
    assert found.gap("validation") / found.seed_sd == pytest.approx(0.42, abs=5e-3)
    assert found.bar == pytest.approx(0.0106, abs=1e-4)  # 2 × 0.0053; from all digits 0.01053
    assert found.block.mean == pytest.approx(0.0085, abs=5e-5)
    assert (found.block.low, found.block.high) == pytest.approx((0.0029, 0.0137), abs=5e-5)
    assert found.block.mean / found.seed_sd == pytest.approx(1.62, abs=5e-3)
    assert found.shifted == pytest.approx(-0.006)
    assert [passed for _, passed, _, _ in found.checks()] == [False, True, False]
    assert not found.recommended()


def test_the_toy_blocks_are_the_draws_of_the_text(files):
    wide = pd.read_csv(files["blocks"]).pivot(index="block", columns="model", values="loss")
    drawn = np.random.default_rng(56).normal(0.003, 0.02, 52)
    np.testing.assert_allclose(wide["gbm"] - wide["mlp"], drawn, atol=1e-11)


def test_rungs_that_a_log_cannot_show_are_not_shown(files):
    ladder = review.review(**files).ladder()
    assert [rung.status for rung in ladder.rungs] == [NOT, NOT, PARTLY, PARTLY, NOT]
    assert ladder.height == 0


def test_what_is_left_of_a_log_without_fault(files):
    edit(files["runs"], lambda t: t.assign(value=t["value"] - 0.05 * (t["model"] == "mlp")))
    losses(files["blocks"], 0.05 + 0.01 * np.cos(np.arange(30)))
    found = review.review(**files)
    assert found.recommended()
    statuses = [rung.status for rung in found.ladder().rungs]
    assert statuses == [NOT, NOT, SHOWN, SHOWN, NOT]
    said = " ".join(review.sections(found)["What is left"])
    assert "supports no claim" in said and "and training again would say the same" in said
    assert "yes, once rungs 1 and 2 are shown" in said


def test_a_loss_climbs_the_same_rungs(files):
    edit(files["runs"], lambda t: t.assign(value=t["value"] + 0.05 * (t["model"] == "mlp")))
    losses(files["blocks"], -0.05 + 0.01 * np.cos(np.arange(30)))
    found = review.review(**files)
    statuses = [rung.status for rung in found.ladder().rungs]
    assert statuses == [NOT, NOT, SHOWN, SHOWN, NOT]
    assert "this trained gbm has the lower loss" in found.sentence()
    assert not found.recommended()


def shifted(files, by):
    """The toy log with the values of mlp changed by so much."""
    edit(files["runs"], lambda t: t.assign(value=t["value"] + by * (t["model"] == "mlp")))


@pytest.mark.parametrize(
    ("by", "blocks", "said"),
    [
        (0.0, 0.05, "but nothing says that training again would find it so: the validation gap"),
        (-0.05, 0.05, "and training again would say the same: the validation gap of 0.0522 is ab"),
        (0.05, 0.05, "but training again would say the opposite: the validation gap of −0.0478 is"),
        (0.05, -0.05, "and training again would say the same: the validation gap of −0.0478 is b"),
        (-0.05, 0.0, "but training again would show one: the validation gap of 0.0522 is above"),
        (0.0, 0.0, "and nothing says that training again would show one: the validation gap"),
    ],
)
def test_what_training_again_would_say_follows_both_signs(files, by, blocks, said):
    shifted(files, by)
    losses(files["blocks"], blocks + 0.03 * np.cos(np.arange(30)))
    found = review.review(**files).sentence()
    assert said in found
    assert ("beyond the bar of 0.0105" in found) == (by == 0.05)
    assert ("in favor of gbm" in found) == (by == 0.05)


def test_a_tie_is_carried_by_a_small_gap(files):
    files["rule"].write_text("challenger: mlp\nbaseline: gbm\nsmallest_difference: {value: 0.05}\n")
    losses(files["blocks"], 0.01 * np.cos(np.arange(30)))
    found = review.review(**files)
    assert found.ladder().rungs[2].status == SHOWN
    assert "differs by less than what matters" in found.sentence()
    assert "and training again would say the same" in found.sentence()


def test_higher_is_better_turns_the_gap_around(files):
    edit(files["runs"], lambda t: t.assign(metric="accuracy"))
    assert review.review(**files).gap("validation") == pytest.approx(-0.0022)


def test_few_blocks_trust_the_paired_t(files):
    losses(files["blocks"], np.array([0.011, -0.004, 0.009, 0.013, 0.002, 0.005]))
    said = " ".join(review.review(**files).noises())
    assert "With 6 blocks the interval to trust is the paired t's" in said
    assert "Drift:" in said and "Lag-1" in said


def test_without_blocks_and_rule_the_seeds_alone_speak(files):
    found = review.review(files["runs"])
    assert (found.challenger, found.baseline) == ("mlp", "gbm")
    assert [passed for _, passed, _, _ in found.checks()] == [False, None, False]
    assert "not known without losses by block" in " ".join(found.noises())
    assert found.ladder().rungs[2].status == NOT


def test_a_model_that_seeds_do_not_move_may_be_named(files):
    edit(files["runs"], lambda t: t[(t["model"] == "mlp") | (t["seed"] == 0)])
    with pytest.raises(ReviewError, match="one validation seed of gbm"):
        review.review(**files)
    files["rule"].write_text(files["rule"].read_text() + "deterministic: [gbm]\n")
    found = review.review(**files)
    assert found.seed_sd == pytest.approx(0.0053, abs=5e-5)
    assert "n = 5 seeds" in found.noises()[0] and "from 5 seeds" in found.noises()[1]


def test_seeds_of_another_split_are_no_spread(files):
    def one(table):
        return table[(table["split"] != "validation") | (table["seed"] == 0)]

    def more(table):
        again = table[table["split"] != "validation"]
        return pd.concat([table, again.assign(seed=again["seed"] + 9)])

    edit(files["runs"], one)
    edit(files["runs"], more)
    with pytest.raises(ReviewError, match="one validation seed of mlp"):
        review.review(**files)


WRONG = {
    "columns": ("runs", lambda t: t.rename(columns={"value": "loss"}), "expected the columns"),
    "number": ("runs", lambda t: t.assign(value="high"), "line 2: value is no number"),
    "twice": ("runs", lambda t: pd.concat([t, t[:1]]), "two rows for model mlp, seed 0"),
    "metrics": ("runs", lambda t: t.assign(metric=["a", "b"] * (len(t) // 2)), "one metric"),
    "metric": ("runs", lambda t: t.assign(metric="gini"), "lower gini is better is not known"),
    "one model": ("runs", lambda t: t[t["model"] == "mlp"], "no run of gbm"),
    "validation": ("runs", lambda t: t[t["split"] != "validation"], "no row of the split validat"),
    "one seed": ("runs", lambda t: t[t["seed"] == 0], "one validation seed of mlp says nothing"),
    "split": (
        "runs",
        lambda t: t[(t["split"] == "validation") | (t["model"] == "mlp")],
        "the split shifted has no run of gbm",
    ),
    "folds": (
        "runs",
        lambda t: t.assign(fold=(t["model"] == "mlp").astype(int)),
        "the split validation has fold 1 of mlp and not of gbm; folds are paired",
    ),
    "unpaired": ("blocks", lambda t: t[1:], "block 1 has no loss of gbm"),
    "block twice": ("blocks", lambda t: pd.concat([t, t[:1]]), "two losses of gbm for block 1"),
    "one block": ("blocks", lambda t: t[:2], "two are needed"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_one_sentence(files, capsys, wrong):
    name, change, expected = WRONG[wrong]
    edit(files[name], change)
    words = [str(files["runs"]), "--blocks", str(files["blocks"]), "--rule", str(files["rule"])]
    assert main(["review", *words]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1
    assert expected in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("challenger: lstm", "no run of lstm; models there: mlp, gbm"),
        ("bar: 2", "unknown name 'bar'"),
        ("gap_over_sd: many", "numbers above 0"),
        ("smallest_difference: 0.1", "numbers above 0"),
        ("{challenger: mlp, baseline: mlp}", "both mlp"),
        ("gap_over_sd: .inf", "finite numbers above 0"),
        ("lower_is_better:", "lower_is_better is true or false"),
        ('lower_is_better: "false"', "lower_is_better is true or false"),
        ("deterministic: gbm-large", "deterministic is a list of models"),
        ("deterministic:", "deterministic is a list of models"),
        ("deterministic: [gmb]", "no run of gmb, which the rule names under deterministic"),
        ("deterministic: [mlp]", "seeds move mlp, which the rule names under deterministic"),
        ("shifted: [shifted]", "shifted is the name of one split"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused(files, capsys, line, expected):
    files["rule"].write_text(line + "\n")
    assert main(["review", str(files["runs"]), "--rule", str(files["rule"])]) == 1
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("first", [0, 1])
def test_a_comma_too_many_is_told_with_its_line(files, capsys, first):
    head, *rows = files["runs"].read_text().splitlines()
    rows = [*rows[:first], *(row + "," for row in rows[first:])]
    files["runs"].write_text("\n".join([head, *rows]) + "\n")
    assert main(["review", str(files["runs"])]) == 1
    assert f"line {first + 2}: more fields than the header" in capsys.readouterr().err


def test_a_gap_is_shown_where_nothing_else_gives_it_a_scale(files):
    """Seeds that move nothing, and losses of any unit."""
    for scale in (1.0, 1e-5):
        values = {"mlp": 0.5361 * scale, "gbm": 0.5402 * scale}
        edit(files["runs"], lambda t, v=values: t.assign(value=t["model"].map(v)))
        (_, passed, found, _), *_ = review.review(files["runs"]).checks()
        assert passed
        shown = float(found.split()[1].rstrip(";,").replace(",", ""))
        assert shown == pytest.approx(0.0041 * scale, rel=0.02)


def test_files_that_are_not_there_or_no_table(files, capsys):
    assert main(["review", "nowhere.csv"]) == 1
    assert "nowhere.csv" in capsys.readouterr().err
    files["runs"].write_text("")
    assert main(["review", str(files["runs"])]) == 1
    assert "no table of comma-separated values" in capsys.readouterr().err


def test_the_command_reviews_the_toy_log_by_itself(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["review"]) == 0
    said = capsys.readouterr().out
    for word in ("0.42 seed sd", "[0.0029, 0.0137], 1.62 seed sd", "Recommend mlp: no.", "rough"):
        assert word in said
    assert max(map(len, said.splitlines())) <= 100


def test_the_page_reviews_what_its_parameters_name(monkeypatch):
    monkeypatch.chdir(ROOT)
    found = review.open_chapter(parameters.resolve("review"))
    shown = {title: review.as_html(found, title) for title in review.sections(found)}
    assert shown["Checks"].count("<td") == 9 and ">fail<" in shown["Checks"]
    assert all(shown[title].startswith("<ul>") for title in shown if title != "Checks")
