"""The derivatives of a scan: its reverse mode and its forward mode are scans again.

The functions here do not know the op, which `scanjit.ops.scan` defines. They get `close`, which makes a new scan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scanjit import ir, types
from scanjit.ir import Graph, Node
from scanjit.ops.chain import carries_gradient, differentiable, pullback, pushforward
from scanjit.ops.elementwise import WHERE
from scanjit.ops.probe import PRINT, without_probes
from scanjit.ops.promotion import cast, keep
from scanjit.ops.roles import KEPT, Close, OpenedScan, Pair, remembered
from scanjit.ops.shape import SET_SLICE, window
from scanjit.ops.stretch import or_zeros, zeros_like
from scanjit.walks import grown, settled


def _derived(name: str | None, suffix: str) -> str | None:
    return None if name is None else f"{name}.{suffix}"


# ---- reverse mode ----------------------------------------------------------------------------------------------------


class Reverse:
    """The vjp of a scan is two scans. The first is the same scan, which also returns the carries before each step that
    are needed. The second, the reverse scan, reads these carries in the other direction.

    The body of the reverse scan computes again all that it needs from these carries, the rows and the constants. (A
    later pass decides which of these values to store instead.) Its carries are the cotangents of the carries, then one
    sum for the cotangent of each constant. Its ys are the cotangents of the rows.
    """

    def __init__(self, node: Node, g: Sequence[Node | None], needed: Sequence[bool], close: Close) -> None:
        self.close = close
        self.scan = scan = OpenedScan(node)
        self.g_carries, self.g_ys, _ = scan.roles.split_results(g)
        need_inits, need_xs, need_consts = scan.roles.split(needed)
        self.wanted_rows = [i for i, need in enumerate(need_xs) if need and carries_gradient(scan.rows[i])]
        self.wanted_consts = [i for i, need in enumerate(need_consts) if need and carries_gradient(scan.fixed[i])]
        self.wanted_inits = [i for i, need in enumerate(need_inits) if need and carries_gradient(scan.before[i])]
        self.varying = grown(self.wanted_inits, self._carries_that_vary)
        self.seeds = [ir.new_input(carry.type) for carry in scan.before]
        self.y_seeds = {i: ir.new_input(y.type) for i, y in enumerate(scan.ys) if self.g_ys[i] is not None}
        arriving = [i for i in self.varying if self.g_carries[i] is not None]
        question = ("active", tuple(cotangent is None for cotangent in g), tuple(needed))
        self.active = remembered(node, question, lambda: grown(arriving, self._carries_with_cotangents))

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
        return self.close(
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

    def __init__(self, scan: OpenedScan, results: Sequence[Node]) -> None:
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
