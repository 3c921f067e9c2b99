"""The command line as a person meets it: every notebook in quick form, and what is refused."""

import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from mononet import commands, data, parameters, recording, secondary
from mononet.commands import ROOT, main
from mononet.search import SearchError

MONONET = [sys.executable, "-m", "mononet"]
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_every_notebook_runs_in_quick_form(notebook, tmp_path):
    needed = parameters.resolve(notebook, ["quick"]).get("datasets", [notebook])
    for name in needed:
        if name in data.SPECS and not data.routes(name).local:
            pytest.skip(f"the rows of {name} are not on this machine")
    output = tmp_path / "out.ipynb"
    records = "results_dir" in parameters.resolve(notebook)
    scratch = ["-p", "results_dir", str(tmp_path / "results")] if records else []
    found = subprocess.run(
        [*MONONET, "run", notebook, "-f", "params/quick.yaml", *scratch, "-o", str(output)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    assert "executed notebook" in found.stdout
    assert "Not recorded yet" not in output.read_text()
    if notebook in parameters.notebooks() and (tmp_path / "results" / notebook).exists():
        assert (tmp_path / "results" / notebook / "test_access.csv").exists()


def refused(capsys, *words):
    assert main(list(words)) == 1
    said = capsys.readouterr().err.strip()
    assert "Traceback" not in said
    assert said.startswith("error: ")
    return said


def test_a_mistyped_parameter_is_refused_with_the_nearest_name(capsys):
    said = refused(capsys, "run", "auto_mpg", "-p", "n_trial", "5")
    assert "n_trial" in said
    assert "n_trials" in said


def test_a_wrong_type_is_refused_with_what_is_accepted(capsys):
    said = refused(capsys, "run", "auto_mpg", "-p", "n_trials", "many")
    assert "n_trials" in said
    assert "whole number from 1 to 10000" in said


def test_a_value_out_of_range_is_refused_with_its_bounds(capsys):
    said = refused(capsys, "run", "auto_mpg", "-p", "n_trials", "0")
    assert "whole number from 1 to 10000" in said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("run", "auto_mgp"), "auto_mpg"),
        (("study", "auto_mpg", "splitt"), "split"),
        (("run", "auto_mpg", "-f", "quik"), "quick"),
        (("data", "fetch", "hart"), "heart"),
        (("verify", "auto_mgp"), "auto_mpg"),
        (("verify", "comparison"), "compas"),
        (("study", "comparison"), "compas"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(capsys, words, expected):
    assert expected in refused(capsys, *words)


def test_an_output_that_is_a_folder_is_refused(capsys, tmp_path):
    assert "is a folder" in refused(capsys, "run", "auto_mpg", "-o", str(tmp_path))


@pytest.mark.parametrize("seeds", ["0", "-1", "two"])
def test_a_number_of_seeds_below_one_is_refused(capsys, seeds):
    with pytest.raises(SystemExit):
        main(["verify", "auto_mpg", "--seeds", seeds])
    assert "whole number from 1 up" in capsys.readouterr().err


@pytest.mark.parametrize(("seeds", "words"), [((1000, 1001), "seeds 1000, 1001"), ((7,), "seed 7")])
def test_verify_says_which_seeds_it_trained(capsys, monkeypatch, seeds, words):
    found = recording.Verification(True, True, seeds, "the same predictions, bit for bit")
    monkeypatch.setattr(recording, "verify", lambda study, count: found)
    assert main(["verify", "auto_mpg", "linear"]) == 0
    said = capsys.readouterr().out
    assert said == f"auto_mpg linear: as recorded ({words}): the same predictions, bit for bit\n"


def test_data_lists_every_dataset_and_its_route(capsys, monkeypatch):
    monkeypatch.delenv(data.ENVIRONMENT, raising=False)
    assert main(["data"]) == 0
    said = capsys.readouterr().out
    assert "mlxtend" in said
    assert all(name in said for name in ("auto_mpg", "heart", "compas", "blog", "loan"))


def test_verify_goes_on_after_a_damaged_study_and_says_so_at_the_end(studies, tmp_path, capsys):
    results = tmp_path / "results"
    shutil.copytree(studies[0].parameters["results_dir"], results)
    (results / "auto_mpg" / studies[0].folder.name / "runs.csv").write_text("")
    words = ["-f", "quick", "-p", "models", "mixed,split,linear", "-p", "results_dir", str(results)]
    assert main(["verify", "auto_mpg", *words]) == 1
    said, error = capsys.readouterr()
    assert "auto_mpg mixed: not recorded" in said
    assert re.search(r"auto_mpg split: DAMAGED: .*runs\.csv is not what was recorded", said)
    assert "auto_mpg linear: as recorded" in said
    assert error == "error: 1 study did not come out as recorded\n"


def test_verify_goes_on_after_a_study_of_other_rows(studies, monkeypatch, capsys):
    def verify(study, count):
        if study.model == "split":
            raise recording.StudyError("recorded from other rows")
        return recording.Verification(True, True, (1000,), "the same predictions, bit for bit")

    monkeypatch.setattr(recording, "verify", verify)
    results = ["-p", "results_dir", studies[0].parameters["results_dir"]]
    words = ["verify", "auto_mpg", "-f", "quick", "-p", "models", "split,linear", *results]
    assert main(words) == 1
    said = capsys.readouterr().out
    assert "auto_mpg split: NOT VERIFIED: recorded from other rows" in said
    assert "auto_mpg linear: as recorded" in said


def test_a_collapsed_search_does_not_stop_the_studies_behind_it(monkeypatch, capsys):
    def record(study):
        if study.model == "split":
            raise SearchError("all 2 trials collapsed")
        return study

    monkeypatch.setattr(recording, "record_visibly", record)
    assert main(["study", "auto_mpg", "split", "linear"]) == 1
    said, error = capsys.readouterr()
    assert "auto_mpg split: all 2 trials collapsed" in said and "auto_mpg linear: " in said
    assert error == "error: without a selection: auto_mpg split\n"


def test_a_page_is_stale_when_its_inputs_changed_and_not_for_a_lock(monkeypatch, tmp_path):
    for folder in ("notebooks", "mononet", "params", "book/results/auto_mpg"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("notebooks/reading.ipynb", "requirements.txt"):
        (tmp_path / file).write_text("")
    monkeypatch.setattr(commands, "ROOT", tmp_path)
    before = commands._inputs("reading")
    (tmp_path / "book/results/auto_mpg/.lock").write_text("1")
    (tmp_path / "book/results/auto_mpg/test_access.csv.lock").write_text("1")
    assert commands._inputs("reading") == before
    (tmp_path / "book/results/auto_mpg/runs.csv").write_text("1")
    assert commands._inputs("reading") != before


def test_verify_retrains_the_secondary_studies_too(studies, monkeypatch, capsys):
    first = studies[0]
    beside = [SimpleNamespace(study=first, changed="search_seed 1")]
    monkeypatch.setattr(secondary, "of", lambda *_: beside)
    words = ["-f", "quick", "-p", "models", "linear"]
    results = ["-p", "results_dir", first.parameters["results_dir"]]
    assert main(["verify", "auto_mpg", *words, *results]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in said] == [
        "auto_mpg linear",
        "auto_mpg split, search_seed 1",
    ]
