"""Options that pay the rounds of a run and record them in a ledger."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from fedmerit import __version__
from fedmerit.errors import SettingError
from fedmerit.ledger import Ledger, RunRecorder, SigningKey

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from fedmerit.simulation.federation import Federation


def recorder(
    federation: "Federation", ledger: Path | None, sign: Path | None, *, resume: bool
) -> "AbstractContextManager[RunRecorder | None]":
    """Open the ledger, if one is asked for, and return what writes the federation's rounds."""
    if ledger is None:
        if sign is not None:
            raise SettingError("--sign needs a ledger to sign, --ledger, got none")
        if federation.config.rules.reward is not None:
            raise SettingError("--reward needs a ledger to record it in, --ledger, got none")
        return nullcontext()
    return _opened(federation, ledger, sign, resume=resume)


@contextmanager
def _opened(
    federation: "Federation", ledger: Path, sign: Path | None, *, resume: bool
) -> Iterator[RunRecorder]:
    key = None if sign is None else SigningKey.load(sign)
    config = federation.config
    # The number of rounds is left out: a run may be continued for longer than was planned.
    names = [f.name for f in fields(config) if f.name not in ("rounds", "rules")]
    settings = {name: getattr(config, name) for name in names} | config.rules.settings()
    settings = {
        name: value if isinstance(value, int | float | str | None) else repr(value)
        for name, value in settings.items()
    }
    with Ledger.open(ledger, key=key) as opened:
        yield RunRecorder(
            opened,
            {"dataset": federation.dataset.name, **settings},
            __version__,
            fingerprint=federation.fingerprint,
            resume=resume,
        )
