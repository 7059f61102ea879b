"""`mixed`: the same function with products of numbers of 16 or 8 bits."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, overload

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, as_node, is_symbol
from scanjit.loops.structure import flatten
from scanjit.records import record
from scanjit.runtime.function import CompiledFunction
from scanjit.runtime.jit import Jitted, jit

if TYPE_CHECKING:
    from scanjit.rewrite.calibrate import Watch
    from scanjit.rewrite.narrow import MeasuredProduct, Place

__all__ = ["mixed"]

Weights = Literal["bfloat16", "int8"]
Stored = Literal["bfloat16", "float16"]
R = TypeVar("R")
SMALLEST = 1e-30
"""A number that is smaller than this in all data counts as zero there: no scale follows from it."""


@overload
def mixed(  # type: ignore[overload-overlap]
    f: CompiledFunction[R],
    weights: Weights | None = ...,
    stored: Stored | None = ...,
    calibrate: Iterable[Any] | None = ...,
) -> CompiledFunction[R]: ...
@overload
def mixed(f: Callable[..., Any], weights: Weights | None = ..., stored: Stored | None = ...) -> Jitted[..., Any]: ...
def mixed(
    f: Callable[..., Any],
    weights: Weights | None = "bfloat16",
    stored: Stored | None = None,
    calibrate: Iterable[Any] | None = None,
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
    calibrate : iterable of tuples of arrays, optional
        For `weights="int8"` and a compiled function: arguments that are typical. The function runs on them as it is.
        What enters each product then has one scale, that of its largest number in all of these runs, rather than a
        scale for each row, which is found in each call. Larger numbers become the largest. `explain()` lists the errors
        of the products on these arguments. Columns of weights keep scales of their own; so do products in branches.

    Returns
    -------
    CompiledFunction or Jitted
        A compiled function for one, with its inputs, outputs, updates and shared variables; else a jitted function.

    Raises
    ------
    ArgumentError
        If `f` is no function, there is no such format, or it cannot be calibrated.
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

    Results are the same bits for any number of threads. With int8, they are the same on all processors. With bfloat16,
    Intel's AMX adds in another order than other processors, and AVX512-BF16 and AMX take numbers below 2**-126 for
    zero. Products are faster on processors with AVX512-BF16 (AMD's), VNNI or AMX: up to two times with bfloat16 and
    four times with int8, and with AMX five times. Everywhere, weights that are read once in a call, as for a batch
    of one, take half or a quarter of the bytes.

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
    if calibrate is not None and (weights != "int8" or not isinstance(f, CompiledFunction)):
        raise errors.ArgumentError(
            "calibrate is for compiled functions and integers of 8 bits",
            got=f"weights={weights!r}, and {f!r}",
            fix='mixed(f, weights="int8", calibrate=...), where f is what sj.function or jitted.function(...) returns',
        )
    if isinstance(f, CompiledFunction):
        count = len(f.graph.outputs)
        new = policy.applied(f.graph.roots, measured=None if calibrate is None else _measured(f, calibrate))
        updates = zip((variable for variable, _ in f.graph.updates), new[count:], strict=True)
        graph = dataclasses.replace(f.graph, outputs=tuple(new[:count]), updates=tuple(updates))
        return CompiledFunction(graph, f.name, f.mode)
    if not callable(f):
        raise errors.ArgumentError("mixed takes a function", got=repr(f))
    if isinstance(f, Jitted):
        numbers, names = f.static_argnums, f.static_argnames
        return jit(_Mixed(f, policy), mode=f.mode, static_argnums=numbers, static_argnames=names)
    return jit(_Mixed(f, policy))


@record
class Policy:
    """The formats of products, and of the values that gradients keep: see `mixed`."""

    weights: Weights | None
    stored: Stored | None

    def __post_init__(self) -> None:
        for what, got, formats in (("weights", self.weights, Weights), ("what a gradient keeps", self.stored, Stored)):
            errors.check_known(f"the format of {what}", got, (None, *get_args(formats)))
        if self.stored is not None:
            types.dtype_of(self.stored)  # it may be missing

    def applied(
        self,
        outputs: Sequence[Node],
        given: Sequence[Node] = (),
        measured: Mapping[Place, MeasuredProduct] | None = None,
    ) -> list[Node]:
        """The outputs, computed in this way. Nodes that `given` nodes are computed from stay as they are. `measured`
        has the measurements of their products."""
        from scanjit.rewrite.narrow import with_narrow_products  # who does without it need not wait for the rewrites
        from scanjit.rewrite.scan_save import with_stored

        new = list(outputs)
        if self.weights is not None:
            new = with_narrow_products(new, self.weights, given, measured)
        return new if self.stored is None else with_stored(new, self.stored, given)


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


def _measured(f: CompiledFunction[Any], batches: object) -> dict[Place, MeasuredProduct]:
    """The measurements of the products of a function on typical arguments: their scales, and then their errors."""
    from scanjit.rewrite.calibrate import errors_with, operands_that_vary
    from scanjit.rewrite.narrow import MeasuredProduct

    given = list(batches) if isinstance(batches, Iterable) and not is_symbol(batches) else []
    if not given:
        raise errors.ArgumentError(
            "nothing is given to calibrate with",
            got=repr(batches),
            fix="give a list of arguments: calibrate=[(x,), ...]",
        )
    given = [batch if isinstance(batch, tuple | list) else (batch,) for batch in given]
    known = {}
    for place, largest in _largest(f, given, operands_that_vary).items():
        if any(not 0 <= value < np.inf for value in largest if value != -np.inf):  # -inf: nothing was multiplied
            raise errors.ArgumentError(
                "numbers that are not finite enter a product on the data to calibrate with", where=place[1].where
            )
        left, right = (value if value > SMALLEST else None for value in largest)
        known[place] = MeasuredProduct((left, right))
    found = _largest(f, given, errors_with(known))
    return {
        place: MeasuredProduct(about.largest, _remark(*found[place])) if about.largest != (None, None) else about
        for place, about in known.items()
    }


def _remark(error: float, largest: float) -> str:
    return f"int8 with a scale from the data: errors up to {error:.2g} in a product with results up to {largest:.2g}"


def _largest(f: CompiledFunction[Any], batches: Sequence[Any], watch: Watch) -> dict[Place, list[float]]:
    """The largest values that `watch` finds for each product of a function, over all batches."""
    from scanjit.rewrite.calibrate import watched

    found = watched(f.graph.roots, watch)
    outputs, tree = flatten([value for _, values in found for value in values])
    graph = dataclasses.replace(f.graph, outputs=tuple(outputs), tree=tree, updates=(), names=())
    watching: CompiledFunction[Any] = CompiledFunction(graph, f.name, f.mode)
    totals = iter(np.max([[float(value) for value in watching(*batch)] for batch in batches], axis=0).tolist())
    return {place: [next(totals) for _ in values] for place, values in found}
