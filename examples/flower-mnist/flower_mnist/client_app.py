"""The client: trains on its own samples. By a switch it free-rides or fails, to show what happens.

``--node-config 'partition-id=3 num-partitions=7 behaviour="stale"'``

`behaviour` is a name of `fedmerit.behaviours` with its settings (``noise:0.05``), or a fault:
``nan`` sends not-a-numbers, ``hang:2`` never answers from round 2 on.
"""

import time

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedmerit.behaviours import Behaviour, ClientView, parse_behaviour
from fedmerit.rng import stream
from flower_mnist import task

app = ClientApp()
PUBLIC, NORMS = "public", "norms"
FAULTS = ("nan", "hang")


@app.train()
def train(message: Message, context: Context) -> Message:
    """Report a model: the global one plus what this client's behaviour makes of a round."""
    node, config = context.node_config, context.run_config
    part, parts = int(node["partition-id"]), int(node["num-partitions"])
    number = int(message.content["config"]["server-round"])
    start = task.to_vector(message.content["arrays"])
    dataset = task.load_data(config)
    network = task.new_network(dataset, config)
    data = task.local_part(dataset, config, part, parts)

    name, _, setting = switch(context).partition(":")
    if name == "hang" and number >= int(setting or 1):
        print(f"partition {part} hangs in round {number}", flush=True)
        while True:
            time.sleep(60)
    if name == "nan":
        update = np.full_like(start, np.nan)
    else:
        behaviour = parse_behaviour("honest" if name == "hang" else switch(context))
        rng = stream(int(config["seed"]), "client", part, "data")
        honest = None
        if behaviour.trains:
            own = behaviour.local_data(data, rng)
            honest = task.train(network, start, own, config, part, number)
        update = report(behaviour, context, start, honest, len(data.y), part, number)
    remember(context, network, start)
    content = {
        "arrays": task.to_arrays(network, start + update),
        "metrics": MetricRecord({"num-examples": len(data.y)}),
        # A label for people. What tells clients apart is the node id.
        "about": ConfigRecord({"client-name": f"site-{part}"}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Report how good a model is on this client's own samples, labelled as it labels them."""
    node, config = context.node_config, context.run_config
    part, parts = int(node["partition-id"]), int(node["num-partitions"])
    dataset = task.load_data(config)
    data = task.local_part(dataset, config, part, parts)
    name = switch(context)
    if name.partition(":")[0] not in FAULTS:
        rng = stream(int(config["seed"]), "client", part, "data")
        data = parse_behaviour(name).local_data(data, rng)
    vector = task.to_vector(message.content["arrays"])
    loss, accuracy = task.new_network(dataset, config).evaluate(vector, data.x, data.y)
    metrics = {"eval_acc": accuracy, "eval_loss": loss, "num-examples": len(data.y)}
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)


def switch(context: Context) -> str:
    """Return this client's behaviour: the node's own, or the run's for this partition."""
    own = context.node_config.get("behaviour")
    if own is not None:
        return str(own)
    listed = str(context.run_config.get("behaviours", ""))
    chosen = dict(entry.strip().split("=") for entry in listed.split(",") if entry.strip())
    return chosen.get(str(context.node_config["partition-id"]), "honest")


def report(
    behaviour: Behaviour,
    context: Context,
    start: task.Vector,
    honest: task.Vector | None,
    examples: int,
    part: int,
    number: int,
) -> task.Vector:
    """Return the update that `behaviour` reports, from what this client has seen so far."""
    updates, norms = (), ()
    if PUBLIC in context.state:
        last = start - task.to_vector(context.state[PUBLIC])
        updates = (last,)
        norms = (*context.state[NORMS]["norms"], float(np.linalg.norm(last)))
    seed = int(context.run_config["seed"])
    view = ClientView(
        round=number,
        client=part,
        global_model=start,
        global_updates=updates,
        update_norms=norms,
        honest_update=honest,
        group_update=honest if behaviour.shares else None,
        num_examples=examples,
        participants=int(context.node_config["num-partitions"]),
        rng=stream(seed, "round", number, "client", part, "report"),
        group_rng=stream(seed, "round", number, "group", behaviour.label),
    )
    return behaviour.report(view).update


def remember(context: Context, network: task.Network, start: task.Vector) -> None:
    """Keep the global model of this round, as any client can."""
    norms: list[float] = []
    if PUBLIC in context.state:
        last = start - task.to_vector(context.state[PUBLIC])
        norms = [*context.state[NORMS]["norms"], float(np.linalg.norm(last))]
    context.state[PUBLIC] = task.to_arrays(network, start)
    context.state[NORMS] = MetricRecord({"norms": norms})
