"""Replies are hostile input, whatever engine brings them: checked, and read into rows."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import InvalidInputError, UpdatesError
from fedmerit.server.layout import Array, Layout
from fedmerit.types import FloatArray, Rejection, Signals

# From name and shape to the values of a client's array, flat and in C order, of any numeric dtype;
# raises UpdatesError where the array is another one.
ReadArray = Callable[[str, tuple[int, ...]], Array]
# The name of the one array of a model that is a plain vector.
WHOLE = ""
LONGEST_REASON, LONGEST_LABEL = 200, 60
_SHOWN_KEYS = 3
_NUMBERS = "fiub"
_MOST_EXAMPLES = 2**63 - 1


@dataclass(frozen=True)
class Replies:
    """The usable replies of a round, one row each: checked in shape and dtype, and finite.

    Attributes
    ----------
    clients : sequence of str
        Different names, one for each row.
    updates : (k, d) float array
        What is combined.
    num_examples : sequence of int or None
        Claimed data sizes; None where the weighting does not need them.
    signals : Signals or None
        What is scored, where clients uploaded levels instead of floats.
    behaviours : sequence of str, optional
        What the clients really did, where that is known.
    labels : mapping
        How clients call themselves, by client.
    models : callable or None
        From a client to the model that it sent, as one vector; None where clients sent updates.
    arrived : sequence of str, optional
        The clients in the order in which their replies came; sums of models follow it, as FedAvg's
        do. By default the order of the rows.
    """

    clients: Sequence[str]
    updates: FloatArray
    num_examples: Sequence[int | None]
    signals: Signals | None = None
    behaviours: Sequence[str] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    models: Callable[[str], FloatArray] | None = None
    arrived: Sequence[str] | None = None

    def __post_init__(self) -> None:
        rows = len(self.updates)
        for name in ("clients", "num_examples", "behaviours"):
            column = getattr(self, name)
            if column is not None and len(column) != rows:
                raise InvalidInputError(
                    f"{name} must have one entry a row, {rows}, got {len(column)}"
                )
        if len(set(self.clients)) != rows:
            twice = next(c for c in self.clients if list(self.clients).count(c) > 1)
            raise InvalidInputError(f"clients must have different names, got {twice!r} twice")

    def only(self, rows: Sequence[int]) -> "Replies":
        """Return the replies in `rows`, themselves if that is all of them."""
        if len(rows) == len(self.clients):
            return self
        return replace(
            self,
            clients=[self.clients[row] for row in rows],
            updates=self.updates[list(rows)],
            num_examples=[self.num_examples[row] for row in rows],
            signals=self.signals and Signals(self.signals.values[list(rows)], self.signals.levels),
            behaviours=self.behaviours and [self.behaviours[row] for row in rows],
        )

    def in_order(self) -> list[int]:
        """Return the rows in the order in which the replies came."""
        if self.arrived is None:
            return list(range(len(self.clients)))
        rows = {client: row for row, client in enumerate(self.clients)}
        return [rows[client] for client in self.arrived if client in rows]

    def at(self, positions: NDArray[np.int64]) -> "Replies":
        """Return the replies with the parameters at `positions` only."""
        return replace(
            self,
            updates=np.ascontiguousarray(self.updates[:, positions]),
            signals=self.signals
            and Signals(
                np.ascontiguousarray(self.signals.values[:, positions]), self.signals.levels
            ),
        )


def read_sent(
    layout: Layout,
    sent: Mapping[Any, Any],
    start: FloatArray | None,
    sizes: Mapping[Any, float],
    labels: Mapping[Any, str],
    *,
    vector: bool,
) -> tuple[Replies, list[Rejection]]:
    """Read what clients sent into rows; whatever is wrong with a reply concerns that reply only.

    Parameters
    ----------
    layout : Layout
    sent : mapping from client to model or update
    start : vector or None
        The model that clients started from; None where they sent updates.
    sizes, labels : mappings
        What clients say of their data and of themselves.
    vector : bool
        Whether a reply is one vector, and not arrays by name.
    """
    if not isinstance(sent, Mapping):
        raise UpdatesError(f"replies must be a mapping from client, got {type(sent).__name__}")
    for name in sizes:
        if name not in sent:
            raise UpdatesError(f"sizes must be of clients that replied, got {name!r}")
    clients = sorted(map(str, sent))
    check_names("clients", sent)
    by_text = {str(name): name for name in sent}
    rows = np.empty((len(clients), layout.parameters), dtype=layout.dtype)
    used: list[str] = []
    claimed: list[int | None] = []
    rejected: list[Rejection] = []

    def read(client: str, origin: FloatArray | None, into: NDArray[np.floating]) -> None:
        reply = sent[by_text[client]]
        _read_arrays(layout, {WHOLE: reply} if vector else reply, origin, into)

    for client in clients:
        try:
            size = sizes.get(by_text[client])
            number = None if size is None else check_size("size", size)
            read(client, start, rows[len(used)])
        except InvalidInputError as error:
            rejected.append(Rejection(client, clean(str(error))))
        else:
            used.append(client)
            claimed.append(int(number) if number and number.is_integer() else None)

    def model(client: str) -> FloatArray:
        whole = np.empty(layout.parameters, dtype=layout.dtype)
        read(client, None, whole)
        return whole

    replies = Replies(
        used,
        rows[: len(used)],
        claimed,
        labels={str(client): clean(label, LONGEST_LABEL) for client, label in labels.items()},
        models=None if start is None else model,
        arrived=list(by_text),
    )
    return replies, rejected


def _read_arrays(
    layout: Layout, reply: object, start: FloatArray | None, into: NDArray[np.floating]
) -> None:
    if not isinstance(reply, Mapping):
        raise UpdatesError(f"a reply must be arrays by name, got {type(reply).__name__}")
    check_names("arrays", reply)
    arrays = {str(name): value for name, value in reply.items()}

    def read(name: str, shape: tuple[int, ...]) -> Array:
        values = as_array(name or "the vector", arrays[name])
        if values.shape != shape:
            raise UpdatesError(
                f"{name or 'the vector'} must have shape {shape}, got {values.shape}"
            )
        return values.reshape(-1)

    read_update(layout, arrays.keys(), read, start, into)


def read_update(
    layout: Layout,
    names: Set[str],
    read: ReadArray,
    model: FloatArray | None,
    into: NDArray[np.floating],
) -> None:
    """Write a client's update into the vector `into`, if its arrays are like ours.

    Parameters
    ----------
    layout : Layout
    names : set
        Of the arrays that were sent.
    read : callable
        Gives the values of one of them.
    model : vector or None
        What to subtract: the global model where clients send models, None where they send
        updates.
    into : vector

    Raises
    ------
    UpdatesError
        They are not; the message says why.
    """
    if names != layout.shapes.keys():
        raise UpdatesError(_difference(set(layout.shapes), set(names)))
    for name, place in layout.places.items():
        values = read(name, layout.shapes[name])
        if values.dtype.kind not in _NUMBERS:
            raise UpdatesError(f"{name} must be numbers, got {cut_text(values.dtype)}")
        check_finite(name, values)
        start = 0 if model is None else model[place]
        with np.errstate(over="ignore"):
            np.subtract(
                values,
                start,
                out=into[place],
                casting="unsafe",
                dtype=np.result_type(values.dtype, into.dtype),
            )
    if not np.isfinite(into).all():
        raise UpdatesError("the update must be finite, got a value beyond its type's range")


def check_size(key: str, value: object) -> float:
    """Return the data size that a client claims under `key`."""
    if value is None:
        raise InvalidInputError(f"metrics must have {key}, got none")
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | bool) or not isinstance(value, int | float):
        raise InvalidInputError(f"{key} must be a number, got {value!r}"[:LONGEST_REASON])
    if not math.isfinite(value) or not 0 < value <= _MOST_EXAMPLES:
        raise InvalidInputError(f"{key} must be positive and at most 2^63 - 1, got {value}")
    return float(value)


def clean(text: str, longest: int = LONGEST_REASON) -> str:
    """Return what a client wrote as one short line that can be stored and shown."""
    line = " ".join(text.encode(errors="replace").decode().split())
    return "".join(c for c in line[:longest] if c.isprintable())


def check_names(what: str, names: Iterable[object]) -> None:
    """Refuse names that cannot be written down, or are the same as text."""
    counts = Counter(map(str, names))
    for name in counts:
        if not name.isascii() and name != name.encode(errors="replace").decode():
            raise UpdatesError(f"{what} must have names that are valid Unicode, got {name[:60]!r}")
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise UpdatesError(
            f"{what} must have different names as text, got {cut_text(twice)!r} twice"
        )


def as_array(name: str, value: object) -> Array:
    """Return anything that NumPy or a tensor library calls an array as a NumPy array."""
    for step in ("detach", "cpu"):  # a tensor that tracks gradients, or lives on a device
        value = getattr(value, step, lambda value=value: value)()
    if str(getattr(value, "dtype", "")).endswith("bfloat16"):  # which NumPy does not have
        convert = getattr(value, "float", None) or (lambda: value.astype(np.float32))  # type: ignore[attr-defined]
        value = convert()
    try:
        array = np.asarray(value)
    except Exception as error:  # somebody else's conversion
        raise UpdatesError(f"{name} must be an array, got {cut_text(error)}") from None
    if array.dtype.kind not in _NUMBERS:
        raise UpdatesError(f"{name} must be numbers, got {cut_text(array.dtype)}")
    return array


def check_finite(name: str, values: Array) -> None:
    """Raise UpdatesError where one of the flat `values` is NaN or infinite."""
    finite = np.isfinite(values)
    if not finite.all():
        where = int(np.argmin(finite))
        raise UpdatesError(f"{name} must be finite, got {values[where]} at {where}")


def cut_text(value: object) -> str:
    """Return the beginning of how `value` prints: a client may have chosen it."""
    return str(value)[:60]


def _difference(ours: set[str], theirs: set[str]) -> str:
    def some(names: set[str]) -> Iterator[str]:
        yield from (repr(name[:40]) for name in sorted(names)[:_SHOWN_KEYS])

    missing, unknown = ours - theirs, theirs - ours
    text = f"arrays must be those of the global model, got {len(theirs)} for {len(ours)}"
    if missing:
        text += f"; missing {', '.join(some(missing))}"
    return text + (f"; unknown {', '.join(some(unknown))}" if unknown else "")
