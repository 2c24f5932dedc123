"""A run on disk: the same bytes whether it was interrupted or not."""

from dataclasses import replace

import numpy as np
import pytest

from fedmerit.behaviours import Assignment
from fedmerit.errors import CheckpointError
from fedmerit.server import RoundRules
from fedmerit.server.state import read_state, write_state
from fedmerit.simulation import run as runs
from fedmerit.simulation.checkpoint import load_checkpoint
from fedmerit.simulation.config import FederationConfig, ModelChoice
from fedmerit.simulation.data import datasets
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.results import CLIENT_COLUMNS, ResultFiles, client_rows, summarise
from fedmerit.simulation.run import CHECKPOINT, run
from fedmerit.simulation.training.settings import LocalTraining
from fedmerit.types import ClientRecord, Rejection, RoundRecord

CONFIG = FederationConfig(
    users=8,
    per_round=4,
    rounds=4,
    model=ModelChoice(hidden=8),
    training=LocalTraining(epochs=1),
    behaviours=Assignment.parse("25% random-update, 25% noise:0.01"),
    rules=RoundRules(weighting="gated", norm_bound=1.5),
)


@pytest.fixture(scope="module")
def digits():
    return datasets.load("digits")


@pytest.fixture
def federation(digits):
    return Federation(CONFIG, digits)


@pytest.fixture(scope="module")
def whole(digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    run(Federation(CONFIG, digits), folder=folder)
    return folder


def results_of(folder):
    return [path.read_bytes() for path in ResultFiles(folder).paths]


class Stop(KeyboardInterrupt):
    """Ctrl-C at a chosen moment."""


def test_one_row_per_round_and_per_client(whole):
    rounds, clients = (content.decode().splitlines() for content in results_of(whole))
    assert rounds[0] == "round,accuracy,loss,clients,rejected,flagged"
    assert [row.split(",")[0] for row in rounds[1:]] == ["1", "2", "3", "4"]
    assert clients[0] == ",".join(CLIENT_COLUMNS)
    assert len(clients) == 1 + 4 * 4


def test_same_seed_same_bytes(federation, whole, tmp_path):
    run(federation, folder=tmp_path)
    assert results_of(tmp_path) == results_of(whole)


@pytest.fixture
def _checkpoint_every_round(monkeypatch):
    monkeypatch.setattr(runs, "CHECKPOINT_SECONDS", 0.0)


def test_a_checkpoint_keeps_the_evidence_against_clients(federation, whole):
    state = federation.start()
    for _ in range(CONFIG.rounds):
        state, _ = federation.step(state)
    kept = load_checkpoint(whole / CHECKPOINT, federation.fingerprint).state
    known = state.server.history
    assert kept.server.history.wealth == known.wealth
    assert any(wealth.evidence != 0 for wealth in kept.server.history.wealth.values())
    assert kept.server.history.trust == known.trust
    assert kept.server.totals == state.server.totals
    assert kept.norms == state.norms
    assert kept.server.history.previous.keys() == known.previous.keys()
    for client, report in known.previous.items():
        np.testing.assert_array_equal(kept.server.history.previous[client], report, strict=True)
    for ours, theirs in zip(kept.server.history.models, known.models, strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


def test_a_checkpoint_keeps_what_clients_remember_of_their_own(digits, tmp_path):
    config = replace(CONFIG, behaviours=Assignment.parse("50% rotating:2"))
    federation = Federation(config, digits)
    final = run(federation, folder=tmp_path)
    kept = load_checkpoint(tmp_path / CHECKPOINT, federation.fingerprint).state
    assert kept.own.keys() == final.own.keys()
    for client, past in final.own.items():
        np.testing.assert_array_equal(kept.own[client], past)


def test_rounds_since_the_last_checkpoint_are_repeated(federation, whole, tmp_path):
    def stop(record):
        if record.round == 3:
            raise Stop

    with pytest.raises(Stop):  # far sooner than the second checkpoint is due
        run(federation, folder=tmp_path, on_round=stop)
    seen = []
    run(federation, folder=tmp_path, resume=True, on_round=seen.append)
    assert [record.round for record in seen] == [2, 3, 4]
    assert results_of(tmp_path) == results_of(whole)


@pytest.mark.usefixtures("_checkpoint_every_round")
@pytest.mark.parametrize("last", [1, 3])
def test_stopped_between_rounds_and_resumed_to_the_same_bytes(federation, whole, tmp_path, last):
    def stop(record):
        if record.round == last:
            raise Stop

    with pytest.raises(Stop):
        run(federation, folder=tmp_path, on_round=stop)
    seen = []
    final = run(federation, folder=tmp_path, resume=True, on_round=seen.append)
    assert [record.round for record in seen] == list(range(last + 1, 5))
    assert results_of(tmp_path) == results_of(whole)
    kept = load_checkpoint(whole / CHECKPOINT, federation.fingerprint).state
    np.testing.assert_array_equal(final.model, kept.model)


@pytest.mark.usefixtures("_checkpoint_every_round")
@pytest.mark.parametrize("moment", ["training", "results", "checkpoint"])
def test_stopped_inside_a_round_and_resumed_to_the_same_bytes(
    federation, whole, tmp_path, monkeypatch, moment
):
    owner, name = {
        "training": (Federation, "_train"),
        "results": (ResultFiles, "append"),
        "checkpoint": (runs, "save_checkpoint"),
    }[moment]
    original, calls = getattr(owner, name), []

    def stop(*arguments):
        calls.append(arguments)
        if len(calls) < 3:
            return original(*arguments)
        if moment == "results":  # the power goes while a line is being written
            with arguments[0].paths[0].open("a") as file:
                file.write("3,0.12")
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, stop)
        with pytest.raises(Stop):
            run(federation, folder=tmp_path)
    run(federation, folder=tmp_path, resume=True)
    assert results_of(tmp_path) == results_of(whole)


def test_a_finished_run_can_be_made_longer(digits, whole, tmp_path):
    run(Federation(replace(CONFIG, rounds=2), digits), folder=tmp_path)
    run(Federation(CONFIG, digits), folder=tmp_path, resume=True)
    assert results_of(tmp_path) == results_of(whole)


def test_resuming_before_the_first_round_starts(federation, whole, tmp_path):
    run(federation, folder=tmp_path / "new", resume=True)
    assert results_of(tmp_path / "new") == results_of(whole)


def test_a_run_is_not_overwritten_nor_continued_by_another(federation, digits, whole):
    with pytest.raises(CheckpointError, match="already holds a run"):
        run(federation, folder=whole)
    other = Federation(replace(CONFIG, seed=5), digits)
    with pytest.raises(CheckpointError, match="belongs to a run with other settings"):
        run(other, folder=whole, resume=True)


def test_damaged_runs_are_refused(federation, tmp_path):
    run(federation, folder=tmp_path)
    path, files = tmp_path / CHECKPOINT, ResultFiles(tmp_path)
    content = path.read_bytes()
    files.paths[1].write_text("round\n")
    with pytest.raises(CheckpointError, match=r"clients.csv must have at least the \d+ bytes"):
        run(federation, folder=tmp_path, resume=True)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match="is damaged"):
        run(federation, folder=tmp_path, resume=True)
    turned = bytearray(content)
    turned[len(turned) // 2] ^= 1
    path.write_bytes(turned)
    with pytest.raises(CheckpointError, match="is damaged"):
        run(federation, folder=tmp_path, resume=True)
    title, _, rest = content.partition(b"\n")
    assert title == b"fedmerit state 3"
    path.write_bytes(b"fedmerit state 99\n" + rest)
    with pytest.raises(CheckpointError, match="must have version 1 to 3, got 99"):
        run(federation, folder=tmp_path, resume=True)
    path.write_bytes(rest)
    with pytest.raises(CheckpointError, match="is no state of a fedmerit server"):
        run(federation, folder=tmp_path, resume=True)
    path.write_bytes(content)
    arrays, meta = read_state(path)
    write_state(path, arrays, {name: meta[name] for name in meta if name != "simulation"})
    with pytest.raises(CheckpointError, match="cannot be read as a checkpoint"):
        run(federation, folder=tmp_path, resume=True)


def test_the_summary_adds_up(whole):
    _, rows = ResultFiles(whole).read()
    for by in ("client", "behaviour"):
        shares = summarise(rows, by=by)
        assert sum(share.share for share in shares) == pytest.approx(1)
        assert sum(share.fair for share in shares) == pytest.approx(1)
        assert sum(share.reports for share in shares) == 16
    kinds = {share.name: share for share in summarise(rows, by="behaviour")}
    assert set(kinds) <= {"honest", "random-update:0.01", "noise:0.01"}
    assert kinds["random-update:0.01"].score < kinds["honest"].score


def test_rejected_reports_do_not_count_in_the_summary():
    used = ClientRecord("7", 0.5, 1.0, num_examples=5, behaviour="honest")
    refused = Rejection("8", "the update is not finite")
    (share,) = summarise(client_rows(RoundRecord(1, (used,), (refused,))), by="client")
    assert (share.name, share.reports, share.share, share.fair) == ("7", 1, 1.0, 1.0)
