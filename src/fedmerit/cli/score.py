"""`fedmerit score`: a round somebody already has."""

import csv
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import numpy as np
import typer

from fedmerit.aggregators.weighting import gated_weights
from fedmerit.cli.options import Json, Method, Quantiser, Reward, Sign
from fedmerit.cli.output import console, errors, print_json, print_table
from fedmerit.comparison import cosines, gram
from fedmerit.disk.files import whole_file
from fedmerit.errors import DataError, SettingError
from fedmerit.evidence.limits import LIMITS
from fedmerit.flags import Flag, Kind
from fedmerit.incentive.registry import parse_reward
from fedmerit.incentive.rewards import RewardRule, pay_round
from fedmerit.intervals import DEFAULT_RESAMPLES, LEVEL, score_half_widths
from fedmerit.ledger import Ledger, RunRecorder, SigningKey
from fedmerit.ledger.export import harmless, plain
from fedmerit.reading import DEFAULT_LIMIT, RoundFile, read_round
from fedmerit.reading.budget import GIGABYTE
from fedmerit.records.agreement_map import pack_agreement
from fedmerit.rng import stream
from fedmerit.scorers import make_scorer
from fedmerit.types import ClientRecord, Contributions, FloatArray, RoundInputs, RoundRecord
from fedmerit.validation import check_number, check_round
from fedmerit.version import __version__

_SEED_BITS = 63
# Whether rows are models is seen by so many of their numbers.
_LOOKED_AT = 50_000
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
    kind: str
    reward: int | None


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
    alpha: Annotated[
        float | None,
        typer.Option(
            help="Weights follow scores, softmax(alpha * score) times squared evidence; default: "
            "equal shares for all that are not excluded.",
            min=0,
            show_default=False,
        ),
    ] = None,
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
    reward: Reward = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Record the round in this ledger, new or continued, as a run of its own."
        ),
    ] = None,
    sign: Sign = None,
    strict: Annotated[bool, typer.Option(help="Exit code 1 if anybody is flagged.")] = False,
    as_json: Json = False,
) -> None:
    """Score a round that you already have, say who is flagged and why, and pay it.

    Intervals (95 %) say how far a score moves on random halves of the parameters. The weight is a
    client's share of the next model: equal shares for all that are not excluded, or by --alpha.

    Example: fedmerit score updates.npz --public last_update.npz --seed 1
    """
    if sign is not None and ledger is None:
        raise SettingError("--sign needs a ledger to sign, --ledger, got none")
    key = None if sign is None else SigningKey.load(sign)
    paid_by = None if reward is None else parse_reward(reward)
    most = round(check_number("limit", limit, least=0) * GIGABYTE)
    found = read_round(path, public=public, global_model=global_model, limit=most)
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
    clients = _clients(found.clients, result, alpha, paid_by)
    rows = _rows(clients, widths)
    if ledger is not None:
        record = RoundRecord(1, clients, agreement=_agreement(result))
        settings = {"file": path.name, "method": method, "reward": reward, "seed": used}
        with Ledger.open(ledger, key=key) as opened:
            RunRecorder(opened, settings, __version__, fingerprint=uuid4().hex, resume=False)(
                record
            )
    if csv_file is not None:
        _write_csv(csv_file, rows)
    if as_json:
        _print_json(found, method, alpha, used, rows)
    else:
        _print(found, method, used, rows)
    for hint in _hints(found, models=global_model is None):
        (errors if as_json else console).print(hint, soft_wrap=True, highlight=False)
    if not as_json:
        for what, where in (("table", csv_file), ("ledger", ledger)):
            if where is not None:
                console.print(f"{what}: {where}", soft_wrap=True, markup=False, highlight=False)
    if strict and result.flagged.any():
        raise typer.Exit(EXIT_FLAGGED)


def _hints(found: RoundFile, *, models: bool) -> list[str]:
    """Return what may be wrong with rows that look odd; they could be `models`."""
    hints = []
    if models and _nearly_equal(found.updates):
        hints.append(
            "The rows are nearly the same, as local models are: if these are models, give the "
            "model that the clients started from with --global-model."
        )
    if len(found.clients) > found.updates.shape[1]:
        hints.append(
            "more rows than columns: rows are clients, columns parameters; is the matrix "
            "transposed?"
        )
    return hints


def _check_finite(clients: tuple[str, ...], updates: FloatArray) -> None:
    for client, update in zip(clients, updates, strict=True):
        if not np.isfinite(update).all():
            odd = update[~np.isfinite(update)][0]
            raise DataError(
                f"the update of every client must be finite, got {odd} in {client!r}; a server "
                "refuses that reply alone: leave it out"
            )


def _nearly_equal(updates: FloatArray) -> bool:
    """Return whether most rows point the same way, as those of models do, and not of updates."""
    looked_at = updates[:, :: max(updates.shape[1] // _LOOKED_AT, 1)]
    cosine = cosines(gram(np.ascontiguousarray(looked_at, dtype=np.float64)))
    return bool(np.median(cosine[np.triu_indices(len(cosine), 1)]) > LIMITS.copy_cosine)


def _clients(
    names: tuple[str, ...], result: Contributions, alpha: float | None, rule: RewardRule | None
) -> tuple[ClientRecord, ...]:
    """Return what is known about each client, paid if there is a rule."""
    weights = _shares(result) if alpha is None else gated_weights(result, alpha)
    paid = {} if rule is None else pay_round(rule, result, names).by_client()
    clients = []
    for row, name in enumerate(names):
        flag, reward = result.flags[row], paid.get(name)
        if flag is None and reward == 0:
            flag = Flag(Kind.UNPAID)
        clients.append(
            ClientRecord(
                client=name,
                score=float(result.scores[row]),
                weight=float(weights[row]),
                p_value=None if result.p_values is None else float(result.p_values[row]),
                epsilon=None if result.epsilon is None else float(result.epsilon[row]),
                flag=None if flag is None else flag.with_names(names),
                reward=reward,
            )
        )
    return tuple(clients)


def _shares(result: Contributions) -> FloatArray:
    """Return equal shares for who is not excluded: what a server gives where sizes are unknown.

    One work counts once, through its first account. Where nobody is eligible, all that are not
    flagged share.
    """
    again = [
        flag is not None and flag.kind is Kind.COPY and int(flag.twin) < row
        for row, flag in enumerate(result.flags)
    ]
    counted = result.eligible & ~np.array(again)
    if not counted.any():
        counted = ~result.flagged
    return np.where(counted, 1 / max(int(counted.sum()), 1), 0.0)


def _agreement(result: Contributions) -> bytes:
    return b"" if result.pairwise is None else pack_agreement(result.pairwise)


def _rows(clients: tuple[ClientRecord, ...], widths: FloatArray) -> list[Row]:
    return [
        Row(
            client=client.client,
            score=client.score,
            low=client.score - float(width),
            high=client.score + float(width),
            weight=client.weight,
            p_value=np.nan if client.p_value is None else client.p_value,
            flagged=client.flagged,
            reason=client.reason,
            kind="" if client.flag is None else client.flag.kind.value,
            reward=client.reward,
        )
        for client, width in zip(clients, widths, strict=True)
    ]


def _print(found: RoundFile, method: str, seed: int, rows: list[Row]) -> None:
    paid = ["pay"] if any(row.reward is not None for row in rows) else []
    print_table(
        f"{len(rows)} clients, {found.updates.shape[1]} parameters, scored by {method}",
        ("client", "score", f"{LEVEL:.0%} interval", "weight", *paid, "flag"),
        [
            (
                row.client,
                row.score,
                "" if np.isnan(row.low) else f"{row.low:.4f} to {row.high:.4f}",
                row.weight,
                *([row.reward] if paid else []),
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


def _print_json(
    found: RoundFile, method: str, alpha: float | None, seed: int, rows: list[Row]
) -> None:
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
