"""Local training of LeNet-5: every step of one client, by SGD or Adam.

The samples of a step lie innermost, next to the columns of an image: a row of an image is one
vector of columns x samples, and a convolution adds shifted rows to each other. So the innermost
loops are long, whatever the number of channels, where convolutions by matrix products would have
six or sixteen columns.

Sums over a whole row are reordered by the compiler to fit the processor's vectors. The bits do not
depend on threads, but they may on the kind of processor.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
# Channels and units; the convolutions below take their channels two by two.
FIRST, SECOND, THIRD, FOURTH = 6, 16, 120, 84
_TAPS, _PAD = 5, 2
_SILENT = np.int32(-1)
_ZERO = np.float32(0)
_BETA1, _BETA2, _EPSILON = np.float32(0.9), np.float32(0.999), np.float32(1e-8)  # Adam's, as usual


@njit(cache=True, nogil=True, error_model="numpy")
def train_lenet(
    parameters: Floats,
    images: Floats,
    y: NDArray[np.int64],
    classes: int,
    indices: NDArray[np.int64],
    weights: Floats,
    adam: bool,
    rate: float,
    momentum: float,
) -> None:
    """Train in place on softmax cross entropy.

    Parameters
    ----------
    parameters : (d,) float32
        Weights and biases layer by layer. Convolutions as (out, in, 5, 5), the other layers as
        (inputs, units).
    images, y : (samples, channels, height, width) float32, (samples,)
    indices, weights : (steps, b)
        The samples of each step and their shares in its loss.
    adam : bool
        Adam, which ignores `momentum`, or SGD.
    """
    steps, width = indices.shape
    _, channels, height, columns = images.shape
    gradient = np.zeros_like(parameters)
    first_moment, second_moment = np.zeros_like(parameters), np.zeros_like(parameters)
    w1, b1, w2, b2, w3, b3, w4, b4, w5, b5 = _layers(parameters, channels, height, columns, classes)
    g1, h1, g2, h2, g3, h3, g4, h4, g5, h5 = _layers(gradient, channels, height, columns, classes)

    shape1 = (FIRST, height, columns * width)
    half = (height // 2, columns // 2)
    shape2 = (SECOND, half[0] - _TAPS + 1, (half[1] - _TAPS + 1) * width)
    pooled_shape = (SECOND, shape2[1] // 2, (half[1] - _TAPS + 1) // 2 * width)
    x = np.zeros((channels, height + 2 * _PAD, (columns + 2 * _PAD) * width), np.float32)
    a1 = np.empty(shape1, np.float32)
    p1 = np.empty((FIRST, half[0], half[1] * width), np.float32)
    chosen1 = np.empty(p1.shape, np.int32)
    a2 = np.empty(shape2, np.float32)
    p2 = np.empty(pooled_shape, np.float32)
    chosen2 = np.empty(pooled_shape, np.int32)
    flat = np.empty((width, len(w3)), np.float32)
    a3, a4 = np.empty((width, THIRD), np.float32), np.empty((width, FOURTH), np.float32)
    error = np.empty((width, classes), np.float32)
    d3, d4, back = np.empty_like(a3), np.empty_like(a4), np.empty_like(flat)
    back_p1, back_p2 = np.empty_like(p1), np.empty_like(p2)
    back1, back2 = np.zeros_like(a1), np.zeros_like(a2)
    margin = (_TAPS - 1) * width
    wide2 = np.zeros((SECOND, shape2[1], shape2[2] + 2 * margin), np.float32)

    for step in range(steps):
        _gather(images, indices[step], x)
        _convolve(x, w1, b1, width, a1)
        _bend_and_pool(a1, width, p1, chosen1)
        _convolve(p1, w2, b2, width, a2)
        _bend_and_pool(a2, width, p2, chosen2)
        _to_samples(p2, flat)
        _affine(flat, w3, b3, True, a3)
        _affine(a3, w4, b4, True, a4)
        _affine(a4, w5, b5, False, error)
        _softmax_error(error, y, indices[step], weights[step])

        _affine_gradient(a4, error, g5, h5)
        _affine_back(error, w5, a4, d4)
        _affine_gradient(a3, d4, g4, h4)
        _affine_back(d4, w4, a3, d3)
        _affine_gradient(flat, d3, g3, h3)
        _affine_back(d3, w3, flat, back)
        _from_samples(back, back_p2)
        _unpool(back_p2, chosen2, width, back2)
        _convolve_gradient(p1, back2, width, g2, h2)
        wide2[:, :, margin : margin + shape2[2]] = back2
        _convolve_back(wide2, w2, width, back_p1)
        _unpool(back_p1, chosen1, width, back1)
        _convolve_gradient(x, back1, width, g1, h1)
        if adam:
            _adam(parameters, gradient, first_moment, second_moment, rate, step + 1)
        else:
            _sgd(parameters, gradient, first_moment, rate, momentum)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _layers(flat, channels, height, columns, classes):  # type: ignore[no-untyped-def]
    """View a flat vector as weights and biases, layer by layer."""
    rows = (height // 2 - _TAPS + 1) // 2
    inputs = SECOND * rows * ((columns // 2 - _TAPS + 1) // 2)
    at = 0
    end = at + FIRST * channels * _TAPS * _TAPS
    w1 = flat[at:end].reshape(FIRST, channels, _TAPS, _TAPS)
    b1, at = flat[end : end + FIRST], end + FIRST
    end = at + SECOND * FIRST * _TAPS * _TAPS
    w2 = flat[at:end].reshape(SECOND, FIRST, _TAPS, _TAPS)
    b2, at = flat[end : end + SECOND], end + SECOND
    end = at + inputs * THIRD
    w3 = flat[at:end].reshape(inputs, THIRD)
    b3, at = flat[end : end + THIRD], end + THIRD
    end = at + THIRD * FOURTH
    w4 = flat[at:end].reshape(THIRD, FOURTH)
    b4, at = flat[end : end + FOURTH], end + FOURTH
    end = at + FOURTH * classes
    w5 = flat[at:end].reshape(FOURTH, classes)
    return w1, b1, w2, b2, w3, b3, w4, b4, w5, flat[end : end + classes]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _gather(images: Floats, samples: NDArray[np.int64], into: Floats) -> None:
    """Copy samples into the padded rows of `into`."""
    width = len(samples)
    for b in range(width):
        image = images[samples[b]]
        for c in range(image.shape[0]):
            for r in range(image.shape[1]):
                row, target = image[c, r], into[c, r + _PAD]
                for i in range(len(row)):
                    target[(i + _PAD) * width + b] = row[i]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _convolve(image: Floats, weight: Floats, bias: Floats, width: int, into: Floats) -> None:
    """Convolve the rows of `image` (in, rows, columns x samples) by 5 x 5 weights."""
    outputs, rows, _ = into.shape
    for o in range(0, outputs, 2):
        for r in range(rows):
            t0, t1 = into[o, r], into[o + 1, r]
            t0[:] = bias[o]
            t1[:] = bias[o + 1]
            for c in range(image.shape[0]):
                for i in range(_TAPS):
                    _add_row(image[c, r + i], weight[o, c, i], weight[o + 1, c, i], width, t0, t1)


@njit(cache=True, nogil=True, fastmath={"contract"})
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


@njit(cache=True, nogil=True, fastmath={"contract"})
def _convolve_back(wide: Floats, weight: Floats, width: int, into: Floats) -> None:
    """Bring deltas, with four columns of zeros on both sides, back through a convolution."""
    inputs, rows, _ = into.shape
    outputs, known, _ = wide.shape
    into[:] = 0
    # Walking an image backwards, the last tap comes first.
    flipped = weight[:, :, :, ::-1].copy()
    for c in range(0, inputs, 2):
        for r in range(rows):
            for o in range(outputs):
                for i in range(max(0, r - known + 1), min(_TAPS, r + 1)):
                    row = wide[o, r - i]
                    w, v = flipped[o, c, i], flipped[o, c + 1, i]
                    _add_row(row, w, v, width, into[c, r], into[c + 1, r])


@njit(cache=True, nogil=True, fastmath={"contract"})
def _convolve_gradient(
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
                for i in range(_TAPS):
                    g, h = gradient[o, c, i], gradient[o + 1, c, i]
                    _add_products(image[c, r + i], d0, d1, width, g, h)


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def _sum(values: Floats) -> np.float32:
    total = _ZERO
    for row in values:
        for value in row:
            total += value
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
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


@njit(cache=True, nogil=True, fastmath={"contract"})
def _bend_and_pool(image: Floats, width: int, into: Floats, chosen: NDArray[np.int32]) -> None:
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


@njit(cache=True, nogil=True, fastmath={"contract"})
def _unpool(delta: Floats, chosen: NDArray[np.int32], width: int, into: Floats) -> None:
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


@njit(cache=True, nogil=True, fastmath={"contract"})
def _to_samples(pooled: Floats, into: Floats) -> None:
    """Turn (channels, rows, columns x samples) into one row for each sample."""
    width = len(into)
    values = pooled.reshape(into.shape[1], width)
    for n in range(len(values)):
        for b in range(width):
            into[b, n] = values[n, b]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _from_samples(rows: Floats, into: Floats) -> None:
    """Turn one row for each sample into (channels, rows, columns x samples)."""
    width = len(rows)
    values = into.reshape(rows.shape[1], width)
    for n in range(len(values)):
        for b in range(width):
            values[n, b] = rows[b, n]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _affine(x: Floats, weight: Floats, bias: Floats, bend: bool, into: Floats) -> None:
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


@njit(cache=True, nogil=True, fastmath={"contract"})
def _affine_gradient(x: Floats, delta: Floats, gradient: Floats, bias_gradient: Floats) -> None:
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


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def _affine_back(delta: Floats, weight: Floats, values: Floats, into: Floats) -> None:
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
def _softmax_error(
    logits: Floats, y: NDArray[np.int64], samples: NDArray[np.int64], weights: Floats
) -> None:
    """Turn logits into the loss's gradient: probabilities minus one for the true class."""
    for b in range(len(logits)):
        row = logits[b]
        row[:] = np.exp(row - row.max())
        row *= weights[b] / row.sum()
        row[y[samples[b]]] -= weights[b]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _sgd(parameters: Floats, gradient: Floats, velocity: Floats, rate: float, keep: float) -> None:
    step, momentum = np.float32(rate), np.float32(keep)
    for n in range(len(parameters)):
        velocity[n] = momentum * velocity[n] + gradient[n]
        parameters[n] -= step * velocity[n]


@njit(cache=True, nogil=True, error_model="numpy")
def _adam(
    parameters: Floats, gradient: Floats, first: Floats, second: Floats, rate: float, number: int
) -> None:
    one = np.float32(1)
    step = np.float32(rate / (1 - 0.9**number))
    scale = np.float32((1 - 0.999**number) ** -0.5)
    for n in range(len(parameters)):
        g = gradient[n]
        first[n] += (one - _BETA1) * (g - first[n])
        second[n] = _BETA2 * second[n] + (one - _BETA2) * g * g
        parameters[n] -= step * first[n] / (np.sqrt(second[n]) * scale + _EPSILON)
