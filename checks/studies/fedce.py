"""FedCE of NVIDIA FLARE and fedmerit on the same reports: ``python -m checks.studies.fedce``.

Writes docs/results/fedce.csv and fedce.md. Needs nvflare and torch: FedCE is FLARE's own code, the
server's side and the clients' side. ``--seeds 1 2 --out FOLDER`` is for development.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import fedmerit
from checks import ROOT
from fedmerit.experiments.benchmark.base import Table
from fedmerit.experiments.benchmark.files import write_rows
from fedmerit.experiments.fingerprint import Sources, write_page

SEEDS, ROUNDS = (820, 821, 822, 823, 824), 6
Arrays = dict[str, NDArray[np.float64]]
Data = tuple[NDArray[np.float64], NDArray[np.int64]]

RIDERS = ("noise", "sign flip", "replay")
ODD = ("a tenth of the data", "half its labels wrong", "two digits of its own")
COHORTS = {"riders": RIDERS, "honest": ODD}
FEDCE, BOAST = "FedCE", "FedCE, riders boast"
WEIGHT, PAY = "fedmerit, weight", "fedmerit, pay"

_SETTINGS = """\
A network with 2,410 parameters learns handwritten digits (scikit-learn's, 1,797 images) for
{rounds} rounds of 20 full-batch steps. Both methods see the same reports: the global model follows
the mean of all who train. *fedmerit, pay* is the share of a budget that is paid by the default
score, *fedmerit, weight* the share of the model. FedCE has one number for both; it adds how unlike
the others' an update points to a score that each client reports of itself, the error of the model
without it on the client's own validation images (FLARE's `FedCEModelAggregator` and
`PTFedCEHelper`, mode *plus*). Means over seeds {seeds}, in percent of all."""

_RIDERS = """\
Six clients train on equal parts. Of the other three, one sends noise as long as the mean update,
one the mean update of the others reversed, one the last global update again. They have no images,
so they make up the score that FedCE asks for: the mean of the others' scores, or, in the line
*riders boast*, the largest error that there is. An equal share is {share:.1f} %."""

_HONEST = """\
All train, four of them on equal parts. One has a tenth of that, of one half of the labels are
wrong, one has two digits that nobody else has. An equal share is {share:.1f} %."""

_READ = """\
FedCE was made for honest clients whose data differ, and pays what is unlike the others: that is
right for rare data, and it is why noise and reversed updates earn most. It does not claim to find
who does not work. fedmerit pays what others' data confirm, and so it underpays rare data; see
[limits](../limits.md)."""


@dataclass(frozen=True)
class Row:
    """The share of one kind of client, mean over rounds and over its clients."""

    cohort: str
    method: str
    client: str
    seed: int
    share: float
    code: str


def train(model: Arrays, data: Data, steps: int = 20, rate: float = 0.5) -> Arrays:
    """Return the model after local steps."""
    (w, a, v, b), (x, y) = model.values(), data
    for _ in range(steps):
        hidden = np.maximum(x @ w + a, 0)
        p = np.exp(hidden @ v + b)
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        p /= len(y)
        back = (p @ v.T) * (hidden > 0)
        v, b = v - rate * hidden.T @ p, b - rate * p.sum(axis=0)
        w, a = w - rate * x.T @ back, a - rate * back.sum(axis=0)
    return dict(zip(model, (w, a, v, b), strict=True))


def error(model: Arrays, data: Data) -> float:
    """Return the share of images that the model reads wrongly."""
    (w, a, v, b), (x, y) = model.values(), data
    return float(np.mean(np.argmax(np.maximum(x @ w + a, 0) @ v + b, axis=1) != y))


def clients_of(cohort: str, rng: np.random.Generator) -> dict[str, Data]:
    """Return the images of all clients who train."""
    x, y = load_digits(return_X_y=True)
    x, order = x / 16, rng.permutation(len(y))
    if cohort == "riders":
        parts = np.array_split(order, 6)
        return {f"honest {n}": (x[part], y[part]) for n, part in enumerate(parts)}
    rare = order[y[order] >= 8]
    common = order[y[order] < 8]
    few, others = common[: len(common) // 51], common[len(common) // 51 :]
    parts = np.array_split(others, 5)
    data = {f"honest {n}": (x[part], y[part]) for n, part in enumerate(parts[:4])}
    labels = y[parts[4]].copy()
    wrong = rng.permutation(len(labels))[: len(labels) // 2]
    labels[wrong] = (labels[wrong] + rng.integers(1, 10, len(wrong))) % 10
    made = {ODD[0]: (x[few], y[few]), ODD[1]: (x[parts[4]], labels), ODD[2]: (x[rare], y[rare])}
    return data | made


@dataclass(frozen=True)
class Round:
    """What a server gets in one round."""

    model: Arrays
    updates: dict[str, Arrays]
    sizes: dict[str, int]
    held_out: dict[str, Data]  # of those who train


def rounds_of(cohort: str, seed: int) -> Iterator[Round]:
    """Yield the rounds of a federation."""
    rng = np.random.default_rng(seed)
    data = clients_of(cohort, rng)
    held_out = {name: (x[::4], y[::4]) for name, (x, y) in data.items()}
    used = {
        name: (np.delete(x, np.s_[::4], axis=0), np.delete(y, np.s_[::4]))
        for name, (x, y) in data.items()
    }
    sizes = {name: len(y) for name, (_, y) in used.items()}
    model: Arrays = {
        "hidden_weight": rng.normal(0, 0.2, (64, 32)),
        "hidden_bias": np.zeros(32),
        "out_weight": rng.normal(0, 0.2, (32, 10)),
        "out_bias": np.zeros(10),
    }
    last = {name: np.zeros_like(value) for name, value in model.items()}
    for _ in range(ROUNDS):
        updates = {}
        for name, images in used.items():
            after = train(model, images)
            updates[name] = {k: after[k] - model[k] for k in model}
        mean = {k: np.mean([update[k] for update in updates.values()], axis=0) for k in model}
        if cohort == "riders":
            drawn = {k: rng.normal(size=v.shape) for k, v in model.items()}
            length = norm(mean) / norm(drawn)
            updates["noise"] = {k: length * v for k, v in drawn.items()}
            updates["sign flip"] = {k: -v for k, v in mean.items()}
            updates["replay"] = last
            sizes |= dict.fromkeys(RIDERS, sizes["honest 0"])
        yield Round(model, updates, sizes, held_out)
        model, last = {k: model[k] + mean[k] for k in model}, mean


def norm(arrays: Arrays) -> float:
    """Return the length of all arrays as one vector."""
    return float(np.sqrt(sum((array**2).sum() for array in arrays.values())))


def by_fedce(cohort: str, seed: int, boast: bool) -> list[Mapping[str, float]]:
    """Return FedCE's weights of every round."""
    import torch
    from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
    from nvflare.app_opt.pt.fedce import FedCEConstants, FedCEModelAggregator, PTFedCEHelper

    def module(arrays: Arrays) -> torch.nn.Module:
        made = torch.nn.Module()
        for name, array in arrays.items():
            made.register_parameter(name, torch.nn.Parameter(torch.from_numpy(array)))
        return made

    aggregator, found = FedCEModelAggregator(), []
    before: dict[str, Arrays] = {}
    weights: Mapping[str, float] = {}
    for number, now in enumerate(rounds_of(cohort, seed)):
        claims = {}
        for name, data in now.held_out.items():
            minus = now.model
            if before:
                with torch.no_grad():
                    left = PTFedCEHelper.make_minus_model(
                        module(now.model), before[name], weights[name]
                    )
                minus = {k: v.numpy() for k, v in left.state_dict().items()}
            claims[name] = error(minus, data)
        made_up = 1.0 if boast else float(np.mean(list(claims.values())))
        aggregator.reset_stats()
        for name, update in now.updates.items():
            score = {FedCEConstants.MINUS_MODEL_SCORE: claims.get(name, made_up)}
            aggregator.accept_model(
                FLModel(
                    ParamsType.DIFF,
                    dict(update),
                    current_round=number,
                    meta={"client_name": name, **score},
                )
            )
        result = aggregator.aggregate_model()
        weights = dict(result.meta[FedCEConstants.CONTRIBUTION_WEIGHTS])
        before = {
            name: {k: now.model[k] + update[k] for k in now.model}
            for name, update in now.updates.items()
        }
        found.append(weights)
    return found


def by_fedmerit(cohort: str, seed: int, pay: bool) -> list[Mapping[str, float]]:
    """Return fedmerit's weights, or shares of the pay, of every round."""
    server: fedmerit.Server | None = None
    found: list[Mapping[str, float]] = []
    for now in rounds_of(cohort, seed):
        if server is None:
            server = fedmerit.Server(now.model, reward="positive:budget=1000000", seed=seed)
        server.publish(now.model)
        result = server.settle(updates=now.updates, sizes=now.sizes)
        total = sum(result.payments.values()) or 1
        shares = {client: paid / total for client, paid in result.payments.items()}
        found.append(shares if pay else result.weights)
    return found


METHODS: dict[str, Callable[[str, int], list[Mapping[str, float]]]] = {
    FEDCE: lambda cohort, seed: by_fedce(cohort, seed, boast=False),
    BOAST: lambda cohort, seed: by_fedce(cohort, seed, boast=True),
    WEIGHT: lambda cohort, seed: by_fedmerit(cohort, seed, pay=False),
    PAY: lambda cohort, seed: by_fedmerit(cohort, seed, pay=True),
}


def measure(cohort: str, method: str, seed: int) -> list[Row]:
    """Return the rows of one federation."""
    shares = METHODS[method](cohort, seed)
    kinds: dict[str, list[float]] = {}
    for client in shares[0]:
        kind = "honest" if client.startswith("honest") else client
        kinds.setdefault(kind, []).extend(share[client] for share in shares)
    return [
        Row(cohort, method, kind, seed, float(np.mean(kinds[kind])), SOURCES.code.digest)
        for kind in ("honest", *COHORTS[cohort])
    ]


SOURCES = Sources.of(measure)


def table_of(rows: Sequence[Row], cohort: str, first: str) -> Table:
    """Return means over seeds, in percent."""
    here = [row for row in rows if row.cohort == cohort]
    lines = []
    for method in dict.fromkeys(row.method for row in here):
        cells = [
            np.mean([row.share for row in here if (row.method, row.client) == (method, kind)])
            for kind in ("honest", *COHORTS[cohort])
        ]
        lines.append((method, *(f"{100 * cell:.1f}" for cell in cells)))
    return Table(cohort, ("method", first, *COHORTS[cohort]), tuple(lines))


def main(seeds: Sequence[int], folder: Path) -> None:
    """Run all federations and write table and page."""
    rows = []
    for cohort in COHORTS:
        for method in METHODS:
            if cohort == "honest" and method == BOAST:
                continue
            for seed in seeds:
                rows += measure(cohort, method, seed)
                print(cohort, method, seed, flush=True)
    write_rows(folder / "fedce.csv", rows)
    text = "\n\n".join(
        [
            "# FedCE and fedmerit on the same reports",
            "Written by `python -m checks.studies.fedce`; every row is in [fedce.csv](fedce.csv).",
            _SETTINGS.format(rounds=ROUNDS, seeds=", ".join(map(str, seeds))),
            "## With riders",
            _RIDERS.format(share=100 / 9),
            table_of(rows, "riders", "each who trains").markdown(),
            "## All honest",
            _HONEST.format(share=100 / 7),
            table_of(rows, "honest", "each of the four").markdown(),
            _READ,
        ]
    )
    write_page(folder / "fedce.md", text, SOURCES)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    told = parser.parse_args()
    main(told.seeds, told.out)
