import numpy as np
import pytest

from fedmerit.errors import InvalidInputError
from fedmerit.records.agreement_map import (
    MOST_CLIENTS,
    clients_in,
    pack_agreement,
    unpack_agreement,
)


def test_what_is_packed_comes_back_within_the_promised_step(rng):
    matrix = rng.uniform(-1, 1, size=(9, 9)) ** 3
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, np.nan)
    packed = pack_agreement(matrix)
    assert len(packed) == clients_in(packed) * 4 == 36
    back = unpack_agreement(packed)
    np.testing.assert_array_equal(np.isnan(back), np.isnan(matrix))
    step = 2 * np.sqrt(np.abs(matrix)) / 127 + 1 / 127**2
    assert np.nanmax(np.abs(back - matrix) / step) <= 0.5 + 1e-9


def test_pairs_compared_one_way_or_not_at_all():
    matrix = np.full((3, 3), np.nan)
    matrix[0, 1] = 1.0  # 1 was not compared with 0 the other way round
    matrix[1, 2], matrix[2, 1] = 0.0, -0.5
    back = unpack_agreement(pack_agreement(matrix))
    assert back[1, 0] == back[0, 1] == 1.0
    assert back[1, 2] == pytest.approx(-0.25, abs=0.004)
    assert np.isnan(back[0, 2])
    assert pack_agreement(np.full((3, 3), np.nan)) == b""
    assert pack_agreement(np.zeros((MOST_CLIENTS + 1, MOST_CLIENTS + 1))) == b""
    assert unpack_agreement(b"").shape == (0, 0)


def test_bytes_that_are_no_pairs_are_refused():
    with pytest.raises(InvalidInputError, match="one byte per pair of clients, got 4 bytes"):
        clients_in(b"1234")
