import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fedmerit
from fedmerit.cli.app import app
from fedmerit.cli.score import _shares
from fedmerit.errors import DataError, SettingError, UnknownNameError
from fedmerit.flags import Flag, Kind
from fedmerit.ledger import Ledger, SigningKey
from fedmerit.types import Contributions
from tests.rounds import public_round

HOSTILE = "[red]=1+1\x1b[2J"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    made = public_round()
    updates = made.with_riders(made.last_update)
    names = [*(f"client {i}" for i in range(6)), HOSTILE]
    np.savez(tmp_path / "updates.npz", updates=updates, clients=names)
    np.save(tmp_path / "last.npy", made.public)
    return tmp_path / "updates.npz", tmp_path / "last.npy"


def call(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["score", *map(str, arguments)], env={"COLUMNS": "160"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


def test_a_replay_is_flagged_and_gets_nothing(files):
    data = json.loads(call(files[0], "--public", files[1], "--seed", 1, "--json"))
    rider = data["clients"][-1]
    assert rider["client"] == HOSTILE
    assert (rider["flagged"], rider["weight"], rider["score"]) == (True, 0.0, 0.0)
    assert "explained by public information" in rider["reason"]
    for client in data["clients"][:-1]:
        assert not client["flagged"]
        assert client["low"] < client["score"] < client["high"]
    assert sum(client["weight"] for client in data["clients"]) == pytest.approx(1)


def test_weights_are_equal_shares_and_follow_scores_only_by_alpha(files):
    arguments = (files[0], "--public", files[1], "--seed", 1, "--resamples", 0, "--json")
    data = json.loads(call(*arguments))
    assert data["alpha"] is None
    assert [client["weight"] for client in data["clients"]] == [pytest.approx(1 / 6)] * 6 + [0]
    data = json.loads(call(*arguments, "--alpha", 10))
    assert data["alpha"] == 10
    assert len({client["weight"] for client in data["clients"]}) == 7


def test_weights_are_those_of_a_server(tmp_path):
    honest = public_round().honest
    rows = {f"c{i}": row for i, row in enumerate(honest)}
    rows |= {"twin": honest[2], "noise": np.random.default_rng(0).normal(size=honest.shape[1])}
    np.savez(tmp_path / "updates.npz", **rows)
    clients = json.loads(call(tmp_path / "updates.npz", "--resamples", 0, "--json"))["clients"]
    shown = {client["client"]: client["weight"] for client in clients}
    with fedmerit.Server(np.zeros(honest.shape[1])) as server:
        assert shown == pytest.approx(server.settle(updates=rows).weights)
    assert [name for name, weight in shown.items() if weight == 0] == ["twin", "noise"]


@pytest.mark.parametrize(
    ("flags", "eligible", "weights"),
    [
        ((None, None, Kind.EXPLAINED), (True, False, False), [1, 0, 0]),
        ((None, None, Kind.EXPLAINED), (False, False, False), [0.5, 0.5, 0]),
        ((Kind.UNDECIDED, Kind.UNDECIDED, Kind.EXPLAINED), (False, False, False), [0.5, 0.5, 0]),
        ((Kind.EXPLAINED,) * 3, (False, False, False), [0, 0, 0]),
    ],
)
def test_where_nobody_is_eligible_all_that_are_not_flagged_share(flags, eligible, weights):
    made = Contributions.of(
        "merit",
        np.zeros(3),
        flags=[kind and Flag(kind) for kind in flags],
        eligible=np.array(eligible),
    )
    assert _shares(made).tolist() == weights


def test_a_matrix_with_more_rows_than_columns_may_be_transposed(tmp_path):
    honest = public_round().honest
    np.save(tmp_path / "right.npy", honest)
    np.save(tmp_path / "turned.npy", honest[:, :40].T)
    said = "more rows than columns: rows are clients, columns parameters; is the matrix transposed?"
    assert call(tmp_path / "turned.npy", "--resamples", 0).splitlines().count(said) == 1
    assert said not in call(tmp_path / "right.npy", "--resamples", 0)
    json.loads(call(tmp_path / "turned.npy", "--resamples", 0, "--json"))


def test_the_seed_that_is_printed_repeats_the_result(files):
    first = json.loads(call(files[0], "--json"))
    assert json.loads(call(files[0], "--json", "--seed", first["seed"])) == first


def test_names_do_not_reach_the_terminal_or_a_spreadsheet_as_code(files, tmp_path):
    text = call(files[0], "--public", files[1], "--csv", tmp_path / "new" / "scores.csv")
    assert "\x1b[2J" not in text
    assert "[red]=1+1" in text
    with (tmp_path / "new" / "scores.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7
    np.savez(tmp_path / "formula.npz", **{"=1+1": np.arange(99.0), "b": np.arange(99.0) ** 2})
    call(tmp_path / "formula.npz", "--method", "cosine", "--csv", tmp_path / "scores.csv")
    assert "'=1+1," in (tmp_path / "scores.csv").read_text()


def test_near_copies_are_called_by_name(tmp_path):
    honest = public_round().honest
    np.savez(tmp_path / "a.npz", **{f"c{i}": row for i, row in enumerate(honest)}, twin=honest[2])
    text = call(tmp_path / "a.npz", "--resamples", 0, "--seed", 1)
    assert "near-copy of client twin" in text
    assert "near-copy of client c2" in text


def test_strict_tells_scripts_by_the_exit_code(files):
    call(files[0], "--public", files[1], "--resamples", 0, "--strict", code=1)
    call(files[0], "--method", "exact", "--resamples", 0, "--strict")


def test_what_cannot_be_scored_says_why(files, tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'merit'"):
        call(files[0], "--method", "merits")
    np.savez(tmp_path / "nan.npz", good=np.zeros(50), bad=np.full(50, np.nan))
    with pytest.raises(DataError, match="must be finite, got nan in 'bad'"):
        call(tmp_path / "nan.npz")


def test_a_round_is_paid_and_recorded_as_it_is_shown(files, tmp_path):
    ledger, key = tmp_path / "run.ledger", tmp_path / "key.pem"
    SigningKey.generate().save(key)
    arguments = (files[0], "--public", files[1], "--seed", 1, "--resamples", 0)
    paid = (*arguments, "--reward", "positive:budget=1000", "--ledger", ledger, "--sign", key)
    shown = json.loads(call(*paid, "--json"))["clients"]
    assert sum(client["reward"] for client in shown) == 1000
    assert (shown[-1]["reward"], shown[-1]["kind"]) == (0, "explained")
    assert json.loads(call(*arguments, "--json"))["clients"][0]["reward"] is None
    assert "pay" in call(*paid)
    with Ledger.open(ledger, read_only=True) as opened:
        assert opened.verify(public_key=SigningKey.load(key).public_key).ok
        assert [run.config["method"] for run in opened.runs()] == ["merit", "merit"]
        first, second = opened.rounds()
    assert first == second
    assert [c.reward for c in first.clients] == [client["reward"] for client in shown]
    assert [c.score for c in first.clients] == [client["score"] for client in shown]
    assert first.clients[-1].flag.kind is Kind.EXPLAINED


def test_every_client_that_is_paid_nothing_is_told_why(files):
    arguments = (files[0], "--seed", 1, "--resamples", 0, "--reward", "positive:budget=3", "--json")
    clients = json.loads(call(*arguments))["clients"]
    assert {c["kind"] for c in clients if c["reward"] == 0 and not c["flagged"]} == {"unpaid"}
    assert all(c["kind"] for c in clients if c["reward"] == 0 or c["weight"] == 0)


def test_whole_models_are_noticed(tmp_path):
    made = public_round()
    model = 50 * made.model
    np.savez(tmp_path / "models.npz", **{f"c{i}": model + u for i, u in enumerate(made.honest)})
    np.save(tmp_path / "model.npy", model)
    arguments = (tmp_path / "models.npz", "--resamples", 0, "--seed", 1)
    assert "--global-model" in call(*arguments)
    told = call(*arguments, "--global-model", tmp_path / "model.npy")
    assert "--global-model" not in told
    assert "near-copy" not in told


def test_what_cannot_be_paid_or_signed_is_said_before_anything_is_read(tmp_path):
    with pytest.raises(SettingError, match="--sign needs a ledger"):
        call(tmp_path / "none.npz", "--sign", tmp_path / "key.pem")
    with pytest.raises(SettingError, match="settings it must have: budget"):
        call(tmp_path / "none.npz", "--reward", "positive")


@pytest.mark.parametrize("limit", ["nan", "inf"])
def test_a_limit_is_a_number(files, limit):
    with pytest.raises(SettingError, match=f"limit must be finite, got {limit}"):
        call(files[0], "--limit", limit)
