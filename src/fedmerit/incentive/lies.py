"""Reports other than the truth, for the audit to try.

Signal lies re-draw levels and are judged by the exact score; update lies change the float update
and can be tried on any scorer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedmerit.types import FloatArray

Report = NDArray[np.generic]
Levels = NDArray[np.integer]
Random = np.random.Generator

NOISE_SHARES = (0.05, 0.2, 0.5)
NOISE_SCALES = (0.1, 0.3, 1.0, 3.0)
MIXES = (-1.0, -0.3, 0.3, 1.0)
FACTORS = (-1.0, 0.1, 0.5, 2.0, 10.0)
POWERS = (0.5, 2.0)
ACCOUNTS = (2, 4, 7)


@dataclass(frozen=True)
class Candidate:
    """A lie to try: `draw` makes the report; `random` says whether each draw is another one."""

    kind: str
    description: str
    draw: Callable[[Random], Report]
    random: bool = True


def fixed(kind: str, description: str, report: Report) -> Candidate:
    """Return a lie that draws nothing."""
    return Candidate(kind, description, lambda _: report, random=False)


def signal_lies(own: Levels, levels: int, public: Levels | None = None) -> Iterator[Candidate]:
    """Yield lies about the signals `own`, (d,).

    `public` are signals, (r, d), of vectors that every client knows.
    """
    truth = own.astype(np.int64)
    for share in NOISE_SHARES:
        text = f"{share:.0%} of the levels drawn at random"
        yield Candidate("noise", text, partial(_redrawn, truth, share, levels))
    for step in (1, 2):
        text = f"levels moved by up to {step}"
        yield Candidate("noise", text, partial(_moved, truth, step, levels))
    yield fixed("permutation", "levels in reverse", levels - 1 - truth)
    yield Candidate(
        "permutation", "levels renamed at random", lambda rng: rng.permutation(levels)[truth]
    )
    yield fixed("uninformed", "every level the same", np.zeros_like(truth))
    yield Candidate(
        "uninformed", "levels drawn at random", lambda rng: rng.integers(0, levels, truth.size)
    )
    yield Candidate(
        "uninformed", "own levels on shuffled parameters", lambda rng: rng.permutation(truth)
    )
    for index, row in enumerate(() if public is None else public):
        yield fixed("public", f"levels of public vector {index}", row)
        for share in NOISE_SHARES:
            text = f"{share:.0%} of the levels from public vector {index}"
            yield Candidate("public", text, partial(_mixed, truth, row, share))


def update_lies(
    own: FloatArray,
    public: FloatArray | None = None,
    peers: FloatArray | None = None,
    past: FloatArray | None = None,
) -> Iterator[Candidate]:
    """Yield lies about the float update `own`, (d,).

    `public` are vectors that every client knows, (r, d); `peers` are reports of other clients,
    (m, d), which this one has got hold of; `past` are earlier reports of its own, (n, d).
    """
    yield from _own_lies(own)
    for index, row in enumerate(() if public is None else public):
        yield from _public_lies(own, row, index)
    if peers is not None and len(peers):
        yield from _peer_lies(own, peers)
    if past is not None and len(past):
        yield from _past_lies(own, past)


def account_lies(own: FloatArray) -> Iterator[Candidate]:
    """Yield one work under several names: reports (accounts, d), the first of which is the truth.

    The others add noise, to look different.
    """
    for count in ACCOUNTS:
        yield fixed("accounts", f"{count} accounts", np.tile(own, (count, 1)))
        for share in NOISE_SHARES:
            text = f"{count} accounts, noise of {share:g} standard deviations"
            yield Candidate("accounts", text, partial(_accounts, own, count, share))


def _own_lies(own: FloatArray) -> Iterator[Candidate]:
    size, spread = own.size, float(np.std(own))
    for scale in NOISE_SCALES:
        text = f"noise of {scale:g} standard deviations"
        yield Candidate("noise", text, partial(_noisy, own, scale * spread))
    yield Candidate("uninformed", "noise of sd 0.01", lambda rng: rng.normal(0, 0.01, size))
    yield fixed("uninformed", "zero update", np.zeros_like(own))
    yield Candidate(
        "uninformed", "own values on shuffled parameters", lambda rng: rng.permutation(own)
    )
    for factor in FACTORS:
        yield fixed("scale", f"update times {factor:g}", factor * own)
    for share in (0.1, 0.5):
        large = np.abs(own) >= np.quantile(np.abs(own), 1 - share)
        text = f"largest {share:.0%} of the values, the rest zero"
        yield fixed("merging", text, np.where(large, own, 0))
    yield fixed("merging", "signs only", np.sign(own) * np.mean(np.abs(own)))
    for power in POWERS:
        bent = np.sign(own) * np.abs(own) ** power
        yield fixed("merging", f"sizes to the power of {power:g}", _as_long_as(own, bent))


def _public_lies(own: FloatArray, row: FloatArray, index: int) -> Iterator[Candidate]:
    yield fixed("public", f"public vector {index}", row)
    for scale in NOISE_SCALES[:2]:
        text = f"public vector {index} with noise of {scale:g} standard deviations"
        yield Candidate("public", text, partial(_noisy, row, scale * float(np.std(row))))
    as_long = _as_long_as(own, row)
    for mix in MIXES:
        text = f"own update plus {mix:g} of public vector {index}"
        yield fixed("public", text, own + mix * as_long)
    for share in NOISE_SHARES:
        text = f"{share:.0%} of the parameters from public vector {index}"
        yield Candidate("public", text, partial(_mixed, own, as_long, share))
    text = f"own signs times the sizes of public vector {index}"
    yield fixed("public", text, np.sign(own) * np.abs(as_long))


def _peer_lies(own: FloatArray, peers: FloatArray) -> Iterator[Candidate]:
    """Yield reports made of what peers report: what colluders could do, and a thief."""
    yield fixed("peer", "a peer's update", peers[0])
    yield fixed("peer", "mean of own and a peer's update", (own + peers[0]) / 2)
    everybody = peers.mean(axis=0)
    yield fixed("peer", "mean of all peers' updates", everybody)
    yield fixed("peer", "mean of own and all peers' mean", (own + everybody) / 2)


def _past_lies(own: FloatArray, past: FloatArray) -> Iterator[Candidate]:
    for index, report in enumerate(past):
        yield fixed("own past", f"own earlier report {index}", report)
        yield fixed("own past", f"own update plus own earlier report {index}", own + report)
    yield fixed("own past", "mean of own earlier reports", past.mean(axis=0))


def _as_long_as(own: FloatArray, other: FloatArray) -> FloatArray:
    length = float(np.linalg.norm(other))
    scaled: FloatArray = other * (float(np.linalg.norm(own)) / length) if length > 0 else other
    return scaled


def _redrawn(own: Levels, share: float, levels: int, rng: Random) -> Report:
    return np.where(rng.random(own.size) < share, rng.integers(0, levels, own.size), own)


def _moved(own: Levels, step: int, levels: int, rng: Random) -> Report:
    moved: Report = np.clip(own + rng.integers(-step, step + 1, own.size), 0, levels - 1)
    return moved


def _mixed(own: Report, other: Report, share: float, rng: Random) -> Report:
    return np.where(rng.random(own.size) < share, other, own)


def _accounts(own: FloatArray, count: int, share: float, rng: Random) -> Report:
    reports = np.tile(own, (count, 1))
    reports[1:] += rng.normal(0, share * float(np.std(own)), (count - 1, own.size))
    return reports


def _noisy(own: FloatArray, scale: float, rng: Random) -> Report:
    return own + rng.normal(0, scale, own.size)
