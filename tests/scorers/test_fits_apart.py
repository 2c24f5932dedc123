"""What fits of public information leave is no agreement: too much work without the compiler."""

import numpy as np

import fedmerit


def test_what_a_fit_leaves_of_replays_is_no_agreement(rng):
    """Noise of three sizes on one replay: the fit's error is all there is of a third of them.

    Fitted together, both halves of a stratum showed it: a mean z above 0.1 between these clients.
    """
    public = rng.normal(size=(6, 20_000))
    noise = rng.normal(size=(80, 20_000)) * rng.choice([1.0, 0.1, 0.01], size=(80, 20_000))
    result = fedmerit.score(public[-1] + noise, public=public, rng=1)
    z = result.pairs.z[~np.eye(80, dtype=bool)]
    assert abs(z.mean()) < 4 / np.sqrt(80 * 79 / 2)


def test_three_accomplices_do_not_put_out_all_who_drown_their_work_in_noise(rng):
    """They agree beyond measure, on nothing; the others want the same, and no pair can tell."""
    public, common, made_up = (
        rng.normal(size=(6, 8000)),
        rng.normal(size=8000),
        rng.normal(size=8000),
    )
    updates = rng.normal(size=(60, 8000))
    updates[:3] += made_up
    updates[3:] += 0.1 * common
    result = fedmerit.score(updates, public=public, rng=1)
    assert result.evidence.members[:3].all()
    assert not any(flag is not None and flag.accuses for flag in result.flags[3:])
    updates[3:] -= 0.1 * common
    result = fedmerit.score(updates, public=public, rng=1)
    assert all(flag is not None and flag.accuses for flag in result.flags[3:])
