"""Run one study, cell by cell, and write its rows after each."""

import argparse
import sys
from pathlib import Path

from checks.studies.panel import attacks, clicks, cost, error, flags, liars, worth
from checks.studies.panel.cells import Study, run_cells
from fedmerit.simulation.clicks.log import ClickLog
from fedmerit.simulation.clicks.sources import CLICK_SOURCES, load_click_log
from fedmerit.simulation.data.datasets import Dataset, load

IMAGES, LOGS = ("mnist", "fashion-mnist", "digits"), ("kuairand", "movielens-1m")
STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY
    for module in (worth, attacks, clicks, liars, flags, error, cost)
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m checks.studies.panel", description=__doc__)
    parser.add_argument("study", choices=sorted(STUDIES))
    parser.add_argument("--dataset", default="mnist", choices=IMAGES + LOGS)
    parser.add_argument("--seeds", type=int, help="how many of the study's seeds")
    parser.add_argument("--out", type=Path, default=Path("runs/panel"))
    given = parser.parse_args()
    study = STUDIES[given.study]
    if (study is clicks.STUDY) != (given.dataset in LOGS):
        known = LOGS if study is clicks.STUDY else IMAGES
        parser.error(f"{study.name} is a study of {', '.join(known)}, got {given.dataset}")
    seeds = study.seeds[: given.seeds]
    path = given.out / f"panel-{study.name}-{given.dataset}.csv"
    for line in run_cells(study, seeds, _data(given.dataset), path):
        print(line, file=sys.stderr, flush=True)


def _data(name: str) -> Dataset | ClickLog:
    return load_click_log(CLICK_SOURCES[name]) if name in LOGS else load(name, None)


if __name__ == "__main__":
    main()
