"""The recipe for PyTorch models; needs PyTorch, as FLARE's own does."""

from typing import Any

from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.client.config import ExchangeFormat

from fedmerit.errors import SettingError
from fedmerit.nvflare.recipe import WithMerit


class FedMeritRecipe(WithMerit, FedAvgRecipe):
    """FLARE's `FedAvgRecipe` for PyTorch models, with fedmerit; parameters as in `WithMerit`.

    Arrays travel as NumPy's, which is FLARE's default.
    """

    def __init__(self, **settings: Any) -> None:
        sent = settings.get("server_expected_format", ExchangeFormat.NUMPY)
        if sent != ExchangeFormat.NUMPY:
            raise SettingError(f"server_expected_format must be NUMPY, got {sent}")
        super().__init__(**settings)
