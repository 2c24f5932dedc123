"""A FLARE job in one call, as its other recipes are."""

from typing import Any

from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe

from fedmerit.errors import SettingError
from fedmerit.nvflare.aggregator import MeritAggregator
from fedmerit.server import RoundRules

_OURS = ("aggregator", "aggregation_weights", "exclude_vars")


class WithMerit:
    """Puts fedmerit into a FedAvg recipe of FLARE: who did not work stays out of the average.

    Client scripts stay as they are: they return models or their changes, as for FedAvg. fedmerit
    must be installed on the server; clients do not need it.

    Parameters
    ----------
    rules : RoundRules, optional
        How a round is settled, as ``RoundRules(reward="positive:budget=10000")``.
    ledger : str, optional
        Ledger in which every round is recorded, on the server.
    key : str, optional
        File of the private key that signs what goes into the ledger, on the server.
    seed : int, optional
        Makes scores repeatable. A server that pays leaves it out.
    **fedavg
        Whatever FLARE's recipe takes: `min_clients`, `train_script`, `num_rounds`, `model`, ...
    """

    def __init__(
        self,
        *,
        rules: RoundRules | None = None,
        ledger: str | None = None,
        key: str | None = None,
        seed: int | None = None,
        **fedavg: Any,
    ) -> None:
        for name in _OURS:
            if fedavg.get(name) is not None:
                raise SettingError(f"{name} is fedmerit's to decide, got {fedavg[name]!r}")
        aggregator = MeritAggregator(rules=rules, ledger=ledger, key=key, seed=seed)
        super().__init__(**{"name": "fedmerit", **fedavg, "aggregator": aggregator})
        # Without this FLARE sends parts of our source to all clients with the job.
        self._job.set_app_packages(["fedmerit"])  # type: ignore[attr-defined]


class NumpyFedMeritRecipe(WithMerit, NumpyFedAvgRecipe):
    """FLARE's `NumpyFedAvgRecipe` with fedmerit; parameters as in `WithMerit`."""
