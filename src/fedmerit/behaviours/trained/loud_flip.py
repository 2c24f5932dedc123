"""Attackers that train on wrong labels and exaggerate what came out.

Source: `label_flip` and `boost` together, with a factor that no bound on norms may notice.
"""

from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours.base import ClientView, Report
from fedmerit.behaviours.trained.label_flip import LabelFlip
from fedmerit.validation import check_number


@dataclass(frozen=True)
class LoudFlip(LabelFlip):
    """Train on mirrored labels, as label-flip does, and report the update times `factor`."""

    name = "loud-flip"
    factor: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("factor", self.factor, above=0)

    def report(self, view: ClientView) -> Report:
        """Report the wrong way, exaggerated."""
        return Report(view.trained * np.float32(self.factor), view.num_examples)
