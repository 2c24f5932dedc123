"""Pictures as SVG files: small, and the same numbers give the same bytes."""

import re
from collections import Counter
from io import StringIO
from math import dist
from pathlib import Path
from typing import TYPE_CHECKING

from fedmerit.disk.files import whole_file

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
_EMPTY = re.compile(r"<g>\n(<[^g/][^<>]*/>\n|<text [^<>]*>[^<>]*</text>\n)</g>\n")
# A line through many points, after the letters between them are gone.
_MANY = re.compile(r'(?<= d="M )[-\d. ]{400,}(?=\n")')
_NEAR = 0.7  # of a point: what lies closer to the last point of a line is not seen apart from it
# Names of marks and clips, which Matplotlib makes from digests.
_NAME = re.compile(r'(?<=id=")[mp][0-9a-f]{10}(?=")')
# A style that is repeated is written once, under the name of a class.
_STYLE = re.compile(r' style="([^"]*)"')
_SHEET = "</style>"
_GROUP = re.compile(r"(<g(?: [^<>]*)?(?<!/)>\n?|</g>\n?)")
_OFTEN = 3


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
    plain = _PLACE.sub(lambda place: _LONG.sub(_rounded, place[0]), plain)
    plain = _MANY.sub(_thinned, plain)
    return _without_bare_groups(_with_classes(_with_short_names(plain)))


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):z.1f}".rstrip("0").rstrip(".")


def _thinned(line: re.Match[str]) -> str:
    numbers = line[0].split()
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    kept = points[:1]
    for point in points[1:-1]:
        if dist(map(float, point), map(float, kept[-1])) >= _NEAR:
            kept.append(point)
    return " ".join(f"{x} {y}" for x, y in (*kept, points[-1]))


def _styled_once(marks: re.Match[str]) -> str:
    style = f' style="{marks[2]}"'
    return f"<g{style}>\n{marks[0].replace(style, '')}</g>\n"


def _without_bare_groups(svg: str) -> str:
    """Leave out groups that say nothing about what is in them."""
    kept, bare = [], []
    for part in _GROUP.split(svg):
        if _GROUP.match(part) and part.startswith("<g"):
            bare.append(part.startswith("<g>"))
            idle = bare[-1]
        else:
            idle = part.startswith("</g>") and bare.pop()
        kept += [] if idle else [part]
    return "".join(kept)


def _with_short_names(svg: str) -> str:
    """Give marks and clips short names, and refer to them as SVG 2 does."""
    numbers = {name: f"{name[0]}{n}" for n, name in enumerate(dict.fromkeys(_NAME.findall(svg)))}
    if numbers:
        known = re.compile("|".join(numbers))
        svg = known.sub(lambda name: numbers[name[0]], svg)
    return svg.replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "").replace(
        "xlink:href", "href"
    )


def _with_classes(svg: str) -> str:
    counts = Counter(_STYLE.findall(svg))
    often = [style for style, count in counts.items() if count >= _OFTEN]
    names = {style: f"s{number}" for number, style in enumerate(often)}
    rules = "".join(f"\n.{name}{{{style}}}" for style, name in names.items())

    def named(found: re.Match[str]) -> str:
        return f' class="{names[found[1]]}"' if found[1] in names else found[0]

    return _STYLE.sub(named, svg).replace(_SHEET, rules + _SHEET, 1) if often else svg
