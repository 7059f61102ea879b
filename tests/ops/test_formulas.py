"""Gradient rules against calculus: a rule's graph, evaluated exactly, is sympy's derivative of the op's formula."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import sympy

import scanjit.tensor  # noqa: F401 (installs the operators)
from scanjit import ir
from scanjit.ir import OPS, Node
from scanjit.ops import Elementwise
from scanjit.types import Type

WITH_FORMULA = [op for op in OPS.values() if isinstance(op, Elementwise) and op.formula is not None]
SYMBOLS = sympy.symbols("x y z", real=True)
DIGITS = 40


def meaning(op: Elementwise) -> sympy.Expr:
    return sympy.sympify(op.formula, locals={"x": SYMBOLS[0], "y": SYMBOLS[1], "z": SYMBOLS[2]})


def exact(node: Node, env: dict[Node, sympy.Expr]) -> Any:
    """The value of a graph of scalars, by the formulas of its ops, to many digits."""
    if node in env:
        return env[node]
    args = [exact(arg, env) for arg in node.operands]
    name = node.op.name
    if name == "constant":
        number = node.params["data"].array[()]
        value: Any = bool(number) if number.dtype.kind == "b" else sympy.Rational(float(number))
    elif name == "where":
        value = args[1] if args[0] else args[2]
    elif name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
        value = bool(getattr(np, name)(args[0], args[1]))
    elif name in ("and", "or"):
        value = all(args) if name == "and" else any(args)
    elif name in ("sign", "round"):
        value = sympy.sign(args[0]) if name == "sign" else sympy.Integer(round(args[0]))
    elif name in ("cast", "broadcast_to"):
        value = args[0]
    else:
        assert isinstance(node.op, Elementwise) and node.op.formula, f"{name} has no formula"
        value = meaning(node.op).subs(dict(zip(SYMBOLS, args, strict=False))).evalf(DIGITS)
    env[node] = value
    return value


def points(op: Elementwise, count: int = 5) -> list[list[sympy.Rational]]:
    source = random.Random(op.name)
    return [
        [sympy.Rational(source.randint(int(low * 1000) + 1, int(high * 1000) - 1), 1000) for low, high in op.domain]
        for _ in range(count)
    ]


@pytest.mark.parametrize("op", WITH_FORMULA, ids=str)
def test_gradient_rule_is_the_derivative(op: Elementwise) -> None:
    scalar = Type(np.dtype("float64"))
    args = [ir.new_input(scalar) for _ in op.domain]
    assert op.vjp is not None
    rules = op.vjp(ir.constant(1.0), op(*args), *args)
    symbols = SYMBOLS[: len(args)]
    for place in points(op):
        env: dict[Node, Any] = dict(zip(args, place, strict=True))
        for symbol, rule in zip(symbols, rules, strict=True):
            derivative = sympy.diff(meaning(op), symbol).subs(dict(zip(symbols, place, strict=True))).doit()
            assert rule is not None
            # constants like log(2) are doubles in the rule
            assert abs(exact(rule, env) - derivative.evalf(DIGITS)) <= 1e-14 * (1 + abs(derivative.evalf(DIGITS)))


@pytest.mark.parametrize("op", WITH_FORMULA, ids=str)
def test_reference_is_the_formula(op: Elementwise) -> None:
    symbols = SYMBOLS[: len(op.domain)]
    for place in points(op):
        expected = float(meaning(op).subs(dict(zip(symbols, place, strict=True))).evalf(DIGITS))
        for dtype, rtol in (("float64", 1e-14), ("float32", 2e-6)):
            got = op.reference(*(np.asarray(float(x), dtype) for x in place))
            assert got.dtype == dtype
            np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol)


def test_every_derivative_that_is_not_zero_has_a_formula() -> None:
    named = {"cast", "where", "stop_gradient", "clip_gradient", "sign", "floor", "ceil", "trunc", "round", "floordiv"}
    without = {op.name for op in OPS.values() if isinstance(op, Elementwise) and op.vjp and op.formula is None}
    assert without - named == {"mod"}  # its derivative is tested by differences
