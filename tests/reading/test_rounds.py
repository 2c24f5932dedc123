"""Every way to store a round gives the same round; nothing in a file runs or floods the memory."""

import io
import os
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from fedmerit.errors import DataError
from fedmerit.reading import read_round

CLIENTS = ("alice", "bob", "client-2", "client-10")
LAYERS = {"conv.weight": (3, 4), "conv.bias": (3,)}


@pytest.fixture
def layered() -> dict[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    return {
        client: {name: rng.normal(size=shape).astype("f4") for name, shape in LAYERS.items()}
        for client in CLIENTS
    }


def matrix(layered: dict[str, dict[str, np.ndarray]], order=tuple(LAYERS)) -> np.ndarray:
    return np.stack([np.concatenate([c[name].ravel() for name in order]) for c in layered.values()])


def write_folder(folder: Path, layered: dict[str, dict[str, np.ndarray]], form: str) -> Path:
    folder.mkdir()
    for client, arrays in layered.items():
        path = folder / f"{client}.{form}"
        if form == "npz":
            np.savez(path, **arrays)
        elif form == "npy":
            np.save(path, np.concatenate([array.ravel() for array in arrays.values()]))
        elif form == "safetensors":
            save_file(arrays, path)
        else:
            state = {name: torch.from_numpy(array) for name, array in arrays.items()}
            torch.save({**state, "conv.num_batches_tracked": torch.tensor(5)}, path)
    (folder / "notes.txt").write_text("not a client")
    return folder


@pytest.mark.parametrize("form", ["npz", "safetensors", "pt"])
def test_a_folder_holds_one_client_per_file(tmp_path, layered, form):
    found = read_round(write_folder(tmp_path / "round", layered, form))
    assert found.clients == CLIENTS  # 2 comes before 10
    # safetensors files have an order of their own
    np.testing.assert_array_equal(found.updates, matrix(layered, found.layer_names))
    by_name = dict(zip(found.layer_names, np.bincount(found.layers), strict=True))
    assert by_name == {"conv.weight": 12, "conv.bias": 3}


def test_flat_files_have_no_layers(tmp_path, layered):
    found = read_round(write_folder(tmp_path / "round", layered, "npy"))
    assert (found.clients, found.layers) == (CLIENTS, None)
    np.testing.assert_array_equal(found.updates, matrix(layered))


def test_arrays_that_flower_saves_without_names_are_layers(tmp_path, layered):
    (tmp_path / "round").mkdir()
    for client, arrays in layered.items():
        np.savez(tmp_path / "round" / f"{client}.npz", *arrays.values())
    found = read_round(tmp_path / "round")
    np.testing.assert_array_equal(found.updates, matrix(layered))
    assert found.layer_names == ("arr_0", "arr_1")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_one_file_with_an_array_per_client(tmp_path, layered, save):
    values = matrix(layered)
    rows = dict(zip(CLIENTS, values, strict=True))
    save(tmp_path / "round.npz", **rows, public=values[0] ** 2)
    found = read_round(tmp_path / "round.npz")
    assert found.clients == CLIENTS
    np.testing.assert_array_equal(found.updates, values)
    np.testing.assert_array_equal(found.public, values[:1] ** 2)


@pytest.mark.parametrize("form", ["npz", "safetensors"])
def test_names_with_a_slash_are_client_and_layer(tmp_path, layered, form):
    arrays = {f"{c}/{name}": a for c, parts in layered.items() for name, a in parts.items()}
    path = tmp_path / f"round.{form}"
    np.savez(path, **arrays) if form == "npz" else save_file(arrays, path)
    found = read_round(path)
    assert set(found.clients) == set(CLIENTS)
    rows = dict(zip(found.clients, found.updates, strict=True))
    for client, expected in zip(layered, matrix(layered, found.layer_names), strict=True):
        np.testing.assert_array_equal(rows[client], expected)


def test_a_matrix_with_names_layers_and_public(tmp_path, layered):
    values = np.asfortranarray(matrix(layered))
    layers = np.repeat([0, 1], [12, 3])
    np.savez(tmp_path / "a.npz", updates=values, clients=CLIENTS, layers=layers, public=values[:2])
    found = read_round(tmp_path / "a.npz")
    np.testing.assert_array_equal(found.updates, values)
    np.testing.assert_array_equal(found.layers, layers)
    assert found.clients == CLIENTS
    assert found.public.shape == (2, 15)
    np.save(tmp_path / "a.npy", values)
    assert read_round(tmp_path / "a.npy").clients == ("0", "1", "2", "3")


def test_public_and_global_model_come_in_the_clients_order(tmp_path, layered):
    folder = write_folder(tmp_path / "round", layered, "pt")
    model = layered["bob"]
    turned = {name: torch.from_numpy(model[name]) for name in reversed(model)}
    torch.save({"state_dict": turned, "epoch": 3}, tmp_path / "model.pt")
    found = read_round(folder, public=tmp_path / "model.pt", global_model=tmp_path / "model.pt")
    np.testing.assert_array_equal(found.public[0], matrix(layered)[1])
    np.testing.assert_array_equal(found.updates, matrix(layered) - matrix(layered)[1])


class Runs:
    def __reduce__(self):
        return (os.mkdir, ("it-ran",))


def test_code_in_files_does_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("object.npz", a=np.array([Runs()], dtype=object))
    np.save("object.npy", np.array([Runs()], dtype=object), allow_pickle=True)
    torch.save({"a": Runs()}, "object.pt")
    Path("pickle.npy").write_bytes(pickle.dumps(Runs()))
    Path("pickle.pt").write_bytes(pickle.dumps(Runs()))
    for name in ("object.npz", "object.npy", "object.pt", "pickle.npy", "pickle.pt"):
        folder = Path(f"{name}.folder")
        folder.mkdir()
        Path(name).rename(folder / name)
        with pytest.raises(DataError):
            read_round(folder)
    assert not Path("it-ran").exists()


def test_sizes_are_bounded_before_anything_is_read(tmp_path):
    path = tmp_path / "zeros.npz"
    np.savez_compressed(path, a=np.zeros(10**6), b=np.zeros(10**6))
    assert path.stat().st_size < 20_000
    with pytest.raises(
        DataError, match=r"must take at most 0\.01 GB together, got more in .*zeros"
    ):
        read_round(path, limit=10**7)
    (tmp_path / "folder").mkdir()
    torch.save({"a": torch.zeros(1).expand(10**12)}, tmp_path / "folder" / "huge.pt")
    with pytest.raises(DataError, match="must take at most 4 GB"):
        read_round(tmp_path / "folder")


def test_a_header_that_promises_too_much_is_refused(tmp_path):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    )
    (tmp_path / "lie.npy").write_bytes(stream.getvalue())
    with pytest.raises(
        DataError, match=r"as many bytes as its header says, 8000000000128, got 128"
    ):
        read_round(tmp_path / "lie.npy")
    with zipfile.ZipFile(tmp_path / "lie.npz", "w") as archive:
        archive.writestr("a.npy", stream.getvalue())
    with pytest.raises(DataError, match="as many bytes as its header says"):
        read_round(tmp_path / "lie.npz")


def test_messages_name_what_does_not_fit(tmp_path, layered):
    folder = write_folder(tmp_path / "round", layered, "npz")
    np.savez(folder / "bob.npz", **{"conv.weight": np.zeros((3, 4), "f4")})
    with pytest.raises(DataError, match=r"layers of 'alice'.*for 'bob': conv\.bias is missing"):
        read_round(folder)
    np.savez(tmp_path / "one.npz", np.zeros(3), np.zeros(4))
    with pytest.raises(DataError, match="arr_0 3, arr_1 4; these look like the layers of one cli"):
        read_round(tmp_path / "one.npz")
    np.savez(tmp_path / "int.npz", a=np.arange(3), b=np.arange(3))
    with pytest.raises(DataError, match=r"client 'a' in .* must have floats, got none"):
        read_round(tmp_path / "int.npz")
    np.save(tmp_path / "public.npy", np.zeros(4))
    with pytest.raises(DataError, match="must be floats, 15 each, got 4"):
        read_round(write_folder(tmp_path / "r", layered, "npz"), public=tmp_path / "public.npy")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="one file per client"):
        read_round(tmp_path / "empty")
    (tmp_path / "bad.npz").write_text("no archive")
    (tmp_path / "bad.safetensors").write_text("no tensors")
    for name in ("bad.npz", "bad.safetensors", "missing.npz", "missing.safetensors", "what.csv"):
        with pytest.raises(DataError):
            read_round(tmp_path / name)


def npy(shape: tuple[int, ...], kind: str, content: bytes = b"") -> bytes:
    """An array in NumPy's format with any header."""
    buffer = io.BytesIO()
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + content


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize(
    ("members", "rule"),
    [
        ({"updates": npy((10**9, 0), "<f4")}, "at most 100000 clients, got 1000000000"),
        ({"updates": npy((5, 0), "<f4")}, r"must hold parameters of clients, got shape \(5, 0\)"),
        ({"updates": npy((200_000, 1), "<f2", bytes(400_000))}, "at most 100000 clients"),
        ({"updates": npy((2, 3), "<f4", bytes(24)), "clients": npy((10**9, 0), "<U1")},
         "clients in .* must be 2 different names, got 0"),
        ({"updates": npy((2, 3), "<f4", bytes(24)),
          "clients": npy((200_000,), "<U1", bytes(800_000))}, "at most 100000 clients"),
        ({"updates": npy((-2, -3), "<f4", bytes(24))}, "a shape that there is"),
        ({"updates": npy((-2,), "<f4")}, "a shape that there is"),
        ({"updates": npy((2, 3), "<f4", bytes(24)),
          "public": npy((30_000, 3), "<f4", bytes(360_000))}, "at most 256 public vectors, got 3"),
        ({"updates": npy((2, 3), "<f4", bytes(24)),
          "clients": npy((2,), "<U1", b"\xff\xff\xff\x7f" + b"a\0\0\0")}, "must be text"),
        ({"updates": npy((2, 3), "<f4", bytes(24)),
          "clients": npy((2,), "<U1", b"\x00\xd8\0\0" + b"a\0\0\0")}, "must be valid Unicode"),
        ({"updates": npy((2, 3), "<f4", bytes(24)),
          "clients": npy((2,), "<U20000", b"a\0\0\0" * 20_000 + b"b\0\0\0" * 20_000)},
         "at most 10000 letters, got 20000"),
        ({"updates": npy((2, 3), "<f4", bytes(24)), "layers": npy((3,), "<f4", bytes(12))},
         "layers in .* must be integers"),
        ({"updates": npy((2, 3), "<f4", bytes(24)), "layers": npy((3,), "<U1", bytes(12))},
         "layers in .* must be integers"),
    ],
)  # fmt: skip
def test_what_is_small_on_disk_and_large_in_memory_is_refused(tmp_path, members, rule) -> None:
    with pytest.raises(DataError, match=rule):
        read_round(archive(tmp_path / "bomb.npz", **members), limit=10**8)


def test_one_long_array_does_not_make_all_of_them_long_past_the_limit(tmp_path: Path) -> None:
    arrays = {f"client {i}": np.zeros(50_000, dtype="f2") for i in range(50)}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    assert read_round(tmp_path / "a.npz", limit=12_000_000).updates.nbytes == 10_000_000
    np.savez_compressed(tmp_path / "b.npz", **arrays, z=np.zeros(50_000))
    with pytest.raises(DataError, match=r"at most 0.012 GB together"):
        read_round(tmp_path / "b.npz", limit=12_000_000)


def header(text: str, version: int = 1) -> bytes:
    form = "<H" if version == 1 else "<I"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(form, len(text)) + text.encode()


def described(shape: str, kind: str = "<f4") -> str:
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}\n"


@pytest.mark.parametrize(
    "content",
    [
        header(described(f"({2**62}, {2**62}, 0)")),
        header(described("(" + "1, " * 70 + ")")) + bytes(4),
        header("-" * 9000 + "1\n"),
        header("(" * 9000 + "\n"),
        header(described(f"({10**12},)", "<U0")),
        header(described("(True, 2)")) + bytes(8),
        header(described("('2', 2)")) + bytes(16),
        header(described("(2, 2)", "<f4" * 900)),
        b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1),
        b"\x93NUMPY\x01",
    ],
    ids=range(10),
)
def test_a_header_is_refused_by_an_error_of_ours(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("updates.npy", content)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(DataError):
            read_round(tmp_path / name)


@pytest.fixture
def peak():
    """How many bytes Python took at most since the test began."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def test_a_header_that_is_long_takes_no_memory(tmp_path: Path, peak) -> None:
    with (
        zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("updates.npy", "w") as member,
    ):
        member.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", 50 * 10**6))
        for _ in range(50):
            member.write(b" " * 10**6)
    before = peak()
    with pytest.raises(DataError, match="a header must have at most 10000 bytes, got 50000000"):
        read_round(tmp_path / "a.npz", limit=10**6)
    assert peak() - before < 10**6


@pytest.mark.parametrize("form", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_archives_are_packed_as_numpy_and_torch_pack_them(tmp_path: Path, form: int) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", form) as archive:
        archive.writestr("updates.npy", header(described("(2, 2)")) + bytes(16))
    with pytest.raises(DataError, match=f"stored or deflated, got compression {form}"):
        read_round(tmp_path / "a.npz")


def with_pickle(folder: Path, content: bytes) -> Path:
    """Write the file of a state dict whose pickle is another one."""
    folder.mkdir()
    torch.save({"w": torch.zeros(9)}, folder / "good.pt")
    with zipfile.ZipFile(folder / "good.pt") as good, zipfile.ZipFile(folder / "a.pt", "w") as bad:
        for info in good.infolist():
            mine = info.filename.endswith("data.pkl")
            bad.writestr(info.filename, content if mine else good.read(info))
    (folder / "good.pt").unlink()
    return folder


def calling(name: str, size: int) -> bytes:
    number = size.to_bytes(5, "little")
    return b"\x80\x02c" + name.encode() + b"\n\x8a\x05" + number + b"\x85R."


@pytest.mark.parametrize("name", ["builtins\nbytearray", "torch\nTensor", "builtins\nset"])
def test_a_pickle_that_takes_memory_is_not_loaded(tmp_path: Path, peak, name: str) -> None:
    folder = with_pickle(tmp_path / "round", calling(name, 200 * 10**6))
    with pytest.raises(DataError, match="nothing that runs code, got " + name.replace("\n", " ")):
        read_round(folder, limit=10**7)
    assert peak() < 50 * 10**6


def test_a_long_pickle_of_small_things_counts_for_what_they_take(tmp_path: Path) -> None:
    folder = with_pickle(tmp_path / "round", b"\x80\x02(" + b"}" * 10**6 + b"l.")
    with pytest.raises(DataError, match="must take at most"):
        read_round(folder, limit=10**8)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.empty(9, device="meta"),
        torch.zeros(9).to(torch.float8_e4m3fn),
        torch.zeros(9, dtype=torch.complex64).conj(),
        torch.zeros(9, dtype=torch.complex64).conj().imag,
        torch.zeros(3, 3).to_sparse(),
    ],
    ids=["meta", "float8", "conjugate", "negative", "sparse"],
)
def test_tensors_that_numpy_does_not_have_are_refused(tmp_path: Path, tensor) -> None:
    torch.save({"w": tensor}, tmp_path / "a.pt")
    (tmp_path / "round").mkdir()
    (tmp_path / "a.pt").rename(tmp_path / "round" / "a.pt")
    with pytest.raises(DataError, match="must hold tensors"):
        read_round(tmp_path / "round")


def test_names_of_layers_can_be_written_down(tmp_path: Path) -> None:
    (tmp_path / "round").mkdir()
    torch.save({"\ud800": torch.zeros(9)}, tmp_path / "round" / "a.pt")
    with pytest.raises(DataError, match="must be valid Unicode"):
        read_round(tmp_path / "round")


@pytest.mark.parametrize("name", ["arr_0", "matrix", "updates"])
def test_one_matrix_is_that_of_all_clients(tmp_path: Path, name: str) -> None:
    rows = np.arange(12.0).reshape(3, 4)
    np.savez(tmp_path / "m.npz", **{name: rows, "public": rows[:1]})
    found = read_round(tmp_path / "m.npz")
    assert found.clients == ("0", "1", "2")
    np.testing.assert_array_equal(found.updates, rows)
    np.testing.assert_array_equal(found.public, rows[:1])


def test_brain_floats_of_safetensors_are_those_of_torch(tmp_path):
    torch = pytest.importorskip("torch")
    save = pytest.importorskip("safetensors.torch").save_file
    draw = torch.Generator().manual_seed(3)
    for client in ("ann", "bob", "cai"):
        sent = {"a": torch.randn(4, 5, generator=draw), "b": torch.randn(7, generator=draw)}
        sent = {name: tensor.to(torch.bfloat16) for name, tensor in sent.items()}
        save(sent, tmp_path / f"{client}.safetensors")
        torch.save(sent, tmp_path / f"{client}.pt")
        adapter = tmp_path / "adapters" / client
        adapter.mkdir(parents=True)
        save(sent, adapter / "adapter_model.safetensors")
    for ending in (".safetensors", ".pt"):
        folder = tmp_path / ending[1:]
        folder.mkdir()
        for file in tmp_path.glob(f"*{ending}"):
            file.rename(folder / file.name)
    read, wanted = read_round(tmp_path / "safetensors"), read_round(tmp_path / "pt")
    assert read.clients == wanted.clients == ("ann", "bob", "cai")
    np.testing.assert_array_equal(read.updates, wanted.updates)
    saved = read_round(tmp_path / "adapters")  # as `save_pretrained` names its file
    assert saved.clients == ("ann", "bob", "cai")
    np.testing.assert_array_equal(saved.updates, wanted.updates)
    with pytest.raises(DataError, match="at most 5e-07 GB"):
        read_round(tmp_path / "safetensors", limit=500)


def test_clients_are_counted_before_they_are_compared(tmp_path):
    np.savez_compressed(tmp_path / "many.npz", updates=np.zeros((8000, 2), np.float32))
    assert (tmp_path / "many.npz").stat().st_size < 2000
    with pytest.raises(DataError, match=r"comparing the 8000 clients .* got 2\.56 GB"):
        read_round(tmp_path / "many.npz", limit=10**8)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".pt"])
def test_what_has_no_end_is_not_read(tmp_path: Path, ending: str) -> None:
    os.mkfifo(tmp_path / f"pipe{ending}")
    (tmp_path / f"zero{ending}").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(DataError, match="must be a file, got something else"):
            read_round(tmp_path / f"{name}{ending}")
