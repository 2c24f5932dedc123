"""What the scripts about click logs are asked: which log, where it lies, which seed."""

import argparse
from pathlib import Path

from fedmerit.simulation.clicks.log import ClickLog
from fedmerit.simulation.data.catalogue import load


def chosen_log(seed: int) -> tuple[ClickLog, int]:
    """Return the log and the seed that the command line names; `seed` is the default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--seed", type=int, default=seed)
    chosen = parser.parse_args()
    log = load(chosen.dataset, chosen.data_dir)
    assert isinstance(log, ClickLog)
    return log, chosen.seed
