"""A page with all, some and none of its studies, and its boxes."""

import re
import shlex

import pytest

from mononet import data, pages, parameters, recording

pytestmark = pytest.mark.xdist_group("results")
TABLES = [
    "constraints",
    "estimators",
    "costs",
    "configurations",
    "checks",
    "slices",
    "comparisons",
    "published",
    "ledger",
    "secondary",
    "ladder",
    "rungs",
    "log",
]
FIGURES = ["noises", "selection", "curves", "effects", "trials"]
WORDS = [
    "agreement",
    "decision",
    "limits",
    "triggers",
    "results",
    "unsupported",
    "hardest",
    "selection",
    "detectable",
    "conclusion",
    "checked",
    "price",
    "first_version",
    "indicator",
    "inputs",
    "lacking",
    "wanted",
    "noises in words",
    "intervals",
    "claim",
]


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    monkeypatch.delenv(recording.TRAIN, raising=False)


@pytest.fixture
def page(quick, studies):
    """Two of three studies recorded."""
    return pages.open_page("auto_mpg", quick)


@pytest.fixture
def empty(quick, tmp_path):
    return pages.open_page("auto_mpg", quick | {"results_dir": str(tmp_path)})


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """A page whose dataset is not on this machine, nor any study of it."""
    monkeypatch.delenv(data.ENVIRONMENT, raising=False)
    monkeypatch.setattr(data.pooch, "os_cache", lambda name: tmp_path / "cache")
    values = parameters.resolve("heart", ["quick"], [("results_dir", str(tmp_path))])
    return pages.open_page("heart", values)


def everything(page) -> str:
    parts = [page.status(), page.source(), page.verify(), page.colophon()]
    parts += [page.table(name) for name in TABLES] + [page.words(name) for name in WORDS]
    return "\n".join([*parts, *(page.figure(name) for name in FIGURES)])


def test_a_page_shows_what_is_recorded_and_names_what_is_not(page):
    assert [study.model for study in page.recorded] == ["split", "linear"]
    shown = everything(page)
    assert "2 of 3 studies are recorded" in shown
    assert "mixed (absent)" in shown
    assert shown.count("<img") == len(FIGURES)
    assert not re.search(r"\bnan\b|None|Traceback", shown)
    assert 'href="../' not in shown  # a scratch folder is not on the site


def test_a_page_without_any_study_is_whole(empty):
    shown = everything(empty)
    assert "0 of 3 studies are recorded" in shown
    assert "<img" not in shown
    assert "mixed (absent), split (absent), linear (absent)" in shown
    assert "Displacement" in shown  # what needs only the rows is there


def test_a_page_without_rows_says_how_to_get_them(elsewhere):
    shown = everything(elsewhere)
    assert "python -m mononet data fetch heart" in elsewhere.status()
    assert "not on this machine" in shown


def test_the_command_of_a_page_makes_it_again(page):
    typed = shlex.split(page.command().replace("\\\n", " "))
    assert typed[:5] == ["python", "-m", "mononet", "run", "auto_mpg"]
    pairs = list(zip(typed[6::3], typed[7::3], strict=True))
    assert set(typed[5::3]) == {"-p"}
    assert parameters.resolve("auto_mpg", pairs=pairs) == page.parameters
    assert "-p final_seeds 50" in page.colophon()


def test_the_full_protocol_needs_no_parameters():
    page = pages.open_page("auto_mpg", parameters.resolve("auto_mpg"))
    assert page.command() == "python -m mononet run auto_mpg"


def test_wrong_parameters_are_refused(quick):
    with pytest.raises(parameters.ParameterError, match="n_trials"):
        pages.open_page("auto_mpg", quick | {"n_trials": 0})
    short = {name: value for name, value in quick.items() if name != "cv_folds"}
    with pytest.raises(parameters.ParameterError, match="cv_folds"):
        pages.open_page("auto_mpg", short)


def test_names_from_parameters_are_escaped(quick, tmp_path):
    folder = str(tmp_path / "<b>bold</b>")
    shown = everything(pages.open_page("auto_mpg", quick | {"results_dir": folder}))
    assert "<b>" not in shown and "&lt;b&gt;" in shown


def test_verification_trains_again_and_adds_no_opening(page):
    before = page.studies[0].ledger.read_bytes()
    shown = page.verify()
    assert "mn-ok" in shown and "seeds 1000 and 1001" in shown and "split" in shown
    assert page.studies[0].ledger.read_bytes() == before


def test_a_failed_verification_warns(page, monkeypatch):
    failed = recording.Verification(False, False, (1000,), "not the <recorded> predictions")
    monkeypatch.setattr(recording, "verify", lambda study: failed)
    shown = page.verify()
    assert "mn-warn" in shown and "&lt;recorded&gt;" in shown and "Did not" in shown


def test_a_study_is_recorded_where_asked_for(quick, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv(recording.TRAIN, "1")
    values = quick | {"results_dir": str(tmp_path), "models": ["linear"]}
    page = pages.open_page("auto_mpg", values)
    assert [study.model for study in page.recorded] == ["linear"]
    assert "2 of 2 trials" in capfd.readouterr().err


def test_a_partial_study_says_how_far_it_is(quick, tmp_path):
    values = quick | {"results_dir": str(tmp_path), "models": ["linear"]}
    study = pages.open_page("auto_mpg", values).studies[0]

    def stop(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recording.record(study, on_step=stop)
    shown = pages.open_page("auto_mpg", values).status()
    assert "0 of 1 studies" in shown and "linear (partial: 2 of 2 trials)" in shown
