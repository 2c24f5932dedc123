"""A client checks its own rows with the public key alone, and learns nothing of the others."""

import copy
import json
import shutil
from pathlib import Path

import pytest

from checks.faults.records import intruder
from fedmerit.errors import LedgerCorruptError, LedgerError
from fedmerit.flags import Flag, Kind
from fedmerit.ledger import Ledger, SigningKey, check_statement, read_log
from fedmerit.ledger.proof.encoding import encode_row, encode_value
from fedmerit.ledger.proof.statement import read_json, to_json
from fedmerit.records.columns import CLIENT, VERSION
from fedmerit.types import ClientRecord, RoundRecord
from tests.ledger.builders import make_ledger, make_record
from tests.ledger.test_older_files import THIRD, key_of_the_third, unpacked
from tests.ledger.test_verification import Forger

KEY = SigningKey.generate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_ledger(tmp_path / "run.ledger", rounds=3, key=KEY)
    return tmp_path / "run.ledger"


def statement(path: Path, client: str = "client 1") -> dict:
    with Ledger.open(path, read_only=True) as ledger:
        return read_json(to_json(ledger.statement(client)).encode())


def test_a_client_sees_its_rounds_and_its_pay(path: Path) -> None:
    found = check_statement(statement(path), public_key=KEY.public_key)
    assert found.problem is None
    assert [(s.round, s.score, s.reward) for s in found.rounds] == [
        (number, 0.1 + 0.01 * number, 100) for number in (1, 2, 3)
    ]
    assert (found.total, found.client) == (300, "client 1")
    assert {stated.flag for stated in found.rounds} == {Flag(Kind.OTHER, "no agreement")}
    assert all(stated.proven for stated in found.rounds)
    assert found.head.problem(KEY.public_key) is None


def test_a_rejected_reply_is_stated_with_its_reason(path: Path) -> None:
    found = check_statement(statement(path, "client x"), public_key=KEY.public_key)
    assert [(s.rejected, s.flag, s.reward) for s in found.rounds] == [
        (True, Flag(Kind.ABSENT, "NaN in update"), None)
    ] * 3


def test_nothing_of_anybody_else_is_in_it(path: Path) -> None:
    with Ledger.open(path, key=KEY) as ledger:
        ledger.resume_run(1)
        ledger.append(make_record(4, clients=9))
    told = json.dumps(statement(path, "client 0"))
    for other in ("client 1", "client 2", "client x", "no agreement", "accuracy", "budget"):
        assert other not in told


def changes(value):
    if isinstance(value, bool) or value is None:
        return [7]
    if isinstance(value, int):
        return [value + 1, -value - 1, float(value), str(value)]
    if isinstance(value, float):
        return [value + 1e-12, None, str(value)]
    if isinstance(value, str):
        return [
            value + "0",
            value[:-1] if value else "x",
            ("f" if value[:1] == "0" else "0") + value[1:],
        ]
    return []


def leaves(value, at=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*at, index))
    else:
        yield at, value


def test_every_change_is_found(path: Path) -> None:
    original, tried = statement(path), 0
    for place, value in leaves(original):
        if place[0] in {"software", "fedmerit statement"}:
            continue
        for changed in changes(value):
            forged = copy.deepcopy(original)
            target = forged
            for step in place[:-1]:
                target = target[step]
            target[place[-1]] = changed
            found = check_statement(forged, public_key=KEY.public_key)
            assert not found.ok, (place, value, changed)
            assert found.rounds == ()
            tried += 1
    assert tried > 300


def test_no_row_begins_inside_another_ones_salt(path: Path) -> None:
    """What a client calls itself could hold the bytes of a row that pays it more."""
    names = [column.name for column in CLIENT if column.used_in(VERSION)]
    wanted = {"client": "mallory", "score": 2.0, "weight": 2.0, "flagged": 0, "reward": 0x7F7F7F7F}
    forged = ["scores", 7, *(wanted.get(name) for name in names)]
    at = 2 + names.index("label")
    forged[at] = "x"
    label = b"".join(encode_value(value) for value in forged[: at + 1])
    hidden = encode_row(forged)
    assert hidden.count(label) == 1
    label = hidden[: hidden.index(label) + len(label)]
    with Ledger.open(path, key=KEY) as ledger:
        ledger.start_run({}, "1")
        clients = (ClientRecord("mallory", 0.1, 0.5, reward=1, label=label.decode()),)
        ledger.append(RoundRecord(1, (*clients, ClientRecord("bob", 0.1, 0.5, reward=1))))
        made = read_json(to_json(ledger.statement("mallory")).encode())
    assert check_statement(made, public_key=KEY.public_key).total == 1
    row = dict(made["rows"][0])
    data = bytes.fromhex(row["salt"]) + encode_row((row["table"], *row["values"]))
    row |= {"salt": data[: data.index(label)].hex(), "values": forged[1:]}
    made["rows"].append(row)
    found = check_statement(made, public_key=KEY.public_key)
    assert found.problem.startswith("round 1 of run 2: a salt must have 16 bytes")


@pytest.mark.parametrize("name", ["entries", "rows", "head", "ledger", "client"])
def test_a_statement_that_lacks_a_part_is_none(path: Path, name: str) -> None:
    for value in (None, [], {}, 7, "x", [[]], [{}], [None]):
        forged = statement(path) | {name: value}
        if name == "rows" and value == []:
            continue  # nothing is stated, and nothing is wrong
        assert not check_statement(forged, public_key=KEY.public_key).ok, (name, value)
    without = statement(path)
    del without[name]
    assert not check_statement(without, public_key=KEY.public_key).ok


def test_the_row_of_another_client_is_not_ones_own(path: Path) -> None:
    forged = statement(path, "client 2") | {"client": "client 1"}
    assert "that of another client" in check_statement(forged).problem


def test_a_statement_of_another_key_or_none_is_not_the_operators(path, tmp_path) -> None:
    made = statement(path)
    other = SigningKey.generate()
    assert "not signed" in check_statement(made, public_key=other.public_key).problem
    assert check_statement(made, public_key=[other.public_key, KEY.public_key]).ok
    make_ledger(tmp_path / "plain.ledger")
    plain = statement(tmp_path / "plain.ledger")
    assert "not signed" in check_statement(plain, public_key=KEY.public_key).problem
    found = check_statement(plain)
    assert found.ok
    assert any(words.startswith("origin") for words in found.open)


def test_rows_of_a_run_that_somebody_else_added_are_not_proven_by_a_later_signature(
    path: Path,
) -> None:
    with intruder(path) as ledger:
        ledger.start_run({}, "1")
        ledger.append(make_record(1))
    with intruder(path, key=KEY) as ledger:  # earlier versions signed on top of such a run
        ledger.start_run({}, "1")
    found = check_statement(statement(path), public_key=KEY.public_key)
    assert found.problem == "round 1 of run 2: it is not signed with the given key"


def test_a_statement_of_a_second_chain_is_told_by_an_anchor(path: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copy(path, tmp_path / "copy.ledger"))
    for number, file in enumerate((path, copied)):
        with Ledger.open(file, key=KEY, clock=lambda at=number: 1e9 + at) as ledger:
            ledger.resume_run(1)
            ledger.append(make_record(4))
    with Ledger.open(path, read_only=True) as ledger:
        ledger.anchor(tmp_path / "heads.log")
    known = {"public_key": KEY.public_key, "anchors": read_log(tmp_path / "heads.log")}
    found = check_statement(statement(path), **known)
    assert found.ok
    assert any(words.startswith("one ledger for all") for words in found.proven)
    assert "of another chain" in check_statement(statement(copied), **known).problem
    make_ledger(tmp_path / "other.ledger", key=KEY)
    assert "knows nothing" in check_statement(statement(tmp_path / "other.ledger"), **known).problem


def test_rows_of_older_versions_are_stated_and_not_proven(tmp_path: Path) -> None:
    path = unpacked(THIRD, tmp_path)
    old = check_statement(statement(path))
    assert (old.ok, [s.proven for s in old.rounds]) == (True, [False, False])
    assert (old.total, old.stated) == (0, 200)
    key = key_of_the_third()
    with Ledger.open(path, key=key) as ledger:
        ledger.resume_run(1)
        ledger.append(make_record(3))
    new = check_statement(statement(path), public_key=key.public_key)
    assert [s.proven for s in new.rounds] == [False, False, True]
    assert (new.total, new.stated) == (100, 200)
    assert any("2 rows are of before version 4" in words for words in new.open)


def as_before_version_4(forged: dict, *sequences: int, reward: int = 10**9) -> dict:
    """Pass entries off as ones without a tree, whose rows nobody can check."""
    hashes = {}
    with Ledger.open(forged.pop("path"), read_only=True) as ledger:
        query = "SELECT sequence, hash FROM entries"
        hashes = dict(ledger._connection.execute(query).fetchall())
    for sequence in sequences:
        entry = forged["entries"][sequence - 1]
        del entry["version"]
        entry["hash"] = hashes[sequence].hex()
    for row in forged["rows"]:
        if row["sequence"] in sequences:
            row["values"][7] = reward
    return forged


@pytest.mark.parametrize("sequences", [(2,), (1, 2), (1, 2, 3), (4,)])
def test_a_round_cannot_be_passed_off_as_one_from_before_there_were_proofs(path, sequences) -> None:
    forged = as_before_version_4(statement(path) | {"path": path}, *sequences)
    assert not check_statement(forged, public_key=KEY.public_key).ok
    unsigned = check_statement(forged)
    assert unsigned.total <= 300  # what is not proven is not pay


@pytest.fixture
def older(tmp_path: Path) -> Path:
    older = tmp_path / "older"
    older.mkdir()
    return unpacked(THIRD, older)


def test_a_row_is_stated_once(path: Path, older: Path) -> None:
    forged = statement(path)
    forged["rows"].append(forged["rows"][0])
    assert "must be stated once" in check_statement(forged, public_key=KEY.public_key).problem
    old = statement(older)
    old["rows"].append(old["rows"][0])
    assert "must be stated once" in check_statement(old).problem


def test_a_log_that_begins_behind_a_statement_shows_nothing_of_it(path, tmp_path) -> None:
    """A second chain, shorter than the first head that anybody kept, agrees with no head."""
    early = statement(path)
    with Ledger.open(path, key=KEY) as ledger:
        ledger.resume_run(1)
        ledger.append(make_record(4))
        ledger.anchor(tmp_path / "heads.log")
    known = {"public_key": KEY.public_key, "anchors": read_log(tmp_path / "heads.log")}
    found = check_statement(early, **known)
    assert found.ok
    assert not any(words.startswith("one ledger for all") for words in found.proven)
    assert any(words.startswith("one ledger for all, behind entry 0") for words in found.open)
    whole = check_statement(statement(path), **known)
    assert any(words.startswith("one ledger for all") for words in whole.proven)
    assert not any(words.startswith("one ledger for all") for words in whole.open)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("reward", value) for value in ("100", 1e308, [], {}, True)],
        *[("client", ["client 1"]), ("kind", 7), ("detail", {}), ("twin", [1]), ("score", "x")],
    ],
)
def test_what_is_only_stated_is_of_the_right_kind_too(older, name: str, value: object) -> None:
    forged = statement(older)
    names = [column.name for column in CLIENT if column.used_in(3)]
    for row in forged["rows"]:
        row["values"][1 + names.index(name)] = value
    if name == "client":
        forged["client"] = value
    found = check_statement(forged)
    assert not found.ok
    assert (found.total, found.stated) == (0, 0)


def test_a_bad_ledger_makes_no_statement(path: Path) -> None:
    with pytest.raises(LedgerError, match="client must be one of the ledger, got 'nobody'"):
        statement(path, "nobody")
    with Forger(path) as connection:
        connection.execute("UPDATE scores SET reward = 1 WHERE sequence = 3")
    with pytest.raises(LedgerCorruptError, match="entry 3 is not what was recorded"):
        statement(path)


def test_numbers_beyond_all_bounds_are_a_problem_and_no_crash(path: Path) -> None:
    for place in ("recorded_at", "leaves", "run"):
        forged = statement(path)
        forged["entries"][1][place] = 10**30
        assert not check_statement(forged).ok
    forged = statement(path)
    forged["rows"][0]["values"][0] = -(10**30)
    assert "must fit in 64 bits" in check_statement(forged).problem


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 10**5, b'{"a": 1}', b"7"])
def test_other_files_are_not_statements(content: bytes) -> None:
    with pytest.raises(LedgerCorruptError, match="a statement must"):
        read_json(content)


def test_a_client_that_there_is_not_is_told_the_nearest(path: Path) -> None:
    with (
        Ledger.open(path, read_only=True) as ledger,
        pytest.raises(LedgerError, match="got 'client1'; did you mean 'client 1'"),
    ):
        ledger.statement("client1")


def test_no_keys_are_not_any_key(path: Path) -> None:
    with pytest.raises(LedgerError, match="must be a key or several, got none"):
        check_statement(statement(path), public_key=[])


def test_a_number_that_no_statement_can_hold_is_told(path: Path) -> None:
    made = statement(path)
    made["rows"][0]["values"][2] = float("inf")
    with pytest.raises(LedgerCorruptError, match="must hold finite numbers"):
        to_json(made)
