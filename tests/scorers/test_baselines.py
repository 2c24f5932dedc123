"""Each baseline by its formula, on rounds small enough to work out."""

import numpy as np
import pytest

import fedmerit
from tests.conftest import example_round

pytestmark = pytest.mark.kernel
SQUARE = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [1.0, 0.0]])


def scores(updates, method, **given):
    return fedmerit.score(np.asarray(updates, dtype=float), method=method, rng=0, **given).scores


def test_cosine_to_the_mean():
    # The mean points along (1, 1).
    assert scores(SQUARE, "cosine") == pytest.approx(np.array([1, 1, -1, 1]) / np.sqrt(2))
    updates = example_round()
    mean = updates.astype(float).mean(axis=0)
    expected = [u @ mean / np.linalg.norm(u) / np.linalg.norm(mean) for u in updates.astype(float)]
    assert scores(updates, "cosine") == pytest.approx(expected)
    assert scores([[1.0, 0.0], [-1.0, 0.0]], "cosine").tolist() == [0, 0]  # no mean to point along


def test_cosine_pays_the_replay_of_what_everybody_does():
    updates = example_round(clients=8, riders=0)
    paid = scores(np.vstack([updates, updates.mean(axis=0)]), "cosine")
    assert paid[-1] > paid[:-1].max()


def test_norm_is_length_and_scales():
    assert scores([[3.0, 4.0], [0.0, 0.0]], "norm").tolist() == [5, 0]
    updates = example_round()
    assert scores(7 * updates, "norm") == pytest.approx(7 * scores(updates, "norm"))


def test_krum_by_hand():
    line = np.array([[0.0], [1.0], [3.0], [10.0], [11.0]])
    # k = 5 tolerates 1, so the two nearest others count.
    assert scores(line, "krum").tolist() == [-10, -5, -13, -50, -65]
    # Without hostile clients, the three nearest.
    assert scores(line, "krum", byzantine=0).tolist() == [-110, -86, -62, -131, -165]


def test_krums_pairs_are_what_it_adds_up():
    pairs = fedmerit.score(np.array([[0.0], [1.0], [3.0]]), method="krum", rng=0).pairs.score
    assert pairs[np.triu_indices(3, 1)].tolist() == [-1, -9, -4]


def test_krum_of_two_is_their_distance():
    assert scores([[0.0], [3.0]], "krum").tolist() == [-9, -9]


def test_krum_agrees_with_the_aggregator():
    updates = example_round(clients=9)
    best = int(np.argmax(scores(updates, "krum")))
    assert (fedmerit.aggregate(updates, rule="krum") == updates[best]).all()


def test_foolsgold_shuts_out_sybils_and_pardons_their_look_alikes():
    rng = np.random.default_rng(0)
    honest = rng.normal(size=(4, 500))
    sybil = rng.normal(size=500)
    honest[0] += 0.3 * sybil
    found = scores([*honest, sybil, sybil, sybil], "foolsgold")
    assert (found[4:] == 0).all()
    assert (found[:4] > 0.9).all()


def test_foolsgold_by_hand():
    # Cosines 0.8 (0, 1), 0 (0, 2), 0.6 (1, 2); closest 0.8, 0.8, 0.6; client 2 is pardoned towards
    # 1 by 0.6 / 0.8: 1 - 0.45 = 0.55 against 0.2 and 0.2.
    updates = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]
    share = 0.2 / 0.55
    expected = np.log(share / (1 - share)) + 0.5
    assert scores(updates, "foolsgold") == pytest.approx([max(expected, 0)] * 2 + [1])
    assert scores(updates, "foolsgold", confidence=0.5)[2] == 1


def test_foolsgold_between_shut_out_and_let_in():
    # Cosines 0.5, 0, 0: shares 0.5, 0.5 and the most there is; the logit of a half is nothing.
    updates = [[1.0, 0.0, 0.0], [0.5, np.sqrt(0.75), 0.0], [0.0, 0.0, 1.0]]
    assert scores(updates, "foolsgold") == pytest.approx([0.5, 0.5, 1])
    assert scores(updates, "foolsgold", confidence=0.5) == pytest.approx([0.25, 0.25, 1])


def test_foolsgold_of_clones_is_zero_and_of_zeros_one():
    assert scores(np.tile(np.arange(1.0, 8), (3, 1)) / 3, "foolsgold").tolist() == [0, 0, 0]
    assert scores(np.zeros((3, 4)), "foolsgold").tolist() == [1, 1, 1]


def test_reputation_without_a_past_is_the_share_of_agreement():
    agreement = np.array([1, 1, 0, 1])  # of (1, 1) with each direction, negatives cut
    assert scores(SQUARE, "reputation") == pytest.approx(agreement / 3)


def test_reputation_weighs_peers_by_the_past_and_adds_to_it():
    # Only client 1 is reputable: what counts is agreement with her.
    result = fedmerit.score(SQUARE, method="reputation", trust=[0, 2.0, 0, 0], rng=0)
    assert result.work.tolist() == [0, 1, 0, 0]
    assert result.scores.tolist() == [0, 1, 0, 0]
    lost = scores(SQUARE, "reputation", trust=[-5.0, 0, 0, 1])
    assert lost[0] == 0


def test_reputation_does_not_follow_length():
    updates = example_round()
    longer = updates * np.array([100, 1, 1, 1, 1, 1])[:, None]
    assert scores(longer, "reputation") == pytest.approx(scores(updates, "reputation"))


@pytest.mark.parametrize("method", ["cosine", "foolsgold", "krum", "norm", "reputation"])
def test_permuting_clients_permutes_scores(method):
    updates, order = example_round(), np.array([3, 0, 5, 1, 4, 2])
    assert scores(updates[order], method) == pytest.approx(scores(updates, method)[order])


def test_coast_values_earlier_reports_by_where_the_model_goes_now():
    now = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
    told_it, told_else = [5.0, 4.0, 0.1, 0.1], [0.1, 0.1, 0.0, -9.0]
    previous = np.array([[told_it], [told_else]])
    assert scores(now, "coast", previous=previous) == pytest.approx([1.0, 0.0])


def test_coast_without_a_past_values_the_report_and_by_layer():
    updates = np.array([[2.0, 2.0, 0.0, 0.0], [2.0, 2.0, 1.0, -1.0]])
    assert scores(updates[:1].repeat(2, axis=0), "coast") == pytest.approx([1.0, 1.0])
    one_layer, two = (scores(updates, "coast", layers=layers) for layers in ([0] * 4, [0, 0, 1, 1]))
    mean = updates.mean(axis=0) / np.linalg.norm(updates.mean(axis=0))
    # In a layer of its own a small value is large.
    assert two[1] == pytest.approx(mean @ [1, 1, 1, -1] / 2)
    assert one_layer[1] == pytest.approx(mean @ [1, 1, 0, 0] / np.sqrt(2))
