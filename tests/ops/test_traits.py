"""What ops say of themselves (`scanjit.ir.Op`, traits) is true of their samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import scanjit.tensor  # noqa: F401 (makes the table whole)
from scanjit.ir import OPS, Op
from scanjit.types import Type

SAMPLED = [op for op in OPS.values() if op.samples is not None]
Call = tuple[list[np.ndarray], dict[str, Any]]


def calls(op: Op) -> Iterator[Call]:
    assert op.samples is not None
    for arrays, params in op.samples(np.random.default_rng(0), op.dtypes[0]):
        yield [np.asarray(array) for array in arrays], params


def value(op: Op, arrays: Sequence[np.ndarray], params: dict[str, Any]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(op.reference(*map(np.asarray, arrays), **params))


@pytest.mark.parametrize("op", [op for op in SAMPLED if op.is_linear], ids=str)
def test_linear(op: Op) -> None:
    """`f(a + b) = f(a) + f(b)`, all operands added at once."""
    for arrays, params in calls(op):
        others = [np.flip(array * 3 + 1) for array in arrays]
        sums = [a + b for a, b in zip(arrays, others, strict=True)]
        expected = value(op, arrays, params) + value(op, others, params)
        np.testing.assert_allclose(value(op, sums, params), expected, rtol=1e-12)


def test_what_is_not_linear_fails_the_test() -> None:
    with pytest.raises(AssertionError):
        test_linear(OPS["exp"])


@pytest.mark.parametrize("op", [op for op in SAMPLED if op.zero_with], ids=str)
def test_zeros(op: Op) -> None:
    for arrays, params in calls(op):
        for position in op.zero_with:
            given = [np.zeros_like(array) if i == position else array for i, array in enumerate(arrays)]
            assert not value(op, given, params).any()


@pytest.mark.parametrize("op", [op for op in SAMPLED if op.moves_data], ids=str)
def test_data_is_moved(op: Op) -> None:
    """Every element of the result is an element of an operand; an op without operands has none to compute with."""
    for arrays, params in calls(op):
        found = value(op, arrays, params)
        assert not arrays or np.isin(found, np.concatenate([array.ravel() for array in arrays])).all()


@pytest.mark.parametrize("op", [op for op in SAMPLED if op.aligned is not None], ids=str)
def test_aligned_axes(op: Op) -> None:
    """A change of entry k of an axis of an operand changes the result only at entry k of the aligned axis."""
    assert op.aligned is not None
    for arrays, params in calls(op):
        types = [Type(array.dtype, array.shape) for array in arrays]
        before = value(op, arrays, params)
        result = Type(before.dtype, before.shape)
        for position, array in enumerate(arrays):
            for mine, its in op.aligned(position, types[position], result, **params).items():
                for k in range(array.shape[mine]):
                    changed = array.copy()
                    at = (slice(None),) * mine + (k,)
                    changed[at] = ~changed[at] if array.dtype == np.bool_ else changed[at] + 1
                    after = value(op, [changed if i == position else a for i, a in enumerate(arrays)], params)
                    rest = np.delete(np.arange(before.shape[its]), k)
                    np.testing.assert_array_equal(np.take(after, rest, its), np.take(before, rest, its))
                    assert before.shape[its] == array.shape[mine]


@pytest.mark.parametrize("op", [op for op in SAMPLED if op.of_dims is not None], ids=str)
def test_dimensions(op: Op, rng: np.random.Generator) -> None:
    """What an op computes of dimensions is what it computes of integers."""
    assert op.of_dims is not None
    count = len(next(calls(op))[0])
    for _ in range(20):
        numbers = [int(n) for n in rng.integers(0, 9, count)]
        params = {"dtype": np.dtype("int64")} if op.name == "cast" else {}
        assert op.of_dims(*numbers) == int(op.reference(*map(np.int64, numbers), **params))
