import json

import pytest
from typer.testing import CliRunner

from fedmerit import __version__
from fedmerit.cli.app import app
from fedmerit.experiments.demo import Demo
from fedmerit.experiments.spec import DEFAULT
from fedmerit.flags import Flag, Kind
from fedmerit.types import ClientRecord, RoundRecord

pytestmark = pytest.mark.slow

runner = CliRunner()


def test_demo_tells_who_worked_and_learns_better_than_fedavg():
    result = runner.invoke(app, ["demo", "--json", "--seed", "3"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    by_group: dict[str, list[float]] = {}
    for row in told["clients"]:
        by_group.setdefault(row["behaviour"].split(":")[0], []).append(row["weight"])
    assert {group: len(weights) for group, weights in by_group.items()} == {
        "honest": 12,
        "random-model": 4,
        "noise": 4,
    }
    assert max(by_group["random-model"]) < 0.01
    assert max(by_group["noise"]) < min(by_group["honest"])
    assert told["accuracy"]["fedmerit, default"] > told["accuracy"]["FedAvg"]


def test_demo_prints_a_table_draws_and_ends_with_the_report(tmp_path):
    page = tmp_path / "new" / "demo.html"
    result = runner.invoke(app, ["demo", "--out", str(page)])
    assert result.exit_code == 0, result.output
    assert "random-model" in result.stdout
    assert "<svg" in page.with_suffix(".svg").read_text(encoding="utf-8")
    assert page.read_bytes().startswith(b"<!doctype html>")
    assert f"open:   {page.as_uri()}" in result.stdout


def test_version_and_help():
    assert runner.invoke(app, ["--version"]).stdout == f"fedmerit {__version__}\n"
    assert "demo" in runner.invoke(app, []).stdout


def test_who_is_not_accused_is_not_called_flagged():
    """A client that a reward rule does not pay has a flag, which says so and accuses nobody."""
    unpaid = ClientRecord("0", 0.1, 0.5, flag=Flag(Kind.UNPAID), behaviour="honest")
    noise = ClientRecord("1", 0.0, 0.0, flag=Flag(Kind.INDEPENDENT), behaviour="noise")
    records = {DEFAULT.name: [RoundRecord(1, (unpaid, noise))]}
    reasons = {row[0]: row[-1] for row in Demo(records).clients()}
    assert reasons == {"0": "", "1": "independent of every peer"}
