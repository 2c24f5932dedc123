"""One file with a server in it: it goes on with the same bits, or says why it cannot."""

import contextlib
import copy
import os
import pickletools
import random
import subprocess
import sys
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from fedmerit import ConditionalPCA, Ledger, Merit, PublishedPCA, RoundRules, Server
from fedmerit.errors import CheckpointError, FedMeritError, LedgerError
from fedmerit.ledger import SigningKey
from fedmerit.server.state import VERSION, read_state, write_state
from fedmerit.types import Contributions
from tests.server.federation import cut, facts, model, new, updates

ROOT = Path(__file__).parents[2]
PAYING = {"reward": "positive:budget=1000"}
SCORERS = {
    "merit": {"scorer": Merit()},
    "gated": {"scorer": "merit", "weighting": "gated", "norm_bound": 3.0},
    "conditional": {"scorer": ConditionalPCA()},
    "published": {"scorer": PublishedPCA(), "weighting": "score", "rule": "median"},
    "reputation": {"scorer": "reputation"},
}
SIZES = {"ann": 3, "bob": 4, "cat": 5}


def start(form, **settings):
    return Server(model() if form == "vector" else cut(model()), **{"seed": 5, **settings})


def step(server, form, number):
    sent = updates(number)
    if number > 1:
        sent["zed"] = np.array(server.state.history.updates[0])  # a replayer, from round 2 on
    if number == 2:
        sent["bob"] = sent["bob"] * np.nan
    if form == "mapping":
        sent = {client: cut(update) for client, update in sent.items()}
    return facts(server.settle(updates=sent, sizes={c: SIZES.get(c, 7) for c in sent}))


def as_vector(given):
    if isinstance(given, np.ndarray):
        return given
    return np.concatenate([array.reshape(-1) for array in given.values()])


def content(path):
    with Ledger.open(path, read_only=True) as ledger:
        assert ledger.verify().ok
        return [repr(replace(record, seconds={})) for record in ledger.rounds()]


@pytest.mark.parametrize("form", ["vector", "mapping"])
@pytest.mark.parametrize("scorer", SCORERS)
def test_a_loaded_server_goes_on_with_the_same_bits(form, scorer, tmp_path):
    settings = SCORERS[scorer] | PAYING
    whole = start(form, ledger=tmp_path / "whole.ledger", **settings)
    saved = start(form, ledger=tmp_path / "saved.ledger", **settings)
    path = tmp_path / "server.state"
    for number in (1, 2, 3, 4):
        assert step(saved, form, number) == step(whole, form, number)
        saved.save(path)
        saved.close()
        saved = Server.load(path)
        assert saved.round == number
        assert saved.rules == whole.rules
        assert saved.contributions() == whole.contributions()
        assert saved.verdicts() == whole.verdicts()
        np.testing.assert_array_equal(as_vector(saved.model), as_vector(whole.model))
        assert as_vector(saved.model).dtype == np.float32
    saved.close()
    whole.close()
    assert content(tmp_path / "saved.ledger") == content(tmp_path / "whole.ledger")
    with Ledger.open(tmp_path / "saved.ledger") as ledger:
        assert [run.rounds for run in ledger.runs()] == [4]


def test_the_same_state_is_the_same_file(tmp_path):
    with new() as server:
        server.settle(updates=updates(1))
        server.save(tmp_path / "a")
        server.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    Server.load(tmp_path / "a").save(tmp_path / "c")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "c").read_bytes()


def test_arrays_of_all_types_come_back(tmp_path):
    given = cut(model()) | {
        "half": np.ones(7, np.float16),
        "in.running_mean": np.zeros(30, np.float32),
        "double": np.ones((2, 2), np.float64),
        "count": np.array(4, np.int64),
        "mask": np.array([True, False]),
        "big": np.ones(3, ">f4"),
        "empty": np.zeros((0, 3), np.float32),
    }
    server = Server(given, seed=1)
    server.save(tmp_path / "a")
    loaded = Server.load(tmp_path / "a")
    for name, array in given.items():
        np.testing.assert_array_equal(loaded.model[name], array)
        assert loaded.model[name].dtype == array.dtype
        assert loaded.model[name].shape == array.shape
    assert list(loaded.model) == list(given)
    assert loaded.layout == server.layout


def test_a_counter_that_an_engine_made_a_float_is_still_no_parameter(tmp_path):
    # Flower's FedAvg averages an int64 counter of batch normalisation into a float64.
    given = cut(model()) | {"count": np.array(4, np.int64)}
    server = Server(given, seed=1)
    server.publish(given | {"count": np.array(4.5)})
    server.save(tmp_path / "a")
    loaded = Server.load(tmp_path / "a")
    assert loaded.layout == server.layout
    assert loaded.model["count"] == 4.5
    sent = {c: cut(u) | {"count": np.array(1.0)} for c, u in updates(1).items()}
    assert facts(loaded.settle(updates=sent)) == facts(server.settle(updates=sent))


def test_a_server_before_its_first_round_can_be_saved(tmp_path):
    server = new()
    server.save(tmp_path / "a")
    loaded = Server.load(tmp_path / "a")
    sent = updates(1)
    assert facts(loaded.settle(updates=sent)) == facts(server.settle(updates=sent))


def test_what_is_remembered_has_the_same_limits(tmp_path):
    server = new(older=2, remembered=3)
    for number in (1, 2, 3, 4):
        server.settle(updates=updates(number))
    server.save(tmp_path / "a")
    loaded = Server.load(tmp_path / "a")
    for kept in (server, loaded):
        kept.settle(updates=updates(5))
        assert len(kept.state.history.models) == 3
        assert len(kept.state.history.previous) == 3
    assert list(loaded.state.history.previous) == list(server.state.history.previous)


def test_places_of_parameters_are_kept(tmp_path):
    places = {
        "layers": np.arange(len(model())) // 500,
        "scored": np.arange(0, len(model()), 2),
        "touched": np.repeat(np.arange(20), 5),
    }
    whole, saved = new(**places), new(**places)
    for number in (1, 2):
        assert facts(saved.settle(updates=updates(number))) == facts(
            whole.settle(updates=updates(number))
        )
        saved.save(tmp_path / "a")
        saved = Server.load(tmp_path / "a")
    np.testing.assert_array_equal(saved.model, whole.model)


def test_clients_and_labels_may_be_any_text(tmp_path):
    names = ["ann\n", "böb", "a/b", "  ", "\x00", "💥"]
    sent = dict(zip(names, updates(1, clients=names, rider=None).values(), strict=True))
    with new(ledger=tmp_path / "a.ledger", **PAYING) as server:
        server.settle(updates=sent, labels=dict.fromkeys(names, "ä\ud800"))
        server.save(tmp_path / "a")
        told = server.contributions()
    with Server.load(tmp_path / "a") as loaded:
        assert loaded.contributions() == told
    assert len(content(tmp_path / "a.ledger")) == 1


# --- files that are no state


@pytest.fixture
def small(tmp_path):
    """A small state beside its ledger."""
    with Server(np.zeros(40, np.float32), seed=1, ledger=tmp_path / "a.ledger", **PAYING) as server:
        server.settle(updates=updates(1, parameters=40))
        server.save(tmp_path / "a.state")
    return tmp_path / "a.state", tmp_path / "a.ledger"


def refused(path, ledger, match="."):
    before = ledger.read_bytes()
    with pytest.raises(CheckpointError, match=match) as raised:
        Server.load(path)
    assert str(path) in str(raised.value)
    assert ledger.read_bytes() == before
    return str(raised.value)


@pytest.mark.parametrize("tenths", range(10))
def test_a_truncated_file_is_refused(tenths, small):
    path, ledger = small
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * tenths // 10])
    refused(path, ledger)
    path.write_bytes(whole[:-1])
    refused(path, ledger, "damaged")
    path.write_bytes(whole + b"x")
    refused(path, ledger, "damaged")


def test_any_flipped_bit_is_found(small):
    path, ledger = small
    whole = path.read_bytes()
    source = random.Random(3)
    head = range(8 * 60)  # title, version, digest, and the beginning of the arrays
    positions = [*head, *(source.randrange(8 * len(whole)) for _ in range(300))]
    for position in positions:
        broken = bytearray(whole)
        broken[position // 8] ^= 1 << position % 8
        path.write_bytes(broken)
        refused(path, ledger)
    path.write_bytes(whole)
    Server.load(path).close()


@pytest.mark.parametrize("bytes_", [b"", b"\n", b"fedmerit state 1\n", b"PK\x03\x04" * 50])
def test_a_foreign_file_is_refused(bytes_, small):
    path, ledger = small
    path.write_bytes(bytes_)
    refused(path, ledger)


def test_an_array_file_is_no_state(small):
    path, ledger = small
    with path.open("wb") as file:
        np.savez(file, models=np.zeros(3))
    refused(path, ledger, "is no state of a fedmerit server")


def test_a_ledger_is_no_state(small):
    _, ledger = small
    refused(ledger, ledger, "is no state of a fedmerit server")


def test_a_newer_version_is_named(small):
    path, ledger = small
    newer = b"fedmerit state %d\n" % (VERSION + 1)
    path.write_bytes(path.read_bytes().replace(b"fedmerit state %d\n" % VERSION, newer, 1))
    refused(
        path, ledger, f"must have version 1 to {VERSION}, got {VERSION + 1}; use the fedmerit that"
    )


def test_a_missing_file_and_a_folder_are_refused(tmp_path, small):
    _, ledger = small
    refused(tmp_path / "none", ledger, "cannot read")
    refused(tmp_path, ledger, "cannot read")


def test_a_place_that_cannot_be_written_is_an_error_and_the_round_is_kept(tmp_path):
    (tmp_path / "file").touch()
    server = new()
    server.settle(updates=updates(1))
    with pytest.raises(CheckpointError, match="cannot write"):
        server.save(tmp_path / "file" / "a.state")
    assert server.round == 1


def test_nothing_is_pickled(small):
    path, _ = small
    with path.open("rb") as file:
        file.readline()
        file.read(32)
        archive = file.read()
    part = path.with_suffix(".npz")
    part.write_bytes(archive)
    with np.load(part, allow_pickle=False) as arrays:
        assert all(arrays[name].dtype.hasobject is False for name in arrays)
    with zipfile.ZipFile(part) as opened:
        for name in opened.namelist():
            data = opened.read(name)
            assert data.startswith(b"\x93NUMPY")
            with pytest.raises(ValueError):
                list(pickletools.genops(data))
    assert b"cfedmerit" not in archive
    assert b"\x80\x04\x95" not in archive


@pytest.mark.slow
def test_save_is_whole_or_not_at_all(tmp_path):
    child = subprocess.run(
        [sys.executable, "-m", "tests.server.saving_child", str(tmp_path / "a.state")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) > 0, "some were killed with half a file written"


def test_an_interrupted_write_leaves_the_file_before(tmp_path, monkeypatch):
    server = new()
    server.settle(updates=updates(1))
    server.save(tmp_path / "a")
    before = (tmp_path / "a").read_bytes()
    server.settle(updates=updates(2))

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left"):
        server.save(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


# --- rules of one's own


@dataclass(frozen=True)
class Sum:
    """A scorer of one's own."""

    def score(self, inputs, rng):
        del rng
        return Contributions.of("sum", inputs.updates.sum(axis=1, dtype=np.float64))


def test_a_scorer_of_ones_own_must_be_given_again(tmp_path):
    rules = RoundRules(scorer=Sum(), reward="positive:budget=1000")
    whole, saved = new(rules=rules), new(rules=rules)
    for server in (whole, saved):
        server.settle(updates=updates(1))
    saved.save(tmp_path / "a")
    with pytest.raises(CheckpointError, match=r"scorer must be given.*Server\.load\(path, rules="):
        Server.load(tmp_path / "a")
    loaded = Server.load(tmp_path / "a", rules=rules)
    assert facts(loaded.settle(updates=updates(2))) == facts(whole.settle(updates=updates(2)))


def test_a_class_that_only_has_our_name_is_ones_own(tmp_path):
    named = type("Merit", (Sum,), {})
    server = new(scorer=named())
    server.save(tmp_path / "a")
    with pytest.raises(CheckpointError, match="scorer must be given"):
        Server.load(tmp_path / "a")


# --- a state and its ledger


def test_a_ledger_that_misses_the_newest_round_gets_it(tmp_path):
    path, ledger = tmp_path / "a.state", tmp_path / "a.ledger"
    with new(ledger=ledger, **PAYING) as server:
        server.settle(updates=updates(1))
        server.settle(updates=updates(2))
        server.save(path)
    missed = ledger.read_bytes()
    with Server.load(path) as server:
        server.settle(updates=updates(3), evaluate=lambda _: {"accuracy": 0.5})
        server.save(path)
    expected = content(ledger)
    ledger.write_bytes(missed)
    assert content(ledger) == expected[:2]
    for _ in range(2):
        Server.load(path).close()
        assert content(ledger) == expected


def killed_before_the_ledger(tmp_path, rounds):
    """A server whose process ended after the state was written, before the ledger was."""
    server = new(ledger=tmp_path / "a.ledger", state=tmp_path / "a.state", **PAYING)
    for number in range(1, rounds):
        server.settle(updates=updates(number))

    def dies(_record):
        raise KeyboardInterrupt

    server._keep = dies
    with pytest.raises(KeyboardInterrupt):
        server.settle(updates=updates(rounds))
    server._ledger.close()


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_round_that_was_saved_but_not_recorded_is_recorded_on_load(rounds, tmp_path):
    killed_before_the_ledger(tmp_path, rounds)
    if rounds > 1:
        assert len(content(tmp_path / "a.ledger")) == rounds - 1
    with Server.load(tmp_path / "a.state") as server:
        assert server.round == rounds
        server.settle(updates=updates(rounds + 1))
    with new(ledger=tmp_path / "b.ledger", **PAYING) as whole:
        for number in range(1, rounds + 2):
            whole.settle(updates=updates(number))
    assert content(tmp_path / "a.ledger") == content(tmp_path / "b.ledger")
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        assert len(ledger.runs()) == 1


def test_a_ledger_that_is_ahead_of_the_state_is_an_error_that_says_so(tmp_path):
    path, ledger = tmp_path / "a.state", tmp_path / "a.ledger"
    with new(ledger=ledger) as server:
        server.settle(updates=updates(1))
        server.save(path)
        server.settle(updates=updates(2))
        server.settle(updates=updates(3))
    before = content(ledger)
    ends = "the state ends with round 1, the ledger with round 3"
    with pytest.raises(LedgerError, match=ends):
        Server.load(path)
    assert content(ledger) == before


def test_a_state_from_before_the_first_round_is_behind_its_ledger_too(tmp_path):
    path, ledger = tmp_path / "a.state", tmp_path / "a.ledger"
    with new(ledger=ledger) as server:
        server.save(path)
        server.settle(updates=updates(1))
    before = content(ledger)
    with pytest.raises(LedgerError, match="the state ends with round 0, the ledger with round 1"):
        Server.load(path)
    assert content(ledger) == before


def test_a_ledger_that_is_gone_is_an_error(tmp_path):
    path, ledger = tmp_path / "a.state", tmp_path / "a.ledger"
    with new(ledger=ledger) as server:
        server.settle(updates=updates(1))
        server.settle(updates=updates(2))
        server.save(path)
    ledger.rename(tmp_path / "moved.ledger")
    with pytest.raises(FedMeritError, match=r"a\.ledger"):
        Server.load(path)
    with Server.load(path, ledger=tmp_path / "moved.ledger") as server:
        server.settle(updates=updates(3))
    assert len(content(tmp_path / "moved.ledger")) == 3


def test_a_run_that_is_signed_goes_on_with_its_key_only(tmp_path):
    path, ledger = tmp_path / "a.state", tmp_path / "a.ledger"
    key, other = SigningKey.generate(), SigningKey.generate()
    with new(ledger=ledger, key=key) as server:
        server.settle(updates=updates(1))
        server.save(path)
    for wrong in (None, other):
        with pytest.raises(LedgerError):
            Server.load(path, key=wrong)
    with Server.load(path, key=key) as server:
        server.settle(updates=updates(2))
    assert len(content(ledger)) == 2


def test_a_server_with_a_state_file_saves_itself_after_every_round(tmp_path):
    path = tmp_path / "a.state"
    server = new(state=path)
    for number in (1, 2):
        server.settle(updates=updates(number))
        loaded = Server.load(path, state=path)
        assert loaded.round == number
        np.testing.assert_array_equal(loaded.model, server.model)
    loaded.settle(updates=updates(3))
    assert Server.load(path).round == 3


def test_a_judged_round_is_written_down_when_the_server_is_saved(tmp_path):
    server = new()
    server.judge(updates=updates(1))
    server.combine()
    server.save(tmp_path / "a")
    assert Server.load(tmp_path / "a").contributions() == server.contributions()
    assert server.contributions()["ann"].rounds == 1


def plain_places(value, at=()):
    """Every place in plain values; of lists the first item."""
    if at:
        yield at
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:1] if isinstance(value, list) else ())
    )
    for key, item in inside:
        yield from plain_places(item, (*at, key))


ODD = [None, [], {}, "x", -1, 10**30, 1.5, True, "\ud800", [[]], {"class": "Panel"}, [10**12]]


@pytest.mark.slow
def test_plain_values_of_another_kind_are_told_before_anything_is_built(tmp_path, monkeypatch):
    """Whoever can write the file can give it the right digest too."""
    monkeypatch.chdir(tmp_path)  # a ledger may be named anything
    with new(seed=5, **PAYING) as server:
        server.settle(updates=updates(1))
        server.save(tmp_path / "a.state")
    arrays, meta = read_state(tmp_path / "a.state")
    tried = 0
    for place in plain_places(meta):
        for odd in ODD:
            forged = copy.deepcopy(meta)
            target = forged
            for step in place[:-1]:
                target = target[step]
            target[place[-1]] = odd
            write_state(tmp_path / "b.state", arrays, forged)
            with contextlib.suppress(FedMeritError):
                again = Server.load(tmp_path / "b.state")
                again.verdicts()
                again._repr_html_()
                again.save(tmp_path / "c.state")
            tried += 1
    assert tried > 500


@pytest.mark.parametrize(
    "models",
    [np.zeros((0, 1)), np.zeros(3), np.zeros((1, 3)), np.zeros((1, 10**5)), np.array([["x"]])],
)
def test_models_of_another_shape_are_told(tmp_path, models):
    with new(seed=5) as server:
        server.settle(updates=updates(1))
        server.save(tmp_path / "a.state")
    arrays, meta = read_state(tmp_path / "a.state")
    write_state(tmp_path / "b.state", {**arrays, "models": models}, meta)
    with pytest.raises(CheckpointError, match="models of a state must"):
        Server.load(tmp_path / "b.state")


@pytest.mark.parametrize("name", ["models", "reports", "sketches"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_arrays_that_are_not_finite_are_told(tmp_path, name, value):
    with new(seed=5) as server:
        server.settle(updates=updates(1))
        server.save(tmp_path / "a.state")
    arrays, meta = read_state(tmp_path / "a.state")
    write_state(tmp_path / "b.state", {**arrays, name: arrays[name] + value}, meta)
    with pytest.raises(CheckpointError, match=f"{name} of a state must be finite"):
        Server.load(tmp_path / "b.state")


@pytest.mark.parametrize(
    ("name", "value"),
    [("round", -1), ("older", 0), ("remembered", -1), ("trust", {"ann": float("nan")})],
)
def test_numbers_that_no_server_has_are_told(tmp_path, name, value):
    with new(seed=5) as server:
        server.settle(updates=updates(1))
        server.save(tmp_path / "a.state")
    arrays, meta = read_state(tmp_path / "a.state")
    write_state(tmp_path / "b.state", arrays, {**meta, name: value})
    with pytest.raises(CheckpointError, match=f"{name} of .* must be"):
        Server.load(tmp_path / "b.state")


def test_a_ledger_that_is_not_there_is_told_and_none_is_made(tmp_path):
    ledger, path = tmp_path / "a.ledger", tmp_path / "a.state"
    with new(ledger=ledger, state=path) as server:
        server.settle(updates=updates(1))
    ledger.rename(tmp_path / "moved.ledger")
    with pytest.raises(CheckpointError, match=r"give its place as ledger=\.\.\."):
        Server.load(path)
    assert not ledger.exists()


def test_a_state_that_promises_large_arrays_takes_no_memory(tmp_path):
    with new(seed=5) as server:
        server.save(tmp_path / "a.state")
    arrays, meta = read_state(tmp_path / "a.state")
    meta["arrays"][0][1] = [10**12]
    write_state(tmp_path / "b.state", arrays, meta)
    with pytest.raises(CheckpointError, match="must have the 1000000000000 parameters"):
        Server.load(tmp_path / "b.state")
