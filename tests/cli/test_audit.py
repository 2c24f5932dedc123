import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedmerit.cli.app import app
from fedmerit.errors import DataError, SettingError, UnknownNameError

QUICK = ["--clients", "3", "--parameters", "600", "--draws", "2", "--seed", "1"]


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["audit", *map(str, arguments)], env={"COLUMNS": "160"})
    if result.exception is not None:
        raise result.exception
    return result.output


def test_a_simulated_round_is_audited() -> None:
    text = call(*QUICK, "--levels", 4)
    for word in ("Best lie of each client", "certificate", "uninformed", "Theorem 1 for 600"):
        assert word in text


def test_json_holds_every_lie_and_repeats() -> None:
    first, again = (json.loads(call(*QUICK, "--json")) for _ in range(2))
    assert first == again
    assert len(first["clients"]) == 3
    assert all(client["holds"] for client in first["clients"])
    assert first["theorem_epsilon"] > first["clients"][0]["epsilon"] > 0


def test_the_conditional_score_leaves_nothing_to_public_lies() -> None:
    size = ["--levels", 3, "--parameters", 6000]
    data = json.loads(call(*QUICK, *size, "--conditional", "--json"))
    for client in data["clients"]:
        assert all(lie["gain"] < 0 for lie in client["lies"] if lie["kind"] == "public")


@pytest.mark.slow
def test_any_scorer_can_be_audited() -> None:
    data = json.loads(call(*QUICK, "--method", "exact", "--json"))
    assert data["theorem_epsilon"] is None
    kinds = {lie["kind"] for lie in data["clients"][0]["lies"]}
    own = {"accounts", "merging", "noise", "own past", "scale", "uninformed"}
    assert kinds == own | {"peer", "public"}
    assert "none" in call(*QUICK, "--method", "exact")
    with pytest.raises(UnknownNameError):
        call(*QUICK, "--method", "exakt")


def test_rounds_are_read_from_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = tmp_path / "round.npz"
    np.savez(file, signals=rng.integers(0, 4, size=(3, 300), dtype=np.uint8))
    data = json.loads(call(file, "--levels", 4, "--draws", 1, "--json"))
    assert (data["levels"], data["parameters"]) == (4, 300)
    with pytest.raises(SettingError, match="method must be 'signals' for a file of signals"):
        call(file, "--levels", 4, "--method", "exact")
    with pytest.raises(SettingError, match="conditional needs a public vector, got none"):
        call(file, "--levels", 4, "--conditional")
    np.savez(file, updates=rng.normal(size=(3, 300)), public=rng.normal(size=300))
    assert json.loads(call(file, "--draws", 1, "--json"))["levels"] == 8


def test_files_that_hold_no_round_are_named(tmp_path: Path) -> None:
    file = tmp_path / "round.npz"
    np.savez(file, weights=np.zeros(3))
    with pytest.raises(DataError, match="must hold an array `signals` or `updates`, got weights"):
        call(file)
    file.write_text("no archive")
    with pytest.raises(DataError, match=r"must be a .npz file of plain arrays"):
        call(file)
    with pytest.raises(DataError, match="No such file"):
        call(tmp_path / "missing.npz")
