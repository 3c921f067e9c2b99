"""The folder of artifacts: what it refuses, what it survives, and that bytes repeat."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mononet import record as module
from mononet.record import Record, RecordError, canonical, identity, source_revision

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


class Killed(BaseException):
    """Stands for SIGKILL: no handler of the code under test may act on it."""


def test_canonical_and_identity_values():
    content = {"b": (1, 2.0), "a": {"z": None, "y": np.float64(0.1), "x": np.arange(2)}}
    assert canonical(content) == '{"a":{"x":[0,1],"y":0.1,"z":null},"b":[1,2.0]}'
    assert identity(content) == hashlib.sha256(canonical(content).encode()).hexdigest()
    assert identity({"a": 1, "b": 2}) == identity({"b": 2, "a": 1})
    assert identity({"a": 1}) != identity({"a": True})


@pytest.mark.parametrize("content", [{"a": float("nan")}, [np.inf], {1: 2}, {"a": {1, 2}}])
def test_canonical_refuses_what_json_cannot_say(content):
    with pytest.raises(RecordError, match="no canonical JSON"):
        canonical(content)


@given(content=json_values)
def test_canonical_reads_back(content):
    assert json.loads(canonical(content)) == content
    assert canonical(json.loads(canonical(content))) == canonical(content)


def test_every_kind_of_file(tmp_path):
    frame = pd.DataFrame({"x": [0.1, np.nan, np.inf], "model": ["NA", "a,b", "c"], "k": [1, 2, 3]})
    with Record.locked(tmp_path / "new" / "folder") as record:
        record.write_text("note.txt", "42 µs\n")
        record.write_json("study.json", {"z": 1, "a": [np.float32(0.5), np.nan], "n": np.int64(3)})
        record.write_csv("runs.csv", frame)
        record.write_npz("p.npz", y=np.arange(6, dtype=np.float32).reshape(2, 3), on=[True, False])
    record = Record(tmp_path / "new" / "folder")
    assert record.names() == ["note.txt", "p.npz", "runs.csv", "study.json"]
    assert record.has("p.npz") and not record.has("q.npz")
    assert record.read_text("note.txt") == "42 µs\n"
    assert record.read_json("study.json") == {"z": 1, "a": [0.5, None], "n": 3}
    assert list(record.read_json("study.json")) == ["z", "a", "n"]
    pd.testing.assert_frame_equal(record.read_csv("runs.csv"), frame)
    arrays = record.read_npz("p.npz")
    assert arrays["y"].dtype == np.float32 and arrays["y"].shape == (2, 3)
    assert arrays["on"].tolist() == [True, False]


def test_checksums_are_those_of_sha256sum(tmp_path):
    with Record.locked(tmp_path) as record:
        record.write_text("b.txt", "b")
        record.write_text("a.txt", "a")
    check = subprocess.run(["sha256sum", "--check", "checksums.txt"], cwd=tmp_path, check=False)
    assert check.returncode == 0
    lines = (tmp_path / "checksums.txt").read_text().splitlines()
    assert [line.split("  ")[1] for line in lines] == ["a.txt", "b.txt"]


@given(content=json_values)
@settings(max_examples=20, deadline=None)
def test_json_round_trip(tmp_path_factory, content):
    with Record.locked(tmp_path_factory.getbasetemp() / "json") as record:
        record.write_json("c.json", content)
        assert record.read_json("c.json") == content


@given(values=st.lists(st.floats(), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_csv_keeps_every_bit_of_a_float(tmp_path_factory, values):
    with Record.locked(tmp_path_factory.getbasetemp() / "csv") as record:
        record.write_csv("c.csv", pd.DataFrame({"value": values}))
        np.testing.assert_array_equal(record.read_csv("c.csv")["value"].astype(float), values)


@given(array=hnp.arrays(st.sampled_from([np.float32, np.int64, bool]), hnp.array_shapes()))
@settings(max_examples=20, deadline=None)
def test_npz_round_trip(tmp_path_factory, array):
    with Record.locked(tmp_path_factory.getbasetemp() / "npz") as record:
        record.write_npz("c.npz", array=array)
        found = record.read_npz("c.npz")["array"]
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_same_content_same_bytes(tmp_path, monkeypatch):
    folders = [tmp_path / "one", tmp_path / "two"]
    for number, folder in enumerate(folders):
        monkeypatch.setattr(time, "time", lambda number=number: 1e9 * (number + 1))
        with Record.locked(folder) as record:
            record.write_npz("p.npz", y=np.linspace(0, 1, 50), x=np.eye(3))
            record.write_csv("t.csv", pd.DataFrame({"x": [1 / 3, 2e-308], "y": [True, False]}))
            record.write_json("j.json", {"x": 1 / 3})
    for name in ("p.npz", "t.csv", "j.json", "checksums.txt"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


def test_objects_are_refused(tmp_path):
    with Record.locked(tmp_path) as record:
        with pytest.raises(RecordError, match="'bad' holds Python objects"):
            record.write_npz("p.npz", bad=np.array([None, "x"], dtype=object))
        with pytest.raises(RecordError, match=r"j\.json cannot be written as JSON"):
            record.write_json("j.json", {"x": object()})
        assert record.names() == []


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "/etc/x", "..", ".lock", "", "checksums.txt", "x.new", "x\ny"]
)
def test_names_stay_in_the_folder(tmp_path, name):
    with Record.locked(tmp_path / "f") as record, pytest.raises(RecordError, match="the name"):
        record.write_text(name, "x")
    with pytest.raises(RecordError, match="not a recorded file"):
        Record(tmp_path / "f").read_text(name)


def test_hand_edited_truncated_and_missing_files_are_named(tmp_path):
    with Record.locked(tmp_path) as record:
        for name in ("edited.csv", "cut.csv", "gone.csv"):
            record.write_csv(name, pd.DataFrame({"x": [1.0, 2.0]}))
    expected = hashlib.sha256(b"x\n1.0\n2.0\n").hexdigest()
    edited = b"x\n1.0\n2.5\n"
    (tmp_path / "edited.csv").write_bytes(edited)
    (tmp_path / "cut.csv").write_bytes(b"x\n1")
    (tmp_path / "gone.csv").unlink()
    found = hashlib.sha256(edited).hexdigest()
    with pytest.raises(RecordError, match=rf"edited\.csv .*{expected}, found {found} \(10 bytes"):
        record.read_csv("edited.csv")
    with pytest.raises(RecordError, match=r"cut\.csv is not what was recorded.*\(3 bytes\)"):
        record.read_csv("cut.csv")
    with pytest.raises(RecordError, match=r"gone\.csv .* found no such file"):
        record.read_csv("gone.csv")
    (tmp_path / "stray.csv").write_text("x\n1\n")
    with pytest.raises(RecordError, match=r"stray\.csv is not a recorded file .*: cut\.csv, edi"):
        record.read_csv("stray.csv")


def test_damaged_checksums_are_named(tmp_path):
    (tmp_path / "checksums.txt").write_text("not a checksum\n")
    with pytest.raises(RecordError, match=r"checksums\.txt, line 1: expected a SHA-256"):
        Record(tmp_path).names()


def test_a_folder_that_does_not_exist_holds_nothing(tmp_path):
    record = Record(tmp_path / "absent")
    assert record.names() == [] and not record.has("study.json")
    with pytest.raises(RecordError, match="recorded there: nothing"):
        record.read_json("study.json")
    assert not (tmp_path / "absent").exists()


def test_writing_needs_the_lock(tmp_path):
    with pytest.raises(RecordError, match=r"write under Record\.locked"):
        Record(tmp_path).write_text("a.txt", "x")
    with Record.locked(tmp_path) as record:
        record.write_text("a.txt", "x")
    with pytest.raises(RecordError, match=r"write under Record\.locked"):
        record.write_text("a.txt", "y")


@pytest.mark.parametrize("first_write", [True, False])
@pytest.mark.parametrize("function", ["replace", "fsync"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_every_step_leaves_old_or_new(tmp_path, monkeypatch, first_write, function, when):
    real, calls, deadly = getattr(os, function), [], [-1]

    def lethal(*arguments):
        calls.append(arguments)
        if len(calls) == deadly[0] and when == "before":
            raise Killed
        real(*arguments)
        if len(calls) == deadly[0]:
            raise Killed

    monkeypatch.setattr(module.os, function, lethal)
    seen = set()
    for step in range(1, 20):
        folder = tmp_path / str(step)
        deadly[0] = -1
        with Record.locked(folder) as record:
            record.write_text("b.txt", "other")
            if not first_write:
                record.write_text("a.txt", "old")
        calls.clear()
        deadly[0] = step
        survived = False
        try:
            with Record.locked(folder) as record:
                record.write_text("a.txt", "new")
                survived = True
        except Killed:
            pass
        deadly[0] = -1

        def state(record):
            assert record.read_text("b.txt") == "other"
            return record.read_text("a.txt") if record.has("a.txt") else None

        without_lock = state(Record(folder))
        seen.add(without_lock)
        with Record.locked(folder) as record:
            assert state(record) == without_lock
            record.write_text("a.txt", "third")
            assert state(record) == "third"
        assert not list(folder.glob("*.new"))
        if survived:
            break
    assert survived and step > 2
    # Once the checksums are renamed the new content stands, so that case never sees the old one.
    after_entry = (function, when) == ("replace", "after")
    assert seen == ({"new"} if after_entry else {None if first_write else "old", "new"})


def test_a_write_after_a_failed_one_keeps_the_entered_content(tmp_path, monkeypatch):
    """Killed after the digest is entered, then killed again in the next write's first step."""
    with Record.locked(tmp_path) as record:
        record.write_text("a.txt", "old")
        real = os.replace
        monkeypatch.setattr(
            module.os,
            "replace",
            lambda source, target: (
                real(source, target) if Path(target).name == "checksums.txt" else _kill()
            ),
        )
        with pytest.raises(Killed):
            record.write_text("a.txt", "new")
        monkeypatch.setattr(module.os, "replace", real)
        monkeypatch.setattr(module.os, "fsync", lambda descriptor: _kill())
        with pytest.raises(Killed):
            record.write_text("a.txt", "third")
        assert record.read_text("a.txt") == "new"


def _kill():
    raise Killed


def test_full_disk_is_one_sentence_and_leaves_the_record(tmp_path, monkeypatch):
    with Record.locked(tmp_path) as record:
        record.write_text("a.txt", "old")
        with monkeypatch.context() as patch:

            def full(descriptor):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            patch.setattr(module.os, "fsync", full)
            with pytest.raises(RecordError, match=r"could not write a\.txt .*No space left.*inta"):
                record.write_text("a.txt", "new")
        assert record.read_text("a.txt") == "old"
        assert not list(tmp_path.glob("*.new"))
        record.write_text("a.txt", "new")
    assert Record(tmp_path).read_text("a.txt") == "new"


def test_read_only_folder_is_one_sentence(tmp_path, monkeypatch):
    def refused(self, *arguments, **keywords):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(module.Path, "open", refused)
    with (
        pytest.raises(RecordError, match=r"cannot write in .*Permission denied; make that folder"),
        Record.locked(tmp_path),
    ):
        pass


def test_a_file_in_the_way_is_one_sentence(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(RecordError, match="cannot write in"), Record.locked(tmp_path / "taken"):
        pass


HOLD = """
import sys
from mononet.record import Record
with Record.locked(sys.argv[1]) as record:
    record.write_text("a.txt", "first")
    print("locked", flush=True)
    sys.stdin.readline()
    record.write_text("a.txt", "last")
"""


def test_two_processes_one_folder(tmp_path):
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        cwd=module.PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout.readline() == "locked\n"
    match = rf"is being written by another process \(pid {other.pid}\)"
    with pytest.raises(RecordError, match=match), Record.locked(tmp_path):
        pass
    assert Record(tmp_path).read_text("a.txt") == "first"
    other.stdin.write("\n")
    other.stdin.flush()
    with Record.locked(tmp_path, wait=True) as record:
        assert record.read_text("a.txt") == "last"
    assert other.wait(timeout=10) == 0
    other.stdin.close()
    other.stdout.close()


OVERWRITE = """
import sys
from mononet.record import Record
with Record.locked(sys.argv[1]) as record:
    number = 0
    while True:
        record.write_text("a.txt", str(number) * 5000)
        record.write_text("b.txt", str(number) * 5000)
        number += 1
        print(number, flush=True)
"""


def test_reading_beside_a_writer_that_is_killed(tmp_path):
    """A reader without the lock never sees a mismatch, nor does anyone after a real SIGKILL."""
    writer = subprocess.Popen(
        [sys.executable, "-c", OVERWRITE, str(tmp_path)],
        cwd=module.PROJECT,
        stdout=subprocess.PIPE,
    )
    writer.stdout.readline()
    reader = Record(tmp_path)
    for _ in range(200):
        assert len(reader.read_text("a.txt")) % 5000 == 0
    writer.kill()
    writer.wait()
    writer.stdout.close()
    assert len(reader.read_text("a.txt")) % 5000 == len(reader.read_text("b.txt")) % 5000 == 0
    with Record.locked(tmp_path) as record:
        record.write_text("a.txt", "again")
        assert record.read_text("a.txt") == "again"


def git(folder, *arguments):
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(folder)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_source_revision(tmp_path, monkeypatch):
    project = (tmp_path / "project").resolve()
    (project / "mononet").mkdir(parents=True)
    monkeypatch.setattr(module, "PROJECT", project)
    assert source_revision() == "unknown"
    git(project, "init", "--quiet")
    (project / "mononet" / "a.py").write_text("1\n")
    (project / "README.md").write_text("1\n")
    assert source_revision() == "unknown"
    git(project, "add", ".")
    git(project, "commit", "--quiet", "-m", "first")
    head = git(project, "rev-parse", "HEAD")
    (project / "mononet" / "untracked.py").write_text("1\n")
    (project / "README.md").write_text("2\n")
    assert source_revision() == head
    (project / "mononet" / "a.py").write_text("2\n")
    assert source_revision() == head + "+dirty"


def test_source_revision_of_a_folder_inside_another_checkout(tmp_path, monkeypatch):
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "not ours")
    (tmp_path / "inside").mkdir()
    monkeypatch.setattr(module, "PROJECT", (tmp_path / "inside").resolve())
    assert source_revision() == "unknown"
