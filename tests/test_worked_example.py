"""The example that docs/worked-example.md does by hand."""

import numpy as np
import pytest

from fedmerit.kernels.agreement import AGREEMENT, CERTIFICATE, CHANCE, OUTPUTS, score_pairs
from tests import naive

pytestmark = pytest.mark.kernel

MINE = [1, 1, 1, 0, 0, 0, 1, 0]
PEER = [1, 1, 0, 0, 0, 1, 1, 0]
A, B = range(4), range(4, 8)


def test_tables_by_hand():
    assert naive.joint_table(MINE, PEER, A, 2) == [[1, 0], [1, 2]]
    assert naive.joint_table(MINE, PEER, B, 2) == [[2, 1], [0, 1]]
    eighth = [[1 / 8, -1 / 8], [-1 / 8, 1 / 8]]
    assert naive.delta(MINE, PEER, A, 2) == eighth
    assert naive.delta(MINE, PEER, B, 2) == eighth


def test_score_by_hand():
    tables = [naive.joint_table(MINE, PEER, half, 2) for half in (A, B)]
    results = np.empty((1, OUTPUTS))
    score_pairs(np.array([tables], dtype=np.int32), results)
    assert results[0, AGREEMENT] == pytest.approx(3 / 4)
    assert results[0, CHANCE] == pytest.approx(5 / 12)
    assert results[0, CERTIFICATE] == pytest.approx(0)
    assert naive.exact_score(MINE, PEER, A, B, 2) == pytest.approx(1 / 3)
