"""What any recorded bits came from: engine, versions, processor, source revision."""

from __future__ import annotations

import platform
import time
from importlib import metadata
from pathlib import Path

import torch

from mononet.record import source_revision
from mononet.training import ENGINE_VERSION

CPUINFO = Path("/proc/cpuinfo")
LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "optuna", "pandas", "joblib")


def kind() -> dict:
    """What must agree between two machines for the same training to give the same bits."""
    return {
        "engine_version": ENGINE_VERSION,
        "versions": {name: metadata.version(name) for name in LIBRARIES},
        "python": platform.python_version(),
        "processor": processor(CPUINFO.read_text() if CPUINFO.exists() else ""),
    }


def environment(engine: str) -> dict:
    """Engine, versions, processor, source revision and time: provenance, never identity."""
    return {
        "engine": engine,
        **kind(),
        "source_revision": source_revision(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def differences(then: dict, now: dict) -> list[str]:
    """The entries of ``kind`` in which two machines differ, as a reader would name them."""
    return [f"another {name.replace('_', ' ')}" for name in kind() if then[name] != now[name]]


def taken_up(made: dict) -> dict:
    """The provenance of what is continued here. On another kind of machine it names this kind, that
    of what is trained last and verified later, and the first one under ``begun_with``."""
    here = kind()
    if not differences(made, here):
        return made
    return {"begun_with": {name: made[name] for name in here}} | made | here


def processor(cpuinfo: str) -> str:
    """The kind of processor: its name, and its family, model and vector instructions, since one
    name stands for several whose sums round otherwise. ``cpuinfo`` is the text of /proc/cpuinfo."""
    pairs = (line.split(":", 1) for line in cpuinfo.splitlines() if ":" in line)
    known = {key.strip(): value.strip() for key, value in reversed(list(pairs))}
    name = known.get("model name") or platform.processor() or platform.machine()
    numbers = {"family": known.get("cpu family"), "model": known.get("model")}
    numbered = [f"{key} {number}" for key, number in numbers.items() if number]
    return ", ".join([name, *numbered, torch.backends.cpu.get_cpu_capability()])
