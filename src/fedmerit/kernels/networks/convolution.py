"""Convolutions by 5 x 5 weights and pooling by 2 x 2, forth and back, for one step of training.

The samples of a step lie innermost, next to the columns of an image: a row of an image is one
vector of columns x samples, and a convolution adds shifted rows to each other. So the innermost
loops are long, whatever the number of channels, where convolutions by matrix products would have
six or sixteen columns. Channels are taken two by two, so their number must be even on the side that
is written.

Sums over a whole row are reordered by the compiler to fit the processor's vectors. The bits do not
depend on threads, but they may on the kind of processor.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
TAPS = 5
_SILENT = np.int32(-1)
_ZERO = np.float32(0)
# Products and sums may be rounded once; where a sum is split over the lanes of a vector, its order
# is the compiler's.
FUSED = {"contract"}
REORDERED = {"reassoc", "nsz", "contract"}


@njit(cache=True, nogil=True, fastmath=FUSED)
def convolve(image: Floats, weight: Floats, bias: Floats, width: int, into: Floats) -> None:
    """Convolve the rows of `image` (in, rows, columns x samples) by 5 x 5 weights."""
    outputs, rows, _ = into.shape
    for o in range(0, outputs, 2):
        for r in range(rows):
            t0, t1 = into[o, r], into[o + 1, r]
            t0[:] = bias[o]
            t1[:] = bias[o + 1]
            for c in range(image.shape[0]):
                for i in range(TAPS):
                    _add_row(image[c, r + i], weight[o, c, i], weight[o + 1, c, i], width, t0, t1)


@njit(cache=True, nogil=True, fastmath=FUSED)
def _add_row(row: Floats, w: Floats, v: Floats, width: int, t0: Floats, t1: Floats) -> None:
    """Add five shifts of `row`, weighted by `w` to `t0` and by `v` to `t1`."""
    length = len(t0)
    s0, s1, s2 = row[:length], row[width : width + length], row[2 * width : 2 * width + length]
    s3, s4 = row[3 * width : 3 * width + length], row[4 * width : 4 * width + length]
    w0, w1, w2, w3, w4 = w[0], w[1], w[2], w[3], w[4]
    v0, v1, v2, v3, v4 = v[0], v[1], v[2], v[3], v[4]
    for n in range(length):
        t0[n] += w0 * s0[n] + w1 * s1[n] + w2 * s2[n] + w3 * s3[n] + w4 * s4[n]
        t1[n] += v0 * s0[n] + v1 * s1[n] + v2 * s2[n] + v3 * s3[n] + v4 * s4[n]


@njit(cache=True, nogil=True, fastmath=FUSED)
def convolve_back(wide: Floats, weight: Floats, width: int, into: Floats) -> None:
    """Bring deltas, with four columns of zeros on both sides, back through a convolution."""
    inputs, rows, _ = into.shape
    outputs, known, _ = wide.shape
    into[:] = 0
    # Walking an image backwards, the last tap comes first.
    flipped = weight[:, :, :, ::-1].copy()
    for c in range(0, inputs, 2):
        for r in range(rows):
            for o in range(outputs):
                for i in range(max(0, r - known + 1), min(TAPS, r + 1)):
                    row = wide[o, r - i]
                    w, v = flipped[o, c, i], flipped[o, c + 1, i]
                    _add_row(row, w, v, width, into[c, r], into[c + 1, r])


@njit(cache=True, nogil=True, fastmath=FUSED)
def convolve_gradient(
    image: Floats, delta: Floats, width: int, gradient: Floats, bias_gradient: Floats
) -> None:
    """Write the gradients of a convolution's weights and bias."""
    outputs, rows, _ = delta.shape
    gradient[:] = 0
    for o in range(0, outputs, 2):
        bias_gradient[o] = _sum(delta[o])
        bias_gradient[o + 1] = _sum(delta[o + 1])
        for r in range(rows):
            d0, d1 = delta[o, r], delta[o + 1, r]
            for c in range(image.shape[0]):
                for i in range(TAPS):
                    g, h = gradient[o, c, i], gradient[o + 1, c, i]
                    _add_products(image[c, r + i], d0, d1, width, g, h)


@njit(cache=True, nogil=True, fastmath=REORDERED)
def _sum(values: Floats) -> np.float32:
    total = _ZERO
    for row in values:
        for value in row:
            total += value
    return total


@njit(cache=True, nogil=True, fastmath=REORDERED)
def _add_products(row: Floats, d0: Floats, d1: Floats, width: int, g: Floats, h: Floats) -> None:
    """Add the products of two rows of deltas with five shifts of `row`."""
    length = len(d0)
    s0, s1, s2 = row[:length], row[width : width + length], row[2 * width : 2 * width + length]
    s3, s4 = row[3 * width : 3 * width + length], row[4 * width : 4 * width + length]
    g0, g1, g2, g3, g4 = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
    h0, h1, h2, h3, h4 = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
    for n in range(length):
        p, q = d0[n], d1[n]
        g0 += p * s0[n]
        g1 += p * s1[n]
        g2 += p * s2[n]
        g3 += p * s3[n]
        g4 += p * s4[n]
        h0 += q * s0[n]
        h1 += q * s1[n]
        h2 += q * s2[n]
        h3 += q * s3[n]
        h4 += q * s4[n]
    g[0] += g0
    g[1] += g1
    g[2] += g2
    g[3] += g3
    g[4] += g4
    h[0] += h0
    h[1] += h1
    h[2] += h2
    h[3] += h3
    h[4] += h4


@njit(cache=True, nogil=True, fastmath=FUSED)
def bend_and_pool(image: Floats, width: int, into: Floats, chosen: NDArray[np.int32]) -> None:
    """Apply ReLU, take the largest of 2 x 2, and note which one it was, or that it was silent."""
    channels, rows, length = into.shape
    for c in range(channels):
        for r in range(rows):
            top, low = image[c, 2 * r], image[c, 2 * r + 1]
            for first in range(0, length, width):
                target, choice = into[c, r, first : first + width], chosen[c, r]
                choice = choice[first : first + width]
                v0, v1 = top[2 * first : 2 * first + width], top[2 * first + width :][:width]
                v2, v3 = low[2 * first : 2 * first + width], low[2 * first + width :][:width]
                for b in range(width):
                    largest, which = v0[b], np.int32(0)
                    if v1[b] > largest:
                        largest, which = v1[b], np.int32(1)
                    if v2[b] > largest:
                        largest, which = v2[b], np.int32(2)
                    if v3[b] > largest:
                        largest, which = v3[b], np.int32(3)
                    if largest <= _ZERO:
                        largest, which = _ZERO, _SILENT
                    target[b], choice[b] = largest, which


@njit(cache=True, nogil=True, fastmath=FUSED)
def unpool(delta: Floats, chosen: NDArray[np.int32], width: int, into: Floats) -> None:
    """Bring deltas back to the pixels that were chosen; rows and columns left over stay as is."""
    channels, rows, length = delta.shape
    for c in range(channels):
        for r in range(rows):
            for pixel in range(4):
                row = into[c, 2 * r + pixel // 2]
                for first in range(0, length, width):
                    d = delta[c, r, first : first + width]
                    choice = chosen[c, r, first : first + width]
                    target = row[2 * first + pixel % 2 * width :][:width]
                    for b in range(width):
                        target[b] = d[b] if choice[b] == pixel else _ZERO
