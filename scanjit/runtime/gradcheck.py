"""`check_grad` compares derivatives with finite differences."""

from __future__ import annotations  # an annotation would import numpy.random, which takes 5 ms

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scanjit import errors
from scanjit.autodiff import grad, jvp
from scanjit.ir import Node, constant, new_input, walk
from scanjit.loops.structure import flatten
from scanjit.ops.promotion import cast
from scanjit.ops.stretch import SUM
from scanjit.records import record
from scanjit.runtime.reference import Interpreter
from scanjit.types import Type, dtype_of

Compile = Callable[[Sequence[Node], Sequence[Node]], Callable[..., Sequence[Any]]]
"""From inputs and outputs to a function of arrays that returns the list of the outputs' values."""

_STENCIL = ((1, 8 / 12), (-1, -8 / 12), (2, -1 / 12), (-2, 1 / 12))
"""Steps and weights of a first difference that is exact for polynomials of degree four."""


def check_grad(
    fn: Callable[..., Any],
    values: Any,
    order: int = 2,
    *,
    step: float = 1e-4,
    tolerance: float = 1e-7,
    seed: int = 0,
    mode: Compile | None = None,
) -> None:
    """Compare derivatives with differences of values, in float64.

    Checked are, of a random weighted sum of all that `fn` returns, the gradient (each of its elements) and the
    derivative along a random direction; then the same for these derivatives themselves, up to `order`.

    Parameters
    ----------
    fn : a function of symbols that returns a tensor or a structure of tensors.
    values : the point: a list or tuple of arrays, one an argument (or the array, if there is one argument). Floats
        become float64; integers and bools are passed on and not differentiated for.
    order : 1 for the gradient, 2 for its derivatives too, and so on.
    step : of the differences, for values near 1; proportionally larger for larger values. `fn` must be smooth around
        the point, as far as two steps.
    tolerance : how large an error may be, as a part of the largest of 1, the value and its derivatives.
    seed : of the random weights.
    mode : what runs a graph: `mode(inputs, outputs)` returns a function of arrays that returns a list. The reference
        interpreter if not given.

    Raises
    ------
    GradientError
        It shows the worst element.

    Examples
    --------
    >>> check_grad(lambda x: x * x * x, 2.0, order=3)
    """
    if not callable(fn):
        raise errors.ArgumentError("check_grad takes a function", got=repr(fn))
    single = not isinstance(values, tuple | list)
    taken = [flatten(value) for value in ([values] if single else values)]
    arrays = [_as_point(leaf) for leaves, _ in taken for leaf in leaves]
    symbols = [new_input(Type(dtype_of(a.dtype), a.shape), f"argument {i}") for i, a in enumerate(arrays)]
    remaining = iter(symbols)
    leaves, _ = flatten(fn(*(tree.unflatten([next(remaining) for _ in each]) for each, tree in taken)))
    outputs = [leaf for leaf in leaves if leaf.type.kind.floating]
    _Check(symbols, arrays, np.random.default_rng(seed), step, tolerance, mode or _by_reference).run(outputs, 1, order)


def _as_point(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array.astype(np.float64) if np.issubdtype(array.dtype, np.floating) else array


def _by_reference(inputs: Sequence[Node], outputs: Sequence[Node]) -> Callable[..., Sequence[Any]]:
    used = set(walk(outputs))
    program = Interpreter(outputs, [node for node in inputs if node in used])
    return lambda *arrays: program(dict(zip(inputs, arrays, strict=True)))


@record
class _Check:
    """The point at which derivatives are compared, and how."""

    symbols: Sequence[Node]
    arrays: Sequence[np.ndarray]
    rng: np.random.Generator
    step: float
    tolerance: float
    mode: Compile

    @property
    def variables(self) -> list[int]:
        """The positions of the arguments to differentiate for."""
        return [i for i, symbol in enumerate(self.symbols) if symbol.type.kind.floating]

    def run(self, outputs: Sequence[Node], order: int, last: int) -> None:
        """Check the derivatives of outputs, then those of the derivatives."""
        if not outputs:
            return
        cost = self._projection(outputs)
        wrt = [self.symbols[i] for i in self.variables]
        directions = [self.rng.normal(size=self.arrays[i].shape) for i in self.variables]
        reverse = grad(cost, wrt, disconnected="zero")
        forward = jvp(cost, wrt, directions)
        *found, along = self.mode(self.symbols, [*reverse, forward])(*self.arrays)
        expected, size = self._differences(cost)
        size = max(1.0, size, *(float(np.abs(e).max(initial=0)) for e in expected))
        for i, got, wanted in zip(self.variables, found, expected, strict=True):
            self._compare(f"the gradient (order {order}) for argument {i}", got, wanted, size)
        wanted = np.sum([np.vdot(e, d) for e, d in zip(expected, directions, strict=True)])
        self._compare(f"the forward derivative (order {order})", along, wanted, size)
        if order < last:
            self.run([*reverse, forward], order + 1, last)

    def _projection(self, outputs: Sequence[Node]) -> Node:
        """A random weighted sum of all elements."""
        total = constant(0.0)
        for node, value in zip(outputs, self.mode(self.symbols, outputs)(*self.arrays), strict=True):
            weights = constant(self.rng.normal(size=np.shape(value)), node.dtype)
            total = total + cast(SUM(weights * node, axes=tuple(range(node.ndim))), "float64")
        return total

    def _differences(self, cost: Node) -> tuple[list[np.ndarray], float]:
        """The derivative by each element, from finite differences; and the magnitude of the value."""
        run = self.mode(self.symbols, [cost])
        value = abs(float(run(*self.arrays)[0]))
        found = []
        for i in self.variables:
            point, slope = self.arrays[i], np.zeros(self.arrays[i].shape)
            for at in np.ndindex(point.shape):
                width = self.step * max(1.0, abs(float(point[at])))
                for steps, weight in _STENCIL:
                    moved = point.copy()
                    moved[at] += steps * width
                    result = run(*self.arrays[:i], moved, *self.arrays[i + 1 :])[0]
                    slope[at] += weight * float(result) / width
            found.append(slope)
        return found, value

    def _compare(self, what: str, got: Any, expected: Any, size: float) -> None:
        got, expected = np.asarray(got), np.asarray(expected)
        error = np.abs(got - expected)
        error = np.where(np.isfinite(got) & np.isfinite(expected), error, np.inf)
        if error.size and not error.max() <= self.tolerance * size:
            at = np.unravel_index(int(error.argmax()), error.shape)
            where = f" at {tuple(map(int, at))}" if at else ""
            raise errors.GradientError(
                f"{what} is wrong{where}",
                got=f"{got[at]} (the error, {error[at]:.3g}, is above {self.tolerance * size:.3g})",
                expected=f"{expected[at]}, from differences",
            )
