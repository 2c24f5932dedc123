"""What every site runs: an ordinary FLARE client, which knows nothing of fedmerit.

Two sites do not work, so that there is something to find: their names say how.
"""

import nvflare.client as flare
import torch
from model import Network
from nvflare.app_common.abstract.fl_model import FLModel
from sklearn.datasets import load_digits

SITES = ("oak", "elm", "ash", "fir", "yew", "box", "noise", "idle")


def own_data(site):
    """Return the images and labels of a site, a part of scikit-learn's digits."""
    x, y = load_digits(return_X_y=True)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    part = order[SITES.index(site) :: len(SITES)]
    return torch.tensor(x, dtype=torch.float32)[part] / 16, torch.tensor(y)[part]


def train(network, x, y, steps=20):
    """Train on a site's own data."""
    optimiser = torch.optim.SGD(network.parameters(), lr=0.5)
    for _ in range(steps):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(network(x), y).backward()
        optimiser.step()


def main():
    """Answer until the server has had enough."""
    torch.set_num_threads(1)
    flare.init()
    site, network = flare.get_site_name(), Network()
    x, y = own_data(site)
    while flare.is_running():
        task = flare.receive()
        network.load_state_dict(task.params)
        accuracy = float((network(x).argmax(dim=1) == y).float().mean())
        if site == "noise":
            with torch.no_grad():
                for values in network.parameters():
                    values += 0.02 * torch.randn_like(values)
        elif site != "idle":
            train(network, x, y)
        flare.send(
            FLModel(
                params=network.state_dict(),
                metrics={"accuracy": accuracy},
                meta={"NUM_STEPS_CURRENT_ROUND": len(y)},
            )
        )


if __name__ == "__main__":
    main()
