"""`fedmerit serve`: a local page that follows runs as they are written."""

import os
import secrets
import socket
from pathlib import Path
from typing import Annotated

import typer

from fedmerit.cli.output import console
from fedmerit.report.serve import LiveServer, is_everywhere, is_loopback
from fedmerit.validation import check_number

TOKEN_VARIABLE = "FEDMERIT_TOKEN"


def serve(
    source: Annotated[
        Path,
        typer.Argument(
            help="A ledger, the folder of a run, or a folder of these.", show_default=False
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than this machine's need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)] = 8765,
    every: Annotated[float, typer.Option(help="Seconds between looks at the files.")] = 1.0,
) -> None:
    """Show runs on a local web page that follows them as they are written; Ctrl-C ends it.

    All runs, two of them side by side, one run, one client. The page only reads. On an address that
    others can reach a token is asked for: that of the variable FEDMERIT_TOKEN, or a new one.

    Example: fedmerit serve run.ledger
    """
    check_number("every", every, above=0)
    token = os.environ.get(TOKEN_VARIABLE) or None
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    try:
        with LiveServer(source, host=host, port=port, token=token, every=every) as server:
            addresses = [server.url]
            if is_everywhere(host):  # no address to open elsewhere, but a name is
                addresses.append(server.url_at(socket.gethostname()))
            told = " or ".join(addresses)
            console.print(f"open: {told}", soft_wrap=True, markup=False, highlight=False)
            if not server.library.runs():
                console.print(
                    f"there is no run in {source} yet; the page shows one as soon as there is",
                    soft_wrap=True,
                    markup=False,
                    highlight=False,
                )
            console.print("Ctrl-C ends it", highlight=False)
            server.serve_forever()
    except KeyboardInterrupt:
        console.print("ended", highlight=False)
