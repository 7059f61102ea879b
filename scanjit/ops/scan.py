"""Scan: the loop, as an ordinary op in its normal form `(carry, x_t, consts) -> (carry', y_t[, stop])`.

Taps, outputs that are not fed back, `go_backwards`, nested states: the front end (`scanjit.loops`) removes them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Graph, Node, Op
from scanjit.types import Dimension, Type


@dataclass(frozen=True)
class Layout:
    """How the operands, the results and the body's inputs and outputs of a scan divide.

    Operands: `carries` initial values, `sequences` tensors with time first, then constants.
    Body: inputs (carries, one row of each sequence, constants); outputs (new carries, ys, and if `until` a bool).
    Results: final carries, the ys stacked over time, and if `until` the number of steps that ran (int64). With
    `until`, rows of the stacked ys after those that ran are undefined: the front end cuts them off.
    """

    carries: int
    sequences: int
    ys: int
    until: bool

    @classmethod
    def of(cls, node: Node) -> Layout:
        """The layout of a scan node."""
        return cls.of_params(node.params)

    @classmethod
    def of_params(cls, params: dict[str, Any]) -> Layout:
        """The layout that a scan's parameters state."""
        ys = len(params["body"].outputs) - params["carries"] - params["until"]
        return cls(params["carries"], params["sequences"], ys, params["until"])

    def split(self, operands: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """Operands (or body inputs) as (carries, sequences, constants)."""
        end = self.carries + self.sequences
        return operands[: self.carries], operands[self.carries : end], operands[end:]

    def split_results(self, results: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Any]:
        """Results (or body outputs) as (carries, ys, count or stop: None without `until`)."""
        end = self.carries + self.ys
        return results[: self.carries], results[self.carries : end], results[end] if self.until else None


def _infer(
    *operands: Type,
    body: Graph,
    length: Dimension,
    carries: int,
    sequences: int,
    until: bool,
    sizes: tuple[tuple[int, Dimension], ...] = (),
    **_: Any,
) -> Any:
    layout = Layout(carries, sequences, len(body.outputs) - carries - until, until)
    inits, xs, consts = layout.split(operands)
    if len(body.inputs) != len(operands):
        raise errors.InternalError("a scan has as many operands as its body has inputs")
    outside = {body.inputs[i].dim_atom: dim for i, dim in sizes}
    rows = [x.with_shape(x.shape[1:]) for x in xs]
    for x in xs:
        types.equate(x.shape[0], length, "the length of a sequence and the number of steps of the scan")
    seen = [ir.map_dims(node.type, lambda d: types.substitute(d, outside)) for node in (*body.inputs, *body.outputs)]
    for given, inner in zip((*inits, *rows, *consts), seen[: len(operands)], strict=True):
        _same(given, inner, "an operand of a scan and the body's input")
    new, ys, _stop = layout.split_results(seen[len(operands) :])
    for before, after in zip(inits, new, strict=True):
        _same(before, after, "a carry before and after a step")
    for node in layout.split_results(body.outputs)[1]:
        if any(atom.kind == "value" and atom not in outside for dim in node.type.shape for atom in types.atoms(dim)):
            raise errors.ScanError(
                "the results of the steps of a scan must have one size to be stacked",
                got=f"{node.type}, with a size that is computed in the step",
            )
    stacked = tuple(y.with_shape((length, *y.shape)) for y in ys)
    return (*inits, *stacked) + ((Type(np.dtype("int64")),) if until else ())


def _same(a: Type, b: Type, what: str) -> None:
    if a.dtype != b.dtype or a.ndim != b.ndim:
        raise errors.InternalError(f"{what} must have one type", got=f"{a} and {b}")
    for left, right in zip(a.shape, b.shape, strict=True):
        types.equate(left, right, what)


def _reference(*operands: np.ndarray, **params: Any) -> Any:
    raise errors.InternalError("the reference interpreter runs scans itself: a body is not a function of arrays")


SCAN = Op(
    "scan", infer=_infer, reference=_reference, doc="a loop: carries from step to step, sequences read row by row"
)
"""Parameters: `body` (Graph), `length` (Dimension: the number of steps, or the most steps with `until`), `carries`,
`sequences` (counts), `until` (bool), `reverse` (bool: rows are read and written from the last to the first), `sizes`
(pairs of a position among the operands and the dimension which that operand's value is: for those constants on whose
value the types of the body's inputs depend; `scan_node` finds them), and, without influence on the value: `truncate`
(int, of the gradient), `unroll` (int or True), `checkpoint`, `name`."""


def scan_node(
    body: Graph,
    inits: Sequence[Node],
    xs: Sequence[Node],
    consts: Sequence[Node],
    length: Dimension,
    *,
    until: bool = False,
    reverse: bool = False,
    truncate: int = -1,
    unroll: int | bool = False,
    checkpoint: Any = None,
    name: str | None = None,
) -> Node:
    """A scan node; see `SCAN` for the parameters and `Layout` for the order of operands and results."""
    operands = [*inits, *xs, *consts]
    return SCAN(
        *operands,
        body=body,
        length=length,
        carries=len(inits),
        sequences=len(xs),
        until=until,
        reverse=reverse,
        sizes=_sizes(body, operands),
        truncate=truncate,
        unroll=unroll,
        checkpoint=checkpoint,
        name=name,
    )


def _sizes(body: Graph, operands: Sequence[Node]) -> tuple[tuple[int, Dimension], ...]:
    """The parameter `sizes`; see `SCAN`."""
    used = {
        atom
        for node in (*body.inputs, *body.outputs)
        for dim in node.type.shape
        for atom in types.atoms(dim)
        if atom.kind == "value"
    }
    if not used:
        return ()
    return tuple((i, ir.as_dim(operands[i])) for i, node in enumerate(body.inputs) if node.dim_atom in used)
