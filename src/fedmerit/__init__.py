"""fedmerit: what each client of a federation contributed, without any test data."""

from fedmerit.aggregators import AGGREGATORS, aggregate
from fedmerit.aggregators.weighting import gated_weights, weights
from fedmerit.errors import (
    CheckpointError,
    DataError,
    FedMeritError,
    InvalidInputError,
    LedgerBusyError,
    LedgerCorruptError,
    LedgerError,
    MissingExtraError,
    RoundFailedError,
    SettingError,
    UnknownNameError,
    UpdatesError,
    WeightsError,
)
from fedmerit.evidence import Verdict, Watch
from fedmerit.flags import Flag, Kind
from fedmerit.incentive.registry import reward_rule
from fedmerit.incentive.rewards import Payments, RewardRule
from fedmerit.ledger import Ledger, SigningKey
from fedmerit.panel import Candidate, Heard, Panel
from fedmerit.quantisers import QUANTISERS, CpSGD, QuantileBins, UniformBins
from fedmerit.sampling import required_parameters, sample_size
from fedmerit.scorers import (
    SCORERS,
    ConditionalPCA,
    CorrelatedAgreement,
    ExactPCA,
    Merit,
    PublishedPCA,
    StreamedRound,
    score,
)
from fedmerit.server import Result, RoundHistory, RoundRules, Server, Total
from fedmerit.types import (
    ClientRecord,
    Contributions,
    Evidence,
    Needs,
    Pairs,
    Quantiser,
    Rejection,
    RoundInputs,
    RoundRecord,
    Scorer,
    Signals,
    needs_of,
)
from fedmerit.version import __version__

__all__ = [
    "AGGREGATORS",
    "QUANTISERS",
    "SCORERS",
    "Candidate",
    "CheckpointError",
    "ClientRecord",
    "ConditionalPCA",
    "Contributions",
    "CorrelatedAgreement",
    "CpSGD",
    "DataError",
    "Evidence",
    "ExactPCA",
    "FedMeritError",
    "Flag",
    "Heard",
    "InvalidInputError",
    "Kind",
    "Ledger",
    "LedgerBusyError",
    "LedgerCorruptError",
    "LedgerError",
    "Merit",
    "MissingExtraError",
    "Needs",
    "Pairs",
    "Panel",
    "Payments",
    "PublishedPCA",
    "QuantileBins",
    "Quantiser",
    "Rejection",
    "Result",
    "RewardRule",
    "RoundFailedError",
    "RoundHistory",
    "RoundInputs",
    "RoundRecord",
    "RoundRules",
    "Scorer",
    "Server",
    "SettingError",
    "Signals",
    "SigningKey",
    "StreamedRound",
    "Total",
    "UniformBins",
    "UnknownNameError",
    "UpdatesError",
    "Verdict",
    "Watch",
    "WeightsError",
    "__version__",
    "aggregate",
    "gated_weights",
    "needs_of",
    "required_parameters",
    "reward_rule",
    "sample_size",
    "score",
    "weights",
]
