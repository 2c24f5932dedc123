import numpy as np

from fedmerit import Contributions, Flag, Kind, Needs, RoundHistory, Watch
from fedmerit.comparison import join_panels
from fedmerit.evidence.bets import named
from tests.evidence.cohorts import result_from

RATE = 0.01


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
    none = [0.0, 0.0]
    assert inputs.previous.tolist() == [[[2.0, 2.0], none], [none, none], [[1.0, 1.0], [3.0, 3.0]]]
    assert inputs.rounds.tolist() == [1, 0, 2]
    assert inputs.trust.tolist() == [0.25, 0.0, 1.0]
    assert start.previous == {}
    assert one.trust == {"a": 0.5, "b": 0.25}


def test_scores_without_work_leave_trust_alone():
    history = RoundHistory().published(np.zeros(2))
    history = history.remembering(["b"], np.ones((1, 2)), result_of([0.5]))
    result = Contributions.of("exact", np.ones(2))
    history = history.remembering(["a", "b"], np.ones((2, 2)), result)
    assert history.trust == {"b": 0.5}
    assert history.inputs(["a", "b"], np.ones((2, 2))).trust.tolist() == [0.0, 0.5]


def test_longest_absent_clients_are_forgotten_first():
    history = RoundHistory(remembered=2).published(np.zeros(1))
    for client in ("a", "b", "a", "c"):
        history = history.remembering([client], np.ones((1, 1)), result_of([0.1]))
    previous = history.inputs(["a", "b", "c"], np.ones((3, 1))).previous
    assert previous.any(axis=(1, 2)).tolist() == [True, False, True]


def round_of(names, *, replaying=()):
    """Everybody agrees clearly; who replays is flagged for it."""
    k = len(names)
    z = np.full((k, k), 30.0)
    idle = np.isin(names, replaying)
    z[idle] = z[:, idle] = 0.0
    np.fill_diagonal(z, np.nan)
    flags = [Flag(Kind.EXPLAINED, "100%") if i else None for i in idle]
    return result_from(z, flags, idle.astype(float))


def test_who_did_not_work_is_named_in_later_rounds_until_evidence_turns():
    names = ["a", "b", "c", "d"]
    history = RoundHistory().published(np.zeros(2))
    for expected in ([], [], ["d"]):
        inputs = history.inputs(names, np.ones((4, 2)))
        assert [name for name, named in zip(names, inputs.named, strict=True) if named] == expected
        result = round_of(names, replaying=["d"])
        history = history.remembering(names, np.ones((4, 2)), result)
    assert history.inputs(["d", "new"], np.ones((2, 2))).named.tolist() == [True, False]
    for _ in range(16):
        history = history.remembering(names, np.ones((4, 2)), round_of(names))
    assert named(history.wealth, RATE) == []


def test_naming_says_what_a_watch_says():
    names = ["a", "b", "c", "d"]
    history, watch = RoundHistory().published(np.zeros(2)), Watch(rate=RATE)
    for replaying in (["c"], ["d"], ["c", "d"], ["d"]):
        result = round_of(names, replaying=replaying)
        watch.observe(names, result)
        history = history.remembering(names, np.ones((4, 2)), result)
        assert named(history.wealth, RATE) == [v.client for v in watch.verdicts() if v.flagged]
    assert named(history.wealth, RATE) == ["d"]


def test_naming_can_be_turned_off():
    history = RoundHistory().published(np.zeros(2))
    for _ in range(5):
        history = history.remembering(
            ["a", "b"], np.ones((2, 2)), round_of(["a", "b"], replaying=["b"])
        )
    assert history.wealth["b"].evidence > 5
    assert named(history.wealth, RATE) == ["b"]
    assert named(history.wealth, 0) == []
    inputs = history.inputs(["a", "b"], np.ones((2, 2)), needs=Needs(naming=0))
    assert inputs.named is None


def test_a_scorer_gets_what_it_needs_of_the_past_and_no_more():
    names = ["a", "b"]
    history = RoundHistory().published(np.zeros(2))
    history = history.remembering(names, np.ones((2, 2)), result_of([0.5, 0.5]))
    inputs = history.inputs(names, np.ones((2, 2)), needs=Needs())
    assert (inputs.previous, inputs.trust, inputs.named) == (None, None, None)
    after = history.remembering(names, np.full((2, 2), 3.0), result_of([0.5, 0.5]), Needs())
    assert [report.tolist() for report in after.previous["a"]] == [[1.0, 1.0]]


def test_one_round_names_nobody_however_odd():
    z = np.full((12, 12), 30.0)
    z[9:, :9] = z[:9, 9:] = -50.0
    z[0, 9:] = z[9:, 0] = 30.0  # joined to the cohort by one of them
    np.fill_diagonal(z, np.nan)
    names = [f"c{n}" for n in range(12)]
    for size in (3, 12):
        few = [*range(size - 1), 11]
        result = result_from(z[np.ix_(few, few)].copy())
        history = RoundHistory().published(np.zeros(1))
        after = history.remembering(names[:size], np.ones((size, 1)), result)
        assert not named(after.wealth, RATE)


def test_clients_of_other_panels_are_not_held_to_be_independent():
    panels = [np.array([0, 1, 2, 3, 4]), np.array([5, 6, 7, 8])]
    strong, other = (np.full((len(panel), len(panel)), 30.0) for panel in panels)
    other[3, :3] = other[:3, 3] = 0.0
    names = [f"c{n}" for n in range(9)]
    history = RoundHistory().published(np.zeros(1))
    for _ in range(4):
        parts = []
        for z in (strong, other):
            matrix = z.copy()
            np.fill_diagonal(matrix, np.nan)
            parts.append(result_from(matrix))
        result = join_panels(panels, parts)
        assert np.isnan(result.z[:5, 5:]).all()
        history = history.remembering(names, np.ones((9, 1)), result)
    assert named(history.wealth, RATE) == ["c8"]


def test_names_are_compared_whole():
    history = RoundHistory().published(np.zeros(2))
    for _ in range(3):
        history = history.remembering(
            ["a", "b", "c"], np.ones((3, 2)), round_of(["a", "b", "c"], replaying=["b"])
        )
    assert history.inputs(["b\0", "b", "bb"], np.ones((3, 2))).named.tolist() == [
        False,
        True,
        False,
    ]
