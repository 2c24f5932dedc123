"""`fedmerit simulate`: a federation on this machine, and who contributed what to it."""

import math
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedmerit.aggregators import AGGREGATORS
from fedmerit.behaviours import BEHAVIOURS, Assignment
from fedmerit.cli.federations.data import DataDir, check_extra
from fedmerit.cli.federations.recording import recorder
from fedmerit.cli.names import DATASETS
from fedmerit.cli.options import (
    Alpha,
    Json,
    Quantiser,
    Reward,
    Seed,
    Sign,
    completed_from,
    completed_shares,
    listed,
)
from fedmerit.cli.output import console, print_json, print_table, progress
from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.incentive.registry import parse_reward
from fedmerit.ledger import RunRecorder
from fedmerit.panel import Panel
from fedmerit.quantisers import DEFAULT_LEVELS, CpSGD
from fedmerit.scorers import SCORERS, make_scorer
from fedmerit.server import RoundRules
from fedmerit.server.rules import SIZES, WEIGHTINGS
from fedmerit.tracking import MLflowTracker, PrometheusTracker, TensorBoardTracker, WandbTracker
from fedmerit.types import RoundRecord, Scorer

if TYPE_CHECKING:
    from fedmerit.simulation.config import DinChoice, ModelChoice
    from fedmerit.simulation.federation import Federation
    from fedmerit.simulation.results import Share
    from fedmerit.simulation.training.settings import LocalTraining

NO_SCORER, DIN = "none", "din"
BY_DEFAULT = RoundRules()
UPLOADS = ("cpsgd", "float")
_LAST = 10  # single rounds swing: report the mean of the last ones beside the last
_MAX_CLIENT_ROWS, _TOP = 30, 10


def simulate(
    dataset: Annotated[
        str,
        typer.Option(
            help="'fedmerit data list' shows them.", autocompletion=completed_from(DATASETS)
        ),
    ] = "mnist",
    data_dir: DataDir = None,
    users: Annotated[int, typer.Option(help="Size of the federation.")] = 100,
    per_round: Annotated[int, typer.Option(help="Users drawn for a round.")] = 20,
    rounds: Annotated[int, typer.Option(help="How many rounds.")] = 100,
    seed: Seed = 0,
    partition: Annotated[
        str,
        typer.Option(
            help="shards, dirichlet or iid. In a click log every user holds their own clicks.",
            autocompletion=completed_from(("shards", "dirichlet", "iid")),
        ),
    ] = "shards",
    shards_per_user: Annotated[int, typer.Option(help="For shards.")] = 2,
    dirichlet_alpha: Annotated[float, typer.Option(help="For dirichlet; small is skewed.")] = 1.0,
    model: Annotated[
        str | None,
        typer.Option(
            help="mlp (default), lenet5 or cnn; din for a click log.",
            autocompletion=completed_from(("mlp", "lenet5", "cnn", "din")),
        ),
    ] = None,
    hidden: Annotated[int, typer.Option(help="Hidden units of the mlp.")] = 200,
    dropout: Annotated[float, typer.Option(help="Dropout of the mlp.")] = 0.5,
    epochs: Annotated[int | None, typer.Option(help="Local epochs: 5; for din 1.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Samples in a local step: 10; for din 2.")
    ] = None,
    optimiser: Annotated[str, typer.Option(help="sgd or adam.")] = "sgd",
    learning_rate: Annotated[
        float | None,
        typer.Option("--learning-rate", "--lr", help="Of local steps: 0.01; for din 0.1."),
    ] = None,
    momentum: Annotated[float, typer.Option(help="For sgd.")] = 0.5,
    decay: Annotated[
        float | None, typer.Option(help="Learning rate factor per round: 1; for din 0.999.")
    ] = None,
    behaviours: Annotated[
        str,
        typer.Option(
            help="Who is dishonest: '20% random-update, 10% noise:0.01'; the rest is honest. "
            f"Known: {listed(BEHAVIOURS)}.",
            autocompletion=completed_shares(BEHAVIOURS),
        ),
    ] = "",
    upload: Annotated[
        str, typer.Option(help="float, or cpsgd: clients upload levels, which are aggregated.")
    ] = "float",
    method: Annotated[
        str | None,
        typer.Option(
            help=f"Scorer: {listed(SCORERS)}, or {NO_SCORER}. Settings may follow: "
            "merit:one_kind=true. Default: merit; for din the conditional score of the layers "
            "that every client trains.",
            autocompletion=completed_from([*SCORERS, NO_SCORER]),
        ),
    ] = None,
    quantiser: Quantiser = None,
    levels: Annotated[
        int | None, typer.Option(help="Quantisation levels of the scorer and of --upload.")
    ] = None,
    clip: Annotated[float, typer.Option(help="Range of cpsgd for --upload.")] = 0.1,
    weighting: Annotated[
        str,
        typer.Option(
            help="engine (FedAvg of whoever is not excluded), gated, score (Fed-PCA), size "
            "(FedAvg) or uniform.",
            autocompletion=completed_from(WEIGHTINGS),
        ),
    ] = BY_DEFAULT.weighting,
    sizes: Annotated[
        str,
        typer.Option(
            help="Whether claimed data sizes count: claimed, audited or ignore.",
            autocompletion=completed_from(SIZES),
        ),
    ] = BY_DEFAULT.sizes,
    alpha: Alpha = BY_DEFAULT.alpha,
    rule: Annotated[
        str,
        typer.Option(
            help=f"Aggregation: {listed(AGGREGATORS)}.", autocompletion=completed_from(AGGREGATORS)
        ),
    ] = BY_DEFAULT.rule,
    norm_bound: Annotated[
        float, typer.Option(help="Longest update, in median norms; 0 for no bound.")
    ] = BY_DEFAULT.norm_bound or 0.0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for rounds.csv, clients.csv and the checkpoint.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Continue the run in --out.")] = False,
    ledger: Annotated[
        Path | None, typer.Option(help="Record every round in this ledger; new or continued.")
    ] = None,
    reward: Reward = None,
    panel: Annotated[
        int,
        typer.Option(
            help="Let clients judge each other's updates: so many pairs of models per client and "
            "round; 0: they do not.",
            min=0,
        ),
    ] = 0,
    pay_value: Annotated[
        bool, typer.Option(help="Pay by what the panel says that updates are worth.")
    ] = False,
    sign: Sign = None,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Folder for TensorBoard: every round as numbers.")
    ] = None,
    mlflow: Annotated[
        str | None, typer.Option(help="MLflow server or folder: every round as metrics.")
    ] = None,
    wandb: Annotated[
        str | None, typer.Option(help="Project of Weights & Biases; WANDB_MODE=offline works.")
    ] = None,
    prometheus: Annotated[
        int | None, typer.Option(help="Port of this machine for Prometheus to read.", min=0)
    ] = None,
    as_json: Json = False,
) -> None:
    """Simulate a federation.

    The defaults are the paper's for MNIST, or, for click logs, for its recommender, except for
    score and weights. As published: --method pca --quantiser cpsgd --weighting score

    Example: fedmerit simulate --dataset digits --users 8 --per-round 4 --rounds 3 --epochs 1
    """
    check_extra()
    from fedmerit.simulation.config import FederationConfig, Partition
    from fedmerit.simulation.data.catalogue import load
    from fedmerit.simulation.federation import Federation

    kind = _kind_of(dataset)
    name = model or kind.model
    if (name == DIN) != (kind.model == DIN):
        fitting = DIN if kind.model == DIN else "mlp, lenet5 or cnn"
        raise SettingError(f"model must be {fitting} for {dataset}, got {name}")
    config = FederationConfig(
        users=users,
        per_round=per_round,
        rounds=rounds,
        seed=seed,
        partition=Partition(partition, shards_per_user, dirichlet_alpha),
        model=_model(name, hidden, dropout),
        training=replace(
            kind.training,
            optimiser=optimiser,
            momentum=momentum,
            **_given(
                epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, decay=decay
            ),
        ),
        behaviours=Assignment.parse(behaviours),
        upload=_upload(upload, levels, clip),
        rules=RoundRules(
            scorer=_scorer(kind, method, quantiser, levels),
            weighting=weighting,
            alpha=alpha,
            rule=rule,
            norm_bound=norm_bound or None,
            reward=None if reward is None else parse_reward(reward),
            sizes=sizes,
            panel=_panel(panel, "auc" if name == DIN else "accuracy", pay_value),
        ),
        touched=name == DIN,
    )
    if resume and out is None:
        raise SettingError("--resume needs the folder of the run, --out, got none")
    federation = Federation(config, load(dataset, data_dir))
    with recorder(federation, ledger, sign, resume=resume) as keep, ExitStack() as stack:
        settings = {"dataset": dataset, "seed": seed, "rounds": rounds}
        settings["method"] = method or "default"
        trackers: list[Callable[[RoundRecord], None]] = []
        if tensorboard is not None:
            trackers.append(stack.enter_context(TensorBoardTracker(tensorboard)))
        if mlflow is not None:
            trackers.append(stack.enter_context(MLflowTracker(mlflow, settings=settings)))
        if wandb is not None:
            trackers.append(stack.enter_context(WandbTracker(wandb, settings=settings)))
        if prometheus is not None:
            trackers.append(stack.enter_context(PrometheusTracker(prometheus)))
        _run(federation, out, keep, trackers, resume=resume, as_json=as_json)
    if ledger is not None and not as_json:
        console.print(f"next: fedmerit report {ledger}", soft_wrap=True, markup=False)


def _panel(pairs: int, metric: str, pays: bool) -> Panel | None:
    if pays and not pairs:
        raise SettingError("--pay-value needs a --panel, got none")
    return Panel(metric, pairs=pairs, pays=pays) if pairs else None


@dataclass(frozen=True)
class _Kind:
    """What a federation is by default for one kind of data: the paper's settings."""

    model: str
    training: "LocalTraining"
    scorer: Scorer


def _kind_of(dataset: str) -> _Kind:
    from fedmerit.experiments.clicks import BASE, EVIDENCE
    from fedmerit.simulation.clicks.sources import ClickSource
    from fedmerit.simulation.data.catalogue import find_source
    from fedmerit.simulation.training.settings import LocalTraining

    if isinstance(find_source(dataset), ClickSource):
        return _Kind(DIN, BASE.training, EVIDENCE)
    return _Kind("mlp", LocalTraining(), make_scorer("merit"))


def _model(name: str, hidden: int, dropout: float) -> "ModelChoice | DinChoice":
    from fedmerit.simulation.config import DinChoice, ModelChoice

    return DinChoice() if name == DIN else ModelChoice(name, hidden, dropout)


def _scorer(
    kind: _Kind, method: str | None, quantiser: str | None, levels: int | None
) -> Scorer | None:
    if method == NO_SCORER:
        return None
    if method is None and quantiser is None and levels is None:
        return kind.scorer
    return make_scorer(method or "merit", quantiser, levels)


def _given(**settings: float | None) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _upload(name: str, levels: int | None, clip: float) -> CpSGD | None:
    if name not in UPLOADS:
        raise UnknownNameError.of("upload", name, UPLOADS)
    return None if name == "float" else CpSGD(levels or DEFAULT_LEVELS, clip)


def _run(
    federation: "Federation",
    out: Path | None,
    keep: RunRecorder | None,
    trackers: Sequence[Callable[[RoundRecord], None]],
    *,
    resume: bool,
    as_json: bool,
) -> None:
    from fedmerit.simulation.results import ResultFiles
    from fedmerit.simulation.run import run

    with tempfile.TemporaryDirectory(prefix="fedmerit-") as temporary:
        folder = Path(temporary) if out is None else out
        with progress() as bar:
            task = bar.add_task("round", total=federation.config.rounds, status="")

            def show(record: RoundRecord) -> None:
                metric, reached = next(iter(record.metrics.items()))
                status = f"{metric} {reached:.4f}"
                bar.update(task, completed=record.round, status=status)
                for track in trackers:
                    track(record)

            run(federation, folder=folder, resume=resume, on_round=show, keep=keep)
        rounds, clients = ResultFiles(folder).read()
    _print(federation.task.metric, rounds, clients, as_json=as_json)
    if out is not None and not as_json:
        console.print(f"results: {out}", soft_wrap=True)


def _print(
    metric: str, rounds: list[list[str]], clients: list[list[str]], *, as_json: bool
) -> None:
    from fedmerit.simulation.results import METRIC, summarise

    reached = [float(row[METRIC]) for row in rounds]
    last = reached[-_LAST:]
    mean = math.fsum(last) / len(last)
    by_behaviour, by_client = (summarise(clients, by=by) for by in ("behaviour", "client"))
    if as_json:
        print_json(
            {
                "rounds": len(reached),
                metric: reached[-1],
                f"{metric}_last_{_LAST}": mean,
                "behaviours": [asdict(share) for share in by_behaviour],
                "clients": [asdict(share) for share in by_client],
            }
        )
        return
    value = ("value",) if any(share.value is not None for share in by_client) else ()
    print_table(
        "Who contributed what, by behaviour",
        ("behaviour", "reports", "score", "weight", "share", "fair share", *value),
        [(s.name, s.reports, s.score, s.weight, s.share, s.fair, *_value(s)) for s in by_behaviour],
    )
    shown = by_client if len(by_client) <= _MAX_CLIENT_ROWS else by_client[:_TOP]
    print_table(
        "Clients" if len(shown) == len(by_client) else f"The {_TOP} clients with most weight",
        ("client", "behaviour", "reports", "score", "weight", "share", *value),
        [(s.name, s.behaviour, s.reports, s.score, s.weight, s.share, *_value(s)) for s in shown],
    )
    console.print(
        f"{metric} after {len(reached)} rounds {reached[-1]:.4f}, "
        f"mean of the last {len(last)} {mean:.4f}"
    )


def _value(share: "Share") -> tuple[str, ...]:
    """Return what a panel says that somebody added, in its metric; nothing without a panel."""
    return () if share.value is None else (f"{share.value:+.4f}",)
