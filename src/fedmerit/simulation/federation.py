"""The round loop's body: from one state of a federation to the next."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fedmerit.aggregators import aggregate
from fedmerit.agreement_map import pack_agreement
from fedmerit.behaviours import Behaviour, ClientView, LocalData, Report
from fedmerit.errors import SettingError
from fedmerit.incentive.paying import pay_round
from fedmerit.rng import stream
from fedmerit.scorers import Merit, RoundHistory, gated_weights
from fedmerit.scorers import weights as score_weights
from fedmerit.scorers.history import REMEMBERED_CLIENTS
from fedmerit.simulation.config import FederationConfig
from fedmerit.simulation.datasets import Dataset
from fedmerit.simulation.local import train_together
from fedmerit.simulation.models import build_model
from fedmerit.simulation.network import Network, Vector
from fedmerit.simulation.partition import Indices
from fedmerit.simulation.records import Clock, client_records
from fedmerit.simulation.sequential import train_sequential
from fedmerit.simulation.training import TrainingJob
from fedmerit.types import (
    ClientRecord,
    Contributions,
    FloatArray,
    Rejection,
    RoundRecord,
    Signals,
    freeze,
)
from fedmerit.validation import MIN_CLIENTS, check_round, check_weights


@dataclass(frozen=True)
class FederationState:
    """What a federation knows after `round` rounds; all that a checkpoint has to keep.

    The current global model is the newest of the history; `norms` are those of all global updates,
    oldest first.
    """

    round: int
    history: RoundHistory
    norms: tuple[float, ...] = ()

    @property
    def model(self) -> FloatArray:
        """The current global model."""
        return self.history.models[-1]


class Federation:
    """Users with their data and behaviour, and a server.

    Every random draw comes from a stream named after its round, client and purpose, so a round's
    result depends on the state before it and on nothing else.

    Parameters
    ----------
    config : FederationConfig
    dataset : Dataset
    parts : list of index arrays, optional
        Each user's samples; by default as `config.partition` says.
    module : nn.Module, optional
        A model of your own; by default as `config.model` says.
    """

    def __init__(
        self,
        config: FederationConfig,
        dataset: Dataset,
        *,
        parts: Sequence[Indices] | None = None,
        module: nn.Module | None = None,
    ) -> None:
        self.config, self.dataset = config, dataset
        seed = config.seed
        if parts is None:
            parts = config.partition.split(dataset.train_y, config.users, stream(seed, "partition"))
        if len(parts) != config.users:
            raise SettingError(f"parts must be one per user, {config.users}, got {len(parts)}")
        self.parts = parts
        self.behaviours = config.behaviours.assign(config.users, stream(seed, "behaviours"))
        shape = dataset.train_x.shape[1:]
        if module is None:
            module = build_model(
                config.model.name,
                shape,
                dataset.classes,
                stream(seed, "model"),
                hidden=config.model.hidden,
                dropout=config.model.dropout,
            )
        self.network = Network(module, shape)
        self._initial = self.network.flatten()
        self._layers = self.network.layers

    def start(self) -> FederationState:
        """Return the state before the first round."""
        # Only the merit score looks at clients' previous reports.
        remembered = REMEMBERED_CLIENTS if isinstance(self.config.scorer, Merit) else 0
        history = RoundHistory(remembered=remembered)
        return FederationState(0, history.published(freeze(self._initial.copy())))

    @property
    def fingerprint(self) -> str:
        """Digest of all that decides what a round gives; the number of rounds is not part of it."""
        digest = hashlib.sha256(repr(replace(self.config, rounds=1)).encode())
        digest.update(f"{self.dataset.name}{self.dataset.train_x.shape}".encode())
        digest.update(repr(self.network.shapes).encode())
        digest.update(self._initial.tobytes())
        for part in self.parts:
            digest.update(np.asarray(part, dtype=np.int64).tobytes())
        return digest.hexdigest()

    def step(self, state: FederationState) -> tuple[FederationState, RoundRecord]:
        """Run the next round."""
        number = state.round + 1
        clock = Clock()
        clients = self.participants(number)
        with clock.phase("training"):
            honest = self._train(clients, number, state.model)
        with clock.phase("reports"):
            reports = {c: self._report(c, number, state, clients, honest) for c in clients}
        used = [c for c in clients if np.isfinite(reports[c].update).all()]
        rejected = tuple(
            Rejection(str(c), "the update is not finite") for c in clients if c not in used
        )
        change: FloatArray = np.zeros_like(state.model)
        records: tuple[ClientRecord, ...] = ()
        history, agreement = state.history, b""
        if len(used) >= MIN_CLIENTS:
            change, records, history, agreement = self._combine(
                [reports[c] for c in used], used, rejected, number, state, clock
            )
        model = (state.model + change).astype(np.float32)
        with clock.phase("evaluation"):
            loss, accuracy = self.network.evaluate(model, self.dataset.test_x, self.dataset.test_y)
        after = FederationState(
            number,
            history.published(freeze(model)),
            (*state.norms, float(np.linalg.norm((model - state.model).astype(np.float64)))),
        )
        metrics = {"accuracy": accuracy, "loss": loss}
        return after, RoundRecord(number, records, rejected, metrics, clock.seconds, agreement)

    def participants(self, number: int) -> list[int]:
        """Draw the clients of a round, sorted; a subclass may know who is there at all."""
        drawn = stream(self.config.seed, "round", number, "clients").choice(
            self.config.users, self.config.per_round, replace=False
        )
        return [int(client) for client in np.sort(drawn)]

    def _train(self, clients: Sequence[int], number: int, model: Vector) -> dict[int, Vector]:
        seed, training = self.config.seed, self.config.training
        working = [c for c in clients if self.behaviours[c].trains]
        if not working:
            return {}
        jobs = [
            TrainingJob(
                self._local_data(c, self.behaviours[c]),
                stream(seed, "round", number, "client", c, "batches"),
                stream(seed, "round", number, "client", c, "dropout"),
            )
            for c in working
        ]
        train = train_together if self.config.together else train_sequential
        updates = train(self.network, model, jobs, training, training.rate(number))
        return dict(zip(working, updates, strict=True))

    def _local_data(self, client: int, behaviour: Behaviour) -> LocalData:
        part = self.parts[client]
        data = LocalData(self.dataset.train_x[part], self.dataset.train_y[part])
        return behaviour.local_data(data, stream(self.config.seed, "client", client, "data"))

    def _report(
        self,
        client: int,
        number: int,
        state: FederationState,
        clients: Sequence[int],
        honest: Mapping[int, Vector],
    ) -> Report:
        behaviour, seed = self.behaviours[client], self.config.seed
        first = next(c for c in clients if self.behaviours[c] == behaviour)
        return behaviour.report(
            ClientView(
                round=number,
                client=client,
                global_model=state.model,
                global_updates=state.history.updates,
                update_norms=state.norms,
                honest_update=honest.get(client),
                group_update=honest.get(first) if behaviour.shares else None,
                num_examples=len(self.parts[client]),
                participants=len(clients),
                rng=stream(seed, "round", number, "client", client, "report"),
                group_rng=stream(seed, "round", number, "group", behaviour.label),
            )
        )

    def _combine(
        self,
        reports: Sequence[Report],
        clients: Sequence[int],
        rejected: Sequence[Rejection],
        number: int,
        state: FederationState,
        clock: Clock,
    ) -> tuple[FloatArray, tuple[ClientRecord, ...], RoundHistory, bytes]:
        config, history = self.config, state.history
        values: FloatArray = np.stack([report.update for report in reports])
        uploaded: FloatArray | Signals = values
        if config.upload is not None:
            with clock.phase("upload"):
                uploaded = config.upload.quantise(
                    values, stream(config.seed, "round", number, "upload")
                )
                values = config.upload.dequantise(uploaded)
        contributions = None
        if config.scorer is not None:
            with clock.phase("scoring"):
                names = [str(client) for client in clients]
                remembers = isinstance(config.scorer, Merit)
                inputs = (
                    history.inputs(names, values, self._layers)
                    if remembers
                    else check_round(uploaded, history.public, self._layers)
                )
                contributions = config.scorer.score(
                    inputs, stream(config.seed, "round", number, "scoring")
                )
                if remembers:
                    history = history.remembering(names, values, contributions)
        with clock.phase("aggregation"):
            weights = self._weights(reports, contributions)
            change = aggregate(
                values,
                None if config.weighting == "uniform" else weights,
                rule=config.rule,
                norm_bound=config.norm_bound,
            )
        labels = [self.behaviours[client].label for client in clients]
        payments = None
        if config.reward is not None and contributions is not None:
            ids, refused = [str(c) for c in clients], [r.client for r in rejected]
            payments = pay_round(config.reward, contributions, ids, refused)
        records = client_records(
            clients, labels, reports, weights, contributions, payments, rejected
        )
        agreement = b"" if contributions is None else pack_agreement(contributions.pairwise)
        return change, records, history, agreement

    def _weights(
        self, reports: Sequence[Report], contributions: Contributions | None
    ) -> NDArray[np.float64]:
        if self.config.weighting == "score" and contributions is not None:
            return score_weights(contributions.scores, self.config.alpha)
        if self.config.weighting == "gated" and contributions is not None:
            return gated_weights(contributions, self.config.alpha)
        if self.config.weighting == "size":
            return check_weights([report.num_examples for report in reports], len(reports))
        return np.full(len(reports), 1 / len(reports))
