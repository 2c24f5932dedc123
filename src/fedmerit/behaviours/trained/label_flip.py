"""Attackers that train on wrong labels.

Source: the label flipping attack in Fang, Cao, Jia and Gong, "Local model poisoning attacks to
Byzantine-robust federated learning" (USENIX Security 2020): class y becomes classes - 1 - y.
"""

from dataclasses import dataclass, replace

import numpy as np

from fedmerit.behaviours.base import LocalData
from fedmerit.behaviours.honest import Honest
from fedmerit.errors import SettingError
from fedmerit.validation import check_number


@dataclass(frozen=True)
class LabelFlip(Honest):
    """Train on mirrored labels and report what came out, in every round.

    Parameters
    ----------
    share : float
        Share of the samples that are mislabelled; the same ones in every round.
    classes : int
        How many classes the federation's model tells apart, which everybody knows.
    """

    name = "label-flip"
    share: float = 1.0
    classes: float = 10

    def __post_init__(self) -> None:
        check_number("share", self.share, least=0, most=1)
        check_number("classes", self.classes, least=2)

    def local_data(self, data: LocalData, rng: np.random.Generator) -> LocalData:
        """Mirror the labels of a random share of the samples."""
        if data.y.max(initial=0) >= self.classes:
            raise SettingError(
                f"classes must be greater than every label, got {self.classes:g} and label "
                f"{data.y.max()}"
            )
        flipped = rng.permutation(len(data.y))[: round(self.share * len(data.y))]
        labels = data.y.copy()
        labels[flipped] = int(self.classes) - 1 - labels[flipped]
        return replace(data, y=labels)
