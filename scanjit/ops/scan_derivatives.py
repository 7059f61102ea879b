"""The derivatives of a scan: its reverse mode and its forward mode are scans again.

The functions here do not know the op, which `scanjit.ops.scan` defines. They get a function that makes a new scan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scanjit import ir, types
from scanjit.ir import Graph, Node
from scanjit.ops.chain import carries_gradient, differentiable, pullback, pushforward
from scanjit.ops.elementwise import WHERE
from scanjit.ops.probe import PRINT, without_probes
from scanjit.ops.promotion import cast, keep
from scanjit.ops.roles import KEPT, Close, ClosedStep, OpenedScan, Roles, remembered
from scanjit.ops.shape import SET_SLICE, window
from scanjit.ops.stretch import or_zeros, zeros_like
from scanjit.signatures import OpFunction
from scanjit.walks import grown, settled


def _derived(name: str | None, suffix: str) -> str | None:
    return None if name is None else f"{name}.{suffix}"


# ---- reverse mode ----------------------------------------------------------------------------------------------------


class ReverseStep(NamedTuple):
    """What the reverse mode of a scan makes of its step: the same for all scans with this step.

    Attributes
    ----------
    active : the carries that have cotangents after a step.
    wanted : those whose initial values get cotangents.
    rows, consts : the rows and constants that get cotangents.
    forward : the body of the scan that also returns the carries that are needed; None if it returns them already.
    saved : the positions of these carries among what it stacks.
    backward : the step of the reverse scan. Its carries are the cotangents of the active carries, then one sum for the
        cotangent of each constant. It may read the saved carries, the rows, and the cotangents of ys.
    """

    active: list[int]
    wanted: list[int]
    rows: list[int]
    consts: list[int]
    forward: Graph | None
    saved: list[int]
    backward: ClosedStep


class Reverse:
    """The vjp of a scan is two scans. The first is the same scan, which also returns the carries before each step that
    are needed. The second, the reverse scan, reads these carries in the other direction.

    The body of the reverse scan computes again all that it needs from these carries, the rows and the constants. (A
    later pass decides which of these values to store instead.) Its ys are the cotangents of the rows.
    """

    def __init__(
        self,
        node: Node,
        g: Sequence[Node | None],
        needed: Sequence[bool],
        scan_of: OpFunction[tuple[Node, ...]],
    ) -> None:
        self.node, self.needed, self.scan_of, self.roles = node, needed, scan_of, Roles.of(node)
        self.g_carries, self.g_ys, _ = self.roles.split_results(g)
        question = ("reverse", tuple(cotangent is None for cotangent in g), tuple(needed), node.params["stored"])
        # What is captured lies outside of the scan, and may lead to it: it would keep what it is remembered for.
        self.step = remembered(node, question, self._derived, lambda step: not step.backward.captured)

    def cotangents(self) -> list[Node | None]:
        """One cotangent for each operand of the scan."""
        step, node, params = self.step, self.node, self.node.params
        if not step.active and not step.rows and not step.consts:
            return [None] * node.arity
        inits, xs, consts = self.roles.split(node.operands)
        results = ir.parts(node if step.forward is None else ir.with_body(node, step.forward))
        span = _Span(node, results)
        carries = [or_zeros(self.g_carries[i], inits[i]) for i in step.active]
        carries += [zeros_like(consts[i]) for i in step.consts]
        rows = [*(results[self.roles.carries + k] for k in step.saved), *xs, *(g for g in self.g_ys if g is not None)]
        unroll = params["unroll"]
        found = self.scan_of(
            step.backward,
            carries,
            list(map(span.cut, rows)),
            consts,
            length=span.length,
            reverse=not params["reverse"],
            lags={k: self.roles.lags[i] for k, i in enumerate(step.active) if i in self.roles.lags},
            unroll=False if unroll is True and not isinstance(span.length, int) else unroll,
            checkpoint=params["checkpoint"],
            name=_derived(params["name"], "grad"),
            gradient=True,
        )
        of_consts, of_rows = len(step.active), len(step.active) + len(step.consts)
        of_inits = {i: span.of_init(found[k]) for k, i in enumerate(step.active) if i in step.wanted}
        fixed = dict(zip(step.consts, found[of_consts:], strict=False))
        sequences = {i: span.padded(g, xs[i]) for i, g in zip(step.rows, found[of_rows:], strict=True)}
        return [
            *(of_inits.get(i) for i in range(len(inits))),
            *(sequences.get(i) for i in range(len(xs))),
            *(fixed.get(i) for i in range(len(consts))),
        ]

    def _derived(self) -> ReverseStep:
        return _StepDerivative(self.node, self.g_carries, self.g_ys, self.needed).reverse()


class _StepDerivative:
    """The search for the `ReverseStep` of a scan. Of cotangents, it only sees which there are."""

    def __init__(
        self, node: Node, g_carries: Sequence[Node | None], g_ys: Sequence[Node | None], needed: Sequence[bool]
    ) -> None:
        self.scan = scan = OpenedScan(node)
        need_inits, need_xs, need_consts = scan.roles.split(needed)
        self.wanted_rows = [i for i, need in enumerate(need_xs) if need and carries_gradient(scan.rows[i])]
        self.wanted_consts = [i for i, need in enumerate(need_consts) if need and carries_gradient(scan.fixed[i])]
        self.wanted_inits = [i for i, need in enumerate(need_inits) if need and carries_gradient(scan.before[i])]
        self.varying = grown(self.wanted_inits, self._carries_that_vary)
        self.seeds = [ir.new_input(carry.type) for carry in scan.before]
        self.y_seeds = {i: ir.new_input(y.type) for i, y in enumerate(scan.ys) if g_ys[i] is not None}
        self.arriving = [i for i in self.varying if g_carries[i] is not None]

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

    def reverse(self) -> ReverseStep:
        """What the reverse mode makes of the step."""
        scan, active = self.scan, grown(self.arriving, self._carries_with_cotangents)
        step = self._step(active)
        rows = [i for i in self.wanted_rows if scan.rows[i] in step]
        consts = [i for i in self.wanted_consts if scan.fixed[i] in step]
        sums = [ir.new_input(scan.fixed[i].type) for i in consts]
        outputs = [or_zeros(step.get(scan.before[i]), scan.before[i]) for i in active]
        outputs += [total + step[scan.fixed[i]] for i, total in zip(consts, sums, strict=True)]
        outputs += [step[scan.rows[i]] for i in rows]
        outputs = without_probes(outputs, [PRINT])  # the forward scan has them
        forward, saved, known = self._forward(outputs)
        backward = ClosedStep.of(
            [*(self.seeds[i] for i in active), *sums],
            [*saved, *scan.rows, *self.y_seeds.values()],
            scan.fixed,
            ir.replace(outputs, known),
        )
        return ReverseStep(active, self.wanted_inits, rows, consts, forward, list(saved.values()), backward)

    def _forward(self, outputs: Sequence[Node]) -> tuple[Graph | None, dict[Node, int], dict[Node, Node]]:
        """The body of the scan that also returns carries, if it does not yet; these carries, as inputs of the reverse
        scan's body, with their positions among what is stacked; and the form in which the reverse scan has carries that
        are kept in 16 bits."""
        scan = self.scan
        used = set(ir.walk(outputs))
        returned: list[Node] = list(scan.ys)
        at = {y: k for k, y in reversed(list(enumerate(returned)))}
        rows: dict[Node, int] = {}
        known: dict[Node, Node] = {}
        for carry in (before for before in scan.before if before in used):
            kept = keep(carry, scan.node.params["stored"])
            if kept not in at:
                at[kept] = len(returned)
                returned.append(kept)
            row = carry if kept is carry else ir.new_input(kept.type)
            if row is not carry:
                known[carry] = cast(row, carry.dtype)
            rows[row] = at[kept]
        more = len(returned) > len(scan.ys)
        return Graph.of(scan.inputs, [*scan.after, *returned, *scan.ends]) if more else None, rows, known


class _Span:
    """The rows that the reverse scan reads: the rows of the steps that ran, or the last of them if the gradient is
    truncated."""

    def __init__(self, node: Node, results: Sequence[Node]) -> None:
        params = node.params
        self.rows = params["length"]
        ran = ir.as_dim(results[-1]) if params["until"] else self.rows
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


def forward(node: Node, tangents: Sequence[Node | None], close: Close) -> tuple[Node | None, ...]:
    """The jvp of a scan: a scan whose carries are the carries of `node` and their tangents. It returns the tangents of
    the ys."""
    scan = OpenedScan(node)
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
    active, found = settled(
        (i for i, tangent in enumerate(d_inits) if tangent is not None),
        step,
        lambda found: [i for i, tangent in enumerate(found[:count]) if tangent is not None],
    )
    outputs = [or_zeros(found[i], scan.before[i]) for i in active]
    d_ys = {i: tangent for i, tangent in enumerate(found[count:]) if tangent is not None}
    carries = list(zip(scan.before, scan.inits, strict=True))
    carries += [(s_carries[i], or_zeros(d_inits[i], scan.inits[i])) for i in active]
    params, lags = node.params, scan.roles.lags
    results = close(
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
