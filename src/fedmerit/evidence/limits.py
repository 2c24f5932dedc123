"""Every threshold that decides about a client, in one place, each with where it comes from.

*Derived* follows from a stated error rate or from arithmetic. *Chosen* is a convention that needs
no data. *Tuned* was found on development seeds of the data set that is named; what was tried beside
it is in docs/decisions.
"""

from dataclasses import dataclass
from math import pi, sqrt


@dataclass(frozen=True)
class Limits:
    """Thresholds of the gate, the bets over rounds and the merit score."""

    # --- who belongs together (evidence.cohort)
    # Derived: chance that any two of all independent clients of a round are joined by accident.
    family_error: float = 0.01
    # Derived: chance that a round accuses any client that works like the cohort; so a run of a
    # hundred rounds does in one case of a hundred.
    accusing: float = 1e-4
    # Tuned (development seeds of the models benchmark, 0017): who works agrees with the members at
    # least a third as much as they do. Over a run, no honest client showed less than 0.44.
    # Everything that is held against a client for not agreeing is tested against that.
    least_share: float = 1 / 3
    # Chosen: members whose typical median z is below one standard deviation do not agree broadly.
    least_breadth_z: float = 1.0
    # Derived: mean of the positive part of a standard normal.
    positive_part: float = 1 / sqrt(2 * pi)
    # Tuned (MNIST, 0005): private parts this similar are one client's work sent twice.
    copy_cosine: float = 0.98

    # --- what a round can decide (evidence.gate)
    # Chosen: a regression wants ten observations for each of its coefficients.
    parameters_per_vector: int = 10
    # Chosen: two clients are one pair, which has no spread to judge a third by.
    fewest_members: int = 3
    # Chosen: a report of which less than a thousandth is left has been replayed.
    nothing_left: float = 1e-3

    # --- lengths and sizes (evidence.length)
    # Chosen: an update may be twice as long as is usual for its size.
    clearly_long: float = 2.0
    # Chosen: lengths grow with sizes if they do so by two standard errors.
    growth_errors: float = 2.0
    # Chosen: sizes less than a tenth apart say nothing about how lengths grow.
    sizes_apart: float = 0.1

    # --- who is alone (scorers.conditional)
    # Tuned (MNIST, 0004): a client is flagged for lack of agreement only if a typical accepted one
    # has so many times its z.
    margin: float = 2.0
    # Chosen: a residual of so many roundings of the numbers behind it, or fewer, is a tie.
    precision_roundings: float = 16.0

    # --- bets over rounds (evidence.bets)
    # Chosen: how often a client that works may bring about what is bet on: once in 100 rounds.
    honest_event: float = 0.01
    # Chosen: agreement of three standard deviations is significant by itself.
    significant: float = 3.0
    # Chosen: what the first bet puts on independence at most, so that one round does not decide.
    largest_stake: float = 0.9
    # Chosen: the share of its wealth that the second bet puts on reports that are explained.
    stake: float = 0.1

    # --- bets on harm (panel.harm)
    # Chosen (0011): never more than this is bet in one round: one odd round must not decide alone.
    largest_bet: float = 3.0

    # --- the merit score (scorers.merit)
    # Tuned (MNIST, 0005): updates longer than so many median norms count as if they had that norm.
    norm_cap: float = 2.0
    # Chosen: cosines of independent vectors are about 1 / sqrt(parameters); three times that.
    chance: float = 3.0
    # Tuned (MNIST, 0005): a client typically shows what it shows with the better quarter of peers.
    better_peers: float = 0.75
    # Tuned (MNIST, 0005): private parts count by their norm, up to so many median norms.
    size_cap: float = 2.0
    # Tuned (MNIST, 0009): a cohort that agrees less than this has no direction to compare with.
    least_direction: float = 0.02
    # Derived: of normal values, the standard deviation is so many median absolute deviations.
    sd_per_mad: float = 1.4826
    # Chosen: a private part below this share of the update is rounding.
    rounding: float = 3e-6
    # Tuned (MNIST, 0009): a client is reversed that points against the cohort by at least half of
    # what the cohort agrees, so many robust standard deviations below those who do not, who point
    # one way, and whose private work is shared by few.
    reversed_at: float = -0.5
    reversed_deviations: float = 5.0
    one_way: float = 1.25
    little_trust: float = 0.2
    # Tuned (MNIST, 0012): in an undecided round a client is paid that has this share of the trust.
    least_trust: float = 0.1
    # Tuned (MNIST, 0012): who agrees with most members less than this agrees with few.
    broad: float = 0.75
    # Tuned (MNIST, 0009): below this agreement of the trusted, who points away is not paid less.
    clear_direction: float = 0.25


LIMITS = Limits()
