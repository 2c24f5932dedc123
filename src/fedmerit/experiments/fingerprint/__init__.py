"""Which code decided a result: found from the source, without running or importing it.

`source` reads modules as definitions, `reach` follows them from an entry, `code` makes digests,
and `stamp` puts them on pages.
"""

from fedmerit.experiments.fingerprint.code import Code, Sources, place_of
from fedmerit.experiments.fingerprint.stamp import Stamp, read_stamp, write_page

__all__ = ["Code", "Sources", "Stamp", "place_of", "read_stamp", "write_page"]
