"""What one step of one run costs: alone and in stacks, compiled and eager, against the plain loop.

``make cost`` prints a table. Both sides are measured in turns, because speeds on a shared machine
drift: a ratio within one turn holds where microseconds do not. The median over turns is shown.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from mononet.network import Architecture
from mononet.training import Hyperparameters, Run, Stack, Table, one_thread

ROOT = Path(__file__).parent.parent
PUBLIC = ROOT / "build" / "public-mononet"
PACKAGE = "mononet==0.0.0a1"
WIDTH, BATCH, DEPTH, ROWS = 21, 16, 2, 256
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
            str(WIDTH),
            str(BATCH),
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


def make_stack(runs: int, engine: str) -> Stack:
    rng = np.random.default_rng(0)
    table = Table(rng.normal(size=(ROWS, 3)), rng.normal(size=(ROWS, 4)), rng.normal(size=ROWS))
    hyper = Hyperparameters(WIDTH, BATCH, 1e-3, 1e-2, dropout=0.1)
    rows = np.arange(ROWS)
    stack = Stack(
        Architecture("mixed", DEPTH),
        hyper,
        "regression",
        table,
        [Run(rows, rows, (seed,)) for seed in range(runs)],
        engine=engine,
    )
    stack.train_epoch(0)  # compiles
    return stack


def microseconds(stack: Stack) -> float:
    """Of one step of one run, draws included."""
    epochs = max(1, 240 // len(stack.runs) // 2)
    start = time.perf_counter()
    for epoch in range(epochs):
        stack.train_epoch(epoch)
    steps = epochs * (ROWS // BATCH) * stack.asked
    return (time.perf_counter() - start) / steps * 1e6


def main() -> None:
    stacks = {(e, n): make_stack(n, e) for e in ("compiled", "eager") for n in STACKS}
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
        f"One step of one run: width {WIDTH}, depth {DEPTH}, mixed, batch {BATCH}, one thread, "
        f"median of {TURNS} turns.\nPlain loop over {PACKAGE}, float64, one run at a time: "
        f"{statistics.median(frame['plain']):,.0f} µs. Ours is float32.\n"
    )
    print("| engine | stacked runs | µs a step and run | times the plain loop's speed |")
    print("|---|---|---|---|")
    for (engine, runs), row in table.iterrows():
        print(f"| {engine} | {runs} | {row['us']:.1f} | {row['ratio']:.0f} |")


if __name__ == "__main__":
    main()
