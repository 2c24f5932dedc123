"""Lies about work that tasks of the models benchmark are asked about, and how many tell them."""

from dataclasses import dataclass

import numpy as np

from fedmerit.behaviours import Behaviour, ClientView, Copies, Report, parse_behaviour
from fedmerit.behaviours.base import Vector, gaussian
from fedmerit.behaviours.replays.informed import Informed
from fedmerit.behaviours.trained.rotating import Rotating


@dataclass(frozen=True)
class Blurred(Behaviour):
    """Report the work plus noise of `size`, relative to the root mean square of the work."""

    name = "blurred"
    size: float = 0.3

    def report(self, view: ClientView) -> Report:
        """Report the blurred truth."""
        work = view.trained
        noise = gaussian(view.rng, work.size, self.size * _length(work) / np.sqrt(work.size))
        return Report(work + noise, view.num_examples)


@dataclass(frozen=True)
class Plus(Behaviour):
    """Report the work plus `times` the last global update, this as long as the work."""

    name = "plus-g"
    times: float = 1.0

    def report(self, view: ClientView) -> Report:
        """Report the mixture; in round 1 the work alone."""
        last = _length(view.last_update)
        share = np.float32(self.times * _length(view.trained) / last if last else 0.0)
        return Report(view.trained + share * view.last_update, view.num_examples)


@dataclass(frozen=True)
class Recombined(Rotating):
    """Report honestly `rounds` times, then these reports in a new mixture every time."""

    name = "recombined"

    def report(self, view: ClientView) -> Report:
        """Report the truth, or what was the truth once."""
        past = view.own_reports
        if len(past) < self.remembers:
            return Report(view.trained, view.num_examples)
        shares = view.rng.dirichlet(np.ones(len(past))) * view.rng.uniform(0.5, 3.0)
        mixture = sum(np.float32(s) * p for s, p in zip(shares, past, strict=True))
        return Report(np.asarray(mixture, dtype=np.float32), view.num_examples)


@dataclass(frozen=True)
class InformedStranger(Informed):
    """An informed rider under a new name in every round."""

    name = "informed-stranger"

    def account(self, client: int, number: int) -> str:
        """Return a name that nobody has had before."""
        return f"{client}-{number}"


@dataclass(frozen=True)
class Smoothed(Behaviour):
    """Forecast in another way than the server: what Adam would make of the global updates.

    The mean of the updates, older ones counting less, over the root of their mean square, as long
    as the last one; with noise of `noise` relative to it, so that no two send the same.
    """

    name = "smoothed"
    trains = False
    noise: float = 0.3
    fading: float = 0.7

    def report(self, view: ClientView) -> Report:
        """Report the forecast; noise of 0.01 before there is anything to forecast from."""
        known = [update for update in view.global_updates if np.any(update)]
        if not known:
            return Report(gaussian(view.rng, view.global_model.size, 0.01), view.num_examples)
        mean = sum(np.float32(self.fading**age) * update for age, update in enumerate(known))
        square = np.sqrt(sum(np.square(update) for update in known) / len(known))
        way = np.divide(mean, square, out=np.zeros_like(square), where=square > 0)
        length = _length(known[0])
        forecast = way * np.float32(length / _length(way))
        blur = gaussian(view.rng, way.size, self.noise * length / np.sqrt(way.size))
        return Report(forecast + blur, view.num_examples)


@dataclass(frozen=True)
class SmoothedStranger(Smoothed):
    """The same under a new name in every round."""

    name = "smoothed-stranger"

    def account(self, client: int, number: int) -> str:
        """Return a name that nobody has had before."""
        return f"{client}-{number}"


@dataclass(frozen=True)
class Lie:
    """What is reported, by whom, and from which round on its pay counts.

    Attributes
    ----------
    question : str
        Which goal of the page it belongs to.
    behaviour : Behaviour
    share : float
        Of the clients; at least one.
    more : int
        Accounts that one client opens beside its own; then nobody else lies.
    since : int
        The first round that counts: the lie begins there.
    """

    question: str
    behaviour: Behaviour
    share: float = 0.3
    more: int = 0
    since: int = 1

    @property
    def label(self) -> str:
        """Its name in tables."""
        return self.behaviour.label

    @property
    def who(self) -> str:
        """How many tell it, in words."""
        if self.more:
            return f"{1 + self.more} accounts"
        return f"{self.share:.0%}" if self.share else "one"


ONE = 0.0  # of the clients: a single one
SHARES = (ONE, 0.15, 0.3, 0.45)
RIDERS = ("stale", "averaged", "extrapolated", "informed", "adaptive", "random-update")
OTHER_RIDERS = ("older:2", "older:5", "advanced-rider", "disguised", "sign-mimic")
FLIPS = ("sign-flip", "label-flip", "loud-flip")
LIES: tuple[Lie, ...] = (
    *(
        Lie("scaling", parse_behaviour(f"boost:{factor}"), share)
        for factor in (0.5, 2, 3, 10)
        for share in (ONE, 0.3)
    ),
    *(Lie("noise", Blurred(size)) for size in (0.1, 0.3, 1.0)),
    *(Lie("mixing", Plus(a), s) for a in (-1, 0.5, 1, 3, 10) for s in (ONE, 0.3)),
    *(Lie("accounts", Copies(n), more=m) for n in (0.0, 0.05, 0.2, 0.5) for m in (3, 6)),
    *(Lie("own past", Rotating(n), s, since=n + 1) for n in (2, 4, 8) for s in (ONE, 0.3)),
    *(Lie("own past", Recombined(4), s, since=5) for s in (ONE, 0.3)),
    *(Lie("riders", parse_behaviour(rider), s, since=4) for rider in RIDERS for s in SHARES),
    *(
        Lie("riders", behaviour, s, since=4)
        for behaviour in (InformedStranger(), Smoothed(), SmoothedStranger())
        for s in SHARES
    ),
    *(Lie("riders", parse_behaviour(rider), since=4) for rider in OTHER_RIDERS),
    *(Lie("direction", parse_behaviour(name)) for name in FLIPS),
)


def _length(vector: Vector) -> float:
    return float(np.linalg.norm(vector.astype(np.float64)))
