"""What an experiment is, and the paper's experiments on MNIST."""

from dataclasses import dataclass, field, replace

from fedmerit.aggregators.weighting import ALPHA
from fedmerit.behaviours import Assignment
from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.quantisers import CpSGD
from fedmerit.scorers import PublishedPCA
from fedmerit.server import RoundRules
from fedmerit.simulation.config import FederationConfig
from fedmerit.types import Scorer
from fedmerit.validation import check_count


@dataclass(frozen=True)
class Line:
    """One way to aggregate: a line in a figure."""

    name: str
    label: str
    rules: RoundRules
    touched: bool = False
    scored: str = "dense"


@dataclass(frozen=True)
class Point:
    """One place on the horizontal axis: its value, what the dishonest users there do, who joins."""

    value: float
    behaviours: str
    extra: str = ""

    def __post_init__(self) -> None:
        Assignment.parse(self.behaviours)
        Assignment.parse(self.extra)


@dataclass(frozen=True)
class Experiment:
    """Every line at every point, with every seed.

    Attributes
    ----------
    name, title : str
    axis : str
        Label of the horizontal axis.
    logarithmic : bool
        Whether that axis is.
    points, lines, seeds : tuple
    base : FederationConfig
        All other settings.
    metric : str
        What the model is judged by.
    """

    name: str
    title: str
    axis: str
    points: tuple[Point, ...]
    lines: tuple[Line, ...]
    seeds: tuple[int, ...] = (0, 1, 2)
    logarithmic: bool = False
    base: FederationConfig = field(default_factory=FederationConfig)
    metric: str = "accuracy"

    def __post_init__(self) -> None:
        for name in ("points", "lines", "seeds"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise SettingError(f"{name} must be different and at least one, got {values}")

    def config(self, line: Line, point: Point, seed: int) -> FederationConfig:
        """Return the federation of one run."""
        return replace(
            self.base,
            seed=seed,
            behaviours=Assignment.parse(point.behaviours),
            rules=line.rules,
            touched=line.touched,
            scored=line.scored,
            extra=Assignment.parse(point.extra),
        )

    def shortened(self, *, rounds: int, seeds: int, points: int) -> "Experiment":
        """Return a version with fewer rounds, seeds and points (ends and middle are kept)."""
        check_count("points", points, least=1)
        last = len(self.points) - 1
        kept = {round(i * last / max(1, points - 1)) for i in range(points)}
        return replace(
            self,
            base=replace(self.base, rounds=rounds),
            seeds=self.seeds[:seeds],
            points=tuple(self.points[i] for i in sorted(kept)),
        )


def plain_rules(
    weighting: str, scorer: Scorer | None = None, *, alpha: float = ALPHA
) -> RoundRules:
    """Return rules without a norm bound, as published."""
    return RoundRules(scorer, weighting, alpha, norm_bound=None)


FEDAVG = Line("fedavg", "FedAvg", plain_rules("size"))
# The paper's settings read literally: its quantiser is far coarser than MNIST updates are wide.
PUBLISHED = Line(
    "fed-pca-published",
    "Fed-PCA, as published",
    plain_rules("score", PublishedPCA(quantiser=CpSGD(levels=8, clip=0.1), peers=5, bonus=1000)),
)
DEFAULT = Line("fedmerit", "fedmerit, default", RoundRules())
LINES = (FEDAVG, PUBLISHED, DEFAULT)


def _shares(behaviour: str) -> tuple[Point, ...]:
    """Return the paper's shares of dishonest users; none is the same run as all honest."""
    return tuple(Point(p, f"{p}% {behaviour}" if p else "") for p in (0, 10, 20, 30, 40, 50))


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "mnist-free-riders",
            "MNIST with free riders",
            "free riders (%)",
            _shares("random-update:0.01"),
            LINES,
        ),
        # The other reading of the paper's "generates model parameters": the rider's model is noise.
        Experiment(
            "mnist-random-models",
            "MNIST with free riders that send random models",
            "free riders (%)",
            _shares("random-model:0.01"),
            LINES,
        ),
        Experiment(
            "mnist-noise",
            "MNIST with 25 % privacy-preserving users",
            "noise scale",
            tuple(Point(sd, f"25% noise:{sd:g}") for sd in (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1)),
            LINES,
            logarithmic=True,
        ),
        Experiment("mnist-honest", "MNIST, all honest", "dishonest (%)", (Point(0, ""),), LINES),
    )
}


def find_experiment(name: str) -> Experiment:
    """Return the experiment called `name`."""
    if name not in EXPERIMENTS:
        raise UnknownNameError.of("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
