"""Carries: values that are fed back from step to step, as delay lines and with lags. Their dtypes and shapes must not
change."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from scanjit import ir, types
from scanjit.config import config
from scanjit.errors import ScanError
from scanjit.ir import Node, is_number, new_input
from scanjit.kinds import Kind, kind_of
from scanjit.loops import windows
from scanjit.loops.entries import Entry, Leaf, moment
from scanjit.loops.step import Returned
from scanjit.ops.expect import expect
from scanjit.ops.promotion import CAST
from scanjit.ops.shape import row, window
from scanjit.records import record
from scanjit.types import Dimension, Type

LONGEST_LINE = 8
"""A tap that reaches back at most this many steps reads a delay line of carries, which fit into registers. A tap that
reaches further back reads a carry with a lag."""


@record(frozen=False)
class Feedback:
    """One tensor that is fed back.

    `far` has the lags of the taps that reach far back: each is a carry of its own. `line` is the number of carries in
    the delay line. For all these carries, those of `far` first, then the delay line from its earliest value on,
    `initial` has the value before the first step, and `symbols` the symbol in the step.
    """

    output: int
    place: int
    entry: Entry
    leaf: Leaf
    far: list[Dimension]
    line: int
    initial: list[Node]
    symbols: list[Node]

    @classmethod
    def of(cls, output: int, place: int, entry: Entry, leaf: Leaf, dtype: np.dtype | None = None) -> Feedback:
        """The carry for a leaf of an entry of outputs_info. `dtype` is the dtype of a weak initial value."""
        if is_number(leaf.value):
            value = ir.constant(leaf.value, dtype or default_dtype(kind_of(type(leaf.value))))
        else:
            value = leaf.value
        far, line = _divided(entry.taps)
        if entry.taps == (-1,):
            initial, types_ = [value], [value.type]
        else:
            value, rows = _with_rows(value, entry, leaf)
            initial = [window(value, 0, rows - lag, lag) for lag in far]
            initial += [row(value, rows - lag) for lag in range(line, 0, -1)]
            types_ = [value.type.with_shape(value.type.shape[1:])] * len(initial)
        lags = [*far, *range(line, 0, -1)]
        symbols = [new_input(t, leaf.name + moment(-1 * lag)) for t, lag in zip(types_, lags, strict=True)]
        return cls(output, place, entry, leaf, far, line, initial, symbols)

    @property
    def weak(self) -> bool:
        """Whether the initial value is a Python number."""
        return is_number(self.leaf.value)

    @property
    def tensor(self) -> tuple[int, tuple[int, ...]]:
        """Which tensor of the outputs it belongs to: one of complex numbers has two leaves."""
        return self.output, next(places for places in self.entry.tree.tensors() if self.place in places)

    @property
    def type(self) -> Type:
        """The type that every value has."""
        return self.symbols[0].type

    def tap(self, tap: Dimension) -> Node:
        """The symbol that the step reads at a tap."""
        lag = -1 * tap
        return self.symbols[self.far.index(lag)] if lag in self.far else self.symbols[types.as_int(tap)]

    def after(self, result: Node) -> list[Node]:
        """The values of the carries after a step that returns `result`: the line moves up by one."""
        line = [*self.symbols[len(self.far) + 1 :], result] if self.line else []
        return [*[result] * len(self.far), *line]


def _divided(taps: Sequence[Dimension]) -> tuple[list[Dimension], int]:
    """The lags that become carries of their own, and how many carries the delay line for all other taps has. A lag
    becomes a carry if it is long, or not known yet. The longest comes first: the others share its memory."""
    known = sorted((-tap for tap in taps if isinstance(tap, int)), reverse=True)
    far = [-1 * tap for tap in taps if not isinstance(tap, int)] + [lag for lag in known if lag > LONGEST_LINE]
    return far, max((lag for lag in known if lag <= LONGEST_LINE), default=0)


def _with_rows(value: Node, entry: Entry, leaf: Leaf) -> tuple[Node, Dimension]:
    """The initial value of a carry, which must hold as many rows as its taps reach back; and this number of rows."""
    lags = [-1 * tap for tap in entry.taps]
    rows = functools.reduce(types.maximum, lags)
    advice = "stack the values of the steps before the first, the earliest first"
    label = types.escaped(leaf.label)
    if value.ndim == 0:
        raise ScanError(
            f"{leaf.label}: initial is a scalar, taps {list(entry.taps)} need {rows} rows",
            got=repr(value),
            fix=advice,
        )
    text = f"{label}: a tap reads {{right}} steps back: a step can read only what earlier steps returned"
    value = expect(value, *((1, lag, text) for lag in lags))
    text = f"{label}: initial holds {{right}} rows, taps {types.escaped(str(list(entry.taps)))} need {{left}}"
    return windows.with_rows(value, rows, text, advice), rows


class Carries:
    """All carries of a scan, in the order of its operands: by output, by leaf, the earliest value first."""

    def __init__(self, infos: Sequence[Entry], items: list[Feedback] | None = None, trials: int = 0) -> None:
        self.infos, self.trials = infos, trials
        self.items = items or [
            Feedback.of(i, k, entry, leaf) for i, entry in enumerate(infos) for k, leaf in enumerate(entry.leaves)
        ]

    def initial(self) -> list[Node]:
        """The values before the first step."""
        return [node for item in self.items for node in item.initial]

    def symbols(self) -> list[Node]:
        """The symbols of the values inside the step."""
        return [node for item in self.items for node in item.symbols]

    def arguments(self) -> Iterator[tuple[Any, str]]:
        """The arguments of the step, with names: for each output that is fed back, its taps in the given order."""
        for i, entry in enumerate(self.infos):
            mine = [item for item in self.items if item.output == i]
            for tap in entry.taps:
                nodes = [item.tap(tap) for item in mine]
                yield entry.tree.unflatten(nodes), (mine[0].leaf.name if len(mine) == 1 else entry.label) + moment(tap)

    def lags(self) -> dict[int, Dimension]:
        """Maps the positions of carries with a lag to their lags."""
        found: list[Dimension | None] = []
        for item in self.items:
            found += [*item.far, *[None] * item.line]
        return {i: lag for i, lag in enumerate(found) if lag is not None}

    def finals(self, outputs: int) -> list[tuple[int, ...]]:
        """For each output, the positions of its last values among the carries; empty if it is not fed back."""
        result: list[tuple[int, ...]] = [()] * outputs
        at = 0
        for item in self.items:
            at += len(item.symbols)
            result[item.output] += (at - 1,)
        return result

    def results(self, returned: Returned) -> list[tuple[Node, ...]]:
        """The values that the step returned, all as nodes: a Python number takes the dtype of the carry that it
        becomes."""
        dtypes = {(item.output, item.place): item.type.dtype for item in self.items}

        def node(value: Any, at: tuple[int, int]) -> Node:
            if not is_number(value):
                return value
            kind, dtype = kind_of(type(value)), dtypes.get(at)
            fits = dtype is not None and kind.order <= kind_of(dtype).order
            return ir.constant(value, dtype if fits else default_dtype(kind))

        return [tuple(node(value, (i, k)) for k, value in enumerate(group)) for i, group in enumerate(returned.groups)]

    def shifted(self, results: Sequence[Sequence[Node]]) -> list[Node]:
        """The carries after a step."""
        return [node for item in self.items for node in item.after(results[item.output][item.place])]

    # ---- weak scalars ----

    def adapted(self, results: Sequence[Sequence[Node]]) -> Carries | None:
        """The carries with other dtypes for the weak scalars; None if they have the right dtypes already. A weak scalar
        takes the dtype of the tensors that it is computed from in any step; other weak scalars do not count. If there
        is no such tensor, it takes the default dtype.
        """
        weak = [item for item in self.items if item.weak]
        met = _dtypes_met([item.symbols for item in weak], [results[item.output][item.place] for item in weak])
        shared: dict[Any, set[np.dtype]] = {}  # the two parts of a complex number have one dtype
        for item, dtypes in zip(weak, met, strict=True):
            shared.setdefault(item.tensor, set()).update(dtypes)
        met = [shared[item.tensor] for item in weak]
        changed = {}
        for item, entering in zip(weak, met, strict=True):
            result = results[item.output][item.place]
            own, kind = kind_of(type(item.leaf.value)), result.type.kind
            if result.ndim or kind.order < own.order:
                continue
            alike = [dtype for dtype in entering if kind_of(dtype).order == kind.order]
            wanted = types.promote(alike) if alike else default_dtype(kind)
            if wanted == item.type.dtype:
                wanted = result.dtype
            if wanted != item.type.dtype:
                changed[id(item)] = wanted
        return self._with_dtypes(changed) if changed else None

    def following(self, results: Sequence[Sequence[Node]]) -> Carries | None:
        """The carries, where each weak one has the dtype that the step returned; None if all have that dtype
        already."""
        changed = {}
        for item in self.items:
            result, own = results[item.output][item.place].type, item.type
            if item.weak and result.dtype != own.dtype and result.kind.order >= own.kind.order:
                changed[id(item)] = result.dtype
        return self._with_dtypes(changed) if changed else None

    def _with_dtypes(self, dtypes: dict[int, np.dtype]) -> Carries:
        def renewed(item: Feedback) -> Feedback:
            dtype = dtypes.get(id(item))
            return item if dtype is None else Feedback.of(item.output, item.place, item.entry, item.leaf, dtype)

        return Carries(self.infos, [renewed(item) for item in self.items], self.trials + 1)

    # ---- checks ----

    def check(self, results: Sequence[Sequence[Node]], where: str) -> None:
        """Raise an error if the step returns a value whose shape or dtype is not that of the value before."""
        for item in self.items:
            before, after = item.type, results[item.output][item.place].type
            if before.ndim != after.ndim or any(map(_differ, before.shape, after.shape)):
                have, new = (types.shape_text(t.shape) for t in (before, after))
                changes = f"its shape: initial has shape {have}, the step returns {new}"
                advice = _shape_advice(before, after)
            elif before.dtype != after.dtype:
                changes = f"its dtype: initial is {before.dtype}, the step returns {after.dtype}"
                advice = _dtype_advice(before.dtype, after.dtype)
            else:
                continue
            raise ScanError(
                f"{item.leaf} changes {changes}",
                got=f"{after} from the step",
                expected=f"{before}, as the initial value",
                fix=advice,
                where=where,
            )


def default_dtype(kind: Kind) -> np.dtype:
    """The dtype of Python numbers of a kind that meet no tensor."""
    return np.dtype(config.floatX if kind.floating else "bool" if kind.is_mask else "int64")


def _dtypes_met(symbols: Sequence[Sequence[Node]], results: Sequence[Node]) -> list[set[np.dtype]]:
    """For each weak scalar, the dtypes of the tensors from which its results are computed, directly or through other
    weak scalars. Where numbers are chosen or counted by comparisons, the dtypes of what is compared do not count."""
    all_symbols = [symbol for group in symbols for symbol in group]
    met: list[set[np.dtype]] = []
    uses = []
    for result in results:
        masks = () if result.type.kind.is_mask else [node for node in ir.walk([result]) if _is_mask(node)]
        met.append({_uncast(node).dtype for node in ir.free_variables([result], [*all_symbols, *masks])})
        nodes = set(ir.walk([result], {*all_symbols, *masks}))
        uses.append([k for k, group in enumerate(symbols) if not nodes.isdisjoint(group)])
    for _ in results:  # a path through all weak scalars has so many steps
        met = [own.union(*(met[k] for k in used)) for own, used in zip(met, uses, strict=True)]
    return met


def _is_mask(node: Node) -> bool:
    return not node.several and node.type.kind.is_mask


def _uncast(node: Node) -> Node:
    """The node before promotion converted it."""
    while node.op is CAST:
        node = node.args[0]
    return node


def _differ(before: Any, after: Any) -> bool:
    """Whether the user would call two dimensions different. A 1 and a symbol are different: the 1 was meant to be
    stretched."""
    if before == after:
        return False
    return isinstance(before - after, int) or 1 in (before, after)


def _dtype_advice(before: np.dtype, after: np.dtype) -> str:
    if types.promote([before, after]) == after:
        return f"start from {after}, or return sj.cast(value, '{before}')"
    return f"return sj.cast(value, '{before}'), or start from {after}"


def _shape_advice(before: Type, after: Type) -> str:
    pairs = zip(reversed(before.shape), reversed(after.shape), strict=False)
    if before.ndim <= after.ndim and all(b == 1 or not _differ(b, a) for b, a in pairs):
        text = types.shape_text(after.shape)
        start = (
            f"start from the whole shape: use sj.zeros({text}, '{before.dtype}') or sj.broadcast_to(initial, {text})"
        )
        column = not before.ndim and after.shape == (1,)
        return start + ("; if the sequence should be a column's numbers: xs[:, 0]" if column else "")
    if before.ndim != after.ndim:
        return "return a value of as many axes as the initial value has"
    return "return a value of the shape that the step is given (did a reduction or a broadcast change it?)"
