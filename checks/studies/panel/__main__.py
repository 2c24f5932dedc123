"""Run one study, cell by cell, and write its rows after each."""

import argparse
import sys
from pathlib import Path

from checks.studies.panel import attacks, cost, error, flags, liars, worth
from checks.studies.panel.cells import Study, run_cells
from fedmerit.simulation.data.datasets import load

STUDIES: dict[str, Study] = {
    s.name: s
    for s in (worth.STUDY, attacks.STUDY, liars.STUDY, flags.STUDY, error.STUDY, cost.STUDY)
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m checks.studies.panel", description=__doc__)
    parser.add_argument("study", choices=sorted(STUDIES))
    parser.add_argument("--dataset", default="mnist", choices=("mnist", "fashion-mnist", "digits"))
    parser.add_argument("--seeds", type=int, help="how many of the study's seeds")
    parser.add_argument("--out", type=Path, default=Path("runs/panel"))
    given = parser.parse_args()
    study = STUDIES[given.study]
    seeds = study.seeds[: given.seeds]
    path = given.out / f"panel-{study.name}-{given.dataset}.csv"
    for line in run_cells(study, seeds, load(given.dataset, None), path):
        print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
