"""A server whose clients judge each other: candidates, hearing, records, exclusion, saving."""

import math

import numpy as np
import pytest

from fedmerit import Kind, Ledger, Panel, Server
from fedmerit.errors import SettingError

DIMENSIONS = 400
CLIENTS = [f"c{number}" for number in range(10)]
TARGET = np.random.default_rng(99).normal(size=DIMENSIONS)


def quality(vector):
    """A metric from 0 to 1 that is highest at the target."""
    return float(1 / (1 + np.mean((np.asarray(vector) - TARGET) ** 2)))


def updates(model, number, bad=()):
    """Every client moves a fifth of the way to the target, with noise; a bad one moves away."""
    rng = np.random.default_rng(number)
    step = 0.2 * (TARGET - np.asarray(model))
    # Different at every parameter, so that the scorer has no reason to flag anybody.
    return {
        client: (-2 * step if client in bad else step) + 0.05 * rng.normal(size=DIMENSIONS)
        for client in CLIENTS
    }


def judged(server, judges=None, lie=None):
    """Let clients judge; `lie(judge, value)` is what one says instead."""
    answers = {}
    for candidate in server.candidates(judges):
        value = quality(candidate.model)
        answers[candidate.key] = value if lie is None else lie(candidate.judge, value)
    return server.hear(answers)


def play(server, rounds, bad=(), lie=None):
    heard = []
    for _ in range(rounds):
        server.judge(updates=updates(server.model, server.round, bad))
        server.combine()
        heard.append(judged(server, lie=lie))
        server.write()
    return heard


def panel_server(**settings):
    panel = settings.pop("panel", Panel(pairs=2))
    return Server(np.zeros(DIMENSIONS), seed=1, scorer=None, panel=panel, **settings)


def test_values_add_up_to_what_the_federation_gained():
    with panel_server() as server:
        start = quality(server.model)
        heard = play(server, 4)
        totals = server.contributions()
        assert sum(total.value for total in totals.values()) == pytest.approx(
            quality(server.model) - start
        )
    for one in heard:
        assert sum(one.values.values()) == pytest.approx(one.gain)
        assert one.missing == 0
        assert one.refused == ()


def test_who_harms_the_model_is_named_kept_out_and_not_paid():
    with panel_server() as server:
        play(server, 6, bad={"c3"})
        assert server.harmful() == ["c3"]
        result = server.settle(updates=updates(server.model, 7, {"c3"}))
        assert result.flags["c3"].kind is Kind.HARMS
        assert result.weights["c3"] == 0
        assert sum(result.weights.values()) == pytest.approx(1)
        assert server.contributions()["c3"].value < 0


def test_who_is_kept_out_is_judged_on_and_can_redeem_itself():
    with panel_server() as server:
        play(server, 6, bad={"c3"})
        assert server.harmful() == ["c3"]
        for _ in range(40):
            server.publish(np.zeros(DIMENSIONS))  # a fresh start: there is something to gain
            play(server, 1)
            if not server.harmful():
                break
        assert server.harmful() == []


def test_another_model_between_rounds_is_judged_before_its_round():
    """What judges said of the newest model is no word about one that came from outside."""
    with panel_server() as server:
        play(server, 1)
        server.publish(np.zeros(DIMENSIONS))
        (heard,) = play(server, 1)
        assert heard.gain == pytest.approx(quality(server.model) - quality(np.zeros(DIMENSIONS)))


def test_pay_by_value_pays_nothing_for_harm():
    rules = {"reward": "positive:budget=1000", "panel": Panel(pairs=4, pays=True)}
    with Server(np.zeros(DIMENSIONS), seed=1, scorer="cosine", **rules) as server:
        play(server, 3, bad={"c3"})
        totals = server.contributions()
    assert totals["c3"].reward == 0
    assert sum(total.reward for total in totals.values()) == 3 * 1000
    assert min(total.reward for client, total in totals.items() if client != "c3") > 0


def test_ledger_and_state_keep_values(tmp_path):
    path = tmp_path / "run.ledger"
    with panel_server(ledger=path) as server:
        play(server, 3)
        server.save(tmp_path / "state")
        known = server.contributions()
    with Server.load(tmp_path / "state") as again:
        assert again.state.book == server.state.book
        assert again.contributions() == known
        heard = play(again, 1)
        assert len(heard[0].values) == 10
    with Ledger.open(path) as ledger:
        _, record, *_ = ledger.rounds()
    assert [c.value for c in record.clients] != [None] * 10
    assert all(len(c.judgement) == 64 for c in record.clients)
    assert record.metrics["panel/gain"] == pytest.approx(sum(c.value for c in record.clients))


def test_a_saved_server_goes_on_with_the_same_bits(tmp_path):
    with panel_server() as one:
        play(one, 2)
        one.save(tmp_path / "state")
        expected = play(one, 2)
    with Server.load(tmp_path / "state") as other:
        assert play(other, 2) == expected


def test_judges_need_not_have_trained():
    with panel_server() as server:
        server.judge(updates=updates(server.model, 1))
        server.combine()
        asked = {candidate.judge for candidate in server.candidates(["visitor", "c1"])}
        assert asked == {"visitor", "c1"}
        heard = judged(server, ["visitor", "c1"])
        assert set(heard.voices) == {"visitor", "c1"}
        record = server.write()
    (visitor,) = [entry for entry in record.clients if entry.client == "visitor"]
    assert math.isnan(visitor.weight)
    assert len(visitor.judgement) == 64
    assert visitor.value is None


def test_candidates_have_the_form_of_the_model():
    model = {"a": np.zeros((20, 20), np.float32), "n": np.array(3)}
    with Server(model, seed=0, scorer=None, panel=Panel()) as server:
        rng = np.random.default_rng(0)
        replies = {
            client: {"a": rng.normal(size=(20, 20)).astype(np.float32), "n": np.array(4)}
            for client in CLIENTS
        }
        server.judge(replies)
        server.combine()
        candidate = next(server.candidates())
    assert candidate.model["a"].shape == (20, 20)
    assert candidate.model["a"].dtype == np.float32
    assert candidate.model["n"] == 3


def test_models_are_made_one_at_a_time():
    with panel_server() as server:
        server.judge(updates=updates(server.model, 1))
        server.combine()
        made = server.candidates()
        assert iter(made) is made
        assert next(made).model.shape == (DIMENSIONS,)


def test_what_must_come_first():
    plain = Server(np.zeros(3))
    with pytest.raises(SettingError, match="candidates need a panel"):
        plain.candidates()
    with panel_server() as server:
        with pytest.raises(SettingError, match="must be judged before"):
            server.candidates()
        server.judge(updates=updates(server.model, 1))
        with pytest.raises(SettingError, match="got none asked for"):
            server.hear({})
        server.combine()
        judged(server)
        with pytest.raises(SettingError, match="got none asked for"):
            server.hear({})
    with pytest.raises(SettingError, match=r"panel must be a Panel, such as .*, got 3"):
        Server(np.zeros(3), panel=3)


def test_a_round_nobody_judged_is_recorded_without_values():
    with panel_server() as server:
        server.judge(updates=updates(server.model, 1))
        server.combine()
        assert sum(1 for _ in server.candidates()) == 10 * (2 + 2 * 2)
        heard = server.hear({})
        record = server.write()
    assert heard.values == {}
    assert {entry.value for entry in record.clients} == {None}


def test_without_a_panel_nothing_is_different():
    """The same bits with and without a panel, as long as nobody harms the model."""
    with panel_server() as judged_, Server(np.zeros(DIMENSIONS), seed=1, scorer=None) as plain:
        play(judged_, 2)
        for _ in range(2):
            plain.settle(updates=updates(plain.model, plain.round))
        np.testing.assert_array_equal(judged_.model, plain.model)
