"""`pprint`: one expression as a formula."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from scanjit import errors, ir, types
from scanjit.ir import BOUND, CONSTANT, INPUT, PART, SHARED, SIZE, Graph, Node, Op
from scanjit.ops.branch import IFELSE
from scanjit.ops.elementwise import (
    ADD,
    AND,
    CAST,
    DIV,
    EQUAL,
    FLOORDIV,
    GREATER,
    GREATER_EQUAL,
    INVERT,
    LESS,
    LESS_EQUAL,
    MOD,
    MUL,
    NEG,
    NOT_EQUAL,
    OR,
    POW,
    SUB,
    XOR,
)
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.linalg import CONTRACT
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import CONCATENATE, IOTA, RESHAPE, SET_SLICE, SLICE
from scanjit.ops.view import DIMSHUFFLE
from scanjit.show.subject import leaf_name, number, setting, subject
from scanjit.types import Dim, Dimension

# An operator that binds tighter has a higher number, as in Python.
_COMPARE, _OR, _XOR, _AND, _SUM, _PRODUCT, _UNARY, _POWER, _ATOM = range(9)
_INFIX: dict[Op, tuple[str, int]] = {
    LESS: ("<", _COMPARE),
    LESS_EQUAL: ("<=", _COMPARE),
    GREATER: (">", _COMPARE),
    GREATER_EQUAL: (">=", _COMPARE),
    EQUAL: ("==", _COMPARE),
    NOT_EQUAL: ("!=", _COMPARE),
    OR: ("|", _OR),
    XOR: ("^", _XOR),
    AND: ("&", _AND),
    ADD: ("+", _SUM),
    SUB: ("-", _SUM),
    MUL: ("*", _PRODUCT),
    DIV: ("/", _PRODUCT),
    FLOORDIV: ("//", _PRODUCT),
    MOD: ("%", _PRODUCT),
    POW: ("**", _POWER),
}
_PREFIX: dict[Op, str] = {NEG: "-", INVERT: "~"}
_LONGEST = 20_000
"""The most characters of a formula. Shared parts are written out at each use, so a formula could grow without
bounds."""

Text = tuple[str, int]
"""A formula and how tightly its outermost operator binds."""


def pprint(x: Any) -> str:
    """One expression as a formula, as Python would write it, with the parentheses that it needs.

    A scan is `scan{t < steps: h <- new value from initial value; y <- output}[i]`, with `[i]` choosing among the last
    carries, then the stacked outputs; `h'` in an output is the new `h`.

    Parameters
    ----------
    x : an expression (or a shared variable).

    Examples
    --------
    >>> import scanjit as sj
    >>> x, y = sj.vector("x"), sj.vector("y")
    >>> sj.pprint((x + y) * x - (x * y + y))
    '(x + y) * x - (x * y + y)'
    """
    _, roots, _ = subject(x)
    if len(roots) != 1:
        raise errors.ArgumentError("pprint shows one expression", got=f"{len(roots)}", fix="use dprint for several")
    return _Formula(_Names()).text(roots[0])[0]


def formula_inside(node: Node, owners: Sequence[Node]) -> str:
    """The formula of a node inside the graphs of other nodes, the outermost first, as `pprint` writes it there."""
    formula = _Formula(_Names())
    for owner in owners:
        for operand in owner.operands:
            formula.text(operand)
        formula = _inside_branch(formula, owner) if owner.op is IFELSE else _inside_scan(formula, owner)[0]
    return formula.text(node)[0]


class _Names:
    """Names of leaves: their own, or numbered ones for those without."""

    def __init__(self) -> None:
        self._given: dict[Any, str] = {}
        self._used: set[str] = set()

    def leaf(self, node: Node) -> str:
        """The name of an input or a shared variable."""
        if node not in self._given:
            self._given[node] = leaf_name(node) or self.new("shared" if node.op is SHARED else "x")
            self._used.add(self._given[node])
        return self._given[node]

    def new(self, stem: str) -> str:
        """A new name: the stem, or the stem and a number if the stem is taken."""
        number, name = 0, stem
        while name in self._used:
            number, name = number + 1, f"{stem}{number + 1}"
        self._used.add(name)
        return name


class _Formula:
    """Writes formulas of nodes. `bound` says what the inputs of a scan's body are called."""

    def __init__(self, names: _Names, bound: dict[Node, Text] | None = None, depth: int = 0) -> None:
        self.names, self.depth = names, depth
        self.known: dict[Node, Text] = dict(bound or {})

    def text(self, root: Node) -> Text:
        """The formula of a node."""
        order = ir.walk([root], self.known.keys())
        leaves = [node for node in order if node.op in (INPUT, SHARED) and node not in self.known]
        for node in sorted(leaves, key=lambda node: leaf_name(node) is None):  # given names before made-up ones
            self.names.leaf(node)
        for node in order:
            if node not in self.known:
                text, binds = self._make(node)
                self.known[node] = (text, binds) if len(text) <= _LONGEST else ("...", _ATOM)
        return self.known[root]

    def _make(self, node: Node) -> Text:
        op = node.op
        if op in _WRITERS:
            return _WRITERS[op](self, node)
        if op in _INFIX:
            return self._infix(node)
        if op in _PREFIX:
            return _PREFIX[op] + self.inside(node.operands[0], _UNARY), _UNARY
        arguments = [self.known[arg][0] for arg in node.operands]
        return f"{op.name}({', '.join([*arguments, *_settings(node)])})", _ATOM

    def _infix(self, node: Node) -> Text:
        sign, binds = _INFIX[node.op]
        left, right = node.operands
        if binds == _POWER:
            return f"{self.inside(left, _POWER + 1)} ** {self.inside(right, _UNARY)}", binds
        return f"{self.inside(left, binds + (binds == _COMPARE))} {sign} {self.inside(right, binds + 1)}", binds

    def inside(self, node: Node, binds: int) -> str:
        """A formula as part of another: in parentheses where it binds less tightly than `binds`."""
        return _inside(self.known[node], binds)

    def primary(self, node: Node) -> str:
        """A formula in front of `[...]` or `.name`."""
        return self.inside(node, _ATOM)


def _inside(text: Text, binds: int) -> str:
    return text[0] if text[1] >= binds else f"({text[0]})"


def _settings(node: Node) -> Iterator[str]:
    """The parameters of an op as keyword arguments."""
    for key, value in node.params.items():
        if key == "axes":
            if len(value) != node.operands[0].ndim:
                yield f"axis={value[0] if len(value) == 1 else value}"
        elif isinstance(value, Graph):
            yield f"{key}=<graph>"
        elif value is not None:
            yield f"{key}={setting(value)}"


def _constant(formula: _Formula, node: Node) -> Text:
    text = number(node)
    return text, _UNARY if text.startswith("-") else _ATOM


def _dim(dim: Dimension) -> Text:
    return str(dim), _ATOM if isinstance(dim, int) or types.as_atom(dim) is not None else _SUM


def _range(dim: Dimension, start: Dimension, length: Dimension, step: int) -> str:
    """One axis of a slice, as Python writes it."""
    first = "" if start == (dim - 1 if step < 0 else 0) else _one(dim, start)
    length = _unclipped(length)
    stop = start + length * step
    atom = types.as_atom(stop)
    if atom is not None and atom.kind == "min" and dim in atom.args:  # min(3, n), as a slice of n cannot reach further
        stop = atom.args[0] if atom.args[1] == dim else atom.args[1]
    to_the_end = (dim - start + step - 1) // step if step > 0 else start // -step + 1
    last = "" if length == to_the_end else _one(dim, stop)
    return f"{first}:{last}" + (f":{step}" if step != 1 else "")


def _unclipped(length: Dimension) -> Dimension:
    """`a` for `max(a, 0)`: the length of a slice is never negative."""
    atom = types.as_atom(length)
    return atom.args[0] if atom is not None and atom.kind == "max" and atom.args[1] == 0 else length


def _one(dim: Dimension, index: Dimension) -> str:
    """An index as text. Counted from the end (`-1`) where that is known to be shorter."""
    back = index - dim
    return str(back) if isinstance(back, int) and isinstance(dim, Dim) else str(index)


def _brackets(indices: Sequence[str]) -> str:
    kept = list(indices)
    while len(kept) > 1 and kept[-1] == ":":
        kept.pop()
    return f"[{', '.join(kept)}]"


def _slice(formula: _Formula, node: Node, dropped: Sequence[int] = ()) -> Text:
    """A slice as text. Along the axes `dropped`, which have one entry, it is an index."""
    (x,), p = node.operands, node.params
    axes = enumerate(zip(x.type.shape, p["start"], p["length"], p["step"], strict=True))
    indices = [_one(axis[0], axis[1]) if k in dropped else _range(*axis) for k, axis in axes]
    return formula.primary(x) + _brackets(indices), _ATOM


def _set_slice(formula: _Formula, node: Node) -> Text:
    x, v = node.operands
    axes = zip(x.type.shape, node.params["start"], v.type.shape, node.params["step"], strict=True)
    return f"{formula.primary(x)}{_brackets([_range(*axis) for axis in axes])}.set({formula.known[v][0]})", _ATOM


def _gathered(formula: _Formula, node: Node, indices: Iterable[Node]) -> str:
    return _brackets([":"] * node.params["axis"] + [formula.known[index][0] for index in indices])


def _gather(formula: _Formula, node: Node) -> Text:
    x, *indices = node.operands
    return formula.primary(x) + _gathered(formula, node, indices), _ATOM


def _scatter(formula: _Formula, node: Node) -> Text:
    x, v, *indices = node.operands
    method = "inc" if node.params["add"] else "set"
    return f"{formula.primary(x)}{_gathered(formula, node, indices)}.{method}({formula.known[v][0]})", _ATOM


def _dimshuffle(formula: _Formula, node: Node) -> Text:
    (x,), order = node.operands, node.params["order"]
    kept = [axis for axis in order if axis is not None]
    if x.op is SLICE and list(order) == sorted(kept) and len(kept) < x.ndim:
        return _slice(formula, x, dropped=sorted(set(range(x.ndim)) - set(kept)))
    if kept == sorted(kept) and len(kept) == x.ndim:
        return formula.primary(x) + _brackets(["None" if axis is None else ":" for axis in order]), _ATOM
    if list(order) == list(range(x.ndim))[::-1]:
        return formula.primary(x) + ".T", _ATOM
    shown = ", ".join("'x'" if axis is None else str(axis) for axis in order)
    return f"{formula.primary(x)}.dimshuffle({shown})", _ATOM


def _reshape(formula: _Formula, node: Node) -> Text:
    return f"{formula.primary(node.operands[0])}.reshape({', '.join(map(str, node.params['shape']))})", _ATOM


def _concatenate(formula: _Formula, node: Node) -> Text:
    joined = ", ".join(formula.known[arg][0] for arg in node.operands)
    return f"concatenate([{joined}]{''.join(', ' + s for s in _settings(node) if s != 'axis=0')})", _ATOM


def _contract(formula: _Formula, node: Node) -> Text:
    """A matrix product where NumPy's `@` means the same, perhaps of transposes; else an `einsum`."""
    a, b = node.operands
    left, right, out = (node.params[key] for key in ("left", "right", "out"))
    for text_a, labels_a in _both_ways(formula, a, left):
        for text_b, labels_b in _both_ways(formula, b, right):
            if _is_matmul(labels_a, labels_b, out):
                return f"{_inside(text_a, _PRODUCT)} @ {_inside(text_b, _PRODUCT + 1)}", _PRODUCT
    letters = ["".join(chr(ord("i") + label) for label in labels) for labels in (left, right, out)]
    return f"einsum('{letters[0]},{letters[1]}->{letters[2]}', {formula.known[a][0]}, {formula.known[b][0]})", _ATOM


def _both_ways(formula: _Formula, x: Node, labels: tuple[int, ...]) -> Iterator[tuple[Text, tuple[int, ...]]]:
    """An operand and, if it is a matrix, also its transpose."""
    yield formula.known[x], labels
    if len(labels) == 2:
        yield (formula.primary(x) + ".T", _ATOM), labels[::-1]


def _is_matmul(left: tuple[int, ...], right: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """Whether these are the labels of `left @ right`."""
    if not left or not right:
        return False
    rows, batch, summed, columns = left[:-1], right[:-2], right[-2:][0], right[-2:][1:]
    aligned = not batch or rows[:-1][-len(batch) :] == batch
    return left[-1] == summed and summed not in out and out == rows + columns and aligned


def _inside_branch(formula: _Formula, node: Node) -> _Formula:
    """The writer for the branches of an ifelse: in place of their inputs it writes the operands."""
    inputs = zip(node.params["body"].inputs, node.operands[1:], strict=True)
    return _Formula(formula.names, {inner: formula.known[outer] for inner, outer in inputs}, formula.depth)


def _ifelse(formula: _Formula, node: Node) -> Text:
    """`ifelse(condition, a, b)`; several results as tuples."""
    inside, outputs = _inside_branch(formula, node), node.params["body"].outputs
    texts, half = [inside.text(output)[0] for output in outputs], len(outputs) // 2
    branches = [", ".join(texts[:half]), ", ".join(texts[half:])]
    branches = [f"({branch})" if half > 1 else branch for branch in branches]
    return f"ifelse({formula.known[node.operands[0]][0]}, {', '.join(branches)})", _ATOM


def _part(formula: _Formula, node: Node) -> Text:
    whole = node.args[0]
    if whole.op is IFELSE and len(whole.types) == 1:
        return formula.known[whole]
    return f"{formula.known[whole][0]}[{node.params['index']}]", _ATOM


def _inside_scan(formula: _Formula, node: Node) -> tuple[_Formula, str]:
    """The writer for the step of a scan, and the name of its counter. Rows are written `xs[t]`; constants are written
    out."""
    p, names = node.params, formula.names
    index = names.new("tsruvw"[formula.depth] if formula.depth < 6 else "t")
    bound: dict[Node, Text] = {}
    for i, (inner, outer) in enumerate(zip(p["body"].inputs, node.operands, strict=True)):
        if i < p["carries"]:
            bound[inner] = names.new("h"), _ATOM
        elif i < p["carries"] + p["sequences"]:
            bound[inner] = f"{formula.primary(outer)}[{index}]", _ATOM
        else:
            bound[inner] = formula.known[outer]
    return _Formula(names, bound, formula.depth + 1), index


def _scan(formula: _Formula, node: Node) -> Text:
    """`scan{t < steps: carry <- new from initial; y <- output}`."""
    p = node.params
    body, carries = p["body"], p["carries"]
    inside, index = _inside_scan(formula, node)
    bound = inside.known
    own = [bound[inner][0] for inner in body.inputs[:carries]]
    new = [inside.text(output)[0] for output in body.outputs[:carries]]
    lags = {i: f" {lag} steps later" for i, lag in p["lags"]}
    lines = [f"{own[i]} <- {new[i]}{lags.get(i, '')} from {formula.known[node.operands[i]][0]}" for i in range(carries)]
    for name, output in zip(own, body.outputs, strict=False):
        if output.operands:  # the outputs may use the new carries
            inside.known[output] = name + "'", _ATOM
    rest = [inside.text(output)[0] for output in body.outputs[carries:]]
    lines += [f"until {rest.pop()}"] if p["until"] else []
    lines += [f"y{i or ''} <- {text}" for i, text in enumerate(rest)]
    return f"scan{{{index} < {p['length']}{' reversed' if p['reverse'] else ''}: {'; '.join(lines)}}}", _ATOM


_WRITERS: dict[Op, Callable[[_Formula, Node], Text]] = {
    INPUT: lambda formula, node: (formula.names.leaf(node), _ATOM),
    SHARED: lambda formula, node: (formula.names.leaf(node), _ATOM),
    BOUND: lambda formula, node: (f"bound{node.params['index']}", _ATOM),
    CONSTANT: _constant,
    SIZE: lambda formula, node: _dim(node.params["dim"]),
    PART: _part,
    CAST: lambda formula, node: (f"{node.dtype}({formula.known[node.operands[0]][0]})", _ATOM),
    IOTA: lambda formula, node: (f"arange({node.params['length']})", _ATOM),
    SLICE: _slice,
    SET_SLICE: _set_slice,
    GATHER: _gather,
    SCATTER: _scatter,
    DIMSHUFFLE: _dimshuffle,
    RESHAPE: _reshape,
    CONCATENATE: _concatenate,
    CONTRACT: _contract,
    IFELSE: _ifelse,
    SCAN: _scan,
}
