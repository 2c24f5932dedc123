"""The client: trains the adapters on its own text. It knows nothing of fedmerit."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from flower_lora import task

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Take the adapters, train them, send them back."""
    config = context.run_config
    model = task.new_model(int(config["rank"]))
    task.set_adapters(model, message.content["arrays"].to_torch_state_dict())
    part = int(context.node_config["partition-id"])
    text = task.sentences(part)
    if part == int(config["idle"]):  # one that does not work: it sends back what it got
        loss = task.loss_of(model, text)
    else:
        loss = task.train(model, text, int(config["steps"]), float(config["learning-rate"]))
    content = {
        "arrays": ArrayRecord(task.adapters_of(model)),
        "metrics": MetricRecord({"train_loss": loss, "num-examples": len(text)}),
    }
    return Message(RecordDict(content), reply_to=message)
