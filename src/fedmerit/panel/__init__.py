"""What a client is worth, judged by the other clients: no test data at the server.

A server adds the mean update of a random half of the others to its model, and that of the other
half, and lets a client say on its own data how good each of the two models is. The difference,
over many judges and rounds, tells what each client's update is worth, in units of the metric.

=============  ==================================================================================
`rules`        `Panel`: what is asked, of how many, and what a judge may answer
`design`       who judges which halves
`book`         what judges said, and how it reads as rows of a regression
`own`          what a judge says beside what its own update says
`trust`        which judges have a voice: those whom the others bear out
`estimate`     worth of every client, with standard errors, as judges say who have a voice
`harm`         bets that an update harms the model: evidence over rounds
`bench`        the candidates of one round, and what came back
`sums`         the same where the server sees sums of groups only (secure aggregation)
=============  ==================================================================================
"""

from fedmerit.panel.bench import Bench, Candidate, Heard
from fedmerit.panel.book import Book, HeardRound
from fedmerit.panel.design import Pair, draw_pairs
from fedmerit.panel.estimate import Estimate, estimate
from fedmerit.panel.rules import Panel

__all__ = [
    "Bench",
    "Book",
    "Candidate",
    "Estimate",
    "Heard",
    "HeardRound",
    "Pair",
    "Panel",
    "draw_pairs",
    "estimate",
]
