"""One row of the matrix: a fault, where it comes in, what must happen, and what did."""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from fedmerit.errors import FedMeritError

_LONGEST = 160


class NotHereError(Exception):
    """The fault cannot be provoked on this machine."""


@dataclass(frozen=True)
class Fault:
    """A fault and the law it must not break.

    Attributes
    ----------
    kind : str
        "input", "conduct", "process", "storage" or "time".
    entry : str
        Where it comes in: "library", "simulate", "score", "flower", "ledger", "report" ...
    name : str
    expected : str
        What must happen, in words.
    provoke : callable
        Provokes the fault and says what was seen. An assertion that fails is a law that was broken;
        an exception that is not one of fedmerit's is a crash.
    refusal : str or None
        Where the fault must be refused by one of fedmerit's errors: a part of its message.
    """

    kind: str
    entry: str
    name: str
    expected: str
    provoke: Callable[[], str]
    refusal: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What was seen. Verdicts: "ok", "FAILS", "CRASHES", "not run"."""

    fault: Fault
    seen: str
    verdict: str


def refused(kind: str, entry: str, name: str, message: str, provoke: Callable[[], object]) -> Fault:
    """Return a fault that one of fedmerit's errors must refuse, saying `message`."""

    def accepted() -> str:
        return f"accepted: {provoke()!r}"

    return Fault(kind, entry, name, f"refused: “{message}”", accepted, message)


def survived(kind: str, entry: str, name: str, expected: str, provoke: Callable[[], str]) -> Fault:
    """Return a fault that must be lived with."""
    return Fault(kind, entry, name, expected, provoke)


def judge(fault: Fault) -> Outcome:
    """Provoke a fault and judge what happens."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # arithmetic that went wrong unnoticed
            seen = fault.provoke()
    except NotHereError as error:
        return Outcome(fault, str(error), "not run")
    except FedMeritError as error:
        right = fault.refusal is not None and fault.refusal in str(error)
        return Outcome(fault, f"{type(error).__name__}: {error}", "ok" if right else "FAILS")
    except AssertionError as error:
        return Outcome(fault, f"law broken: {error}", "FAILS")
    except Exception as error:  # the point of the matrix: whatever it is, it is written down
        return Outcome(fault, f"{type(error).__name__}: {error}", "CRASHES")
    return Outcome(fault, seen, "ok" if fault.refusal is None else "FAILS")


def cell(text: str) -> str:
    """Return text fit for one cell of a table: short, one line, no paths of this machine."""
    plain = re.sub(r"(/[\w.\-]+)+/([\w.\-]+)", r"…/\2", " ".join(text.split()))
    plain = re.sub(r"\bprocess \d+", "process …", plain)
    plain = "".join(char if char.isprintable() else "?" for char in plain)
    if len(plain) > _LONGEST:
        plain = plain[: _LONGEST - 1] + "…"
    return plain.replace("|", "\\|").replace("<", "\\<").replace("](", "] (")
