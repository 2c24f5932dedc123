"""Experiments: the paper's settings, resumable to the same table, drawn to files."""

from dataclasses import replace
from functools import partial

import pytest

from fedmerit import CpSGD, PublishedPCA
from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.experiments import runner
from fedmerit.experiments.figures import draw
from fedmerit.experiments.fingerprint import Sources
from fedmerit.experiments.runner import Cell, cells, run_experiment, sources_of
from fedmerit.experiments.spec import (
    DEFAULT,
    EXPERIMENTS,
    FEDAVG,
    LINES,
    PUBLISHED,
    Line,
    Point,
    find_experiment,
)
from fedmerit.server import RoundRules
from fedmerit.simulation.config import FederationConfig, ModelChoice
from fedmerit.simulation.data import datasets
from fedmerit.simulation.training.settings import LocalTraining

TINY = FederationConfig(
    users=8, per_round=6, rounds=2, model=ModelChoice(hidden=32), training=LocalTraining(epochs=1)
)


@pytest.fixture(scope="module")
def digits():
    return datasets.load("digits")


def tiny(name):
    experiment = find_experiment(name)
    points = experiment.points[:: max(1, len(experiment.points) - 1)]
    return replace(experiment, base=TINY, seeds=(0, 1), points=points)


def test_the_specs_are_the_papers():
    riders, noise = EXPERIMENTS["mnist-free-riders"], EXPERIMENTS["mnist-noise"]
    assert [point.value for point in riders.points] == [0, 10, 20, 30, 40, 50]
    assert riders.points[2].behaviours == "20% random-update:0.01"
    assert [point.value for point in noise.points] == [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1]
    assert noise.points[-1].behaviours == "25% noise:0.1"
    for experiment in EXPERIMENTS.values():
        assert experiment.base == FederationConfig()
        assert experiment.lines == LINES
        assert len(experiment.seeds) >= 3
    published = PublishedPCA(quantiser=CpSGD(levels=8, clip=0.1), peers=5, bonus=1000)
    assert PUBLISHED.rules == RoundRules(published, "score", norm_bound=None)
    assert DEFAULT.rules == RoundRules()
    assert FEDAVG.rules == RoundRules(None, "size", norm_bound=None)


def test_lines_at_one_point_and_seed_share_everything_but_the_server():
    experiment = EXPERIMENTS["mnist-free-riders"]
    configs = [experiment.config(line, experiment.points[1], 2) for line in LINES]
    assert len(set(configs)) == len(LINES)
    assert len({config.rules for config in configs}) == len(LINES)
    same = [replace(config, rules=RoundRules(None, "uniform")) for config in configs]
    assert len(set(same)) == 1


@pytest.mark.slow
def test_a_stopped_experiment_continues_to_the_same_table_and_runs(digits, tmp_path):
    experiment = tiny("mnist-free-riders")
    expected = run_experiment(experiment, digits, tmp_path / "whole")
    seen = []

    def stop(cell, record):
        seen.append((cell, record.round))
        if len(seen) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, digits, tmp_path / "parts", on_round=stop)
    seen.clear()
    found = run_experiment(
        experiment, digits, tmp_path / "parts", on_round=lambda *at: seen.append(at)
    )
    assert len(seen) == 2 * len(list(cells(experiment))) - 5
    assert repr(found) == repr(expected)
    files = sorted(
        path.relative_to(tmp_path / "whole") for path in tmp_path.rglob("whole/**/*.csv")
    )
    assert len(files) == 1 + 2 * len(list(cells(experiment)))
    for file in files:
        parts, whole = (tmp_path / side / file for side in ("parts", "whole"))
        assert parts.read_bytes() == whole.read_bytes()


@pytest.mark.slow
def test_only_what_other_code_decided_is_run_again(digits, tmp_path, monkeypatch):
    experiment = tiny("mnist-free-riders")
    first = run_experiment(experiment, digits, tmp_path / "runs")
    codes = {(o.line, o.value): o.code for o in first}
    assert all(codes.values())
    assert codes["fedavg", 0] != codes["fed-pca-published", 0] != codes["fedmerit", 0]
    ran = []

    def note(cell, _):
        ran.append(cell.line.name)

    again = partial(run_experiment, experiment, digits, on_round=note)
    again(tmp_path / "runs")
    assert not ran
    was = runner.sources_of
    changed = Sources.of("fedmerit.experiments.runner:LAST")
    monkeypatch.setattr(
        runner, "sources_of", lambda cell: changed if cell.line is DEFAULT else was(cell)
    )
    kept = again(tmp_path / "runs", keep_old=True)
    assert not ran
    assert repr(kept) == repr(first)
    found = again(tmp_path / "elsewhere", known=first)  # as from a table
    assert set(ran) == {"fedmerit"}
    ran.clear()
    assert repr(again(tmp_path / "runs")) == repr(found)
    assert set(ran) == {"fedmerit"}
    assert {o.code for o in found if o.line == "fedmerit"} == {changed.code.digest}
    assert [replace(o, code="") for o in found if o.line != "fedmerit" and o.value] == [
        replace(o, code="") for o in first if o.line != "fedmerit" and o.value
    ]


def test_fedavg_and_published_lines_do_not_depend_on_verdicts():
    point = EXPERIMENTS["mnist-noise"].points[0]
    rooms = {line.name: set(sources_of(Cell(line, point, 0)).code.rooms) for line in LINES}
    verdicts = {"fedmerit.evidence", "fedmerit.server", "fedmerit.sampling"}
    assert not verdicts & (rooms["fedavg"] | rooms["fed-pca-published"])
    assert "fedmerit.scorers" not in rooms["fedavg"]
    assert "fedmerit.scorers" in rooms["fed-pca-published"]
    assert verdicts < rooms["fedmerit"]
    assert "fedmerit.quantisers:CpSGD" in sources_of(Cell(PUBLISHED, point, 0)).entries


def test_outcomes_are_means_of_what_the_runs_recorded(digits, tmp_path):
    gated = Line("gated", "gated", RoundRules(weighting="gated", norm_bound=1.5))
    experiment = replace(tiny("mnist-free-riders"), lines=(FEDAVG, DEFAULT, gated))
    outcomes = run_experiment(experiment, digits, tmp_path)
    fedavg = [o for o in outcomes if o.line == "fedavg" and o.value == 50]
    for outcome in fedavg:
        # On digits clients differ by a sample or two, so FedAvg's weights are near one in six.
        assert outcome.dishonest_weight == pytest.approx(1 / 6, rel=0.05)
    # Two rounds of two-class clients on a tiny model decide little; without evidence all are equal,
    # or, where FedAvg's weights are kept, as equal as their sizes.
    for line, equal in (("gated", 1 + 1e-9), ("fedmerit", 1.05)):
        ours = [o for o in outcomes if o.line == line and o.value == 50]
        assert len(ours) == 2
        assert all(o.dishonest_weight <= equal * o.honest_weight for o in ours)
    clean = [o for o in outcomes if o.value == 0]
    assert all(o.dishonest_weight != o.dishonest_weight for o in clean)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist-free-riders", "mnist-noise", "mnist-honest"])
def test_figures_are_drawn_and_the_same_results_give_the_same_svg(digits, tmp_path, name):
    experiment = tiny(name)
    outcomes = run_experiment(experiment, digits, tmp_path)
    svg = draw(experiment, outcomes, tmp_path)
    first = svg.read_bytes()
    draw(experiment, outcomes, tmp_path)
    assert svg.read_bytes() == first
    assert b"<svg" in first
    assert experiment.title in first.decode()  # letters are text


def test_a_short_version_keeps_the_ends():
    quick = EXPERIMENTS["mnist-free-riders"].shortened(rounds=3, seeds=1, points=3)
    assert [point.value for point in quick.points] == [0, 20, 50]
    assert (quick.base.rounds, quick.seeds) == (3, (0,))


def test_what_cannot_be_run_says_why():
    with pytest.raises(UnknownNameError, match="did you mean 'mnist-noise'"):
        find_experiment("mnist-nois")
    with pytest.raises(SettingError, match="seeds must be different and at least one"):
        replace(EXPERIMENTS["mnist-honest"], seeds=(1, 1))
    with pytest.raises(SettingError, match="behaviours must read like"):
        Point(1, "some")
