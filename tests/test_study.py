"""A study: its identity, its artifacts, the one opening of the test part, kills, verification."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from disturbed import MARK, SAME, marked, until

from mononet import data, machine, parameters, recording, statistics
from mononet.record import Record, RecordError
from mononet.study import Study, slice_mask

SMALL = {
    "n_trials": "6",
    "round_size": "3",
    "cv_folds": "2",
    "search_seeds": "2",
    "max_epochs": "3",
    "max_depth": "1",
    "final_seeds": "3",
    "partitions": "2",
    "engine": "eager",
}


def small(results, model="split", **changes):
    pairs = SMALL | {"results_dir": str(results)} | changes
    return Study.of("auto_mpg", model, parameters.resolve("auto_mpg", pairs=pairs.items()))


# --- identity -------------------------------------------------------------------------------


def test_the_identity_follows_what_the_numbers_depend_on(tmp_path):
    base = small(tmp_path)
    for name, value in {
        "n_trials": "7",
        "final_seeds": "4",
        "cv_seed": "1",
        "objective": "mean",
        "optimizer": "adam",
        "inputs": "quantile",
        "max_depth": "2",
        "max_rows": "100",
    }.items():
        assert small(tmp_path, **{name: value}).identity != base.identity, name


def test_the_identity_does_not_follow_the_machine(tmp_path):
    base = small(tmp_path)
    for name, value in {"workers": "7", "engine": "compiled", "data_dir": "null"}.items():
        assert small(tmp_path, **{name: value}).identity == base.identity, name


def test_values_at_their_default_are_left_out_of_the_content(tmp_path):
    content = small(tmp_path).content
    assert "optimizer" not in content["training"]
    assert "objective" not in content["search"]
    assert small(tmp_path, optimizer="adam").content["training"] == {"optimizer": "adam"}


def test_the_search_has_an_identity_of_its_own(tmp_path):
    base, more = small(tmp_path), small(tmp_path, final_seeds="4")
    assert base.search_identity == more.search_identity
    assert base.search_identity != small(tmp_path, n_trials="7").search_identity


def test_a_page_finds_its_studies_without_the_data(tmp_path, monkeypatch):
    monkeypatch.delenv("MONONET_DATA_DIR", raising=False)
    values = parameters.resolve("blog", pairs=[("results_dir", str(tmp_path))])
    assert Study.of("blog", "split", values).fingerprint == data.SPECS["blog"].fingerprint


# --- artifacts --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return recording.record(small(tmp_path_factory.mktemp("studies")))


def test_the_artifact_set_is_complete(recorded):
    expected = {*SAME, "study.json", "cost.csv"}
    assert set(recorded.record.names()) == expected
    assert recorded.complete


def test_runs_hold_every_fresh_partition_and_every_final_seed(recorded):
    validation, test = recorded.runs("validation"), recorded.runs("test")
    assert len(validation) == 2 * 2 * 3  # partitions × folds × seeds
    assert set(validation["partition"]) == {1, 2}
    assert list(test["seed"]) == [1000, 1001, 1002]
    assert (test["epochs"] == recorded.selected.stage).all()


def test_the_test_metric_follows_from_the_predictions(recorded):
    arrays = recorded.record.read_npz("predictions.npz")
    assert arrays["predictions"].dtype == np.float32
    assert arrays["predictions"].shape == (3, 78)
    again = statistics.metric("mse", arrays["target"], arrays["predictions"])
    np.testing.assert_allclose(again, recorded.runs("test")["value"])


def test_slices_are_those_of_the_rule(recorded):
    arrays, rule = recorded.record.read_npz("predictions.npz"), parameters.read_rule("auto_mpg")
    assert list(arrays["slices_names"]) == [part["name"] for part in rule["slices"]]
    dataset = recording.load(recorded)
    part = dataset.open_test(recorded.ledger, recorded, "final", "again")
    for mask, entry in zip(arrays["slices"], rule["slices"], strict=True):
        expected = slice_mask(entry, dataset.features, dataset.X_train, part.X)
        np.testing.assert_array_equal(mask, expected)


def test_effects_respect_the_indicator(recorded):
    effects = recorded.record.read_csv("effects.csv")
    assert set(effects["feature"]) == {"Displacement", "Horsepower", "Weight"}
    for _, curve in effects.groupby(["feature", "seed"]):
        falls = np.diff(curve.sort_values("value")["mean"])
        assert (falls <= 1e-4).all()


def test_the_test_part_is_opened_once_and_after_the_choices(recorded):
    ledger = data.read_ledger(recorded.ledger)
    final = ledger[ledger["kind"] == "final"]
    assert list(ledger["kind"]) == ["planning", "final"]
    assert list(final["study"]) == [recorded.identity]
    assert list(final["configuration"]) == [recorded.configuration_hash]


def test_recording_again_changes_nothing(recorded):
    before = {name: recorded.record.read_text(name) for name in ("trials.csv", "study.json")}
    recording.record(recorded)
    assert before == {name: recorded.record.read_text(name) for name in before}
    assert len(data.read_ledger(recorded.ledger)) == 2


def test_more_final_seeds_take_the_search_over(recorded):
    results = recorded.parameters["results_dir"]
    searched = []
    more = recording.record(small(results, final_seeds="4"), on_trial=searched.append)
    assert searched == []
    assert more.record.read_text("trials.csv") == recorded.record.read_text("trials.csv")
    pd.testing.assert_frame_equal(more.runs("test")[:3], recorded.runs("test"))


@pytest.mark.parametrize(
    ("model", "first", "taken"), [("split", "4", 3), ("linear", "11", 6), ("linear", "2", 0)]
)
def test_a_search_goes_on_from_the_whole_rounds_of_a_shorter_or_longer_one(
    tmp_path, recorded, model, first, taken
):
    undisturbed = recorded if model == "split" else recording.record(small(tmp_path / "one", model))
    begun = recording.record(small(tmp_path / "two", model, n_trials=first, final_seeds="2"))
    searched = []
    study = recording.record(small(tmp_path / "two", model), on_trial=searched.append)
    assert len(searched) == 6 - taken
    for artifact in SAME:
        ours, theirs = ((each.folder / artifact).read_bytes() for each in (study, undisturbed))
        assert ours == theirs, artifact
    cost, before = (each.record.read_csv("cost.csv") for each in (study, begun))
    over = cost[cost["step"] == "search taken over"]
    assert over["seconds"].tolist() == before["seconds"][: taken // 3].tolist()
    runs = undisturbed.record.read_csv("cost.csv").query("step == 'search'")["runs"]
    assert cost.loc[cost["step"].str.startswith("search"), "runs"].tolist() == runs.tolist()
    assert study.validation_level() is None
    made = study.description["provenance"].get("taken_over", {"study": None, "trials": 0})
    assert made["trials"] == taken
    assert made["study"] == (begun.folder.name if taken else None)


@pytest.mark.parametrize(
    "change", [{"search_seed": "1"}, {"objective": "mean"}, {"max_epochs": "2"}]
)
def test_another_search_is_not_taken_over(tmp_path, change):
    recording.record(small(tmp_path, "linear", **change))
    searched = []
    study = recording.record(small(tmp_path, "linear", n_trials="3"), on_trial=searched.append)
    assert len(searched) == 3
    assert "taken_over" not in study.description["provenance"]


@pytest.mark.parametrize("model", ["split", "hgb-monotone", "linear"])
def test_workers_leave_no_trace_in_the_numbers(tmp_path, model):
    alone, shared = (
        recording.record(small(tmp_path / workers, model, workers=workers)) for workers in "13"
    )
    for artifact in SAME:
        one, three = ((study.folder / artifact).read_bytes() for study in (alone, shared))
        assert one == three, artifact
    assert described(alone.folder) == described(shared.folder)


def test_a_search_taken_over_is_shown_as_such(recorded, capfd):
    best = f"best objective {recorded.selected.objective:.4g}"
    recording.record_visibly(small(recorded.parameters["results_dir"], final_seeds="5"))
    said = capfd.readouterr().err.splitlines()
    assert said[0] == f"auto_mpg split: goes on from 6 of 6 trials, {best}"
    assert said[1] == f"auto_mpg split: {best}; learning curves"


def test_a_study_that_another_process_writes_is_left_alone(tmp_path):
    study = small(tmp_path)
    with Record.locked(study.folder), pytest.raises(RecordError, match="another process"):
        recording.record(study)


def test_numbers_chosen_after_a_look_are_validation_level(recorded, tmp_path):
    assert recorded.validation_level() is None
    assert "inputs" in small(tmp_path, inputs="quantile").validation_level()
    twice = replace(recorded, parameters=dict(recorded.parameters))
    ledger = data.read_ledger(recorded.ledger)
    second = ledger.iloc[-1].copy()
    second["study"], second["configuration"] = recorded.identity, "another"
    ledger.loc[len(ledger)] = second
    other = tmp_path / "auto_mpg"
    other.mkdir()
    ledger.to_csv(other / "test_access.csv", index=False)
    twice.parameters["results_dir"] = str(tmp_path)
    assert "more than one configuration" in twice.validation_level()


# --- verification -----------------------------------------------------------------------------


def test_a_recorded_study_verifies(recorded):
    found = recording.verify(recorded)
    assert found.passed
    assert found.seeds == (1000, 1001)


def spoiled(recorded, tmp_path, shift):
    """A copy of a study whose recorded predictions and values were moved."""
    values = dict(recorded.parameters) | {"results_dir": str(tmp_path)}
    copy = replace(recorded, parameters=values)
    with Record.locked(copy.folder) as folder:
        for name in ("trials.csv", "runs.csv"):
            folder.write_csv(name, recorded.record.read_csv(name))
        folder.write_json("study.json", recorded.description)
        arrays = recorded.record.read_npz("predictions.npz")
        arrays["predictions"] = arrays["predictions"] + np.float32(shift)
        folder.write_npz("predictions.npz", **arrays)
        runs = folder.read_csv("runs.csv")
        runs.loc[runs["split"] == "test", "value"] += 1000.0
        folder.write_csv("runs.csv", runs)
    return copy


def test_a_study_that_does_not_come_out_fails(recorded, tmp_path):
    found = recording.verify(spoiled(recorded, tmp_path, 1.0))
    assert not found.passed
    assert not found.same_bits


def provenance_moved(study, **changes):
    """Have a study's record say that it was made with something else."""
    described = study.description
    described["provenance"] |= changes
    with Record.locked(study.folder) as folder:
        folder.write_json("study.json", described)


@pytest.mark.parametrize(("shift", "passed"), [(0.0, True), (1e-4, True), (100.0, False)])
def test_a_study_of_another_kind_of_machine_is_held_to_its_mean(tmp_path, shift, passed):
    study = recording.record(small(tmp_path / "whole", "linear"))
    provenance_moved(study, engine="compiled", processor="an abacus")
    with Record.locked(study.folder) as folder:
        arrays = folder.read_npz("predictions.npz")
        arrays["predictions"] = arrays["predictions"] + np.float32(shift)
        folder.write_npz("predictions.npz", **arrays)
        runs = folder.read_csv("runs.csv")
        runs.loc[runs["split"] == "test", "value"] += shift
        folder.write_csv("runs.csv", runs)
    found = recording.verify(study)
    assert found.passed == passed
    assert found.same_bits == (shift == 0)
    assert ("not bit-comparable (another processor)" in found.outcome) == (shift != 0)


def test_a_study_taken_up_on_another_kind_of_machine_says_so(tmp_path, monkeypatch):
    study, here = small(tmp_path), machine.kind()

    def interrupted(trials):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(recording._Recording, "curves", interrupted)
        recording.record(study)
    study = replace(study, fingerprint=recording.load(study).fingerprint)
    begun = study.description["provenance"]
    provenance_moved(study, processor="an abacus")
    made = recording.record(study).description["provenance"]
    assert made["begun_with"] == here | {"processor": "an abacus"}
    assert {name: made[name] for name in here} == here
    assert made["started"] == begun["started"]
    assert recording.verify(study).outcome == "the same predictions, bit for bit"


def test_an_edited_table_is_named(recorded, tmp_path):
    copy = spoiled(recorded, tmp_path, 0.0)
    runs = copy.folder / "runs.csv"
    runs.write_text(runs.read_text().replace("test,0,0,1000", "test,0,0,1001"))
    with pytest.raises(RecordError, match=r"runs\.csv is not what was recorded"):
        recording.verify(copy)


def test_an_unfinished_study_cannot_be_verified(tmp_path):
    with pytest.raises(recording.StudyError, match="no complete study"):
        recording.verify(small(tmp_path))


# --- kills ------------------------------------------------------------------------------------


def command(results, workers):
    pairs = SMALL | {"results_dir": str(results), "workers": str(workers)}
    typed = [word for name, value in pairs.items() for word in ("-p", name, value)]
    return [sys.executable, "-m", "mononet", "study", "auto_mpg", "split", *typed]


def run(results, workers, mark, after=None):
    """Run the command, killed so many seconds after it took the study's lock.

    Returns whether it was killed, and the seconds from the lock to the end.
    """
    process = subprocess.Popen(
        command(results, workers),
        env=os.environ | {MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    lock = small(results).folder / ".lock"
    while process.poll() is None:
        if lock.exists() and lock.read_text() == str(process.pid):
            break
        time.sleep(0.002)
    start = time.monotonic()
    try:
        assert process.wait(after) == 0
        return False, time.monotonic() - start
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True, time.monotonic() - start


def described(folder):
    description = json.loads((folder / "study.json").read_text())
    del description["provenance"]
    return description


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_study_ends_with_the_bytes_of_an_undisturbed_one(tmp_path, workers):
    mark = uuid.uuid4().hex
    killed, whole = run(tmp_path / "undisturbed", 1, mark)
    assert not killed
    moments, kills = random.Random(workers), 0
    for _ in range(6):
        kills += run(tmp_path / "killed", workers, mark, moments.uniform(0, whole / 4))[0]
        # A worker that was only starting comes to its end within seconds.
        assert until(lambda: not marked(mark), 10)
    assert kills >= 3
    run(tmp_path / "killed", workers, mark)
    name = small(tmp_path).folder.name
    first, second = (tmp_path / run / "auto_mpg" / name for run in ("undisturbed", "killed"))
    for artifact in SAME:
        assert (first / artifact).read_bytes() == (second / artifact).read_bytes(), artifact
    assert described(first) == described(second)
    ledger = data.read_ledger(second.parent / "test_access.csv")
    assert list(ledger["kind"]) == ["planning", "final"]
