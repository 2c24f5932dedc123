"""Panels: many clients are scored in random groups, so that the cost is linear in their number."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedmerit.comparison.pairs import fits_a_matrix
from fedmerit.types import Contributions, Evidence, Pairs

_Column = TypeVar("_Column", NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64])


def draw_panels(clients: int, largest: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Deal the clients into as few panels as needed, of sizes that differ by at most one.

    The draw comes after the updates are in: nobody can choose its panel. One panel draws nothing.
    """
    count = -(-clients // largest)
    if count == 1:
        return [np.arange(clients)]
    return [np.sort(panel) for panel in np.array_split(rng.permutation(clients), count)]


def join_panels(
    panels: Sequence[NDArray[np.int64]], results: Sequence[Contributions]
) -> Contributions:
    """Put the results of the panels together, in the order of the clients."""
    if len(panels) == 1:
        return results[0]
    everyone = np.concatenate(panels)
    back = np.argsort(everyone)
    compared = sum(len(panel) ** 2 for panel in panels)
    flags = [flag for result in results for flag in result.flags]
    first = results[0]

    def joined(column: Callable[[Contributions], _Column]) -> _Column:
        row: _Column = np.concatenate([column(result) for result in results])[back]
        return row

    def optional(name: str) -> NDArray[np.float64] | None:
        return None if getattr(first, name) is None else joined(lambda r: getattr(r, name))

    def matrix(name: str) -> NDArray[np.float64]:
        full = np.full((len(everyone), len(everyone)), np.nan)
        for panel, result in zip(panels, results, strict=True):
            full[np.ix_(panel, panel)] = getattr(result.pairs, name)
        return full

    pairs = evidence = None
    if first.pairs is not None and fits_a_matrix(len(everyone), compared):
        known = [f.name for f in fields(Pairs) if getattr(first.pairs, f.name) is not None]
        pairs = Pairs(**{name: matrix(name) for name in known})
    if first.evidence is not None:
        evidence = Evidence(
            *(joined(lambda r, name=f.name: getattr(r.evidence, name)) for f in fields(Evidence))  # type: ignore[misc]
        )
    return Contributions.of(
        first.method,
        joined(lambda r: r.scores),
        flags=[flags[place] for place in back],
        eligible=joined(lambda r: r.eligible),
        p_values=optional("p_values"),
        epsilon=optional("epsilon"),
        work=optional("work"),
        pairs=pairs,
        evidence=evidence,
    )
