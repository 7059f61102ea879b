"""A scan taken apart, to be changed and put together again. All loop transforms work on this.

The nodes of the body stay as they are, with the body's bound inputs as origins, unless `OpenScan.same` says that others
stand for some of them. Inputs may be added; inputs and outputs may be removed. `finish` numbers them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from scanjit import errors, ir, types
from scanjit.ir import BOUND, PART, Graph, Node, as_dim, new_input, replace, walk
from scanjit.ops.roles import KEPT, Roles
from scanjit.ops.scan import scan_node
from scanjit.records import record
from scanjit.rewrite.match import is_free
from scanjit.types import Atom, Dimension, Type


@record(frozen=False)
class OpenCarry:
    """A carry of an `OpenScan`. `init` is its initial value, `inner` its symbol in the body, `new` its value after the
    step. With a `lag`, the value is read this many steps later, and `init` has this many rows."""

    init: Node
    inner: Node
    new: Node
    lag: Dimension | None = None

    @property
    def value_type(self) -> Type:
        """The type of one value of the carry, with sizes of nodes outside."""
        return self.init.type if self.lag is None else self.init.type.with_shape(self.init.type.shape[1:])


@record(frozen=False)
class OpenScan:
    """A scan taken apart. `xs` and `consts` map each operand (a node outside) to the body's input for it.

    `results` has an entry for each part of the original scan, except for the count of steps. The entry says what the
    part is now: an `OpenCarry` or a `Y` of this loop, a node outside, a function that makes such a node from the
    finished loop, or None if the part is dropped. Passes may append entries; the first `own` are those of the original
    scan.
    """

    scan: Node
    length: Dimension
    carries: list[OpenCarry]
    xs: dict[Node, Node]
    consts: dict[Node, Node]
    stop: Node | None
    results: list[Result] = field(default_factory=list)
    own: int = 0
    same: dict[Node, Node] = field(default_factory=dict)  # what stands here for inputs of the original body

    @classmethod
    def of(cls, scan: Node) -> OpenScan:
        """Take a scan node apart. An operand that the scan has twice becomes one input. A size that is a constant moves
        into the body."""
        roles, body = Roles.of(scan), scan.params["body"]
        inits, xs, consts = roles.split(scan.operands)
        loop = cls(scan, scan.params["length"], [], {}, {}, None)
        given = [(body.inputs[i].dim_atom, scan.operands[i]) for i, _ in scan.params["sizes"]]
        known = {operand for _, operand in given if is_free(operand) and not operand.args}
        first: dict[Node, Node] = {x: x for x in known}
        for operand, inner in zip(consts, roles.split(body.inputs)[2], strict=True):
            first.setdefault(operand, inner)
        sizes = {atom: first[operand] for atom, operand in given if atom is not None}
        c_in, x_in, k_in = roles.split(_with_sizes(body.inputs, sizes))
        for into, operands, inner in ((loop.xs, xs, x_in), (loop.consts, consts, k_in)):
            for operand, node in zip(operands, inner, strict=True):
                if operand not in known:
                    into.setdefault(operand, node)
        now = [*c_in, *(loop.xs[x] for x in xs), *(loop.consts.get(x, x) for x in consts)]
        loop.same = {old: new for old, new in zip(body.inputs, now, strict=True) if new is not old}
        outputs = replace(body.outputs, loop.same) if loop.same else body.outputs
        new, ys, stop = roles.split_results(outputs)
        loop.carries = [OpenCarry(*c, roles.lags.get(i)) for i, c in enumerate(zip(inits, c_in, new, strict=True))]
        loop.stop = stop
        loop.results = [*loop.carries, *map(Y, ys)]
        loop.own = len(loop.results)
        return loop

    # ---- inputs ------------------------------------------------------------------------------------------------------

    @property
    def where(self) -> str:
        """Where the user wrote the scan."""
        return self.scan.where

    def x(self, operand: Node) -> Node:
        """The body's input for a row of a sequence (a node outside). Adds the input if there is none yet."""
        return self._input(self.xs, operand, operand.type.with_shape(operand.type.shape[1:]))

    def const(self, operand: Node) -> Node:
        """The body's input for a constant (a node outside). Adds the input if there is none yet."""
        return self._input(self.consts, operand, operand.type)

    def _input(self, inputs: dict[Node, Node], operand: Node, type_: Type) -> Node:
        if operand not in inputs:
            inputs[operand] = new_input(self._inside(type_))
        return inputs[operand]

    def _inside(self, type_: Type) -> Type:
        """The type inside of a type outside: sizes that are values of nodes outside become values of the body's
        inputs."""
        known = {
            node.dim_atom: as_dim(self.const(node))
            for node in ir.dim_nodes({"type": type_})
            if node.dim_atom is not None
        }
        return ir.map_dims(type_, lambda dim: types.substitute(dim, known)) if known else type_

    # ---- what depends on what ----------------------------------------------------------------------------------------

    @property
    def outputs(self) -> list[Node]:
        """All outputs of the body."""
        return [*(c.new for c in self.carries), *self.ys, *self.ends]

    @property
    def ys(self) -> list[Node]:
        """The values that are stacked: those of the results that are a `Y`, once each."""
        return list(dict.fromkeys(result.node for result in self.results if isinstance(result, Y)))

    @property
    def ends(self) -> list[Node]:
        """The condition to stop, as a list."""
        return [] if self.stop is None else [self.stop]

    def set_outputs(self, nodes: Iterable[Node]) -> None:
        """Replace all outputs of the body, in the order of `outputs`; `results` follow."""
        new = list(nodes)
        swapped = dict(zip(self.outputs, new, strict=True))
        for carry, node in zip(self.carries, new, strict=False):
            carry.new = node
        if self.stop is not None:
            self.stop = new[-1]
        for result in self.results:
            if isinstance(result, Y):
                result.node = swapped.get(result.node, result.node)

    def substitute(self, mapping: Mapping[Node, Node]) -> None:
        """Replace nodes in the body."""
        if mapping:
            self.set_outputs(replace(self.outputs, mapping))

    def depends(self, roots: Iterable[Node]) -> set[Node]:
        """The nodes of the body that depend on any of `roots`."""
        return ir.dependents(walk(self.outputs), roots)

    def outside(self) -> dict[Node, Node]:
        """For each constant's inner node: the node outside."""
        return {inner: operand for operand, inner in self.consts.items()}

    # ---- together again ----------------------------------------------------------------------------------------------

    def add_y(self, node: Node) -> Y:
        """Stack a value of the body over time: one more result."""
        y = Y(node)
        self.results.append(y)
        return y

    def add_carry(self, init: Node, after: Callable[[Node], Node]) -> OpenCarry:
        """Add a carry, and a result for it. `after` makes its new value from its symbol."""
        inner = new_input(self._inside(init.type))
        carry = OpenCarry(init, inner, after(inner))
        self.carries.append(carry)
        self.results.append(carry)
        return carry

    def absorb(self, other: OpenScan) -> tuple[list[Result], Y | None]:
        """Run the steps of another loop in this one too. Returns the present form of its results, and its condition to
        stop as a y."""
        fresh = {c.inner: new_input(self._inside(c.value_type)) for c in other.carries}
        mapping = dict(fresh)
        mapping |= {inner: self.x(operand) for operand, inner in other.xs.items()}
        mapping |= {inner: self.const(operand) for operand, inner in other.consts.items()}
        new = replace(other.outputs, mapping)
        pairs = zip(other.carries, new, strict=False)
        carries = {id(c): OpenCarry(c.init, fresh[c.inner], node, c.lag) for c, node in pairs}
        ys = dict(zip(other.ys, new[len(carries) :], strict=False))
        self.carries += carries.values()
        found: list[Result] = []
        for result in other.results:
            found.append(self.add_y(ys[result.node]) if isinstance(result, Y) else carries[id(result)])
        stop = None if other.stop is None else self.add_y(new[-1])
        self.results += [r for r in found if isinstance(r, OpenCarry)]
        return found, stop

    def finish(self, **changed: bool | int) -> Finished:
        """Put the scan together. `changed`: parameters that differ from those of the original scan."""
        self._drop_unused()
        inputs = [*(c.inner for c in self.carries), *self.xs.values(), *self.consts.values()]
        params = {**{name: self.scan.params[name] for name in KEPT}, "length": self.length, **changed}
        with errors.located(self.where):
            body = Graph.of(inputs, self.outputs)
            inits = [c.init for c in self.carries]
            lags = {i: c.lag for i, c in enumerate(self.carries) if c.lag is not None}
            new = scan_node(body, inits, list(self.xs), list(self.consts), lags=lags, **params)
        return Finished(self, new)

    def _drop_unused(self) -> None:
        """Remove sequences and constants that the body does not use."""
        used = set(walk([*self.outputs, *(c.inner for c in self.carries)]))
        self.xs = {operand: inner for operand, inner in self.xs.items() if inner in used}
        used.update(walk(self.xs.values()))
        self.consts = {operand: inner for operand, inner in self.consts.items() if inner in used}


def _with_sizes(inputs: Sequence[Node], sizes: Mapping[Atom, Node]) -> list[Node]:
    """The inputs of a body where other nodes stand for sizes: their types use these nodes."""
    new = {atom: as_dim(node) for atom, node in sizes.items() if node.dim_atom is not atom}
    if not new:
        return list(inputs)
    types_ = [ir.map_dims(node.type, lambda dim: types.substitute(dim, new)) for node in inputs]
    return [BOUND(index=i, type=type_) for i, type_ in enumerate(types_)]


class Y:
    """A value of the body that is stacked over time, as a result of a loop."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node


Later = Callable[["Finished"], Node]
Result = OpenCarry | Y | Node | Later | None
"""The present form of a part of the original scan; see `OpenScan.results`."""


@record(frozen=False)
class Finished:
    """A loop put together: its node, and its results as parts of it."""

    loop: OpenScan
    node: Node

    def carry(self, carry: OpenCarry) -> Node:
        """The final value of a carry."""
        index = next(i for i, c in enumerate(self.loop.carries) if c is carry)
        return PART(self.node, index=index)

    def y(self, node: Node) -> Node:
        """A value of the body, stacked over time."""
        index = next(i for i, y in enumerate(self.loop.ys) if y is node)
        return PART(self.node, index=len(self.loop.carries) + index)

    def result(self, result: Result) -> Node:
        """The node of a result of the original scan."""
        if isinstance(result, OpenCarry):
            return self.carry(result)
        if isinstance(result, Y):
            return self.y(result.node)
        assert result is not None  # it was not dropped
        return result if isinstance(result, Node) else result(self)

    def parts(self) -> dict[int, Node]:
        """All results of the original scan that are still there, by index."""
        own = self.loop.results[: self.loop.own]
        found = {i: self.result(r) for i, r in enumerate(own) if r is not None}
        if self.loop.stop is not None:
            found[self.loop.own] = self.count()
        return found

    def count(self) -> Node:
        """The number of steps that ran."""
        return PART(self.node, index=len(self.loop.carries) + len(self.loop.ys))
