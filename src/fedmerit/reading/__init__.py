"""Files that hold a round: arrays are read, code in them never runs, sizes are bounded first."""

from fedmerit.reading.budget import DEFAULT_LIMIT
from fedmerit.reading.rounds import RoundFile, read_round

__all__ = ["DEFAULT_LIMIT", "RoundFile", "read_round"]
