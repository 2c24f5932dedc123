"""The one door: a federation's state, and what happens to it in a round.

============  ===================================================================================
`server`      `Server`: check, judge, combine, pay, write down
`rules`       how a round is settled
`judging`     a round as pure functions: screen, score, weigh, pay; combine
`history`     what is remembered from round to round
`layout`      arrays by name <-> one vector; what is wrong with a client's arrays
`replies`     rows of usable replies; what clients wrote, as text that can be stored
`totals`      what rounds have come to, in numbers and in words
`state`       all of it in one file
`plain`       rules as plain values
============  ===================================================================================
"""

from fedmerit.server.history import RoundHistory
from fedmerit.server.rules import RoundRules
from fedmerit.server.server import Result, Server
from fedmerit.server.totals import Total

__all__ = ["Result", "RoundHistory", "RoundRules", "Server", "Total"]
