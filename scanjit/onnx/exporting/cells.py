"""Recognises scans that compute an RNN, an LSTM or a GRU, and writes them as that op.

A step is recognised by its function, not by its expressions. Its gates are the activations in it. The argument of
each gate must be affine in the row, in the states and (for a product after a reset) in the reset gate. So its
derivatives are the weights, exactly. The step must multiply the whole row and state by them, as the op does. Then the
formula of the ONNX op, with these weights, is compared with the step at random points. A step may consist of sums,
products and these activations only: two such functions that agree at random points are the same function.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from scanjit import ir, types
from scanjit.ir import CONSTANT, INPUT, SHARED, SIZE, Graph, Node, Op
from scanjit.onnx.exporting.weights import Upright, Weight
from scanjit.onnx.exporting.writer import Writer
from scanjit.onnx.weights import is_weight
from scanjit.ops.batch import batch_graph
from scanjit.ops.chain import pushforward
from scanjit.ops.contraction import CONTRACT, Labels, contract, einsum_text
from scanjit.ops.elementwise import ADD, CLIP_GRADIENT, MUL, STOP_GRADIENT
from scanjit.ops.functions import RELU, SIGMOID, TANH
from scanjit.ops.roles import Roles
from scanjit.ops.shape import SLICE
from scanjit.records import record
from scanjit.types import Dim, Type

_ANALYTIC = {INPUT, SHARED, CONSTANT, SIZE, MUL, CONTRACT, SIGMOID, TANH, CLIP_GRADIENT, STOP_GRADIENT}
"""Ops besides the linear ones that a recognised step may be made of."""
_ACTIVATIONS = {SIGMOID: "Sigmoid", TANH: "Tanh", RELU: "Relu"}
_LEAST_ROWS = 2
"""The rows with which a step is examined if the size of its batch is unknown. A step that mixes the rows of a batch is
noticed only with two or more."""
_FEW_ROWS = 4
"""A product with more rows is worth the copy of the matrix that NumPy makes for it."""
_BLOCK = 64
"""The rows that are examined together, so that they stay in the cache."""


@record
class RecurrentOp:
    """An RNN, LSTM or GRU of ONNX: its weights in the layout of the op, and its attributes. `bias` and `peepholes` lack
    the axis of directions."""

    kind: str
    of_input: Upright
    of_state: Upright
    bias: np.ndarray
    peepholes: np.ndarray | None = None
    attributes: tuple[tuple[str, Any], ...] = ()
    swapped: bool = False
    """Whether the cell comes before the output among the states."""


Affine = tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]
"""For each of several functions `row @ W + state @ R + b`: the matrices W, the matrices R, and the vectors b."""
Guess = tuple[list[np.ndarray], Callable[[], RecurrentOp]]
"""The states that a cell computes at the random point, and a function that makes the `RecurrentOp`."""


def written(w: Writer, node: Node, roles: Roles, operands: Sequence[str]) -> list[str] | None:
    """The results of a scan, written as an RNN, LSTM or GRU; None if it is none of these."""
    if roles.until or roles.sequences != 1 or roles.carries not in (1, 2):
        return None
    step = _Step.of(node, roles)
    if step is None:
        return None
    cell = next(step.cells(), None)
    body = node.params["body"]
    if cell is None or any(
        i >= roles.carries and body.outputs[i] is not body.outputs[int(cell.swapped)] for i in w.used(node)
    ):
        return None
    return _op(w, node, roles, operands, cell, step.source)


def _op(w: Writer, node: Node, roles: Roles, operands: Sequence[str], cell: RecurrentOp, source: Node) -> list[str]:
    (x,) = w.write([source])
    named: dict[str, Weight] = {"W": cell.of_input, "R": cell.of_state, "B": cell.bias[None]}
    inputs = [x, *(w.initializer(value, f"{cell.kind}_{key}") for key, value in named.items()), ""]
    order = [1, 0] if cell.swapped else list(range(roles.carries))
    inputs += [w.unsqueeze(operands[i], 0) for i in order]
    if cell.peepholes is not None:
        inputs.append(w.initializer(cell.peepholes[None], f"{cell.kind}_P"))
    rows, *last = w.several(
        cell.kind,
        inputs,
        1 + roles.carries,
        hidden_size=cell.of_state.shape[2],
        direction="reverse" if node.params["reverse"] else "forward",
        **dict(cell.attributes),
    )
    finals = [w.op("Squeeze", name, w.ints(0)) for name in last]
    return [*(finals[i] for i in order), *[w.op("Squeeze", rows, w.ints(1))] * roles.ys]


# ---- the step as a function of a row and the states ------------------------------------------------------------------


class _Step:
    """A step of a scan whose weights are known.

    Attributes
    ----------
    source : the sequence that the op gets.
    x, states : the symbols of its row, and of the states.
    after : the new states, as expressions of these symbols.
    """

    def __init__(self, source: Node, x: Node, states: Sequence[Node], after: Sequence[Node]) -> None:
        self.source, self.x, self.states, self.after = source, x, states, after
        self.rows, self.size = types.as_ints(states[0].type.shape)

    @classmethod
    def of(cls, node: Node, roles: Roles) -> _Step | None:
        """The step of a scan; None if the scan cannot be an RNN, LSTM or GRU."""
        inits, (sequence,), consts = roles.split(node.operands)
        body: Graph = node.params["body"]
        kinds = {(init.dtype, init.ndim) for init in inits}
        if kinds != {(sequence.dtype, 2)} or not sequence.type.kind.floating or not all(map(is_weight, consts)):
            return None
        batch, size = inits[0].type.shape
        build, source = _rowwise(sequence)
        if source.ndim != 3 or not isinstance(size, int):
            return None
        width = source.type.shape[2]
        if not isinstance(width, int) or any(init.type.shape[1] != size for init in inits):
            return None
        rows = batch if isinstance(batch, int) else _LEAST_ROWS
        if 0 in (rows, size, width):  # there are no values, or no weights, to recognise it by
            return None
        x = ir.new_input(Type(sequence.dtype, (rows, width)))
        states = [ir.new_input(Type(sequence.dtype, (rows, size))) for _ in inits]
        given = dict(zip(body.inputs, [*states, build(x), *consts], strict=True))
        outputs = ir.renamed(body.outputs[: roles.carries], given)
        if any(isinstance(dim, Dim) for n in ir.walk(outputs) if not n.several for dim in n.type.shape):
            return None
        return cls(source, x, states, outputs) if _is_analytic(outputs) else None

    # ---- which cell it is --------------------------------------------------------------------------------------------

    def cells(self) -> Iterator[RecurrentOp]:
        """The ops that compute this step. If there are several, they differ in the order of their gates alone."""
        guesses = [self._rnns, self._grus] if len(self.states) == 1 else [self._lstms]
        close = 1e-9 if self.x.dtype.itemsize == 8 else 5e-5
        expected = _values(self.after, self._random)
        for guess in guesses:
            for found, cell in guess():
                if all(np.allclose(a, b, rtol=close, atol=close) for a, b in zip(found, expected, strict=True)):
                    yield cell()

    @functools.cached_property
    def _random(self) -> dict[Node, np.ndarray]:
        """The random row and states at which a guess is compared with the step."""
        rng = np.random.default_rng(0)
        return {
            node: rng.normal(size=types.as_ints(node.type.shape)).astype(node.dtype) for node in (self.x, *self.states)
        }

    def _at(self, symbol: Node) -> np.ndarray:
        return self._random[symbol].astype(np.float64)

    @functools.cached_property
    def _gates(self) -> list[tuple[str, Node, Node]]:
        """The activations with the shape of a state, each as its name, its node, and its argument."""
        found = []
        for node in ir.walk(self.after):
            if not node.several and node.type.shape == self.states[0].type.shape:
                given = _activated(node)
                if given is not None:
                    found.append((given[0], node, given[1]))
        return found

    def _named(self, name: str) -> list[tuple[Node, Node]]:
        return [(node, given) for kind, node, given in self._gates if kind == name]

    def _rnns(self) -> Iterator[Guess]:
        given = _activated(self.after[0])
        if given is None:
            return
        name, argument = given
        weights = self._affine([argument], self.states[0])
        ((w,), (r,), (b,)) = weights
        (z,) = self._before(weights, self.states[0])
        attributes = (("activations", [name]),)
        yield (
            [_NUMPY[name](z)],
            lambda: RecurrentOp("RNN", Upright([w]), Upright([r]), np.concatenate([b, 0 * b]), attributes=attributes),
        )

    def _lstms(self) -> Iterator[Guess]:
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
            gates = ir.replace([*(argument for _, argument in sigmoids), inner[0]], {new: seen})
            weights = self._affine(gates, h, (seen,))
            z, old = self._before(weights, h), self._at(c)
            of_old, of_new = (self._diagonal(gates[:3], symbol, (seen,)) for symbol in (c, seen))
            for i, o, f in itertools.permutations(range(3)):
                p = [of_old[i], of_new[o], of_old[f]]
                if 0 < sum(v is None for v in p) < 3:  # a peephole of zeros makes NaN of an infinite state
                    continue
                seen_i, seen_o, seen_f = (np.float64(0) if v is None else v for v in p)
                now = _sigmoid(z[f] + seen_f * old) * old + _sigmoid(z[i] + seen_i * old) * np.tanh(z[3])
                out = _sigmoid(z[o] + seen_o * now) * np.tanh(now)
                w, r, b = ([part[k] for k in (i, o, f, 3)] for part in weights)
                made = functools.partial(_lstm, w, r, b, [v for v in p if v is not None], swapped)
                yield ([now, out] if swapped else [out, now]), made

    def _grus(self) -> Iterator[Guess]:
        sigmoids, tanhs = self._named("Sigmoid"), self._named("Tanh")
        if len(sigmoids) != 2 or len(tanhs) != 1:
            return
        (h,), argument = self.states, tanhs[0][1]
        old = self._at(h)
        for (_, update), (reset, reset_argument) in itertools.permutations(sigmoids):
            gate = ir.new_input(reset.type)
            (new,) = ir.replace([argument], {reset: gate})
            weights = self._affine([update, reset_argument, new], h, (gate,), at=1.0)
            (found_inside,) = self._diagonal([new], gate, (gate,))
            inside = np.zeros(self.size, h.dtype) if found_inside is None else found_inside
            z, r = self._before(weights, h), weights[1][2]
            s = _sigmoid(z[1])
            rest = z[2] - _times(self._random[h], r)
            for sign, after in itertools.product((1, -1), (True, False)):
                kept = _sigmoid(sign * z[0])
                product = s * (_times(self._random[h], r) + inside) if after else _times((s * old).astype(r.dtype), r)
                found = (1 - kept) * np.tanh(rest + product) + kept * old
                yield [found], functools.partial(_gru, *weights, inside if after else 0 * inside, sign, after)

    def _before(self, weights: Affine, h: Node) -> list[np.ndarray]:
        """The arguments of the activations at the random row and states."""
        x, before = self._random[self.x], self._random[h]
        return [(_times(x, w) + _times(before, r) + b).astype(np.float64) for w, r, b in zip(*weights, strict=True)]

    # ---- weights -----------------------------------------------------------------------------------------------------

    def _affine(self, arguments: Sequence[Node], h: Node, more: Sequence[Node] = (), at: float = 0.0) -> Affine:
        """For each argument `row @ W + state @ R + b`: W, R and b. At b, all symbols are 0.

        While R is computed, the symbols in `more` have the value `at`."""
        w, r = self._matrices(arguments, self.x, more, 0.0), self._matrices(arguments, h, more, at)
        return w, r, [value[0] for value in _values(arguments, {})]

    def _matrices(self, arguments: Sequence[Node], symbol: Node, more: Sequence[Node], at: float) -> list[np.ndarray]:
        """The matrix of derivatives of each argument with respect to a symbol. The rows of a batch are independent, so
        each row of the batch gets another unit vector, and one run computes as many derivatives as there are rows.

        A matrix that the step does not multiply by is NaN, with which no step agrees. The op would multiply by the
        zeros of such a matrix, say those of the identity for `row + state @ R`, and an infinity times 0 is NaN."""
        width = types.as_int(symbol.type.shape[1])
        tangent = ir.new_input(symbol.type)
        found = pushforward(arguments, self._tangents(symbol, tangent, more))
        count = -(-width // self.rows)
        all_units = ir.new_input(Type(symbol.dtype, (count, self.rows, width)))
        made = [y for y, _ in batch_graph([y for y in found if y is not None], {tangent: all_units}, count)]
        fixed = {node: np.full(types.as_ints(node.type.shape), at, node.dtype) for node in more}

        def times(number: float) -> list[np.ndarray]:
            units = _unit_vectors(count * self.rows, width, number, symbol.dtype).reshape(count, self.rows, width)
            return [y.reshape(-1, self.size)[:width] for y in _values(made, {all_units: units, **fixed})]

        none = np.full((width, self.size), np.nan, symbol.dtype)
        matrices = times(1.0)
        if not all(map(np.all, matrices)):
            matrices = [m if np.isnan(y).all() else none for m, y in zip(matrices, times(np.nan), strict=True)]
        known = iter(matrices)
        return [none if y is None else next(known) for y in found]

    def _diagonal(self, arguments: Sequence[Node], symbol: Node, more: Sequence[Node]) -> list[np.ndarray | None]:
        """For each argument that is `symbol * p` plus other terms, the vector p; None if it does not depend on the
        symbol."""
        tangent = ir.new_input(symbol.type)
        found = pushforward(arguments, self._tangents(symbol, tangent, more))
        made = [y for y in found if y is not None]
        ones = np.ones(types.as_ints(symbol.type.shape), symbol.dtype)
        vectors = [y[0] for y in _values(made, {tangent: ones})]
        reached = [np.isnan(y).all() for y in _values(made, {tangent: ones * np.nan})]
        known = iter([p if all_of_it else None for p, all_of_it in zip(vectors, reached, strict=True)])
        return [None if y is None else next(known) for y in found]

    def _tangents(self, symbol: Node, tangent: Node, more: Sequence[Node]) -> dict[Node, Node | None]:
        known: dict[Node, Node | None] = dict.fromkeys([self.x, *self.states, *more])
        known[symbol] = tangent
        return known


# ---- the cells that weights make -------------------------------------------------------------------------------------

Weights = Sequence[np.ndarray]


def _lstm(w: Weights, r: Weights, b: Weights, p: Weights, swapped: bool) -> RecurrentOp:
    """The LSTM with these weights of the gates i, o, f, c, and peepholes of i, o, f, or none."""
    return RecurrentOp(
        "LSTM",
        Upright(w),
        Upright(r),
        np.concatenate([*b, *(0 * v for v in b)]),
        np.concatenate(p) if p else None,
        swapped=swapped,
    )


def _gru(w: Weights, r: Weights, b: Weights, inside: np.ndarray, sign: int, after: bool) -> RecurrentOp:
    """The GRU with these weights of the gates z, r, h.

    `sign` is 1 if the update gate is the share of the old state that stays, and -1 if it is the share of the new one.
    `inside` is the bias that is multiplied by the reset gate."""
    w, r, b = ([sign * each[0], *each[1:]] for each in (w, r, b))
    return RecurrentOp(
        "GRU",
        Upright(w),
        Upright(r),
        np.concatenate([*b, 0 * b[0], 0 * b[1], inside]),
        attributes=(("linear_before_reset", int(after)),),
    )


# ---- values ----------------------------------------------------------------------------------------------------------


def _values(outputs: Sequence[Node], given: Mapping[Node, np.ndarray]) -> list[np.ndarray]:
    """The values of some nodes of a step. Symbols without a given value are 0."""
    values: dict[Node, Any] = {}
    for node in ir.walk(outputs):
        if node.op is INPUT:
            values[node] = given.get(node, np.zeros(types.as_ints(node.type.shape), node.dtype))
        elif node.op is SHARED:
            values[node] = node.params["variable"].stored
        else:
            compute = _SHORT.get(node.op, node.op.reference)
            values[node] = compute(*(values[arg] for arg in node.operands), **node.params)
    return [values[output] for output in outputs]


def _unit_vectors(count: int, width: int, number: float, dtype: np.dtype) -> np.ndarray:
    """The rows of an identity matrix times a number, as views of one line of zeros with that number."""
    line = np.zeros(count + width, dtype)
    line[count] = number
    return np.lib.stride_tricks.sliding_window_view(line, width)[count:0:-1]


def _times(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """A product with few rows, a row at a time: NumPy's products of two rows or more copy the matrix first."""
    return np.stack([row @ matrix for row in x])


def _multiplied(a: np.ndarray, b: np.ndarray, left: Labels, right: Labels, out: Labels) -> np.ndarray:
    """A product. Most products have unit vectors on their left, which pick rows of the matrix; this is done without
    multiplications."""
    summed = [label for label in left if label in right and label not in out]
    if len(summed) == 1 and len(right) == 2 and not set(left) & set(right) & set(out):
        rows, matrix = np.moveaxis(a, left.index(summed[0]), -1), np.moveaxis(b, right.index(summed[0]), 0)
        flat = rows.reshape(-1, rows.shape[-1])
        labels = [*(label for label in left if label != summed[0]), *(x for x in right if x != summed[0])]
        found = _picked(flat, matrix)
        if found is None and len(flat) <= _FEW_ROWS:
            found = _times(flat, matrix)
        if found is not None:
            found = found.reshape(*rows.shape[:-1], matrix.shape[1])
            return np.transpose(found, [labels.index(label) for label in out])
    return np.einsum(einsum_text([left, right], out), a, b, optimize=True)


def _picked(rows: np.ndarray, matrix: np.ndarray) -> np.ndarray | None:
    """The product of rows and a matrix, if each row has at most one entry that is not 0."""
    if not rows.shape[1]:
        return None
    at = np.zeros(len(rows), int)
    for start in range(0, len(rows), _BLOCK):
        filled = rows[start : start + _BLOCK] != 0
        first = np.argmax(filled, 1)
        if np.count_nonzero(filled) > np.count_nonzero(filled[np.arange(len(filled)), first]):
            return None
        at[start : start + _BLOCK] = first
    scale = rows[np.arange(len(rows)), at]
    found = matrix if np.array_equal(at, np.arange(len(matrix))) else matrix[at]
    return found if np.all(scale == 1) else found * scale[:, None]


def _part(x: np.ndarray, start: tuple[int, ...], length: tuple[int, ...], step: tuple[int, ...]) -> np.ndarray:
    """A slice: of elements side by side, without a copy."""
    if any(s != 1 for s in step):
        return SLICE.reference(x, start=start, length=length, step=step)
    return x[tuple(slice(a, a + n) for a, n in zip(start, length, strict=True))]


_SHORT: dict[Op, Callable[..., np.ndarray]] = {CONTRACT: _multiplied, SLICE: _part}
"""Functions that compute an op of weights faster than its reference does."""


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


_NUMPY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Sigmoid": _sigmoid,
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
}


def _is_analytic(outputs: Sequence[Node]) -> bool:
    """Whether functions are analytic, so that two that agree at random points are the same. A relu may come last."""
    ends = [out.operands[0] if out.op is RELU else out for out in outputs]
    return all(node.op.is_linear or node.op in _ANALYTIC or is_weight(node) for node in ir.walk(ends))


def _activated(node: Node) -> tuple[str, Node] | None:
    """The name and the argument of an activation, or of a slice of one; None for other nodes."""
    if node.op in _ACTIVATIONS:
        return _ACTIVATIONS[node.op], node.operands[0]
    if node.op is SLICE:
        inner = _activated(node.operands[0])
        return None if inner is None else (inner[0], SLICE(inner[1], **node.params))
    return None


# ---- rows that are computed before the loop --------------------------------------------------------------------------


Rowwise = tuple[Callable[[Node], Node], Node]
"""A function of a row, and the sequence to whose rows it is applied."""


def _rowwise(sequence: Node) -> Rowwise:
    """A sequence as a function of the rows of another one: `x @ weights + bias` gives `row @ weights + bias`, and x."""
    found: Rowwise | None = None
    if sequence.op is ADD:
        found = _biased(*sequence.operands) or _biased(*sequence.operands[::-1])
    elif sequence.op is CONTRACT and sequence.ndim == 3:
        found = _product(sequence)
    elif sequence.op is SLICE and sequence.ndim == 3 and _is_of_time(sequence):
        build, source = _rowwise(sequence.operands[0])
        found = build, _sliced(source, sequence)
    return found or (lambda row: row, sequence)


def _biased(rest: Node, bias: Node) -> Rowwise | None:
    """A sequence plus a bias that all of its rows share."""
    if not is_weight(bias) or bias.ndim > 1 or rest.ndim != 3:
        return None
    build, source = _rowwise(rest)
    return (lambda row: build(row) + bias), source


def _product(node: Node) -> tuple[Callable[[Node], Node], Node] | None:
    """`sequence @ weights`."""
    left, right, out = (node.params[key] for key in ("left", "right", "out"))
    x, weights = node.operands
    if is_weight(x):
        x, weights, left, right = weights, x, right, left
    plain = len(left) == 3 and len(right) == 2 and out[:2] == left[:2] and left[2] in right and left[2] not in out
    if not plain or not is_weight(weights):
        return None
    return (lambda row: contract(row, weights, left[1:], right, out[1:])), x


def _is_of_time(node: Node) -> bool:
    """Whether a slice leaves all axes but the first as they are."""
    start, length, step = (node.params[key] for key in ("start", "length", "step"))
    return start[1:] == (0, 0) and step[1:] == (1, 1) and length[1:] == node.operands[0].type.shape[1:]


def _sliced(source: Node, like: Node) -> Node:
    start, length, step = (like.params[key] for key in ("start", "length", "step"))
    return SLICE(source, start=start, length=(length[0], *source.type.shape[1:]), step=step)
