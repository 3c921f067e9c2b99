"""The notebooks: thin, without outputs, their parameters those of params/<notebook>.yaml."""

import ast
import json
from pathlib import Path

import pytest
import yaml

from mononet import parameters

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LINES = 4  # of a code cell, of a loop or definition too


def cells(path: Path, kind: str) -> list[dict]:
    return [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == kind]


def tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def source(cell: dict) -> str:
    return "".join(cell["source"])


pytestmark = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


def test_the_parameters_are_those_of_the_file(path):
    tagged = [cell for cell in cells(path, "code") if "parameters" in tags(cell)]
    assert len(tagged) == 1
    values = {}
    for line in ast.parse(source(tagged[0])).body:
        assert isinstance(line, ast.Assign)
        values[line.targets[0].id] = ast.literal_eval(line.value)
    written = yaml.safe_load((ROOT / "params" / f"{path.stem}.yaml").read_text())
    assert values == written
    assert list(values) == list(written)
    assert values == parameters.resolve(path.stem)


def test_no_outputs_are_committed(path):
    for cell in cells(path, "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None


def test_code_is_words_calls_and_pictures(path):
    for cell in cells(path, "code"):
        if "parameters" in tags(cell):
            continue
        tree = ast.parse(source(cell))
        assert len([line for line in source(cell).splitlines() if line]) <= LINES
        for node in ast.walk(tree):
            assert not isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.ClassDef)


def test_code_is_folded_away(path):
    assert all({"hide-input", "remove-input"} & set(tags(cell)) for cell in cells(path, "code"))


def test_a_page_begins_with_its_title(path):
    first = json.loads(path.read_text())["cells"][0]
    assert first["cell_type"] == "markdown" and source(first).startswith("# ")
