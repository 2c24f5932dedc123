"""A client's statement as a page to print: one file, no script, nothing loaded."""

import html
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from fedmerit.disk.files import whole_file
from fedmerit.errors import DataError
from fedmerit.ledger import StatedRound, StatementCheck

_STYLE = """
:root { color-scheme: light; }
body { font: 11pt/1.4 system-ui, sans-serif; color: #1a1a1a; background: #fff;
       max-width: 62em; margin: 2em auto; padding: 0 1.5em; }
h1 { font-size: 1.5em; margin-bottom: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1em; margin-top: 1.6em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2em 1em; }
dt { color: #555; } dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .2em .6em; border-bottom: 1px solid #ccc; }
th.text, td.text { text-align: left; overflow-wrap: anywhere; }
thead { display: table-header-group; } tr { break-inside: avoid; }
code { font-size: .85em; overflow-wrap: anywhere; }
.bad { border: 2px solid #a00; padding: .5em 1em; color: #a00; }
@page { size: A4; margin: 18mm; }
@media print { body { margin: 0; padding: 0; max-width: none; } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def statement_page(found: StatementCheck) -> str:
    """Return the page for a statement that was checked."""
    title = html.escape(f"Statement for {found.client}")
    body = "".join(_problem(found)) if found.problem else "".join(_content(found))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"
        f"{body}</body></html>\n"
    )


def write_statement_page(found: StatementCheck, path: Path) -> None:
    """Write the page, whole or not at all."""
    try:
        with whole_file(path) as partial:
            partial.write_text(statement_page(found), encoding="utf-8", errors="replace")
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error


def _problem(found: StatementCheck) -> Iterator[str]:
    yield '<p class="bad">This statement does not hold: '
    yield f"{html.escape(str(found.problem))}. Nothing in it is to be believed.</p>\n"


def _content(found: StatementCheck) -> Iterator[str]:
    used = [stated for stated in found.rounds if not stated.rejected]
    flagged = sum(s.flag is not None and s.flag.accuses for s in used)
    facts = {
        "paid, proven": f"{found.total:,} (in the smallest unit)",
        **({"paid, stated only": f"{found.stated:,}"} if found.stated else {}),
        "rounds": f"{len(used)} scored, {flagged} flagged",
        "replies not used": str(len(found.rounds) - len(used)),
        "ledger": found.ledger or "of before version 4, without an id",
    }
    if found.head is not None:
        facts |= {
            "state": f"{found.head.rounds} rounds of {found.head.runs} runs",
            "head": found.head.hash,
            "signed with": found.head.public_key or "nothing",
        }
    yield "<dl>"
    for name, value in facts.items():
        yield f"<dt>{name}</dt><dd>{html.escape(value)}</dd>\n"
    yield "</dl>\n<h2>Rounds</h2>\n<table><thead><tr>"
    for name in ("run", "round", "recorded (UTC)", "score", "weight", "paid"):
        yield f"<th>{name}</th>"
    yield '<th class="text">remark</th></tr></thead>\n<tbody>\n'
    for stated in found.rounds:
        yield _row(stated)
    yield "</tbody></table>\n<h2>What this shows</h2>\n<ul>\n"
    for words in found.proven:
        yield f"<li>Proven: {html.escape(words)}.</li>\n"
    for words in found.open:
        yield f"<li>Not proven: {html.escape(words)}.</li>\n"
    yield "</ul>\n<p>Check it yourself, with the operator's public key from elsewhere: "
    yield "<code>fedmerit statement verify statement.json --public-key KEY</code></p>\n"


def remark_of(stated: StatedRound) -> str:
    """Return what there is to say about a row."""
    words = stated.flag.words if stated.flag is not None else ""
    if stated.proven:
        return words
    return f"{words} (not proven)" if words else "not proven"


def _row(stated: StatedRound) -> str:
    cells = [
        str(stated.run),
        str(stated.round),
        _moment(stated.recorded_at),
        "" if stated.score is None else f"{stated.score:.4f}",
        "" if stated.weight is None else f"{stated.weight:.4f}",
        "" if stated.reward is None else f"{stated.reward:,}",
    ]
    shown = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f'<tr>{shown}<td class="text">{html.escape(remark_of(stated))}</td></tr>\n'


def _moment(microseconds: int) -> str:
    try:
        return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return f"{microseconds} µs"
