"""Free riders that report noise as their update (paper: uninformed users, s1 = 0.01)."""

from dataclasses import dataclass

from fedmerit.behaviours.base import Behaviour, ClientView, Report, gaussian
from fedmerit.validation import check_number


@dataclass(frozen=True)
class RandomUpdate(Behaviour):
    """Report N(0, sd^2) without training.

    Parameters
    ----------
    sd : float
        Standard deviation. The paper calls it a variance; its figures only make sense as this.
    """

    name = "random-update"
    trains = False
    sd: float = 0.01

    def __post_init__(self) -> None:
        check_number("sd", self.sd, least=0)

    def report(self, view: ClientView) -> Report:
        """Report noise."""
        return Report(gaussian(view.rng, view.global_model.size, self.sd), view.num_examples)
