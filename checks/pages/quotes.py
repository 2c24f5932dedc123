"""Numbers that README and guides quote from results, compared with what the results say.

A quoted number is followed by the name of what it is, as a comment that nobody sees:
``0.98<!--shapley/merit/classes-->``. Several comments in a row are about as many numbers before
them. What a name stands for is an expression in quoted.toml; what follows a slash is given to it.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev

from checks import ROOT
from checks.pages.results import Reader
from fedmerit.errors import DataError

FILE = Path(__file__).with_name("quoted.toml")
_SUMMARY = ROOT / "docs" / "results" / "benchmarks.md"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), _SUMMARY)
RESULTS = tuple(sorted({*(ROOT / "docs" / "results").glob("*.md")} - {_SUMMARY}))
OLD = "earlier version"  # what a section says that quotes stale results
_TAGS = re.compile(r"(?:<!--[a-z][a-z0-9-]*(?:/[^/<>]+)*-->)+")
_NAME = re.compile(r"<!--(.*?)-->")
_NUMBER = re.compile(r"(?<![\w.,])[-+\u2212]?\d(?:[\d,]*\d)?(?:\.\d+)?(?![\w]|[.,]\d)")
# A number that was measured rather than counted or chosen has a point or is a percentage.
_MEASURED = re.compile(r"\d\.\d|%")
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
WORDS += ("eleven", "twelve")
_ENDS = {"low": min, "high": max}
_WORD = re.compile(rf"\b({'|'.join(WORDS)}|none|nobody|zero)\W*$", re.I)


@dataclass(frozen=True)
class Quote:
    """A number in a text: where it stands, and the name of what it is, if it says so."""

    page: Path
    line: int
    start: int
    text: str
    name: str | None
    section: str

    @property
    def place(self) -> str:
        """Where to look."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def says(self, value: float) -> bool:
        """Say whether the number is `value`, rounded as it is written; halves go either way."""
        text = self.text.lower()
        if text in _WORDS:
            return value == _WORDS[text]
        known = float(text.replace("\u2212", "-").replace(",", ""))
        return abs(value - known) <= 0.5 * 10**-self._decimals + 1e-12

    @property
    def _decimals(self) -> int:
        return len(self.text.partition(".")[2])

    def written(self, value: float) -> str:
        """Return `value` in the form of this number."""
        if self.text.lower() in _WORDS:
            whole = value == round(value) and 0 <= value < len(WORDS)
            return WORDS[round(value)] if whole else f"{value:g}"
        sign = "+" if self.text.startswith("+") else ""
        return f"{value:{sign}z,.{self._decimals}f}"


_WORDS = {**{word: i for i, word in enumerate(WORDS)}, "none": 0, "nobody": 0, "zero": 0}


def quotes(page: Path) -> Iterator[Quote]:
    """Yield all numbers outside code, with their names."""
    section = ""
    sections = _sections(page)
    for number, line in _prose(page):
        section = sections[number]
        names = dict(_named(line))
        for found in _NUMBER.finditer(_blanked(line)):
            name = names.pop(found.start(), None)
            yield Quote(page, number, found.start(), found[0], name, section)
        for start, name in names.items():  # words
            word = re.match(r"\w+", line[start:])
            text = word[0] if word else ""
            yield Quote(page, number, start, text, name, section)


def _named(line: str) -> Iterator[tuple[int, str]]:
    """Yield where the numbers are that names follow."""
    blanked, begin = _blanked(line), 0
    for tags in _TAGS.finditer(line):
        names = _NAME.findall(tags[0])
        before = blanked[begin : tags.start()]
        word = _WORD.search(before)
        places = [begin + n.start() for n in _NUMBER.finditer(before)]
        if word and (not places or begin + word.start() > places[-1]) and len(names) == 1:
            places = [begin + word.start()]
        if len(places) < len(names):
            raise DataError(f"{tags[0]} must follow {len(names)} numbers, got: {line.strip()}")
        yield from zip(places[-len(names) :], names, strict=True)
        begin = tags.end()


def _blanked(line: str) -> str:
    """Return a line with code, addresses and comments as blanks."""
    hidden = re.compile(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->")
    return hidden.sub(lambda part: " " * len(part[0]), line)


def _prose(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines that are neither code nor what code printed, which is HTML."""
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("    ", "<table", "<div")):
            yield number, line


def _sections(page: Path) -> list[str]:
    """Return, for every line from 1, the text from the heading above to the next one."""
    texts, parts, of = page.read_text(encoding="utf-8").splitlines(), [""], [0]
    for line in texts:
        if line.startswith("#"):
            parts.append("")
        parts[-1] += line + "\n"
        of.append(len(parts) - 1)
    return [parts[part] for part in of]


@dataclass(frozen=True)
class Definitions:
    """The file quoted.toml: expressions by name, and numbers that are no results, by page."""

    quoted: dict[str, str]
    chosen: dict[str, list[str]]

    @classmethod
    def read(cls, path: Path = FILE) -> "Definitions":
        """Read the file."""
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        return cls(content.get("quoted", {}), content.get("chosen", {}))

    def value(self, name: str, results: Reader) -> float:
        """Compute what a name stands for."""
        kind, *parts = name.split("/")
        if kind not in self.quoted:
            raise DataError(f"{FILE.name} must define what is quoted, got {kind}")
        known = {"table": results.table, "cell": results.cell, "ratio": results.ratio}
        helpers = {"ends": _ENDS, "mean": fmean, "median": median, "stdev": stdev}
        given = dict(zip("abcd", parts, strict=False))
        try:
            return float(eval(self.quoted[kind], {**known, **helpers, **given}))
        except (ArithmeticError, LookupError, NameError, TypeError, ValueError) as error:
            raise DataError(f"{name} cannot be computed: {error!r}") from error


@dataclass(frozen=True)
class Finding:
    """Something wrong with a quoted number; `fixed` is what should stand there, if known."""

    quote: Quote
    told: str
    fixed: str | None = None

    def __str__(self) -> str:
        return f"{self.quote.place}: {self.quote.text} {self.told}"


def findings(page: Path, definitions: Definitions, results: Reader) -> Iterator[Finding]:
    """Yield the quotes that disagree, are of stale results, or are of nothing."""
    for quote in quotes(page):
        if quote.name is None:
            continue
        results.stale.clear()
        try:
            value = definitions.value(quote.name, results)
        except DataError as error:
            yield Finding(quote, str(error))
            continue
        if not quote.says(value):
            fixed = quote.written(value)
            yield Finding(quote, f"must be {fixed} ({quote.name}: {value:.6g})", fixed)
        if results.stale and OLD not in quote.section:
            stale = ", ".join(sorted(results.stale))
            yield Finding(quote, f"is of {stale}, which other code made ({quote.name})")


def unbound(page: Path, definitions: Definitions) -> Iterator[Finding]:
    """Yield measured numbers without a name that are not listed as chosen."""
    chosen = definitions.chosen.get(str(page.relative_to(ROOT)), [])
    lines = page.read_text(encoding="utf-8").splitlines()
    for quote in quotes(page):
        end = quote.start + len(quote.text)
        text = quote.text + re.match(r" ?%?", lines[quote.line - 1][end:])[0].rstrip()  # type: ignore[index]
        if quote.name is None and _MEASURED.search(text) and text not in chosen:
            yield Finding(quote, "has no name after it, and is not listed as chosen")


def fix(page: Path, found: list[Finding]) -> None:
    """Write what should stand there."""
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    for finding in sorted(found, key=lambda f: -f.quote.start):
        quote = finding.quote
        if finding.fixed is not None:
            line = lines[quote.line - 1]
            after = quote.start + len(quote.text)
            lines[quote.line - 1] = line[: quote.start] + finding.fixed + line[after:]
    page.write_text("".join(lines), encoding="utf-8")
