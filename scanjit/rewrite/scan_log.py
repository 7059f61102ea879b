"""Logarithms of running sums: loops whose step is `logaddexp` of the last value and the next element of a vector.

Such a step waits for an exponential and a logarithm. If each sum is kept relative to the largest element so far, all
exponentials are computed side by side before the loop, and all logarithms after it. Each step then is one product and
one sum, and the largest elements are found by a loop of their own. No exponent is positive, and each sum is at least 1,
so nothing overflows or is lost.

States of several numbers stay as they are: they fill vectors already.
"""

from collections.abc import Sequence

from scanjit import errors
from scanjit.ir import Node
from scanjit.ops.elementwise import ADD, MAXIMUM, MUL, SUB, where
from scanjit.ops.functions import EXP, LOG
from scanjit.ops.promotion import cast
from scanjit.ops.roles import Roles
from scanjit.ops.shape import CONCATENATE, window
from scanjit.ops.stretch import full
from scanjit.ops.view import as_row, only_row
from scanjit.rewrite.alike import change_loops
from scanjit.rewrite.engine import Note
from scanjit.tensor.elementwise import logaddexp
from scanjit.tensor.looping import looped, scanned
from scanjit.tensor.questions import isfinite


def log_sums(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Compute the exponentials and logarithms of scans by `logaddexp` over the elements of a vector for many steps at
    once, in steps and branches too."""
    return change_loops(outputs, notes, _changed)


def _changed(scan: Node, notes: list[Note]) -> dict[int, Node] | None:
    """The results of such a loop by others. None for other loops."""
    roles, body = Roles.of(scan), scan.params["body"]
    if (roles.carries, roles.sequences, roles.ys, len(scan.operands)) != (1, 1, 1, 2):
        return None
    start, rows = scan.operands
    if roles.until or roles.lags or scan.params["reverse"] or rows.ndim != 1 or body.outputs[0].op is not ADD:
        return None
    with errors.located(scan.where):
        if any(output is not logaddexp(*body.inputs) for output in body.outputs):
            return None
        notes.append(Note("log_sums", scan.where, "exponentials and logarithms of running sums are computed together"))
        found = _sums(start, rows, scan.params["name"])
        last = window(CONCATENATE(as_row(start), found, axis=0), 0, scan.params["length"], 1)
        return {0: only_row(last), 1: found}


def _sums(start: Node, rows: Node, name: str | None) -> Node:
    """The logarithms of the running sums of the exponentials of a number and of all rows."""

    def step(given: Sequence[Node], before: Sequence[Node]) -> tuple[list[Node], list[Node]]:
        (kept, more), (total,) = given, before
        after = [ADD(MUL(kept, total), more)]
        return after, after

    rows = cast(rows, start.dtype)  # a step may read integers
    largest = scanned(rows, start, MAXIMUM)
    before = window(CONCATENATE(as_row(start), largest, axis=0), 0, 0, rows.type.shape[0])
    base = where(isfinite(largest), largest, 0)  # infinities have no differences
    terms = [EXP(SUB(x, base)) for x in (before, rows)]
    totals = looped(name, step, terms, [full(1, (), rows.dtype)])[1][0]
    return ADD(base, LOG(totals))
