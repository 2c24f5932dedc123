"""The runs that a server shows: found again at every look, read only as far as they grew."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedmerit.errors import DataError, FedMeritError, LedgerBusyError, LedgerError
from fedmerit.ledger import Ledger, RunInfo, Verification
from fedmerit.report.source import RunView, open_source, view_of
from fedmerit.simulation.results import ResultFiles
from fedmerit.types import RoundRecord

# Files of a folder that are looked at, the first by name: a look happens every second.
MOST_FILES = 200
# Checking all content costs time that grows with the ledger: it may take this share of the time.
_CHECKING_SHARE = 0.05


@dataclass(frozen=True)
class RunEntry:
    """A run that can be shown.

    Attributes
    ----------
    id : str
        Where it is, below what is served, and its number: what an address names it by.
    title : str
    version : str
        Differs whenever the run has changed.
    rounds : int
    started, software : str
        Empty where unknown.
    signed : bool
    problem : str
        Why it cannot be read; empty where it can.
    """

    id: str
    title: str
    version: str
    rounds: int = 0
    started: str = ""
    software: str = ""
    signed: bool = False
    problem: str = ""


@dataclass
class _Read:
    """What has been read of a run so far."""

    records: list[RoundRecord] = field(default_factory=list)
    last: str | None = None  # hash of the last round that was read


@dataclass
class _Checked:
    """A verification, and when the next one is due."""

    result: Verification
    due: float


class Library:
    """Ledgers and folders of runs at `path`: one file, or all below a folder. Thread-safe."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._clock = clock
        self._guard = threading.RLock()
        self._read: dict[str, _Read] = {}
        self._checked: dict[Path, _Checked] = {}

    def runs(self) -> list[RunEntry]:
        """Return the runs that are there now; what cannot be read is listed with its problem."""
        return [entry for source in self._sources() for entry in self._entries(source)]

    def view(self, name: str) -> RunView:
        """Return the run with the id `name`.

        Raises
        ------
        DataError
            There is no such run.
        """
        source = self._source(name)
        if source.is_dir():
            return open_source(source)
        with self._guard:
            return self._grown(source, name, int(name.rpartition("~")[2]))

    def statement(self, name: str, client: str) -> dict[str, Any]:
        """Return the statement of `client` from the ledger of the run `name`: all its runs."""
        source = self._source(name)
        if source.is_dir():
            raise DataError(f"a statement must be of a ledger, got {name!r}, which is none")
        with Ledger.open(source, read_only=True) as ledger:
            return ledger.statement(client)

    def _source(self, name: str) -> Path:
        stem, _, number = name.rpartition("~")
        for source in self._sources():
            known = self._name(source)
            if name == known if source.is_dir() else (stem == known and number.isdigit()):
                return source
        raise DataError(f"run must be one of those served, got {name!r}")

    def _sources(self) -> Iterator[Path]:
        if self.path.is_file():
            yield self.path
            return
        if _holds_results(self.path):
            yield self.path
        found = sorted(self.path.rglob("*.ledger")) + [
            rounds.parent
            for rounds in sorted(self.path.rglob("rounds.csv"))
            if rounds.parent != self.path and _holds_results(rounds.parent)
        ]
        yield from (source for source in found[:MOST_FILES] if source.exists())

    def _name(self, source: Path) -> str:
        if source == self.path:
            return source.name
        return source.relative_to(self.path).as_posix()

    def _entries(self, source: Path) -> list[RunEntry]:
        name = self._name(source)
        if source.is_dir():
            stats = [file.stat() for file in ResultFiles(source).paths]
            version = "-".join(f"{stat.st_mtime_ns}.{stat.st_size}" for stat in stats)
            with ResultFiles(source).paths[0].open("rb") as file:
                rounds = max(0, sum(1 for _ in file) - 1)
            return [RunEntry(name, name, version, rounds)]
        try:
            with Ledger.open(source, read_only=True) as ledger:
                head, infos = ledger.head or "", ledger.runs()
        except LedgerBusyError as error:
            return [RunEntry(f"{name}~0", _stem(name), "busy", problem=str(error))]
        except LedgerError as error:
            # A file that was just created has no tables yet.
            empty = source.is_file() and source.stat().st_size == 0
            return (
                [] if empty else [RunEntry(f"{name}~0", _stem(name), "broken", problem=str(error))]
            )
        return [_entry(name, info, head, alone=len(infos) == 1) for info in infos]

    def _grown(self, source: Path, name: str, number: int) -> RunView:
        """Read the rounds that came since the last look."""
        with Ledger.open(source, read_only=True) as ledger:
            infos = {info.run: info for info in ledger.runs()}
            if number not in infos:
                raise DataError(f"run must be one of those served, got {name!r}")
            known = self._read.setdefault(name, _Read())
            try:
                self._extend(ledger, known, number)
            except LedgerError:  # another file has taken its place
                known = self._read[name] = _Read()
                self._extend(ledger, known, number)
            checked = self._verified(source, ledger)
        stem = _stem(self._name(source))
        return view_of(stem, infos[number], list(known.records), checked, alone=len(infos) == 1)

    @staticmethod
    def _extend(ledger: Ledger, known: _Read, number: int) -> None:
        for stored in ledger.history(run=number, after=known.last):
            known.records.append(stored.record)
            known.last = stored.hash

    def _verified(self, source: Path, ledger: Ledger) -> Verification:
        before, begin = self._checked.get(source), self._clock()
        if before is not None and begin < before.due and before.result.ok:
            return before.result
        result = ledger.verify()
        end = self._clock()
        self._checked[source] = _Checked(result, end + (end - begin) / _CHECKING_SHARE)
        return result


def _entry(name: str, info: RunInfo, head: str, *, alone: bool) -> RunEntry:
    stem = _stem(name)
    return RunEntry(
        id=f"{name}~{info.run}",
        title=stem if alone else f"{stem}, run {info.run}",
        version=f"{info.rounds}.{head}",
        rounds=info.rounds,
        started=f"{info.started_at:%Y-%m-%d %H:%M} UTC",
        software=info.software,
        signed=info.public_key is not None,
    )


def _stem(name: str) -> str:
    """Return what a ledger is called, whatever state it is in."""
    return Path(name).with_suffix("").as_posix()


def _holds_results(folder: Path) -> bool:
    return all(file.is_file() for file in ResultFiles(folder).paths)


def check_served(path: Path) -> None:
    """Raise unless `path` is a ledger, the folder of a run, or a folder of these."""
    if not path.exists():
        raise DataError(
            f"there must be a ledger or a folder at {path}, got no such file; of a run that is yet "
            "to start, give the folder"
        )
    if path.is_file():
        try:
            with Ledger.open(path, read_only=True):
                pass
        except FedMeritError:
            if path.stat().st_size:  # an empty file becomes a ledger once the run starts
                raise
