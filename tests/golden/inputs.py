"""The rounds whose results are on record in golden.json: small, of several shapes, from seeds.

NumPy only: the code that was recorded and the code of today are given the same.
"""

import base64
import hashlib

import numpy as np

SEED = 20


def _rng(name):
    return np.random.default_rng([SEED, *name.encode()])


def _round(name, clients, parameters, dtype=np.float32):
    """Updates that share a direction; the last client's shares nothing."""
    rng = _rng(name)
    shared = rng.normal(size=parameters)
    updates = 0.01 * (shared + rng.normal(size=(clients, parameters)))
    if clients > 2:
        updates[-1] = 0.01 * rng.normal(size=parameters)
    return updates.astype(dtype), rng


def _plain():
    return {"updates": _round("plain", 6, 400)[0]}


def _public():
    updates, rng = _round("public", 7, 900)
    public = 0.02 * rng.normal(size=(3, 900)).astype(np.float32)
    updates += np.float32(0.3) * public[0]
    updates[5] = public[0] + np.float32(1e-3) * public[1]
    return {"updates": updates, "public": public}


def _history():
    updates, rng = _round("history", 6, 900, np.float64)
    previous = 0.01 * rng.normal(size=updates.shape)
    previous[2] = 0.0
    return {
        "updates": updates + 0.2 * previous,
        "public": 0.02 * rng.normal(size=(2, 900)),
        "layers": np.repeat([0, 1, 2], [600, 200, 100]),
        "previous": previous,
        "trust": np.array([0.4, 0.3, 0.0, 0.5, 0.2, 0.0]),
    }


def _ties():
    """Most values are equal; one client sends zeros, and one nearly what another sends."""
    updates, rng = _round("ties", 7, 600)
    updates = np.round(updates, 2) * (rng.random(600) < 0.6).astype(np.float32)
    updates[4] = 0.0
    updates[5] = updates[0]
    updates[5, :3] += np.float32(0.01)
    return {"updates": updates}


def _two():
    return {"updates": _round("two", 2, 300)[0]}


def _three():
    updates, rng = _round("three", 3, 300)
    return {"updates": updates, "public": rng.normal(size=300).astype(np.float32)}


def _small():
    updates, rng = _round("small", 6, 25)
    return {"updates": updates, "public": rng.normal(size=(2, 25)).astype(np.float32)}


def _crowd():
    return {"updates": _round("crowd", 300, 200)[0]}


ROUNDS = {
    "plain": _plain(),
    "public": _public(),
    "history": _history(),
    "ties": _ties(),
    "two": _two(),
    "three": _three(),
    "small": _small(),
    "crowd": _crowd(),
}
# What is scored: a method and its settings.
METHODS = {
    "ca": {},
    "ca by 60": {"bonus": 60},
    "conditional": {},
    "conditional by 2 peers": {"peers": 2},
    "conditional, mixed": {"mixed": True},
    "cosine": {},
    "exact": {},
    "exact by cpsgd": {"quantiser": "cpsgd", "levels": 4},
    "exact by 2 peers": {"peers": 2},
    "foolsgold": {},
    "krum": {},
    "merit": {},
    "norm": {},
    "pca": {},
    "pca by uniform": {"quantiser": "uniform", "levels": 4, "peers": 2},
    "reputation": {},
}
# Scores of one round each, for reward rules: ties, nothing, negative ones, who is out.
SCORES = {
    "usual": ([0.31, 0.12, 0.25, -0.04, 0.0], [False, False, False, False, False]),
    "ties": ([0.2, 0.2, 0.2], [False, False, False]),
    "nobody": ([0.0, -0.1, 0.0], [False, False, False]),
    "some out": ([0.5, 0.5, 1e-9, 0.03], [False, True, False, True]),
    "far apart": ([30.0, 1e-12, 5.0, 29.999999], [False, False, False, False]),
}
REWARDS = {
    "affine": [{"base": 100, "slope": 300.0}, {"base": -5, "slope": 50.0, "floor": 3, "cap": 90}],
    "exponential": [{"scale": 10.0, "rate": 2.0, "cap": 10000}],
    "fee-plus-bonus": [{"budget": 997, "fee": 13}, {"budget": 500, "fee": 5, "cap": 200}],
    "identity": [{"slope": 1000.0}],
    "positive": [
        {"budget": 1000},
        {"budget": 1001, "minimum": 50, "floor": 7, "excluded_pay": 2},
        {"budget": 1001, "minimum": 50, "floor": 60, "excluded_pay": 50},
    ],
    "softmax": [{"budget": 1000}, {"budget": 100, "alpha": 3.0, "positive_only": False}],
}
# Three rounds of six clients under these rules: scorer, weighting, rule, reward.
FEDERATIONS = {
    "exact, mean": ("exact", "score", "mean", "softmax"),
    "exact, median": ("exact", "score", "median", "positive"),
    "exact, geometric": ("exact", "score", "geometric-median", "affine"),
    "pca, mean": ("pca", "score", "mean", "identity"),
    "ca, krum": ("ca", "uniform", "krum", "fee-plus-bonus"),
    "ca, multi-krum": ("ca", "uniform", "multi-krum", "exponential"),
    "cosine, trimmed": ("cosine", "uniform", "trimmed-mean", "positive"),
    "nobody scored, sizes": (None, "size", "mean", None),
    "conditional, gated": ("conditional", "gated", "mean", "positive"),
    "merit, gated": ("merit", "gated", "mean", "positive"),
}
SIZES = {"ann": 100, "bob": 80, "cat": 120, "dan": 50, "eve": 100, "fay": 70}
SHAPES = {"a.weight": (20, 20), "a.bias": (20,), "b.weight": (10, 20)}


def initial():
    rng = _rng("model")
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def flat(arrays):
    return np.concatenate([np.asarray(arrays[name]).reshape(-1) for name in SHAPES])


def cut(vector):
    arrays, start = {}, 0
    for name, shape in SHAPES.items():
        arrays[name] = vector[start : start + np.prod(shape)].reshape(shape)
        start += np.prod(shape)
    return arrays


def replies(number, model, before):
    """The updates of a round: eve sends the global update before, fay's is absurd in round 2."""
    rng = _rng(f"replies {number}")
    shared = rng.normal(size=len(model))
    sent = 0.01 * (shared + rng.normal(size=(len(SIZES), len(model))))
    updates = dict(zip(SIZES, sent.astype(np.float32), strict=True))
    if before is not None:
        updates["eve"] = model - before
    if number == 2:
        updates["fay"] = updates["fay"] * np.float32(1e6)
    return updates


# Values as ledgers hold them.
VALUES = [
    None,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    0.5,
    -1e-300,
    float("inf"),
    "",
    "Ä",
    "\x00b",
    b"",
    b"\x01",
]


def pack(array):
    """An array as text: a short one whole, a long one by its digest."""
    array = np.ascontiguousarray(array)
    kind = f"{array.dtype.str} {'x'.join(map(str, array.shape))}"
    if array.size > 64 or array.ndim > 1:
        return f"{kind} {hashlib.sha256(array.tobytes()).hexdigest()[:20]}"
    return f"{kind} {base64.b64encode(array.tobytes()).decode()}"


def probe():
    """What is computed by libraries of this machine: where it differs, so may the last bits."""
    x = _rng("probe").normal(size=1000)
    found = [np.exp(x), np.log(np.abs(x)), np.sqrt(np.abs(x)), [x @ x[::-1]], [x.sum(), x.std()]]
    return [pack(np.asarray(part)) for part in found]
