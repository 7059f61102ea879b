"""Derivatives of high order through loops, exact in small integers, in generated code with all rewrites on."""

import numpy as np
import pytest

import scanjit as sj


def polynomial(xs: list[float]) -> np.polynomial.Polynomial:
    """The sum of all steps of `h = a*h + x*a*a`, h = a at first, as a polynomial in a."""
    variable = h = np.polynomial.Polynomial([0.0, 1.0])
    total = np.polynomial.Polynomial([0.0])
    for x in xs:
        h = variable * h + x * variable * variable
        total = total + h
    return total


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_orders_up_to_four_of_a_polynomial_recurrence(mode):
    a, xs = sj.scalar("a"), sj.vector("xs")
    h = sj.scan(lambda x, h: a * h + x * a * a, sequences=xs, outputs_info=a)
    derivatives = [h.sum()]
    for _ in range(4):
        derivatives.append(sj.grad(derivatives[-1], a))
    found = sj.function([a, xs], derivatives, mode=mode)(2.0, np.array([1.0, 3.0, -2.0, 4.0]))
    wanted = polynomial([1.0, 3.0, -2.0, 4.0])
    for order, value in enumerate(found):
        assert value == wanted.deriv(order)(2.0), order
