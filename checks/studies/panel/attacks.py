"""Who is found, how soon, and what the model is worth then: 30 % of 20 clients, as in `attacks`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan
from statistics import median

from checks.studies.panel.cells import Study
from fedmerit import Kind, Panel
from fedmerit.behaviours import BEHAVIOURS, Assignment, Honest
from fedmerit.experiments.benchmark.attacks.benchmark import _PARTS, FULL, PARTITIONS, SHARE
from fedmerit.experiments.benchmark.statistics import roc_auc
from fedmerit.experiments.spec import plain_rules
from fedmerit.panel import estimate
from fedmerit.rng import stream
from fedmerit.server import RoundRules
from fedmerit.simulation.config import FederationConfig
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.federation import Federation

KINDS = ("honest", "label-flip", "sign-flip", "fake-data", "boost")
PAIRS = 4
ENOUGH = 10_000


@dataclass(frozen=True)
class AttackRow:
    """One behaviour on one partition (the cell) with one seed.

    `auc_1`, `auc_2`, `auc_5` and `auc` are the chances that an honest client's worth exceeds a
    dishonest one's after so many rounds and after all; `found` and `accused` the shares of
    dishonest and of honest clients that are said to harm the model at the end; `merit` those of the
    dishonest whom the score flags in the last round; `after` the median round in which a dishonest
    one is first said to harm. Accuracy is the mean after the last three rounds: with the panel,
    with the default without one, of equal weights, and of the default without the dishonest.
    """

    cell: str
    seed: int
    auc_1: float
    auc_2: float
    auc_5: float
    auc: float
    found: float
    accused: float
    merit: float
    after: float
    panel: float
    default: float
    fedavg: float
    home: float
    code: str = ""


class _AtHome(Federation):
    """The dishonest stay at home."""

    def participants(self, number: int) -> list[int]:
        return [c for c in super().participants(number) if type(self.behaviours[c]) is Honest]


def federation(
    config: FederationConfig, data: Dataset, kind: type[Federation] = Federation
) -> Federation:
    # Cut as for the paper's users where there is enough; digits have 1,437 samples in all.
    count = _PARTS if len(data.train_y) > ENOUGH else config.users
    parts = config.partition.split(data.train_y, count, stream(config.seed, "partition"))
    return kind(config, data, parts=parts[: config.users])


def run(cell: str, seed: int, data: Dataset) -> list[AttackRow]:
    partition, name = cell.split(", ")
    behaviour = BEHAVIOURS[name]()
    config = replace(
        FULL,
        seed=seed,
        partition=PARTITIONS[partition],
        behaviours=Assignment(((SHARE, behaviour),)),
    )
    made = federation(replace(config, rules=RoundRules(panel=Panel(pairs=PAIRS))), data)
    bad = [str(c) for c, b in enumerate(made.behaviours) if type(b) is not Honest]
    good = [str(c) for c in range(config.users) if str(c) not in bad]
    state, accuracy, aucs, first = made.start(), [], [], {}
    for number in range(1, config.rounds + 1):
        state, record = made.step(state)
        accuracy.append(record.metrics["accuracy"])
        found = estimate(state.server.book.rounds)
        aucs.append(_auc(found, good, bad))
        for entry in record.clients:
            if entry.flag is not None and entry.flag.kind is Kind.HARMS:
                first.setdefault(entry.client, number)
    flagged = {entry.client for entry in record.clients if entry.flagged}
    harms = set(first)
    plain = replace(config, rules=plain_rules("uniform"))
    return [
        AttackRow(
            cell,
            seed,
            *(aucs[0], aucs[1], aucs[4], aucs[-1]),
            _share(harms, bad),
            _share(harms, good),
            _share(flagged - harms, bad),
            float(median(first[c] for c in bad if c in first)) if harms & set(bad) else nan,
            _last(accuracy),
            _last(_accuracy(federation(config, data))),
            _last(_accuracy(federation(plain, data))),
            _last(_accuracy(federation(config, data, _AtHome))),
        )
    ]


def _accuracy(made: Federation) -> list[float]:
    state, found = made.start(), []
    for _ in range(made.config.rounds):
        state, record = made.step(state)
        found.append(record.metrics["accuracy"])
    return found


def _auc(found: object, good: Sequence[str], bad: Sequence[str]) -> float:
    return roc_auc([found.of(c)[0] for c in good], [found.of(c)[0] for c in bad])


def _share(named: set[str], of: Sequence[str]) -> float:
    return len(named & set(of)) / len(of) if of else nan


def _last(accuracy: Sequence[float]) -> float:
    return sum(accuracy[-3:]) / 3


STUDY = Study(
    "attacks",
    AttackRow,
    tuple(f"{partition}, {kind}" for partition in ("dirichlet", "shards") for kind in KINDS),
    (820, 821, 822),
    run,
)
