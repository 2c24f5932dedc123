"""What public information can produce earns nothing; what clients add themselves does."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import fedmerit
from fedmerit import Flag, Kind, gated_weights
from fedmerit.evidence.decisions import agreeing_z, discoveries, upper_tail
from fedmerit.sampling import assign_strata, lay_out
from fedmerit.scorers import ConditionalPCA, Merit
from fedmerit.validation import check_round
from tests.conftest import JIT_OFF
from tests.rounds import public_round

pytestmark = pytest.mark.kernel
SIZE = 4000 if JIT_OFF else 6000


def riders(world):
    g, w = world.last_update, world.model
    signs = world.rng.choice([-1.0, 1.0], size=g.shape)
    scales = world.rng.choice([1e-3, 1e-4, 1e-5], size=g.shape)
    return {
        "random update": world.noise(0.01),
        "random model": world.noise(0.05) - w,
        "zero": np.zeros_like(g),
        "stale": g,
        "scaled stale": 3 * g,
        "advanced delta": g + world.noise(1e-3),
        "adaptive": g + scales * world.rng.normal(size=g.shape),
        "partly exact": 1.02 * g + (world.rng.random(g.shape) < 0.7) * world.noise(1e-6),
        "disguised": g + world.noise(0.3 * g.std()),
        "sign mimic": signs * np.abs(g),
        "root": np.sign(g) * np.sqrt(np.abs(g)),
        "signs": np.sign(g) * np.abs(g).mean(),
        "largest tenth": np.where(np.abs(g) >= np.quantile(np.abs(g), 0.9), g, 0.0),
        "clipped": np.clip(g, *np.quantile(g, (0.2, 0.8))),
    }


@pytest.mark.parametrize("method", ["conditional", "merit"])
def test_nothing_public_is_paid_and_everything_public_is_flagged(method):
    world = public_round(parameters=SIZE)
    everybody = riders(world)
    for name, report in everybody.items():
        updates = world.with_riders(report)
        result = fedmerit.score(updates, method=method, public=world.public, rng=1)
        honest = result.scores[:-1].mean()
        assert not result.eligible[-1], name
        assert result.flagged[-1], name
        assert result.eligible[:-1].all(), name
        if method == "merit":
            assert result.scores[-1] == 0, name
        elif name != "root":  # a smooth function of g, recognised by how much of it g explains
            assert abs(result.scores[-1]) < 0.15 * honest, name


@pytest.mark.parametrize(("moved", "told"), [(20, False), (1500, True)])
def test_few_parameters_that_move_are_explained_by_anything(moved, told):
    """Most of a network may be dead: its parameters say nothing, however many they are."""
    world = public_round(parameters=SIZE)
    alive = np.arange(SIZE) % (SIZE // moved) == 0
    updates = np.where(alive, world.with_riders(world.last_update), 0.0)
    public = np.where(alive, world.public, 0.0)
    public[1] = world.model
    result = fedmerit.score(updates, method="merit", public=public, rng=1)
    assert (result.flags[-1] == Flag(Kind.EXPLAINED, "100%")) is told
    assert not result.flagged[:-1].any()
    assert bool(result.eligible[-1]) is not told


def test_a_client_that_agrees_with_one_peer_only_is_not_shut_out_of_a_mixed_cohort():
    rng = np.random.default_rng(8)
    common, rare = rng.normal(size=(2, SIZE))
    updates = common + 0.5 * rng.normal(size=(11, SIZE))
    updates[0] += rare
    updates[10] = rare  # honest work, but of a kind that one peer only shares
    updates = np.vstack([updates, rng.normal(size=SIZE)])

    def score(**settings):
        result = fedmerit.score(updates, method=ConditionalPCA(**settings), rng=1)
        return result, gated_weights(result)

    strict, weights = score()
    assert strict.flags[10:] == (Flag(Kind.INDEPENDENT),) * 2
    assert weights[10] == 0
    mixed, weights = score(mixed=True)
    assert mixed.flags[10:] == (None, Flag(Kind.INDEPENDENT))
    assert weights[10] > 0
    assert weights[11] == 0


def test_six_copies_of_one_work_among_twenty_are_paid_once():
    rng = np.random.default_rng(4)
    common = rng.normal(size=SIZE)
    updates = common + 2 * rng.normal(size=(20, SIZE))
    updates[15:] = updates[14] + 0.01 * rng.normal(size=(5, SIZE))
    result = fedmerit.score(updates, method="merit", rng=1)
    assert result.evidence.copies[14:].tolist() == [6] * 6
    assert 0 < result.scores[14:].sum() < 1.2 * np.median(result.scores[:14])


def forecasting_clique(rng, parameters=50_000):
    """Fourteen who agree faintly, and six who share a forecast of what those will report."""
    common = rng.normal(size=parameters)
    updates = common + 3.5 * rng.normal(size=(20, parameters))
    forecast = 0.16 * common + rng.normal(size=parameters)
    updates[14:] = 3 * (forecast + 0.3 * rng.normal(size=(6, parameters)))
    return updates


@pytest.mark.skipif(
    JIT_OFF, reason="faint agreement needs more parameters than plain Python scores"
)
def test_a_clique_that_forecasts_is_not_paid_for_agreeing_with_itself():
    updates = forecasting_clique(np.random.default_rng(4))
    result = fedmerit.score(updates.astype(np.float32), method="merit", rng=1)
    assert (result.z[:14, 14:] > 5).any(), "the forecast must be good enough to join the cohort"
    assert result.pairwise[14:, 14:][~np.eye(6, dtype=bool)].min() > 0.8
    assert result.eligible.all()
    past = np.random.default_rng(5).normal(size=updates.shape).astype(np.float32)
    known = fedmerit.score(updates.astype(np.float32), method="merit", previous=past, rng=1)
    assert known.scores[14:].sum() < 1.2 * np.median(known.scores[:14])


def test_whom_evidence_over_rounds_names_is_not_paid():
    world = public_round(clients=8, parameters=SIZE)
    inputs = check_round(world.honest.astype(np.float32), world.public)
    named = np.arange(8) == 3
    result = Merit().score(replace(inputs, named=named), np.random.default_rng(1))
    assert result.flags[3] == Flag(Kind.NAMED)
    assert result.reasons[3] == "has not worked in earlier rounds"
    assert result.eligible.tolist() == (~named).tolist()
    assert result.scores[3] == 0
    assert gated_weights(result)[3] == 0
    assert (result.scores[~named] > 0).all()
    unasked = Merit(naming=0).score(replace(inputs, named=named), np.random.default_rng(1))
    assert unasked.eligible.all()


def test_whom_evidence_names_does_not_say_where_others_should_point():
    world = public_round(clients=8, parameters=SIZE)
    updates = world.honest.astype(np.float32)
    updates[6:] *= -1
    inputs = check_round(updates, world.public)
    trusted = replace(inputs, trust=np.array([0.1] * 6 + [50.0] * 2), named=np.arange(8) >= 6)
    result = Merit().score(trusted, np.random.default_rng(1))
    assert (result.scores[:6] > 0).all()


def test_plain_agreement_pays_the_replayer_and_conditional_does_not():
    world = public_round(parameters=SIZE, private=0.3)
    updates = world.with_riders(world.last_update)
    plain = fedmerit.score(updates, method="exact", rng=0).scores
    assert plain[-1] > 0.8 * plain[:-1].mean()
    conditional = fedmerit.score(updates, method="conditional", public=world.public, rng=0)
    assert conditional.scores[-1] == 0
    assert conditional.flags[-1] == Flag(Kind.EXPLAINED, "100%")
    assert conditional.reasons[-1] == "explained by public information (100%)"


@pytest.mark.parametrize(("workers", "accused"), [(3, True), (2, False)])
def test_three_who_agree_accuse_and_two_do_not(rng, workers, accused):
    updates = rng.normal(size=5000) + rng.normal(size=(workers + 1, 5000))
    updates[-1] = rng.normal(size=5000)
    flags = fedmerit.score(updates, method="conditional", rng=0).flags
    assert flags[:-1] == (None,) * workers
    assert (flags[-1] == Flag(Kind.INDEPENDENT)) == accused


def test_flags_are_values_and_reasons_their_words():
    world = public_round(clients=8, parameters=SIZE)
    shared = world.noise(0.01)
    updates = world.with_riders(world.noise(0.01), shared, shared, world.last_update)
    updates[0] = updates[1]
    result = fedmerit.score(updates, public=world.public, rng=0)
    assert result.flags[:2] == (Flag(Kind.COPY, twin="1"), Flag(Kind.COPY, twin="0"))
    assert result.flags[8:11] == (
        Flag(Kind.INDEPENDENT),
        Flag(Kind.CLIQUE),
        Flag(Kind.CLIQUE),
    )
    assert result.flags[11].kind is Kind.EXPLAINED
    assert result.flags[0].with_names(list("abcdefghijkl")).words == "near-copy of client b"
    assert result.reasons[0] == "near-copy of client 1"
    assert result.reasons[1] == "near-copy of client 0"
    assert result.reasons[8] == "independent of every peer"
    assert set(result.reasons[9:11]) == {"agrees only with a clique"}
    assert result.reasons[11].startswith("explained by public information")
    assert result.reasons[2:8] == ("",) * 6
    assert result.explain(8).endswith("Flagged: independent of every peer")


def test_colluders_below_half_earn_nothing():
    world = public_round(clients=5, parameters=SIZE)
    secret = world.noise(0.01)
    partly = [secret + world.noise(0.001) for _ in range(4)]
    result = fedmerit.score(world.with_riders(*partly), public=world.public, rng=0)
    assert (result.scores[5:] == 0).all()
    assert set(result.flags[5:]) == {Flag(Kind.CLIQUE)}
    assert (result.scores[:5] > 0).all()


def test_near_copies_share_one_score():
    world = public_round(clients=6, parameters=SIZE)
    alone = fedmerit.score(world.honest, public=world.public, rng=0).scores
    twice = fedmerit.score(world.with_riders(world.honest[0]), public=world.public, rng=0)
    assert twice.scores[0] == pytest.approx(twice.scores[6])
    assert twice.scores[0] + twice.scores[6] < 1.3 * alone[0]
    assert twice.eligible[[0, 6]].all()
    assert twice.evidence.copies.tolist() == [2, 1, 1, 1, 1, 1, 2]
    weights = fedmerit.gated_weights(twice, alpha=0)
    assert weights[0] + weights[6] == pytest.approx(weights[1:6].mean(), rel=0.3)


def test_noise_never_pays():
    world = public_round(clients=8, parameters=SIZE)
    direction = world.rng.normal(size=SIZE)
    earned = []
    for scale in (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.05):
        updates = world.honest.astype(np.float32)
        updates[0] += scale * direction.astype(np.float32)
        result = fedmerit.score(updates, public=world.public, rng=0)
        earned.append(result.scores[0] / result.scores[1:].mean())
    # It falls with every step, until nothing is left to lose.
    assert ((np.diff(earned) < 0) | (np.array(earned[:-1]) == 0)).all()
    assert earned[1] > 0.8
    assert earned[-1] < 0.02


def test_removing_ones_own_previous_report_leaves_only_what_is_new():
    world = public_round(clients=6, parameters=SIZE)
    updates = world.honest.astype(np.float32)
    replayed = updates.copy()
    replayed[1:] += 0.002 * world.rng.normal(size=(5, SIZE))
    result = fedmerit.score(replayed, public=world.public, previous=updates, rng=0)
    assert result.work[0] == 0
    assert result.flags[0] == Flag(Kind.REPEATED, "100%")
    assert result.flags[1:] == (None,) * 5


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.05, 0.01])
def test_p_values_are_valid_for_independent_reports(rate):
    """Real type-I rates are in docs/results; here a quick look at the same law."""
    rounds, clients = (40, 4) if JIT_OFF else (300, 4)
    rng = np.random.default_rng(8)
    hits = 0
    for _ in range(rounds):
        world = public_round(clients=clients, parameters=400, seed=int(rng.integers(2**31)))
        updates = world.with_riders(world.noise(0.01))
        p = fedmerit.score(updates, method="conditional", public=world.public, rng=rng).p_values
        hits += p[-1] <= rate
    assert hits <= rate * rounds + 4 * np.sqrt(rate * rounds)


def test_upper_tail_of_the_normal():
    assert upper_tail(np.array([0.0, 1.6448536, 3.0902323])) == pytest.approx(
        [0.5, 0.05, 0.001], rel=1e-5
    )


def test_agreeing_z_takes_the_best_fifth():
    # Client 0 has ten peers: the second largest z counts, times 10 / 2. The others have one.
    ordered = np.array([(0, j) for j in range(1, 11)] + [(j, 0) for j in range(1, 11)])
    reached, p_values = agreeing_z(11, ordered, np.r_[np.arange(10.0), np.zeros(10)])
    assert reached[0] == 8
    assert p_values[0] == pytest.approx(5 * upper_tail(np.array([8.0]))[0])
    assert p_values[1] == pytest.approx(0.5)


def test_discoveries_by_hand():
    p = np.array([0.001, 0.02, 0.9, 0.011])
    # harmonic factor 25/12: limits at rate 0.1 are 0.012, 0.024, 0.036, 0.048
    assert discoveries(p, 0.1).tolist() == [True, True, False, True]
    assert not discoveries(np.ones(3), 0.1).any()


def test_strata_follow_layers_and_public_quantiles(rng):
    layers = np.repeat([0, 1, 2], [4000, 2000, 10])
    public = rng.normal(size=(2, 6010)).astype(np.float32)
    public[0, :300] = 0
    stratum = assign_strata(6010, public[0], layers, strata=12)
    for s in np.unique(stratum):
        assert len(np.unique(layers[stratum == s])) == 1
    assert len(np.unique(stratum[:300])) == 1
    assert not np.isin(stratum[300:4000], stratum[:300]).any()  # exact zeros are their own kind
    highest = [public[0, stratum == s].max() for s in np.unique(stratum[300:4000])]
    assert len(highest) == len(set(highest)) > 4
    assert set(stratum) == set(range(stratum.max() + 1))


def test_a_few_zeros_are_put_with_no_others(rng):
    """Where nobody has moved a parameter, a zero is no news; beside others it would be."""
    layers = np.repeat([0, 1, 2], [600, 10, 5])
    public = rng.normal(size=615)
    public[[*range(30), 610, 611]] = 0
    stratum = assign_strata(615, public, layers, strata=8)
    zeros = set(stratum[public == 0])
    assert len(zeros) == 1
    assert not zeros & set(stratum[public != 0])


def test_a_laid_out_round_has_its_strata_in_a_row(rng):
    marks = np.arange(5000.0)
    layers = np.repeat([1, 0], [3000, 2000])
    public = rng.normal(size=5000)
    inputs = check_round(np.stack([marks, marks]), public, layers)
    laid, halves, _ = lay_out(inputs, 8, None, rng)
    positions = laid.updates[0].astype(int)
    assert sorted(positions) == list(range(5000))
    assert (laid.public[0] == public[positions]).all()
    assert (laid.layers == layers[positions]).all()
    highest = -np.inf, -np.inf
    assert len(halves) == 2 * 8 + 1
    for begin, middle, end in zip(halves[::2], halves[1::2], halves[2::2], strict=False):
        assert abs(2 * middle - begin - end) < 100  # drawn at random
        here = positions[begin:end]
        assert len(set(layers[here])) == 1
        lowest = layers[here[0]], public[here].min()
        assert lowest > highest
        highest = layers[here[0]], public[here].max()


def test_gated_weights_leave_out_who_shows_nothing():
    world = public_round(clients=6, parameters=SIZE)
    result = fedmerit.score(world.with_riders(world.last_update), public=world.public, rng=0)
    weights = fedmerit.gated_weights(result, alpha=10)
    assert weights[-1] == 0
    assert weights.sum() == pytest.approx(1)
    by_hand = np.exp(10 * result.scores[:6]) * result.evidence.relative[:6] ** 2
    assert weights[:6] == pytest.approx(by_hand / by_hand.sum())


def test_gated_weights_are_equal_where_nobody_shows_anything(rng):
    noise = rng.normal(size=(4, 600)).astype(np.float32)
    result = fedmerit.score(noise, rng=0)
    assert fedmerit.gated_weights(result).tolist() == [0.25] * 4


def test_noise_agrees_with_nobody_where_public_updates_are_almost_one(rng):
    """Gradient descent on a convex loss: the last ten global updates differ by little.

    Coefficients of such vectors are large and cancel. What rounding left of that was the same for
    all clients, and noise seemed to agree with everybody.
    """
    parameters, clients = 410, 8
    ways, speeds = rng.normal(size=(12, parameters)), np.linspace(0.8, 0.995, 12)
    models, model = [], rng.normal(size=parameters)
    for number in range(13):
        models.append(model.astype(np.float32))
        model = model + 0.01 * speeds**number @ ways
    updates = [after - before for before, after in pairwise(models)][::-1]
    public = np.stack([updates[0], models[-1], *updates[1:11]])
    work = updates[0] + 0.004 * (
        rng.normal(size=(clients, parameters)) + rng.normal(size=parameters)
    )
    met = []
    for _ in range(20):
        sent = work.copy()
        sent[0] = 0.3 * rng.normal(size=parameters)
        found = fedmerit.score(
            sent.astype(np.float32), method="conditional", public=public, rng=rng
        )
        met.append(found.z[0, 1:])
    assert np.mean(np.square(met)) < 1.5, "squares of standard normal values have the mean 1"
