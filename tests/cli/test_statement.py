import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedmerit.cli.app import app
from fedmerit.errors import LedgerCorruptError, LedgerError
from fedmerit.ledger import Ledger, SigningKey
from fedmerit.types import ClientRecord, RoundRecord
from tests.ledger.builders import make_ledger

KEY = SigningKey.generate()


@pytest.fixture
def path(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_ledger(tmp_path / "run.ledger", key=KEY)
    return tmp_path / "run.ledger"


def call(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["statement", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def test_a_statement_is_written_and_verified_with_the_key_alone(path: Path) -> None:
    assert "Wrote 3 rows of 'client 1'" in call(path, "--client", "client 1", "--page", "s.html")
    path.unlink()
    text = call("verify", "statement.json", "--public-key", KEY.public_key.hex())
    for words in ("OK: 300 paid in 3 rows.", "Proven: content: 3 rows", "Proven: origin"):
        assert words in text
    found = json.loads(call("verify", "statement.json", "--json"))
    assert (found["ok"], found["total"], len(found["rounds"])) == (True, 300, 3)
    page = Path("s.html").read_text()
    assert "<script" not in page
    assert page.count("<tr>") == 4


def test_a_changed_statement_ends_with_one(path: Path) -> None:
    call("write", path, "--client", "client 1")
    text = Path("statement.json").read_text()
    Path("statement.json").write_text(text.replace("100,", "900,"))
    assert "BAD: round 1 of run 1: the row is not in the round" in call(
        "verify", "statement.json", "--page", "s.html", code=1
    )
    assert "does not hold" in Path("s.html").read_text()
    Path("statement.json").write_text("{}")
    with pytest.raises(LedgerCorruptError, match="a statement must say"):
        call("verify", "statement.json")
    with pytest.raises(LedgerError, match="cannot read"):
        call("verify", "nothing.json")


def test_a_hostile_name_stays_text_on_the_page(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "</title><script>alert(1)</script>\x1b[2J"
    with Ledger.open("run.ledger") as ledger:
        ledger.start_run({}, "1")
        ledger.append(RoundRecord(1, (ClientRecord(name, 0.5, 1.0, reward=5),)))
    assert "\x1b" not in call("run.ledger", "--client", name, "--page", "s.html")
    assert "<script>" not in Path("s.html").read_text()
    assert "\x1b" not in call("verify", "statement.json")


def test_verifying_needs_no_more_than_the_ledger_extra(path: Path) -> None:
    """No package of another extra is imported on the way."""
    call(path, "--client", "client 1")
    code = (
        "import sys\n"
        "for name in ('torch', 'plotly', 'matplotlib', 'flwr', 'sklearn', 'safetensors',\n"
        "             'platformdirs', 'pyarrow', 'mlflow', 'tensorboard'):\n"
        "    sys.modules[name] = None\n"
        "from fedmerit.cli import main\n"
        f"sys.argv[1:] = ['statement', 'verify', 'statement.json', '--public-key', "
        f"'{KEY.public_key.hex()}']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "OK: 300 paid" in done.stdout
