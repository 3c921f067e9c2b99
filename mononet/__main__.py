"""The command line: ``python -m mononet run | book | study | verify | data``."""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import logging
import os
import sys
import tempfile
from pathlib import Path

import papermill
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from mononet import data, parameters, recording, secondary, site, tables
from mononet.parameters import ParameterError
from mononet.record import RecordError
from mononet.recording import StudyError
from mononet.search import SearchError
from mononet.study import Study
from mononet.workers import WorkerError

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build"
SPEAKING = (
    ParameterError,
    data.DataError,
    RecordError,
    StudyError,
    SearchError,
    site.SiteError,
    WorkerError,
)


def execute(notebook: str, values: dict, output: Path, *, train: bool, visible: bool) -> Path:
    """Execute one notebook with these parameters; trains what is missing only where asked to."""
    output.parent.mkdir(parents=True, exist_ok=True)
    os.environ[recording.TRAIN] = "1" if train else "0"
    with tempfile.TemporaryDirectory(prefix="mononet-") as folder:
        # A socket of this user instead of a port; a folder for each kernel keeps those of
        # notebooks that are executed at the same time apart.
        sockets = {"transport": "ipc", "ip": str(Path(folder) / "kernel")}
        papermill.execute_notebook(
            ROOT / "notebooks" / f"{notebook}.ipynb",
            output,
            parameters=values,
            kernel_name="python3",
            cwd=ROOT,
            progress_bar=False,
            stdout_file=sys.stdout if visible else None,
            stderr_file=sys.stderr if visible else None,
            config=Config(KernelManager=sockets),
        )
    return output


def run(arguments) -> None:
    """Execute one notebook with other parameters, training what they need."""
    values = parameters.resolve(arguments.notebook, arguments.file, arguments.parameter)
    output = Path(arguments.output or BUILD / "runs" / f"{arguments.notebook}.ipynb")
    if output.is_dir():
        raise ParameterError(f"{output} is a folder; -o names the executed copy, a file")
    execute(arguments.notebook, values, output.absolute(), train=True, visible=True)
    print(f"executed notebook: {output}")


def book(arguments) -> None:
    """Execute the notebooks whose inputs changed, without training, and build the site."""
    target = BUILD / "book"
    executed = {
        name: target / "notebooks" / f"{name}.ipynb"
        for name in parameters.notebooks()
        if (ROOT / "notebooks" / f"{name}.ipynb").exists()
    }
    stale = [name for name, path in executed.items() if not path.exists() or _stale(name)]
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        waiting = {
            pool.submit(
                execute, name, parameters.resolve(name), executed[name], train=False, visible=False
            ): name
            for name in stale
        }
        for future in concurrent.futures.as_completed(waiting):
            future.result()
            _stamp(waiting[future]).write_text(_inputs(waiting[future]))
            print(f"executed {waiting[future]}", flush=True)
    generated = {"headline.html": tables.headline(ROOT / "book/results")}
    site.assemble(ROOT, target, executed.values(), generated)
    print(f"the site: {site.build(target) / 'index.html'}")


def _stamp(notebook: str) -> Path:
    stamps = BUILD / "book" / ".stamps"
    stamps.mkdir(parents=True, exist_ok=True)
    return stamps / notebook


def _stale(notebook: str) -> bool:
    stamp = _stamp(notebook)
    return not stamp.exists() or stamp.read_text() != _inputs(notebook)


def _inputs(notebook: str) -> str:
    """Hash of all that an executed notebook depends on: code, parameters, studies, rows here."""
    files = [ROOT / "notebooks" / f"{notebook}.ipynb", ROOT / "requirements.txt"]
    files += [*(ROOT / "mononet").rglob("*.py"), *(ROOT / "params").glob("*.yaml")]
    files += list((ROOT / "book").glob("*.yaml"))
    files += [path for path in (ROOT / "book/results").rglob("*") if path.suffix not in (".lock",)]
    digest = hashlib.sha256(os.environ.get("MONONET_DATA_DIR", "").encode())
    for path in sorted(files):
        if path.is_file():
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def study(arguments) -> None:
    """Record studies of one dataset, or of all whose rows are here: every model, or those named."""
    named = parameters.check("models", arguments.model) if arguments.model else None
    for dataset in data.SPECS if arguments.dataset == "all" else [arguments.dataset]:
        data.routes(dataset)  # not every notebook is a dataset
        values = parameters.resolve(dataset, arguments.file, arguments.parameter)
        if arguments.dataset == "all" and not data.routes(dataset, values["data_dir"]).local:
            print(
                f"{dataset}: skipped, its rows are not on this machine; "
                f"`python -m mononet data fetch {dataset}` downloads them",
                flush=True,
            )
            continue
        if arguments.secondary:
            every = [each.study for each in secondary.of(dataset, values)]
            chosen = [each for each in every if named is None or each.model in named]
        else:
            chosen = [Study.of(dataset, model, values) for model in named or values["models"]]
        with _workers(arguments.scheduler):
            for each in chosen:
                recorded = recording.record_visibly(each)
                print(f"{dataset} {each.model}: {recorded.folder}", flush=True)


def _workers(scheduler: str | None) -> contextlib.AbstractContextManager:
    """Where trials run: on a cluster's workers, or without a scheduler on this machine."""
    if scheduler is None:
        return contextlib.nullcontext()
    from mononet import cluster  # Dask alone takes a second to import

    return cluster.connected(scheduler)


def verify(arguments) -> None:
    """Retrain a few recorded seeds of studies and say whether they come out as recorded."""
    failed = 0
    for dataset in [arguments.dataset] if arguments.dataset else list(data.SPECS):
        data.routes(dataset)
        values = parameters.resolve(dataset, arguments.file, arguments.parameter)
        if not arguments.dataset and not data.routes(dataset, values["data_dir"]).local:
            print(f"{dataset}: its rows are not on this machine")
            continue
        chosen = parameters.check("models", arguments.model) if arguments.model else None
        studies = {model: Study.of(dataset, model, values) for model in chosen or values["models"]}
        if not chosen:
            others = secondary.of(dataset, values)
            studies |= {f"{each.study.model}, {each.changed}": each.study for each in others}
        for name, each in studies.items():
            try:
                if not chosen and not each.complete:
                    print(f"{dataset} {name}: not recorded")
                    continue
                found = recording.verify(each, arguments.seeds)
                word = "as recorded" if found.passed else "DIFFERS"
                said, passed = f"{word}: {found.outcome}", found.passed
            except (RecordError, data.DataError) as error:  # the others are still to be verified
                said, passed = f"DAMAGED: {error}", False
            failed += not passed
            print(f"{dataset} {name}: {said}", flush=True)
    if failed:
        raise StudyError(f"{failed} studies did not come out as recorded")


def show_data(arguments) -> None:
    """Which route would serve each dataset; or download one from Zenodo into the cache."""
    if arguments.action == "fetch":
        for path in data.fetch(arguments.name):
            print(path)
        return
    print(data.describe().to_string(index=False))


def positive(text: str) -> int:
    """A whole number from 1 up, as typed."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m mononet", description=__doc__)
    top.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = top.add_subparsers(required=True, metavar="command")

    def command(name: str, function) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=function.__doc__, description=function.__doc__)
        added.set_defaults(function=function)
        return added

    def with_parameters(added: argparse.ArgumentParser) -> argparse.ArgumentParser:
        pair = {"nargs": 2, "action": "append", "default": [], "metavar": ("NAME", "VALUE")}
        added.add_argument("-p", "--parameter", **pair, help="set one parameter")
        added.add_argument(
            "-f", "--file", action="append", default=[], help="an overlay, such as quick"
        )
        return added

    added = with_parameters(command("run", run))
    added.add_argument("notebook")
    added.add_argument("-o", "--output", help="where the executed notebook goes")
    command("book", book)
    added = with_parameters(command("study", study))
    added.add_argument("dataset", help="a dataset, or all whose rows are on this machine")
    added.add_argument("model", nargs="*", help="models; all of the dataset's if none is named")
    added.add_argument(
        "--secondary",
        action="store_true",
        help="the secondary studies of params/secondary.studies.yaml instead of the headline ones",
    )
    added.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="a Dask scheduler, tcp://host:port, whose workers run the trials",
    )
    added = with_parameters(command("verify", verify))
    added.add_argument("dataset", nargs="?", help="all datasets whose rows are here if left out")
    added.add_argument("model", nargs="*")
    added.add_argument("--seeds", type=positive, default=2, help="recorded seeds to retrain (2)")
    added = command("data", show_data)
    added.add_argument("action", nargs="?", choices=["fetch"])
    added.add_argument("name", nargs="?", default="all", help="a dataset, or all")
    return top


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        arguments.function(arguments)
    except SPEAKING as error:
        if arguments.debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1
    except PapermillExecutionError as error:
        if arguments.debug:
            raise
        print(f"error: the notebook stopped: {error.ename}: {error.evalue}", file=sys.stderr)
        return 1
    except OSError as error:
        if arguments.debug:
            raise
        told = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        print(f"error: {told}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # The notebook's own interruption would be told a second time, with its whole traceback.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        print("interrupted; the same command continues where it stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
