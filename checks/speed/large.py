"""Large models and many clients: time against the mean, memory, and what sampling costs.

Sizes follow the memory there is: where a matrix would not fit, the parameters are halved.
"""

import time
from functools import partial

import numpy as np

import fedmerit
from checks.speed.rounds import make_round, public_vectors, roc_auc
from checks.speed.timing import Part, available_bytes, cost, medians

EPSILON, DELTA = 0.02, 0.01
PEERS = 32
SEEDS = 20

_ROUND = """
import numpy as np, fedmerit
from checks.speed.rounds import fill_report, make_round, public_vectors
scorer = fedmerit.ConditionalPCA(sample={sample}, peers={peers})
public = public_vectors(1, {parameters})
def streamed(clients, report):
    opened = fedmerit.StreamedRound({parameters}, clients, public=public, scorer=scorer, rng=0)
    for client in range(clients):
        kind = ("honest", "honest", "honest", "stale", "random")[client % 5]
        fill_report(kind, client, public[0], report)
        opened.add(report)
    return opened.finish()
report = np.empty({parameters}, dtype=np.float32)
streamed(40, report)
"""
_MATRIX = _ROUND + "updates, _ = make_round({clients}, public)\n"


def sample_for(clients: int) -> int:
    """Return the sample of the stated accuracy."""
    return fedmerit.sample_size(EPSILON, DELTA, clients)


def fitting(clients: int, parameters: int) -> int:
    """Return the number of parameters that fits into memory, halving it until it does."""
    while 4 * parameters * (clients + 3) > 0.75 * available_bytes():
        parameters //= 2
    return parameters


def measure_model() -> Part:
    """Return the part of the report on a large model."""
    lines, ratios = _large_model()
    return Part([*lines, "", *_accuracy()], ratios)


def _large_model() -> tuple[list[str], dict[str, float]]:
    clients = 20
    parameters = fitting(clients, 100_000_000)
    public = public_vectors(1, parameters)
    updates, kinds = make_round(clients, public)
    scorer = fedmerit.ConditionalPCA(sample=sample_for(clients))
    score = partial(fedmerit.score, updates, method=scorer, public=public, rng=0)
    seconds = medians({"mean": lambda: updates.mean(0), "score": score}, repeats=5)
    ratio = seconds["score"] / seconds["mean"]
    z = _mean_z(score())
    return [
        f"## A large model: k={clients}, d={parameters:.0e}",
        "",
        f"`sample_size(epsilon={EPSILON}, delta={DELTA}, clients={clients})` = "
        f"{sample_for(clients):,} parameters. Conditional scoring on them, flags included, takes "
        f"**{ratio:.3f}** times as long as `X.mean(0)`; area under the ROC curve against replays "
        f"{roc_auc(z, kinds, 'stale'):.3f}, against noise {roc_auc(z, kinds, 'random'):.3f}.",
    ], {"large model, conditional / mean": ratio}


def _accuracy() -> list[str]:
    clients, parameters = 20, 1_000_000
    public = public_vectors(1, parameters)
    updates, kinds = make_round(clients, public)
    full = fedmerit.score(
        updates, method=fedmerit.ConditionalPCA(sample=None), public=public, rng=0
    )
    scorer = fedmerit.ConditionalPCA(sample=sample_for(clients))
    sampled = [
        fedmerit.score(updates, method=scorer, public=public, rng=seed) for seed in range(SEEDS)
    ]
    off = max(float(np.nanmax(np.abs(s.pairwise - full.pairwise))) for s in sampled)
    flags = sum(int((s.flagged != full.flagged).sum()) for s in sampled)

    def auc(kind: str) -> str:
        values = [roc_auc(_mean_z(s), kinds, kind) for s in sampled]
        return f"{roc_auc(_mean_z(full), kinds, kind):.3f} | {min(values):.3f}"

    return [
        f"What the sample costs, k={clients}, d={parameters:.0e}, {SEEDS} draws of "
        f"{sample_for(clients):,} parameters:",
        "",
        "| ROC AUC of the mean z | all parameters | worst sample |",
        "|---|---|---|",
        f"| against stale replays | {auc('stale')} |",
        f"| against random reports | {auc('random')} |",
        "",
        f"No pair's score is off by more than {off:.4f}; flags that differ: {flags} of "
        f"{SEEDS * clients}. (The bound of {EPSILON} is for the share of parameters on which two "
        "clients agree; a score also depends on signs that are estimated on the sample.)",
    ]


def _times_of_many(clients: int, parameters: int, sample: int) -> dict[str, float]:
    public = public_vectors(1, parameters)
    updates, _ = make_round(clients, public)
    few = fedmerit.ConditionalPCA(sample=sample, peers=PEERS)
    everybody = fedmerit.ConditionalPCA(sample=sample)
    score = partial(fedmerit.score, updates, public=public, rng=0)
    seconds = medians(
        {
            "mean": lambda: updates.mean(0),
            "planned": partial(score, method=few),
            "merit": partial(score, method=fedmerit.Merit(sample=sample)),
        },
        repeats=3,
    )
    begin = time.perf_counter()  # long enough for a single look
    score(method=everybody)
    seconds["all pairs"] = time.perf_counter() - begin
    return {
        f"1000 clients, {name} / mean": seconds[name] / seconds["mean"]
        for name in ("planned", "all pairs", "merit")
    }


def measure_clients() -> Part:
    """Return the part of the report on many clients."""
    clients = 1000
    parameters = fitting(clients, 1_000_000)
    sample = sample_for(clients)
    ratios = _times_of_many(clients, parameters, sample)

    def per_cell(text: str, statement: str, clients: int, parameters: int, sample: int) -> float:
        names = {"sample": sample, "peers": PEERS, "parameters": parameters, "clients": clients}
        spent = cost(text.format(**names), statement, repeats=0)
        return spent.extra_bytes / (clients * min(sample, parameters))

    whole = per_cell(
        _MATRIX, "fedmerit.score(updates, method=scorer, public=public, rng=0)",
        clients, parameters, sample,
    )  # fmt: skip
    stream = per_cell(_ROUND, f"streamed({clients}, report)", clients, parameters, sample)
    most, many = (
        sample_for(10_000),
        {
            size: per_cell(_ROUND, "streamed(10_000, report)", 10_000, size, sample_for(10_000))
            for size in (100_000, 500_000)
        },
    )
    ratios |= {"1000 clients, bytes per cell": whole, "streamed, bytes per cell": stream}
    lines = [
        f"## Many clients: k={clients:,}, d={parameters:.0e}",
        "",
        f"Sample {sample:,} parameters (the same accuracy, for {clients:,} clients).",
        "",
        "| what | times the cost of `X.mean(0)` |",
        "|---|---|",
        f"| conditional, {PEERS} peers each | {ratios['1000 clients, planned / mean']:.2f} |",
        f"| conditional, all 499,500 pairs | {ratios['1000 clients, all pairs / mean']:.2f} |",
        f"| merit, panels of at most 256 | {ratios['1000 clients, merit / mean']:.2f} |",
        "",
        "Peak extra memory, bytes per client and sampled parameter: "
        f"{whole:.2f} by `score`, {stream:.2f} by `StreamedRound`.",
        "",
        f"10,000 clients, streamed one by one, {most:,} sampled parameters, {PEERS} peers each: "
        + "; ".join(
            f"d={size:.0e}: {value * 10_000 * most / 2**20:.0f} MB, {value:.2f} bytes per client "
            "and sampled parameter"
            for size, value in many.items()
        )
        + ".",
    ]
    return Part(lines, ratios)


def _mean_z(result: fedmerit.Contributions) -> np.ndarray:
    return np.nanmean(result.z, axis=1)


if __name__ == "__main__":
    print("\n".join([*measure_model().lines, *measure_clients().lines]))
