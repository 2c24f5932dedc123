"""Disks that are full, read-only or damaged, under runs, ledgers, caches and checkpoints."""

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from checks.faults.base import Fault, NotHereError, refused, survived
from checks.faults.ledger import record
from checks.faults.nursery import command
from checks.faults.process import RUN, check_like_whole
from fedmerit.errors import FedMeritError
from fedmerit.ledger import Ledger
from fedmerit.simulation.data import cache
from fedmerit.simulation.run import CHECKPOINT

_LEDGER_BYTES, _MOUNT_BYTES = 120_000, 256 * 1024


def faults() -> Iterator[Fault]:
    """Yield the rows."""
    for room in (1_000, 20_000, 60_000, 100_000):
        yield survived(
            "storage", "simulate", f"files may have {room} bytes and no more",
            "a named error; with room again, resumed to the same bytes", partial(_no_room, room),
        )  # fmt: skip
    for room in (500, 5_000):
        yield survived(
            "storage", "simulate", f"files may have {room} bytes and no more, no ledger",
            "a named error; with room again, resumed to the same bytes",
            partial(_no_room_for_results, room),
        )  # fmt: skip
    yield survived(
        "storage", "simulate", "disk full (a small file system)",
        "a named error; with room again, resumed to the same bytes", _full_disk,
    )  # fmt: skip
    yield survived(
        "storage", "ledger", "disk full (a small file system)",
        "a named error; every round that was reported is there and verifies", _full_ledger,
    )  # fmt: skip
    yield survived("storage", "simulate", "read-only disk", "a named error", _read_only_run)
    yield survived(
        "storage", "ledger", "read-only disk", "written: a named error; read and verified: works",
        _read_only_ledger,
    )  # fmt: skip
    yield survived(
        "storage", "data", "no write permission in the cache folder", "a named error",
        _read_only_cache,
    )  # fmt: skip
    yield survived(
        "storage", "simulate", "the folder for results is a file", "a named error", _file_for_folder
    )
    yield from _damaged_checkpoints()
    yield from _damaged_caches()


@contextlib.contextmanager
def mounted(*options: str) -> Iterator[Path]:
    """Mount a small file system in memory; only root may."""
    with tempfile.TemporaryDirectory() as name:
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", name],
            capture_output=True,
            check=False,
        )
        if made.returncode != 0:
            raise NotHereError("mounting a file system needs root")
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", name], check=True, capture_output=True)


def _remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


def _run(folder: Path) -> tuple[object, ...]:
    return (*RUN, "--out", folder / "run", "--ledger", folder / "run.ledger")


def _no_room(room: int) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        end = command(*_run(folder), largest_file=room)
        end.check_named()
        assert end.status == 2, f"ended with {end.status}: {end.complaint}"
        again = command(*_run(folder), "--resume")
        assert again.status == 0, again.complaint
        check_like_whole(folder)
    return end.complaint


def _no_room_for_results(room: int) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked = (*RUN[:-2], "--out", folder / "run")
        end = command(*asked, largest_file=room)
        end.check_named()
        assert end.status == 2, f"ended with {end.status}: {end.complaint}"
        again = command(*asked, "--resume")
        assert again.status == 0, again.complaint
        assert command(*RUN[:-2], "--out", folder / "whole").status == 0
        for result in ("rounds.csv", "clients.csv"):
            found, expected = ((folder / run / result).read_bytes() for run in ("run", "whole"))
            assert found == expected, "the results differ from those of an undisturbed run"
    return end.complaint


def _full_disk() -> str:
    with mounted(f"size={_MOUNT_BYTES}") as folder:
        filler = folder / "filler"
        # Leaves room to start, not to go on to the end.
        filler.write_bytes(b"x" * (_MOUNT_BYTES - _LEDGER_BYTES))
        end = command(*_run(folder))
        end.check_named()
        assert end.status == 2, f"ended with {end.status}: {end.complaint}"
        filler.unlink()
        _remount(folder, "size=8M")
        again = command(*_run(folder), "--resume")
        assert again.status == 0, again.complaint
        check_like_whole(folder)
    return end.complaint


def _full_ledger() -> str:
    with mounted(f"size={_MOUNT_BYTES}") as folder:
        path = folder / "run.ledger"
        done = 0
        with Ledger.open(path) as ledger:
            ledger.start_run({}, "1")
            try:
                for number in range(1, 10_000):
                    ledger.append(record(number, clients=20))
                    done = number
            except FedMeritError as error:
                said = str(error)
        _remount(folder, "size=8M")
        with Ledger.open(path) as ledger:
            checked = ledger.verify()
            assert checked.ok, checked.problem
            assert [r.round for r in ledger.rounds()] == list(range(1, done + 1))
            ledger.resume_run(1)
            ledger.append(record(done + 1, clients=20))
    return f"{done} rounds, then “{said}”; all there, and it goes on"


def _read_only_run() -> str:
    with mounted("size=8M") as folder:
        _remount(folder, "ro")
        end = command(*RUN[:-2], "--out", folder / "run")
    end.check_named()
    assert end.status == 2, f"ended with {end.status}"
    return end.complaint


def _read_only_ledger() -> str:
    with mounted("size=8M") as folder:
        path = folder / "run.ledger"
        with Ledger.open(path) as ledger:
            ledger.start_run({}, "1")
            ledger.append(record(1))
        _remount(folder, "ro")
        with Ledger.open(path, read_only=True) as ledger:
            assert ledger.verify().ok
        try:
            Ledger.open(path).close()
        except FedMeritError as error:
            return f"read and verified; for writing “{error}”"
    raise AssertionError("a ledger on a read-only disk was opened for writing")


def _images() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "train_x": rng.integers(0, 256, (30, 28, 28), dtype=np.uint8),
        "train_y": rng.integers(0, 10, 30, dtype=np.uint8),
        "test_x": rng.integers(0, 256, (10, 28, 28), dtype=np.uint8),
        "test_y": rng.integers(0, 10, 10, dtype=np.uint8),
    }


def _read_only_cache() -> str:
    with mounted("size=8M") as folder:
        _remount(folder, "ro")
        try:
            cache.store(folder / "fedmerit" / "mnist.npz", _images())
        except FedMeritError as error:
            return str(error)
    raise AssertionError("the cache was written to a read-only disk")


def _file_for_folder() -> str:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "run"
        path.write_text("a file")
        end = command(*RUN[:-2], "--out", path)
        end.check_named()
        assert end.status == 2, f"ended with {end.status}"
    return end.complaint


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x55]) + content[middle + 1 :]


def _huge(content: bytes) -> bytes:
    """Let the header of every array claim a million times as many numbers."""
    return content.replace(b"'shape': (", b"'shape': (999999999999, ")


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut in half": _cut,
    "one byte flipped": _flipped,
    "not an archive": lambda _: b"\x80\x04K\x01." * 100,  # what unpickling would take
    "sizes that lie": _huge,
}


def _damaged_checkpoints() -> Iterator[Fault]:
    def resumed(damage: Callable[[bytes], bytes]) -> str:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            assert command(*_run(folder)).status == 0
            path = folder / "run" / CHECKPOINT
            path.write_bytes(damage(path.read_bytes()))
            results = (folder / "run" / "rounds.csv").read_bytes()
            end = command(*_run(folder), "--resume")
            end.check_named()
            assert end.status == 2, f"ended with {end.status}"
            assert (folder / "run" / "rounds.csv").read_bytes() == results, "results were changed"
        return end.complaint

    for name, damage in DAMAGES.items():
        yield survived(
            "storage", "simulate", f"corrupt checkpoint: {name}",
            "a named error, the results stay", partial(resumed, damage),
        )  # fmt: skip


def _damaged_caches() -> Iterator[Fault]:
    def restored(damage: Callable[[bytes], bytes]) -> object:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "mnist.npz"
            cache.store(path, _images())
            path.write_bytes(damage(path.read_bytes()))
            return cache.restore(path)

    for name, damage in DAMAGES.items():
        if name != "sizes that lie":  # the cache is compressed
            yield refused(
                "storage", "data", f"corrupt cache: {name}", "and was removed",
                partial(restored, damage),
            )  # fmt: skip

    def bomb() -> object:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "mnist.npz"
            zeros = np.zeros((2**31 // 784 + 1, 28, 28), dtype=np.uint8)
            np.savez_compressed(path, train_x=zeros)
            return cache.restore(path)

    yield refused("storage", "data", "cache that unpacks to 2 GB", "and was removed", bomb)
