"""Behaviours inside a federation: every one takes part, and groups share only what they may."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from fedmerit import Contributions
from fedmerit.behaviours import BEHAVIOURS, Assignment
from fedmerit.server import RoundRules
from fedmerit.simulation.config import FederationConfig, ModelChoice, Partition
from fedmerit.simulation.data import datasets
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.training.settings import LocalTraining


@dataclass
class Witness:
    """Scores nobody, and keeps what was uploaded."""

    seen: list = field(default_factory=list)

    def score(self, inputs, _rng):
        self.seen.append(inputs.updates)
        return Contributions.of("witness", np.zeros(inputs.clients))


SMALL = FederationConfig(
    users=6,
    per_round=6,
    rounds=5,
    partition=Partition("iid"),
    model=ModelChoice(hidden=8, dropout=0.2),
    training=LocalTraining(epochs=1, learning_rate=0.05),
    rules=RoundRules(weighting="uniform"),
)


@pytest.fixture(scope="module")
def digits():
    return datasets.load("digits")


def uploads(text, digits, rounds=1):
    witness = Witness()
    rules = replace(SMALL.rules, scorer=witness)
    config = replace(SMALL, behaviours=Assignment.parse(text), rules=rules)
    federation = Federation(config, digits)
    state = federation.start()
    for _ in range(rounds):
        state, _ = federation.step(state)
    labels = [behaviour.name for behaviour in federation.behaviours]
    return witness.seen, np.array(labels)


@pytest.mark.parametrize("name", sorted(BEHAVIOURS))
def test_every_behaviour_takes_part_from_the_first_round_on(name, digits):
    seen, labels = uploads(f"50% {name}", digits, rounds=5)
    assert len(seen) == 5
    assert (labels == name).sum() == (6 if name == "honest" else 3)
    assert all(np.isfinite(updates).all() for updates in seen)


def test_copies_upload_the_work_of_the_first_of_them(digits):
    honest, _ = uploads("", digits)
    copied, labels = uploads("50% copies", digits)
    group = np.flatnonzero(labels == "copies")
    source = honest[0][group[0]]
    np.testing.assert_array_equal(copied[0][group[0]], source)
    for other in group[1:]:
        distance = np.linalg.norm(copied[0][other] - source) / np.linalg.norm(source)
        assert 0 < distance < 0.002
    rest = labels == "honest"
    np.testing.assert_array_equal(copied[0][rest], honest[0][rest])


def test_colluders_share_one_vector_and_different_groups_do_not(digits):
    seen, labels = uploads("34% colluders, 34% colluders:0.02", digits)
    group = seen[0][labels == "colluders"]
    assert len(np.unique(group.round(6), axis=0)) == 2


def test_rotating_sends_its_own_past_and_renaming_takes_new_names(digits):
    seen, labels = uploads("17% rotating:2", digits, rounds=4)
    (row,) = np.flatnonzero(labels == "rotating")
    sent = [updates[row] for updates in seen]
    assert not np.array_equal(sent[0], sent[1])
    assert any(np.array_equal(sent[2], early) for early in sent[:2])
    assert any(np.array_equal(sent[3], early) for early in sent[:2])
    federation = Federation(replace(SMALL, behaviours=Assignment.parse("17% renaming:1")), digits)
    state, first = federation.step(federation.start())
    _, second = federation.step(state)
    names = [{client.client for client in record.clients} for record in (first, second)]
    assert len(names[0] & names[1]) == 5
