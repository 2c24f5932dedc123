"""`fedmerit reproduce` and `fedmerit data` on click logs."""

import json

import pytest
from typer.testing import CliRunner

from fedmerit.cli.app import app
from fedmerit.errors import DataError

pytestmark = pytest.mark.slow


def run(*arguments):
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_click_logs_are_listed_and_missing_ones_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDMERIT_CACHE", str(tmp_path))
    listed = {row["name"]: row["ready"] for row in json.loads(run("data", "list", "--json"))}
    assert listed["clicks"]
    assert not listed["kuairand"]
    with pytest.raises(DataError, match="kuairand has not been fetched"):
        run("reproduce", "din-weights", "--dataset", "kuairand")


def test_an_experiment_on_clicks_runs_and_leaves_its_files(tmp_path):
    arguments = ("reproduce", "din-labels", "--quick", "--rounds", "2", "--out", str(tmp_path))
    outcomes = json.loads(run(*arguments, "--json"))
    assert {row["line"] for row in outcomes} == {"fed-pca-exact", "fedmerit"}
    folder = tmp_path / "din-labels-quick" / "clicks"
    for ending in ("csv", "svg"):
        assert (folder / f"din-labels.{ending}").is_file()
    text = run(*arguments)
    assert "auc" in text


def test_the_assumption_is_tested_from_the_command_line(tmp_path):
    rows = json.loads(run("reproduce", "assumptions", "--quick", "--out", str(tmp_path), "--json"))
    assert [row["group"] for row in rows][:2] == ["all", "dense"]
    assert (tmp_path / "assumptions-quick" / "clicks" / "assumptions.svg").is_file()
