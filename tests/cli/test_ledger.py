import csv
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from checks.faults.records import intruder
from fedmerit.cli.app import app
from fedmerit.cli.output import shown
from fedmerit.errors import LedgerCorruptError, LedgerError, SettingError
from fedmerit.flags import Flag, Kind
from fedmerit.ledger import Ledger, SigningKey
from fedmerit.types import ClientRecord, RoundRecord
from tests.ledger.builders import make_ledger, make_record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.ledger"
    times = iter([1_704_067_200.0 + 86_400 * day for day in range(4)])  # from 2024-01-01
    make_ledger(path, clock=lambda: next(times))
    return path


def call(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["ledger", *map(str, arguments)], env={"COLUMNS": "160"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def forge(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"no agreement", b"no agreemenT", 1))


def test_show_lists_runs_and_clients(path: Path) -> None:
    text = call("show", path)
    for word in ("Runs", "2024-01-01 00:00:00", "client 1", "participation", "Head: ", "Ward 7"):
        assert word in text
    data = json.loads(call("show", path, "--json", "--since", "2024-01-04"))
    assert data["runs"][0]["rounds"] == 3
    assert [item["client"] for item in data["clients"]] == [
        "client 0", "client 1", "client 2", "client x",
    ]  # fmt: skip
    assert data["clients"][1]["rounds"] == 1
    assert data["clients"][3]["mean_score"] is None


def test_show_says_of_whom_nobody_could_tell(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "run.ledger") as ledger:
        ledger.start_run({}, "1")
        flag = Flag(Kind.UNDECIDED, "few parameters")
        ledger.append(RoundRecord(1, (ClientRecord("ann", 0.5, 1.0, flag=flag),)))
    title, row = call("show", tmp_path / "run.ledger").splitlines()[-3:-1]
    assert title.split()[-5:] == ["flagged", "undecided", "rejected", "calls", "itself"]
    assert row.split()[-3:] == ["0", "1", "0"]
    data = json.loads(call("show", tmp_path / "run.ledger", "--json"))
    assert data["clients"][0]["undecided"] == 1


def test_verify_says_ok_or_names_the_round(path: Path) -> None:
    text = call("verify", path)
    assert "OK: 3 rounds of 1 runs are as recorded." in text
    head = json.loads(call("verify", path, "--json"))["head"]
    assert head in text
    call("verify", path, "--head", head)
    assert "removed or replaced" in call("verify", path, "--head", "0" * 64, code=1)
    forge(path)
    assert "BAD: round" in call("verify", path, code=1)
    result = json.loads(call("verify", path, "--json", code=1))
    assert (result["ok"], result["run"]) == (False, 1)


def test_verify_takes_a_public_key(tmp_path: Path) -> None:
    key = SigningKey.generate()
    make_ledger(tmp_path / "signed", key=key)
    call("verify", tmp_path / "signed", "--public-key", key.public_key.hex())
    other = SigningKey.generate().public_key.hex()
    assert "not signed" in call("verify", tmp_path / "signed", "--public-key", other, code=1)
    with pytest.raises(LedgerError, match="public key must be 64 hexadecimal digits, got 'x'"):
        call("verify", tmp_path / "signed", "--public-key", "x")


def test_export_takes_the_format_from_the_name(path: Path, tmp_path: Path) -> None:
    assert "Wrote 3 rounds" in call("export", path, "--out", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as file:
        assert len(list(csv.reader(file))) == 13
    call("export", path, "--out", tmp_path / "out", "--format", "json", "--since", "2024-01-03")
    assert len(json.loads((tmp_path / "out").read_text())["rounds"]) == 2


def test_pay_lists_what_is_owed(path: Path) -> None:
    text = call("pay", path)
    assert "Total: 900 to 2 clients." in text
    since = ("--since", "2024-01-04T00:00", "--json")
    with pytest.raises(LedgerError, match="2 rounds come before them") as refusal:
        call("pay", path, *since)
    paid = str(refusal.value).split("--after ")[1]
    data = json.loads(call("pay", path, *since, "--after", paid))
    assert data["payouts"] == [
        {"client": "client 1", "amount": 100, "rounds": 1},
        {"client": "client 2", "amount": 200, "rounds": 1},
    ]
    assert json.loads(call("pay", path, "--after", data["head"], "--json"))["total"] == 0
    with pytest.raises(SettingError, match="since must be a date or time as 2024-03-01, got 'May'"):
        call("pay", path, "--since", "May")


def test_pay_refuses_a_ledger_that_is_bad(path: Path) -> None:
    forge(path)
    with pytest.raises(LedgerCorruptError, match=r"round \d of run 1"):
        call("pay", path)


def test_hostile_ids_do_not_reach_the_terminal(tmp_path: Path) -> None:
    name = "[red]x[/wrong]\x1b[2J\n"
    with Ledger.open(tmp_path / "run.ledger") as ledger:
        ledger.start_run({}, "1")
        ledger.append(RoundRecord(1, (ClientRecord(name, 0.5, 1.0, reward=5, label=name),)))
    for command in ("show", "pay"):
        text = call(command, tmp_path / "run.ledger")
        assert "[red]x[/wrong]" in text
        assert "\x1b[2J" not in text
    assert (
        json.loads(call("pay", tmp_path / "run.ledger", "--json"))["payouts"][0]["client"] == name
    )
    assert shown("a\x00b") == "a\\u0000b"


def test_reading_a_ledger_leaves_nothing_behind(path: Path) -> None:
    before = path.read_bytes()
    call("show", path)
    call("verify", path)
    assert path.read_bytes() == before


def test_pay_has_an_id_and_gives_an_old_list_again(path: Path, tmp_path: Path) -> None:
    first = json.loads(call("pay", path, "--json", "--out", tmp_path / "list.json"))
    assert json.loads((tmp_path / "list.json").read_text()) == first
    assert len(set(first["references"])) == len(first["payouts"]) == 2
    with Ledger.open(path) as ledger:
        ledger.resume_run(1)
        ledger.append(make_record(4))
    assert json.loads(call("pay", path, "--json", "--until", first["head"])) == first
    text = call("pay", path, "--after", first["head"])
    assert "Total: 300 to 2 clients." in text
    assert "Not in the list: 3 earlier rounds." in text


def test_pay_takes_a_public_key_and_an_anchor(tmp_path: Path) -> None:
    key, path = SigningKey.generate(), tmp_path / "signed"
    make_ledger(path, key=key)
    known = ("--public-key", key.public_key.hex())
    call("anchor", path, "--to", tmp_path / "heads.log")
    call("pay", path, *known, "--anchor", tmp_path / "heads.log")
    with intruder(path) as ledger:
        ledger.start_run({}, "1")
        ledger.append(RoundRecord(1, (ClientRecord("mallory", 0.5, 1.0, reward=10**9),)))
    for options in ((), known):
        with pytest.raises(LedgerCorruptError, match="signed"):
            call("pay", path, *options)


def test_a_witness_signs_heads_that_go_on_and_no_others(tmp_path: Path) -> None:
    key, path = SigningKey.generate(), tmp_path / "run.ledger"
    make_ledger(path, rounds=2, key=key)
    old = Path(shutil.copy(path, tmp_path / "old.ledger"))
    with Ledger.open(path, key=key) as ledger:
        ledger.resume_run(1)
        ledger.append(make_record(3))
    assert (
        call("head", path, "--out", tmp_path / "head.json").strip()
        == (tmp_path / "head.json").read_text()
    )
    log = ("--log", tmp_path / "w.log", "--sign", tmp_path / "w.pem")
    text = call("witness", tmp_path / "head.json", *log, "--public-key", key.public_key.hex())
    witness_key = text.split("Witness key: ")[1].strip()
    with pytest.raises(LedgerCorruptError, match="the ledger was cut"):
        call("witness", old, *log)
    with pytest.raises(LedgerCorruptError, match="not signed with the given key"):
        call("witness", path, *log, "--public-key", witness_key)
    checked = ("--anchor", tmp_path / "w.log", "--witness-key", witness_key)
    text = call("verify", path, "--public-key", key.public_key.hex(), *checked)
    assert "Proven: completeness: the first 4 of 4 entries" in text
    assert "Not proven" not in text
    assert "the newest were removed" in call("verify", old, *checked, code=1)
    with pytest.raises(SettingError, match="--witness-key needs the log it signed"):
        call("verify", path, "--witness-key", witness_key)


def test_verify_says_what_it_leaves_open(path: Path) -> None:
    text = call("verify", path)
    assert "Not proven: origin" in text
    assert "Not proven: completeness" in text
    head = json.loads(call("verify", path, "--json"))["head"]
    assert "Not proven: completeness" not in call("verify", path, "--head", head)
