import sys

import pytest
from typer.testing import CliRunner

from fedmerit.cli.app import app
from fedmerit.cli.federations.flower_demo import _cast, _status, contributions
from fedmerit.errors import InvalidInputError, MissingExtraError, SettingError
from fedmerit.flags import Flag, Kind
from fedmerit.types import ClientRecord, Rejection, RoundRecord

runner = CliRunner()


@pytest.mark.parametrize(
    ("behaviours", "words"),
    [
        ("2", "numbers below 6"),
        ("7=stale", "numbers below 6"),
        ("x=stale", "numbers below 6"),
        ("2=stele", "did you mean 'stale'"),
    ],
)
def test_behaviours_that_nobody_can_have_are_refused_before_anything_starts(
    tmp_path, behaviours, words
):
    ledger = tmp_path / "demo.ledger"
    command = ["flower-demo", "--behaviours", behaviours, "--ledger", str(ledger)]
    result = runner.invoke(app, command)
    assert isinstance(result.exception, InvalidInputError)
    assert words in str(result.exception)
    assert not ledger.exists()


def test_a_ledger_that_is_there_already_is_not_touched(tmp_path):
    ledger = tmp_path / "demo.ledger"
    ledger.write_bytes(b"mine")
    result = runner.invoke(app, ["flower-demo", "--ledger", str(ledger)])
    assert isinstance(result.exception, SettingError)
    assert ledger.read_bytes() == b"mine"


@pytest.mark.parametrize(("missing", "extra"), [("torch", "sim"), ("flwr", "flower")])
def test_an_extra_that_is_missing_is_said_before_anything_starts(
    tmp_path, monkeypatch, missing, extra
):
    monkeypatch.setitem(sys.modules, missing, None)
    result = runner.invoke(app, ["flower-demo", "--ledger", str(tmp_path / "demo.ledger")])
    assert isinstance(result.exception, MissingExtraError)
    assert f"pip install 'fedmerit[{extra}]'" in str(result.exception)
    assert result.output == ""


def test_who_the_rider_was_stands_beside_what_was_found():
    records = [
        RoundRecord(
            number,
            (
                ClientRecord("71", 0.1, 1.0, label="site-0", reward=9),
                ClientRecord("94", 0.0, 0.0, flag=Flag(Kind.EXPLAINED, "99%"), label="site-2"),
            ),
            (Rejection("55", "not finite"),),
        )
        for number in (1, 2)
    ]
    rows = {row["client"]: row for row in contributions(records, {2: "stale", 1: "nan"})}
    assert (rows["71"]["name"], rows["71"]["told to be"]) == ("site-0", "honest")
    assert (rows["94"]["name"], rows["94"]["told to be"]) == ("site-2", "stale")
    assert (rows["94"]["flagged"], rows["94"]["rounds"]) == (2, 2)
    assert rows["94"]["reason"] == "explained by public information (99%)"
    assert (rows["55"]["name"], rows["55"]["rejected"]) == ("", 2)
    assert "flagged 1 (site-2)" in _status(records[0])


def test_who_starts_is_said_by_name_and_role():
    first, *others = _cast(3, {1: "stale"})
    assert first.startswith("starting a SuperLink and 3 SuperNodes")
    assert [line.strip() for line in others] == [
        "site-0: honest",
        "site-1: stale",
        "site-2: honest",
    ]
