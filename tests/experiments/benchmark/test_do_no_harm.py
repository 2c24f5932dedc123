"""The promise on models that nobody tuned on: FedAvg's model unless somebody cheats."""

import pytest

from fedmerit.experiments.benchmark.models.cells import Bench

SEED = 5
FEW = ("logistic-31", "logistic-62", "logistic-wine")  # parameters
ENOUGH = ("logistic-digits", "mlp-cancer")
REPLAYS = ("stale", "older:2", "averaged", "extrapolated")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=FEW + ENOUGH)
def bench(request):
    return Bench(request.param, SEED, quick=True)


def test_where_nobody_lies_the_model_is_fedavgs_and_nobody_is_accused(bench):
    row = bench.run("honest")
    assert row.same_bits
    assert row.accuracy == row.fedavg
    assert (row.honest_flagged, row.honest_unweighted, row.honest_named) == (0, 0, 0)


@pytest.mark.parametrize("behaviour", REPLAYS)
def test_replays_leave_the_model_of_those_who_worked(bench, behaviour):
    row = bench.run(behaviour)
    assert (row.honest_flagged, row.honest_unweighted, row.honest_named) == (0, 0, 0)
    assert row.same_bits  # to the bit FedAvg's without the replayers
    assert (row.flagged, row.weight, row.pay) == (1, 0, 0)


@pytest.mark.parametrize("task", FEW)
def test_few_parameters_cannot_tell_noise_and_say_so(task):
    row = Bench(task, SEED, quick=True).run("random-update")
    assert (row.flagged, row.weight) == (0, 1)
    assert row.undecided > 0.5


@pytest.mark.parametrize("behaviour", ["random-update", "colluders", "copies", "boost:100"])
def test_honest_clients_are_not_accused_beside_the_dishonest(bench, behaviour):
    row = bench.run(behaviour)
    assert (row.honest_flagged, row.honest_named) == (0, 0)
