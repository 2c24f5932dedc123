"""Who worked? The cohort of a round, bets over rounds, and decisions with a stated error rate.

============  ===================================================================================
`cohort`      who agrees with whom; against that: near-copies, what is known, who is turned round
`past`        sketches of a client's own earlier reports; a forecast of the next update
`length`      too long for its size
`decisions`   from z to p-values, from p-values to discoveries
`bets`        evidence over rounds
`watch`       verdicts from that evidence
`limits`      every threshold, with where it comes from
============  ===================================================================================
"""

from fedmerit.evidence.watch import Verdict, Watch

__all__ = ["Verdict", "Watch"]
