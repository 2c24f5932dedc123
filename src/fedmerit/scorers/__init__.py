"""Scorers: from a round's updates to what each client contributed."""

from fedmerit.scorers.ca import CorrelatedAgreement
from fedmerit.scorers.conditional import ConditionalPCA
from fedmerit.scorers.exact import ExactPCA
from fedmerit.scorers.merit import Merit
from fedmerit.scorers.published import PublishedPCA
from fedmerit.scorers.registry import SCORERS, make_scorer, score
from fedmerit.scorers.sample_size import required_parameters
from fedmerit.scorers.weighting import weights

__all__ = [
    "SCORERS",
    "ConditionalPCA",
    "CorrelatedAgreement",
    "ExactPCA",
    "Merit",
    "PublishedPCA",
    "make_scorer",
    "required_parameters",
    "score",
    "weights",
]
