import numpy as np
import pytest

from fedmerit import Contributions, RoundHistory
from fedmerit.errors import SettingError


def result_of(work):
    return Contributions.of("merit", np.zeros(len(work)), work=np.array(work, dtype=float))


def test_public_information_is_last_update_model_then_older_updates():
    history = RoundHistory(older=2)
    assert history.public is None
    for value in (1.0, 3.0, 6.0, 10.0):
        history = history.published(np.full(3, value))
    assert history.public.tolist() == [[4.0] * 3, [10.0] * 3, [3.0] * 3]
    assert [update[0] for update in history.updates] == [4.0, 3.0]


def test_first_round_knows_the_model_only():
    inputs = RoundHistory().published(np.ones(4)).inputs(["a", "b"], np.ones((2, 4)))
    assert inputs.public.tolist() == [[1.0] * 4]
    assert (inputs.previous == 0).all()
    assert (inputs.trust == 0).all()


def test_reports_and_trust_follow_the_client_not_the_row():
    start = RoundHistory().published(np.zeros(2))
    one = start.remembering(["a", "b"], np.array([[1.0, 1], [2, 2]]), result_of([0.5, 0.25]))
    two = one.remembering(["a"], np.array([[3.0, 3.0]]), result_of([0.5]))
    inputs = two.inputs(["b", "c", "a"], np.ones((3, 2)))
    assert inputs.previous.tolist() == [[2.0, 2.0], [0.0, 0.0], [3.0, 3.0]]
    assert inputs.trust.tolist() == [0.25, 0.0, 1.0]
    assert start.previous == {}
    assert one.trust == {"a": 0.5, "b": 0.25}


def test_scores_without_work_leave_trust_alone():
    history = RoundHistory().published(np.zeros(2))
    history = history.remembering(["a"], np.ones((1, 2)), result_of([np.nan]))
    assert history.inputs(["a", "b"], np.ones((2, 2))).trust.tolist() == [0.0, 0.0]


def test_longest_absent_clients_are_forgotten_first():
    history = RoundHistory(remembered=2).published(np.zeros(1))
    for client in ("a", "b", "a", "c"):
        history = history.remembering([client], np.ones((1, 1)), result_of([0.1]))
    previous = history.inputs(["a", "b", "c"], np.ones((3, 1))).previous
    assert previous[:, 0].tolist() == [1.0, 0.0, 1.0]


def test_bad_settings_are_refused():
    with pytest.raises(SettingError, match="older must be at least 1, got 0"):
        RoundHistory(older=0)
    with pytest.raises(SettingError, match="remembered must be at least 0, got -1"):
        RoundHistory(remembered=-1)
