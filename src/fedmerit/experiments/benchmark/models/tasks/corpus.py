"""Texts by author: files of a folder, Debian's Bible, or an invented language."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np

from fedmerit.errors import DataError
from fedmerit.rng import stream

_LEAST = 10_000  # characters of a text that is used
_VERSE = re.compile(r"(?P<book>[0-9]?[A-Za-z]+)[0-9]+:[0-9]+ (?P<text>.*)")
_INVENTED = 40_000


def texts(count: int, folder: Path | None) -> tuple[str, dict[str, str]]:
    """Return where texts come from and `count` of them by name.

    Each ``*.txt`` of `folder` is one; a single file is cut. Without such files they are books of
    the Bible if Debian's bible-kjv is there, else texts in an invented language.
    """
    files = sorted(folder.glob("*.txt")) if folder is not None else []
    if files:
        found = {file.stem: file.read_text(encoding="utf-8", errors="replace") for file in files}
        only = next(iter(found.values()))
        return "files", spread(found if len(found) > 1 else _cut(only, count), count)
    books = bible()
    if books:
        return "books of the Bible", spread(books, count)
    return "an invented language", {f"author {i}": invent(i) for i in range(count)}


def spread(found: dict[str, str], count: int) -> dict[str, str]:
    """Choose `count` texts, from the longest to the shortest that will do."""
    long = sorted(
        (name for name, text in found.items() if len(text) >= _LEAST), key=lambda n: -len(found[n])
    )
    if len(long) < count:
        raise DataError(
            f"{count} texts of at least {_LEAST} characters are needed, got {len(long)}"
        )
    places = np.linspace(0, len(long) - 1, count).round().astype(int)
    return {long[place]: found[long[place]] for place in places}


def bible() -> dict[str, str]:
    """Return the books of the King James Bible by name; none where it is not installed."""
    command = shutil.which("bible")
    if command is None:
        return {}
    # One line a verse: "Ge1:1 In the beginning ...".
    told = subprocess.run(
        [command, "-f", "Gen1:1-Rev22:21"], capture_output=True, text=True, check=False, timeout=60
    )
    books: dict[str, list[str]] = {}
    for line in told.stdout.splitlines():
        verse = _VERSE.fullmatch(line)
        if verse is not None:
            books.setdefault(verse["book"], []).append(verse["text"])
    return {book: "\n".join(verses) for book, verses in books.items()}


def invent(author: int) -> str:
    """Write a text: all authors know the same words, and each has its own favourites."""
    rng = stream(0, "invented language")
    syllables = [a + b for a in "bdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er")]
    words = ["".join(rng.choice(syllables, size=rng.integers(1, 4))) for _ in range(400)]
    rng = stream(0, "invented language", "author", author)
    common = 1 / np.arange(1, len(words) + 1)
    chance = common * rng.gamma(0.5, size=len(words))
    length = 4000 + (author * 7919) % _INVENTED
    lines: list[str] = []
    while sum(len(line) for line in lines) < _LEAST + length:
        chosen = rng.choice(words, size=rng.integers(4, 12), p=chance / chance.sum())
        lines.append(" ".join(chosen).capitalize() + ".\n")
    return "".join(lines)


def _cut(text: str, count: int) -> dict[str, str]:
    size = max(len(text) // count, 1)
    return {f"part {i:02d}": text[i * size : (i + 1) * size] for i in range(count)}
