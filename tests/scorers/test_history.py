import numpy as np
import pytest

from fedmerit import Contributions, QuantileBins, RoundHistory
from fedmerit.errors import SettingError


def result_of(work):
    return Contributions.of("merit", np.zeros(len(work)), work=np.array(work, dtype=float))


def test_public_information_is_last_update_model_then_older_updates():
    history = RoundHistory(older=2)
    assert history.public is None
    for value in (1.0, 3.0, 6.0, 10.0):
        history.publish(np.full(3, value))
    assert history.public.tolist() == [[4.0] * 3, [10.0] * 3, [3.0] * 3]


def test_first_round_knows_the_model_only():
    history = RoundHistory()
    history.publish(np.ones(4))
    inputs = history.inputs(["a", "b"], np.ones((2, 4)))
    assert inputs.public.tolist() == [[1.0] * 4]
    assert (inputs.previous == 0).all()
    assert (inputs.trust == 0).all()


def test_reports_and_trust_follow_the_client_not_the_row():
    history = RoundHistory()
    history.publish(np.zeros(2))
    history.remember(["a", "b"], np.array([[1.0, 1.0], [2.0, 2.0]]), result_of([0.5, 0.25]))
    history.remember(["a"], np.array([[3.0, 3.0]]), result_of([0.5]))
    inputs = history.inputs(["b", "c", "a"], np.ones((3, 2)))
    assert inputs.previous.tolist() == [[2.0, 2.0], [0.0, 0.0], [3.0, 3.0]]
    assert inputs.trust.tolist() == [0.25, 0.0, 1.0]


def test_scores_without_work_leave_trust_alone():
    history = RoundHistory()
    history.publish(np.zeros(2))
    history.remember(["a"], np.ones((1, 2)), result_of([np.nan]))
    assert history.inputs(["a", "b"], np.ones((2, 2))).trust.tolist() == [0.0, 0.0]


def test_longest_absent_clients_are_forgotten_first():
    history = RoundHistory(clients=2)
    history.publish(np.zeros(1))
    for client in ("a", "b", "a", "c"):
        history.remember([client], np.ones((1, 1)), result_of([0.1]))
    previous = history.inputs(["a", "b", "c"], np.ones((3, 1))).previous
    assert previous[:, 0].tolist() == [1.0, 0.0, 1.0]


def test_signals_pass_with_public_information_only(rng):
    history = RoundHistory()
    history.publish(np.zeros(40))
    signals = QuantileBins().quantise(rng.normal(size=(2, 40)), rng)
    inputs = history.inputs(["a", "b"], signals)
    assert inputs.previous is None
    assert inputs.public.shape == (1, 40)


def test_bad_settings_are_refused():
    with pytest.raises(SettingError, match="older must be at least 1, got 0"):
        RoundHistory(older=0)
