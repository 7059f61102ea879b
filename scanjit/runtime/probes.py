"""What `print_` and `assert_` do when a function runs.

The reference interpreter calls them as it goes. Compiled code cannot print. There, each value that a probe looks at
becomes a result of the program (stacked over the steps of a loop). After the call the probes look at these results, in
the order in which they were computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scanjit import errors, show
from scanjit.ir import PART, Graph, Node, apply, rebuild, walk, with_params
from scanjit.ops.branch import IFELSE
from scanjit.ops.elementwise import INVERT
from scanjit.ops.probe import ASSERT, PRINT, has_probes
from scanjit.ops.reduce import ALL
from scanjit.ops.scan import SCAN, Roles
from scanjit.ops.stretch import zeros_like
from scanjit.runtime.watch import At, Moment, Watch, described

_LONGEST = 200
"""The most characters of a formula."""


class Printing(Watch):
    """The prints of one run. A loop that a gradient runs again prints only once."""

    def __init__(self) -> None:
        self._seen: set[tuple[Any, ...]] = set()

    def computed(self, node: Node, operands: Sequence[Any], value: Any, at: At) -> None:
        if node.op is PRINT:
            self.show(node, value, at)

    def show(self, node: Node, value: np.ndarray, at: At) -> None:
        """Print a value, unless this step of this loop has been printed already."""
        key = (node, *((m.number, *map(id, m.owner.operands)) for m in at))
        if key not in self._seen:
            self._seen.add(key)
            place = described(at)
            print(f"{node.params['message'] or formula(node.args[0], at)}{', in ' + place if place else ''}: {value}")


def formula(node: Node, at: At) -> str:
    """The formula of a node, and the step in which a run is. A long formula is cut."""
    text = show.formula_inside(node, [moment.owner for moment in at])
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def failed(node: Node, at: At) -> errors.AssertError:
    """The error that reports a failed assertion."""
    place, params = described(at), node.params
    return errors.AssertError(
        (params["message"] or "an assertion does not hold") + (f", in {place}" if place else ""),
        got=params.get("got") or f"{formula(node.operands[1], at)} is false",
        fix=params.get("fix"),
        where=node.where,
    )


# ---- compiled code ---------------------------------------------------------------------------------------------------


Rows = tuple[int, ...]
"""A step of each loop around: the index of what a value was in these steps."""


class _Item(ABC):
    """A probe, or an op with probes inside."""

    @abstractmethod
    def looks(self) -> Iterator[_Look]:
        """The probes."""

    @abstractmethod
    def report(self, values: Sequence[np.ndarray], rows: Rows, at: At, out: Printing) -> None:
        """Print values and check assertions, in the order in which they were computed."""


@dataclass(eq=False)
class _Look(_Item):
    """A probe, and the index of its value: the array to print, or whether the condition has failed."""

    node: Node
    value: int

    def looks(self) -> Iterator[_Look]:
        yield self

    def report(self, values: Sequence[np.ndarray], rows: Rows, at: At, out: Printing) -> None:
        value = values[self.value][rows]
        if self.node.op is PRINT:
            out.show(self.node, value, at)
        elif value:
            raise failed(self.node, at)


@dataclass(eq=False)
class _Steps(_Item):
    """A loop with probes in its step; `count` is the value that says how many steps ran, if they may be fewer."""

    node: Node
    items: list[_Item]
    count: int | None

    def looks(self) -> Iterator[_Look]:
        return (look for item in self.items for look in item.looks())

    def report(self, values: Sequence[np.ndarray], rows: Rows, at: At, out: Printing) -> None:
        total = values[next(self.looks()).value].shape[len(rows)]
        for number in range(total if self.count is None else int(values[self.count][rows])):
            row = total - 1 - number if self.node.params["reverse"] else number
            for item in self.items:
                item.report(values, (*rows, row), (*at, Moment(self.node, number, row)), out)


@dataclass(eq=False)
class _Branches(_Item):
    """An ifelse with probes, and the value of its condition."""

    node: Node
    then: list[_Item]
    other: list[_Item]
    condition: int

    def looks(self) -> Iterator[_Look]:
        return (look for item in (*self.then, *self.other) for look in item.looks())

    def report(self, values: Sequence[np.ndarray], rows: Rows, at: At, out: Printing) -> None:
        for item in self.then if values[self.condition][rows] else self.other:
            item.report(values, rows, (*at, Moment(self.node, 0, 0)), out)


@dataclass(eq=False)
class Probes:
    """The probes of a compiled function: `values` are computed beside its results."""

    values: list[Node] = field(default_factory=list)
    items: list[_Item] = field(default_factory=list)

    def report(self, values: Sequence[np.ndarray]) -> None:
        """Print values and check assertions, in the order in which they were computed."""
        looks = [look for item in self.items for look in item.looks()]
        if any(look.node.op is PRINT or values[look.value].any() for look in looks):
            out = Printing()
            for item in self.items:
                item.report(values, (), (), out)


def exposed(outputs: Sequence[Node]) -> tuple[list[Node], Probes]:
    """The outputs without probes, and the probes with the values that they look at."""
    if not has_probes(outputs):
        return list(outputs), Probes()
    level = _Level()
    return level.outputs(outputs), Probes(level.values, level.items)


class _Level:
    """Removes the probes from one graph: of a function, a step or a branch. Indices count in `values`."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.values: list[Node] = []
        self.items: list[_Item] = []
        self._places: dict[Node, int] = {}
        self._done: dict[Node, Node] = {}

    def outputs(self, outputs: Sequence[Node]) -> list[Node]:
        """The outputs without probes."""
        for node in walk(outputs):
            if node not in self._done:
                self._done[node] = self._without(node)
        return [self._done[output] for output in outputs]

    def _without(self, node: Node) -> Node:
        if node.op in (PRINT, ASSERT):
            seen = self._done[node.operands[-1]]
            if node.op is ASSERT:  # rows of steps that do not run are zero: they have not failed
                seen = apply(INVERT, ALL(seen, axes=tuple(range(seen.ndim))) if seen.ndim else seen)
            self.items.append(_Look(node, self._add(seen)))
            return self._done[node.operands[0]]
        new = rebuild(node, tuple(self._done[arg] for arg in node.args))
        body = node.params.get("body")
        if isinstance(body, Graph) and has_probes(body.outputs):
            with errors.located(node.where):
                return self._steps(node, new) if node.op is SCAN else self._branches(node, new)
        if node.op is PART and node.args[0].op is SCAN and node.params["index"] == self._count(node.args[0]):
            return PART(new.args[0], index=self._count(new.args[0]))
        return new

    def _add(self, value: Node) -> int:
        if value not in self._places:
            self._places[value] = self.first + len(self.values)
            self.values.append(value)
        return self._places[value]

    def _count(self, scan: Node) -> int:
        """The index of the result that says how many steps ran."""
        return Roles.of(scan).stacks.stop

    def _steps(self, node: Node, new: Node) -> Node:
        body, roles = new.params["body"], Roles.of(new)
        inner = _Level(self.first + len(self.values))
        outputs = inner.outputs(body.outputs)
        end = roles.stacks.stop
        graph = Graph.of(body.inputs, [*outputs[:end], *inner.values, *outputs[end:]])
        made = with_params(new, body=graph)
        self.values += [PART(made, index=end + k) for k in range(len(inner.values))]
        count = self._add(PART(made, index=self._count(made))) if roles.until else None
        self.items.append(_Steps(node, inner.items, count))
        return made

    def _branches(self, node: Node, new: Node) -> Node:
        assert node.op is IFELSE
        body = new.params["body"]
        half = len(body.outputs) // 2
        levels, sides = [], []
        first = self.first + len(self.values)
        for outputs in (body.outputs[:half], body.outputs[half:]):
            levels.append(_Level(first))
            sides.append(levels[-1].outputs(outputs))
            first += len(levels[-1].values)
        then, other = [(level.values, list(map(zeros_like, level.values))) for level in levels]
        graph = Graph.of(body.inputs, [*sides[0], *then[0], *other[1], *sides[1], *then[1], *other[0]])
        made = with_params(new, body=graph)
        self.values += [PART(made, index=half + k) for k in range(len(then[0]) + len(other[0]))]
        condition = self._add(new.operands[0])
        self.items.append(_Branches(node, levels[0].items, levels[1].items, condition))
        return made
