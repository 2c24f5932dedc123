"""Every threshold that decides about a client, in one place, each with where it comes from.

*Derived* follows from a stated error rate or from arithmetic. *Chosen* is a convention that needs
no data. *Tuned* was found on development seeds of the data set that is named; what was tried beside
it is in docs/decisions. Error rates that a user may set stand with their settings (`fdr`, `naming`,
`Panel.rate`), and what only keeps arithmetic exact stands beside the arithmetic.
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
    # Derived: mean of the positive part of a standard normal.
    positive_part: float = 1 / sqrt(2 * pi)
    # Derived: its standard deviation.
    positive_deviation: float = sqrt(0.5 - 1 / (2 * pi))
    # Tuned (MNIST, 0005): private parts this similar are one client's work sent twice.
    copy_cosine: float = 0.98

    # --- what a round can decide (evidence.cohort)
    # Chosen: a regression wants ten observations for each of its coefficients.
    parameters_per_vector: int = 10
    # Chosen: two clients are one pair, which has no spread to judge a third by.
    fewest_members: int = 3
    # Chosen: who moved fewer parameters, and not half of them, is not missed among those who agree;
    # as many as a stratum has at least.
    fewest_moved: int = 256
    # Chosen: a report of which less than a thousandth is left has been replayed.
    nothing_left: float = 1e-3

    # Chosen: a client that works agrees with a fifth of its peers or more. Small enough that honest
    # clients pass when most of the others are free riders; two clients who share a secret do not
    # pass among ten.
    agreeing_share: float = 0.2

    # --- lengths and sizes (evidence.length, server.judging)
    # Derived: chance that a length is called far out in a round of equals.
    length_rate: float = 0.01
    # Chosen: longer than so many times the typical update and the global model is no update but an
    # attack on the arithmetic. Shortening handles what is merely long.
    absurd_norm: float = 1000.0
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
    # Chosen: what agreement counts a round later, so that some ten rounds are looked at together.
    memory: float = 0.9
    # Chosen: the share of its wealth that a bet puts on reports that are explained; and the chance
    # that is given to be seen, in a round, to who points against data of one kind.
    stake: float = 0.1
    # Chosen: the share of all bets that wait for later rounds, should a client stop working then.
    reserve: float = 0.1

    # --- direction (evidence.cohort)
    # Tuned (development seeds of the models benchmark, 0043): who tells the others nothing lies
    # farther from them than so many times what they lie from each other; honest clients came to
    # 1.53. It decides about pay, and who is named only where all data are of one kind.
    apart: float = 5 / 3
    # Chosen: a report of which less than a tenth is new does not answer what the model did.
    changed: float = 0.1
    # Chosen: a shared report that has turned by more than half of its length is another one.
    another: float = 0.5

    # --- judges and bets on harm (panel.trust, panel.harm)
    # Chosen, as for the length of updates: nobody speaks more than twice as loud as is usual.
    clearly_loud: float = 2.0
    # Chosen (0011): never more than this is bet in one round: one odd round must not decide alone.
    largest_bet: float = 3.0
    # Chosen: three make a majority, which can bear one of them out.
    fewest_to_outvote: int = 3
    # Chosen: leaving out one of four judges still leaves an error with two degrees of freedom.
    fewest_judges: int = 4
    # Chosen: what judges predict of each other is drawn to zero by this share of what is known of
    # a client on average; it decides how far a single answer is believed.
    prediction_shrinkage: float = 0.3

    # --- information (scorers.information)
    # Derived: of normal values, the standard deviation is so many median absolute deviations.
    sd_per_mad: float = 1.4826
    # Chosen: what the newest report counts in a client's testimony; half to a fifth rank alike.
    newest: float = 1 / 3
    # Chosen: a private part below this share of the update is rounding.
    rounding: float = 3e-6
    # Chosen: what is usual for a client is the median over seven others or more.
    fewest_usual: int = 8
    # Chosen: of differences between clients at least a tenth stays, so that their order does.
    least_lasting: float = 0.1
    # Chosen: differences are evened out by two standard deviations of the round at most.
    moved: float = 2.0
    # Tuned (MNIST, 0012): in an undecided round a client is paid that has this share of the trust.
    least_trust: float = 0.1


LIMITS = Limits()
