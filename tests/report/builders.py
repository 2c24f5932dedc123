"""Runs to report on: honest clients, riders, a clique, and a client whose name is an attack."""

import threading
from contextlib import contextmanager

import numpy as np

from fedmerit.flags import Flag, Kind
from fedmerit.records.agreement_map import pack_agreement
from fedmerit.report.serve import LiveServer
from fedmerit.types import ClientRecord, Rejection, RoundRecord

HOSTILE = "<script>alert(1)</script>"
HOSTILE_LABEL = "<img src=x onerror=alert(4)> %{y}"
OTHER_HOSTILE = (
    "</script><img src=x onerror=alert(2)>\"'`${alert(3)}",
    "__proto__",
    "%{x}",
    "\u202eevil\x00",
)


def make_records(clients: int = 12, rounds: int = 6, *, known: bool = True) -> list[RoundRecord]:
    """The last two clients form a clique and are flagged for it; the one before them is a rider."""
    rng = np.random.default_rng(7)
    names = [f"hospital-{index}" for index in range(clients)]
    names[1 : 1 + 1 + len(OTHER_HOSTILE)] = [HOSTILE, *OTHER_HOSTILE]
    names = names[:clients]
    clique = np.arange(clients) >= clients - 2
    rider = np.arange(clients) == clients - 3
    records = []
    for number in range(1, rounds + 1):
        scores = np.where(clique | rider, 0.0, rng.uniform(0.08, 0.12, size=clients))
        pairwise = rng.normal(0.05, 0.01, size=(clients, clients))
        pairwise = (pairwise + pairwise.T) / 2
        pairwise[rider], pairwise[:, rider] = 0.0, 0.0
        pairwise[np.outer(clique, clique)] = 0.95
        np.fill_diagonal(pairwise, np.nan)
        records.append(
            RoundRecord(
                number,
                tuple(
                    ClientRecord(
                        name,
                        float(scores[i]),
                        float(scores[i] / scores.sum()),
                        p_value=0.5 if clique[i] or rider[i] else 1e-9,
                        epsilon=0.001 * (i + 1),
                        flag=Flag(Kind.CLIQUE) if clique[i] else
                        Flag(Kind.EXPLAINED, f"{90 + number}%") if rider[i] else None,
                        reward=int(1000 * scores[i] / scores.sum()),
                        behaviour=("colluder" if clique[i] else "rider" if rider[i] else "honest")
                        if known else None,
                        label=HOSTILE_LABEL if i == 0 else None,
                    )
                    for i, name in enumerate(names)
                ),
                (Rejection("late", "the update is not finite"),) if number == 2 else (),
                {"accuracy": 1 - 0.5**number, "loss": 0.5**number},
                agreement=pack_agreement(pairwise),
            )
        )  # fmt: skip
    return records


@contextmanager
def serving(path, **options):
    """A live page of the runs at `path`, looked at often."""
    with LiveServer(path, every=0.05, **options) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
