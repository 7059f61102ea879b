"""Scan: the loop, as an ordinary op in its normal form `(carry, x_t, consts) -> (carry', y_t[, stop])`.

The front end (`scanjit.loops`) translates taps, outputs that are not fed back, `go_backwards` and nested states into
this form. One number remains of the taps: the lag of a carry. With lag k, a step reads the value that was returned k
steps ago, and memory holds a ring of k rows.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeVar

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Graph, Node, Op
from scanjit.ops.batch import Batched, batch_graph, loops_by
from scanjit.ops.chain import carries_gradient, connected, differentiable, pullback, pushforward
from scanjit.ops.chosen import batch_chosen, select
from scanjit.ops.elementwise import MINIMUM, WHERE
from scanjit.ops.expect import NEGATIVE
from scanjit.ops.probe import PRINT, without_probes
from scanjit.ops.promotion import cast, keep
from scanjit.ops.reduce import ALL
from scanjit.ops.shape import CONCATENATE, SET_SLICE, row, window
from scanjit.ops.stretch import full, or_zeros, over_batch, zeros_like
from scanjit.ops.view import DIMSHUFFLE, as_row
from scanjit.records import record
from scanjit.signatures import Array, Parameter, Params
from scanjit.types import Dimension, Type

Item = TypeVar("Item")


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
    seen = [ir.map_dims(node.type, lambda d: types.substitute(d, outside)) for node in (*body.inputs, *body.outputs)]
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
    scan = _Open(node)
    carries, ys, _ = scan.roles.split_results([i in results for i in range(len(node.types))])
    stacked = [y for y, is_asked in zip(scan.ys, ys, strict=True) if is_asked]

    def reached(active: Sequence[int]) -> set[Node]:
        return connected([*(scan.after[i] for i in active), *stacked], through=through)

    def grown(active: Sequence[int]) -> list[int]:
        found = reached(active)
        return [i for i, before in enumerate(scan.before) if before in found]

    def positions() -> list[int]:
        active = _grown((i for i, is_asked in enumerate(carries) if is_asked), grown)
        found = reached(active) | {scan.before[i] for i in active}  # there may be no step
        return [i for i, inner in enumerate(scan.inputs) if inner in found]

    return [node.operands[i] for i in _known(node, (through, frozenset(results)), positions)]


SCAN = Op(
    "scan",
    infer=_infer,
    reference=_reference,
    selective_vjp=lambda node, g, needed: _Reverse(node, g, needed).cotangents(),
    connected=_connected,
    jvp=lambda tangents, y, *operands, **params: _forward(y[0].args[0], tangents),
    batch=lambda args, batched, size, **params: _over_batch(args, batched, size, params),
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
KEPT = ("length", "until", "reverse", "truncate", "unroll", "checkpoint", "name", "stored", "gradient")
"""The parameters that do not depend on which operands a scan has."""


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


# ---- building scans from scans ---------------------------------------------------------------------------------------

Pair = tuple[Node, Node]
"""An input of a body, and the operand that it stands for."""


class _Open:
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


def _closed(
    carries: Sequence[Pair], rows: Sequence[Pair], consts: Sequence[Pair], outputs: Sequence[Node], **params: Parameter
) -> tuple[Node, ...]:
    """The results of a new scan. Rows and constants that its body does not use are left out. Other outside nodes that
    the body uses become constants."""
    used = set(ir.walk([*outputs, *(inner for inner, _ in carries)]))
    rows = [pair for pair in rows if pair[0] in used]
    used |= set(ir.walk(inner for inner, _ in rows))  # the sizes of rows
    consts = [pair for pair in consts if pair[0] in used]
    inner = [pair[0] for pair in (*carries, *rows, *consts)]
    captured = ir.free_variables(outputs, inner)
    body = Graph.of([*inner, *captured], outputs)
    inits, xs, fixed = ([outer for _, outer in pairs] for pairs in (carries, rows, consts))
    return ir.parts(scan_node(body, inits, xs, [*fixed, *captured], **params))


def _derived(name: str | None, suffix: str) -> str | None:
    return None if name is None else f"{name}.{suffix}"


_answers: weakref.WeakKeyDictionary[Graph, dict[Hashable, list[int]]] = weakref.WeakKeyDictionary()


def _known(node: Node, question: Hashable, answer: Callable[[], list[int]]) -> list[int]:
    """The answer to a question about the step of a scan. It is asked only once for each scan. The answer asks the same
    about the loops inside, several times: for deeply nested loops, the number of questions would be exponential."""
    roles, answers = Roles.of(node), _answers.setdefault(node.params["body"], {})
    key = (question, roles.carries, roles.sequences, roles.ys, roles.until, *roles.lags.items())
    if key not in answers:
        answers[key] = answer()
    return answers[key]


def _grown(start: Iterable[int], more: Callable[[Sequence[int]], Iterable[int]]) -> list[int]:
    """The smallest set of numbers that contains `start` and all of `more(the set)`."""
    return _settled(start, more, lambda numbers: numbers)[0]


def _settled(
    start: Iterable[int], make: Callable[[Sequence[int]], Item], more: Callable[[Item], Iterable[int]]
) -> tuple[list[int], Item]:
    """The smallest set of numbers that contains `start` and all of `more(make(the set))`; and what `make` made of
    it."""
    found = sorted(set(start))
    while True:
        made = make(found)
        grown = sorted({*found, *more(made)})
        if grown == found:
            return found, made
        found = grown


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


# ---- reverse mode ----------------------------------------------------------------------------------------------------


class _Reverse:
    """The vjp of a scan is two scans. The first is the same scan, which also returns the carries before each step that
    are needed. The second, the reverse scan, reads these carries in the other direction.

    The body of the reverse scan computes again all that it needs from these carries, the rows and the constants. (A
    later pass decides which of these values to store instead.) Its carries are the cotangents of the carries, then one
    sum for the cotangent of each constant. Its ys are the cotangents of the rows.
    """

    def __init__(self, node: Node, g: Sequence[Node | None], needed: Sequence[bool]) -> None:
        self.scan = scan = _Open(node)
        self.g_carries, self.g_ys, _ = scan.roles.split_results(g)
        need_inits, need_xs, need_consts = scan.roles.split(needed)
        self.wanted_rows = [i for i, need in enumerate(need_xs) if need and carries_gradient(scan.rows[i])]
        self.wanted_consts = [i for i, need in enumerate(need_consts) if need and carries_gradient(scan.fixed[i])]
        self.wanted_inits = [i for i, need in enumerate(need_inits) if need and carries_gradient(scan.before[i])]
        self.varying = _grown(self.wanted_inits, self._carries_that_vary)
        self.seeds = [ir.new_input(carry.type) for carry in scan.before]
        self.y_seeds = {i: ir.new_input(y.type) for i, y in enumerate(scan.ys) if self.g_ys[i] is not None}
        arriving = [i for i in self.varying if self.g_carries[i] is not None]
        question = ("active", tuple(cotangent is None for cotangent in g), tuple(needed))
        self.active = _known(node, question, lambda: _grown(arriving, self._carries_with_cotangents))

    def _inner(self, carries: Iterable[int]) -> list[Node]:
        """The inputs of the body whose cotangents are needed."""
        scan = self.scan
        chosen = [scan.before[i] for i in carries] + [scan.rows[i] for i in self.wanted_rows]
        return chosen + [scan.fixed[i] for i in self.wanted_consts]

    def _carries_that_vary(self, carries: Sequence[int]) -> list[int]:
        """The carries after a step that depend on the variables of the derivative, given the carries before it that
        do."""
        paths = differentiable(self.scan.after, self._inner(carries))
        return [i for i, new in enumerate(self.scan.after) if new in paths]

    def _carries_with_cotangents(self, active: Sequence[int]) -> list[int]:
        """The carries before a step that have cotangents, given the carries after it that do."""
        step = self._step(active)
        return [i for i in self.varying if self.scan.before[i] in step]

    def _step(self, active: Sequence[int]) -> dict[Node, Node]:
        """The cotangents of the body's inputs, if the carries `active` have cotangents after the step."""
        scan = self.scan
        outputs = [scan.after[i] for i in active] + [scan.ys[i] for i in self.y_seeds]
        seeds = [self.seeds[i] for i in active] + list(self.y_seeds.values())
        inputs = self._inner(self.varying)
        found = pullback(outputs, seeds, inputs)
        return {node: g for node, g in zip(inputs, found, strict=True) if g is not None}

    def cotangents(self) -> list[Node | None]:
        """One cotangent for each operand of the scan."""
        scan = self.scan
        step = self._step(self.active)
        rows = [i for i in self.wanted_rows if scan.rows[i] in step]
        consts = [i for i in self.wanted_consts if scan.fixed[i] in step]
        if not self.active and not rows and not consts:
            return [None] * scan.node.arity
        sums = {i: ir.new_input(scan.fixed[i].type) for i in consts}
        outputs = [or_zeros(step.get(scan.before[i]), scan.before[i]) for i in self.active]
        outputs += [sums[i] + step[scan.fixed[i]] for i in consts]
        outputs += [step[scan.rows[i]] for i in rows]
        outputs = without_probes(outputs, [PRINT])  # the forward scan has them
        forward, saved, known = self._forward(outputs)
        outputs = ir.replace(outputs, known)
        span = _Span(scan, forward)
        results = self._backward(outputs, sums, saved, span)
        inits = {i: span.of_init(results[k]) for k, i in enumerate(self.active) if i in self.wanted_inits}
        fixed = dict(zip(consts, results[len(self.active) :], strict=False))
        xs = {
            i: span.padded(g, scan.xs[i]) for i, g in zip(rows, results[len(self.active) + len(consts) :], strict=True)
        }
        return [
            *(inits.get(i) for i in range(len(scan.inits))),
            *(xs.get(i) for i in range(len(scan.xs))),
            *(fixed.get(i) for i in range(len(scan.consts))),
        ]

    def _forward(self, outputs: Sequence[Node]) -> tuple[tuple[Node, ...], list[Pair], dict[Node, Node]]:
        """The results of the scan that also returns carries; these carries, as inputs of the body and as stacks; and
        the form in which the reverse scan has carries that are kept in 16 bits."""
        scan, roles = self.scan, self.scan.roles
        used = set(ir.walk(outputs))
        returned: list[Node] = list(scan.ys)
        at = {y: k for k, y in reversed(list(enumerate(returned)))}
        rows: list[Pair] = []  # inputs of the new body, and what the scan returns of them
        known: dict[Node, Node] = {}
        for carry in (before for before in scan.before if before in used):
            kept = keep(carry, scan.node.params["stored"])
            if kept not in at:
                at[kept] = len(returned)
                returned.append(kept)
            row = carry if kept is carry else ir.new_input(kept.type)
            if row is not carry:
                known[carry] = cast(row, carry.dtype)
            rows.append((row, kept))
        node = scan.node
        if len(returned) > len(scan.ys):
            body = Graph.of(scan.inputs, [*scan.after, *returned, *scan.ends])
            node = ir.with_params(node, body=body)
        results = ir.parts(node)
        return results, [(row, results[roles.carries + at[kept]]) for row, kept in rows], known

    def _backward(
        self, outputs: Sequence[Node], sums: dict[int, Node], saved: Sequence[Pair], span: _Span
    ) -> tuple[Node, ...]:
        scan, params = self.scan, self.scan.node.params
        carries = [(self.seeds[i], or_zeros(self.g_carries[i], scan.inits[i])) for i in self.active]
        carries += [(inner, zeros_like(scan.consts[i])) for i, inner in sums.items()]
        rows = [*saved, *zip(scan.rows, scan.xs, strict=True)]
        rows += [(seed, g) for i, seed in self.y_seeds.items() if (g := self.g_ys[i]) is not None]
        unroll = params["unroll"]
        return _closed(
            carries,
            [(inner, span.cut(outer)) for inner, outer in rows],
            list(zip(scan.fixed, scan.consts, strict=True)),
            outputs,
            length=span.length,
            reverse=not params["reverse"],
            lags={k: scan.roles.lags[i] for k, i in enumerate(self.active) if i in scan.roles.lags},
            unroll=False if unroll is True and not isinstance(span.length, int) else unroll,
            checkpoint=params["checkpoint"],
            name=_derived(params["name"], "grad"),
            gradient=True,
        )


class _Span:
    """The rows that the reverse scan reads: the rows of the steps that ran, or the last of them if the gradient is
    truncated."""

    def __init__(self, scan: _Open, results: Sequence[Node]) -> None:
        params = scan.node.params
        self.rows = params["length"]
        ran = ir.as_dim(results[-1]) if scan.roles.until else self.rows
        limit = params["truncate"]
        self.ran, self.limit = ran, limit if limit >= 0 else None
        self.length = ran if limit < 0 else types.minimum(ran, limit)
        if params["reverse"]:
            self.start = self.rows - ran
        else:
            self.start = ran - self.length

    def cut(self, stack: Node) -> Node:
        """The rows of a tensor with time first."""
        return stack if self.length == self.rows else window(stack, 0, self.start, self.length)

    def padded(self, g: Node, x: Node) -> Node:
        """The cotangent of all rows of `x`, zero for those that were cut off."""
        if self.length == self.rows:
            return g
        ones = (1,) * g.ndim
        return SET_SLICE(zeros_like(x), g, start=(self.start, *[0] * (g.ndim - 1)), step=ones)

    def of_init(self, g: Node) -> Node:
        """The cotangent of an initial value: zero if the truncated gradient does not reach the first step."""
        if self.limit is None or self.length == self.ran:
            return g
        if isinstance(self.ran, int):
            return g if self.ran <= self.limit else zeros_like(g)
        return ir.apply(WHERE, ir.dim_node(self.ran) <= self.limit, g, zeros_like(g))


# ---- forward mode ----------------------------------------------------------------------------------------------------


def _forward(node: Node, tangents: Sequence[Node | None]) -> tuple[Node | None, ...]:
    """The jvp of a scan: a scan whose carries are the carries of `node` and their tangents. It returns the tangents of
    the ys."""
    scan = _Open(node)
    d_inits, d_xs, d_consts = scan.roles.split(tangents)
    seeds = [ir.new_input(inner.type) for inner in scan.inputs]
    s_carries, s_rows, s_consts = scan.roles.split(seeds)
    given = {
        inner: seed
        for inner, seed, tangent in zip(
            scan.inputs[len(d_inits) :], [*s_rows, *s_consts], [*d_xs, *d_consts], strict=True
        )
        if tangent is not None
    }

    def step(active: Sequence[int]) -> list[Node | None]:
        return pushforward([*scan.after, *scan.ys], {**{scan.before[i]: s_carries[i] for i in active}, **given})

    count = len(d_inits)
    active, found = _settled(
        (i for i, tangent in enumerate(d_inits) if tangent is not None),
        step,
        lambda found: [i for i, tangent in enumerate(found[:count]) if tangent is not None],
    )
    outputs = [or_zeros(found[i], scan.before[i]) for i in active]
    d_ys = {i: tangent for i, tangent in enumerate(found[count:]) if tangent is not None}
    carries = list(zip(scan.before, scan.inits, strict=True))
    carries += [(s_carries[i], or_zeros(d_inits[i], scan.inits[i])) for i in active]
    params, lags = node.params, scan.roles.lags
    results = _closed(
        carries,
        [*zip(scan.rows, scan.xs, strict=True), *((s, d) for s, d in zip(s_rows, d_xs, strict=True) if d is not None)],
        [*zip(scan.fixed, scan.consts, strict=True)]
        + [(s, d) for s, d in zip(s_consts, d_consts, strict=True) if d is not None],
        [*scan.after, *outputs, *d_ys.values(), *scan.ends],
        name=_derived(params["name"], "jvp"),
        lags={**lags, **{count + k: lags[i] for k, i in enumerate(active) if i in lags}},
        **{key: params[key] for key in KEPT if key != "name"},
    )
    d_carries = dict(zip(active, results[count:], strict=False))
    d_stacks = dict(zip(d_ys, results[count + len(active) :], strict=False))
    return (
        *(d_carries.get(i) for i in range(count)),
        *(d_stacks.get(i) for i in range(len(scan.ys))),
        *[None] * scan.roles.until,
    )


# ---- batches ---------------------------------------------------------------------------------------------------------


def _over_batch(
    args: Sequence[Node], batched: Sequence[bool], size: Dimension, params: Params
) -> list[tuple[Node, bool]]:
    if any(batched[i] for i, _ in params["sizes"]):
        raise errors.NotSupportedError("the sizes inside a scan cannot differ between the examples of a batch")
    batch = _Batch(args, batched, size, params)
    if batch.masked and params["lags"]:  # an example that has ended keeps its values where they are
        params, more = without_lags(params, args)
        batch = _Batch(more, [*batched, *[False] * (len(more) - len(args))], size, params)
    return batch.results()


class _Batch:
    """A scan over a batch: one loop, in which the carries that differ between the examples have a batch axis."""

    def __init__(self, args: Sequence[Node], batched: Sequence[bool], size: Dimension, params: Params) -> None:
        self.size, self.params, self.roles = size, params, Roles.of_params(params)
        self.args, self.batched = args, batched
        self.inputs, self.outputs = params["body"].opened()
        self.wide = [ir.new_input(x.type.with_shape((size, *x.type.shape))) for x in self.inputs]
        count = self.roles.carries
        self.active, self.made = _settled(
            (i for i in range(count) if batched[i]),
            self._step,
            lambda made: [i for i, (_, flag) in enumerate(made[:count]) if flag],
        )
        self.masked = self.roles.until and self.made[-1][1]
        if self.masked:  # examples end at different steps; an ended one keeps its values
            self.active = list(range(count))

    def _step(self, active: Sequence[int]) -> list[tuple[Node, bool]]:
        """The body's outputs, where the carries `active` have a batch axis."""
        chosen = [*active, *(i for i in range(self.roles.carries, len(self.inputs)) if self.batched[i])]
        return batch_graph(self.outputs, {self.inputs[i]: self.wide[i] for i in chosen}, self.size)

    def results(self) -> list[Batched]:
        """The results of the loop over the batch, each with whether it has a batch axis, which is then its first."""
        roles, active = self.roles, set(self.active)
        inits, xs, consts = roles.split(list(zip(self.args, self.batched, strict=True)))
        inner = [wide if i in active or flag else x for i, (x, wide, flag) in enumerate(self._inputs())]
        before, rows, fixed = roles.split(inner)
        outer = [over_batch(init[0], init[1], self.size) if i in active else init[0] for i, init in enumerate(inits)]
        outer = [_swapped(init) if i in active and i in roles.lags else init for i, init in enumerate(outer)]
        extra: list[Pair] = []
        if self.masked:
            extra, new, stacked, end = self._masked(inner)
            flags = [True] * len(stacked)
        else:
            after, ys, stop = roles.split_results(self.made)
            new = [over_batch(pair[0], pair[1], self.size) if i in active else pair[0] for i, pair in enumerate(after)]
            flags = [flag for _, flag in ys]
            stacked, end = [y for y, _ in ys], [] if stop is None else [stop[0]]
        found = _closed(
            [*zip(before, outer, strict=True), *extra],
            [(x, _swapped(o) if flag else o) for x, (o, flag) in zip(rows, xs, strict=True)],
            [(x, o) for x, (o, _) in zip(fixed, consts, strict=True)],
            [*new, *stacked, *end],
            lags=roles.lags,
            **{key: self.params[key] for key in KEPT},
        )
        finals = [_swapped(g) if i in active and i in roles.lags else g for i, g in enumerate(found[: roles.carries])]
        start = roles.carries + len(extra)
        stacks = [_swapped(y) if flag else y for y, flag in zip(found[start:], flags, strict=False)]
        counts: list[Batched] = []
        if self.masked:  # the rewrites see from this that no example makes more steps than the loop
            counts = [(ir.apply(MINIMUM, found[roles.carries + 1], ir.dim_node(self.params["length"])), True)]
        elif roles.until:
            counts = [(found[-1], False)]
        carried = [(final, i in active) for i, final in enumerate(finals)]
        return [*carried, *zip(stacks, flags, strict=True), *counts]

    def _inputs(self) -> Iterable[tuple[Node, Node, bool]]:
        return zip(self.inputs, self.wide, self.batched, strict=True)

    def _masked(self, inner: Sequence[Node]) -> tuple[list[Pair], list[Node], list[Node], list[Node]]:
        """A step that does not change examples that have ended. Returns two more carries (whether each example has
        ended, and how many steps it has run), all carries after the step, the ys, and the condition to stop."""
        no, zero = (full(0, (self.size,), dtype) for dtype in ("bool", "int64"))
        ended, count = ir.new_input(no.type), ir.new_input(zero.type)
        wide = {x: new for x, new in zip(self.inputs, inner, strict=True) if new is not x}
        made, _ = batch_chosen(self.outputs, wide, ~ended, self.size)  # the loop runs only while one has not ended
        after, ys, stop = self.roles.split_results(made)
        assert stop is not None  # such a loop has `until`
        over = ended | stop
        kept = [select(ended, old, now) for old, now in zip(inner, after, strict=False)]
        counted = select(ended, count, count + 1)
        rows = [select(ended, zeros_like(y), y) for y in ys]
        return [(ended, no), (count, zero)], [*kept, over, counted], rows, [ALL(over, axes=(0,))]


def _swapped(x: Node) -> Node:
    """`x` with its first two axes exchanged."""
    return DIMSHUFFLE(x, order=(1, 0, *range(2, x.ndim)))
