"""What a round came to, by client: what `Server.settle` returns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedmerit.flags import Flag
from fedmerit.tables import Table, Tabular
from fedmerit.types import Contributions, RoundRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Result(Tabular):
    """What a round came to, by client.

    Attributes
    ----------
    round : int
    scores, weights : mapping of client to float
    flags : mapping of client to Flag or None
        What speaks against a report, or why it has no weight or no pay; also of replies that were
        not used.
    payments : mapping of client to int
        In the smallest unit; empty without a reward rule.
    rejected : mapping of client to str
        Replies that were not used, and why.
    contributions : Contributions or None
        What the scorer said; its rows are the clients in the order of `scores`.
    """

    round: int
    scores: Mapping[str, float]
    weights: Mapping[str, float]
    flags: Mapping[str, Flag | None]
    payments: Mapping[str, int]
    rejected: Mapping[str, str]
    contributions: Contributions | None = None

    @classmethod
    def of(cls, record: RoundRecord, contributions: Contributions | None) -> "Result":
        """Sort a record by client."""
        used = [client for client in record.clients if not np.isnan(client.weight)]
        return cls(
            record.round,
            {client.client: client.score for client in used},
            {client.client: client.weight for client in used},
            {
                **{r.client: Flag(r.kind, r.reason) for r in record.rejected},
                **{client.client: client.flag for client in used},
            },
            {c.client: c.reward for c in record.clients if c.reward is not None},
            {refusal.client: refusal.reason for refusal in record.rejected},
            contributions,
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the scores as bars, best first; needs ``fedmerit[report]``."""
        from fedmerit.plots import plot_scores

        flags = [self.flags[client] for client in self.scores]
        return plot_scores(list(self.scores), list(self.scores.values()), flags, ax)

    def _table(self) -> Table:
        types = {"client": "string", "score": "float64", "weight": "float64", "paid": "int64"}
        types |= {"flagged": "bool_", "flag": "string", "rejected": "bool_"}
        rows = [
            {
                "client": client,
                "score": score,
                "weight": self.weights[client],
                "paid": self.payments.get(client),
                "flagged": flag is not None and flag.accuses,
                "flag": "" if flag is None else flag.words,
                "rejected": False,
            }
            for client, score in self.scores.items()
            for flag in [self.flags[client]]
        ]
        rows += [
            {"client": client, "paid": self.payments.get(client), "flagged": False, "flag": reason,
             "rejected": True}
            for client, reason in self.rejected.items()
        ]  # fmt: skip
        return Table(f"Round {self.round}", types, rows)
