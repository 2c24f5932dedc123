"""The command line: parse, call, print. One file per command; `app` puts them together."""

import sys

_EXIT_CANNOT = 2


def main() -> None:
    """Run the `fedmerit` command."""
    try:
        from fedmerit.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        print("The command line needs an extra: pip install 'fedmerit[cli]'", file=sys.stderr)
        sys.exit(_EXIT_CANNOT)
    run()
