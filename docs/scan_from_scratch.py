"""Scan from scratch: a whole engine for differentiable loops, in one file to be read from top to bottom.

Most of scanjit makes things fast, or says well what went wrong. The idea beneath is small, and fits in this essay: it
builds an engine of the same shape, which traces a step function into a graph, differentiates the graph, turns loops
into loops that run backwards, writes all of it down as text, and runs the text. At the end the small engine and the
large one are given the same programs, and must agree.

    python docs/scan_from_scratch.py

What it leaves out is said at the end, where the names of the large engine's parts will mean something.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np

# ======================================================================================================================
# 1. A graph that builds itself
# ======================================================================================================================
#
# A program is a graph of nodes. A node says which operation it is, of which other nodes, and of which shape the result
# is. Nobody draws the graph by hand: a node has operators, and understands NumPy's functions, so an ordinary Python
# function that is called with nodes *instead of arrays* leaves behind the graph of what it would have computed. That is
# all there is to tracing.
#
# A shape holds sizes. A size is a number, or a name if it is only known when the program runs: ("T", 3) is any number
# of rows of three.


class Node:
    """One operation on other nodes. Made by `make`, never changed afterwards."""

    def __init__(self, op: str, args: tuple[Node, ...], params: Any, shape: tuple):
        self.op, self.args, self.params, self.shape = op, args, params, shape

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any) -> Node:
        """NumPy calls this for np.tanh(node), and for array + node as well."""
        return make(ufunc.__name__, *inputs)

    __add__ = __radd__ = lambda a, b: make("add", a, b)
    __mul__ = __rmul__ = lambda a, b: make("multiply", a, b)
    __sub__ = lambda a, b: make("subtract", a, b)
    __rsub__ = lambda a, b: make("subtract", b, a)
    __truediv__ = lambda a, b: make("divide", a, b)
    __rtruediv__ = lambda a, b: make("divide", b, a)
    __matmul__ = lambda a, b: make("matmul", a, b)
    __neg__ = lambda a: make("negative", a)
    T = property(lambda a: make("transpose", a))

    def sum(self) -> Node:
        """Of all elements: the first axis is summed away until none is left."""
        return make("sum", self).sum() if self.shape else self


# Two nodes that say the same thing are the same node. So common subexpressions cost nothing, and "is this what I saw
# before?" is a comparison of addresses. One dictionary does it.

EVERYTHING: dict[Any, Node] = {}


def make(op: str, *args: Any, params: Any = None, shape: tuple | None = None) -> Node:
    """The node of an operation. What is not a node yet, a number, becomes one."""
    nodes = tuple(arg if isinstance(arg, Node) else literal(arg) for arg in args)
    key = op, nodes, params
    if key not in EVERYTHING:
        shape = OPS[op].shape(*(node.shape for node in nodes)) if shape is None else shape
        EVERYTHING[key] = Node(op, nodes, params, shape)
    return EVERYTHING[key]


def literal(number: float) -> Node:
    """A number that is written into the program."""
    return make("literal", params=float(number), shape=())


COUNT = itertools.count()


def variable(*shape: Any) -> Node:
    """Something that is given when the program runs. Each is unlike all others, hence the count."""
    return make("variable", params=next(COUNT), shape=shape)


# ======================================================================================================================
# 2. Operations: one line each
# ======================================================================================================================
#
# An operation is defined in one place, whole: the shape of its result, the text of its code, and its gradient. The rule
# for the gradient is given g, the derivative of some cost by the result, and returns that by each argument. It computes
# with nodes, so it is traced like everything else: differentiating a program gives a program.
#
# Operands may differ in rank: the one with fewer axes counts for each entry of the other's first axes. Its gradient is
# a sum over those axes, and `fit` takes care of it.


class Op(NamedTuple):
    shape: Callable[..., tuple]
    code: str
    vjp: Callable[..., tuple]  # of (g, y, *args)


def wider(a: tuple, b: tuple = ()) -> tuple:
    """The shape of an elementwise operation."""
    if len(a) < len(b):
        a, b = b, a
    if a[len(a) - len(b) :] != b:
        raise TypeError(f"these shapes do not go together: {a} and {b}")
    return a


def product(a: tuple, b: tuple) -> tuple:
    """The shape of a matrix product."""
    if len(a) != 2 or len(b) != 2 or a[1] != b[0]:
        raise TypeError(f"no matrices to multiply: {a} and {b}")
    return a[0], b[1]


def fit(g: Node, x: Node) -> Node:
    """A derivative with too many axes, summed to the shape of what it is the derivative by."""
    return g if len(g.shape) == len(x.shape) else fit(make("sum", g), x)


OPS = {
    "add": Op(wider, "{} + {}", lambda g, y, a, b: (fit(g, a), fit(g, b))),
    "subtract": Op(wider, "{} - {}", lambda g, y, a, b: (fit(g, a), fit(-g, b))),
    "multiply": Op(wider, "{} * {}", lambda g, y, a, b: (fit(g * b, a), fit(g * a, b))),
    "divide": Op(wider, "{} / {}", lambda g, y, a, b: (fit(g / b, a), fit(-g * y / b, b))),
    "negative": Op(wider, "-{}", lambda g, y, a: (-g,)),
    "square": Op(wider, "{0} * {0}", lambda g, y, a: (2 * g * a,)),
    "exp": Op(wider, "np.exp({})", lambda g, y, a: (g * y,)),
    "log": Op(wider, "np.log({})", lambda g, y, a: (g / a,)),
    "tanh": Op(wider, "np.tanh({})", lambda g, y, a: (g * (1 - y * y),)),
    "matmul": Op(product, "{} @ {}", lambda g, y, a, b: (g @ b.T, a.T @ g)),
    "transpose": Op(lambda a: a[::-1], "{}.T", lambda g, y, a: (g.T,)),
    "sum": Op(lambda a: a[1:], "np.sum({}, 0)", lambda g, y, a: (make("spread", g, a),)),
    "spread": Op(lambda a, like: like, "np.zeros_like({1}) + {0}", lambda g, y, a, like: (fit(g, a), None)),
    "zeros": Op(lambda like: like, "0.0 * {}", lambda g, y, like: (None,)),
}

# (The last is a shortcut: 0.0 * inf is not 0. Ours makes zeros of a shape.)


# ======================================================================================================================
# 3. Derivatives
# ======================================================================================================================
#
# To differentiate, go through the nodes from the last to the first. When a node's turn comes, all that use it have had
# theirs and have added what they owe it. It asks its rule what it owes its arguments in turn.
#
# Two kinds of node need a word. A loop, for which section 5 finds the rule, has several results; `part` nodes pick one
# each, so what a loop is owed is kept by the number of the part. And the search ends at the nodes that we differentiate
# by: they count as independent, whatever they are made of. In the body of a loop that is just what we will need.


def walk(outputs: Iterable[Node], end: Iterable[Node] = ()) -> list[Node]:
    """All nodes that outputs are made of, each after its arguments; not beyond those in `end`."""
    order: dict[Node, None] = {}
    ends = set(end)

    def visit(node: Node) -> None:
        if node not in order:
            if node not in ends:
                for arg in node.args:
                    visit(arg)
            order[node] = None

    for node in outputs:
        visit(node)
    return list(order)


def vjp(outputs: Sequence[Node], gs: Sequence[Node], wrt: Sequence[Node]) -> list[Node]:
    """The derivatives by `wrt` of a cost whose derivatives by `outputs` are `gs`."""
    owed: dict[Any, Node] = {}  # by node, or by (loop, number of the part)

    def pay(key: Any, g: Node | None) -> None:
        if g is not None:
            owed[key] = owed[key] + g if key in owed else g

    for node, g in zip(outputs, gs, strict=True):
        pay(node, g)
    for node in reversed(walk(outputs, wrt)):
        if node in wrt:
            continue
        if node.op == "part" and node in owed:
            pay((node.args[0], node.params), owed[node])
        elif node.op == "scan":
            gs_of_parts = {key[1]: g for key, g in owed.items() if isinstance(key, tuple) and key[0] is node}
            for arg, g in zip(node.args, scan_vjp(node, gs_of_parts) if gs_of_parts else (), strict=False):
                pay(arg, g)
        elif node in owed and node.args:
            for arg, g in zip(node.args, OPS[node.op].vjp(owed[node], node, *node.args), strict=True):
                pay(arg, g)
    return [owed.get(node, make("zeros", node)) for node in wrt]


def grad(cost: Node, wrt: Sequence[Node]) -> list[Node]:
    """The gradient of a scalar."""
    return vjp([cost], [literal(1.0)], wrt)


# ======================================================================================================================
# 4. A loop is a node, too
# ======================================================================================================================
#
# `scan` calls the step function once, with variables for one row of each sequence and for what the last step left; the
# graph of one step is what remains. The loop is a single node that holds this graph as its *body*:
#
#     new carries, ys  =  body(carries, rows)
#
# Carries go from step to step; of the ys, each step's is kept, and a stack of them is a result. This is the normal
# form. Whatever else a user's loop may do (older values, outputs that are not fed back, ...) is put into this form by
# the front end, so nothing behind it ever hears of it.
#
# Two things come out of the tracing for free:
#
# - The step function may use anything it closes over. What it uses is found by walking from the outputs of the body: a
#   node that does not depend on carries or rows comes from outside. These nodes become arguments of the loop, so they
#   are computed before it.
# - That goes for *all* nodes that do not depend on the carries and rows. A step that says `h @ (W * scale)` has the
#   product W * scale computed once, before the loop, and nobody wrote a pass for it.


class Body(NamedTuple):
    carries: tuple[Node, ...]
    rows: tuple[Node, ...]
    new: tuple[Node, ...]  # what the carries become
    ys: tuple[Node, ...]  # what is stacked
    backwards: bool  # the last row first; the stacks are in the order of the rows all the same


def scan(step: Callable[..., Any], sequences: Any, initial: Any) -> Any:
    """The stacks of what `step(*rows, *previous)` returns. `None` in `initial`: a result that is not fed back."""
    sequences, initial = ([*x] if isinstance(x, list | tuple) else [x] for x in (sequences, initial))
    inits = [x if isinstance(x, Node) else literal(x) for x in initial if x is not None]
    rows = [variable(*x.shape[1:]) for x in sequences]
    carries = [variable(*x.shape) for x in inits]
    returned = step(*rows, *carries)
    returned = [*returned] if isinstance(returned, list | tuple) else [returned]
    new = [y for y, init in zip(returned, initial, strict=True) if init is not None]
    for i, (carry, y) in enumerate(zip(carries, new, strict=True)):
        if carry.shape != y.shape:
            raise TypeError(f"carry {i} is {carry.shape} at first, and {y.shape} after a step")
    _, stacks, _ = loop(carries, rows, new, returned, inits, sequences, backwards=False)
    return stacks if len(stacks) > 1 else stacks[0]


# Here is the one thing that makes derivatives easy: each loop also stacks what its carries were *before* each step. The
# loop that runs back will want to know. If nobody asks, section 6 will not store them.


def loop(
    carries: Sequence[Node], rows: Sequence[Node], new: Sequence[Node], ys: Sequence[Node],
    inits: Sequence[Node], sequences: Sequence[Node], backwards: bool,
) -> tuple[list[Node], list[Node], list[Node]]:  # fmt: skip
    """Make the node of a loop: what the carries are at last, the stacks of ys, the stacks of carries before a step."""
    body = Body(tuple(carries), tuple(rows), tuple(new), (*ys, *carries), backwards)
    inside = {*carries, *rows}
    consts: dict[Node, None] = {}
    outputs = (*body.new, *body.ys)
    for node in walk(outputs, inside):
        if node not in inside and not inside.isdisjoint(node.args):
            inside.add(node)
            consts |= dict.fromkeys(arg for arg in node.args if arg not in inside)
    consts |= dict.fromkeys(node for node in outputs if node not in inside)
    node = make("scan", *inits, *sequences, *(c for c in consts if c.op != "literal"), params=body, shape=())
    length = sequences[0].shape[0]
    shapes = [*(c.shape for c in carries), *((length, *y.shape) for y in body.ys)]
    parts = [make("part", node, params=i, shape=shape) for i, shape in enumerate(shapes)]
    n = len(carries)
    return parts[:n], parts[n : len(parts) - n], parts[len(parts) - n :]


# ======================================================================================================================
# 5. The gradient of a loop is a loop
# ======================================================================================================================
#
# Let a step be  c' , y = body(c, x; k)  with constants k. If dc' and dy are what is owed to its results, then section 3
# gives what the step owes c, x and k, as a graph: call it the step's gradient. Now run the steps from the last to the
# first:
#
# - dc, what a step owes its carry, is what the step before it is owed as dc'. So dc is a *carry* of the new loop. It
#   begins with what the rest of the program owes the last carry.
# - dx is owed to this step's row. So the dx are *stacked*, and the stack is what is owed to the sequence.
# - dk is owed to the constant by every step. So a second kind of carry adds them up, beginning with zero.
# - The step's gradient reads c and x, as they were in this step: the rows, and the stacks of the carries before each
#   step, are *sequences* of the new loop. So are the dy.
#
#                     y1                 y2
#                     ▲                  ▲
#           c0 ───► step ───► c1 ───► step ───► c2            and back:
#                     ▲                  ▲
#                     x1                 x2
#
#                     dx1                dx2
#                     ▲                  ▲
#          dc0 ◄─── step' ◄── dc1 ◄── step' ◄── dc2
#       Σ dk   ◄─── step' ◄───────◄── step' ◄── 0
#                     ▲                  ▲
#                dy1, x1, c0        dy2, x2, c1
#
# The result is a loop in normal form, in the other direction. So it has a gradient, too, by the same twenty lines, and
# derivatives of any order need nothing new: that is what the normal form is for.


def scan_vjp(node: Node, gs: dict[int, Node]) -> list[Node]:
    """What a loop owes its arguments: initial carries, sequences, constants. `gs`: by the number of its parts."""
    body: Body = node.params
    n, m = len(body.carries), len(body.rows)
    inits, sequences, consts = node.args[:n], node.args[n : n + m], node.args[n + m :]
    before = [make("part", node, params=len(body.ys) + i) for i in range(n)]  # the carries were stacked last

    dys = {i: variable(*y.shape) for i, y in enumerate(body.ys) if n + i in gs}
    dcarries = [variable(*c.shape) for c in body.carries]
    sums = [variable(*k.shape) for k in consts]
    owed = vjp(
        [*body.new, *(body.ys[i] for i in dys)],
        [*dcarries, *dys.values()],
        [*body.carries, *body.rows, *consts],
    )
    new = [*owed[:n], *(total + dk for total, dk in zip(sums, owed[n + m :], strict=True))]
    finals, drows, _ = loop(
        [*dcarries, *sums], [*body.rows, *body.carries, *dys.values()], new, owed[n : n + m],
        [*(gs.get(i, make("zeros", c)) for i, c in enumerate(inits)), *(make("zeros", k) for k in consts)],
        [*sequences, *before, *(gs[n + i] for i in dys)], backwards=not body.backwards,
    )  # fmt: skip
    return [*finals[:n], *drows, *finals[n:]]


# The carries of a body are variables, and appear here as *rows* of the new body. Nothing had to be renamed: a body is
# a graph over some variables, and what these stand for is the business of the loop.
#
# Look at the sums once more. No step reads them; they only add up. For a weight matrix, dk is x.T @ dz, and the sum of
# these products over all steps is one product of two tall matrices, the stacks of x and of dz. Taking such sums out of
# the loop is among the most profitable of the rewrites that the large engine knows.


# ======================================================================================================================
# 6. Code
# ======================================================================================================================
#
# A graph becomes text: one line a node, in the order of `walk`. A loop becomes a loop. Stacks are allocated before it,
# each step writes its row, and the carries are replaced all at once at the end of a step. Only parts that somebody asks
# for are stored, and of the body only what they need is computed, so the stacks of section 4 are free until a gradient
# reads them.


class Writer:
    """Text of a program, and the names that its nodes have."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[Node, str] = {}
        self.numbers = itertools.count()

    def name(self, node: Node, prefix: str = "v") -> str:
        if node.op == "literal":
            return repr(node.params)
        if node not in self.names:
            self.names[node] = f"{prefix}{next(self.numbers)}"
        return self.names[node]

    def graph(self, outputs: Sequence[Node], indent: str) -> None:
        """Lines for all that has no name yet."""
        nodes = walk(outputs, self.names)
        asked = {node: {part.params for part in nodes if part.op == "part" and part.args[0] is node} for node in nodes}
        for node in nodes:
            if node.op == "scan":
                self.scan(node, asked[node], indent)
            elif node.op in OPS and node not in self.names:
                code = OPS[node.op].code.format(*(self.name(arg) for arg in node.args))
                self.lines.append(f"{indent}{self.name(node)} = {code}")

    def scan(self, node: Node, asked: set[int], indent: str) -> None:
        """A loop and the names of its parts."""
        body: Body = node.params
        n, m = len(body.carries), len(body.rows)
        inits, sequences = ([self.name(x) for x in some] for some in (node.args[:n], node.args[n : n + m]))
        length = str(node.args[n].shape[0])
        stacks = {}
        for i, carry in enumerate(body.carries):
            self.lines.append(f"{indent}{self.name(carry, 'c')} = {inits[i]}")
        for i, y in enumerate(body.ys):
            if n + i in asked:
                stacks[i] = f"stack{next(self.numbers)}"
                sizes = ", ".join(str(size) for size in (length, *y.shape))
                self.lines.append(f"{indent}{stacks[i]} = np.empty(({sizes},))")
        t = f"t{next(self.numbers)}"
        span = f"range({length} - 1, -1, -1)" if body.backwards else f"range({length})"
        self.lines.append(f"{indent}for {t} in {span}:")
        outside, indent = dict(self.names), indent + "    "
        for row, sequence in zip(body.rows, sequences, strict=True):
            self.names.pop(row, None)
            self.lines.append(f"{indent}{self.name(row, 'x')} = {sequence}[{t}]")
        self.graph([*body.new, *(body.ys[i] for i in stacks)], indent)
        for i, stack in stacks.items():
            self.lines.append(f"{indent}{stack}[{t}] = {self.name(body.ys[i])}")
        if n:
            old, new = (", ".join(self.name(c) for c in some) for some in (body.carries, body.new))
            self.lines.append(f"{indent}{old} = {new}")
        finals = [self.names[c] for c in body.carries]
        self.names = outside  # what a step computed has no name outside; nor do the carries, which are parts there
        for i in asked:
            part = make("part", node, params=i)
            self.names[part] = finals[i] if i < n else stacks[i - n]
        for c in body.carries:
            self.names.pop(c, None)


# A size with a name is read off an input; if another input has the same name, the sizes must be equal, and that is
# checked once, at the beginning. So a new length needs no new code.


def function(inputs: Sequence[Node], outputs: Sequence[Node], jit: Callable[..., Any] = lambda f: f) -> Any:
    """A Python function of arrays. Its text is its attribute `source`."""
    writer = Writer()
    arguments = [writer.name(node, "a") for node in inputs]
    lengths: dict[str, str] = {}
    for node, name in zip(inputs, arguments, strict=True):
        for axis, size in enumerate(node.shape):
            if isinstance(size, str) and size not in lengths:
                lengths[size] = f"{name}.shape[{axis}]"
                writer.lines.append(f"    {size} = {lengths[size]}")
            elif isinstance(size, str):
                writer.lines.append(f"    assert {name}.shape[{axis}] == {size}")
    writer.graph(outputs, "    ")
    missing = [node for node in walk(outputs, inputs) if node.op == "variable" and node not in inputs]
    if missing:
        raise TypeError(f"{len(missing)} variables are used that are no inputs")
    results = ", ".join(writer.name(node) for node in outputs)
    source = "\n".join([f"def program({', '.join(arguments)}):", *writer.lines, f"    return ({results},)\n"])
    names = {"np": np}
    exec(source, names)
    compiled = jit(names["program"])
    run = lambda *arrays: compiled(*(np.asarray(a, float) if np.ndim(a) else float(a) for a in arrays))
    run.source = source
    return run


# ======================================================================================================================
# 7. The trial
# ======================================================================================================================
#
# Three programs. They are written for no engine in particular: the function `scan` is an argument, so that both engines
# can be given the same text. The first is a recurrent network, the second the likelihood of a GARCH model, the third
# has a loop in its loop.


def network(scan: Callable[..., Any], xs: Any, h: Any, W: Any, R: Any, b: Any) -> Any:
    hs = scan(lambda x, h: np.tanh(x @ W + h @ R + b), xs, h)
    return np.square(hs - 0.5).sum()


def garch(scan: Callable[..., Any], returns: Any, omega: Any, alpha: Any, beta: Any) -> Any:
    def step(r: Any, v: Any) -> Any:
        return omega + alpha * np.square(r) + beta * v, np.log(v) + np.square(r) / v

    _, terms = scan(step, returns, [1.0, None])
    return 0.5 * terms.sum()


def nested(scan: Callable[..., Any], xs: Any, ks: Any, z: Any) -> Any:
    def step(x: Any, z: Any) -> Any:
        inner = scan(lambda k, u: np.tanh(u * k + x), ks, z)
        return z + inner.sum() / 4

    return np.exp(-scan(step, xs, z)).sum()


SHAPES: dict[Callable[..., Any], list[tuple]] = {
    network: [("T", 2, 3), (2, 4), (3, 4), (4, 4), (4,)],
    garch: [("T",), (), (), ()],
    nested: [("T",), ("K",), ()],
}


def derivatives(cost: Any, inputs: Sequence[Any], grad: Callable[..., Any]) -> list[Any]:
    """The cost, its gradient, and the gradient of the gradient's length: a loop, run back, and run back again."""
    first = grad(cost, inputs)
    length = sum(np.square(g).sum() for g in first)
    return [cost, *first, *grad(length, inputs)]


def with_ours(program: Callable[..., Any]) -> Any:
    inputs = [variable(*shape) for shape in SHAPES[program]]
    return function(inputs, derivatives(program(scan, *inputs), inputs, grad))


def with_scanjit(program: Callable[..., Any]) -> Any:
    import scanjit as sj

    inputs = [sj.tensor(shape) for shape in SHAPES[program]]
    return sj.function(inputs, derivatives(program(sj.scan, *inputs), inputs, sj.grad), mode="reference")


def numbers(program: Callable[..., Any], sizes: dict[str, int], seed: int = 0) -> list[np.ndarray]:
    """Arrays for the inputs, around a half."""
    random = np.random.default_rng(seed)
    shapes = [[sizes.get(size, size) for size in shape] for shape in SHAPES[program]]
    return [np.asarray(random.uniform(0.2, 0.8, shape)) for shape in shapes]


def slopes(cost: Callable[..., float], arrays: Sequence[np.ndarray], h: float = 1e-5) -> list[np.ndarray]:
    """Derivatives without any thought: each number is moved a little to both sides."""
    found = [np.empty_like(array) for array in arrays]
    for array, slope in zip(arrays, found, strict=True):
        for place in np.ndindex(array.shape):
            kept = array[place]
            values = []
            for moved in (kept + h, kept - h):
                array[place] = moved
                values.append(cost(*arrays))
            array[place] = kept
            slope[place] = (values[0] - values[1]) / (2 * h)
    return found


def main() -> None:
    for program in SHAPES:
        ours, theirs = with_ours(program), with_scanjit(program)
        for length in (1, 5):  # a new length is no new program
            arrays = numbers(program, {"T": length, "K": 3})
            results = ours(*arrays)
            for found, wanted in zip(results, theirs(*arrays), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)
        n = len(arrays)
        length_of_gradient = lambda *arrays, ours=ours, n=n: sum(np.sum(g**2) for g in ours(*arrays)[1 : 1 + n])
        for first, wanted in zip(results[1 : 1 + n], slopes(lambda *a, f=ours: f(*a)[0], arrays), strict=True):
            np.testing.assert_allclose(first, wanted, rtol=1e-5, atol=1e-7)
        for second, wanted in zip(results[1 + n :], slopes(length_of_gradient, arrays), strict=True):
            np.testing.assert_allclose(second, wanted, rtol=1e-5, atol=1e-7)
        lines = ours.source.count("\n")
        print(f"{program.__name__}: both engines agree, and so do finite differences ({lines} lines of code)")

    inputs = [variable(*shape) for shape in SHAPES[garch]]
    cost = garch(scan, *inputs)
    plain = function(inputs, [cost, *grad(cost, inputs[1:])])
    print(f"\nThe gradient of the GARCH likelihood, as the engine wrote it:\n\n{plain.source}")

    # The text uses nothing but scalars, arrays and loops, so Numba can compile it as it is. This is the last step of
    # the large engine, too; it only takes more care about what the text says.
    show_speed(plain, function(inputs, [cost, *grad(cost, inputs[1:])], jit=numba.njit))


def show_speed(plain: Any, compiled: Any, length: int = 20000) -> None:
    """How long a gradient takes with and without Numba."""
    arrays = [np.random.default_rng(0).normal(size=length), 0.1, 0.1, 0.8]
    times = []
    for run in (plain, compiled, compiled):  # the first call compiles
        start = time.perf_counter()
        results = run(*arrays)
        times.append(time.perf_counter() - start)
        np.testing.assert_allclose(results, plain(*arrays), rtol=1e-9)
    print(f"{length} steps take {1e3 * times[0]:.1f} ms in Python, {1e3 * times[2]:.2f} ms compiled with Numba")


# ======================================================================================================================
# 8. What the large engine does besides
# ======================================================================================================================
#
# - Its nodes have dtypes, and its operations rules for forward derivatives, for batches (`vmap`) and for broadcasting.
#   Its loops have taps, early ends and structured states (scanjit/loops), all put into the normal form of section 4.
# - Between graph and text there are rewrites (scanjit/rewrite). The part of a step that no carry depends on leaves the
#   loop, and so does the part that no carry reads: `x @ W` becomes one product for all steps, and so do the sums of
#   section 5. What has to stay is often small: of GARCH, one multiplication and one addition a step.
# - It does not emit array operations. Nodes are fused into nests of loops, which compute with vectors in registers; the
#   products in a step become tiles of a matrix multiplication with the rest of the step as their last act
#   (scanjit/schedule, scanjit/simd, scanjit/codegen).
# - Memory is planned before anything runs, stacks that only the next step reads are two rows that take turns, and
#   checkpoints trade memory for time. What is independent runs in threads, with results that do not depend on them.
#
# None of this changes what a program means, and the tests hold it to that: `mode="reference"` runs the graph node by
# node, much as this essay does.


if __name__ == "__main__":
    main()
