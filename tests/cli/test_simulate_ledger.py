"""`fedmerit simulate --ledger`: paid rounds on record, also when the run is killed and resumed."""

import json
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedmerit.cli.app import app
from fedmerit.errors import LedgerError, SettingError, UnknownNameError
from fedmerit.incentive.registry import parse_reward
from fedmerit.incentive.rewards import PositiveShare, SoftmaxShare
from fedmerit.ledger import Ledger

BUDGET = 10_000
ENDLESS = 1_000_000  # rounds, so that the run to be killed does not end by itself
SMALL = [
    *("simulate", "--dataset", "digits", "--users", "8", "--per-round", "4"),
    *("--hidden", "8", "--epochs", "1", "--behaviours", "25% random-update"),
    *("--method", "exact", "--reward", f"positive:budget={BUDGET}"),
]


def call(*arguments: object, error: type[Exception] | None = None) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "160"})
    if error is not None:
        assert isinstance(result.exception, error), result.exception
        return str(result.exception)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def content(path: Path) -> list[object]:
    with Ledger.open(path, read_only=True) as ledger:
        return list(ledger.rounds())


def kill_in_the_middle(arguments: list[str], ledger: Path) -> int:
    """Run the command in a process of its own, kill it after some rounds, return how many."""
    command = [sys.executable, "-c", "from fedmerit.cli import main; main()", *arguments]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        while child.poll() is None:
            if ledger.exists() and len(content_or_nothing(ledger)) >= 3:
                break
            time.sleep(0.002)
    finally:
        child.kill()
        _, stderr = child.communicate()
    assert child.returncode == -signal.SIGKILL, stderr.decode()
    return len(content(ledger))


def content_or_nothing(path: Path) -> list[object]:
    try:
        return content(path)
    except LedgerError:  # the file is there, its tables are not yet
        return []


@pytest.mark.slow
def test_a_killed_run_resumes_into_the_same_ledger(tmp_path: Path) -> None:
    key, ledger, whole = tmp_path / "key.pem", tmp_path / "run.ledger", tmp_path / "whole.ledger"
    public = json.loads(call("ledger", "keygen", key, "--json"))["public_key"]
    asked = [*SMALL, "--sign", str(key)]
    interrupted = [*asked, "--out", str(tmp_path / "run"), "--ledger", str(ledger)]
    rounds = kill_in_the_middle([*interrupted, "--rounds", str(ENDLESS)], ledger) + 3
    call(*interrupted, "--rounds", rounds, "--resume")
    call(*asked, "--rounds", rounds, "--ledger", whole)

    assert content(ledger) == content(whole)
    checked = json.loads(call("ledger", "verify", ledger, "--public-key", public, "--json"))
    assert (checked["ok"], checked["rounds"], checked["runs"]) == (True, rounds, 1)
    shown = json.loads(call("ledger", "show", ledger, "--json"))
    assert shown["runs"][0]["config"]["dataset"] == "digits"
    assert "PositiveShare" in shown["runs"][0]["config"]["reward"]
    paid = json.loads(call("ledger", "pay", ledger, "--json"))
    assert paid["total"] == rounds * BUDGET
    rewards = {row["client"]: row["total_reward"] for row in shown["clients"]}
    assert {row["client"]: row["amount"] for row in paid["payouts"]}.items() <= rewards.items()


def test_what_comes_again_is_not_written_twice(tmp_path: Path) -> None:
    """The power goes after the ledger has the round and before the checkpoint does."""
    folder, ledger = tmp_path / "run", tmp_path / "run.ledger"
    asked = [*SMALL, "--out", folder, "--ledger", ledger]
    call(*asked, "--rounds", 2)
    older = (folder / "checkpoint.state").read_bytes()
    call(*asked, "--rounds", 3, "--resume")
    (folder / "checkpoint.state").write_bytes(older)
    call(*asked, "--rounds", 4, "--resume")
    assert [record.round for record in content(ledger)] == [1, 2, 3, 4]


def test_a_run_is_recorded_once_and_without_gaps(tmp_path: Path) -> None:
    asked = [*SMALL, "--rounds", 2, "--ledger", tmp_path / "run.ledger"]
    call(*asked)
    assert "has this one as run 1" in call(*asked, error=LedgerError)
    call(*asked, "--seed", 1)
    with Ledger.open(tmp_path / "run.ledger", read_only=True) as ledger:
        assert [run.rounds for run in ledger.runs()] == [2, 2]
    folder = tmp_path / "unrecorded"
    call(*SMALL[:-2], "--rounds", 2, "--out", folder)
    late = [*SMALL[:-2], "--rounds", 3, "--out", folder, "--resume"]
    text = call(*late, "--ledger", tmp_path / "late.ledger", error=LedgerError)
    assert "must hold rounds 1 to 2 of a run before round 3, got 0 of them" in text


def test_the_key_must_stay_the_same(tmp_path: Path) -> None:
    call("ledger", "keygen", tmp_path / "key.pem")
    asked = [*SMALL, "--out", tmp_path / "run", "--ledger", tmp_path / "run.ledger"]
    call(*asked, "--rounds", 1, "--sign", tmp_path / "key.pem")
    text = call(*asked, "--rounds", 2, "--resume", error=LedgerError)
    assert "must be continued with the key it was started with" in text


def test_keygen_writes_a_private_file_once(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    assert "Public key: " in call("ledger", "keygen", path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    assert "File exists" in call("ledger", "keygen", path, error=LedgerError)
    assert path.read_bytes() == before


def test_options_that_make_no_sense_say_why(tmp_path: Path) -> None:
    asked = [*SMALL, "--rounds", 1]
    assert "--ledger" in call(*asked, error=SettingError)
    assert "--ledger" in call(*SMALL[:-2], "--sign", tmp_path / "key.pem", error=SettingError)
    unscored = ("--method", "none", "--weighting", "size", "--ledger", tmp_path / "a")
    assert "a reward needs a scorer, got None" in call(*asked, *unscored, error=SettingError)


def test_reward_rules_are_read_from_text() -> None:
    assert parse_reward("positive:budget=10000, minimum=100") == PositiveShare(
        budget=10_000, minimum=100
    )
    assert parse_reward("softmax:budget=5,alpha=2.5,positive-only=false,excluded-pay=1") == (
        SoftmaxShare(budget=5, alpha=2.5, positive_only=False, excluded_pay=1)
    )
    with pytest.raises(UnknownNameError, match="did you mean 'positive'"):
        parse_reward("positiv:budget=1")
    with pytest.raises(SettingError, match="must read name=value, got 'budget'"):
        parse_reward("positive:budget")
    with pytest.raises(SettingError, match="budget of a reward must be a number, got 'lots'"):
        parse_reward("positive:budget=lots")
    with pytest.raises(SettingError, match="cannot be built"):
        parse_reward("positive")
