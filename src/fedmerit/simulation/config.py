"""Every setting of a simulated federation; the defaults are the paper's for MNIST."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedmerit.behaviours import Assignment
from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.quantisers import Dequantiser
from fedmerit.server import RoundRules
from fedmerit.simulation.data.partition import Indices, dirichlet, iid, label_shards
from fedmerit.simulation.training.settings import LocalTraining
from fedmerit.validation import check_count, check_number

PARTITIONS = ("dirichlet", "iid", "shards")
SCORED = ("all", "dense")


@dataclass(frozen=True)
class Partition:
    """How the training data is split over the users.

    Attributes
    ----------
    kind : str
        "shards" (label-sorted, `shards_per_user` each), "dirichlet" (`alpha`) or "iid".
    """

    kind: str = "shards"
    shards_per_user: int = 2
    alpha: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in PARTITIONS:
            raise UnknownNameError.of("partition", self.kind, PARTITIONS)
        check_count("shards_per_user", self.shards_per_user, least=1)
        check_number("alpha of the partition", self.alpha, above=0)

    def split(
        self, labels: NDArray[np.integer], users: int, rng: np.random.Generator
    ) -> list[Indices]:
        """Return the sample indices of every user."""
        if self.kind == "iid":
            return iid(len(labels), users, rng)
        if self.kind == "dirichlet":
            return dirichlet(labels, users, rng, alpha=self.alpha)
        return label_shards(labels, users, rng, per_client=self.shards_per_user)


@dataclass(frozen=True)
class ModelChoice:
    """A model by name; `hidden` and `dropout` are settings of the MLP."""

    name: str = "mlp"
    hidden: int = 200
    dropout: float = 0.5


@dataclass(frozen=True)
class DinChoice:
    """Sizes of a DIN.

    Attributes
    ----------
    embedding : int
        Length of an embedding.
    attention : int
        Units of the activation unit.
    hidden : tuple of two ints
        Units of the two layers.
    spread : float
        Standard deviation of the embeddings before training.
    """

    embedding: int = 8
    attention: int = 16
    hidden: tuple[int, int] = (32, 16)
    spread: float = 0.1

    def __post_init__(self) -> None:
        for name in ("embedding", "attention"):
            check_count(name, getattr(self, name), least=1)
        for units in self.hidden:
            check_count("hidden", units, least=1)
        check_number("spread", self.spread, above=0)


_KINDS = {
    "partition": (Partition,),
    "model": (ModelChoice, DinChoice),
    "training": (LocalTraining,),
    "behaviours": (Assignment,),
    "extra": (Assignment,),
}


@dataclass(frozen=True)
class FederationConfig:
    """A simulated federation.

    Attributes
    ----------
    users, per_round, rounds, seed : int
        The federation's size, how many of it are drawn for a round, how many rounds.
    behaviours : Assignment
        Who is not honest.
    upload : quantiser or None
        With a quantiser that can go back to values, clients upload levels, and their values are
        aggregated. Scorers that look at levels score these; one that needs floats, as merit does,
        scores the values that they stand for. None: floats are uploaded.
    rules : RoundRules
        How the server settles a round. A run can be resumed if the scorer's repr says its settings,
        as that of a dataclass does.
    together : bool
        Train all clients of a round together. False trains one after the other: slower, for modules
        that cannot be stacked.
    extra : Assignment
        Accounts that take part beside the users, as shares of a round's clients: runs with and
        without them are paired (`accounts`).
    touched : bool
        Average a row of embeddings over the clients that touched it, not over all.
    scored : str
        What scores look at in models with embeddings: "dense", which every client trains, or "all".
    models : bool
        Clients send models, as Flower's do, and FedAvg averages these. False: they send updates;
        the model is then the same but for rounding.
    """

    users: int = 100
    per_round: int = 20
    rounds: int = 100
    seed: int = 0
    partition: Partition = field(default_factory=Partition)
    model: ModelChoice | DinChoice = field(default_factory=ModelChoice)
    training: LocalTraining = field(default_factory=LocalTraining)
    behaviours: Assignment = field(default_factory=Assignment)
    upload: Dequantiser | None = None
    rules: RoundRules = field(default_factory=RoundRules)
    together: bool = True
    # Not in the repr, so that runs which do not use them keep their fingerprints.
    extra: Assignment = field(default_factory=Assignment, repr=False)
    touched: bool = field(default=False, repr=False)
    scored: str = field(default="dense", repr=False)
    models: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        check_count("users", self.users, least=2)
        check_count("per_round", self.per_round, least=2)
        if self.per_round > self.users:
            raise SettingError(
                f"per_round must be at most users = {self.users}, got {self.per_round}"
            )
        check_count("rounds", self.rounds, least=1)
        check_count("seed", self.seed, least=0)
        RoundRules.of(self.rules, {})
        for name, kinds in _KINDS.items():
            if not isinstance(getattr(self, name), kinds):
                known = " or ".join(kind.__name__ for kind in kinds)
                raise SettingError(f"{name} must be {known}, got {getattr(self, name)!r}"[:200])
        if self.touched and self.rules.rule != "mean":
            raise SettingError(f"touched needs rule mean, got {self.rules.rule}")
        if self.scored not in SCORED:
            raise UnknownNameError.of("scored", self.scored, SCORED)
        if self.upload is not None and not isinstance(self.upload, Dequantiser):
            raise SettingError(
                f"upload must be a quantiser whose levels stand for values, got {self.upload!r}"
            )
