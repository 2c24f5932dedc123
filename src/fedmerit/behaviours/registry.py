"""Behaviours by name. A new one is a file of its own and a line here."""

from dataclasses import fields

from fedmerit.behaviours.base import Behaviour
from fedmerit.behaviours.honest import Honest
from fedmerit.behaviours.inflated_size import InflatedSize
from fedmerit.behaviours.noise import Noise
from fedmerit.behaviours.random_model import RandomModel
from fedmerit.behaviours.random_update import RandomUpdate
from fedmerit.errors import SettingError, UnknownNameError

BEHAVIOURS: dict[str, type[Behaviour]] = {
    kind.name: kind for kind in (Honest, InflatedSize, Noise, RandomModel, RandomUpdate)
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
    return kind(**{key: _number(key, value) for key, value in zip(settings, values, strict=False)})


def _number(key: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise SettingError(f"{key} must be a number, got {value!r}") from None
