"""Values of tensors that are known while a graph is built.

ONNX passes shapes, axes and bounds as tensors, which models compute with ordinary ops. For instance, a model gathers a
size from the shape of x and concatenates it with others to a new shape. Here such tensors are read as dimensions: the
new shape has the same symbolic size as x.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Node, Op
from scanjit.kinds import kind_of
from scanjit.ops.elementwise import EQUAL, FLOORDIV, MOD, WHERE
from scanjit.ops.index import GATHER
from scanjit.ops.prod import PROD
from scanjit.ops.promotion import CAST
from scanjit.ops.shape import CONCATENATE, RESHAPE, SLICE
from scanjit.ops.stretch import BROADCAST_TO, SUM, constant_value
from scanjit.ops.view import DIMSHUFFLE
from scanjit.scoped import scoped
from scanjit.types import Dim, Dimension

_LONGEST = 256
"""The most elements of a vector that is read as a shape."""
_USUAL = 100_003
"""A typical size, which is unlikely to equal a number in a model."""


_held: contextvars.ContextVar[list[Node] | None] = contextvars.ContextVar("held", default=None)


def holding() -> AbstractContextManager[object]:
    """Keep nodes whose values are sizes alive. Nothing else holds such a node before another node has the size."""
    return scoped(_held, [])


def size(node: Node) -> Dimension:
    """The dimension that an integer scalar stands for."""
    (found,) = elements_of(node, {}) or [None]
    return _value(node) if found is None else found


def _value(node: Node) -> Dimension:
    """The dimension that stands for the value of an integer scalar."""
    found = ir.as_dim(node)
    held = _held.get()
    if held is not None and isinstance(found, Dim):
        held.append(node)
    return found


def array(node: Node) -> np.ndarray | None:
    """The value of a node that is made of constants alone, if it is small; else None."""
    known = constant_value(node)
    if known is not None and known.shape == node.type.shape:
        return known
    value = ir.computed(node)
    return None if value is None else np.asarray(value)


def truth(condition: Node) -> bool | None:
    """Whether a condition holds; None if constants and sizes do not decide it."""
    value = array(condition)
    if value is not None:
        return bool(value)
    elements = elements_of(condition, {})
    return None if elements is None else elements[0]


def usual(condition: Node) -> bool | None:
    """Whether a condition holds for most sizes; None if it depends on more than sizes."""
    dims = {n: n.params["dim"] for n in ir.walk([condition]) if n.op is ir.SIZE}
    atoms = {atom for dim in dims.values() for atom in types.atoms(dim)}
    if any(atom.kind == "value" for atom in atoms):
        return None
    sizes = {atom: _USUAL + 2 * i for i, atom in enumerate(sorted(atoms, key=lambda atom: atom.serial))}
    value = ir.computed(condition, {n: np.int64(types.evaluate(dim, sizes)) for n, dim in dims.items()})
    return None if value is None else bool(value)


def dims(node: Node, subject: str) -> tuple[Dimension, ...]:
    """The elements of a vector (or the only one of a scalar) of integers as dimensions."""
    if not node.type.kind.integral or node.ndim > 1:
        raise errors.ArgumentError(f"{subject} must be a vector of integers", got=node.type)
    count = node.type.shape[0] if node.ndim else 1
    if not isinstance(count, int) or count > _LONGEST:
        raise errors.NotSupportedError(f"{subject} has a length that is not known", got=node.type)
    found = elements_of(node, {})
    if found is None:
        return tuple(size(_item(node, i)) for i in range(count))
    return tuple(size(_item(node, i)) if dim is None else dim for i, dim in enumerate(found))


def _item(node: Node, i: int) -> Node:
    return node[i] if node.ndim else node


Elements = list[Any]
"""The elements of a tensor: dimensions or bools, and None for unknown ones."""


def elements_of(node: Node, done: dict[Node, Elements | None]) -> Elements | None:
    """The elements of a tensor of no more than one axis, as far as they are dimensions; None if nothing is known."""
    if node not in done:
        done[node] = None
        if not node.several and node.ndim <= 1 and not node.type.kind.floating:
            done[node] = _read(node, done)
    return done[node]


def _read(node: Node, done: dict[Node, Elements | None]) -> Elements | None:
    count = node.type.shape[0] if node.ndim else 1
    if not isinstance(count, int) or count > _LONGEST:
        return None
    value = array(node)
    if value is not None:
        return [bool(v) if kind_of(value.dtype).is_mask else int(v) for v in value.reshape(-1)]
    if node.op is ir.SIZE:
        return [node.params["dim"]]
    rule = _RULES.get(node.op) or (_each(node.op.of_dims) if node.op.of_dims else None)
    operands = [elements_of(arg, done) for arg in node.operands] if rule is not None else [None]
    if rule is not None and not any(o is None for o in operands):
        return rule(count, *operands, **node.params)
    return [_value(node)] if not node.ndim and node.type.kind.integral else None


def _each(function: Callable[..., Any]) -> Callable[..., Elements]:
    """A rule for an elementwise op."""

    def rule(count: int, *operands: Elements, **_: Any) -> Elements:
        rows = (o * count if len(o) == 1 else o for o in operands)
        return [None if any(v is None for v in row) else function(*row) for row in zip(*rows, strict=True)]

    return rule


def _slice(count: int, x: Elements, *, start: Any, length: Any, step: Any) -> Elements | None:
    if not start:
        return x
    if not isinstance(start[0], int):
        return None
    return [x[start[0] + i * step[0]] for i in range(count)]


def _gather(count: int, x: Elements, *indices: Elements, axis: int) -> Elements | None:
    if len(indices) != 1 or not all(isinstance(i, int) and 0 <= i < len(x) for i in indices[0]):
        return None
    return [x[i] for i in indices[0]]


def _equal(a: Any, b: Any) -> bool | None:
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    apart = types.not_negative(a - b - 1) or types.not_negative(b - a - 1)
    return True if a == b else False if apart else None


def _over(function: Callable[[Elements], Dimension]) -> Callable[..., Elements]:
    """A rule for a reduction."""
    return lambda count, x, *, axes: x if not axes else [None if None in x else function(x)]


_same = lambda count, x, **_: x * count if len(x) == 1 else x
_RULES: dict[Op, Callable[..., Elements | None]] = {
    CONCATENATE: lambda count, *xs, axis: [v for x in xs for v in x],
    SLICE: _slice,
    GATHER: _gather,
    DIMSHUFFLE: _same,
    RESHAPE: _same,
    BROADCAST_TO: _same,
    CAST: lambda count, x, *, dtype: x if kind_of(dtype).integral else None,
    FLOORDIV: _each(lambda a, b: 0 if isinstance(b, int) and b == 0 else a // b),
    MOD: _each(lambda a, b: 0 if isinstance(b, int) and b == 0 else a % b),
    EQUAL: _each(_equal),
    WHERE: _each(lambda condition, a, b: a if condition else b),
    SUM: _over(sum),
    PROD: _over(types.product),
}
"""For each op, a function that computes the elements of the result from those of the operands. Ops with `of_dims` need
none."""


def ints(node: Node, subject: str) -> tuple[int, ...]:
    """The elements of a vector of integers that must be known."""
    value = array(node)
    if value is not None and value.ndim <= 1 and kind_of(value.dtype).integral:
        return tuple(int(v) for v in value.reshape(-1))
    found = dims(node, subject)
    if not all(isinstance(dim, int) for dim in found):
        raise errors.NotSupportedError(
            f"{subject} must be known when the model is loaded", got=f"({', '.join(map(str, found))})"
        )
    return types.as_ints(found)


def scalar(node: Node, subject: str) -> Any:
    """The value of a number that must be known."""
    value = array(node)
    if value is None or value.size != 1:
        raise errors.NotSupportedError(f"{subject} must be known when the model is loaded", got=node)
    return value.reshape(())[()]


def vector(found: tuple[Dimension, ...]) -> Node:
    """Dimensions as a vector of int64."""
    if all(isinstance(dim, int) for dim in found):
        return ir.constant(np.array(found, np.int64))
    parts = [DIMSHUFFLE(ir.dim_node(dim), order=(None,)) for dim in found]
    return CONCATENATE(*parts, axis=0) if len(parts) > 1 else parts[0]
