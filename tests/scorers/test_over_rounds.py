"""What merit makes of a round that cannot tell: what was told before stands, nothing new does."""

import numpy as np
import pytest

from fedmerit import Kind, RoundInputs, Server
from fedmerit.scorers import Merit

PARAMETERS = 4000
HONEST = [f"h{n}" for n in range(8)]
NAMES = [*HONEST, "eve"]


def work(rng, agreement):
    """One round's reports of all clients, who have so much in common."""
    shared = agreement * rng.normal(size=PARAMETERS)
    return {name: 0.01 * (shared + rng.normal(size=PARAMETERS)) for name in NAMES}


def noise(rng):
    return 0.01 * rng.normal(size=PARAMETERS)


@pytest.fixture
def server():
    return Server(np.zeros(PARAMETERS), seed=3)


CLEAR, UNCLEAR = 1.0, 0.1


def test_an_accusation_stands_where_a_round_cannot_tell_and_falls_with_work(server, rng):
    result = server.settle(updates={**work(rng, CLEAR), "eve": noise(rng)})
    assert result.flags["eve"].kind is Kind.INDEPENDENT
    for _ in range(3):
        result = server.settle(updates={**work(rng, UNCLEAR), "eve": noise(rng)})
        assert result.flags["eve"].kind is Kind.STANDING
        assert result.weights["eve"] == 0
        assert all(result.weights[name] == pytest.approx(1 / 8) for name in HONEST)
    for _ in range(2):  # more rounds of work than the one that accused it
        result = server.settle(updates=work(rng, CLEAR))
        assert result.flags == dict.fromkeys(NAMES)
    result = server.settle(updates=work(rng, UNCLEAR))
    assert all(result.weights[name] == pytest.approx(1 / 9) for name in NAMES)


def test_a_newcomer_that_was_accused_once_works_its_way_in_whatever_the_others_have_shown(rng):
    server = Server(np.zeros(PARAMETERS), seed=3)
    for _ in range(25):
        sent = work(rng, CLEAR)
        del sent["eve"]
        server.settle(updates=sent)
    result = server.settle(updates={**work(rng, CLEAR), "eve": noise(rng)})
    assert result.flags["eve"].kind is Kind.INDEPENDENT
    for _ in range(2):
        server.settle(updates=work(rng, CLEAR))
    result = server.settle(updates={**work(rng, UNCLEAR), "eve": noise(rng)})
    assert result.weights["eve"] > 0


def test_who_is_copied_is_not_accused_for_it(server, rng):
    sent = work(rng, CLEAR)
    result = server.settle(updates={**sent, "copy": sent["eve"]})
    assert result.flags["eve"].kind is Kind.COPY
    result = server.settle(updates={**work(rng, UNCLEAR), "eve": noise(rng)})
    assert result.weights["eve"] > 0


def test_where_nobody_was_accused_a_round_that_cannot_tell_accuses_nobody(server, rng):
    result = server.settle(updates={**work(rng, UNCLEAR), "eve": noise(rng)})
    assert result.flags["eve"].kind is Kind.UNDECIDED
    assert all(result.weights[name] == pytest.approx(1 / 9) for name in NAMES)


@pytest.mark.parametrize("times", [0.5, 3, 30])
def test_work_that_is_mixed_with_the_last_update_is_judged_by_the_work(server, rng, times):
    """However much of the report everybody knows: the rest points where that of the others does.

    What the others have told has come true in what is mixed in, so that they may gain a little.
    """
    server.settle(updates=work(rng, CLEAR))
    known = server.state.history.updates[0]
    sent = work(rng, CLEAR)
    mixed = {**sent, "eve": sent["eve"] + times * known}
    result = server.settle(updates=mixed)
    assert result.flags["eve"] is None
    assert 0.75 < result.scores["eve"] / np.mean([result.scores[n] for n in HONEST]) < 1.05


@pytest.mark.parametrize("times", [3, 30])
def test_noise_that_is_mixed_with_the_last_update_is_not(server, rng, times):
    server.settle(updates={**work(rng, CLEAR), "eve": noise(rng)})
    known = server.state.history.updates[0]
    result = server.settle(updates={**work(rng, CLEAR), "eve": noise(rng) + times * known})
    assert result.flags["eve"].kind in (Kind.EXPLAINED, Kind.INDEPENDENT)
    assert (result.weights["eve"], result.scores["eve"]) == (0, 0)


def test_who_has_worked_is_not_accused_by_one_report_that_is_mostly_known(server, rng):
    for _ in range(3):
        server.settle(updates=work(rng, CLEAR))
    known = server.state.history.updates[0]
    result = server.settle(updates={**work(rng, CLEAR), "eve": noise(rng) + 30 * known})
    assert result.flags["eve"] is None
    for _ in range(14):  # what it showed counts for some rounds more
        known = server.state.history.updates[0]
        result = server.settle(updates={**work(rng, CLEAR), "eve": noise(rng) + 30 * known})
    assert result.flags["eve"].kind is Kind.NAMED


def test_an_accusation_stands_after_a_restart(server, rng, tmp_path):
    server.settle(updates={**work(rng, CLEAR), "eve": noise(rng)})
    server.save(tmp_path / "state")
    with Server.load(tmp_path / "state") as again:
        result = again.settle(updates={**work(rng, UNCLEAR), "eve": noise(rng)})
    assert result.flags["eve"].kind is Kind.STANDING


def test_by_too_few_parameters_nobody_is_judged_and_what_was_told_stands(rng):
    """An accusation stands against the first client."""
    inputs = RoundInputs(
        rng.normal(size=(3, 31)),
        rng.normal(size=(5, 31)),
        standing=np.array([True, False, False]),
    )
    result = Merit().score(inputs, rng)
    kinds = [flag.kind for flag in result.flags]
    assert kinds == [Kind.STANDING, Kind.UNDECIDED, Kind.UNDECIDED]
    assert result.eligible.tolist() == [False, True, True]
    assert result.scores.tolist() == [0, 1, 1]
