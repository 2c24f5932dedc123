"""One contract for every registered scorer."""

import numpy as np
import pytest

import fedmerit
from fedmerit import SCORERS, Kind, QuantileBins, Signals
from fedmerit.comparison import choose_peers
from fedmerit.errors import FedMeritError, SettingError, UnknownNameError, UpdatesError
from fedmerit.scorers import Merit, make_scorer
from fedmerit.types import needs_of
from tests.conftest import example_round

pytestmark = pytest.mark.kernel
every_scorer = pytest.mark.parametrize("method", sorted(SCORERS))
# Scores of others: they draw nothing, and do not take off what chance would give.
BASELINES = ["coast", "cosine", "foolsgold", "krum", "norm", "reputation"]
OURS = sorted(set(SCORERS) - set(BASELINES))
# What each scorer can tell beside scores, flags and eligibility; the rest is None.
AGREED = {"pairs.score", "pairs.agreement", "pairs.chance"}
EVIDENCE = {
    f"evidence.{name}"
    for name in (
        "agreement",
        "typical",
        "least",
        "deviation",
        "explained",
        "replayed",
        "copies",
        "members",
        "way",
        "power",
    )
}
TELLS = {
    "ca": AGREED,
    "conditional": {*AGREED, "pairs.z", "p_values", "epsilon", *EVIDENCE},
    "cosine": {"pairs.score"},
    "exact": {*AGREED, "pairs.z", "epsilon"},
    "foolsgold": {"pairs.score"},
    "krum": {"pairs.score"},
    "merit": {"pairs.score", "pairs.z", "p_values", "work", *EVIDENCE},
    "norm": set(),
    "pca": AGREED,
    "coast": set(),
    "reputation": {"pairs.score", "work"},
}


def arrays_of(result):
    """Every further array of a result that is there, by part and name."""
    found = {name: getattr(result, name) for name in ("p_values", "epsilon", "work")}
    for part in ("pairs", "evidence"):
        known = getattr(result, part)
        if known is not None:
            found |= {f"{part}.{name}": array for name, array in vars(known).items()}
    return {name: array for name, array in found.items() if array is not None}


@every_scorer
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_result_has_its_shape_and_is_read_only(method, dtype):
    updates = example_round(clients=4).astype(dtype)
    result = fedmerit.score(updates, method=method, rng=0)
    assert result.method == method
    arrays = arrays_of(result)
    assert arrays.keys() == TELLS[method]
    assert result.scores.shape == result.eligible.shape == (4,)
    assert result.flagged.dtype == result.eligible.dtype == np.bool_
    assert len(result.flags) == len(result.reasons) == 4
    assert np.isfinite(result.scores).all()
    for name, array in arrays.items():
        assert array.shape == ((4, 4) if name.startswith("pairs.") else (4,))
    if result.pairs is not None:
        assert np.isnan(np.diagonal(result.pairs.score)).all()
        assert result.pairwise is result.pairs.score
        assert result.z is result.pairs.z
    for array in (result.scores, result.eligible, *arrays.values()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@every_scorer
def test_same_seed_same_bits_and_inputs_untouched(method):
    updates = example_round(clients=5)
    before = updates.copy()
    first = fedmerit.score(updates, method=method, rng=7)
    second = fedmerit.score(updates, method=method, rng=np.random.default_rng(7))
    assert first.scores.tobytes() == second.scores.tobytes()
    one, two = arrays_of(first), arrays_of(second)
    assert one.keys() == two.keys()
    assert all(one[name].tobytes() == two[name].tobytes() for name in one)
    assert (updates == before).all()


@pytest.mark.parametrize("method", OURS)
def test_no_rng_means_fresh_dice(method):
    updates = example_round(clients=3)
    first, second = (fedmerit.score(updates, method=method) for _ in range(2))
    drawn = [
        [array.tobytes() for array in (result.scores, *arrays_of(result).values())]
        for result in (first, second)
    ]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("method", BASELINES)
def test_baselines_draw_nothing(method):
    updates = example_round(clients=3)
    first, second = (fedmerit.score(updates, method=method) for _ in range(2))
    assert first.scores.tobytes() == second.scores.tobytes()


@every_scorer
@pytest.mark.parametrize(
    "updates",
    [
        np.zeros((2, 40), dtype=np.float32),
        np.ones((3, 40)),
        np.full((3, 40), 1e-40, dtype=np.float32),
        np.tile(np.float32([0, 0, 0, 1]), (2, 20)),
    ],
    ids=["zero", "constant", "subnormal", "ties"],
)
def test_degenerate_rounds_are_scored(method, updates):
    result = fedmerit.score(updates, method=method, rng=0)
    assert np.isfinite(result.scores).all()
    if len(np.unique(updates)) == 1 and method in OURS:
        assert (result.scores == 0).all()  # no spread, no agreement beyond chance


@every_scorer
def test_read_only_and_strided_inputs_are_fine(method):
    updates = example_round(clients=4)
    strided = np.asfortranarray(updates)
    strided.setflags(write=False)
    plain = fedmerit.score(updates, method=method, rng=0)
    assert (fedmerit.score(strided, method=method, rng=0).scores == plain.scores).all()


@pytest.mark.parametrize("method", ["ca", "exact", "pca"])
def test_scoring_signals_equals_scoring_the_floats_behind_them(method):
    updates = example_round(clients=4)
    signals = QuantileBins().quantise(updates, np.random.default_rng(0))
    assert (
        fedmerit.score(signals, method=method, rng=1).scores
        == fedmerit.score(updates, method=method, rng=1).scores
    ).all()


@pytest.mark.parametrize("method", ["merit", *BASELINES])
def test_scores_of_direction_and_length_need_floats_and_say_so(method):
    signals = QuantileBins().quantise(example_round(), np.random.default_rng(0))
    with pytest.raises(UpdatesError, match=f"{method} needs float updates, got signals"):
        fedmerit.score(signals, method=method)


@every_scorer
def test_who_refuses_levels_says_so_beforehand(method):
    signals = QuantileBins().quantise(example_round(), np.random.default_rng(0))
    try:
        fedmerit.score(signals, method=method)
        refused = False
    except UpdatesError:
        refused = True
    assert needs_of(make_scorer(method)).floats == refused


@every_scorer
def test_explains_itself(method):
    text = fedmerit.score(example_round(), method=method, rng=0).explain(0)
    assert text.startswith("client 0: score ")
    # A norm is nobody else's business, and what came true is everybody's.
    assert ("peers" in text) == (method not in ("coast", "norm"))


def test_explanations_have_no_minus_zero():
    pairwise = np.array([[np.nan, -1e-9], [-1e-9, np.nan]])
    pairs = fedmerit.Pairs(pairwise)
    result = fedmerit.Contributions.of("example", np.array([-1e-9, 0.5]), pairs=pairs)
    assert "-0.0" not in result.explain(0)


def test_without_a_word_published_scores_use_the_papers_numbers():
    updates = np.random.default_rng(0).normal(size=(8, 3000))
    plain = fedmerit.score(updates, method="pca", rng=1).scores
    said = fedmerit.score(updates, method="pca", peers=5, bonus=1000, rng=1).scores
    assert (plain == said).all()
    # As few parameters as leave one for a bonus and two for penalties in either half.
    few = fedmerit.score(updates[:, :6], method="pca", quantiser=QuantileBins(2), rng=1)
    assert np.isfinite(few.scores).all()


@pytest.mark.parametrize("method", ["exact", "pca"])
def test_each_client_has_as_many_peers_as_asked(method):
    result = fedmerit.score(example_round(clients=6), method=method, peers=2, rng=0)
    assert ((~np.isnan(result.pairwise)).sum(axis=1) == 2).all()


def test_every_peer_is_equally_likely():
    rng = np.random.default_rng(0)
    tally = np.zeros((4, 4))
    for _ in range(900):
        for i, j in choose_peers(4, 1, rng):
            tally[i, j] += 1
    assert (np.diagonal(tally) == 0).all()
    others = tally[~np.eye(4, dtype=bool)]
    assert np.abs(others - 300).max() < 4.5 * np.sqrt(900 * 2 / 9)


BAD_UPDATES = {
    "updates must have at least 2 clients, got 1": np.ones((1, 40)),
    "updates must be a matrix of clients x parameters": np.ones(40),
    "updates must be floating point, got dtype int64": np.ones((3, 40), dtype=np.int64),
    "updates must be floating point, got dtype complex128": np.ones((3, 40), dtype=complex),
    "updates must be floating point, got dtype <U1": [["a"] * 40, ["b"] * 40],
    "updates must be finite, got nan at client 1, parameter 7": (1, 7, np.nan),
    "updates must be finite, got -inf at client 0, parameter 0": (0, 0, -np.inf),
    "updates must have rows of one length": [[1.0, 2.0], [1.0]],
    "updates must have at least 1 parameters, got 0": np.ones((3, 0)),
}


@every_scorer
@pytest.mark.parametrize("message", BAD_UPDATES)
def test_bad_updates_name_the_rule_and_the_value(method, message):
    updates = BAD_UPDATES[message]
    if isinstance(updates, tuple):
        client, parameter, value = updates
        updates = np.ones((3, 40))
        updates[client, parameter] = value
    with pytest.raises(UpdatesError) as caught:
        fedmerit.score(updates, method=method, rng=0)
    assert message in str(caught.value)
    assert isinstance(caught.value, FedMeritError | ValueError)


@pytest.mark.parametrize(("method", "least"), [("ca", 16), ("exact", 16), ("pca", 16)])
def test_each_level_needs_a_parameter_in_each_half(method, least):
    message = f"at least 2 x levels = {least} parameters, got {least - 1}"
    with pytest.raises(UpdatesError, match=message):
        fedmerit.score(np.ones((3, least - 1)), method=method, rng=0)


@pytest.mark.parametrize("method", ["conditional", "merit"])
@pytest.mark.parametrize(("public", "needed"), [(None, 10), (1, 20), (3, 40)])
def test_by_few_parameters_nobody_is_judged(method, public, needed):
    rng = np.random.default_rng(1)
    for parameters in (1, needed - 1, needed):
        known = None if public is None else rng.normal(size=(public, parameters))
        updates = rng.normal(size=(4, parameters))
        updates[3] = 0.0 if known is None else known[0]
        result = fedmerit.score(updates, method=method, public=known, rng=0)
        told = {f is not None and f.kind is Kind.UNDECIDED and f.detail for f in result.flags}
        why = f"{parameters} parameters and {public or 0} public vectors: at least {needed}"
        abstained = any(str(detail).startswith(why) for detail in told)
        assert abstained == (parameters < needed)
        if abstained:
            assert len(told) == 1
            assert not result.flagged.any()
            assert result.eligible.all()
            assert len(set(result.scores)) == 1
            assert fedmerit.gated_weights(result).tolist() == [0.25] * 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "exact", "levels": 1}, "levels must be at least 2, got 1"),
        ({"method": "exact", "levels": 257}, "levels must be at most 256, got 257"),
        ({"method": "exact", "peers": 6}, "peers must be at most 5, got 6"),
        ({"method": "pca", "peers": 6}, "peers must be at most 5, got 6"),
        ({"method": "pca", "peers": 0}, "peers must be at least 1, got 0"),
        ({"method": "pca", "bonus": 199}, "bonus must be at most parameters // 2 - 2 = 198, got"),
        ({"method": "ca", "bonus": 0}, "bonus must be at least 1, got 0"),
        ({"method": "ca", "peers": 3}, "method 'ca' does not take peers"),
        ({"method": "merit:onekind=true"}, "not take onekind, but gate, sample, naming, one_kind"),
        ({"method": "merit:one_kind=1"}, "one_kind must be True or False, got 1"),
        ({"method": "merit:gate=exact"}, "gate of a method cannot be given in words"),
        ({"method": "exact:peers=2", "peers": 2}, "must be given once, got peers twice"),
        ({"method": "exact:levels"}, "a setting of a method must read name=value, got 'levels'"),
        ({"method": "norm:fdr=1"}, "method 'norm' does not take fdr, but nothing"),
        ({"method": "exact", "rng": -1}, "seed must be at least 0, got -1"),
        ({"method": "exact", "rng": "x"}, "rng must be None, an integer seed or a numpy Gen"),
        ({"method": "conditional", "levels": 4}, "'conditional' does not take quantiser"),
        ({"method": "conditional", "strata": 0}, "strata must be at least 1, got 0"),
        ({"method": "conditional", "fdr": 1}, "fdr must be less than 1, got 1"),
        ({"method": "conditional", "explained": 2}, "explained must be at most 1, got 2"),
        ({"method": "foolsgold", "confidence": 0}, "confidence must be greater than 0, got 0"),
        ({"method": "krum", "byzantine": 4}, "byzantine must be at most 3, got 4"),
        ({"method": 5}, "method must be a name or a Scorer, got 5"),
    ],
)
def test_bad_settings_name_the_rule_and_the_value(settings, message):
    with pytest.raises(SettingError) as caught:
        fedmerit.score(example_round(clients=6), **settings)
    assert message in str(caught.value)


def test_settings_may_stand_behind_a_name():
    assert make_scorer("merit:one-kind=true, sample=none") == Merit(one_kind=True, sample=None)
    assert make_scorer("exact:levels=4,quantiser=uniform") == make_scorer("exact", "uniform", 4)
    assert fedmerit.Server(np.zeros(4), scorer="merit:one_kind=true").rules.scorer.one_kind


def test_unknown_method_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match=r"did you mean 'exact'\?"):
        fedmerit.score(example_round(), method="exakt")


@pytest.mark.parametrize("settings", [{"peers": 2}, {"quantiser": "uniform"}, {"levels": 4}])
def test_settings_go_with_a_name_only(settings):
    with pytest.raises(SettingError, match="settings go with a method's name, not"):
        fedmerit.score(example_round(), method=SCORERS["exact"](), **settings)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"public": np.ones(3)}, "public must have one value per parameter, 400, got 3"),
        ({"public": np.full(400, np.nan)}, "public must be finite, got nan"),
        ({"previous": np.ones((2, 3))}, "previous must have the shape of the updates, (6, 400)"),
        ({"layers": np.zeros(3, dtype=int)}, "layers must have one entry per parameter"),
        ({"layers": np.zeros(400)}, "layers must be integers, got dtype float64"),
        ({"layers": np.full(400, -1)}, "layers must not be negative, got -1"),
    ],
)
def test_bad_public_information_names_the_rule_and_the_value(given, message):
    with pytest.raises(UpdatesError) as caught:
        fedmerit.score(example_round(), method="exact", **given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        (Signals(np.zeros((2, 40), np.int64), 2), "signals must be uint8, got dtype int64"),
        (Signals(np.full((2, 40), 3, np.uint8), 3), "signals must be below levels = 3, got 3"),
        (Signals(np.zeros((1, 40), np.uint8), 3), "signals must have at least 2 clients, got 1"),
    ],
)
def test_bad_signals_name_the_rule_and_the_value(signals, message):
    with pytest.raises(UpdatesError) as caught:
        fedmerit.score(signals, method="exact")
    assert message in str(caught.value)
