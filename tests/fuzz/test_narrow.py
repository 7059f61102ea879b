"""Programs of few bits stay within their bounds, and the bounds are narrow enough to notice a fault."""

from __future__ import annotations

import numpy as np
import pytest

from scanjit.ops import narrow
from tests.fuzz.check import Config, Mismatch
from tests.fuzz.narrow import Near, check_bounds, contracted, few_bits

SEEDS = range(6)


@pytest.mark.quick(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_programs_of_few_bits(seed: int) -> None:
    check_bounds(few_bits(seed), [Config(width=32), Config("numba")], runs=1)


def test_a_fault_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands of mixed products that are one unit of bfloat16 too large."""
    coarse = lambda x: narrow.to_bfloat16(x * np.float32(1 + 2.0**-7))
    monkeypatch.setattr(narrow.ROUND_BFLOAT16, "reference", coarse)
    with pytest.raises(Mismatch, match="products of bfloat16"):
        for seed in range(60):
            p = few_bits(seed)
            if p.oracle.format == "bfloat16":
                check_bounds(p, [], runs=1)


@pytest.mark.parametrize(("dtype", "units"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8), ("float32", 2.0**-24)])
def test_bounds_are_close(dtype: str, units: float, rng: np.random.Generator) -> None:
    """A product of exact operands has the error of its sum and of one rounding, and no more."""
    a, b = (Near(x, np.zeros_like(x)) for x in rng.uniform(1, 2, (2, 4, 4)))
    near = contracted("ij,jk->ik", a, b, dtype, None)
    assert (near.error <= (units + 8 * 2.0**-24) * near.value).all() and (near.error >= units * near.value).all()


def test_what_is_beyond_the_range_has_no_bound() -> None:
    large = Near(np.array([6e4, 7e4]), np.zeros(2)).rounded("float16")
    assert np.isfinite(large.error[0]) and np.isinf(large.error[1])
