import numpy as np
import pytest

from fedmerit import ExactPCA, Merit
from fedmerit.errors import SettingError
from fedmerit.server import RoundRules
from fedmerit.simulation.config import FederationConfig, ModelChoice
from fedmerit.simulation.data.datasets import load
from fedmerit.simulation.observe import observe_rounds
from fedmerit.simulation.training.settings import LocalTraining


def config(scorer):
    return FederationConfig(
        users=8,
        per_round=4,
        model=ModelChoice(hidden=8),
        training=LocalTraining(epochs=1),
        rules=RoundRules(scorer, "size"),
    )


def test_chosen_rounds_are_seen_as_the_scorer_sees_them():
    digits = load("digits")
    first, third = observe_rounds(config(Merit()), digits, (1, 3))
    assert [len(first.public), len(third.public)] == [1, 3]  # the model, then two updates too
    assert first.trust is not None
    (plain,) = observe_rounds(config(ExactPCA()), digits, (3,))
    assert plain.trust is None
    np.testing.assert_array_equal(plain.updates, third.updates)


def test_without_a_scorer_there_is_nothing_to_see():
    with pytest.raises(SettingError, match="only with a scorer, got None"):
        list(observe_rounds(config(None), load("digits"), (1,)))
