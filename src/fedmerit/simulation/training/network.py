"""A PyTorch module as the federation sees it: one flat vector of parameters.

Dropout draws from PyTorch's global generator, which would tie every client to all others. Here its
masks are inputs instead (`MaskedDropout`), drawn from each client's own stream.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedmerit.errors import SettingError
from fedmerit.server.layout import layer_numbers

Vector = NDArray[np.float32]
_EVALUATION_BATCH = 2000


class MaskedDropout(nn.Module):
    """Dropout that multiplies with `mask`, which the training loop sets for every step."""

    mask: Tensor

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.register_buffer("mask", torch.ones(()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the mask in training, nothing in evaluation."""
        return x * self.mask if self.training else x


@dataclass(frozen=True)
class DropoutSite:
    """Where a module drops units: the mask's name, its shape for one sample, the probability."""

    name: str
    shape: tuple[int, ...]
    p: float

    def draw(self, rng: np.random.Generator, into: NDArray[np.float32]) -> None:
        """Fill `into` (samples, ...) with masks: 0 with probability p, else 1 / (1 - p)."""
        rng.random(out=into, dtype=np.float32)
        np.multiply(into >= self.p, np.float32(1 / (1 - self.p)), out=into)


class Network:
    """A module with its parameters as one float32 vector of length d.

    Parameters
    ----------
    module : nn.Module
        Any classifier without running statistics (batch normalisation). It is copied.
    sample_shape : tuple of int
        Shape of one input.
    """

    def __init__(self, module: nn.Module, sample_shape: tuple[int, ...]) -> None:
        self.module = deepcopy(module)
        for name, child in list(self.module.named_modules()):
            if type(child) is nn.Dropout:
                parent, _, last = name.rpartition(".")
                setattr(self.module.get_submodule(parent), last, MaskedDropout(child.p))
        self._check()
        self.shapes = {name: tuple(p.shape) for name, p in self.module.named_parameters()}
        self.sizes = {name: p.numel() for name, p in self.module.named_parameters()}
        self.parameters = sum(self.sizes.values())
        self.dropouts = self._find_dropouts(sample_shape)

    def flatten(self) -> Vector:
        """Return the module's parameters as one vector."""
        with torch.no_grad():
            flat = torch.cat([p.reshape(-1) for p in self.module.parameters()])
        return flat.numpy().astype(np.float32)

    def load(self, vector: Vector) -> None:
        """Set the module's parameters from one vector."""
        tensors = self.split(torch.from_numpy(np.array(vector, dtype=np.float32)).unsqueeze(0))
        with torch.no_grad():
            for name, parameter in self.module.named_parameters():
                parameter.copy_(tensors[name][0])

    def split(self, stack: Tensor) -> dict[str, Tensor]:
        """View a (clients, d) stack as one (clients, *shape) tensor per parameter."""
        pieces = torch.split(stack, list(self.sizes.values()), dim=1)
        return {
            name: piece.view(len(stack), *shape)
            for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }

    @property
    def layers(self) -> NDArray[np.int32]:
        """Which layer each parameter belongs to, (d,): a weight and its bias share one."""
        return layer_numbers(self.sizes)

    def evaluate(
        self, vector: Vector, x: NDArray[np.float32], y: NDArray[np.int64]
    ) -> tuple[float, float]:
        """Return the mean loss and the accuracy of the model `vector` on (x, y)."""
        self.load(vector)
        self.module.eval()
        loss, hits = 0.0, 0
        with torch.no_grad(), one_thread():
            for start in range(0, len(y), _EVALUATION_BATCH):
                part = slice(start, start + _EVALUATION_BATCH)
                logits, labels = self.module(torch.from_numpy(x[part])), torch.from_numpy(y[part])
                loss += float(nn.functional.cross_entropy(logits, labels, reduction="sum"))
                hits += int((logits.argmax(1) == labels).sum())
        return loss / len(y), hits / len(y)

    def _check(self) -> None:
        masks = {id(m.mask) for m in self.module.modules() if isinstance(m, MaskedDropout)}
        kept = [name for name, b in self.module.named_buffers() if id(b) not in masks]
        if kept:
            raise SettingError(
                f"a module must keep no running statistics, got buffers {', '.join(kept)}"
            )
        for name, parameter in self.module.named_parameters():
            if parameter.dtype != torch.float32:
                raise SettingError(f"parameters must be float32, got {parameter.dtype} in {name}")

    def _find_dropouts(self, sample_shape: tuple[int, ...]) -> tuple[DropoutSite, ...]:
        found: dict[str, tuple[int, ...]] = {}
        masked = {
            name: child
            for name, child in self.module.named_modules()
            if isinstance(child, MaskedDropout) and child.p > 0
        }
        hooks = [
            child.register_forward_hook(
                lambda _, inputs, __, name=name: found.update({name: tuple(inputs[0].shape[1:])})
            )
            for name, child in masked.items()
        ]
        self.module.eval()
        with torch.no_grad():
            self.module(torch.zeros(1, *sample_shape))
        for hook in hooks:
            hook.remove()
        return tuple(DropoutSite(f"{n}.mask", shape, masked[n].p) for n, shape in found.items())


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread: small steps are not worth sharing, and sums keep their order.

    On a busy machine two threads were measured to be fifty times slower than one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
