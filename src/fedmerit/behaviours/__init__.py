"""What dishonest clients do, and honest ones: one small file each, found by name.

A behaviour gets only what such a client can see (`ClientView`) and returns a `Report`. It may also
change the client's data before training, and clients of one behaviour share a random stream.
"""

from fedmerit.behaviours.assignment import Assignment
from fedmerit.behaviours.base import Behaviour, ClientView, LocalData, Report
from fedmerit.behaviours.honest import Honest
from fedmerit.behaviours.inflated_size import InflatedSize
from fedmerit.behaviours.noise import Noise
from fedmerit.behaviours.random_model import RandomModel
from fedmerit.behaviours.random_update import RandomUpdate
from fedmerit.behaviours.registry import BEHAVIOURS, parse_behaviour

__all__ = [
    "BEHAVIOURS",
    "Assignment",
    "Behaviour",
    "ClientView",
    "Honest",
    "InflatedSize",
    "LocalData",
    "Noise",
    "RandomModel",
    "RandomUpdate",
    "Report",
    "parse_behaviour",
]
