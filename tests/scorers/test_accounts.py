"""One work under several names: what sets two clients apart is their data, or noise."""

import numpy as np
import pytest

from fedmerit.scorers.information import apart_by_data, once, set_apart, shared_work

SIZE = 6000


def units(vectors):
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


def clients_with_data(rng, clients=12, noise=0.1):
    """Reports, and two earlier ones of each client, of clients that hold six kinds of data."""
    kinds = rng.normal(size=(6, SIZE))
    held = rng.dirichlet(np.ones(6), size=clients)
    reports = held @ kinds + noise * rng.normal(size=(clients, SIZE))
    past = (held @ kinds)[:, None] + noise * rng.normal(size=(clients, 2, SIZE))
    return reports, past


def found(reports, past, counted=None):
    clients = len(reports)
    everybody = np.ones(clients, dtype=bool) if counted is None else counted
    return shared_work(reports, past, np.zeros((clients, clients), dtype=bool), everybody)


def slow_twin(rows, past, counted, first, second):
    others = [r for r in range(len(rows)) if counted[r] and r not in (first, second)]
    by_first, by_second = rows[others] @ rows[first], rows[others] @ rows[second]
    scale = (by_first @ by_second) / (by_second @ by_second)
    difference = rows[first] - scale * rows[second]
    seen = by_noise = 0.0
    for vector in [*rows[others], *past[first], *past[second]]:
        seen += (vector @ difference) ** 2
        by_noise += np.sum(vector**2 * difference**2)
    return seen / by_noise, difference @ difference


def test_pairs_are_set_apart_as_the_slow_twin_says(rng):
    rows = units(rng.normal(size=(9, 300)) + rng.normal(size=300))
    past = units(rng.normal(size=(9, 3, 300)))
    past[2, 0] = 0
    counted = np.arange(9) != 4
    towards, apart, products = set_apart(rows, past, counted)
    for first in np.flatnonzero(counted):
        for second in np.flatnonzero(counted):
            if first != second:
                expected = slow_twin(rows, past, counted, first, second)
                got = towards[first, second], apart[first, second]
                np.testing.assert_allclose(got, expected, rtol=1e-9)
    np.testing.assert_allclose(products, rows @ rows.T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("newcomers", [True, False])
@pytest.mark.parametrize("noise", [0.05, 0.2, 0.5])
def test_accounts_with_one_work_and_noise_are_one_work(rng, noise, newcomers):
    reports, past = clients_with_data(rng)
    names = [3, 7, 8, 11]
    size = np.linalg.norm(reports[3]) / np.sqrt(SIZE)
    reports[names] = reports[3] + noise * size * rng.normal(size=(4, SIZE))
    past[names] = 0 if newcomers else past[3] + noise * size * rng.normal(size=(4, 2, SIZE))
    same = found(reports, past)
    expected = np.zeros((12, 12))
    expected[np.ix_(names, names)] = 1 - np.eye(4)
    np.testing.assert_array_equal(same, expected)
    assert np.flatnonzero(~once(same)).tolist() == names[1:]


def test_in_a_first_round_those_who_come_equally_far_are_not_one_work(rng):
    """Data of one kind, more of it or less: all go one way, and some as far as others."""
    far = np.repeat([0.4, 0.7, 0.9, 1.0], 2)
    way, turn = rng.normal(size=(2, SIZE))
    reports = np.outer(far, way) + 3 * np.outer((1 - far) ** 2, turn)
    reports += 0.6 * rng.normal(size=(8, SIZE))
    assert not found(reports, None).any()
    assert not found(reports, np.zeros((8, 2, SIZE))).any()


def test_the_scale_of_an_account_does_not_hide_it(rng):
    reports, past = clients_with_data(rng)
    reports[1] = 7 * reports[0] + 0.3 * np.abs(reports[0]).mean() * rng.normal(size=SIZE)
    assert found(reports, past)[0, 1] == 1


def test_clients_with_data_of_their_own_are_never_one_work(rng):
    for _ in range(20):
        assert not found(*clients_with_data(rng)).any()


def test_clients_that_drown_their_work_in_noise_are_not_one_work(rng):
    """Their difference is noise, but so would be that of any two who add as much."""
    reports, past = clients_with_data(rng)
    size = np.linalg.norm(reports, axis=1).mean() / np.sqrt(SIZE)
    reports[:3] += 30 * size * rng.normal(size=(3, SIZE))
    assert not found(reports, past).any()


def test_where_nobody_can_be_told_from_others_nobody_is_one_work(rng):
    """All have the same data, and each its own noise: then that is no sign of one work."""
    reports = rng.normal(size=SIZE) + 0.2 * rng.normal(size=(12, SIZE))
    assert not found(reports, None).any()


def test_of_few_clients_nobody_can_say_what_is_usual(rng):
    reports, past = clients_with_data(rng)
    reports[1] = reports[0] + 0.01 * rng.normal(size=SIZE)
    counted = np.arange(12) < 7
    assert not found(reports, past, counted).any()
    alike = np.zeros((12, 12), dtype=bool)
    alike[0, 1] = alike[1, 0] = True
    np.testing.assert_array_equal(shared_work(reports, past, alike, counted), alike)


def test_near_copies_in_a_first_round_may_have_data_of_one_kind(rng):
    """They differ where reports are large; what is added to a copy does not know where that is."""
    sizes = np.exp(rng.normal(size=4000))
    reports = sizes * rng.normal(size=(8, 4000))
    starts = np.array([0, 1000, 4000])

    def apart(other, past=None):
        unknown = np.vstack([reports, other])
        rows = units(unknown)
        alike = np.zeros((9, 9), dtype=bool)
        alike[0, 8] = alike[8, 0] = True
        return apart_by_data(unknown, past, rows @ rows.T, alike, starts).tolist()

    nobody, two = [False] * 9, [True] + [False] * 7 + [True]
    for share in (1e-5, 0.01, 0.1):
        assert apart(3.0 * (reports[0] + share * rng.normal(size=4000))) == nobody
    assert apart(reports[0]) == nobody
    assert apart(reports[0].astype(np.float16)) == nobody
    own = reports[0] + 0.02 * reports[1]
    assert apart(own) == apart(3.0 * own) == two
    assert apart(own, past=np.ones((9, 1, 4000))) == nobody  # who has a past is known by it
    one = np.zeros((9, 1, 4000))
    one[3] = 1.0
    assert apart(own, past=one) == two
    one[8] = 1.0
    assert apart(own, past=one) == nobody


def test_newcomers_with_few_parameters_are_not_called_copies(rng):
    """Halves of 255 parameters cannot show whose data differ: nobody is accused for it."""
    reports = rng.normal(size=(8, 256))
    reports[1] = reports[0]
    alike = np.zeros((8, 8), dtype=bool)
    alike[0, 1] = alike[1, 0] = True
    cosine = units(reports) @ units(reports).T
    for parameters, told in ((256, False), (255, True)):
        some = reports[:, :parameters]
        found = apart_by_data(some, None, cosine, alike, np.array([0, parameters]))
        assert found.tolist() == [told] * 2 + [False] * 6


def test_reports_without_large_parameters_are_not_told_apart():
    signs = np.ones((9, 600))
    alike = ~np.eye(9, dtype=bool)
    starts = np.array([0, 600])
    assert not apart_by_data(signs, None, signs @ signs.T, alike, starts).any()
