"""Elementwise ops are done in the order in which loops store their steps."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import Node
from scanjit.ops.view import DIMSHUFFLE
from scanjit.rewrite import run
from tests.rewrite.support import checked, count, fn, scans, symbol, total, view


def likelihood(mean: Node, series: Node) -> Node:
    """Of errors whose variance follows the last error."""
    errors = series - mean
    variances = sj.scan(lambda e, v: 0.1 + 0.2 * e + 0.7 * v, sequences=errors**2, outputs_info=1.0)
    return (sj.log(variances) + errors**2 / variances).sum()


def rewritten(of_one: Any, *args: Node) -> tuple[list[Node], list[str]]:
    found = sj.vmap(of_one)(*args)
    result = run([found] if isinstance(found, Node) else found)
    return list(result.outputs), [note.text for note in result.notes]


def turned(nodes: list[Node]) -> list[Node]:
    """What loops read through transposes."""
    return [arg for scan in scans(nodes) for arg in scan.operands if arg.op is DIMSHUFFLE]


def test_series_in_rows_are_copied_once() -> None:
    mean, series = sj.vector("mean"), sj.matrix("series")
    nodes, notes = rewritten(lambda m, y: sj.value_and_grad(likelihood)(m, y), mean, series)
    assert count(nodes)["copy"] == 1 and not turned(nodes) and any("the order of a loop's axes" in n for n in notes)
    assert len(scans(nodes)) == 2


def test_series_in_columns_need_no_copy() -> None:
    mean, series = sj.vector("mean"), sj.matrix("series")
    result = run([sj.vmap(likelihood, in_axes=(0, 1))(mean, series)])
    assert not count(result.outputs)["copy"] and not turned(result.outputs)


@pytest.mark.quick(3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 50), (20, 300), (70, 2), (0, 4), (9, 1)])
def test_the_same_numbers(dtype: str, shape: tuple[int, int], rng: np.random.Generator) -> None:
    given = [rng.normal(size=shape[0]).astype(dtype), rng.normal(size=shape).astype(dtype)]
    mean, series = sj.vector("mean", dtype), sj.matrix("series", dtype)
    results = [
        *sj.vmap(sj.value_and_grad(likelihood))(mean, series),
        sj.vmap(lambda m, y: y * likelihood(m, y))(mean, series),
    ]
    compiled, reference = (sj.function([mean, series], results, mode=mode) for mode in ("numba", "reference"))
    for found, expected in zip(compiled(*given), reference(*given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-4 if dtype == "float32" else 1e-11)


def test_what_stays() -> None:
    """Results in rows, rows that are known to be short, and batches whose last axis is no axis of the batch."""
    mean, series, features = sj.vector("mean"), sj.matrix("series"), sj.tensor3("features")
    few = sj.tensor((5, None), "float64", "few")

    def states(m: Node, y: Node) -> Node:
        return sj.scan(lambda x, h: sj.tanh(0.5 * h + x), sequences=y - m, outputs_info=0.0) * y

    def wide(y: Node) -> Node:
        return (sj.scan(lambda x, h: sj.tanh(0.5 * h + x), sequences=2 * y, outputs_info=sj.zeros(3)) + y).sum()

    assert not count(rewritten(states, mean, series)[0])["copy"]
    assert not count(rewritten(likelihood, sj.tensor((5,), "float64", "m"), few)[0])["copy"]
    assert not count(rewritten(wide, features)[0])["copy"]


def test_arrays_of_two_and_of_three_axes_that_are_used_together() -> None:
    """Each has an order of its own."""
    flat, deep = symbol("a", "B", "T"), symbol("k", "H", "B", "T")

    def sums(x: Node) -> Node:
        """Of the last axis; the others keep their order."""
        order = (x.ndim - 1, *range(x.ndim - 1))
        steps = sj.scan(
            lambda v, h: sj.tanh(0.5 * h + v), sequences=view(x, *order), outputs_info=0 * view(x, *order)[0]
        )
        return view(steps, *range(1, x.ndim), 0)

    two = fn("tanh", flat)
    twice = fn("tanh", sums(two) * sums(two * two)) * two
    three = fn("tanh", deep) * twice
    outputs = [total(sums(twice) * twice), total(sums(three) * sums(three * twice) * three + twice)]
    notes = [note.text for note in checked(outputs)[1]]
    assert any("the order of a loop's axes" in text for text in notes)


def graph(rng: np.random.Generator) -> list[Node]:
    """A random graph of arrays (B, T), and of loops that read and write them as (T, B)."""
    rows = [symbol("a", "B", "T"), *(view(symbol(name, "T", "B"), 1, 0) for name in "bc")]
    narrow = [view(symbol("d", "B"), 0, None), view(symbol("e", "T"), None, 0), symbol("f"), symbol("g", "T")]
    outputs = []

    def some(pool: list[Node]) -> Node:
        return pool[-min(rng.geometric(0.3), len(pool))]

    for _ in range(rng.integers(4, 20)):
        kind = rng.integers(9)
        if kind < 2:
            turned = view(some(rows), 1, 0)
            steps = sj.scan(lambda x, h: sj.tanh(0.5 * h + x), sequences=turned, outputs_info=0 * turned[0])
            rows.append(view(steps, 1, 0))
        elif kind == 2:
            narrow.append(view(total(some(rows), 1), 0, None))
        elif kind == 3:
            outputs.append(some([view(some(rows), 1, 0), total(some(rows), 0), total(some(rows))]))
        else:
            rows.append([fn("tanh", some(rows)), some(rows) * some(narrow), some(rows) - some(rows)][kind % 3])
    return [*outputs, total(rows[-1] * rows[-2] + rows[-3], 0)]


def test_random_graphs() -> None:
    notes = [note.text for seed in range(80) for note in checked(graph(np.random.default_rng(seed)))[1]]
    assert sum("the order of a loop's axes" in text for text in notes) >= 20
