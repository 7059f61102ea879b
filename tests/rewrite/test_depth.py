"""The compiler's work grows with the depth of a program, not with its square: it is counted in calls of functions."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import scanjit as sj
from scanjit.ir import Node

X = sj.tensor((4,), "float64", "x")


def branches(depth: int, value: Node) -> Node:
    """Branches inside of each other."""
    if depth == 0:
        return sj.tanh(value)
    return sj.ifelse(sj.sum(value) > depth, lambda: branches(depth - 1, value * 2.0 + X), lambda: value - X)


def sizes(depth: int, value: Node) -> Node:
    """Branches inside of each other, the innermost of which computes a size."""
    if depth == 0:
        return sj.sum(sj.filter(lambda entry: entry > 0.0, value))
    return sj.ifelse(sj.sum(value) > depth, lambda: sizes(depth - 1, value * 2.0 + X), lambda: sj.sum(value - X))


def scans(depth: int, value: Node) -> Node:
    """Loops inside of each other."""
    if depth == 0:
        return sj.tanh(value)
    return sj.scan(lambda state: scans(depth - 1, state * 0.5), outputs_info=value, n_steps=3)[-1]


def mixed(depth: int, value: Node) -> Node:
    """Loops and branches inside of each other."""
    if depth == 0:
        return sj.tanh(value)
    if depth % 2:
        return sj.scan(lambda state: mixed(depth - 1, state * 0.5), outputs_info=value, n_steps=3)[-1]
    return sj.ifelse(sj.sum(value) > depth, lambda: mixed(depth - 1, value * 2.0 + X), lambda: value - X)


def vmaps(depth: int, value: Node) -> Node:
    """Batches of batches. The innermost arrays have as many axes as there are batches."""
    if depth == 0:
        return sj.tanh(sj.sum(value))
    return sj.sum(sj.vmap(lambda entry: vmaps(depth - 1, entry + 1.0))(sj.stack([value, value * 2.0])))


def row(count: int, value: Node) -> Node:
    """The gradient, with respect to a computed value, of branches one behind the other."""
    inside = value * 2.0
    result = inside
    for i in range(count):
        result = sj.ifelse(sj.sum(result) > i, lambda y=result: sj.tanh(y) + inside, lambda y=result: y - inside)
    return sj.grad(sj.sum(result), inside)


def calls(program: Callable[[int, Node], Node], depth: int) -> int:
    """How many calls it takes to build and compile a program of some depth."""
    count = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        sj.function([X], program(depth, X), mode="emulate")
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    ("program", "most"), [(branches, 2.5), (sizes, 2.5), (scans, 3.0), (mixed, 3.0), (row, 2.5), (vmaps, 4.5)]
)
def test_work_grows_with_depth(program: Callable[[int, Node], Node], most: float) -> None:
    calls(program, 2)  # fills what is computed once
    first, second, third = (calls(program, depth) for depth in (4, 8, 16))
    assert third - second < most * (second - first)  # 2 if each depth takes as much work
