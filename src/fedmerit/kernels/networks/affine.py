"""Affine layers and softmax, forth and back, for one step of training: one row for each sample.

Weights lie as (inputs, units). Inputs are taken four by four, so their number must be a multiple.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedmerit.kernels.networks.convolution import FUSED, REORDERED

Floats = NDArray[np.float32]
_ZERO = np.float32(0)


@njit(cache=True, nogil=True, fastmath=FUSED)
def affine(x: Floats, weight: Floats, bias: Floats, bend: bool, into: Floats) -> None:
    """Multiply rows of `x` by (inputs, units) weights, four inputs at a time (there are 4 n)."""
    inputs = len(weight)
    for b in range(len(x)):
        target, row = into[b], x[b]
        target[:] = bias
        for i in range(0, inputs, 4):
            w0, w1, w2, w3 = weight[i], weight[i + 1], weight[i + 2], weight[i + 3]
            x0, x1, x2, x3 = row[i], row[i + 1], row[i + 2], row[i + 3]
            for j in range(len(target)):
                target[j] += x0 * w0[j] + x1 * w1[j] + x2 * w2[j] + x3 * w3[j]
        if bend:
            for j in range(len(target)):
                target[j] = max(target[j], _ZERO)


@njit(cache=True, nogil=True, fastmath=FUSED)
def affine_gradient(x: Floats, delta: Floats, gradient: Floats, bias_gradient: Floats) -> None:
    """Write the gradients of a layer's weights and bias, four samples at a time."""
    width = len(x)
    fours = width - width % 4
    gradient[:] = 0
    bias_gradient[:] = 0
    for b in range(width):
        bias_gradient += delta[b]
    for i in range(len(gradient)):
        target = gradient[i]
        for b in range(0, fours, 4):
            d0, d1, d2, d3 = delta[b], delta[b + 1], delta[b + 2], delta[b + 3]
            x0, x1, x2, x3 = x[b, i], x[b + 1, i], x[b + 2, i], x[b + 3, i]
            for j in range(len(target)):
                target[j] += x0 * d0[j] + x1 * d1[j] + x2 * d2[j] + x3 * d3[j]
        for b in range(fours, width):
            x0, d0 = x[b, i], delta[b]
            for j in range(len(target)):
                target[j] += x0 * d0[j]


@njit(cache=True, nogil=True, fastmath=REORDERED)
def affine_back(delta: Floats, weight: Floats, values: Floats, into: Floats) -> None:
    """Bring deltas back through a layer to where its input `values` are not silent."""
    for b in range(len(delta)):
        d = delta[b]
        for i in range(0, len(weight), 4):
            w0, w1, w2, w3 = weight[i], weight[i + 1], weight[i + 2], weight[i + 3]
            t0, t1, t2, t3 = _ZERO, _ZERO, _ZERO, _ZERO
            for j in range(len(d)):
                t0 += d[j] * w0[j]
                t1 += d[j] * w1[j]
                t2 += d[j] * w2[j]
                t3 += d[j] * w3[j]
            into[b, i], into[b, i + 1], into[b, i + 2], into[b, i + 3] = t0, t1, t2, t3
        for i in range(len(weight)):
            if values[b, i] <= _ZERO:
                into[b, i] = _ZERO


@njit(cache=True, nogil=True, error_model="numpy")
def softmax_error(
    logits: Floats, y: NDArray[np.int64], samples: NDArray[np.int64], weights: Floats
) -> None:
    """Turn logits into the loss's gradient: probabilities minus one for the true class."""
    for b in range(len(logits)):
        row = logits[b]
        row[:] = np.exp(row - row.max())
        row *= weights[b] / row.sum()
        row[y[samples[b]]] -= weights[b]
