"""The command line: parse, call, print. One file per command; `app` puts them together."""

import sys


def main() -> None:
    """Run the `fedmerit` command."""
    try:
        from fedmerit.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.exit("The command line needs an extra: pip install 'fedmerit[cli]'")
    run()
