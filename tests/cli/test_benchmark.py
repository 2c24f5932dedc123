"""`fedmerit benchmark`, as a user types it."""

import json

import pytest
from typer.testing import CliRunner

from fedmerit.cli.app import app
from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.experiments.benchmark import null
from fedmerit.experiments.fingerprint import read_stamp

pytestmark = pytest.mark.slow


def call(*arguments):
    return CliRunner().invoke(app, ["benchmark", *arguments])


def test_a_benchmark_writes_table_page_and_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(null, "QUICK_NULL_ROUNDS", 4)
    options = ("--quick", "--dataset", "digits", "--out", str(tmp_path), "--json")
    result = call("null", *options)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert {row["kind"] for row in rows} == set(null.KINDS)
    assert (tmp_path / "null.csv").read_text().count("\n") == len(rows) + 1
    assert "fedmerit benchmark null --dataset digits" in (tmp_path / "null.md").read_text()
    assert "<svg" in (tmp_path / "null.svg").read_text(encoding="utf-8")
    stamp = read_stamp(tmp_path / "null.md")
    assert stamp.code == stamp.sources.code == null.Null().sources.code
    assert stamp.inputs == "digits quick"
    assert {row["code"] for row in rows} == {stamp.code.digest}
    again = []
    run = null.Null.run
    monkeypatch.setattr(null.Null, "run", lambda *told: again.append(told[1]) or run(*told))
    assert call("null", *options).stdout == result.stdout
    assert not again  # seeds that the same code decided are kept
    assert call("null", *options, "--seeds", "2").exit_code == 0
    assert again == [401]
    (tmp_path / "null.csv").write_text(
        (tmp_path / "null.csv").read_text().replace(stamp.code.digest, "old")
    )
    assert call("null", *options).stdout == result.stdout
    assert again == [401, 400]


def test_unknown_names_are_refused():
    unknown = call("speed").exception
    assert isinstance(unknown, UnknownNameError)
    assert "contribution" in str(unknown)
    assert isinstance(call("free-riders", "--dataset", "digits").exception, SettingError)
