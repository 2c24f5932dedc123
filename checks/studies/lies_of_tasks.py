"""What lies earn, task by task: ``python -m checks.studies.lies_of_tasks``.

It writes docs/results/lies-of-tasks.*: federations of the models benchmark over 15 rounds in which
some clients scale, blur or mix their work, send it from several accounts, send old work again, or
do not work. Rows that the code as it is has made already are not made again. ``--seeds 20 21 --out
FOLDER`` is for development.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import nan
from pathlib import Path

import numpy as np

from checks import ROOT
from checks.studies.lies_told import LIES, Lie
from fedmerit.behaviours import Honest, LocalData
from fedmerit.experiments.benchmark.base import Table
from fedmerit.experiments.benchmark.files import read_rows, write_rows
from fedmerit.experiments.benchmark.models.federation import Cast, federate, fitted
from fedmerit.experiments.benchmark.models.ours import Ours
from fedmerit.experiments.benchmark.models.tasks.registry import TASKS as EVERY_TASK
from fedmerit.experiments.benchmark.models.tasks.registry import make_task
from fedmerit.experiments.benchmark.models.tasks.task import Task
from fedmerit.experiments.benchmark.models.training import sent_state
from fedmerit.experiments.fingerprint import Sources, write_page
from fedmerit.rng import stream
from fedmerit.server import Result
from fedmerit.simulation.data.partition import iid

SEEDS = (720, 721, 722)
TASKS = ("mlp-digits", "identical", "lora", "unequal")  # quick, with enough parameters
ROUNDS = 15
HONEST, EQUAL = "honest", "equal"

_SETTINGS = """\
Tasks of the models benchmark with the data of `--quick`, {rounds} rounds, a `fedmerit.Server` with
its default settings that pays a pot by merit. *Pay* is what a lying client earned, relative to the
mean of the others, over the same ratio in the run in which all are honest, so that 1.00 is what the
truth earns; of several accounts it is what all of them earned together. Riders, who do not work,
are compared with the mean of the others alone. Where old work is sent again, and of riders, only
the rounds count in which they do (a forecast needs three). *Weight* is that of one lying client
relative to one of the others, *flagged* the share of their reports that were accused, *honest
flagged* that of the others'. Means over seeds, of *pay* also the lowest and the highest. *Spread*
is the standard deviation of what honest clients earned in all, relative to the mean. *All equal*:
the data of the task, dealt out anew so that all clients hold the same amount of the same kind."""


@dataclass(frozen=True)
class Row:
    """One federation: see the page."""

    task: str
    question: str
    lie: str
    who: str
    seed: int
    clients: int
    liars: int
    pay: float
    weight: float
    flagged: float
    honest_flagged: float
    spread: float
    extremes: float
    code: str


def measure(name: str, lie: Lie | str, seed: int) -> Row:
    """Run one federation; in HONEST ones nobody lies, in EQUAL ones all hold data of one kind."""
    if isinstance(lie, str):
        return _all_honest(name, lie, seed)
    task = _task(name, seed)
    liars, honest = _liars(task, lie, seed), _run(name, seed)
    results = _settle(*_with(task, lie, liars), seed)
    names = _accounts(lie, liars, len(task.clients))
    others = [str(c) for c in range(len(task.clients)) if c not in liars]
    pay = _relative(results, names, others, lie.since, len(liars))
    if lie.question != "riders":
        own = [[str(c) for c in liars]] * ROUNDS
        pay /= _relative(honest, own, others, lie.since, len(liars))
    accused = [_accused(r, n) for r, group in zip(results, names, strict=True) for n in group]
    return Row(
        task=name,
        question=lie.question,
        lie=lie.label,
        who=lie.who,
        seed=seed,
        clients=len(task.clients) + lie.more,
        liars=len(names[0]),
        pay=pay,
        weight=_weight(results, names, others),
        flagged=float(np.mean(accused)),
        **_of_others(results, others),
        code=SOURCES.code.digest,
    )


def _all_honest(name: str, kind: str, seed: int) -> Row:
    task = _task(name, seed)
    results = _run(name, seed)
    if kind == EQUAL:
        task = _equal(task, seed)
        results = _settle(task, Cast((Honest(),) * len(task.clients), ()), seed)
    clients = [str(client) for client in range(len(task.clients))]
    return Row(
        task=name,
        question=kind,
        lie=kind,
        who="",
        seed=seed,
        clients=len(clients),
        liars=0,
        pay=nan,
        weight=nan,
        flagged=nan,
        **_of_others(results, clients),
        code=SOURCES.code.digest,
    )


def _of_others(results: Sequence[Result], others: Sequence[str]) -> dict[str, float]:
    """Return how often those who do not lie are accused, and how far their pay differs."""
    paid = [sum(result.payments.get(other, 0) for result in results) for other in others]
    accused = [_accused(result, other) for result in results for other in others]
    return {
        "honest_flagged": float(np.mean(accused)),
        "spread": float(np.std(paid) / np.mean(paid)),
        "extremes": max(paid) / max(min(paid), 1),
    }


def _equal(task: Task, seed: int) -> Task:
    """Return the task with all data dealt out anew, so that nobody is special."""
    data, count = task.clients, len(task.clients)
    x, y = (np.concatenate([getattr(own, part) for own in data]) for part in "xy")
    parts = iid(len(y) // count * count, count, stream(seed, "lies of tasks", EQUAL))
    return replace(task, clients=tuple(LocalData(x[p], y[p], data[0].sizes) for p in parts))


@lru_cache(maxsize=1)
def _task(name: str, seed: int) -> Task:
    return replace(make_task(name, seed, quick=True), rounds=ROUNDS)


@lru_cache(maxsize=1)
def _run(name: str, seed: int) -> list[Result]:
    """Return the rounds in which all are honest."""
    task = _task(name, seed)
    return _settle(task, Cast((Honest(),) * len(task.clients), ()), seed)


def forget() -> None:
    """Forget the rounds in which all are honest, where what decides them was changed."""
    _run.cache_clear()


def _liars(task: Task, lie: Lie, seed: int) -> list[int]:
    """Return who lies: of a task and seed, the more the longer the same list."""
    order = stream(seed, "lies of tasks").permutation(len(task.clients))
    count = 1 if lie.more else max(round(lie.share * len(order)), 1)
    return [int(client) for client in order[:count]]


def _with(task: Task, lie: Lie, liars: Sequence[int]) -> tuple[Task, Cast]:
    """Return the federation with the lie told, and with more accounts where it opens them."""
    count = len(task.clients)
    own = task.clients[liars[0]]
    behaviour = fitted(lie.behaviour, task)
    kinds = [behaviour if c in liars else Honest() for c in range(count)]
    cast = Cast((*kinds, *(behaviour,) * lie.more), (*liars, *range(count, count + lie.more)))
    return replace(task, clients=(*task.clients, *(own,) * lie.more)), cast


def _settle(task: Task, cast: Cast, seed: int) -> list[Result]:
    ours = Ours(sent_state(task.module), seed)
    federate(task, cast, seed, ours.settle)
    return ours.results


def _accounts(lie: Lie, liars: Sequence[int], clients: int) -> list[list[str]]:
    """Return the names of the liars in every round."""
    rows = [*liars, *range(clients, clients + lie.more)]
    return [[lie.behaviour.account(c, n) for c in rows] for n in range(1, ROUNDS + 1)]


def _relative(
    results: Sequence[Result],
    names: Sequence[Sequence[str]],
    others: Sequence[str],
    first: int,
    works: int,
) -> float:
    """Return what one of so many works earned from the `first` round on, relative to others."""
    late = list(zip(results, names, strict=True))[first - 1 :]
    liars = sum(result.payments.get(name, 0) for result, group in late for name in group)
    honest = sum(result.payments.get(name, 0) for result, _ in late for name in others)
    return liars / works / max(honest / len(others), 1)


def _weight(
    results: Sequence[Result], names: Sequence[Sequence[str]], others: Sequence[str]
) -> float:
    """Return the weight of one lying account relative to one of the others."""
    rounds = list(zip(results, names, strict=True))
    lying = np.mean([r.weights.get(name, 0.0) for r, group in rounds for name in group])
    return float(lying / np.mean([r.weights.get(name, 0.0) for r, _ in rounds for name in others]))


def _accused(result: Result, name: str) -> bool:
    flag = result.flags.get(name)
    return name in result.rejected or (flag is not None and flag.accuses)


SOURCES = Sources.of(
    measure, "checks.studies.lies_told", "fedmerit.experiments.benchmark.models.tasks.registry"
)


def tables(rows: Sequence[Row]) -> list[str]:
    """Return what the truth is paid, and one table for each question, as Markdown."""
    head = ("task", "seed", "spread", "most to least", "honest flagged")
    texts = []
    for kind, title in ((HONEST, "All honest"), (EQUAL, "All equal")):
        truth = [
            (row.task, row.seed, row.spread, row.extremes, row.honest_flagged)
            for row in rows
            if row.question == kind
        ]
        texts += [f"## {title}", Table(kind, head, tuple(truth)).markdown()]
    names = list(dict.fromkeys(row.task for row in rows))
    for question in dict.fromkeys(row.question for row in rows if row.liars):
        lines = []
        cells = dict.fromkeys((row.lie, row.who) for row in rows if row.question == question)
        for cell in cells:
            here = [r for r in rows if r.question == question and (r.lie, r.who) == cell]
            by_task = [[row.pay for row in here if row.task == name] for name in names]
            pays = [_range(values) for values in by_task]
            means = [float(np.mean([getattr(r, c) for r in here])) for c in _MEANS]
            lines.append((*cell, *pays, *means))
        columns = ("lie", "by", *(f"pay: {name}" for name in names), *_MEANS.values())
        texts += [f"## {question.capitalize()}", Table(question, columns, tuple(lines)).markdown()]
    return texts


_MEANS = {"weight": "weight", "flagged": "flagged", "honest_flagged": "honest flagged"}


def _range(values: Sequence[float]) -> str:
    if not values:
        return ""
    middle = f"{np.mean(values):.2f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.2f} to {max(values):.2f})"


def main(
    tasks: Sequence[str], seeds: Sequence[int], questions: Sequence[str], folder: Path
) -> None:
    """Make the rows that are missing, keep each at once, and write the page."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "lies-of-tasks.csv"
    known = {
        (row.task, row.lie, row.who, row.seed): row
        for row in read_rows(table, Row)
        if row.code == SOURCES.code.digest
    }
    told = [lie for lie in LIES if not questions or lie.question in questions]
    asked: list[Lie | str] = [HONEST, EQUAL, *told]
    rows: list[Row] = []
    for seed, name in product(seeds, tasks):
        for lie in asked:
            kind = (lie, "") if isinstance(lie, str) else (lie.label, lie.who)
            key = (name, *kind, seed)
            if key not in known:
                known[key] = measure(name, lie, seed)
                write_rows(table, list(known.values()))
            rows.append(known[key])
            print(*key, f"pay {rows[-1].pay:.3f} flagged {rows[-1].flagged:.2f}", flush=True)
        write_page(folder / "lies-of-tasks.md", page(rows), SOURCES)


def page(rows: Sequence[Row]) -> str:
    """Describe settings and results."""
    seeds = ", ".join(map(str, dict.fromkeys(row.seed for row in rows)))
    parts = [
        "# What lies earn",
        "Written by `python -m checks.studies.lies_of_tasks`; every row is in "
        "[lies-of-tasks.csv](lies-of-tasks.csv).",
        f"{_SETTINGS.format(rounds=ROUNDS)} Seeds: {seeds}.",
        *tables(rows),
    ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=sorted(EVERY_TASK))
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument(
        "--questions", nargs="+", default=(), choices=sorted({lie.question for lie in LIES})
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    given = parser.parse_args()
    main(given.tasks, given.seeds, given.questions, given.out)
