"""`mixed`: the same function with products of numbers of 16 or 8 bits."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, get_args, overload

from scanjit import errors
from scanjit.ir import Node, as_node, is_symbol
from scanjit.loops.structure import flatten
from scanjit.runtime.function import CompiledFunction
from scanjit.runtime.jit import Jitted, jit

__all__ = ["mixed"]

Weights = Literal["bfloat16", "int8"]
R = TypeVar("R")


@overload
def mixed(f: CompiledFunction[R], weights: Weights = ...) -> CompiledFunction[R]: ...  # type: ignore[overload-overlap]
@overload
def mixed(f: Callable[..., Any], weights: Weights = ...) -> Jitted[..., Any]: ...
def mixed(f: Callable[..., Any], weights: Weights = "bfloat16") -> CompiledFunction[Any] | Jitted[..., Any]:
    """The same function with faster, less exact products: their operands have fewer bits.

    Only operands of products (`@`, `dot`, `einsum`) are rounded, also those in loops and in gradients. The sums of
    products, and everything else, stay float32. So do shared variables and updates: an optimizer works on weights of
    full precision.

    Parameters
    ----------
    f : CompiledFunction, or a function of symbols
        Also one that `jit` or `value_and_grad` returned. It is not changed.
    weights : {"bfloat16", "int8"}
        What operands of products are rounded to. A bfloat16 has the range of a float32 and 8 bits of mantissa, two to
        three digits: enough to train networks. Integers of 8 bits are for inference. Each row of the left operand, and
        each column of the right one, has a scale with which its largest number becomes 127.

    Returns
    -------
    CompiledFunction or Jitted
        A compiled function for one, with its inputs, outputs, updates and shared variables; else a jitted function.

    Raises
    ------
    ArgumentError
        If `f` is no function, or there is no such format.

    Notes
    -----
    With bfloat16, each term of a sum has a relative error of 2**-8 at most; with int8, an error of 1 % of the product
    of the largest numbers of its row and its column at most. `explain()` lists the products that are computed in packs
    of two or four: sums of at least 16 terms. Products of float64 and convolutions stay what they are.

    Results are the same bits for any number of threads, and on all processors, except that a processor with
    AVX512-BF16 takes numbers below 2**-126 in products of bfloat16 for zero. Products are faster on processors with
    AVX512-BF16 or VNNI: up to two times with bfloat16, four times with int8. Everywhere, weights that are read once in
    a call, as for a batch of one, take half or a quarter of the bytes.

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> @sj.mixed
    ... def product(x, w):
    ...     return x @ w
    >>> x = np.full((1, 16), 1 + 2**-9, "float32")  # between two bfloat16
    >>> float(product(x, np.ones((16, 1), "float32"))[0, 0])
    16.0
    """
    if weights not in get_args(Weights):
        expected = " or ".join(map(repr, get_args(Weights)))
        raise errors.ArgumentError("there is no such format for weights", got=repr(weights), expected=expected)
    if isinstance(f, CompiledFunction):
        count = len(f.graph.outputs)
        new = _narrow(f.graph.roots, weights)
        updates = zip((variable for variable, _ in f.graph.updates), new[count:], strict=True)
        graph = dataclasses.replace(f.graph, outputs=tuple(new[:count]), updates=tuple(updates))
        return CompiledFunction(graph, f.name, f.mode)
    if not callable(f):
        raise errors.ArgumentError("mixed takes a function", got=repr(f))
    options: dict[str, Any] = {"mode": f.mode, "static_argnums": f.static} if isinstance(f, Jitted) else {}
    return jit(_Mixed(f, weights), **options)


class _Mixed:
    """A function of symbols whose products are narrow."""

    def __init__(self, f: Callable[..., Any], weights: Weights) -> None:
        functools.update_wrapper(self, f)
        self.f, self.weights = f, weights

    def __reduce__(self) -> tuple[Any, ...]:
        return _Mixed, (self.f, self.weights)

    def __call__(self, *args: Any, **named: Any) -> Any:
        given = [as_node(leaf) for leaf in flatten((args, named), whole=True)[0] if is_symbol(leaf)]
        leaves, tree = flatten(self.f(*args, **named))
        return tree.unflatten(_narrow([as_node(leaf) for leaf in leaves], self.weights, given))


def _narrow(outputs: Sequence[Node], weights: Weights, given: Sequence[Node] = ()) -> list[Node]:
    from scanjit.rewrite.narrow import with_narrow_products  # who does without it need not wait for the rewrites

    return with_narrow_products(outputs, weights, given)
