"""Random programs: what the pipeline makes of them has the same values."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from scanjit import errors
from scanjit.rewrite import run
from scanjit.runtime.reference import evaluate
from tests.rewrite.programs import program
from tests.rewrite.support import values

SETTINGS = settings(database=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.mark.parametrize("gradient", [False, True])
@settings(SETTINGS, max_examples=60)
@given(seed=st.integers(0, 2**31), steps=st.sampled_from([0, 1, 5]), batch=st.sampled_from([1, 3]))
def test_values_are_the_same(gradient: bool, seed: int, steps: int, batch: int) -> None:
    outputs = program(seed, gradient)
    env = values(outputs, {"T": steps, "B": batch})
    try:
        wanted = evaluate(outputs, env)
    except errors.ScanjitError:
        return
    for a, b in zip(wanted, evaluate(run(outputs).outputs, env), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
