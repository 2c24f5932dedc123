"""Files from strangers: `fedmerit score`, data sets, settings in words, `fedmerit report`."""

import gzip
import os
import pickle
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from checks.faults.base import Fault, refused, survived
from checks.faults.ledger import record
from checks.faults.library import round_of
from checks.faults.nursery import command
from fedmerit.behaviours import Assignment
from fedmerit.incentive.registry import parse_reward
from fedmerit.ledger import Ledger
from fedmerit.reading import read_round
from fedmerit.simulation.data.idx import decode_idx, encode_idx, read_folder

_PLANTED = "planted-by-a-pickle"


class Evil:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Say what is run."""
        return Path.touch, (Path(tempfile.gettempdir()) / _PLANTED,)


def faults() -> Iterator[Fault]:
    """Yield the rows."""
    yield from _rounds()
    yield from _score_command()
    yield from _images()
    yield from _words()
    yield from _reports()


def _read(name: str, write: Callable[[Path], object]) -> object:
    planted = Path(tempfile.gettempdir()) / _PLANTED
    planted.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        try:
            return read_round(path, limit=10**8)
        finally:
            assert not planted.exists(), "code in the file was run"


def _npz(**arrays: object) -> Callable[[Path], object]:
    return lambda path: np.savez(path, **arrays)  # type: ignore[arg-type]


def _rounds() -> Iterator[Fault]:
    good = round_of()

    def row(fault: str, name: str, message: str, write: Callable[[Path], object]) -> Fault:
        return refused("input", "score", fault, message, partial(_read, name, write))

    yield row("no such file", "a.npz", "cannot read", lambda _: None)
    yield row("empty .npz", "a.npz", "must be a .npz file", lambda p: p.write_bytes(b""))
    yield row("text for .npz", "a.npz", "must be a .npz file", lambda p: p.write_text("hello"))
    yield row("another ending", "a.csv", "must end in", lambda p: p.write_text("1,2"))
    for ending in (".npz", ".npy", ".safetensors", ".pt"):
        yield row(f"a pipe named {ending}", f"a{ending}", "must be a file", os.mkfifo)
        yield row(f"a device without an end named {ending}", f"a{ending}", "must be a file",
                  lambda p: p.symlink_to("/dev/zero"))  # fmt: skip
    yield row("no arrays", "a.npz", "at least one array", lambda p: np.savez(p))
    yield row("object array (a pickle that runs code)", "a.npz", "must hold arrays of numbers",
              _npz(updates=np.array([Evil()], dtype=object)))  # fmt: skip
    yield row("pickle named .npy", "a.npy", "plain arrays",
              lambda p: p.write_bytes(pickle.dumps(Evil())))  # fmt: skip
    yield row("pickle named .pt", "a.pt", "torch.save",
              lambda p: p.write_bytes(pickle.dumps(Evil())))  # fmt: skip

    def torch_evil(path: Path) -> None:
        import torch

        torch.save({"w": Evil()}, path)

    yield row("torch file with code", "a.pt", "nothing that runs code", torch_evil)
    yield row("clients of different lengths", "a.npz", "equally many numbers",
              _npz(alice=good[0], bob=good[1, :-1]))  # fmt: skip
    yield row("integers", "a.npz", "as floats", _npz(updates=np.ones((3, 4), dtype=np.int64)))
    yield row("a name too few", "a.npz", "6 different names",
              _npz(updates=good, clients=np.array(["a", "b"])))  # fmt: skip
    yield row("public vectors that do not fit", "a.npz", "public vectors",
              _npz(updates=good, public=good[0, :-1]))  # fmt: skip

    yield row("thousands of clients in a few bytes", "a.npz", "in pairs must take at most",
              _npz(updates=np.zeros((20_000, 2), dtype=np.float32)))  # fmt: skip

    def bomb(path: Path) -> None:
        np.savez_compressed(path, updates=np.zeros((2, 2**24), dtype=np.float64))

    yield row("archive that unpacks to 268 MB", "a.npz", "at most 0.1 GB", bomb)

    def lying(path: Path) -> None:
        np.savez(path, updates=good)
        content = path.read_bytes().replace(b"(6, 400), }  ", b"(9999, 400), ")
        path.write_bytes(content)

    yield row("shape that lies", "a.npz", "must", lying)

    def outside(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("../../planted.npy", b"hello")

    yield row("archive with a path outside its folder", "a.npz", "plain arrays", outside)

    def encrypted(path: Path) -> None:
        np.savez(path, updates=good)
        content = bytearray(path.read_bytes())
        content[6] |= 1
        content[content.rindex(b"PK\x01\x02") + 8] |= 1
        path.write_bytes(bytes(content))

    yield row("encrypted archive", "a.npz", "plain arrays", encrypted)
    for size in (0, 4, 8, 100):
        yield row(f"safetensors of {size} bytes", "a.safetensors", "must be a safetensors file",
                  lambda p, size=size: p.write_bytes(b"\xff" * size))  # fmt: skip

    def huge_header(path: Path) -> None:
        path.write_bytes(struct.pack("<Q", 2**62) + b"{}")

    yield row("safetensors header of 2^62 bytes", "a.safetensors", "safetensors file", huge_header)


def _score_command() -> Iterator[Fault]:
    def scored(write: Callable[[Path], object], *options: object, status: int = 2) -> str:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.npz"
            write(path)
            end = command("score", path, "--resamples", 0, "--seed", 1, *options)
        end.check_named()
        assert end.status == status, f"ended with {end.status}: {end.complaint}"
        assert "\x1b" not in end.output + end.complaint, "a name reached the terminal raw"
        return end.complaint.strip() or f"ended with {end.status}"

    good = round_of()
    bad = good.copy()
    bad[2, 3] = np.nan
    yield survived("input", "score", "NaN in a client's update", "named, with the client",
                   partial(scored, _npz(updates=bad)))  # fmt: skip
    yield survived("input", "score", "one client", "named error",
                   partial(scored, _npz(updates=good[:1])))  # fmt: skip
    escape = _npz(**{"a\x1b[2J": good[0], "b": good[1]})
    yield survived("input", "score", "client with a terminal escape in its name",
                   "scored, name made harmless", partial(scored, escape, status=0))  # fmt: skip
    yield survived("input", "score", "client named like a formula", "scored",
                   partial(scored, _npz(**{"=1+1": good[0], "b": good[1]}), status=0))  # fmt: skip
    yield survived("input", "score", "float16 updates", "scored",
                   partial(scored, _npz(updates=good.astype(np.float16)), status=0))  # fmt: skip
    yield survived("input", "score", "table to a folder that is a file", "named error",
                   partial(scored, _npz(updates=good), "--csv", "/dev/null/a.csv"))  # fmt: skip


def _images() -> Iterator[Fault]:
    def row(name: str, message: str, content: bytes) -> Fault:
        return refused("input", "data", name, message, partial(decode_idx, content, "images"))

    good = encode_idx(np.zeros((2, 3, 4), dtype=np.uint8))
    yield row("IDX: empty", "must start with an IDX header", b"")
    yield row("IDX: other numbers than bytes", "unsigned bytes", b"\x00\x00\x0d\x03" + good[4:])
    yield row("IDX: header cut", "sizes in its header", good[:9])
    yield row("IDX: a byte too few", "bytes long", good[:-1])
    yield row("IDX: a byte too many", "bytes long", good + b"x")
    yield row("IDX: 255 dimensions", "1 to 3 dimensions", b"\x00\x00\x08\xff" + bytes(4 * 255))
    yield row("IDX: sizes that overflow", "bytes long",
              b"\x00\x00\x08\x03" + struct.pack(">3I", 2**31, 2**31, 4) + b"x")  # fmt: skip

    def packed(content: bytes) -> object:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "train-images-idx3-ubyte.gz").write_bytes(content)
            return read_folder(Path(folder))

    whole = gzip.compress(good)
    yield refused("input", "data", "IDX: gzip cut", "cannot be read", partial(packed, whole[:-9]))
    yield refused("input", "data", "IDX: gzip damaged", "cannot be read",
                  partial(packed, whole[:12] + b"\xff\xff" + whole[14:]))  # fmt: skip
    yield refused("input", "data", "IDX: no gzip", "cannot be read", partial(packed, b"hello"))


def _words() -> Iterator[Fault]:
    for text, message in {
        "20": "must read like",
        "20% nobody": "behaviour must be one of",
        "120% zero": "at most 100",
        "60% zero, 60% stale": "sum to at most 100%",
        "nan% zero": "must read like",
        "1.2.3% zero": "must be a number",
        "10% noise:lots": "must be a number",
        "10% noise:nan": "finite",
        "10% noise:-1": "at least 0",
        "10% noise:1:2:3": "takes at most",
        "10% zero\x00": "behaviour must be one of",
    }.items():
        yield refused("input", "simulate", f"behaviours {text!r}", message,
                      partial(Assignment.parse, text))  # fmt: skip
    for text, message in {
        "": "must be one of",
        "positive": "cannot be built",
        "positive:budget": "name=value",
        "positive:budget=lots": "must be a number",
        "positive:budget=-1": "must not be negative",
        "positive:budget=1e400": "budget",
        "positive:money=3": "cannot be built",
    }.items():
        yield refused("input", "simulate", f"reward {text!r}", message, partial(parse_reward, text))

    def option(*options: object) -> str:
        end = command("simulate", "--dataset", "digits", *options)
        end.check_named()
        assert end.status == 2, f"ended with {end.status}"
        return " ".join(end.complaint.split())

    for options in (
        ("--users", 1), ("--users", 4, "--per-round", 5), ("--rounds", 0), ("--seed", -1),
        ("--lr", "nan"), ("--epochs", 0), ("--model", "gpt"), ("--dataset", "imagenet"),
        ("--method", "magic"), ("--rule", "krum"), ("--alpha", -1), ("--resume",),
        ("--users", 5000), ("--data-dir", "/nonexistent", "--dataset", "mnist"),
    ):  # fmt: skip
        yield survived("input", "simulate", " ".join(map(str, options)), "a named error",
                       partial(option, *options))  # fmt: skip


def _reports() -> Iterator[Fault]:
    def reported(write: Callable[[Path], object], status: int, text: str = "") -> str:
        with tempfile.TemporaryDirectory() as folder:
            path, page = Path(folder) / "run.ledger", Path(folder) / "page.html"
            write(path)
            end = command("report", path, "-o", page)
            end.check_named()
            assert end.status == status, f"ended with {end.status}: {end.complaint}"
            content = page.read_text(encoding="utf-8") if page.exists() else ""
        assert text in content, f"the page does not say {text!r}"
        assert "<script>alert" not in content, "a name became code"
        said = " ".join(end.complaint.split())
        return said or f"a page of {len(content)} characters"

    def ledger(rounds: int, name: str = "client-") -> Callable[[Path], None]:
        def write(path: Path) -> None:
            with Ledger.open(path) as opened:
                opened.start_run({}, "1")
                for number in range(1, rounds + 1):
                    opened.append(record(number, name=name))

        return write

    def tampered(path: Path) -> None:
        import sqlite3
        from contextlib import closing

        ledger(3)(path)
        with closing(sqlite3.connect(path)) as connection:
            guard = "name = 'scores_refuse_update'"
            (sql,) = connection.execute(f"SELECT sql FROM sqlite_master WHERE {guard}").fetchone()
            connection.execute("DROP TRIGGER scores_refuse_update")
            connection.execute("UPDATE scores SET reward = 99 WHERE sequence = 3")
            connection.execute(sql)
            connection.commit()

    def unguarded(path: Path) -> None:
        import sqlite3
        from contextlib import closing

        ledger(3)(path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TRIGGER scores_refuse_update")
            connection.commit()

    yield survived("storage", "report", "no such ledger", "named error",
                   partial(reported, lambda _: None, 2))  # fmt: skip
    yield survived("storage", "report", "not a ledger", "named error",
                   partial(reported, lambda p: p.write_bytes(b"hello" * 999), 2))  # fmt: skip
    yield survived("storage", "report", "a ledger without rounds", "a page, or a named error",
                   partial(_either, partial(reported, ledger(0))))  # fmt: skip
    noticed = partial(reported, tampered, 0, "the content is not what was recorded")
    yield survived("storage", "report", "a ledger that was tampered with", "the page says so",
                   noticed)  # fmt: skip
    yield survived("storage", "report", "a ledger without its guards", "named error",
                   partial(reported, unguarded, 2))  # fmt: skip
    script = ledger(2, "</script><script>alert(1)</script>")
    yield survived("input", "report", "client whose name is a script", "a page, nothing runs",
                   partial(reported, script, 0))  # fmt: skip
    yield survived("input", "report", "a round of one client", "a page",
                   partial(reported, ledger(1), 0))  # fmt: skip

    def folder(content: str) -> Callable[[Path], None]:
        def write(path: Path) -> None:
            path.mkdir()
            (path / "rounds.csv").write_text(content)
            (path / "clients.csv").write_text(content)

        return write

    yield survived("storage", "report", "a folder without results", "named error",
                   partial(reported, Path.mkdir, 2))  # fmt: skip
    yield survived("storage", "report", "results that are no results", "a page or a named error",
                   partial(_either, partial(reported, folder("a,b\n1,x\n"))))  # fmt: skip


def _either(call: Callable[[int], str]) -> str:
    try:
        return call(0)
    except AssertionError:
        return call(2)
