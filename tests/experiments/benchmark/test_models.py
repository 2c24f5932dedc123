"""Federations of the models benchmark, on a task so small that it takes no time."""

import json
from dataclasses import replace
from functools import wraps

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from fedmerit.behaviours import Honest, LocalData, parse_behaviour
from fedmerit.cli.app import app
from fedmerit.errors import DataError, SettingError, UnknownNameError
from fedmerit.experiments.benchmark.files import read_rows, write_rows
from fedmerit.experiments.benchmark.models import baselines, benchmark, cells, page
from fedmerit.experiments.benchmark.models.baselines import Baselines
from fedmerit.experiments.benchmark.models.benchmark import Plan, ordered, run_plan
from fedmerit.experiments.benchmark.models.cells import BEHAVIOURS, QUICK, Bench
from fedmerit.experiments.benchmark.models.combine import (
    coordinate_median,
    fedavg,
    flatten,
    same_bits,
    unflatten,
)
from fedmerit.experiments.benchmark.models.federation import Cast, accuracy, federate, make_cast
from fedmerit.experiments.benchmark.models.ours import judge
from fedmerit.experiments.benchmark.models.tasks.registry import TASKS
from fedmerit.experiments.benchmark.models.tasks.task import Task, Training
from fedmerit.experiments.benchmark.models.training import (
    evaluate,
    make_module,
    sent_state,
    train_client,
)
from fedmerit.experiments.benchmark.rows import ModelRow
from fedmerit.experiments.fingerprint import Sources
from fedmerit.flags import Flag, Kind
from fedmerit.rng import stream
from fedmerit.server import Result
from tests.called import missed

CLIENTS, ROUNDS = 7, 2


def tiny(seed, quick=True, folder=None):
    """Two classes that a small network with batch normalisation can tell apart."""
    del quick, folder
    rng = stream(seed, "tiny")
    x = rng.standard_normal((40 * (CLIENTS + 1), 12), dtype=np.float32)
    y = (x[:, :6].sum(1) > 0).astype(np.int64)
    parts = [LocalData(x[i::8], y[i::8]) for i in range(CLIENTS + 1)]
    return Task(
        name="tiny",
        about="a task for tests",
        module=make_module(
            lambda: nn.Sequential(
                nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2)
            ),
            stream(seed, "tiny", "module"),
        ),
        clients=tuple(parts[:-1]),
        held_out=parts[-1],
        classes=2,
        training=Training(rate=0.1, batch=10),
        rounds=ROUNDS,
    )


@pytest.fixture
def task():
    return tiny(1)


@pytest.fixture(autouse=True, scope="module")
def _known():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, "tiny", tiny)
        yield


@pytest.fixture(scope="module")
def bench(_known):
    return Bench("tiny", 1, quick=True)


def test_a_client_trains_repeatably_and_leaves_everything_else_alone(task):
    start, drawn = sent_state(task.module), torch.random.get_rng_state()
    first, again = (train_client(task, start, task.clients[0], stream(1)) for _ in range(2))
    assert same_bits(first, again)
    assert not same_bits(first, train_client(task, start, task.clients[1], stream(1)))
    assert same_bits(start, sent_state(task.module))
    torch.testing.assert_close(torch.random.get_rng_state(), drawn)
    assert first["1.num_batches_tracked"] == 4
    assert first["1.running_var"].dtype == np.float32


def test_fedavg_learns_and_is_flowers_to_the_bit(task):
    app_module = pytest.importorskip("flwr.app")
    strategy = pytest.importorskip("flwr.serverapp.strategy.strategy_utils")
    start = sent_state(task.module)
    sent = {
        str(c): train_client(task, start, data, stream(2, c)) for c, data in enumerate(task.clients)
    }
    sizes = {str(c): 10 + 7 * c for c in range(CLIENTS)}
    ours = fedavg(start, sent, sizes)
    records = [
        app_module.RecordDict(
            {
                "arrays": app_module.ArrayRecord(
                    {name: app_module.Array(value) for name, value in state.items()}
                ),
                "metrics": app_module.MetricRecord({"num-examples": sizes[client]}),
            }
        )
        for client, state in sent.items()
    ]
    theirs = strategy.aggregate_arrayrecords(records, "num-examples")
    assert same_bits({name: array.numpy() for name, array in theirs.items()}, ours)
    assert ours["1.num_batches_tracked"] == 0
    trained = federate(replace(task, rounds=6), make_cast(task, Honest(), 1), 1, fedavg)
    assert accuracy(task, trained) > evaluate(task, start) + 0.1


def test_the_median_is_taken_by_coordinate_and_vectors_go_back_and_forth(task):
    start = sent_state(task.module)
    sent = {str(c): unflatten(np.full_like(flatten(start), c), start) for c in (0, 1, 2, 100, 1000)}
    middle = coordinate_median(start, sent, dict.fromkeys(sent, 1))
    np.testing.assert_array_equal(flatten(middle), 2)
    assert middle.keys() == start.keys()
    assert same_bits(unflatten(flatten(start), start), start)


def test_runs_are_paired_and_the_same_clients_lie(task):
    honest, boosted = (
        make_cast(task, parse_behaviour(name), 1) for name in ("honest", "label-flip")
    )
    assert honest.liars == ()
    assert honest.drawn == boosted.liars
    assert len(boosted.liars) == 2
    assert boosted.behaviours[boosted.liars[0]].classes == 2
    seen = {}

    def witness(name):
        def settle(state, sent, sizes):
            seen.setdefault(name, []).append(sent)
            return fedavg(state, sent, sizes)

        return settle

    federate(task, honest, 1, witness("honest"))
    federate(task, boosted, 1, witness("flipped"))
    for client in map(str, boosted.others):
        assert same_bits(seen["honest"][0][client], seen["flipped"][0][client])
    for client in map(str, boosted.liars):
        assert not same_bits(seen["honest"][0][client], seen["flipped"][0][client])


def test_names_change_own_work_comes_back_and_infinity_stays(task):
    seen = []

    def settle(state, sent, sizes):
        seen.append(dict(sent))
        return fedavg(state, sent, sizes)

    long = replace(task, rounds=4)
    renaming = make_cast(task, parse_behaviour("renaming:1"), 1)
    federate(long, renaming, 1, settle)
    assert [f"{renaming.liars[0]}-{i}" in sent for i, sent in enumerate(seen)] == [True] * 4
    seen.clear()
    rotating = make_cast(task, parse_behaviour("rotating:2"), 1)
    states = federate(long, rotating, 1, settle)
    liar = str(rotating.liars[0])
    models = [flatten(sent_state(task.module)), *map(flatten, states)]
    work = [flatten(sent[liar]) - models[i] for i, sent in enumerate(seen)]
    for late in work[2:]:
        assert min(np.abs(late - early).max() for early in work[:2]) < 1e-5
    endless = federate(
        long,
        renaming,
        1,
        lambda state, *_: unflatten(np.full_like(models[0], np.inf), state),
    )
    assert len(endless) == 4
    assert 0 <= accuracy(task, endless) <= 1


def result_of(number, weights, flags, payments):
    names = list(weights)
    return Result(number, dict.fromkeys(names, 0.0), weights, flags, payments, {})


def test_judging_compares_liars_with_the_others():
    cast = Cast((Honest(), Honest(), parse_behaviour("stale")), (2,))
    explained, undecided = Flag(Kind.EXPLAINED), Flag(Kind.UNDECIDED)
    results = [
        result_of(
            number,
            {"0": 0.5, "1": 0.25, "2": 0.25},
            {"0": undecided, "1": None, "2": explained},
            {"0": 30, "1": 10, "2": 10},
        )
        for number in (1, 2)
    ]
    told = judge(results, {"2"}, cast, (20, 10, 20))
    late = result_of(
        3, {"0": 0.5, "1": 0.5, "2": 0.0}, dict.fromkeys("012"), dict.fromkeys("012", 0)
    )
    assert judge([*results, late], set(), cast, (20, 10, 20)).late_weight == 0
    assert (told.honest_flagged, told.honest_unweighted, told.honest_named) == (0, 0, 0)
    assert (told.flagged, told.named) == (1, 1)
    assert told.weight == pytest.approx(0.5)
    assert told.pay == pytest.approx(0.5)
    assert told.pay_spread == pytest.approx(0.5)
    assert told.undecided == pytest.approx(1 / 3)
    assert (told.honest_kinds, told.kinds) == ("undecided 2", "explained 2")
    clean = judge(results, {"2"}, Cast((Honest(),) * 3, (2,)), (20, 10, 20))
    assert clean.honest_flagged == pytest.approx(1 / 3)
    assert clean.honest_named == 1
    assert np.isnan(clean.flagged)
    assert clean.pay == pytest.approx(0.5)


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_every_behaviour_gives_a_row(bench, behaviour):
    row = bench.run(behaviour)
    assert (row.task, row.behaviour, row.clients, row.rounds) == ("tiny", behaviour, 7, ROUNDS)
    assert row.liars == (0 if behaviour == "honest" else 2)
    for name in ("accuracy", "fedavg", "median", "home"):
        assert 0 <= getattr(row, name) <= 1


def test_another_share_is_another_row_with_a_home_of_its_own(bench, tmp_path):
    usual, half = bench.run("stale"), bench.run("stale", 0.5)
    assert (usual.liars, half.liars) == (2, 4)
    home = Bench("tiny", 1, quick=True).run("stale", 0.5)
    assert (half.home, half.same_bits) == (home.home, home.same_bits)
    path = tmp_path / "models.csv"
    write_rows(path, [half, usual])
    told = page.page(ordered(read_rows(path, ModelRow)))
    assert "| stale |" in told
    assert "| stale by 50% |" in told
    assert "Of 2 runs with clients that train nothing" in told


def call(*arguments):
    return CliRunner().invoke(app, ["benchmark", "models", *arguments])


def test_cells_are_run_once_and_continued(tmp_path, monkeypatch):
    options = ("--quick", "--task", "tiny", "--seed", "900", "--out", str(tmp_path), "--json")
    first = call("--behaviour", "stale", *options)
    assert first.exit_code == 0, first.output
    (row,) = json.loads(first.stdout)
    assert (row["behaviour"], row["seed"]) == ("stale", 900)
    ran = []
    run = Bench.run
    monkeypatch.setattr(
        Bench, "run", lambda bench, told, share: ran.append(told) or run(bench, told, share)
    )
    result = call(*options)
    assert result.exit_code == 0, result.output
    assert set(ran) == set(QUICK) - {"stale"}
    rows = json.loads(result.stdout)
    assert [row["behaviour"] for row in rows] == [name for name in BEHAVIOURS if name in QUICK]
    text = (tmp_path / "models.md").read_text()
    assert "fedmerit benchmark models --seed 900 --seeds 1 --quick --task tiny" in text
    assert "## Task tiny" in text
    assert "<svg" in (tmp_path / "models.svg").read_text(encoding="utf-8")
    mixed = call("--task", "tiny", "--out", str(tmp_path)).exception
    assert isinstance(mixed, SettingError)
    assert "must not mix quick and full runs" in str(mixed)


def test_rows_of_other_code_are_run_again_and_servers_without_scores_are_not(tmp_path, monkeypatch):
    options = ("--quick", "--task", "tiny", "--behaviour", "stale", "--behaviour", "honest")
    options += ("--seed", "900", "--out", str(tmp_path), "--json")
    assert call(*options).exit_code == 0
    ran = []

    def watch(module):
        @wraps(federate)
        def watched(*told):
            ran.append(module)
            return federate(*told)

        monkeypatch.setattr(module, "federate", watched)

    watch(baselines)
    watch(cells)
    first = json.loads(call(*options).stdout)
    assert {len(row["code"]) for row in first} == {8}
    monkeypatch.setattr(benchmark, "row_code", lambda *_: "other")
    assert json.loads(call(*options, "--keep-old").stdout) == first
    assert not ran
    assert call(*options).exit_code == 0
    assert ran == [cells, cells]
    assert json.loads(call(*options).stdout) == [{**row, "code": "other"} for row in first]


def test_what_decides_a_server_without_scores_decides_whether_it_runs_again(task, tmp_path):
    def files():
        return len(list(tmp_path.iterdir()))

    stale, flipped = (make_cast(task, parse_behaviour(n), 1) for n in ("stale", "label-flip"))
    bare, kept = Baselines(task, 1), Baselines(task, 1, tmp_path)
    fresh = bare.run(stale, fedavg, stale.others, with_model=True)
    for cast in (stale, flipped, stale):  # who stays at home does nothing
        home = kept.run(cast, fedavg, cast.others, with_model=True)
        assert home.accuracy == fresh.accuracy
        assert same_bits(home.model, fresh.model)
    assert files() == 1
    assert kept.run(stale, fedavg).accuracy == bare.run(stale, fedavg).accuracy
    assert files() == 2
    kept.run(flipped, fedavg)
    kept.run(flipped, coordinate_median)
    Baselines(task, 2, tmp_path).run(flipped, fedavg)
    Baselines(replace(task, rounds=1), 1, tmp_path).run(flipped, fedavg)
    Baselines(replace(task, clients=task.clients[::-1]), 1, tmp_path).run(flipped, fedavg)
    assert files() == 7


def test_our_own_code_does_not_decide_servers_without_scores():
    ours = {"fedmerit.evidence", "fedmerit.scorers", "fedmerit.server"}
    plain = Sources.of(federate, accuracy, fedavg, coordinate_median, parse_behaviour("stale"))
    assert not ours & set(plain.code.rooms)
    assert ours < set(benchmark.Models().sources.code.rooms)


@pytest.mark.slow
def test_nothing_that_decides_a_row_is_missed():
    chosen = (Bench, parse_behaviour("label-flip"), Honest, tiny(1))
    sources = Sources.of(*chosen, closed=benchmark.CLOSED)
    assert not missed(sources, lambda: Bench("tiny", 1, quick=True).run("label-flip"))


def test_what_cannot_be_chosen_says_why(tmp_path):
    assert isinstance(call("--task", "huge").exception, UnknownNameError)
    assert isinstance(call("--behaviour", "nice").exception, UnknownNameError)
    assert "data of their own" in str(call("--dataset", "mnist").exception)
    other = CliRunner().invoke(app, ["benchmark", "null", "--task", "tiny"]).exception
    assert "only models has tasks" in str(other)
    assert "share must be less than 1" in str(call("--share", "1").exception)
    (tmp_path / "models.csv").write_text("a,b\n1,2\n")
    assert isinstance(call("--out", str(tmp_path)).exception, DataError)


def test_a_task_without_its_data_is_left_out_unless_it_was_asked_for(monkeypatch):
    def missing(*_):
        raise DataError("no such files")

    monkeypatch.setattr(
        "fedmerit.experiments.benchmark.models.benchmark.TASKS", {"tiny": tiny, "gone": missing}
    )
    monkeypatch.setitem(TASKS, "gone", missing)
    begun, left = [], []
    plan = Plan((900, 901), quick=True, behaviours=("stale",))
    rows = list(run_plan(plan, (), begun.append, left.append))
    assert [(row.task, row.seed) for row in rows] == [("tiny", 900), ("tiny", 901)]
    assert len(begun) == 4
    assert left == ["gone is left out: no such files"]
    with pytest.raises(DataError):
        list(run_plan(replace(plan, tasks=("gone",)), (), begun.append, left.append))


def test_rows_survive_their_table_and_bad_tables_are_refused(bench, tmp_path):
    rows = [bench.run("honest"), bench.run("boost:2")]
    path = tmp_path / "models.csv"
    write_rows(path, rows)
    read = read_rows(path, ModelRow)
    write_rows(tmp_path / "again.csv", read)
    assert path.read_bytes() == (tmp_path / "again.csv").read_bytes()
    assert read[0].same_bits is rows[0].same_bits
    assert [row.behaviour for row in ordered(read[::-1])] == ["honest", "boost:2"]
    path.write_text(path.read_text().replace("tiny,boost:2,1", "tiny,boost:2,one"))
    with pytest.raises(DataError, match="line 3, cannot be read"):
        read_rows(path, ModelRow)
    assert read_rows(tmp_path / "none.csv", ModelRow) == []


def test_the_page_lists_where_ours_is_worse(bench):
    honest, boosted = bench.run("honest"), bench.run("boost:2")
    rows = [
        replace(honest, accuracy=0.8, fedavg=0.81),
        replace(boosted, accuracy=0.7, fedavg=0.9),
        replace(boosted, accuracy=0.9, fedavg=0.9, seed=2),
        replace(boosted, behaviour="zero", accuracy=0.9, fedavg=0.903),
    ]
    assert [cell.behaviour for cell in page.worse(rows)] == ["boost:2", "honest"]
    text = page.page(rows)
    assert "worse than FedAvg by more than 0.005 in 2 of 3 cells:" in text
    assert "    - tiny, boost:2: 0.800 against 0.900 (" in text
