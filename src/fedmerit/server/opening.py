"""The server of a run: a new one, or the one that an earlier process left beside its ledger."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import CheckpointError
from fedmerit.ledger import SigningKey
from fedmerit.server.layout import Layout
from fedmerit.server.rules import RoundRules
from fedmerit.server.server import Server
from fedmerit.types import RoundRecord


def state_path(ledger: Path) -> Path:
    """Return where the state of the run in `ledger` is kept."""
    return ledger.with_name(ledger.name + ".state")


def open_server(
    arrays: Mapping[str, NDArray[np.generic]],
    rules: RoundRules,
    *,
    ledger: Path | None,
    resume: bool,
    key: SigningKey | None,
    seed: int | None,
    record: Callable[[RoundRecord], None] | None,
    about: Mapping[str, object],
    kept: Mapping[str, Any],
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> Server:
    """Return the server that continues the run in `ledger`, or starts one with `arrays`.

    `say` gets a line for the engine's log where a run is continued, `warn` one where it cannot be.
    """
    state = None if ledger is None else state_path(ledger)
    continued = ledger is not None and resume and state_path(ledger).is_file()
    if ledger is not None and resume and ledger.is_file() and not continued:
        warn(f"{ledger} has a run, but its state is not beside it: a new run begins")
    if state is None or not continued:
        return Server(
            arrays,
            rules=rules,
            ledger=ledger,
            key=key,
            seed=seed,
            state=state,
            record=record,
            about=about,
            **kept,
        )
    server = Server.load(state, rules=rules, ledger=ledger, key=key, state=state, record=record)
    if server.layout.shapes != Layout(arrays.items()).shapes:
        server.close()
        raise CheckpointError(
            f"{state} belongs to a model with other arrays than the one given: start with that "
            "model, or with another ledger, or with resume=False for a new run"
        )
    if seed is not None and seed != server.seed:
        warn(f"the run goes on with its own seed, {server.seed}, not with {seed}")
    say(f"continuing the run of {ledger} after round {server.round}")
    return server
