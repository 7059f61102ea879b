"""Random programs, one a seed."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import scanjit as st
from scanjit import autodiff, errors, ir, types
from scanjit.ir import Node
from scanjit.types import Atom, Dimension
from tests.fuzz.builder import DTYPES, FLOATS, Builder

SIZES = (0, 1, 1, 2, 2, 3, 3, 3, 4, 5, 5, 7)
MOST_ELEMENTS = 30_000
"""Sizes that would make a value with more elements than this are made smaller."""
BIG = (16, 17, 33, 257)
"""The last is an int that Python makes anew each time."""


@dataclass
class Program:
    """Outputs as expressions of inputs, the sizes it was planned with, and how its inputs are drawn."""

    seed: int
    inputs: list[Node]
    outputs: list[Node]
    sizes: dict[Atom, int]
    whole: bool
    wild: bool
    features: set[str] = field(default_factory=set)
    twins: dict[Atom, Atom] = field(default_factory=dict)
    """Sizes that inputs declare apart, and the one that each is equal to."""
    built: dict[Any, Any] = field(default_factory=dict)
    """The functions that checks have made of it, by what they compute and how."""
    computed: dict[Any, Any] = field(default_factory=dict)
    """What these functions have computed, by function and arguments."""
    oracle: Any = None
    """What bounds its outputs, if it computes with few bits: see `narrow.Oracle`."""

    def bindings(self, rng: np.random.Generator, count: int) -> list[dict[Atom, int]]:
        """Sizes to run it with: those it was planned with, then others."""
        return [sizes | {twin: sizes[atom] for twin, atom in self.twins.items()} for sizes in self._sizes(rng, count)]

    def _sizes(self, rng: np.random.Generator, count: int) -> list[dict[Atom, int]]:
        found = [self._limited(self.sizes)]
        while len(found) < count:
            sizes = {atom: int(rng.choice(SIZES)) for atom in self.sizes}
            if len(found) == 2:
                sizes = dict.fromkeys(self.sizes, int(rng.integers(0, 2)))
            found.append(self._limited(sizes))
        return found

    def _limited(self, sizes: dict[Atom, int]) -> dict[Atom, int]:
        """The sizes, the largest of them made smaller until no value has too many elements."""
        while max(sizes.values(), default=0) > 0 and self._largest(sizes) > MOST_ELEMENTS:
            sizes = {atom: min(number, max(sizes.values()) - 1) for atom, number in sizes.items()}
        return sizes

    def _largest(self, sizes: dict[Atom, int]) -> int:
        """The most elements that a value outside of loops has, as far as sizes tell."""
        known = sizes | {twin: sizes[atom] for twin, atom in self.twins.items()}
        shapes = {node.type.shape for node in ir.walk(self.outputs) if not node.several}
        shapes = {shape for shape in shapes if all(a in known for dim in shape for a in types.atoms(dim))}
        return max((math.prod(types.evaluate(dim, known) for dim in shape) for shape in shapes), default=0)

    def draw(self, rng: np.random.Generator, sizes: dict[Atom, int]) -> list[np.ndarray]:
        """Random arguments: sometimes strided, in Fortran's order or read-only; rarely with NaN and infinities."""
        arrays = []
        for node in self.inputs:
            shape = tuple(types.evaluate(d, sizes) for d in node.type.shape)
            array = self._values(rng, shape, node.dtype)
            arrays.append(strange(rng, array) if rng.random() < 0.2 else array)
        return arrays

    def _values(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        if dtype.kind == "b":
            return np.asarray(rng.random(shape) < 0.5)
        if dtype.kind in "iu":
            return np.asarray(rng.integers(0 if dtype.kind == "u" else -3, 5, shape)).astype(dtype)
        values = np.asarray(rng.integers(-3, 4, shape) if self.whole else rng.normal(size=shape)).astype(dtype)
        if self.wild and values.size:
            where = rng.random(shape) < 0.1
            values = np.where(where, rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape), values).astype(dtype)
        return np.asarray(values)


def size(sizes: dict[Atom, int], number: int) -> Dimension:
    """A new size that is found when a program runs, planned to be this number."""
    dim = types.size()
    atom = types.as_atom(dim)
    assert atom is not None
    sizes[atom] = number
    return dim


def strange(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """An equal array that lies in memory in another way."""
    way = rng.integers(4)
    if way == 0:
        return np.array(array, order="F")  # (`asfortranarray` gives a scalar an axis)
    if way == 1:
        array = array.copy()
        array.setflags(write=False)
        return array
    wide = np.empty([2 * n + 1 for n in array.shape], array.dtype)
    view = wide[(..., *(slice(1, None, 2) for _ in array.shape))]
    view[...] = array
    if way == 2:
        return view
    back = view[(..., *(slice(None, None, -1) for _ in array.shape))].copy()
    return back[(..., *(slice(None, None, -1) for _ in array.shape))]


def program(seed: int, source: random.Random | None = None, most: int | None = None, apart: bool = False) -> Program:
    """The random program of a seed.

    Parameters
    ----------
    seed : which.
    source : where choices come from; by default a generator with this seed.
    most : how many nodes at most are asked for, to look for a smaller program that fails too.
    apart : whether each input declares sizes of its own, which are equal when the program runs.
    """
    rnd = random.Random(seed) if source is None else source
    sizes: dict[Atom, int] = {}
    dims: list[Dimension] = []
    for _ in range(rnd.choice((1, 2, 2, 3, 3, 4))):
        number = rnd.choice(SIZES)
        if rnd.random() < 0.6:
            dims.append(size(sizes, number))
        else:
            dims.append(number)
    if rnd.random() < 0.12:
        at = rnd.randrange(len(dims))
        atom = types.as_atom(dims[at])
        if atom is None:
            dims[at] = rnd.choice(BIG)
        else:
            sizes[atom] = rnd.choice(BIG)
    inputs: list[Node] = []

    def make_input(shape: tuple[Dimension, ...], dtype: str) -> Node:
        node = st.tensor(shape, dtype, f"x{len(inputs)}")
        inputs.append(node)
        b.exact.add(node)
        return b.add(node)

    b = Builder(rnd, [], dims, sizes, make_input=make_input)
    for i in range(rnd.choice((1, 2, 2, 3, 4))):
        make_input(b.shape(4), rnd.choice(FLOATS) if i == 0 else rnd.choice(DTYPES))
    count = 60 if rnd.random() < 0.04 else rnd.randint(1, 25) if rnd.random() < 0.5 else rnd.randint(1, 10)
    whole, wild = rnd.random() < 0.25, rnd.random() < 0.04
    wants_gradient, wants_more = rnd.random() < 0.45, rnd.random()
    count = count if most is None else min(count, most)
    start = len(b.pool)
    b.grow(count)
    made = b.pool[start:] or b.pool
    outputs = [made[-1]] + [rnd.choice(made) for _ in range(rnd.choice((0, 0, 1, 2)))]
    outputs = list(dict.fromkeys(outputs))
    give_sizes(inputs, sizes)
    twins: dict[Atom, Atom] = {}
    if apart:
        inputs, outputs, twins = _declared_apart(inputs, outputs)
    result = Program(seed, inputs, outputs, sizes, whole, wild, twins=twins)
    floats = [o for o in outputs if o.dtype.kind == "f"]
    wrt = [x for x in inputs if x.dtype.kind == "f"]
    if wants_gradient and floats and wrt:
        differentiate(result, rnd, floats, wrt, wants_more)
    return result


def _declared_apart(inputs: list[Node], outputs: list[Node]) -> tuple[list[Node], list[Node], dict[Atom, Atom]]:
    """A program in which no two inputs share a size: which are equal is found out when it is built, or runs."""
    twins: dict[Atom, Atom] = {}

    def fresh(dim: Dimension) -> Dimension:
        atom = types.as_atom(dim)
        if atom is None:
            return dim
        new = types.size()
        twin = types.as_atom(new)
        assert twin is not None
        twins[twin] = atom
        return new

    new = [st.tensor(tuple(map(fresh, x.type.shape)), str(x.dtype), x.name) for x in inputs]
    return new, ir.renamed(outputs, dict(zip(inputs, new, strict=True))), twins


def give_sizes(inputs: list[Node], sizes: dict[Atom, int]) -> None:
    """Every symbol must be in the type of an input."""
    known = {atom for x in inputs for d in x.type.shape for atom in types.atoms(d)}
    for atom in sizes:
        if atom not in known:
            inputs.append(st.tensor((types.dim_of(atom),), "float32", f"s{len(inputs)}"))


def _cost(rnd: random.Random, outputs: list[Node]) -> Node:
    total: Node | None = None
    for node in outputs:
        way = rnd.randrange(4)
        term = st.sum([node, node * node * 0.5, st.sin(node), node * 1.5][way])
        term = st.cast(term, "float64") if len({o.dtype for o in outputs}) > 1 else term
        total = term if total is None else total + term
    assert total is not None
    return total


def differentiate(p: Program, rnd: random.Random, outputs: list[Node], wrt: list[Node], more: float) -> None:
    """Let a program also give derivatives of some outputs by some inputs: those of order 2 where `more` is near 1, and
    those in a direction where it is near 0."""
    p.features.add("gradient")
    try:
        if more < 0.12:
            p.features.add("jvp")
            tangents = [st.cos(x) for x in wrt]
            p.outputs += autodiff.jvp(outputs, wrt, tangents)
            return
        grads = autodiff.grad(_cost(rnd, outputs), wrt, disconnected="zero")
        p.outputs = (p.outputs if rnd.random() < 0.7 else []) + grads
        if more > 0.88 and len(ir.walk(grads)) < 250:
            p.features.add("second order")
            p.outputs += autodiff.grad(_cost(rnd, grads), wrt, disconnected="zero")
    except (errors.GradientError, errors.ShapeError):  # of a filter, say, that fits whatever the sizes are nowhere
        p.features.add("no gradient")
