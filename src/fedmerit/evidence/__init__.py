"""Who worked? The cohort of a round, bets over rounds, and decisions with a stated error rate.

============  ===================================================================================
`cohort`      who agrees with whom; cliques beside the cohort; near-copies
`decisions`   from z to p-values, from p-values to discoveries
`bets`        evidence over rounds
`watch`       verdicts from that evidence
`limits`      every threshold, with where it comes from
============  ===================================================================================
"""

from fedmerit.evidence.watch import Verdict, Watch

__all__ = ["Verdict", "Watch"]
