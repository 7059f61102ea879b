"""Local algebra of views and of tensors put together from parts.

Views have a normal order: slices innermost, then dimshuffles, broadcasts outermost.
"""

from collections.abc import Iterator, Sequence

from scanjit import types
from scanjit.ir import Node, dim_node, walk
from scanjit.ops.elementwise import ADD, MUL
from scanjit.ops.expect import EXPECT, SPECIFY_SHAPE
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import CONCATENATE, IOTA, RESHAPE, SET_SLICE, SLICE
from scanjit.ops.stretch import BROADCAST_TO, broadcast_to, full
from scanjit.ops.view import DIMSHUFFLE
from scanjit.rewrite.engine import RuleTable
from scanjit.rewrite.match import (
    Window,
    apart,
    at_most,
    cut,
    inside,
    is_elementwise,
    is_whole,
    is_zero,
    number,
    stretch,
    window_of,
    window_set,
)
from scanjit.rewrite.windows import can_be_cut, needed_windows, remade
from scanjit.types import Atom, Dimension

rules = RuleTable()


# ---- dimshuffle, broadcast_to ----------------------------------------------------------------------------------------


@rules.rule(DIMSHUFFLE)
def dimshuffle(node: Node) -> Node | None:
    """dimshuffle(x, identity) -> x;  dimshuffle(dimshuffle(x, p), q) -> dimshuffle(x, p[q])"""
    (x,) = node.operands
    order = node.params["order"]
    if order == tuple(range(x.ndim)):
        return x
    if x.op is DIMSHUFFLE:
        inner = x.params["order"]
        return DIMSHUFFLE(x.operands[0], order=tuple(None if a is None else inner[a] for a in order))
    return None


@rules.nested(DIMSHUFFLE, of=[BROADCAST_TO])
def dimshuffle_of_broadcast(node: Node, wide: Node) -> Node | None:
    """dimshuffle(broadcast(x)) -> broadcast(dimshuffle(x))"""
    (x,) = wide.operands
    lead = wide.ndim - x.ndim
    order = [None if a is None or a < lead else a - lead for a in node.params["order"]]
    return stretch(DIMSHUFFLE(x, order=_strip(order)), node)


def _strip(order: Sequence[int | None]) -> tuple[int | None, ...]:
    """An order without leading new axes: broadcasting adds them."""
    order = list(order)
    while order and order[0] is None:
        order.pop(0)
    return tuple(order)


@rules.rule(BROADCAST_TO)
def broadcast(node: Node) -> Node | None:
    """broadcast(x, its own shape) -> x;  broadcast(broadcast(x)) -> broadcast(x), also with new axes between"""
    (x,) = node.operands
    if x.type.shape == node.type.shape:
        return x
    if x.op is BROADCAST_TO:
        return stretch(x.operands[0], node)
    if x.op is DIMSHUFFLE and x.params["order"] and x.params["order"][0] is None:
        return stretch(DIMSHUFFLE(x.operands[0], order=_strip(x.params["order"])), node)
    return None


@rules.rule(EXPECT)
def expect(node: Node) -> Node | None:
    """expect(x; bounds on sizes) -> x: the conditions of a graph are checked as it was written, before it runs"""
    values = any(atom.kind == "value" for left, right, _ in node.params["bounds"] for atom in _atoms(left, right))
    return None if values else node.operands[0]


@rules.rule(SPECIFY_SHAPE)
def specify_shape(node: Node) -> Node | None:
    """specify_shape(x) -> x with these sizes: as for `expect`"""
    (x,) = node.operands
    if any(atom.kind == "value" for atom in _atoms(*x.type.shape, *node.type.shape)):
        return None
    return x if x.type.shape == node.type.shape else BROADCAST_TO(x, shape=node.type.shape)


def _atoms(*dims: Dimension) -> Iterator[Atom]:
    for dim in dims:
        yield from types.atoms(dim)


# ---- slices ----------------------------------------------------------------------------------------------------------


@rules.rule(SLICE)
def whole_slice(node: Node) -> Node | None:
    """x[:] -> x"""
    (x,) = node.operands
    return x if is_whole(window_of(node), x.type.shape) else None


def _ends_inside(window: tuple[Dimension, Dimension, int], size: Dimension) -> bool:
    """Whether a window of an axis ends inside the axis, or the size of the axis is not the number of steps of a
    loop."""
    start, count, step = window
    values = [atom.node for atom in types.atoms(size) if atom.kind == "value"]
    return (
        not any(node.op is SCAN for node in walk(values))
        or types.not_negative(-step)
        or at_most(start + step * (count - 1) + 1, size)
    )


@rules.nested(SLICE, of=[SLICE])
def slice_of_slice(node: Node, inner: Node) -> Node | None:
    """x[a : : s][b : : r] -> x[a + s*b : : s*r]

    The rows of a loop lie in memory that may have room for more. There, an end beyond them is an error, which the
    joined slice would not notice.
    """
    if not all(map(_ends_inside, window_of(node), inner.type.shape)):
        return None
    joined = tuple(
        (a + s * b, n, s * r) for (a, _, s), (b, n, r) in zip(window_of(inner), window_of(node), strict=True)
    )
    return cut(inner.operands[0], joined)


@rules.nested(SLICE, of=[BROADCAST_TO, DIMSHUFFLE])
def slice_of_view(node: Node, view: Node) -> Node | None:
    """broadcast(x)[w] -> broadcast(x[w]);  dimshuffle(x, p)[w] -> dimshuffle(x[p(w)], p)"""
    window = window_of(node)
    if not can_be_cut(view, [window]):
        return None
    return remade(view, window, [cut(x, part) for x, part in needed_windows(view, window)])


@rules.nested(SLICE, of=[CONCATENATE])
def slice_of_concatenate(node: Node, joined: Node) -> Node | None:
    """concatenate(x, y)[w] -> x[w], where w lies in x;  -> concatenate(x[w], y[w]), where w is all of that axis"""
    axis, window = joined.params["axis"], window_of(node)
    mine, n = window[axis], joined.type.shape[axis]
    offsets = _offsets(joined.operands, axis)
    for x, offset in zip(joined.operands, offsets, strict=False):
        if inside(mine, offset, x.type.shape[axis]):
            return cut(x, _with(window, axis, (mine[0] - offset, mine[1], mine[2])))
    if mine[2] != 1:
        return None
    first = next((i for i, offset in enumerate(offsets) if offset == mine[0]), None)
    last = next((i for i, offset in enumerate(offsets) if offset == mine[0] + mine[1]), None)
    if first is None or last is None or first >= last:
        return None
    parts = joined.operands[first:last]
    if len(parts) == len(joined.operands) and is_whole(_with(window, axis, (0, n, 1)), joined.type.shape):
        return None
    return CONCATENATE(*(cut(x, _with(window, axis, (0, x.type.shape[axis], 1))) for x in parts), axis=axis)


def _with(window: Window, axis: int, mine: tuple[Dimension, Dimension, int]) -> Window:
    return (*window[:axis], mine, *window[axis + 1 :])


def _offsets(xs: Sequence[Node], axis: int) -> list[Dimension]:
    """The offset at which each part of a concatenation begins, and the offset at which the last one ends."""
    offsets: list[Dimension] = [0]
    for x in xs:
        offsets.append(offsets[-1] + x.type.shape[axis])
    return offsets


@rules.nested(SLICE, of=[SET_SLICE])
def slice_of_set_slice(node: Node, changed: Node) -> Node | None:
    """set(x, w, v)[w] -> v;  [inside w] -> v[...];  [outside w] -> x[...]"""
    x, v = changed.operands
    asked, given = window_of(node), window_set(changed)
    if any(apart(a, b) for a, b in zip(asked, given, strict=True)):
        return cut(x, asked)
    if all(_same_window(a, b) for a, b in zip(asked, given, strict=True)):
        return v
    if all(s == 1 and inside(a, b, n) for a, (b, n, s) in zip(asked, given, strict=True)):
        return cut(v, tuple((a - b, n, s) for (a, n, s), (b, _, _) in zip(asked, given, strict=True)))
    return None


def _same_window(a: tuple[Dimension, Dimension, int], b: tuple[Dimension, Dimension, int]) -> bool:
    return a[0] == b[0] and a[1] == b[1] and (a[2] == b[2] or a[1] == 1)


@rules.nested(SLICE, of=[IOTA])
def slice_of_iota(node: Node, x: Node) -> Node:
    """iota(n)[a : : s] -> a + s * iota(m)"""
    ((start, length, step),) = window_of(node)
    steps = IOTA(length=length)
    steps = steps if step == 1 else MUL(steps, number(step, steps))
    return ADD(steps, dim_node(start))


@rules.nested(SLICE, of=[RESHAPE])
def slice_of_reshape(node: Node, view: Node) -> Node | None:
    """reshape(x)[i], one row of a leading axis that the reshape keeps -> reshape(x[i])"""
    if not view.ndim or not view.operands[0].ndim:
        return None
    (x,) = view.operands
    window = window_of(node)
    if x.type.shape[0] != view.type.shape[0] or not is_whole(window[1:], view.type.shape[1:]):
        return None
    row = cut(x, (window[0], *((0, n, 1) for n in x.type.shape[1:])))
    return RESHAPE(row, shape=node.type.shape)


# ---- reshape ---------------------------------------------------------------------------------------------------------


@rules.rule(RESHAPE)
def reshape(node: Node) -> Node | None:
    """reshape(x, its own shape) -> x;  reshape(reshape(x)) -> reshape(x);  reshape(a scalar, broadcast) -> broadcast"""
    (x,) = node.operands
    if x.type.shape == node.type.shape:
        return x
    if x.op is RESHAPE:
        return RESHAPE(x.operands[0], shape=node.type.shape)
    if x.op is BROADCAST_TO and x.operands[0].ndim == 0:
        return stretch(x.operands[0], node)
    return None


@rules.rule(RESHAPE)
def reshape_of_ones(node: Node) -> Node | None:
    """a reshape that only adds and drops axes of size 1 -> dimshuffle"""
    (x,) = node.operands
    own = [a for a, n in enumerate(x.type.shape) if n != 1]
    new = [n for n in node.type.shape if n != 1]
    if len(own) != len(new) or not all(x.type.shape[a] == n for a, n in zip(own, new, strict=True)):
        return None
    axes = iter(own)
    return DIMSHUFFLE(x, order=tuple(None if n == 1 else next(axes) for n in node.type.shape))


@rules.nested(RESHAPE, of=[DIMSHUFFLE])
def reshape_of_dimshuffle(node: Node, view: Node) -> Node | None:
    """reshape(dimshuffle(x) that only adds and drops axes of size 1) -> reshape(x)"""
    kept = [a for a in view.params["order"] if a is not None]
    return RESHAPE(view.operands[0], shape=node.type.shape) if kept == sorted(kept) else None


# ---- concatenate -----------------------------------------------------------------------------------------------------


@rules.rule(CONCATENATE)
def concatenate(node: Node) -> Node | None:
    """concatenate(x) -> x;  concatenate(x, concatenate(y, z)) -> concatenate(x, y, z);  parts of size 0 dropped"""
    axis, xs = node.params["axis"], node.operands
    if len(xs) == 1:
        return xs[0]
    parts: list[Node] = []
    for x in xs:
        nested = x.op is CONCATENATE and x.params["axis"] == axis
        parts += x.operands if nested else () if x.type.shape[axis] == 0 else (x,)
    if len(parts) == len(xs):
        return None
    return CONCATENATE(*parts, axis=axis) if parts else xs[0]


@rules.rule(CONCATENATE)
def concatenate_neighbours(node: Node) -> Node | None:
    """concatenate(x[a:b], x[b:c]) -> x[a:c];  concatenate of equal numbers -> a larger broadcast"""
    axis, parts = node.params["axis"], list(node.operands)
    for i in range(len(parts) - 1):
        joined = _join(parts[i], parts[i + 1], axis)
        if joined is not None:
            return CONCATENATE(*parts[:i], joined, *parts[i + 2 :], axis=axis)
    return None


def _join(a: Node, b: Node, axis: int) -> Node | None:
    if a.op is b.op is BROADCAST_TO and a.operands[0] is b.operands[0] and a.operands[0].ndim == 0:
        shape = list(a.type.shape)
        shape[axis] = shape[axis] + b.type.shape[axis]
        return broadcast_to(a.operands[0], shape)
    if a.op is not SLICE or b.op is not SLICE or a.operands[0] is not b.operands[0]:
        return None
    for k, (v, w) in enumerate(zip(window_of(a), window_of(b), strict=True)):
        if k != axis and not _same_window(v, w):
            return None
    (start, n, s), (following, m, r) = window_of(a)[axis], window_of(b)[axis]
    if s != r or following != start + s * n:
        return None
    return cut(a.operands[0], _with(window_of(a), axis, (start, n + m, s)))


@rules.rule(CONCATENATE)
def concatenate_of_broadcasts(node: Node) -> Node | None:
    """concatenate(broadcast(x), broadcast(y)) -> broadcast(concatenate(x, y)), for leading axes that all lack"""
    axis, xs = node.params["axis"], node.operands
    if any(x.op is not BROADCAST_TO for x in xs):
        return None
    bases = [x.operands[0] for x in xs]
    own = axis - node.ndim  # counted from the end
    if any(-own > base.ndim for base in bases) or len({base.ndim for base in bases}) > 1:
        return None
    if bases[0].ndim == node.ndim:
        return None
    for x, base in zip(xs, bases, strict=True):
        if x.type.shape[-base.ndim :] != base.type.shape:
            return None
    return stretch(CONCATENATE(*bases, axis=bases[0].ndim + own), node)


# ---- set_slice and sums of them --------------------------------------------------------------------------------------


@rules.rule(SET_SLICE)
def set_slice(node: Node) -> Node | None:
    """set(x, all, v) -> v;  set(x, [::-1], v) -> v[::-1];  set(set(x, w, u), w, v) -> set(x, w, v);  set(0, w, 0) ->
    0"""
    x, v = node.operands
    window = window_set(node)
    if v.type.shape == x.type.shape:  # each element is set, in some order
        return cut(v, window)
    if x.op is SET_SLICE and all(_same_window(a, b) for a, b in zip(window, window_set(x), strict=True)):
        return SET_SLICE(x.operands[0], v, **node.params)
    if is_zero(x) and is_zero(v):
        return x
    return None


Placed = tuple[Dimension, Node]
"""A part of a tensor that is zero elsewhere: where it begins along an axis, and its value."""


@rules.rule(SET_SLICE)
def set_slices(node: Node) -> Node | None:
    """set(set(0, [0:a], x), [a:b], y) -> concatenate(x, y)"""
    placed = _placed(node)
    if placed is None or len(placed[1]) < 2:
        return None
    return _assemble(node, *placed)


@rules.rule(ADD, among=[ADD, SET_SLICE, CONCATENATE])
def add_of_windows(node: Node) -> Node | None:
    """set(0, [0:a], x) + set(0, [a:b], y) -> concatenate(x, y), and so on; what lies between is 0"""
    terms = [node]
    rest: list[Node] = []  # the summands that are not made of windows
    placed: list[tuple[int, list[Placed]]] = []
    while terms:
        term = terms.pop()
        found = _placed(term)
        if found is not None:
            placed.append(found)
        elif term.op is ADD and term.type.shape == node.type.shape:
            terms += term.operands
            rest += [other for other in term.operands if other.op is not ADD and _placed(other) is None]
        elif term.op is ADD:
            rest.append(term)
        if len(rest) > 1:  # adding windows to another of two terms would reassociate
            return None
    axes = {axis for axis, _ in placed}
    if len(placed) < 2 or len(axes) > 1:
        return None
    whole = _assemble(node, axes.pop(), [part for _, parts in placed for part in parts])
    return whole if whole is None or not rest else ADD(rest[0], whole)


def _placed(node: Node) -> tuple[int, list[Placed]] | None:
    """The axis and the parts of a tensor that is made of windows set into zeros, or joined with zeros."""
    parts: list[Placed] = []
    axes: set[int] = set()
    while node.op is SET_SLICE:
        x, v = node.operands
        axis = _only_axis(window_set(node), x.type.shape)
        if axis is None:
            return None
        axes.add(axis)
        parts.append((node.params["start"][axis], v))
        node = x
    if is_zero(node):
        return (axes.pop(), parts) if len(axes) == 1 else None
    if node.op is CONCATENATE and any(map(is_zero, node.operands)) and axes <= {node.params["axis"]}:
        axis = node.params["axis"]
        offsets = _offsets(node.operands, axis)
        return axis, parts + [(at, x) for at, x in zip(offsets, node.operands, strict=False) if not is_zero(x)]
    return None


def _only_axis(window: Window, shape: Sequence[Dimension]) -> int | None:
    """The one axis along which a window, with step 1, is not the whole tensor."""
    partial = [a for a, (w, n) in enumerate(zip(window, shape, strict=True)) if not is_whole((w,), (n,))]
    return partial[0] if len(partial) == 1 and window[partial[0]][2] == 1 else None


def _assemble(node: Node, axis: int, parts: list[Placed]) -> Node | None:
    """The concatenation of parts in their order, zeros between; None where it is not certain that they lie apart."""
    ordered: list[Placed] = []
    for start, value in parts:
        at = len(ordered)
        while at and at_most(start + value.type.shape[axis], ordered[at - 1][0]):
            at -= 1
        ordered.insert(at, (start, value))
    pieces: list[Node] = []
    position: Dimension = 0
    shape = list(node.type.shape)
    ends: list[tuple[Dimension, Node | None]] = [*ordered, (shape[axis], None)]
    for start, piece in ends:
        if not at_most(position, start):
            return None
        if position != start:
            gap = (*shape[:axis], start - position, *shape[axis + 1 :])
            pieces.append(full(0, gap, node.dtype))
        if piece is not None:
            pieces.append(piece)
            position = start + piece.type.shape[axis]
    return CONCATENATE(*pieces, axis=axis)


@rules.rule(among=[DIMSHUFFLE])
def elementwise_of_dimshuffles(node: Node) -> Node | None:
    """f(dimshuffle(x, p), dimshuffle(y, p), narrow, number) -> dimshuffle(f(x, y, dimshuffle(narrow, p^-1), number), p)

    The op is done before the transpose. `narrow` has fewer axes or one of size 1, such as the mean of each series.
    """
    if not is_elementwise(node):
        return None

    def is_wide(arg: Node) -> bool:
        return 0 < arg.ndim == node.ndim and 1 not in arg.type.shape

    wide = [arg for arg in node.operands if is_wide(arg)]
    if not wide or any(view.op is not DIMSHUFFLE for view in wide):
        return None
    order = wide[0].params["order"]
    if None in order or len(order) != wide[0].operands[0].ndim or any(v.params["order"] != order for v in wide):
        return None  # only transposes: others change how operands broadcast

    before = [arg.operands[0] if is_wide(arg) else untransposed(arg, order) for arg in node.operands]
    return DIMSHUFFLE(node.op(*before, **node.params), order=order)


def untransposed(arg: Node, order: Sequence[int]) -> Node:
    """What a transpose makes an operand of an elementwise op of. It may have fewer axes than the op."""
    lead = len(order) - arg.ndim
    axes = (order.index(axis) - lead for axis in range(len(order)))
    return DIMSHUFFLE(arg, order=tuple(None if axis < 0 else axis for axis in axes)) if arg.ndim else arg
