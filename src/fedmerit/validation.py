"""The only door: outside values are checked here, once; everything behind it trusts them.

No check changes its input. A check that passes returns what the core works on: a C-contiguous
array (the same memory where that is possible) or a plain number.
"""

import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedmerit.errors import InvalidInputError, SettingError, UpdatesError, WeightsError
from fedmerit.kernels.levels import float_bits, largest_bits
from fedmerit.types import MAX_PUBLIC, FloatArray, RoundInputs, Signals

MIN_LEVELS, MAX_LEVELS = 2, 256
MIN_CLIENTS = 2
MAX_LAYER = 2**16 - 1
# Fourth powers of values are added up in float64; every float32 is far below.
MAX_SIZE = 1e60


def check_count(name: str, value: object, *, least: int, most: int | None = None) -> int:
    """Check an integer setting against its range."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise SettingError(f"{name} must be an integer, got {value!r}") from None
    if isinstance(value, bool):
        raise SettingError(f"{name} must be an integer, got {value!r}")
    if number < least:
        raise SettingError(f"{name} must be at least {least}, got {number}")
    if most is not None and number > most:
        raise SettingError(f"{name} must be at most {most}, got {number}")
    return number


def check_path(name: str, value: object) -> Path:
    """Check a path, of which nobody knows yet what lies there."""
    if not isinstance(value, str | os.PathLike) or os.fspath(value) in ("", b""):
        raise SettingError(f"{name} must be a path, got {value!r}"[:200])
    return Path(value)


def check_levels(levels: object) -> int:
    """Check the number of quantisation levels (h in the paper)."""
    return check_count("levels", levels, least=MIN_LEVELS, most=MAX_LEVELS)


def check_number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> float:
    """Check a finite real setting against open or closed bounds."""
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise SettingError(f"{name} must be a number, got {value!r}") from None
    if not np.isfinite(number):
        raise SettingError(f"{name} must be finite, got {number}")
    if above is not None and not number > above:
        raise SettingError(f"{name} must be greater than {above:g}, got {number:g}")
    if least is not None and not number >= least:
        raise SettingError(f"{name} must be at least {least:g}, got {number:g}")
    if below is not None and not number < below:
        raise SettingError(f"{name} must be less than {below:g}, got {number:g}")
    if most is not None and not number <= most:
        raise SettingError(f"{name} must be at most {most:g}, got {number:g}")
    return number


def read_number(name: str, text: str) -> float:
    """Read a number that somebody wrote."""
    try:
        return float(text)
    except ValueError:
        raise SettingError(f"{name} must be a number, got {text!r}") from None


def read_settings(what: str, text: str) -> tuple[str, dict[str, Any]]:
    """Read a name with its settings: numbers, true, false, none, or else text.

    Examples
    --------
    >>> read_settings("method", "merit:one_kind=true,sample=none")
    ('merit', {'one_kind': True, 'sample': None})
    """
    name, _, listed = text.partition(":")
    settings: dict[str, Any] = {}
    for part in filter(None, listed.split(",")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise SettingError(f"a setting of a {what} must read name=value, got {part.strip()!r}")
        setting = key.replace("-", "_")
        if setting in settings:
            raise SettingError(f"a setting of a {what} must be given once, got {setting} twice")
        settings[setting] = _value(value)
    return name.strip(), settings


def _value(text: str) -> int | float | bool | str | None:
    words: dict[str, bool | None] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def check_matrix(
    values: ArrayLike,
    *,
    name: str = "updates",
    min_clients: int = 1,
    min_parameters: int = 1,
    finite: bool = True,
) -> FloatArray:
    """Check a (clients, parameters) matrix of finite floats whose powers can be added up.

    float32 and float64 stay as they are; float16 becomes float32. With ``finite=False`` the values
    are left for `check_finite` to look at, once it is known which of them count.
    """
    array = _as_array(values, name)
    if array.dtype.kind != "f":
        raise UpdatesError(f"{name} must be floating point, got dtype {array.dtype}")
    _check_shape(array, name, min_clients, min_parameters)
    target = array.dtype if array.dtype in (np.float32, np.float64) else _nearest_float(array.dtype)
    matrix: FloatArray = np.ascontiguousarray(array, dtype=target)
    if finite:
        check_finite(matrix, name=name)
    return matrix


def check_finite(
    matrix: FloatArray,
    *,
    name: str,
    positions: NDArray[np.int64] | None = None,
    first: int = 0,
) -> None:
    """Check that all values are finite, and not so large that their powers cannot be added up.

    `positions` says which parameters the columns are, and `first` which client the first row is.
    """
    bits, sign = float_bits(matrix)
    most = min(MAX_SIZE, float(np.finfo(matrix.dtype).max))
    largest = np.empty(matrix.shape[0], dtype=bits.dtype)
    largest_bits(bits, sign, largest)
    for row in np.flatnonzero(largest > np.array(most, matrix.dtype).view(bits.dtype)):
        values, client = matrix[row], first + int(row)
        _refuse_first(values, client, np.isfinite(values), f"{name} must be finite", positions)
        rule = f"{name} must be at most {MAX_SIZE:g} in size"
        _refuse_first(values, client, np.abs(values) <= most, rule, positions)


def check_signals(signals: Signals, *, min_clients: int = 1, min_parameters: int = 1) -> Signals:
    """Check that signals are one-byte levels inside their range."""
    levels = check_levels(signals.levels)
    array = _as_array(signals.values, "signals")
    if array.dtype != np.uint8:
        raise UpdatesError(f"signals must be uint8, got dtype {array.dtype}")
    _check_shape(array, "signals", min_clients, min_parameters)
    highest = int(array.max())
    if highest >= levels:
        raise UpdatesError(f"signals must be below levels = {levels}, got {highest}")
    return Signals(np.ascontiguousarray(array), levels)


def check_round(
    updates: ArrayLike | Signals,
    public: ArrayLike | None = None,
    layers: ArrayLike | None = None,
    previous: ArrayLike | None = None,
    trust: ArrayLike | None = None,
    rounds: ArrayLike | None = None,
    *,
    testimony: ArrayLike | None = None,
    finite: bool = True,
) -> RoundInputs:
    """Check everything a scorer is given for one round.

    With ``finite=False`` the values of float updates and previous reports are left unchecked, for
    scorers that look at a sample of them and check that.
    """
    checked = check_updates(updates, MIN_CLIENTS, finite)
    clients, parameters = (checked.values if isinstance(checked, Signals) else checked).shape
    known, layer = check_frame(public, layers, parameters)
    return RoundInputs(
        updates=checked,
        public=known,
        layers=layer,
        previous=None
        if previous is None
        else _check_previous(previous, clients, parameters, finite),
        testimony=None if testimony is None else _check_testimony(testimony, clients, parameters),
        trust=None if trust is None else check_vector(trust, name="trust", length=clients),
        rounds=None
        if rounds is None
        else check_vector(rounds, name="rounds", length=clients).astype(np.int64),
    )


def check_updates(
    updates: ArrayLike | Signals, min_clients: int, finite: bool = True
) -> FloatArray | Signals:
    """Check the reports of a round, floats or levels; see `check_round`."""
    if isinstance(updates, Signals):
        return check_signals(updates, min_clients=min_clients)
    return check_matrix(updates, min_clients=min_clients, finite=finite)


def check_frame(
    public: ArrayLike | None, layers: ArrayLike | None, parameters: int
) -> tuple[FloatArray | None, NDArray[np.int64] | None]:
    """Check what is known of the parameters themselves: public vectors and layers."""
    return (
        None if public is None else _check_public(public, parameters),
        None if layers is None else check_layers(layers, parameters),
    )


def check_weights(weights: ArrayLike, clients: int) -> NDArray[np.float64]:
    """Check aggregation weights and return them scaled to sum to one."""
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise WeightsError(f"weights must be numbers, got {weights!r}") from None
    if array.shape != (clients,):
        raise WeightsError(
            f"weights must have one entry per client, shape ({clients},), got {array.shape}"
        )
    if not np.isfinite(array).all():
        raise WeightsError(f"weights must be finite, got {array[~np.isfinite(array)][0]}")
    if (array < 0).any():
        raise WeightsError(f"weights must not be negative, got {array.min():g}")
    largest = array.max()
    if largest == 0:
        raise WeightsError("weights must not all be zero, got only zeros")
    array = array / largest  # first by the largest: the sum of huge weights could overflow
    scaled: NDArray[np.float64] = array / array.sum()
    return scaled


def check_layers(layers: ArrayLike, parameters: int) -> NDArray[np.int64]:
    """Check the layer of each parameter."""
    array = _as_array(layers, "layers")
    if array.dtype.kind not in "iu":
        raise UpdatesError(f"layers must be integers, got dtype {array.dtype}")
    if array.shape != (parameters,):
        raise UpdatesError(
            f"layers must have one entry per parameter, shape ({parameters},), got {array.shape}"
        )
    checked = array.astype(np.int64, copy=False)
    if checked.min() < 0:
        raise UpdatesError(f"layers must not be negative, got {checked.min()}")
    if checked.max() > MAX_LAYER:
        raise UpdatesError(f"layers must be at most {MAX_LAYER}, got {checked.max()}")
    return checked


def check_positions(name: str, positions: ArrayLike, *, below: int) -> NDArray[np.int64]:
    """Check a vector of whole numbers, each at least 0 and less than `below`."""
    array = _as_array(positions, name)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"{name} must be a vector of integers, got {array.dtype} of shape {array.shape}"
        )
    if array.min() < 0 or array.max() >= below:
        odd = array.min() if array.min() < 0 else array.max()
        raise InvalidInputError(f"{name} must be at least 0 and less than {below}, got {odd}")
    return array.astype(np.int64, copy=False)


def check_vector(values: ArrayLike, *, name: str, length: int | None = None) -> NDArray[np.float64]:
    """Check a vector of finite numbers."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name} must be numbers, got {values!r}") from None
    if array.ndim != 1 or array.size == 0:
        raise InvalidInputError(f"{name} must be a non-empty vector, got shape {array.shape}")
    if length is not None and array.size != length:
        raise InvalidInputError(f"{name} must have length {length}, got {array.size}")
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def _as_array(values: ArrayLike, name: str) -> NDArray[np.generic]:
    try:
        return np.asarray(values)
    except ValueError:
        lengths = [len(row) for row in values] if isinstance(values, Sequence) else "ragged rows"  # type: ignore[arg-type]
        raise UpdatesError(f"{name} must have rows of one length, got {lengths}") from None
    except TypeError as error:  # a tensor of a kind that NumPy does not know, such as bfloat16
        raise UpdatesError(f"{name} must be floating point that NumPy knows: {error}") from None


def _check_shape(
    array: NDArray[np.generic], name: str, min_clients: int, min_parameters: int
) -> None:
    if array.ndim != 2:
        raise UpdatesError(
            f"{name} must be a matrix of clients x parameters, got shape {array.shape}"
        )
    clients, parameters = array.shape
    if clients < min_clients:
        raise UpdatesError(f"{name} must have at least {min_clients} clients, got {clients}")
    if parameters < min_parameters:
        raise UpdatesError(
            f"{name} must have at least {min_parameters} parameters, got {parameters}"
        )


def _refuse_first(
    values: FloatArray,
    client: int,
    fine: NDArray[np.bool_],
    rule: str,
    positions: NDArray[np.integer] | None,
) -> None:
    if not fine.all():
        where = int(np.argmin(fine))
        parameter = where if positions is None else int(positions[where])
        raise UpdatesError(f"{rule}, got {values[where]} at client {client}, parameter {parameter}")


def _nearest_float(dtype: np.dtype[np.generic]) -> type[np.floating]:
    return np.float32 if dtype.itemsize < 4 else np.float64


def _check_public(public: ArrayLike, parameters: int) -> FloatArray:
    array = np.atleast_2d(_as_array(public, "public"))
    if len(array) > MAX_PUBLIC:  # before any value is looked at
        raise UpdatesError(f"public must have at most {MAX_PUBLIC} vectors, got {len(array)}")
    matrix = check_matrix(array, name="public")
    if matrix.shape[1] != parameters:
        raise UpdatesError(
            f"public must have one value per parameter, {parameters}, got {matrix.shape[1]}"
        )
    return matrix


def _check_testimony(testimony: ArrayLike, clients: int, parameters: int) -> FloatArray:
    matrix = check_matrix(testimony, name="testimony")
    if matrix.shape != (clients, parameters):
        raise UpdatesError(
            f"testimony must have the shape of the updates, ({clients}, {parameters}), "
            f"got {matrix.shape}"
        )
    return matrix


def _check_previous(previous: ArrayLike, clients: int, parameters: int, finite: bool) -> FloatArray:
    """Check earlier reports, (k, n, d), or one of each client, (k, d)."""
    array = np.asarray(previous)
    whole = array[:, None] if array.ndim == 2 else array
    if whole.ndim != 3 or whole.shape[::2] != (clients, parameters):
        raise UpdatesError(
            f"previous must have the shape of the updates, ({clients}, {parameters}), or "
            f"({clients}, n, {parameters}), got {array.shape}"
        )
    rows = check_matrix(whole.reshape(-1, parameters), name="previous", finite=finite)
    return rows.reshape(whole.shape)
