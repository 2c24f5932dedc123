"""Free riders whose whole model is noise: the other reading of "generates model parameters"."""

from dataclasses import dataclass

from fedmerit.behaviours.base import Behaviour, ClientView, Report, gaussian
from fedmerit.validation import check_number


@dataclass(frozen=True)
class RandomModel(Behaviour):
    """Send a model drawn from N(0, sd^2); as an update that is noise minus the global model.

    All such riders agree with each other through the public ``-w_t``.
    """

    name = "random-model"
    trains = False
    sd: float = 0.01

    def __post_init__(self) -> None:
        check_number("sd", self.sd, least=0)

    def report(self, view: ClientView) -> Report:
        """Report what turns the global model into noise."""
        noise = gaussian(view.rng, view.global_model.size, self.sd)
        return Report(noise - view.global_model, view.num_examples)
