"""Whether peers see worthless labels on a recommender, which no score sees: accounts beside users.

Users of click logs hold ten to a few hundred impressions. There are 100 of them, 20 a round, and
30 % of a round are accounts whose labels are worthless. Everybody takes part in about ten of 50
rounds.
"""

from dataclasses import dataclass, replace
from math import nan

from checks.studies.panel.cells import Study
from fedmerit import Kind, Panel
from fedmerit.behaviours import Assignment
from fedmerit.experiments.benchmark.statistics import roc_auc
from fedmerit.experiments.clicks import BASE, DEFAULT
from fedmerit.panel import estimate
from fedmerit.simulation.clicks.log import ClickLog
from fedmerit.simulation.config import FederationConfig
from fedmerit.simulation.federation import Federation, FederationState
from fedmerit.types import ClientRecord

USERS, ROUNDS, LAST = 100, 50, 10
LOOKED_AT = (10, 25, ROUNDS)
KINDS = {
    "honest": "",
    "random labels": "30% label-flip:0.5:2",
    "flipped labels": "30% label-flip:1:2",
}
# A loss tells more of ten clicks than their order does; worse than chance by far is cut off.
PANEL = Panel(metric="loss", pairs=4, low=0.0, high=2.0, lower_is_better=True, clip=True)


@dataclass(frozen=True)
class ClickRow:
    """One kind of labels (the cell) with one seed.

    `auc_10`, `auc_25` and `auc_50` are the chances that a user's worth exceeds an account's after
    so many rounds; `found` and `accused` the shares of accounts and of users that are said to harm
    the model at the end. The model's AUC on test data is the mean after the last ten rounds: with
    the panel, with the default for DIN without one, and of the default without the accounts.
    """

    cell: str
    seed: int
    auc_10: float
    auc_25: float
    auc_50: float
    found: float
    accused: float
    panel: float
    default: float
    home: float
    code: str = ""


def config_of(seed: int, kind: str, panel: Panel | None) -> FederationConfig:
    rules = replace(DEFAULT.rules, panel=panel)
    extra = Assignment.parse(KINDS[kind]) if KINDS[kind] else Assignment()
    return replace(
        BASE,
        users=USERS,
        rounds=ROUNDS,
        seed=seed,
        rules=rules,
        extra=extra,
        touched=DEFAULT.touched,
    )


def run(cell: str, seed: int, data: ClickLog) -> list[ClickRow]:
    made = Federation(config_of(seed, cell, PANEL), data)
    state, values = made.start(), []
    aucs: dict[int, float] = {}
    harms: set[int] = set()
    for number in range(1, made.config.rounds + 1):
        state, record = made.step(state)
        values.append(record.metrics["auc"])
        harms |= {int(e.client) for e in record.clients if _harms(e)}
        if number in LOOKED_AT:
            aucs[number] = _auc(state)
    accounts = len(made.behaviours) - USERS
    bad = {client for client in harms if client >= USERS}
    return [
        ClickRow(
            cell,
            seed,
            *(aucs[number] for number in LOOKED_AT),
            len(bad) / accounts if accounts else nan,
            len(harms - bad) / USERS,
            _last(values),
            _last(_without(config_of(seed, cell, None), data)),
            _last(_without(config_of(seed, "honest", None), data)),
        )
    ]


def _harms(entry: ClientRecord) -> bool:
    return entry.flag is not None and entry.flag.kind is Kind.HARMS


def _auc(state: FederationState) -> float:
    """Return the chance that a user's worth exceeds an account's, of those who took part."""
    found = estimate(state.server.book.rounds)
    worth = {int(client): found.of(client)[0] for client in found.people}
    users = [value for client, value in worth.items() if client < USERS]
    accounts = [value for client, value in worth.items() if client >= USERS]
    return roc_auc(users, accounts)


def _without(config: FederationConfig, data: ClickLog) -> list[float]:
    made = Federation(config, data)
    state, values = made.start(), []
    for _ in range(config.rounds):
        state, record = made.step(state)
        values.append(record.metrics["auc"])
    return values


def _last(values: list[float]) -> float:
    return sum(values[-LAST:]) / LAST


STUDY = Study("clicks", ClickRow, tuple(KINDS), (870, 871, 872), run)
