"""Files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Yield a path to write to; the file there takes the place of `target` when all went well.

    Whatever stops the writing, an error or Ctrl-C, the old file stays as it was and nothing is left
    behind. The new name keeps the ending of `target`, which some writers look at.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.stem}.{os.getpid()}.part{target.suffix}")
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
