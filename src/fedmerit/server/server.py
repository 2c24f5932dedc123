"""`Server`: the state of a federation, and one verb that settles a round."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from fedmerit.display.tables import Table, to_html
from fedmerit.errors import (
    CheckpointError,
    InvalidInputError,
    LedgerError,
    RoundFailedError,
    SettingError,
    UpdatesError,
)
from fedmerit.evidence.bets import NAMING_RATE
from fedmerit.evidence.watch import Verdict, verdicts_of
from fedmerit.flags import Kind
from fedmerit.incentive.rewards import RewardRule
from fedmerit.ledger import Ledger, RunRecorder, SigningKey
from fedmerit.panel import Bench, Candidate, Heard
from fedmerit.panel.bench import Answers
from fedmerit.panel.harm import harmful
from fedmerit.panel.hearing import hear
from fedmerit.server.hearing import (
    apart_of,
    panel_stream,
    seat,
    sizes_of,
    weights_of,
    with_values,
)
from fedmerit.server.history import (
    OLDER_UPDATES,
    REMEMBERED_CLIENTS,
    RoundHistory,
    ServerState,
    Total,
    View,
    with_round,
)
from fedmerit.server.judging import (
    NO_SIZES,
    Clock,
    Judgement,
    Result,
    combine_models,
    combine_round,
    judge_round,
    sampling_stream,
    scoring_stream,
    skip_round,
)
from fedmerit.server.layout import Array, Layout
from fedmerit.server.replies import WHOLE, Replies, Sight, as_array, check_names, read_sent, runs
from fedmerit.server.rules import RoundRules, check_file, check_run
from fedmerit.server.state import (
    differences,
    from_plain,
    read_state,
    state_arrays,
    state_from,
    to_plain,
    write_state,
)
from fedmerit.types import FloatArray, Rejection, RoundRecord, freeze
from fedmerit.validation import check_layers, check_path, check_positions
from fedmerit.version import __version__

Model = Any  # a vector, or a mapping from name to array; NumPy, tensors, anything with __array__
Path_ = str | PathLike[str]
Evaluate = Callable[[Model], Mapping[str, float]]


class Server:
    """Keeps a federation: model, history, evidence over rounds, totals, ledger.

    Parameters
    ----------
    model : vector, or mapping from name to array
        NumPy arrays, tensors, anything with ``__array__``. Floating-point arrays are combined, and
        scored unless they are running statistics of a normalisation; others keep their value.
    rules : RoundRules, optional
        How rounds are settled; or give single rules as further arguments, such as ``scorer`` and
        ``weighting``.
    reward : RewardRule or str, optional
        What a round pays: ``"positive:budget=10000"``, for example.
    ledger : path, optional
        Ledger in which every round is recorded, new or continued.
    key : SigningKey, optional
        Signs what goes into the ledger.
    seed : int, optional
        Makes scores repeatable. A server that pays leaves it out.
    state : path, optional
        The server saves itself there after every round.
    record : callable, optional
        Gets a `RoundRecord` of every round.
    layers : (d,) integers, optional
        The layer of each parameter; by default by the arrays' names.
    scored : positions, optional
        The parameters that scores look at; by default all but running statistics.
    touched : (e,) integers, optional
        The embedding row of each of the first e parameters, see `mean_over_touching`.
    older, remembered : int
        How many global updates and how many clients' last reports are kept, of each what scores
        look at: 50,000 parameters, drawn in secret, where a model has more.
    about : mapping, optional
        Plain values that go into the ledger with the rules.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> news = rng.normal(size=5000)
    >>> honest = {name: news + rng.normal(size=5000) for name in ("ann", "bob", "cat", "dan")}
    >>> with Server(np.zeros(5000), seed=1) as server:
    ...     result = server.settle(updates={**honest, "eve": rng.normal(size=5000)})
    >>> result.flags["eve"].kind.value, result.weights["eve"]
    ('independent', 0.0)
    """

    def __init__(
        self,
        model: Model,
        *,
        rules: RoundRules | None = None,
        reward: RewardRule | str | None = None,
        ledger: Path_ | None = None,
        key: SigningKey | None = None,
        seed: int | None = None,
        state: Path_ | None = None,
        record: Callable[[RoundRecord], None] | None = None,
        layers: NDArray[np.integer] | None = None,
        scored: NDArray[np.int64] | None = None,
        touched: NDArray[np.int64] | None = None,
        older: int = OLDER_UPDATES,
        remembered: int = REMEMBERED_CLIENTS,
        about: Mapping[str, object] | None = None,
        **settings: object,
    ) -> None:
        if reward is not None:
            settings["reward"] = reward
        self.rules = RoundRules.of(rules, settings, beside=inspect.signature(Server).parameters)
        check_run(seed, key, record, older, remembered)
        if not isinstance(about, Mapping | None):
            raise SettingError(f"about must be a mapping, got {about!r}"[:200])
        self.seed, self._record, self._key = seed, record, key
        self._about, self._run = dict(about or {}), uuid4().hex
        self._ledger_path = None if ledger is None else check_file("ledger", ledger, LedgerError)
        self._state_path = None if state is None else check_file("state", state)
        self._pending: RoundRecord | None = None
        # A round that is over and could not be written down yet, or not told to `record`.
        self._unwritten: RoundRecord | None = None
        self._untold: RoundRecord | None = None
        self._judged: Judgement | None = None
        # What the panel needs of the round under way.
        self._seated: Judgement | None = None
        self._bench: Bench | None = None
        # What an engine wants to find again beside the state; arrays by name.
        self.beside: Mapping[str, NDArray[np.generic]] = {}
        self._closed = False
        self.clock = Clock()
        self._vector = not isinstance(model, Mapping)
        arrays = self._arrays(model)
        self.layout = Layout(arrays.items())
        self._fixed = self._own_copies(arrays)
        d = self.layout.parameters
        self._layers = None if layers is None else check_layers(layers, d)
        self._scored = None if scored is None else check_positions("scored", scored, below=d)
        self._touched = None if touched is None else _check_rows(touched, d)
        self._counted = self.layout.counted if self._scored is None else runs(self._scored)
        view = View.draw(
            d,
            self.layout.layers if self._layers is None else self._layers,
            self.layout.scored if self._scored is None else self._scored,
            self.rules.needs.sample,
            sampling_stream(seed),
        )
        first = self.layout.flatten(arrays.items())
        self.state = ServerState(0, RoundHistory(older, remembered, view).published(first))
        self._ledger: Ledger | None = None
        self._keep: RunRecorder | None = None
        if self._ledger_path is not None:
            self._open_ledger(resume=False)

    # --- the model

    @property
    def model(self) -> Any:
        """The current global model, in the form it was given: a vector, or arrays by name."""
        return self._formed(self.layout.cut(self.state.model))

    def _formed(self, arrays: Mapping[str, Array]) -> Any:
        if self._vector:
            return arrays[WHOLE]
        return {name: arrays.get(name, self._fixed.get(name)) for name in self.layout.shapes}

    @property
    def sight(self) -> Sight:
        """What is looked at in replies; for engines that read them."""
        return Sight(self.layout, self.state.history.view, self._counted)

    @property
    def judged(self) -> RoundRecord:
        """The round that is under way, as far as it is known."""
        if self._pending is None:
            raise SettingError("a round must be judged before it can be looked at, got none")
        return self._pending

    @property
    def under_way(self) -> bool:
        """Whether a round has been judged and is not over."""
        return self._pending is not None

    @property
    def sizes_count(self) -> bool:
        """Whether the weights of the round under way follow claimed data sizes."""
        return self._judged is None or self._judged.sizes_count

    def shortened(self) -> dict[str, float]:
        """Return the clients of the round under way whose update is too long, and what is kept."""
        if self._judged is None:
            return {}
        pairs = zip(self._judged.replies.clients, self._judged.keep, strict=True)
        return {client: float(share) for client, share in pairs if share < 1}

    @property
    def round(self) -> int:
        """How many rounds have been judged."""
        return self.state.round

    def publish(self, model: Model) -> None:
        """Take the model that clients start from next: an engine's that combines by itself.

        It is public from here on. A model of another layout is an error: its rounds cannot be
        compared with those before.
        """
        arrays = self._arrays(model)
        if {name: array.shape for name, array in arrays.items()} != self.layout.shapes:
            raise UpdatesError("the model must have the arrays of the one before, got others")
        self._fixed = self._own_copies(arrays)
        known = self.state.history
        self._publish(self.layout.flatten(arrays.items()), self.state.model)
        if self._pending is None and self.state.history is not known:
            # Between rounds: what judges said of the newest model was of another one.
            self.state = replace(self.state, book=replace(self.state.book, latest={}))

    def _publish(self, vector: FloatArray, newest: FloatArray) -> None:
        # Where the beginning differs, nobody has to look at the rest.
        if all(np.array_equal(vector[part], newest[part]) for part in (slice(1000), slice(None))):
            return  # a round that changed nothing tells nobody anything
        self.state = replace(self.state, history=self.state.history.published(vector))

    def _arrays(self, model: Model) -> dict[str, Array]:
        if self._vector:
            array = as_array("the model", model)
            if array.ndim != 1:
                raise UpdatesError(f"a model must be a vector or a mapping, got {array.shape}")
            return {WHOLE: array}
        arrays = {str(name): as_array(str(name), value) for name, value in model.items()}
        check_names("arrays", model)
        return arrays

    def _own_copies(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the arrays that are not combined; a caller may go on to change its own."""
        names = [name for name in self.layout.shapes if name in self.layout.fixed]
        return {name: freeze(arrays[name].copy()) for name in names}

    # --- a round

    def settle(
        self,
        models: Mapping[str, Model] | None = None,
        sizes: Mapping[str, float] | None = None,
        *,
        updates: Mapping[str, Model] | None = None,
        labels: Mapping[str, str] | None = None,
        evaluate: Evaluate | None = None,
    ) -> Result:
        """Check, judge, combine, pay and write down one round.

        Parameters
        ----------
        models : mapping from client to model
            What clients trained, in the form of the server's model; or give `updates`.
        sizes : mapping from client to number, optional
            Claimed data sizes, also fractions. If one of the clients has none, all of them weigh
            the same in this round.
        updates : mapping from client to update
            Trained model minus the server's.
        labels : mapping from client to str, optional
            How clients call themselves; shown beside their ids.
        evaluate : callable, optional
            Gets the new model and returns metrics, which are recorded with the round.

        Returns
        -------
        Result
            A reply that cannot be used is among the `rejected`; it concerns that client only.

        Raises
        ------
        RoundFailedError
            Every reply was refused for the same reason, or no client has a size where weights are
            by size: the fault is not a client's.
        """
        if evaluate is not None and not callable(evaluate):
            raise SettingError(f"evaluate must be callable, got {evaluate!r}"[:200])
        result = self.judge(models, sizes, updates=updates, labels=labels)
        self._combine()
        try:
            if evaluate is not None:
                self.note(evaluate(self.model))
        finally:
            self.write()  # the round is over, whatever became of its metrics
        return result

    def judge(
        self,
        models: Mapping[str, Model] | None = None,
        sizes: Mapping[str, float] | None = None,
        *,
        updates: Mapping[str, Model] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Result:
        """Score, flag, weigh and pay; for engines that combine by themselves. See `settle`."""
        if (models is None) == (updates is None):
            got = "neither" if models is None else "both"
            raise SettingError(f"give models or updates, got {got}")
        replies, rejected = read_sent(
            self.sight,
            models if models is not None else updates,  # type: ignore[arg-type]
            None if models is None else self.state.model,
            {} if sizes is None else sizes,
            {} if labels is None else labels,
            vector=self._vector,
        )
        return self.judge_replies(replies, rejected)

    def judge_replies(self, replies: Replies, rejected: Sequence[Rejection] = ()) -> Result:
        """Judge replies that an engine has read, beside those that it had to refuse."""
        if self._closed:
            raise SettingError("a server must be open to settle a round, got one that was closed")
        self.write()
        self._fail_together(replies, rejected)
        if not replies.part and self.state.history.view.positions is not None:
            replies = replies.through(self.sight)
        number = self.state.round + 1
        worked, harmful = self._worked(), self.harmful()
        try:
            judged = judge_round(
                self.rules,
                self.state.history,
                replies,
                scoring_stream(self.seed, number),
                rejected=rejected,
                worked=worked,
                harmful=harmful,
                clock=self.clock,
            )
        except InvalidInputError as error:
            judged = skip_round(self.state.history, replies, rejected, str(error))
        self._judged = judged
        if self.rules.panel is not None:
            self._seated = judged
        self._pending = RoundRecord(
            number, judged.clients, judged.rejected, agreement=judged.agreement
        )
        self.state = replace(self.state, round=number, history=judged.history)
        return Result.of(self._pending, judged.contributions)

    def combine(self) -> Any:
        """Combine the judged replies by the rules; return the new model, which is public now.

        The model stays as it was where the round was skipped, where everybody was excluded, and
        where it would not be finite.
        """
        self._combine()
        return self.model

    def _combine(self) -> None:
        if self._judged is None:
            raise SettingError("a round must be judged before it is combined, got none")
        judged, self._judged = self._judged, None
        if not judged.weights.any():
            return
        before = judged.start
        if judged.replies.models is not None and self.rules.averages and self._touched is None:
            vector = combine_models(judged, self.layout, self.clock)
        else:
            change = combine_round(self.rules, judged, touched=self._touched, clock=self.clock)
            vector = (before + change).astype(self.layout.dtype, copy=False)
        sent = self.layout.as_sent(vector)
        if sent is not None:
            self._publish(sent, before)

    def candidates(self, judges: Iterable[str] | None = None) -> Iterator[Candidate]:
        """Yield the models that clients are to judge on their own data, after `combine`.

        Each is made when it is asked for: keep none longer than it takes to send it.

        Parameters
        ----------
        judges : clients, optional
            Who can judge now; by default those whose replies were judged.
        """
        if self.rules.panel is None:
            raise SettingError("candidates need a panel, got a server without one")
        if self._seated is None or self._pending is None:
            raise SettingError("a round must be judged before it has candidates, got none")
        judged, number = self._seated, self.state.round
        bench = seat(self.rules.panel, judged, number, self.state.model)
        asked = list(judged.replies.clients if judges is None else dict.fromkeys(map(str, judges)))
        bench.ask(asked, self.state.book, panel_stream(self.seed, number), apart_of(judged))
        self._bench = bench
        return self._candidates(bench)

    def _candidates(self, bench: Bench) -> Iterator[Candidate]:
        for key, judge, vector, current in bench:
            arrays = self.layout.cut(vector)
            yield Candidate(key, judge, self._formed(arrays), current)

    def hear(self, judgements: Answers) -> Heard:
        """Take what judges found, by the candidates' keys; return what clients are worth.

        What cannot be used (late, twice, out of range, to a question nobody asked) is among the
        `refused` with a reason, and concerns nobody else.
        """
        panel = self.rules.panel
        if panel is None or self._bench is None or self._seated is None or self._pending is None:
            raise SettingError("judgements must be of the round under way, got none asked for")
        read = self._bench.read(judgements)
        book, heard = hear(panel, self.state.book, read, weights_of(self._seated))
        self.state = replace(self.state, book=book)
        worked, sizes = self._worked(), sizes_of(self._seated)
        self._pending = with_values(self._pending, heard, read.digests, self.rules, worked, sizes)
        self._bench = self._seated = None
        return heard

    def _worked(self) -> dict[str, int]:
        """Return in how many rounds each client worked and was not flagged."""
        return {name: total.rounds - total.flagged for name, total in self.state.totals.items()}

    def harmful(self) -> list[str]:
        """Return who is said to harm the model, as far as the panel's rounds tell."""
        panel = self.rules.panel
        return [] if panel is None else harmful(self.state.book.against, panel.rate)

    def note(self, metrics: Mapping[str, float]) -> None:
        """Add metrics, or seconds of the engine's own phases, to the round that is under way."""
        if not isinstance(metrics, Mapping):
            raise SettingError(f"metrics must be a mapping from name to number, got {metrics!r}")
        if self._pending is not None:
            found = {str(name): _number(name, value) for name, value in metrics.items()}
            known = {**self._pending.metrics, **found}
            self._pending = replace(self._pending, metrics=known)

    def write(self) -> RoundRecord | None:
        """Write down the round that is over: totals, state file, ledger; return its record.

        Where that fails, the error is raised, and the round waits: whatever is called next tries
        again, and no round is judged before. A `record` that failed gets the round again.
        """
        if self._pending is not None:
            self._unwritten = replace(self._pending, seconds=self.clock.seconds)
            self._pending, self._judged, self.clock.seconds = None, None, {}
            self._seated = self._bench = None
        record = self._unwritten
        if record is not None:
            totals = with_round(self.state.totals, record)
            after = replace(self.state, totals=totals, record=record)
            # The state first: a ledger that misses the newest round is given it by `load`.
            if self._state_path is not None:
                self._save(self._state_path, after)
            if self._keep is not None:
                self._keep(record)
            self.state, self._unwritten, self._untold = after, None, record
        record, self._untold = self._untold, None
        if record is not None and self._record is not None:
            try:
                self._record(record)
            except BaseException:
                self._untold = record
                raise
        return record

    def _fail_together(self, replies: Replies, rejected: Sequence[Rejection]) -> None:
        """Stop where every reply fails for one cause: no client can help that."""
        several = len(replies.clients) > 1
        if self.rules.weighting == "size" and several and not any(replies.num_examples):
            raise RoundFailedError(NO_SIZES)
        refused = [refusal for refusal in rejected if refusal.kind is Kind.REFUSED]
        if len(replies.clients) or len(refused) < 2:
            return
        first = refused[0]
        if first.fault is not None and all(other.fault == first.fault for other in refused):
            raise RoundFailedError(f"all {len(refused)} replies were refused: {first.reason}")

    # --- what is known

    def verdicts(self, rate: float | None = None) -> list[Verdict]:
        """Return what evidence over rounds says of every client, most suspicious first.

        `rate` is the false discovery rate at which clients are named; by default the scorer's.
        """
        used = (self.rules.needs.naming or NAMING_RATE) if rate is None else rate
        return verdicts_of(self.state.history.wealth, used)

    def contributions(self) -> dict[str, Total]:
        """Return what every client's rounds have come to so far."""
        return dict(self.state.totals)

    def _repr_html_(self) -> str:
        """Show what every client's rounds have come to so far, most weight first."""
        types = {"client": "string", "label": "string", "rounds": "int64", "score": "float64"}
        types |= {"weight": "float64", "reward": "int64", "flagged": "int64", "rejected": "int64"}
        totals = sorted(self.state.totals.items(), key=lambda item: (-item[1].weight, item[0]))
        rows = [{"client": client, **vars(total)} for client, total in totals]
        return to_html(Table(f"After {self.round} rounds", types, rows))

    def report(self, path: Path_) -> Path:
        """Write the page about the run so far; needs a ledger."""
        if self._ledger_path is None:
            raise SettingError("a report is made from the ledger, got a server without one")
        from fedmerit.report import open_source, write_report

        self.write()
        write_report(open_source(self._ledger_path), Path(path))
        return Path(path)

    # --- keeping it

    def save(self, path: Path_) -> None:
        """Write the state into one file, whole or not at all."""
        place = check_path("path", path)
        self.write()
        self._save(place, self.state)

    def _save(self, path: Path, state: ServerState) -> None:
        arrays, meta = state_arrays(state)
        places = {"layers": self._layers, "scored": self._scored, "touched": self._touched}
        for name, positions in places.items():
            if positions is not None:
                arrays[name] = np.asarray(positions)
        for number, values in enumerate(self._fixed.values()):
            arrays[f"fixed-{number}"] = values
        for number, values in enumerate(self.beside.values()):
            arrays[f"beside-{number}"] = values
        kinds = {name: str(dtype) for name, dtype in self.layout.dtypes.items()}
        meta |= {
            "software": __version__,
            "run": self._run,
            "seed": self.seed,
            "about": {key: _as_text(value) for key, value in self._about.items()},
            "ledger": None if self._ledger_path is None else str(self._ledger_path),
            "rules": to_plain(self.rules),
            "vector": self._vector,
            "arrays": [[name, list(self.layout.shapes[name]), kinds[name]] for name in kinds],
            "fixed": list(self._fixed),
            "beside": list(self.beside),
        }
        write_state(path, arrays, meta)

    @classmethod
    def load(
        cls,
        path: Path_,
        *,
        rules: RoundRules | None = None,
        ledger: Path_ | None = None,
        key: SigningKey | None = None,
        state: Path_ | None = None,
        record: Callable[[RoundRecord], None] | None = None,
    ) -> Self:
        """Return the server that was saved; it goes on with the same bits.

        Parameters
        ----------
        path : path
        rules : RoundRules, optional
            Only where the state holds a scorer or reward rule of your own, or to change them; the
            rules of a run in a ledger do not change, but for who is registered.
        ledger : path, optional
            Where the ledger lies now, if it was moved; the run in it is continued.
        key : SigningKey, optional
            The key that the run was started with, if it is signed.
        state, record
            As for a new server.

        Raises
        ------
        CheckpointError
            The file is damaged, of another kind, or from a newer version, or the ledger is not
            where it was; nothing is changed.
        """
        arrays, meta = read_state(check_path("path", path))
        try:
            known = from_plain(meta["rules"]) if rules is None else rules
            parts = {name: np.zeros(shape, kind) for name, shape, kind in meta["arrays"]}
            server = cls(
                parts[WHOLE] if meta["vector"] else parts,
                rules=known,
                key=key,
                seed=meta["seed"],
                state=state,
                record=record,
                about=meta["about"],
                **{name: arrays.get(name) for name in ("layers", "scored", "touched")},  # type: ignore[arg-type]
            )
            stored = state_from(
                arrays,
                meta,
                server.layout.scored if server._scored is None else server._scored,
            )
            history = stored.history.through(server.state.history.view)
            server.state = replace(stored, history=history)
            server._run = meta["run"]
            # An engine may have made them another type since, which changes no layout.
            server._fixed = {
                name: freeze(arrays[f"fixed-{number}"]) for number, name in enumerate(meta["fixed"])
            }
            names = enumerate(meta.get("beside", ()))
            server.beside = {name: arrays[f"beside-{number}"] for number, name in names}
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} cannot be read as a state: {error}") from None
        where = meta["ledger"] if ledger is None else ledger
        if where is not None:
            if others := differences(meta["rules"], to_plain(server.rules)):
                raise CheckpointError(
                    f"the run of {where} must go on with the rules that it records, got another "
                    f"{', '.join(others)}: start with those, or with a new run"
                )
            server._ledger_path = check_path("ledger", where)
            if not server._ledger_path.exists():
                raise CheckpointError(
                    f"{path} continues the ledger {where}, which is not there; if it was moved, "
                    "give its place as ledger=..."
                )
            server._open_ledger(resume=True)
        return server

    def _open_ledger(self, *, resume: bool) -> None:
        assert self._ledger_path is not None, "only called where there is one"
        settings = {**self._about, **self.rules.settings(), "seed": self.seed}
        plain = {name: _as_text(value) for name, value in settings.items()}
        self._ledger = Ledger.open(self._ledger_path, key=self._key)
        try:
            self._keep = RunRecorder(
                self._ledger, plain, __version__, fingerprint=self._run, resume=resume
            )
            self._keep.catch_up(self.state.record or RoundRecord(0, ()))
        except BaseException:
            self._ledger.close()
            raise

    def close(self) -> None:
        """Write down what is under way and close the ledger; no round is settled after that.

        A server whose round cannot be written stays open, so that this can be tried again.
        """
        self.write()
        self._shut()

    def _shut(self) -> None:
        self._closed = True
        if self._ledger is not None:
            self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.close()
        finally:
            self._shut()  # nobody is left to try again


def _check_rows(touched: NDArray[np.int64], parameters: int) -> NDArray[np.int64]:
    rows = check_positions("touched", touched, below=2**31)
    if len(rows) > parameters:
        raise UpdatesError(f"touched must be of at most {parameters} parameters, got {len(rows)}")
    if (np.diff(rows) < 0).any():
        raise UpdatesError("touched must not decrease: the parameters of a row lie together")
    return rows


def _number(name: object, value: Any) -> float:
    """Return a metric as a plain number, whatever library it is from."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise SettingError(f"metrics must be numbers, got {value!r} for {name}"[:200]) from None


def _as_text(value: object) -> int | float | str | None:
    return value if isinstance(value, int | float | str | None) else repr(value)
