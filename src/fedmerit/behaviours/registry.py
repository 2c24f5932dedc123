"""Behaviours by name. A new one is a file of its own and a line here.

==================  ==============================================================  ========
name                what the server receives (g: the last global update)            trains
==================  ==============================================================  ========
``adaptive``        g plus noise of a different size per parameter                  no
``advanced-delta``  g plus noise                                                    no
``advanced-rider``  g scaled, plus noise on some parameters                         no
``averaged``        the mean of the last three global updates                       no
``boost``           an honest update times 100                                      yes
``colluders``       one random vector for all of them                               no
``copies``          one member's honest update for all of them                      yes
``disguised``       noise that shrinks over the rounds                              no
``extrapolated``    g plus its change since the update before                       no
``fake-data``       what training on invented samples gave                          yes
``honest``          the truth                                                       yes
``inflated-size``   an honest update, too large a claim of samples                  yes
``informed``        a forecast of the next update from all earlier ones             no
``label-flip``      what training on wrong labels gave                              yes
``lazy``            g plus what training on a few samples gave                      yes
``loud-flip``       what training on wrong labels gave, times 2                     yes
``mixed``           g with a tenth of an honest update in it                        yes
``noise``           an honest update plus noise                                     yes
``older``           the global update of three rounds ago                           no
``random-model``    Gaussian noise minus the global model                           no
``random-update``   Gaussian noise                                                  no
``renaming``        g, under a new name every three rounds                          no
``rotating``        four honest updates, then these again in turn                   yes
``sign-flip``       an honest update times -1                                       yes
``sign-mimic``      random signs times the size of g                                no
``stale``           g                                                               no
``uniform-model``   uniform noise minus the global model                            no
``zero``            zeros                                                           no
==================  ==============================================================  ========

Settings follow the name, in the order of the fields: ``advanced-delta:0.01``.
"""

from dataclasses import fields

from fedmerit.behaviours.base import Behaviour
from fedmerit.behaviours.honest import Honest
from fedmerit.behaviours.invented.colluders import Colluders
from fedmerit.behaviours.invented.disguised import Disguised
from fedmerit.behaviours.invented.random_model import RandomModel
from fedmerit.behaviours.invented.random_update import RandomUpdate
from fedmerit.behaviours.invented.uniform_model import UniformModel
from fedmerit.behaviours.invented.zero import Zero
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
from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.validation import read_number

BEHAVIOURS: dict[str, type[Behaviour]] = {
    kind.name: kind
    for kind in (
        Adaptive,
        AdvancedDelta,
        AdvancedRider,
        Averaged,
        Boost,
        Colluders,
        Copies,
        Disguised,
        Extrapolated,
        FakeData,
        Honest,
        InflatedSize,
        Informed,
        LabelFlip,
        Lazy,
        LoudFlip,
        Mixed,
        Noise,
        Older,
        RandomModel,
        RandomUpdate,
        Renaming,
        Rotating,
        SignFlip,
        SignMimic,
        Stale,
        UniformModel,
        Zero,
    )
}


def parse_behaviour(text: str) -> Behaviour:
    """Read ``name`` or ``name:value[:value ...]``, values in the order of the fields.

    Examples
    --------
    >>> parse_behaviour("noise:0.05")
    Noise(sd=0.05)
    """
    name, *values = (part.strip() for part in text.split(":"))
    kind = BEHAVIOURS.get(name)
    if kind is None:
        raise UnknownNameError.of("behaviour", name, BEHAVIOURS)
    settings = [field.name for field in fields(kind)]
    if len(values) > len(settings):
        raise SettingError(
            f"behaviour {name} takes at most {len(settings)} settings, got {len(values)}"
        )
    given = dict(zip(settings, values, strict=False))
    return kind(**{key: read_number(key, value) for key, value in given.items()})
