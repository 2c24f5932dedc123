"""What a report is made from: a run in a ledger, or the folder that a simulation left."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from fedmerit.errors import DataError, LedgerError
from fedmerit.ledger import Ledger, RunInfo, Verification
from fedmerit.records.columns import client_from
from fedmerit.report.table import Table
from fedmerit.simulation.results import (
    CLIENT_COLUMNS,
    METRIC,
    ROUND_COLUMNS,
    ResultFiles,
    client_columns,
    started_with,
)
from fedmerit.types import Rejection, RoundRecord


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

    @cached_property
    def table(self) -> Table:
        """The run by column."""
        return self.records.table() if isinstance(self.records, Rounds) else Table.of(self.records)


class Rounds(Sequence[RoundRecord]):
    """The rounds of a run in a ledger: read when they are asked for, never all held at once."""

    def __init__(self, path: Path, run: int) -> None:
        self._path, self._run = path, run
        with Ledger.open(path, read_only=True) as ledger:
            self._count = next(info.rounds for info in ledger.runs() if info.run == run)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[RoundRecord]:
        with Ledger.open(self._path, read_only=True) as ledger:
            # As many as there were: a writer may have gone on.
            yield from islice(ledger.rounds(self._run), self._count)

    def __getitem__(self, index: int | slice) -> Any:
        return list(self)[index]

    def table(self) -> Table:
        """Read them by column."""
        table = Table()
        with Ledger.open(self._path, read_only=True) as ledger:
            for number, rows in islice(ledger.tables(self._run), self._count):
                table.add_rows(number, rows)
        return table


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
        records = Rounds(path, chosen)
        checked = ledger.verify()
    return view_of(path.stem, runs[chosen], records, checked, alone=len(runs) == 1)


def view_of(
    name: str, info: RunInfo, records: Sequence[RoundRecord], checked: Verification, *, alone: bool
) -> RunView:
    """Return a run of a ledger as the page shows it; `alone`: the ledger holds no other."""
    return RunView(
        name if alone else f"{name}, run {info.run}",
        records,
        info.config if isinstance(info.config, dict) else {},
        info.software,
        Chain(
            checked.head,
            checked.problem,
            None if info.public_key is None else info.public_key.hex(),
        ),
    )


def _read_folder(path: Path) -> list[RoundRecord]:
    files = ResultFiles(path)
    if not all(file.is_file() for file in files.paths):
        names = " and ".join(file.name for file in files.paths)
        raise DataError(f"{path} must hold {names} of a run, got a folder without them")
    try:
        headers = files.headers()
        _check_headers(files, *headers)
        rounds, clients = (
            [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]
            for header, rows in zip(headers, files.read(), strict=True)
        )
        by_round: dict[str, list[dict[str, str]]] = {}
        for row in clients:
            by_round.setdefault(row["round"], []).append(row)
        return [
            _record(row, by_round.get(row["round"], []), (headers[0][METRIC], "loss"))
            for row in rounds
            if len(by_round.get(row["round"], [])) == int(row["clients"]) + int(row["rejected"])
        ]  # a round that is being written is left for the next look
    except (ValueError, csv.Error) as error:
        raise DataError(f"{path} must hold the results of a run: {error}") from error


def _check_headers(files: ResultFiles, by_round: Sequence[str], by_client: Sequence[str]) -> None:
    any_metric = (*by_round[:METRIC], ROUND_COLUMNS[METRIC], *by_round[METRIC + 1 :])
    for path, fits, columns, found in (
        (files.paths[0], any_metric == ROUND_COLUMNS, ROUND_COLUMNS, by_round),
        (files.paths[1], started_with(by_client) is not None, CLIENT_COLUMNS, by_client),
    ):
        if not fits:
            raise DataError(
                f"{path} must have the columns {', '.join(columns)}, got {', '.join(found)}"
            )


def _record(
    row: Mapping[str, str], rows: Sequence[Mapping[str, str]], metrics: Sequence[str]
) -> RoundRecord:
    clients = [client_from(_parsed(client)) for client in rows]
    return RoundRecord(
        round=int(row["round"]),
        clients=tuple(client for client in clients if not math.isnan(client.weight)),
        rejected=tuple(
            Rejection(client.client, client.flag.detail, client.flag.kind)
            if client.flag is not None
            else Rejection(client.client, "")
            for client in clients
            if math.isnan(client.weight)
        ),
        metrics={name: float(row[name]) for name in metrics if row[name]},
    )


def _parsed(row: Mapping[str, str]) -> dict[str, Any]:
    return {
        column.name: column.sort.parse(row[column.name]) if row[column.name] else None
        for column in client_columns()
        if column.name in row
    }
