"""Federations that are put together oddly: ``python -m checks.studies.odd_federations``.

It writes docs/results/odd-federations.*: small models in plain NumPy, settled by a `Server` with
its default settings. First all are honest, in set-ups that the benchmarks do not have; then some do
not work. Rows that the code as it is has made already are not made again. ``--seeds 20 21 --out
FOLDER`` is for development.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checks import ROOT
from checks.studies.odd_learners import (
    Federation,
    Floats,
    Model,
    Steps,
    digits,
    factors,
    first_perceptron,
    linear,
    logistic,
    only_largest,
    perceptron,
    private,
)
from fedmerit.experiments.benchmark.base import Table
from fedmerit.experiments.benchmark.files import read_rows, write_rows
from fedmerit.experiments.fingerprint import Sources, write_page
from fedmerit.rng import stream
from fedmerit.server import Result, Server

SEEDS = (730, 731, 732)
HONEST = "honest"
_LATE = 3  # riders are given two rounds
# Sleepers work for so many rounds, and ride for so many.
WORKS, THEN_RIDES = 40, 30
SLEEPERS = ("noise", "last update", "its signs")

_SETTINGS = """\
Each federation is settled by a `fedmerit.Server` with its default settings; clients claim the
examples that they hold. *Accused* counts honest reports that were accused, *out* those without
weight, *named* honest clients that evidence over rounds names at the end. Of riders (a quarter of
the clients), *weight* and *pay* are those of one of them relative to one of the others, from round
3 on, or from the round on in which they stop working. *As FedAvg* counts runs in which every weight
is, to the bit, the client's share of the examples. Sums over seeds, of weight and pay means."""


def _dealt(seed: int, clients: int, skew: float) -> list[tuple[Floats, NDArray[np.int64]]]:
    """Deal digits out; `skew` is Dirichlet's, so that less is more uneven."""
    x, y = digits()
    rng = stream(seed, "deal")
    owner = np.empty(len(y), dtype=np.int64)
    for label in range(10):
        rows = np.flatnonzero(y == label)
        owner[rows] = rng.choice(clients, len(rows), p=rng.dirichlet(np.full(clients, skew)))
    parts = [np.flatnonzero(owner == client) for client in range(clients)]
    parts = [part if len(part) >= 10 else rng.choice(len(y), 10, replace=False) for part in parts]
    return [(x[part], y[part]) for part in parts]


def _digits_of(
    seed: int, steps: Sequence[Steps], hidden: int = 30, skew: float = 1.0
) -> Federation:
    """Return perceptrons on digits, one for each of the `steps`."""
    parts = _dealt(seed, len(steps), skew)
    clients = tuple(perceptron(x, y, one) for (x, y), one in zip(parts, steps, strict=True))
    first = first_perceptron(64, hidden, 10, stream(seed, "first"))
    return Federation(first, clients, tuple(len(y) for _, y in parts))


def plain(seed: int) -> Federation:
    """Equal work on uneven data."""
    return _digits_of(seed, [Steps(3, 16, 0.1)] * 12)


def one_or_ten(seed: int) -> Federation:
    """Let a third of the clients train ten passes, the others one."""
    return _digits_of(seed, [Steps(10, 16, 0.1)] * 4 + [Steps(1, 16, 0.1)] * 8)


def one_or_ten_mostly_ten(seed: int) -> Federation:
    """Let a third of the clients train one pass, the others ten."""
    return _digits_of(seed, [Steps(1, 16, 0.1)] * 4 + [Steps(10, 16, 0.1)] * 8, hidden=75)


def slow_full_batches(seed: int) -> Federation:
    """Everybody takes a few small steps on all its data."""
    return _digits_of(seed, [Steps(5, None, 0.02)] * 12)


def largest_tenth(seed: int) -> Federation:
    """Let a third of the clients send its largest changes only."""
    whole = _digits_of(seed, [Steps(3, 16, 0.1)] * 12)
    few = tuple(only_largest(learn, 0.1) for learn in whole.clients[:4])
    return Federation(whole.model, few + whole.clients[4:], whole.sizes)


def some_private(seed: int) -> Federation:
    """Let a third of the clients add as much noise as its update is long."""
    whole = _digits_of(seed, [Steps(3, 16, 0.1)] * 12)
    noisy = tuple(private(learn, 1.0) for learn in whole.clients[:4])
    return Federation(whole.model, noisy + whole.clients[4:], whole.sizes)


def class_each(seed: int) -> Federation:
    """Twenty clients hold one class each."""
    x, y = digits()
    rng = stream(seed, "deal")
    parts = [rng.permutation(np.flatnonzero(y == label)) for label in range(10)]
    halves = [half for part in parts for half in np.array_split(part, 2)]
    clients = tuple(perceptron(x[half], y[half], Steps(2, 16, 0.05)) for half in halves)
    first = first_perceptron(64, 30, 10, stream(seed, "first"))
    return Federation(first, clients, tuple(map(len, halves)))


def _bags(seed: int, steps: Steps, a_round: int | None) -> Federation:
    """Texts of few words, each client with its own: a softmax over 2,000 words."""
    rng = stream(seed, "bags")
    words, clients, sizes = 2000, [], []
    rank = 1 / np.arange(1, words + 1)
    tone = rng.normal(0, 1, words)
    for _ in range(40):
        count = int(rng.integers(8, 60))
        taste = rank * rng.gamma(0.3, 1, words)
        taste /= taste.sum()
        x = rng.multinomial(40, taste, size=count).astype(np.float64)
        y = (x @ tone + rng.normal(0, 3, count) > 0).astype(np.int64)
        clients.append(logistic(x / np.sqrt(40), y, steps))
        sizes.append(count)
    first = {"out": np.zeros((words, 2)), "out.bias": np.zeros(2)}
    return Federation(first, tuple(clients), tuple(sizes), a_round=a_round)


def bags_of_words(seed: int) -> Federation:
    """Ten of forty clients a round, two passes over few short texts."""
    return _bags(seed, Steps(2, 8, 0.5), 10)


def bags_by_gradient(seed: int) -> Federation:
    """Let all take part in every round, with one gradient of all their texts."""
    return _bags(seed, Steps(1, None, 0.5), None)


def least_squares(seed: int) -> Federation:
    """Linear regression on 1,500 numbers; clients hold 20 to 200 examples of their own kind."""
    rng = stream(seed, "linear")
    truth = rng.normal(0, 1, 1500) / np.sqrt(1500)
    clients, sizes = [], []
    for _ in range(12):
        count = int(rng.integers(20, 200))
        spread = np.exp(rng.normal(0, 0.5, 1500))
        x = rng.normal(0, 1, (count, 1500)) * spread
        own = truth + rng.normal(0, 0.3, 1500) / np.sqrt(1500)
        clients.append(linear(x, x @ own + rng.normal(0, 0.1, count), Steps(2, 10, 0.002)))
        sizes.append(count)
    return Federation({"out": np.zeros(1500)}, tuple(clients), tuple(sizes))


def factorised(seed: int) -> Federation:
    """Factors of 2,000 items, clients with 10 to 400 of them, popular ones more often."""
    rng = stream(seed, "factors")
    popular = 1 / np.arange(1, 2001) ** 0.8
    popular /= popular.sum()
    truth = rng.normal(0, 1, (2000, 8)) + 0.5
    clients, sizes = [], []
    for _ in range(20):
        count = int(np.exp(rng.uniform(np.log(10), np.log(400))))
        items = rng.choice(2000, count, replace=False, p=popular)
        taste = (rng.normal(0, 1, 8) + 0.5) / np.sqrt(8)
        ratings = truth[items] @ taste + rng.normal(0, 0.3, count)
        clients.append(factors(items, ratings, 8, Steps(3, 1, 0.05)))
        sizes.append(count)
    first = {"items": rng.normal(0, 0.1, (2000, 8))}
    return Federation(first, tuple(clients), tuple(sizes))


def _few_with(seed: int, few: int, label: int | None) -> Federation:
    """Let a few of twelve clients hold all digits of one label (None: from five on, as a class)."""
    x, y = digits()
    rng = stream(seed, "deal")
    theirs = y >= 5 if label is None else y == label
    labels = theirs.astype(np.int64) if label is None else y
    parts = [
        *np.array_split(rng.permutation(np.flatnonzero(theirs)), few),
        *np.array_split(rng.permutation(np.flatnonzero(~theirs)), 12 - few),
    ]
    clients = tuple(perceptron(x[part], labels[part], Steps(3, 16, 0.1)) for part in parts)
    first = first_perceptron(64, 30, int(labels.max()) + 1, stream(seed, "first"))
    return Federation(first, clients, tuple(map(len, parts)))


def alone_with_a_class(seed: int) -> Federation:
    """One client holds all nines, the others everything else."""
    return _few_with(seed, 1, 9)


def alone_with_positives(seed: int) -> Federation:
    """Of two labels, one client holds one, and all others the other."""
    return _few_with(seed, 1, None)


def two_kinds(seed: int) -> Federation:
    """Of two labels, four clients hold one, and eight the other."""
    return _few_with(seed, 4, None)


SET_UPS: dict[str, Callable[[int], Federation]] = {
    "plain": plain,
    "one pass or ten, most one": one_or_ten,
    "one pass or ten, most ten": one_or_ten_mostly_ten,
    "slow full batches": slow_full_batches,
    "a third sends a tenth": largest_tenth,
    "a third adds noise": some_private,
    "one class each": class_each,
    "bags of words": bags_of_words,
    "bags of words, gradients": bags_by_gradient,
    "linear regression": least_squares,
    "factorised matrix": factorised,
    "one alone has a class": alone_with_a_class,
    "one alone has all positives": alone_with_positives,
    "two kinds, eight and four": two_kinds,
}
# These ask whether honest clients are accused, and nothing of riders.
HONEST_ONLY = ("one alone has a class", "one alone has all positives", "two kinds, eight and four")


@dataclass
class Seen:
    """What a rider sees: the global models so far."""

    models: list[Floats]


Ride = Callable[[Seen, np.random.Generator], Floats]


def _last(seen: Seen) -> Floats:
    """Return the last global update; zeros before there is one."""
    return np.asarray(seen.models[-1] - seen.models[max(len(seen.models) - 2, 0)])


def _with_noise(vector: Floats, share: float, rng: np.random.Generator) -> Floats:
    deviation = share * np.linalg.norm(vector) / np.sqrt(len(vector))
    noisy: Floats = vector + rng.normal(0, deviation, len(vector))
    return noisy


def _largest(seen: Seen, _: np.random.Generator) -> Floats:
    """Return the largest tenth of the last global update."""
    sizes = np.abs(_last(seen))
    largest: Floats = np.where(sizes >= np.quantile(sizes, 0.9), _last(seen), 0.0)
    return largest


def _older(seen: Seen, rng: np.random.Generator) -> Floats:
    """Return a mixture of global updates with weights that change from round to round."""
    if len(seen.models) == 1:
        return _last(seen)
    moves = np.diff(np.array(seen.models), axis=0)
    mixed: Floats = rng.normal(1, 1, len(moves)) @ moves / len(moves)
    return mixed


def _signs_before(seen: Seen, _: np.random.Generator) -> Floats:
    """Return the signs of the update before the last one, as long as the last."""
    before = Seen(seen.models[:-1] if len(seen.models) > 1 else seen.models)
    signs: Floats = np.sign(_last(before)) * np.abs(_last(seen)).mean()
    return signs


RIDES: dict[str, Ride] = {
    "last update": lambda seen, _: _last(seen),
    "last update with noise": lambda seen, rng: _with_noise(_last(seen), 0.3, rng),
    "last update, other order": lambda seen, rng: rng.permutation(_last(seen)),
    "its signs": lambda seen, _: np.sign(_last(seen)) * np.abs(_last(seen)).mean(),
    "its roots": lambda seen, _: np.sign(_last(seen)) * np.sqrt(np.abs(_last(seen))),
    "its largest tenth": _largest,
    "its cubes": lambda seen, _: _last(seen) ** 3 / max(np.abs(_last(seen)).max() ** 2, 1e-300),
    "signs of the one before": _signs_before,
    "the model with noise": lambda seen, rng: _with_noise(seen.models[-1], 0.1, rng) * 0.05,
    "older updates, mixed": _older,
    "noise": lambda seen, rng: 0.02 * rng.normal(size=len(seen.models[-1])),
}


@dataclass(frozen=True)
class Row:
    """One federation: see the page."""

    set_up: str
    riders: str
    works: int
    seed: int
    parameters: int
    reports: int
    accused: int
    out: int
    named: int
    kinds: str
    weight: float
    pay: float
    as_fedavg: bool
    code: str


def _flat(model: Model) -> Floats:
    return np.concatenate([value.ravel() for value in model.values()])


def _shaped(vector: Floats, like: Model) -> Model:
    ends = np.cumsum([value.size for value in like.values()])[:-1]
    parts = zip(like.items(), np.split(vector, ends), strict=True)
    return {name: part.reshape(value.shape) for (name, value), part in parts}


def _in(dtype: type, model: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(value, dtype=dtype) for name, value in model.items()}


class _Tally:
    """What was made of honest clients, and of riders beside them from the round `late` on."""

    def __init__(self, sizes: Sequence[int], riders: set[int], late: int) -> None:
        self.sizes, self.riders, self.late = sizes, riders, late
        self.reports = self.accused = self.out = 0
        self.kinds: set[str] = set()
        self.weight, self.pay = np.zeros(len(sizes)), np.zeros(len(sizes))
        self.as_fedavg = True

    def add(self, number: int, drawn: Sequence[int], result: Result) -> None:
        """Count one round."""
        examples = sum(self.sizes[client] for client in drawn)
        for client in drawn:
            flag, weight = result.flags[str(client)], result.weights.get(str(client), 0.0)
            share = self.sizes[client] / examples
            self.as_fedavg &= weight == share
            if number >= self.late:
                self.weight[client] += weight / share
                self.pay[client] += result.payments.get(str(client), 0)
            if client not in self.riders:
                self.reports += 1
                self.out += weight == 0
                if flag is not None and flag.accuses:
                    self.accused += 1
                    self.kinds.add(flag.kind.value)


def measure(set_up: str, ride: str, works: int, seed: int) -> Row:
    """Run one federation, whose riders work for so many rounds before."""
    made = SET_UPS[set_up](seed)
    count = len(made.clients)
    riders = set() if ride == HONEST else set(stream(seed, "who").permutation(count)[: count // 4])
    server = Server(_in(np.float32, made.model), seed=seed, reward="positive:budget=1000000")
    seen = Seen([_flat(made.model)])
    tally = _Tally(made.sizes, riders, works + 1 if works else _LATE)
    for number in range(1, (works + THEN_RIDES if works else made.rounds) + 1):
        drawn = sorted(stream(seed, "round", number).permutation(count)[: made.a_round])
        now = _in(np.float64, server.model)
        sent = {}
        for client in drawn:
            rng = stream(seed, "client", client, number)
            if client in riders and number > works:
                model = _shaped(seen.models[-1] + RIDES[ride](seen, rng), now)
            else:
                model = made.clients[client](now, rng)
            sent[str(client)] = _in(np.float32, model)
        result = server.settle(sent, {str(client): made.sizes[client] for client in drawn})
        seen.models.append(_flat(_in(np.float64, server.model)))
        tally.add(number, drawn, result)
    named = [v.client for v in server.verdicts() if v.flagged and int(v.client) not in riders]
    rides = np.isin(np.arange(count), list(riders))
    return Row(
        set_up=set_up,
        riders=ride,
        works=works,
        seed=seed,
        parameters=len(seen.models[0]),
        reports=tally.reports,
        accused=tally.accused,
        out=int(tally.out),
        named=len(named),
        kinds=" ".join(sorted(tally.kinds)),
        weight=_ratio(tally.weight, rides),
        pay=_ratio(tally.pay, rides),
        as_fedavg=bool(tally.as_fedavg),
        code=SOURCES.code.digest,
    )


def _ratio(values: Floats, rides: NDArray[np.bool_]) -> float:
    return float(values[rides].mean() / values[~rides].mean()) if rides.any() else float("nan")


SOURCES = Sources.of(measure)


def tables_of(rows: Sequence[Row]) -> list[Table]:
    """Return a table of federations in which all are honest, one of riders, one of sleepers."""
    counted = ("parameters", "reports", "accused", "out", "named", "as_fedavg")
    ridden = ("reports", "accused", "named", "weight", "pay")
    lines: dict[str, list[tuple[object, ...]]] = {
        "Nobody cheats": [],
        "A quarter rides": [],
        f"A quarter works for {WORKS} rounds, then rides for {THEN_RIDES}": [],
    }
    honest, riding, sleeping = lines
    for set_up, riders, works in dict.fromkeys(map(_cell, rows)):
        here = [row for row in rows if _cell(row) == (set_up, riders, works)]
        summed = {name: sum(getattr(row, name) for row in here) for name in counted}
        means = {name: float(np.mean([getattr(row, name) for row in here])) for name in ridden[-2:]}
        told = {**summed, **means, "parameters": here[0].parameters}
        kinds = " ".join(sorted({kind for row in here for kind in row.kinds.split()}))
        if riders == HONEST:
            lines[honest].append((set_up, *(told[name] for name in counted), kinds))
        else:
            title = sleeping if works else riding
            lines[title].append((set_up, riders, *(told[name] for name in ridden), kinds))
    columns = {honest: ("set-up", *counted, "kinds")}
    others = ("set-up", "riders", *ridden, "kinds")
    return [Table(title, columns.get(title, others), tuple(of)) for title, of in lines.items()]


def _cell(row: Row) -> tuple[str, str, int]:
    return row.set_up, row.riders, row.works


def main(seeds: Sequence[int], folder: Path) -> None:
    """Make the rows that are missing, keep each at once, and write the page."""
    table = folder / "odd-federations.csv"
    known = {
        (*_cell(row), row.seed): row
        for row in read_rows(table, Row)
        if row.code == SOURCES.code.digest
    }
    who = [(ride, 0) for ride in (HONEST, *RIDES)] + [(ride, WORKS) for ride in SLEEPERS]
    cells = [
        (set_up, *one, seed)
        for set_up, one, seed in product(SET_UPS, who, seeds)
        if one[0] == HONEST or set_up not in HONEST_ONLY
    ]
    for cell in cells:
        if cell not in known:
            row = known[cell] = measure(*cell)
            write_rows(table, list(known.values()))
            told = f"accused {row.accused} of {row.reports} {row.kinds}, named {row.named}"
            print(*cell, f"{told}, weight {row.weight:.2f}, pay {row.pay:.2f}", flush=True)
    rows = [known[cell] for cell in cells]
    write_rows(table, rows)
    text = [
        "# Federations that are put together oddly",
        "Written by `python -m checks.studies.odd_federations`; every row is in\n"
        "[odd-federations.csv](odd-federations.csv).",
        f"{_SETTINGS} Seeds: {', '.join(map(str, seeds))}.",
    ]
    for each in tables_of(rows):
        text += [f"## {each.title}", each.markdown()]
    write_page(folder / "odd-federations.md", "\n\n".join(text), SOURCES)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    chosen = parser.parse_args()
    main(chosen.seeds, chosen.out)
