"""Reward rules by name, and their settings as text."""

from dataclasses import MISSING, fields

from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.incentive.rewards import FeePlusBonus, PositiveShare, RewardRule, SoftmaxShare
from fedmerit.incentive.tariffs import Affine, Exponential, Identity, Wage
from fedmerit.validation import read_settings

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
    known = [setting.name for setting in fields(RULES[name]) if setting.init]
    for setting in settings:
        if setting not in known:
            told = UnknownNameError.of("a setting", setting, known)
            raise SettingError(f"reward rule {name!r} cannot be built: {told}")
    wanted = _required(RULES[name])
    if missing := [setting for setting in wanted if setting not in settings]:
        example = ",".join(f"{setting}={amount}" for setting, amount in wanted.items())
        raise SettingError(
            f"reward rule {name!r} cannot be built without settings it must have: "
            f"{', '.join(missing)} (as '{name}:{example}')"
        )
    return RULES[name](**settings)  # type: ignore[arg-type]


def _required(rule: type[RewardRule]) -> dict[str, int]:
    """Return the settings that a rule must have, each with an example."""
    return {
        setting.name: 10_000 if setting.type is int else 1
        for setting in fields(rule)
        if setting.init and setting.default is MISSING and setting.default_factory is MISSING
    }


def parse_reward(text: str) -> RewardRule:
    """Read a reward rule with its settings.

    Examples
    --------
    >>> rule = parse_reward("positive:budget=10000,minimum=100,column=worked")
    >>> rule.budget, rule.minimum, rule.column
    (10000, 100, 'worked')
    """
    name, settings = read_settings("reward", text)
    for setting, value in settings.items():
        if setting != "column" and not isinstance(value, int | float):
            raise SettingError(f"{setting} of a reward must be a number, got {value!r}")
    return reward_rule(name, **settings)
