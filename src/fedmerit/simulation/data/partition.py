"""Who holds which samples: every function returns one index array per client.

The parts are disjoint and together hold every sample. Randomness is an argument.
"""

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import DataError, SettingError
from fedmerit.validation import check_count, check_number

Indices = NDArray[np.int64]
_TRIES = 1000


def iid(samples: int, clients: int, rng: np.random.Generator) -> list[Indices]:
    """Deal the samples out at random, in parts that differ by at most one."""
    _check_clients(clients, samples)
    return _sorted_parts(np.array_split(rng.permutation(samples), clients))


def label_shards(
    labels: NDArray[np.integer], clients: int, rng: np.random.Generator, *, per_client: int = 2
) -> list[Indices]:
    """Sort by label, cut into ``clients * per_client`` shards, deal `per_client` to each client.

    The paper's MNIST: 100 clients, two each of 200 shards of 300, so that most clients know two
    digits.
    """
    check_count("per_client", per_client, least=1)
    shards = check_count("clients", clients, least=1) * per_client
    if shards > len(labels):
        raise DataError(f"{shards} shards need as many samples, got {len(labels)}")
    pieces = np.array_split(np.argsort(labels, kind="stable"), shards)
    order = rng.permutation(shards).reshape(clients, per_client)
    return _sorted_parts([np.concatenate([pieces[i] for i in mine]) for mine in order])


def dirichlet(
    labels: NDArray[np.integer],
    clients: int,
    rng: np.random.Generator,
    *,
    alpha: float = 1.0,
    least: int = 2,
) -> list[Indices]:
    """Split each label over the clients in proportions drawn from Dirichlet(alpha).

    Drawn again until every client has `least` samples. Small `alpha`: few labels per client; large:
    close to IID.
    """
    _check_clients(clients, len(labels))
    check_number("alpha", alpha, above=0)
    check_count("least", least, least=1)
    by_label = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for _ in range(_TRIES):
        parts: list[list[Indices]] = [[] for _ in range(clients)]
        for members in by_label:
            shares = rng.dirichlet(np.full(clients, alpha))
            cuts = np.rint(np.cumsum(shares)[:-1] * len(members)).astype(int)
            for part, piece in zip(parts, np.split(rng.permutation(members), cuts), strict=True):
                part.append(piece)
        joined = [np.concatenate(part) for part in parts]
        if min(map(len, joined)) >= least:
            return _sorted_parts(joined)
    raise SettingError(
        f"alpha must leave every one of {clients} clients {least} of {len(labels)} samples, "
        f"got {alpha:g}, which did not in {_TRIES} draws"
    )


def natural(ids: NDArray[np.generic]) -> list[Indices]:
    """Give every distinct id (a user, a writer, a hospital) its own samples, in order of id."""
    if ids.ndim != 1 or ids.size == 0:
        raise DataError(f"ids must be a non-empty vector, got shape {ids.shape}")
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(np.unique(ids, return_inverse=True)[1][order])) + 1
    return _sorted_parts(np.split(order, starts))


def _check_clients(clients: int, samples: int) -> None:
    check_count("clients", clients, least=1)
    if clients > samples:
        raise DataError(f"{clients} clients need as many samples, got {samples}")


def _sorted_parts(parts: list[Indices]) -> list[Indices]:
    """Sort each part: reading a data set in order is kinder to the cache."""
    return [np.sort(part).astype(np.int64) for part in parts]
