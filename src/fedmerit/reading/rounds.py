"""From files to one round: who the clients are, one row of numbers each, which layer is which.

============================================  ===================================================
what is given                                 how it is read
============================================  ===================================================
a folder                                      one file per client, or a folder with one file per
                                              client, as adapters are saved; arrays are layers
a file with an array ``updates``, or with     clients x parameters; ``clients`` (names),
one matrix of any name                        ``public`` and ``layers`` may stand beside it
a .npy file                                   clients x parameters
a file with arrays ``alice/conv.weight`` ...  the part before the first / is the client
a file with any other names                   one array per client, ``public`` apart
============================================  ===================================================
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedmerit.errors import DataError
from fedmerit.reading.arrays import READERS, UNNAMED, Array, read_arrays
from fedmerit.reading.budget import (
    DEFAULT_LIMIT,
    MOST_CLIENTS,
    Budget,
    check_names,
    check_number_of,
    check_pairs,
)
from fedmerit.types import MAX_PUBLIC, FloatArray

_UPDATES, _PUBLIC, _LAYERS, _CLIENTS = "updates", "public", "layers", "clients"
_SEPARATOR = "/"
# NumPy's names for arrays that were saved without one, as Flower's examples do.
_POSITIONAL = re.compile(r"arr_\d+")

Layout = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class RoundFile:
    """A round as it was found.

    Attributes
    ----------
    clients : tuple of str
        Names, from the files; anything may be in them.
    updates : (k, d) float array
    layers : (d,) int64 array or None
    layer_names : tuple of str
        Empty where layers have no names.
    public : (r, d) float array or None
    """

    clients: tuple[str, ...]
    updates: FloatArray
    layers: NDArray[np.int64] | None = None
    layer_names: tuple[str, ...] = ()
    public: FloatArray | None = None


def read_round(
    path: Path,
    *,
    public: Path | None = None,
    global_model: Path | None = None,
    limit: int = DEFAULT_LIMIT,
) -> RoundFile:
    """Read the updates of a round.

    Parameters
    ----------
    path : Path
        A file or a folder, see the module.
    public : Path, optional
        Vectors that every client knows; takes the place of those in `path`.
    global_model : Path, optional
        The files hold local models, and this is the global model to take off.
    limit : int
        Most bytes that all arrays together may take, and comparing the clients in pairs.
    """
    budget = Budget(limit)
    if path.is_dir():
        parts = _read_folder(path, budget)
        found = _assemble(parts, path, budget)
        layout = _layout(next(iter(parts.values())))
    else:
        found, layout = _read_file(path, budget)
    check_pairs(len(found.clients), limit, path)
    size = found.updates.shape[1]
    known = found.public
    if public is not None:
        known = _vectors(read_arrays(public, budget), layout, size, public)
    updates = found.updates
    if global_model is not None:
        base = _vectors(read_arrays(global_model, budget), layout, size, global_model)
        updates = updates - base[:1].astype(updates.dtype)
    return RoundFile(found.clients, updates, found.layers, found.layer_names, known)


def _read_folder(path: Path, budget: Budget) -> dict[str, dict[str, Array]]:
    files = _readable(path)
    check_number_of("files", len(files), MOST_CLIENTS, path)
    stems = [file.stem for file in files]
    names = stems if len(set(stems)) == len(stems) else [file.name for file in files]
    if not files:
        inside = {folder.name: _readable(folder) for folder in path.iterdir() if folder.is_dir()}
        names = sorted((name for name, of in inside.items() if len(of) == 1), key=_natural)
        files = [inside[name][0] for name in names]
        check_number_of("folders", len(files), MOST_CLIENTS, path)
    if not files:
        raise DataError(
            f"{path} must hold one file per client ({', '.join(READERS)}), or a folder with one "
            "for each, got none"
        )
    return {
        name: _floats(read_arrays(file, budget)) for name, file in zip(names, files, strict=True)
    }


def _readable(folder: Path) -> list[Path]:
    """Return the files of a folder that can hold arrays, in the order of their names."""
    return sorted(
        (file for file in folder.iterdir() if file.is_file() and file.suffix.lower() in READERS),
        key=lambda file: _natural(file.name),
    )


def _read_file(path: Path, budget: Budget) -> tuple[RoundFile, Layout]:
    arrays = read_arrays(path, budget)
    matrix = _matrix_in(arrays)
    if matrix is not None:
        return _matrix(arrays, matrix, path), ()
    public = arrays.pop(_PUBLIC, None)
    parts: dict[str, dict[str, Array]] = {}
    grouped = all(_SEPARATOR in name for name in arrays)
    for name, array in arrays.items():
        client, _, layer = name.partition(_SEPARATOR) if grouped else (name, "", UNNAMED)
        parts.setdefault(client, {})[layer] = array
    if not grouped and len({array.size for array in arrays.values()}) > 1:
        sizes = ", ".join(f"{name} {array.size}" for name, array in list(arrays.items())[:4])
        hint = (
            "; these look like the layers of one client: put one such file per client in a folder"
            if all(map(_POSITIONAL.fullmatch, arrays))
            else ""
        )
        raise DataError(f"every client in {path} must have equally many numbers, got {sizes}{hint}")
    known = parts.pop(_PUBLIC, None)
    parts = {client: _floats(layers) for client, layers in parts.items()}
    found = _assemble(parts, path, budget)
    layout = _layout(next(iter(parts.values())))
    size = found.updates.shape[1]
    vectors = None
    if public is not None:
        vectors = _rows(public, size, path)
    elif known is not None:
        vectors = _vectors(known, layout, size, path)
    return RoundFile(found.clients, found.updates, found.layers, found.layer_names, vectors), layout


def _matrix_in(arrays: Mapping[str, Array]) -> str | None:
    """Return the name of the array that holds all clients, if there is one.

    One client alone makes no round: a single matrix is that of several.
    """
    for name in (_UPDATES, UNNAMED):
        if name in arrays:
            return name
    others = [name for name in arrays if name not in {_PUBLIC, _LAYERS, _CLIENTS}]
    alone = len(others) == 1 and arrays[others[0]].ndim == 2 and len(arrays[others[0]]) > 1
    return others[0] if alone and _SEPARATOR not in others[0] else None


def _matrix(arrays: Mapping[str, Array], name: str, path: Path) -> RoundFile:
    updates = arrays[name]
    if updates.ndim != 2 or updates.dtype.kind != "f":
        raise DataError(
            f"{path} must hold clients x parameters as floats, got shape {updates.shape} "
            f"of {updates.dtype}"
        )
    check_number_of("clients", len(updates), MOST_CLIENTS, path)
    if not updates.shape[1]:
        raise DataError(f"{path} must hold parameters of clients, got shape {updates.shape}")
    names = _names(arrays.get(_CLIENTS, np.arange(len(updates))), path)
    if len(set(names)) != len(updates):
        raise DataError(
            f"clients in {path} must be {len(updates)} different names, got {len(set(names))}"
        )
    layers = arrays.get(_LAYERS)
    return RoundFile(
        names,
        updates,
        None if layers is None else _layer_numbers(layers, path),
        public=None if _PUBLIC not in arrays else _rows(arrays[_PUBLIC], updates.shape[1], path),
    )


def _names(array: Array, path: Path) -> tuple[str, ...]:
    """Return the names in an array; what no code point is cannot become text."""
    check_number_of("clients", array.size, MOST_CLIENTS, path)
    try:
        names = [str(name) for name in array.ravel()]
    except (ValueError, OverflowError, SystemError) as error:
        raise DataError(f"clients in {path} must be text: {error}") from None
    return check_names(names, path)


def _layer_numbers(layers: Array, path: Path) -> NDArray[np.int64]:
    if layers.dtype.kind not in "iu":
        raise DataError(f"layers in {path} must be integers, got {layers.dtype}")
    return layers.astype(np.int64)


def _assemble(parts: Mapping[str, Mapping[str, Array]], path: Path, budget: Budget) -> RoundFile:
    """Put the layers of every client into one row, in the order of the first client."""
    if not parts:
        raise DataError(f"{path} must hold the updates of clients, got none")
    check_number_of("clients", len(parts), MOST_CLIENTS, path)
    check_names(tuple(parts), path)
    first = next(iter(parts))
    layout = _layout(parts[first])
    sizes = [int(np.prod(shape, dtype=np.int64)) for _, shape in layout]
    if not sum(sizes):
        raise DataError(f"client {first!r} in {path} must have floats, got none")
    double = any(a.dtype == np.float64 for layers in parts.values() for a in layers.values())
    kind = np.dtype(np.float64 if double else np.float32)
    # What was read is set aside already: one long array among short ones makes all of them longer.
    read = sum(array.nbytes for layers in parts.values() for array in layers.values())
    budget.take(max(len(parts) * sum(sizes) * kind.itemsize - read, 0), path)
    updates = np.empty((len(parts), sum(sizes)), dtype=kind)
    for row, (client, layers) in enumerate(parts.items()):
        if sorted(_layout(layers)) != sorted(layout):
            raise DataError(
                f"every client must have the layers of {first!r}, got other ones for "
                f"{client!r}: {_difference(layout, _layout(layers))}"
            )
        updates[row] = _flat(layers, layout)
    named = len(layout) > 1
    return RoundFile(
        tuple(parts),
        updates,
        np.repeat(np.arange(len(sizes)), sizes) if named else None,
        tuple(name for name, _ in layout) if named else (),
    )


def _vectors(arrays: Mapping[str, Array], layout: Layout, size: int, path: Path) -> FloatArray:
    """Return the (r, d) vectors of a file: an array on its own, or layers as the clients have."""
    if _PUBLIC in arrays:
        return _rows(arrays[_PUBLIC], size, path)
    floats = _floats(arrays)
    if len(floats) > 1 and sorted(_layout(floats)) == sorted(layout):
        return _flat(floats, layout)[None, :]
    if len(floats) == 1:
        return _rows(next(iter(floats.values())), size, path)
    raise DataError(
        f"{path} must hold one array, one called `public`, or the layers of a client, "
        f"got {', '.join(arrays)}"
    )


def _rows(array: Array, size: int, path: Path) -> FloatArray:
    if array.dtype.kind != "f" or array.size % size or not array.size:
        raise DataError(
            f"public vectors in {path} must be floats, {size} each, got {array.size} "
            f"of {array.dtype}"
        )
    check_number_of("public vectors", array.size // size, MAX_PUBLIC, path)
    return array.reshape(-1, size)


def _floats(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Leave out what is no parameter, such as the counters in a state dict."""
    return {name: array for name, array in arrays.items() if array.dtype.kind == "f"}


def _layout(layers: Mapping[str, Array]) -> Layout:
    return tuple((name, array.shape) for name, array in layers.items())


def _flat(layers: Mapping[str, Array], layout: Layout) -> FloatArray:
    return np.concatenate([layers[name].ravel() for name, _ in layout])


def _difference(expected: Layout, got: Layout) -> str:
    for name, shape in expected:
        found = dict(got).get(name)
        if found != shape:
            return f"{name or 'the array'} is {'missing' if found is None else found} not {shape}"
    return f"{sorted(set(dict(got)) - set(dict(expected)))[0]} is too many"


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key that puts client-2 before client-10."""
    return [
        (0, int(part), "") if part.isdigit() and part.isascii() else (1, 0, part)
        for part in re.split(r"(\d+)", text)
    ]
