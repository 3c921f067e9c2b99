"""The ledger of openings: each once, whole, and none lost."""

import multiprocessing
import os

import pytest

from mononet.ledger import COLUMNS, LedgerError, read_openings, record_opening

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
    assert [file.name for file in ledger.parent.glob("*") if file.suffix != ".lock"] == [
        "test_access.csv"
    ]


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
    with pytest.raises(OSError, match="No space"):
        record_opening(ledger, _row("diagnostic"), _SEEN)
    assert ledger.read_bytes() == before
    assert not list(tmp_path.glob("*.tmp"))


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
