"""A folder of artifacts: whole-file writes, checksums beside them, one writer at a time.

A recorded file is one that `checksums.txt` (lines "sha256  name", as `sha256sum` prints them)
names; every read verifies it. A process killed at any moment leaves each file with its old or its
new content, never a mixture: see `Record._write`.
"""

import errno
import fcntl
import hashlib
import io
import json
import math
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pandas as pd

PROJECT = Path(__file__).resolve().parents[1]
CHECKSUMS = "checksums.txt"
PENDING = ".new"


class RecordError(Exception):
    """A recorded file, or the folder that holds it, is not as it should be."""


def canonical(content) -> str:
    """Canonical JSON of `content`: sorted keys, no spaces, finite numbers only.

    NumPy scalars and arrays count as the Python values they hold, tuples as lists.
    Raises RecordError for NaN, infinities, keys that are not strings and other types.
    """
    try:
        plain = _plain(content, finite=False)
        return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RecordError(f"this content has no canonical JSON: {error}") from error


def identity(content) -> str:
    """SHA-256 (64 hexadecimal digits) of the canonical JSON of `content`."""
    return hashlib.sha256(canonical(content).encode()).hexdigest()


class Record:
    """The recorded files of `folder`; writing needs the lock that `Record.locked` takes."""

    remedy = "restore the file, or remove the folder and record it again"

    def __init__(self, folder):
        self.folder = Path(folder)
        self._writable = False

    @classmethod
    @contextmanager
    def locked(cls, folder, wait=False) -> Iterator["Record"]:
        """Create `folder` if need be and be its only writer until the block ends.

        While another process writes there: wait for it, or (wait=False) raise RecordError with
        its process number. What a killed writer left is put in order first.
        """
        record = cls(folder)
        with _one_sentence(record.folder):
            record.folder.mkdir(parents=True, exist_ok=True)
            # Unbuffered: closing it must not try once more what a full disk has refused.
            lock = (record.folder / ".lock").open("ab+", buffering=0)
        with lock:
            with _one_sentence(record.folder):
                _take(lock, record.folder, wait)
                record._settle()
            record._writable = True
            try:
                yield record
            finally:
                record._writable = False
                lock.truncate(0)

    def names(self) -> list[str]:
        """The recorded files, sorted."""
        return sorted(self._checksums())

    def has(self, name) -> bool:
        """Whether `name` is a recorded file."""
        return name in self._checksums()

    def check(self, *names):
        """Hold recorded files (all, or those named) to their checksums; RecordError names the
        first that differs."""
        for name in names or self.names():
            self._read(name)

    def read_text(self, name) -> str:
        """A recorded text file."""
        return self._read(name).decode()

    def read_json(self, name):
        """A recorded JSON file."""
        return json.loads(self._read(name))

    def read_csv(self, name) -> pd.DataFrame:
        """A recorded table; only an empty field is missing, floats come back bit for bit."""
        return pd.read_csv(
            io.BytesIO(self._read(name)),
            keep_default_na=False,
            na_values=[""],
        )

    def read_npz(self, name) -> dict[str, np.ndarray]:
        """The arrays of a recorded archive, by name; nothing in it is unpickled."""
        with np.load(io.BytesIO(self._read(name)), allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}

    def write_text(self, name, text):
        """Record `text` as UTF-8."""
        self._write(name, text.encode())

    def write_json(self, name, content):
        """Record `content`, keys in the order given; a number that is not finite becomes null."""
        try:
            text = json.dumps(_plain(content, finite=True), indent=2, allow_nan=False)
        except TypeError as error:
            raise RecordError(f"{name} cannot be written as JSON: {error}") from error
        self._write(name, f"{text}\n".encode())

    def write_csv(self, name, frame):
        """Record a table without its index; floats as the shortest text that reads back exactly."""
        self._write(name, frame.to_csv(index=False, lineterminator="\n").encode())

    def write_npz(self, name, /, **arrays):
        """Record arrays as a compressed archive without time stamps: same arrays, same bytes."""
        arrays = {key: np.asarray(array) for key, array in arrays.items()}
        for key, array in arrays.items():
            if array.dtype.hasobject:
                raise RecordError(
                    f"{name}: array {key!r} holds Python objects, which only pickle could write; "
                    "give it a numeric, boolean or fixed-width text type"
                )
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        self._write(name, buffer.getvalue())

    def _checksums(self) -> dict[str, str]:
        """Recorded name → SHA-256."""
        path = self.folder / CHECKSUMS
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        for number, line in enumerate(lines, 1):
            if not re.fullmatch(r"[0-9a-f]{64}  \S+", line):
                raise RecordError(
                    f"{path}, line {number}: expected a SHA-256, two spaces and a file name, "
                    f"found {line[:80]!r}"
                )
        return {line[66:]: line[:64] for line in lines}

    def _read(self, name) -> bytes:
        path = self.folder / name
        # A writer may be between its two renames right now: a mismatch counts once it stays.
        for pause in (0, 0.01, 0.05, 0.2):
            time.sleep(pause)
            expected = self._checksums().get(name)
            if expected is None:
                raise RecordError(
                    f"{name} is not a recorded file of {self.folder}; "
                    f"recorded there: {', '.join(self.names()) or 'nothing'}"
                )
            found = "no such file"
            for candidate in (path, path.with_name(name + PENDING)):
                with suppress(FileNotFoundError):
                    content = candidate.read_bytes()
                    digest = hashlib.sha256(content).hexdigest()
                    if digest == expected:
                        return content
                    if candidate == path:
                        found = f"{digest} ({len(content):,} bytes)"
        raise RecordError(
            f"{path} is not what was recorded: expected SHA-256 {expected}, found {found}; "
            f"{self.remedy}"
        )

    def _write(self, name, content: bytes):
        """Record `content` under `name` in three whole steps.

        The content goes to `name.new`, its digest into `checksums.txt`, and `name.new` is renamed
        to `name`. Before the second step the old file stands; after it the new content does, in
        `name.new`, where readers find it, until the rename or the next writer puts it in place.
        """
        if not self._writable:
            raise RecordError(f"{self.folder} is open for reading; write under Record.locked")
        plain = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name)
        if not plain or name == CHECKSUMS or name.endswith(PENDING):
            raise RecordError(f"{name!r} cannot be the name of a recorded file")
        try:
            self._settle()
            pending = self._whole(name, content)
            sums = self._checksums() | {name: hashlib.sha256(content).hexdigest()}
            lines = "".join(f"{sums[each]}  {each}\n" for each in sorted(sums))
            self._rename(self._whole(CHECKSUMS, lines.encode()), CHECKSUMS)
            self._rename(pending, name)
        except OSError as error:
            with suppress(OSError):
                self._settle()
            raise RecordError(
                f"could not write {name} in {self.folder}: {error.strerror or error}; "
                "what was recorded there before is intact"
            ) from error

    def _whole(self, name, content: bytes) -> Path:
        """Write `name.new` and have it on the disk."""
        pending = self.folder / (name + PENDING)
        with pending.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return pending

    def _rename(self, pending: Path, name):
        pending.replace(self.folder / name)
        directory = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _settle(self):
        """Put in place what a killed writer had already entered; delete what it had not."""
        for pending in sorted(self.folder.glob(f"*{PENDING}")):
            name = pending.name.removesuffix(PENDING)
            digest = hashlib.sha256(pending.read_bytes()).hexdigest()
            if self._checksums().get(name) == digest:
                self._rename(pending, name)
            else:
                pending.unlink()


def source_revision() -> str:
    """The project's git commit, "+dirty" where its code or parameters differ from it.

    "unknown" where the project is not a git checkout of its own, or git is missing.
    """
    git = ["git", "-C", str(PROJECT)]
    try:
        where = subprocess.run(
            [*git, "rev-parse", "--show-toplevel", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
        )
        top, commit = where.stdout.splitlines()
        watched = ["mononet", "params", "requirements.txt"]
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", *watched], check=False)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    if Path(top).resolve() != PROJECT:
        return "unknown"
    return commit + ("+dirty" if changed.returncode else "")


@contextmanager
def _one_sentence(folder) -> Iterator[None]:
    """Raise what the operating system refuses in `folder` as a RecordError."""
    try:
        yield
    except OSError as error:
        raise RecordError(
            f"cannot write in {folder}: {error.strerror}; "
            "make that folder writable or choose another one"
        ) from error


def _take(lock, folder, wait):
    """Lock an open file, or say who holds it; the holder's process number is its content."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        lock.seek(0)
        raise RecordError(
            f"{folder} is being written by another process "
            f"(pid {lock.read().decode() or 'unknown'})"
        ) from error
    lock.truncate(0)
    lock.write(str(os.getpid()).encode())


def _plain(content, finite):
    """Python's own JSON types for `content`; with `finite`, None for NaN and infinities."""
    if isinstance(content, np.ndarray | np.generic):
        content = content.tolist()
    if isinstance(content, dict):
        for key in content:
            if not isinstance(key, str):
                raise TypeError(f"key {key!r} is not a string")
        return {key: _plain(value, finite) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value, finite) for value in content]
    if finite and isinstance(content, float) and not math.isfinite(content):
        return None
    return content
