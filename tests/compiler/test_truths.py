"""What follows from conditions that are decided, beside all numbers that fulfil them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from scanjit.codegen.truths import truth_of
from scanjit.ops.elementwise import (
    AND,
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    INVERT,
    LESS,
    LESS_EQUAL,
    NOT_EQUAL,
    OR,
    WHERE,
    XOR,
)
from scanjit.schedule.nests import Apply, Literal, Register, Value

COMPARISONS = [LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, GREATER_EQUAL, GREATER]


def variable(dtype: str, index: int) -> Register:
    return Register(np.dtype(dtype), Literal(np.dtype(dtype), 0), index)


def of(op: Any, *args: Value) -> Apply:
    return Apply(np.dtype("bool"), op, args, {})


def result(value: Value, given: dict[Value, Any]) -> Any:
    if isinstance(value, Apply):
        return value.op.reference(*(result(arg, given) for arg in value.args))  # type: ignore[attr-defined]
    return value.dtype.type(value.number) if isinstance(value, Literal) else given[value]


def cases(conditions: list[Value], variables: list[Register], numbers: list[Any]) -> Iterator[list[bool]]:
    """What the conditions are, for all numbers."""
    for chosen in itertools.product(numbers, repeat=len(variables)):
        given = {v: v.dtype.type(x) for v, x in zip(variables, chosen, strict=True)}
        yield [bool(result(condition, given)) for condition in conditions]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_comparisons(dtype: str) -> None:
    """Of the same values, in either order, and with numbers: what is said is true, and what is certain is said."""
    a, b = variable(dtype, 0), variable(dtype, 1)
    two, three = (Literal(np.dtype(dtype), number) for number in (2, 3))
    numbers = [1, 2, 3, 4] + ([2.5, np.nan, np.inf] if dtype != "int64" else [])
    pairs = [((a, b), (a, b)), ((a, b), (b, a)), ((a, two), (a, two)), ((a, two), (a, three)), ((a, three), (a, two))]
    for (first, second), decided in itertools.product(itertools.product(COMPARISONS, repeat=2), (True, False)):
        for left, right in pairs:
            known, asked = of(first, *left), of(second, *right)
            found = {truth for holds, truth in cases([known, asked], [a, b], numbers) if holds == decided}
            wanted = found.pop() if len(found) == 1 else None
            if dtype == "int64" and left[1] is not right[1] and wanted is not None:
                assert truth_of(asked, {known: decided}) in (wanted, None)  # there is no integer between two and three
            else:
                assert truth_of(asked, {known: decided}) is wanted


def test_numbers_that_are_the_same_in_the_dtype() -> None:
    a, dtype = variable("float32", 0), np.dtype("float32")
    known = of(GREATER, a, Literal(dtype, 1.0))
    assert truth_of(of(GREATER, a, Literal(dtype, 1.0 + 1e-12)), {known: True}) is True
    assert truth_of(of(LESS, a, Literal(dtype, np.nan)), {known: True}) is None


def test_several_conditions() -> None:
    """Two conditions together, and truth values that are joined."""
    a = variable("int64", 0)
    one, two = (Literal(np.dtype("int64"), number) for number in (1, 2))
    above, below, p, q = of(GREATER_EQUAL, a, one), of(LESS_EQUAL, a, one), variable("bool", 1), variable("bool", 2)
    assert truth_of(of(EQUAL, a, one), {above: True, below: True}) is True
    assert truth_of(of(EQUAL, a, two), {below: True}) is False
    joined = [
        of(AND, p, q),
        of(OR, p, q),
        of(XOR, p, q),
        of(INVERT, p),
        of(WHERE, p, q, above),
        of(AND, p, of(INVERT, q)),
    ]
    for decided in ({p: x, q: y} for x in (True, False, None) for y in (True, False, None)):
        known = {v: truth for v, truth in decided.items() if truth is not None} | {above: True}
        for value in joined:
            free = [v for v in (p, q) if decided[v] is None]
            found = {
                bool(result(value, known | dict(zip(free, rest, strict=True)) | {a: 1}))
                for rest in itertools.product((True, False), repeat=len(free))
            }
            assert truth_of(value, known) is (found.pop() if len(found) == 1 else None), value.op
    assert truth_of(a, {p: True}) is None
    assert truth_of(p, {}) is None
