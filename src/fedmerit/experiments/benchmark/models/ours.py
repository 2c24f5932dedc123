"""The server under test, as it is by default, and what it said about everybody."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from fedmerit.experiments.benchmark.models.federation import Cast
from fedmerit.experiments.benchmark.models.tasks.task import State, StateLike
from fedmerit.flags import Kind
from fedmerit.server import Result, Server

REWARD = "positive:budget=1000000"
LATE = 3  # the round from which on riders are to weigh nothing


class Ours:
    """Settles rounds with a `fedmerit.Server`, and keeps what it said."""

    def __init__(self, state: StateLike, seed: int) -> None:
        self.server = Server(state, seed=seed, reward=REWARD)
        self.results: list[Result] = []

    def settle(self, state: StateLike, sent: dict[str, State], sizes: dict[str, int]) -> State:
        """Settle one round."""
        del state  # the server has it
        self.results.append(self.server.settle(sent, sizes))
        return {name: np.asarray(value) for name, value in self.server.model.items()}

    @property
    def named(self) -> set[str]:
        """Who is named by evidence over rounds."""
        return {verdict.client for verdict in self.server.verdicts() if verdict.flagged}


@dataclass(frozen=True)
class Judgement:
    """What was made of honest and of dishonest clients; see `ModelRow`."""

    honest_flagged: float
    honest_unweighted: float
    honest_named: int
    flagged: float
    named: float
    weight: float
    late_weight: float
    pay: float
    pay_spread: float
    undecided: float
    honest_kinds: str
    kinds: str


def judge(
    results: Sequence[Result], named: set[str], cast: Cast, sizes: Sequence[int]
) -> Judgement:
    """Compare dishonest with honest clients over all rounds.

    Where nobody lies, weight and pay are compared of those who otherwise would.
    """
    others, drawn = (_Seen.of(results, cast, who, sizes) for who in (cast.others, cast.drawn))
    everybody = _Seen.of(results, cast, range(len(cast.behaviours)), sizes)
    honest = others if cast.liars else everybody
    liars = drawn if cast.liars else _Seen.of(results, cast, (), sizes)
    return Judgement(
        honest_flagged=_share(honest.accused, honest.reports),
        honest_unweighted=_share(honest.unweighted, honest.reports),
        honest_named=sum(bool(names & named) for names in honest.names),
        flagged=_share(liars.accused, liars.reports),
        named=_share(sum(bool(names & named) for names in liars.names), len(liars.names)),
        weight=_ratio(drawn.weight, others.weight),
        late_weight=_ratio(drawn.late, others.late),
        pay=_ratio(drawn.pay, others.pay),
        pay_spread=float(np.std(honest.pay) / np.mean(honest.pay)) if any(honest.pay) else nan,
        undecided=_share(everybody.kinds[Kind.UNDECIDED], everybody.reports),
        honest_kinds=_told(honest.kinds),
        kinds=_told(liars.kinds),
    )


@dataclass(frozen=True)
class _Seen:
    """Some clients over all rounds: weights by example and `pay` are sums, one per client."""

    reports: int
    accused: int
    unweighted: int
    kinds: Counter[str]
    names: tuple[set[str], ...]
    weight: tuple[float, ...]
    late: tuple[float, ...]
    pay: tuple[float, ...]

    @classmethod
    def of(
        cls, results: Sequence[Result], cast: Cast, clients: Iterable[int], sizes: Sequence[int]
    ) -> "_Seen":
        reports = accused = unweighted = 0
        kinds: Counter[str] = Counter()
        names, weights, late_weights, pays = [], [], [], []
        for client in clients:
            known: set[str] = set()
            weight = late = pay = 0.0
            for number, result in enumerate(results, start=1):
                name = cast.behaviours[client].account(client, number)
                known.add(name)
                reports += 1
                flag = result.flags.get(name)
                if flag is not None:
                    kinds[flag.kind] += 1
                kinds["rejected"] += name in result.rejected
                accused += (flag is not None and flag.accuses) or name in result.rejected
                unweighted += not result.weights.get(name, 0.0)
                share = result.weights.get(name, 0.0) / sizes[client]
                weight += share
                late += share if number >= LATE else 0.0
                pay += result.payments.get(name, 0)
            names.append(known)
            weights.append(weight)
            late_weights.append(late)
            pays.append(pay)
        return cls(
            reports,
            accused,
            unweighted,
            kinds,
            tuple(names),
            tuple(weights),
            tuple(late_weights),
            tuple(pays),
        )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else nan


def _ratio(liars: Sequence[float], honest: Sequence[float]) -> float:
    """Return the mean of a dishonest client relative to that of an honest one."""
    if not liars or not any(honest):
        return nan
    return float(np.mean(liars) / np.mean(honest))


def _told(kinds: Mapping[str, int]) -> str:
    """Return counts in words, the most frequent first: ``explained 40; copy 3``."""
    ranked = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{kind} {count}" for kind, count in ranked if count)
