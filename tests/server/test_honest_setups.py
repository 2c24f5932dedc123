"""Honest clients in set-ups that look odd: nobody is accused, and the model is FedAvg's."""

import numpy as np
import pytest

from fedmerit import Kind, Server
from fedmerit.scorers import score

CLIENTS, FEATURES, ROUNDS = 12, 400, 24


def regression(rng, sizes, noise=0.5):
    """Data of a linear regression for every client."""
    truth = rng.normal(size=FEATURES) / np.sqrt(FEATURES)
    data = [rng.normal(size=(size, FEATURES)) for size in sizes]
    return [(x, x @ truth + noise * rng.normal(size=len(x))) for x in data]


def steps(model, data, rng, *, rate, batch, epochs=1):
    """Return what plain gradient descent over some epochs makes of the model."""
    x, y = data
    for _ in range(epochs):
        order = rng.permutation(len(y))
        for begin in range(0, len(y), batch):
            rows = order[begin : begin + batch]
            model = model - rate * x[rows].T @ (x[rows] @ model - y[rows]) / len(rows)
    return model


def federation(rng, sizes, train):
    """Settle some rounds beside plain FedAvg; `train(model, data, number, client)`."""
    held = regression(rng, sizes)
    server, plain = Server(np.zeros(FEATURES), seed=0), np.zeros(FEATURES)
    names = [f"c{number}" for number in range(len(sizes))]
    accused, shares = [], np.array(sizes) / sum(sizes)
    for number in range(1, ROUNDS + 1):
        found = [train(server.model, data, number, c) for c, data in enumerate(held)]
        sent = dict(zip(names, found, strict=True))
        plain = sum(share * model for share, model in zip(shares, found, strict=True))
        result = server.settle(sent, dict(zip(names, map(float, sizes), strict=True)))
        flags = result.flags.items()
        accused += [(number, name) for name, flag in flags if flag is not None and flag.accuses]
    return accused, server.model, plain


@pytest.mark.parametrize("seed", [0, 1])
def test_clients_with_few_examples_repeat_nothing(seed):
    """Their updates span as many directions as they have examples; so do earlier ones."""
    rng = np.random.default_rng(seed)
    sizes = [20, 20, 40, 40, 80, 80, 160, 160, 320, 320, 640, 640]
    accused, model, plain = federation(
        rng, sizes, lambda m, data, *_: steps(m, data, rng, rate=0.001, batch=8)
    )
    assert accused == []
    np.testing.assert_array_equal(model, plain)


@pytest.mark.parametrize(("sizes", "accused"), [("claimed", False), ("ignore", True)])
def test_who_claims_few_examples_may_repeat_itself_only_where_that_costs_weight(sizes, accused):
    """Eve sends her two first updates in turn, and claims so few examples that it is possible."""
    rng = np.random.default_rng(3)
    names = [f"c{number}" for number in range(8)]
    server, old = Server(np.zeros(4000), seed=0, sizes=sizes), []
    for number in range(8):
        shared = rng.normal(size=4000)
        sent = {name: shared + rng.normal(size=4000) for name in names}
        sent["eve"] = old[number % 2] if number > 1 else shared + rng.normal(size=4000)
        old = [*old, sent["eve"]][:2]
        claims = dict.fromkeys(names, 500) | {"eve": 5}
        result = server.settle(updates=sent, sizes=claims)
    flag = result.flags["eve"]
    assert (flag is not None and flag.kind is Kind.REPEATED) == accused
    assert result.weights["eve"] < 0.01
    assert all(result.flags[name] is None for name in names)


@pytest.mark.parametrize("seed", [0, 1])
def test_slow_full_batch_descent_is_no_repetition(seed):
    rng = np.random.default_rng(seed)
    accused, model, plain = federation(
        rng, [150] * CLIENTS, lambda m, data, *_: steps(m, data, rng, rate=0.01, batch=150)
    )
    assert accused == []
    np.testing.assert_array_equal(model, plain)


def test_noise_does_not_agree_with_clients_who_leave_most_at_zero(rng):
    """As in an embedding: everybody leaves other rows alone, and public numbers are everywhere."""
    rows, width = 2000, 8
    truth, z = rng.normal(size=(rows, width)), []
    for _ in range(6):
        reports = []
        for size in (30, 60, 120) * 4:
            touched, update = rng.choice(rows, size=size, replace=False), np.zeros((rows, width))
            own = rng.normal(size=(size, width))
            update[touched] = 0.05 * (truth[touched] + own)
            reports.append(update.ravel())
        reports += list(0.001 * rng.normal(size=(4, rows * width)))
        public = 0.3 * rng.normal(size=(1, rows * width))
        found = score(np.array(reports), public=public, rng=1)
        z.append(found.pairs.z[12:, :12])
    assert abs(np.mean(z)) < 0.4
