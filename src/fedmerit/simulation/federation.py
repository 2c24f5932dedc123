"""The round loop's body: from one state of a federation to the next."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from torch import nn

from fedmerit.behaviours import Behaviour, ClientView, LocalData, Report
from fedmerit.errors import Fault, Rule, UnknownNameError
from fedmerit.panel import Candidate, Heard
from fedmerit.rng import stream
from fedmerit.server import Server
from fedmerit.server.history import OLDER_UPDATES, ServerState
from fedmerit.server.judging import Clock
from fedmerit.server.replies import Replies
from fedmerit.simulation.accounts import Accounts
from fedmerit.simulation.clicks.log import ClickLog
from fedmerit.simulation.config import FederationConfig
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.data.partition import Indices
from fedmerit.simulation.task import make_task
from fedmerit.simulation.training.local import train_together
from fedmerit.simulation.training.network import Vector
from fedmerit.simulation.training.sequential import train_sequential
from fedmerit.simulation.training.settings import TrainingJob
from fedmerit.types import FloatArray, Rejection, RoundRecord


@dataclass(frozen=True)
class FederationState:
    """What a federation knows after a round; all that a checkpoint has to keep.

    `updates` are the last global updates, the newest first, which clients know and the server does
    not keep whole; `norms` are those of all of them, oldest first; `own` are the first reports of
    clients that remember them.
    """

    server: ServerState
    updates: tuple[FloatArray, ...] = ()
    norms: tuple[float, ...] = ()
    own: Mapping[int, tuple[Vector, ...]] = field(default_factory=dict)

    @property
    def round(self) -> int:
        """How many rounds have been settled."""
        return self.server.round

    @property
    def model(self) -> FloatArray:
        """The current global model."""
        return self.server.model


class Federation:
    """Users with their data and behaviour, and a server.

    Every random draw comes from a stream named after its round, client and purpose, so a round's
    result depends on the state before it and on nothing else.

    Parameters
    ----------
    config : FederationConfig
    dataset : Dataset or ClickLog
    parts : list of index arrays, optional
        Each user's samples; by default as `config.partition` says.
    module : nn.Module, optional
        A model of your own; by default as `config.model` says.
    """

    def __init__(
        self,
        config: FederationConfig,
        dataset: Dataset | ClickLog,
        *,
        parts: Sequence[Indices] | None = None,
        module: nn.Module | None = None,
    ) -> None:
        self.config, self.dataset = config, dataset
        seed = config.seed
        self.task = make_task(config, dataset, parts, module)
        self._accounts = Accounts.make(config.extra, config.users, config.per_round, seed)
        self.behaviours = (
            *config.behaviours.assign(config.users, stream(seed, "behaviours")),
            *self._accounts.behaviours,
        )
        self.network = self.task.network
        self._initial = self.network.flatten()

    def start(self) -> FederationState:
        """Return the state before the first round."""
        return FederationState(self._server().state)

    def _server(self) -> Server:
        """Return the server before the first round."""
        return Server(
            self._initial.copy(),
            rules=self.config.rules,
            seed=self.config.seed,
            layers=self.network.layers,
            scored=self.task.dense if self.config.scored == "dense" else None,
            touched=self.task.rows if self.config.touched else None,
        )

    @property
    def fingerprint(self) -> str:
        """Digest of all that decides what a round gives; the number of rounds is not part of it."""
        digest = hashlib.sha256(repr(replace(self.config, rounds=1)).encode())
        digest.update(f"{self.task.name}{self.dataset.digest}".encode())
        config, plain = self.config, FederationConfig()
        for name in ("extra", "touched", "scored", "models"):
            if getattr(config, name) != getattr(plain, name):
                digest.update(f"{name}={getattr(config, name)!r}".encode())
        if config.rules.panel is not None:
            digest.update(f"panel={config.rules.panel!r}".encode())
        digest.update(repr(self.network.shapes).encode())
        digest.update(self._initial.tobytes())
        for part in self.task.parts:
            digest.update(np.asarray(part, dtype=np.int64).tobytes())
        return digest.hexdigest()

    def step(
        self, state: FederationState, *, evaluate: bool = True
    ) -> tuple[FederationState, RoundRecord]:
        """Run the next round; its record has no metrics unless the model is to be evaluated."""
        number = state.round + 1
        server = self._server()
        server.state, clock = state.server, server.clock
        clients = self.participants(number) + self._accounts.draw(self.config.seed, number)
        with clock.phase("training"):
            honest = self._train(clients, number, state.model)
        with clock.phase("reports"):
            reports = {c: self._report(c, number, state, clients, honest) for c in clients}
        used = [c for c in clients if np.isfinite(reports[c].update).all()]
        rejected = [
            Rejection(
                self._account(c, number), "the update is not finite", fault=Fault(Rule.FINITE)
            )
            for c in clients
            if c not in used
        ]
        replies = self._upload({c: reports[c] for c in used}, number, clock)
        if self.config.models:
            rows = dict(zip(replies.clients, replies.updates, strict=True))
            replies = replace(replies, models=lambda client: state.model + rows[client])
        server.judge_replies(replies, rejected)
        server.combine()
        if evaluate:
            with clock.phase("evaluation"):
                server.note(self.task.evaluate(server.state.model))
        if self.config.rules.panel is not None:
            with clock.phase("panel"):
                self._hear(server, clients, number)
        record = server.write()
        assert record is not None, "the round was judged above"
        change = server.state.model - state.model
        updates = state.updates
        if server.state.model is not state.model:  # a round that changed nothing told nobody
            updates = (change, *updates)[:OLDER_UPDATES]
        norms = (*state.norms, float(np.linalg.norm(change.astype(np.float64))))
        own = self._remembered(state.own, reports)
        return FederationState(server.state, updates, norms, own), record

    def _hear(self, server: Server, clients: Sequence[int], number: int) -> Heard:
        """Let every client of the round judge on the data that it trains on."""
        judges = {self._account(client, number): client for client in clients}
        answers = {
            candidate.key: self.judgement(judges[candidate.judge], candidate)
            for candidate in server.candidates(judges)
        }
        return server.hear(answers)

    def judgement(self, client: int, candidate: Candidate) -> float:
        """Return what a client says of a candidate; a subclass may let it lie."""
        panel = self.config.rules.panel
        assert panel is not None, "somebody asked"
        data = self._local_data(client, self.behaviours[client])
        found = self.task.evaluate(candidate.model, data)
        if panel.metric not in found:
            raise UnknownNameError.of("metric of the panel", panel.metric, found)
        return found[panel.metric]

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
        data = self.task.local_data(self._holder(client))
        return behaviour.local_data(data, stream(self.config.seed, "client", client, "data"))

    def _holder(self, client: int) -> int:
        """Return the user whose data a client has: its own, or what an extra account claims."""
        users = self.config.users
        return client if client < users else self._accounts.holders[client - users]

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
                global_updates=state.updates,
                update_norms=state.norms,
                honest_update=honest.get(client),
                group_update=honest.get(first) if behaviour.shares else None,
                num_examples=len(self.task.parts[self._holder(client)]),
                participants=len(clients),
                own_reports=state.own.get(client, ()),
                rng=stream(seed, "round", number, "client", client, "report"),
                group_rng=stream(seed, "round", number, "group", behaviour.label),
            )
        )

    def _remembered(
        self, own: Mapping[int, tuple[Vector, ...]], reports: Mapping[int, Report]
    ) -> dict[int, tuple[Vector, ...]]:
        """Return the first reports of clients that remember them, with those of this round."""
        known = dict(own)
        for client, report in reports.items():
            past = known.get(client, ())
            if len(past) < self.behaviours[client].remembers:
                known[client] = (*past, report.update)
        return known

    def _account(self, client: int, number: int) -> str:
        """Return the name under which a client takes part in a round."""
        return self.behaviours[client].account(client, number)

    def _upload(self, reports: Mapping[int, Report], number: int, clock: Clock) -> Replies:
        """Return what reaches the server; levels, where clients upload these, with their values."""
        updates: FloatArray = np.empty((0, self.network.parameters), dtype=np.float32)
        if reports:
            updates = np.stack([report.update for report in reports.values()])
        signals = None
        if self.config.upload is not None and reports:
            with clock.phase("upload"):
                rng = stream(self.config.seed, "round", number, "upload")
                signals = self.config.upload.quantise(updates, rng)
                updates = self.config.upload.dequantise(signals)
        return Replies(
            clients=[self._account(client, number) for client in reports],
            updates=updates,
            num_examples=[report.num_examples for report in reports.values()],
            signals=signals,
            behaviours=[self.behaviours[client].label for client in reports],
        )
