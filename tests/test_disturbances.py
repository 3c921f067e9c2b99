"""Kills, full and read-only disks, edits by hand, two writers, dead workers, clocks that jump.

After each of them nothing recorded is lost, no process is left behind, and the study ends with the
bytes of one that nothing happened to.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from disturbed import MARK, SAME, SMALL, kill, marked, recorded, small, start, until

from mononet import data, recording
from mononet.commands import main
from mononet.ledger import read_openings, record_opening
from mononet.record import Record, RecordError
from mononet.workers import DeadWorkerError

KILLS = 20
REFIT = "refit and the one opening of the test part"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return recording.record(small(tmp_path_factory.mktemp("undisturbed")))


@pytest.fixture
def mark():
    """A mark for the processes of one test; none of them may be left when it ends."""
    mark = uuid.uuid4().hex
    yield mark
    assert until(lambda: not marked(mark), 10)


def described(study):
    return {k: v for k, v in study.description.items() if k != "provenance"}


def assert_as(undisturbed, study):
    """The bytes of the undisturbed study, and one opening of the test part."""
    study.record.check()
    for name in SAME:
        expected, found = ((s.folder / name).read_bytes() for s in (undisturbed, study))
        assert found == expected, name
    assert described(study) == described(undisturbed)
    kinds = [kind for kind in read_openings(study.ledger)["kind"] if kind != "diagnostic"]
    assert kinds == ["planning", "final"]


# --- kills ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_at_any_moment_of_a_search(undisturbed, tmp_path, mark):
    moments, kills, number, trials = random.Random(0), 0, 0, ""
    begin = time.perf_counter()
    recording.record(small(tmp_path / "timed"))
    whole = time.perf_counter() - begin
    while kills < KILLS:
        study = small(tmp_path / str(number))
        process, told = start(recorded, study, mark)
        killed = kill(process, told, "trial", moments.uniform(0, whole / 2))
        now = study.record.read_text("trials.csv") if study.record.has("trials.csv") else ""
        assert now.startswith(trials)
        trials, kills = now, kills + killed
        if not killed:
            assert process.exitcode == 0
            assert_as(undisturbed, study)
            number, trials = number + 1, ""
    assert_as(undisturbed, recording.record(small(tmp_path / str(number))))


class StoppedError(Exception):
    pass


def stop_before_the_refit(results):
    def on_step(step):
        if step == REFIT:
            raise StoppedError

    with pytest.raises(StoppedError):
        recording.record(small(results), on_step=on_step)


@pytest.mark.slow
def test_killed_at_any_moment_of_the_refit(undisturbed, tmp_path, mark):
    stop_before_the_refit(tmp_path / "before")
    shutil.copytree(tmp_path / "before", tmp_path / "timed")
    begin = time.perf_counter()
    recording.record(small(tmp_path / "timed"))
    whole = time.perf_counter() - begin
    moments, kills = random.Random(1), 0
    for number in range(KILLS):
        study = small(tmp_path / str(number))
        shutil.copytree(tmp_path / "before", tmp_path / str(number))
        process, told = start(recorded, study, mark)
        kills += kill(process, told, REFIT, moments.uniform(0, whole))
        assert study.record.read_text("trials.csv") == undisturbed.record.read_text("trials.csv")
        assert_as(undisturbed, recording.record(study))
    assert kills > KILLS / 4


def keep_writing(folder, first, tell):
    with Record.locked(folder) as record:
        for number in range(first, 10**6):
            record.write_text("a.txt", f"{number}\n" * 5000)
            tell.send(number)


def keep_opening(ledger, first, tell):
    for number in range(first, 10**6):
        record_opening(ledger, ["final", f"s{number}", "split", "report", "c", "r"], "seen")
        tell.send(number)


def last_told(told):
    """The last number that a killed process told, or -1."""
    last = -1
    try:
        while True:
            last = told.recv()
    except (EOFError, OSError):
        return last


@pytest.mark.slow
@pytest.mark.parametrize("function", [keep_writing, keep_opening])
def test_killed_at_any_moment_of_a_write(tmp_path, function):
    moments, first = random.Random(2), 0
    where = tmp_path / "test_access.csv" if function is keep_opening else tmp_path
    for _ in range(KILLS):
        process, told = start(function, where, first)
        told.recv()
        time.sleep(moments.uniform(0, 0.1))
        process.kill()
        process.join()
        written = max(first, last_told(told))
        if function is keep_writing:
            lines = Record(tmp_path).read_text("a.txt").split()
            assert len(lines) == 5000 and len(set(lines)) == 1
            found = int(lines[0])
        else:
            studies = read_openings(where)["study"].tolist()
            assert studies == ["", *(f"s{number}" for number in range(len(studies) - 1))]
            found = len(studies) - 2
        assert written <= found <= written + 1  # told is recorded; one more may be
        first = found + 1


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_round(undisturbed, tmp_path, mark):
    study = small(tmp_path, workers=2)
    process, _told = start(recorded, study, mark)
    assert until(lambda: len(marked(mark, "popen_loky")) == 2)
    os.kill(marked(mark, "popen_loky")[0], signal.SIGKILL)
    process.join()
    assert process.exitcode == 0
    assert_as(undisturbed, study)


def test_workers_that_keep_dying_are_one_sentence(tmp_path, monkeypatch, capsys):
    def dies(*_):
        raise DeadWorkerError("a worker died twice")

    monkeypatch.setattr("mononet.search.in_parallel", dies)
    assert main(["study", "auto_mpg", "linear", "-f", "quick", "-p", "results_dir", str(tmp_path)])
    assert capsys.readouterr().err.endswith("error: a worker died twice\n")


# --- Ctrl-C -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_ctrl_c_ends_everything_and_says_how_to_go_on(tmp_path, mark):
    changes = {"n_trials": 30, "workers": 2}
    study = small(tmp_path / "interrupted", **changes)
    words = [word for name in SMALL for word in ("-p", name, str(study.parameters[name]))]
    words += ["-p", "results_dir", str(tmp_path / "interrupted")]
    process = subprocess.Popen(
        [sys.executable, "-m", "mononet", "study", "auto_mpg", "linear", *words],
        env=os.environ | {MARK: mark},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Ignored where the tests run in the background, and inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert until(lambda: study.record.has("trials.csv") or process.poll() is not None, 300)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does: all processes at once
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "Traceback" not in said and "Error" not in said
    assert said.strip().endswith("the same command continues where it stopped")
    assert re.search(r"auto_mpg linear: 3 of 30 trials, .* left, best objective", said)
    assert "\r" not in said
    assert until(lambda: not marked(mark), 10)
    before = study.record.read_text("trials.csv")
    assert recording.record(study).record.read_text("trials.csv").startswith(before)
    alone = recording.record(small(tmp_path / "alone", **changes | {"workers": 1}))
    assert_as(alone, study)


def test_ctrl_c_while_the_libraries_load_is_one_line(mark):
    process = subprocess.Popen(
        [sys.executable, "-m", "mononet", "data"],
        env=os.environ | {MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    loaded = Path(f"/proc/{process.pid}/maps")
    assert until(lambda: "numpy" in loaded.read_text() or process.poll() is not None, 60)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert (process.returncode, said) == (130, "interrupted before anything was begun\n")


# --- disks ------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path):
    """A small file system of its own, and a function that mounts it anew with other options."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        subprocess.run(command, check=True, capture_output=True)

    try:
        mount("size=8k")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here; it takes root")
    yield folder, lambda options: mount(f"remount,{options}")
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


REFUSALS = (RecordError, data.DataError)


@pytest.mark.slow
def test_a_disk_that_is_full_again_and_again(undisturbed, disk):
    folder, remount = disk
    full, names = 0, set()
    for kilobytes in range(8, 1000, 4):
        remount(f"size={kilobytes}k")
        study = small(folder)
        try:
            recording.record(study)
            break
        except REFUSALS as error:
            assert "No space left on device" in str(error)
            full += 1
        assert not list(study.folder.glob("*.new"))
        assert names <= set(study.record.names())  # what was recorded stays
        study.record.check()
        names = set(study.record.names())
    assert full >= 3
    assert_as(undisturbed, study)


@pytest.mark.slow
def test_a_folder_that_can_only_be_read(undisturbed, disk):
    folder, remount = disk
    remount("size=10m")
    study = recording.record(small(folder))
    stop_before_the_refit(folder / "unfinished")
    remount("ro")
    try:
        assert recording.verify(study).passed
        assert_as(undisturbed, study)
        for other in (small(folder, n_trials=6), small(folder / "unfinished")):
            with pytest.raises(RecordError, match=r"cannot write in .*Read-only file system"):
                recording.record(other)
    finally:
        remount("rw")
    assert_as(undisturbed, recording.record(small(folder / "unfinished")))


# --- two at once ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_process_on_the_same_study_leaves(undisturbed, tmp_path, mark):
    study = small(tmp_path)
    first, told = start(recorded, study, mark)
    assert told.recv() == "trial"
    os.kill(first.pid, signal.SIGSTOP)
    second, said = start(recorded, study, mark)
    assert re.search(rf"is being written by another process \(pid {first.pid}\)", said.recv())
    second.join()
    os.kill(first.pid, signal.SIGCONT)
    first.join()
    assert (first.exitcode, second.exitcode) == (0, 3)
    assert_as(undisturbed, study)


@pytest.mark.slow
def test_two_studies_at_once_share_a_ledger(undisturbed, tmp_path, mark):
    studies = [small(tmp_path), small(tmp_path, n_trials=9)]
    started = [start(recorded, study, mark) for study in studies]
    for process, _told in started:
        process.join()
        assert process.exitcode == 0
    ledger = data.read_ledger(studies[0].ledger)
    assert sorted(ledger["study"]) == sorted(["", *(study.identity for study in studies)])
    for name in SAME:
        assert (studies[0].folder / name).read_bytes() == (undisturbed.folder / name).read_bytes()


# --- edits ------------------------------------------------------------------------------------

DAMAGES = {
    "cut": lambda content: content[: len(content) // 2],
    "edited": lambda content: content.replace(content[-8:-4], b"1234"),
    "emptied": lambda content: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["trials.csv", "study.json", "predictions.npz", "runs.csv"])
def test_a_damaged_file_is_named(undisturbed, tmp_path, name, damage):
    shutil.copytree(undisturbed.parameters["results_dir"], tmp_path / "results")
    study = small(tmp_path / "results")
    path = study.folder / name
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    for asked in (recording.verify, recording.record):
        with pytest.raises(RecordError, match=rf"{re.escape(name)} is not what was recorded"):
            asked(study)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_ledger_is_named(undisturbed, tmp_path, damage):
    shutil.copytree(undisturbed.parameters["results_dir"], tmp_path / "results")
    study = small(tmp_path / "results")
    study.ledger.write_bytes(DAMAGES[damage](study.ledger.read_bytes()))
    with pytest.raises(data.DataError, match=r"test_access\.csv is not what was recorded"):
        recording.verify(study)


@pytest.mark.parametrize("name", ["trials.csv", "study.json"])
def test_an_unfinished_study_with_a_damaged_file_is_not_continued(tmp_path, name):
    stop_before_the_refit(tmp_path)
    study = small(tmp_path)
    path = study.folder / name
    path.write_bytes(DAMAGES["cut"](path.read_bytes()))
    before = {each.name: each.read_bytes() for each in study.folder.iterdir() if each.suffix}
    with pytest.raises(RecordError, match=rf"{re.escape(name)} is not what was recorded"):
        recording.record(study)
    after = {each.name: each.read_bytes() for each in study.folder.iterdir() if each.suffix}
    assert after == before
    assert not study.ledger.exists()


# --- clocks -----------------------------------------------------------------------------------


def test_a_clock_that_jumps_moves_nothing_but_provenance(undisturbed, tmp_path, monkeypatch):
    jumps = random.Random(3)
    for name in ("time", "time_ns"):
        kind = float if name == "time" else int
        monkeypatch.setattr(time, name, lambda kind=kind: kind(jumps.uniform(-1e9, 4e9)))
    monkeypatch.setattr(time, "strftime", lambda *_: "1970-01-01T00:00:00Z")
    study = recording.record(small(tmp_path))
    assert_as(undisturbed, study)
    assert (study.record.read_csv("cost.csv")["seconds"] >= 0).all()
    provenance = json.loads(study.record.read_text("study.json"))["provenance"]
    assert provenance["started"] == "1970-01-01T00:00:00Z"
