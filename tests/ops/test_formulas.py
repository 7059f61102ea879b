"""Gradient rules against calculus: a rule's graph, read as a formula, is proved to be sympy's derivative of the op's
formula; and evaluated to many digits at some points, it is that too."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
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


# ---- proofs ----------------------------------------------------------------------------------------------------------

X, Y, Z = SYMBOLS
P, Q, R = sympy.symbols("p q r", positive=True)
CASES: dict[str, list[dict[sympy.Symbol, sympy.Expr]]] = {
    "abs": [{X: P}, {X: -P}],
    "relu": [{X: P}, {X: -P}],
    "cbrt": [{X: P}, {X: -P}],
    "maximum": [{X: Y + P}, {X: Y - P}],
    "minimum": [{X: Y + P}, {X: Y - P}],
    "clip": [
        {X: Y + P, Z: Y + P + Q},  # between the bounds
        {X: Y - P, Z: Y + Q},  # below
        {X: Y + P + Q, Z: Y + P},  # above
        {X: Y + P, Z: Y - Q},  # the bounds the wrong way round: the upper one holds
        {X: Y - P - Q, Z: Y - P},
    ],
    "pow": [{X: P, Y: Q}, {X: P, Y: -Q}, {X: P, Y: sympy.Integer(0)}],
    "gammaln": [{X: P}],
    **{name: [{X: P}] for name in ("sqrt", "log", "log2", "log10")},
    "log1p": [{X: P - 1}],
    "arccosh": [{X: P + 1}],
    "i0e": [{X: P}, {X: -P}],
    # All of the open interval from -1 to 1
    **{name: [{X: (P - 1) / (P + 1)}] for name in ("arcsin", "arccos", "arctanh")},
}
"""Where the formula has branches or is not real everywhere: all of its (open) domain, piece by piece."""

UNPROVED = {
    "digamma": "the rule is the asymptotic series of the trigamma function, cut off: equal to rounding only",
    "i1e": "the derivative at 0 is a case of its own",
}

NUMBERS = {
    math.log(2): sympy.log(2),
    math.log(10): sympy.log(10),
    2 / math.sqrt(math.pi): 2 / sympy.sqrt(sympy.pi),
    -2 / math.sqrt(math.pi): -2 / sympy.sqrt(sympy.pi),
}
"""What doubles in rules stand for; other constants are what they are."""

RELATIONS: dict[str, Callable[..., Any]] = {
    "less": sympy.Lt,
    "less_equal": sympy.Le,
    "greater": sympy.Gt,
    "greater_equal": sympy.Ge,
    "equal": sympy.Eq,
    "not_equal": sympy.Ne,
    "and": sympy.And,
    "or": sympy.Or,
}


def symbolic(node: Node, env: dict[Node, Any]) -> Any:
    """A graph of scalars as a formula over the expressions in `env`."""
    if node not in env:
        args = [symbolic(arg, env) for arg in node.operands]
        env[node] = _formula(node, args)
    return env[node]


def _formula(node: Node, args: list[Any]) -> Any:
    name = node.op.name
    if name == "constant":
        number = node.params["data"].array[()]
        if number.dtype.kind == "b":
            return sympy.true if number else sympy.false
        return NUMBERS.get(float(number), sympy.Rational(float(number)))
    if name == "where":
        return sympy.Piecewise((args[1], args[0]), (args[2], True))
    if name in RELATIONS:
        return RELATIONS[name](*args)
    if name == "sign":
        return sympy.sign(args[0])
    if name in ("cast", "broadcast_to"):
        return args[0]
    assert isinstance(node.op, Elementwise) and node.op.formula, f"{name} has no formula"
    return meaning(node.op).subs(dict(zip(SYMBOLS, args, strict=False)), simultaneous=True)


def is_zero(expression: Any) -> bool:
    """Whether sympy can show that an expression is 0."""
    return any(
        sympy.simplify(form) == 0 for form in (expression, sympy.expand(expression), expression.rewrite(sympy.exp))
    )


def unproved(op: Elementwise, vjp: Callable[..., Any]) -> list[str]:
    """For which operands and cases it cannot be shown that a rule gives the derivative of the op's formula."""
    args = [ir.new_input(Type(np.dtype("float64"))) for _ in op.domain]
    rules = vjp(ir.constant(1.0), op(*args), *args)
    found = []
    for case in CASES.get(op.name, [{}]):
        env: dict[Node, Any] = {arg: case.get(symbol, symbol) for arg, symbol in zip(args, SYMBOLS, strict=False)}
        for symbol, rule in zip(SYMBOLS, rules, strict=False):
            derivative = sympy.diff(meaning(op), symbol).subs(case, simultaneous=True).doit()
            if not is_zero(symbolic(rule, env) - derivative):
                found.append(f"{symbol} in {case}: {symbolic(rule, env)} instead of {derivative}")
    return found


@pytest.mark.quick(11)
@pytest.mark.parametrize("op", [op for op in WITH_FORMULA if op.name not in UNPROVED], ids=str)
def test_gradient_rule_is_proved(op: Elementwise) -> None:
    assert op.vjp is not None
    assert not unproved(op, op.vjp)


def test_what_is_not_proved_is_an_op_with_a_formula() -> None:
    assert set(UNPROVED) | set(CASES) <= {op.name for op in WITH_FORMULA}


def test_a_wrong_rule_is_not_proved() -> None:
    cases: list[tuple[str, Callable[..., Any]]] = [
        ("exp", lambda g, y, x: (g * y * 1.0000000001,)),
        ("mul", lambda g, y, a, b: (g * a, g * b)),
        ("abs", lambda g, y, x: (g,)),
    ]
    for name, rule in cases:
        op = OPS[name]
        assert isinstance(op, Elementwise)
        assert unproved(op, rule)


# ---- points ----------------------------------------------------------------------------------------------------------


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


@pytest.mark.quick(11)
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
    named |= {"keep", "remark", "round_bfloat16", "round_gradient", "round_int8"}  # as if they did not round
    without = {op.name for op in OPS.values() if isinstance(op, Elementwise) and op.vjp and op.formula is None}
    assert without - named == {"mod"}  # its derivative is tested by differences
