"""Planted: what somebody puts in the place of a file, or under one that is open."""

import os
import sqlite3
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from checks.faults.base import Fault, refused, survived
from checks.faults.ledger import record
from checks.faults.records import append_to, some_ledger
from fedmerit import Server
from fedmerit.disk.files import whole_file
from fedmerit.errors import FedMeritError
from fedmerit.incentive.registry import parse_reward
from fedmerit.ledger import Ledger, SigningKey, append_head, check_statement, read_head, read_log
from fedmerit.ledger.export import harmless
from fedmerit.reading import read_round
from fedmerit.server.state import read_state, write_state

_NOTE = "run.ledger.lock"


def faults() -> Iterator[Fault]:
    """Yield the rows."""
    yield from _places()
    yield from _raw_bytes()
    yield from _statements()
    yield from _heads()
    yield from _arrays()
    yield from _states()
    yield from _amounts()


def _places() -> Iterator[Fault]:
    def note(plant: Callable[[Path, Path], object]) -> str:
        with some_ledger() as path:
            precious = path.with_name("precious.txt")
            precious.write_text("mine")
            path.with_name(_NOTE).unlink()
            plant(path.with_name(_NOTE), precious)
            append_to(path, 4)
            assert precious.read_text() == "mine", "another file was written to"
            with Ledger.open(path, read_only=True) as ledger:
                assert ledger.verify().rounds == 4, "the round is not there"
        return "written, and nothing else"

    plants: dict[str, Callable[[Path, Path], object]] = {
        "a link to another file": lambda at, precious: at.symlink_to(precious),
        "another name of another file": lambda at, precious: os.link(precious, at),
        "a pipe": lambda at, _: os.mkfifo(at),
        "a device without an end": lambda at, _: at.symlink_to("/dev/zero"),
        "a folder": lambda at, _: at.mkdir(),
    }
    for name, plant in plants.items():
        yield survived("storage", "ledger", f"in place of a writer's note: {name}",
                       "written, and nothing else is", partial(note, plant))  # fmt: skip

    def beside(ending: str) -> object:
        with some_ledger() as path:
            os.mkfifo(path.with_name(path.name + ending))
            return Ledger.open(path, read_only=True)

    for ending in ("-wal", "-shm", "-journal"):
        yield refused("storage", "ledger", f"a pipe called {ending} beside it",
                      "must be a file that SQLite wrote", partial(beside, ending))  # fmt: skip

    def over(make: Callable[[Path], object]) -> None:
        with tempfile.TemporaryDirectory() as name:
            target = Path(name) / "out"
            make(target)
            try:
                with whole_file(target) as partial_file:
                    partial_file.write_text("a list")
            except OSError as error:
                raise FedMeritError(str(error)) from error

    def ledger_at(path: Path) -> None:
        Ledger.open(path).close()

    yield refused("storage", "ledger pay", "--out names a ledger", "it is a ledger",
                  partial(over, ledger_at))  # fmt: skip
    yield refused("storage", "ledger pay", "--out names a private key", "it is a private key",
                  partial(over, SigningKey.generate().save))  # fmt: skip

    def trigger() -> None:
        with some_ledger() as path, Ledger.open(path) as ledger:
            ledger.resume_run(1)
            with closing(sqlite3.connect(path)) as connection:
                connection.execute(
                    "CREATE TRIGGER more AFTER INSERT ON entries BEGIN "
                    "INSERT INTO clients VALUES (99, 'mallory'); END"
                )
            ledger.append(record(4))

    yield refused("storage", "ledger", "a trigger planted under an open writer",
                  "trigger more is unknown", trigger)  # fmt: skip
    for version in (-1, 0):

        def other(version: int = version) -> object:
            with some_ledger() as path:
                with closing(sqlite3.connect(path)) as connection:
                    connection.execute(f"PRAGMA user_version = {version}")
                return Ledger.open(path)

        yield refused("storage", "ledger", f"version {version} in a file with tables",
                      "not a fedmerit ledger", other)  # fmt: skip


class _Meanwhile(list[Any]):
    """A list that lets something happen when it is looked at."""

    def __init__(self, items: list[Any], act: Callable[[], object]) -> None:
        super().__init__(items)
        self._act = act

    def __iter__(self) -> Iterator[Any]:
        self._act()
        return super().__iter__()


def _raw_bytes() -> Iterator[Fault]:
    def behind() -> str:
        key, owed, wanted = SigningKey.generate(), 0x12345678, 0x7FFFFFFF
        long = record(1, clients=300)
        paid = tuple(replace(c, reward=owed, label="x" * 400) for c in long.clients)
        with some_ledger(0, key=key) as path:
            log = path.with_name("heads.log")
            with Ledger.open(path, key=key) as ledger:
                ledger.resume_run(1)
                for number in range(1, 41):
                    ledger.append(replace(long, round=number, clients=paid))
                ledger.anchor(log)
            content = path.read_bytes()
            changed = content.replace(owed.to_bytes(4, "big"), wanted.to_bytes(4, "big"))
            with Ledger.open(path, read_only=True) as ledger:
                heads = _Meanwhile(read_log(log), partial(path.write_bytes, changed))
                try:
                    found = ledger.pay_list(public_key=key.public_key, anchors=heads)
                except FedMeritError as error:
                    return f"nothing is paid: {error}"
            assert found.total == 40 * len(paid) * owed, f"{found.total} is paid"
        return "what was verified is paid"

    yield survived("storage", "ledger pay", "bytes of the file changed behind the verification",
                   "what was verified is paid, or nothing", behind)  # fmt: skip


def _statements() -> Iterator[Fault]:
    key = SigningKey.generate()

    def checked(change: Callable[[dict[str, Any], Path], object]) -> int:
        with some_ledger(key=key) as path:
            with Ledger.open(path, read_only=True) as ledger:
                made = ledger.statement("client-1")
            change(made, path)
            found = check_statement(made, public_key=key.public_key)
        if found.problem is not None:
            raise FedMeritError(found.problem)
        return found.total

    def older(statement: dict[str, Any], path: Path, upto: int) -> None:
        with Ledger.open(path, read_only=True) as ledger:
            hashes = {stored.sequence: stored.hash for stored in ledger.history()}
        first = statement["head"]["hash"]
        for entry in statement["entries"][:upto]:
            del entry["version"]
            entry["hash"] = hashes.get(entry["sequence"], first)
        statement["rows"][0]["values"][7] = 10**9

    for upto in (2, 3):
        yield refused("conduct", "statement verify",
                      f"the first {upto} entries passed off as older than proofs", "",
                      partial(checked, partial(older, upto=upto)))  # fmt: skip
    yield refused("conduct", "statement verify", "a row twice", "must be stated once",
                  partial(checked, lambda s, _: s["rows"].append(s["rows"][0])))  # fmt: skip

    def early() -> str:
        with some_ledger(key=key) as path:
            log = path.with_name("heads.log")
            with Ledger.open(path, key=key) as ledger:
                made = ledger.statement("client-1")
                ledger.resume_run(1)
                ledger.append(record(4))
                ledger.anchor(log)
            found = check_statement(made, public_key=key.public_key, anchors=read_log(log))
        assert not any(words.startswith("one ledger") for words in found.proven), found.proven
        return next(words for words in found.open if words.startswith("one ledger"))

    yield survived("conduct", "statement verify", "a log whose heads are all newer",
                   "nothing is said to be proven by it", early)  # fmt: skip


def _heads() -> Iterator[Fault]:
    key, witness = SigningKey.generate(), SigningKey.generate()

    def far(change: Callable[[Any], Any]) -> object:
        with some_ledger(key=key) as path:
            log = path.with_name("witness.log")
            with Ledger.open(path, read_only=True) as ledger:
                ledger.anchor(log, key=witness)
                head = ledger.signed_head()
            ahead = replace(head, sequence=2**62 + 1, rounds=2**62, hash="ab" * 32)
            return append_head(log, change(ahead), key=witness)

    yield refused("conduct", "ledger witness", "a head far ahead with another's signature",
                  "the signature does not hold", partial(far, lambda head: head))  # fmt: skip
    yield refused("conduct", "ledger witness", "a head far ahead, not signed",
                  "must go on being signed",
                  partial(far, lambda h: replace(h, public_key=None, signature=None)))  # fmt: skip

    def to_other(content: bytes) -> object:
        with some_ledger(key=key) as path:
            other = path.with_name("notes.txt")
            other.write_bytes(content)
            with Ledger.open(path, read_only=True) as ledger:
                try:
                    return ledger.anchor(other)
                finally:
                    assert other.read_bytes() == content, "another file was written to"

    yield refused("storage", "ledger anchor", "a file that is no log", "must be a log of heads",
                  partial(to_other, b"notes without an end"))  # fmt: skip

    def unknown() -> object:
        with some_ledger(key=key) as first, some_ledger(key=key) as second:
            log = first.with_name("heads.log")
            with Ledger.open(first, read_only=True) as ledger:
                ledger.anchor(log)
            return Ledger.open(second, key=key, anchor=log)

    yield refused("conduct", "ledger", "written to beside a log that does not know it",
                  "must be known to the log", unknown)  # fmt: skip
    for reader in (read_log, read_head, SigningKey.load):
        yield refused("input", "ledger", f"{reader.__name__} of a device without an end",
                      "it must be a file", partial(reader, Path("/dev/zero")))  # type: ignore[operator]  # fmt: skip


def _header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def _described(shape: str, kind: str = "<f4") -> str:
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}\n"


def _arrays() -> Iterator[Fault]:
    def read(content: bytes, form: int | None = None) -> object:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / ("a.npy" if form is None else "a.npz")
            if form is None:
                path.write_bytes(content)
            else:
                with zipfile.ZipFile(path, "w", form) as archive:
                    archive.writestr("updates.npy", content)
            return read_round(path, limit=10**8)

    long = b"\x93NUMPY\x02\x00" + struct.pack("<I", 10**8) + b" " * 10**8
    contents: dict[str, tuple[str, bytes, int | None]] = {
        "a header of 100 MB in 97 kB": ("at most 10000 bytes", long, zipfile.ZIP_DEFLATED),
        "a header nested too deeply": ("plain arrays", _header("-" * 9000 + "1\n"), None),
        "70 dimensions": ("a shape", _header(_described("(" + "1, " * 70 + ")")) + bytes(4), None),
        "a dimension of 2^62 beside none": ("a shape", _header(_described(f"({2**62}, 0)")), None),
        "texts without letters": ("of numbers", _header(_described("(9,)", "<U0")), None),
        "a truth for a length": ("a shape", _header(_described("(True, 1)")) + bytes(4), None),
        "packed with LZMA": ("stored or deflated", _header(_described("(1,)")), zipfile.ZIP_LZMA),
    }
    for fault, (message, content, form) in contents.items():
        yield refused("input", "score", fault, message, partial(read, content, form))

    def torch_file(pickled: bytes | None, tensor: str) -> object:
        import torch

        with tempfile.TemporaryDirectory() as name:
            good, path = Path(name) / "good", Path(name) / "round" / "a.pt"
            path.parent.mkdir()
            tensors = {
                "plain": torch.zeros(9),
                "meta": torch.empty(9, device="meta"),
                "float8": torch.zeros(9).to(torch.float8_e4m3fn),
                "conjugate": torch.zeros(9, dtype=torch.complex64).conj(),
            }
            torch.save({"w": tensors[tensor]}, good)
            with zipfile.ZipFile(good) as source, zipfile.ZipFile(path, "w") as target:
                for info in source.infolist():
                    mine = pickled is not None and info.filename.endswith("data.pkl")
                    target.writestr(info.filename, pickled if mine else source.read(info))  # type: ignore[arg-type]
            return read_round(path.parent, limit=10**8)

    number = (4 * 10**9).to_bytes(5, "little")
    for called in ("builtins\nbytearray", "torch\nTensor"):
        pickled = b"\x80\x02c" + called.encode() + b"\n\x8a\x05" + number + b"\x85R."
        yield refused("input", "score", f"torch file that asks for 4 GB ({called.split()[1]})",
                      "nothing that runs code", partial(torch_file, pickled, "plain"))  # fmt: skip
    yield refused("input", "score", "torch file with a million empty things", "at most 0.1 GB",
                  partial(torch_file, b"\x80\x02(" + b"}" * 10**6 + b"l.", "plain"))  # fmt: skip
    for kind in ("meta", "float8", "conjugate"):
        yield refused("input", "score", f"torch tensor that NumPy does not have ({kind})",
                      "must hold tensors", partial(torch_file, None, kind))  # fmt: skip


def _states() -> Iterator[Fault]:
    def loaded(place: tuple[Any, ...], value: object) -> object:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "a.state"
            with Server(np.zeros(50), reward="positive:budget=9", seed=1) as server:
                rng = np.random.default_rng(0)
                server.settle(updates={f"client-{i}": rng.normal(size=50) for i in range(4)})
                server.save(path)
            arrays, meta = read_state(path)
            target: Any = meta
            for step in place[:-1]:
                target = target[step]
            target[place[-1]] = value
            write_state(path, arrays, meta)
            return Server.load(path)

    changes: dict[str, tuple[tuple[Any, ...], object]] = {
        "an array of 8 TB": (("arrays", 0, 1), [10**12]),
        "a round that is text": (("round",), "two"),
        "trust that is a list": (("trust",), []),
        "evidence that is nothing": (("wealth",), None),
        "a total that is a mapping": (("totals", "client-0", "score"), {}),
        "a total of 10^30": (("totals", "client-0", "reward"), 10**30),
        "a panel that is a number": (("panel",), 7),
        "a ledger that is a list": (("ledger",), []),
        "a scorer's part that is nothing": (("rules", "scorer", "gate"), None),
        "a record that is true": (("record",), True),
    }
    for fault, (place, value) in changes.items():
        yield refused("storage", "library", f"a saved state with {fault}, and the right digest",
                      "must", partial(loaded, place, value))  # fmt: skip


def _amounts() -> Iterator[Fault]:
    for text in (
        f"positive:budget={2**63}",
        f"identity:slope=1,cap={2**63}",
        f"fee-plus-bonus:budget={2**63 - 1},fee=1",
    ):
        yield refused("input", "simulate", f"reward {text!r}", f"at most {2**63 - 1}",
                      partial(parse_reward, text))  # fmt: skip

    def cell(name: str) -> str:
        shown = str(harmless(name))
        assert shown != name, "it is written as it is"
        return shown

    for before in ("\u3000", "\u200d", "\u202e", "x;", "x|", "x\t", "\u0301"):
        yield survived("input", "ledger export", f"formula behind {before!a}", "quoted",
                       partial(cell, before + "=1+1"))  # fmt: skip
