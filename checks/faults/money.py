"""Pay: lists that lose or repeat, statements that lie, rules that cannot be met, hostile files."""

import io
import json
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from checks.faults.base import Fault, refused, survived
from checks.faults.ledger import record
from checks.faults.records import append_to, intruder, some_ledger
from fedmerit.errors import FedMeritError
from fedmerit.incentive.registry import parse_reward
from fedmerit.ledger import Ledger, SigningKey, check_statement
from fedmerit.ledger.export import harmless
from fedmerit.ledger.proof.statement import read_json, to_json
from fedmerit.reading import read_round
from fedmerit.server.rules import RoundRules
from fedmerit.types import ClientRecord, RoundRecord


def faults() -> Iterator[Fault]:
    """Yield the rows."""
    yield from _lists()
    yield from _statements()
    yield from _rules()
    yield from _files()
    yield from _cells()


def _lists() -> Iterator[Fault]:
    def two_runs(path: Path) -> list[str]:
        heads = []
        with Ledger.open(path) as ledger:
            ledger.start_run({}, "1")
            for run, number in ((1, 4), (2, 1), (1, 5)):
                ledger.resume_run(run)
                ledger.append(record(number))
                heads.append(str(ledger.head))
        return heads

    def chosen(choose: Callable[[list[str]], Mapping[str, Any]]) -> object:
        with some_ledger() as path:
            heads = two_runs(path)
            with Ledger.open(path, read_only=True) as ledger:
                return ledger.pay_list(**choose(heads))

    stretch = "must be one stretch of rounds"
    choices = {
        "run 1, between whose rounds one of run 2 lies": (lambda _: {"run": 1}, stretch),
        "run 2 after a head before run 1": (lambda h: {"run": 1, "after": h[0]}, stretch),
        "run 2, and run 1 was not paid": (lambda _: {"run": 2}, stretch),
        "up to an empty head": (lambda _: {"until": ""}, "64 hexadecimal digits"),
        "up to a head before the beginning": (
            lambda h: {"after": h[1], "until": h[0]},
            "until must be an entry behind",
        ),
        "after a head that is not in the chain": (
            lambda _: {"after": "0" * 64},
            "is not in the ch",
        ),
        "after what is no hash": (lambda _: {"after": "yesterday"}, "64 hexadecimal digits"),
        "up to a head that is not in the chain": (
            lambda _: {"until": "0" * 64},
            "hash must be that",
        ),
    }
    for name, (choose, message) in choices.items():
        yield refused("input", "ledger pay", name, message, partial(chosen, choose))

    def added(*, named: bool) -> object:
        key = SigningKey.generate()
        with some_ledger(key=key) as path:
            with intruder(path) as ledger:
                ledger.start_run({}, "1")
                ledger.append(RoundRecord(1, (ClientRecord("mallory", 1.0, 1.0, reward=10**9),)))
            with Ledger.open(path, read_only=True) as ledger:
                return ledger.pay_list(public_key=key.public_key if named else None)

    yield refused(
        "conduct",
        "ledger pay",
        "an unsigned run in a signed ledger, no key given",
        "must all be signed with keys that you name",
        partial(added, named=False),
    )
    yield refused(
        "conduct",
        "ledger pay",
        "an unsigned run in a signed ledger, the key given",
        "not signed with the given key",
        partial(added, named=True),
    )

    def again() -> str:
        with some_ledger() as path:
            with Ledger.open(path, read_only=True) as ledger:
                first = ledger.pay_list()
            append_to(path, 4)
            with Ledger.open(path, read_only=True) as ledger:
                assert ledger.pay_list(until=first.head) == first, "another list"
                assert ledger.pay_list(after=first.head).rounds == 1, "a round lost or repeated"
            return f"list {first.id[:8]} again"

    yield survived(
        "time", "ledger pay", "the same list after the ledger grew", "the same id", again
    )

    def beside() -> str:
        with some_ledger() as path, Ledger.open(path) as writer:
            writer.resume_run(1)
            with Ledger.open(path, read_only=True) as ledger:
                lists = []
                for number in range(4, 9):
                    writer.append(record(number))
                    lists.append(ledger.pay_list())
            assert [found.total for found in lists] == [60 * (3 + i) for i in range(1, 6)]
            return f"{len(lists)} lists, each of its own head"

    yield survived("process", "ledger pay", "beside a writer", "what is paid was verified", beside)


def _statements() -> Iterator[Fault]:
    key = SigningKey.generate()
    with some_ledger(key=key) as path, Ledger.open(path, read_only=True) as ledger:
        good = to_json(ledger.statement("client-1"))
        other = to_json(ledger.statement("client-2"))

    def checked(change: Callable[[dict[str, Any]], object], text: str = good) -> object:
        statement = dict(read_json(text.encode()))
        change(statement)
        found = check_statement(statement, public_key=key.public_key)
        if found.problem is not None:
            raise FedMeritError(found.problem)
        return found.total

    def put(*place: Any) -> Callable[[dict[str, Any]], None]:
        def change(statement: dict[str, Any]) -> None:
            target: Any = statement
            for step in place[:-2]:
                target = target[step]
            target[place[-2]] = place[-1]

        return change

    changes = {
        "more pay": put("rows", 0, "values", 7, 999),
        "another score": put("rows", 0, "values", 2, 1.0),
        "a row twice as long": put("rows", 0, "values", [1] * 40),
        "no proof": put("rows", 0, "proof", []),
        "a proof of something else": put("rows", 0, "proof", ["00" * 32] * 3),
        "another leaf": put("rows", 0, "leaf", 0),
        "a leaf that is not there": put("rows", 0, "leaf", 99),
        "another salt": put("rows", 0, "salt", "00" * 16),
        "another table": put("rows", 0, "table", "x"),
        "a row of no entry": put("rows", 0, "sequence", 99),
        "a row of a run": put("rows", 0, "sequence", 1),
        "an entry left out": lambda s: s["entries"].pop(1),
        "the newest left out": lambda s: s["entries"].pop(),
        "another root": put("entries", 1, "root", "00" * 32),
        "another time": put("entries", 1, "recorded_at", 7),
        "another run": put("entries", 1, "run", 2),
        "another round": put("entries", 1, "round", 2),
        "another key": put("entries", 0, "public_key", "00" * 32),
        "no signature of a round": lambda s: s["entries"][1].pop("signature"),
        "another head": put("head", "hash", "00" * 32),
        "no head": put("head", None),
        "counters of another": put("head", "rounds", 7),
        "no ledger": put("ledger", None),
        "another ledger": put("ledger", "00" * 32),
        "another client": put("client", "client-2"),
        "entries that are none": put("entries", [None]),
        "rows that are none": put("rows", "x"),
        "numbers as text": put("entries", 1, "sequence", "2"),
    }
    for name, change in changes.items():
        yield refused("conduct", "statement verify", name, "", partial(checked, change))
    yield refused(
        "conduct",
        "statement verify",
        "somebody else's rows",
        "that of another client",
        partial(checked, put("client", "client-1"), other),
    )

    def alone() -> str:
        for name in ("client-0", "client-2", "somebody", "accuracy"):
            assert name not in good, f"{name} is in it"
        return f"{len(json.loads(good)['rows'])} rows of one client"

    yield survived("input", "statement", "what one client is shown", "nothing of others", alone)


def _rules() -> Iterator[Fault]:
    impossible = {
        "positive:budget=5,floor=3,cap=2": "cap must be at least the floor",
        "positive:budget=50,excluded-pay=3,cap=2": "cap must be at least the excluded_pay",
        "positive:budget=50,floor=3,minimum=5": "minimum must be at most the floor",
        "positive:budget=50,excluded-pay=3,minimum=5": "minimum must be at most the excluded_pay",
        "positive:budget=50,cap=3,minimum=5": "minimum must be at most the cap",
        "positive:budget=5,floor=6": "budget must be at least the floor",
        "softmax:budget=5,minimum=6": "budget must be at least the minimum",
        "fee-plus-bonus:fee=9,budget=5,cap=8": "cap must be at least the fee",
        "fee-plus-bonus:fee=3,budget=5,minimum=4": "minimum must be at most the fee",
        "fee-plus-bonus:fee=3,budget=5,floor=9": "budget must be at least the floor",
        "affine:base=1,slope=1,cap=3,minimum=5": "minimum must be at most the cap",
        "wage:wage=5,minimum=50": "minimum must be at most wage times most",
        f"wage:wage={2**63 - 1}": "wage times most, without a cap, must be at most",
        "positive:budget=100,budget=5": "must be given once",
    }
    for text, message in impossible.items():
        yield refused("input", "reward", text, message, partial(parse_reward, text))

    def crowded(text: str, clients: int, others: int) -> str:
        rule = parse_reward(text)
        out = np.arange(clients + others) >= clients
        ids = [f"c{i}" for i in range(clients + others)]
        paid = rule.within(clients, others).pay(np.ones(clients + others), ids, out)
        budget = rule.budget + getattr(rule, "fee", 0) * clients  # type: ignore[attr-defined]
        assert paid.total <= budget and paid.unspent >= 0, "more than there is"  # noqa: PT018
        assert max(paid.amounts[clients:], default=0) <= min(paid.amounts[:clients]), (
            "who did not work"
        )
        return f"{paid.total} of {budget}"

    for text in (
        "positive:budget=100,floor=10,excluded-pay=5",
        "softmax:budget=100,floor=20",
        "fee-plus-bonus:fee=5,floor=30,budget=100",
    ):
        for clients, others in ((5, 0), (50, 0), (5, 500), (500, 500)):
            yield survived(
                "conduct",
                "reward",
                f"{text} for {clients} clients and {others} excluded",
                "paid as far as the budget goes",
                partial(crowded, text, clients, others),
            )
    for settings, message in (
        ({"vesting": -1}, "vesting must be at least 0"),
        ({"registered": "ann"}, "registered must be a collection"),
        ({"vesting": 2, "reward": "positive:budget=9,excluded_pay=1"}, "vesting needs a reward"),
    ):
        yield refused("input", "rules", str(settings), message, partial(RoundRules, **settings))


def _npy(shape: tuple[int, ...], kind: str, content: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + content


def _files() -> Iterator[Fault]:
    def read(**members: bytes) -> object:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "round.npz"
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
                for member, content in members.items():
                    file.writestr(f"{member}.npy", content)
            return read_round(path, limit=10**8).clients[:3]

    two = _npy((2, 3), "<f4", bytes(24))
    hostile: dict[str, tuple[str, dict[str, bytes]]] = {
        "a billion clients without parameters": (
            "at most 100000 clients",
            {"updates": _npy((10**9, 0), "<f4")},
        ),
        "clients without parameters": ("must hold parameters", {"updates": _npy((5, 0), "<f4")}),
        "200,000 clients": (
            "at most 100000 clients",
            {"updates": _npy((200_000, 1), "<f2", bytes(400_000))},
        ),
        "200,000 names": (
            "at most 100000 clients",
            {"updates": two, "clients": _npy((200_000,), "<U1", bytes(800_000))},
        ),
        "a negative shape": (
            "a shape that there is",
            {"updates": _npy((-2, -3), "<f4", bytes(24))},
        ),
        "30,000 public vectors": (
            "at most 256 public vectors",
            {"updates": two, "public": _npy((30_000, 3), "<f4", bytes(360_000))},
        ),
        "a name beyond all code points": (
            "must be text",
            {"updates": two, "clients": _npy((2,), "<U1", b"\xff\xff\xff\x7fa\0\0\0")},
        ),
        "a name with half a surrogate": (
            "valid Unicode",
            {"updates": two, "clients": _npy((2,), "<U1", b"\0\xd8\0\0a\0\0\0")},
        ),
        "a name of 20,000 letters": (
            "at most 10000 letters",
            {
                "updates": two,
                "clients": _npy((2,), "<U20000", b"a\0\0\0" * 20_000 + b"b\0\0\0" * 20_000),
            },
        ),
        "layers that are floats": (
            "must be integers",
            {"updates": two, "layers": _npy((3,), "<f4", bytes(12))},
        ),
        "layers that are text": (
            "must be integers",
            {"updates": two, "layers": _npy((3,), "<U1", bytes(12))},
        ),
        "past the limit when unpacked": (
            "at most 0.1 GB together",
            {"updates": _npy((100, 300_000), "<f4", bytes(120_000_000))},
        ),
    }
    for name, (message, members) in hostile.items():
        yield refused("input", "score", f"a file with {name}", message, partial(read, **members))


def _cells() -> Iterator[Fault]:
    def written(name: str) -> str:
        shown = str(harmless(name))
        assert shown[0] == "'" and "\x00" not in shown, "it would run"  # noqa: PT018
        return repr(shown)

    for name in (
        "=1+1",
        "+1",
        "-1",
        "@x",
        "\n=1",
        " =1",
        "\t=1",
        "\r=1",
        '"=1"',
        "'=1",
        "\xa0=1",
        "\ufeff=1",
        "\u2028=1",
        "\x00=1",
        "\uff1d1",
        " \"' =1",
    ):
        yield survived(
            "input",
            "export",
            f"client called {name!r}",
            "quoted for spreadsheets",
            partial(written, name),
        )
