"""How often a client that does no harm is named: judges by simulation, at the edge of the null.

A quarter of the clients add exactly nothing in every round, the others what makes up for it. Every
judge has a taste for each client, for ever, and every answer its own noise. The estimate that a bet
takes the others' effects from is made anew in every tenth round.
"""

from dataclasses import dataclass, replace

import numpy as np

from checks.studies.panel.cells import Study
from fedmerit.panel import Book, HeardRound, draw_pairs, estimate
from fedmerit.panel.harm import bet_on_harm, harmful
from fedmerit.rng import stream
from fedmerit.simulation.data.datasets import Dataset

CLIENTS, ROUNDS, RUNS, GAIN = 8, 100, 100, 0.02
KEPT = 10  # rounds
# By name: how far judges differ for ever, and how far one answer is off.
NOISE = {"no taste": (0.0, 0.02), "taste": (0.02, 0.02), "much taste": (0.06, 0.02)}


@dataclass(frozen=True)
class ErrorRow:
    """Runs of one kind of judges (the cell) with one seed.

    `first_1` and `first_5` are the shares of runs in which anybody who adds nothing was ever named
    at rates of 1 and 5 %.
    """

    cell: str
    seed: int
    runs: int
    rounds: int
    first_1: float
    first_5: float
    code: str = ""


def run(cell: str, seed: int, data: Dataset) -> list[ErrorRow]:
    del data
    named = {0.01: 0, 0.05: 0}
    for number in range(RUNS):
        ever = _ever_named(cell, stream(seed, cell, number), tuple(named))
        for rate in named:
            named[rate] += ever[rate]
    return [ErrorRow(cell, seed, RUNS, ROUNDS, named[0.01] / RUNS, named[0.05] / RUNS)]


def _ever_named(cell: str, rng: np.random.Generator, rates: tuple[float, ...]) -> dict[float, bool]:
    taste, noise = NOISE[cell]
    clients = tuple(f"c{number}" for number in range(CLIENTS))
    nothing = set(clients[: CLIENTS // 4])
    # About the mean, which the gain stands for; together they are zero.
    above = GAIN * len(nothing) / (CLIENTS - len(nothing))
    worth = np.array([-GAIN if client in nothing else above for client in clients])
    tastes = rng.normal(size=(CLIENTS, CLIENTS)) * taste
    tastes -= tastes.mean(axis=0)  # the panel as it is has no prejudice
    book, before, wealth = Book(), estimate(()), {}
    ever = dict.fromkeys(rates, False)
    for number in range(1, ROUNDS + 1):
        pairs = tuple(
            (pair.judge, *(tuple(map(clients.index, side)) for side in (pair.left, pair.right)))
            for pair in draw_pairs(clients, clients, 1, rng, asked=book.asked())
        )
        blank = HeardRound(number, clients, (1.0,) * CLIENTS, pairs, (0.0,) * len(pairs))
        judge = [clients.index(pair[0]) for pair in pairs]
        said = (blank.shares() * (worth + tastes[judge])).sum(axis=1)
        said = said + noise * rng.normal(size=len(said))
        gains = {client: GAIN + noise * float(rng.normal()) for client in clients}
        heard = replace(blank, differences=tuple(said.tolist()), gains=gains)
        wealth = bet_on_harm(wealth, heard, before, {})
        book = Book((*book.rounds, heard)[-KEPT:])
        if number % KEPT == 0:
            before = estimate(book.rounds, trusted=False)
        against = Book(harm=wealth).against
        for rate in rates:
            ever[rate] |= bool(set(harmful(against, rate)) & nothing)
    return ever


# Seed 880 was looked at while the variance of a bet was chosen.
STUDY = Study("error", ErrorRow, tuple(NOISE), (881,), run)
