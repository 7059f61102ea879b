"""`ifelse`: one of two expressions, and only that is computed."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from scanjit import tracing
from scanjit.errors import ArgumentError, DtypeError, ShapeError
from scanjit.ir import Node, as_node, constant, is_number, is_symbol, walk
from scanjit.loops import entries
from scanjit.loops.structure import Mismatch, Tree, flatten
from scanjit.ops.branch import captured
from scanjit.ops.stretch import broadcast_to
from scanjit.symbol import Tensor
from scanjit.types import Dimension

S = TypeVar("S")


@overload
def ifelse(cond: Any, a: Tensor | Callable[[], Tensor], b: Tensor | Callable[[], Tensor]) -> Node: ...
@overload
def ifelse(cond: Any, a: S | Callable[[], S], b: S | Callable[[], S]) -> S: ...
def ifelse(cond: Any, a: Any, b: Any) -> Any:
    """`a` if a condition holds, else `b`. Only the branch that is taken is computed.

    Parameters
    ----------
    cond : bool scalar
        For a condition with axes there is `where`, which computes both.
    a, b : tensor, structure of tensors, or callable
        A callable is called without arguments, now, and returns one of the former. Both have the same structure, dtypes
        and shapes; a Python number stands for a tensor that is filled with it.

    Returns
    -------
    Node, or the structure of `a`

    Raises
    ------
    ArgumentError, DtypeError, ShapeError
        If `cond` is no bool scalar, or the branches differ in structure, dtype or shape.

    Notes
    -----
    The values that `a` or `b` depends on are computed in the branch, unless they are needed outside of it too, or by
    both branches. So an index out of bounds, or an `assert_` that fails, is no error in the branch that is not taken.
    Sizes of arguments that disagree are errors in both branches; a computed size that does not fit is one only if its
    branch is taken. In the step of a loop, values from before the loop are computed before it. The gradient is an
    `ifelse` too. `vmap` over `cond` computes both branches for all examples at once. The branch that an example does
    not take raises no error and adds no gradient.

    Examples
    --------
    >>> import scanjit as sj
    >>> x, i = sj.tensor(("n",), name="x"), sj.scalar("i", dtype="int64")
    >>> y = sj.ifelse(i < x.shape[0], x[i], x.sum())  # `where` would index out of bounds
    >>> sj.pprint(sj.ifelse(i > 0, sj.exp(x), -x))
    'ifelse(i > 0, exp(x), -x)'
    >>> f = sj.function([x, i], y, mode="reference")
    >>> f([1.0, 2.0], 1), f([1.0, 2.0], 7)
    (array(2.), array(3.))
    """
    condition = entries.condition(cond, "ifelse", ArgumentError, fix="; elementwise, use sj.where")
    (then, tree), (other, other_tree) = (_branch(value) for value in (a, b))
    try:
        other = tree.leaves_of(other_tree.unflatten(other))
    except Mismatch as error:
        raise ArgumentError(
            f"the branches of ifelse have different structures: b{error.path}", got=error.got, expected=error.expected
        ) from None
    pairs = [_alike(x, y, path) for x, y, path in zip(then, other, tree.paths(), strict=True)]
    halves = [x for x, _ in pairs], [y for _, y in pairs]
    # Branches do not hold what is computed anyway. In a chain of them, each would hold all those before it, twice.
    anyway = {*walk([condition]), *({*walk(halves[0])} & {*walk(halves[1])})}
    return tree.unflatten(captured(condition, *halves, at={*_made_before([*halves[0], *halves[1]]), *anyway}))


def _branch(value: Any) -> tuple[list[Any], Tree]:
    """The leaves of a branch: nodes and Python numbers."""
    leaves, tree = flatten(value() if callable(value) and not is_symbol(value) else value)
    return [leaf if is_number(leaf) else as_node(leaf) for leaf in leaves], tree


def _alike(x: Any, y: Any, path: str) -> tuple[Node, Node]:
    """Two leaves as nodes of one type."""
    if is_number(x) and is_number(y):
        dtype = np.result_type(type(x), type(y))
        return constant(x, dtype), constant(y, dtype)
    if is_number(x):
        return _filled(x, y), y
    if is_number(y):
        return x, _filled(y, x)
    if x.dtype != y.dtype:
        raise DtypeError(
            f"the branches of ifelse have different dtypes{f': {path}' if path else ''}",
            got=f"{x!r} and {y!r}",
            fix=f"cast one of them, as b.astype({str(x.dtype)!r})",
        )
    if x.ndim != y.ndim or any(map(_differ, x.type.shape, y.type.shape)):
        raise ShapeError(
            f"the branches of ifelse have different shapes{f': {path}' if path else ''}",
            got=f"{x!r} and {y!r}",
            fix="bring them to one shape, as with sj.broadcast_to",
        )
    return x, y


def _differ(a: Dimension, b: Dimension) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a != b


def _filled(number: Any, like: Node) -> Node:
    """A tensor of a node's type filled with a number, which the dtype must be able to hold."""
    if not np.can_cast(np.result_type(type(number)), like.dtype, "same_kind"):
        raise DtypeError(
            "the branches of ifelse have different dtypes", got=f"{number!r} and {like!r}", fix="cast one of them"
        )
    return broadcast_to(constant(number, like.dtype), like.type.shape)


def _made_before(outputs: Sequence[Node]) -> set[Node]:
    """The nodes that were made before the step that is being traced."""
    steps = [function for function in tracing.active() if function.name == "step"]
    return {node for node in walk(outputs) if node.serial < steps[-1].start} if steps else set()
