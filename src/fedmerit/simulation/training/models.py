"""Models by name, built for the images at hand; any other `torch.nn.Module` works as well."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.validation import check_count, check_number

ImageShape = tuple[int, int, int]


class Mlp(nn.Module):
    """Linear layers with ReLU and dropout between them.

    Parameters
    ----------
    sizes : tuple of int
        Inputs, hidden units ..., classes. The paper's MNIST model is 784, 200, 10: its 159,010
        parameters, not the 100 hidden units it also mentions.
    dropout : float
        Probability that a hidden unit is left out of a training step.
    """

    def __init__(self, sizes: tuple[int, ...], dropout: float = 0.5) -> None:
        super().__init__()
        if len(sizes) < 2:
            raise SettingError(f"sizes must name inputs and outputs, got {sizes}")
        for size in sizes:
            check_count("size of a layer", size, least=1)
        check_number("dropout", dropout, least=0, below=1)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.dropouts = nn.ModuleList(nn.Dropout(dropout) for _ in sizes[1:-1])

    def forward(self, x: Tensor) -> Tensor:
        """Map a batch of inputs to logits."""
        x = x.flatten(1)
        for layer, dropout in zip(self.layers[:-1], self.dropouts, strict=True):
            x = dropout(layer(x).relu())
        logits: Tensor = self.layers[-1](x)
        return logits


class LeNet5(nn.Sequential):
    """LeNet-5 with ReLU and max pooling, for images of at least 12 x 12."""

    def __init__(self, shape: ImageShape, classes: int) -> None:
        channels, height, width = shape
        if min(height, width) < 12:
            raise SettingError(f"lenet5 needs images of at least 12 x 12, got {height} x {width}")
        flat = 16 * ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2)
        super().__init__(
            *(nn.Conv2d(channels, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(flat, 120), nn.ReLU()),
            *(nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes)),
        )


def small_cnn(shape: ImageShape, classes: int) -> nn.Module:
    """Build a CNN with two small convolutions, for images of at least 4 x 4."""
    channels, height, width = shape
    if min(height, width) < 4:
        raise SettingError(f"cnn needs images of at least 4 x 4, got {height} x {width}")
    return nn.Sequential(
        *(nn.Conv2d(channels, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(16 * (height // 4) * (width // 4), classes)),
    )


CONVOLUTIONAL: dict[str, Callable[[ImageShape, int], nn.Module]] = {
    "lenet5": LeNet5,
    "cnn": small_cnn,
}
MODELS = ("mlp", *CONVOLUTIONAL)


def build_model(
    name: str,
    shape: ImageShape,
    classes: int,
    rng: np.random.Generator,
    *,
    hidden: int = 200,
    dropout: float = 0.5,
) -> nn.Module:
    """Build the model called `name` with initial parameters drawn from `rng`.

    `hidden` and `dropout` are settings of the MLP.
    """
    if name not in MODELS:
        raise UnknownNameError.of("model", name, MODELS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**63)))
        if name == "mlp":
            return Mlp((int(np.prod(shape)), hidden, classes), dropout)
        return CONVOLUTIONAL[name](shape, classes)
