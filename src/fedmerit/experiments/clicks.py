"""The paper's experiments on a recommender: DIN on click logs.

Free riders join beside the users (`FederationConfig.extra`), so that runs with and without them are
paired. Both readings of the paper's free rider are here: the update is noise, or the model is.
Learning rate and momentum were chosen on validation events of KuaiRand; the paper's rate of 1.0 is
told of in docs/results/din.md.
"""

from dataclasses import replace

from fedmerit.experiments.spec import Experiment, Line, Point, plain_rules
from fedmerit.quantisers import CpSGD
from fedmerit.scorers import ConditionalPCA, ExactPCA, PublishedPCA
from fedmerit.server import RoundRules
from fedmerit.simulation.config import DinChoice, FederationConfig
from fedmerit.simulation.training.settings import LocalTraining

RATE = 0.1
DIN_LEVELS = 256  # this and alpha are the paper's for DIN
_ALPHA = 100.0
BASE = FederationConfig(
    users=2000,
    per_round=20,
    rounds=100,
    model=DinChoice(),
    training=LocalTraining(1, 2, "sgd", RATE, 0.5, 0.999),
    rules=plain_rules("size"),
)
# h = 256 and Xmax = 0.1 times the learning rate, on all parameters; the rate is the first round's.
_PAPERS = PublishedPCA(quantiser=CpSGD(levels=DIN_LEVELS, clip=0.1 * RATE), peers=5, bonus=1000)

_FED_PCA = plain_rules("score", _PAPERS, alpha=_ALPHA)

FEDAVG = Line("fedavg", "FedAvg, rows by touch", plain_rules("size"), touched=True)
PLAIN = Line("fedavg-plain", "FedAvg, plain", plain_rules("size"))
MEAN = Line("mean", "unweighted mean, rows by touch", plain_rules("uniform"), touched=True)
PUBLISHED = Line("fed-pca-published", "Fed-PCA, as published", _FED_PCA, scored="all")
EXACT = Line(
    "fed-pca-exact",
    "Fed-PCA, exact, dense layers",
    plain_rules("score", ExactPCA(), alpha=_ALPHA),
    touched=True,
)
MED = Line("med", "Med", replace(plain_rules("uniform"), rule="median"))
MED_PCA = Line("med-pca", "Med-PCA", replace(_FED_PCA, rule="median"), scored="all")
# Evidence of work in the dense layers; docs/decisions/0008 says why not merit, 0010 why these.
EVIDENCE = ConditionalPCA(explained=0.9, mixed=True)
DEFAULT = Line(
    "fedmerit",
    "fedmerit, default for DIN",
    RoundRules(EVIDENCE, "gated", norm_bound=3.0),
    touched=True,
)

_SEEDS = (0, 1)
_READINGS = {
    "updates": ("random-update:0.01", "riders whose updates are noise"),
    "models": ("random-model:0.01", "riders whose models are noise"),
    "stale": ("stale", "riders that replay the last global update"),
}


def _riders(
    name: str, reading: str, shares: tuple[int, ...], lines: tuple[Line, ...]
) -> Experiment:
    behaviour, title = _READINGS[reading]
    points = tuple(Point(p, "", f"{p}% {behaviour}" if p else "") for p in shares)
    return Experiment(
        f"{name}-{reading}",
        f"DIN with {title}",
        "free riders (% of a round)",
        points,
        lines,
        _SEEDS,
        base=BASE,
        metric="auc",
    )


def _noise(
    name: str, percent: int, scales: tuple[float, ...], lines: tuple[Line, ...]
) -> Experiment:
    points = tuple(Point(sd, f"{percent}% noise:{sd:g}") for sd in scales)
    title = f"DIN with noise from {percent} % of the users"
    return Experiment(
        name, title, "noise scale", points, lines, _SEEDS, logarithmic=True, base=BASE, metric="auc"
    )


_HARM = (PLAIN, FEDAVG)
_WEIGHTS = (PUBLISHED, EXACT, DEFAULT)
_LABELS = ("fake-data:1:2", "label-flip:0.5:2", "label-flip:1:2")
LABEL_NAMES = ("fake data", "random labels", "flipped labels")

CLICK_FAMILIES: dict[str, tuple[Experiment, ...]] = {
    "din-free-riders-harm": (
        _riders("din-free-riders-harm", "updates", (0, 10, 25, 50), _HARM),
        _riders("din-free-riders-harm", "models", (0, 10, 25, 50), _HARM),
    ),
    "din-noise-harm": (_noise("din-noise-harm", 100, (0.0001, 0.001, 0.01, 0.05), _HARM),),
    "din-weights": (
        _riders("din-weights", "updates", (0, 30, 50), _WEIGHTS),
        _riders("din-weights", "models", (30, 50), _WEIGHTS),
        _riders("din-weights", "stale", (30, 50), _WEIGHTS),
        _noise("din-weights-noise", 25, (0.0001, 0.001, 0.01, 0.05), _WEIGHTS),
    ),
    "din-aggregators": (
        Experiment(
            "din-aggregators",
            "DIN, all honest",
            "dishonest (%)",
            (Point(0, ""),),
            (PLAIN, FEDAVG, MEAN, PUBLISHED, EXACT, MED, MED_PCA, DEFAULT),
            _SEEDS,
            base=BASE,
            metric="auc",
        ),
    ),
    "din-labels": (
        Experiment(
            "din-labels",
            "DIN with 30 % accounts whose data is worthless",
            "1: fake data, 2: random labels, 3: flipped labels",
            tuple(Point(i + 1, "", f"30% {kind}") for i, kind in enumerate(_LABELS)),
            (EXACT, DEFAULT),
            _SEEDS,
            base=BASE,
            metric="auc",
        ),
    ),
}
