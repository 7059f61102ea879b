"""Computed indices, split in two: the part that counts loops goes into the access, the rest is added to the address.

In a step, `x[t : t + 3]` is read at the indices `t + i`, for `i < 3`. The access moves with `i`, as for `x[i]`, and `t`
moves its first element. So the three elements lie side by side for the lanes, and one check of `t` is enough. `roll`
reads at the indices `(i - t) % n`: these elements lie side by side too, except where the axis begins again.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scanjit import types
from scanjit.kinds import kind_of
from scanjit.ops.elementwise import ADD, MOD, MUL, NEG, SUB
from scanjit.ops.promotion import CAST
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.maps import Axis, IndexMap
from scanjit.schedule.nests import Apply, Index, Literal, NestLoop, Position, Ref, Value, loops_of
from scanjit.types import Dimension
from scanjit.walks import fold

FAR = 1 << 24
"""Lanes that count along an axis that begins again are at most this far apart: their distances fit into int32."""


class IndexSum(NamedTuple):
    """An index as a sum. `counted` is a number plus multiples of loop counters; `rest` is computed, None stands for
    0."""

    counted: Axis
    rest: Value | None


def as_sum(value: Value) -> IndexSum:
    """An int64 index as a sum. If a loop counter is multiplied by anything but a known number, or if no loop is
    counted, the whole index counts as computed."""
    found = fold(value, _inner, _as_sum, {})
    if not all(isinstance(step, int) for _, step in found.counted[1]) or not found.counted[1]:
        return IndexSum(maps.FIXED, value)
    return found


def _inner(value: Value) -> Sequence[Value]:
    """The summands of a sum, or the operands of a multiple; else nothing."""
    if not isinstance(value, Apply) or value.reports or value.dtype != "int64":
        return ()
    if value.op is CAST:
        return value.args if kind_of(value.args[0].dtype).integral and value.args[0].dtype.itemsize == 8 else ()
    return value.args if value.op in (ADD, SUB, NEG) or (value.op is MUL and _factor(value) is not None) else ()


def _as_sum(value: Value, parts: list[IndexSum]) -> IndexSum:
    if isinstance(value, Position) and value.dtype == "int64":
        return IndexSum((value.offset, tuple(value.strides.items())), None)
    if isinstance(value, Literal):
        return IndexSum((int(value.number), ()), None)
    if not parts or not isinstance(value, Apply):
        return IndexSum(maps.FIXED, value)
    if value.op is CAST:
        return parts[0]
    if value.op is NEG:
        return _times(parts[0], -1)
    if value.op is MUL:
        number = _factor(value)
        assert number is not None
        return _times(parts[0] if isinstance(value.args[1], Literal) else parts[1], number)
    return _sum(parts[0], parts[1] if value.op is ADD else _times(parts[1], -1))


def _factor(value: Apply) -> int | None:
    """The number in a product of a number and something else. None if neither operand is a number."""
    return next((int(arg.number) for arg in reversed(value.args) if isinstance(arg, Literal)), None)


def _times(part: IndexSum, number: int) -> IndexSum:
    (start, terms), rest = part
    if rest is not None and number != 1:
        rest = Apply(rest.dtype, MUL, (rest, Literal(rest.dtype, number)), {})
    return IndexSum((start * number, tuple((loop, step * number) for loop, step in terms)), rest)


def _sum(left: IndexSum, right: IndexSum) -> IndexSum:
    start, strides = left.counted[0] + right.counted[0], dict(left.counted[1])
    for loop, step in right.counted[1]:
        strides[loop] = strides.get(loop, 0) + step
    rests = [part.rest for part in (left, right) if part.rest is not None]
    rest = Apply(rests[0].dtype, ADD, tuple(rests), {}) if len(rests) == 2 else next(iter(rests), None)
    return IndexSum((start, tuple((loop, step) for loop, step in strides.items() if step != 0)), rest)


class Indices(NamedTuple):
    """How the indexed axes of a place are indexed. Each axis has a counted part and a computed one."""

    counted: IndexMap
    computed: tuple[Index, ...]

    @property
    def checked(self) -> tuple[Index, ...]:
        """The indices that move an address, or that may lie outside."""
        return tuple(index for index in self.computed if not (_is_zero(index.value) and _is_inside(index)))


def indices_of(values: Sequence[Value], ref: Ref, axis: int, at: IndexMap, sure: Sequence[bool]) -> Indices:
    """How values index the axes of a place from `axis` on, for the elements of a tensor at `at`. `sure` says which of
    them are certainly inside."""
    counted, computed = list[Axis](), list[Index]()
    some = _some(loop for _, terms in at for loop, _ in terms)
    for k, (value, inside) in enumerate(zip(values, sure, strict=True), axis):
        if (around := _wrapped(value, ref.shape[k])) is not None:
            part, first = around
            turn = Position(value.dtype, part[0], dict(part[1]))
            index = Index(first, ref.strides[k], ref.shape[k], some=some, turn=turn)
        else:
            part, rest = as_sum(value)
            first = Literal(value.dtype, 0) if rest is None else rest
            index = Index(first, ref.strides[k], ref.shape[k], *_reach(part), some, sure=inside)
        counted.append(part)
        computed.append(index)
    return Indices(tuple(counted), tuple(computed))


def _wrapped(value: Value, size: Dimension) -> tuple[Axis, Value] | None:
    """For an index `(counted + computed) % size`: the counted part, and `computed % size`. None if the index has
    another form, or `counted` may be negative, or `size` or more."""
    if not isinstance(value, Apply) or value.op is not MOD or value.dtype != "int64":
        return None
    inner, modulus = value.args
    known = isinstance(modulus, Literal) and modulus.number == size
    named = isinstance(modulus, Position) and not modulus.strides and modulus.offset in (size, types.maximum(size, 1))
    if not known and not named:
        return None
    at, rest = as_sum(inner)
    least, most = _reach(at)
    if not at[1] or rest is None or not types.not_negative(least) or not types.not_negative(size - 1 - most):
        return None
    if any(abs(types.as_int(step)) > FAR for _, step in at[1]):
        return None
    return at, Apply(value.dtype, MOD, (rest, modulus), value.params, value.code)


def _some(loops: Iterable[NestLoop]) -> Dimension:
    """1 if each of these loops has a turn, else 0."""
    unknown = (loop for loop in dict.fromkeys(loops) if not types.not_negative(loop.size - 1))
    return types.product(types.minimum(loop.size, 1) for loop in unknown)


def _reach(at: Axis) -> tuple[Dimension, Dimension]:
    """The smallest and the largest index along an axis."""
    least = most = at[0]
    for loop, step in at[1]:
        assert isinstance(step, int)
        span = (loop.size - 1) * step
        least, most = (least, most + span) if step > 0 else (least + span, most)
    return least, most


def never_meet(at: IndexMap, indices: Indices, space: Sequence[NestLoop]) -> bool:
    """Whether no two points of a space reach the same element of an array. `at` has the axes that are not indexed.

    This is certain if each loop moves along an axis of its own, and computed indices depend only on loops that move
    along axes without a computed index. In `x[i, t[i] + j]`, points of two rows differ in `i`, and points of one row in
    `j`.
    """
    pairs = list(zip(indices.counted, indices.computed, strict=True))
    plain = _along_one([*at, *(axis for axis, index in pairs if _is_zero(index.value))])
    known = plain | _along_one([axis for axis, _ in pairs])
    single = {loop for loop in space if loop.size == 1}
    return set(space) <= known | single and all(loops_of(index.value) <= plain | single for _, index in pairs)


def _is_zero(value: Value) -> bool:
    return isinstance(value, Literal) and value.number == 0


def _is_inside(index: Index) -> bool:
    """Whether an index whose `value` is 0 is certainly inside."""
    return types.not_negative(index.least) and types.not_negative(index.size - 1 - index.most)


def _along_one(axes: Iterable[Axis]) -> set[NestLoop]:
    """The loops of axes along which one loop alone moves."""
    return {terms[0][0] for _, terms in axes if len(terms) == 1}
