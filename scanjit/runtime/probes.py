"""The work of `print_` and `assert_` when a function runs.

The reference interpreter calls them as it goes. Compiled code cannot print. There, each value that a probe looks at
becomes a result of the program (stacked over the steps of a loop). After the call, the probes look at these results in
the order in which they were computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property, partial
from typing import Any

import numpy as np

from scanjit import errors, show, types
from scanjit.ir import CONSTANT, PART, Graph, Node, apply, as_dim, constant, rebuild, replace, walk, with_params
from scanjit.ops.branch import IFELSE
from scanjit.ops.elementwise import INVERT, OR
from scanjit.ops.extremes import ALL, ANY
from scanjit.ops.probe import ASSERT, PRINT, has_probes
from scanjit.ops.roles import Roles
from scanjit.ops.scan import SCAN
from scanjit.ops.stretch import constant_value, zeros_like
from scanjit.records import record
from scanjit.runtime.watch import At, Moment, Watch, described
from scanjit.types import Dimension

_LONGEST = 200
"""The most characters of a formula."""
_MOST_STEPS = 2**40
"""A loop of more steps has an `until`, and no limit from which its memory could be planned."""


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
            print(f"{node.params['message'] or formula(node.args[0], at)}{described(at)}: {value}")


def formula(node: Node, at: At) -> str:
    """The formula of a node, and the step in which a run is. A long formula is cut."""
    text = show.formula_inside(node, [moment.owner for moment in at])
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def failed(node: Node, at: At) -> errors.AssertError:
    """The error that reports a failed assertion."""
    params = node.params
    return errors.AssertError(
        (params["message"] or "an assertion does not hold") + described(at),
        got=params.get("got") or f"{formula(node.operands[1], at)} is false",
        fix=params.get("fix"),
        where=node.where,
    )


# ---- compiled code ---------------------------------------------------------------------------------------------------


Rows = tuple[int, ...]
"""For the steps of the loops around, the index of the value in these steps."""


class _Item(ABC):
    """A probe, or an op with probes inside it."""

    @abstractmethod
    def looks(self, inside: At = ()) -> Iterator[tuple[_Look, At]]:
        """The probes, each with the loops and branches around it."""

    @abstractmethod
    def report(self, values: Sequence[np.ndarray], rows: Rows, at: At, out: Printing) -> None:
        """Print values and check assertions, in the order in which they were computed."""


@record(frozen=False)
class _Look(_Item):
    """A probe, and the index of its value: the array to print, or whether the condition has failed. `inside` a loop
    whose steps are not told apart, the value says whether it has failed in any step."""

    node: Node
    value: int
    inside: At = ()

    def looks(self, inside: At = ()) -> Iterator[tuple[_Look, At]]:
        yield self, (*inside, *self.inside)

    def report(self, values: Sequence[np.ndarray], rows: Rows, at: At, out: Printing) -> None:
        value = values[self.value][rows]
        if self.node.op is PRINT:
            out.show(self.node, value, at)
        elif value:
            raise failed(self.node, (*at, *self.inside))


@record(frozen=False)
class _Steps(_Item):
    """A loop with probes in its step; `count` is the value that says how many steps ran, if they may be fewer."""

    node: Node
    items: list[_Item]
    count: int | None

    def looks(self, inside: At = ()) -> Iterator[tuple[_Look, At]]:
        inside = (*inside, Moment(self.node, -1, 0))
        return (found for item in self.items for found in item.looks(inside))

    def report(self, values: Sequence[np.ndarray], rows: Rows, at: At, out: Printing) -> None:
        total = values[next(self.looks())[0].value].shape[len(rows)]
        for number in range(total if self.count is None else int(values[self.count][rows])):
            row = total - 1 - number if self.node.params["reverse"] else number
            for item in self.items:
                item.report(values, (*rows, row), (*at, Moment(self.node, number, row)), out)


@record(frozen=False)
class _Branches(_Item):
    """An ifelse with probes, and the value of its condition."""

    node: Node
    then: list[_Item]
    other: list[_Item]
    condition: int

    def looks(self, inside: At = ()) -> Iterator[tuple[_Look, At]]:
        inside = (*inside, Moment(self.node, 0, 0))
        return (found for item in (*self.then, *self.other) for found in item.looks(inside))

    def report(self, values: Sequence[np.ndarray], rows: Rows, at: At, out: Printing) -> None:
        for item in self.then if values[self.condition][rows] else self.other:
            item.report(values, rows, (*at, Moment(self.node, 0, 0)), out)


@record(frozen=False)
class Probes:
    """The probes of a compiled function: `values` are computed beside its results."""

    values: list[Node] = field(default_factory=list)
    items: list[_Item] = field(default_factory=list)

    def report(self, values: Sequence[np.ndarray]) -> None:
        """Print values and check assertions, in the order in which they were computed."""
        looked_at = [values[i] for i in self._conditions]
        if self._prints or any([value.any() if value.ndim else value for value in looked_at]):
            out = Printing()
            for item in self.items:
                item.report(values, (), (), out)

    @cached_property
    def _prints(self) -> bool:
        """Whether any of the probes prints."""
        return any(look.node.op is PRINT for item in self.items for look, _ in item.looks())

    @cached_property
    def _conditions(self) -> list[int]:
        """The indices of the values that say whether assertions have failed."""
        return [look.value for item in self.items for look, _ in item.looks() if look.node.op is ASSERT]


def _is_unlimited(size: Dimension) -> bool:
    """Whether a number of steps is that of a `while_loop` without `max_steps`. At the top level such a loop runs twice:
    how many steps it has is known before the second run."""
    if isinstance(size, int):
        return size > _MOST_STEPS
    computed = walk([atom.node for atom in types.atoms(size) if atom.kind == "value"])
    numbers = [constant_value(node) for node in computed if node.op is CONSTANT and node.type.kind.integral]
    return any((number > _MOST_STEPS).any() for number in numbers if number is not None)


def _cannot_print(node: Node) -> errors.NotSupportedError:
    return errors.NotSupportedError(
        "a compiled function prints no more steps, and no larger arrays, than are known before it runs",
        fix='mode="reference" prints them',
        where=node.where,
    )


def exposed(outputs: Sequence[Node]) -> tuple[list[Node], Probes]:
    """The outputs without probes, and the probes with the values that they look at."""
    if not has_probes(outputs):
        return list(outputs), Probes()
    level = _Level()
    return level.outputs(outputs), Probes(level.values, level.items)


class _Level:
    """Removes the probes from one graph: of a function, or of a step or a branch of the node `around`. Indices count in
    `values`."""

    def __init__(self, first: int = 0, around: Node | None = None) -> None:
        self.first, self.around = first, around
        self.values: list[Node] = []
        self.items: list[_Item] = []
        self._places: dict[Node, int] = {}
        self._done: dict[Node, Node] = {}
        self._parts: dict[Node, dict[int, Node]] = {}
        """The results of a loop with probes, by index: its new node has more results."""

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
            if any(map(self._is_unplanned, seen.type.shape)):
                raise _cannot_print(node)
            self.items.append(_Look(node, self._add(seen)))
            return self._done[node.operands[0]]
        new = rebuild(node, tuple(self._done[arg] for arg in node.args))
        body = node.params.get("body")
        if isinstance(body, Graph) and has_probes(body.outputs):
            with errors.located(node.where):
                return self._steps(node, new) if node.op is SCAN else self._branches(node, new)
        if node.op is PART and node.args[0] in self._parts:
            return self._parts[node.args[0]][node.params["index"]]
        return new

    def _add(self, value: Node) -> int:
        if value not in self._places:
            self._places[value] = self.first + len(self.values)
            self.values.append(value)
        return self._places[value]

    def _is_unplanned(self, size: Dimension) -> bool:
        """Whether a step or a branch computes the size, so that it can give no result of so many rows."""
        if self.around is None:
            return False
        inputs = self.around.params["body"].inputs
        given = {inputs[i].dim_atom for i, _ in self.around.params["sizes"]}
        computed = any(atom.kind == "value" and atom not in given for atom in types.atoms(size))
        return computed or _is_unlimited(size)

    def _steps(self, node: Node, new: Node) -> Node:
        body, roles = new.params["body"], Roles.of(new)
        inner = _Level(self.first + len(self.values), new)
        outputs = inner.outputs(body.outputs)
        steps = _Steps(node, inner.items, None)
        length, end = new.params["length"], roles.stacks.stop
        bare = with_params(new, body=Graph.of(body.inputs, outputs))
        if self._is_unplanned(length):
            return self._any_step(steps, bare, {inner.first + k: value for k, value in enumerate(inner.values)})
        ran = as_dim(PART(bare, index=end)) if _is_unlimited(length) else length
        stacked = [*outputs[:end], *inner.values, *outputs[end:]]
        made = with_params(new, body=Graph.of(body.inputs, stacked), length=ran)
        whole = bare if _is_unlimited(length) else made
        self._parts[node] = {i: PART(whole, index=i) for i in range(end)}
        self.values += [PART(made, index=end + k) for k in range(len(inner.values))]
        if roles.until:
            self._parts[node][end] = PART(whole, index=Roles.of(whole).stacks.stop)
            steps.count = self._add(PART(made, index=Roles.of(made).stacks.stop))
        self.items.append(steps)
        return made

    def _any_step(self, steps: _Steps, bare: Node, values: dict[int, Node]) -> Node:
        """The loop `bare`, whose number of steps is not known before it runs. Each assertion becomes a carry of it:
        whether it has failed in any step. `values` are the values of the step that the probes look at."""
        from scanjit.rewrite.loop import OpenScan  # who asserts nothing there need not wait for the rewrites

        loop, found = OpenScan.of(bare), []
        for look, inside in steps.looks():
            if look.node.op is PRINT:
                raise _cannot_print(look.node)
            (value,) = replace([values[look.value]], loop.same)
            failed = ANY(value, axes=tuple(range(value.ndim))) if value.ndim else value
            found.append((look.node, loop.add_carry(constant(np.False_), partial(apply, OR, failed)), inside))
        done = loop.finish()
        self._parts[steps.node] = done.parts()
        self.items += [_Look(probe, self._add(done.carry(carry)), inside) for probe, carry, inside in found]
        return done.node

    def _branches(self, node: Node, new: Node) -> Node:
        assert node.op is IFELSE
        body = new.params["body"]
        half = len(body.outputs) // 2
        levels, sides = [], []
        first = self.first + len(self.values)
        for outputs in (body.outputs[:half], body.outputs[half:]):
            levels.append(_Level(first, new))
            sides.append(levels[-1].outputs(outputs))
            first += len(levels[-1].values)
        then, other = [(level.values, list(map(zeros_like, level.values))) for level in levels]
        graph = Graph.of(body.inputs, [*sides[0], *then[0], *other[1], *sides[1], *then[1], *other[0]])
        made = with_params(new, body=graph)
        self.values += [PART(made, index=half + k) for k in range(len(then[0]) + len(other[0]))]
        condition = self._add(new.operands[0])
        self.items.append(_Branches(node, levels[0].items, levels[1].items, condition))
        return made
