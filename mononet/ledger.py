"""The ledger of openings: a CSV file, a row a time that the test part of a dataset was opened.

Rows are only ever added, under a lock and in whole files; row 0 may say what was seen before.
"""

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

COLUMNS = ["time", "kind", "study", "model", "reason", "configuration", "revision"]
KINDS = ("final", "diagnostic", "planning")


class LedgerError(Exception):
    """A file is no ledger; the message is one clear sentence."""


def read_openings(ledger: str | Path) -> pd.DataFrame:
    """Return the openings recorded in `ledger`, a row each, all text; empty when it is missing."""
    if not Path(ledger).exists():
        return pd.DataFrame(columns=COLUMNS, dtype=str)
    try:
        table = pd.read_csv(ledger, dtype=str, keep_default_na=False)
    except (ValueError, OSError) as error:
        found = str(error).partition("\n")[0]
        raise LedgerError(f"{ledger}: expected a table of openings, found that {found}.") from error
    if list(table) != COLUMNS:
        raise LedgerError(f"{ledger}: expected columns {COLUMNS}, found {list(table)}.")
    return table


def record_opening(ledger: Path, row: list[str], seen_before: str) -> None:
    """Append [kind, study, model, reason, configuration, revision] under a lock, once.

    The same study, configuration and kind again adds no row. A new ledger begins with
    `seen_before`, unless that is empty. Raises LedgerError where the file is no ledger.
    """
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with ledger.with_name(f"{ledger.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        table = read_openings(ledger)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        if table.empty and seen_before:
            table.loc[0] = [now, "planning", "", "", seen_before, "", ""]
        added = pd.Series([now, *row], COLUMNS)
        once = ["kind", "study", "configuration"]
        if (table[once] == added[once]).all(axis="columns").any():
            return
        table.loc[len(table)] = added
        _write_whole(ledger, table.to_csv(index=False, lineterminator="\n"))


def _write_whole(path: Path, text: str) -> None:
    """Replace `path` in one step, so that neither a kill nor a full disk leaves a part of it."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with temporary.open("w", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
