"""One row of each benchmark's table.

The last column, `code`, is the fingerprint of the code that decided the row.
"""

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
    code: str = ""


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
    code: str = ""


@dataclass(frozen=True)
class AttackRow:
    """One behaviour as one scorer sees it, from the third round on.

    Attributes
    ----------
    partition, behaviour, scorer : str
    rides : bool
        Whether the behaviour takes part without training: a free rider.
    auc : float
        Chance that an honest client's mean score exceeds a dishonest one's.
    weight, reward : float
        Mean aggregation weight, and mean pay (the positive part of the score of an eligible
        client), of a dishonest client relative to an honest one.
    honest_paid : float
        Share of honest clients that are paid at all.
    flagged, honest_flagged : float
        Share of dishonest and of honest reports flagged in their round; NaN for a scorer that does
        not flag.
    watched, honest_watched : float
        Share of dishonest and of honest clients flagged over rounds by the end.
    flagged_after : float
        Rounds until a dishonest client is flagged over rounds, median; NaN if never.
    accuracy, fedavg : float
        Test accuracy after the last round of the run with the default score and weights, and of the
        same federation with plain averaging.
    """

    partition: str
    behaviour: str
    seed: int
    scorer: str
    rides: bool
    auc: float
    weight: float
    reward: float
    honest_paid: float
    flagged: float
    honest_flagged: float
    watched: float
    honest_watched: float
    flagged_after: float
    accuracy: float
    fedavg: float
    code: str = ""


@dataclass(frozen=True)
class FreeRiderRow:
    """One run of one cell of the free-rider benchmark.

    Attributes
    ----------
    clients, riders, rounds : int
    attack : str
        What the riders do; "none" in a clean run.
    seed : int
    detector : str
        "round" flags whoever was flagged in any round, "watch" by evidence gathered over rounds.
    precision, recall : float
        Of the flagged clients against the riders; NaN where nobody was flagged or rides.
    false_alarms : int
        Honest clients flagged.
    accuracy : float
        Test accuracy after the last round.
    """

    clients: int
    attack: str
    riders: int
    seed: int
    detector: str
    rounds: int
    precision: float
    recall: float
    false_alarms: int
    accuracy: float
    code: str = ""


@dataclass(frozen=True)
class ModelRow:
    """One behaviour in one federation of the models benchmark, over all rounds.

    Attributes
    ----------
    task, behaviour : str
    seed : int
    share : float
        Of the clients that behave so.
    quick : bool
        Whether the task had little data.
    clients, liars, rounds : int
        Where nobody lies, columns about liars are about those who otherwise would.
    honest_flagged, honest_unweighted : float
        Share of honest reports that were accused or rejected, and that had no weight.
    honest_named : int
        Honest clients named by evidence over rounds at the end.
    flagged, named : float
        Share of dishonest reports accused or rejected, and of dishonest clients named.
    weight : float
        Weight per example held of a dishonest client relative to that of an honest one.
    late_weight : float
        The same from the third round on.
    pay : float
        Sum of the payments of a dishonest client relative to that of an honest one.
    pay_spread : float
        Standard deviation of the sums that honest clients are paid, relative to their mean.
    undecided : float
        Share of reports about which the scorer did not decide.
    honest_kinds, kinds : str
        Kinds of flags of honest and of dishonest reports, with counts.
    accuracy, fedavg, median, home : float
        Held-out accuracy, mean after the last three rounds: ours, FedAvg, the coordinate-wise
        median, and FedAvg where the dishonest stay at home.
    same_bits : bool
        Whether our last model is, bit for bit, that of FedAvg without the dishonest.
    difference : float
        The largest difference between a parameter of one and of the other.
    """

    task: str
    behaviour: str
    seed: int
    share: float
    quick: bool
    clients: int
    liars: int
    rounds: int
    honest_flagged: float
    honest_unweighted: float
    honest_named: int
    flagged: float
    named: float
    weight: float
    late_weight: float
    pay: float
    pay_spread: float
    undecided: float
    honest_kinds: str
    kinds: str
    accuracy: float
    fedavg: float
    median: float
    home: float
    same_bits: bool
    difference: float
    code: str = ""
