"""A server keeps what scores look at, and no more; what it finds is what it would find with all."""

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np
import pytest

from fedmerit import Kind, Merit, RoundRules, Server
from fedmerit.errors import CheckpointError, SettingError
from fedmerit.evidence.past import Forecast
from fedmerit.sampling import restrict
from fedmerit.server.replies import Rows
from fedmerit.server.state import read_state, write_state
from tests.server.federation import CLIENTS, PARAMETERS, SHAPES, cut, facts, model, updates

SAMPLE = 2500
SHAPES_WITH_STATISTICS = SHAPES | {"norm.weight": (40,), "norm.running_var": (400,)}


@dataclass
class Looks:
    """Merit, noting what it is given; with `positions`, given everything, it looks at these."""

    positions: np.ndarray | None = None
    seen: list = field(default_factory=list)
    models: list = field(default_factory=list)
    forecast: Forecast = field(default_factory=Forecast)
    parameters: int = 0

    @property
    def needs(self):
        needs = Merit(sample=SAMPLE).needs
        return needs if self.positions is None else replace(needs, sample=None)

    def score(self, inputs, rng):
        self.parameters = inputs.parameters
        if self.positions is not None:
            inputs = self._forecast(restrict(inputs, self.positions))
        self.seen.append(inputs)
        result = Merit(sample=SAMPLE if self.positions is None else None).score(inputs, rng)
        if self.positions is None:
            return result
        whole = np.zeros((inputs.clients, self.parameters), result.testimony.dtype)
        whole[:, self.positions] = result.testimony
        return replace(result, testimony=whole)

    def _forecast(self, inputs):
        """Forecast from what is looked at instead of from everything."""
        self.models.append(inputs.public[min(len(self.models), 1)])
        self.forecast = self.forecast.after(self.models)
        public, forecast = inputs.public[: len(self.models)], self.forecast.of(self.models)
        return replace(inputs, public=public if forecast is None else np.stack([*public, forecast]))


def federation(form, scorer, **settings):
    shapes = SHAPES_WITH_STATISTICS if form == "statistics" else SHAPES
    first = model(sum(int(np.prod(shape)) for shape in shapes.values()))
    start = first if form == "vector" else cut(first, shapes)
    return Server(start, seed=5, scorer=scorer, reward="positive:budget=1000", **settings)


def step(server, form, number, send="updates", past=()):
    shapes = SHAPES_WITH_STATISTICS if form == "statistics" else SHAPES
    size = server.layout.parameters
    sent = updates(number, parameters=size)
    if past:
        sent["old"] = past[0]  # a global update that was sent out long ago
        sent["own"] = updates(1 + number % 2, ("own",), size)["own"]  # two that it sent before
    elif number <= 2:
        sent["own"] = updates(number, ("own",), size)["own"]
    if send == "models":
        sent = {client: server.state.model + update for client, update in sent.items()}
    if form != "vector":
        sent = {client: cut(update, shapes) for client, update in sent.items()}
    return server.settle(**{send: sent}, sizes={client: 500 + len(client) for client in sent})


@pytest.mark.parametrize("send", ["updates", "models"])
@pytest.mark.parametrize("form", ["vector", "mapping", "statistics"])
def test_what_is_kept_is_what_is_looked_at_and_gives_the_same_bits(form, send):
    part = federation(form, Looks())
    positions = part.state.history.view.positions
    whole = federation(form, Looks(positions))
    models = [whole.state.model]
    for number in range(1, 7):
        past = [] if number < 5 else [models[1] - models[0]]
        found = [step(server, form, number, send, past) for server in (part, whole)]
        assert facts(found[0]) == facts(found[1])
        np.testing.assert_array_equal(part.state.model, whole.state.model)
        for name in ("updates", "public", "previous", "testimony", "layers"):
            ours, theirs = (getattr(s.rules.scorer.seen[-1], name) for s in (part, whole))
            np.testing.assert_array_equal(ours, theirs)
        models.append(whole.state.model)
    assert SAMPLE - 500 < len(positions) < PARAMETERS
    if form == "statistics":
        assert positions.max() < PARAMETERS + 40, "running statistics are not looked at"


def test_replays_and_own_old_work_are_found_in_the_sample():
    server = federation("vector", Merit(sample=SAMPLE))
    models = [server.state.model]
    for number in range(1, 9):
        past = [] if number < 5 else [models[1] - models[0]]
        found = step(server, "vector", number, past=past)
        models.append(server.state.model)
        if past:
            assert found.flags["old"].kind is Kind.EXPLAINED
            assert found.flags["own"].kind in {Kind.REPEATED, Kind.NAMED}
            assert found.weights["old"] == found.weights["own"] == 0


def test_memory_does_not_grow_with_clients_times_parameters():
    server = federation("vector", Merit(sample=500), older=3)
    for number in range(1, 6):
        names = [f"{client} {number}" for client in CLIENTS]
        server.settle(updates=updates(number, names, rider=None))
    history = server.state.history
    assert len(history.previous) == 5 * len(CLIENTS)
    assert len(history.models) == 4
    kept = [
        *history.models,
        *(report for reports in history.previous.values() for report in reports),
        *history.testimony.values(),
    ]
    assert {len(vector) for vector in kept} == {len(history.view.positions)}
    assert len(history.view.positions) < PARAMETERS / 3
    assert all(vector.base is None for vector in kept), "no view keeps a whole vector alive"
    assert history.model.shape == (PARAMETERS,)


def test_the_sample_is_secret_and_stays_for_the_run(tmp_path):
    positions = [
        Server(model(), scorer=Merit(sample=500), seed=seed).state.history.view.positions
        for seed in (None, None, 1, 1, 2)
    ]
    assert not np.array_equal(positions[0], positions[1])
    np.testing.assert_array_equal(positions[2], positions[3])
    assert not np.array_equal(positions[3], positions[4])
    server = Server(model(), scorer=Merit(sample=500))
    before = server.state.history.view.positions
    server.settle(updates=updates(1))
    server.save(tmp_path / "state")
    assert (tmp_path / "state").stat().st_mode & 0o77 == 0, "nobody else may read it"
    loaded = Server.load(tmp_path / "state")
    np.testing.assert_array_equal(loaded.state.history.view.positions, before)


def test_small_models_and_scorers_that_want_all_are_looked_at_whole():
    for scorer in (Merit(), Merit(sample=None), "exact", None):
        server = Server(model(), scorer=scorer)
        assert server.state.history.view.positions is None
        assert server.state.history.models[-1] is server.state.model


@pytest.mark.parametrize("form", ["vector", "statistics"])
def test_a_server_that_looks_at_a_sample_goes_on_with_the_same_bits(form, tmp_path):
    whole, saved = (federation(form, Merit(sample=SAMPLE)) for _ in range(2))
    for number in range(1, 5):
        assert facts(step(saved, form, number)) == facts(step(whole, form, number))
        saved.save(tmp_path / "state")
        saved = Server.load(tmp_path / "state")
        np.testing.assert_array_equal(saved.state.model, whole.state.model)


def with_version(path, version):
    """Make the file that was just written one of an older version, whose digest has no title."""
    content = path.read_bytes().partition(b"\n")[2][32:]
    path.write_bytes(b"fedmerit state %d\n" % version + sha256(content).digest() + content)


def as_version_2(server, path):
    """Save a server as files were before there was testimony."""
    server.save(path)
    arrays, meta = read_state(path)
    del arrays["testimony"], meta["witnesses"], meta["version"]
    write_state(path, arrays, meta)
    with_version(path, 2)


@pytest.mark.parametrize("form", ["vector", "statistics"])
def test_a_file_without_testimony_is_continued_by_reports_alone(form, tmp_path):
    server = federation(form, Merit(sample=SAMPLE))
    for number in (1, 2):
        step(server, form, number)
    as_version_2(server, tmp_path / "old")
    loaded = Server.load(tmp_path / "old")
    assert loaded.state.history.testimony == {}
    server.state = replace(server.state, history=replace(server.state.history, testimony={}))
    for number in (3, 4):
        assert facts(step(loaded, form, number)) == facts(step(server, form, number))


def damage(name):
    """Return how arrays and plain values of a state are spoiled."""
    return {
        "fewer": lambda arrays, _meta: arrays.update(testimony=arrays["testimony"][1:]),
        "narrower": lambda arrays, _meta: arrays.update(testimony=arrays["testimony"][:, 1:]),
        "missing": lambda arrays, _meta: arrays.pop("testimony"),
        "twice": lambda _arrays, meta: meta["witnesses"].__setitem__(1, meta["witnesses"][0]),
        "nobody's": lambda _arrays, meta: meta.update(witnesses=[]),
        "not finite": lambda arrays, _meta: arrays.update(testimony=arrays["testimony"] * np.nan),
    }[name]


@pytest.mark.parametrize("how", ["fewer", "narrower", "missing", "twice", "nobody's", "not finite"])
def test_testimony_that_no_server_has_is_refused(how, tmp_path):
    server, path = federation("vector", Merit(sample=SAMPLE)), tmp_path / "state"
    step(server, "vector", 1)
    server.save(path)
    arrays, meta = read_state(path)
    del meta["version"]
    damage(how)(arrays, meta)
    write_state(path, arrays, meta)
    with pytest.raises(CheckpointError, match="testimony of a state must"):
        Server.load(path)


def test_a_row_of_a_loaded_state_keeps_no_other_rows(tmp_path):
    server, path = federation("vector", Merit(sample=SAMPLE)), tmp_path / "state"
    step(server, "vector", 1)
    server.save(path)
    history = Server.load(path).state.history
    kept = [*history.testimony.values(), *(r for rows in history.previous.values() for r in rows)]
    assert all(row.base is None for row in kept)


def as_version_1(server, models, path):
    """Save a server as files were before there was a view: whole models, reports as scored."""
    server.save(path)
    arrays, meta = read_state(path)
    for name in ("model", "positions", "layers seen", "testimony"):
        arrays.pop(name, None)
    arrays["models"] = np.stack(models)
    del meta["sampled"], meta["version"], meta["witnesses"]
    write_state(path, arrays, meta)
    with_version(path, 1)


@pytest.mark.parametrize("form", ["vector", "statistics"])
def test_a_file_of_the_version_before_is_continued(form, tmp_path):
    """With the same bits where all is looked at; else with its past at the new sample.

    Only what clients have told is missing, as it is of a server that has lost it.
    """
    server, models = federation(form, Merit(sample=None)), []
    models.append(server.state.model)
    for number in (1, 2):
        step(server, form, number)
        models.append(server.state.model)
    as_version_1(server, models, tmp_path / "old")
    same = Server.load(tmp_path / "old")
    fewer = Server.load(tmp_path / "old", rules=RoundRules(Merit(sample=SAMPLE)))
    view, history = fewer.state.history.view, fewer.state.history
    for mine, theirs in zip(history.models, models, strict=True):
        np.testing.assert_array_equal(mine, theirs[view.positions])
    known = server.state.history
    lookup = np.arange(len(models[0])) if known.view.positions is None else known.view.positions
    columns = np.searchsorted(lookup, view.positions)
    assert history.previous.keys() == known.previous.keys()
    for client, reports in history.previous.items():
        np.testing.assert_array_equal(reports, [r[columns] for r in known.previous[client]])
    forgot = replace(server.state, history=replace(known, testimony={}))
    server.state = forgot
    assert facts(step(same, form, 3)) == facts(step(server, form, 3))
    assert step(fewer, form, 3).flags["eve"].kind in {Kind.INDEPENDENT, Kind.NAMED}


def test_a_scorer_that_wants_all_after_a_sample_begins_with_no_past(tmp_path):
    server = federation("vector", Merit(sample=SAMPLE))
    for number in (1, 2):
        step(server, "vector", number)
    server.save(tmp_path / "state")
    other = Server.load(tmp_path / "state", rules=RoundRules(Merit(sample=None)))
    assert other.state.history.view.positions is None
    assert other.state.history.previous == {}
    assert [len(seen) for seen in other.state.history.models] == [PARAMETERS]
    assert other.state.history.wealth == server.state.history.wealth
    assert other.state.history.trust == server.state.history.trust


class Fetched(Mapping):
    """Replies that are made when they are asked for; notes how many are alive at once."""

    class Reply(np.ndarray):
        """Can be watched."""

    def __init__(self, number, clients):
        self.number, self.clients, self.alive, self.most = number, clients, 0, 0

    def __getitem__(self, client):
        reply = updates(self.number, (client,), rider=None)[client].view(self.Reply)
        self.alive += 1
        self.most = max(self.most, self.alive)
        weakref.finalize(reply, self._gone)
        return reply

    def _gone(self):
        self.alive -= 1

    def __iter__(self):
        return iter(self.clients)

    def __len__(self):
        return len(self.clients)


@pytest.mark.parametrize("send", ["updates", "models"])
def test_replies_that_are_fetched_when_asked_for_are_there_one_at_a_time(send):
    names = [f"client {number:02}" for number in range(30)]
    fetched = Fetched(1, names)
    server, other = (Server(model(), scorer=Merit(sample=500), seed=1) for _ in range(2))
    result = server.settle(**{send: fetched})
    assert fetched.most <= 2, "the one that is read, and the one before it"
    assert facts(other.settle(**{send: dict(fetched)})) == facts(result)
    np.testing.assert_array_equal(server.model, other.model)


def test_parts_of_updates_are_not_combined_as_if_they_were_whole():
    server = Server(model(), scorer=Merit(sample=500), seed=1)
    rows = Rows(server.sight, len(CLIENTS))
    for row, update in enumerate(updates(1).values()):
        rows.add(row, update)
    server.judge_replies(
        rows.replies(range(len(CLIENTS)), clients=CLIENTS, num_examples=[1] * len(CLIENTS))
    )
    with pytest.raises(SettingError, match="whole updates must be there"):
        server.combine()
