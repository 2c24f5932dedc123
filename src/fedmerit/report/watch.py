"""A page that follows a run: written again whenever there is something new."""

from collections.abc import Callable
from pathlib import Path

from fedmerit.errors import DataError, LedgerBusyError, LedgerError
from fedmerit.report.page import write_report
from fedmerit.report.source import RunView, open_source


def watch(
    source: Path,
    target: Path,
    *,
    run: int | None,
    every: float,
    wait: Callable[[float], None],
    written: Callable[[RunView, int], None],
) -> None:
    """Write the page at every change until interrupted; then once more, to stand still.

    No server and no port: the file is replaced as a whole, and the page in the browser loads itself
    again every `every` seconds. A source that is not there yet is waited for.
    """
    seen: tuple[str, int] | None = None
    try:
        while True:
            view = _look(source, run)
            if view is not None and (state := (view.title, len(view.records))) != seen:
                written(view, write_report(view, target, refresh=every))
                seen = state
            wait(every)
    except KeyboardInterrupt:
        view = _look(source, run)
        if view is not None:
            written(view, write_report(view, target))


def _look(source: Path, run: int | None) -> RunView | None:
    if not source.exists():
        return None
    try:
        return open_source(source, run)
    except LedgerBusyError:
        return None
    except (LedgerError, DataError):
        # A file that was just created has no tables yet; one that has rounds must be readable.
        if source.is_file() and source.stat().st_size > 0 and _has_rounds(source):
            raise
        return None


def _has_rounds(source: Path) -> bool:
    from fedmerit.ledger import Ledger

    try:
        with Ledger.open(source, read_only=True) as ledger:
            return bool(ledger.runs())
    except LedgerError:
        return False
