"""The statistics of the benchmarks, on cases with known answers."""

import math

import numpy as np
import pytest

from fedmerit.experiments.benchmark.statistics import (
    mean,
    precision_recall,
    ranks,
    rate,
    roc_auc,
    spearman,
    spread,
)


def test_ranks_share_ties():
    assert ranks([30, 10, 20, 20]).tolist() == [4.0, 1.0, 2.5, 2.5]


def test_spearman():
    assert spearman([1, 2, 3], [10, 100, 1000]) == 1
    assert spearman([1, 2, 3], [3, 2, 1]) == -1
    assert math.isnan(spearman([1, 2, 3], [5, 5, 5]))
    # 1 - 6 sum d^2 / (n (n^2 - 1)) without ties
    first, second = np.random.default_rng(0).permuted(np.tile(np.arange(8), (2, 1)), axis=1)
    expected = 1 - 6 * ((first - second) ** 2).sum() / (8 * 63)
    assert spearman(first, second) == pytest.approx(expected)


def test_roc_auc_counts_pairs():
    assert roc_auc([2, 3], [0, 1]) == 1
    assert roc_auc([0, 1], [2, 3]) == 0
    assert roc_auc([1, 1], [1]) == 0.5
    assert roc_auc([1, 3], [2]) == 0.5
    assert math.isnan(roc_auc([], [1]))


def test_wilson_interval():
    found = rate(10, 100)
    assert found.share == 0.1
    assert (found.low, found.high) == pytest.approx((0.0552, 0.1744), abs=1e-4)
    assert rate(0, 50).low == 0
    assert rate(50, 50).high == 1
    assert 0 < rate(0, 50).high < 0.1


def test_precision_and_recall():
    assert precision_recall({1, 2, 3}, {2, 3, 4, 5}) == pytest.approx((2 / 3, 1 / 2))
    precision, recall = precision_recall(set(), {1})
    assert math.isnan(precision)
    assert recall == 0
    assert math.isnan(precision_recall({1}, set())[1])


def test_mean_and_spread_skip_the_unknown():
    assert mean([1.0, math.nan, 3.0]) == 2
    assert math.isnan(mean([math.nan]))
    assert spread([1.0, 3.0, math.nan]) == pytest.approx(math.sqrt(2))
    assert math.isnan(spread([1.0]))
