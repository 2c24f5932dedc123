"""Gradients of a whole stack of clients at once.

`stack_gradient` picks the way: hand-written batched products for the MLP, where the work is bound
by memory and every pass over the parameters counts, and `torch.func` for any other module.

A gradient is added onto ``keep`` times what the target holds, in one pass where that is possible:
with ``keep`` the momentum, the target is SGD's velocity and no gradient is ever stored.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from fedmerit.simulation.training.models import Mlp
from fedmerit.simulation.training.network import Network


@dataclass(frozen=True)
class StackBatch:
    """One step of a stack of clients: inputs, labels, sample weights (clients, width) and masks."""

    x: Tensor
    y: Tensor
    weights: Tensor
    masks: dict[str, Tensor]


AddGradient = Callable[[StackBatch, float], None]


def stack_gradient(network: Network, parameters: Tensor, target: Tensor) -> AddGradient:
    """Return a function that turns ``target`` into ``keep * target + gradient at parameters``.

    Both are (clients, d) and are looked at anew in every call.
    """
    if type(network.module) is Mlp:  # a subclass may compute something else
        return _mlp_gradient(network, parameters, target)
    return _module_gradient(network, parameters, target)


def _mlp_gradient(network: Network, parameters: Tensor, target: Tensor) -> AddGradient:
    values, targets = network.split(parameters), network.split(target)
    depth = len(network.shapes) // 2
    weights = [values[f"layers.{i}.weight"] for i in range(depth)]
    biases = [values[f"layers.{i}.bias"].unsqueeze(1) for i in range(depth)]
    weight_targets = [targets[f"layers.{i}.weight"] for i in range(depth)]
    bias_targets = [targets[f"layers.{i}.bias"].unsqueeze(1) for i in range(depth)]

    def add(batch: StackBatch, keep: float) -> None:
        inputs = [batch.x.flatten(2)]
        hidden: list[Tensor] = []
        masks = [batch.masks.get(f"dropouts.{i}.mask") for i in range(depth - 1)]
        for i in range(depth - 1):
            hidden.append(torch.baddbmm(biases[i], inputs[i], weights[i].transpose(1, 2)).relu_())
            mask = masks[i]
            inputs.append(hidden[i] if mask is None else hidden[i] * mask)
        # Back through softmax and cross entropy: probabilities minus one for the true class.
        delta = torch.baddbmm(biases[-1], inputs[-1], weights[-1].transpose(1, 2)).softmax(2)
        delta.scatter_add_(2, batch.y.unsqueeze(2), delta.new_full((*batch.y.shape, 1), -1))
        delta.mul_(batch.weights.unsqueeze(2))
        for i in reversed(range(depth)):
            weight_targets[i].baddbmm_(delta.transpose(1, 2), inputs[i], beta=keep)
            bias_targets[i].mul_(keep).add_(delta.sum(1, keepdim=True))
            if i > 0:
                delta = torch.bmm(delta, weights[i]).mul_(hidden[i - 1] > 0)
                mask = masks[i - 1]
                if mask is not None:
                    delta.mul_(mask)

    return add


def _module_gradient(network: Network, parameters: Tensor, target: Tensor) -> AddGradient:
    values, targets = network.split(parameters), network.split(target)
    module = network.module.train()

    def loss(
        parameters: dict[str, Tensor], masks: dict[str, Tensor], x: Tensor, y: Tensor, w: Tensor
    ) -> Tensor:
        logits = functional_call(module, {**parameters, **masks}, (x,))
        return (nn.functional.cross_entropy(logits, y, reduction="none") * w).sum()

    gradient = vmap(grad(loss))

    def add(batch: StackBatch, keep: float) -> None:
        found = gradient(values, batch.masks, batch.x, batch.y, batch.weights)
        for name, piece in targets.items():
            piece.mul_(keep).add_(found[name])

    return add
