"""Returns, advantages and V-trace beside plain loops."""

import numpy as np

import scanjit as sj

RANDOM = np.random.default_rng(5)
REWARDS, VALUES, RATIOS = RANDOM.normal(size=(9, 4)), RANDOM.normal(size=(9, 4)), RANDOM.uniform(0.3, 2, (9, 4))
ENDED = (RANDOM.random((9, 4)) < 0.2).astype(float)
LAST = RANDOM.normal(size=4)
NEXT = np.concatenate([VALUES[1:], LAST[None]])


def backwards(added, keeps, last):
    sums, total = np.empty_like(added), last
    for t in reversed(range(len(added))):
        sums[t] = total = added[t] + keeps[t] * total
    return sums


def test_discounted_returns():
    found = sj.jit(lambda r, last, ended: sj.timeseries.discounted_returns(r, 0.9, last, ended))(REWARDS, LAST, ENDED)
    np.testing.assert_allclose(found, backwards(REWARDS, 0.9 * (1 - ENDED), LAST))
    found = sj.jit(lambda r: sj.timeseries.discounted_returns(r, 0.9))(REWARDS)
    np.testing.assert_allclose(found, backwards(REWARDS, 0.9 + 0 * ENDED, np.zeros(4)))


def test_advantages():
    found = sj.jit(lambda r, v, last, ended: sj.timeseries.advantages(r, v, 0.9, 0.8, last, ended))(
        REWARDS, VALUES, LAST, ENDED
    )
    keeps = 0.9 * (1 - ENDED)
    np.testing.assert_allclose(found, backwards(REWARDS + keeps * NEXT - VALUES, 0.8 * keeps, np.zeros(4)))


def test_v_trace():
    """By the sum over later steps that defines it."""
    found = sj.jit(lambda p, r, v, last, ended: sj.timeseries.v_trace(p, r, v, 0.9, last, ended, 1.5, 0.7))(
        RATIOS, REWARDS, VALUES, LAST, ENDED
    )
    keeps = 0.9 * (1 - ENDED)
    surprises = np.minimum(RATIOS, 1.5) * (REWARDS + keeps * NEXT - VALUES)
    targets = VALUES.copy()
    for t in range(9):
        for s in range(t, 9):
            targets[t] += np.prod(keeps[t:s] * np.minimum(RATIOS[t:s], 1), axis=0) * surprises[s]
    np.testing.assert_allclose(found.values, targets)
    after = np.concatenate([targets[1:], LAST[None]])
    np.testing.assert_allclose(found.advantages, np.minimum(RATIOS, 0.7) * (REWARDS + keeps * after - VALUES))
