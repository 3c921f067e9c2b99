"""What must agree between two machines for the same training to give the same bits."""

from mononet import machine

EPYC = """processor\t: {core}
cpu family\t: 25
model\t\t: {model}
model name\t: AMD EPYC
"""


def cpuinfo(model):
    return "\n".join(EPYC.format(core=core, model=model) for core in range(2))


def test_processors_of_one_name_are_told_apart(monkeypatch):
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "AVX2")
    milan, genoa = (machine.processor(cpuinfo(model)) for model in (1, 17))
    assert milan == "AMD EPYC, family 25, model 1, AVX2"
    assert genoa == "AMD EPYC, family 25, model 17, AVX2"
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "AVX512")
    assert machine.processor(cpuinfo(17)) == "AMD EPYC, family 25, model 17, AVX512"


def test_without_a_cpuinfo_the_platform_names_the_processor(monkeypatch):
    monkeypatch.setattr("platform.processor", lambda: "arm")
    assert machine.processor("").startswith("arm, ")


def test_what_is_taken_up_elsewhere_says_what_it_began_with():
    here = machine.kind()
    assert machine.taken_up(here | {"started": "then"}) == here | {"started": "then"}
    abacus = here | {"processor": "an abacus"}
    moved = machine.taken_up(abacus | {"started": "then"})
    assert moved == here | {"started": "then", "begun_with": abacus}
    # The first beginning is kept when it moves once more.
    again = machine.taken_up(moved | {"processor": "a slide rule"})
    assert again["begun_with"] == abacus and again["processor"] == here["processor"]


def test_differences_are_named_for_a_reader():
    here = machine.kind()
    assert machine.differences(here, here) == []
    other = here | {"processor": "an abacus", "engine_version": 0}
    assert machine.differences(other, here) == ["another engine version", "another processor"]
