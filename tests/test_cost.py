"""What training costs: that the cells measure what they are said to, and what the page says."""

import re

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mononet import cost, cost_page, parameters
from mononet.cost import Cell


@pytest.mark.parametrize(
    "cell",
    [
        Cell(),
        Cell(mode="split"),
        Cell(width=8, depth=1, batch_size=32),
        Cell(mode="split", width=5, depth=4, batch_size=7),
    ],
)
def test_the_products_of_a_step_are_those_that_torch_counts(cell):
    stack = cost.make_stack(cost.replace(cell, engine="eager", rows=cell.batch_size, runs=3))
    with FlopCounterMode(display=False) as counter:
        stack.train_epoch(1)
    ours = 2 * sum(a * b * c for a, b, c in cost.multiplications(cell))
    assert counter.get_total_flops() == 3 * ours


def test_operations_of_the_cell_that_all_is_compared_with():
    # 2 × 16 rows × (4 × 21 weights used twice, 24 × 21 + 21 × 21 + 21 used three times).
    assert 2 * sum(a * b * c for a, b, c in cost.multiplications(Cell())) == 98_112


@pytest.mark.parametrize(
    ("least", "calls", "median"), [(0.0, 3, 2.0), (7.0, 3, 2.0), (12.0, 4, 2.5), (13.5, 5, 2.0)]
)
def test_the_median_of_as_many_calls_as_fit_and_at_least_three(least, calls, median, monkeypatch):
    took = iter([7.0, 1.0, 2.0, 3.0, 1.0, 2.0, 1.0])
    now, done = [0.0], []

    def action():
        now[0] += next(took)
        done.append(now[0])

    monkeypatch.setattr(cost.time, "perf_counter", lambda: now[0])
    assert cost.seconds_of(action, least) == median
    assert len(done) == calls


def held(mebibytes: int) -> float:
    kept = torch.ones(mebibytes * 2**18)
    return cost._peak_mib() if kept.sum() > 0 else 0.0


def test_every_process_has_a_peak_of_memory_of_its_own():
    torch.ones(2**28)  # a gibibyte here is none of theirs
    [small] = cost.alone(held, 1)
    large = cost.alone(held, 201, workers=2)
    assert len(large) == 2
    assert [peak - small for peak in large] == pytest.approx([200, 200], abs=40)


@pytest.fixture(scope="module")
def chapter(tmp_path_factory):
    values = parameters.resolve("cost", ["quick"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MONONET_TRAIN", "1")
        folder = str(tmp_path_factory.mktemp("results"))
        return cost_page.open_chapter(values | {"results_dir": folder})


def test_cells(chapter):
    frame = chapter.experiment.table("cells")
    assert sorted(set(frame["varied"])) == sorted(["runs", *cost_page.VARIED, "workers"])
    assert (frame["step_us"] > 0).all() and (frame["us"] > frame["products_us"]).all()
    assert frame["peak_mib"].between(50, 5000).all()
    runs = cost_page.cells(chapter.experiment, "runs")
    gflops = chapter.experiment.table("rate")["gflops"].iloc[0]
    assert runs["limit_us"].iloc[0] == pytest.approx(98_112 / (gflops * 1e3), rel=1e-6)
    # 50 epochs of ⌈300 / 16⌉ steps.
    assert runs["per_second"].iloc[0] == pytest.approx(1e6 / (950 * runs["us"].iloc[0]))


def test_what_the_page_shows(chapter):
    def text(name):
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", chapter.show(name)))

    for name in cost_page.SHOWN:
        assert not re.search(r"\bnan\b|None|inf\b", text(name)), name
    assert "98,112 of them for its products" in text("limit")
    assert "when it is trained in a stack of 5" in text("finding")
    assert "All that are recorded" in text("protocol").replace("all that", "All that")


def test_one_worker_is_one_network_and_several_count_together():
    values = parameters.resolve("cost")
    grid = dict.fromkeys(varied for varied, _ in cost.grid(values))
    assert list(grid) == ["runs", *cost_page.VARIED, "workers"]
    cells = [cell for varied, cell in cost.grid(values) if varied == "workers"]
    assert [cell.workers for cell in cells] == values["worker_counts"]
    assert {cost.replace(cell, workers=1) for cell in cells} == {Cell()}
