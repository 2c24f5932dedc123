"""How a round is settled: one frozen set of rules that checks itself, and passes as a whole."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path

from fedmerit.aggregators import AGGREGATORS
from fedmerit.aggregators.weighting import ALPHA
from fedmerit.disk.files import is_folder
from fedmerit.errors import FedMeritError, SettingError, UnknownNameError
from fedmerit.incentive.registry import parse_reward
from fedmerit.incentive.rewards import RewardRule, check_vesting
from fedmerit.ledger import SigningKey
from fedmerit.panel import Panel
from fedmerit.scorers import Merit, make_scorer
from fedmerit.types import Needs, RoundRecord, Scorer, needs_of
from fedmerit.validation import check_count, check_number, check_path

SIZES = ("claimed", "audited", "ignore")
WEIGHTINGS = ("engine", "gated", "score", "size", "uniform")


@dataclass(frozen=True)
class RoundRules:
    """How a round is scored, weighed, combined and paid.

    Attributes
    ----------
    scorer : Scorer, str or None
        A scorer or its name. None scores nobody (plain FedAvg needs no scores).
    weighting : str
        "engine": the engine's own weights for whoever is not excluded (by claimed data size, or
        equal ones in a round in which a client claims none), nothing for the others; "gated":
        softmax of `alpha` times the score over clients with evidence of work, nothing for the
        others; "score": softmax over all (Fed-PCA); "size": by claimed data size (FedAvg), nothing
        for who claims none; "uniform".
    sizes : str
        Whether data sizes count, which are claims: "claimed", as FedAvg does; "audited": only in
        rounds in which lengths of updates grow with claimed sizes; "ignore", for federations of
        strangers.
    alpha : float
        How strongly weights follow scores.
    rule : str
        How updates are combined, a name in `fedmerit.AGGREGATORS`.
    norm_bound : float or None
        Updates longer than so many median norms are shrunk before they are combined.
    reward : RewardRule, str or None
        How a round is paid: a rule, or its name with its settings, as
        ``"positive:budget=10000"``. A round with fewer than two usable replies has no scores and
        pays nobody.
    vesting : int
        Rounds of work after which a client is paid in full; before, it is paid in part, beginning
        with nothing, so that new accounts are worth nothing.
    registered : collection of str or None
        Who may take part, by identity: the node's id in Flower, the client's name in FLARE. Replies
        of others are refused, and not paid. None: everybody.
    panel : Panel or None
        How clients judge each other's updates; None: they do not.
    """

    scorer: Scorer | None = field(default_factory=Merit)
    weighting: str = "engine"
    alpha: float = ALPHA
    rule: str = "mean"
    norm_bound: float | None = None
    reward: RewardRule | None = None
    sizes: str = "claimed"
    vesting: int = 0
    registered: Collection[str] | None = None
    # Not in the repr, so that runs which do not use it keep their fingerprints.
    panel: Panel | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        scorer: object = self.scorer
        if isinstance(scorer, str):
            object.__setattr__(self, "scorer", make_scorer(scorer))
        elif scorer is not None and (isinstance(scorer, type) or not isinstance(scorer, Scorer)):
            raise SettingError(f"scorer must be a name or a Scorer, got {scorer!r}")
        reward: object = self.reward
        if isinstance(reward, str):
            object.__setattr__(self, "reward", parse_reward(reward))
        elif reward is not None and not isinstance(reward, RewardRule):
            raise SettingError(f"reward must be a RewardRule or its name, got {reward!r}")
        check_count("vesting", self.vesting, least=0)
        if self.reward is not None:
            check_vesting(self.vesting, self.reward)
        elif self.vesting:
            raise SettingError(f"vesting needs a reward that vests, got {self.vesting} and none")
        if self.registered is not None:
            object.__setattr__(self, "registered", _identities(self.registered))
        if self.panel is not None and not isinstance(self.panel, Panel):
            raise SettingError(
                f"panel must be a Panel, such as Panel('eval_acc', pairs=1), got {self.panel!r}"
            )
        check_number("alpha", self.alpha, least=0)
        if self.sizes not in SIZES:
            raise UnknownNameError.of("sizes", self.sizes, SIZES)
        if self.weighting not in WEIGHTINGS:
            raise UnknownNameError.of("weighting", self.weighting, WEIGHTINGS)
        if self.weighting in ("gated", "score") and self.scorer is None:
            raise SettingError(f"weighting {self.weighting} needs a scorer, got None")
        if self.norm_bound is not None:
            check_number("norm_bound", self.norm_bound, above=0)
        if self.reward is not None and self.scorer is None:
            raise SettingError("a reward needs a scorer, got None")
        if self.rule not in AGGREGATORS:
            raise UnknownNameError.of("rule", self.rule, AGGREGATORS)
        takes_weights = "weights" in inspect.signature(AGGREGATORS[self.rule]).parameters
        if self.weighting != "uniform" and not takes_weights:
            raise SettingError(
                f"rule {self.rule} takes no weights and needs weighting uniform, "
                f"got {self.weighting}"
            )

    @classmethod
    def of(
        cls,
        rules: "RoundRules | None",
        settings: Mapping[str, object],
        *,
        beside: Iterable[str] = (),
    ) -> "RoundRules":
        """Return `rules`, or rules made of single `settings`; both at once are an error.

        `beside` are the caller's other arguments, of which an unknown name may be a misspelling.
        """
        if rules is not None and not isinstance(rules, cls):
            raise SettingError(f"rules must be RoundRules, got {rules!r}")
        names = [known.name for known in fields(cls)]
        for name in settings:
            if name not in names:
                others = {*names, *beside} - {"self", "settings"}
                raise UnknownNameError.of("setting", name, others)
        if rules is None:
            return cls(**settings)  # type: ignore[arg-type]
        if settings:
            raise SettingError(f"give rules or single settings, got both: {', '.join(settings)}")
        return rules

    @property
    def averages(self) -> bool:
        """Whether replies are combined as FedAvg does, apart from who is among them."""
        return self.weighting == "engine" and self.rule == "mean" and self.norm_bound is None

    @cached_property
    def needs(self) -> Needs:
        """What the scorer asks for."""
        return needs_of(self.scorer)

    def settings(self) -> dict[str, object]:
        """Return every rule by name, for logs and ledgers; a panel only where there is one."""
        found = {known.name: getattr(self, known.name) for known in fields(self)}
        return {name: rule for name, rule in found.items() if name != "panel" or rule is not None}


def _identities(registered: object) -> tuple[str, ...]:
    """Return the identities once each and in order, as they are recorded."""
    if isinstance(registered, str) or not isinstance(registered, Iterable):
        raise SettingError(f"registered must be a collection of client ids, got {registered!r}")
    return tuple(sorted({str(client) for client in registered}))


def check_run(
    seed: int | None,
    key: SigningKey | None,
    record: Callable[[RoundRecord], None] | None,
    older: int,
    remembered: int,
) -> None:
    """Check what a run is given beside its rules, before any client trains."""
    check_count("older", older, least=1)
    check_count("remembered", remembered, least=0)
    if seed is not None:
        check_count("seed", seed, least=0)
    if key is not None and not isinstance(key, SigningKey):
        raise SettingError(f"key must be a SigningKey, got {key!r}"[:200])
    if record is not None and not callable(record):
        raise SettingError(f"record must be a callable, got {record!r}")


def check_file(name: str, value: object, error: type[FedMeritError] = SettingError) -> Path:
    """Check a path that a file is to have, before much work has nowhere to go."""
    path = check_path(name, value)
    if is_folder(path):
        raise error(f"{name} must be a file, got the folder {path}")
    if not is_folder(path.parent):
        raise error(f"{name} must lie in a folder that is there, got {path}")
    return path
