"""What lies gain: ``python -m checks.studies.truthfulness`` writes docs/results/truthfulness.*.

Simulated rounds: each client reports a shared direction plus private noise. The search sees the
peers' signals, which no client does, so what it finds is an upper end.
"""

from dataclasses import dataclass

import numpy as np

import fedmerit
from checks import ROOT
from checks.studies.truthfulness_figure import draw
from fedmerit.experiments.benchmark.base import SCORERS_MODULE
from fedmerit.experiments.fingerprint import Sources, write_page
from fedmerit.incentive.audit import AuditSettings, ClientAudit, audit_signals, audit_updates
from fedmerit.rng import stream

CLIENTS, SEEDS = 6, 5
LEVELS = (4, 8)
SIZES = (1_000, 10_000, 100_000)
# With more noise the truth of 1,000 parameters scores nothing that gains could be relative to.
NOISES = (0.25, 0.5, 1.0, 1.5, 2.0)
SETTINGS = AuditSettings(draws=2)


@dataclass(frozen=True)
class Cell:
    """Means over seeds of one setting, relative to the score of the truth."""

    gain: float
    error: float
    certificate: float
    theorem: float


def make_round(noise: float, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return updates, (clients, size), and a public vector, (1, size), as good as one of them."""
    rng = stream(seed, "truthfulness", size, str(noise))
    shared = rng.normal(size=size)
    reports = shared + noise * rng.normal(size=(CLIENTS + 1, size))
    return reports[:-1], reports[-1:]


def relabelling(levels: int, noise: float, size: int) -> Cell:
    """Audit one client of each of several rounds."""
    found = []
    for seed in range(SEEDS):
        updates, _ = make_round(noise, size, seed)
        signals = fedmerit.QuantileBins(levels).quantise(updates, stream(seed, "unused"))
        audit = audit_signals(signals, clients=[0], settings=SETTINGS, rng=seed)
        (client,) = audit.clients
        assert client.holds
        best = max(lie.gain for lie in client.lies if lie.covered)
        found.append([best, client.epsilon, audit.theorem_epsilon] / np.float64(client.truth))
    gain, certificate, theorem = np.mean(found, axis=0)
    error = np.std(found, axis=0, ddof=1)[0] / np.sqrt(SEEDS)
    return Cell(float(gain), float(error), float(certificate), float(theorem))


def update_lies(method: str, size: int, use_public: bool) -> dict[str, tuple[str, float, float]]:
    """Return the best lie of each kind about float updates: description, mean gain, error."""
    audits: list[ClientAudit] = []
    for seed in range(SEEDS):
        updates, public = make_round(1.0, size, seed)

        def score(
            matrix: np.ndarray,
            previous: np.ndarray | None,
            seed: int = seed,
            public: np.ndarray = public,
        ) -> np.ndarray:
            known = public if use_public else None
            return fedmerit.score(
                matrix, method=method, public=known, previous=previous, rng=seed
            ).scores

        audits += audit_updates(
            updates, score, public=public, clients=[0], settings=SETTINGS, rng=seed
        )
    gains: dict[tuple[str, str], list[float]] = {}
    for audit in audits:
        for lie in audit.lies:
            gains.setdefault((lie.kind, lie.description), []).append(lie.gain / audit.truth)
    best: dict[str, tuple[str, float, float]] = {}
    for (kind, text), values in gains.items():
        mean = float(np.mean(values))
        if kind not in best or mean > best[kind][1]:
            best[kind] = (text, mean, float(np.std(values, ddof=1) / np.sqrt(SEEDS)))
    return best


def main() -> None:
    target = ROOT / "docs" / "results" / "truthfulness.md"
    cells = {
        (levels, noise, size): relabelling(levels, noise, size)
        for levels in LEVELS
        for noise in NOISES
        for size in SIZES
    }
    draw(cells, LEVELS, NOISES, SIZES, target.with_suffix(".svg"))
    lines = [
        "# What lies gain",
        "",
        "Written by `python -m checks.studies.truthfulness`. Simulated rounds of "
        f"{CLIENTS} clients, quantile bins, {SEEDS}",
        "seeds; everything relative to the score of the truth, in percent.",
        "",
        "## Re-labelling one's own signals, exact score",
        "",
        "All groupings of the levels are tried with the peers' signals in view. The certificate",
        "bounds each; Theorem 1 is the paper's epsilon for as many parameters, its hidden constant",
        "taken as 1.",
        "",
        "![Gain of the best lie against noise and number of parameters](truthfulness.svg)",
        "",
        "| levels | noise | parameters | best gain | standard error | certificate | Theorem 1 |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {levels} | {noise:g} | {size:,} | {cell.gain:.2%} | {cell.error:.2%} "
        f"| {cell.certificate:.2%} | {cell.theorem:.0%} |"
        for (levels, noise, size), cell in cells.items()
    ]
    size = 10_000
    lines += [
        "",
        f"## Lies about the float update, {size:,} parameters, noise 1",
        "",
        "The best lie of each kind. All but *peer* do without sight of the peers' reports: what a",
        "client could really do.",
        "",
        "| score | kind | best lie | gain | standard error |",
        "|---|---|---|---:|---:|",
    ]
    for method in sorted(set(fedmerit.SCORERS) & {"exact", "conditional", "merit"}):
        for kind, (text, gain, error) in update_lies(method, size, method != "exact").items():
            lines.append(f"| {method} | {kind} | {text} | {gain:+.2%} | {error:.2%} |")
    write_page(target, "\n".join(lines), Sources.of(main, SCORERS_MODULE))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
