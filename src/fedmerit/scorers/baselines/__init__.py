"""Data-free scores that others use, on the same interface: what to compare with."""

from fedmerit.scorers.baselines.coast import CrossRound
from fedmerit.scorers.baselines.cosine import CosineToMean
from fedmerit.scorers.baselines.foolsgold import FoolsGold
from fedmerit.scorers.baselines.krum import KrumScore
from fedmerit.scorers.baselines.norm import UpdateNorm
from fedmerit.scorers.baselines.reputation import Reputation

__all__ = ["CosineToMean", "CrossRound", "FoolsGold", "KrumScore", "Reputation", "UpdateNorm"]
