from datetime import UTC, datetime
from pathlib import Path

import pytest

from fedmerit.errors import LedgerError, SettingError
from fedmerit.flags import Flag, Kind
from fedmerit.ledger import ClientSummary, Ledger, Payout
from fedmerit.types import ClientRecord, Rejection, RoundRecord
from tests.ledger.builders import make_ledger
from tests.ledger.test_verification import Forger

COPY, LATE = Flag(Kind.COPY, twin="ann"), Flag(Kind.ABSENT)  # the second accuses nobody


@pytest.fixture
def ledger(tmp_path: Path):
    """Four rounds, one a day: ann is always there, bob in the last two, eve is rejected."""
    days = iter(datetime(2024, 3, day, tzinfo=UTC).timestamp() for day in (1, 1, 2, 3, 4, 5, 6, 7))
    with Ledger.open(tmp_path / "run.ledger", clock=lambda: next(days)) as ledger:
        ledger.start_run({}, "1")
        for number in (1, 2, 3, 4):
            clients = [ClientRecord("ann", 0.1 * number, 1.0, reward=10 * number)]
            if number > 2:
                clients.append(
                    ClientRecord("bob", 0.0, 0.0, flag=COPY if number == 3 else LATE, reward=0)
                )
            ledger.append(RoundRecord(number, tuple(clients), (Rejection("eve", "late"),)))
        yield ledger


def test_clients_over_rounds(ledger: Ledger) -> None:
    ann, bob, eve = ledger.summaries(window=2)
    assert ann == ClientSummary(
        "ann", 4, 1.0, pytest.approx(1.0), pytest.approx(0.25), pytest.approx(0.35), 100, 0, 0
    )
    assert (bob.rounds, bob.participation, bob.flagged, bob.total_reward) == (2, 0.5, 1, 0)
    assert (eve.rounds, eve.rejected, eve.total_reward) == (0, 4, 0)
    assert eve.mean_score != eve.mean_score


def test_a_summary_has_the_newest_label(ledger: Ledger) -> None:
    for number, label in ((5, "Ward 6"), (6, "Ward 7"), (7, None)):
        ledger.append(RoundRecord(number, (ClientRecord("ann", 0.5, 1.0, label=label),)))
    assert [item.label for item in ledger.summaries()] == ["Ward 7", None, None]


def test_a_summary_counts_rounds_in_which_nobody_could_tell(ledger: Ledger) -> None:
    for number, flag in ((5, Flag(Kind.UNDECIDED, "few parameters")), (6, COPY)):
        ledger.append(RoundRecord(number, (ClientRecord("bob", 0.0, 0.5, flag=flag),)))
    ann, bob, _ = ledger.summaries()
    assert (ann.undecided, bob.undecided, bob.flagged) == (0, 1, 2)


def test_summaries_can_start_at_a_date(ledger: Ledger) -> None:
    ann, bob, _ = ledger.summaries(since=datetime(2024, 3, 3, tzinfo=UTC))
    assert (ann.rounds, bob.participation, ann.total_reward) == (2, 1.0, 70)


def test_payouts_since_a_date_leave_out_who_is_owed_nothing(ledger: Ledger) -> None:
    assert ledger.payouts() == [Payout("ann", 100, 4)]
    assert ledger.payouts(since=datetime(2024, 3, 4, tzinfo=UTC)) == [Payout("ann", 40, 1)]
    assert ledger.payouts(since=datetime(2024, 3, 4)) == [Payout("ann", 40, 1)]
    assert ledger.payouts(since=datetime(2025, 1, 1, tzinfo=UTC)) == []


def test_payouts_after_a_head_have_no_gap_and_no_overlap(ledger: Ledger) -> None:
    heads = [stored.hash for stored in ledger.history()]
    assert ledger.payouts(after=heads[1]) == [Payout("ann", 70, 2)]
    assert ledger.payouts(after=heads[3]) == []
    with pytest.raises(LedgerError, match="hash must be that of an entry"):
        ledger.payouts(after="0" * 64)


def test_amounts_that_do_not_fit_are_refused_at_the_door(tmp_path: Path) -> None:
    most = 2**63 - 1
    with Ledger.open(tmp_path / "run.ledger") as ledger:
        ledger.start_run({}, "1")
        ledger.append(RoundRecord(1, (ClientRecord("ann", 0, 0, reward=most - 1),)))
    with Ledger.open(tmp_path / "run.ledger") as ledger:
        ledger.resume_run(1)
        rule = f"rewards of a ledger must add up to at most {most}, got {most + 1} with this round"
        with pytest.raises(LedgerError, match=rule):
            ledger.append(RoundRecord(2, (ClientRecord("bob", 0, 0, reward=2),)))
        ledger.append(RoundRecord(2, (ClientRecord("ann", 0, 0, reward=1),)))
        assert ledger.payouts() == [Payout("ann", most, 2)]
        assert ledger.summaries()[0].total_reward == most
        assert ledger.verify().ok


def test_sums_of_a_file_that_an_older_version_let_through_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "run.ledger"
    with Ledger.open(path) as ledger:
        ledger.start_run({}, "1")
        for number in (1, 2, 3):
            ledger.append(RoundRecord(number, (ClientRecord("ann", 0, 0, reward=1),)))
    with Forger(path) as connection:
        connection.execute("UPDATE scores SET reward = ?", (2**63 - 1,))
    with Ledger.open(path, read_only=True) as ledger:
        assert ledger.payouts() == [Payout("ann", 3 * (2**63 - 1), 3)]
        assert ledger.summaries()[0].total_reward == 3 * (2**63 - 1)


def test_window_must_be_positive(ledger: Ledger) -> None:
    with pytest.raises(SettingError, match="window must be at least 1, got 0"):
        ledger.summaries(window=0)


def test_numbers_that_no_ledger_holds_are_not_called_damage(tmp_path: Path) -> None:
    make_ledger(tmp_path / "run.ledger")
    with Ledger.open(tmp_path / "run.ledger", read_only=True) as ledger:
        for ask in ({"run": 2**70}, {"window": 2**70}):
            with pytest.raises(LedgerError, match="must fit in 64 bits"):
                ledger.summaries(**ask)
        with pytest.raises(LedgerError, match="run must fit in 64 bits"):
            ledger.payouts(run=-(2**70))
