"""Pictures as SVG files: small, and the same numbers give the same bytes."""

import re
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from fedmerit.files import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PADDING = re.compile(r"^[ \t]+|[ \t]+$|<!--.*?-->\n?", re.M | re.S)
_PLACE = re.compile(r' (?:d|x|y)="[^"]*"|(?:translate|rotate)\([^)]*\)')
_LONG = re.compile(r"-?\d+\.\d{2,}")
# Matplotlib names ten fonts at every text, and itself in a block of metadata.
_FONTS = re.compile(r"'DejaVu Sans', (?:[^;\"]*, )?sans-serif")
_METADATA = re.compile(r"<metadata>.*?</metadata>\n?", re.S)
# Names that nothing refers to, and turns by nothing.
_IDLE = re.compile(r'(?<=<g) id="[a-z0-9]+_\d+"| transform="rotate\(-0 [^)]*\)"')
# Marks that follow each other with one style.
_MARKS = re.compile(r'<use ([^>]*?) style="([^"]*)"/>\n(?:<use [^>]*? style="\2"/>\n)+')
# Lines from point to point need no letter for each.
_LINES = re.compile(r' d="M [^LCQAz"]*(?:\nL [^LCQAz"]*)+(?:z\n)?"')
_EMPTY = re.compile(r"<g>\n(<[^g/][^<>]*/>\n)</g>\n")


def save(figure: "Figure", path: Path) -> None:
    """Write `figure` whole or not at all; letters stay text, and no date is written."""
    import matplotlib as mpl

    drawn = StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "fedmerit"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None}, facecolor="white")
    with whole_file(path) as partial:
        partial.write_text(smaller(drawn.getvalue()), encoding="utf-8")


def smaller(svg: str) -> str:
    """Return `svg` with what is seen: places to a tenth of a point, one font, no metadata."""
    plain = _FONTS.sub("sans-serif", _METADATA.sub("", _PADDING.sub("", svg)))
    plain = _EMPTY.sub(r"\1", _EMPTY.sub(r"\1", _IDLE.sub("", plain)))
    plain = _LINES.sub(lambda path: path[0].replace("\nL ", " "), plain)
    plain = _MARKS.sub(_styled_once, plain)
    return _PLACE.sub(lambda place: _LONG.sub(_rounded, place[0]), plain)


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):z.1f}".rstrip("0").rstrip(".")


def _styled_once(marks: re.Match[str]) -> str:
    style = f' style="{marks[2]}"'
    return f"<g{style}>\n{marks[0].replace(style, '')}</g>\n"
