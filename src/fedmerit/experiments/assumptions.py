"""The paper's assumption, tested: signals of two parameters are independent and alike.

A sample is one client's report in one round: its signal for a parameter is the level of the
parameter's change, among as many levels as the paper uses for the model. For many random pairs of
parameters, Spearman's test asks whether their signals are independent, and the Kolmogorov-Smirnov
test whether they have one distribution. The paper shows one pair. Counted here is the share of
pairs that reject at 5 %: 5 % is what the assumption allows. A parameter whose signals never vary
cannot reject either test against another like it, and says nothing; how many pairs have one is
shown beside.
"""

import csv
import os
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedmerit.aggregators import aggregate
from fedmerit.errors import MissingExtraError
from fedmerit.experiments.clicks import BASE, DIN_LEVELS
from fedmerit.experiments.fingerprint import Sources
from fedmerit.experiments.picture import save
from fedmerit.experiments.runner import VERDICTS, fitted
from fedmerit.experiments.spec import Experiment, Line, Point, plain_rules
from fedmerit.quantisers import DEFAULT_LEVELS, QuantileBins
from fedmerit.rng import stream
from fedmerit.scorers import ExactPCA
from fedmerit.simulation.clicks.log import ClickLog
from fedmerit.simulation.config import FederationConfig
from fedmerit.simulation.data.datasets import Dataset
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.observe import observe_rounds

_LEVEL = 0.05
_FIRST, _ROUNDS, _PAIRS = 11, 10, 1000
_QUICK_FIRST, _QUICK_ROUNDS, _QUICK_PAIRS = 2, 3, 100
Pairs = NDArray[np.int64]


@dataclass(frozen=True)
class Tested:
    """One group of pairs: how many, how many with a constant signal, and shares that reject."""

    group: str
    pairs: int
    constant: float
    spearman: float
    smirnov: float
    median_spearman: float
    median_smirnov: float
    code: str = ""


def check_assumptions(
    data: Dataset | ClickLog, folder: Path, seed: int, *, quick: bool = False
) -> tuple[list[Tested], list[Path]]:
    """Train honestly for some rounds, test pairs of parameters, write table and figure."""
    first, rounds, count = (
        (_QUICK_FIRST, _QUICK_ROUNDS, _QUICK_PAIRS) if quick else (_FIRST, _ROUNDS, _PAIRS)
    )
    config = _config(data, seed)
    signals, layers, embedded = _signals(config, data, range(first, first + rounds))
    rng = stream(seed, "pairs")
    tested, values = [], {}
    for group, pairs in _groups(layers, embedded, count, rng).items():
        p_values, constant = _test(signals, pairs)
        values[group] = p_values
        spearman, smirnov = (p_values < _LEVEL).mean(axis=0).tolist()
        median_spearman, median_smirnov = np.median(p_values, axis=0).tolist()
        tested.append(
            Tested(
                group,
                len(pairs),
                float(constant.mean()),
                spearman,
                smirnov,
                median_spearman,
                median_smirnov,
                SOURCES.code.digest,
            )
        )
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "assumptions.csv"
    _write(table, tested)
    picture = folder / "assumptions.svg"
    _draw(values, data.name, picture)
    return tested, [table, picture]


# Honest rounds with a plain mean are looked at; the server's verdicts are not.
SOURCES = Sources.of(check_assumptions, Federation.step, aggregate, closed=VERDICTS)


def _config(data: Dataset | ClickLog, seed: int) -> FederationConfig:
    base = BASE if isinstance(data, ClickLog) else FederationConfig()
    whole = Experiment("", "", "", (Point(0, ""),), (Line("", "", plain_rules("size")),), base=base)
    return replace(
        fitted(whole, data).base,
        seed=seed,
        rules=plain_rules("size", ExactPCA()),
        scored="all",
        touched=isinstance(data, ClickLog),
    )


def _signals(
    config: FederationConfig, data: Dataset | ClickLog, rounds: range
) -> tuple[NDArray[np.uint8], NDArray[np.int64], int]:
    """Return the signals (reports, d), the layer of each parameter, and how many are embeddings."""
    federation = Federation(config, data)
    rows = federation.task.rows
    bins = QuantileBins(DIN_LEVELS if isinstance(data, ClickLog) else DEFAULT_LEVELS)
    reports = []
    for inputs in observe_rounds(config, data, rounds):
        assert isinstance(inputs.updates, np.ndarray)
        reports.append(bins.quantise(inputs.updates, np.random.default_rng(0)).values)
    layers = federation.network.layers.astype(np.int64)
    return np.vstack(reports), layers, 0 if rows is None else len(rows)


def _groups(
    layers: NDArray[np.int64], embedded: int, count: int, rng: np.random.Generator
) -> dict[str, Pairs]:
    """Draw pairs: of all parameters, and of dense ones within a layer and across layers."""
    everything, dense = np.arange(len(layers)), np.arange(embedded, len(layers))
    groups = {"all": rng.choice(everything, (count, 2))}
    pairs = rng.choice(dense, (20 * count, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = layers[pairs[:, 0]] == layers[pairs[:, 1]]
    groups["dense"] = pairs[:count]
    groups["dense, within a layer"] = pairs[same][:count]
    groups["dense, across layers"] = pairs[~same][:count]
    groups["all"] = groups["all"][groups["all"][:, 0] != groups["all"][:, 1]]
    return groups


def _test(
    signals: NDArray[np.uint8], pairs: Pairs
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return both p-values of each pair, and whether one of its signals never varies."""
    from scipy.stats import ks_2samp, spearmanr

    p_values = np.ones((len(pairs), 2))
    constant = np.zeros(len(pairs), dtype=np.bool_)
    for row, (a, b) in enumerate(pairs):
        x, y = signals[:, a].astype(np.int64), signals[:, b].astype(np.int64)
        constant[row] = x.min() == x.max() or y.min() == y.max()
        if not constant[row]:
            p_values[row, 0] = spearmanr(x, y).pvalue
        p_values[row, 1] = ks_2samp(x, y, method="asymp").pvalue
    return p_values, constant


def _write(path: Path, tested: list[Tested]) -> None:
    temporary = path.with_name(path.name + ".part")
    with temporary.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([field.name for field in fields(Tested)])
        table.writerows(astuple(row) for row in tested)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _draw(values: dict[str, NDArray[np.float64]], name: str, path: Path) -> None:
    """Draw the distribution of the p-values: flat is what the assumption says."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingExtraError("figures need matplotlib: pip install 'fedmerit[report]'") from None
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(8.0, 3.2), layout="constrained")
        titles = ("Spearman", "Kolmogorov-Smirnov")
        for column, (axes, title) in enumerate(zip(figure.subplots(1, 2), titles, strict=True)):
            for group, p_values in values.items():
                ordered = np.sort(p_values[:, column])
                axes.plot(ordered, np.linspace(0, 1, len(ordered)), label=group)
            axes.plot([0, 1], [0, 1], color="grey", linestyle=":", label="i.i.d.")
            axes.set(xlabel="p-value", ylabel="share of pairs below", title=title)
        axes.legend(fontsize=7)
        figure.suptitle(f"Signals of two random parameters, {name}", fontsize=10)
        save(figure, path)
