"""`vmap`: a function of single examples, turned into one of batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

from scanjit import errors, tracing, types
from scanjit.ir import Node, as_node, new_input
from scanjit.loops.structure import flatten
from scanjit.ops.batch import batch_graph, batch_or_loop
from scanjit.ops.expect import SPECIFY_SHAPE
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import over_batch
from scanjit.ops.view import moved_axis
from scanjit.symbol import Tensor
from scanjit.types import Dimension

__all__ = ["batch_graph", "vmap"]

P = ParamSpec("P")
S = TypeVar("S")
Axes = int | None | Sequence[int | None]


@overload
def vmap(fn: Callable[P, Tensor], in_axes: Axes = ..., out_axes: Axes = ...) -> Callable[P, Node]: ...
@overload
def vmap(fn: Callable[P, S], in_axes: Axes = ..., out_axes: Axes = ...) -> Callable[P, S]: ...
def vmap(fn: Callable[..., Any], in_axes: Axes = 0, out_axes: Axes = 0) -> Callable[..., Any]:
    """A function that applies `fn` to every example of a batch.

    Parameters
    ----------
    fn : a function of symbols (each may be a structure of them) that returns a symbol or a structure of them. The
        symbols that it closes over are the same for all examples.
    in_axes : the axis of the batch: one number for all arguments, or a tuple with one an argument. None for an argument
        that is the same for all examples. For an argument that is a structure, the number applies to all of its leaves.
        The batch of arguments that are given by name is on axis 0.
    out_axes : the axis of the batch in the results: one number for all, or, if `fn` returns a tuple or list, one an
        entry.

    Returns
    -------
    callable
        Takes symbols (or arrays) and returns symbols. It can be pickled if `fn` can be.

    Notes
    -----
    Loops that end by themselves (`until`, `while_loop`) run side by side until the last of them has ended. (If only the
    last states of single numbers are wanted, a vector of them runs at a time.) If sizes inside `fn` differ between the
    examples, a loop computes one example after the other, as `map` does. The results must have the same size for all
    examples.

    Examples
    --------
    A loop for each row of a batch, with one rate for all:

    >>> import scanjit as sj
    >>> def smooth(x, rate):
    ...     return sj.scan(lambda x, level: level + rate * (x - level), x, 0.0)
    >>> xs, rate = sj.matrix("xs"), sj.scalar("rate")
    >>> f = sj.function([xs, rate], sj.vmap(smooth, in_axes=(0, None))(xs, rate), mode="reference")
    >>> f([[1.0, 1.0], [0.0, 4.0]], 0.5)
    array([[0.5 , 0.75],
           [0.  , 2.  ]])

    The gradient for each example of a batch, by the same weights:

    >>> xs, ts, w = sj.matrix("xs"), sj.vector("ts"), sj.vector("w")
    >>> def slope(x, t):
    ...     return sj.grad((x @ w - t) ** 2, w)
    >>> each = sj.function([xs, ts, w], sj.vmap(slope)(xs, ts), mode="reference")
    >>> each([[1.0, 0.0], [0.0, 2.0]], [0.0, 1.0], [1.0, 1.0])
    array([[2., 0.],
           [0., 4.]])
    """
    if not callable(fn):
        raise errors.ArgumentError("vmap takes a function", got=repr(fn))

    batched = functools.partial(_batched, fn, in_axes, out_axes)
    names = ("__name__", "__qualname__")
    vars(batched).update({name: getattr(fn, name) for name in names if hasattr(fn, name)})
    return batched


def _batched(fn: Callable[..., Any], in_axes: Axes, out_axes: Axes, /, *args: Any, **named: Any) -> Any:
    axes = _one_each(in_axes, len(args), "in_axes", "arguments")
    size, stand_ins, examples = _examples([*args, *named.values()], [*axes, *[0] * len(named)])
    names = dict(zip(named, examples[len(args) :], strict=True))
    with tracing.mark("example") as example:
        leaves, tree = flatten(fn(*examples[: len(args)], **names))
    if example.asked is not None:
        stand_ins[example.asked] = IOTA(length=size)
    count = len(tree.children) if tree.kind in (tuple, list) else 1
    chosen = _one_each(out_axes, count, "out_axes", "results")
    sizes = [child.size for child in tree.children] if tree.kind in (tuple, list) else [tree.size]
    places = [axis for axis, n in zip(chosen, sizes, strict=True) for _ in range(n)]
    found = batch_or_loop([as_node(leaf) for leaf in leaves], stand_ins, size)
    return tree.unflatten([_placed(*pair, axis, size) for pair, axis in zip(found, places, strict=True)])


def _one_each(axes: Axes, count: int, what: str, of: str) -> Sequence[int | None]:
    if axes is None or isinstance(axes, int | np.integer):
        return [axes] * count
    listed = isinstance(axes, tuple | list)
    if not listed or not all(isinstance(axis, int | np.integer | None) for axis in axes):
        raise errors.ArgumentError(f"{what} of vmap has numbers of axes, and None", got=repr(axes))
    if len(axes) != count:
        raise errors.ArgumentError(f"{what} needs one entry for each of the {of}", got=len(axes), expected=count)
    return axes


def _examples(args: Sequence[Any], axes: Sequence[int | None]) -> tuple[Dimension, dict[Node, Node], list[Any]]:
    """The size of the batch, a mapping from symbols of single examples to the batched nodes, and the arguments for
    `fn`."""
    size: Dimension | None = None
    stand_ins: dict[Node, Node] = {}
    examples = []
    for number, (arg, axis) in enumerate(zip(args, axes, strict=True)):
        leaves, tree = flatten(arg)
        nodes = [as_node(leaf) for leaf in leaves]
        if axis is not None:
            moved = [_moved_first(node, axis, number) for node in nodes]
            for node in moved:
                dim = node.type.shape[0]
                size = dim if size is None else types.equate(size, dim, "the sizes of the batch axes of vmap")
            nodes = [new_input(node.type.with_shape(node.type.shape[1:]), node.name) for node in moved]
            stand_ins.update(zip(nodes, moved, strict=True))
        examples.append(tree.unflatten(nodes))
    if size is None:
        raise errors.ArgumentError("vmap needs an argument with a batch axis", got=f"in_axes of {list(axes)}")
    return size, stand_ins, examples


def _moved_first(node: Node, axis: int, number: int) -> Node:
    if not -node.ndim <= axis < node.ndim:
        raise errors.ArgumentError(
            f"argument {number} of a batched function has no axis {axis}", got=repr(node), fix="see `in_axes` of vmap"
        )
    return moved_axis(node, axis % node.ndim, 0)


def _placed(node: Node, batched: bool, axis: int | None, size: Dimension) -> Node:
    """The result with the axis of the batch moved to where the user wants it."""
    if axis is None:
        if batched:
            raise errors.ArgumentError(
                "out_axes is None for a result that differs between the examples", got=repr(node)
            )
        return node
    node = over_batch(node, batched, size)
    if node.type.shape[0] != size:  # the size of another argument's axis
        node = SPECIFY_SHAPE(node, shape=(size, *node.type.shape[1:]), what="a result of vmap")
    if not -node.ndim <= axis < node.ndim:
        raise errors.ArgumentError(f"a result of a batched function has no axis {axis}", got=repr(node))
    return moved_axis(node, 0, axis % node.ndim)
