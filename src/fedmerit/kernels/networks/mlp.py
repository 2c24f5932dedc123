"""Local training of a perceptron with one hidden layer: every SGD step of one client.

Small steps are bound by memory, not by arithmetic: a step of ten samples needs the large first
layer three times (forward, velocity, update), and the 1.2 MB of its weights and velocity barely fit
a core's cache. So a step's update and the next step's forward product share one pass over the rows
of that layer.

Weights lie as (inputs, units): the innermost loops then run over units and need no reordering of
sums, so they are vectorised without fast-math and give the same bits on any machine.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
_ZERO = np.float32(0)


@njit(cache=True, nogil=True, error_model="numpy")
def train_mlp(
    first: Floats,
    first_bias: Floats,
    last: Floats,
    last_bias: Floats,
    x: Floats,
    y: NDArray[np.int64],
    indices: NDArray[np.int64],
    weights: Floats,
    masks: Floats,
    rate: np.float32,
    momentum: np.float32,
) -> None:
    """Train in place by SGD with momentum on softmax cross entropy.

    Parameters
    ----------
    first : (n, u) float32
        First layer, n even: a row of zeros is added to an odd number of inputs.
    first_bias, last, last_bias : (u,), (u, c), (c,) float32
    x, y : (samples, at most n), (samples,)
    indices, weights : (steps, b)
        The samples of each step and their shares in its loss.
    masks : (steps or 1, b, u) float32
        Dropout factors of the hidden units; a single one serves all steps.
    """
    steps, width = indices.shape
    rows, units = first.shape
    hidden = np.empty((width, units), np.float32)
    delta = np.zeros((width, units), np.float32)
    now, following = np.zeros((rows, width), np.float32), np.zeros((rows, width), np.float32)
    velocity = np.zeros_like(first)
    first_bias_velocity = np.zeros_like(first_bias)
    last_velocity, last_bias_velocity = np.zeros_like(last), np.zeros_like(last_bias)

    _gather(x, indices[0], following)
    for b in range(width):
        hidden[b] = first_bias
    _update_then_forward(first, velocity, now, delta, following, hidden, rate, momentum)
    for step in range(steps):
        now, following = following, now
        _last_layer(
            hidden,
            delta,
            last,
            last_bias,
            last_velocity,
            last_bias_velocity,
            masks[step % len(masks)],
            y,
            indices[step],
            weights[step],
            rate,
            momentum,
        )
        for j in range(units):
            total = _ZERO
            for b in range(width):
                total += delta[b, j]
            first_bias_velocity[j] = momentum * first_bias_velocity[j] + total
            first_bias[j] -= rate * first_bias_velocity[j]
        # After the last step nothing follows: its own samples serve, and the product is not used.
        _gather(x, indices[min(step + 1, steps - 1)], following)
        for b in range(width):
            hidden[b] = first_bias
        _update_then_forward(first, velocity, now, delta, following, hidden, rate, momentum)


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(x: Floats, samples: NDArray[np.int64], into: Floats) -> None:
    """Copy samples into the columns of `into`."""
    for b in range(len(samples)):
        row = x[samples[b]]
        for i in range(len(row)):
            into[i, b] = row[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _update_then_forward(
    first: Floats,
    velocity: Floats,
    now: Floats,
    delta: Floats,
    following: Floats,
    hidden: Floats,
    rate: np.float32,
    momentum: np.float32,
) -> None:
    """Apply the step (now, delta) to the first layer and add its product with `following`.

    Eight rows at a time go into the product: what is added up stays in registers longer. They are
    added in pairs, one pair after the other, as the rows at the end are.
    """
    rows, width = len(first), len(delta)
    eights = rows - rows % 8
    for i in range(0, eights, 8):
        for r in range(i, i + 8, 2):
            _update_pair(first, velocity, now, delta, r, rate, momentum)
        w0, w1, w2, w3 = first[i], first[i + 1], first[i + 2], first[i + 3]
        w4, w5, w6, w7 = first[i + 4], first[i + 5], first[i + 6], first[i + 7]
        for b in range(width):
            h = hidden[b]
            x0, x1 = following[i, b], following[i + 1, b]
            x2, x3 = following[i + 2, b], following[i + 3, b]
            x4, x5 = following[i + 4, b], following[i + 5, b]
            x6, x7 = following[i + 6, b], following[i + 7, b]
            for j in range(len(h)):
                total = h[j] + (x0 * w0[j] + x1 * w1[j])
                total += x2 * w2[j] + x3 * w3[j]
                total += x4 * w4[j] + x5 * w5[j]
                h[j] = total + (x6 * w6[j] + x7 * w7[j])
    for i in range(eights, rows, 2):
        _update_pair(first, velocity, now, delta, i, rate, momentum)
        w0, w1 = first[i], first[i + 1]
        for b in range(width):
            x0, x1, h = following[i, b], following[i + 1, b], hidden[b]
            for j in range(len(h)):
                h[j] += x0 * w0[j] + x1 * w1[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _update_pair(
    first: Floats,
    velocity: Floats,
    now: Floats,
    delta: Floats,
    i: int,
    rate: np.float32,
    momentum: np.float32,
) -> None:
    """Apply the step to rows i and i + 1, five samples at a time.

    The first five come with the momentum, and the last five, where all are in fives, with the
    weights: each pass over the rows that is saved is a tenth of a step.
    """
    width, units = delta.shape
    fives = width - width % 5
    weights_follow = not (width > 5 and fives == width)
    w0, w1, v0, v1 = first[i], first[i + 1], velocity[i], velocity[i + 1]
    if fives == 0:
        for j in range(units):
            v0[j] *= momentum
            v1[j] *= momentum
    for b in range(0, fives, 5):
        p, q = now[i, b : b + 5], now[i + 1, b : b + 5]
        p0, p1, p2, p3, p4 = p[0], p[1], p[2], p[3], p[4]
        q0, q1, q2, q3, q4 = q[0], q[1], q[2], q[3], q[4]
        d0, d1, d2, d3, d4 = delta[b], delta[b + 1], delta[b + 2], delta[b + 3], delta[b + 4]
        if b == 0:
            for j in range(units):
                s = p0 * d0[j] + p1 * d1[j] + p2 * d2[j] + p3 * d3[j] + p4 * d4[j]
                t = q0 * d0[j] + q1 * d1[j] + q2 * d2[j] + q3 * d3[j] + q4 * d4[j]
                v0[j] = momentum * v0[j] + s
                v1[j] = momentum * v1[j] + t
        elif b + 5 < width:
            for j in range(units):
                v0[j] += p0 * d0[j] + p1 * d1[j] + p2 * d2[j] + p3 * d3[j] + p4 * d4[j]
                v1[j] += q0 * d0[j] + q1 * d1[j] + q2 * d2[j] + q3 * d3[j] + q4 * d4[j]
        else:
            for j in range(units):
                s = v0[j] + (p0 * d0[j] + p1 * d1[j] + p2 * d2[j] + p3 * d3[j] + p4 * d4[j])
                t = v1[j] + (q0 * d0[j] + q1 * d1[j] + q2 * d2[j] + q3 * d3[j] + q4 * d4[j])
                v0[j] = s
                v1[j] = t
                w0[j] -= rate * s
                w1[j] -= rate * t
    for b in range(fives, width):
        p0, q0, d0 = now[i, b], now[i + 1, b], delta[b]
        for j in range(units):
            v0[j] += p0 * d0[j]
            v1[j] += q0 * d0[j]
    if weights_follow:
        for j in range(units):
            w0[j] -= rate * v0[j]
            w1[j] -= rate * v1[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _last_layer(
    hidden: Floats,
    delta: Floats,
    last: Floats,
    bias: Floats,
    velocity: Floats,
    bias_velocity: Floats,
    mask: Floats,
    y: NDArray[np.int64],
    samples: NDArray[np.int64],
    weights: Floats,
    rate: np.float32,
    momentum: np.float32,
) -> None:
    """From the hidden products to the loss and back to `delta`; update the last layer."""
    width, units = hidden.shape
    classes = len(bias)
    errors = np.empty((width, classes), np.float32)
    for b in range(width):
        error = errors[b]
        error[:] = bias
        for j in range(units):
            value = max(hidden[b, j], _ZERO)
            # Where a unit is silent nothing goes back: 0 marks it in `delta`, else its factor.
            delta[b, j] = mask[b, j] if value > _ZERO else _ZERO
            value *= mask[b, j]
            hidden[b, j] = value
            for c in range(classes):
                error[c] += value * last[j, c]
        largest = error[0]
        for c in range(1, classes):
            largest = max(largest, error[c])
        total = _ZERO
        for c in range(classes):
            error[c] = np.exp(error[c] - largest)
            total += error[c]
        for c in range(classes):
            error[c] = error[c] / total * weights[b]
        error[y[samples[b]]] -= weights[b]
        for j in range(units):
            back = _ZERO
            for c in range(classes):
                back += error[c] * last[j, c]
            delta[b, j] *= back
    for j in range(units):
        for c in range(classes):
            total = _ZERO
            for b in range(width):
                total += hidden[b, j] * errors[b, c]
            velocity[j, c] = momentum * velocity[j, c] + total
            last[j, c] -= rate * velocity[j, c]
    for c in range(classes):
        total = _ZERO
        for b in range(width):
            total += errors[b, c]
        bias_velocity[c] = momentum * bias_velocity[c] + total
        bias[c] -= rate * bias_velocity[c]
