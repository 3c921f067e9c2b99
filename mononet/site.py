"""The site: words, executed notebooks and result files put side by side, then built strictly."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

WORDS = ("*.md", "references.bib")
UNPUBLISHED = (".lock", ".tmp")
COLOR = re.compile(r"\x1b\[[\d;]*m")


class SiteError(RuntimeError):
    """The site could not be put together or built; the message says where to look."""


def assemble(
    root: Path,
    build: Path,
    executed: Iterable[Path],
    generated: Mapping[str, str] | None = None,
) -> None:
    """Make `build` a source tree of the site, all of it and nothing stale.

    A file whose content has not changed is left alone, so that Sphinx reads only what did.

    Parameters
    ----------
    root : the repository, which holds _config.yml, _toc.yml and book/.
    build : the source tree to make; its `_build` folder and hidden files are left alone.
    executed : the executed notebooks, each placed at notebooks/<name>.ipynb (or there already).
    generated : name → text of the pieces that pages include from generated/<name>.

    Raises
    ------
    SiteError : a file of the book or an executed notebook is missing.
    """
    wanted: dict[Path, Path | bytes] = {}
    for name in ("_config.yml", "_toc.yml"):
        wanted[build / name] = root / name
    for pattern in WORDS:
        wanted |= {build / path.name: path for path in (root / "book").glob(pattern)}
    for source, target in (
        (root / "book/_static", "_static"),
        (root / "book/results", "extra/results"),
    ):
        for path in source.rglob("*"):
            inside = path.relative_to(source)
            hidden = any(part.startswith(".") for part in inside.parts)
            if path.is_file() and not hidden and path.suffix not in UNPUBLISHED:
                wanted[build / target / inside] = path
    wanted |= {build / "notebooks" / path.name: path for path in map(Path, executed)}
    for name, text in (generated or {}).items():
        wanted[build / "generated" / name] = text.encode()

    missing = [
        str(source)
        for source in wanted.values()
        if isinstance(source, Path) and not source.is_file()
    ]
    if missing:
        raise SiteError(f"the site needs files that are not there: {', '.join(missing)}")
    for path in _present(build) - wanted.keys():
        path.unlink()
    for path, source in wanted.items():
        content = source if isinstance(source, bytes) else source.read_bytes()
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    (build / "extra").mkdir(exist_ok=True)


def _present(build: Path) -> set[Path]:
    """The files of a source tree made earlier: those that `assemble` may have written."""
    found = {path for pattern in WORDS for path in build.glob(pattern)}
    for folder in ("_static", "extra", "generated"):
        found |= {path for path in (build / folder).rglob("*") if path.is_file()}
    return found | set((build / "notebooks").glob("*.ipynb"))


def build(source: Path) -> Path:
    """Build the site from an assembled source tree; every warning is an error.

    The pages of an earlier build are removed first, so that neither a page nor a result file can
    outlive its source. Its parsed documents are kept: they make a second build fast.

    Returns
    -------
    The folder of the site, which holds index.html.

    Raises
    ------
    SiteError : Jupyter Book failed or warned; the message gives its warnings, or its last lines.
    """
    html = source / "_build/html"
    shutil.rmtree(html, ignore_errors=True)
    program = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", program, "build", str(source), "-W", "-n", "--keep-going"]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode or not (html / "index.html").is_file():
        lines = COLOR.sub("", done.stdout).splitlines()
        said = [line for line in lines if re.search(r"WARNING|ERROR|CRITICAL", line)]
        words = "\n".join(said or lines[-40:])
        raise SiteError(f"the site of {source} was not built (exit {done.returncode}):\n{words}")
    return html
