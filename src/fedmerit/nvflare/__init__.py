"""fedmerit inside NVIDIA FLARE: an aggregator for the ScatterAndGather workflow.

In the server's configuration::

    {"id": "aggregator", "path": "fedmerit.nvflare.MeritAggregator",
     "args": {"ledger": "/var/lib/fedmerit/run.ledger"}}

Clients stay as they are.

==============  ==================================================================================
`contribution`  whose a reply is, and what is wrong with it
`aggregator`    the aggregator
==============  ==================================================================================
"""

from importlib.util import find_spec

from fedmerit.errors import MissingExtraError

if find_spec("nvflare") is None:
    raise MissingExtraError("fedmerit.nvflare needs NVIDIA FLARE: pip install 'fedmerit[nvflare]'")

from fedmerit.nvflare.aggregator import MeritAggregator

__all__ = ["MeritAggregator"]
