"""Partitions: every sample once, and the skew that the name promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerit.errors import DataError, SettingError
from fedmerit.rng import stream
from fedmerit.simulation.data import partition

LABELS = np.arange(6000) % 10


def split(name, labels, clients, seed):
    rng = stream(seed)
    return {
        "iid": lambda: partition.iid(len(labels), clients, rng),
        "shards": lambda: partition.label_shards(labels, clients, rng),
        "dirichlet": lambda: partition.dirichlet(labels, clients, rng, alpha=0.5, least=1),
        "natural": lambda: partition.natural(labels % clients),
    }[name]()


@pytest.mark.parametrize("name", ["iid", "shards", "dirichlet", "natural"])
@given(clients=st.integers(1, 9), seed=st.integers(0, 5))
def test_every_sample_belongs_to_exactly_one_client(name, clients, seed):
    labels = np.arange(200) % 10
    parts = split(name, labels, clients, seed)
    assert len(parts) == clients
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(200))
    again = split(name, labels, clients, seed)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize("name", ["iid", "shards", "dirichlet"])
def test_another_seed_deals_otherwise(name):
    first, second = split(name, LABELS, 10, 1), split(name, LABELS, 10, 2)
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_papers_shards_hold_two_labels_and_equal_sizes():
    labels = stream(0).permutation(np.repeat(np.arange(10), 6000))
    parts = partition.label_shards(labels, 100, stream(1))
    assert {len(part) for part in parts} == {600}
    kinds = [len(np.unique(labels[part])) for part in parts]
    assert max(kinds) == 2
    assert np.mean(kinds) > 1.8


def test_iid_parts_differ_by_at_most_one_and_mix_the_labels():
    parts = partition.iid(len(LABELS), 7, stream(0))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert all(len(np.unique(LABELS[part])) == 10 for part in parts)


def test_small_alpha_is_more_skewed_than_large():
    def largest_share(alpha):
        parts = partition.dirichlet(LABELS, 10, stream(3), alpha=alpha)
        return np.mean([np.bincount(LABELS[part]).max() / len(part) for part in parts])

    assert largest_share(0.1) > 0.4
    assert largest_share(1000.0) < 0.15


def test_natural_ids_need_not_be_numbers():
    parts = partition.natural(np.array(["b", "a", "b", "c"]))
    assert [part.tolist() for part in parts] == [[1], [0, 2], [3]]


def test_what_cannot_be_split_says_why():
    with pytest.raises(DataError, match="5 clients need as many samples, got 4"):
        partition.iid(4, 5, stream(0))
    with pytest.raises(DataError, match="10 shards need as many samples, got 4"):
        partition.label_shards(np.arange(4), 5, stream(0))
    with pytest.raises(SettingError, match="alpha must leave every one of 50 clients"):
        partition.dirichlet(np.zeros(60, dtype=int), 50, stream(0), alpha=0.01)
    with pytest.raises(SettingError, match="alpha must be greater than 0, got -1"):
        partition.dirichlet(LABELS, 5, stream(0), alpha=-1)
    with pytest.raises(DataError, match="non-empty"):
        partition.natural(np.array([]))
