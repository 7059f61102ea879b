"""`mixed`: the same function with products of bfloat16."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

from scanjit import errors
from scanjit.ir import Node, as_node, is_symbol
from scanjit.loops.structure import flatten
from scanjit.runtime.function import CompiledFunction
from scanjit.runtime.jit import Jitted, jit

__all__ = ["mixed"]

Weights = Literal["bfloat16"]
R = TypeVar("R")


@overload
def mixed(f: CompiledFunction[R], weights: Weights = ...) -> CompiledFunction[R]: ...  # type: ignore[overload-overlap]
@overload
def mixed(f: Callable[..., Any], weights: Weights = ...) -> Jitted[..., Any]: ...
def mixed(f: Callable[..., Any], weights: Weights = "bfloat16") -> CompiledFunction[Any] | Jitted[..., Any]:
    """The same function with faster, less exact products: their operands are rounded to bfloat16.

    A bfloat16 has the range of a float32 and 8 bits of mantissa, two to three digits. Only operands of products (`@`,
    `dot`, `einsum`) are rounded, also those in loops and in gradients; the sums of products, and everything else, stay
    float32. So do shared variables and updates: an optimizer works on weights of full precision.

    Parameters
    ----------
    f : CompiledFunction, or a function of symbols
        Also one that `jit` or `value_and_grad` returned. It is not changed.
    weights : {"bfloat16"}
        What operands of products are rounded to.

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
    Each product has a relative error of 2**-8 at most in each term. `explain()` lists the products that are computed in
    pairs of bfloat16: sums of at least 16 terms. Products of float64 and convolutions stay what they are.

    Results are the same bits for any number of threads, and on all processors, except that a processor with
    AVX512-BF16 takes numbers below 2**-126 in products for zero. It is such processors on which products are faster:
    up to twice. Everywhere, weights that are read once in a call, as for a batch of one, take half the bytes.

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
    if weights != "bfloat16":
        raise errors.ArgumentError("there is no such format for weights", got=repr(weights), expected="'bfloat16'")
    if isinstance(f, CompiledFunction):
        count = len(f.graph.outputs)
        new = _rounded(f.graph.roots)
        updates = zip((variable for variable, _ in f.graph.updates), new[count:], strict=True)
        graph = dataclasses.replace(f.graph, outputs=tuple(new[:count]), updates=tuple(updates))
        return CompiledFunction(graph, f.name, f.mode)
    if not callable(f):
        raise errors.ArgumentError("mixed takes a function", got=repr(f))
    options: dict[str, Any] = {"mode": f.mode, "static_argnums": f.static} if isinstance(f, Jitted) else {}
    return jit(_Mixed(f), **options)


class _Mixed:
    """A function of symbols whose products are rounded."""

    def __init__(self, f: Callable[..., Any]) -> None:
        functools.update_wrapper(self, f)
        self.f = f

    def __reduce__(self) -> tuple[Any, ...]:
        return _Mixed, (self.f,)

    def __call__(self, *args: Any, **named: Any) -> Any:
        given = [as_node(leaf) for leaf in flatten((args, named), whole=True)[0] if is_symbol(leaf)]
        leaves, tree = flatten(self.f(*args, **named))
        return tree.unflatten(_rounded([as_node(leaf) for leaf in leaves], given))


def _rounded(outputs: Sequence[Node], given: Sequence[Node] = ()) -> list[Node]:
    from scanjit.rewrite.bfloat import with_rounded_products  # who does without it need not wait for the rewrites

    return with_rounded_products(outputs, given)
