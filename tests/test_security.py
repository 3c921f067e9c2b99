"""What must not happen: code from a file, a page that carries a script, a way out of a folder."""

import ast
import dataclasses
import io
import json
import shlex

import nbformat
import numpy as np
import pandas as pd
import pytest
import requests
import yaml
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from papermill.translators import PythonTranslator
from servers import stand_in

from mononet import commands as command
from mononet import data, figures, pages, parameters, parts, printing, prose, tables, zenodo
from mononet.printing import Column, Html
from mononet.record import Record, RecordError, identity
from mononet.study import Study

SCRIPT = '<script src="x">\'&'
OUTSIDE = ["../heart", "/etc/passwd", "heart/../heart", "./heart", "..", ".", "", "heart.ipynb"]


# --- no file is a program -----------------------------------------------------------------------

CALLS = {"eval", "exec", "compile", "__import__", "system", "popen", "getoutput", "mktemp"}
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "importlib.machinery"}
# joblib's transport between a process and its own workers is no file, and calls none of these.
UNSAFE = {"joblib.load", "joblib.dump", "torch.load", "torch.save", "pd.read_pickle", "yaml.unsafe"}
NETWORK = {"requests", "urllib.request", "http.client", "ftplib", "httpx"}


def dangers(source: str, name: str) -> list[str]:
    """What could run code from a file, or reach the network, in a module's text."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names]
            modules += [node.module] if isinstance(node, ast.ImportFrom) else []
            found += [each for each in modules if each in MODULES]
            found += [each for each in modules if each in NETWORK and name != "zenodo.py"]
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        options = {each.arg: ast.unparse(each.value) for each in node.keywords}
        # re.compile and torch.compile are no compile, model.eval is no eval
        plain = called if isinstance(node.func, ast.Name) else f".{called.split('.')[-1]}"
        if plain in CALLS or plain in {".system", ".popen", ".getoutput", ".mktemp"}:
            found.append(called)
        if any(called.startswith(each) for each in UNSAFE) or plain == ".to_pickle":
            found.append(called)
        if called == "np.load" and options.get("allow_pickle") != "False":
            found.append(f"{called} that may unpickle")
        if called.startswith("yaml.load") and options.get("Loader") != "_Loader":
            found.append(f"{called} without the safe loader")
        for option, value in (("shell", "True"), ("allow_pickle", "True"), ("verify", "False")):
            found += [f"{called} with {option}={value}"] if options.get(option) == value else []
    return found


@pytest.mark.parametrize(
    "source",
    ["import pickle", "from pickle import loads", "eval(x)", "exec(x)", "__import__(x)",
     "compile(x, '', 'exec')", "os.system(x)", "os.popen(x)", "subprocess.run(x, shell=True)",
     "yaml.load(x)", "yaml.load(x, Loader=yaml.Loader)", "yaml.unsafe_load(x)", "yaml.load_all(x)",
     "np.load(x)", "np.load(x, allow_pickle=True)", "pd.read_pickle(x)", "frame.to_pickle(x)",
     "joblib.load(x)", "torch.load(x)", "tempfile.mktemp()", "requests.get(x, verify=False)",
     "import requests", "from urllib.request import urlopen"],
)  # fmt: skip
def test_a_danger_is_seen(source):
    assert dangers(source, "made_up.py")


@pytest.mark.parametrize(
    "path",
    [
        *(command.ROOT / "mononet").rglob("*.py"),
        *(command.ROOT / "benchmarks").rglob("*.py"),
        *(command.ROOT / "notebooks").glob("*.ipynb"),
    ],
    ids=lambda path: path.name,
)
def test_no_code_from_files_and_one_way_to_the_network(path):
    text = path.read_text()
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    assert dangers(text, path.name) == []


def test_the_yaml_loader_is_the_safe_one():
    assert issubclass(parameters._Loader, yaml.SafeLoader)
    plain = set(yaml.SafeLoader.yaml_constructors)
    assert set(parameters._Loader.yaml_constructors) == plain
    assert not parameters._Loader.yaml_multi_constructors


class Planted:
    """Leaves a file behind wherever it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_an_archive_is_never_unpickled(tmp_path):
    planted, folder = tmp_path / "planted", tmp_path / "study"
    buffer = io.BytesIO()
    np.savez(buffer, predictions=np.array([Planted(planted)], dtype=object))
    np.load(buffer if not buffer.seek(0) else None, allow_pickle=True)["predictions"]
    assert planted.exists()  # the plant works,
    planted.unlink()
    with Record.locked(folder) as record:
        record._write("predictions.npz", buffer.getvalue())
    with pytest.raises(ValueError, match="allow_pickle=False"):  # and is never set off.
        Record(folder).read_npz("predictions.npz")
    assert not planted.exists()


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_pickle_in_place_of_rows_is_refused(tmp_path, part):
    import pickle

    for each in ("train", "test"):
        columns = data.SPECS["auto_mpg"].columns
        rows = pd.DataFrame(parts.auto_mpg()[each], columns=columns)
        rows.to_csv(tmp_path / f"{each}_auto.csv", index=False)
    planted = tmp_path / "planted"
    (tmp_path / f"{part}_auto.csv").write_bytes(pickle.dumps(Planted(planted)))
    with pytest.raises(data.DataError, match=rf"{part}_auto\.csv: expected a header"):
        data.load("auto_mpg", tmp_path)
    assert not planted.exists()


@pytest.mark.parametrize("file", ["overlay", "rule", "secondary"])
def test_yaml_runs_nothing(tmp_path, file):
    planted = tmp_path / "planted"
    tag = f"!!python/object/apply:builtins.open ['{planted}', 'w']"
    (tmp_path / "heart.rule.yaml").write_text(f"challenger: {tag}\n")
    (tmp_path / "secondary.studies.yaml").write_text(f"a: {tag}\n")
    (tmp_path / "mine.yaml").write_text(f"all: {{data_dir: {tag}}}\n")
    with pytest.raises(parameters.ParameterError, match="could not determine a constructor"):
        if file == "overlay":
            parameters.resolve("heart", [str(tmp_path / "mine.yaml")])
        elif file == "rule":
            parameters.read_rule("heart", tmp_path)
        else:
            command.secondary.read(tmp_path)
    assert not planted.exists()


texts = st.text() | st.sampled_from(
    [
        '"; import os; os.abort() #',
        '"""\nimport os',
        "\\",
        '\\"',
        "{x}",
        "$(id)",
        "`id`",
        "'",
        "\\N",
    ]
)


@given(texts)
def test_a_parameter_is_never_code(text):
    """Neither in the notebook, where papermill writes it, nor in the command that a page shows."""
    try:
        values = {"data_dir": parameters.check("data_dir", text)}
    except parameters.ParameterError:
        return
    body = ast.parse(PythonTranslator.codify(values)).body
    assert all(isinstance(node, ast.Assign) for node in body)
    assert [ast.literal_eval(node.value) for node in body] == [text]
    typed = shlex.split(parameters.command("heart", values).replace(" \\\n", " "))
    assert typed == ["python", "-m", "mononet", "run", "heart", "-p", "data_dir", text]


# --- names and paths stay where they belong -----------------------------------------------------


@pytest.fixture
def executed(monkeypatch):
    """The notebooks that a command would have executed."""
    seen = []
    monkeypatch.setenv(pages.recording.TRAIN, "0")  # which a run sets to 1: put back afterwards

    def execute(path, *_, **__):
        seen.append(path)
        told = {name: f"/home/somebody/{name}.ipynb" for name in ("input_path", "output_path")}
        return nbformat.v4.new_notebook(metadata={"papermill": told | {"version": "2"}})

    monkeypatch.setattr(command.papermill, "execute_notebook", execute)
    return seen


@pytest.mark.parametrize("name", [*OUTSIDE, "notebooks/heart", "heart\0", "params", "heart.rule"])
def test_only_notebooks_of_the_project_are_executed(capsys, executed, monkeypatch, tmp_path, name):
    (tmp_path / "heart.ipynb").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert command.main(["run", name]) == 1
    assert "unknown notebook" in capsys.readouterr().err
    assert executed == []


def test_a_notebook_of_the_same_name_elsewhere_is_not_executed(executed, monkeypatch, tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/heart.ipynb").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert command.main(["run", "heart", "-o", str(tmp_path / "out.ipynb")]) == 0
    assert executed == [command.ROOT / "notebooks/heart.ipynb"]


def test_an_executed_copy_does_not_tell_where_it_was_made(executed, tmp_path):
    output = tmp_path / "out.ipynb"
    assert command.main(["run", "heart", "-o", str(output)]) == 0
    assert nbformat.read(output, 4).metadata.papermill == {"version": "2"}


@pytest.mark.parametrize("output", ["notebooks/heart.ipynb", "notebooks/new.ipynb", "README.md"])
def test_no_source_is_written_over(capsys, executed, output):
    before = {path: path.read_bytes() for path in (command.ROOT / "notebooks").iterdir()}
    assert command.main(["run", "heart", "-o", str(command.ROOT / output)]) == 1
    assert "whose files are the sources" in capsys.readouterr().err
    assert executed == []
    assert before == {path: path.read_bytes() for path in (command.ROOT / "notebooks").iterdir()}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_is_no_way_out_of_a_folder(capsys, tmp_path, name):
    (tmp_path / "results").mkdir()
    values = parameters.resolve("heart") | {"results_dir": str(tmp_path / "results")}
    scratch = ["-p", "results_dir", str(tmp_path / "results")]
    for words in (["study", name], ["verify", name or "''"], ["data", "fetch", name]):
        assert command.main([*words, *scratch[: 3 * (words[0] != "data")]]) == 1
        assert "Unknown dataset" in capsys.readouterr().err
    for words in (["study", "auto_mpg", name], ["verify", "auto_mpg", name]):
        assert command.main([*words, *scratch]) == 1
        assert "models: expected list of mixed" in capsys.readouterr().err
    with pytest.raises(KeyError):
        Study.of(name, "split", values)
    with pytest.raises(KeyError):
        _ = Study.of("heart", name, values).folder
    with pytest.raises(parameters.ParameterError, match="unknown rule"):
        parameters.read_rule(name)
    assert list(tmp_path.rglob("*")) == [tmp_path / "results"]


@pytest.mark.parametrize("name", ["../x.csv", "/tmp/x.csv", "a/b.csv", "..", "x\0.csv", ""])
def test_a_recorded_file_stays_in_its_folder(tmp_path, name):
    with (
        Record.locked(tmp_path / "study") as record,
        pytest.raises(RecordError, match="cannot be the name of a recorded file"),
    ):
        record.write_text(name, "x")
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".lock", "study"]


def test_the_folder_of_a_study_is_its_model_and_hash():
    study = Study.of("heart", "split", parameters.resolve("heart"))
    assert study.folder.parent == study.shelf and study.shelf.name == "heart"
    assert study.folder.name == f"split-{identity(study.content)[:8]}"


# --- pages --------------------------------------------------------------------------------------


def escaped(shown: str) -> bool:
    """Whether the text is there as text and opens neither an element nor an attribute."""
    return "<script" not in shown and 'src="x"' not in shown and "&lt;script" in shown


def test_every_text_of_a_table_is_escaped():
    frame = pd.DataFrame({"a": [SCRIPT]}, index=[SCRIPT])
    columns = [Column(SCRIPT, lambda row: row["a"], group=SCRIPT), Column("b", lambda row: "")]
    shown = printing.render(frame, columns, SCRIPT, SCRIPT, corner=SCRIPT)
    assert escaped(shown)
    assert shown.count("&lt;script") == 8  # the caption also is the label of the region


@pytest.mark.parametrize(
    "shown",
    [
        lambda: printing.box("warn", SCRIPT, SCRIPT),
        lambda: printing.commands(SCRIPT),
        lambda: prose.paragraph(SCRIPT),
        lambda: prose.led(SCRIPT, SCRIPT),
        lambda: prose.bullets([SCRIPT]),
        lambda: figures.show(Figure(), SCRIPT, SCRIPT),
        lambda: printing.link(Study("heart", "x", {"results_dir": "y"}, ""), SCRIPT, SCRIPT),
        lambda: printing.link(
            Study("heart", "x", {"results_dir": printing.RESULTS}, ""), SCRIPT, SCRIPT
        ),
    ],
)
def test_every_piece_of_a_page_escapes_its_text(shown):
    assert escaped(shown())


def test_html_is_only_what_was_made_as_such():
    assert printing.box("", "t", "<b>") != printing.box("", "t", Html("<b>"))
    assert "&lt;b&gt;" in printing.box("", "t", "<b>")


def test_a_feature_is_escaped():
    rows = data.load("auto_mpg")
    named = dataclasses.replace(rows, features=tuple(f"{SCRIPT} {f}" for f in rows.features))
    assert escaped(tables.constraints(named))
    assert escaped(prose.agreement(named))


def test_a_path_is_escaped(monkeypatch, tmp_path):
    monkeypatch.setenv(pages.recording.TRAIN, "0")
    folder = tmp_path / SCRIPT.replace("/", "")
    given = parameters.resolve("auto_mpg") | {"results_dir": str(folder), "models": ["linear"]}
    page = pages.open_page("auto_mpg", given)
    assert escaped(page.status()) and escaped(page.missing()) and escaped(page.colophon())
    monkeypatch.setattr(
        pages.recording, "verify", lambda study: data.load("auto_mpg", folder / "none")
    )
    page = pages.Page("auto_mpg", page.parameters, page.studies)
    page.__dict__["recorded"] = list(page.studies)
    page.__dict__["rows"] = data.load("auto_mpg")
    assert escaped(page.verify()) and "does not exist" in page.verify()


def test_the_site_executes_nothing_itself():
    config = yaml.safe_load((command.ROOT / "_config.yml").read_text())
    assert config["execute"]["execute_notebooks"] in ("off", False)


# --- downloads ----------------------------------------------------------------------------------

NAME = "train_heart.csv"
CONTENT = f"/api/records/{zenodo.RECORD}/files/{NAME}/content"
NEXT = CONTENT.replace("train", "test")


@pytest.fixture
def called(monkeypatch):
    """The hosts that were looked up."""
    hosts = []
    look_up = zenodo.requests.packages.urllib3.util.connection.socket.getaddrinfo

    def noted(host, *rest, **options):
        hosts.append(host)
        return look_up(host, *rest, **options)

    monkeypatch.setattr("socket.getaddrinfo", noted)
    return hosts


def to(location, status=302):
    return (status, {"Location": location})


@pytest.mark.parametrize(
    "answers",
    [
        {CONTENT: [to("http://example.org/x")]},
        {CONTENT: [to("http://example.org/x", 307)]},
        {CONTENT: [to(NEXT)], NEXT: [to("http://example.org/x")]},
        {CONTENT: [to("//example.org/x")]},
        {CONTENT: [to("file:///etc/passwd")]},
        {CONTENT: [to("ftp://example.org/x")]},
        {CONTENT: [to("http://127.0.0.1@example.org/x")]},
        {f"/api/records/{zenodo.RECORD}": [to("http://example.org/x")]},
    ],
)
def test_a_redirect_elsewhere_is_not_followed(called, tmp_path, answers):
    with stand_in({NAME: b"rows", "test_heart.csv": b"rows"}) as server:
        server.answers |= answers
        with pytest.raises(zenodo.DownloadError, match="refused; expected a link over https"):
            zenodo.fetch([NAME], tmp_path, base_url=server.url)
    assert set(called) <= {"127.0.0.1"} and not list(tmp_path.iterdir())


def test_a_redirect_on_this_machine_is_followed(tmp_path):
    with stand_in({NAME: b"rows"}) as server:
        server.answers = {CONTENT: [to(NEXT)], NEXT: [b"rows"]}
        assert zenodo.fetch([NAME], tmp_path, base_url=server.url) == [tmp_path / NAME]


@pytest.mark.parametrize(
    "link",
    ["http://zenodo.org/x", "HTTP://zenodo.org/x", "http://127.0.0.1.example.org/", "http://[::2]/",
     "http://0.0.0.0/", "http://2130706434/", "http://user@zenodo.org/", "file:///etc/passwd",
     "ftp://127.0.0.1/", "data:,x", "javascript:x", "", "zenodo.org", "http://exa mple/"],
)  # fmt: skip
def test_links_that_are_refused(link):
    with pytest.raises(zenodo.DownloadError, match="refused"):
        zenodo._allowed(link)


@pytest.mark.parametrize(
    "link", ["https://zenodo.org/x", "http://127.0.0.1:8/x", "http://[::1]/x", "http://localhost/"]
)
def test_links_that_are_followed(link):
    assert zenodo._allowed(link) == link


def test_a_way_back_from_https_is_refused():
    answer = requests.Response()
    answer.status_code, answer.url = 301, "https://zenodo.org/records/1"
    answer.headers["location"] = "http://zenodo.org/records/1"
    with pytest.raises(zenodo.DownloadError, match=r"http://zenodo\.org/records/1: refused"):
        zenodo._check_redirect(answer)
    answer.headers["location"] = "/records/2"
    zenodo._check_redirect(answer)


@pytest.mark.parametrize("content", [b"Rows", b"", b"rows\n" * 100_000])
def test_another_content_than_the_record_says_is_not_kept(tmp_path, content):
    with stand_in({NAME: b"rows"}) as server:
        server.answers[CONTENT] = [content]
        with pytest.raises(zenodo.DownloadError, match="another MD5 sum"):
            zenodo.fetch([NAME], tmp_path, base_url=server.url)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("checksum", ["", None, "md5:", "md5:" + "0" * 31, "sha1:" + "0" * 40, 5])
def test_a_record_without_an_md5_sum_is_not_trusted(tmp_path, checksum):
    with stand_in({NAME: b"rows"}) as server:
        server.entry(NAME)["checksum"] = checksum
        with pytest.raises(zenodo.DownloadError, match="expected an MD5 sum in the record"):
            zenodo.fetch([NAME], tmp_path, base_url=server.url)
    assert not list(tmp_path.iterdir())
