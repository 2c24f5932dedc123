from pathlib import Path

import pytest

from fedmerit.errors import LedgerError
from fedmerit.ledger import Ledger, RunRecorder
from fedmerit.types import ClientRecord, RoundRecord


def a_round(number: int) -> RoundRecord:
    return RoundRecord(number, (ClientRecord("a", 1.0, 1.0),))


def recorder(ledger: Ledger, *, fingerprint: str = "f", resume: bool = False) -> RunRecorder:
    return RunRecorder(ledger, {"seed": 1}, "1.0", fingerprint=fingerprint, resume=resume)


def test_rounds_are_on_the_disk_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    with Ledger.open(path) as ledger:
        keep = recorder(ledger)
        assert ledger.runs() == []  # a run that never had a round leaves nothing
        keep(a_round(1))
    with Ledger.open(path) as ledger:
        keep = recorder(ledger, resume=True)
        keep(a_round(1))  # was there already
        keep(a_round(2))
        (run,) = ledger.runs()
        assert (run.rounds, run.config["seed"]) == (2, 1)
        assert ledger.verify().ok


def test_a_round_may_not_be_skipped(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        keep = recorder(ledger)
        keep(a_round(1))
        with pytest.raises(LedgerError, match="must hold rounds 1 to 2 of a run before round 3, "):
            keep(a_round(3))
        keep(a_round(2))
        assert ledger.runs()[0].rounds == 2


def test_a_run_is_held_once(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        recorder(ledger)(a_round(1))
        with pytest.raises(LedgerError, match="has this one as run 1: resume it"):
            recorder(ledger)
        recorder(ledger, fingerprint="g")(a_round(1))
        assert [run.rounds for run in ledger.runs()] == [1, 1]
