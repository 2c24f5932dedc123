"""fedmerit inside NVIDIA FLARE: an aggregator for its workflows, and a recipe.

In the server's configuration::

    {"id": "aggregator", "path": "fedmerit.nvflare.MeritAggregator",
     "args": {"ledger": "/var/lib/fedmerit/run.ledger"}}

Clients stay as they are.

==============  ==================================================================================
`contribution`  whose a reply is, and what is wrong with it
`aggregator`    the aggregator
`recipe`, `pt`  a job in one call, for NumPy and for PyTorch models
==============  ==================================================================================
"""

from importlib.util import find_spec

from fedmerit.errors import MissingExtraError

if find_spec("nvflare") is None:
    raise MissingExtraError("fedmerit.nvflare needs NVIDIA FLARE: pip install 'fedmerit[nvflare]'")

from fedmerit.nvflare.aggregator import MeritAggregator
from fedmerit.nvflare.recipe import NumpyFedMeritRecipe

__all__ = ["FedMeritRecipe", "MeritAggregator", "NumpyFedMeritRecipe"]


def __getattr__(name: str) -> object:
    """Load the recipe for PyTorch when it is asked for: the others do not need PyTorch."""
    if name == "FedMeritRecipe":
        from fedmerit.nvflare.pt import FedMeritRecipe

        return FedMeritRecipe
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
