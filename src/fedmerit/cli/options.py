"""Options that several commands share: one name and one meaning each."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from fedmerit.incentive.registry import RULES
from fedmerit.quantisers import QUANTISERS
from fedmerit.scorers import SCORERS


def completed_from(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return what a shell asks for the names that begin as typed."""
    known = sorted(names)

    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return complete


def completed_shares(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return what a shell asks for the name after the last percentage, as in ``20%sta``."""
    complete = completed_from(names)

    def complete_last(incomplete: str) -> list[str]:
        share, percent, begun = incomplete.rpartition("%")
        before = incomplete.removesuffix(begun.lstrip())
        return [before + name for name in complete(begun.lstrip()) if percent and share]

    return complete_last


def listed(names: Iterable[str]) -> str:
    """Return the names for a help text."""
    return ", ".join(sorted(names))


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Seed = Annotated[
    int, typer.Option(help="Seed of every random draw: same seed, same results.", min=0)
]
Alpha = Annotated[float, typer.Option(help="Weights are softmax(alpha * score).", min=0)]
Method = Annotated[
    str,
    typer.Option(
        help=f"Scorer: {listed(SCORERS)}. Settings may follow: merit:one_kind=true.",
        autocompletion=completed_from(SCORERS),
    ),
]
Quantiser = Annotated[
    str | None,
    typer.Option(
        help=f"Of the scorer, if it takes one: {listed(QUANTISERS)} (the paper's is cpsgd).",
        autocompletion=completed_from(QUANTISERS),
    ),
]
Reward = Annotated[
    str | None,
    typer.Option(
        help="Pay a round: 'positive:budget=10000,minimum=100'. "
        f"Rules: {listed(RULES)}; amounts in the smallest unit of money.",
        autocompletion=completed_from(RULES),
    ),
]
Sign = Annotated[
    Path | None, typer.Option(help="Sign the ledger with this key of 'fedmerit ledger keygen'.")
]
