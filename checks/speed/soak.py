"""A long run: 1,000 clients that come and go, 30 % of them dishonest, 200 rounds, one ledger.

``python -m checks.speed.soak`` writes docs/results/soak.md and soak.svg: memory, open files and
child processes after every round, and one round of 10,000 clients.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import fedmerit
from checks import ROOT
from checks.speed.browser import opened
from checks.speed.timing import machine
from fedmerit.behaviours import Assignment
from fedmerit.evidence.past import REPORTS, SKETCHED
from fedmerit.experiments.fingerprint import Sources, write_page
from fedmerit.experiments.picture import save
from fedmerit.ledger import Ledger, RunRecorder
from fedmerit.report import open_source, write_report
from fedmerit.rng import stream
from fedmerit.simulation.config import FederationConfig, ModelChoice, Partition
from fedmerit.simulation.data.datasets import load
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.run import run
from fedmerit.simulation.training.settings import LocalTraining
from fedmerit.types import RoundRecord

USERS, PER_ROUND, ROUNDS, SEED = 1000, 100, 200, 0
BEHAVIOURS = (
    "4% random-update, 4% zero, 4% stale, 3% sign-flip, 3% boost, 3% copies, 3% colluders, "
    "3% noise:0.05, 3% advanced-delta"
)
# Rounds in which the caches fill: twenty global models and every client's last report.
WARM_UP = 60
MANY, MANY_PARAMETERS, PEERS = 10_000, 1_000, 10
_ONE_ROUND = "one-round"
TARGET = ROOT / "docs" / "results" / "soak"


class ComingAndGoing(Federation):
    """Every client is there for a stretch of the run only; at most half are at any time."""

    def participants(self, number: int) -> list[int]:
        """Draw from the clients that are there in this round."""
        rng = stream(self.config.seed, "stays")
        joins = rng.integers(-ROUNDS // 2, ROUNDS, size=self.config.users)
        stays = rng.integers(ROUNDS // 4, ROUNDS, size=self.config.users)
        there = np.flatnonzero((joins < number) & (number <= joins + stays))
        drawn = stream(self.config.seed, "round", number, "clients").choice(
            there, min(self.config.per_round, len(there)), replace=False
        )
        return [int(client) for client in np.sort(drawn)]


class Meter:
    """Memory, open files and child processes after every round."""

    def __init__(self) -> None:
        self.megabytes: list[float] = []
        self.files: list[int] = []
        self.children: list[int] = []
        self.rejected = 0
        self.clients: set[str] = set()
        self.seen: list[int] = []

    def __call__(self, record: RoundRecord) -> None:
        """Look once."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.megabytes.append(pages * resource.getpagesize() / 2**20)
        self.files.append(len(list(Path("/proc/self/fd").iterdir())))
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
        self.children.append(len(children.split()))
        self.rejected += len(record.rejected)
        self.clients |= {client.client for client in record.clients}
        self.seen.append(len(self.clients))


def soak(folder: Path) -> tuple[Meter, Ledger, float, int]:
    """Run, and return what was measured and the ledger, open for reading."""
    config = FederationConfig(
        users=USERS,
        per_round=PER_ROUND,
        rounds=ROUNDS,
        seed=SEED,
        partition=Partition("iid"),
        model=ModelChoice(hidden=16, dropout=0.0),
        training=LocalTraining(epochs=1, batch_size=2),
        behaviours=Assignment.parse(BEHAVIOURS),
    )
    federation = ComingAndGoing(config, load("digits"))
    meter = Meter()
    with Ledger.open(folder / "soak.ledger") as ledger:
        keep = RunRecorder(
            ledger, {}, fedmerit.__version__, fingerprint=federation.fingerprint, resume=False
        )
        last = run(federation, folder=folder / "run", on_round=meter, keep=keep)
    accuracy = federation.task.evaluate(last.model)["accuracy"]
    reader = Ledger.open(folder / "soak.ledger", read_only=True)
    return meter, reader, accuracy, last.model.size


def many() -> tuple[float, int, int]:
    """Score 10,000 clients in one round; return peak memory in MB, and how many are flagged."""
    rng = np.random.default_rng(SEED)
    truth = rng.normal(size=MANY_PARAMETERS)
    updates = (truth + rng.normal(size=(MANY, MANY_PARAMETERS))).astype(np.float32)
    riders = rng.choice(MANY, MANY // 10, replace=False)
    updates[riders] = rng.normal(size=(len(riders), MANY_PARAMETERS))
    result = fedmerit.score(updates, method="conditional", peers=PEERS, rng=SEED)
    assert np.isfinite(result.scores).all()
    caught = int(result.flagged[riders].sum())
    wrongly = int(result.flagged.sum()) - caught
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, caught, wrongly


def look_at_report(ledger: Path) -> str:
    """Write the report of the run, open it in a real browser, and say what came out."""
    page = ledger.with_suffix(".html")
    begin = time.perf_counter()
    size = write_report(open_source(ledger), page) / 2**20
    wrote = f"Report: {size:.1f} MB, written in {time.perf_counter() - begin:.0f} s; "
    return f"{wrote}{opened(page)}."


def draw(megabytes: Sequence[float]) -> None:
    """Draw the memory curve."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    axes.plot(range(1, len(megabytes) + 1), megabytes, color="tab:blue")
    axes.axvspan(1, WARM_UP, color="0.92", label="warm-up")
    axes.set(xlabel="round", ylabel="resident memory, MB", ylim=(0, None))
    axes.set_title(f"{USERS} clients that come and go, {PER_ROUND} a round, 30 % dishonest")
    axes.legend(loc="lower right")
    save(figure, TARGET.with_suffix(".svg"))
    plt.close(figure)


def main() -> None:
    """Run everything and write the page."""
    # In a process of its own: its memory must not be part of the curve.
    alone = [sys.executable, "-m", "checks.speed.soak", _ONE_ROUND]
    done = subprocess.run(alone, check=True, capture_output=True, text=True, cwd=ROOT)
    peak, caught, wrongly = json.loads(done.stdout)
    with tempfile.TemporaryDirectory() as name:
        meter, ledger, accuracy, parameters = soak(Path(name))
        with ledger:
            checked = ledger.verify()
            recorded = len(list(ledger.rounds()))
        size = (Path(name) / "soak.ledger").stat().st_size / 2**20
        report = look_at_report(Path(name) / "soak.ledger")
    draw(meter.megabytes)
    warm, last = meter.megabytes[WARM_UP], meter.megabytes[-1]
    slope = np.polyfit(range(ROUNDS - WARM_UP), meter.megabytes[WARM_UP:], 1)[0]
    joined = (meter.seen[-1] - meter.seen[WARM_UP]) * parameters * 4 / 2**20
    sketched = 1000 * REPORTS * min(parameters, SKETCHED) * 4 / 2**20
    lines = [
        "# Soak",
        "",
        f"Written by `python -m checks.speed.soak` on {machine()}. {USERS} clients, each there "
        "for a",
        f"stretch of the run only, {PER_ROUND} a round, {ROUNDS} rounds through the round loop on",
        "scikit-learn's digits (MLP 64-16-10), merit score, every round recorded. Dishonest:",
        f"{BEHAVIOURS}.",
        "",
        "![memory](soak.svg)",
        "",
        "| | after warm-up | at the end |",
        "|---|---:|---:|",
        f"| resident memory, MB | {warm:.1f} | {last:.1f} |",
        f"| open files | {meter.files[WARM_UP]} | {meter.files[-1]} |",
        f"| child processes | {meter.children[WARM_UP]} | {meter.children[-1]} |",
        "",
        f"Slope after round {WARM_UP}: {slope * 1000:+.1f} kB a round. The last report of every "
        f"client is remembered, up to 1,000: the {meter.seen[-1] - meter.seen[WARM_UP]} clients "
        f"first seen after round {WARM_UP} account for {joined:.1f} MB. Of its newest {REPORTS} "
        f"reports {min(parameters, SKETCHED):,} parameters are kept: that comes to at most "
        f"{sketched:.0f} MB for 1,000 clients, and then grows no more.",
        f"Clients seen: {meter.seen[-1]}; replies rejected: {meter.rejected}.",
        f"Ledger: {recorded} rounds, {size:.1f} MB, "
        + ("verifies." if checked.ok else f"does NOT verify: {checked.problem}."),
        report,
        f"Accuracy at the end {accuracy:.3f}.",
        "",
        "## One round of 10,000 clients",
        "",
        f'`score(updates, method="conditional", peers={PEERS})` on {MANY:,} clients of '
        f"{MANY_PARAMETERS:,} parameters each, a tenth of them noise: of these {caught} of "
        f"{MANY // 10:,} flagged, of the others {wrongly}. Peak memory of the process "
        f"{peak:.0f} MB, {MANY * MANY_PARAMETERS * 4 / 2**20:.0f} MB of it the updates.",
        "",
    ]
    sources = Sources.of(main, Ledger, write_report)
    write_page(TARGET.with_suffix(".md"), "\n".join(lines), sources)
    print("\n".join(lines))


if __name__ == "__main__":
    if sys.argv[1:] == [_ONE_ROUND]:
        print(json.dumps(many()))
    else:
        main()
