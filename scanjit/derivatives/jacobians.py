"""Derivatives that are matrices: `jacobian`, `hessian`, and `hvp`, which is a product with one that is never made."""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, Literal

from scanjit import errors, types
from scanjit.autodiff import (
    Disconnected,
    by_variables,
    check_connected,
    float_node,
    grad,
    jvp,
    nodes_of,
    of_outputs,
    vjp,
)
from scanjit.ir import Node, apply, dim_node, new_input
from scanjit.loops.ifelse import ifelse
from scanjit.loops.structure import flatten
from scanjit.ops.batch import batch_graph
from scanjit.ops.elementwise import EQUAL
from scanjit.ops.promotion import cast
from scanjit.ops.shape import IOTA, RESHAPE, window
from scanjit.ops.stretch import broadcast_to
from scanjit.ops.view import DIMSHUFFLE
from scanjit.types import Dimension, Type

_MODES = ("forward", "reverse")


@of_outputs
def jacobian(
    outputs: Any,
    wrt: Any,
    consider_constant: Iterable[Any] = (),
    disconnected: Disconnected = "raise",
    mode: Literal["forward", "reverse"] | None = None,
) -> Any:
    """The derivative of each element of a tensor.

    Parameters
    ----------
    outputs : a float tensor.
    wrt, consider_constant, disconnected : see `grad`.
    mode : "reverse" computes the derivatives of all elements of the output as one batch of `vjp`, "forward" those by
        all elements of the variables as batches of `jvp`: one for all small variables, one for each large one. The work
        is that of one derivative times the size of the output, or of the variables. By default the one of which there
        are fewer: where the sizes do not say so yet, the one whose size is known and small; if there is none, both are
        built, and each call takes one.

    Returns
    -------
    Node, or the structure of `wrt`
        Each has the axes of the output, then those of the variable.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> slopes = sj.jacobian(sj.cumsum(x * x), x)
    >>> sj.function([x], slopes, mode="reference")([3.0, 4.0])
    array([[6., 0.],
           [6., 8.]])

    Of many outputs by one number:

    >>> rate = sj.scalar("rate")
    >>> slopes = sj.jacobian(sj.exp(rate * x), rate, mode="forward")
    >>> sj.function([x, rate], slopes, mode="reference")([0.0, 1.0, 2.0], 0.0)
    array([0., 1., 2.])
    """
    errors.check_known("the mode of a jacobian", mode, (None, *_MODES))
    node = float_node(outputs, "the output")
    leaves, tree = flatten(wrt)
    variables = [float_node(leaf, "wrt") for leaf in leaves]
    constants = nodes_of(consider_constant)
    if disconnected == "raise":
        check_connected([node], variables, constants, tree)
    makers: dict[str, Callable[[], list[Node]]] = {
        "forward": lambda: _forward([node], variables, constants)[0],
        "reverse": lambda: _reverse(node, variables, constants),
    }
    rows, columns = types.product(node.type.shape), _entries(variables)
    mode = mode or _shorter(rows, columns)
    if mode is not None:
        return tree.unflatten(makers[mode]())
    return tree.unflatten(ifelse(dim_node(columns) < dim_node(rows), makers["forward"], makers["reverse"]))


_FEW = 64
"""If one of the two sizes is not known and the other is at most this, the known one is taken: the unknown one is seldom
much smaller, and a second program would have to be compiled."""


def _shorter(rows: Dimension, columns: Dimension) -> Literal["forward", "reverse"] | None:
    """The mode in which a jacobian is the smaller batch, as far as sizes are known; None if a call must decide."""
    if types.not_negative(columns - rows):
        return "reverse"
    if types.not_negative(rows - columns) or (isinstance(columns, int) and columns <= _FEW):
        return "forward"
    return "reverse" if isinstance(rows, int) and rows <= _FEW else None


def _entries(variables: Sequence[Node]) -> Dimension:
    """How many numbers there are in all variables."""
    return _starts(variables)[-1]


def _starts(variables: Sequence[Node]) -> list[Dimension]:
    """How many numbers there are in the variables before each of them, and in all."""
    sizes = (types.product(variable.type.shape) for variable in variables)
    return list(accumulate(sizes, initial=0))


def _reverse(output: Node, variables: Sequence[Node], constants: Sequence[Node]) -> list[Node]:
    seed = new_input(output.type)
    rows = vjp(output, list(variables), seed, constants, "zero")
    shape = output.type.shape
    found = _each(rows, [seed])
    return [RESHAPE(rows, shape=(*shape, *x.type.shape)) for rows, x in zip(found, variables, strict=True)]


def _forward(outputs: Sequence[Node], variables: Sequence[Node], constants: Sequence[Node]) -> list[list[Node]]:
    """The derivatives of each output by each of the variables."""
    found: dict[Node, list[Node]] = {}
    for group in _groups(variables):
        found |= _of_group(outputs, group, constants)
    return [[found[variable][i] for variable in variables] for i in range(len(outputs))]


def _groups(variables: Sequence[Node]) -> list[list[Node]]:
    """The variables, in groups whose derivatives are one batch. All small ones are one group, so that one program
    serves them. A large variable is a group of its own: its batch computes nothing that depends on other variables
    alone. So is a variable that is computed: if it is computed from another one, the derivatives by that other one go
    through it."""
    small: list[Node] = []
    alone: list[Node] = []
    for variable in dict.fromkeys(variables):
        entries = _entries([*small, variable])
        fits = isinstance(entries, int) and entries <= _FEW and not variable.args
        (small if fits else alone).append(variable)
    return [*([small] if small else []), *([variable] for variable in alone)]


def _of_group(outputs: Sequence[Node], variables: list[Node], constants: Sequence[Node]) -> dict[Node, list[Node]]:
    """For each variable the derivatives of the outputs by it."""
    seeds = [new_input(variable.type) for variable in variables]
    found = _each(jvp(list(outputs), variables, seeds, constants), seeds)
    last = [DIMSHUFFLE(rows, order=(*range(1, rows.ndim), 0)) for rows in found]
    result: dict[Node, list[Node]] = {}
    for variable, begin in zip(variables, _starts(variables), strict=False):
        shape = variable.type.shape
        columns = [window(rows, rows.ndim - 1, begin, types.product(shape)) for rows in last]
        result[variable] = [RESHAPE(x, shape=(*x.type.shape[:-1], *shape)) for x in columns]
    return result


def _each(outputs: Sequence[Node], seeds: Sequence[Node]) -> list[Node]:
    """The outputs for each element of the seeds, along a new first axis: this element is one, and all others are
    zero."""
    *begins, count = _starts(seeds)
    bases = {seed: _basis(seed.type, begin, count) for seed, begin in zip(seeds, begins, strict=True)}
    batched = batch_graph(outputs, bases, count)
    return [new if flag else broadcast_to(new, (count, *new.type.shape)) for new, flag in batched]


def _basis(type_: Type, begin: Dimension, count: Dimension) -> Node:
    """`count` tensors of a type. Number `begin` is one in the first place and zero elsewhere, number `begin + 1` in the
    second place, and so on. The others are zero."""
    places = IOTA(length=types.product(type_.shape)) + dim_node(begin)
    equal = apply(EQUAL, DIMSHUFFLE(IOTA(length=count), order=(0, None)), DIMSHUFFLE(places, order=(None, 0)))
    return RESHAPE(cast(equal, type_.dtype), shape=(count, *type_.shape))


@by_variables
def hessian(
    cost: Any,
    wrt: Any,
    consider_constant: Iterable[Any] = (),
    disconnected: Disconnected = "raise",
    mixed: bool = False,
) -> Any:
    """The second derivatives of a scalar.

    Parameters
    ----------
    cost, wrt, consider_constant, disconnected : see `grad`.
    mixed : whether to give the derivatives by two different variables too. Without it, those of each variable of `wrt`
        by itself.

    Returns
    -------
    Node, or the structure of `wrt`
        With `mixed`, each leaf of the structure is a structure of `wrt` again: the derivative by the first, then by the
        second, with the axes of both.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> curvature = sj.hessian((x**3).sum(), x)
    >>> sj.function([x], curvature, mode="reference")([1.0, 2.0])
    array([[ 6.,  0.],
           [ 0., 12.]])
    >>> a = sj.scalar("a")
    >>> blocks = sj.hessian((a * x**2).sum(), {"a": a, "x": x}, mixed=True)
    >>> sj.function([a, x], blocks["x"]["a"], mode="reference")(3.0, [1.0, 2.0])
    array([2., 4.])
    """
    constants = nodes_of(consider_constant)
    variables, tree = flatten(wrt)
    if len(tree.tensors()) < len(variables):
        raise errors.GradientError(
            "the second derivatives by complex numbers are no complex numbers",
            got=wrt,
            fix="write the cost as a function of two real symbols x and y, with x + 1j * y in it; or use sj.hvp",
        )
    rows = grad(cost, variables, None, constants, disconnected)
    nodes, fixed = [float_node(variable, "wrt") for variable in variables], constants
    try:  # what forward derivatives share is computed once
        pairs = zip(rows, nodes, strict=True)
        blocks = _forward(rows, nodes, fixed) if mixed else [_forward([row], [node], fixed)[0] for row, node in pairs]
    except errors.GradientError:  # the user's rule is not linear in the cotangent
        blocks = [_reverse(row, nodes if mixed else [node], fixed) for row, node in zip(rows, nodes, strict=True)]
    return tree.unflatten([tree.unflatten(row) if mixed else row[0] for row in blocks])


@by_variables
def hvp(
    cost: Any, wrt: Any, vectors: Any, consider_constant: Iterable[Any] = (), disconnected: Disconnected = "raise"
) -> Any:
    """The Hessian of a scalar times vectors: how the gradient changes where `wrt` changes by `vectors`.

    The matrix is not made: it is the forward derivative of the gradient, and costs a small multiple of it.

    Parameters
    ----------
    cost, wrt, consider_constant, disconnected : see `grad`.
    vectors : one of the type of each entry of `wrt`, in the same structure.

    Returns
    -------
    Node, or the structure of `wrt`
        With several variables, mixed derivatives count too: it is one matrix over all of them.

    Examples
    --------
    >>> import scanjit as sj
    >>> x, v = sj.vector("x"), sj.vector("v")
    >>> product = sj.hvp((x**3).sum(), x, v)
    >>> sj.function([x, v], product, mode="reference")([1.0, 2.0], [1.0, 10.0])
    array([  6., 120.])
    """
    constants = tuple(consider_constant)
    return jvp(grad(cost, wrt, None, constants, disconnected), wrt, vectors, constants)
