"""Pages that are written by hand but for their tables."""

import re
from collections.abc import Mapping
from pathlib import Path

from fedmerit.disk.files import whole_file
from fedmerit.errors import DataError
from fedmerit.experiments.fingerprint import Sources, write_page


def write_parts(path: Path, parts: Mapping[str, str], sources: Sources | None = None) -> None:
    """Put new text between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` of a page.

    With `sources` the page gets a stamp. A page made from tables has none: their rows say which
    code decided them, and the page names them, ``<!-- tables: NAME NAME -->``.
    """
    text = path.read_text(encoding="utf-8")
    for name, part in parts.items():
        block = re.compile(rf"(<!-- begin {name} -->\n).*?(\n<!-- end {name} -->)", re.S)
        if not block.search(text):
            raise DataError(f"{path.name} must have a part <!-- begin {name} -->")
        text = block.sub(lambda ends, part=part: f"{ends[1]}\n{part.strip()}\n{ends[2]}", text)
    if sources is not None:
        write_page(path, text, sources)
        return
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")
