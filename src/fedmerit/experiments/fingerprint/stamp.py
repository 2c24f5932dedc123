"""What a page says about the code that decided it: a line for people, a comment for programs."""

import re
from dataclasses import dataclass
from pathlib import Path

from fedmerit.disk.files import whole_file
from fedmerit.errors import DataError
from fedmerit.experiments.fingerprint.code import Code, Sources
from fedmerit.version import __version__

_STAMP = re.compile(r"\n+\*Made by fedmerit [^\n]*\*\n\n<!-- code\n(?P<fields>.*?)\n-->\s*\Z", re.S)


@dataclass(frozen=True)
class Stamp:
    """Who made a page.

    Attributes
    ----------
    version : str
        Of fedmerit.
    sources : Sources
    code : Code
        What these were when the page was made.
    inputs : str
        Data and settings, for whoever wants to go on with the same ones.
    """

    version: str
    sources: Sources
    code: Code
    inputs: str = ""

    def __str__(self) -> str:
        fields = [
            f"version {self.version}",
            f"from {' '.join(self.sources.entries)}",
            f"without {' '.join(self.sources.closed)}",
            f"inputs {self.inputs}",
            *(f"room {room} {digest}" for room, digest in self.code.rooms.items()),
        ]
        told = f"*Made by fedmerit {self.version}, code {self.code.digest}.*"
        return "\n".join(["", told, "", "<!-- code", *fields, "-->", ""])


def write_page(path: Path, text: str, sources: Sources, inputs: str = "") -> None:
    """Write a page with its stamp, whole or not at all; a stamp in `text` gives way."""
    text = _STAMP.sub("", text)
    stamp = Stamp(__version__, sources, sources.code, inputs)
    with whole_file(path) as partial:
        partial.write_text(f"{text.rstrip()}\n{stamp}", encoding="utf-8")


def read_stamp(path: Path) -> Stamp | None:
    """Return the stamp of a page, None if it has none."""
    found = _STAMP.search(path.read_text(encoding="utf-8")) if path.is_file() else None
    if found is None:
        return None
    fields: dict[str, str] = {}
    rooms = {}
    for line in found["fields"].splitlines():
        name, _, value = line.partition(" ")
        if name == "room":
            room, _, rooms[room] = value.partition(" ")
        fields[name] = value
    try:
        sources = Sources(tuple(fields["from"].split()), tuple(fields["without"].split()))
        return Stamp(fields["version"], sources, Code(rooms), fields["inputs"])
    except KeyError as error:
        raise DataError(f"the stamp of {path} must have a line {error}") from None
