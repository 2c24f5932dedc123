"""The server: FedMerit where an app would have FedAvg."""

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from fedmerit.flower import FedMerit
from flower_lora import task

app = ServerApp()
HELD_OUT = 10_000  # text that no client holds


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation and record every round in the ledger."""
    config = context.run_config
    model = task.new_model(int(config["rank"]))

    def evaluate(_number: int, arrays: ArrayRecord) -> MetricRecord:
        task.set_adapters(model, arrays.to_torch_state_dict())
        return MetricRecord({"loss": task.loss_of(model, task.sentences(HELD_OUT))})

    strategy = FedMerit(fraction_evaluate=0.0, ledger=str(config["ledger"]))
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(task.adapters_of(model)),
        num_rounds=int(config["num-server-rounds"]),
        evaluate_fn=evaluate,
    )
