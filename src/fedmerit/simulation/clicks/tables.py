"""Delimited text files, read with the file and the line in every complaint."""

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from fedmerit.errors import DataError

_TOO_LARGE = 2**63
_SEPARATORS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a text file, plain or .gz."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8", newline="") as packed:
                yield packed
        else:
            with path.open(encoding="utf-8", newline="") as file:
                yield file
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def find_file(folder: Path, pattern: str) -> Path:
    """Return the one file in `folder` that matches `pattern`, plain or .gz."""
    found = sorted({*folder.glob(pattern), *folder.glob(f"{pattern}.gz")})
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise DataError(f"{folder} must have one file {pattern} (or .gz), got {names}")
    return found[0]


def read_rows(
    lines: Iterable[str],
    origin: str,
    columns: Sequence[str],
    *,
    separator: str = ",",
    names: Sequence[str] | None = None,
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the wanted `columns` of every row.

    Parameters
    ----------
    origin : str
        What complaints call the file.
    names : sequence of str, optional
        The file's columns, where it has no header.
    """
    table = csv.reader(lines, delimiter=separator)
    try:
        header = list(names) if names is not None else _header(table, origin, columns, separator)
        wanted = [header.index(column) for column in columns]
        for row in table:
            if len(row) != len(header):
                raise DataError(
                    f"{origin}, line {table.line_num}: must have {len(header)} fields separated by "
                    f"a {_SEPARATORS[separator]}, got {len(row)}"
                )
            yield table.line_num, [row[i] for i in wanted]
    except csv.Error as error:
        raise DataError(f"{origin}, line {table.line_num}: {error}") from None


def _header(
    table: Iterator[list[str]], origin: str, columns: Sequence[str], separator: str
) -> list[str]:
    header = next(table, [])
    if not header:
        raise DataError(f"{origin}, line 1: must be a header, got an empty file")
    other = [s for s in _SEPARATORS if s != separator and s in header[0]]
    if len(header) == 1 and other:
        raise DataError(
            f"{origin}, line 1: fields must be separated by a {_SEPARATORS[separator]}, "
            f"got a {_SEPARATORS[other[0]]}"
        )
    missing = [column for column in columns if column not in header]
    if missing:
        raise DataError(f"{origin}, line 1: column {missing[0]!r} is missing")
    return header


def whole(text: str, column: str, origin: str, line: int) -> int:
    """Read a whole number; an empty user or item is named as such."""
    try:
        number = int(text)
    except ValueError:
        if not text.strip():
            raise DataError(f"{origin}, line {line}: {column} is empty") from None
        raise DataError(
            f"{origin}, line {line}: {column} must be a whole number, got {text[:40]!r}"
        ) from None
    if abs(number) >= _TOO_LARGE:
        raise DataError(f"{origin}, line {line}: {column} must fit 64 bits, got {text[:40]!r}")
    return number


def click(text: str, column: str, origin: str, line: int) -> int:
    """Read a label, 0 or 1."""
    if text not in ("0", "1"):
        raise DataError(f"{origin}, line {line}: {column} must be 0 or 1, got {text!r}")
    return int(text)
