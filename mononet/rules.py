"""Whether a decision rule came first: its hash and commit against the studies and the ledger.

A rule that was written, or changed, after the first final opening of a test part is *a description,
not a rule*: it may have been written with the result in view.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from mononet.parameters import PARAMS, rule_sha256


@dataclass(frozen=True)
class Standing:
    """``rule`` False: a description, not a rule. ``said`` is the reason, one sentence."""

    rule: bool
    said: str

    @property
    def name(self) -> str:
        return "a rule" if self.rule else "a description, not a rule"


def standing(
    dataset: str, recorded: Mapping[str, str], ledger: pd.DataFrame, folder: str | Path = PARAMS
) -> Standing:
    """What the rule of a dataset is, from the hashes that studies `recorded` (name → SHA-256 at
    the start of their search), the ledger of openings, and the git history of the file.

    Without a git history nothing but the hashes can be compared, and the sentence says so.
    """
    path = Path(folder) / f"{dataset}.rule.yaml"
    now = rule_sha256(dataset, folder)
    other = [name for name, value in recorded.items() if value != now]
    if other:
        return Standing(
            False,
            f"{path.name} was changed after the search of {' and '.join(other)} had started: its "
            "SHA-256 is not the recorded one.",
        )
    same = (
        "every search recorded the SHA-256 that the file has now" if recorded else "no search began"
    )
    final = ledger.loc[ledger["kind"] == "final", "time"]
    opened = min(map(datetime.fromisoformat, final), default=None)
    if not _has_history(path):
        return Standing(True, f"No git history is here to date {path.name}; {same}.")
    commit = first_commit(path, now)
    if commit is None:
        return Standing(False, f"{path.name}, as it is now, is in no commit; {same}.")
    when = f"committed {_printed(commit[1])} ({commit[0][:8]})"
    if opened is None:
        return Standing(True, f"{path.name} was {when}; no test part has been opened; {same}.")
    after = commit[1] > opened
    planned = ""
    if not after and "planning" in set(ledger["kind"]):
        planned = ", and after the looks that the ledger's row of planning tells of"
    said = (
        f"{path.name} was {when}, {'after' if after else 'before'} the first final opening at "
        f"{_printed(opened)}{planned}; {same}."
    )
    return Standing(not after, said)


def first_commit(path: Path, sha256: str) -> tuple[str, datetime] | None:
    """The earliest commit in which the file has that hash: its name and time; None without one."""
    told = _git(path.parent, "log", "--format=%H %cI", "--", path.name).decode()
    for line in reversed(told.splitlines()):
        commit, time = line.split()
        content = _git(path.parent, "show", f"{commit}:./{path.name}")
        if hashlib.sha256(content).hexdigest() == sha256:
            return commit, datetime.fromisoformat(time)
    return None


def _has_history(path: Path) -> bool:
    """Whether the file lies in a git checkout of its own project whose history is whole."""
    try:
        told = _git(path.parent, "rev-parse", "--show-toplevel", "--is-shallow-repository")
    except (OSError, subprocess.CalledProcessError):
        return False
    top, shallow = told.decode().splitlines()
    return shallow == "false" and Path(top).resolve() == path.resolve().parents[1]


def _git(folder: Path, *arguments: str) -> bytes:
    # A file that a commit deleted has no content there: `show` fails, and nothing is no match.
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, check=arguments[0] != "show"
    )
    return done.stdout


def _printed(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
