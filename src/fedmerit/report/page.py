"""Self-contained HTML: the report as one file, and the pages that `fedmerit serve` shows.

Whatever a client calls itself is data: it stands in a block of JSON in which no character can end
the block, and the page's own script puts it into text nodes only. Should both fail, the page's
security policy still runs no script but the one whose hash it names; a file loads nothing at all,
and a served page asks only the server that it came from.
"""

import base64
import hashlib
import html
import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedmerit.disk.files import whole_file
from fedmerit.errors import DataError
from fedmerit.report.data import page_data
from fedmerit.report.source import RunView

_SHARED = ("theme.js", "charts.js", "table.js", "live.js")
_SCRIPTS = {
    "run": ("run.js", "figures.js", "sight.js", "tables.js", "client.js", "main.js"),
    "runs": ("runs.js",),
    "compare": ("compare.js",),
}
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def write_report(view: RunView, path: Path, *, refresh: float | None = None) -> int:
    """Write the page and return its size in bytes.

    Parameters
    ----------
    view : RunView
    path : Path
        The file appears whole or not at all.
    refresh : float, optional
        Seconds after which the page loads itself again, while a run is on.
    """
    data = page_data(view, refresh=refresh)
    content = render("run", view.title, data).encode()
    try:
        with whole_file(path) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
    return len(content)


def render(page: str, title: str, data: Any, *, served: bool = False) -> str:
    """Return a page for its data.

    Parameters
    ----------
    page : {"run", "runs", "compare"}
    title : str
    data : plain values
    served : bool
        Whether the page may ask the server it came from.
    """
    script = _script(page)
    parts = {
        "policy": policy(script, served=served),
        "title": html.escape(f"{title} · fedmerit"),
        "style": _asset("page.css"),
        "data": embedded(data),
        "script": script,
    }
    template = _asset("head.html") + _asset(f"{page}.html") + _asset("foot.html")
    return _PLACE.sub(lambda found: parts[found[1]], template)


def embedded(data: Any) -> str:
    """Return JSON that may stand inside a script element, whatever the texts in it are.

    Examples
    --------
    >>> "<" in embedded("</script>")
    False
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A lone surrogate cannot be written as UTF-8; as an escape it can.
    escaped = text.translate(_ESCAPES)
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", escaped)


def policy(script: str, *, served: bool) -> str:
    """Return the security policy of a page with this script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
        + ("; connect-src 'self'" if served else "")
    )


@cache
def _script(page: str) -> str:
    source = "\n".join(_asset(name) for name in (*_SHARED, *_SCRIPTS[page]))
    return f'(() => {{\n"use strict";\n{source}\n}})();\n'


@cache
def _asset(name: str) -> str:
    return (files("fedmerit.report") / "assets" / name).read_text(encoding="utf-8")
