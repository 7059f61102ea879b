"""NumPy with derivatives: the reference that every engine is held against, in float64.

An `Array` is a NumPy array that remembers how it was made. A recurrence is written once, as a plain loop over such
arrays, and `gradients` goes back through what was remembered. It shares nothing with scanjit; the tests hold it against
differences of values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Back = Callable[[np.ndarray], np.ndarray]


class Array:
    """An array, the arrays it was computed from, and for each of them how a cotangent goes back."""

    __slots__ = ("grad", "own", "parents", "value")
    __array_ufunc__ = None  # NumPy's arrays leave operators with an Array to it

    def __init__(self, value: Any, parents: Sequence[tuple[Array, Back | tuple]] = ()) -> None:
        self.value = np.asarray(value, np.float64)
        self.parents = parents
        self.grad: np.ndarray | None = None
        self.own = False  # whether nobody else holds `grad`

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def __add__(self, other: Any) -> Array:
        return _binary(self, other, self.value + _value(other), lambda g: g, lambda g: g)

    def __sub__(self, other: Any) -> Array:
        return _binary(self, other, self.value - _value(other), lambda g: g, lambda g: -g)

    def __mul__(self, other: Any) -> Array:
        a, b = self.value, _value(other)
        return _binary(self, other, a * b, lambda g: g * b, lambda g: g * a)

    def __truediv__(self, other: Any) -> Array:
        a, b = self.value, _value(other)
        return _binary(self, other, a / b, lambda g: g / b, lambda g: -g * a / (b * b))

    def __rsub__(self, other: Any) -> Array:
        return _unary(self, other - self.value, lambda g: -g)

    def __rtruediv__(self, other: Any) -> Array:
        return other * self**-1

    def __neg__(self) -> Array:
        return _unary(self, -self.value, lambda g: -g)

    def __pow__(self, power: float) -> Array:
        return _unary(self, self.value**power, lambda g: g * power * self.value ** (power - 1))

    __radd__, __rmul__ = __add__, __mul__

    def __matmul__(self, other: Any) -> Array:
        a, b = self.value, _value(other)
        if b.ndim == 1:
            return _binary(self, other, a @ b, lambda g: g[..., None] * b, lambda g: _leading(a, g))
        return _binary(self, other, a @ b, lambda g: g @ b.swapaxes(-1, -2), lambda g: _outer(a, g, b.ndim))

    def __rmatmul__(self, other: np.ndarray) -> Array:
        return Array(other) @ self

    def __getitem__(self, key: Any) -> Array:
        return Array(self.value[key], [(self, (key,))])

    def sum(self, axis: int | None = None, keepdims: bool = False) -> Array:
        """As NumPy's."""

        def back(g: np.ndarray) -> np.ndarray:
            if axis is not None and not keepdims:
                g = np.expand_dims(g, axis)
            return np.broadcast_to(g, self.shape)

        return _unary(self, self.value.sum(axis, keepdims=keepdims), back)

    def mean(self, axis: int, keepdims: bool = False) -> Array:
        """As NumPy's."""
        return self.sum(axis, keepdims) / self.shape[axis]

    def reshape(self, *shape: int) -> Array:
        """As NumPy's."""
        return _unary(self, self.value.reshape(shape), lambda g: g.reshape(self.shape))

    @property
    def T(self) -> Array:
        """The last two axes exchanged."""
        return _unary(self, self.value.swapaxes(-1, -2), lambda g: g.swapaxes(-1, -2))


def _leading(a: np.ndarray, g: np.ndarray) -> np.ndarray:
    return (a * g[..., None]).reshape(-1, a.shape[-1]).sum(0)


def _outer(a: np.ndarray, g: np.ndarray, ndim: int) -> np.ndarray:
    """The gradient of the right operand of a product."""
    if ndim == 2:
        return a.reshape(-1, a.shape[-1]).T @ g.reshape(-1, g.shape[-1])
    return a.swapaxes(-1, -2) @ g


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Array) else np.asarray(x, np.float64)


def _unary(x: Array, value: np.ndarray, back: Back) -> Array:
    return Array(value, [(x, back)])


def _binary(a: Array, b: Any, value: np.ndarray, back_a: Back, back_b: Back) -> Array:
    return Array(value, [(a, back_a), (b, back_b)] if isinstance(b, Array) else [(a, back_a)])


def exp(x: Array) -> Array:
    """As NumPy's; so are the others."""
    y = np.exp(x.value)
    return _unary(x, y, lambda g: g * y)


def log(x: Array) -> Array:
    return _unary(x, np.log(x.value), lambda g: g / x.value)


def tanh(x: Array) -> Array:
    y = np.tanh(x.value)
    return _unary(x, y, lambda g: g * (1 - y * y))


def sigmoid(x: Array) -> Array:
    y = 0.5 + 0.5 * np.tanh(0.5 * x.value)
    return _unary(x, y, lambda g: g * y * (1 - y))


def softplus(x: Array) -> Array:
    return _unary(x, np.logaddexp(0, x.value), lambda g: g * (0.5 + 0.5 * np.tanh(0.5 * x.value)))


def logsumexp(x: Array, axis: int) -> Array:
    top = x.value.max(axis, keepdims=True)
    return log(exp(x - top).sum(axis)) + np.squeeze(top, axis)


def inverse(x: Array) -> Array:
    y = np.linalg.inv(x.value)
    back = y.swapaxes(-1, -2)
    return _unary(x, y, lambda g: -(back @ g @ back))


def stack(rows: Sequence[Array]) -> Array:
    """Along a new first axis."""
    return Array(np.stack([row.value for row in rows]), [(row, _row(i)) for i, row in enumerate(rows)])


def _row(i: int) -> Back:
    return lambda g: g[i]


def concatenate(parts: Sequence[Array]) -> Array:
    """Along the last axis."""
    ends = np.cumsum([0, *(part.shape[-1] for part in parts)])
    value = np.concatenate([part.value for part in parts], axis=-1)
    return Array(value, [(part, _columns(*ends[i : i + 2])) for i, part in enumerate(parts)])


def _columns(start: int, stop: int) -> Back:
    return lambda g: g[..., start:stop]


def gradients(y: Array, dy: np.ndarray, leaves: Mapping[str, Array]) -> dict[str, np.ndarray]:
    """The gradients of `sum(y * dy)`; zeros where a leaf does not matter."""
    y.grad = np.asarray(dy, np.float64)
    for node in reversed(_order(y)):
        for parent, back in node.parents:
            if isinstance(back, tuple):  # a part of the parent: added in place, so that a loop over rows stays linear
                if not parent.own:
                    parent.grad = np.zeros(parent.shape) if parent.grad is None else parent.grad.copy()
                    parent.own = True
                parent.grad[back[0]] += node.grad
            else:
                assert node.grad is not None
                g = _fitted(back(node.grad), parent.shape)
                parent.grad, parent.own = (g, False) if parent.grad is None else (parent.grad + g, True)
        if node.parents:
            node.grad = None  # nobody asks again
    return {name: np.zeros(x.shape) if x.grad is None else np.array(x.grad) for name, x in leaves.items()}


def _fitted(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Summed over what was broadcast."""
    if g.shape == shape:
        return g
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return g.sum(axis=axes, keepdims=True) if axes else g


def _order(root: Array) -> list[Array]:
    """All that `root` was computed from, each after its parents; without recursion, for long loops."""
    found: list[Array] = []
    seen: set[int] = set()
    stack: list[tuple[Array, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            found.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((parent, False) for parent, _ in node.parents)
    return found
