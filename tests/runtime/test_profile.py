"""`f.profile()`: what ran, how often, and what it cost; the results of timed programs are those of the others."""

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host


@pytest.fixture
def profiling():
    sj.config.profile = True


def program(unroll=False):
    x, w = sj.tensor(("T", 3), name="x"), sj.tensor((3, 3), name="w")
    h = sj.scan(lambda x_t, h: sj.tanh(x_t + h @ w), x, np.zeros(3), unroll=unroll)
    return sj.function([x, w], h.sum(axis=1), name="recurrence")


@pytest.mark.parametrize("unroll", [False, 2])
def test_runs_and_operations(profiling, unroll, rng: np.random.Generator) -> None:
    f = program(unroll)
    arrays = rng.standard_normal((7, 3)), rng.standard_normal((3, 3))
    timed = [f(*arrays) for _ in range(4)]
    sj.config.profile = False
    np.testing.assert_array_equal(timed, [f(*arrays)] * 4)
    found = f.profile()
    assert found.calls == 4 and found.threads == 1
    steps = [line for line in found.lines if line.runs == 4 * 7]
    assert len(steps) >= 1 and sum(line.operations for line in steps) >= 4 * 7 * 3 * 2 * 3  # at least the product's
    assert all(line.seconds > 0 and line.limit > 0 and line.nbytes > 0 for line in found.lines)
    assert sum(line.seconds for line in found.lines) < 2 * found.seconds
    assert "recurrence: 4 calls" in str(found) and all(line.label in str(found) for line in found.lines)


@pytest.mark.parametrize(("weights", "count"), [("bfloat16", 2), ("int8", 4)])
def test_a_product_of_packs_counts_as_one_multiply_add(profiling, weights, count) -> None:
    """Its instruction takes as long, so that nothing is faster than its limit. Registers for matrices make eight of
    them in that time."""
    target = host.target()
    if target.has_matrices:
        count *= 8
    elif not (target.multiplies_pairs if count == 2 else target.multiplies_quads):
        pytest.skip("there is no such instruction here")
    x, w = np.ones((8, 256), "float32"), np.ones((256, 32), "float32")
    f = sj.mixed(sj.jit(lambda x, w: x @ w), weights=weights).function(x, w)
    f(x, w)
    (line,) = (line for line in f.profile().lines if line.label.startswith("contract"))
    assert 1 <= line.operations / (2 * 8 * 32 * 256 // count) < (2.5 if target.has_matrices else 1.2)  # and scales


def test_nothing_was_profiled() -> None:
    f = program()
    with pytest.raises(sj.ArgumentError, match=r"no call of recurrence was profiled(.|\n)*sj.config.profile = True"):
        f.profile()
