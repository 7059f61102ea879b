"""Random second derivatives of recurrences: what loops keep of each other with checkpoints is most tangled there."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import scanjit as st
from scanjit import autodiff, errors, types
from scanjit.ir import Node
from scanjit.types import Atom, Dimension
from tests.fuzz.programs import Program

Shape = tuple[Dimension, ...]


class _Recurrence:
    """Coupled states of several shapes, and the inputs that they are made of."""

    def __init__(self, rnd: random.Random, most: int) -> None:
        self.rnd, self.sizes, self.inputs = rnd, dict[Atom, int](), list[Node]()
        self.length, self.batch, self.units = self._dim(1, 9), rnd.choice((1, 1, self._dim(1, 3))), self._dim(1, 9)
        self.dtype = rnd.choice(("float64", "float64", "float32"))
        shapes: tuple[Shape, ...] = ((), (), (self.units,), (self.batch, self.units), (self.batch, self.units))
        self.shapes = [rnd.choice(shapes) for _ in range(rnd.randint(1, min(most, 4)))]
        self.rows = self.input((self.length, *rnd.choice(shapes))) if rnd.random() < 0.5 else None
        self.weights = self.input((self.units, self.units)) * 0.3 if rnd.random() < 0.4 else None
        self.source = self.input((7,))

    def _dim(self, low: int, high: int) -> Dimension:
        """A size, known or not."""
        number = self.rnd.randint(low, high)
        if self.rnd.random() < 0.5:
            return number
        dim = types.size()
        atom = types.as_atom(dim)
        assert atom is not None
        self.sizes[atom] = number
        return dim

    def input(self, shape: Shape) -> Node:
        """A new input."""
        self.inputs.append(st.tensor(shape, self.dtype, f"x{len(self.inputs)}"))
        return self.inputs[-1]

    def initial(self, shape: Shape) -> Node:
        """Where a state begins: from an input, from entries of one, from nothing but sizes."""
        way = self.rnd.randrange(4)
        if way == 0:
            return self.input(shape)
        if way == 1:
            return st.broadcast_to(self.source[self.rnd.randrange(7)] * self.source.dtype.type(0.5), shape)
        if way == 2:
            return st.broadcast_to(st.cast(self.rnd.choice((0.0, 1.0, 0.5)), self.dtype), shape)
        return st.broadcast_to(st.sum(self.source[:3]), shape)

    def joined(self, x: Node, shape: Shape) -> Node:
        """A state in the shape of another: what is too much is summed."""
        while x.ndim > len(shape):
            x = st.sum(x, 0)
        keep = [a for a, n in enumerate(x.type.shape) if not types_equal(n, shape[len(shape) - x.ndim + a])]
        if keep:
            x = st.sum(x, tuple(keep), keepdims=True)
        return x

    def step(self, ways: list[tuple[int, int, int]]) -> Callable[..., list[Node]]:
        """A step in which each state becomes a function of itself and of another."""

        def step(*given: Node) -> list[Node]:
            row, states = (given[0], given[1:]) if self.rows is not None else (None, given)
            new = []
            for state, (way, other, mixed) in zip(states, ways, strict=True):
                shape = state.type.shape
                x = self.joined(states[other % len(states)], shape)
                if row is not None and mixed:
                    x = x + self.joined(row, shape)
                new.append(st.broadcast_to(self._updated(way, state, x), shape))
            return new

        return step

    def _updated(self, way: int, state: Node, x: Node) -> Node:
        if way == 0 and self.weights is not None and state.ndim:
            return st.tanh(st.dot(state, self.weights) + x)
        if way <= 1:
            return st.tanh(state + x)
        if way == 2:
            return st.sigmoid(x) * state + st.tanh(x)
        if way == 3:
            return x
        if way == 4:
            return st.sin(x) * 0.5
        return state * 0.5 + x * 0.25


def types_equal(a: Dimension, b: Dimension) -> bool:
    """Whether two sizes are the same for all we know."""
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def second_order(seed: int, most: int | None = None) -> Program:
    """The derivatives of the gradient of a recurrence, and perhaps the gradient itself.

    Parameters
    ----------
    seed : which.
    most : how many states at most, to look for a smaller program that fails too.
    """
    rnd = random.Random(seed)
    r = _Recurrence(rnd, 4 if most is None else most)
    ways = [(rnd.randrange(6), rnd.randrange(4), rnd.randrange(2)) for _ in r.shapes]
    options: dict[str, Any] = {"truncate_gradient": rnd.choice((1, 2, 4))} if rnd.random() < 0.15 else {}
    options["go_backwards"] = rnd.random() < 0.2
    states = st.scan(
        r.step(ways),
        r.rows,
        [r.initial(shape) for shape in r.shapes],
        n_steps=None if r.rows is not None else _count(r.length),
        return_list=True,
        **options,
    )
    if rnd.random() < 0.2:  # a second layer
        states = [*states, st.scan(lambda x, h: st.tanh(0.5 * h + x), states[0], st.zeros(r.shapes[0], r.dtype))]
    p = Program(seed, r.inputs, [], r.sizes, whole=False, wild=False, features={"curvature"})
    _give_rows(r)
    cost = _cost(rnd, [y for y in states if rnd.random() < 0.7] or states[:1])
    grads = [g for g in autodiff.grad(cost, r.inputs, disconnected="zero") if rnd.random() < 0.8]
    try:
        if rnd.random() < 0.25:
            p.outputs = autodiff.jvp(grads or [cost], r.inputs, [st.cos(x) for x in r.inputs])
        else:
            p.outputs = autodiff.grad(_cost(rnd, grads) if grads else cost, r.inputs, disconnected="zero")
    except errors.GradientError:
        p.features.add("no gradient")
    p.outputs += grads if rnd.random() < 0.3 else []
    p.outputs += _hessian(random.Random(f"hessian {seed}"), cost, r.inputs)
    return p


def _hessian(rnd: random.Random, cost: Node, inputs: list[Node]) -> list[Node]:
    """In every fourth program, the Hessian by up to three inputs; else nothing."""
    if rnd.random() < 0.75:
        return []
    wrt = rnd.sample(inputs, min(len(inputs), rnd.randint(1, 3)))
    mixed = rnd.random() < 0.6
    found = st.hessian(cost, wrt, disconnected="zero", mixed=mixed)
    return [block for row in found for block in row] if mixed else list(found)


def _count(length: Dimension) -> Any:
    from scanjit.ir import dim_node

    return length if isinstance(length, int) else dim_node(length)


def _give_rows(r: _Recurrence) -> None:
    """Every size must be in the type of an input."""
    known = {atom for x in r.inputs for d in x.type.shape for atom in types.atoms(d)}
    for atom in r.sizes:
        if atom not in known:
            r.input((types.dim_of(atom),))


def _cost(rnd: random.Random, outputs: list[Node]) -> Node:
    terms = [st.sum((y, y * y, st.sin(y), y[-1:] if y.ndim else y)[rnd.randrange(4)]) for y in outputs]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
