"""Rounds where people already look, as callables for round records.

::

    with TensorBoardTracker("runs/tb") as tracker:
        run(federation, on_round=tracker)

TensorBoard, MLflow, Weights & Biases, and OpenTelemetry (through it Prometheus and Grafana). Each
imports its package when it is made, so that naming one here costs nothing.
"""

from fedmerit.tracking.mlflow import MLflowTracker
from fedmerit.tracking.numbers import PER_CLIENT, RoundNumbers
from fedmerit.tracking.opentelemetry import OpenTelemetryTracker
from fedmerit.tracking.prometheus import PrometheusTracker
from fedmerit.tracking.tensorboard import TensorBoardTracker
from fedmerit.tracking.wandb import WandbTracker

__all__ = [
    "PER_CLIENT",
    "MLflowTracker",
    "OpenTelemetryTracker",
    "PrometheusTracker",
    "RoundNumbers",
    "TensorBoardTracker",
    "WandbTracker",
]
