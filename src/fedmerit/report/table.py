"""A run by column: every client in every round as numbers, whether it has ten rows or a million.

A thousand clients in a thousand rounds are a million rows. As objects they would take a gigabyte;
as columns they take a tenth of it, and a page of so many points is drawn from means over rounds.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import LedgerCorruptError
from fedmerit.flags import Flag, Kind
from fedmerit.ledger.file.records import RoundRows
from fedmerit.records.columns import CLIENT, values_of
from fedmerit.report.ranking import UNEXPLAINED, Course, Why
from fedmerit.types import Rejection, RoundRecord

NO_REWARD = -1
_REALS = ("score", "weight", "p_value", "epsilon", "value", "value_error")
_COURSE = ("at", "why", "reward", *_REALS)
# Bytes of agreement from which on every other map is forgotten; a page shows a part of that.
_MOST_AGREEMENT = 8_000_000
_LEAST_MAPS = 3
_FLAGS_SINCE = 3  # rounds of before tell their flags in words


@dataclass
class Table:
    """Rows, those of a client in the order of rounds.

    Attributes
    ----------
    rounds : list of int
    metrics : list of mapping
    names : list of str
        Clients in order of appearance; `client` counts in it.
    behaviours, labels : dict
        By client number, where known; the latest.
    whys : list of Why
        `why` counts in it from 1; 0 is nothing to say.
    rejected : list
        Place of the round, client number, what was refused and why.
    agreements : list
        Place of the round, client numbers, packed agreement.
    at, client, why : (n,) int32
    score, weight, p_value, epsilon, value, value_error : (n,) float
        NaN where there is none.
    reward : (n,) int64
        `NO_REWARD` where there is none.
    """

    rounds: list[int] = field(default_factory=list)
    metrics: list[dict[str, float]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    behaviours: dict[int, str] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    whys: list[Why] = field(default_factory=list)
    rejected: list[tuple[int, int, Rejection]] = field(default_factory=list)
    agreements: list[tuple[int, list[int], bytes]] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _why_numbers: dict[Why, int] = field(default_factory=dict)
    _agreement_bytes: int = 0
    _parts: list[dict[str, NDArray[Any]]] = field(default_factory=list)

    def add(self, record: RoundRecord) -> None:
        """Add a round from its record."""
        rows = [values_of(CLIENT, client) for client in record.clients]
        columns = {
            column.name: [row[column.name] for row in rows]
            for column in CLIENT
            if column.name != "reason"
        }
        self._add(record, columns)

    def add_rows(self, number: int, rows: RoundRows) -> None:
        """Add a round from what a ledger stores of it."""
        if rows.version < _FLAGS_SINCE:
            self.add(rows.record(number))
            return
        bare = RoundRows(rows.version, rows.metrics, (), rows.rejections, rows.agreement)
        try:
            self._add(bare.record(number), rows.client_columns())
        except ValueError as error:  # no such kind of flag
            raise LedgerCorruptError(f"round {number} cannot be read: {error}") from error

    def _add(self, record: RoundRecord, columns: Mapping[str, Sequence[Any]]) -> None:
        place = len(self.rounds)
        self.rounds.append(record.round)
        self.metrics.append(dict(record.metrics))
        clients = [self._number(name) for name in columns.get("client", ())]
        count = len(clients)
        if count:
            self._keep_latest(self.behaviours, clients, columns["behaviour"])
            self._keep_latest(self.labels, clients, columns["label"])
            part: dict[str, NDArray[Any]] = {
                name: np.array(columns[name], dtype=np.float64)
                for name in _REALS
                if any(value is not None for value in columns.get(name, ()))
            }
            part["at"] = np.full(count, place, dtype=np.int32)
            part["client"] = np.array(clients, dtype=np.int32)
            part["reward"] = np.array(
                [NO_REWARD if reward is None else reward for reward in columns["reward"]],
                dtype=np.int64,
            )
            part["why"] = np.array(self._reasons(record, columns), dtype=np.int32)
            self._parts.append(part)
        for refused in record.rejected:
            self.rejected.append((place, self._number(refused.client), refused))
        if record.agreement:
            self.agreements.append((place, clients, record.agreement))
            self._agreement_bytes += len(record.agreement)
            if self._agreement_bytes > _MOST_AGREEMENT and len(self.agreements) > _LEAST_MAPS:
                del self.agreements[-2::-2]  # every other one, never the newest
                self._agreement_bytes = sum(len(packed) for _, _, packed in self.agreements)

    def _reasons(self, record: RoundRecord, columns: Mapping[str, Sequence[Any]]) -> list[int]:
        """Return what is to be said of each client: its flag, or that of its rejected reply."""
        refusals = {refused.client: refused for refused in record.rejected}
        known: dict[tuple[Any, ...], int] = {}
        found = []
        nothing = repeat(None)
        for client, kind, detail, twin, weight, reward in zip(
            columns["client"],
            columns["kind"],
            columns.get("detail", nothing),
            columns.get("twin", nothing),
            columns["weight"],
            columns["reward"],
            strict=False,
        ):
            if kind is None and client not in refusals and weight != 0 and reward != 0:
                found.append(0)
                continue
            key = (kind, detail, twin, refusals.get(client) if kind is None else None)
            if key not in known:
                known[key] = self._why(*key)
            found.append(known[key])
        return found

    def _why(
        self, kind: Any, detail: str | None, twin: str | None, refused: Rejection | None
    ) -> int:
        if kind is not None:
            flag = Flag(Kind(kind), detail or "", twin or "")
        elif refused is not None:
            flag = Flag(refused.kind, refused.reason)
        else:
            return self._numbered(Why(UNEXPLAINED, UNEXPLAINED, accuses=False))
        return self._numbered(Why(flag.kind.words, flag.words, flag.accuses))

    def _numbered(self, why: Why) -> int:
        if why not in self._why_numbers:
            self.whys.append(why)
            self._why_numbers[why] = len(self.whys)
        return self._why_numbers[why]

    def _number(self, name: str) -> int:
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self.names)
            self.names.append(name)
        return found

    @staticmethod
    def _keep_latest(kept: dict[int, str], clients: list[int], values: Sequence[Any]) -> None:
        if any(value is not None for value in values):
            told = zip(clients, values, strict=True)
            kept.update({client: value for client, value in told if value})

    def column(self, name: str) -> NDArray[Any]:
        """Return one column of all rows."""
        if not self._parts:
            return np.empty(0, dtype=np.int64)
        whole = self._whole()
        # What no row has takes no memory.
        return whole[name] if name in whole else np.broadcast_to(np.nan, len(whole["at"]))

    def _whole(self) -> dict[str, NDArray[Any]]:
        """Return all rows as one part."""
        if len(self._parts) > 1:
            sizes = [len(part["at"]) for part in self._parts]
            names = dict.fromkeys(name for part in self._parts for name in part)
            whole = {}
            for name in names:  # column by column, so that never all are there twice
                pieces = [
                    part.pop(name) if name in part else np.full(size, np.nan)
                    for part, size in zip(self._parts, sizes, strict=True)
                ]
                whole[name] = np.concatenate(pieces)
            self._parts = [whole]
        return self._parts[0]

    def courses(self) -> list[Course]:
        """Return each client over the rounds, in the order of `names`."""
        client = self.column("client")
        order = np.argsort(client, kind="stable")
        edges = np.searchsorted(client[order], np.arange(len(self.names) + 1))
        for part in self._parts:  # rows of a client together, in place of a second copy of all
            for name in list(part):
                part[name] = part[name][order]
        columns = {name: self.column(name) for name in _COURSE}
        refused = Counter(client for _, client, _ in self.rejected)
        return [
            Course(
                **{name: values[edges[n] : edges[n + 1]] for name, values in columns.items()},
                whys=self.whys,
                behaviour=self.behaviours.get(n),
                label=self.labels.get(n),
                rejected=refused[n],
            )
            for n in range(len(self.names))
        ]

    @classmethod
    def of(cls, records: Iterable[RoundRecord]) -> "Table":
        """Make the table of some records."""
        table = cls()
        for record in records:
            table.add(record)
        return table


def steps_of(rounds: int, rows: int, most: int) -> int:
    """Return over how many rounds a point must be a mean, so that there are at most `most`."""
    return 1 if rows <= most else min(max(rounds, 1), math.ceil(rows / most))
