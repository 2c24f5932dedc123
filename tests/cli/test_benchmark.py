"""`fedmerit benchmark`, as a user types it."""

import json
from dataclasses import replace
from functools import wraps

import pytest
from typer.testing import CliRunner

from checks import ROOT
from fedmerit.behaviours import Honest, Stale, Zero
from fedmerit.cli.app import app
from fedmerit.errors import SettingError, UnknownNameError
from fedmerit.experiments.benchmark.attacks import benchmark as attacks
from fedmerit.experiments.benchmark.contribution.benchmark import Contribution
from fedmerit.experiments.benchmark.files import read_rows, write
from fedmerit.experiments.benchmark.null import benchmark as null
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
    assert (tmp_path / "null-digits.csv").read_text().count("\n") == len(rows) + 1
    assert "fedmerit benchmark null --dataset digits" in (tmp_path / "null-digits.md").read_text()
    assert "<svg" in (tmp_path / "null-digits.svg").read_text(encoding="utf-8")
    stamp = read_stamp(tmp_path / "null-digits.md")
    assert stamp.code == stamp.sources.code == null.Null().sources.code
    assert stamp.inputs == "digits quick"
    assert {row["code"] for row in rows} == {stamp.code.digest}
    again = []
    run = null.Null.run_cell
    monkeypatch.setattr(null.Null, "run_cell", lambda *told: again.append(told[2]) or run(*told))
    assert call("null", *options).stdout == result.stdout
    assert not again  # seeds that the same code decided are kept
    assert call("null", *options, "--seeds", "2").exit_code == 0
    assert again == [401]
    (tmp_path / "null-digits.csv").write_text(
        (tmp_path / "null-digits.csv").read_text().replace(stamp.code.digest, "old")
    )
    assert call("null", *options).stdout == result.stdout
    assert again == [401, 400]


def test_a_stopped_benchmark_goes_on_with_the_next_cell(tmp_path, monkeypatch):
    kinds = {behaviour.label: behaviour for behaviour in (Honest(), Zero(), Stale())}
    monkeypatch.setattr(attacks, "_KINDS", kinds)
    monkeypatch.setattr(attacks, "QUICK", replace(attacks.QUICK, rounds=3))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    options = ("--quick", "--dataset", "digits", "--out")
    assert call("attacks", *options, str(whole)).exit_code == 0
    ran = []
    run = attacks.run_federation

    def stop(config, dataset, behaviour, tick):
        if len(ran) == 5:
            raise KeyboardInterrupt
        ran.append((config.partition.kind, behaviour.label))
        return run(config, dataset, behaviour, tick)

    with monkeypatch.context() as patch:
        patch.setattr(attacks, "run_federation", wraps(run)(stop))
        call("attacks", *options, str(parts))
    assert len(ran) == 5
    assert len(set(ran)) == 3  # with scores and without
    done = set(ran[:4])
    ran.clear()
    monkeypatch.setattr(
        attacks,
        "run_federation",
        wraps(run)(lambda *told: ran.append((told[0].partition.kind, told[2].label)) or run(*told)),
    )
    assert call("attacks", *options, str(parts)).exit_code == 0
    assert not done & set(ran)
    assert (parts / "attacks-digits.csv").read_bytes() == (
        whole / "attacks-digits.csv"
    ).read_bytes()
    assert (parts / "attacks-digits.md").read_bytes() == (whole / "attacks-digits.md").read_bytes()
    ran.clear()
    table = parts / "attacks-digits.csv"
    lines = table.read_text().splitlines(keepends=True)
    old = [
        line.replace(line.split(",")[-1], "old\n") if ",zero," in line else line for line in lines
    ]
    table.write_text("".join(old))
    assert call("attacks", *options, str(parts), "--keep-old").exit_code == 0
    assert not ran
    count = sum(",zero," in line for line in lines)
    assert (
        f"other code decided {count}**: {count} by old" in (parts / "attacks-digits.md").read_text()
    )
    assert call("attacks", *options, str(parts)).exit_code == 0
    assert ran == [("shards", "zero"), ("dirichlet", "zero")]  # plain averaging was kept
    assert table.read_bytes() == (whole / "attacks-digits.csv").read_bytes()
    mixed = call("attacks", "--dataset", "digits", "--out", str(parts)).exception
    assert isinstance(mixed, SettingError)
    assert "must not mix runs on digits quick and on digits" in str(mixed)


def test_other_data_than_a_benchmarks_own_have_files_of_their_own(tmp_path):
    kept, contribution = ROOT / "docs" / "results", Contribution()
    rows = read_rows(kept / "contribution-digits.csv", contribution.row)
    stamp = read_stamp(kept / "contribution-digits.md")
    (tmp_path / "contribution.csv").write_text("of MNIST")
    table, page, picture = write(contribution, rows, tmp_path, "a command", stamp.inputs)
    assert table.read_bytes() == (kept / "contribution-digits.csv").read_bytes()
    told = page.read_text(encoding="utf-8")
    assert told.startswith("# Benchmark: contribution, digits\n")
    assert "[contribution-digits.csv](contribution-digits.csv)" in told
    assert f"({picture.name})" in told
    assert (tmp_path / "contribution.csv").read_text() == "of MNIST"


def test_unknown_names_are_refused():
    unknown = call("speed").exception
    assert isinstance(unknown, UnknownNameError)
    assert "contribution" in str(unknown)
    assert isinstance(call("free-riders", "--dataset", "digits").exception, SettingError)
