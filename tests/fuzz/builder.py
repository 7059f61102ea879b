"""Random expressions: a pool of nodes, and productions that each add one made of others."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import scanjit as st
from scanjit import errors, types
from scanjit.ir import Node
from scanjit.types import Atom, Dimension

FLOATS = ("float64", "float32")
DTYPES = ("float64",) * 9 + ("float32",) * 8 + ("int64", "int32", "int16", "int8", "uint8", "bool")
MOST_ELEMENTS = 1500
"""Values with more elements than this are not made, for the sizes that the program is planned with."""


class Nothing(Exception):
    """A production finds nothing to work on."""


class Builder:
    """Grows a pool of nodes.

    Parameters
    ----------
    rnd : where all choices come from.
    pool : nodes to start from.
    dims : the dimensions that new tensors have.
    sizes : a number for each symbol, with which the sizes of results are kept in bounds.
    depth : how many scans are around.
    exact : nodes whose values no rounding enters: on them functions that jump may be tried safely.
    """

    def __init__(
        self,
        rnd: random.Random,
        pool: list[Node],
        dims: list[Dimension],
        sizes: Mapping[Atom, int],
        depth: int = 0,
        exact: set[Node] | None = None,
        make_input: Callable[[tuple[Dimension, ...], str], Node] | None = None,
    ) -> None:
        self.rnd, self.pool, self.dims, self.sizes, self.depth = rnd, list(pool), dims, sizes, depth
        self.exact = set() if exact is None else exact
        self.make_input = make_input

    # ---- choices -----------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        """True so often."""
        return self.rnd.random() < probability

    def dim(self) -> Dimension:
        """A dimension of the program, or rarely 1."""
        return 1 if self.chance(0.12) else self.rnd.choice(self.dims)

    def shape(self, most: int = 3) -> tuple[Dimension, ...]:
        """A random shape of bearable size."""
        rank = min(self.rnd.choice((0, 1, 1, 2, 2, 2, 3, 4)), most)
        while True:
            shape = tuple(self.dim() for _ in range(rank))
            if self.count(shape) <= MOST_ELEMENTS:
                return shape
            rank = max(rank - 1, 0)

    def number(self, dim: Dimension) -> int:
        """A dimension as a number; a guess where values decide it."""
        try:
            return types.evaluate(dim, self.sizes)
        except KeyError:
            return 3

    def count(self, shape: tuple[Dimension, ...]) -> int:
        """How many elements a shape has, axes of size 0 counted as 1."""
        return int(np.prod([max(self.number(d), 1) for d in shape]))

    def pick(self, fits: Callable[[Node], bool] | None = None, dtype: str = "") -> Node | None:
        """A node of the pool, the later the likelier; of a kind of dtype ("f", "iu", "b", ...) and that fits."""
        # Most of a pool is tried: it is small
        found = [n for n in self.pool if (not dtype or n.dtype.kind in dtype) and (fits is None or fits(n))]
        if not found:
            return None
        return found[max(self.rnd.randrange(len(found)), self.rnd.randrange(len(found)))]

    def need(self, fits: Callable[[Node], bool] | None = None, dtype: str = "") -> Node:
        """The same, for a production that gives up if there is none."""
        found = self.pick(fits, dtype)
        if found is None:
            raise Nothing
        return found

    def some(self, dtype: str = "") -> Node:
        """A node of the pool of a kind of dtype; cast to one if there is none."""
        found = self.pick(dtype=dtype)
        if found is None:
            found = self.rnd.choice(self.pool)
            found = st.cast(found, {"f": "float64", "iu": "int64", "b": "bool"}.get(dtype, "float64"))
        return found

    def steady(self, dtype: str = "") -> Node:
        """A node for a function that jumps: mostly one whose value is exact."""
        found = self.pick(lambda n: n in self.exact, dtype) if self.chance(0.9) else None
        return self.some(dtype) if found is None else found

    def mate(self, x: Node, dtype: str = "") -> Node:
        """A node that broadcasts with `x`."""
        found = self.pick(lambda n: joins(x, n), dtype)
        if found is None or self.chance(0.1):
            found = self.fitted(self.some(dtype), x.type.shape)
        return found

    def constant(self, shape: tuple[int, ...], dtype: str) -> Node:
        """A constant of random small numbers."""
        seeded = np.random.default_rng(self.rnd.getrandbits(32))
        if np.dtype(dtype).kind == "f" and self.chance(0.5):
            value = seeded.normal(size=shape)
        else:
            value = seeded.integers(0 if np.dtype(dtype).kind in "ub" else -3, 4, shape)
        node = st.constant(np.asarray(value).astype(dtype))
        self.exact.add(node)
        return node

    # ---- making things fit -------------------------------------------------------------------------------------------

    def fitted(self, x: Node, shape: tuple[Dimension, ...], dtype: Any = None) -> Node:
        """`x` brought to a shape and dtype: what is too much is summed, what is missing is broadcast."""
        exact = x in self.exact
        if x.ndim > len(shape):
            x = self.joined(x, tuple(range(x.ndim - len(shape))), False)
        for axis, want in zip(range(-1, -x.ndim - 1, -1), reversed(shape), strict=False):
            have = x.type.shape[axis]
            if have not in (1, want):
                x = self.joined(x, (axis,), True)
        if x.type.shape != tuple(shape):
            x = st.broadcast_to(x, shape)
        if dtype is not None and x.dtype != np.dtype(dtype):
            x = st.cast(x, dtype)
        if exact:
            self.exact.add(x)
        return x

    def joined(self, x: Node, axes: tuple[int, ...], keep: bool) -> Node:
        """`x` with axes reduced in a way that is defined for no elements too."""
        if x.dtype.kind == "b":
            return st.any(x, axes, keep)
        if x.dtype.kind == "f":
            return st.sum(x, axes, keepdims=keep) * x.dtype.type(0.5)
        return st.cast(st.sum(x, axes, keepdims=keep), x.dtype)

    def tame(self, x: Node) -> Node:
        """A float kept small, by one of several functions."""
        way = self.rnd.randrange(4)
        return (
            st.tanh(x)
            if way == 0
            else st.sin(x)
            if way == 1
            else x * x.dtype.type(0.25)
            if way == 2
            else (st.clip(x, -4, 4))
        )

    # ---- growing -----------------------------------------------------------------------------------------------------

    def grow(self, count: int, weighed: Weighed | None = None) -> None:
        """Add so many nodes (a few less where a production finds nothing to work on)."""
        from tests.fuzz.productions import WEIGHED

        for _ in range(count):
            production = self.rnd.choices(*(weighed or WEIGHED))[0]
            before = len(self.pool)
            try:
                made = production(self)
            except Nothing:
                made = None
            except (errors.ScanError, errors.ShapeError, errors.OutOfBoundsError):
                continue  # what was tried cannot be, as a user is told while building
            if made is not None:
                self.add(made)
            for node in self.pool[before:]:
                if node.ndim > 4 or self.count(node.type.shape) > MOST_ELEMENTS:
                    self.pool = [n for n in self.pool if n is not node]
            if len(self.pool) == 0:
                self.pool.append(self.constant((), "float64"))

    def add(self, node: Node) -> Node:
        """Put a node into the pool."""
        self.pool.append(node)
        return node


Weighed = tuple[Sequence[Callable[[Builder], Node | None]], Sequence[float]]
"""Productions, and how often each is chosen."""


def joins(a: Node, b: Node) -> bool:
    """Whether two shapes broadcast."""
    pairs = zip(reversed(a.type.shape), reversed(b.type.shape), strict=False)
    return all(x == y or 1 in (x, y) for x, y in pairs)
