"""Scorers: from a round's updates to what each client contributed."""

from fedmerit.scorers.baselines import (
    CosineToMean,
    FoolsGold,
    KrumScore,
    Reputation,
    UpdateNorm,
)
from fedmerit.scorers.ca import CorrelatedAgreement
from fedmerit.scorers.conditional import ConditionalPCA
from fedmerit.scorers.exact import ExactPCA
from fedmerit.scorers.merit import Merit
from fedmerit.scorers.published import PublishedPCA
from fedmerit.scorers.registry import SCORERS, make_scorer, score
from fedmerit.scorers.shapley import (
    exact_shapley,
    gtg_shapley,
    individual,
    leave_one_out,
    truncated_shapley,
)
from fedmerit.scorers.streaming import StreamedRound

__all__ = [
    "SCORERS",
    "ConditionalPCA",
    "CorrelatedAgreement",
    "CosineToMean",
    "ExactPCA",
    "FoolsGold",
    "KrumScore",
    "Merit",
    "PublishedPCA",
    "Reputation",
    "StreamedRound",
    "UpdateNorm",
    "exact_shapley",
    "gtg_shapley",
    "individual",
    "leave_one_out",
    "make_scorer",
    "score",
    "truncated_shapley",
]
