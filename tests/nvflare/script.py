"""A client script of FLARE: some work, one sends noise, one not-a-numbers."""

import numpy as np
import nvflare.client as flare


def main():
    flare.init()
    name = flare.get_site_name()
    while flare.is_running():
        got = flare.receive()
        shared = np.random.default_rng(got.current_round)
        own = np.random.default_rng([got.current_round, *map(ord, name)])
        params = {}
        for key, value in got.params.items():
            step = shared.normal(size=value.shape) + own.normal(size=value.shape)
            if name == "noise":
                step = 1.4 * own.normal(size=value.shape)
            params[key] = value + (np.nan if name == "nan" else 0.01) * step
        flare.send(flare.FLModel(params=params, params_type=flare.ParamsType.FULL))


if __name__ == "__main__":
    main()
