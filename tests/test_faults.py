"""The quick part of the fault matrix; `make faults` runs all of it."""

import pytest

from checks.faults import files, ledger, library, money, planted, process, records
from checks.faults.base import Fault, Outcome, judge, refused, survived
from fedmerit.errors import SettingError

# Of the processes only these: each takes seconds, and the moments differ little.
PROCESSES = ("SIGTERM: scoring", "two runs at once in one folder")
SLOW = (*files.faults(), *(fault for fault in process.faults() if fault.name in PROCESSES))
QUICK = [
    *library.faults(),
    *ledger.faults(),
    *money.faults(),
    *records.faults(),
    *planted.faults(),
    *(pytest.param(fault, marks=pytest.mark.slow) for fault in SLOW),
]


@pytest.mark.parametrize("fault", QUICK, ids=lambda fault: f"{fault.entry}: {fault.name}")
def test_fault(fault: Fault) -> None:
    outcome = judge(fault)
    assert outcome.verdict in ("ok", "not run"), outcome.seen


def verdict_of(provoke, *, message=None) -> Outcome:
    make = survived if message is None else refused
    return judge(make("input", "library", "a fault", message or "fine", provoke))


def test_verdicts() -> None:
    def raising(error: Exception):
        def provoke() -> str:
            raise error

        return provoke

    assert verdict_of(lambda: "fine").verdict == "ok"
    assert verdict_of(lambda: "fine", message="no").verdict == "FAILS"
    assert verdict_of(raising(SettingError("no, 3")), message="no").verdict == "ok"
    assert verdict_of(raising(SettingError("yes")), message="no").verdict == "FAILS"
    assert verdict_of(raising(SettingError("no"))).verdict == "FAILS"
    assert verdict_of(raising(AssertionError("law"))).verdict == "FAILS"
    assert verdict_of(raising(KeyError("x")), message="no").verdict == "CRASHES"
