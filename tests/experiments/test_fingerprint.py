"""Fingerprints of code: what counts, what does not, and that nothing which runs is missed."""

from dataclasses import replace
from textwrap import dedent

import pytest

from fedmerit.behaviours import Assignment
from fedmerit.errors import DataError
from fedmerit.experiments.fingerprint import Code, code, place_of, source
from fedmerit.experiments.fingerprint.code import code_of
from fedmerit.experiments.runner import Cell, sources_of
from fedmerit.experiments.spec import EXPERIMENTS, LINES
from fedmerit.simulation.config import ModelChoice
from fedmerit.simulation.data.datasets import load
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.run import run
from tests.called import missed

TOY = {
    "__init__": "from toy.deep import passed_on\n",
    "deep": '''
        """Text."""
        from math import sqrt
        LIMIT = 3

        def helper(x: int) -> int:
            """More text."""
            return sqrt(x) + LIMIT  # why

        def passed_on(x):
            return helper(x)

        def lonely():
            return 1
    ''',
    "main": """
        from typing import TYPE_CHECKING
        import toy
        if TYPE_CHECKING:
            from toy.types import Thing

        class Server:
            size: int = 3

            def settle(self, thing: "Thing") -> int:
                return self._part(thing)

            def _part(self, thing):
                return toy.passed_on(thing)

            def save(self):
                from toy.disk import write
                return write(self)

        def entry(thing):
            return Server().settle(thing)
    """,
    "disk": "def write(x):\n    return x\n",
    "types": "class Thing:\n    pass\n",
}


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Write a package with some files changed; return the code that its entry reaches."""
    monkeypatch.setattr(source, "PACKAGES", ("toy",))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "toy").mkdir()

    def write(entry="toy.main:entry", **changed):
        for name, text in {**TOY, **changed}.items():
            (tmp_path / "toy" / f"{name}.py").write_text(dedent(text))
        for kept in (source.file_of, source.read_module, code.code_of):
            kept.cache_clear()
        return code_of(entry)

    yield write
    for kept in (source.file_of, source.read_module, code.code_of):
        kept.cache_clear()


def edited(module, before, after):
    assert before in TOY[module]
    return {module: TOY[module].replace(before, after)}


@pytest.mark.parametrize(
    ("module", "before", "after"),
    [
        ("deep", "# why", "# because"),
        ("deep", "More text.", "Other text."),
        ("deep", '"""More text."""', ""),
        ("deep", "x: int) -> int", "x)"),
        ("deep", "sqrt(x) + LIMIT", "(sqrt(x)\n                    + LIMIT)"),
        ("deep", "return 1", "return 2"),
        ("disk", "return x", "return 2 * x"),
        ("main", "return write(self)", "return write(None)"),
        ("types", "pass", "size = 3"),
        ("__init__", "from toy.deep import passed_on", "from toy.deep import lonely, passed_on"),
    ],
)
def test_prose_and_code_that_is_not_reached_do_not_count(toy, module, before, after):
    assert toy() == toy(**edited(module, before, after))


@pytest.mark.parametrize(
    ("module", "before", "after"),
    [
        ("deep", "LIMIT = 3", "LIMIT = 4"),
        ("deep", "LIMIT = 3", "LIMIT = 3\n        LIMIT += 1"),
        ("deep", "LIMIT = 3", "LIMIT = 3\n        print(LIMIT)"),
        ("deep", "from math import sqrt", "from cmath import sqrt"),
        ("deep", "return helper(x)", "return helper(-x)"),
        ("main", "size: int = 3", "size: int = 4"),
        ("main", "return self._part(thing)", "self.save(); return 3"),
        ("__init__", "from toy.deep import passed_on", "from toy.deep import lonely as passed_on"),
    ],
)
def test_what_is_reached_counts(toy, module, before, after):
    first, then = toy(), toy(**edited(module, before, after))
    assert first.digest != then.digest
    assert first.changed(then)


def test_rooms_say_where_it_changed(toy):
    first = toy()
    assert set(first.rooms) == {"toy.deep", "toy.main"}
    assert first.changed(toy(**edited("deep", "LIMIT = 3", "LIMIT = 4"))) == ["toy.deep"]
    assert first.changed(Code({})) == ["toy.deep", "toy.main"]
    assert "toy.disk" in toy("toy.main:Server").rooms  # of an entry, everything may be called
    assert "toy.disk" in toy("toy.main").rooms
    assert "toy.disk" in toy("toy.main:Server.save").rooms
    assert set(toy("toy.main:Server.settle").rooms) == {"toy.deep", "toy.main"}


def test_entries_must_exist_and_libraries_are_names_only(toy):
    with pytest.raises(DataError, match=r"toy\.main:nobody"):
        toy("toy.main:nobody")
    with pytest.raises(DataError, match=r"toy\.main:Server\.nothing"):
        toy("toy.main:Server.nothing")
    with pytest.raises(DataError, match=r"toy\.nowhere"):
        toy("toy.nowhere")
    assert toy("torch.nn:Linear").digest != toy("torch.nn:ReLU").digest


def test_a_thing_has_a_place():
    assert place_of(run) == "fedmerit.simulation.run:run"
    assert place_of(Federation.step) == "fedmerit.simulation.federation:Federation.step"
    assert place_of(Assignment()) == "fedmerit.behaviours.assignment:Assignment"
    assert place_of(lambda: 0) == __name__


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_nothing_that_runs_is_missed(line):
    """All of our functions that a run of an experiment calls are reached from where it starts."""
    experiment, data = EXPERIMENTS["mnist-noise"], load("digits")
    cell = Cell(line, experiment.points[-1], 0)
    base = replace(experiment.base, users=8, per_round=7, rounds=3, model=ModelChoice(hidden=8))
    config = replace(experiment, base=base).config(cell.line, cell.point, cell.seed)

    def run():
        federation = Federation(config, data)
        state = federation.start()
        for _ in range(config.rounds):
            state, _ = federation.step(state)

    assert not missed(sources_of(cell), run)
