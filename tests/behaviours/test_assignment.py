"""Shares become clients, the same ones for the same seed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerit.behaviours import Assignment, Honest, Noise, RandomUpdate
from fedmerit.errors import SettingError
from fedmerit.rng import stream


def test_shares_are_met_and_honest_is_the_rest():
    chosen = Assignment.parse("20% random-update, 10% noise:0.05").assign(100, stream(0))
    counts = Counter(behaviour.label for behaviour in chosen)
    assert counts == {"honest": 70, "random-update:0.01": 20, "noise:0.05": 10}


def test_same_seed_same_clients_other_seed_others():
    assignment = Assignment.parse("30% noise")
    assert assignment.assign(50, stream(4)) == assignment.assign(50, stream(4))
    assert assignment.assign(50, stream(4)) != assignment.assign(50, stream(5))


def test_raising_a_share_keeps_the_clients_it_had():
    few = Assignment.parse("10% noise").assign(40, stream(2))
    many = Assignment.parse("30% noise").assign(40, stream(2))
    assert all(many[i] == Noise() for i in range(40) if few[i] == Noise())


@given(
    shares=st.lists(st.floats(0, 0.33), max_size=3),
    clients=st.integers(1, 60),
)
def test_every_share_is_met_to_within_one_client(shares, clients):
    kinds = [Noise(sd=i + 1.0) for i in range(len(shares))]
    chosen = Assignment(tuple(zip(shares, kinds, strict=True))).assign(clients, stream(0))
    for share, kind in zip(shares, kinds, strict=True):
        assert abs(chosen.count(kind) - share * clients) <= 1
    assert len(chosen) == clients


def test_empty_is_all_honest_and_text_goes_there_and_back():
    assert set(Assignment.parse(" ").assign(5, stream(0))) == {Honest()}
    text = "20% random-update:0.01, 12.5% noise:0.05"
    assert str(Assignment.parse(text)) == text
    assert Assignment.parse(text).parts[0] == (0.2, RandomUpdate())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("noise", "behaviours must read like"),
        ("60% noise, 50% random-update", "at most 100%"),
        ("120% noise", "percentage must be at most 100, got 120"),
    ],
)
def test_what_cannot_be_read_says_why(text, message):
    with pytest.raises(SettingError, match=message):
        Assignment.parse(text)
