"""Options that pay the rounds of a run and record them in a ledger."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedmerit import __version__
from fedmerit.errors import SettingError
from fedmerit.incentive.rewards import RewardRule, reward_rule
from fedmerit.ledger import Ledger, RunRecorder, SigningKey

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from fedmerit.simulation.federation import Federation


def parse_rule(text: str) -> RewardRule:
    """Read a reward rule, as ``positive:budget=10000,minimum=100``."""
    name, _, listed = text.partition(":")
    settings: dict[str, Any] = {}
    for part in filter(None, listed.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise SettingError(f"a setting of a reward must read name=value, got {part.strip()!r}")
        settings[key.strip().replace("-", "_")] = _value(key.strip(), value.strip())
    return reward_rule(name.strip(), **settings)


def recorder(
    federation: "Federation", ledger: Path | None, sign: Path | None, *, resume: bool
) -> "AbstractContextManager[RunRecorder | None]":
    """Open the ledger, if one is asked for, and return what writes the federation's rounds."""
    if ledger is None:
        if sign is not None:
            raise SettingError("--sign needs a ledger to sign, --ledger, got none")
        if federation.config.reward is not None:
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
    settings = {f.name: getattr(config, f.name) for f in fields(config) if f.name != "rounds"}
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


def _value(name: str, text: str) -> int | float | bool:
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise SettingError(f"{name} of a reward must be a number, got {text!r}") from None
