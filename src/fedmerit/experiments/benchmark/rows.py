"""One row of each benchmark's table."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ContributionRow:
    """One scorer in one set-up with one seed; a score is the mean over the rounds.

    Attributes
    ----------
    setup, scorer : str
    seed, rounds : int
    truth, shapley : float
        Spearman's rank correlation of the clients' scores with the true order, and with the sum
        over rounds of exact Shapley values of accuracy.
    last : float
        Score of the last client relative to the mean of the others (with a rare class, it has it).
    small, lazy, replayer : float
        What a ninth client is given relative to the mean of the eight: an honest one with 40
        samples, one that adds the last global update to that, one that sends that update blurred.
    clients : str
        The eight scores, in the true order from the least (label noise: from the best).
    """

    setup: str
    seed: int
    scorer: str
    rounds: int
    truth: float
    shapley: float
    last: float
    small: float
    lazy: float
    replayer: float
    clients: str


@dataclass(frozen=True)
class NullRow:
    """How often one rule was wrong about clients without private work.

    Attributes
    ----------
    scorer, kind, rule : str
        The score, how null reports were made, and what was decided about them.
    level : float
        The rate that the rule promises.
    rejections, trials : int
        False acceptances, and how many there could have been.
    """

    seed: int
    scorer: str
    kind: str
    rule: str
    level: float
    rejections: int
    trials: int
