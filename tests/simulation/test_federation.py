"""The round loop: what it records, whom it believes, and that a seed decides everything."""

import tracemalloc
from dataclasses import dataclass, replace

import numpy as np
import pytest
from torch import nn

from fedmerit import CpSGD, ExactPCA, Merit, QuantileBins, aggregate
from fedmerit.behaviours import Assignment, Behaviour, ClientView, Honest, Report
from fedmerit.errors import RoundFailedError, SettingError, UnknownNameError
from fedmerit.flags import Flag, Kind
from fedmerit.incentive.rewards import PositiveShare
from fedmerit.rng import stream
from fedmerit.server import RoundRules
from fedmerit.simulation.config import FederationConfig, ModelChoice, Partition
from fedmerit.simulation.data import datasets
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.results import client_rows, round_row
from fedmerit.simulation.run import run
from fedmerit.simulation.training.settings import LocalTraining

SMALL = FederationConfig(
    users=10,
    per_round=6,
    rounds=3,
    partition=Partition("iid"),
    model=ModelChoice(hidden=16, dropout=0.2),
    training=LocalTraining(epochs=2, learning_rate=0.05),
    rules=RoundRules(weighting="gated", norm_bound=1.5),
)


def ruled(config, **rules):
    return replace(config, rules=replace(config.rules, **rules))


@pytest.fixture(scope="module")
def digits():
    return datasets.load("digits")


def records_of(config, digits, **brought):
    records = []
    run(Federation(config, digits, **brought), on_round=records.append)
    return records


def test_the_defaults_are_the_papers_but_for_score_and_guards():
    config = FederationConfig()
    assert (config.users, config.per_round, config.rounds) == (100, 20, 100)
    assert config.partition == Partition("shards", shards_per_user=2)
    assert config.model == ModelChoice("mlp", hidden=200, dropout=0.5)
    assert config.training == LocalTraining(
        epochs=5, batch_size=10, optimiser="sgd", learning_rate=0.01, momentum=0.5, decay=1.0
    )
    rules = config.rules
    assert (rules.weighting, rules.alpha, rules.rule) == ("engine", 10.0, "mean")
    assert rules.norm_bound is None
    assert rules.scorer == Merit()
    assert rules.reward is None


@pytest.mark.parametrize("rules", [SMALL.rules, RoundRules()], ids=["gated", "engine"])
def test_honest_clients_learn(digits, rules):
    config = replace(SMALL, rounds=6, rules=rules)
    accuracy = [r.metrics["accuracy"] for r in records_of(config, digits)]
    assert accuracy[-1] > 0.8
    assert accuracy[-1] > accuracy[0]


def test_the_engines_weights_are_by_size_for_those_who_are_not_excluded(digits):
    behaviours = Assignment.parse("30% random-update")
    config = replace(SMALL, per_round=10, behaviours=behaviours, rules=RoundRules())
    excluded = 0
    for record in records_of(config, digits):
        kept = [c for c in record.clients if not c.flagged]
        excluded += len(record.clients) - len(kept)
        assert {c.weight for c in record.clients if c.flagged} <= {0.0}
        assert {c.behaviour for c in record.clients if c.flagged} <= {"random-update:0.01"}
        sizes = np.array([c.num_examples for c in kept])
        assert [c.weight for c in kept] == pytest.approx(sizes / sizes.sum(), rel=1e-12)
    assert excluded >= 3


def test_same_seed_same_records_other_seed_others(digits):
    def plain(config):
        return [(r.clients, r.metrics) for r in records_of(config, digits)]

    assert plain(SMALL) == plain(SMALL)
    assert plain(SMALL) != plain(replace(SMALL, seed=1))


def test_every_round_draws_different_clients_and_weighs_them_to_one(digits):
    records = records_of(replace(SMALL, behaviours=Assignment.parse("30% noise")), digits)
    for record in records:
        assert len({c.client for c in record.clients}) == 6
        assert sum(c.weight for c in record.clients) == pytest.approx(1)
    assert len({tuple(c.client for c in r.clients) for r in records}) > 1
    known = {(c.client, c.behaviour) for r in records for c in r.clients}
    assert len(known) == len({client for client, _ in known})


def test_scores_tell_free_riders_from_workers(digits):
    config = replace(SMALL, per_round=10, behaviours=Assignment.parse("30% random-update"))
    for record in records_of(config, digits):
        riders = [c.score for c in record.clients if c.behaviour != "honest"]
        workers = [c.score for c in record.clients if c.behaviour == "honest"]
        assert len(riders) == 3
        assert max(riders) < min(workers)


def test_size_weighting_believes_the_claim_and_uniform_does_not(digits):
    inflated = Assignment.parse("50% inflated-size:3")
    config = replace(SMALL, per_round=10, rounds=1, behaviours=inflated)
    config = ruled(config, weighting="size", scorer=None)
    by_size = records_of(config, digits)[0].clients
    liars = sum(c.weight for c in by_size if c.behaviour != "honest")
    assert liars == pytest.approx(0.75, abs=0.01)
    assert all(np.isnan(c.score) for c in by_size)
    uniform = records_of(ruled(config, weighting="uniform"), digits)[0].clients
    assert {c.weight for c in uniform} == {0.1}


def test_a_step_adds_the_aggregate_of_the_reports(digits):
    # Nobody trains, so the reports are known: noise from each client's own stream.
    config = replace(SMALL, behaviours=Assignment.parse("100% random-update"))
    config = ruled(config, weighting="uniform")
    federation = Federation(config, digits)
    start = federation.start()
    after, record = federation.step(start)
    noise = [
        stream(0, "round", 1, "client", int(c.client), "report").standard_normal(
            start.model.size, dtype=np.float32
        )
        * np.float32(0.01)
        for c in record.clients
    ]
    np.testing.assert_array_equal(after.model, start.model + aggregate(np.stack(noise)))
    np.testing.assert_array_equal(after.server.history.updates[0], after.model - start.model)


def test_memory_grows_with_the_round_not_with_the_federation(digits):
    def peak(users):
        parts = [np.arange(i % 1000, i % 1000 + 40) for i in range(users)]
        federation = Federation(replace(SMALL, users=users), digits, parts=parts)
        state, _ = federation.step(federation.start())
        tracemalloc.start()
        federation.step(state)
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    # One parameter vector per user would be 4.8 kB. Threads make the peak vary by some kilobytes.
    assert peak(4020) - peak(20) < 4000 * 100


def test_a_clients_work_does_not_depend_on_how_others_behave(digits):
    honest = Federation(replace(SMALL, per_round=10), digits)
    mixed = Federation(
        replace(SMALL, per_round=10, behaviours=Assignment.parse("40% random-update")), digits
    )
    working = [c for c in range(10) if mixed.behaviours[c].trains]
    model = honest.start().model
    first, second = honest._train(range(10), 1, model), mixed._train(range(10), 1, model)
    assert sorted(second) == working
    for client in working:
        np.testing.assert_allclose(first[client], second[client], atol=2e-6)


def test_quantised_upload_scores_levels_and_aggregates_their_values(digits):
    upload = CpSGD(levels=16, clip=0.5)
    config = ruled(replace(SMALL, upload=upload, rounds=1), weighting="uniform")
    federation = Federation(config, digits)
    start = federation.start()
    after, record = federation.step(start)
    step = 2 * 0.5 / 15  # the mean of six reports lies on a grid six times as fine as the levels
    levels = (after.model - start.model + 0.5) / (step / 6)
    np.testing.assert_allclose(levels, np.rint(levels), atol=1e-3)
    assert min(c.score for c in record.clients) > 0


@pytest.mark.slow
def test_sequential_training_gives_the_same_federation(digits):
    stacked = records_of(replace(SMALL, rounds=2), digits)
    sequential = records_of(replace(SMALL, rounds=2, together=False), digits)
    for a, b in zip(stacked, sequential, strict=True):
        assert a.metrics["loss"] == pytest.approx(b.metrics["loss"], rel=1e-3)


def test_parts_and_modules_can_be_brought(digits):
    parts = [np.arange(start, start + 40) for start in range(0, 400, 40)]
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    federation = Federation(SMALL, digits, parts=parts, module=module)
    _, record = federation.step(federation.start())
    assert {c.num_examples for c in record.clients} == {40}
    assert federation.start().model.size == 650
    with pytest.raises(SettingError, match="parts must be one per user, 10, got 9"):
        Federation(SMALL, digits, parts=parts[1:])


def test_an_update_that_is_not_finite_is_rejected_and_the_rest_goes_on(digits):
    @dataclass(frozen=True)
    class Broken(Behaviour):
        name = "broken"
        trains = False

        def report(self, view: ClientView) -> Report:
            return Report(np.full_like(view.global_model, np.nan), 1)

    some = replace(SMALL, per_round=10, rounds=1, behaviours=Assignment(((0.2, Broken()),)))
    (record,) = records_of(some, digits)
    assert [len(record.clients), len(record.rejected)] == [8, 2]
    assert record.rejected[0].reason == "the update is not finite"
    assert {client.reward for client in record.clients} == {None}

    paying = ruled(some, reward=PositiveShare(budget=1000, excluded_pay=10))
    (paid,) = records_of(paying, digits)
    assert sum(client.reward for client in paid.clients) == 1000
    refused = Flag(Kind.REFUSED, "the update is not finite")
    assert refused.words == "rejected: the update is not finite"
    assert [(c.client, c.reward, c.flag) for c in paid.clients[8:]] == [
        (r.client, 10, refused) for r in record.rejected
    ]
    assert client_rows(paid) == client_rows(record)
    assert round_row(paid) == round_row(record)
    nearly_all = replace(some, behaviours=Assignment(((0.9, Broken()),)))
    federation = Federation(nearly_all, digits)
    after, record = federation.step(federation.start())
    assert len(record.rejected) == 10
    assert sum(refusal.kind is Kind.SKIPPED for refusal in record.rejected) == 1
    np.testing.assert_array_equal(after.model, federation.start().model)
    everyone = Federation(replace(some, behaviours=Assignment(((1.0, Broken()),))), digits)
    with pytest.raises(RoundFailedError, match="all 10 replies were refused: the update is not"):
        everyone.step(everyone.start())


def test_behaviours_see_what_was_published_and_no_more(digits):
    seen = []

    @dataclass(frozen=True)
    class Watcher(Honest):
        name = "watcher"

        def report(self, view: ClientView) -> Report:
            seen.append(view)
            return super().report(view)

    config = replace(SMALL, rounds=5, per_round=10, behaviours=Assignment(((0.1, Watcher()),)))
    run(Federation(config, digits))
    assert [len(view.global_updates) for view in seen] == [0, 1, 2, 3, 4]
    assert [len(view.update_norms) for view in seen] == [0, 1, 2, 3, 4]
    assert not any(view.global_model.flags.writeable for view in seen)
    newest = seen[-1].global_model - seen[-2].global_model
    np.testing.assert_array_equal(seen[-1].global_updates[0], newest)
    assert seen[-1].update_norms[-1] == pytest.approx(np.linalg.norm(newest), rel=1e-5)


@pytest.mark.parametrize("rule", ["median", "geometric-median"])
def test_weighted_rules_run(digits, rule):
    assert records_of(ruled(replace(SMALL, rounds=1), rule=rule), digits)


@pytest.mark.parametrize("rule", ["krum", "multi-krum", "trimmed-mean"])
def test_unweighted_rules_run_unweighted_only(digits, rule):
    unweighted = ruled(replace(SMALL, rounds=1), rule=rule, weighting="uniform")
    assert records_of(unweighted, digits)
    with pytest.raises(SettingError, match="takes no weights and needs weighting uniform"):
        ruled(SMALL, rule=rule)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"per_round": 11}, SettingError, "per_round must be at most users = 10, got 11"),
        ({"users": 1}, SettingError, "users must be at least 2, got 1"),
        ({"upload": QuantileBins()}, SettingError, "levels stand for values"),
        ({"behaviours": "20% noise"}, SettingError, "behaviours must be Assignment, got '20% n"),
        ({"extra": None}, SettingError, "extra must be Assignment, got None"),
        ({"partition": "iid"}, SettingError, "partition must be Partition, got 'iid'"),
        ({"model": "mlp"}, SettingError, "model must be ModelChoice or DinChoice, got 'mlp'"),
        ({"training": "sgd"}, SettingError, "training must be LocalTraining, got 'sgd'"),
    ],
)
def test_settings_check_themselves(change, error, message):
    with pytest.raises(error, match=message):
        replace(SMALL, **change)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"weighting": "scores"}, UnknownNameError, "did you mean 'score'"),
        ({"scorer": None}, SettingError, "weighting gated needs a scorer"),
        ({"rule": "meen"}, UnknownNameError, "did you mean 'mean'"),
    ],
)
def test_rules_check_themselves(change, error, message):
    with pytest.raises(error, match=message):
        ruled(SMALL, **change)


def test_the_fingerprint_knows_settings_and_data_but_not_the_length(digits):
    first = Federation(SMALL, digits).fingerprint
    assert Federation(replace(SMALL, rounds=9), digits).fingerprint == first
    for other in (replace(SMALL, seed=1), ruled(SMALL, scorer=ExactPCA(peers=3))):
        assert Federation(other, digits).fingerprint != first
    assert Federation(SMALL, replace(digits, name="other")).fingerprint != first


def test_the_fingerprint_knows_every_value_of_the_data(digits):
    first = Federation(SMALL, digits).fingerprint
    assert Federation(SMALL, replace(digits)).fingerprint == first
    for name in ("train_x", "train_y", "test_x", "test_y"):
        changed = getattr(digits, name).copy()
        changed.flat[7] = 1 - changed.flat[7]
        assert Federation(SMALL, replace(digits, **{name: changed})).fingerprint != first
