"""`fedmerit audit`: search for lies that would have earned more than the truth."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

import fedmerit
from fedmerit.cli.options import Json, Seed
from fedmerit.cli.output import console, print_json, print_table
from fedmerit.errors import DataError, SettingError
from fedmerit.incentive.audit import (
    Audit,
    AuditSettings,
    ClientAudit,
    audit_signals,
    audit_updates,
)
from fedmerit.quantisers import QuantileBins, to_signals
from fedmerit.reading.arrays import read_arrays
from fedmerit.reading.budget import Budget
from fedmerit.rng import stream
from fedmerit.types import FloatArray, RoundInputs, Signals
from fedmerit.validation import check_matrix, check_round, check_signals

_STEP = 0.002


def audit(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A .npz file with `signals` (uint8) or `updates` (clients x parameters), and "
            "`public` vectors and `previous` (clients x reports x parameters) if there are any; "
            "default: a simulated round."
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="`signals`: the exact score, with a certificate. Or a scorer, as `exact`, whose "
            "float updates are lied about, without one."
        ),
    ] = "signals",
    conditional: Annotated[
        bool, typer.Option(help="Score within levels of the first public vector.")
    ] = False,
    levels: Annotated[int, typer.Option(help="Levels that updates are quantised to.")] = 8,
    clients: Annotated[int, typer.Option(help="Simulated clients.", min=2)] = 8,
    parameters: Annotated[int, typer.Option(help="Simulated parameters.", min=2)] = 20_000,
    noise: Annotated[
        float, typer.Option(help="Simulated private part, relative to what clients share.", min=0)
    ] = 1.0,
    draws: Annotated[int, typer.Option(help="Draws of each lie that draws.", min=1)] = 8,
    delta: Annotated[float, typer.Option(help="Failure probability in Theorem 1.")] = 0.05,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Search for the best lie of each client and print its gain beside what bounds it.

    Example: fedmerit audit --levels 4 --parameters 5000 --seed 1
    """
    inputs = _simulated(clients, parameters, noise, seed) if file is None else _loaded(file, levels)
    settings = AuditSettings(draws=draws, delta=delta)
    rng = stream(seed, "audit", "search")
    if method == "signals":
        quantiser = QuantileBins(levels)
        signals = to_signals(inputs.updates, quantiser, rng)
        public = _public_signals(inputs.public, signals.levels, rng)
        found = audit_signals(
            signals,
            public=public,
            strata=_strata(public) if conditional else None,
            settings=settings,
            rng=rng,
        )
        _print(found, found.clients, json)
        return
    if isinstance(inputs.updates, Signals):
        raise SettingError(f"method must be 'signals' for a file of signals, got {method!r}")

    def score(updates: FloatArray, previous: FloatArray | None) -> NDArray[np.float64]:
        draw = stream(seed, "audit", "score")  # the same halves for every report
        return fedmerit.score(
            updates, method=method, public=inputs.public, previous=previous, rng=draw
        ).scores

    audited = audit_updates(
        inputs.updates,
        score,
        public=inputs.public,
        previous=inputs.previous,
        settings=settings,
        rng=rng,
    )
    _print(None, audited, json)


def _print(found: Audit | None, clients: tuple[ClientAudit, ...], json: bool) -> None:
    best = max(clients, key=lambda client: client.best.gain)
    if json:
        print_json(
            {
                "levels": found.levels if found else None,
                "parameters": found.parameters if found else None,
                "theorem_epsilon": found.theorem_epsilon if found else None,
                "best_client": best.client,
                "clients": [
                    asdict(client) | {"best": asdict(client.best), "holds": client.holds}
                    for client in clients
                ],
            }
        )
        return
    print_table(
        "Best lie of each client",
        ("client", "score of the truth", "best lie", "gain", "certificate"),
        [
            (client.client, client.truth, client.best.description, f"{client.best.gain:+.5f}",
             f"{client.epsilon:.5f}" if found else "none")
            for client in clients
        ],
    )  # fmt: skip
    kinds = sorted({lie.kind for client in clients for lie in client.lies})
    rows = []
    for kind in kinds:
        client, lie = max(
            ((client, lie) for client in clients for lie in client.lies if lie.kind == kind),
            key=lambda pair: pair[1].gain,
        )
        rows.append((kind, lie.description, client.client, f"{lie.gain:+.5f}",
                     f"{lie.standard_error:.5f}", "yes" if lie.covered else "no"))  # fmt: skip
    columns = ("kind", "best of its kind", "client", "gain", "standard error", "certified")
    print_table("Best lie of each kind", columns, rows)
    relative = best.best.gain / best.truth if best.truth > 0 else float("nan")
    console.print(
        f"Best lie: client {best.client}, {best.best.description}, gain {best.best.gain:+.5f} "
        f"({relative:+.2%} of the truth).",
        highlight=False,
    )
    if found is not None:
        console.print(
            f"Theorem 1 for {found.parameters} parameters and {found.levels} levels: "
            f"epsilon {found.theorem_epsilon:.4f}.",
            highlight=False,
        )


def _simulated(clients: int, parameters: int, noise: float, seed: int) -> RoundInputs:
    """Make updates of one shared direction plus private parts, and a last update to replay."""
    rng = stream(seed, "audit", "round")
    shared = rng.normal(size=parameters)
    updates = _STEP * (shared + noise * rng.normal(size=(clients, parameters)))
    public = _STEP * (shared + noise * rng.normal(size=(1, parameters)))
    past = rng.normal(size=(2, parameters)) + noise * rng.normal(size=(clients, 2, parameters))
    return check_round(updates, public=public, previous=_STEP * past)


def _loaded(file: Path, levels: int) -> RoundInputs:
    arrays = read_arrays(file, Budget())
    public = arrays.get("public")
    if "signals" in arrays:
        return check_round(check_signals(Signals(arrays["signals"], levels)), public=public)
    if "updates" in arrays:
        updates, previous = check_matrix(arrays["updates"]), arrays.get("previous")
        return check_round(updates, public=public, previous=previous)
    names = ", ".join(sorted(arrays)) or "nothing"
    raise DataError(f"{file} must hold an array `signals` or `updates`, got {names}")


def _public_signals(
    public: FloatArray | None, levels: int, rng: np.random.Generator
) -> Signals | None:
    return None if public is None else QuantileBins(levels).quantise(public, rng)


def _strata(public: Signals | None) -> NDArray[np.int64]:
    if public is None:
        raise SettingError("conditional needs a public vector, got none")
    strata: NDArray[np.int64] = public.values[0].astype(np.int64)
    return strata
