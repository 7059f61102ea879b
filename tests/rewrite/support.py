"""Shared by the tests of the rewrites: symbols, a random value for each, the oracle, and questions about graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scanjit import errors, types
from scanjit.ir import INPUT, OPS, Node, apply, new_input, walk
from scanjit.ops.contraction import contract
from scanjit.ops.roles import Roles
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import window
from scanjit.ops.stretch import SUM
from scanjit.ops.view import DIMSHUFFLE
from scanjit.rewrite import Note, pipeline, run
from scanjit.runtime.reference import evaluate
from scanjit.types import Type

SIZES = {"T": 5, "B": 3, "H": 4, "I": 2}

# ---- writing graphs --------------------------------------------------------------------------------------------------


def symbol(name: str, *shape: Any, dtype: str = "float64") -> Node:
    """An input; a size is a number or a name."""
    dims = tuple(types.size(d) if isinstance(d, str) else d for d in shape)
    return new_input(Type(np.dtype(dtype), dims), name)


B, T = types.size("B"), types.size("T")


def x(name: str = "x") -> Node:
    """A sequence of rows of a batch."""
    return symbol(name, "T", "B", 4)


def h(name: str = "h") -> Node:
    """A state."""
    return symbol(name, "B", 4)


def mm(a: Node, b: Node) -> Node:
    """`a @ b` for a matrix `b`."""
    n = a.ndim
    return contract(a, b, tuple(range(n)), (n - 1, n), (*range(n - 1), n))


def cut(x: Node, start: Any, stop: Any, axis: int = -1) -> Node:
    """`x[..., start:stop]`."""
    return window(x, axis % x.ndim, start, stop - start)


def view(x: Node, *order: int | None) -> Node:
    """A dimshuffle."""
    return DIMSHUFFLE(x, order=order)


def total(x: Node, *axes: int) -> Node:
    """The sum over some axes; over all if none are given."""
    return SUM(x, axes=axes or tuple(range(x.ndim)))


def fn(name: str, *args: Any) -> Node:
    """An op on nodes and numbers."""
    return apply(OPS[name], *args)


# ---- running them ----------------------------------------------------------------------------------------------------


def values(nodes: Sequence[Node], sizes: Mapping[str, int] | None = None, seed: int = 0) -> dict[Node, np.ndarray]:
    """A random array for each input among `nodes`' dependencies."""
    rng, sizes = np.random.default_rng(seed), {**SIZES, **(sizes or {})}
    found = {}
    for node in walk(nodes):
        if node.op is INPUT:
            shape = tuple(types.evaluate(d, _Sizes(sizes)) for d in node.type.shape)
            draw = rng.integers(-3, 4, shape) if node.dtype.kind in "iu" else rng.normal(size=shape)
            found[node] = np.asarray(draw > 0 if node.dtype.kind == "b" else draw).astype(node.dtype)
    return found


class _Sizes(dict):
    def __getitem__(self, atom: Any) -> int:
        return super().__getitem__(atom.name)


def same(
    before: Sequence[Node], after: Sequence[Node], env: Mapping[Node, Any], rtol: float = 1e-9, exact: bool = False
) -> None:
    """Assert that outputs have equal values."""
    for a, b in zip(evaluate(before, env), evaluate(after, env), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        if exact:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-11)


def checked(outputs: Sequence[Node], sizes: Mapping[str, int] | None = None) -> tuple[list[Node], list[Note]]:
    """The outputs through the whole pipeline, which must not change their values, also for sizes 0 and 1."""
    result = run(outputs)
    for changed in ({}, {"B": 1, "T": 1}, {"T": 0}, {"B": 0}):
        env = values(outputs, {**(sizes or {}), **changed})
        try:
            evaluate(outputs, env)
        except errors.ScanjitError:  # these sizes are not allowed, which is known before rewritten code runs
            assert changed
            continue
        same(outputs, result.outputs, env)
    return result.outputs, result.notes


def passed(names: str, outputs: Sequence[Node]) -> tuple[list[Node], list[str]]:
    """The outputs after some passes, which must not change their values; and what the notes say."""
    notes: list[Note] = []
    new = list(outputs)
    for name in names.split():
        before, new = new, dict(pipeline.PIPELINE + pipeline.LOOPS)[name](new, notes)
        pipeline.verify(before, new, name)
    for changed in ({}, {"T": 1}, {"T": 0}):
        same(outputs, new, values(outputs, changed))
    return new, [note.text for note in notes]


def simplified(node: Node) -> Node:
    """One node after local algebra."""
    return pipeline.simplify([node], [])[0]


# ---- looking at them -------------------------------------------------------------------------------------------------


def count(nodes: Sequence[Node]) -> Counter[str]:
    """How many nodes of each op there are, without those inside scans."""
    return Counter(node.op.name for node in walk(nodes))


def scans(nodes: Sequence[Node]) -> list[Node]:
    """The scans, in the order of their dependence."""
    return [node for node in walk(nodes) if node.op is SCAN]


def body(scan: Node) -> Counter[str]:
    """How many nodes of each op a scan's body has."""
    return count(scan.params["body"].outputs)


def shape(scan: Node) -> tuple[int, int, int, int]:
    """How many carries, sequences, constants and ys a scan has."""
    roles = Roles.of(scan)
    return roles.carries, roles.sequences, scan.arity - roles.carries - roles.sequences, roles.ys
