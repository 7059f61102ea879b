"""Scans that are an RNN, an LSTM or a GRU, however they are written, become that op.

A step is recognised by what it computes. Its gates are the activations in it; what each of them is given must be affine
in the row, the states and (for a product after a reset) the reset gate, so derivatives are the weights, exactly. Then
the op's own formula with these weights is compared with the step at random points. Only steps made of sums, products
and these activations are looked at: such functions that agree at random points are the same.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scanjit import ir
from scanjit.ir import BOUND, INPUT, Graph, Node
from scanjit.onnx.exporting.writer import Writer
from scanjit.ops.chain import pushforward
from scanjit.ops.linalg import CONTRACT, contract
from scanjit.ops.scan import Layout
from scanjit.ops.shape import SLICE
from scanjit.runtime.function import function
from scanjit.types import Dim, Type

_ANALYTIC = set("add sub mul neg contract slice dimshuffle broadcast_to reshape concatenate constant size".split())
_ANALYTIC |= set("sigmoid tanh input shared clip_gradient stop_gradient specify_shape expect".split())
_ACTIVATIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}
_LEAST_ROWS = 4


@dataclass(frozen=True, eq=False)
class Cell:
    """What an op of ONNX needs: weights as it wants them, without the axis of directions."""

    kind: str
    of_input: np.ndarray
    of_state: np.ndarray
    bias: np.ndarray
    peepholes: np.ndarray | None = None
    attributes: tuple[tuple[str, Any], ...] = ()
    swapped: bool = False
    """Whether the cell comes before the output among the states."""


def written(w: Writer, node: Node, layout: Layout, operands: Sequence[str]) -> list[str] | None:
    """The results of a scan by an op of its own; None if it is no such cell."""
    if layout.until or layout.sequences != 1 or layout.carries not in (1, 2):
        return None
    step = _Step.of(node, layout)
    if step is None:
        return None
    cell = next(step.cells(), None)
    body = node.params["body"]
    if cell is None or any(
        i >= layout.carries and body.outputs[i] is not body.outputs[int(cell.swapped)] for i in w.used(node)
    ):
        return None
    return _op(w, node, layout, operands, cell, step.source)


def _op(w: Writer, node: Node, layout: Layout, operands: Sequence[str], cell: Cell, source: Node) -> list[str]:
    (x,) = w.write([source])
    named = {"W": cell.of_input, "R": cell.of_state, "B": cell.bias}
    inputs = [x, *(w.initializer(value[None], f"{cell.kind}_{key}") for key, value in named.items()), ""]
    order = [1, 0] if cell.swapped else list(range(layout.carries))
    inputs += [w.unsqueeze(operands[i], 0) for i in order]
    if cell.peepholes is not None:
        inputs.append(w.initializer(cell.peepholes[None], f"{cell.kind}_P"))
    rows, *last = w.several(
        cell.kind,
        inputs,
        1 + layout.carries,
        hidden_size=cell.of_state.shape[1],
        direction="reverse" if node.params["reverse"] else "forward",
        **dict(cell.attributes),
    )
    finals = [w.op("Squeeze", name, w.ints(0)) for name in last]
    return [*(finals[i] for i in order), *[w.op("Squeeze", rows, w.ints(1))] * layout.ys]


# ---- the step as a function of a row and the states ------------------------------------------------------------------


class _Step:
    """A step whose weights are known: symbols of a row `x` and of the states, and the new states over them."""

    def __init__(self, source: Node, x: Node, states: Sequence[Node], after: Sequence[Node]) -> None:
        self.source, self.x, self.states, self.after = source, x, states, after
        self.rows, self.size = states[0].type.shape

    @classmethod
    def of(cls, node: Node, layout: Layout) -> _Step | None:
        """The step of a scan; None if it is of another kind."""
        inits, (sequence,), consts = layout.split(node.operands)
        body: Graph = node.params["body"]
        kinds = {(init.dtype, init.ndim) for init in inits}
        if kinds != {(sequence.dtype, 2)} or sequence.dtype.kind != "f" or not all(map(_is_known, consts)):
            return None
        batch, size = inits[0].type.shape
        build, source = _rowwise(sequence)
        if source.ndim != 3 or not isinstance(size, int):
            return None
        width = source.type.shape[2]
        if not isinstance(width, int) or any(init.type.shape[1] != size for init in inits):
            return None
        rows = batch if isinstance(batch, int) else max(_LEAST_ROWS, width, size)
        x = ir.new_input(Type(sequence.dtype, (rows, width)))
        states = [ir.new_input(Type(sequence.dtype, (rows, size))) for _ in inits]
        outputs = body(*states, build(x), *consts)[: layout.carries]
        if any(isinstance(dim, Dim) for n in ir.walk(outputs) if not isinstance(n.type, tuple) for dim in n.type.shape):
            return None
        return cls(source, x, states, outputs) if _is_analytic(outputs) else None

    # ---- which cell it is --------------------------------------------------------------------------------------------

    def cells(self) -> Iterator[Cell]:
        """The cells that it is: at most one, but for the names of its gates."""
        guesses = [self._rnns, self._grus] if len(self.states) == 1 else [self._lstms]
        expected = self._at_random(self.after)
        for guess in guesses:
            for cell, formula in guess():
                found = formula(*(array.astype(np.float64) for array in self._random()))
                close = 1e-9 if self.x.dtype.itemsize == 8 else 5e-5
                if all(np.allclose(a, b, rtol=close, atol=close) for a, b in zip(found, expected, strict=True)):
                    yield cell

    @functools.cached_property
    def _gates(self) -> list[tuple[str, Node, Node]]:
        """The activations of the size of a state: their name, themselves, and what they are given."""
        found = []
        for node in ir.walk(self.after):
            if not isinstance(node.type, tuple) and node.type.shape == self.states[0].type.shape:
                given = _activated(node)
                if given is not None:
                    found.append((given[0], node, given[1]))
        return found

    def _named(self, name: str) -> list[tuple[Node, Node]]:
        return [(node, given) for kind, node, given in self._gates if kind == name]

    def _rnns(self) -> Iterator[tuple[Cell, Callable[..., list[np.ndarray]]]]:
        given = _activated(self.after[0])
        if given is None:
            return
        name, argument = given
        w, r, b = self._affine(argument, self.x), self._affine(argument, self.states[0]), self._constant(argument)
        cell = Cell("RNN", w.T, r.T, np.concatenate([b, 0 * b]), attributes=(("activations", [name]),))
        yield cell, lambda x, h: [_NUMPY[name](x @ w + h @ r + b)]

    def _lstms(self) -> Iterator[tuple[Cell, Callable[..., list[np.ndarray]]]]:
        sigmoids, tanhs = self._named("Sigmoid"), self._named("Tanh")
        if len(sigmoids) != 3 or len(tanhs) != 2:
            return
        for swapped in (False, True):
            h, c = self.states[::-1] if swapped else self.states
            new = self.after[0 if swapped else 1]
            inner = [argument for _, argument in tanhs if new not in set(ir.walk([argument]))]
            if len(inner) != 1:
                continue
            seen = ir.new_input(new.type)
            for order in itertools.permutations(sigmoids):
                gates = [*(argument for _, argument in order), inner[0]]  # i, o, f, c
                gates = ir.replace(gates, {new: seen})
                yield self._lstm(gates, h, c, seen, swapped)

    def _lstm(
        self, gates: Sequence[Node], h: Node, c: Node, seen: Node, swapped: bool
    ) -> tuple[Cell, Callable[..., list[np.ndarray]]]:
        more = (seen,)
        w, r = ([self._affine(gate, symbol, more) for gate in gates] for symbol in (self.x, h))
        b = [self._constant(gate, more) for gate in gates]
        p = [self._diagonal(gate, symbol, more) for gate, symbol in zip(gates, (c, seen, c), strict=False)]
        cell = Cell(
            "LSTM",
            np.concatenate(w, 1).T,
            np.concatenate(r, 1).T,
            np.concatenate([*b, *(0 * v for v in b)]),
            np.concatenate(p) if any(v.any() for v in p) else None,
            swapped=swapped,
        )

        def formula(x: np.ndarray, *states: np.ndarray) -> list[np.ndarray]:
            before, old = states[::-1] if swapped else states
            i, o, f, g = (x @ w[k] + before @ r[k] + b[k] for k in range(4))
            new = _sigmoid(f + p[2] * old) * old + _sigmoid(i + p[0] * old) * np.tanh(g)
            out = _sigmoid(o + p[1] * new) * np.tanh(new)
            return [new, out] if swapped else [out, new]

        return cell, formula

    def _grus(self) -> Iterator[tuple[Cell, Callable[..., list[np.ndarray]]]]:
        sigmoids, tanhs = self._named("Sigmoid"), self._named("Tanh")
        if len(sigmoids) != 2 or len(tanhs) != 1:
            return
        argument = tanhs[0][1]
        for (_, update), (reset, reset_argument) in itertools.permutations(sigmoids):
            gate = ir.new_input(reset.type)
            (new,) = ir.replace([argument], {reset: gate})
            for sign, after in itertools.product((1, -1), (True, False)):
                yield self._gru(update, reset_argument, new, gate, sign, after)

    def _gru(
        self, update: Node, reset: Node, new: Node, gate: Node, sign: int, after: bool
    ) -> tuple[Cell, Callable[..., list[np.ndarray]]]:
        """`sign` is -1 where the update gate says how much is new, not how much stays."""
        (h,) = self.states
        w = [sign * self._affine(update, self.x), self._affine(reset, self.x), self._affine(new, self.x, (gate,))]
        r = [sign * self._affine(update, h), self._affine(reset, h), self._affine(new, h, (gate,), at=1.0)]
        b = [sign * self._constant(update), self._constant(reset), self._constant(new, (gate,))]
        inside = self._diagonal(new, gate, (gate,)) if after else 0 * b[2]
        cell = Cell(
            "GRU",
            np.concatenate(w, 1).T,
            np.concatenate(r, 1).T,
            np.concatenate([*b, 0 * b[0], 0 * b[1], inside]),
            attributes=(("linear_before_reset", int(after)),),
        )

        def formula(x: np.ndarray, before: np.ndarray) -> list[np.ndarray]:
            z, s = (_sigmoid(x @ w[k] + before @ r[k] + b[k]) for k in range(2))
            product = s * (before @ r[2] + inside) if after else (s * before) @ r[2]
            return [(1 - z) * np.tanh(x @ w[2] + product + b[2]) + z * before]

        return cell, formula

    # ---- weights -----------------------------------------------------------------------------------------------------

    def _run(self, outputs: Sequence[Node], values: dict[Node, np.ndarray]) -> list[np.ndarray]:
        """Values of nodes; symbols that are not given are 0."""
        symbols = [node for node in ir.walk(outputs) if node.op is INPUT]
        arrays = [values.get(node, np.zeros(node.type.shape, node.dtype)) for node in symbols]
        return function(symbols, list(outputs), mode="reference")(*arrays)

    def _affine(self, argument: Node, symbol: Node, more: Sequence[Node] = (), at: float = 0.0) -> np.ndarray:
        """The matrix by which a symbol's rows enter an argument; where the symbols in `more` are `at`."""
        width = symbol.type.shape[1]
        tangent = ir.new_input(symbol.type)
        (derivative,) = pushforward([argument], self._tangents(symbol, tangent, more))
        if derivative is None:
            return np.zeros((width, self.size), symbol.dtype)
        parts = []
        for start in range(0, width, self.rows):
            eye = np.eye(self.rows, width, start, dtype=symbol.dtype)
            given = {node: np.full(node.type.shape, at, node.dtype) for node in more}
            parts.append(self._run([derivative], {**given, tangent: eye})[0])
        return np.concatenate(parts)[:width]

    def _diagonal(self, argument: Node, symbol: Node, more: Sequence[Node]) -> np.ndarray:
        """The vector by which a symbol enters an argument, element by element."""
        tangent = ir.new_input(symbol.type)
        (derivative,) = pushforward([argument], self._tangents(symbol, tangent, more))
        if derivative is None:
            return np.zeros(self.size, symbol.dtype)
        return self._run([derivative], {tangent: np.ones(symbol.type.shape, symbol.dtype)})[0][0]

    def _tangents(self, symbol: Node, tangent: Node, more: Sequence[Node]) -> dict[Node, Node | None]:
        known: dict[Node, Node | None] = dict.fromkeys([self.x, *self.states, *more])
        known[symbol] = tangent
        return known

    def _constant(self, argument: Node, more: Sequence[Node] = ()) -> np.ndarray:
        """What an argument is where all symbols are 0."""
        return self._run([argument], {})[0][0]

    # ---- the comparison ----------------------------------------------------------------------------------------------

    def _random(self) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        symbols = [self.x, *self.states]
        return [rng.normal(size=node.type.shape).astype(node.dtype) for node in symbols]

    def _at_random(self, outputs: Sequence[Node]) -> list[np.ndarray]:
        return self._run(outputs, dict(zip([self.x, *self.states], self._random(), strict=True)))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


_NUMPY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Sigmoid": _sigmoid,
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
}


def _is_known(node: Node) -> bool:
    """Whether a value is made of weights and constants alone."""
    return not any(n.op in (INPUT, BOUND) or "body" in n.params for n in ir.walk([node]))


def _is_analytic(outputs: Sequence[Node]) -> bool:
    """Whether functions are of the kind that random points tell apart; a relu may come last."""
    ends = [out.operands[0] if out.op.name == "relu" else out for out in outputs]
    return all(node.op.name in _ANALYTIC or _is_known(node) for node in ir.walk(ends))


def _activated(node: Node) -> tuple[str, Node] | None:
    """The name of an activation and what it is given, also for a slice of one."""
    if node.op.name in _ACTIVATIONS:
        return _ACTIVATIONS[node.op.name], node.operands[0]
    if node.op is SLICE:
        inner = _activated(node.operands[0])
        return None if inner is None else (inner[0], SLICE(inner[1], **node.params))
    return None


# ---- what was computed of the rows before the loop -------------------------------------------------------------------


Rowwise = tuple[Callable[[Node], Node], Node]
"""A function of a row, and the sequence whose rows it is applied to."""


def _rowwise(sequence: Node) -> Rowwise:
    """How a sequence is computed row by row of another one: by a product with weights, and a bias."""
    found: Rowwise | None = None
    if sequence.op.name == "add":
        found = _biased(*sequence.operands) or _biased(*sequence.operands[::-1])
    elif sequence.op is CONTRACT and sequence.ndim == 3:
        found = _product(sequence)
    elif sequence.op is SLICE and sequence.ndim == 3 and _is_of_time(sequence):
        build, source = _rowwise(sequence.operands[0])
        found = build, _sliced(source, sequence)
    return found or (lambda row: row, sequence)


def _biased(rest: Node, bias: Node) -> Rowwise | None:
    """A sequence plus what is the same for all of its rows."""
    if not _is_known(bias) or bias.ndim > 1 or rest.ndim != 3:
        return None
    build, source = _rowwise(rest)
    return (lambda row: build(row) + bias), source


def _product(node: Node) -> tuple[Callable[[Node], Node], Node] | None:
    """`sequence @ weights`."""
    left, right, out = (node.params[key] for key in ("left", "right", "out"))
    x, weights = node.operands
    if _is_known(x):
        x, weights, left, right = weights, x, right, left
    plain = len(left) == 3 and len(right) == 2 and out[:2] == left[:2] and left[2] in right and left[2] not in out
    if not plain or not _is_known(weights):
        return None
    return (lambda row: contract(row, weights, left[1:], right, out[1:])), x


def _is_of_time(node: Node) -> bool:
    """Whether a slice leaves all axes but the first as they are."""
    start, length, step = (node.params[key] for key in ("start", "length", "step"))
    return start[1:] == (0, 0) and step[1:] == (1, 1) and length[1:] == node.operands[0].type.shape[1:]


def _sliced(source: Node, like: Node) -> Node:
    start, length, step = (like.params[key] for key in ("start", "length", "step"))
    return SLICE(source, start=start, length=(length[0], *source.type.shape[1:]), step=step)
