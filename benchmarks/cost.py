"""What one step of one run costs: alone and in stacks, compiled and eager, against the plain loop.

``make cost`` prints a table. Both sides are measured in turns, because speeds on a shared machine
drift: a ratio within one turn holds where microseconds do not. The median over turns is shown.
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pandas as pd

from mononet.cost import Cell, make_stack, seconds_of
from mononet.training import Stack, one_thread

ROOT = Path(__file__).parent.parent
PUBLIC = ROOT / "build" / "public-mononet"
PACKAGE = "mononet==0.0.0a1"
ROWS = 256  # those of the plain loop
STACKS = (1, 5, 15, 60, 240)
TURNS = 5


def child() -> subprocess.Popen:
    """The plain loop, in a process whose import path has the public package in front of ours."""
    if not PUBLIC.exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*install, "--target", str(PUBLIC), PACKAGE], check=True)
    return subprocess.Popen(
        [
            sys.executable,
            "-P",
            str(Path(__file__).with_name("plain_loop.py")),
            str(Cell.width),
            str(Cell.batch_size),
        ],
        env=os.environ | {"PYTHONPATH": str(PUBLIC)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(plain: subprocess.Popen) -> float:
    plain.stdin.write("\n")
    plain.stdin.flush()
    return float(plain.stdout.readline())


def microseconds(stack: Stack) -> float:
    """Of one step of one run, draws included."""
    epoch = itertools.count(1)
    seconds = seconds_of(lambda: stack.train_epoch(next(epoch)), 0.2)
    return 1e6 * seconds / (stack.draws[0].steps * stack.asked)


def main() -> None:
    stacks = {
        (engine, runs): make_stack(Cell(engine=engine, runs=runs, rows=ROWS))
        for engine in ("compiled", "eager")
        for runs in STACKS
    }
    plain, turns = child(), []
    with one_thread():
        for _ in range(TURNS):
            reference = ask(plain)
            for (engine, runs), stack in stacks.items():
                value = microseconds(stack)
                turns.append((engine, runs, value, reference / value, reference))
    plain.stdin.close()
    frame = pd.DataFrame(turns, columns=["engine", "runs", "us", "ratio", "plain"])
    table = frame.groupby(["engine", "runs"], sort=False)[["us", "ratio"]].median()
    print(
        f"One step of one run: width {Cell.width}, depth {Cell.depth}, mixed, batch "
        f"{Cell.batch_size}, one thread, median of {TURNS} turns.\n"
        f"Plain loop over {PACKAGE}, float64, one run at a time: "
        f"{statistics.median(frame['plain']):,.0f} µs. Ours is float32.\n"
    )
    print("| engine | stacked runs | µs a step and run | times the plain loop's speed |")
    print("|---|---|---|---|")
    for (engine, runs), row in table.iterrows():
        print(f"| {engine} | {runs} | {row['us']:.1f} | {row['ratio']:.0f} |")


if __name__ == "__main__":
    main()
