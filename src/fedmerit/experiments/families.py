"""What `fedmerit reproduce` can be asked for: one experiment, or several that belong together."""

from fedmerit.errors import UnknownNameError
from fedmerit.experiments.clicks import CLICK_FAMILIES
from fedmerit.experiments.spec import EXPERIMENTS, Experiment
from fedmerit.simulation.clicks.sources import GENERATED

ASSUMPTIONS = "assumptions"
FAMILIES: dict[str, tuple[Experiment, ...]] = {
    **{name: (experiment,) for name, experiment in EXPERIMENTS.items()},
    **CLICK_FAMILIES,
    ASSUMPTIONS: (),
}


def find_family(name: str) -> tuple[Experiment, ...]:
    """Return the experiments called `name`."""
    if name not in FAMILIES:
        raise UnknownNameError.of("experiment", name, FAMILIES)
    return FAMILIES[name]


def default_dataset(name: str) -> str:
    """Return the data that `name` runs on if none is chosen."""
    return "mnist" if name in EXPERIMENTS else GENERATED
