"""Experiments: recorded part by part, taken up where they stood, shown by a chapter."""

import re
from pathlib import Path

import pandas as pd
import pytest

from mononet import data, experiments, parameters
from mononet.experiments import Chapter, Experiment, record
from mononet.printing import Html
from mononet.record import Record, RecordError

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def toy(tmp_path):
    values = {"datasets": ["auto_mpg"], "final_seeds": 3, "results_dir": str(tmp_path)}
    return Experiment("toy", values | {"workers": 1, "engine": "eager", "data_dir": None})


PARTS = {
    "squares": lambda e: pd.DataFrame({"x": range(e.parameters["final_seeds"])}).eval("y = x ** 2"),
    "sums": lambda e: e.table("squares").sum().to_frame("sum"),
}


def test_parts_are_recorded_in_their_order_and_read_again(toy):
    record(toy, PARTS)
    assert toy.complete and toy.folder.name == f"toy-{toy.identity[:8]}"
    assert toy.table("squares")["y"].tolist() == [0, 1, 4]
    assert toy.table("sums")["sum"].tolist() == [3, 5]
    assert list(toy.description["seconds"]) == list(PARTS)


def test_an_interrupted_experiment_goes_on_with_the_missing_part(toy):
    def fails(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(toy, PARTS | {"sums": fails})
    assert not toy.complete
    with Record.locked(toy.folder) as folder:
        begun = toy.description
        begun["provenance"]["processor"] = "an abacus"
        folder.write_json("experiment.json", begun)

    def again(_):
        raise AssertionError("a recorded part was computed again")

    record(toy, PARTS | {"squares": again})
    assert toy.complete
    made = toy.description["provenance"]
    assert made["begun_with"]["processor"] == "an abacus" != made["processor"]


def test_identity_is_what_the_numbers_depend_on(toy):
    moved = Experiment("toy", {**toy.parameters, "workers": 7, "engine": "compiled"})
    assert moved.identity == toy.identity
    assert Experiment("toy", {**toy.parameters, "final_seeds": 4}).identity != toy.identity
    assert toy.content["data"] == {"auto_mpg": data.SPECS["auto_mpg"].fingerprint}


def test_two_writers_do_not_interleave(toy):
    def second(_):
        with pytest.raises(RecordError, match="another process"):
            record(toy, PARTS)
        return pd.DataFrame({"x": [1]})

    record(toy, {"squares": second})


def test_a_chapter_shows_what_is_recorded_and_says_what_is_not(toy, monkeypatch):
    shown = {"sums": lambda e: Html(f"<p>{e.table('sums')['sum'].sum()}</p>")}
    monkeypatch.setattr(experiments.parameters, "command", lambda *_: "python -m mononet run toy")
    chapter = Chapter(toy, tuple(PARTS), shown)
    assert "python -m mononet run toy" in chapter.status()
    assert "Not recorded yet" in chapter.show("sums")
    record(toy, PARTS)
    assert "eager engine" in chapter.status() and "squares.csv" in chapter.status()
    assert chapter.show("sums") == "<p>8</p>"


def test_make_studies_records_every_experiment():
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    listed = re.search(r"^EXPERIMENTS := (.*)$", makefile, re.MULTILINE)[1].split()
    readers = {"comparison", "first_version_page", "evidence"}  # of studies recorded elsewhere
    recorded = {
        name
        for name in parameters.notebooks()
        if name not in data.SPECS and "results_dir" in parameters.resolve(name)
    }
    assert set(listed) == recorded - readers
