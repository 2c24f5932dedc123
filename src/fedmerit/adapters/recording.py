"""The ledger of a run of an engine."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from fedmerit import __version__
from fedmerit.ledger import Ledger, RunRecorder, SigningKey
from fedmerit.types import RoundRecord

Record = Callable[[RoundRecord], None]


@contextmanager
def recording(
    ledger: Path | None, key: SigningKey | None, settings: Mapping[str, object]
) -> Iterator[Record | None]:
    """Open the ledger, if there is one, and yield what writes a round into it.

    Each start is a run of its own in the ledger: what an engine continues, it continues without
    our history.
    """
    if ledger is None:
        yield None
        return
    plain = {
        name: value if isinstance(value, int | float | str | None) else repr(value)
        for name, value in settings.items()
    }
    with Ledger.open(ledger, key=key) as opened:
        yield RunRecorder(opened, plain, __version__, fingerprint=uuid4().hex, resume=False)
