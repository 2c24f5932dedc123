"""`fedmerit data` and `fedmerit simulate`, as a user types them."""

import inspect
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from fedmerit import SCORERS, RoundRules
from fedmerit.cli.app import app
from fedmerit.cli.federations.simulate import simulate
from fedmerit.errors import CheckpointError, DataError, SettingError, UnknownNameError
from fedmerit.simulation.data.datasets import SOURCES

SMALL = [
    *("simulate", "--dataset", "digits", "--users", "8", "--per-round", "4", "--rounds", "3"),
    *("--hidden", "8", "--epochs", "1", "--behaviours", "25% random-update"),
]


def call(*arguments, error=None):
    result = CliRunner().invoke(app, list(arguments))
    if error is not None:
        assert isinstance(result.exception, error), result.exception
        return str(result.exception)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDMERIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_simulate_prints_who_contributed_what():
    text = call(*SMALL)
    assert "honest" in text
    assert "random-update:0.01" in text
    assert "accuracy after 3 rounds" in text


def test_a_panel_says_what_clients_added():
    panel = ("--panel", "1", "--per-round", "6", "--partition", "dirichlet")
    payload = json.loads(call(*SMALL, *panel, "--json"))
    assert all(isinstance(client["value"], float) for client in payload["clients"])
    assert "value" in call(*SMALL, *panel)
    assert all(c["value"] is None for c in json.loads(call(*SMALL, "--json"))["clients"])


def test_pay_by_value_needs_a_panel():
    assert "--pay-value needs a --panel" in call(*SMALL, "--pay-value", error=SettingError)


def test_a_click_log_is_simulated_with_its_own_model_and_metric():
    clicks = ("simulate", "--dataset", "clicks", "--users", "12", "--per-round", "4")
    payload = json.loads(call(*clicks, "--rounds", "2", "--json"))
    assert 0 < payload["auc"] < 1
    assert "accuracy" not in payload
    assert "auc after 1 rounds" in call(*clicks, "--rounds", "1")
    assert "model must be din for clicks, got mlp" in call(
        *clicks, "--model", "mlp", error=SettingError
    )
    assert "got din" in call(*SMALL, "--model", "din", error=SettingError)


def test_json_is_for_scripts_and_a_seed_decides_it():
    first = call(*SMALL, "--json", "--seed", "3")
    payload = json.loads(first)
    assert payload["rounds"] == 3
    assert {share["name"] for share in payload["behaviours"]} == {"honest", "random-update:0.01"}
    assert sum(share["share"] for share in payload["clients"]) == pytest.approx(1)
    assert call(*SMALL, "--json", "--seed", "3") == first
    assert call(*SMALL, "--json", "--seed", "4") != first


def test_out_and_resume_leave_the_same_bytes(tmp_path):
    call(*SMALL, "--out", str(tmp_path / "whole"))
    call(*SMALL, "--rounds", "2", "--out", str(tmp_path / "halves"))
    call(*SMALL, "--out", str(tmp_path / "halves"), "--resume")
    for name in ("rounds.csv", "clients.csv"):
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert "--resume" in call(*SMALL, "--out", str(tmp_path / "whole"), error=CheckpointError)


def test_the_paper_as_published_can_be_asked_for():
    published = ("--method", "pca", "--quantiser", "cpsgd", "--upload", "cpsgd", "--json")
    assert json.loads(call(*SMALL, *published))["rounds"] == 3
    fedavg = json.loads(call(*SMALL, "--method", "none", "--weighting", "size", "--json"))
    assert all(share["score"] is None for share in fedavg["clients"])


def test_every_data_set_that_is_listed_can_be_simulated():
    for row in json.loads(call("data", "list", "--json")):
        if not row["ready"]:
            told = call("simulate", "--dataset", row["name"], error=DataError)
            assert f"fedmerit data fetch {row['name']}" in told
    told = call("simulate", "--dataset", "click", error=UnknownNameError)
    assert "did you mean 'clicks'" in told


def test_rounds_are_settled_by_the_rules_that_a_server_has_by_default():
    rules, options = RoundRules(), inspect.signature(simulate).parameters
    for name in ("weighting", "sizes", "alpha", "rule", "norm_bound"):
        assert (options[name].default or None) == (getattr(rules, name) or None)


@pytest.mark.parametrize("method", sorted(SCORERS))
def test_every_scorer_runs(method):
    assert json.loads(call(*SMALL, "--method", method, "--json"))["rounds"] == 3


def test_what_cannot_be_done_says_why():
    assert "fedmerit data fetch mnist" in call("simulate", error=DataError)
    assert "--out" in call(*SMALL, "--resume", error=SettingError)
    assert "did you mean 'cpsgd'" in call(*SMALL, "--upload", "cpsg", error=UnknownNameError)
    assert "did you mean 'exact'" in call(*SMALL, "--method", "exat", error=UnknownNameError)


def test_data_list_fetch_and_path(cache_folder, tmp_path, monkeypatch):
    nowhere = replace(SOURCES["fashion-mnist"], package=tmp_path / "nowhere")
    monkeypatch.setitem(SOURCES, "fashion-mnist", nowhere)
    listed = {row["name"]: row["ready"] for row in json.loads(call("data", "list", "--json"))}
    embedded = {name for name, ready in listed.items() if ready}
    assert embedded == {"clicks", "digits"}
    assert {"mnist", "fashion-mnist", "movielens-1m", "kuairand"} < set(listed)
    assert "apt install dataset-fashion-mnist" in call("data", "list")
    assert call("data", "fetch", "digits") == "digits is ready\n"
    assert call("data", "path") == f"{cache_folder}\n"
    assert "--data-dir" in call("data", "fetch", "fashion-mnist", error=DataError)


@pytest.mark.slow
def test_reproduce_writes_table_and_figure_and_continues(tmp_path):
    quick = ("reproduce", "mnist-honest", "--dataset", "digits", "--quick", "--rounds", "1")
    first = json.loads(call(*quick, "--out", str(tmp_path), "--json"))
    assert {row["line"] for row in first} == {"fedavg", "fed-pca-published", "fedmerit"}
    folder = tmp_path / "mnist-honest-quick"
    names = {path.name for path in folder.iterdir()}
    assert names == {"mnist-honest.csv", "mnist-honest.svg", "runs"}
    assert json.loads(call(*quick, "--out", str(tmp_path), "--json")) == first
    assert "did you mean 'mnist-noise'" in call("reproduce", "mnist-noize", error=UnknownNameError)
