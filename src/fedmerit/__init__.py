"""fedmerit: what each client of a federation contributed, without any test data."""

from fedmerit.aggregators import AGGREGATORS, aggregate
from fedmerit.detection import Verdict, Watch
from fedmerit.errors import FedMeritError
from fedmerit.quantisers import QUANTISERS, CpSGD, QuantileBins, UniformBins
from fedmerit.scorers import (
    SCORERS,
    ConditionalPCA,
    CorrelatedAgreement,
    ExactPCA,
    Merit,
    PublishedPCA,
    RoundHistory,
    StreamedRound,
    gated_weights,
    required_parameters,
    sample_size,
    score,
    weights,
)
from fedmerit.types import (
    ClientRecord,
    Contributions,
    Quantiser,
    Rejection,
    RoundInputs,
    RoundRecord,
    Scorer,
    Signals,
)

__version__ = "0.1.0"

__all__ = [
    "AGGREGATORS",
    "QUANTISERS",
    "SCORERS",
    "ClientRecord",
    "ConditionalPCA",
    "Contributions",
    "CorrelatedAgreement",
    "CpSGD",
    "ExactPCA",
    "FedMeritError",
    "Merit",
    "PublishedPCA",
    "QuantileBins",
    "Quantiser",
    "Rejection",
    "RoundHistory",
    "RoundInputs",
    "RoundRecord",
    "Scorer",
    "Signals",
    "StreamedRound",
    "UniformBins",
    "Verdict",
    "Watch",
    "__version__",
    "aggregate",
    "gated_weights",
    "required_parameters",
    "sample_size",
    "score",
    "weights",
]
