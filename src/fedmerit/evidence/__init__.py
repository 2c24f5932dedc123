"""Who worked? The cohort of a round, bets over rounds, and decisions with a stated error rate.

============  ===================================================================================
`gate`        what a round can decide; who is explained by what is known
`cohort`      who agrees with whom; cliques beside the cohort; near-copies
`direction`   who points against the others
`past`        sketches of a client's own earlier reports
`forecast`    what anybody can tell of the next update
`length`      too long for its size
`decisions`   from z to p-values, from p-values to discoveries
`bets`        evidence over rounds
`watch`       verdicts from that evidence
`limits`      every threshold, with where it comes from
============  ===================================================================================
"""

from fedmerit.evidence.watch import Verdict, Watch

__all__ = ["Verdict", "Watch"]
