"""`fedmerit report`: one page that shows a run."""

import time
from pathlib import Path
from typing import Annotated

import typer

from fedmerit.cli.options import Json
from fedmerit.cli.output import console, print_json
from fedmerit.report import RunView, open_source, write_report
from fedmerit.report.watch import watch as watch_source
from fedmerit.validation import check_number

_MEGABYTE = 1_000_000


def report(
    source: Annotated[
        Path,
        typer.Argument(
            help="A ledger, or the folder of a run (--out of simulate).", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    run: Annotated[int | None, typer.Option(help="Run of the ledger; default: the last.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Write it again at every new round, until Ctrl-C.")
    ] = False,
    every: Annotated[float, typer.Option(help="Seconds between looks, with --watch.")] = 5.0,
    as_json: Json = False,
) -> None:
    """Write one page about a run: who contributed, who was flagged and why, who is paid what.

    The page is one file, opens offline and loads nothing.

    Example: fedmerit report run.ledger -o report.html
    """
    if watch:
        check_number("every", every, above=0)
        if not as_json:
            console.print(f"watching {source}; Ctrl-C ends it", markup=False, highlight=False)
        watch_source(
            source,
            out,
            run=run,
            every=every,
            wait=time.sleep,
            written=lambda view, size: _say(view, out, size, as_json=as_json),
        )
        return
    view = open_source(source, run)
    _say(view, out, write_report(view, out), as_json=as_json)


def _say(view: RunView, out: Path, size: int, *, as_json: bool) -> None:
    clients = set(view.table.column("client").tolist())
    if as_json:
        print_json(
            {
                "path": str(out),
                "bytes": size,
                "rounds": len(view.records),
                "clients": len(clients),
            }
        )
        return
    console.print(
        f"{view.title}: {len(view.records)} rounds, {len(clients)} clients, "
        f"{size / _MEGABYTE:.1f} MB",
        highlight=False,
        markup=False,
    )
    print_page(out)


def print_page(out: Path) -> None:
    """Print where the page is and how to open it."""
    console.print(f"report: {out}", soft_wrap=True, markup=False, highlight=False)
    console.print(
        f"open:   {out.resolve().as_uri()}", soft_wrap=True, markup=False, highlight=False
    )
