"""`mixed`: the same function with products of numbers of 16 or 8 bits."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, get_args, overload

from scanjit import errors, types
from scanjit.ir import Node, as_node, is_symbol
from scanjit.loops.structure import flatten
from scanjit.records import record
from scanjit.runtime.function import CompiledFunction
from scanjit.runtime.jit import Jitted, jit

__all__ = ["mixed"]

Weights = Literal["bfloat16", "int8"]
Stored = Literal["bfloat16", "float16"]
R = TypeVar("R")


@overload
def mixed(  # type: ignore[overload-overlap]
    f: CompiledFunction[R], weights: Weights | None = ..., stored: Stored | None = ...
) -> CompiledFunction[R]: ...
@overload
def mixed(f: Callable[..., Any], weights: Weights | None = ..., stored: Stored | None = ...) -> Jitted[..., Any]: ...
def mixed(
    f: Callable[..., Any], weights: Weights | None = "bfloat16", stored: Stored | None = None
) -> CompiledFunction[Any] | Jitted[..., Any]:
    """The same function with faster, less exact products, and gradients that take less memory: with fewer bits.

    Only operands of products (`@`, `dot`, `einsum`) are rounded, also those in loops and in gradients; and, with
    `stored`, what loops keep for their gradients. Sums of products, and everything else, stay float32. So do shared
    variables and updates: an optimizer works on weights of full precision.

    Parameters
    ----------
    f : CompiledFunction, or a function of symbols
        Also one that `jit` or `value_and_grad` returned. It is not changed.
    weights : {"bfloat16", "int8"} or None
        What operands of products are rounded to. A bfloat16 has the range of a float32 and 8 bits of mantissa, two to
        three digits: enough to train networks. Integers of 8 bits are for inference. Each row of the left operand, and
        each column of the right one, has a scale with which its largest number becomes 127. None: as they are.
    stored : {"bfloat16", "float16"}, optional
        What loops keep float32 as, from the forward pass to the gradient: half of the memory. The gradient may be in
        `f`, or be taken of what this returns. A float16 has three digits, and no number beyond 65,504. bfloat16
        takes the package `ml_dtypes` (`pip install "scanjit[bfloat16]"`).

    Returns
    -------
    CompiledFunction or Jitted
        A compiled function for one, with its inputs, outputs, updates and shared variables; else a jitted function.

    Raises
    ------
    ArgumentError
        If `f` is no function, or there is no such format.
    NotSupportedError
        If `stored` is "bfloat16", and `ml_dtypes` is not installed.

    Notes
    -----
    With bfloat16, each term of a sum has a relative error of 2**-8 at most; with int8, an error of 1 % of the product
    of the largest numbers of its row and its column at most. `explain()` lists the products that are computed in packs
    of two or four: sums of at least 16 terms. Products of float64 and convolutions stay what they are.

    With `stored`, the value of `f` stays the same, but for what it computes from gradients. Each kept value has a
    relative error of 2**-8 at most (2**-11 with float16). A loop keeps its states, and what the compiler rather stores
    than computes again: `explain()` lists it. The reference interpreter, and `export_numpy`, round the states
    alone, and compute the rest from these. What a loop keeps for derivatives of order 2 of itself stays float32.

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
    policy = Policy(weights, stored)
    if isinstance(f, CompiledFunction):
        count = len(f.graph.outputs)
        new = policy.applied(f.graph.roots)
        updates = zip((variable for variable, _ in f.graph.updates), new[count:], strict=True)
        graph = dataclasses.replace(f.graph, outputs=tuple(new[:count]), updates=tuple(updates))
        return CompiledFunction(graph, f.name, f.mode)
    if not callable(f):
        raise errors.ArgumentError("mixed takes a function", got=repr(f))
    options: dict[str, Any] = {"mode": f.mode, "static_argnums": f.static} if isinstance(f, Jitted) else {}
    return jit(_Mixed(f, policy), **options)


@record
class Policy:
    """What products are computed with, and what gradients keep: see `mixed`."""

    weights: Weights | None
    stored: Stored | None

    def __post_init__(self) -> None:
        for what, got, formats in (("weights", self.weights, Weights), ("what a gradient keeps", self.stored, Stored)):
            if got is not None and got not in get_args(formats):
                expected = " or ".join([*map(repr, get_args(formats)), "None"])
                raise errors.ArgumentError(f"there is no such format for {what}", got=repr(got), expected=expected)
        if self.stored is not None:
            types.dtype_of(self.stored)  # it may be missing

    def applied(self, outputs: Sequence[Node], given: Sequence[Node] = ()) -> list[Node]:
        """The outputs, computed in this way. What nodes that are `given` are computed from stays as it is."""
        from scanjit.rewrite.narrow import with_narrow_products  # who does without it need not wait for the rewrites
        from scanjit.rewrite.scan_save import with_stored

        new = list(outputs)
        if self.stored is not None:
            new = with_stored(new, self.stored, given)
        return new if self.weights is None else with_narrow_products(new, self.weights, given)


class _Mixed:
    """A function of symbols that is computed with a policy."""

    def __init__(self, f: Callable[..., Any], policy: Policy) -> None:
        functools.update_wrapper(self, f)
        self.f, self.policy = f, policy

    def __reduce__(self) -> tuple[Any, ...]:
        return _Mixed, (self.f, self.policy)

    def __call__(self, *args: Any, **named: Any) -> Any:
        given = [as_node(leaf) for leaf in flatten((args, named), whole=True)[0] if is_symbol(leaf)]
        leaves, tree = flatten(self.f(*args, **named))
        return tree.unflatten(self.policy.applied([as_node(leaf) for leaf in leaves], given))
