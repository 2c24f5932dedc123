"""`fedmerit demo`: score a built-in example round and print who contributed what."""

from typing import Annotated

import numpy as np
import typer

import fedmerit
from fedmerit.cli.output import console, print_json, print_table
from fedmerit.rng import stream

HONEST, RIDERS, NOISY = 12, 4, 4
_PARAMETERS = 20_000
_STEP = 0.002


def demo(
    seed: Annotated[int, typer.Option(help="Seed of every random draw.", min=0)] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Score one example round: honest clients, free riders and clients that add noise.

    Example: fedmerit demo --seed 1
    """
    updates, behaviours = example_round(seed)
    result = fedmerit.score(updates, method="exact", rng=stream(seed, "demo", "score"))
    weights = fedmerit.weights(result.scores)
    rows = [
        (client, behaviours[client], float(result.scores[client]), float(weights[client]))
        for client in range(len(behaviours))
    ]
    if json:
        print_json(
            [dict(zip(("client", "behaviour", "score", "weight"), r, strict=True)) for r in rows]
        )
        return
    print_table("Who contributed what", ("client", "behaviour", "score", "weight"), rows)
    console.print(f"FedAvg would give every client the weight {1 / len(rows):.4f}.")


def example_round(seed: int) -> tuple[np.ndarray, list[str]]:
    """Make a round: each honest update is a shared direction plus what is particular to it."""
    rng = stream(seed, "demo", "round")
    clients = HONEST + RIDERS + NOISY
    shared = rng.normal(size=_PARAMETERS)
    updates = _STEP * (shared + rng.normal(size=(clients, _PARAMETERS)))
    updates[HONEST : HONEST + RIDERS] = rng.normal(scale=0.01, size=(RIDERS, _PARAMETERS))
    updates[HONEST + RIDERS :] += rng.normal(scale=0.01, size=(NOISY, _PARAMETERS))
    behaviours = ["honest"] * HONEST + ["free rider"] * RIDERS + ["noisy"] * NOISY
    return updates.astype(np.float32), behaviours
