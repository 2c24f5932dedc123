"""The server: FedMerit where an app would have FedAvg."""

import time

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from fedmerit import Panel
from fedmerit.flower import FedMerit
from fedmerit.incentive.rewards import PositiveShare
from flower_mnist import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation and record every round in the ledger."""
    config = context.run_config
    dataset = task.load_data(config)
    network = task.new_network(dataset, config)

    def evaluate(_number: int, arrays: ArrayRecord) -> MetricRecord:
        vector = task.to_vector(arrays)
        loss, accuracy = network.evaluate(vector, dataset.test_x, dataset.test_y)
        return MetricRecord({"accuracy": accuracy, "loss": loss})

    pairs = int(config["panel-pairs"])
    strategy = FedMerit(
        fraction_evaluate=1.0 if pairs else 0.0,
        panel=Panel("eval_acc", pairs=pairs) if pairs else None,
        ledger=str(config["ledger"]),
        reward=PositiveShare(budget=int(config["reward-budget"])),
    )
    wait_for_nodes(grid, int(config["min-nodes"]))
    strategy.start(
        grid=grid,
        initial_arrays=task.to_arrays(network, network.flatten()),
        num_rounds=int(config["num-server-rounds"]),
        timeout=float(config["round-timeout"]),
        evaluate_fn=evaluate,
    )


def wait_for_nodes(grid: Grid, count: int) -> None:
    """Wait until `count` nodes are there.

    Once only: FedAvg's `min_available_nodes` would wait in every round, for ever if a node died.
    """
    while len(list(grid.get_node_ids())) < count:
        time.sleep(1)
