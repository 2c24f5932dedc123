"""What the tuned thresholds decide: ``python -m checks.studies.thresholds``.

It moves each by a quarter and by a half, up and down, on development seeds, and writes
docs/results/thresholds.*: how far that moves what clients are paid and weighed and who is accused.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from checks import ROOT
from checks.studies import lies_of_tasks
from checks.studies.lies_told import LIES, Lie
from fedmerit.evidence.limits import LIMITS
from fedmerit.experiments.benchmark.base import Table
from fedmerit.experiments.benchmark.files import read_rows, write_rows
from fedmerit.experiments.fingerprint import Sources, write_page

SEEDS = (20, 21)
TASKS = lies_of_tasks.TASKS
# Those that limits.py calls tuned, of which merit asks, and what the newest report counts.
MOVED = ("least_share", "copy_cosine", "least_trust", "newest")
FACTORS = (1.0, 0.5, 0.75, 1.25, 1.5)
ASKED: tuple[Lie | str, ...] = (
    lies_of_tasks.HONEST,
    *(
        lie
        for lie in LIES
        if (lie.label, lie.who)
        in {
            ("copies:0.2", "7 accounts"),
            ("random-update:0.01", "30%"),
            ("label-flip:1:10", "30%"),
        }
    ),
)


@dataclass(frozen=True)
class Row:
    """One federation with one threshold moved; a factor of 1 is as it is."""

    threshold: str
    factor: float
    task: str
    lie: str
    seed: int
    pay: float
    weight: float
    flagged: float
    honest_flagged: float
    spread: float
    code: str


@contextmanager
def moved(name: str, factor: float) -> Iterator[None]:
    """Multiply a threshold for a while; it is frozen against anything but this."""
    before = getattr(LIMITS, name)
    object.__setattr__(LIMITS, name, before * factor)
    lies_of_tasks.forget()
    try:
        yield
    finally:
        object.__setattr__(LIMITS, name, before)
        lies_of_tasks.forget()


def measure(name: str, factor: float, task: str, lie: Lie | str, seed: int) -> Row:
    """Run one federation."""
    found = lies_of_tasks.measure(task, lie, seed)
    return Row(
        threshold=name,
        factor=factor,
        task=task,
        lie=f"{found.lie} {found.who}".strip(),
        seed=seed,
        pay=found.pay,
        weight=found.weight,
        flagged=found.flagged,
        honest_flagged=found.honest_flagged,
        spread=found.spread,
        code=SOURCES.code.digest,
    )


SOURCES = Sources.of(measure, "checks.studies.lies_told")


def table_of(rows: Sequence[Row]) -> Table:
    """Return the largest change that moving a threshold makes anywhere."""
    usual = {(row.task, row.lie, row.seed): row for row in rows if row.factor == 1}
    lines = []
    for name, factor in dict.fromkeys((row.threshold, row.factor) for row in rows):
        if factor == 1:
            continue
        here = [row for row in rows if (row.threshold, row.factor) == (name, factor)]
        told = [
            max(
                (abs(getattr(row, column) - getattr(usual[row.task, row.lie, row.seed], column)))
                for row in here
                if row.lie != lies_of_tasks.HONEST or column in ("honest_flagged", "spread")
            )
            for column in ("pay", "weight", "flagged", "honest_flagged", "spread")
        ]
        largest = max(
            (row for row in here if row.lie != lies_of_tasks.HONEST),
            key=lambda row: abs(row.pay - usual[row.task, row.lie, row.seed].pay),
        )
        where = f"{largest.task}, {largest.lie}" if told[0] > 0 else "nowhere"
        lines.append((name, f"{factor:g}", *told, where))
    head = ("threshold", "times", "pay", "weight", "flagged", "honest flagged", "spread")
    return Table("Thresholds", (*head, "largest change of pay"), tuple(lines))


def main(tasks: Sequence[str], seeds: Sequence[int], folder: Path) -> None:
    """Make the rows that are missing, keep each at once, and write the page."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "thresholds.csv"
    known = {
        (row.threshold, row.factor, row.task, row.lie, row.seed): row
        for row in read_rows(path, Row)
        if row.code == SOURCES.code.digest
    }
    rows: list[Row] = []
    for name, factor in [(MOVED[0], 1.0), *product(MOVED, FACTORS[1:])]:
        with moved(name, factor):
            for seed, task, lie in product(seeds, tasks, ASKED):
                text = lie if isinstance(lie, str) else f"{lie.label} {lie.who}"
                key = (name, factor, task, text, seed)
                if key not in known:
                    known[key] = measure(name, factor, task, lie, seed)
                    write_rows(path, list(known.values()))
                rows.append(known[key])
        print(name, factor, flush=True)
        write_page(folder / "thresholds.md", page(rows), SOURCES)


def page(rows: Sequence[Row]) -> str:
    """Describe settings and results."""
    tasks, seeds = (
        ", ".join(dict.fromkeys(str(getattr(row, column)) for row in rows))
        for column in ("task", "seed")
    )
    parts = [
        "# What the tuned thresholds decide",
        "Written by `python -m checks.studies.thresholds`; every row is in "
        "[thresholds.csv](thresholds.csv).",
        "Tuned thresholds of `fedmerit.evidence.limits` that the default score asks, and what the "
        "newest report counts in a testimony, each moved alone. Tasks of "
        f"[what lies earn](lies-of-tasks.md): {tasks}; development seeds {seeds}: all honest, "
        "seven accounts with one work and 20 % noise, and noise and flipped labels by 30 % of the "
        "clients. Largest change of a column over these, up or down; 0.000 changes nothing.",
        table_of(rows).markdown(),
    ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    given = parser.parse_args()
    main(given.tasks, given.seeds, given.out)
