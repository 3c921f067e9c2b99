"""The ledger of openings: a CSV file, a row a time that the test part of a dataset was opened.

Rows are only ever added, under a lock and in whole files; row 0 may say what was seen before. The
checksum beside it tells a row that was edited by hand from one that was recorded. A ledger without
a checksum is read as it is, and gets one with its next row.
"""

import io
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from mononet.record import Record, RecordError

COLUMNS = ["time", "kind", "study", "model", "reason", "configuration", "revision"]
KINDS = ("final", "diagnostic", "planning")
ONCE = ["kind", "study", "configuration"]  # what makes two openings the same


class LedgerError(Exception):
    """A file is no ledger; the message is one clear sentence."""


class Shelf(Record):
    """The folder of a ledger."""

    remedy = (
        "restore it, or, where rows were merged on purpose, renew its checksum there with "
        "`sha256sum test_access.csv > checksums.txt`"
    )


def read_openings(ledger: str | Path) -> pd.DataFrame:
    """Return the openings recorded in `ledger`, a row each, all text; empty when it is missing.

    Raises LedgerError where the file is no ledger, or not the one whose checksum was recorded.
    """
    ledger = Path(ledger)
    shelf = Shelf(ledger.parent)
    try:
        sealed = shelf.has(ledger.name)
        text = shelf.read_text(ledger.name) if sealed else ledger.read_text(encoding="utf-8")
        table = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    except (FileNotFoundError, NotADirectoryError):
        return pd.DataFrame(columns=COLUMNS, dtype=str)
    except (RecordError, OSError) as error:
        raise LedgerError(str(error)) from error
    except ValueError as error:  # no text, or no table
        found = str(error).partition("\n")[0]
        raise LedgerError(f"{ledger}: expected a table of openings, found that {found}.") from error
    if list(table) != COLUMNS:
        raise LedgerError(f"{ledger}: expected columns {COLUMNS}, found {list(table)}.")
    return table


def record_opening(ledger: Path, row: list[str], seen_before: str) -> None:
    """Append [kind, study, model, reason, configuration, revision] under a lock, once.

    The same study, configuration and kind again writes nothing, so that a folder that is only
    readable will do. A new ledger begins with `seen_before`, unless that is empty. Raises
    LedgerError where the file is no ledger, was edited, or cannot be written.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    added = pd.Series([now, *row], COLUMNS)

    def recorded(table: pd.DataFrame) -> bool:
        return (table[ONCE] == added[ONCE]).all(axis="columns").any()

    if recorded(read_openings(ledger)):
        return
    try:
        with Shelf.locked(ledger.parent, wait=True) as shelf:
            table = read_openings(ledger)
            if recorded(table):
                return
            if table.empty and seen_before:
                table.loc[0] = [now, "planning", "", "", seen_before, "", ""]
            table.loc[len(table)] = added
            shelf.write_csv(ledger.name, table)
    except RecordError as error:
        raise LedgerError(str(error)) from error
