"""A client for the simulator's test; what it does depends on its name."""

import numpy as np
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import make_reply
from nvflare.app_common.app_constant import AppConstants


class Trainer(Executor):
    """Works, unless its name says otherwise."""

    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        del task_name, abort_signal
        number = shareable.get_header(AppConstants.CURRENT_ROUND)
        name = fl_ctx.get_identity_name()
        dxo = from_shareable(shareable)
        if "fedmerit" in dxo.meta or (name == "raises" and number == 1):
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        shared = np.random.default_rng(number)
        own = np.random.default_rng([number, *name.encode()])
        changes = {}
        for key, value in dxo.data.items():
            step = 0.01 * (shared.normal(size=value.shape) + own.normal(size=value.shape))
            changes[key] = step.astype(value.dtype)
            if name == "nan":
                changes[key].flat[0] = np.nan
        return DXO(
            DataKind.WEIGHT_DIFF, changes, {MetaKey.NUM_STEPS_CURRENT_ROUND: 1}
        ).to_shareable()
