"""fedmerit inside Flower: strategies in place of `flwr.serverapp.strategy.FedAvg`.

::

    from fedmerit.flower import FedMerit

    strategy = FedMerit(fraction_train=0.5, ledger="run.ledger")
    result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=10)

Clients stay as they are.

============  ====================================================================================
`arrays`      Flower's records as named arrays; what is wrong with a client's
`replies`     who was asked, whose reply is whose, what is wrong with it
`metrics`     metrics of clients, never trusted
`strategy`    the strategies
`local`       a grid inside this process, for tests and measurements
`deployment`  a SuperLink and SuperNodes as processes on this machine
`demo`        following a run of such a deployment
============  ====================================================================================
"""

from importlib.util import find_spec

from fedmerit.errors import MissingExtraError

if find_spec("flwr") is None:
    raise MissingExtraError("fedmerit.flower needs Flower: pip install 'fedmerit[flower]'")

from fedmerit.flower.strategy import FedMerit, FedPCA, MedPCA

__all__ = ["FedMerit", "FedPCA", "MedPCA"]
