"""Brute force on updates that clients really trained: no re-labelling beats the certificate."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from fedmerit.incentive.search import Rows
from fedmerit.incentive.truthfulness import certificate, joint_counts, scores
from fedmerit.quantisers import QuantileBins
from fedmerit.rng import stream
from fedmerit.server import RoundRules
from fedmerit.simulation.config import FederationConfig, ModelChoice
from fedmerit.simulation.data.datasets import is_ready, load
from fedmerit.simulation.observe import observe_rounds
from fedmerit.simulation.training.settings import LocalTraining

LEVELS = 4
MAPS = np.array(list(itertools.product(range(LEVELS), repeat=LEVELS)))
ROUNDS, CLIENTS, DIRECT = (1, 3), 3, 5
HIDDEN = {"digits": 16, "mnist": 100}


def real_signals(dataset: str) -> Iterator[np.ndarray]:
    """Yield the signals of rounds of a small federation, (clients, parameters)."""
    config = FederationConfig(
        users=50,
        per_round=6,
        model=ModelChoice(hidden=HIDDEN[dataset]),
        training=LocalTraining(epochs=1),
        rules=RoundRules(weighting="size"),
    )
    for inputs in observe_rounds(config, load(dataset), ROUNDS):
        assert isinstance(inputs.updates, np.ndarray)
        yield QuantileBins(LEVELS).quantise(inputs.updates, stream(0)).values


@pytest.mark.parametrize("dataset", sorted(HIDDEN))
def test_no_map_of_real_signals_beats_the_certificate(dataset: str) -> None:
    if not is_ready(dataset):
        pytest.skip(f"{dataset} is not here: fedmerit data fetch {dataset}")
    rng = stream(1, dataset)
    audited = 0
    for signals in real_signals(dataset):
        halves = rng.permutation(signals.shape[1]) % 2
        for client in range(CLIENTS):
            own, peers = signals[client], np.delete(signals, client, axis=0)
            counts = joint_counts(own, peers, halves, LEVELS)
            truth, epsilon = scores(counts).mean(), certificate(counts)
            (rows,) = Rows.of(counts)
            found = rows.score(MAPS, LEVELS)
            assert len(found) == 256
            assert truth > 0.01
            assert found.max() - truth <= epsilon + 1e-12
            # The search adds rows of a table; here the reports themselves are changed.
            for index in rng.choice(len(MAPS), DIRECT, replace=False):
                lie = joint_counts(MAPS[index][own], peers, halves, LEVELS)
                assert scores(lie).mean() == pytest.approx(found[index], abs=1e-12)
            audited += 1
    assert audited == len(ROUNDS) * CLIENTS
