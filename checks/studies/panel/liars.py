"""What judges earn by lying: 20 clients whose labels are wrong by 0 to 70 %, honest updates.

A federation is run once with judges who tell the truth; the lies are put into its book. So liars
and honest judges are compared on the same rounds. Liars are drawn by lot.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from checks.studies.panel.attacks import federation
from checks.studies.panel.cells import Study
from fedmerit import Panel
from fedmerit.behaviours import Behaviour, LocalData
from fedmerit.experiments.benchmark.attacks.benchmark import FULL, PARTITIONS
from fedmerit.experiments.benchmark.statistics import spearman
from fedmerit.experiments.spec import plain_rules
from fedmerit.panel import Estimate, HeardRound, estimate
from fedmerit.rng import stream
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.federation import Federation

SHARES = (0.1, 0.3, 0.45)
MOST_NOISE = 0.7
PAIRS = 4


@dataclass(frozen=True)
class LiarRow:
    """One lie told by one share of the judges, on one partition (the cell).

    `plain` and `trusted` are rank correlations of the clients' worth with what it is without any
    lies and with one voice per judge: by one voice per judge, and by judges whom the others do not
    contradict; `honest` is the latter with no liars. `gained` is how far the liars' own worth rises
    by their lies, in standard deviations of the clients' worth, and `voice` and `honest_voice` the
    mean voices.
    """

    cell: str
    lie: str
    seed: int
    share: float
    plain: float
    trusted: float
    honest: float
    gained: float
    voice: float
    honest_voice: float
    code: str = ""


class _Noisy(Federation):
    """Client c of k has a share c / (k - 1) of the most noise in its labels."""

    def _local_data(self, client: int, behaviour: Behaviour) -> LocalData:
        data = super()._local_data(client, behaviour)
        rng = stream(self.config.seed, "noise", client)
        share = MOST_NOISE * client / (self.config.users - 1)
        wrong = rng.permutation(len(data.y))[: round(share * len(data.y))]
        labels = data.y.copy()
        labels[wrong] = (labels[wrong] + rng.integers(1, 10, len(wrong))) % 10
        return LocalData(data.x, labels)


Lie = Callable[[HeardRound, set[str], np.random.Generator], HeardRound]


def _opposite(heard: HeardRound, liars: set[str], rng: np.random.Generator) -> HeardRound:
    del rng
    said = [
        -d if pair[0] in liars else d
        for pair, d in zip(heard.pairs, heard.differences, strict=True)
    ]
    gains = {judge: -g if judge in liars else g for judge, g in heard.gains.items()}
    return replace(heard, differences=tuple(said), gains=gains)


def _sly(heard: HeardRound, liars: set[str], rng: np.random.Generator) -> HeardRound:
    """Tell the opposite of candidates, and the truth of the global model."""
    return replace(_opposite(heard, liars, rng), gains=heard.gains)


def _noise(heard: HeardRound, liars: set[str], rng: np.random.Generator) -> HeardRound:
    """Answer at random, as widely spread as true answers."""
    spread = float(np.std(heard.differences))
    progress = float(np.std(list(heard.gains.values())))
    said = [
        float(rng.normal()) * spread if pair[0] in liars else d
        for pair, d in zip(heard.pairs, heard.differences, strict=True)
    ]
    gains = {j: float(rng.normal()) * progress if j in liars else g for j, g in heard.gains.items()}
    return replace(heard, differences=tuple(said), gains=gains)


def _praise(heard: HeardRound, liars: set[str], rng: np.random.Generator) -> HeardRound:
    """Tell the truth, and add three deviations for the group with more friends in it."""
    del rng
    spread = 3 * float(np.std(heard.differences))
    friends = {place for place, client in enumerate(heard.clients) if client in liars}
    said = []
    for (judge, left, right), d in zip(heard.pairs, heard.differences, strict=True):
        more = len(friends & set(left)) / len(left) - len(friends & set(right)) / len(right)
        said.append(d + spread * float(np.sign(more)) if judge in liars else d)
    return replace(heard, differences=tuple(said))


LIES: dict[str, Lie] = {"opposite": _opposite, "sly": _sly, "noise": _noise, "praise": _praise}


def run(cell: str, seed: int, data: Dataset) -> list[LiarRow]:
    config = replace(
        FULL,
        seed=seed,
        partition=PARTITIONS[cell],
        rules=replace(plain_rules("uniform"), panel=Panel(pairs=PAIRS, rate=0)),
    )
    made = federation(config, data, _Noisy)
    state = made.start()
    for _ in range(config.rounds):
        state, _ = made.step(state, evaluate=False)
    book = state.server.book.rounds
    clients = [str(client) for client in range(config.users)]
    truth = _worth(estimate(book, trusted=False), clients)
    honest = spearman(_worth(estimate(book), clients), truth)
    rows = []
    for lie, tell in LIES.items():
        for share in SHARES:
            rng = stream(seed, "liars", lie, round(100 * share))
            drawn = rng.permutation(config.users)[: round(share * config.users)]
            liars = {clients[place] for place in drawn}
            told = tuple(tell(heard, liars, rng) for heard in book)
            plain, found = estimate(told, trusted=False), estimate(told)
            worth = _worth(found, clients)
            voice = dict(zip(found.people, found.voice, strict=True))
            rows.append(
                LiarRow(
                    cell,
                    lie,
                    seed,
                    share,
                    spearman(_worth(plain, clients), truth),
                    spearman(worth, truth),
                    honest,
                    float((worth - truth)[drawn].mean() / truth.std()),
                    float(np.mean([voice[client] for client in liars])),
                    float(np.mean([voice[client] for client in clients if client not in liars])),
                )
            )
    return rows


def _worth(found: Estimate, clients: Sequence[str]) -> np.ndarray:
    return np.array([found.of(client)[0] for client in clients])


STUDY = Study("liars", LiarRow, ("dirichlet", "shards"), (840, 841, 842), run)
