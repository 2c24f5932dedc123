"""Local training of LeNet-5: every step of one client, by SGD or Adam."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedmerit.kernels.networks.affine import affine, affine_back, affine_gradient, softmax_error
from fedmerit.kernels.networks.convolution import (
    FUSED,
    TAPS,
    bend_and_pool,
    convolve,
    convolve_back,
    convolve_gradient,
    unpool,
)

Floats = NDArray[np.float32]
FIRST, SECOND, THIRD, FOURTH = 6, 16, 120, 84  # channels and units
_PAD = 2
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Adam's moments, as in PyTorch


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
    shape2 = (SECOND, half[0] - TAPS + 1, (half[1] - TAPS + 1) * width)
    pooled_shape = (SECOND, shape2[1] // 2, (half[1] - TAPS + 1) // 2 * width)
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
    margin = (TAPS - 1) * width
    wide2 = np.zeros((SECOND, shape2[1], shape2[2] + 2 * margin), np.float32)

    for step in range(steps):
        _gather(images, indices[step], x)
        convolve(x, w1, b1, width, a1)
        bend_and_pool(a1, width, p1, chosen1)
        convolve(p1, w2, b2, width, a2)
        bend_and_pool(a2, width, p2, chosen2)
        flat[:] = p2.reshape(len(w3), width).T
        affine(flat, w3, b3, True, a3)
        affine(a3, w4, b4, True, a4)
        affine(a4, w5, b5, False, error)
        softmax_error(error, y, indices[step], weights[step])

        affine_gradient(a4, error, g5, h5)
        affine_back(error, w5, a4, d4)
        affine_gradient(a3, d4, g4, h4)
        affine_back(d4, w4, a3, d3)
        affine_gradient(flat, d3, g3, h3)
        affine_back(d3, w3, flat, back)
        back_p2.reshape(len(w3), width)[:] = back.T
        unpool(back_p2, chosen2, width, back2)
        convolve_gradient(p1, back2, width, g2, h2)
        wide2[:, :, margin : margin + shape2[2]] = back2
        convolve_back(wide2, w2, width, back_p1)
        unpool(back_p1, chosen1, width, back1)
        convolve_gradient(x, back1, width, g1, h1)
        if adam:
            _adam(parameters, gradient, first_moment, second_moment, rate, step + 1)
        else:
            _sgd(parameters, gradient, first_moment, rate, momentum)


@njit(cache=True, nogil=True, fastmath=FUSED)
def _layers(flat, channels, height, columns, classes):  # type: ignore[no-untyped-def]
    """View a flat vector as weights and biases, layer by layer."""
    rows = (height // 2 - TAPS + 1) // 2
    inputs = SECOND * rows * ((columns // 2 - TAPS + 1) // 2)
    at = 0
    end = at + FIRST * channels * TAPS * TAPS
    w1 = flat[at:end].reshape(FIRST, channels, TAPS, TAPS)
    b1, at = flat[end : end + FIRST], end + FIRST
    end = at + SECOND * FIRST * TAPS * TAPS
    w2 = flat[at:end].reshape(SECOND, FIRST, TAPS, TAPS)
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


@njit(cache=True, nogil=True, fastmath=FUSED)
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


@njit(cache=True, nogil=True, fastmath=FUSED)
def _sgd(parameters: Floats, gradient: Floats, velocity: Floats, rate: float, keep: float) -> None:
    step, momentum = np.float32(rate), np.float32(keep)
    for n in range(len(parameters)):
        velocity[n] = momentum * velocity[n] + gradient[n]
        parameters[n] -= step * velocity[n]


@njit(cache=True, nogil=True, error_model="numpy")
def _adam(
    parameters: Floats, gradient: Floats, first: Floats, second: Floats, rate: float, number: int
) -> None:
    one, beta1, beta2 = np.float32(1), np.float32(BETA1), np.float32(BETA2)
    step = np.float32(rate / (1 - BETA1**number))
    scale, floor = np.float32((1 - BETA2**number) ** -0.5), np.float32(EPSILON)
    for n in range(len(parameters)):
        g = gradient[n]
        first[n] += (one - beta1) * (g - first[n])
        second[n] = beta2 * second[n] + (one - beta2) * g * g
        parameters[n] -= step * first[n] / (np.sqrt(second[n]) * scale + floor)
