"""Which code decided a result: found from the source, without running or importing it.

`source` reads modules as definitions, `reach` follows them from an entry, and `code` makes the
digests that tables and pages carry.
"""

from fedmerit.experiments.fingerprint.code import Code, code_of, place_of

__all__ = ["Code", "code_of", "place_of"]
