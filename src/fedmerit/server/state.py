"""A server's state in one file: versioned, checked, written whole or not at all, never pickled.

The file is the line ``fedmerit state 1``, the SHA-256 of all that follows, and arrays in NumPy's
``.npz`` format, uncompressed; everything that is no array is JSON in the array ``meta``.
"""

import dataclasses
import hashlib
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import CheckpointError, DataError
from fedmerit.evidence.bets import Wealth
from fedmerit.files import whole_file
from fedmerit.flags import Flag, Kind
from fedmerit.panel import Book, HeardRound
from fedmerit.reading.arrays import read_npz
from fedmerit.reading.budget import Budget
from fedmerit.server.history import RoundHistory
from fedmerit.server.totals import Total
from fedmerit.types import ClientRecord, FloatArray, Rejection, RoundRecord, freeze

Arrays = Mapping[str, NDArray[np.generic]]
VERSION = 1
_TITLE = b"fedmerit state "
_DIGEST = 32
_PIECE = 1 << 20


@dataclass(frozen=True)
class ServerState:
    """What a server knows after `round` rounds; each step returns the next state.

    Attributes
    ----------
    round : int
    history : RoundHistory
        Public models, clients' past, and the evidence over rounds.
    totals : mapping of client to Total
    record : RoundRecord or None
        The newest round as it was recorded: should the ledger have missed it, it is written there.
    book : Book
        What clients said of each other's updates.
    """

    round: int
    history: RoundHistory
    totals: Mapping[str, Total] = field(default_factory=dict)
    record: RoundRecord | None = None
    book: Book = field(default_factory=Book)

    @property
    def model(self) -> FloatArray:
        """The current global model."""
        return self.history.models[-1]


def state_arrays(state: ServerState) -> tuple[dict[str, NDArray[np.generic]], dict[str, Any]]:
    """Return a state as arrays, and the rest of it as plain values."""
    history = state.history
    reports = list(history.previous.values())
    arrays: dict[str, NDArray[np.generic]] = {
        "models": np.stack(history.models),
        # Where scores look at some parameters only, reports are shorter than models.
        "reports": np.reshape(reports, (len(reports), -1 if reports else 0)),
    }
    return arrays, {
        "round": state.round,
        "older": history.older,
        "remembered": history.remembered,
        "reporters": list(history.previous),
        "trust": dict(history.trust),
        "wealth": {client: dataclasses.asdict(known) for client, known in history.wealth.items()},
        "totals": {client: dataclasses.asdict(total) for client, total in state.totals.items()},
        "record": None if state.record is None else _plain_record(state.record),
        "panel": dataclasses.asdict(state.book),
    }


def state_from(arrays: Arrays, meta: Mapping[str, Any]) -> ServerState:
    """Return the state that `state_arrays` took apart."""
    models: Any = arrays["models"]
    reports: Any = arrays["reports"]
    history = RoundHistory(
        older=meta["older"],
        remembered=meta["remembered"],
        models=tuple(freeze(model) for model in models),
        previous=dict(zip(meta["reporters"], reports, strict=True)),
        trust=meta["trust"],
        wealth={c: Wealth(**_with_flag(known)) for c, known in meta["wealth"].items()},
    )
    totals = {client: Total(**_with_flag(total)) for client, total in meta["totals"].items()}
    record = None if meta["record"] is None else _record(meta["record"])
    return ServerState(meta["round"], history, totals, record, _book(meta.get("panel", {})))


def write_state(path: Path, arrays: Arrays, meta: Mapping[str, Any]) -> None:
    """Write the file; a crash leaves the one before it."""
    text = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    try:
        with whole_file(path) as partial, partial.open("w+b") as file:
            file.write(_TITLE + b"%d\n" % VERSION)
            place = file.tell()
            file.write(bytes(_DIGEST))
            np.savez(file, allow_pickle=False, meta=text, **arrays)
            digest = _digest(file, place + _DIGEST)
            file.seek(place)
            file.write(digest)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror or error}") from error


def read_state(path: Path) -> tuple[dict[str, NDArray[np.generic]], dict[str, Any]]:
    """Read a file that `write_state` wrote; anything else is an error that says what it is."""
    try:
        with path.open("rb") as file:
            title = file.readline(len(_TITLE) + 20)
            if not title.startswith(_TITLE) or not title.endswith(b"\n"):
                raise CheckpointError(f"{path} is no state of a fedmerit server")
            version = title[len(_TITLE) : -1]
            if version != b"%d" % VERSION:
                raise CheckpointError(
                    f"{path} must have version {VERSION}, got {version.decode(errors='replace')}; "
                    "use the fedmerit that wrote it, or a newer one"
                )
            digest = file.read(_DIGEST)
            if digest != _digest(file, file.tell()):
                raise CheckpointError(f"{path} is damaged: its content is not what was written")
        # Nothing in it is compressed, so its arrays are not larger than itself.
        arrays = read_npz(path, Budget(path.stat().st_size))
        meta = json.loads(arrays.pop("meta").tobytes())
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    except (DataError, KeyError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as a state: {error}") from None
    return arrays, meta


def _book(stored: Mapping[str, Any]) -> Book:
    """Return the book of a panel; an empty one from before there were panels."""
    rounds = tuple(
        HeardRound(
            **{
                **known,
                "clients": tuple(known["clients"]),
                "weights": tuple(known["weights"]),
                "pairs": tuple((j, tuple(left), tuple(right)) for j, left, right in known["pairs"]),
                "differences": tuple(known["differences"]),
            }
        )
        for known in stored.get("rounds", ())
    )
    return Book(rounds, stored.get("latest", {}), stored.get("harm", {}))


def _digest(file: Any, start: int) -> bytes:
    file.seek(start)
    digest = hashlib.sha256()
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.digest()


def _with_flag(entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "flag": _flag(entry["flag"])}


def _flag(stored: dict[str, str] | None) -> Flag | None:
    return None if stored is None else Flag(**{**stored, "kind": Kind(stored["kind"])})  # type: ignore[arg-type]


def _plain_record(record: RoundRecord) -> dict[str, Any]:
    agreement = b64encode(record.agreement).decode()
    return {**dataclasses.asdict(record), "agreement": agreement}


def _record(stored: Mapping[str, Any]) -> RoundRecord:
    return RoundRecord(
        round=stored["round"],
        clients=tuple(ClientRecord(**_with_flag(client)) for client in stored["clients"]),
        rejected=tuple(
            Rejection(**{**refused, "kind": Kind(refused["kind"])})
            for refused in stored["rejected"]
        ),
        metrics=stored["metrics"],
        seconds=stored["seconds"],
        agreement=b64decode(stored["agreement"]),
    )
