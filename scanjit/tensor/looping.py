"""Loops over tensors of real or complex numbers, from which functions of this package are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scanjit import errors, ir
from scanjit.ir import COMPLEX, Graph, Node
from scanjit.ops.parts import is_complex, pieces, stand_in
from scanjit.ops.scan import scan_node

Step = Callable[..., tuple[Sequence[Node], Sequence[Node]]]
"""A step of a loop. It takes a row of each sequence, the state, and the constants one by one. It returns the next state
and the rows to stack."""


def check_callable(fn: Any, what: str = "the step") -> None:
    """Raise an error if this is no function."""
    if not callable(fn):
        raise errors.ScanError(f"{what} is not a function", got=repr(fn))


def looped(
    name: str | None,
    step: Step,
    sequences: Sequence[Node],
    state: Sequence[Node],
    constants: Sequence[Node] = (),
    reverse: bool = False,
) -> tuple[list[Node], list[Node]]:
    """The last state of a loop over sequences, and the stacks."""
    rows = [stand_in(x.type.with_shape(x.type.shape[1:])) for x in sequences]
    before, fixed = ([stand_in(x.type) for x in xs] for xs in (state, constants))
    after, ys = step(rows, before, *fixed)
    inputs, outputs = pieces(*before, *rows, *fixed), pieces(*after, *ys)
    captured = ir.free_variables(outputs, inputs)
    body = Graph.of([*inputs, *captured], outputs)
    length, outside = sequences[0].type.shape[0], [*pieces(*constants), *captured]
    node = scan_node(body, pieces(*state), pieces(*sequences), outside, length, reverse=reverse, name=name)
    found = iter(ir.parts(node))
    finals, stacks = (
        [COMPLEX(next(found), next(found)) if is_complex(x) else next(found) for x in xs] for xs in (after, ys)
    )
    return finals, stacks


def scanned(rows: Node, start: Node, step: Callable[..., Node], constants: Sequence[Node] = ()) -> Node:
    """The states of a loop over rows. `step` takes the state, a row and the constants."""

    def one(row: Sequence[Node], before: Sequence[Node], *fixed: Node) -> tuple[list[Node], list[Node]]:
        after = step(*before, *row, *fixed)
        if after.type != start.type:
            raise errors.DtypeError(
                "what is accumulated must stay of one type",
                got=after.type,
                expected=str(start.type),
                fix="cast x before",
            )
        return [after], [after]

    return looped(None, one, [rows], [start], constants)[1][0]
