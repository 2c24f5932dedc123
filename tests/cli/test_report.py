import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedmerit.cli.app import app
from fedmerit.errors import LedgerError
from tests.ledger.builders import make_ledger


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["report", *map(str, arguments)])
    if result.exception is not None:
        raise result.exception
    return result.output


def test_a_ledger_becomes_a_page_and_the_line_to_open_it(tmp_path: Path) -> None:
    make_ledger(tmp_path / "run.ledger")
    page = tmp_path / "deep" / "report.html"
    text = call(tmp_path / "run.ledger", "-o", page)
    assert "3 rounds, 3 clients" in text
    assert f"open:   {page.as_uri()}" in text
    told = json.loads(call(tmp_path / "run.ledger", "-o", page, "--json"))
    assert told["bytes"] == page.stat().st_size
    assert [path.name for path in page.parent.iterdir()] == ["report.html"]


def test_what_cannot_be_reported_says_why(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="there must be a ledger at"):
        call(tmp_path / "missing.ledger")


def test_simulate_feeds_ledger_trackers_and_report(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    small = ["--dataset", "digits", "--users", "6", "--per-round", "6", "--rounds", "2",
             "--hidden", "8", "--epochs", "1"]  # fmt: skip
    for folder in ("tb", "ml"):
        assert not (tmp_path / folder).exists()
    result = CliRunner().invoke(
        app,
        ["simulate", *small, "--ledger", str(tmp_path / "run.ledger"), "--out",
         str(tmp_path / "run"), "--reward", "positive:budget=100", "--tensorboard",
         str(tmp_path / "tb"), "--mlflow", str(tmp_path / "ml")],
    )  # fmt: skip
    assert result.exit_code == 0, (result.output, result.exception)
    assert f"next: fedmerit report {tmp_path / 'run.ledger'}" in result.stdout
    assert list((tmp_path / "tb").glob("events*"))
    assert list((tmp_path / "ml").rglob("metrics/metrics/accuracy"))
    call(tmp_path / "run.ledger", "-o", tmp_path / "ledger.html")
    call(tmp_path / "run", "-o", tmp_path / "folder.html")
    data = {
        name: json.loads(page.split('id="data">')[1].split("</script>")[0])
        for name in ("ledger", "folder")
        for page in [(tmp_path / f"{name}.html").read_text()]
    }
    assert [c["score"] for c in data["ledger"]["clients"]] == [
        c["score"] for c in data["folder"]["clients"]
    ]
    assert len(data["ledger"]["agreement"]) == 2
