"""What any recorded bits came from: engine, versions, processor, source revision."""

from __future__ import annotations

import platform
import time
from importlib import metadata
from pathlib import Path

from mononet.record import source_revision
from mononet.training import ENGINE_VERSION

LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "optuna", "pandas", "joblib")


def kind() -> dict:
    """What must agree between two machines for the same training to give the same bits."""
    return {
        "engine_version": ENGINE_VERSION,
        "versions": {name: metadata.version(name) for name in LIBRARIES},
        "python": platform.python_version(),
        "processor": _processor(),
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


def _processor() -> str:
    """The kind of processor, as the operating system names it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
