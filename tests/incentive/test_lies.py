"""The catalogue of lies says what it does."""

import numpy as np

from fedmerit.incentive.lies import signal_lies, update_lies

OWN = np.array([1.0, -2.0, 0.5, 4.0])
PUBLIC = np.array([[2.0, 0.0, -1.0, 2.0]])  # of length 3; OWN is of length sqrt(21.25)
PEERS = np.array([[3.0, 0.0, 0.5, 0.0], [1.0, 2.0, 0.5, 2.0]])


def reports(candidates) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {candidate.description: candidate.draw(rng) for candidate in candidates}


def test_lies_made_of_peers() -> None:
    made = reports(update_lies(OWN, peers=PEERS))
    assert made["a peer's update"].tolist() == [3.0, 0.0, 0.5, 0.0]
    assert made["mean of own and a peer's update"].tolist() == [2.0, -1.0, 0.5, 2.0]
    assert made["mean of all peers' updates"].tolist() == [2.0, 1.0, 0.5, 1.0]
    assert made["mean of own and all peers' mean"].tolist() == [1.5, -0.5, 0.5, 2.5]


def test_lies_made_of_the_own_update() -> None:
    made = reports(update_lies(OWN))
    assert made["zero update"].tolist() == [0.0] * 4
    assert made["update times -1"].tolist() == (-OWN).tolist()
    assert made["update times 10"].tolist() == (10 * OWN).tolist()
    assert made["signs only"].tolist() == [1.875, -1.875, 1.875, 1.875]
    assert made["largest 50% of the values, the rest zero"].tolist() == [0.0, -2.0, 0.0, 4.0]
    assert sorted(made["own values on shuffled parameters"]) == sorted(OWN)
    squared = made["sizes to the power of 2"]
    assert np.isclose(np.linalg.norm(squared), np.linalg.norm(OWN))
    assert np.allclose(squared / squared[0], [1, -4, 0.25, 16])


def test_lies_made_of_public_vectors_are_as_long_as_the_truth() -> None:
    made = reports(update_lies(OWN, PUBLIC))
    as_long = PUBLIC[0] * np.sqrt(21.25) / 3
    assert made["public vector 0"].tolist() == PUBLIC[0].tolist()
    assert np.allclose(made["own update plus -0.3 of public vector 0"], OWN - 0.3 * as_long)
    signs = made["own signs times the sizes of public vector 0"]
    assert np.allclose(signs, np.sign(OWN) * np.abs(as_long))
    assert set(made["50% of the parameters from public vector 0"]) <= {*OWN, *as_long}


def test_lies_about_levels_stay_levels() -> None:
    own = np.array([0, 1, 2, 3, 3, 0] * 50, dtype=np.uint8)
    public = np.array([[3, 2, 1, 0, 0, 0] * 50], dtype=np.uint8)
    made = reports(signal_lies(own, 4, public))
    for report in made.values():
        assert report.shape == own.shape
        assert 0 <= report.min() <= report.max() <= 3
    assert made["levels in reverse"][:6].tolist() == [3, 2, 1, 0, 0, 3]
    assert not made["every level the same"].any()
    assert np.abs(made["levels moved by up to 1"] - own.astype(int)).max() == 1
    changed = (made["20% of the levels drawn at random"] != own).mean()
    assert 0.08 < changed < 0.25  # a quarter of what is drawn stays what it was
    renamed = made["levels renamed at random"]
    assert len({*zip(own, renamed, strict=True)}) == 4


def test_no_lie_is_the_truth() -> None:
    own, public, *peers = np.random.default_rng(1).normal(size=(4, 300))
    for text, report in reports(update_lies(own, public[None], np.array(peers))).items():
        assert not np.array_equal(report, own), text
    own = np.arange(300, dtype=np.uint8) % 4
    for text, report in reports(signal_lies(own, 4, own[None, ::-1])).items():
        assert not np.array_equal(report, own), text
