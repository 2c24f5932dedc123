"""What a report is made from: a run in a ledger, or the folder that a simulation left."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedmerit.errors import DataError, LedgerError
from fedmerit.ledger import Ledger
from fedmerit.simulation.results import CLIENT_COLUMNS, ROUND_COLUMNS, ResultFiles
from fedmerit.types import ClientRecord, Rejection, RoundRecord

_REJECTED = "rejected: "


@dataclass(frozen=True)
class Chain:
    """How far the record can be trusted: `problem` is None where the hash chain holds."""

    head: str | None
    problem: str | None
    public_key: str | None


@dataclass(frozen=True)
class RunView:
    """A run as the page shows it.

    Attributes
    ----------
    title : str
    records : sequence of RoundRecord
    settings : mapping
        Of the run, plain values.
    software : str
        Version that recorded it; empty where unknown.
    chain : Chain or None
        None where there is no ledger behind the records.
    """

    title: str
    records: Sequence[RoundRecord]
    settings: Mapping[str, Any] = field(default_factory=dict)
    software: str = ""
    chain: Chain | None = None


def open_source(path: Path, run: int | None = None) -> RunView:
    """Read a ledger (its last run, or the one asked for) or the folder of a run."""
    if path.is_dir():
        if run is not None:
            raise DataError(f"a folder holds one run, got a request for run {run}")
        return RunView(path.resolve().name, _read_folder(path))
    return _read_ledger(path, run)


def _read_ledger(path: Path, run: int | None) -> RunView:
    with Ledger.open(path, read_only=True) as ledger:
        runs = {info.run: info for info in ledger.runs()}
        if not runs:
            raise LedgerError(f"{path} must hold a run to report on, got none")
        chosen = max(runs) if run is None else run
        if chosen not in runs:
            known = ", ".join(map(str, sorted(runs)))
            raise LedgerError(f"run must be one of {known}, got {chosen}")
        checked = ledger.verify()
        records = list(ledger.rounds(chosen))
    info = runs[chosen]
    title = path.stem if len(runs) == 1 else f"{path.stem}, run {chosen}"
    key = None if info.public_key is None else info.public_key.hex()
    return RunView(
        title,
        records,
        info.config if isinstance(info.config, dict) else {},
        info.software,
        Chain(checked.head, checked.problem, key),
    )


def _read_folder(path: Path) -> list[RoundRecord]:
    files = ResultFiles(path)
    if not all(file.is_file() for file in files.paths):
        names = " and ".join(file.name for file in files.paths)
        raise DataError(f"{path} must hold {names} of a run, got a folder without them")
    try:
        rounds, clients = ([_named(columns, row) for row in rows if len(row) == len(columns)]
                           for rows, columns in zip(files.read(), (ROUND_COLUMNS, CLIENT_COLUMNS),
                                                    strict=True))  # fmt: skip
        by_round: dict[str, list[dict[str, str]]] = {}
        for row in clients:
            by_round.setdefault(row["round"], []).append(row)
        return [
            _record(row, by_round.get(row["round"], []))
            for row in rounds
            if len(by_round.get(row["round"], [])) == int(row["clients"]) + int(row["rejected"])
        ]  # a round that is being written is left for the next look
    except (ValueError, csv.Error) as error:
        raise DataError(f"{path} must hold the results of a run: {error}") from error


def _named(columns: Sequence[str], row: Sequence[str]) -> dict[str, str]:
    return dict(zip(columns, row, strict=True))


def _record(row: Mapping[str, str], clients: Sequence[Mapping[str, str]]) -> RoundRecord:
    used = [client for client in clients if client["weight"]]
    return RoundRecord(
        round=int(row["round"]),
        clients=tuple(
            ClientRecord(
                client=client["client"],
                score=_number(client["score"], math.nan),
                weight=float(client["weight"]),
                p_value=_number(client["p_value"], None),
                epsilon=_number(client["epsilon"], None),
                flagged=client["flagged"] == "1",
                reason=client["reason"],
                num_examples=int(client["num_examples"]),
                behaviour=client["behaviour"] or None,
            )
            for client in used
        ),
        rejected=tuple(
            Rejection(client["client"], client["reason"].removeprefix(_REJECTED))
            for client in clients
            if not client["weight"]
        ),
        metrics={name: float(row[name]) for name in ("accuracy", "loss") if row[name]},
    )


def _number(text: str, missing: Any) -> Any:
    return float(text) if text else missing
