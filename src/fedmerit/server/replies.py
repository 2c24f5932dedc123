"""Replies are hostile input, whatever engine brings them: checked, and read into rows."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import Fault, InvalidInputError, Rule, SettingError, UpdatesError
from fedmerit.server.history import View
from fedmerit.server.layout import Array, Layout, other_shape
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
_LONG, _PIECE = 100_000, 4096


@dataclass(frozen=True)
class Replies:
    """The usable replies of a round, one row each: checked in shape and dtype, and finite.

    Attributes
    ----------
    clients : sequence of str
        Different names, one for each row.
    updates : (k, d) float array
        Whole updates, or a `part` of them.
    num_examples : sequence of number or None
        Claimed data sizes, also fractions; None where the weighting does not need them.
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
    part : bool
        Whether `updates` are the parameters that scores look at, and no more.
    norms, lengths : (k,) float or None
        How long the whole updates are, and how long what counts of them is: running statistics do
        not. None where `updates` are whole and nobody has measured them.
    whole : callable or None
        From a client to its whole update, where `updates` are parts and somebody has the whole.
    """

    clients: Sequence[str]
    updates: FloatArray
    num_examples: Sequence[float | None]
    signals: Signals | None = None
    behaviours: Sequence[str] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    models: Callable[[str], FloatArray] | None = None
    arrived: Sequence[str] | None = None
    part: bool = False
    norms: NDArray[np.float64] | None = None
    lengths: NDArray[np.float64] | None = None
    whole: Callable[[str], FloatArray] | None = None

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
            norms=None if self.norms is None else self.norms[list(rows)],
            lengths=None if self.lengths is None else self.lengths[list(rows)],
        )

    def in_order(self) -> list[int]:
        """Return the rows in the order in which the replies came."""
        if self.arrived is None:
            return list(range(len(self.clients)))
        rows = {client: row for row, client in enumerate(self.clients)}
        return [rows[client] for client in self.arrived if client in rows]

    def through(self, sight: "Sight") -> "Replies":
        """Return replies that are whole with no more than scores look at."""
        positions = sight.view.positions
        assert positions is not None, "scores look at some parameters only"
        rows = dict(zip(self.clients, self.updates, strict=True))
        seen = Rows(sight, len(rows))
        for row, update in enumerate(self.updates):
            seen.add(row, update)
        return replace(
            self,
            updates=seen.values,
            part=True,
            norms=seen.norms,
            lengths=seen.lengths,
            whole=rows.__getitem__,
            signals=self.signals
            and Signals(np.take(self.signals.values, positions, axis=1), self.signals.levels),
        )

    def update(self, row: int) -> FloatArray:
        """Return a whole update."""
        if not self.part:
            found: FloatArray = self.updates[row]
            return found
        if self.whole is None:
            raise SettingError("whole updates must be there to be combined, got parts of them")
        return self.whole(self.clients[row])

    def matrix(self) -> FloatArray:
        """Return all whole updates, where `updates` are parts of them."""
        return np.stack([self.update(row) for row in range(len(self.clients))])


@dataclass(frozen=True)
class Sight:
    """What a server looks at in updates of a layout: some of the values, and their lengths.

    `counted` are the places of all parameters that scores could look at.
    """

    layout: Layout
    view: View
    counted: tuple[slice, ...]


def runs(positions: NDArray[np.int64]) -> tuple[slice, ...]:
    """Return rising positions as slices."""
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    pieces = np.split(positions, breaks)
    return tuple(slice(int(piece[0]), int(piece[-1]) + 1) for piece in pieces)


class Rows:
    """Rows of a round, filled one by one: of each update what is looked at, and how long it is."""

    def __init__(self, sight: Sight, count: int, *, whole: bool = False) -> None:
        layout, positions = sight.layout, None if whole else sight.view.positions
        self._sight, self._positions = sight, positions
        width = layout.parameters if positions is None else len(positions)
        self.values: FloatArray = np.empty((count, width), dtype=layout.dtype)
        self.norms, self.lengths = np.empty(count), np.empty(count)
        self._counted = sum(place.stop - place.start for place in sight.counted)
        # One for all: an update is looked at and forgotten.
        self._update = None if positions is None else np.empty(layout.parameters, layout.dtype)

    def read(self, row: int, read: Callable[[FloatArray], float]) -> None:
        """Let `read` write a whole update, and say how long it is; keep what is looked at."""
        if self._update is None:
            self.norms[row] = read(self.values[row])
        else:
            self._take(row, self._update, read(self._update))

    def add(self, row: int, update: FloatArray) -> None:
        """Keep what is looked at of a whole update that was read before."""
        if self._positions is None:
            self.values[row] = update
            self.norms[row] = norm(update)
        else:
            self._take(row, update, norm(update))

    def _take(self, row: int, update: FloatArray, length: float) -> None:
        assert self._positions is not None, "not of all parameters"
        np.take(update, self._positions, out=self.values[row])
        self.norms[row] = self.lengths[row] = length
        counted = self._counted
        if counted == len(self._positions):
            self.lengths[row] = norm(self.values[row])
        elif counted < len(update):
            parts = (norm(update[place]) for place in self._sight.counted)
            self.lengths[row] = math.hypot(*parts)

    def replies(self, rows: Sequence[int], **known: Any) -> Replies:
        """Return the replies in `rows`, in that order, with what else is known of them."""
        return Replies(
            updates=_compact(self.values, rows),
            norms=self.norms[list(rows)],
            lengths=self.lengths[list(rows)] if self._positions is not None else None,
            part=self._positions is not None,
            **known,
        )


def read_sent(
    sight: Sight,
    sent: Mapping[Any, Any],
    start: FloatArray | None,
    sizes: Mapping[Any, float],
    labels: Mapping[Any, str],
    *,
    vector: bool,
) -> tuple[Replies, list[Rejection]]:
    """Read what clients sent into rows; whatever is wrong with a reply concerns that reply only.

    Replies are read one at a time, and again where they are combined: a mapping that fetches them
    when they are asked for needs the memory of one.

    Parameters
    ----------
    sight : Sight
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
    _check_told("sizes", sizes, "number")
    _check_told("labels", labels, "text")
    names = set(sent)  # to ask for a client may fetch its reply
    for name in sizes:
        if name not in names:
            raise UpdatesError(f"sizes must be of clients that replied, got {name!r}")
    clients = sorted(map(str, sent))
    check_names("clients", sent)
    by_text = {str(name): name for name in sent}
    layout, rows = sight.layout, Rows(sight, len(clients))
    used: list[str] = []
    claimed: list[float | None] = []
    rejected: list[Rejection] = []

    def read(client: str, origin: FloatArray | None, into: FloatArray) -> float:
        reply = sent[by_text[client]]
        return _read_arrays(layout, {WHOLE: reply} if vector else reply, origin, into)

    for client in clients:
        try:
            size = sizes.get(by_text[client])
            number = None if size is None else check_size("size", size)
            rows.read(len(used), partial(read, client, start))
        except InvalidInputError as error:
            rejected.append(Rejection(client, clean(str(error)), fault=error.fault))
        except Exception as error:  # whatever a client's own objects raise
            kind = type(error).__name__
            told = clean(f"a reply must be arrays that can be read, got {kind}: {cut_text(error)}")
            rejected.append(Rejection(client, told, fault=Fault(Rule.FORM, (kind,))))
        else:
            used.append(client)
            claimed.append(number)

    def again(origin: FloatArray | None, client: str) -> FloatArray:
        whole = np.empty(layout.parameters, dtype=layout.dtype)
        read(client, origin, whole)
        return whole

    replies = rows.replies(
        range(len(used)),
        clients=used,
        num_examples=claimed,
        labels={
            str(client): clean(label, LONGEST_LABEL)
            for client, label in labels.items()
            if isinstance(label, str)
        },
        models=None if start is None else partial(again, None),
        whole=partial(again, start),
        arrived=list(by_text),
    )
    return replies, rejected


def _check_told(what: str, told: object, kind: str) -> None:
    if not isinstance(told, Mapping):
        raise SettingError(f"{what} must be a mapping from client to {kind}, got {cut_text(told)}")


def _read_arrays(
    layout: Layout, reply: object, start: FloatArray | None, into: FloatArray
) -> float:
    if not isinstance(reply, Mapping):
        kind = type(reply).__name__
        raise UpdatesError(
            f"a reply must be arrays by name, got {kind}", fault=Fault(Rule.FORM, (kind,))
        )
    check_names("arrays", reply)
    arrays = {str(name): value for name, value in reply.items()}

    def read(name: str, shape: tuple[int, ...]) -> Array:
        values = as_array(name or "the vector", arrays[name])
        if values.shape != shape:
            raise other_shape(name, shape, values.shape)
        return values.reshape(-1)

    return read_update(layout, arrays.keys(), read, start, into)


def read_update(
    layout: Layout,
    names: Set[str],
    read: ReadArray,
    model: FloatArray | None,
    into: FloatArray,
) -> float:
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

    Returns
    -------
    float
        How long the update is.

    Raises
    ------
    UpdatesError
        They are not; the message says why.
    """
    if names != layout.shapes.keys():
        text = _difference(set(layout.shapes), set(names))
        raise UpdatesError(text, fault=Fault(Rule.NAMES, (frozenset(names),)))
    with np.errstate(over="ignore"):
        for name, place in layout.places.items():
            values = read(name, layout.shapes[name])
            if values.dtype.kind not in _NUMBERS:
                raise no_numbers(name, values.dtype)
            np.subtract(
                values,
                0 if model is None else model[place],
                out=into[place],
                casting="unsafe",
                dtype=np.result_type(values.dtype, into.dtype),
            )
    length = norm(into)
    if not math.isfinite(length):  # which it is for all finite updates that anybody trains
        for name in layout.places:
            check_finite(name, read(name, layout.shapes[name]))
        if not np.isfinite(into).all():
            text = "the update must be finite, got a value beyond its type's range"
            raise UpdatesError(text, fault=Fault(Rule.FINITE))
    return length


def norm(vector: FloatArray) -> float:
    """Return the length of a vector; NaN or infinite where a value is.

    Of a long one squares are added up in its own type, a piece at a time, and pieces in float64:
    that is as exact as a length has to be, and eight times as fast.
    """
    with np.errstate(over="ignore"):
        if len(vector) > _LONG:
            pieces = vector[: len(vector) // _PIECE * _PIECE].reshape(-1, _PIECE)
            rest = vector[len(vector) // _PIECE * _PIECE :]
            squares = np.vecdot(pieces, pieces).sum(dtype=np.float64)
            squares += np.einsum("i,i->", rest, rest, dtype=np.float64)
            if np.isfinite(squares):
                return math.sqrt(float(squares))
        return math.sqrt(float(np.einsum("i,i->", vector, vector, dtype=np.float64)))


def _compact(rows: FloatArray, kept: Sequence[int]) -> FloatArray:
    """Move the rows in `kept` to the front, in place: a copy would be as large as the round."""
    for target, source in enumerate(kept):
        if target != source:
            rows[target] = rows[source]
    return rows[: len(kept)]


def check_size(key: str, value: object) -> float:
    """Return the data size that a client claims under `key`."""
    if value is None:
        text = f"metrics must have {key}, got none"
        raise InvalidInputError(text, fault=Fault(Rule.SIZE, (key,)))
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | bool) or not isinstance(value, int | float):
        text = f"{key} must be a number, got {value!r}"[:LONGEST_REASON]
        raise InvalidInputError(text, fault=Fault(Rule.SIZE, (key, repr(value)[:LONGEST_REASON])))
    if not 0 < value <= _MOST_EXAMPLES:
        got = cut_text(value)
        text = f"{key} must be positive and at most 2^63 - 1, got {got}"
        raise InvalidInputError(text, fault=Fault(Rule.SIZE, (key, got)))
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
            raise UpdatesError(
                f"{what} must have names that are valid Unicode, got {name[:60]!r}",
                fault=Fault(Rule.NAMES, (name[:60],)),
            )
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise UpdatesError(
            f"{what} must have different names as text, got {cut_text(twice)!r} twice",
            fault=Fault(Rule.NAMES, (cut_text(twice), 2)),
        )


def as_array(name: str, value: object) -> Array:
    """Return anything that NumPy or a tensor library calls an array as a NumPy array."""
    try:
        for step in ("detach", "cpu"):  # a tensor that tracks gradients, or lives on a device
            value = getattr(value, step, lambda value=value: value)()
        if str(getattr(value, "dtype", "")).endswith("bfloat16"):  # which NumPy does not have
            convert = getattr(value, "float", None) or (lambda: value.astype(np.float32))  # type: ignore[attr-defined]
            value = convert()
        array = np.asarray(value)
    except Exception as error:  # somebody else's conversion
        raise UpdatesError(
            f"{name} must be an array, got {cut_text(error)}",
            fault=Fault(Rule.FORM, (name, cut_text(error))),
        ) from None
    if array.dtype.kind not in _NUMBERS:
        raise no_numbers(name, type(value).__name__ if array.dtype.kind == "O" else array.dtype)
    return array


def no_numbers(name: str, kind: object) -> UpdatesError:
    """Return the refusal of an array of something else than numbers."""
    got = cut_text(kind)
    return UpdatesError(
        f"{name} must be numbers, got {got}", fault=Fault(Rule.NUMBERS, (name, got))
    )


def check_finite(name: str, values: Array) -> None:
    """Raise UpdatesError where one of the flat `values` is NaN or infinite."""
    finite = np.isfinite(values)
    if not finite.all():
        where = int(np.argmin(finite))
        raise UpdatesError(
            f"{name} must be finite, got {values[where]} at {where}",
            fault=Fault(Rule.FINITE, (name, str(values[where]), where)),
        )


def cut_text(value: object) -> str:
    """Return the beginning of how `value` prints, if it does: a client may have chosen it."""
    try:
        return str(value)[:60]
    except Exception:  # too long a number, or somebody else's text
        return type(value).__name__


def _difference(ours: set[str], theirs: set[str]) -> str:
    def some(names: set[str]) -> Iterator[str]:
        yield from (repr(name[:40]) for name in sorted(names)[:_SHOWN_KEYS])

    missing, unknown = ours - theirs, theirs - ours
    text = f"arrays must be those of the global model, got {len(theirs)} for {len(ours)}"
    if missing:
        text += f"; missing {', '.join(some(missing))}"
    return text + (f"; unknown {', '.join(some(unknown))}" if unknown else "")
