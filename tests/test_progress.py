"""Progress: a bar where it can be drawn in place, lines everywhere else."""

import io
import sys

import pytest

from mononet import progress
from mononet.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test moves by hand."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    return now


def test_a_log_file_gets_a_line_a_round(capsys, clock):
    with Progress("auto_mpg split", 6, "trial", every=3) as shown:
        for number in range(6):
            clock[0] += 10
            shown.advance(f"best objective {10 - number}")
        shown.say("learning curves")
    assert capsys.readouterr().err.splitlines() == [
        "auto_mpg split: 3 of 6 trials, 00:30 spent, 00:30 left, best objective 8",
        "auto_mpg split: 6 of 6 trials, 01:00 spent, 00:00 left, best objective 5",
        "auto_mpg split: learning curves",
    ]


def test_time_left_counts_only_what_was_done_now(capsys, clock):
    with Progress("x", 10, "trial") as shown:
        shown.resume(7, "best objective 8")
        clock[0] += 5
        shown.advance()
    assert capsys.readouterr().err.splitlines() == [
        "x: goes on from 7 of 10 trials, best objective 8",
        "x: 8 of 10 trials, 00:05 spent, 00:10 left",
    ]


def test_the_last_unit_is_told_whatever_the_round(capsys):
    with Progress("x", 5, "trial", every=3) as shown:
        for _ in range(5):
            shown.advance()
    assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines()] == [
        "x: 3 of 5 trials",
        "x: 5 of 5 trials",
    ]


def test_a_bar_goes_on_from_what_was_there(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("x", 10, "trial") as shown:
        shown.resume(7)
        shown.advance()
    last = terminal.getvalue().split("\r")[-1]
    assert "80%" in last and "8/10" in last


def test_a_terminal_gets_a_bar(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("auto_mpg split", 2, "trial") as shown:
        for _ in range(2):
            shown.advance("best objective 8")
        shown.say("learning curves")
    said = terminal.getvalue()
    assert "\r" in said and "2/2" in said and "learning curves" in said
    assert said.count("\n") == 1
