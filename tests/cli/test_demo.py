import json

import pytest
from typer.testing import CliRunner

from fedmerit import __version__
from fedmerit.cli.app import app

runner = CliRunner()


def test_demo_separates_the_groups():
    result = runner.invoke(app, ["demo", "--json", "--seed", "3"])
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    weights = {
        group: [row["weight"] for row in rows if row["behaviour"] == group]
        for group in ("honest", "noisy", "free rider")
    }
    assert [len(group) for group in weights.values()] == [12, 4, 4]
    assert min(weights["honest"]) > max(weights["noisy"]) > max(weights["free rider"])
    assert sum(sum(group) for group in weights.values()) == pytest.approx(1)


def test_demo_prints_a_table():
    result = runner.invoke(app, ["demo"])
    assert result.exit_code == 0
    assert "free rider" in result.stdout


def test_version_and_help():
    assert runner.invoke(app, ["--version"]).stdout == f"fedmerit {__version__}\n"
    assert "demo" in runner.invoke(app, []).stdout
