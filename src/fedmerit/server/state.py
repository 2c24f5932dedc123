"""A server's state in one file: versioned, checked, written whole or not at all, never pickled.

The file is the line ``fedmerit state 3``, the SHA-256 of that and all that follows, and arrays in
NumPy's ``.npz`` format, uncompressed; everything that is no array is JSON in the array ``meta``. It
says which parameters scores look at: clients must not see it. Version 2, which had no testimony,
and version 1, which kept whole models and had no such secret, can still be read.
"""

import dataclasses
import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from fedmerit.disk.files import whole_file
from fedmerit.errors import CheckpointError, DataError
from fedmerit.evidence.bets import Wealth
from fedmerit.evidence.past import Forecast, Sketches
from fedmerit.flags import Flag, Kind
from fedmerit.incentive.registry import RULES
from fedmerit.panel import Book, HeardRound, Panel
from fedmerit.quantisers import QUANTISERS
from fedmerit.reading.arrays import read_npz
from fedmerit.reading.budget import Budget
from fedmerit.scorers import SCORERS
from fedmerit.server.expected import check_state, fits
from fedmerit.server.history import RoundHistory, ServerState, Total, View
from fedmerit.server.rules import RoundRules
from fedmerit.types import ClientRecord, Rejection, RoundRecord, freeze

Arrays = Mapping[str, NDArray[np.generic]]
VERSION = 3
_READABLE = (b"1", b"2", b"3")
_TITLE = b"fedmerit state "
_WITH_TITLE = 3  # from this version on the digest is of the title too
_DIGEST = 32
_OWNER_ONLY = 0o600
_PIECE = 1 << 20
_CLASS = "class"
_KNOWN: Mapping[str, Any] = {
    kind.__name__: kind
    for kind in (RoundRules, Panel, *SCORERS.values(), *QUANTISERS.values(), *RULES.values())
}


def state_arrays(state: ServerState) -> tuple[dict[str, NDArray[np.generic]], dict[str, Any]]:
    """Return a state as arrays, and the rest of it as plain values."""
    history = state.history
    reports = [report for known in history.previous.values() for report in known]
    arrays: dict[str, NDArray[np.generic]] = {
        "models": np.stack(history.models),
        "reports": np.reshape(reports, (len(reports), -1 if reports else 0)),
    }
    if history.view.positions is not None:
        arrays |= {"model": state.model, "positions": history.view.positions}
    if history.view.layers is not None:
        arrays["layers seen"] = history.view.layers
    arrays["forecast"] = np.stack((history.forecast.went, history.forecast.seen))
    if history.testimony:
        arrays["testimony"] = np.stack(list(history.testimony.values()))
    if history.past.places is not None:
        arrays["sketched places"] = history.past.places
        arrays["sketches"] = np.concatenate(list(history.past.reports.values()))
    return arrays, {
        "round": state.round,
        "sampled": history.view.sampled,
        "older": history.older,
        "remembered": history.remembered,
        "reporters": [client for client, known in history.previous.items() for _ in known],
        "witnesses": list(history.testimony),
        "sketched": {client: len(known) for client, known in history.past.reports.items()},
        "trust": dict(history.trust),
        "wealth": {client: dataclasses.asdict(known) for client, known in history.wealth.items()},
        "totals": {client: dataclasses.asdict(total) for client, total in state.totals.items()},
        "record": None if state.record is None else _plain_record(state.record),
        "panel": dataclasses.asdict(state.book),
    }


def state_from(
    arrays: Arrays, meta: Mapping[str, Any], scored: NDArray[np.int64] | None = None
) -> ServerState:
    """Return the state that `state_arrays` took apart.

    Version 1 had whole models, and reports at the positions `scored`.
    """
    stored: Any = arrays
    models, positions = stored["models"], stored.get("positions")
    model = models[-1] if positions is None else stored["model"]
    if meta["version"] == 1 and scored is not None:
        models, positions = models[:, scored], scored
    previous: dict[str, tuple[Any, ...]] = {}
    for client, report in zip(meta["reporters"], arrays["reports"], strict=True):
        # A copy: one row must not keep all of them.
        previous[client] = (*previous.get(client, ()), report.copy())
    history = RoundHistory(
        older=meta["older"],
        remembered=meta["remembered"],
        view=View(positions, stored.get("layers seen"), meta.get("sampled", False)),
        model=freeze(model),
        models=tuple(freeze(seen) for seen in models),
        previous=previous,
        testimony={
            client: told.copy()
            for client, told in zip(
                meta.get("witnesses", ()), stored.get("testimony", ()), strict=True
            )
        },
        past=_sketches(arrays, meta),
        forecast=Forecast(*table) if (table := arrays.get("forecast")) is not None else Forecast(),
        trust=meta["trust"],
        wealth={c: Wealth(**_with_flag(known)) for c, known in meta["wealth"].items()},
    )
    totals = {client: Total(**_with_flag(total)) for client, total in meta["totals"].items()}
    record = None if meta["record"] is None else _record(meta["record"])
    return ServerState(meta["round"], history, totals, record, _book(meta.get("panel", {})))


def _sketches(arrays: Arrays, meta: Mapping[str, Any]) -> Sketches:
    """Return sketches of earlier reports; files from before there were any have none."""
    places: Any = arrays.get("sketched places")
    if places is None:
        return Sketches()
    ends = np.cumsum(list(meta["sketched"].values()))
    parts: Any = np.split(arrays["sketches"], ends[:-1])
    return Sketches(places, dict(zip(meta["sketched"], parts, strict=True)))


def write_state(path: Path, arrays: Arrays, meta: Mapping[str, Any]) -> None:
    """Write the file; a crash leaves the one before it."""
    text = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    try:
        with whole_file(path) as partial, partial.open("w+b") as file:
            partial.chmod(_OWNER_ONLY)  # it says which parameters are looked at
            title = _TITLE + b"%d\n" % VERSION
            place = file.write(title)
            file.write(bytes(_DIGEST))
            np.savez(file, allow_pickle=False, meta=text, **arrays)
            digest = _digest(file, place + _DIGEST, title)
            file.seek(place)
            file.write(digest)
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
            if version not in _READABLE:
                raise CheckpointError(
                    f"{path} must have version 1 to {VERSION}, got "
                    f"{version.decode(errors='replace')}; use the fedmerit that wrote it, or a "
                    "newer one"
                )
            digest = file.read(_DIGEST)
            signed = title if int(version) >= _WITH_TITLE else b""
            if digest != _digest(file, file.tell(), signed):
                raise CheckpointError(f"{path} is damaged: its content is not what was written")
        # Nothing in it is compressed, so its arrays are not larger than itself.
        arrays = read_npz(path, Budget(path.stat().st_size))
        meta = {**json.loads(arrays.pop("meta").tobytes()), "version": int(version)}
        check_state(arrays, meta)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    except (DataError, KeyError, ValueError, RecursionError) as error:
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
                "expected": tuple(known.get("expected", ())),
            }
        )
        for known in stored.get("rounds", ())
    )
    evidence = (stored.get(name, {}) for name in ("latest", "harm", "contrary"))
    return Book(rounds, *evidence)


def _digest(file: Any, start: int, title: bytes) -> bytes:
    file.seek(start)
    digest = hashlib.sha256(title)
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.digest()


def _with_flag(entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "flag": _flag(entry["flag"])}


def _flag(stored: dict[str, str] | None) -> Flag | None:
    return None if stored is None else Flag(**{**stored, "kind": Kind(stored["kind"])})  # type: ignore[arg-type]


def _plain_record(record: RoundRecord) -> dict[str, Any]:
    agreement = b64encode(record.agreement).decode()
    plain = {**dataclasses.asdict(record), "agreement": agreement}
    for refused in plain["rejected"]:
        del refused["fault"]
    return plain


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


# --- rules as plain values


def to_plain(value: object) -> Any:
    """Return a setting as plain values; one of a class that is not ours by how it prints."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_dataclass(value) and _KNOWN.get(type(value).__name__) is type(value):
        settings = {f.name: to_plain(getattr(value, f.name)) for f in fields(value) if f.init}
        return {_CLASS: type(value).__name__, **settings}
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return {_CLASS: None, "repr": repr(value)}


def differences(before: Any, after: Any) -> list[str]:
    """Return which rules of two, as `to_plain` gives them, are not the same.

    Objects of classes that are not ours cannot be compared; who is registered may change, and so
    may what was not a rule when the state was written.
    """

    def same(one: Any, other: Any) -> bool:
        if not isinstance(one, dict) or not isinstance(other, dict):
            return bool(one == other)
        if None in (one.get(_CLASS), other.get(_CLASS)):
            return one.get(_CLASS) == other.get(_CLASS)
        return all(same(one[key], other[key]) for key in one.keys() & other.keys())

    shared = (before.keys() & after.keys()) - {_CLASS, "registered"}
    return sorted(key for key in shared if not same(before[key], after[key]))


def from_plain(stored: Any, what: str = "rules") -> Any:
    """Return the setting that `to_plain` stored."""
    if not isinstance(stored, dict):
        return stored
    name = stored.get(_CLASS)
    if name is None:
        raise CheckpointError(
            f"{what} must be given to load, a state cannot hold an object of your own: "
            f"{str(stored.get('repr'))[:100]}; use Server.load(path, rules=...)"
        )
    if name not in _KNOWN:
        raise CheckpointError(f"{what} must be of a class that fedmerit knows, got {name!r}")
    settings = {key: from_plain(value, key) for key, value in stored.items() if key != _CLASS}
    hints = get_type_hints(_KNOWN[name])
    for key, value in settings.items():
        if key in hints and not fits(value, hints[key]):
            raise CheckpointError(f"{key} of {name} must be {hints[key]}, got {value!r}"[:300])
    return _KNOWN[name](**settings)
