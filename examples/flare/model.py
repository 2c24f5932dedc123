"""The network that all train."""

from torch import nn


class Network(nn.Module):
    """Reads digits of eight times eight pixels."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        """Return a number for each digit."""
        return self.layers(x)
