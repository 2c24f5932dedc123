"""Reward rules by name, and their settings as text."""

from dataclasses import MISSING, fields
from typing import Any

from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.incentive.rewards import FeePlusBonus, PositiveShare, RewardRule, SoftmaxShare
from fedmerit.incentive.tariffs import Affine, Exponential, Identity, Wage

RULES: dict[str, type[RewardRule]] = {
    rule.name: rule
    for rule in (Affine, Exponential, FeePlusBonus, Identity, PositiveShare, SoftmaxShare, Wage)
}


def reward_rule(name: str, **settings: float) -> RewardRule:
    """Build the rule called `name`.

    Examples
    --------
    >>> reward_rule("positive", budget=100).pay([0.3, 0.1, -0.2], ["ann", "bob", "cat"]).amounts
    (75, 25, 0)
    """
    if name not in RULES:
        raise UnknownNameError.of("reward rule", name, RULES)
    try:
        return RULES[name](**settings)  # type: ignore[arg-type]
    except TypeError as error:
        wanted = _required(RULES[name])
        example = ",".join(f"{setting}={amount}" for setting, amount in wanted.items())
        raise SettingError(
            f"reward rule {name!r} cannot be built: {_complaint(error)}; settings it must have: "
            f"{', '.join(wanted)} (as '{name}:{example}')"
        ) from None


def _required(rule: type[RewardRule]) -> dict[str, int]:
    """Return the settings that a rule must have, each with an example."""
    return {
        setting.name: 10_000 if setting.type is int else 1
        for setting in fields(rule)
        if setting.init and setting.default is MISSING and setting.default_factory is MISSING
    }


def _complaint(error: TypeError) -> str:
    return str(error).partition("() ")[2] or str(error)


def parse_reward(text: str) -> RewardRule:
    """Read a reward rule with its settings.

    Examples
    --------
    >>> rule = parse_reward("positive:budget=10000,minimum=100,column=worked")
    >>> rule.budget, rule.minimum, rule.column
    (10000, 100, 'worked')
    """
    name, _, listed = text.partition(":")
    settings: dict[str, Any] = {}
    for part in filter(None, listed.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise SettingError(f"a setting of a reward must read name=value, got {part.strip()!r}")
        setting = key.strip().replace("-", "_")
        if setting in settings:
            raise SettingError(f"a setting of a reward must be given once, got {setting} twice")
        settings[setting] = _value(key.strip(), value.strip())
    return reward_rule(name.strip(), **settings)


def _value(name: str, text: str) -> int | float | bool | str:
    if name == "column":
        return text
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise SettingError(f"{name} of a reward must be a number, got {text!r}")
