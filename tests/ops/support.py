"""Functions of symbols, run on arrays: with sizes known, and with sizes that are symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scanjit import types
from scanjit.ir import Node, new_input
from scanjit.runtime.reference import evaluate
from scanjit.types import Type


def inputs(arrays: Sequence[Any], symbolic: bool) -> list[Node]:
    """New inputs of the arrays' types; `symbolic` sizes are unknown, but for 1, which may be stretched."""
    nodes = []
    for array in map(np.asarray, arrays):
        shape = tuple(types.size() if symbolic and n != 1 else n for n in array.shape)
        nodes.append(new_input(Type(array.dtype, shape)))
    return nodes


def run(fn: Callable[..., Any], *arrays: Any, symbolic: bool = False) -> Any:
    """`fn` applied to inputs, evaluated by the reference interpreter (which checks all inferred types)."""
    arrays = tuple(map(np.asarray, arrays))
    nodes = inputs(arrays, symbolic)
    result = fn(*nodes)
    if isinstance(result, tuple | list):
        return evaluate(list(result), dict(zip(nodes, arrays, strict=True)))
    return evaluate([result], dict(zip(nodes, arrays, strict=True)))[0]


def same(got: Any, expected: Any, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Equal in dtype, shape and values (to a tolerance)."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.dtype == expected.dtype, f"{got.dtype}, not {expected.dtype}"
    assert got.shape == expected.shape, f"{got.shape}, not {expected.shape}"
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)


def agrees(fn: Callable[..., Any], numpy_fn: Callable[..., Any], *arrays: Any, rtol: float = 0.0) -> None:
    """`fn` on symbols gives what `numpy_fn` gives on arrays, whether or not sizes are known."""
    with np.errstate(all="ignore"):
        expected = numpy_fn(*map(np.asarray, arrays))
    for symbolic in (False, True):
        got = run(fn, *arrays, symbolic=symbolic)
        if isinstance(expected, tuple | list):
            assert len(got) == len(expected)
            for a, b in zip(got, expected, strict=True):
                same(a, b, rtol, rtol)
        else:
            same(got, expected, rtol, rtol)


def differences(
    fn: Callable[..., np.ndarray], arrays: Sequence[np.ndarray], which: int, step: float = 1e-6
) -> np.ndarray:
    """The gradient of a scalar function of arrays by central differences."""
    gradient = np.zeros_like(arrays[which])
    for place in np.ndindex(gradient.shape):
        ends = []
        for sign in (1, -1):
            moved = [a.copy() for a in arrays]
            moved[which][place] += sign * step
            ends.append(float(fn(*moved)))
        gradient[place] = (ends[0] - ends[1]) / (2 * step)
    return gradient
