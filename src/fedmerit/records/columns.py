"""What is kept of a client in a round, and of a rejected reply: every column, defined once.

The tables, statements and hashed rows of a ledger, its exports, and the simulator's clients.csv
follow from `CLIENT` and `REJECTION`. To add a column:

1. Give the record its field, in :mod:`fedmerit.types`.
2. Put a `Column` behind the others here, and raise `VERSION`, which is its `since`: a ledger is
   migrated to it when it is opened for writing, and rounds recorded from then on are hashed with
   the column, under a label with the new number.
3. Say what the new rounds are hashed from in the test that knows the columns by heart
   (``tests/ledger/test_columns.py``).

Nothing is ever taken away or put between others: rounds that were hashed from a column need it for
ever. A column that new rounds do not use has a last version, `until`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import nan
from typing import Any

from fedmerit.flags import Flag, Kind, read_words
from fedmerit.types import ClientRecord, Rejection


@dataclass(frozen=True, eq=False)
class Sort:
    """How values are stored: type in SQL, in Arrow, as read, and how text becomes one."""

    sql: str
    arrow: str
    read: type
    parse: Callable[[str], Any]


IDENTITY = Sort("INTEGER NOT NULL REFERENCES clients", "string", str, str)
TEXT = Sort("TEXT", "string", str, str)
KIND = Sort("TEXT", "string", str, str)
REAL = Sort("REAL", "float64", float, float)
INTEGER = Sort("INTEGER", "int64", int, int)
FLAG = Sort("INTEGER", "bool_", int, lambda text: bool(int(text)))


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes
    ----------
    name : str
    sort : Sort
    of : callable, optional
        Takes the value out of a record; by default the record's attribute of that name.
    missing : object
        What nothing is read back as.
    required : bool
        Not nothing; possible in the first version only.
    since, until : int
        First and last version of the ledger in which a round is hashed with it.
    """

    name: str
    sort: Sort
    of: Callable[[Any], Any] | None = None
    missing: Any = None
    required: bool = False
    since: int = 1
    until: int | None = None

    @property
    def sql(self) -> str:
        """The column's definition in a statement."""
        return f"{self.name} {self.sort.sql}" + (" NOT NULL" if self.required else "")

    @property
    def blank(self) -> str:
        """What stands in rounds that do not use the column, in SQL."""
        return "''" if self.required else "NULL"

    def value(self, record: object) -> Any:
        """Return the value of `record`."""
        return getattr(record, self.name) if self.of is None else self.of(record)

    def used_in(self, version: int) -> bool:
        """Whether rounds of `version` are hashed with it."""
        return self.since <= version and (self.until is None or version <= self.until)


def _of_flag(name: str) -> Callable[[ClientRecord], Any]:
    return lambda record: None if record.flag is None else getattr(record.flag, name)


CLIENT: tuple[Column, ...] = (
    Column("client", IDENTITY, missing=""),
    Column("score", REAL, missing=nan),
    Column("weight", REAL, missing=nan),
    Column("p_value", REAL),
    Column("epsilon", REAL),
    Column("flagged", FLAG, required=True),
    Column("reason", TEXT, required=True, until=2),
    Column("reward", INTEGER),
    Column("num_examples", INTEGER),
    Column("behaviour", TEXT),
    Column("kind", KIND, _of_flag("kind"), since=3),
    Column("detail", TEXT, _of_flag("detail"), since=3),
    Column("twin", TEXT, _of_flag("twin"), since=3),
    Column("label", TEXT, since=3),
    Column("value", REAL, since=5),
    Column("value_error", REAL, since=5),
    Column("judgement", TEXT, since=5),
)
REJECTION: tuple[Column, ...] = (
    Column("client", IDENTITY, missing=""),
    Column("reason", TEXT, required=True),
    Column("kind", KIND, since=3),
)
# The fourth has the columns of the third, and puts the rows of a round under a tree.
VERSION = 5
_FIELDS = frozenset(field.name for field in fields(ClientRecord))


def values_of(columns: tuple[Column, ...], record: object) -> dict[str, Any]:
    """Return the values of a record by column."""
    return {column.name: column.value(record) for column in columns}


def client_from(values: Mapping[str, Any]) -> ClientRecord:
    """Return the client that was stored as `values`, which may lack newer columns.

    Raises
    ------
    ValueError
        There is no such kind of flag.
    """
    known = {
        column.name: column.missing if values[column.name] is None else values[column.name]
        for column in CLIENT
        if column.name in _FIELDS and column.name in values
    }
    return ClientRecord(**known, flag=_flag_from(values))


def rejection_from(values: Mapping[str, Any]) -> Rejection:
    """Return the rejected reply that was stored as `values`; it was refused if they do not say."""
    return Rejection(values["client"], values["reason"], Kind(values.get("kind") or Kind.REFUSED))


def _flag_from(values: Mapping[str, Any]) -> Flag | None:
    if "kind" in values:
        kind = values["kind"]
        return Flag(Kind(kind), values["detail"] or "", values["twin"] or "") if kind else None
    words = values["reason"] or ""
    if not words and not values["flagged"]:
        return None
    flag = read_words(words)
    if flag.accuses == bool(values["flagged"]):
        return flag
    # What was recorded is kept: neither does a newer reading accuse anybody, nor clear them.
    return Flag(Kind.OTHER if values["flagged"] else Kind.UNDECIDED, words)
