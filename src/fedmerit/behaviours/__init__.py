"""What dishonest clients do, and honest ones: one small file each, found by name.

A behaviour gets only what such a client can see (`ClientView`) and returns a `Report`. It may also
change the client's data before training; clients of one behaviour share a random stream, and some
show each other their work. `registry` lists them all. By what a report is made of, they live in
`trained` (work of one's own), `replays` (what is public) or `invented` (nothing).
"""

from fedmerit.behaviours.assignment import Assignment
from fedmerit.behaviours.base import Behaviour, ClientView, LocalData, Report
from fedmerit.behaviours.honest import Honest
from fedmerit.behaviours.invented.colluders import Colluders
from fedmerit.behaviours.invented.disguised import Disguised
from fedmerit.behaviours.invented.random_model import RandomModel
from fedmerit.behaviours.invented.random_update import RandomUpdate
from fedmerit.behaviours.invented.uniform_model import UniformModel
from fedmerit.behaviours.invented.zero import Zero
from fedmerit.behaviours.registry import BEHAVIOURS, parse_behaviour
from fedmerit.behaviours.replays.adaptive import Adaptive
from fedmerit.behaviours.replays.advanced_delta import AdvancedDelta
from fedmerit.behaviours.replays.advanced_rider import AdvancedRider
from fedmerit.behaviours.replays.averaged import Averaged
from fedmerit.behaviours.replays.extrapolated import Extrapolated
from fedmerit.behaviours.replays.informed import Informed
from fedmerit.behaviours.replays.older import Older
from fedmerit.behaviours.replays.renaming import Renaming
from fedmerit.behaviours.replays.sign_mimic import SignMimic
from fedmerit.behaviours.replays.stale import Stale
from fedmerit.behaviours.trained.boost import Boost
from fedmerit.behaviours.trained.copies import Copies
from fedmerit.behaviours.trained.fake_data import FakeData
from fedmerit.behaviours.trained.inflated_size import InflatedSize
from fedmerit.behaviours.trained.label_flip import LabelFlip
from fedmerit.behaviours.trained.lazy import Lazy
from fedmerit.behaviours.trained.loud_flip import LoudFlip
from fedmerit.behaviours.trained.mixed import Mixed
from fedmerit.behaviours.trained.noise import Noise
from fedmerit.behaviours.trained.rotating import Rotating
from fedmerit.behaviours.trained.sign_flip import SignFlip

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
