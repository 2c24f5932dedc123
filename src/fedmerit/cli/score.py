"""`fedmerit score`: a round somebody already has."""

import csv
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedmerit.aggregators.weighting import ALPHA, gated_weights
from fedmerit.cli.options import Alpha, Json, Method, Quantiser
from fedmerit.cli.output import console, print_json, print_table
from fedmerit.errors import DataError
from fedmerit.files import whole_file
from fedmerit.intervals import DEFAULT_RESAMPLES, LEVEL, score_half_widths
from fedmerit.ledger.export import harmless, plain
from fedmerit.reading import DEFAULT_LIMIT, RoundFile, read_round
from fedmerit.reading.budget import GIGABYTE
from fedmerit.rng import stream
from fedmerit.scorers import make_scorer
from fedmerit.types import Contributions, FloatArray, RoundInputs
from fedmerit.validation import check_round

_SEED_BITS = 63
EXIT_FLAGGED = 1


@dataclass(frozen=True)
class Row:
    """What is said about one client."""

    client: str
    score: float
    low: float
    high: float
    weight: float
    p_value: float
    flagged: bool
    reason: str


def score(
    path: Annotated[
        Path,
        typer.Argument(
            help="Updates of a round: .npz, .npy, .safetensors, or a folder with one such file or "
            "PyTorch state dict (.pt) per client. Nothing is unpickled.",
            show_default=False,
        ),
    ],
    public: Annotated[
        Path | None,
        typer.Option(help="What every client knows: the last global update, and more if you like."),
    ] = None,
    global_model: Annotated[
        Path | None,
        typer.Option(help="The files hold local models: take this global model off each."),
    ] = None,
    method: Method = "merit",
    quantiser: Quantiser = None,
    levels: Annotated[int | None, typer.Option(help="Quantisation levels of the scorer.")] = None,
    alpha: Alpha = ALPHA,
    resamples: Annotated[
        int, typer.Option(help="Random halves of the parameters for intervals; 0 for none.", min=0)
    ] = DEFAULT_RESAMPLES,
    limit: Annotated[
        float, typer.Option(help="Most gigabytes of arrays to read.", min=0)
    ] = DEFAULT_LIMIT / GIGABYTE,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of every random draw; default: a fresh one, so that nobody can foresee "
            "which parameters count. It is printed.",
            min=0,
        ),
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Also write the table to this file.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Exit code 1 if anybody is flagged.")] = False,
    as_json: Json = False,
) -> None:
    """Score a round that you already have, and say who is flagged and why.

    Intervals (95 %) say how far a score moves on random halves of the parameters.

    Example: fedmerit score updates.npz --public last_update.npz --seed 1
    """
    found = read_round(
        path, public=public, global_model=global_model, limit=round(limit * GIGABYTE)
    )
    _check_finite(found.clients, found.updates)
    inputs = check_round(found.updates, found.public, found.layers)
    used = secrets.randbits(_SEED_BITS) if seed is None else seed
    scorer = make_scorer(method, quantiser, levels)
    result = scorer.score(inputs, stream(used, "score"))

    def rescored(part: RoundInputs) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return scorer.score(part, stream(used, "score")).scores

    with console.status("intervals"):
        widths = (
            score_half_widths(inputs, rescored, stream(used, "halves"), resamples=resamples)
            if resamples
            else np.full(inputs.clients, np.nan)
        )
    rows = _rows(found.clients, result, widths, alpha)
    if csv_file is not None:
        _write_csv(csv_file, rows)
    if as_json:
        _print_json(found, method, alpha, used, rows)
    else:
        _print(found, method, used, rows)
        if csv_file is not None:
            console.print(f"table: {csv_file}", soft_wrap=True, markup=False, highlight=False)
    if strict and result.flagged.any():
        raise typer.Exit(EXIT_FLAGGED)


def _check_finite(clients: tuple[str, ...], updates: FloatArray) -> None:
    for client, update in zip(clients, updates, strict=True):
        if not np.isfinite(update).all():
            odd = update[~np.isfinite(update)][0]
            raise DataError(f"the update of every client must be finite, got {odd} in {client!r}")


def _rows(
    clients: tuple[str, ...], result: Contributions, widths: FloatArray, alpha: float
) -> list[Row]:
    weights = gated_weights(result, alpha)
    flags = [None if flag is None else flag.with_names(clients) for flag in result.flags]
    return [
        Row(
            client=client,
            score=float(result.scores[i]),
            low=float(result.scores[i] - widths[i]),
            high=float(result.scores[i] + widths[i]),
            weight=float(weights[i]),
            p_value=np.nan if result.p_values is None else float(result.p_values[i]),
            flagged=bool(result.flagged[i]),
            reason=flag.words if (flag := flags[i]) else "",
        )
        for i, client in enumerate(clients)
    ]


def _print(found: RoundFile, method: str, seed: int, rows: list[Row]) -> None:
    print_table(
        f"{len(rows)} clients, {found.updates.shape[1]} parameters, scored by {method}",
        ("client", "score", f"{LEVEL:.0%} interval", "weight", "flagged as"),
        [
            (
                row.client,
                row.score,
                "" if np.isnan(row.low) else f"{row.low:.4f} to {row.high:.4f}",
                row.weight,
                row.reason,
            )
            for row in rows
        ],
    )
    flagged = sum(row.flagged for row in rows)
    layers = f", {len(found.layer_names)} layers" if found.layer_names else ""
    known = 0 if found.public is None else len(found.public)
    console.print(
        f"{flagged} flagged; public vectors: {known}{layers}; seed {seed}", highlight=False
    )
    if not known:
        console.print(
            "Without --public, a client that replays the last global update cannot be told apart.",
            highlight=False,
        )


def _print_json(found: RoundFile, method: str, alpha: float, seed: int, rows: list[Row]) -> None:
    print_json(
        plain(
            {
                "method": method,
                "alpha": alpha,
                "seed": seed,
                "parameters": found.updates.shape[1],
                "layers": list(found.layer_names),
                "public": 0 if found.public is None else len(found.public),
                "interval": LEVEL,
                "clients": [asdict(row) for row in rows],
            }
        )
    )


def _write_csv(path: Path, rows: list[Row]) -> None:
    try:
        with whole_file(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(Row.__dataclass_fields__))
            writer.writeheader()
            for row in rows:
                writer.writerow({key: harmless(value) for key, value in asdict(row).items()})
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
