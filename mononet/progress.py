"""How far a long work is: a bar in a terminal, whole lines now and then anywhere else."""

from __future__ import annotations

import sys
import time

from tqdm import tqdm


class Progress:
    """Units done out of ``total``, the time left, and a note.

    A terminal gets a bar that is drawn in place. A log file or a notebook gets a line after every
    ``every`` units instead: there, a bar would be thousands of carriage returns.
    """

    def __init__(self, name: str, total: int, unit: str, *, every: int = 1):
        self.name, self.total, self.unit, self.every = name, total, unit, every
        self.before = self.done = 0
        self.start = time.perf_counter()
        self.bar = None
        if sys.stderr.isatty():
            self.bar = tqdm(total=total, unit=unit, desc=name, dynamic_ncols=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_) -> None:
        if self.bar is not None:
            self.bar.close()

    def resume(self, done: int, note: str = "") -> None:
        """So many units were there before; the time left is judged by those to come."""
        self.before = self.done = done
        if self.bar is not None:
            self.bar.initial = self.bar.n = done
        self.say(f"goes on from {done} of {self.total} {self.unit}s", note)

    def advance(self, note: str = "") -> None:
        """One more unit is done."""
        self.done += 1
        if self.bar is not None:
            self.bar.set_postfix_str(note, refresh=False)
            self.bar.update()
        elif self.done % self.every == 0 or self.done == self.total:
            spent = time.perf_counter() - self.start
            left = spent / (self.done - self.before) * (self.total - self.done)
            times = f"{tqdm.format_interval(spent)} spent, {tqdm.format_interval(left)} left"
            self._line(f"{self.done} of {self.total} {self.unit}s, {times}", note)

    def say(self, *notes: str) -> None:
        """What is being done now, apart from the units."""
        if self.bar is not None:
            self.bar.set_postfix_str(_listed(notes))
        else:
            self._line(*notes)

    def _line(self, *parts: str) -> None:
        print(f"{self.name}: {_listed(parts)}", file=sys.stderr, flush=True)


def _listed(parts: tuple[str, ...]) -> str:
    return ", ".join(filter(None, parts))
