"""The recipe: a job in one call, run by FLARE's simulator through its FedAvg controller."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'fedmerit[nvflare]'")

from fedmerit.errors import SettingError
from fedmerit.ledger import Ledger, SigningKey
from fedmerit.nvflare import NumpyFedMeritRecipe

HERE = Path(__file__).parent
HONEST = ["ann", "bea", "cem", "dan", "eve"]

JOB = """
import sys
from nvflare.recipe import SimEnv
from fedmerit.nvflare import NumpyFedMeritRecipe
from fedmerit.server import RoundRules

script, ledger, key, work = sys.argv[1:5]
model = [[(i * j) % 7 / 10 for j in range(50)] for i in range(40)]
recipe = NumpyFedMeritRecipe(
    min_clients=len(sys.argv[5:]), num_rounds=3, train_script=script, model=model, ledger=ledger,
    seed=1, rules=RoundRules(reward="positive:budget=10000"), key=key,
)
print(recipe.execute(SimEnv(clients=sys.argv[5:], num_threads=2, workspace_root=work)).get_result())
"""


@pytest.mark.slow
def test_a_recipe_runs_and_keeps_out_who_does_not_work(tmp_path):
    ledger = tmp_path / "run.ledger"
    names = [*HONEST, "nan", "noise"]
    key = SigningKey.generate()
    key.save(tmp_path / "key.pem")
    files = [HERE / "script.py", ledger, tmp_path / "key.pem", tmp_path]
    command = [sys.executable, "-c", JOB, *map(str, files)]
    run = subprocess.run(
        [*command, *names], capture_output=True, text=True, timeout=500, check=False, cwd=tmp_path
    )
    assert ledger.exists(), run.stdout[-3000:] + run.stderr[-3000:]
    with Ledger.open(ledger, read_only=True) as opened:
        assert opened.verify(public_key=key.public_key).ok
        rounds = list(opened.rounds())
    assert [record.round for record in rounds] == [1, 2, 3]
    for record in rounds:
        assert {client.client for client in record.clients} == {*HONEST, "noise"}
        assert {client.client for client in record.clients if client.flagged} == {"noise"}
        assert {client.client for client in record.clients if not client.reward} == {"noise"}
        assert [refused.client for refused in record.rejected] == ["nan"]
        assert "finite" in record.rejected[0].reason


@pytest.mark.parametrize("name", ["aggregator", "aggregation_weights", "exclude_vars"])
def test_what_fedmerit_decides_cannot_be_given(name):
    with pytest.raises(SettingError, match=f"{name} is fedmerit's to decide"):
        NumpyFedMeritRecipe(min_clients=2, train_script="x.py", **{name: {"a": 1}})


def test_clients_do_not_get_our_code_with_the_job(tmp_path):
    recipe = NumpyFedMeritRecipe(
        min_clients=2, train_script=str(HERE / "script.py"), model=[[0.0] * 50] * 40
    )
    recipe.export(str(tmp_path))
    assert [path.name for path in tmp_path.rglob("*.py")] == ["script.py"]


@pytest.mark.slow
def test_the_recipe_for_pytorch_is_a_fedavg_recipe_with_our_aggregator(tmp_path):
    pytest.importorskip("torch", reason="needs PyTorch")
    from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe

    from fedmerit.nvflare import FedMeritRecipe

    model = {"class_path": "torch.nn.Linear", "args": {"in_features": 40, "out_features": 50}}
    told = {"min_clients": 2, "train_script": str(HERE / "script.py"), "model": model}
    recipe = FedMeritRecipe(ledger="run.ledger", **told)
    assert isinstance(recipe, FedAvgRecipe)
    recipe.export(str(tmp_path))
    (path,) = tmp_path.rglob("config_fed_server.json")
    (workflow,) = json.loads(path.read_text(encoding="utf-8"))["workflows"]
    assert workflow["args"]["aggregator"] == {
        "path": "fedmerit.nvflare.aggregator.MeritAggregator",
        "args": {"ledger": "run.ledger"},
    }
    with pytest.raises(SettingError, match="server_expected_format must be NUMPY, got pytorch"):
        FedMeritRecipe(server_expected_format="pytorch", **told)
