"""Scan: the loop, as an ordinary op in its normal form `(carry, x_t, consts) -> (carry', y_t[, stop])`.

The front end (`scanjit.loops`) translates taps, outputs that are not fed back, `go_backwards` and nested states into
this form. `scanjit.ops.roles` says which operand is what.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Graph, Node, Op
from scanjit.ops.batch import loops_by
from scanjit.ops.chain import connected
from scanjit.ops.expect import NEGATIVE
from scanjit.ops.roles import ClosedStep, OpenedScan, Pair, Roles, remembered
from scanjit.ops.scan_batch import scan_over_batch
from scanjit.ops.scan_derivatives import Reverse, forward
from scanjit.signatures import Array, Parameter
from scanjit.types import Dimension, Type
from scanjit.walks import grown

STORED = ("bfloat16", "float16")
"""The dtypes in which a gradient may keep float32."""
MOST_UNROLLED = 1024
"""The most steps in one iteration of a loop. More would take minutes to compile."""


def _infer(
    *operands: Type,
    body: Graph,
    length: Dimension,
    carries: int,
    sequences: int,
    until: bool,
    lags: tuple[tuple[int, Dimension], ...] = (),
    sizes: tuple[tuple[int, Dimension], ...] = (),
    **_: Parameter,
) -> tuple[Type, ...]:
    roles = Roles(carries, sequences, len(body.outputs) - carries - until, until, dict(lags))
    inits, xs, consts = roles.split(operands)
    if len(body.inputs) != len(operands):
        raise errors.InternalError("a scan has as many operands as its body has inputs")
    types.require(0, length, NEGATIVE, errors.ScanError)
    outside = {atom: dim for i, dim in sizes if (atom := body.inputs[i].dim_atom) is not None}
    rows = [x.with_shape(x.shape[1:]) for x in xs]
    for x in xs:
        types.equate(x.shape[0], length, "the length of a sequence and the number of steps of the scan")
    for i, lag in lags:
        types.require(1, lag, SHORT, errors.ScanError)
        types.equate(inits[i].shape[0], lag, "the rows of a carry and its lag")
    values = [roles.value_type(i, init) for i, init in enumerate(inits)]
    seen = [node.type for node in (*body.inputs, *body.outputs)]
    if outside:
        seen = [ir.map_dims(type_, lambda d: types.substitute(d, outside)) for type_ in seen]
    for given, inner in zip((*values, *rows, *consts), seen[: len(operands)], strict=True):
        types.agree(given, inner, "an operand of a scan and the body's input")
    new, ys, _stop = roles.split_results(seen[len(operands) :])
    for before, after in zip(values, new, strict=True):
        types.agree(before, after, "a carry before and after a step")
    for node in roles.split_results(body.outputs)[1]:
        if any(atom.kind == "value" and atom not in outside for dim in node.type.shape for atom in types.atoms(dim)):
            raise errors.ScanError(
                "the results of the steps of a scan must have one size to be stacked",
                got=f"{node.type}, with a size that is computed in the step",
            )
    stacked = tuple(y.with_shape((length, *y.shape)) for y in ys)
    return (*inits, *stacked) + ((Type(np.dtype("int64")),) if until else ())


SHORT = "a tap reads {right} steps back: a step can read only what earlier steps returned"
"""The error for `1 <= lag`."""


def _reference(*operands: Array, **params: Parameter) -> Array:
    raise errors.InternalError("the reference interpreter runs scans itself: a body is not a function of arrays")


def _connected(node: Node, results: Collection[int], through: Callable[[Node], bool]) -> list[Node]:
    """The operands that the given results depend on, after any number of steps."""
    scan = OpenedScan(node)
    carries, ys, _ = scan.roles.split_results([i in results for i in range(len(node.types))])
    stacked = [y for y, is_asked in zip(scan.ys, ys, strict=True) if is_asked]

    def reached(active: Sequence[int]) -> set[Node]:
        return connected([*(scan.after[i] for i in active), *stacked], through=through)

    def before_step(active: Sequence[int]) -> list[int]:
        found = reached(active)
        return [i for i, before in enumerate(scan.before) if before in found]

    def positions() -> list[int]:
        active = grown((i for i, is_asked in enumerate(carries) if is_asked), before_step)
        found = reached(active) | {scan.before[i] for i in active}  # there may be no step
        return [i for i, inner in enumerate(scan.inputs) if inner in found]

    return [node.operands[i] for i in remembered(node, (through, frozenset(results)), positions)]


SCAN = Op(
    "scan",
    infer=_infer,
    reference=_reference,
    selective_vjp=lambda node, g, needed: Reverse(node, g, needed, _scan_of).cotangents(),
    connected=_connected,
    jvp=lambda tangents, y, *operands, **params: forward(y[0].args[0], tangents, _closed),
    batch=lambda args, batched, size, **params: scan_over_batch(args, batched, size, params, _closed),
    reads_memory="all",
    takes_halves=True,
    doc="a loop: carries from step to step, sequences read row by row",
)
"""Parameters: `body` (Graph), `length` (Dimension: the number of steps, or the most steps with `until`), `carries`,
`sequences` (counts), `until` (bool), `reverse` (bool: rows are read and written from the last to the first), `lags`
(pairs of a carry's position and its lag, for those that have one: see `Roles`), `sizes` (pairs of a position among the
operands and the dimension which that operand's value is: for those constants whose values are sizes in the body;
`scan_node` finds them), and, without influence on the value: `truncate`
(int, of the gradient), `unroll` (int or True), `checkpoint`, `name`, `stored` (None, "bfloat16" or "float16": what a
gradient keeps of the steps' float32 values), `gradient` (bool: whether this is the loop of a gradient, which reads what
other loops keep for it)."""


def checkpoints(scan: Node) -> int | str | None:
    """The checkpoints that a scan asks for: one every so many steps, or "sqrt"; None if it asks for none."""
    asked = scan.params["checkpoint"]
    return None if asked == "all" else asked


def steps_between(asked: int | str, length: Dimension) -> Dimension:
    """How many steps lie between two checkpoints of a scan of `length` steps."""
    return asked if isinstance(asked, int) else types.maximum(types.square_root(length), 1)


def scan_node(
    body: Graph,
    inits: Sequence[Node],
    xs: Sequence[Node],
    consts: Sequence[Node],
    length: Dimension,
    *,
    until: bool = False,
    reverse: bool = False,
    lags: Mapping[int, Dimension] | None = None,
    truncate: int = -1,
    unroll: int | bool = False,
    checkpoint: int | str | None = None,
    name: str | None = None,
    stored: str | None = None,
    gradient: bool = False,
) -> Node:
    """A scan node; see `SCAN` for the parameters and `Roles` for the order of operands and results."""
    operands = [*inits, *xs, *consts]
    return SCAN(
        *operands,
        body=body,
        length=length,
        carries=len(inits),
        sequences=len(xs),
        until=until,
        reverse=reverse,
        lags=tuple(sorted((lags or {}).items())),
        sizes=ir.sizes_in(body, operands, len(inits) + len(xs)),
        truncate=truncate,
        unroll=unroll,
        checkpoint=checkpoint,
        name=name,
        stored=stored,
        gradient=gradient,
    )


@loops_by
def _over_examples(body: Graph, xs: Sequence[Node], consts: Sequence[Node], size: Dimension) -> Node:
    return scan_node(body, [], xs, consts, size)


def _closed(
    carries: Sequence[Pair], rows: Sequence[Pair], consts: Sequence[Pair], outputs: Sequence[Node], **params: Parameter
) -> tuple[Node, ...]:
    """The results of a new scan. Rows and constants that its body does not use are left out. Other outside nodes that
    the body uses become constants."""
    (before, read, fixed), (inits, xs, others) = (
        [[pair[which] for pair in pairs] for pairs in (carries, rows, consts)] for which in (0, 1)
    )
    return _scan_of(ClosedStep.of(before, read, fixed, outputs), inits, xs, others, **params)


def _scan_of(
    step: ClosedStep, inits: Sequence[Node], rows: Sequence[Node], consts: Sequence[Node], **params: Parameter
) -> tuple[Node, ...]:
    """The results of a new scan with this step, which might read all of these rows and constants."""
    xs, fixed = [rows[i] for i in step.rows], [*(consts[i] for i in step.consts), *step.captured]
    return ir.parts(scan_node(step.body, inits, xs, fixed, **params))
