"""Slow, obvious twins of the kernels: definitions written down as loops over Python numbers."""

import math
from fractions import Fraction

import numpy as np

_MASK = 2**64 - 1


def random_word(seed: int, index: int) -> int:
    z = (int(seed) + (index + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


class Stream:
    """The words of a seed, one after the other."""

    def __init__(self, seed: int) -> None:
        self.seed, self.used = seed, 0

    def word(self) -> int:
        self.used += 1
        return random_word(self.seed, self.used - 1)

    def below(self, bound: int) -> int:
        return self.word() % bound


def balanced_half(stream: Stream, length: int) -> list[int]:
    bits: list[int] = []
    for _ in range((length + 63) // 64):
        word = stream.word()
        bits += [(word >> position) & 1 for position in range(64)]
    bits = bits[:length]
    while sum(bits) != length // 2:
        surplus = 1 if sum(bits) > length // 2 else 0
        position = stream.below(length)
        if bits[position] == surplus:
            bits[position] = 1 - surplus
    return bits


def quantile_levels(values, levels):
    """Level a holds the values from the order statistic number floor(a d / levels) upwards."""
    ordered = sorted(float(v) for v in values)
    edges = [ordered[a * len(ordered) // levels] for a in range(1, levels)]
    return [sum(edge <= float(v) for edge in edges) for v in values]


def uniform_levels(values, levels, clip):
    width = 2 * clip / levels
    return [min(max(int(np.floor((float(v) + clip) / width)), 0), levels - 1) for v in values]


def stochastic_levels(values, levels, clip, seed):
    result = []
    for index, value in enumerate(values):
        position = (min(max(float(value), -clip), clip) + clip) * ((levels - 1) / (2 * clip))
        lower = int(np.floor(position))
        draw = (random_word(seed, index) >> 11) * 2.0**-53
        result.append(min(lower + (draw < position - lower), levels - 1))
    return result


def joint_table(mine, peer, members, levels):
    table = [[0] * levels for _ in range(levels)]
    for p in members:
        table[mine[p]][peer[p]] += 1
    return table


def delta(mine, peer, members, levels):
    """Algorithm 1 for one half, in exact fractions."""
    n = len(members)
    table = joint_table(mine, peer, members, levels)
    rows = [Fraction(sum(table[a]), n) for a in range(levels)]
    columns = [Fraction(sum(row[b] for row in table), n) for b in range(levels)]
    return [
        [Fraction(table[a][b], n) - rows[a] * columns[b] for b in range(levels)]
        for a in range(levels)
    ]


def exact_half(mine, peer, half, judge, levels):
    """Agreement and chance of one half: every p, and every q != q', judged by the other half."""
    signs = [[entry > 0 for entry in row] for row in delta(mine, peer, judge, levels)]
    n = len(half)
    same = Fraction(sum(signs[mine[p]][peer[p]] for p in half), n)
    apart = Fraction(
        sum(signs[mine[q]][peer[r]] for q in half for r in half if q != r), n * (n - 1)
    )
    return same, apart


def exact_score(mine, peer, first, second, levels):
    """The mean over bonus parameters of Algorithm 2's expectation, given the halves."""
    d = len(first) + len(second)
    total = Fraction(0)
    for half, judge in ((first, second), (second, first)):
        same, apart = exact_half(mine, peer, half, judge, levels)
        total += Fraction(len(half), d) * (same - apart)
    return float(total)


def certificate(mine, peer, first, second, levels):
    """Mean over halves of n/(n-1) (sum max(Delta, 0) - sum Delta * Sign(Delta of the other))."""
    d = len(first) + len(second)
    total = Fraction(0)
    for half, judge in ((first, second), (second, first)):
        own, other = delta(mine, peer, half, levels), delta(mine, peer, judge, levels)
        slack = sum(
            max(own[a][b], 0) - (own[a][b] if other[a][b] > 0 else 0)
            for a in range(levels)
            for b in range(levels)
        )
        total += Fraction(len(half), d) * Fraction(len(half), len(half) - 1) * slack
    return float(total)


def published_hits(mine, peer, levels, bonus, seed):
    """Algorithm 2 for one pair: bonus hits and penalty hits, with the kernel's own dice."""
    d = len(mine)
    stream = Stream(seed)
    half = balanced_half(stream, d)
    members = {side: [p for p in range(d) if half[p] == side] for side in (0, 1)}
    deltas = {side: delta(mine, peer, members[side], levels) for side in (0, 1)}
    bonus_set = set(bonus)
    rewards = charges = 0
    for p in bonus:
        side = half[p]
        judge = deltas[1 - side]

        def penalty(side=side, avoid=None):
            while True:
                q = stream.below(d)
                if q not in bonus_set and half[q] == side and q != avoid:
                    return q

        q = penalty()
        r = penalty(avoid=q)
        rewards += judge[mine[p]][peer[p]] > 0
        charges += judge[mine[q]][peer[r]] > 0
    return rewards, charges


def weighted_median(values, weights):
    """Middle of the points that leave at most half of the weight on either side."""
    pairs = sorted((float(v), Fraction(w)) for v, w in zip(values, weights, strict=True) if w > 0)
    total = sum(w for _, w in pairs)
    points = sorted({v for v, _ in pairs})

    def balanced(x):
        below = sum(w for v, w in pairs if v < x)
        above = sum(w for v, w in pairs if v > x)
        return 2 * below <= total and 2 * above <= total

    good = [x for x in points if balanced(x)]
    return (good[0] + good[-1]) / 2


def trimmed_mean(values, trim):
    kept = sorted(float(v) for v in values)[trim : len(values) - trim]
    return sum(kept) / len(kept)


def krum_distances(updates, byzantine):
    k = len(updates)
    totals = []
    for i in range(k):
        squared = sorted(
            sum((float(a) - float(b)) ** 2 for a, b in zip(updates[i], updates[j], strict=True))
            for j in range(k)
            if j != i
        )
        totals.append(sum(squared[: k - byzantine - 2]))
    return totals


def inner_products(rows, others):
    """Sums without rounding of products in float64."""
    return [
        [
            math.fsum(float(x) * float(y) for x, y in zip(row, other, strict=True))
            for other in others
        ]
        for row in rows
    ]


def unspanned(row, vectors):
    """What least squares leave of a row."""
    columns = np.transpose(vectors)
    return row - columns @ np.linalg.lstsq(columns, row, rcond=None)[0]
