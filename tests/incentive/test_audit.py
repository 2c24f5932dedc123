import numpy as np
import pytest

from fedmerit.errors import InvalidInputError, SettingError
from fedmerit.incentive.audit import AuditSettings, _try, audit_signals, audit_updates
from fedmerit.incentive.lies import Candidate
from fedmerit.types import Signals

QUICK = AuditSettings(draws=3, random_maps=20, climbs=1)


def round_of(levels: int, clients: int = 4, parameters: int = 1500, seed: int = 0):
    """Updates that share a direction, a public vector close to it, and their signals."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=parameters)
    updates = shared + rng.normal(size=(clients, parameters))
    public = (shared + rng.normal(size=parameters))[None]

    def levels_of(values: np.ndarray) -> Signals:
        ranks = values.argsort(axis=1).argsort(axis=1)
        return Signals((ranks * levels // parameters).astype(np.uint8), levels)

    return updates, public, levels_of(updates), levels_of(public)


@pytest.mark.parametrize("levels", [2, 4, 8, 20])
def test_no_covered_lie_gains_more_than_the_certificate(levels: int) -> None:
    _, _, signals, public = round_of(levels)
    audit = audit_signals(signals, public=public, settings=QUICK, rng=1)
    assert audit.parameters == 1500
    for client in audit.clients:
        assert client.holds
        assert client.truth > 0
        assert {lie.kind for lie in client.lies} == {
            "merging", "noise", "permutation", "public", "uninformed",
        }  # fmt: skip


def test_noise_and_uninformed_reports_lose() -> None:
    _, _, signals, _ = round_of(8, parameters=6000)
    for client in audit_signals(signals, settings=QUICK, rng=2).clients:
        for lie in client.lies:
            if lie.kind in {"noise", "uninformed"}:
                assert lie.gain < 0
            if lie.kind == "permutation":
                assert lie.gain == pytest.approx(0, abs=1e-12)


def test_replaying_the_public_vector_pays_unless_the_score_is_conditional() -> None:
    _, _, signals, public = round_of(4, parameters=6000)

    def replay(strata) -> float:
        audit = audit_signals(
            signals, public=public, strata=strata, clients=[0], settings=QUICK, rng=3
        )
        (lie,) = [x for x in audit.clients[0].lies if x.description == "levels of public vector 0"]
        return lie.score / audit.clients[0].truth

    assert replay(None) > 0.5
    assert abs(replay(public.values[0].astype(np.int64))) < 0.1


def test_conditional_relabelling_stays_below_its_certificate() -> None:
    _, _, signals, public = round_of(4, parameters=600)
    strata = public.values[0].astype(np.int64)
    for client in audit_signals(signals, strata=strata, settings=QUICK, rng=4).clients:
        assert client.holds
        assert 0 < client.lies[0].gain <= client.epsilon


def test_same_seed_same_audit() -> None:
    _, _, signals, _ = round_of(10)
    first, again = (audit_signals(signals, settings=QUICK, rng=7) for _ in range(2))
    assert first == again
    assert first.best.best.gain == max(client.best.gain for client in first.clients)


def test_updates_are_audited_under_any_score() -> None:
    updates, public, _, _ = round_of(4)

    def loudness(matrix: np.ndarray, _: np.ndarray | None) -> np.ndarray:
        return np.abs(matrix).mean(axis=1)

    (audit,) = audit_updates(updates, loudness, public=public, clients=[2], settings=QUICK, rng=5)
    assert audit.best.description == "update times 10"
    assert audit.best.gain == pytest.approx(9 * audit.truth)
    assert np.isnan(audit.epsilon)
    assert not any(lie.covered for lie in audit.lies if lie.kind != "permutation")


def test_own_past_and_accounts_are_tried() -> None:
    updates, _, _, _ = round_of(4)
    previous = np.stack((updates, 2 * updates), axis=1)

    def same_for_all(matrix: np.ndarray, past: np.ndarray | None) -> np.ndarray:
        assert past is not None
        assert past.shape == (len(matrix), 2, matrix.shape[1])
        return np.ones(len(matrix))

    (audit,) = audit_updates(
        updates, same_for_all, previous=previous, clients=[1], settings=QUICK, rng=5
    )
    assert audit.best.description.startswith("7 accounts")
    assert audit.best.gain == 6.0
    assert {lie.gain for lie in audit.lies if lie.kind == "own past"} == {0.0}


def test_the_error_of_a_gain_is_that_of_a_mean() -> None:
    values = iter([1.0, 2.0, 3.0, 6.0])
    lie = Candidate("noise", "four draws", lambda _: np.array([next(values)]))
    settings = AuditSettings(draws=4)
    (found,) = _try([lie], lambda report: float(report[0]), 0.5, settings, np.random.default_rng(0))
    assert (found.score, found.gain) == (3.0, 2.5)
    assert found.standard_error == pytest.approx(np.sqrt(14 / 3) / 2)


def test_settings_check_themselves() -> None:
    with pytest.raises(SettingError, match="draws must be at least 1, got 0"):
        AuditSettings(draws=0)
    with pytest.raises(SettingError, match="delta must be less than 1"):
        AuditSettings(delta=1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": [4]}, "client must be at most 3, got 4"),
        ({"strata": np.zeros(3, dtype=int)}, r"strata must be 1500 integers .* shape \(3,\)"),
        ({"strata": np.zeros(1500)}, "got float64"),
        ({"public": Signals(np.zeros((1, 9), dtype=np.uint8), 4)}, r"\(4, 1500\), got \(4, 9\)"),
    ],
)
def test_bad_arguments_are_named(options: dict, message: str) -> None:
    _, _, signals, _ = round_of(4)
    with pytest.raises(InvalidInputError, match=message):
        audit_signals(signals, settings=QUICK, rng=0, **options)
