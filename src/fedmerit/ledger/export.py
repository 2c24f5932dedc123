"""Copies of a ledger for other programs: CSV, JSON, Parquet. None of them can prove itself."""

import base64
import csv
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from fedmerit.disk.files import whole_file
from fedmerit.display.tables import Table
from fedmerit.errors import FedMeritError, LedgerError, MissingExtraError, UnknownNameError
from fedmerit.ledger.file.reading import StoredRound
from fedmerit.ledger.store import Ledger
from fedmerit.records.columns import CLIENT, REJECTION, values_of

# Types are Arrow's; what is known of a client follows from its one definition.
_PLACE = {"run": "int64", "round": "int64", "recorded_at": "string"}
_TYPES = (
    _PLACE
    | {"client": "string", "rejected": "bool_"}
    | {column.name: column.sort.arrow for column in CLIENT}
)
COLUMNS = tuple(_TYPES)
_FORMULA_STARTS = frozenset("=+-@\u2212")
_SKIPPED = frozenset("'\"`\u2400")
# Where one program or another begins a new cell, whatever quotes the writer used.
_CELL_ENDS = re.compile("([,;|\\t\\r\\n\\v\\f\u0085\u2028\u2029])")
_PARQUET_ROUNDS = 64  # rounds per row group: enough to compress, few enough to hold


def export(ledger: Ledger, path: str | Path, form: str, *, since: datetime | None = None) -> int:
    """Write the rounds recorded since a time to a new file; return how many.

    CSV and Parquet hold one row per client and round, rejected replies among them; JSON also holds
    runs, configuration, metrics and who agreed with whom (base64 of
    :mod:`fedmerit.records.agreement_map`). The file appears whole or not at all.
    """
    if form not in FORMATS:
        raise UnknownNameError.of("format", form, FORMATS)
    target = Path(path)
    try:
        with whole_file(target) as partial:
            return FORMATS[form](ledger, partial, since)
    except FedMeritError:
        raise
    except OSError as error:
        raise LedgerError(f"cannot write {target}: {error.strerror or error}") from error
    except (ValueError, TypeError, OverflowError, NotImplementedError) as error:  # Arrow's, JSON's
        raise LedgerError(f"cannot write {target} as {form}: {error}") from error


def flat_rows(rounds: Iterable[StoredRound]) -> Iterator[dict[str, Any]]:
    """Yield one row per client and round, with the columns `COLUMNS`."""
    for stored in rounds:
        place = {
            "run": stored.run,
            "round": stored.record.round,
            "recorded_at": stored.recorded_at.isoformat(),
        }
        for client in stored.record.clients:
            yield {**place, "rejected": False, **values_of(CLIENT, client)}
        empty = dict.fromkeys(COLUMNS) | place | {"rejected": True, "flagged": False}
        for rejection in stored.record.rejected:
            yield {**empty, **values_of(REJECTION, rejection)}


def flat_table(ledger: Ledger) -> Table:
    """Return all rounds as one table, a row per client and round."""
    return Table("Rounds", _TYPES, list(flat_rows(ledger.history())))


def _write_csv(ledger: Ledger, path: Path, since: datetime | None) -> int:
    count = _Counter()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for row in flat_rows(count(ledger.history(since=since))):
            writer.writerow({name: harmless(row[name]) for name in COLUMNS})
    return count.seen


def harmless(value: object) -> object:
    """Make text safe for a spreadsheet: client ids come from strangers.

    What would run as a formula is quoted, also behind what cannot be seen and quotes, which some
    programs skip, and behind a separator of another country's programs. A NUL, behind which others
    see nothing, is written as its picture.
    """
    if not isinstance(value, str):
        return value
    shown = value.replace("\x00", "\u2400")
    cells = "".join("'" + part if _runs(part) else part for part in _CELL_ENDS.split(shown))
    begins = _runs(shown) or shown.startswith(("\t", "\r", "\n"))
    return "'" + cells if begins and not cells.startswith("'") else cells


def _runs(cell: str) -> bool:
    """Whether the first character that is seen begins a formula, in whatever width it is drawn."""
    for char in cell:
        unseen = char.isspace() or not char.isprintable() or unicodedata.category(char) == "Mn"
        if not (unseen or char in _SKIPPED):
            return unicodedata.normalize("NFKC", char)[0] in _FORMULA_STARTS
    return False


def _write_json(ledger: Ledger, path: Path, since: datetime | None) -> int:
    count = _Counter()
    with path.open("w", encoding="utf-8") as file:
        runs = [
            asdict(run)
            | {"started_at": run.started_at.isoformat()}
            | {"public_key": run.public_key.hex() if run.public_key else None}
            for run in ledger.runs()
        ]
        file.write('{"runs": ' + _json(runs) + ',\n"rounds": [')
        for stored in count(ledger.history(since=since)):
            file.write("\n" if count.seen == 1 else ",\n")
            _write_round(file, stored)
        file.write("\n]}\n")
    return count.seen


def _write_round(file: IO[str], stored: StoredRound) -> None:
    record = stored.record
    content = {
        "run": stored.run,
        "recorded_at": stored.recorded_at.isoformat(),
        "hash": stored.hash,
        "round": record.round,
        "clients": [values_of(CLIENT, client) for client in record.clients],
        "rejected": [values_of(REJECTION, rejection) for rejection in record.rejected],
        "metrics": dict(record.metrics),
        "agreement": base64.b64encode(record.agreement).decode(),
    }
    file.write(_json(content))


def _json(value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """Replace what JSON has no number for: NaN by null, infinities by text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _write_parquet(ledger: Ledger, path: Path, since: datetime | None) -> int:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError(
            "Parquet needs the package 'pyarrow': pip install 'fedmerit[ledger]'", name=error.name
        ) from error
    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in _TYPES.items()])
    count = _Counter()
    with parquet.ParquetWriter(path, schema) as writer:
        batch: list[StoredRound] = []

        def flush() -> None:
            writer.write_table(pa.Table.from_pylist(list(flat_rows(batch)), schema=schema))
            batch.clear()

        for stored in count(ledger.history(since=since)):
            batch.append(stored)
            if len(batch) == _PARQUET_ROUNDS:
                flush()
        if batch:
            flush()
    return count.seen


class _Counter:
    """Counts what passes through."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, rounds: Iterable[StoredRound]) -> Iterator[StoredRound]:
        for stored in rounds:
            self.seen += 1
            yield stored


FORMATS: dict[str, Callable[[Ledger, Path, datetime | None], int]] = {
    "csv": _write_csv,
    "json": _write_json,
    "parquet": _write_parquet,
}
