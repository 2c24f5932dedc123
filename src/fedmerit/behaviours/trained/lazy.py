"""Clients that replay the last global update on top of very little work.

Source: ours, after the lazy clients of the free-riding literature. The replay gives the report the
size and direction of a full one.
"""

from dataclasses import dataclass, replace

import numpy as np

from fedmerit.behaviours.base import Behaviour, ClientView, LocalData, Report
from fedmerit.validation import check_number


@dataclass(frozen=True)
class Lazy(Behaviour):
    """Report g plus what training on a few samples gave; in round 1 the latter alone.

    Parameters
    ----------
    samples : int
        How many of the client's samples are used, the same ones in every round. The report claims
        all of them.
    """

    name = "lazy"
    samples: float = 10

    def __post_init__(self) -> None:
        check_number("samples", self.samples, least=1)

    def local_data(self, data: LocalData, rng: np.random.Generator) -> LocalData:
        """Keep a few samples."""
        keep = rng.permutation(len(data.y))[: int(self.samples)]
        return replace(data, x=data.x[keep], y=data.y[keep])

    def report(self, view: ClientView) -> Report:
        """Report the replay and the little work."""
        return Report(view.last_update + view.trained, view.num_examples)
