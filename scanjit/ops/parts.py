"""Complex numbers: their two parts, arithmetic on these, and how they lie in memory.

In memory an array of complex numbers is an array of floats with one more axis of size 2, the last one: NumPy's arrays
go in and out as they are. In a graph there are only the two parts, each a tensor of floats.
"""

from __future__ import annotations

import operator

from scanjit import types
from scanjit.ir import COMPLEX, Node, declared, new_input
from scanjit.ops.shape import CONCATENATE, RESHAPE, SLICE, window
from scanjit.ops.stretch import broadcast_to, constant_value, full
from scanjit.ops.view import DIMSHUFFLE
from scanjit.types import Type

ComplexPart = Node | None
"""The real or the imaginary part of complex numbers. None if it is known to be zero: then products with it are not
computed."""


def is_complex(x: Node) -> bool:
    """Whether a symbol is one of complex numbers."""
    return x.op is COMPLEX


def parts(x: Node) -> tuple[ComplexPart, ComplexPart]:
    """The real and the imaginary part of a symbol, which may be real."""
    real, imaginary = x.args if is_complex(x) else (x, None)
    return _unless_zero(real), None if imaginary is None else _unless_zero(imaginary)


def _unless_zero(x: Node) -> ComplexPart:
    known = constant_value(x)
    return x if known is None or known.any() else None


def joined(real: ComplexPart, imaginary: ComplexPart, *like: Node) -> Node:
    """Complex numbers from two parts. The result has the shape to which the operands `like` broadcast."""
    known = [x.type.in_memory.dtype for x in like or (real, imaginary) if x is not None]
    shape = types.broadcast([x.type.shape for x in like or (real, imaginary) if x is not None])
    return COMPLEX(*(full(0, shape, known[0]) if x is None else broadcast_to(x, shape) for x in (real, imaginary)))


def plus(a: ComplexPart, b: ComplexPart) -> ComplexPart:
    """The sum of two parts."""
    return b if a is None else a if b is None else a + b


def minus(a: ComplexPart, b: ComplexPart) -> ComplexPart:
    """The difference of two parts."""
    return a if b is None else -b if a is None else a - b


def times(a: ComplexPart, b: ComplexPart) -> ComplexPart:
    """The product of two parts."""
    return None if a is None or b is None else a * b


def size_squared(x: Node) -> Node:
    """`abs(x) ** 2`."""
    return x.args[0] * x.args[0] + x.args[1] * x.args[1] if is_complex(x) else x * x


def pieces(*nodes: Node) -> list[Node]:
    """The nodes, with both parts in place of each tensor of complex numbers."""
    return [piece for x in nodes for piece in (x.args if is_complex(x) else (x,))]


def stand_in(type_: Type) -> Node:
    """A symbol of a type for the step of a loop. For complex numbers, its two parts are inputs."""
    if not type_.kind.is_complex:
        return new_input(type_)
    part = Type(type_.in_memory.dtype, type_.shape)
    return COMPLEX(new_input(part), new_input(part))


# ---- in memory -------------------------------------------------------------------------------------------------------


def symbol(type_: Type, name: str | None = None) -> Node:
    """A new input of a type that a user declares."""
    return of_origin(new_input(type_, name))


def of_origin(origin: Node) -> Node:
    """An input or a shared variable as users see it: itself, or the complex numbers whose parts it holds."""
    return of_stored(origin, origin.name) if declared(origin).kind.is_complex else origin


def of_stored(stored: Node, name: str | None = None) -> Node:
    """The complex numbers whose parts lie along the last axis of a tensor."""
    axis = stored.ndim - 1
    halves = (DIMSHUFFLE(window(stored, axis, i, 1), order=tuple(range(axis))) for i in (0, 1))
    return COMPLEX(*halves, **({} if name is None else {"name": name}))


def origin_of(x: Node) -> Node | None:
    """The tensor along whose last axis the parts of complex numbers lie, if there is one."""
    node = x.args[0]
    for op in (DIMSHUFFLE, SLICE):
        if node.op is not op:
            return None
        node = node.operands[0]
    fits = node.ndim == x.ndim + 1 and node.type.shape[-1] == 2
    return node if fits and all(map(operator.is_, of_stored(node).args, x.args)) else None


def as_stored(x: Node) -> Node:
    """A tensor as it lies in memory: for complex numbers, a tensor of floats whose last axis holds the two parts."""
    if not is_complex(x):
        return x
    real, imaginary = x.args
    pairs = list(zip(real.operands, imaginary.operands, strict=False))
    alike = real.applied is imaginary.applied and all(a.types == b.types for a, b in pairs)
    if alike and real.op in (RESHAPE, CONCATENATE):  # what is computed is then written where it belongs at once
        stored = [as_stored(COMPLEX(*pair)) for pair in pairs]
        params = {"shape": (*x.type.shape, 2)} if real.op is RESHAPE else real.params
        return real.op(*stored, **params)
    origin, order = origin_of(x), (*range(x.ndim), None)
    return CONCATENATE(*(DIMSHUFFLE(part, order=order) for part in x.args), axis=x.ndim) if origin is None else origin
