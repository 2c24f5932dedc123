"""What dishonest clients do, and honest ones: one small file each, found by name.

A behaviour gets only what such a client can see (`ClientView`) and returns a `Report`. It may also
change the client's data before training; clients of one behaviour share a random stream, and some
show each other their work. `registry` lists them all.
"""

from fedmerit.behaviours.adaptive import Adaptive
from fedmerit.behaviours.advanced_delta import AdvancedDelta
from fedmerit.behaviours.advanced_rider import AdvancedRider
from fedmerit.behaviours.assignment import Assignment
from fedmerit.behaviours.averaged import Averaged
from fedmerit.behaviours.base import Behaviour, ClientView, LocalData, Report
from fedmerit.behaviours.boost import Boost
from fedmerit.behaviours.colluders import Colluders
from fedmerit.behaviours.copies import Copies
from fedmerit.behaviours.disguised import Disguised
from fedmerit.behaviours.extrapolated import Extrapolated
from fedmerit.behaviours.fake_data import FakeData
from fedmerit.behaviours.honest import Honest
from fedmerit.behaviours.inflated_size import InflatedSize
from fedmerit.behaviours.informed import Informed
from fedmerit.behaviours.label_flip import LabelFlip
from fedmerit.behaviours.lazy import Lazy
from fedmerit.behaviours.loud_flip import LoudFlip
from fedmerit.behaviours.mixed import Mixed
from fedmerit.behaviours.noise import Noise
from fedmerit.behaviours.older import Older
from fedmerit.behaviours.random_model import RandomModel
from fedmerit.behaviours.random_update import RandomUpdate
from fedmerit.behaviours.registry import BEHAVIOURS, parse_behaviour
from fedmerit.behaviours.renaming import Renaming
from fedmerit.behaviours.rotating import Rotating
from fedmerit.behaviours.sign_flip import SignFlip
from fedmerit.behaviours.sign_mimic import SignMimic
from fedmerit.behaviours.stale import Stale
from fedmerit.behaviours.uniform_model import UniformModel
from fedmerit.behaviours.zero import Zero

__all__ = [
    "BEHAVIOURS",
    "Adaptive",
    "AdvancedDelta",
    "AdvancedRider",
    "Assignment",
    "Averaged",
    "Behaviour",
    "Boost",
    "ClientView",
    "Colluders",
    "Copies",
    "Disguised",
    "Extrapolated",
    "FakeData",
    "Honest",
    "InflatedSize",
    "Informed",
    "LabelFlip",
    "Lazy",
    "LocalData",
    "LoudFlip",
    "Mixed",
    "Noise",
    "Older",
    "RandomModel",
    "RandomUpdate",
    "Renaming",
    "Report",
    "Rotating",
    "SignFlip",
    "SignMimic",
    "Stale",
    "UniformModel",
    "Zero",
    "parse_behaviour",
]
