"""The rewriting engine: a table of rules, applied from the origins up until none applies, inside scan bodies too."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

from scanjit import errors
from scanjit.ir import PART, Graph, Node, Op, rebuild, rebuilt, users_among, walk, walk_inside, with_body
from scanjit.ops.scan import SCAN
from scanjit.ops.stretch import zeros_like
from scanjit.records import record


@record(eq=True)
class Note:
    """What a pass did, or why it did not.

    Parameters
    ----------
    pass_name : the name in `PIPELINE` or `LOOPS`.
    where : `file:line` of the user's code that the note is about; "" if there is none.
    text : one sentence.
    """

    pass_name: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.pass_name}: {self.text}" + (f" ({self.where})" if self.where else "")


Used = Callable[[Node], int]
"""How many nodes use an operand."""
Function = Callable[[Node], Node | None]
Counting = Callable[[Node, Used], Node | None]
Nested = Callable[[Node, Node], Node | None]


@record(eq=True)
class Rule:
    """A rule of local algebra: `function(node, used)` gives an equal node, or None if the rule does not apply."""

    name: str
    ops: tuple[Op | type[Op], ...]
    function: Counting
    of: tuple[Op, ...] = ()
    """The ops of the first operand; any op if there are none."""
    among: tuple[Op, ...] = ()
    """Ops of which an operand must be; any op if there are none."""
    counts: bool = False
    """Whether it asks how often an operand is used. The result of any other rule follows from the node alone."""

    def is_for(self, op: Op) -> bool:
        """Whether the rule may apply to nodes of an op: it names the op or the op's class, or it is for all ops."""
        return not self.ops or any(op is own or (isinstance(own, type) and isinstance(op, own)) for own in self.ops)

    def takes(self, operands: Sequence[Op]) -> bool:
        """Whether the rule may apply to nodes with operands of these ops."""
        first = not self.of or (len(operands) > 0 and operands[0] in self.of)
        return first and (not self.among or not set(self.among).isdisjoint(operands))


class RuleTable:
    """A table of rules, looked up by the op of the node to replace, and by the ops of its operands."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules: list[Rule] = list(rules)
        self._of_op: dict[Op, list[Rule]] = {}
        self._of_node: dict[tuple[object, ...], list[Rule]] = {}
        """The rules for nodes of an op, settled or not, with operands of some ops. A new dict for each rule that is
        added: a node refers to the one for whose rules it was `settled`."""

    def rule(self, *ops: Op | type[Op], among: Sequence[Op] = ()) -> Callable[[Function], Function]:
        """Decorator: add a rule for nodes of these ops, or of ops of these classes (none given: of any op), at least
        one of whose operands is a node of an op `among` these (none given: of any op)."""

        def add(function: Function) -> Function:
            wrapped = functools.wraps(function)(lambda node, used: function(node))
            self._add(Rule(function.__name__.strip("_"), ops, wrapped, among=tuple(among)))
            return function

        return add

    def nested(self, *ops: Op | type[Op], of: Sequence[Op]) -> Callable[[Nested], Nested]:
        """Decorator: as `rule`, for nodes whose first operand is a node of an op in `of`. The rule gets both."""

        def add(function: Nested) -> Nested:
            wrapped = functools.wraps(function)(lambda node, used: function(node, node.args[0]))
            self._add(Rule(function.__name__.strip("_"), ops, wrapped, tuple(of)))
            return function

        return add

    def counting(self, *ops: Op | type[Op]) -> Callable[[Counting], Counting]:
        """Decorator: as `rule`, for a rule that asks how often an operand is used."""

        def add(function: Counting) -> Counting:
            self._add(Rule(function.__name__.strip("_"), ops, function, counts=True))
            return function

        return add

    def _add(self, rule: Rule) -> None:
        self.rules.append(rule)
        self._of_op, self._of_node = {}, {}

    def __or__(self, other: RuleTable) -> RuleTable:
        """The union of both tables. Rules of this table come first."""
        return RuleTable([*self.rules, *other.rules])

    def of(self, node: Node) -> list[Rule]:
        """The rules that may apply to a node, in the order in which they are tried, those for any op last. If none of
        them has changed the node before, only the rules that count users."""
        settled, below = node.settled is self._of_node, [arg.op for arg in node.operands]
        key = (node.op, settled, below[0] if below else None, frozenset(below))
        found = self._of_node.get(key)
        if found is None:
            if (named := self._of_op.get(node.op)) is None:
                some = (rule for rule in self.rules if rule.is_for(node.op))
                named = self._of_op[node.op] = sorted(some, key=lambda rule: not rule.ops)
            found = [rule for rule in named if (rule.counts or not settled) and rule.takes(below)]
            self._of_node[key] = found
        return found

    def apply(self, node: Node, used: Callable[[Node], int]) -> tuple[Rule, Node] | None:
        """The first rule that changes the node, and the new node."""
        if rules := self.of(node):
            with errors.located(node.where):
                for rule in rules:
                    new = rule.function(node, used)
                    if new is not None and new is not node:
                        return rule, new
        node.settled = self._of_node
        return None


class Rewriter:
    """Rewrites graphs by a table of rules. Remembers the final form of every node and body that it has seen.

    The node that a rule returns is rewritten again, so a rule may build nodes that are not in their final form.
    """

    def __init__(self, rules: RuleTable, limit: int = 200_000) -> None:
        self.rules, self.limit = rules, limit
        self.counts: dict[str, int] = {}
        self._final: dict[Node, Node] = {}
        self._next: dict[Node, Node] = {}
        self._bodies: dict[Graph, Graph] = {}
        self._before: dict[Node, int] = {}  # how often nodes of the given graphs are used
        self._used: dict[Node, int] = {}  # the same of what they have become

    def __call__(self, outputs: Sequence[Node]) -> list[Node]:
        """The outputs in their final form."""
        if not any(map(self.rules.of, walk_inside(outputs))):
            return list(outputs)
        users = itertools.chain(set(outputs), *[set(node.args) for node in walk(outputs)])
        self._before |= collections.Counter(users)
        for output in outputs:
            self._finish(output)
        return [self._final[output] for output in outputs]

    def used(self, node: Node) -> int:
        """How many nodes use a final node; 1 for a node that a rule has made."""
        return self._used.get(node, 1)

    def _finish(self, root: Node) -> None:
        final, following = self._final, self._next
        stack = [root]
        while stack:
            node = stack[-1]
            if node in final:
                stack.pop()
                continue
            if node not in following:
                missing = [arg for arg in node.args if arg not in final]
                if missing:
                    stack.extend(missing)
                    continue
                step = self._step(node)
                if step is node:
                    self._settle(node, node)
                    continue
                following[node] = step
            step = following[node]
            if step in final:
                self._settle(node, final[step])
            elif step in following:
                raise errors.InternalError("the rules turn a node into itself", got=f"{node!r}, {step!r}")
            else:
                stack.append(step)

    def _settle(self, node: Node, final: Node) -> None:
        self._final[node] = final
        if node in self._before:
            self._used[final] = self._used.get(final, 0) + self._before[node]

    def _step(self, node: Node) -> Node:
        """The node after one step: final arguments, then a final body, then one rule."""
        args = tuple(map(self._final.__getitem__, node.args))
        if not all(map(operator.is_, node.args, args)):
            return rebuild(node, args)
        if "body" in node.params:
            body = self._body(node.params["body"], node.op.is_branch)
            if body is not node.params["body"]:
                return with_body(node, body)
        applied = self.rules.apply(node, self.used)
        if applied is None:
            return node
        rule, new = applied
        self.counts[rule.name] = self.counts.get(rule.name, 0) + 1
        self.limit -= 1
        if self.limit < 0:
            raise errors.InternalError(f"the rules do not come to an end; the last one was {rule.name}", got=node)
        return new

    def _body(self, graph: Graph, branches: bool) -> Graph:
        if graph not in self._bodies:
            middle = len(graph.outputs) // 2
            halves = [graph.outputs[:middle], graph.outputs[middle:]]
            outputs = itertools.chain(*map(self._branch, halves)) if branches else self(graph.outputs)
            new = graph.with_outputs(list(outputs))
            self._bodies[graph] = self._bodies[new] = new
        return self._bodies[graph]

    def _branch(self, outputs: Sequence[Node]) -> list[Node]:
        """The outputs of a branch in their final form: zeros if a size is computed on the way and does not fit. Such a
        branch does not run (`rewrite.unfit`)."""
        try:
            return self(outputs)
        except (errors.OutOfBoundsError, errors.ShapeError):
            self._next = {node: step for node, step in self._next.items() if node in self._final}
            return self(list(map(zeros_like, outputs)))


def uses(outputs: Iterable[Node]) -> dict[Node, list[Node]]:
    """Maps each node that the outputs depend on to the nodes that use it, once for each use. An output also maps to
    itself."""
    outputs = list(outputs)
    order = walk(outputs)
    found: dict[Node, list[Node]] = {node: [] for node in order} | users_among(order)
    for output in outputs:
        found[output].append(output)
    return found


Results = Mapping[int, Node] | Sequence[Node]
"""Nodes for the parts of a node with several results, by index."""


def map_scans(outputs: Sequence[Node], change: Callable[[Node, Node], Results | None]) -> list[Node]:
    """Replace the results of scans, as `map_several` does."""
    return map_several(outputs, lambda old, new: change(old, new) if old.op is SCAN else None)


def map_several(outputs: Sequence[Node], change: Callable[[Node, Node], Results | None]) -> list[Node]:
    """Replace the results of nodes that have several: `change(before, node)` gives nodes for its parts, or None to
    leave it.

    Nodes are met in the order of their dependence, with their operands already replaced (`before`: as it was in
    `outputs`). Bodies are not entered.
    """
    results: dict[Node, Results | None] = {}

    def replaced(old: Node, new: Node) -> Node | None:
        if old.several:
            results[old] = change(old, new)
        given = results.get(old.args[0]) if old.op is PART else None
        return None if given is None else given[old.params["index"]]

    return rebuilt(outputs, replaced)


def in_bodies(
    outputs: Sequence[Node],
    change: Callable[[list[Node]], list[Node]],
    in_branches: Callable[[list[Node]], list[Node]] | None = None,
) -> list[Node]:
    """Apply a pass to the body of every scan and ifelse, once for equal bodies. `change` must enter the bodies inside
    of these itself. `in_branches`: what is applied to the body of an ifelse instead."""
    known: dict[Graph, Graph] = {}

    def changed(node: Node) -> Node:
        body = node.params["body"]
        if body not in known:
            function = in_branches if in_branches is not None and node.op.is_branch else change
            known[body] = body.with_outputs(function(list(body.outputs)))
        return node if known[body] is body else with_body(node, known[body])

    if all(changed(node) is node for node in walk(outputs) if "body" in node.params):
        return list(outputs)
    return rebuilt(outputs, lambda old, new: changed(new) if "body" in new.params else None)
