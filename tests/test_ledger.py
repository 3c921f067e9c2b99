"""The ledger of openings: each once, whole, and none lost."""

import multiprocessing
import os

import pytest

from mononet.ledger import COLUMNS, LedgerError, read_openings, record_opening
from mononet.record import Record

_SEEN = "scores of a prototype"


def _row(kind="final", study="s1", reason="report"):
    return [kind, study, "split", reason, "c1", "r1"]


def test_ledger_begins_with_what_was_seen_and_counts_an_opening_once(tmp_path):
    ledger, reason = tmp_path / "new" / "test_access.csv", 'a report, "final"\nof two lines'
    assert read_openings(ledger).empty
    assert list(read_openings(ledger)) == COLUMNS
    for _ in range(2):
        record_opening(ledger, _row(reason=reason), _SEEN)
    record_opening(ledger, _row("diagnostic", reason=""), _SEEN)
    table = read_openings(ledger)
    assert table.kind.tolist() == ["planning", "final", "diagnostic"]
    assert table.reason.tolist() == [_SEEN, reason, ""]
    told = table.loc[1, ["study", "model", "configuration", "revision"]]
    assert told.tolist() == ["s1", "split", "c1", "r1"]
    files = sorted(file.name for file in ledger.parent.iterdir())
    assert files == [".lock", "checksums.txt", "test_access.csv"]


def test_nothing_seen_before_adds_no_row(tmp_path):
    record_opening(tmp_path / "test_access.csv", _row(), "")
    assert read_openings(tmp_path / "test_access.csv").kind.tolist() == ["final"]


def test_a_full_disk_leaves_the_ledger_as_it_was(tmp_path, monkeypatch):
    ledger = tmp_path / "test_access.csv"
    record_opening(ledger, _row(), _SEEN)
    before = ledger.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LedgerError, match=r"could not write test_access\.csv .*No space left"):
        record_opening(ledger, _row("diagnostic"), _SEEN)
    assert ledger.read_bytes() == before
    assert not list(tmp_path.glob("*.new"))


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path):
    ledger = tmp_path / "test_access.csv"
    ledger.write_text("a,b\n1,2\n")
    with pytest.raises(LedgerError, match="expected columns"):
        record_opening(ledger, _row(), _SEEN)
    assert ledger.read_text() == "a,b\n1,2\n"


def _open(ledger, number):
    record_opening(ledger, _row(study=f"s{number}"), _SEEN)


def test_openings_at_once_are_all_recorded(tmp_path):
    ledger = tmp_path / "test_access.csv"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_open, args=(ledger, number)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(read_openings(ledger).study) == ["", *(f"s{number}" for number in range(6))]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("final", "diagnostic", 1),
        lambda text: text[: len(text) // 2],
        lambda text: "".join(text.splitlines(keepends=True)[:-1]),
        lambda text: "",
    ],
    ids=["edited", "cut", "a row less", "emptied"],
)
def test_a_ledger_edited_by_hand_is_named_and_left_alone(tmp_path, damage):
    ledger = tmp_path / "test_access.csv"
    for study in ("s1", "s2"):
        record_opening(ledger, _row(study=study), _SEEN)
    ledger.write_text(damage(ledger.read_text()))
    before = ledger.read_bytes()
    with pytest.raises(LedgerError, match=r"test_access\.csv is not what was recorded.*sha256sum"):
        read_openings(ledger)
    with pytest.raises(LedgerError, match="is not what was recorded"):
        record_opening(ledger, _row(study="s3"), _SEEN)
    assert ledger.read_bytes() == before


def test_a_ledger_that_is_gone_is_missed(tmp_path):
    ledger = tmp_path / "test_access.csv"
    record_opening(ledger, _row(), _SEEN)
    ledger.unlink()
    with pytest.raises(LedgerError, match="found no such file"):
        read_openings(ledger)


def test_a_ledger_without_a_checksum_gets_one_with_its_next_row(tmp_path):
    ledger = tmp_path / "test_access.csv"
    record_opening(ledger, _row(), _SEEN)
    (tmp_path / "checksums.txt").unlink()
    assert len(read_openings(ledger)) == 2
    record_opening(ledger, _row(study="s2"), _SEEN)
    assert Record(tmp_path).names() == ["test_access.csv"]
    assert read_openings(ledger).study.tolist() == ["", "s1", "s2"]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b'"'])
def test_bytes_that_are_no_table_are_refused(tmp_path, content):
    ledger = tmp_path / "test_access.csv"
    ledger.write_bytes(content)
    with pytest.raises(LedgerError, match="expected a table of openings"):
        record_opening(ledger, _row(), _SEEN)


def test_a_recorded_opening_writes_nothing(tmp_path, monkeypatch):
    """So that `verify` works where results can only be read."""
    ledger = tmp_path / "test_access.csv"
    record_opening(ledger, _row(), _SEEN)
    before = {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()
    }
    monkeypatch.setattr(Record, "locked", None)
    record_opening(ledger, _row(), _SEEN)
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    assert after == before
    assert read_openings(ledger).study.tolist() == ["", "s1"]
