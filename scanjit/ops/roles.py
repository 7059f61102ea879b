"""The roles of a scan's operands, of its results, and of the inputs and outputs of its body.

One number remains of the taps: the lag of a carry. With lag k, a step reads the value that was returned k steps ago,
and memory holds a ring of k rows.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple, TypeVar, cast

from scanjit import ir
from scanjit.ir import Graph, Node
from scanjit.ops.shape import CONCATENATE, row, window
from scanjit.ops.view import as_row
from scanjit.records import record
from scanjit.signatures import OpFunction, Parameter, Params
from scanjit.types import Dimension, Type

Item = TypeVar("Item")
Answer = TypeVar("Answer")
KEPT = ("length", "until", "reverse", "truncate", "unroll", "checkpoint", "name", "stored", "gradient")
"""The parameters of a scan that do not depend on which operands it has."""


Pair = tuple[Node, Node]
"""An input of a body, and the operand that it stands for."""
Close = OpFunction[tuple[Node, ...]]
"""`close(carries, rows, consts, outputs, **params)` gives the results of a new scan, from three lists of `Pair`."""


@record(eq=True)
class Roles:
    """Which operands of a scan are carries, sequences and constants; and the same of its results and of its body.

    Operands: `carries` initial values, `sequences` tensors with time first, then constants.
    Body: inputs (carries, one row of each sequence, constants); outputs (new carries, ys, and if `until` a bool).
    Results: final carries, the ys stacked over time, and if `until` the number of steps that ran (int64). With `until`,
    the rows of stacked ys for steps that did not run are undefined; the front end cuts them off.

    `lags` lists the carries that a step reads more than one step after they were made. For a carry with lag k, operand
    and result hold the last k values along a first axis, in the order of time. The body reads one of these values, and
    returns the value that takes its place.
    """

    carries: int
    sequences: int
    ys: int
    until: bool
    lags: Mapping[int, Dimension] = field(default_factory=dict)

    @classmethod
    def of(cls, node: Node) -> Roles:
        """The roles of a scan node."""
        return cls.of_params(node.params)

    @classmethod
    def of_params(cls, params: Params) -> Roles:
        """The roles that a scan's parameters state."""
        ys = len(params["body"].outputs) - params["carries"] - params["until"]
        return cls(params["carries"], params["sequences"], ys, params["until"], dict(params["lags"]))

    @property
    def stacks(self) -> range:
        """The numbers of the results that are stacked ys. The next number is that of the count of steps."""
        return range(self.carries, self.carries + self.ys)

    def split(self, operands: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item], Sequence[Item]]:
        """Operands (or body inputs) as (carries, sequences, constants)."""
        end = self.carries + self.sequences
        return operands[: self.carries], operands[self.carries : end], operands[end:]

    def split_results(self, results: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item], Item | None]:
        """Results (or body outputs) as (carries, ys, count or stop: None without `until`)."""
        end = self.stacks.stop
        return results[: self.carries], results[self.carries : end], results[end] if self.until else None

    def value_type(self, i: int, whole: Type) -> Type:
        """The type of one value of a carry, given that of its operand."""
        return whole.with_shape(whole.shape[1:]) if i in self.lags else whole


class OpenedScan:
    """A scan whose body is opened: its inputs and outputs are nodes that new bodies are built from."""

    def __init__(self, node: Node) -> None:
        self.node, self.roles = node, Roles.of(node)
        self.inits, self.xs, self.consts = self.roles.split(node.operands)
        self.inputs, self.outputs = node.params["body"].opened()
        self.before, self.rows, self.fixed = self.roles.split(self.inputs)
        self.after, self.ys, self.stop = self.roles.split_results(self.outputs)

    @property
    def ends(self) -> list[Node]:
        """The condition to stop, as a list."""
        return [] if self.stop is None else [self.stop]


class ClosedStep(NamedTuple):
    """The body of a new scan. `rows` and `consts` are the positions of the rows and constants that it reads, among
    those that it might read. It reads the outside nodes `captured` as further constants."""

    body: Graph
    rows: list[int]
    consts: list[int]
    captured: list[Node]

    @classmethod
    def of(
        cls, carries: Sequence[Node], rows: Sequence[Node], consts: Sequence[Node], outputs: Sequence[Node]
    ) -> ClosedStep:
        """The body that computes `outputs` from inputs: carries, rows and constants."""
        used = set(ir.walk([*outputs, *carries]))
        read = [i for i, row in enumerate(rows) if row in used]
        used |= set(ir.walk(rows[i] for i in read))  # the sizes of rows
        fixed = [i for i, const in enumerate(consts) if const in used]
        inner = [*carries, *(rows[i] for i in read), *(consts[i] for i in fixed)]
        captured = ir.free_variables(outputs, inner)
        return cls(Graph.of([*inner, *captured], outputs), read, fixed, captured)


_answers: weakref.WeakKeyDictionary[Graph, dict[Hashable, object]] = weakref.WeakKeyDictionary()


def remembered(
    node: Node, question: Hashable, answer: Callable[[], Answer], lasting: Callable[[Answer], bool] = lambda _: True
) -> Answer:
    """The answer to a question about the step of a scan. It is asked only once for scans with equal steps, if it is
    `lasting`. The answer asks the same about the loops inside, several times: for deeply nested loops, the number of
    questions would be exponential."""
    roles, answers = Roles.of(node), _answers.setdefault(node.params["body"], {})
    key = (question, roles.carries, roles.sequences, roles.ys, roles.until, *roles.lags.items())
    if key in answers:
        return cast("Answer", answers[key])
    found = answer()
    if lasting(found):
        answers[key] = found
    return found


# ---- lags ------------------------------------------------------------------------------------------------------------


def oldest(rows: Node, reverse: bool) -> Node:
    """The value of a carry with a lag that the next step reads."""
    return row(rows, rows.type.shape[0] - 1 if reverse else 0)


def renewed(rows: Node, value: Node, reverse: bool) -> Node:
    """The values of a carry with a lag after a step: without the value that the step read, and with the value that it
    returned."""
    rest = window(rows, 0, 0 if reverse else 1, rows.type.shape[0] - 1)
    return CONCATENATE(*((as_row(value), rest) if reverse else (rest, as_row(value))), axis=0)


def without_lags(params: Mapping[str, Parameter], operands: Sequence[Node]) -> tuple[Params, list[Node]]:
    """The parameters and operands of the same scan without rings: each carry holds all values of its lag, and every
    step moves them. If a lag is a computed value, it becomes one more constant."""
    roles, reverse = Roles.of_params(dict(params)), params["reverse"]
    inputs, outputs = params["body"].opened()
    known = {}
    for i, lag in roles.lags.items():
        value = inputs[i]
        inputs[i] = ir.new_input(value.type.with_shape((lag, *value.type.shape)))
        known[value] = oldest(inputs[i], reverse)
        outputs[i] = renewed(inputs[i], outputs[i], reverse)
    outputs = ir.replace(outputs, known)
    captured = ir.free_variables(outputs, inputs)
    body, operands = Graph.of([*inputs, *captured], outputs), [*operands, *captured]
    sizes = ir.sizes_in(body, operands, roles.carries + roles.sequences)
    return {**params, "body": body, "lags": (), "sizes": sizes}, operands
