"""What the code computed before it moved into this house, compared bit for bit.

golden.json was recorded from the commit that it names, with the inputs of `tests.golden.inputs`.
What is another method today, and why, is listed here; it is on record behind "again" as it is, and
is held to that from then on.
"""

import base64
import hashlib
import inspect
import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from fedmerit import (
    AGGREGATORS,
    QUANTISERS,
    SCORERS,
    FedMeritError,
    Ledger,
    Server,
    Signals,
    aggregate,
    reward_rule,
    score,
    weights,
)
from fedmerit.errors import SettingError
from fedmerit.incentive.registry import RULES
from fedmerit.ledger.proof.encoding import encode_rows, encode_value
from fedmerit.rng import seeds, stream
from fedmerit.server.judging import scoring_stream
from tests.golden.inputs import (
    FEDERATIONS,
    METHODS,
    REWARDS,
    ROUNDS,
    SCORES,
    SEED,
    SIZES,
    VALUES,
    cut,
    flat,
    initial,
    pack,
    probe,
    replies,
)
from tests.ledger.builders import make_record

GOLDEN = json.loads((Path(__file__).parent / "golden" / "golden.json").read_text(encoding="utf-8"))

NUMBERS = ("score", "weight", "p_value", "epsilon")
PLAIN = ("flagged", "reward", "num_examples")
# Matrix products of the library that NumPy has: other bits with other numbers of threads. Of arrays
# of which only a digest is on record the shape is compared then.
TO_TEN_DIGITS = {"merit"}
# What is another method today, by name, recorded anew. `merit` is the information of those who
# worked (0031), counts what came true of earlier reports (0039) and tells accounts by what sets
# them apart (0040). `conditional` judges nobody without power (0017), makes public vectors
# orthogonal first and takes exact zeros for ties (0042). To both, what is computed from the last
# update is public (0046).
AGAIN = GOLDEN["again"]


def method_of(name):
    return name.split(",")[0].split(" ")[0]


@pytest.fixture(scope="module")
def bits():
    """Whether libraries compute the same bits here as where the record was made."""
    return probe() == GOLDEN["probe"]


def unpack(text):
    """The array that was packed, or None where only its digest is on record."""
    kind, shape, content = text.split(" ")
    if "x" in shape or int(shape) > 64:
        return None
    return np.frombuffer(base64.b64decode(content), dtype=kind)


def same(found, recorded, bits):
    """Bit for bit; on machines whose libraries compute other bits, to ten digits."""
    floats = all(isinstance(text, str) and text.startswith("<f") for text in (found, recorded))
    if bits or not floats:
        return found == recorded
    ours, theirs = unpack(found), unpack(recorded)
    if ours is None or theirs is None:  # digests, which say nothing about how far apart they are
        return found.split(" ")[:2] == recorded.split(" ")[:2]
    return ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def columns(result):
    """A result with the columns that were recorded; what says nothing is left out."""
    found = {
        "scores": result.scores,
        "p_values": result.p_values,
        "epsilon": result.epsilon,
        "work": result.work,
    }
    if result.pairs is not None:
        pairs = result.pairs
        found |= {"pairwise": pairs.score, "agreement": pairs.agreement}
        found |= {"chance": pairs.chance, "z": pairs.z}
    if result.evidence is not None:
        found["explained"] = result.evidence.explained
        for name, column in (
            ("copies", result.evidence.copies),
            ("evidence", result.evidence.relative),
        ):
            if (column != 1).any():
                found[name] = column
    known = {
        name: pack(column)
        for name, column in found.items()
        if column is not None and not (column.dtype.kind == "f" and np.isnan(column).all())
    }
    return known | verdicts(result)


def verdicts(result):
    if not result.flagged.any() and result.eligible.all():
        return {}
    accused = [flag is not None and flag.accuses for flag in result.flags]
    words = [text if bad else "" for text, bad in zip(result.reasons, accused, strict=True)]
    if len(words) > 64:
        words = hashlib.sha256(json.dumps(words).encode()).hexdigest()
    return {
        "flagged": "".join("01"[bad] for bad in accused),
        "eligible": "".join("01"[int(yes)] for yes in result.eligible),
        "reasons": words,
    }


def scored(name, case):
    try:
        result = score(**ROUNDS[case], method=method_of(name), rng=SEED, **METHODS[name])
    except FedMeritError as error:
        return {"error": type(error).__name__}
    return columns(result)


def different(found, recorded, bits):
    names = found.keys() | recorded.keys()
    return {name for name in names if not same(found.get(name), recorded.get(name), bits)}


def test_all_that_was_recorded_is_still_there():
    """What came later is not on record."""
    assert {method_of(name) for name in METHODS} <= set(SCORERS)
    assert {name.split(" ")[0] for name in GOLDEN["quantised"]} <= set(QUANTISERS)
    assert {name.split(" ")[0] for name in GOLDEN["aggregated"]} <= set(AGGREGATORS)
    assert set(REWARDS) <= set(RULES)


def test_the_inputs_are_those_that_were_recorded():
    found = {case: {n: pack(a) for n, a in given.items()} for case, given in ROUNDS.items()}
    assert found == GOLDEN["inputs"]


@pytest.mark.parametrize("name", METHODS)
def test_scores(name, bits):
    recorded = AGAIN["scores"].get(name) or GOLDEN["scores"][name]
    bits = bits and name not in TO_TEN_DIGITS
    changed = {case: different(scored(name, case), recorded[case], bits) for case in ROUNDS}
    assert not any(changed.values()), changed


@pytest.mark.parametrize("method", GOLDEN["signals"])
def test_scores_of_levels(method, bits):
    levels = (np.abs(ROUNDS["plain"]["updates"]) * 200).astype(np.uint8) % 4
    found = pack(score(Signals(levels, 4), method=method, rng=SEED).scores)
    assert same(found, GOLDEN["signals"][method], bits)


@pytest.mark.parametrize("case", SCORES)
def test_weights(case, bits):
    for alpha, recorded in GOLDEN["weights"][case].items():
        assert same(pack(weights(SCORES[case][0], float(alpha))), recorded, bits), alpha


@pytest.mark.parametrize("name", GOLDEN["quantised"])
def test_quantisers(name):
    kind, levels, case = name.split(" ")
    settings = {"levels": int(levels.split("+")[0])}
    if "+" in levels:
        settings |= {"binomial_trials": int(levels.split("+")[1]), "probability": 0.3}
    quantiser = QUANTISERS[kind](**settings)
    signals = quantiser.quantise(ROUNDS[case]["updates"], np.random.default_rng(SEED))
    found = [pack(signals.values)]
    if hasattr(quantiser, "dequantise"):
        found.append(pack(quantiser.dequantise(signals)))
    assert found == GOLDEN["quantised"][name]


@pytest.mark.parametrize("rule", sorted({rule for _, _, rule, _ in FEDERATIONS.values()}))
def test_aggregators(rule, bits):
    recorded = {n: v for n, v in GOLDEN["aggregated"].items() if n.split(" ")[0] == rule}
    assert any("weighted" in n for n in recorded) == (
        "weights" in inspect.signature(AGGREGATORS[rule]).parameters
    )
    for name, expected in recorded.items():
        _, case, bound, *weighted = name.split(" ")
        updates = ROUNDS[case]["updates"]
        shares = np.arange(len(updates)) + 0.5
        shares[1] = 0
        found = aggregate(
            updates,
            shares if weighted else None,
            rule=rule,
            norm_bound=None if bound == "None" else float(bound),
        )
        assert same(pack(found), expected, bits), name


# Rules, by their name and number, that were paid by and are refused today.
REFUSED = {
    ("positive", 1): "minimum must be at most the floor, 7, which would never be sent, got 50",
}


@pytest.mark.parametrize("rule", REWARDS)
def test_payments(rule):
    for number, settings in enumerate(REWARDS[rule]):
        if (rule, number) in REFUSED:
            with pytest.raises(SettingError, match=REFUSED[rule, number]):
                reward_rule(rule, **settings)
            continue
        for case, (scores, out) in SCORES.items():
            clients = [f"c{row}" for row in range(len(scores))]
            paid = reward_rule(rule, **settings).pay(scores, clients, np.array(out))
            assert [*paid.amounts, paid.unspent] == GOLDEN["paid"][f"{rule} {number} {case}"]


def test_random_streams():
    found = {
        "stream": stream(7, "round", 3, "client", 12, "noise").integers(2**63, size=3).tolist(),
        "scoring": scoring_stream(7, 3).integers(2**63, size=3).tolist(),
        "seeds": [int(seed) for seed in seeds(np.random.default_rng(7), 3)],
    }
    assert found == GOLDEN["streams"]


def rounds_of(name):
    """Three rounds through the server, with the columns that were recorded."""
    scorer, weighting, rule, reward = FEDERATIONS[name]
    records, models = [], []
    with Server(
        initial(),
        scorer=scorer,
        weighting=weighting,
        rule=rule,
        reward=None if reward is None else reward_rule(reward, **REWARDS[reward][0]),
        alpha=10.0,
        norm_bound=1.5,
        seed=SEED,
        record=records.append,
    ) as server:
        model, before = flat(server.model), None
        for count in (1, 2, 3):
            sent = replies(count, model, before)
            server.settle(updates={client: cut(row) for client, row in sent.items()}, sizes=SIZES)
            model, before = flat(server.model), model
            models.append(pack(model))
    return records, models


def facts(record):
    """A record as it was recorded; words of a flag that accuses nobody are new."""
    return {
        "rejected": [[refusal.client, refusal.reason] for refusal in record.rejected],
        "agreement": record.agreement.hex(),
        "clients": [
            {
                **{name: getattr(client, name) for name in ("client", *NUMBERS, *PLAIN)},
                "reason": client.reason if client.flagged else "",
            }
            for client in record.clients
        ],
    }


def recorded_facts(recorded):
    names = ("client", *NUMBERS, "flagged", "reason", "reward", "num_examples")
    clients = [dict(zip(names, values, strict=True)) for values in recorded["clients"]]
    for client in clients:
        client |= {name: client[name] and float.fromhex(client[name]) for name in NUMBERS}
    return {"clients": clients, **{name: recorded[name] for name in ("rejected", "agreement")}}


def to_ten_digits(found):
    for client in found["clients"]:
        client |= {name: client[name] and float(f"{client[name]:.10g}") for name in NUMBERS}
    return found


@pytest.mark.parametrize("name", FEDERATIONS)
def test_rounds_of_a_federation(name, bits):
    records, models = rounds_of(name)
    bits = bits and method_of(name) not in TO_TEN_DIGITS
    golden = AGAIN["federations"].get(name) or GOLDEN["federations"][name]
    for record, model, recorded in zip(records, models, golden, strict=True):
        found, expected = facts(record), recorded_facts(recorded)
        if not bits:
            found, expected = to_ten_digits(found), to_ten_digits(expected)
        np.testing.assert_equal(found, expected)
        assert same(model, recorded["model"], bits)


def test_canonical_bytes():
    found = [encode_value(value).hex() for value in VALUES]
    assert [*found, encode_rows([(0, "a", 0.5), (1, None, b"x")]).hex()] == GOLDEN["bytes"]


@pytest.fixture
def old_ledger(tmp_path):
    """The ledger that the old code wrote of the federations: rounds with and without agreement."""
    path = tmp_path / "old.ledger"
    path.write_bytes(zlib.decompress(base64.b64decode(GOLDEN["ledger"])))
    return path


def test_old_ledgers_verify_and_are_read_to_the_last_bit(old_ledger):
    head = GOLDEN["entries"][-1]
    recorded = [found for rounds in GOLDEN["federations"].values() for found in rounds]
    with Ledger.open(old_ledger, read_only=True) as ledger:
        assert ledger.verify(head=head).problem is None
        stored = list(ledger.history())
        assert [run.config["name"] for run in ledger.runs()] == list(FEDERATIONS)
    # A run is an entry before its three rounds.
    hashes = [digest for place, digest in enumerate(GOLDEN["entries"]) if place % 4]
    assert [found.hash for found in stored] == hashes
    for found, expected in zip(stored, recorded, strict=True):
        np.testing.assert_equal(facts(found.record), recorded_facts(expected))


def test_every_old_entry_keeps_its_hash_when_the_ledger_is_continued(old_ledger):
    with Ledger.open(old_ledger) as ledger:
        ledger.resume_run(len(FEDERATIONS))
        ledger.append(make_record(4))
        assert ledger.verify(head=GOLDEN["entries"][-1]).rounds == 3 * len(FEDERATIONS) + 1
        hashes = [found.hash for found in ledger.history()]
    assert hashes[:-1] == [digest for place, digest in enumerate(GOLDEN["entries"]) if place % 4]
