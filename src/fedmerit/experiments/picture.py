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
_LONG = re.compile(r"-?\d+\.\d{3,}")


def save(figure: "Figure", path: Path) -> None:
    """Write `figure` whole or not at all; letters stay text, and no date is written."""
    import matplotlib as mpl

    drawn = StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "fedmerit"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None}, facecolor="white")
    with whole_file(path) as partial:
        partial.write_text(smaller(drawn.getvalue()), encoding="utf-8")


def smaller(svg: str) -> str:
    """Return `svg` without indentation and comments, and with places to a hundredth of a point."""
    return _PLACE.sub(lambda place: _LONG.sub(_rounded, place[0]), _PADDING.sub("", svg))


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):z.2f}".rstrip("0").rstrip(".")
