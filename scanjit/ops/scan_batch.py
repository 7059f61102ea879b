"""A scan over a batch: one loop for all examples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scanjit import errors, ir
from scanjit.ir import Node
from scanjit.ops.batch import Batched, batch_graph
from scanjit.ops.chosen import batch_chosen, select
from scanjit.ops.elementwise import MINIMUM, OR, WHERE
from scanjit.ops.extremes import ALL
from scanjit.ops.roles import KEPT, Close, Pair, Roles, without_lags
from scanjit.ops.stretch import full, over_batch, zeros_like
from scanjit.ops.view import DIMSHUFFLE
from scanjit.signatures import Params
from scanjit.types import Dimension
from scanjit.walks import settled


def scan_over_batch(
    args: Sequence[Node], batched: Sequence[bool], size: Dimension, params: Params, close: Close
) -> list[tuple[Node, bool]]:
    if any(batched[i] for i, _ in params["sizes"]):
        raise errors.NotSupportedError("the sizes inside a scan cannot differ between the examples of a batch")
    batch = _Batch(args, batched, size, params, close)
    if batch.masked and params["lags"]:  # an example that has ended keeps its values where they are
        params, more = without_lags(params, args)
        batch = _Batch(more, [*batched, *[False] * (len(more) - len(args))], size, params, close)
    return batch.results()


class _Batch:
    """A scan over a batch: one loop, in which the carries that differ between the examples have a batch axis."""

    def __init__(
        self, args: Sequence[Node], batched: Sequence[bool], size: Dimension, params: Params, close: Close
    ) -> None:
        self.close = close
        self.size, self.params, self.roles = size, params, Roles.of_params(params)
        self.args, self.batched = args, batched
        self.inputs, self.outputs = params["body"].opened()
        self.wide = [ir.new_input(x.type.with_shape((size, *x.type.shape))) for x in self.inputs]
        count = self.roles.carries
        self.active, self.made = settled(
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
        found = self.close(
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


def ended(before: Sequence[Node], after: Sequence[Node], stop: Node) -> int | None:
    """The number of the carry that says which examples have ended, in a loop that stops when all have, and whose step
    leaves those that have ended as they are. None for other loops."""
    over = stop.args[0] if stop.op is ALL else None
    number = next((i for i, new in enumerate(after) if new is over), None)
    if over is None or number is None or over.op is not OR:
        return None

    def stays(i: int) -> bool:
        new, flag = after[i], before[number]
        parts = (new.args[0], new.args[1]) if new.op is WHERE else (flag, new)
        return parts[0] is flag and parts[1] is before[i]

    left = [i for i in range(len(before)) if i != number]
    return number if any(arg is before[number] for arg in over.args) and all(map(stays, left)) else None


def _swapped(x: Node) -> Node:
    """`x` with its first two axes exchanged."""
    return DIMSHUFFLE(x, order=(1, 0, *range(2, x.ndim)))
