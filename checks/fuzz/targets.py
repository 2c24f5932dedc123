"""One function per parser of outside bytes: it may return or raise one of fedmerit's errors.

Everything else that comes out, and memory beyond a fixed bound, is a finding.
"""

import contextlib
import gzip
import io
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedmerit.behaviours import Assignment
from fedmerit.cli.records.ledger import _moment
from fedmerit.errors import FedMeritError
from fedmerit.incentive.registry import parse_reward
from fedmerit.ledger import Ledger, SigningKey, check_statement, read_head, read_log
from fedmerit.ledger.file.reading import parse_hash
from fedmerit.ledger.proof.heads import to_json as head_text
from fedmerit.ledger.proof.statement import read_json, to_json
from fedmerit.reading import read_round
from fedmerit.report.source import open_source
from fedmerit.simulation.checkpoint import load_checkpoint
from fedmerit.simulation.clicks.events import Events
from fedmerit.simulation.clicks.kuairand import read_kuairand
from fedmerit.simulation.clicks.log import build_log
from fedmerit.simulation.clicks.movielens import read_ratings
from fedmerit.simulation.clicks.taobao import read_display_ads, read_user_behavior
from fedmerit.simulation.data.cache import restore
from fedmerit.simulation.data.idx import decode_idx, read_folder

LIMIT = 10**7
Target = Callable[[bytes], object]


def _with_file(name: str, use: Callable[[Path], object]) -> Target:
    def target(content: bytes) -> object:
        with tempfile.TemporaryDirectory(dir=_fast()) as folder:
            path = Path(folder) / name
            path.write_bytes(content)
            return use(path)

    return target


def _fast() -> str | None:
    """Return a folder in memory, where there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _ledger(path: Path) -> object:
    with Ledger.open(path, read_only=True) as ledger:
        checked = ledger.verify()
        if checked.ok:
            return list(ledger.rounds()), ledger.runs(), ledger.payouts(), ledger.summaries()
    return checked


def _key(path: Path) -> object:
    path.chmod(0o600)  # or it warns
    return SigningKey.load(path)


def _results(path: Path) -> object:
    rounds, _, clients = path.read_bytes().partition(b"\n\n")
    path.write_bytes(rounds)
    (path.parent / "clients.csv").write_bytes(clients)
    return open_source(path.parent)


def _words(parse: Callable[[str], object]) -> Target:
    return lambda content: parse(content.decode("utf-8", "surrogateescape"))


def _round(path: Path) -> object:
    return read_round(path, limit=LIMIT)


def _clicks(read: Callable[[Path], Events], **others: bytes) -> Callable[[Path], object]:
    """Read a click log whose `others` files are sound, and cut it into clients."""

    def use(path: Path) -> object:
        for name, content in others.items():
            (path.parent / f"{name}.csv").write_bytes(content)
        return build_log("fuzzed", read(path.parent))

    return use


def _ratings(content: bytes) -> object:
    text = content.decode("utf-8", "replace")
    return read_ratings(text, _MOVIES.decode(), "ratings", "movies")


_VIDEOS = b"video_id,tag\n1,5\n2,6\n"
_IMPRESSIONS = b"user_id,video_id,time_ms,is_click,tab\n" + b"".join(
    b"7,%d,%d,%d,1\n" % (1 + i % 2, 1000 + i, i % 3 == 0) for i in range(25)
)
_ADS = b"adgroup_id,cate_id\n1,5\n2,6\n"
_SAMPLE = b"user,time_stamp,adgroup_id,pid,nonclk,clk\n" + b"".join(
    b"7,%d,%d,front,%d,%d\n" % (1000 + i, 1 + i % 2, i % 3 != 0, i % 3 == 0) for i in range(25)
)
_BEHAVIOUR = b"".join(b"7,%d,5,pv,%d\n" % (1 + i % 4, 1000 + i) for i in range(25))
_MOVIES = b"item_id:token\tgenre:token\nHeat\tCrime Drama\n"
_RATED = b"user_id:token\titem_id:token\trating:float\ttimestamp:float\na\tHeat\t4\t978300760\n"

TARGETS: dict[str, Target] = {
    "npz": _with_file("a.npz", _round),
    "npy": _with_file("a.npy", _round),
    "safetensors": _with_file("a.safetensors", _round),
    "torch": _with_file("a.pt", _round),
    "idx": lambda content: decode_idx(content, "images"),
    "gzip": _with_file("train-images-idx3-ubyte.gz", lambda path: read_folder(path.parent)),
    "cache": _with_file("mnist.npz", restore),
    "checkpoint": _with_file("checkpoint.npz", lambda path: load_checkpoint(path, "0" * 64)),
    "ledger": _with_file("a.ledger", _ledger),
    "key": _with_file("key.pem", _key),
    "head": _with_file("head.json", read_head),
    "heads": _with_file("heads.log", read_log),
    "statement": lambda content: check_statement(read_json(content)),
    "results": _with_file("rounds.csv", _results),
    "impressions": _with_file(
        "log_standard_1.csv", _clicks(read_kuairand, video_features_basic_pure=_VIDEOS)
    ),
    "impressions-gzip": _with_file(
        "log_standard_1.csv.gz", _clicks(read_kuairand, video_features_basic_pure=_VIDEOS)
    ),
    "videos": _with_file(
        "video_features_basic_pure.csv", _clicks(read_kuairand, log_standard_1=_IMPRESSIONS)
    ),
    "watched": _with_file(
        "user_history_1.csv",
        _clicks(read_kuairand, log_standard_1=_IMPRESSIONS, video_features_basic_pure=_VIDEOS),
    ),
    "ads": _with_file("raw_sample.csv", _clicks(read_display_ads, ad_feature=_ADS)),
    "page-views": _with_file("UserBehavior.csv", _clicks(read_user_behavior)),
    "ratings": _ratings,
    "behaviours": _words(Assignment.parse),
    "reward": _words(parse_reward),
    "hash": _words(parse_hash),
    "moment": _words(_moment),
}


def run(name: str, content: bytes) -> None:
    """Give `content` to a parser; whatever is not one of fedmerit's errors comes out."""
    with contextlib.suppress(FedMeritError):
        TARGETS[name](content)


def seeds(name: str) -> list[bytes]:
    """Return valid inputs to start from."""
    return _SEEDS[name]() if name in _SEEDS else [b""]


def _saved(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _packed(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _shown(what: str) -> Callable[[], list[bytes]]:
    """Return what others are shown of a small ledger: its head, a log of heads, a statement."""

    def make() -> list[bytes]:
        from checks.faults.records import some_ledger

        with some_ledger(2) as path, Ledger.open(path, read_only=True) as ledger:
            if what == "statement":
                return [to_json(ledger.statement("client-1")).encode()]
            if what == "head":
                return [head_text(ledger.signed_head()).encode()]
            ledger.anchor(path.with_name("heads.log"))
            return [path.with_name("heads.log").read_bytes()]

    return make


def _npy() -> list[bytes]:
    buffer = io.BytesIO()
    np.save(buffer, np.ones((2, 5), dtype=np.float32))
    return [buffer.getvalue()]


def _safetensors() -> list[bytes]:
    from safetensors.numpy import save

    return [save({"alice": np.ones(5, np.float32), "bob": np.ones(5, np.float32)})]


def _torch() -> list[bytes]:
    import torch

    buffer = io.BytesIO()
    torch.save({"alice": torch.ones(5)}, buffer)
    return [buffer.getvalue()]


def _checkpoint() -> list[bytes]:
    names = np.array(["a"], dtype=np.str_)
    return [
        _saved(
            version=np.int64(2), fingerprint=np.str_("0" * 64), round=np.int64(1),
            norms=np.ones(1), older=np.int64(2), remembered=np.int64(2),
            models=np.ones((2, 3), np.float32), reporters=names,
            reports=np.ones((1, 3), np.float32), trusted=names, trust=np.ones(1),
            sizes=np.ones(2, np.int64),
        )
    ]  # fmt: skip


def _written_results() -> list[bytes]:
    from fedmerit.flags import Flag, Kind
    from fedmerit.simulation.results import ResultFiles
    from fedmerit.types import ClientRecord, Rejection, RoundRecord

    clients = (ClientRecord("a", 1.0, 1.0), ClientRecord("b", 0.0, 0.0, flag=Flag(Kind.COPY)))
    with tempfile.TemporaryDirectory() as folder:
        files = ResultFiles(Path(folder))
        files.create("auc")
        files.append(RoundRecord(1, clients, (Rejection("c", "x"),), {"auc": 0.5, "loss": 1.0}))
        return [b"\n".join(path.read_bytes() for path in files.paths)]


def _written_ledger() -> list[bytes]:
    from fedmerit.types import ClientRecord, RoundRecord

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.ledger"
        with Ledger.open(path) as ledger:
            ledger.start_run({}, "1")
            ledger.append(RoundRecord(1, (ClientRecord("a", 1.0, 1.0, reward=3),)))
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
        return [path.read_bytes()]


def _idx() -> list[bytes]:
    from fedmerit.simulation.data.idx import encode_idx

    return [encode_idx(np.zeros((2, 2, 2), np.uint8)), encode_idx(np.zeros(3, np.uint8))]


def _gzip() -> list[bytes]:
    return [gzip.compress(content) for content in _idx()]


_ROUND = {"updates": np.ones((2, 5), np.float32), "clients": np.array(["a", "b"])}
_PIXELS = {
    **dict.fromkeys(("train_x", "test_x"), np.zeros((2, 4, 4), np.uint8)),
    **dict.fromkeys(("train_y", "test_y"), np.zeros(2, np.uint8)),
    "sha256": np.zeros(32, np.uint8),
}
_SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "npz": lambda: [_saved(**_ROUND), _packed(**_ROUND)],
    "npy": _npy,
    "safetensors": _safetensors,
    "torch": _torch,
    "idx": _idx,
    "gzip": _gzip,
    "cache": lambda: [_packed(**_PIXELS)],
    "checkpoint": _checkpoint,
    "ledger": _written_ledger,
    "head": _shown("head"),
    "heads": _shown("heads"),
    "statement": _shown("statement"),
    "results": _written_results,
    "impressions": lambda: [_IMPRESSIONS],
    "impressions-gzip": lambda: [gzip.compress(_IMPRESSIONS, mtime=0)],
    "videos": lambda: [_VIDEOS],
    "watched": lambda: [b"user_id,last_time_ms,long_view_seq\n7,990,1 2 2\n"],
    "ads": lambda: [_SAMPLE],
    "page-views": lambda: [_BEHAVIOUR],
    "ratings": lambda: [_RATED],
    "behaviours": lambda: [b"20% random-update, 10% noise:0.01"],
    "reward": lambda: [b"positive:budget=10000,minimum=100"],
    "hash": lambda: [b"ab" * 32],
    "moment": lambda: [b"2024-03-01T10:00:00+02:00"],
}
