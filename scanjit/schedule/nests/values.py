"""Values: what a nest computes at every point of its loops.

A value is a small expression: loads at affine positions, elementwise ops, reductions over loops of their own. A product
of matrices is a reduction whose body is the product of two loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scanjit.ir import Op
from scanjit.schedule.nests.buffers import Buffer
from scanjit.schedule.nests.loops import NestLoop
from scanjit.types import Dimension
from scanjit.walks import bottom_up


@dataclass(frozen=True, eq=False)
class Access:
    """Elements of a buffer, one at each point of some loops: `offset + sum(stride * counter)`.

    `panel`: the buffer is packed for the lanes of that loop: a block of lanes is contiguous, and the stride of the
    loop counts from block to block.
    """

    buffer: Buffer
    offset: Dimension
    strides: Mapping[NestLoop, Dimension]
    panel: NestLoop | None = None


@dataclass(frozen=True, eq=False)
class Value:
    """An expression, at every point of the loops that it depends on."""

    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class Literal(Value):
    """A number known now."""

    number: Any


@dataclass(frozen=True, eq=False)
class Position(Value):
    """An integer that is affine in loop counters: `offset + sum(stride * counter)`."""

    offset: Dimension
    strides: Mapping[NestLoop, Dimension]


@dataclass(frozen=True, eq=False)
class Load(Value):
    """What a buffer holds; or zero, where `when` is 0 (it is 0 or 1)."""

    access: Access
    when: Dimension = 1


@dataclass(frozen=True, eq=False)
class Index:
    """An index computed at run time: `value * stride` is added to an address; `0 <= value < size` is checked."""

    value: Value
    stride: Dimension
    size: Dimension


@dataclass(frozen=True, eq=False)
class Fetch(Value):
    """A load at computed indices. Out of bounds it reads nothing, gives zero, and reports `code`. There are indices at
    every point of the loops `over`, and none where one of these is empty."""

    access: Access
    indices: tuple[Index, ...]
    code: int
    over: tuple[NestLoop, ...] = ()


@dataclass(frozen=True, eq=False)
class Apply(Value):
    """An elementwise op."""

    op: Op
    args: tuple[Value, ...]
    params: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Reduce(Value):
    """`body` combined over `loops` by a reduction op. For argmax and argmin the value is the position in `loops`.

    A sum with `init` begins with that value instead of zero, and is one chain of additions: the same, to the last bit,
    whether it is computed at once or as several sums, each of which begins with the one before it. With loops inside
    the outermost one, each iteration of that may be summed by itself first.

    Terms at which the `guard`, a bool, is false may be left out.
    """

    op: Op
    loops: tuple[NestLoop, ...]
    body: Value
    init: Value | None = None
    guard: Value | None = None


@dataclass(frozen=True, eq=False)
class Register(Value):
    """A value that a nest with a time loop carries from step to step."""

    init: Value
    index: int


def operands(value: Value) -> tuple[Value, ...]:
    """The values that a value is computed from, at its own point."""
    if isinstance(value, Apply):
        return value.args
    if isinstance(value, Fetch):
        return tuple(index.value for index in value.indices)
    if isinstance(value, Register):
        return (value.init,)
    if isinstance(value, Reduce):
        return tuple(part for part in (value.body, value.init, value.guard) if part is not None)
    return ()


def walk_values(roots: list[Value]) -> list[Value]:
    """Every value below `roots`, operands first, bodies of reductions included."""
    return bottom_up(roots, operands)
