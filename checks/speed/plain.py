"""The same scores in plain NumPy, as one would write them first: np.bincount per pair."""

import numpy as np


def quantile_signals(updates, levels):
    """Per-client equal-frequency bins by sorting."""
    signals = np.empty(updates.shape, dtype=np.uint8)
    ranks = np.arange(1, levels) * updates.shape[1] // levels
    for i, row in enumerate(updates):
        signals[i] = np.searchsorted(np.sort(row)[ranks], row, side="right")
    return signals


def exact_scores(signals, levels, rng):
    """Exact PCA over all pairs, one random half per round."""
    k, d = signals.shape
    half = np.zeros(d, dtype=np.int64)
    half[rng.permutation(d)[: d // 2]] = 1
    total = np.zeros(k)
    for i in range(k):
        for j in range(i + 1, k):
            score = pair_score(signals[i], signals[j], half, levels)
            total[i] += score
            total[j] += score
    return total / (k - 1)


def pair_score(mine, peer, half, levels):
    """Mean over the two halves of n/(n-1) sum(Delta * Sign(Delta of the other half))."""
    tables = joint_tables(mine, peer, half, levels)
    sizes = tables.sum(axis=(1, 2))
    deltas = deltas_of(tables)
    scores = [
        sizes[side] / (sizes[side] - 1) * deltas[side][deltas[1 - side] > 0].sum()
        for side in (0, 1)
    ]
    return (sizes * scores).sum() / sizes.sum()


def published_scores(signals, levels, peers, bonus_count, rng):
    """Algorithm 2 with fresh halves per pair."""
    k, d = signals.shape
    bonus = rng.permutation(d)[:bonus_count]
    is_bonus = np.zeros(d, dtype=bool)
    is_bonus[bonus] = True
    scores = np.zeros(k)
    for i in range(k):
        for j in rng.permutation(np.delete(np.arange(k), i))[:peers]:
            half = np.zeros(d, dtype=np.int64)
            half[rng.permutation(d)[: d // 2]] = 1
            signs = deltas_of(joint_tables(signals[i], signals[j], half, levels)) > 0
            for side in (0, 1):
                inside = bonus[half[bonus] == side]
                penalty = np.flatnonzero(~is_bonus & (half == side))
                q = rng.integers(0, len(penalty), size=len(inside))
                r = rng.integers(0, len(penalty) - 1, size=len(inside))
                r += r >= q
                judge = signs[1 - side]
                scores[i] += judge[signals[i, inside], signals[j, inside]].sum()
                scores[i] -= judge[signals[i, penalty[q]], signals[j, penalty[r]]].sum()
    return scores / (peers * bonus_count)


def joint_tables(mine, peer, half, levels):
    """Joint counts in both halves from one np.bincount."""
    cells = (half * levels + mine) * levels + peer
    return np.bincount(cells, minlength=2 * levels * levels).reshape(2, levels, levels)


def deltas_of(tables):
    """Return Delta of each half from its counts."""
    joint = tables / tables.sum(axis=(1, 2), keepdims=True)
    return joint - joint.sum(axis=2, keepdims=True) * joint.sum(axis=1, keepdims=True)
