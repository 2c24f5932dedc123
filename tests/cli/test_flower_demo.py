import pytest
from typer.testing import CliRunner

from fedmerit.cli.app import app
from fedmerit.errors import SettingError

pytestmark = pytest.mark.slow

runner = CliRunner()


@pytest.mark.parametrize("behaviours", ["2", "7=stale", "x=stale"])
def test_behaviours_that_name_no_node_are_refused_before_anything_starts(tmp_path, behaviours):
    ledger = tmp_path / "demo.ledger"
    command = ["flower-demo", "--behaviours", behaviours, "--ledger", str(ledger)]
    result = runner.invoke(app, command)
    assert isinstance(result.exception, SettingError)
    assert "numbers below 6" in str(result.exception)
    assert not ledger.exists()


def test_a_ledger_that_is_there_already_is_not_touched(tmp_path):
    ledger = tmp_path / "demo.ledger"
    ledger.write_bytes(b"mine")
    result = runner.invoke(app, ["flower-demo", "--ledger", str(ledger)])
    assert isinstance(result.exception, SettingError)
    assert ledger.read_bytes() == b"mine"
