"""The paper's statements about DIN, each answered by numbers and a rule that was fixed before.

"reproduced", "partly" or "not reproduced" follow from the thresholds below; they were written down
before any of the runs they judge.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path

from fedmerit.experiments.runner import Outcome, read_outcomes

# Differences in AUC: this much is substantial, this little is little.
_SUBSTANTIAL, _LITTLE = 0.02, 0.005
# Weight of a rider relative to an honest user: almost none; about half.
_ALMOST_NONE, _HALF = 0.05, (0.3, 0.7)


@dataclass(frozen=True)
class Statement:
    """A statement, what was measured, and the verdict."""

    statement: str
    measured: str
    verdict: str


class Results:
    """Means over seeds, by experiment, line and point."""

    def __init__(self, folder: Path) -> None:
        self._found: dict[tuple[str, str, float], list[Outcome]] = {}
        for path in sorted(folder.rglob("din-*.csv")):
            for outcome in read_outcomes(path):
                self._found.setdefault((path.stem, outcome.line, outcome.value), []).append(outcome)

    def mean(self, experiment: str, line: str, value: float, field: str = "accuracy") -> float:
        """Return the mean over seeds; KeyError if there is no such run."""
        found = [float(getattr(o, field)) for o in self._found[experiment, line, value]]
        return sum(found) / len(found)

    def ratio(self, experiment: str, line: str, value: float) -> float:
        """Return a rider's weight over an honest user's."""
        rider = self.mean(experiment, line, value, "dishonest_weight")
        return rider / self.mean(experiment, line, value, "honest_weight")


def statements(folder: Path) -> list[Statement]:
    """Judge what has been run under `folder`; statements whose runs are missing are left out."""
    results, judged = Results(folder), []
    for judge in (_riders_harm, _noise_harms, _weights, _boundary, _order, _default):
        judged += list(judge(results))
    return judged


def _riders_harm(results: Results) -> Iterable[Statement]:
    for reading in ("updates", "models"):
        name = f"din-free-riders-harm-{reading}"
        for line in ("fedavg-plain", "fedavg"):
            try:
                alone, with_riders = (results.mean(name, line, p) for p in (0, 25))
            except KeyError:
                continue
            drop = alone - with_riders
            yield Statement(
                f"25 % free riders ({reading} are noise) hurt {line} substantially",
                f"AUC {alone:.4f} without, {with_riders:.4f} with: {-drop:+.4f}",
                _verdict(drop >= _SUBSTANTIAL, drop >= _LITTLE),
            )


def _noise_harms(results: Results) -> Iterable[Statement]:
    name = "din-noise-harm"
    for line in ("fedavg-plain", "fedavg"):
        try:
            least, small, large = (results.mean(name, line, sd) for sd in (0.0001, 0.001, 0.01))
        except KeyError:
            continue
        little, much = least - small <= _LITTLE, least - large >= _SUBSTANTIAL
        yield Statement(
            f"noise of 0.001 costs {line} little, 0.01 a lot",
            f"AUC {least:.4f} at 0.0001, {small:.4f} at 0.001, {large:.4f} at 0.01",
            _verdict(little and much, little or much),
        )


def _weights(results: Results) -> Iterable[Statement]:
    for reading in ("updates", "models"):
        name = f"din-weights-{reading}"
        for line in ("fed-pca-published", "fed-pca-exact"):
            try:
                some, half = (results.ratio(name, line, p) for p in (30, 50))
            except KeyError:
                continue
            yield Statement(
                f"{line}: 30 % riders ({reading}) get almost no weight",
                f"{some:.3f} of an honest user's",
                _verdict(some < _ALMOST_NONE, some < 0.5),
            )
            yield Statement(
                f"{line}: 50 % riders ({reading}) get about half of an honest user's weight",
                f"{half:.3f} of an honest user's",
                _verdict(_HALF[0] <= half <= _HALF[1], half < 1),
            )


def _boundary(results: Results) -> Iterable[Statement]:
    name, scales = "din-weights-noise", (0.0001, 0.001, 0.01, 0.05)
    for line in ("fed-pca-published", "fed-pca-exact"):
        try:
            found = [results.ratio(name, line, sd) for sd in scales]
        except KeyError:
            continue
        shown = ", ".join(f"{r:.3f} at {sd:g}" for r, sd in zip(found, scales, strict=True))
        yield Statement(
            f"{line}: a noise boundary exists, at 0.001",
            f"weight relative to an honest user's: {shown}",
            _verdict(found[1] > 0.5 > found[2], found[0] > 0.5 > found[-1]),
        )


def _order(results: Results) -> Iterable[Statement]:
    order = ("med", "med-pca", "fedavg-plain", "fed-pca-published")
    try:
        found = [results.mean("din-aggregators", line, 0) for line in order]
    except KeyError:
        return
    steps = [a < b for a, b in pairwise(found)]
    yield Statement(
        "all honest: Med < Med-PCA < FedAvg < Fed-PCA",
        ", ".join(f"{line} {value:.4f}" for line, value in zip(order, found, strict=True)),
        _verdict(all(steps), any(steps)),
    )


def _default(results: Results) -> Iterable[Statement]:
    """Judge what we promise of our default, not the paper."""
    line = "fedmerit"
    for reading in ("updates", "models", "stale"):
        name = f"din-weights-{reading}"
        try:
            ratios = [results.ratio(name, line, p) for p in (30, 50)]
            shut = [results.mean(name, line, p, "shut_out") for p in (30, 50)]
            alone = results.mean("din-weights-updates", line, 0)
            change = results.mean(name, line, 30) - alone
        except KeyError:
            continue
        yield Statement(
            f"our default: riders ({reading}) get below 5 % of an honest user's weight, "
            "and no honest user is shut out",
            f"{ratios[0]:.4f} at 30 %, {ratios[1]:.4f} at 50 %; honest users never weighed in a "
            f"run: {shut[0]:g} and {shut[1]:g}",
            _kept(max(ratios) < _ALMOST_NONE and max(shut) == 0, max(ratios) < _ALMOST_NONE),
        )
        yield Statement(
            f"our default: AUC with 30 % riders ({reading}) within 0.005 of the honest-only run",
            f"{alone:.4f} alone, {change:+.4f} with riders",
            _kept(abs(change) <= _LITTLE, abs(change) <= _SUBSTANTIAL),
        )


def _verdict(yes: bool, somewhat: bool) -> str:
    return "reproduced" if yes else "partly" if somewhat else "not reproduced"


def _kept(yes: bool, somewhat: bool) -> str:
    return "yes" if yes else "partly" if somewhat else "no"


def markdown(rows: Sequence[Statement]) -> str:
    """Return the statements as a Markdown table."""
    names = [field.name for field in fields(Statement)]
    lines = [f"| {' | '.join(names)} |", "|---|---|---|"]
    lines += [f"| {row.statement} | {row.measured} | {row.verdict} |" for row in rows]
    return "\n".join(lines) + "\n"
