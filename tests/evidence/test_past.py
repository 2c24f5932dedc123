"""Sketches of a client's own past: what comes back is seen, in any mixture, and nothing else is."""

import numpy as np
import pytest

from fedmerit.evidence.past import REPORTS, SKETCHED, Sketches, directions_of

SIZE = 5000
CLIENTS = ["ann", "bob", "cat"]
MANY = np.full(3, np.inf)


def after_rounds(rng, rounds, size=SIZE):
    """Sketches of so many rounds, and all that was reported, (rounds, clients, size)."""
    known, reports = Sketches(), rng.normal(size=(rounds, len(CLIENTS), size))
    for updates in reports:
        known = known.after(CLIENTS, updates, CLIENTS)
    return known, reports


def test_before_the_first_round_nothing_is_known(rng):
    shares, counts = Sketches().explain(CLIENTS, rng.normal(size=(3, 50)), None, MANY)
    assert shares.tolist() == [0, 0, 0]
    assert counts.tolist() == [0, 0, 0]


def test_old_work_in_any_mixture_is_explained_and_new_work_is_not(rng):
    known, reports = after_rounds(rng, 10)
    public = rng.normal(size=(2, SIZE))
    new = rng.normal(size=(3, SIZE))
    new[0] = 3 * reports[0, 0]
    new[1] = reports[2, 1] - 0.5 * reports[7, 1] + 2 * public[1] + 1.0
    shares, counts = known.explain(CLIENTS, new, public, MANY)
    assert counts.tolist() == [10, 10, 10]
    assert shares[:2] == pytest.approx([1, 1], abs=1e-6)
    assert abs(shares[2]) < 0.05


def test_the_work_of_another_client_is_not_ones_own_past(rng):
    known, reports = after_rounds(rng, 5)
    new = reports[0][[1, 2, 0]]
    assert np.abs(known.explain(CLIENTS, new, None, MANY)[0]).max() < 0.05


def test_noise_on_old_work_is_what_is_left_of_it(rng):
    known, reports = after_rounds(rng, 5)
    new = reports[1] + 0.5 * rng.normal(size=reports[1].shape)
    left = 1 - known.explain(CLIENTS, new, None, MANY)[0]
    assert left == pytest.approx(np.full(3, 0.5 / np.sqrt(1.25)), rel=0.05)


def test_the_newest_are_kept_of_those_who_are_remembered(rng):
    known, reports = after_rounds(rng, REPORTS + 3)
    assert known.reports["bob"].shape == (REPORTS, SKETCHED)
    np.testing.assert_array_equal(known.reports["bob"], reports[3:, 1, known.places])
    later = known.after(["ann"], rng.normal(size=(1, SIZE)), ["cat", "ann"])
    assert set(later.reports) == {"ann", "cat"}


def test_where_one_looks_depends_on_all_reports_and_not_on_their_order(rng):
    updates = rng.normal(size=(3, SIZE))
    places = Sketches().after(CLIENTS, updates, CLIENTS).places
    assert len(places) == SKETCHED
    turned = Sketches().after(CLIENTS[::-1], updates[::-1], CLIENTS).places
    np.testing.assert_array_equal(places, turned)
    updates[2, 0] += 1
    assert (Sketches().after(CLIENTS, updates, CLIENTS).places != places).any()


def test_few_parameters_look_at_few_reports_or_none(rng):
    known, reports = after_rounds(rng, 8, size=60)
    shares, counts = known.explain(CLIENTS, reports[0], rng.normal(size=(2, 60)), MANY)
    assert counts.tolist() == [3, 3, 3]
    assert (shares < 0.9).all()
    shares, counts = known.explain(CLIENTS, reports[0], rng.normal(size=(6, 60)), MANY)
    assert counts.tolist() == [0, 0, 0]
    assert shares.tolist() == [0, 0, 0]


def test_zeros_and_reports_that_are_not_finite_repeat_nothing(rng):
    known, _ = after_rounds(rng, 3)
    new = rng.normal(size=(3, SIZE))
    new[0], new[1] = 0, np.inf
    shares, _ = known.explain(CLIENTS, new, None, MANY)
    assert shares[:2].tolist() == [0, 0]


def test_no_more_own_reports_speak_against_a_client_than_a_tenth_of_its_examples():
    sizes = np.array([5, 40, 99.5, 10_000, np.inf])
    assert directions_of(sizes).tolist() == [0, 4, 9, REPORTS, REPORTS]


def test_few_examples_of_a_linear_model_repeat_nothing(rng):
    """Every report lies in the span of six examples, and so of six earlier reports."""
    examples = rng.normal(size=(6, SIZE))
    known = Sketches()
    for _ in range(10):
        known = known.after(["ann"], rng.normal(size=(1, 6)) @ examples, ["ann"])
    new = rng.normal(size=(1, 6)) @ examples
    shares, _ = known.explain(["ann"], new, None, MANY[:1])
    assert shares[0] == pytest.approx(1, abs=1e-6)
    shares, counts = known.explain(["ann"], new, None, np.array([6.0]))
    assert (shares[0], counts[0]) == (0, 0)


def test_rows_that_nobody_touched_are_no_observations(rng):
    """A report that moves thirty parameters is fitted by a few others, whatever they hold."""
    known = Sketches()
    for _ in range(5):
        past = np.zeros((1, SKETCHED))
        past[0, :30] = rng.normal(size=30)
        known = known.after(["ann"], past, ["ann"])
    new = np.zeros((1, SKETCHED))
    new[0, :30] = rng.normal(size=30)
    shares, counts = known.explain(["ann"], new, None, MANY[:1])
    assert counts.tolist() == [2]
    assert shares[0] < 0.5
