"""Derivatives as graphs: `grad`, `vjp` (Theano's `Lop`) and `jvp` (Theano's `Rop`). They can be nested in any order."""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from scanjit import errors, types
from scanjit.ir import Node, as_node, constant, replace
from scanjit.loops.structure import Mismatch, Tree, flatten
from scanjit.ops.branch import cut
from scanjit.ops.chain import connected, pullback, pushforward
from scanjit.ops.promotion import cast
from scanjit.ops.stretch import or_zeros
from scanjit.symbol import Symbol, Tensor, TensorLike

_DISCONNECTED = ("raise", "zero", "ignore")
Disconnected = Literal["raise", "zero", "ignore"]
P = ParamSpec("P")
S = TypeVar("S")
K = TypeVar("K")
Cost = Tensor | None
Variable = TypeVar("Variable", bound=Symbol[Any])


class ByVariables(Protocol[P]):
    """A derivative, as type checkers see it: by one variable it is a node, by several it has the structure of the
    variables."""

    @overload
    def __call__(self, /, cost: Cost, wrt: Symbol[Any], *args: P.args, **named: P.kwargs) -> Node: ...
    @overload
    def __call__(self, /, cost: Cost, wrt: list[Variable], *args: P.args, **named: P.kwargs) -> list[Node]: ...
    @overload
    def __call__(
        self, /, cost: Cost, wrt: tuple[Variable, ...], *args: P.args, **named: P.kwargs
    ) -> tuple[Node, ...]: ...
    @overload
    def __call__(self, /, cost: Cost, wrt: dict[K, Variable], *args: P.args, **named: P.kwargs) -> dict[K, Node]: ...
    @overload
    def __call__(self, /, cost: Cost, wrt: S, *args: P.args, **named: P.kwargs) -> S: ...


class OfOutputs(Protocol[P]):
    """`ByVariables` for functions that differentiate tensors, which they call `outputs`, instead of a cost."""

    @overload
    def __call__(self, /, outputs: Any, wrt: Symbol[Any], *args: P.args, **named: P.kwargs) -> Node: ...
    @overload
    def __call__(self, /, outputs: Any, wrt: list[Variable], *args: P.args, **named: P.kwargs) -> list[Node]: ...
    @overload
    def __call__(
        self, /, outputs: Any, wrt: tuple[Variable, ...], *args: P.args, **named: P.kwargs
    ) -> tuple[Node, ...]: ...
    @overload
    def __call__(self, /, outputs: Any, wrt: dict[K, Variable], *args: P.args, **named: P.kwargs) -> dict[K, Node]: ...
    @overload
    def __call__(self, /, outputs: Any, wrt: S, *args: P.args, **named: P.kwargs) -> S: ...


def by_variables(function: Callable[Concatenate[Any, Any, P], Any]) -> ByVariables[P]:
    """Decorate a derivative with respect to variables. Type checkers then know its result, and callers who pass a
    function are told what to write."""
    return _checked(function)


def of_outputs(function: Callable[Concatenate[Any, Any, P], Any]) -> OfOutputs[P]:
    """`by_variables` for a function that differentiates `outputs`."""
    return _checked(function)


def _checked(function: Callable[..., Any]) -> Any:
    """A derivative that refuses to be called without variables, as JAX's derivatives of functions are."""
    name = function.__name__

    @functools.wraps(function)
    def derivative(*args: Any, **named: Any) -> Any:
        if len(args) == 1 and "wrt" not in named:
            whole = "value_and_grad(f)" if name == "grad" else f"jit(lambda x: sj.{name}(f(x), x))"
            raise errors.ArgumentError(
                f"sj.{name} needs the variables to differentiate by",
                got=repr(args[0]),
                fix=f"sj.{name}(y, x), of symbols; for a Python function f of arrays: sj.{whole}",
            )
        return function(*args, **named)

    return derivative


@by_variables
def grad(
    cost: Any,
    wrt: Any,
    known_grads: Mapping[Any, TensorLike] | None = None,
    consider_constant: Iterable[Any] = (),
    disconnected: Disconnected = "raise",
) -> Any:
    """The gradient of a scalar.

    Parameters
    ----------
    cost : a float scalar. May be None if `known_grads` says where to start.
    wrt : a float tensor or shared variable, or a tuple, list, dict (also nested) of them: inputs of the graph, or any
        nodes inside it.
    known_grads : a mapping from nodes to gradients that are known already. They replace the gradients that would be
        computed.
    consider_constant : nodes that no gradient flows through.
    disconnected : what to do where the cost does not depend on an entry of `wrt`: "raise" a `GradientError`, or give
        "zero" ("ignore" means the same). A dependence through integers or bools does not count.

    Returns
    -------
    Node, or the structure of `wrt`
        Each gradient has the type of its variable.

    Examples
    --------
    >>> import scanjit as sj
    >>> x, w = sj.vector("x"), sj.scalar("w")
    >>> slopes = sj.grad((w * x**2).sum(), {"x": x, "w": w})
    >>> sj.function([x, w], slopes, mode="reference")([1.0, 2.0], 3.0)
    {'x': array([ 6., 12.]), 'w': array(5.)}
    """
    if known_grads is not None and not isinstance(known_grads, Mapping):
        raise errors.ArgumentError("known_grads maps symbols to their gradients", got=repr(known_grads))
    given = dict(known_grads or {})
    slopes = _leaves(flatten(list(given))[1], list(given.values()), "known gradients", "their variables")
    known = {node: _like(g, node, "a known gradient") for node, g in zip(nodes_of(given), slopes, strict=True)}
    outputs, cotangents = list(known), list(known.values())
    if cost is not None:
        node = _scalar(cost)
        outputs, cotangents = [node, *outputs], [constant(1, node.dtype), *cotangents]
    elif not known:
        raise errors.ArgumentError("grad needs a cost, or gradients that are known", got="cost=None and no known_grads")
    return _backward(outputs, cotangents, wrt, known, consider_constant, disconnected)


@of_outputs
def vjp(
    outputs: Any, wrt: Any, cotangents: Any, consider_constant: Iterable[Any] = (), disconnected: Disconnected = "raise"
) -> Any:
    """Vectors times the Jacobian: the derivative of `sum(outputs * cotangents)`. Theano's `Lop`.

    Parameters
    ----------
    outputs : a float tensor, or a structure of them.
    wrt, consider_constant, disconnected : see `grad`.
    cotangents : for each output a tensor of its type, in the same structure.

    Returns
    -------
    Node, or the structure of `wrt`

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> g = sj.vjp(x * x, x, sj.as_tensor([1.0, 10.0]))
    >>> sj.function([x], g, mode="reference")([3.0, 4.0])
    array([ 6., 80.])
    """
    leaves, tree = flatten(outputs)
    nodes = [float_node(leaf, "an output") for leaf in leaves]
    given = _leaves(tree, cotangents, "cotangents", "outputs")
    seeds = [_like(g, node, "a cotangent") for g, node in zip(given, nodes, strict=True)]
    return _backward(nodes, seeds, wrt, {}, consider_constant, disconnected)


@overload
def jvp(outputs: Symbol[Any], wrt: Any, tangents: Any, consider_constant: Iterable[Any] = ...) -> Node: ...
@overload
def jvp(outputs: S, wrt: Any, tangents: Any, consider_constant: Iterable[Any] = ...) -> S: ...
def jvp(outputs: Any, wrt: Any, tangents: Any, consider_constant: Iterable[Any] = ()) -> Any:
    """The Jacobian times vectors: the rate at which outputs change if `wrt` changes in the direction of `tangents`.
    Theano's `Rop`.

    Parameters
    ----------
    outputs : a float tensor, or a structure of them.
    wrt : a float tensor or shared variable, or a structure of them.
    tangents : for each entry of `wrt` a tensor of its type, in the same structure.
    consider_constant : nodes whose change counts as zero.

    Returns
    -------
    Node, or the structure of `outputs`
        Of the types of the outputs.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> change = sj.jvp(x * x, x, sj.as_tensor([1.0, 10.0]))
    >>> sj.function([x], change, mode="reference")([3.0, 4.0])
    array([ 6., 80.])
    """
    leaves, tree = flatten(outputs)
    nodes = [float_node(leaf, "an output") for leaf in leaves]
    variables, wrt_tree = flatten(wrt)
    given = _leaves(wrt_tree, tangents, "tangents", "wrt")
    changes: dict[Node, Node] = {}
    for variable, tangent in zip(variables, given, strict=True):
        node = float_node(variable, "wrt")
        change = _like(tangent, node, "a tangent")
        changes[node] = changes[node] + change if node in changes else change
    constants = nodes_of(consider_constant)
    roots, known, constants = _out_of_branches(nodes, list(changes), constants)
    found = pushforward(roots, {**dict(zip(known, changes.values(), strict=True)), **dict.fromkeys(constants)})
    return tree.unflatten([or_zeros(tangent, node) for tangent, node in zip(found, nodes, strict=True)])


Rop, Lop = jvp, vjp


# ---- from what users give to nodes -----------------------------------------------------------------------------------


def _backward(
    outputs: Sequence[Node],
    cotangents: Sequence[Node],
    wrt: Any,
    fixed: Mapping[Node, Node],
    consider_constant: Iterable[Any],
    disconnected: str,
) -> Any:
    errors.check_known("the value of `disconnected`", disconnected, _DISCONNECTED)
    leaves, tree = flatten(wrt)
    variables = [float_node(leaf, "wrt") for leaf in leaves]
    constants = nodes_of(consider_constant)
    outputs, variables, constants, known = _out_of_branches(outputs, variables, constants, list(fixed))
    fixed = dict(zip(known, fixed.values(), strict=True))
    if disconnected == "raise":
        check_connected(outputs, variables, constants, tree)
    found = pullback(outputs, cotangents, variables, constant=constants, fixed=fixed)
    return tree.unflatten([or_zeros(g, variable) for g, variable in zip(found, variables, strict=True)])


def _out_of_branches(outputs: Sequence[Node], *chosen: Sequence[Node]) -> list[list[Node]]:
    """The same outputs and nodes, in a graph that computes none of the nodes inside of a branch of an `ifelse`."""
    groups = [list(outputs), *map(list, chosen)]
    inside = {node for group in groups[1:] for node in group if node.operands}
    mapping = cut(outputs, inside) if inside else {}
    if not mapping:
        return groups
    replaced = iter(replace([node for group in groups for node in group], mapping))
    return [[next(replaced) for _ in group] for group in groups]


def check_connected(
    outputs: Sequence[Node], variables: Sequence[Node], constants: Collection[Node], tree: Tree
) -> None:
    """Raise an error unless the outputs depend on all variables, along a path without the constants. `tree` is the
    structure of the variables: for complex numbers, one part is enough."""
    reached = connected(outputs, constants)
    for places in tree.tensors():
        if not any(variables[i] in reached for i in places):
            raise _not_connected(variables[places[0]], outputs)


def nodes_of(given: Iterable[Any]) -> list[Node]:
    """The nodes of some symbols: of those of complex numbers, both parts."""
    return [as_node(leaf) for leaf in flatten(list(given))[0]]


def _not_connected(variable: Node, outputs: Sequence[Node]) -> errors.GradientError:
    used = variable in connected(outputs, through=lambda node: True)
    way = (
        "depends on it only through integers, bools or what is considered constant" if used else "does not depend on it"
    )
    return errors.GradientError(
        f"there is no gradient for {variable.name or 'a variable'}: the cost {way}",
        got=repr(variable) + (f", made at {variable.where}" if variable.where else ""),
        fix='take it out of `wrt`, or pass disconnected="zero"',
    )


def float_node(value: Any, what: str) -> Node:
    """The node of a value, which must be one that has derivatives (a float)."""
    node = as_node(value)
    if node.type.kind.is_complex:
        raise errors.GradientError(
            f"{what} must be real: derivatives are those of real numbers by the real and imaginary parts of others",
            got=repr(node),
            fix="take sj.real, sj.imag or sj.abs of it, as in sj.abs(z) ** 2",
        )
    if not node.type.kind.floating:
        raise errors.GradientError(
            f"{what} must be of floats: {node.name or 'this'} is of {node.dtype}, which has no derivatives",
            got=repr(node),
            fix=f"use {node.name or 'x'}.astype('float64') where it enters the computation",
        )
    return node


def _scalar(cost: Any) -> Node:
    if isinstance(cost, list | tuple | dict):
        raise errors.GradientError(
            "the cost of a gradient must be a scalar",
            got=f"{len(cost)} values ({type(cost).__name__})",
            fix="return the cost alone; inside of sj.jit, sj.grad(cost, x) gives the gradient beside other values",
        )
    node = float_node(cost, "the cost")
    if node.ndim:
        raise errors.GradientError(
            "the cost of a gradient must be a scalar",
            got=repr(node),
            fix="take its sum or mean; or use vjp, jacobian for derivatives of tensors",
        )
    return node


def _like(value: Any, node: Node, what: str) -> Node:
    """A derivative that a user gives for a node, cast to the node's dtype. It must have as many axes as the node."""
    given = as_node(value)
    if given.ndim != node.ndim:
        raise errors.GradientError(f"{what} must have the type of what it is for", got=given.type, expected=node.type)
    for axis, (a, b) in enumerate(zip(given.type.shape, node.type.shape, strict=True)):
        types.equate(a, b, f"dimension {axis} of {what} and of what it is for")
    return cast(given, node.dtype)


def _leaves(tree: Tree, value: Any, what: str, model: str) -> list[Any]:
    """The leaves of a value, which must have the structure of another argument. Lists and tuples count as equal."""
    if tree.kind in (tuple, list) and isinstance(value, tuple | list) and len(value) == len(tree.children):
        pairs = zip(tree.children, value, strict=True)
        return [leaf for child, item in pairs for leaf in _leaves(child, item, what, model)]
    try:
        return tree.leaves_of(value)
    except Mismatch as error:
        raise errors.GradientError(
            f"{what} must have the structure of {model}", got=error.got, expected=error.expected
        ) from None
