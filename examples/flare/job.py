"""A FLARE job with fedmerit in FLARE's simulator: ``python job.py``, then ``fedmerit report``."""

import argparse
from pathlib import Path

import torch
from client import SITES
from model import Network
from nvflare.recipe import SimEnv

from fedmerit.nvflare import FedMeritRecipe

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ledger", type=Path, default=Path("flare.ledger"))
    parser.add_argument("--workspace", type=Path, default=Path("workspace"))
    parser.add_argument("--rounds", type=int, default=4)
    told = parser.parse_args()
    torch.manual_seed(0)
    recipe = FedMeritRecipe(
        model=Network(),
        min_clients=len(SITES),
        num_rounds=told.rounds,
        train_script=str(Path(__file__).with_name("client.py")),
        ledger=str(told.ledger.resolve()),
    )
    env = SimEnv(
        clients=list(SITES), num_threads=len(SITES), workspace_root=str(told.workspace.resolve())
    )
    recipe.execute(env)
