"""Values: what a nest computes at every point of its loops.

A value is a small expression: loads at affine positions, elementwise ops, reductions over loops of their own. A product
of matrices is a reduction whose term is the product of two loads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter

import numpy as np

from scanjit.ir import Op
from scanjit.ops import Elementwise, Reduction
from scanjit.ops.elementwise import ADD, WHERE
from scanjit.ops.extremes import MIN
from scanjit.records import Quick, record, replace
from scanjit.schedule.nests.buffers import Buffer
from scanjit.schedule.nests.loops import NestLoop
from scanjit.signatures import DType
from scanjit.types import Dimension
from scanjit.walks import bottom_up, fold

POSITIONS = Buffer(np.dtype("int64"), (), "temporary", "positions")
"""Stands for the buffer of a `Position`, so that its offset and strides can be changed as those of an access."""


@record
class Access:
    """Elements of a buffer, one at each point of some loops: `offset + sum(stride * counter)`.

    If the buffer is packed into panels, `panel` is the loop that lanes run along. A vector of lanes is then contiguous,
    and the stride of that loop leads from one vector to the next.
    """

    buffer: Buffer
    offset: Dimension
    strides: Mapping[NestLoop, Dimension]
    panel: NestLoop | None = None

    def where(self, indices: Sequence[Index] = ()) -> object:
        """A key that is equal for two accesses if they reach the same elements at the same points. `indices` are the
        computed indices of the access."""
        moved = tuple((index.value, index.turn, *index.dims) for index in indices)
        return self.buffer, self.offset, frozenset(self.strides.items()), self.panel, moved

    def is_beside(self, other: Access) -> bool:
        """Whether an access reaches, at each point, the element before or behind that of another one."""
        if self.buffer is not other.buffer or self.panel is not None or other.panel is not None:
            return False
        apart = self.offset - other.offset
        return isinstance(apart, int) and abs(apart) == 1 and dict(self.strides) == dict(other.strides)


@record(eq=True)
class Substitution:
    """How the parts of a value change when the value is made anew: functions from the old operand, access or loop to
    the new one."""

    value: Callable[[Value], Value]
    access: Callable[[Access], Access]
    loop: Callable[[NestLoop], NestLoop]


@record
class Value(ABC, metaclass=Quick):
    """An expression, at every point of the loops that it depends on."""

    dtype: DType

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values that it is computed from, at the same point."""
        return ()

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The places that it reads itself."""
        return ()

    @property
    def reports(self) -> bool:
        """Whether it may report an error itself."""
        return False

    @property
    def own_loops(self) -> Collection[NestLoop]:
        """The loops whose counters it uses itself, without those of its operands."""
        return ()

    @property
    def own_dims(self) -> tuple[Dimension, ...]:
        """The dimensions that it uses itself, without those of its accesses."""
        return ()

    @abstractmethod
    def rebuilt(self, changes: Substitution) -> Value:
        """The same value with changed parts; the very same object if none of them changed."""


@record
class Literal(Value):
    """A number known now."""

    number: int | float

    def rebuilt(self, changes: Substitution) -> Value:
        """Itself: it has no parts."""
        return self


@record
class Position(Value):
    """An integer that is affine in loop counters: `offset + sum(stride * counter)`."""

    offset: Dimension
    strides: Mapping[NestLoop, Dimension]

    @property
    def own_loops(self) -> Collection[NestLoop]:
        """The loops whose counters are in it."""
        return self.strides.keys()

    @property
    def own_dims(self) -> tuple[Dimension, ...]:
        """Its offset and its strides."""
        return (self.offset, *self.strides.values())

    def rebuilt(self, changes: Substitution) -> Value:
        """The position with its offset and strides changed as those of an access."""
        old = Access(POSITIONS, self.offset, self.strides)
        moved = changes.access(old)
        return self if moved is old else Position(self.dtype, moved.offset, moved.strides)


@record
class Read(Value):
    """The element of a buffer at each point."""

    access: Access

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The place that it reads."""
        return (self.access,)

    @property
    def own_loops(self) -> Collection[NestLoop]:
        """The loops that the access moves along."""
        return self.access.strides.keys()


@record
class Load(Read):
    """The element of a buffer at each point; or zero, if `when` is 0 (it is 0 or 1). A float of 16 bits may be loaded
    as float32."""

    when: Dimension = 1

    @property
    def widens(self) -> bool:
        """Whether it loads a float of 16 bits as another dtype."""
        return self.dtype != self.access.buffer.dtype

    @property
    def own_dims(self) -> tuple[Dimension, ...]:
        """`when`."""
        return (self.when,)

    def rebuilt(self, changes: Substitution) -> Value:
        """The load of the changed place."""
        access = changes.access(self.access)
        return self if access is self.access else Load(self.dtype, access, self.when)


@record
class Index:
    """An index computed at run time: `value * stride` is added to an address.

    The access itself may move along the same axis, from entry `least` to entry `most`: for `x[t : t + 3]`, `value` is
    t, `least` is 0 and `most` is 2. The axis has `size` entries, and code checks that `value + least` and `value +
    most` are among them. If `some` is 0, no point reads anything, and nothing is checked.

    With `turn`, the axis begins again after its last entry, as for `roll`. `turn` is how far the access has moved along
    the axis. `value + turn` is always less than `2 * size`: if it is `size` or more, `size` is subtracted.

    An index that is `sure` is certainly inside of an axis that has elements. Code checks this alone, and only if the
    size is not known.
    """

    value: Value
    stride: Dimension
    size: Dimension
    least: Dimension = 0
    most: Dimension = 0
    some: Dimension = 1
    turn: Value | None = None
    sure: bool = False

    @property
    def values(self) -> tuple[Value, ...]:
        """The values that are computed for it."""
        return (self.value,) if self.turn is None else (self.value, self.turn)

    def rebuilt(self, value: Callable[[Value], Value]) -> Index:
        """The same with changed values."""
        return replace(self, value=value(self.value), turn=None if self.turn is None else value(self.turn))

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """All dimensions in it."""
        return self.stride, self.size, self.least, self.most, self.some


@record
class Fetch(Read):
    """A load at computed indices, where `access` is the place of index 0. An index out of bounds reads nothing, gives
    zero, and reports `code`."""

    indices: tuple[Index, ...]
    code: int

    @property
    def reports(self) -> bool:
        """Yes: an index out of bounds."""
        return True

    @property
    def operands(self) -> tuple[Value, ...]:
        """The indices."""
        return tuple(value for index in self.indices for value in index.values)

    @property
    def own_dims(self) -> tuple[Dimension, ...]:
        """The strides and bounds of the indices."""
        return tuple(dim for index in self.indices for dim in index.dims)

    def rebuilt(self, changes: Substitution) -> Value:
        """The load from the changed place, at changed indices."""
        indices = tuple(index.rebuilt(changes.value) for index in self.indices)
        return Fetch(self.dtype, changes.access(self.access), indices, self.code)


@record
class Search(Read):
    """How many elements of a sorted row come before `item`, in an order in which NaN is last. `access` is the place of
    the first element, and the row has `size` elements that lie `stride` apart. With `right`, elements that are equal
    come before."""

    item: Value
    size: Dimension
    stride: Dimension
    right: bool

    @property
    def operands(self) -> tuple[Value, ...]:
        """The value to look for."""
        return (self.item,)

    @property
    def own_dims(self) -> tuple[Dimension, ...]:
        """The size of the row, and its stride."""
        return self.size, self.stride

    @property
    def indices(self) -> tuple[Index, ...]:
        """An index that may be anywhere in the row."""
        return (Index(self, self.stride, self.size, sure=True),)

    @property
    def cost(self) -> int:
        """About how many operations it takes in a row of a thousand elements, where an addition takes one."""
        return 100

    def rebuilt(self, changes: Substitution) -> Value:
        """The search in the changed row, for the changed value."""
        access, item = changes.access(self.access), changes.value(self.item)
        if access is self.access and item is self.item:
            return self
        return Search(self.dtype, access, item, self.size, self.stride, self.right)


@record
class Apply(Value):
    """An elementwise op, applied to `args`. An op that may fail reports `code`."""

    op: Op
    args: tuple[Value, ...]
    params: Mapping[str, object]
    code: int = 0

    @property
    def reports(self) -> bool:
        """Whether it has a code."""
        return self.code > 0

    @property
    def operands(self) -> tuple[Value, ...]:
        """The arguments of the op."""
        return self.args

    @property
    def cost(self) -> int:
        """About how many operations it takes, where an addition takes one."""
        return self.op.cost if isinstance(self.op, Elementwise) else 1

    def rebuilt(self, changes: Substitution) -> Value:
        """The op, applied to the changed arguments."""
        args = tuple(map(changes.value, self.args))
        return self if args == self.args else Apply(self.dtype, self.op, args, self.params, self.code)


@record
class Reduce(Value):
    """`term` combined over `loops` by a reduction op. For argmax and argmin, the value is the position in `loops`.

    A sum with `init` begins with that value instead of zero, and adds its terms in order. It is the same to the last
    bit if it is computed as several sums, each of which begins with the result of the one before. The loops inside the
    outermost loop are an exception: the terms of one of its iterations may be summed first.

    Terms for which the `guard`, a bool, is false may be left out. A `whole` sum must not be computed as several sums.
    """

    op: Op
    loops: tuple[NestLoop, ...]
    term: Value
    init: Value | None = None
    guard: Value | None = None
    whole: bool = False

    @property
    def operands(self) -> tuple[Value, ...]:
        """The term, `init` and the guard."""
        return tuple(part for part in (self.term, self.init, self.guard) if part is not None)

    @property
    def own_dims(self) -> tuple[Dimension, ...]:
        """The sizes of its loops."""
        return tuple(loop.size for loop in self.loops)

    def rebuilt(self, changes: Substitution) -> Value:
        """The reduction over the changed loops, without loops of size 1. If no loop is left, its only term."""
        loops = tuple(loop for loop in dict.fromkeys(map(changes.loop, self.loops)) if loop.size != 1)
        term = changes.value(self.term)
        init = None if self.init is None else changes.value(self.init)
        if loops:
            guard = None if self.guard is None else changes.value(self.guard)
            same = loops == self.loops and (term, init, guard) == (self.term, self.init, self.guard)
            return self if same else Reduce(self.dtype, self.op, loops, term, init, guard, self.whole)
        if init is not None:
            return Apply(self.dtype, ADD, (init, term), {})
        return term if isinstance(self.op, Reduction) else Literal(self.dtype, 0)


@record
class Register(Value):
    """A value that a nest with time carries from step to step. Before the first step it is `init`."""

    init: Value
    index: int

    @property
    def operands(self) -> tuple[Value, ...]:
        """`init`."""
        return (self.init,)

    def rebuilt(self, changes: Substitution) -> Register:
        """The register that begins with the changed value."""
        init = changes.value(self.init)
        return self if init is self.init else Register(self.dtype, init, self.index)


def walk_values(roots: Sequence[Value]) -> list[Value]:
    """All values that `roots` consist of, operands first, terms of reductions included."""
    return bottom_up(roots, attrgetter("operands"))


def reductions_in(values: Iterable[Value]) -> list[Reduce]:
    """The reductions among values."""
    return [value for value in values if type(value) is Reduce]  # isinstance takes long to say no


def finds_first(value: Reduce) -> bool:
    """Whether a reduction is the first place at which something is true: the least place of those, along one loop; the
    size of the loop if there is none."""
    term, loop = value.term, value.loops[0]
    if value.op is not MIN or value.guard is not None or value.init is not None or len(value.loops) > 1:
        return False
    if not isinstance(term, Apply) or term.op is not WHERE:
        return False
    _, place, nowhere = term.args
    counts = isinstance(place, Position) and place.offset == 0 and dict(place.strides) == {loop: 1}
    size = nowhere.number if isinstance(nowhere, Literal) else isinstance(nowhere, Position) and nowhere.offset
    return counts and size == loop.size and not loops_of(nowhere)


def loops_of(value: Value, known: dict[Value, set[NestLoop]] | None = None) -> set[NestLoop]:
    """The loops that a value depends on. A reduction does not depend on its own loops; what stands beside it may, as
    the first `x[k]` in `x[k] == max[k](x[k])`. Those of the values in it are added to `known`."""
    return fold(value, attrgetter("operands"), _dependence, {} if known is None else known)


def _dependence(value: Value, parts: list[set[NestLoop]]) -> set[NestLoop]:
    found = set(value.own_loops).union(*parts)
    return found.difference(value.loops) if isinstance(value, Reduce) else found


def places_read(values: Iterable[Value], buffers: Collection[Buffer]) -> list[object]:
    """A key for each place where values read one of `buffers` (see `Access.where`)."""
    return [
        access.where(value.indices if isinstance(value, Fetch) else ())
        for value in values
        for access in value.accesses
        if access.buffer in buffers
    ]


def in_one_lane(value: Value, shared: Collection[NestLoop]) -> bool:
    """Whether one lane may compute a value for all lanes: it depends on no loops but `shared` ones, along which no
    lanes run, and any width suits it."""
    return loops_of(value).issubset(shared) and fits_any_width(value)


def fits_any_width(value: Value) -> bool:
    """Whether a value that is the same for all lanes may be computed in a vector of any width."""
    return all(map(_fits_any_width, walk_values([value])))


def _fits_any_width(value: Value) -> bool:
    if isinstance(value, Load):
        return bool(value.when == 1)
    return isinstance(value, Literal | Position | Fetch | Search) or (isinstance(value, Apply) and not value.reports)


def substitute(
    roots: Sequence[Value],
    replace: Mapping[Value, Value],
    access: Callable[[Access], Access] = lambda access: access,
    loop: Callable[[NestLoop], NestLoop] = lambda loop: loop,
) -> Callable[[Value], Value]:
    """Change all accesses and loops, and replace some values. Returns the map from old to new values."""
    done: dict[Value, Value] = {}

    def get(value: Value) -> Value:
        return done[final(value)]

    def final(value: Value) -> Value:
        while value in replace:
            value = replace[value]
        return value

    changes = Substitution(get, access, loop)
    below = (lambda value: [final(operand) for operand in value.operands]) if replace else attrgetter("operands")
    for value in bottom_up(map(final, roots), below):
        done[value] = value.rebuilt(changes)
    return get
