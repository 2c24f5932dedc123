"""One self-contained HTML file, written whole.

Whatever a client calls itself is data: it stands in a block of JSON in which no character can end
the block, and the page's own script puts it into text nodes only. Should both fail, the page's
security policy still runs no script but the two whose hashes it names, and loads nothing at all.
"""

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedmerit.errors import DataError, MissingExtraError
from fedmerit.files import whole_file
from fedmerit.report.data import page_data
from fedmerit.report.source import RunView

_SCRIPTS = ("theme.js", "charts.js", "run.js", "figures.js", "tables.js", "main.js")
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
    content = render(page_data(view, refresh=refresh)).encode()
    try:
        with whole_file(path) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
    return len(content)


def render(data: dict[str, Any]) -> str:
    """Return the page for the numbers of `page_data`."""
    library, version = _plotly()
    data["versions"]["charts"] = version
    script = "\n".join(_asset(name) for name in _SCRIPTS)
    script = f'(() => {{\n"use strict";\n{script}\n}})();\n'
    parts = {
        "policy": _policy(library, script),
        "title": html.escape(f"{data['title']} · fedmerit"),
        "style": _asset("page.css"),
        "data": embedded(data),
        "library": library,
        "script": script,
    }
    return _PLACE.sub(lambda found: parts[found[1]], _asset("page.html"))


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


def _policy(*scripts: str) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return (files("fedmerit.report") / "assets" / name).read_text(encoding="utf-8")


def _plotly() -> tuple[str, str]:
    """Return the source of Plotly's JavaScript and its version."""
    try:
        from plotly.offline import get_plotlyjs, get_plotlyjs_version
    except ModuleNotFoundError:
        raise MissingExtraError("reports need plotly: pip install 'fedmerit[report]'") from None
    # As the browser will see it, for the hash: HTML knows one kind of line end.
    source = get_plotlyjs().replace("\r\n", "\n").replace("\r", "\n")
    if "</script" in source.lower():
        raise DataError("the charting library must not contain '</script', got one that does")
    return source, f"plotly.js {get_plotlyjs_version()}"
