"""The server dies inside a round, for real, and is started again."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from checks.faults.base import Fault, survived
from checks.faults.nursery import MOMENTS, command
from fedmerit.ledger import Ledger

ROUNDS, BUDGET = 3, 1000
RUN = (
    *("simulate", "--dataset", "digits", "--users", "8", "--per-round", "4"),
    *("--hidden", "8", "--epochs", "1", "--behaviours", "25% random-update"),
    *("--rounds", ROUNDS, "--reward", f"positive:budget={BUDGET}"),
)
ENDINGS = {"SIGTERM": 143, "SIGKILL": -signal.SIGKILL, "SIGINT": 130, "memory": 2}


def faults() -> Iterator[Fault]:
    """Yield the rows."""
    for death in ("SIGTERM", "SIGKILL", "memory"):
        for moment in MOMENTS:
            yield survived(
                "process", "simulate", f"{_name(death)}: {moment}",
                "resumed to the same bytes, nothing paid twice, ledger verifies",
                partial(_killed, death, moment),
            )  # fmt: skip
    for moment in ("training", "inside the ledger's transaction"):
        yield survived(
            "process", "simulate", f"Ctrl-C: {moment}",
            "resumed to the same bytes, nothing paid twice, ledger verifies",
            partial(_killed, "SIGINT", moment),
        )  # fmt: skip
    yield survived(
        "process", "simulate", "SIGTERM without --out", "no temporary folder stays", _no_litter
    )
    yield survived(
        "process", "simulate", "two runs at once in one folder",
        "the second is refused, the first is not disturbed", _two_at_once,
    )  # fmt: skip
    yield survived(
        "process", "simulate", "two runs at once in one ledger",
        "the second is refused, the first is not disturbed", _one_ledger,
    )  # fmt: skip
    yield survived(
        "process", "simulate", "a run started again without --resume", "refused, nothing changed",
        _started_again,
    )  # fmt: skip


def _name(death: str) -> str:
    return "out of memory" if death == "memory" else death


@cache
def whole() -> tuple[list[bytes], list[object]]:
    """Return results and ledger of a run that nobody disturbed."""
    with tempfile.TemporaryDirectory() as folder:
        end = command(*_run(Path(folder)))
        assert end.status == 0, end.complaint
        return content(Path(folder))


def _run(folder: Path) -> tuple[object, ...]:
    return (*RUN, "--out", folder / "run", "--ledger", folder / "run.ledger")


def content(folder: Path) -> tuple[list[bytes], list[object]]:
    """Return the bytes of the results and the records of the ledger, which must verify."""
    results = [(folder / "run" / name).read_bytes() for name in ("rounds.csv", "clients.csv")]
    with Ledger.open(folder / "run.ledger", read_only=True) as ledger:
        checked = ledger.verify()
        assert checked.ok, checked.problem
        return results, list(ledger.rounds())


def check_like_whole(folder: Path) -> None:
    """Check that a run ended as if nothing had happened."""
    results, records = content(folder)
    assert records == whole()[1], "the ledger differs from that of an undisturbed run"
    assert results == whole()[0], "the results differ from those of an undisturbed run"
    with Ledger.open(folder / "run.ledger", read_only=True) as ledger:
        paid = sum(payout.amount for payout in ledger.payouts())
    assert paid == ROUNDS * BUDGET, f"paid {paid}"


def _killed(death: str, moment: str) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        end = command(*_run(folder), moment=moment, death=death)
        assert end.status == ENDINGS[death], f"ended with {end.status}: {end.complaint[-300:]}"
        end.check_named()
        before = _rounds(folder)
        again = command(*_run(folder), "--resume")
        assert again.status == 0, again.complaint
        check_like_whole(folder)
    said = f", “{end.complaint.strip()[:60]}”" if end.complaint else ""
    return f"ended with {end.status}{said} after {before} committed rounds; the same bytes"


def _rounds(folder: Path) -> int:
    path = folder / "run.ledger"
    if not path.exists():
        return 0
    with Ledger.open(path) as ledger:  # for writing: what a log holds is brought in
        return len(list(ledger.rounds()))


def _no_litter() -> str:
    before = set(Path(tempfile.gettempdir()).glob("fedmerit-*"))
    end = command(*RUN[:-2], moment="scoring", death="SIGTERM")
    left = set(Path(tempfile.gettempdir()).glob("fedmerit-*")) - before
    for path in left:
        shutil.rmtree(path, ignore_errors=True)
    assert not left, f"{len(left)} folders stay"
    end.check_named()
    return f"ended with {end.status}, nothing stays"


def _two_at_once() -> str:
    from fedmerit.disk.lock import WriterLock
    from fedmerit.errors import CheckpointError

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run").mkdir()
        # The lock of the first run, held by this process while the second one starts.
        lock = WriterLock(folder / "run", busy=CheckpointError, failed=CheckpointError)
        end = command(*_run(folder), "--resume")
        lock.release()
        end.check_named()
        assert end.status == 2, f"ended with {end.status}"
        assert not (folder / "run" / "rounds.csv").exists(), "the second run wrote results"
        assert command(*_run(folder), "--resume").status == 0
        check_like_whole(folder)
    return end.complaint


def _one_ledger() -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Ledger.open(folder / "run.ledger") as ledger:
            ledger.start_run({}, "1")
            end = command(*_run(folder))
            head = ledger.head
        end.check_named()
        assert end.status == 2, f"ended with {end.status}"
        with Ledger.open(folder / "run.ledger", read_only=True) as ledger:
            assert ledger.head == head, "the second run wrote into the ledger"
    return end.complaint


def _started_again() -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        assert command(*_run(folder)).status == 0
        end = command(*_run(folder))
        end.check_named()
        assert end.status == 2, f"ended with {end.status}"
        check_like_whole(folder)
    return end.complaint
