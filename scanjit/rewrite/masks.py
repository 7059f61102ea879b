"""Facts about a value where a mask is false: the value is zero there, or nobody needs it there.

`where(m, x, 0)` is zero where `m` is false, and it needs `x` only where `m` is true. Such facts pass through ops with
aligned axes (`Op.aligned`). Facts about zeros go from operands to results; facts about unwanted values go from results
to operands.
"""

import functools
from collections.abc import Callable, Mapping

import numpy as np

from scanjit.ir import Node
from scanjit.ops import Elementwise, Reduction
from scanjit.ops.contraction import CONTRACT
from scanjit.ops.elementwise import MUL, WHERE
from scanjit.ops.prod import PROD
from scanjit.ops.shape import SLICE
from scanjit.ops.view import DIMSHUFFLE
from scanjit.records import record, replace
from scanjit.rewrite.algebra_shape import slice_of_slice
from scanjit.rewrite.match import cut, is_zero, scalar, shows_all, window_of


@record
class Mask:
    """A mask of a value. `node` is a bool node, `axes` names the axis of the value for each axis of the node. `holds`
    is the bool at which the mask counts as true. Masks with the same node (the same object), axes and `holds` are
    equal."""

    node: Node
    axes: tuple[int, ...]
    holds: bool = True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mask):
            return False
        return self.node is other.node and self.axes == other.axes and self.holds == other.holds

    def __hash__(self) -> int:
        return hash((self.node, self.axes, self.holds))


Facts = Mapping[Mask, bool] | None
"""What is known of a value where masks are false: a mapping from masks. There are facts of two kinds:

- zeros: where the mask is false, the value is zero;
- unwanted values: where the mask is false, nobody needs the value. True says that it is still read and multiplied by
  zero, so it must be finite: zero times infinity would be NaN.

None says that the whole value is zero (or unwanted)."""
NOWHERE: Facts = {}


def both(a: Facts, b: Facts) -> Facts:
    """The facts that follow if `a` and `b` both hold: the facts of both."""
    if a is None or b is None:
        return None
    return {m: a.get(m, True) and b.get(m, True) for m in (*a, *b)}


def either(a: Facts, b: Facts) -> Facts:
    """The facts that follow if at least one of `a` and `b` holds: those that are in both."""
    if a is None or b is None:
        return b if a is None else a
    return {m: a[m] or b[m] for m in a if m in b}


def moved(facts: Facts, axes: Mapping[int, int]) -> Facts:
    """Translate facts about one value into facts about another. `axes` maps the axes of the one to axes of the
    other."""
    if facts is None:
        return None
    kept = {m: tuple(axes[a] for a in m.axes) for m in facts if all(a in axes for a in m.axes)}
    return {Mask(m.node, new, m.holds): facts[m] for m, new in kept.items() if len(set(new)) == len(new)}


def arriving(facts: Facts, node: Node, i: int) -> Facts:
    """Facts about operand `i` of a node as facts about the node."""
    return moved(facts, along(node, i)) if facts else facts


def leaving(facts: Facts, node: Node, i: int) -> Facts:
    """Facts about a node as facts about its operand `i`."""
    return moved(facts, {b: a for a, b in along(node, i).items()}) if facts else facts


def mask_of(node: Node) -> Mask | None:
    """A bool node as a mask of its own values, without the axes along which it is stretched. None if no axis is left,
    or if an axis cannot be followed through views."""
    axes: dict[int, int] = {a: a for a, dim in enumerate(node.type.shape) if dim != 1}  # the base's: node's
    while shows_all(node):
        axes = {a: axes[b] for a, b in along(node, 0).items() if b in axes}
        node = node.args[0]
    if not axes or any(a not in axes and dim != 1 for a, dim in enumerate(node.type.shape)):
        return None
    if len(axes) < node.ndim:
        node = DIMSHUFFLE(node, order=tuple(sorted(axes)))
    return Mask(node, tuple(axes[a] for a in sorted(axes)))


def along(node: Node, i: int) -> dict[int, int]:
    """Maps axes of operand `i` to the aligned axes of the node: an index on the one is the same index on the other."""
    aligned, operand = node.op.aligned, node.operands[i]
    return {} if aligned is None else aligned(i, operand.type, node.type, **node.params)


# ---- what is zero ----------------------------------------------------------------------------------------------------


def zeros(node: Node, known: Callable[[Node], Facts]) -> Facts:
    """The places where a node is zero, given the places where its operands are. A zero times anything counts as
    zero."""
    found = _zeros(node, known)
    own = mask_of(node) if not node.several and node.dtype == np.bool_ else None
    return found if own is None else both(found, {own: False})


def _zeros(node: Node, known: Callable[[Node], Facts]) -> Facts:
    if is_zero(node):
        return None
    given = [known(x) for x in node.operands]
    if all(fact == NOWHERE for fact in given):
        return NOWHERE
    op = node.op
    if op is SLICE:
        return _in_window(given[0], node)
    facts = [arriving(fact, node, i) for i, fact in enumerate(given)]
    if op is WHERE:
        chosen, other = chosen_by(node, known)
        return either(both(facts[1], chosen), both(facts[2], other))
    if op.zero_with:
        return functools.reduce(both, [facts[i] for i in op.zero_with])
    passes = not isinstance(op, Elementwise) and (op.is_linear or (isinstance(op, Reduction) and op.keeps_zero))
    if not passes and not isinstance(op, Elementwise):
        return NOWHERE
    numbers: list[object] = [None if passes else scalar(x) for x in node.operands]
    varying = [fact for fact, number in zip(facts, numbers, strict=True) if number is None]
    found: Facts = None
    for fact in varying:
        found = either(found, fact)
    return found if varying and (passes or (found != {} and _of_zeros(node, numbers))) else NOWHERE


def _in_window(facts: Facts, node: Node) -> Facts:
    """Facts about a tensor as facts about a window of it."""
    if facts is None:
        return None
    (whole,), window = node.operands, window_of(node)
    found = {}
    for mask, finite in facts.items():
        if mask.node.type.shape == tuple([whole.type.shape[axis] for axis in mask.axes]):
            part = cut(mask.node, tuple([window[axis] for axis in mask.axes]))
            once = slice_of_slice(part, part.operands[0]) if part.op is SLICE and part.operands[0].op is SLICE else None
            found[replace(mask, node=part if once is None else once)] = finite
    return found


def _of_zeros(node: Node, numbers: list[object]) -> bool:
    """Whether an elementwise op gives zero if all of its operands are zero, except for those that are numbers."""
    args = [np.zeros((), x.dtype) if n is None else n for x, n in zip(node.operands, numbers, strict=True)]
    with np.errstate(all="ignore"):
        return bool(node.op.reference(*args, **node.params) == 0)


def chosen_by(node: Node, known: Callable[[Node], Facts]) -> tuple[Facts, Facts]:
    """Masks of the places at which a `where` does not take its second operand, and of those at which it does not take
    its third."""
    own = mask_of(node.operands[0])
    other = {} if own is None else {replace(own, holds=not own.holds): False}
    return arriving(known(node.operands[0]), node, 0), arriving(other, node, 0)


# ---- what is wanted --------------------------------------------------------------------------------------------------


def unwanted(node: Node, i: int, facts: Facts, known: Callable[[Node], Facts]) -> Facts:
    """The places where operand `i` of a node is not wanted, given the places where the node is not wanted and where its
    operands are zero."""
    op = node.op
    if op.aligned is None or (facts == NOWHERE and op not in (WHERE, MUL, CONTRACT)):
        return NOWHERE
    if facts and not _stays_finite(node, i):
        facts = {mask: finite for mask, finite in facts.items() if not finite}
    if op is WHERE and i:
        facts = both(facts, chosen_by(node, known)[i - 1])
    elif op is MUL:
        facts = both(facts, _killed(arriving(known(node.operands[1 - i]), node, 1 - i)))
    back = leaving(facts, node, i)
    if op is CONTRACT:
        mine, others = (node.params[side] for side in (("left", "right") if i == 0 else ("right", "left")))
        pairs = {a: mine.index(label) for a, label in enumerate(others) if label in mine}
        back = both(back, _killed(moved(known(node.operands[1 - i]), pairs)))
    return back


def _killed(facts: Facts) -> Facts:
    """Turn facts about zeros into facts about the factor that they are multiplied by: unwanted, but must be finite."""
    return None if facts is None else dict.fromkeys(facts, True)


_PROBES = (-1000.0, -1.0, 0.0, 1.0, 1000.0)


def _stays_finite(node: Node, i: int) -> bool:
    """Whether an op gives finite results for any finite operand `i`. Tried at a few numbers, where functions have poles
    and overflow. (Products and sums count as finite, though those of huge numbers are not.)"""
    if not isinstance(node.op, Elementwise):
        return node.op is not PROD
    if node.op.stays_finite is not None:
        return i in node.op.stays_finite
    key = node.op.name, tuple(x.dtype.str for x in node.operands)
    if key not in _finite:
        grids = np.meshgrid(*[np.asarray(_PROBES).astype(x.dtype) for x in node.operands])
        with np.errstate(all="ignore"):
            _finite[key] = bool(np.isfinite(node.op.reference(*grids, **node.params)).all())
    return _finite[key]


_finite: dict[tuple[str, tuple[str, ...]], bool] = {}
