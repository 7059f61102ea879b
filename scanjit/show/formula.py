"""`pprint`: one expression as a formula."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from scanjit import errors, ir, types
from scanjit.ir import BOUND, CONSTANT, INPUT, PART, SHARED, SIZE, Graph, Node, Op
from scanjit.ops.branch import IFELSE
from scanjit.ops.contraction import CONTRACT
from scanjit.ops.expect import EXPECT, SPECIFY_SHAPE
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.promotion import CAST
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import CONCATENATE, IOTA, RESHAPE, SET_SLICE, SLICE
from scanjit.ops.view import DIMSHUFFLE
from scanjit.show.identifiers import free_name
from scanjit.show.operators import ATOM, INFIX, PREFIX, SUM, UNARY, Text, infix, matrix_product, subscripts
from scanjit.show.subject import number, origin_name, setting, subject
from scanjit.types import Dim, Dimension

_LONGEST = 20_000
"""The most characters of a formula. Shared parts are written out at each use, so a formula could grow without
bounds."""


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
    return formula.text(node).text


class _Names:
    """Names of origins: their own, or numbered ones for those without."""

    def __init__(self) -> None:
        self._given: dict[Any, str] = {}
        self._used: set[str] = set()

    def origin(self, node: Node) -> str:
        """The name of an input or a shared variable."""
        if node not in self._given:
            self._given[node] = origin_name(node) or self.new("shared" if node.op is SHARED else "x")
            self._used.add(self._given[node])
        return self._given[node]

    def new(self, stem: str) -> str:
        """A new name: the stem, or the stem and a number if the stem is taken."""
        name = free_name(stem, self._used, "", 1)
        self._used.add(name)
        return name


class _Formula:
    """Writes formulas of nodes. `bound` has the names of the inputs of a scan's body."""

    def __init__(self, names: _Names, bound: dict[Node, Text] | None = None, depth: int = 0) -> None:
        self.names, self.depth = names, depth
        self.known: dict[Node, Text] = dict(bound or {})

    def text(self, root: Node) -> Text:
        """The formula of a node."""
        order = ir.walk([root], self.known.keys())
        origins = [node for node in order if node.op in (INPUT, SHARED) and node not in self.known]
        for node in sorted(origins, key=lambda node: origin_name(node) is None):  # given names before made-up ones
            self.names.origin(node)
        for node in order:
            if node not in self.known:
                made = self._make(node)
                self.known[node] = made if len(made.text) <= _LONGEST else Text("...", ATOM)
        return self.known[root]

    def _make(self, node: Node) -> Text:
        op = node.op
        if op in _WRITERS:
            return _WRITERS[op](self, node)
        if op in INFIX:
            return infix(op, *(self.known[x] for x in node.operands))
        if op in PREFIX:
            return Text(PREFIX[op] + self.known[node.operands[0]].within(UNARY), UNARY)
        arguments = [self.known[arg].text for arg in node.operands]
        return Text(f"{op.name}({', '.join([*arguments, *_settings(node)])})", ATOM)

    def primary(self, node: Node) -> str:
        """A formula in front of `[...]` or `.name`."""
        return self.known[node].within(ATOM)


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
    return Text(text, UNARY if text.startswith("-") else ATOM)


def _dim(dim: Dimension) -> Text:
    return Text(str(dim), ATOM if isinstance(dim, int) or types.as_atom(dim) is not None else SUM)


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
    """`a` for `max(a, 0)`, as the length of a slice is never negative."""
    atom = types.as_atom(length)
    return atom.args[0] if atom is not None and atom.kind == "max" and atom.args[1] == 0 else length


def _one(dim: Dimension, index: Dimension) -> str:
    """An index as text. Counted from the end (`-1`) where that is known to be shorter."""
    back = index - dim
    return str(back) if isinstance(back, int) and isinstance(dim, Dim) else str(index)


def _slice(formula: _Formula, node: Node, dropped: Sequence[int] = ()) -> Text:
    """A slice as text. Along the axes `dropped`, which have one entry, it is an index."""
    (x,), p = node.operands, node.params
    axes = enumerate(zip(x.type.shape, p["start"], p["length"], p["step"], strict=True))
    indices = [_one(axis[0], axis[1]) if k in dropped else _range(*axis) for k, axis in axes]
    return formula.known[x].indexed(indices)


def _set_slice(formula: _Formula, node: Node) -> Text:
    x, v = node.operands
    axes = zip(x.type.shape, node.params["start"], v.type.shape, node.params["step"], strict=True)
    place = formula.known[x].indexed([_range(*axis) for axis in axes])
    return Text(f"{place.text}.set({formula.known[v].text})", ATOM)


def _at(formula: _Formula, node: Node, x: Node, indices: Iterable[Node]) -> Text:
    """`x[:, i, j]`, with the indices of a gather or a scatter."""
    return formula.known[x].indexed([":"] * node.params["axis"] + [formula.known[index].text for index in indices])


def _gather(formula: _Formula, node: Node) -> Text:
    x, *indices = node.operands
    return _at(formula, node, x, indices)


def _scatter(formula: _Formula, node: Node) -> Text:
    x, v, *indices = node.operands
    method = "inc" if node.params["add"] else "set"
    return Text(f"{_at(formula, node, x, indices).text}.{method}({formula.known[v].text})", ATOM)


def _dimshuffle(formula: _Formula, node: Node) -> Text:
    (x,), order = node.operands, node.params["order"]
    kept = [axis for axis in order if axis is not None]
    if x.op is SLICE and list(order) == sorted(kept) and len(kept) < x.ndim:
        return _slice(formula, x, dropped=sorted(set(range(x.ndim)) - set(kept)))
    if kept == sorted(kept) and len(kept) == x.ndim:
        return formula.known[x].indexed(["None" if axis is None else ":" for axis in order])
    if list(order) == list(range(x.ndim))[::-1]:
        return formula.known[x].transposed()
    shown = ", ".join("'x'" if axis is None else str(axis) for axis in order)
    return Text(f"{formula.primary(x)}.dimshuffle({shown})", ATOM)


def _reshape(formula: _Formula, node: Node) -> Text:
    return Text(f"{formula.primary(node.operands[0])}.reshape({', '.join(map(str, node.params['shape']))})", ATOM)


def _concatenate(formula: _Formula, node: Node) -> Text:
    joined = ", ".join(formula.known[arg].text for arg in node.operands)
    return Text(f"concatenate([{joined}]{''.join(', ' + s for s in _settings(node) if s != 'axis=0')})", ATOM)


def _contract(formula: _Formula, node: Node) -> Text:
    """A matrix product where NumPy's `@` means the same, perhaps of transposes; else an `einsum`."""
    a, b = (formula.known[x] for x in node.operands)
    labels = [node.params[key] for key in ("left", "right", "out")]
    product = matrix_product(a, b, *labels)
    return product or Text(f"einsum('{subscripts('i', *labels)}', {a.text}, {b.text})", ATOM)


def _inside_branch(formula: _Formula, node: Node) -> _Formula:
    """The writer for the branches of an ifelse: in place of their inputs it writes the operands."""
    inputs = zip(node.params["body"].inputs, node.operands[1:], strict=True)
    return _Formula(formula.names, {inner: formula.known[outer] for inner, outer in inputs}, formula.depth)


def _ifelse(formula: _Formula, node: Node) -> Text:
    """`ifelse(condition, a, b)`; several results as tuples."""
    inside, outputs = _inside_branch(formula, node), node.params["body"].outputs
    texts, half = [inside.text(output).text for output in outputs], len(outputs) // 2
    branches = [", ".join(texts[:half]), ", ".join(texts[half:])]
    branches = [f"({branch})" if half > 1 else branch for branch in branches]
    return Text(f"ifelse({formula.known[node.operands[0]].text}, {', '.join(branches)})", ATOM)


def _part(formula: _Formula, node: Node) -> Text:
    whole = node.args[0]
    if whole.op is IFELSE and len(whole.types) == 1:
        return formula.known[whole]
    return Text(f"{formula.known[whole].text}[{node.params['index']}]", ATOM)


def _inside_scan(formula: _Formula, node: Node) -> tuple[_Formula, str]:
    """The writer for the step of a scan, and the name of its counter. Rows are written `xs[t]`; constants are written
    out."""
    p, names = node.params, formula.names
    index = names.new("tsruvw"[formula.depth] if formula.depth < 6 else "t")
    bound: dict[Node, Text] = {}
    for i, (inner, outer) in enumerate(zip(p["body"].inputs, node.operands, strict=True)):
        if i < p["carries"]:
            bound[inner] = Text(names.new("h"), ATOM)
        elif i < p["carries"] + p["sequences"]:
            bound[inner] = formula.known[outer].indexed([index])
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
    new = [inside.text(output).text for output in body.outputs[:carries]]
    lags = {i: f" {lag} steps later" for i, lag in p["lags"]}
    lines = [f"{own[i]} <- {new[i]}{lags.get(i, '')} from {formula.known[node.operands[i]][0]}" for i in range(carries)]
    for name, output in zip(own, body.outputs, strict=False):
        if output.operands:  # the outputs may use the new carries
            inside.known[output] = Text(name + "'", ATOM)
    rest = [inside.text(output).text for output in body.outputs[carries:]]
    lines += [f"until {rest.pop()}"] if p["until"] else []
    lines += [f"y{i or ''} <- {text}" for i, text in enumerate(rest)]
    return Text(f"scan{{{index} < {p['length']}{' reversed' if p['reverse'] else ''}: {'; '.join(lines)}}}", ATOM)


_WRITERS: dict[Op, Callable[[_Formula, Node], Text]] = {
    INPUT: lambda formula, node: Text(formula.names.origin(node), ATOM),
    SHARED: lambda formula, node: Text(formula.names.origin(node), ATOM),
    BOUND: lambda formula, node: Text(f"bound{node.params['index']}", ATOM),
    CONSTANT: _constant,
    SIZE: lambda formula, node: _dim(node.params["dim"]),
    PART: _part,
    EXPECT: lambda formula, node: formula.known[node.operands[0]],
    SPECIFY_SHAPE: lambda formula, node: formula.known[node.operands[0]],
    CAST: lambda formula, node: Text(f"{node.dtype}({formula.known[node.operands[0]].text})", ATOM),
    IOTA: lambda formula, node: Text(f"arange({node.params['length']})", ATOM),
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
