"""The one door: a federation's state, and what happens to it in a round.

============  ===================================================================================
`server`      `Server`: check, judge, combine, pay, write down
`rules`       how a round is settled
`layout`      arrays by name <-> one vector
`replies`     what clients sent, checked and read into rows
`judging`     a round as pure functions: screen, score, weigh, pay; combine
`hearing`     a judged round before its panel
`history`     what is known from round to round: history, totals, all of it
`state`       all of it in one file
`expected`    what such a file must be made of
`opening`     a new server, or the one that an earlier process left
`summary`     rounds for an engine's log
`warm_up`     kernels compiled ahead
============  ===================================================================================
"""

from fedmerit.server.history import RoundHistory, Total
from fedmerit.server.judging import Result
from fedmerit.server.rules import RoundRules
from fedmerit.server.server import Server

__all__ = ["Result", "RoundHistory", "RoundRules", "Server", "Total"]
