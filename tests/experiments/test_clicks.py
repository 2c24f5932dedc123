"""Experiments on click logs: the paper's settings, runs, verdicts, and the assumption."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from fedmerit.errors import UnknownNameError
from fedmerit.experiments.assumptions import check_assumptions
from fedmerit.experiments.clicks import BASE, CLICK_FAMILIES, MED_PCA, PUBLISHED
from fedmerit.experiments.families import default_dataset, find_family
from fedmerit.experiments.figures import draw
from fedmerit.experiments.runner import Outcome, read_outcomes, run_experiment, write_outcomes
from fedmerit.experiments.statements import markdown, statements
from fedmerit.simulation.clicks.generator import generate_events
from fedmerit.simulation.clicks.log import LogSettings, build_log

TINY = replace(BASE, per_round=6, rounds=2)


@pytest.fixture(scope="module")
def log():
    events = generate_events(users=20, items=60, events_per_user=12)
    return build_log("clicks", events, LogSettings(history=5, split="user"))


def test_the_specs_are_the_papers():
    training = BASE.training
    assert (training.batch_size, training.epochs, training.decay) == (2, 1, 0.999)
    for line in (PUBLISHED, MED_PCA):
        assert line.rules.alpha == 100
        assert line.rules.scorer.quantiser.levels == 256
        assert line.rules.scorer.quantiser.clip == pytest.approx(0.1 * training.learning_rate)
    riders = CLICK_FAMILIES["din-weights"][0]
    assert [point.extra for point in riders.points] == [
        "",
        "30% random-update:0.01",
        "50% random-update:0.01",
    ]
    assert default_dataset("din-weights") == "clicks"
    with pytest.raises(UnknownNameError, match="did you mean 'din-weights'"):
        find_family("din-weight")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["din-aggregators", "din-weights"])
def test_every_experiment_runs_is_drawn_and_continues(log, tmp_path, name):
    # All lines where there is one point, the ends and the last line elsewhere.
    experiment = CLICK_FAMILIES[name][-1]
    lines = experiment.lines if len(experiment.points) == 1 else experiment.lines[-1:]
    experiment = replace(
        experiment, base=TINY, seeds=(0,), points=experiment.points[:2], lines=lines
    )
    first = run_experiment(experiment, log, tmp_path)
    rounds = []
    again = run_experiment(experiment, log, tmp_path, on_round=lambda *at: rounds.append(at))
    assert repr(again) == repr(first)
    read = read_outcomes(tmp_path / f"{experiment.name}.csv")
    assert repr(read) == repr([replace(o, value=float(o.value)) for o in first])
    assert rounds == []
    assert draw(experiment, first, tmp_path).stat().st_size > 1000


def outcome(line, value, auc, honest=0.05, rider=np.nan):
    return Outcome(line, value, 0, 100, auc, auc, honest, rider, 0.1, 0.0, 0)


def test_verdicts_follow_the_numbers(tmp_path):
    def write(name, *outcomes):
        write_outcomes(tmp_path / f"{name}.csv", outcomes)

    write(
        "din-free-riders-harm-updates",
        *(outcome("fedavg", 0, 0.70), outcome("fedavg", 25, 0.66)),
        *(outcome("fedavg-plain", 0, 0.70), outcome("fedavg-plain", 25, 0.70)),
    )
    write(
        "din-noise-harm",
        *(outcome("fedavg", sd, a) for sd, a in ((0.0001, 0.7), (0.001, 0.699), (0.01, 0.698))),
    )
    write(
        "din-weights-updates",
        outcome("fedmerit", 0, 0.70),
        outcome("fedmerit", 30, 0.698, 0.05, 0.001),
        outcome("fedmerit", 50, 0.698, 0.05, 0.002),
        outcome("fed-pca-published", 30, 0.6, 0.05, 0.05),
        outcome("fed-pca-published", 50, 0.6, 0.05, 0.025),
    )
    write(
        "din-aggregators",
        *(outcome("med", 0, 0.5), outcome("med-pca", 0, 0.6)),
        *(outcome("fedavg-plain", 0, 0.7), outcome("fed-pca-published", 0, 0.65)),
    )
    found = {row.statement: row.verdict for row in statements(tmp_path)}
    assert list(found.values()) == [
        "not reproduced",  # plain FedAvg does not suffer
        "reproduced",
        "partly",  # little noise costs little, but so does much
        "not reproduced",  # 30 % riders get all the weight of an honest user
        "reproduced",  # half of it at 50 %
        "partly",  # the last step of the order is the wrong way round
        "yes",
        "yes",
    ]
    assert markdown(statements(tmp_path)).count("\n") == 2 + len(found)


@pytest.mark.slow
def test_the_assumption_is_tested_on_many_pairs(log, tmp_path):
    tested, files = check_assumptions(log, tmp_path, 0, quick=True)
    by_group = {row.group: row for row in tested}
    assert by_group["dense"].pairs == 100
    assert by_group["dense"].constant < by_group["all"].constant + 0.2
    for row in tested:
        assert 0 <= row.spearman <= 1
        assert 0 <= row.smirnov <= 1
    with files[0].open() as file:
        assert [row["group"] for row in csv.DictReader(file)] == list(by_group)
    assert [path.suffix for path in files] == [".csv", ".svg"]
