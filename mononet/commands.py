"""The command line: ``python -m mononet run | book | study | verify | data | review``."""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import logging
import os
import re
import sys
import tempfile
from pathlib import Path

import papermill
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError
from papermill.iorw import write_ipynb
from traitlets.config import Config

from mononet import data, parameters, recording, review, runlog, secondary, site, tables
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
    runlog.ReviewError,
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
        executed = papermill.execute_notebook(
            ROOT / "notebooks" / f"{notebook}.ipynb",
            output,
            parameters=values,
            kernel_name="python3",
            cwd=ROOT,
            progress_bar=False,
            stdout_file=sys.stdout if visible else None,
            stderr_file=sys.stderr if visible else None,
            # At once: a kernel that is asked to stop prints an error that is none.
            config=Config(KernelManager=sockets, NotebookClient={"shutdown_kernel": "immediate"}),
        )
    for path in ("input_path", "output_path"):  # the site offers the copy, and not this machine
        executed.metadata.papermill.pop(path, None)
    write_ipynb(executed, str(output))
    return output


def run(arguments) -> None:
    """Execute one notebook with other parameters, training what they need."""
    values = parameters.resolve(arguments.notebook, arguments.file, arguments.parameter)
    output = Path(arguments.output or BUILD / "runs" / f"{arguments.notebook}.ipynb")
    if output.is_dir():
        raise ParameterError(f"{output} is a folder; -o names the executed copy, a file")
    if output.suffix != ".ipynb" or output.resolve().parent == ROOT / "notebooks":
        raise ParameterError(
            f"-o {output}: expected a file that ends in .ipynb outside the folder notebooks/, "
            "whose files are the sources"
        )
    if arguments.notebook in data.SPECS and (
        data.routes(arguments.notebook, values["data_dir"]).local
    ):
        # Rows that are here but not as they must be are told without starting a kernel.
        rows = recording.load(Study.of(arguments.notebook, values["models"][0], values))
        rows.splits(values["cv_seed"], values["cv_folds"])
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
    # Taken before: what changes while a page executes makes that page stale again.
    inputs = {name: _inputs(name) for name in stale}
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        waiting = {
            pool.submit(
                execute, name, parameters.resolve(name), executed[name], train=False, visible=False
            ): name
            for name in stale
        }
        for future in concurrent.futures.as_completed(waiting):
            future.result()
            _stamp(waiting[future]).write_text(inputs[waiting[future]])
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
    files += [
        path for path in (ROOT / "book/results").rglob("*") if not path.name.endswith(".lock")
    ]
    digest = hashlib.sha256(os.environ.get("MONONET_DATA_DIR", "").encode())
    for path in sorted(files):
        if path.is_file():
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def study(arguments) -> None:
    """Record studies of one dataset, or of all whose rows are here: every model, or those named."""
    named = parameters.check("models", arguments.model) if arguments.model else None
    collapsed = []
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
            if not chosen and arguments.dataset != "all":
                there = ", ".join(dict.fromkeys(each.model for each in every)) or "none"
                raise ParameterError(
                    f"{dataset}: no secondary study of {', '.join(named or ['any model'])} in "
                    f"params/{secondary.FILE}; models that have one: {there}"
                )
        else:
            chosen = [Study.of(dataset, model, values) for model in named or values["models"]]
        with _workers(arguments.scheduler):
            for each in chosen:
                name = f"{dataset} {each.model}"
                try:
                    print(f"{name}: {recording.record_visibly(each).folder}", flush=True)
                except SearchError as error:  # every trial collapsed; the others are still to come
                    collapsed.append(name)
                    print(f"{name}: {error}", flush=True)
    if collapsed:
        raise SearchError(f"without a selection: {', '.join(collapsed)}")


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
                seeds = f"seed{'s' if found.seeds[1:] else ''} {', '.join(map(str, found.seeds))}"
                said, passed = f"{word} ({seeds}): {found.outcome}", found.passed
            except (RecordError, data.DataError) as error:  # the others are still to be verified
                said, passed = f"DAMAGED: {error}", False
            except StudyError as error:
                if chosen:
                    raise
                said, passed = f"NOT VERIFIED: {error}", False
            failed += not passed
            print(f"{dataset} {name}: {said}", flush=True)
    if failed:
        raise StudyError(
            f"{failed} stud{'ies' if failed > 1 else 'y'} did not come out as recorded"
        )


def show_data(arguments) -> None:
    """Which route would serve each dataset; or download one from Zenodo into the cache."""
    if arguments.action == "fetch":
        if arguments.name == "auto_mpg":
            print("auto_mpg: nothing to fetch, its rows come with the installed package mlxtend")
            return
        for path in data.fetch(arguments.name):
            print(path)
        return
    table = data.describe()
    print(table.drop(columns="problem").to_string(index=False))
    for row in table[table["problem"] != ""].itertuples():
        print(f"{row.dataset}: {row.problem}")


class Help(argparse.Action):
    """-h: the usage, and the parameters of the notebook or dataset that was named before it."""

    def __call__(self, parser, namespace, values, option_string=None):
        named = getattr(namespace, "notebook", None) or getattr(namespace, "dataset", None)
        text = parser.format_help()
        try:
            if named and named != "all":
                if "dataset" in namespace:
                    data.routes(named)  # not every notebook is a dataset
                text += f"\nparameters of {named}, each set by -p:\n\n{parameters.explain(named)}\n"
        except SPEAKING as error:
            parser.exit(1, f"error: {error}\n")
        print(text, end="")
        parser.exit()


def pair(text: str) -> list[str]:
    """NAME=VALUE as typed after -p."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(
            f"{text!r} has no value; as in -p n_trials 5, or -p n_trials=5"
        )
    return [name.strip(), value]


def joined(words: list[str]) -> list[str]:
    """The words of a command line with each `-p NAME VALUE` as one word, `--parameter=NAME=VALUE`.

    So the value may be anything (a negative number too), and -p n_trials=5 means the same.
    """
    words, found = list(words), []
    while words:
        word = words.pop(0)
        if word in ("-p", "--parameter") and words and not words[0].startswith("-"):
            word = f"--parameter={words.pop(0)}"
            value_follows = words and not re.match(r"-(?![0-9.])", words[0])
            if word.count("=") == 1 and value_follows:
                word += f"={words.pop(0)}"
        found.append(word)
    return found


def show_review(arguments) -> None:
    """Review a log of final runs: a reviewer's checks, both noises, and what is left to claim."""
    files = {"runs": arguments.runs, "blocks": arguments.blocks, "rule": arguments.rule}
    if arguments.runs is None:  # the toy log, wherever this is called from
        toy = parameters.resolve("review")
        files = {name: ROOT / toy[name] for name in files} | {
            name: value for name, value in files.items() if value is not None
        }
    print(review.as_text(review.review(**files)))


def positive(text: str) -> int:
    """A whole number from 1 up, as typed."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m mononet", description=__doc__)
    top.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = top.add_subparsers(required=True, metavar="command")

    def command(name: str, function, **more) -> argparse.ArgumentParser:
        words = function.__doc__
        added = commands.add_parser(name, help=words, description=words, **more)
        added.set_defaults(function=function)
        added.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
        return added

    def with_parameters(name: str, function) -> argparse.ArgumentParser:
        added = command(name, function, add_help=False)
        added.add_argument(
            *("-h", "--help"),
            action=Help,
            nargs=0,
            help="show this, and the parameters of what is named",
        )
        added.add_argument(
            *("-p", "--parameter"),
            action="append",
            default=[],
            type=pair,
            metavar="NAME VALUE",
            help="set one parameter; may be repeated",
        )
        added.add_argument(
            "-f", "--file", action="append", default=[], help="an overlay, such as quick"
        )
        return added

    added = with_parameters("run", run)
    added.add_argument("notebook", help="its name; `run NOTEBOOK --help` lists its parameters")
    added.add_argument("-o", "--output", help="where the executed notebook goes")
    command("book", book)
    added = with_parameters("study", study)
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
    added = with_parameters("verify", verify)
    added.add_argument("dataset", nargs="?", help="all datasets whose rows are here if left out")
    added.add_argument("model", nargs="*")
    added.add_argument("--seeds", type=positive, default=2, help="recorded seeds to retrain (2)")
    added = command("review", show_review)
    added.add_argument("runs", nargs="?", help="CSV: model, seed, split, metric, value (a toy log)")
    added.add_argument("--blocks", help="CSV of losses by block: block, model, loss")
    added.add_argument("--rule", help="YAML: challenger, baseline, gap_over_sd, shifted, …")
    added = command("data", show_data)
    added.add_argument("action", nargs="?", choices=["fetch"])
    added.add_argument("name", nargs="?", default="all", help="a dataset, or all")
    return top


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(joined(sys.argv[1:] if argv is None else argv))
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
    except DeadKernelError:
        if arguments.debug:
            raise
        print("error: the process of the notebook died, perhaps out of memory", file=sys.stderr)
        return 1
    except OSError as error:
        if arguments.debug:
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # The notebook's own interruption would be told a second time, with its whole traceback.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        print("interrupted; the same command continues where it stopped", file=sys.stderr)
        return 130
    return 0
