"""Small versions of what people federate: convolutions, residual blocks, transformers."""

from itertools import pairwise

import torch
from torch import Tensor, nn


def perceptron(*widths: int) -> nn.Module:
    """Return linear layers of these widths with ReLU between them; inputs are flattened."""
    layers: list[nn.Module] = [nn.Flatten()]
    for width, following in pairwise(widths):
        layers += [nn.Linear(width, following), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def convolutional(classes: int) -> nn.Module:
    """Return two convolutions with batch normalisation and a linear layer, for 28 x 28 pixels."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 7 * 7, classes),
    )


class ResidualBlock(nn.Module):
    """Two convolutions with group normalisation around which the input passes."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.GroupNorm(4, channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.GroupNorm(4, channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add what the convolutions find."""
        return torch.relu(x + self.body(x))


def residual(classes: int, channels: int = 16) -> nn.Module:
    """Return a small residual network for 14 x 14 pixels."""
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, stride=2, padding=1),
        ResidualBlock(channels),
        ResidualBlock(channels),
        nn.AvgPool2d(7),
        nn.Flatten(),
        nn.Linear(channels, classes),
    )


class AttentionBlock(nn.Module):
    """Self-attention and a feed-forward layer, each behind layer normalisation."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Let places look at each other (at earlier ones if causal), then at themselves."""
        samples, length, width = x.shape
        mixed = self.mixed(self.first(x)).view(samples, length, 3, self.heads, width // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.out(seen.transpose(1, 2).reshape(samples, length, width))
        fed: Tensor = self.feed(self.second(x))
        return x + fed


class CharacterTransformer(nn.Module):
    """Predict every next character of a text from those before it."""

    def __init__(self, characters: int, length: int, width: int = 48, blocks: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.places = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.Sequential(*(AttentionBlock(width, 4, causal=True) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (samples, length, characters)."""
        logits: Tensor = self.head(self.norm(self.blocks(self.embedding(x) + self.places)))
        return logits


class VisionTransformer(nn.Module):
    """A transformer over the patches of a square picture."""

    def __init__(self, pixels: int, patch: int, classes: int, width: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, patch, stride=patch)
        self.places = nn.Parameter(torch.randn((pixels // patch) ** 2, width) * 0.02)
        self.blocks = nn.Sequential(*(AttentionBlock(width, 4, causal=False) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (samples, classes)."""
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.places
        logits: Tensor = self.head(self.norm(self.blocks(tokens).mean(1)))
        return logits
