"""Bad input at the door of the library: `score`, `aggregate`, `weights`, `Watch`."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import fedmerit
from checks.faults.base import Fault, refused, survived
from fedmerit.evidence.watch import Watch

CLIENTS, PARAMETERS = 6, 400
METHODS = ("merit", "conditional", "exact", "pca", "ca")


def round_of(seed: int = 0, clients: int = CLIENTS, parameters: int = PARAMETERS) -> np.ndarray:
    """Return updates of clients that all learnt a part of the same thing."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=parameters)
    return (truth + rng.normal(size=(clients, parameters))).astype(np.float32)


def faults() -> Iterator[Fault]:
    """Yield the rows."""
    yield from _refused()
    yield from _odd_but_valid()
    yield from _public()
    yield from _aggregation()
    yield from _evidence()


def _refused() -> Iterator[Fault]:
    def row(name: str, message: str, updates: object, **settings: object) -> Fault:
        return refused(
            "input",
            "library",
            name,
            message,
            partial(fedmerit.score, updates, **{"rng": 0, **settings}),
        )

    good = round_of()
    yield row("no clients", "must have at least 2 clients, got 0", good[:0])
    yield row("one client", "must have at least 2 clients, got 1", good[:1])
    yield row("no parameters", "must have at least 1 parameters, got 0", good[:, :0])
    yield row("a vector for a matrix", "must be a matrix", good[0])
    yield row("three dimensions", "must be a matrix", good[None])
    yield row("rows of different lengths", "rows of one length", [[1.0, 2.0], [1.0]])
    yield row("integers", "must be floating point", np.ones((3, 5), dtype=np.int64))
    yield row("complex numbers", "must be floating point", np.ones((3, 5), dtype=np.complex64))
    yield row("objects", "must be floating point", np.array([[None, 1], [2, 3]], dtype=object))
    yield row("text", "must be floating point", [["1", "2"], ["3", "4"]])
    yield row("None", "must be floating point", None)
    yield row("a dict", "must be floating point", {"alice": [1.0]})
    for value in (np.nan, np.inf, -np.inf):
        bad = good.copy()
        bad[4, 7] = value
        yield row(f"one {value}", f"got {value} at client 4, parameter 7", bad)
    yield row("float64 near 1e300", "must be at most 1e+60 in size", good * np.float64(1e300))
    for method in ("exact", "pca", "ca"):
        tiny = round_of(0, CLIENTS, 8)
        yield row(f"8 parameters, {method}", "at least 2 x levels = 16", tiny, method=method)
    yield row("unknown method", "did you mean 'merit'", good, method="merrit")
    yield row("unknown setting", "does not take peer", good, method="exact", peer=3)
    yield row("a seed that is negative", "seed must be at least 0", good, rng=-1)
    yield row("levels 1", "levels must be at least 2", good, method="exact", levels=1)
    yield row("levels 257", "levels must be at most 256", good, method="exact", levels=257)


def _check(result: fedmerit.Contributions, clients: int) -> str:
    """Check the laws of every result: one finite score each, weights that sum to one."""
    weights = fedmerit.gated_weights(result)
    assert result.scores.shape == (clients,)
    assert np.isfinite(result.scores).all(), f"scores {result.scores}"
    assert abs(weights.sum() - 1) < 1e-9, f"weights sum to {weights.sum()}"
    assert (weights >= 0).all(), f"weights {weights}"
    low, high = result.scores.min(), result.scores.max()
    return f"scores {low:.3g} to {high:.3g}, {int(result.flagged.sum())} flagged"


def _odd_but_valid() -> Iterator[Fault]:
    good = round_of()
    frozen = good.copy()
    frozen.setflags(write=False)
    cases: dict[str, Callable[[], np.ndarray]] = {
        "two clients": lambda: good[:2],
        "all clients identical": lambda: np.repeat(good[:1], CLIENTS, axis=0),
        "all updates zero": lambda: np.zeros_like(good),
        "all updates one constant": lambda: np.full_like(good, 0.5),
        "one update zero": lambda: np.vstack([good[:-1], 0 * good[:1]]),
        "subnormal numbers": lambda: (good * 1e-42).astype(np.float32),
        "numbers near 1e38": lambda: (good / np.abs(good).max() * 3e38).astype(np.float32),
        "float64 near 1e50": lambda: good.astype(np.float64) * 1e50,
        "one client 1e30 times the others": lambda: good * np.array([[1e30], *[[1]] * 5], "f4"),
        "float16": lambda: good.astype(np.float16),
        "float64": lambda: good.astype(np.float64),
        "extended floats": lambda: good.astype(np.longdouble),
        "not contiguous": lambda: np.asfortranarray(good),
        "every second column": lambda: round_of(0, CLIENTS, 2 * PARAMETERS)[:, ::2],
        "backwards": lambda: good[::-1, ::-1],
        "big-endian": lambda: good.astype(">f4"),
        "read-only": lambda: frozen,
        "negative zeros": lambda: np.where(good > 0, good, np.float32(-0.0)),
        "fewer parameters than clients": lambda: round_of(0, 40, 32),
    }
    for name, make in cases.items():
        for method in METHODS:

            def provoke(make: Callable[[], np.ndarray] = make, method: str = method) -> str:
                updates = make()
                before = updates.copy()
                seen = _check(fedmerit.score(updates, method=method, rng=0), len(updates))
                assert (before == updates).all(), "the input was changed"
                return seen

            expected = "finite scores, weights sum to 1, input untouched"
            yield survived("input", f"library, {method}", name, expected, provoke)

    def bfloat16() -> str:
        import torch

        tensor = torch.from_numpy(good).to(torch.bfloat16)
        return repr(fedmerit.score(tensor, rng=0))  # type: ignore[arg-type]

    yield refused("input", "library", "bfloat16 tensor", "must be floating point", bfloat16)


def _public() -> Iterator[Fault]:
    good = round_of()
    known = np.random.default_rng(9).normal(size=PARAMETERS)
    bad = known.copy()
    bad[3] = np.nan

    def row(name: str, message: str, **settings: object) -> Fault:
        return refused(
            "input", "library", name, message, partial(fedmerit.score, good, rng=0, **settings)
        )

    yield row("NaN in public information", "public must be finite, got nan", public=bad)
    yield row("public vector too short", "public must have one value per", public=known[:-1])
    yield row("public of integers", "public must be floating", public=np.ones(PARAMETERS, "i8"))
    yield row("layers that do not add up", "layers must have one entry", layers=[0, 1])
    yield row("layers negative", "must not be negative", layers=np.full(PARAMETERS, -1))
    yield row("layers of floats", "layers must be integers", layers=np.zeros(PARAMETERS))
    yield row("layers too large", "at most 65535", layers=np.full(PARAMETERS, 2**40))
    yield row("previous of another shape", "shape of the updates", previous=good[:, :-1])
    yield row("NaN in previous reports", "previous must be finite", previous=good * np.nan)
    yield row("trust of the wrong length", "trust must have length 6", trust=[1.0])
    yield row("NaN in trust", "trust must be finite", trust=[np.nan] * CLIENTS)

    def replay(scale: float) -> str:
        updates = good.copy()
        updates[2] = (known * scale).astype(np.float32)
        result = fedmerit.score(updates, public=known, rng=0)
        others = np.delete(result.flagged, 2)
        assert result.flagged[2], "the replay was not flagged"
        assert not others.any(), f"honest clients were flagged: {result.flagged}"
        assert fedmerit.gated_weights(result)[2] == 0, "the replay has weight"
        return result.reasons[2]

    for scale in (1.0, -3.0, 1e20, 1e-20):
        yield survived(
            "conduct", "library", f"public update replayed, times {scale:g}",
            "that client flagged, weight 0, nobody else", partial(replay, scale),
        )  # fmt: skip

    def constant(value: float) -> str:
        result = fedmerit.score(good, public=np.full(PARAMETERS, value), rng=0)
        assert not result.flagged.any(), "honest clients were flagged"
        return _check(result, CLIENTS)

    for value in (0.0, 1.0, 1e38):
        yield survived(
            "input", "library", f"public vector constant {value:g}", "nobody flagged",
            partial(constant, value),
        )  # fmt: skip


def _aggregation() -> Iterator[Fault]:
    good = round_of()

    def row(name: str, message: str, *arguments: object, **settings: object) -> Fault:
        return refused(
            "input", "library, aggregate", name, message,
            partial(fedmerit.aggregate, *arguments, **settings),
        )  # fmt: skip

    yield row("NaN in an update", "must be finite", good * np.nan)
    yield row("weights all zero", "must not all be zero", good, [0] * CLIENTS)
    yield row("a negative weight", "must not be negative", good, [-1, 1, 1, 1, 1, 1])
    yield row("a weight of NaN", "weights must be finite", good, [np.nan] * CLIENTS)
    yield row("too few weights", "one entry per client", good, [1.0])
    yield row("weights for Krum", "does not use weights", good, [1] * CLIENTS, rule="krum")
    yield row("norm bound 0", "norm_bound must be greater than 0", good, norm_bound=0)

    def bounded(rule: str, scale: float) -> str:
        updates = good.copy()
        updates[0] *= scale
        honest = np.linalg.norm(good.astype(np.float64), axis=1)
        with np.errstate(over="ignore"):
            change = fedmerit.aggregate(updates, rule=rule, norm_bound=3.0)
        length = float(np.linalg.norm(change.astype(np.float64)))
        assert length <= 3.01 * honest.max(), f"length {length:g}, honest {honest.max():g}"
        return f"length {length:.3g}, longest honest {honest.max():.3g}"

    for rule in sorted(fedmerit.AGGREGATORS):
        for scale in (1e6, 1e30):
            yield survived(
                "conduct", f"library, {rule}", f"one update {scale:g} times too long",
                "the result is not longer than 3 honest updates", partial(bounded, rule, scale),
            )  # fmt: skip

    def huge_weights() -> str:
        change = fedmerit.aggregate(good, [1e308] * CLIENTS)
        assert np.allclose(change, good.mean(axis=0), atol=1e-6)
        return "the plain mean"

    yield survived(
        "input", "library, aggregate", "weights of 1e308", "the plain mean", huge_weights
    )


def _evidence() -> Iterator[Fault]:
    yield refused(
        "input", "library, weights", "NaN among scores", "scores must be finite",
        partial(fedmerit.weights, [0.1, np.nan]),
    )  # fmt: skip
    yield refused(
        "input", "library, weights", "no scores", "must be a non-empty vector",
        partial(fedmerit.weights, []),
    )  # fmt: skip
    yield survived(
        "input", "library, weights", "scores of 1e308", "weights sum to 1",
        lambda: _sum_to_one(fedmerit.weights([1e308, -1e308, 0.0])),
    )  # fmt: skip
    yield refused(
        "input", "library, Watch", "fewer names than scores", "clients must name every score",
        lambda: Watch().observe(["a"], fedmerit.score(round_of(), rng=0)),
    )  # fmt: skip

    def come_and_go() -> str:
        watch, rng = Watch(), np.random.default_rng(1)
        for number in range(12):
            updates = round_of(number, parameters=5000)
            updates[0] = rng.normal(size=5000)
            names = ["rider", *(f"c{rng.integers(10**6)}" for _ in range(CLIENTS - 1))]
            watch.observe(names, fedmerit.score(updates, rng=number))
        flagged = [verdict.client for verdict in watch.verdicts() if verdict.flagged]
        assert flagged == ["rider"], f"flagged {flagged}"
        return "the rider is flagged, none of the clients that came once"

    yield survived(
        "conduct", "library, Watch", "every client but one is new in every round",
        "the one that never works is flagged, nobody else", come_and_go,
    )  # fmt: skip


def _sum_to_one(weights: np.ndarray) -> str:
    assert np.isfinite(weights).all()
    assert abs(weights.sum() - 1) < 1e-12
    return f"weights {np.round(weights, 3).tolist()}"
