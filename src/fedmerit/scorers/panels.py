"""Panels: many clients are scored in random groups, so that the cost is linear in their number."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedmerit.scorers.pairs import fits_a_matrix
from fedmerit.types import Contributions


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

    def row(name: str) -> NDArray[np.generic]:
        joined: NDArray[np.generic] = np.concatenate([getattr(r, name) for r in results])[back]
        return joined

    def matrix(name: str) -> NDArray[np.float64] | None:
        if not fits_a_matrix(len(everyone), sum(len(panel) ** 2 for panel in panels)):
            return None
        full = np.full((len(everyone), len(everyone)), np.nan)
        for panel, result in zip(panels, results, strict=True):
            full[np.ix_(panel, panel)] = getattr(result, name)
        return full

    reasons = [reason for result in results for reason in result.reasons]
    rows = ("p_values", "flagged", "eligible", "epsilon", "copies", "evidence", "explained", "work")
    return Contributions.of(
        results[0].method,
        np.concatenate([result.scores for result in results])[back],
        reasons=tuple(reasons[i] for i in back),
        pairwise=matrix("pairwise"),
        z=matrix("z"),
        **{name: row(name) for name in rows},  # type: ignore[arg-type]
    )
