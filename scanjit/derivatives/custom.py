"""`custom_vjp`: functions whose derivative the user defines."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import ORIGINS, Node, as_node, is_number, is_symbol
from scanjit.loops.structure import Mismatch, Tree, flatten, function_location
from scanjit.loops.wrappers import FunctionWrapper
from scanjit.ops.chain import carries_gradient, differentiable
from scanjit.ops.custom import CUSTOM, DerivativeRule
from scanjit.ops.stretch import broadcast_to, full
from scanjit.records import record

Backward = Callable[..., Any]


def custom_vjp(fn: Callable[..., Any]) -> CustomVjp:
    """Decorator: give a function of symbols a derivative of your own, instead of the derived one.

    The derivative is defined by `defvjp`: a function `backward(cotangent, output, *arguments)` that returns a tuple
    with the cotangent of each argument, or None where that is zero. It gets the cotangent of the output (in its
    structure; None for what is not of floats), the output, and the arguments as they were given. A single argument's
    cotangent may be returned bare.

    Parameters
    ----------
    fn : a function of positional arguments: symbols, arrays, structures of them; numbers, texts and None are settings,
        whose cotangent is None. It returns a symbol or a structure of them.

    Returns
    -------
    CustomVjp
        To be called as `fn` is, also in steps of loops and under `vmap`.

    Raises
    ------
    GradientError
        When the function is called: if `fn` uses symbols of floats that are not its arguments, whose derivative nobody
        would define (pass them, or wrap them in `stop_gradient`). When a derivative is taken: if there is no `defvjp`
        yet, or `backward` returns something that does not fit the arguments.

    Notes
    -----
    There is no need to hand intermediate results to `backward`, as in other systems. If `backward` computes something
    as `fn` did, it gets the same node of the graph, so it is computed once.

    Derivatives of higher order are derivatives of `backward`. Where `backward` uses `output`, they apply `backward`
    once more. Forward mode (`jvp`) uses the transpose of `backward`, so there `backward` must be linear in the
    cotangent.

    `CompiledFunction.save` and pickles do not store the rule: the gradients that a function computes are in its graph
    already.

    Examples
    --------
    A step function that lets gradients pass:

    >>> import scanjit as sj
    >>> @sj.custom_vjp
    ... def quantized(x, step):
    ...     return sj.round(x / step) * step
    >>> @quantized.defvjp
    ... def quantized_backward(cotangent, output, x, step):
    ...     return cotangent, None
    >>> x = sj.vector("x")
    >>> y = quantized(x, 0.5)
    >>> f = sj.function([x], [y, sj.grad((y * y).sum(), x)], mode="reference")
    >>> f([0.3, 1.1])
    [array([0.5, 1. ]), array([1., 2.])]
    """
    if not callable(fn):
        raise errors.ArgumentError("custom_vjp decorates a function", got=repr(fn))
    return CustomVjp(fn)


class CustomVjp(FunctionWrapper):
    """A function with a derivative of its own; made by `custom_vjp`.

    Examples
    --------
    >>> import scanjit as sj
    >>> square = sj.custom_vjp(lambda x: x * x)
    >>> rule = square.defvjp(lambda cotangent, output, x: cotangent * 100)
    >>> x = sj.scalar("x")
    >>> sj.function([x], sj.grad(square(x), x), mode="reference")(3.0)
    array(100.)
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__(CustomVjp, fn)
        self.fn = fn
        self.backward: Backward | None = None
        self.forward: Backward | None = None

    def _state(self) -> dict[str, Any]:
        return {"backward": self.backward, "forward": self.forward}

    @property
    def name(self) -> str:
        """Its name in errors."""
        return getattr(self.fn, "__name__", "function")

    def defvjp(self, backward: Backward) -> Backward:
        """Decorator: the derivative, `backward(cotangent, output, *arguments) -> cotangents`. See `custom_vjp`.

        Examples
        --------
        >>> import scanjit as sj
        >>> scaled = sj.custom_vjp(lambda x, factor: x * factor)
        >>> @scaled.defvjp
        ... def scaled_backward(cotangent, output, x, factor):
        ...     return cotangent * factor, (cotangent * x).sum()
        """
        if not callable(backward):
            raise errors.ArgumentError("defvjp takes a function", got=repr(backward))
        self.backward = backward
        return backward

    def defjvp(self, forward: Backward) -> Backward:
        """Decorator: the derivative in forward mode, `forward(tangents, output, *arguments) -> tangent`.

        `tangents` has one for each argument, in its structure; None where that is zero. Without this rule, the
        derivative in forward mode is the transpose of `backward`.

        Examples
        --------
        >>> import scanjit as sj
        >>> cubed = sj.custom_vjp(lambda x: x * x * x)
        >>> @cubed.defjvp
        ... def cubed_forward(tangents, output, x):
        ...     return 3 * x * x * tangents[0]
        >>> x = sj.scalar("x")
        >>> sj.function([x], sj.jvp(cubed(x), x, sj.ones(())), mode="reference")(2.0)
        array(12.)
        """
        if not callable(forward):
            raise errors.ArgumentError("defjvp takes a function", got=repr(forward))
        self.forward = forward
        return forward

    def __call__(self, *args: Any, **named: Any) -> Any:
        leaves, tree = flatten(self._in_order(args, named) if named else args)
        chosen = [i for i, leaf in enumerate(leaves) if _is_operand(leaf)]
        operands = [as_node(leaves[i]) for i in chosen]
        for i, node in zip(chosen, operands, strict=True):
            leaves[i] = node
        results, out_tree = flatten(self.fn(*tree.unflatten(leaves)))
        nodes = [as_node(result) for result in results]
        self._check_closed(nodes, operands)
        rule = _Rule(self, tree, tuple(leaves), tuple(chosen), out_tree)
        return out_tree.unflatten(ir.parts(CUSTOM(*nodes, *operands, results=len(nodes), rule=rule)))

    def _in_order(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, as the derivative gets them."""
        try:
            bound = inspect.signature(self.fn).bind(*args, **named)
        except (TypeError, ValueError) as error:
            raise errors.ArgumentError(f"{self.name} does not take these arguments", got=str(error)) from None
        if bound.kwargs:
            raise errors.ArgumentError(f"{self.name} takes arguments by position", got=", ".join(bound.kwargs))
        return bound.args

    def _check_closed(self, results: Sequence[Node], operands: Sequence[Node]) -> None:
        """Raise an error if the function uses a float symbol that is not one of its arguments."""
        given = set(operands)
        origins = [n for n in ir.walk(results, given) if n.op in ORIGINS and n not in given and carries_gradient(n)]
        passed = differentiable(results, origins, given)
        for node in origins:
            if node in passed and any(result in passed for result in results):
                raise errors.GradientError(
                    f"{self.name}, which has a derivative of its own, uses {node.name or 'a symbol'!r} without taking"
                    " it as an argument: nobody would define the derivative by it",
                    got=repr(node),
                    fix="make it an argument, or use sj.stop_gradient(...) of it",
                )

    def __repr__(self) -> str:
        return f"<custom_vjp of {self.name}>"


def _is_operand(leaf: Any) -> bool:
    return is_symbol(leaf) or isinstance(leaf, np.ndarray | np.generic | list)


@record
class _Rule(DerivativeRule):
    """The derivative for one call: with the structure of its arguments, and which of them are settings."""

    custom: CustomVjp
    tree: Tree
    leaves: tuple[Any, ...]
    chosen: tuple[int, ...]
    out_tree: Tree

    def __repr__(self) -> str:
        return self.custom.name

    def __call__(
        self, cotangents: Sequence[Node | None], results: Sequence[Node], arguments: Sequence[Node]
    ) -> list[Node | None]:
        """The cotangents of the arguments that are symbols."""
        backward = self.custom.backward
        if backward is None:
            raise errors.GradientError(
                f"{self.custom.name} has no derivative: it is a custom_vjp without a rule",
                fix=f"define one with @{self.custom.name}.defvjp",
            )
        leaves: list[Any] = list(self.leaves)
        for i, node in zip(self.chosen, arguments, strict=True):
            leaves[i] = node
        args = self.tree.unflatten(leaves)
        returned = backward(self.out_tree.unflatten(cotangents), self.out_tree.unflatten(results), *args)
        found = self._leaves(backward, returned)
        for i, (leaf, cotangent) in enumerate(zip(leaves, found, strict=True)):
            if i not in self.chosen and cotangent is not None:
                raise self._error(backward, i, f"{leaf!r} is a setting, its cotangent is None", cotangent)
        return [self._fitted(backward, i, leaves[i], found[i]) for i in self.chosen]

    def forward(
        self, tangents: Sequence[Node | None], results: Sequence[Node], arguments: Sequence[Node]
    ) -> list[Node | None] | None:
        """The tangents of the results; None without a rule for them."""
        forward = self.custom.forward
        if forward is None:
            return None
        leaves: list[Any] = list(self.leaves)
        given: list[Any] = [None] * len(leaves)
        for i, node, tangent in zip(self.chosen, arguments, tangents, strict=True):
            leaves[i], given[i] = node, tangent
        args = self.tree.unflatten(leaves)
        returned = forward(self.tree.unflatten(given), self.out_tree.unflatten(results), *args)
        try:
            found = self.out_tree.leaves_of(returned)
        except Mismatch as error:
            raise errors.GradientError(
                f"the derivative of {self.custom.name} in forward mode has another structure than what it gives",
                got=error.got,
                expected=error.expected,
                where=function_location(forward),
            ) from None
        return [self._tangent(forward, *pair) for pair in zip(results, found, strict=True)]

    def _tangent(self, forward: Backward, result: Node, value: Any) -> Node | None:
        """A tangent that has the type of its result."""
        if value is None or not result.type.kind.floating:
            return None
        node = full(value, (), result.dtype) if is_number(value) else as_node(value)
        if node.dtype != result.dtype or node.ndim > result.ndim:
            raise errors.GradientError(
                f"the derivative of {self.custom.name} in forward mode has another type than what it gives",
                got=repr(node),
                expected=result.type,
                where=function_location(forward),
            )
        return broadcast_to(node, result.type.shape)

    def _leaves(self, backward: Backward, returned: Any) -> list[Any]:
        """The cotangent that `backward` returned for each leaf of the arguments."""
        children = self.tree.children
        if len(children) == 1 and not isinstance(returned, tuple):
            returned = (returned,)
        if not isinstance(returned, tuple | list) or len(returned) != len(children):
            count = len(returned) if isinstance(returned, tuple | list) else repr(returned)
            raise errors.GradientError(
                f"the derivative of {self.custom.name} must be a tuple with one cotangent for each argument",
                got=count,
                expected=len(children),
                where=function_location(backward),
            )
        found: list[Any] = []
        for i, (child, value) in enumerate(zip(children, returned, strict=True)):
            try:
                found += [None] * child.size if value is None else child.leaves_of(value)
            except Mismatch as error:
                raise errors.GradientError(
                    f"the derivative of {self.custom.name} by its argument {i} has another structure than the argument",
                    got=error.got,
                    expected=error.expected,
                    where=function_location(backward),
                ) from None
        return found

    def _fitted(self, backward: Backward, i: int, argument: Node, value: Any) -> Node | None:
        """A cotangent that has the type of its argument."""
        if value is None:
            return None
        if not argument.type.kind.floating:
            raise self._error(backward, i, f"{argument!r} is not of floats, its cotangent is None", value)
        if is_number(value):
            return full(value, argument.type.shape, argument.dtype)
        try:
            node = as_node(value)
        except (errors.ArgumentError, errors.DtypeError):
            raise self._error(backward, i, f"that must be a symbol of {argument.type}", value) from None
        if node.dtype != argument.dtype or node.ndim != argument.ndim:
            raise self._error(backward, i, f"that must be of {argument.type}", node)
        for a, b in zip(node.type.shape, argument.type.shape, strict=True):
            try:
                types.equate(a, b, f"the sizes of an argument of {self.custom.name} and of its cotangent")
            except errors.ShapeError:
                raise self._error(backward, i, f"that must be of {argument.type}", node) from None
        return node

    def _error(self, backward: Backward, i: int, wanted: str, got: Any) -> errors.GradientError:
        path = self.tree.paths()[i]
        return errors.GradientError(
            f"the derivative of {self.custom.name} by its argument {path[1:].replace(']', '', 1)} does not fit it",
            got=repr(got),
            expected=wanted,
            where=function_location(backward),
        )
