"""Trials on a Dask cluster: the bytes of one process, and plain words where it cannot work."""

import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from distributed import Client
from disturbed import SAME, small, until

from mononet import cluster, recording
from mononet.commands import main
from mononet.record import Record
from mononet.workers import WorkerError, in_parallel


class Loopback:
    """A scheduler and workers on this machine, as processes."""

    def __init__(self, folder, workers=2, threads=1):
        self.file, self.workers = folder / "scheduler.json", []
        self.processes = [self.start("scheduler", "--port", "0", "--scheduler-file", self.file)]
        assert until(self.file.exists, 120)
        self.address = json.loads(self.file.read_text())["address"]
        for _ in range(workers):
            options = ("--nthreads", threads, "--no-nanny")
            self.workers.append(self.start("worker", self.address, *options))
        self.processes += self.workers
        if workers:
            with Client(self.address, timeout=60, set_as_default=False) as client:
                client.wait_for_workers(workers, timeout=300)

    def start(self, kind, *options):
        module = f"distributed.cli.dask_{kind}"
        words = [sys.executable, "-m", module, *map(str, options), "--host", "127.0.0.1"]
        return subprocess.Popen(
            [*words, "--no-dashboard"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def command(study, scheduler):
    names = ("n_trials", "round_size", "cv_folds", "search_seeds", "max_epochs", "max_depth")
    names += ("final_seeds", "partitions", "engine", "results_dir")
    words = [word for name in names for word in ("-p", name, str(study.parameters[name]))]
    return ["study", "auto_mpg", study.model, *words, "--scheduler", scheduler]


@pytest.mark.slow
def test_a_study_on_a_cluster_that_loses_a_worker_has_the_bytes_of_one_process(tmp_path, capsys):
    alone = recording.record(small(tmp_path / "alone", "split"))
    study = small(tmp_path / "cluster", "split")
    with Loopback(tmp_path) as loopback:
        # Killed once the first round is recorded and another is on its way.
        def lose_a_worker():
            if until(lambda: study.record.has("trials.csv"), 300):
                loopback.workers[0].kill()

        killer = threading.Thread(target=lose_a_worker)
        killer.start()
        assert main(command(study, loopback.address)) == 0
        killer.join()
        assert loopback.workers[0].wait(10) == -9
        assert len(study.trials()) == study.parameters["n_trials"]
    for name in SAME:
        assert (study.folder / name).read_bytes() == (alone.folder / name).read_bytes(), name
    without = [
        {k: v for k, v in s.description.items() if k != "provenance"} for s in (alone, study)
    ]
    assert without[0] == without[1]
    costs = study.record.read_csv("cost.csv")
    assert (costs["step"] == "search").sum() == 4


@pytest.mark.slow
def test_a_cluster_that_is_lost_keeps_what_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 2)
    monkeypatch.setattr(cluster, "WORKERS_SECONDS", 2)
    study = small(tmp_path / "results")
    alone = recording.record(small(tmp_path / "alone"))
    with Loopback(tmp_path, workers=1) as loopback:

        def lose_it_all(trial):
            for process in loopback.processes:
                process.kill()

        begin = time.perf_counter()
        with cluster.connected(loopback.address), pytest.raises(WorkerError, match="lost its"):
            recording.record(study, on_trial=lose_it_all)
        assert time.perf_counter() - begin < 120
    recording.record(study)
    for name in SAME:
        assert (study.folder / name).read_bytes() == (alone.folder / name).read_bytes(), name


@pytest.mark.slow
def test_workers_of_several_threads_or_another_kind_are_refused(tmp_path, monkeypatch):
    with (
        Loopback(tmp_path, workers=1, threads=2) as loopback,
        cluster.connected(loopback.address),
        pytest.raises(WorkerError, match=r"has 2 threads.*--nthreads 1"),
    ):
        list(in_parallel(divmod, [(7, 2)], 1))
    (tmp_path / "scheduler.json").unlink()
    with Loopback(tmp_path, workers=1) as loopback, cluster.connected(loopback.address):
        assert list(in_parallel(divmod, [(7, 2), (9, 2)], 1)) == [(3, 1), (4, 1)]
        kind, revision = cluster.fit()
        for other, said in (
            ((kind | {"processor": "an abacus"}, revision), "another processor"),
            ((kind, "0000000"), "another source revision"),
        ):
            monkeypatch.setattr(cluster, "fit", lambda other=other: other)
            with pytest.raises(WorkerError, match=said):
                list(in_parallel(divmod, [(7, 2)], 1))


@pytest.mark.slow
def test_a_scheduler_without_workers_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "WORKERS_SECONDS", 1)
    with (
        Loopback(tmp_path, workers=0) as loopback,
        cluster.connected(loopback.address),
        pytest.raises(WorkerError, match=r"had no workers for 1 s; start some with `dask worker"),
    ):
        list(in_parallel(divmod, [(7, 2)], 1))


@pytest.mark.parametrize(
    "address", ["", "localhost", "127.0.0.1:8786", "http://127.0.0.1:8786", "tcp://127.0.0.1",
                "tcp://:8786", "tcp://127.0.0.1:port", "tcp://127.0.0.1:99999", "tcp://[::1:8"],
)  # fmt: skip
def test_a_malformed_address_is_one_sentence(tmp_path, capsys, address):
    assert main(command(small(tmp_path), address)) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ") and "is no scheduler's address" in said
    assert len(said.splitlines()) == 1
    assert not Record(small(tmp_path).folder).folder.exists()


def test_a_scheduler_that_cannot_be_reached_is_one_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    assert main(command(small(tmp_path), "tcp://127.0.0.1:1")) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: no Dask scheduler answers at tcp://127.0.0.1:1 within 1 s")
    assert len(said.splitlines()) == 1


def test_the_lines_of_the_page_add_up_what_was_recorded(monkeypatch):
    root = Path(__file__).resolve().parents[1]
    lines = re.search(r"```python\n(.*?)```", (root / "book/scaling.md").read_text(), re.DOTALL)[1]
    monkeypatch.chdir(root)
    names: dict = {}
    exec(lines, names)
    for name, steps in names["seconds"].items():
        costs = Record(root / "book/results/auto_mpg" / name).read_csv("cost.csv")
        assert steps.sum() == pytest.approx(costs["seconds"].sum())
        assert {"search", "validation", "refit"} <= set(steps.index)
    assert names["seconds"]
