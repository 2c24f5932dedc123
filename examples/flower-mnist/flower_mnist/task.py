"""What clients and server share: data, model, and the way from one to the other."""

import numpy as np
from flwr.app import Array, ArrayRecord, UserConfig
from numpy.typing import NDArray

from fedmerit.behaviours import LocalData
from fedmerit.rng import stream
from fedmerit.simulation.config import Partition
from fedmerit.simulation.data.datasets import Dataset, is_ready, load
from fedmerit.simulation.training.local import train_together
from fedmerit.simulation.training.models import build_model
from fedmerit.simulation.training.network import Network
from fedmerit.simulation.training.settings import LocalTraining, TrainingJob

Vector = NDArray[np.float32]


def load_data(config: UserConfig) -> Dataset:
    """Load the data set the run asks for."""
    name = str(config["dataset"])
    if name == "auto":
        name = "mnist" if is_ready("mnist") else "digits"
    return load(name)


def local_part(dataset: Dataset, config: UserConfig, part: int, parts: int) -> LocalData:
    """Return the samples of one client."""
    split = Partition(str(config["partition"]))
    rng = stream(int(config["seed"]), "partition")
    samples = split.split(dataset.train_y, parts, rng)[part]
    return LocalData(dataset.train_x[samples], dataset.train_y[samples])


def new_network(dataset: Dataset, config: UserConfig) -> Network:
    """Return the model, the same for everybody who has the same seed."""
    shape = dataset.train_x.shape[1:]
    rng = stream(int(config["seed"]), "model")
    hidden = int(config["hidden"])
    module = build_model("mlp", shape, dataset.classes, rng, hidden=hidden, dropout=0.0)
    return Network(module, shape)


def to_arrays(network: Network, vector: Vector) -> ArrayRecord:
    """Return parameters as Flower sends them."""
    arrays, start = {}, 0
    for name, shape in network.shapes.items():
        end = start + network.sizes[name]
        arrays[name] = Array(vector[start:end].reshape(shape))
        start = end
    return ArrayRecord(arrays)


def to_vector(arrays: ArrayRecord) -> Vector:
    """Return parameters as one vector."""
    return np.concatenate([array.numpy().reshape(-1) for array in arrays.values()])


def train(
    network: Network, start: Vector, data: LocalData, config: UserConfig, part: int, number: int
) -> Vector:
    """Train on a client's own samples and return the update."""
    training = LocalTraining(
        epochs=int(config["local-epochs"]), learning_rate=float(config["learning-rate"])
    )
    name = (int(config["seed"]), "round", number, "client", part)
    job = TrainingJob(data, stream(*name, "batches"), stream(*name, "dropout"))
    return train_together(network, start, [job], training, training.rate(number))[0]
