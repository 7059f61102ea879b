"""How each op is cut into steps. An op that is no entry of `RULES` is cut if the time axes of its operands and of its
result are aligned (`Op.aligned`): then it does the same in a block of steps as in all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Node
from scanjit.ops.elementwise import MINIMUM, where
from scanjit.ops.expect import EXPECT
from scanjit.ops.extremes import ARGMAX, ARGMIN
from scanjit.ops.index import GATHER
from scanjit.ops.reduction import Reduction
from scanjit.ops.roles import KEPT, Roles
from scanjit.ops.scan import SCAN, scan_node
from scanjit.ops.shape import CONCATENATE, IOTA, RESHAPE, SET_SLICE, SLICE, window
from scanjit.ops.sorting import ARGPARTITION, ARGRANKED, ARGSORT, PARTITION, RANKED, SORT, WHERE_TRUE
from scanjit.ops.stretch import BROADCAST_TO, broadcast_to, expand, zeros_like
from scanjit.ops.systems import CHOLESKY, DET, DET_SIGN, LOGABSDET, SOLVE, TRIANGULAR_SOLVE
from scanjit.ops.view import DIMSHUFFLE, along
from scanjit.ops.windows import WINDOWS, extent
from scanjit.records import replace
from scanjit.streaming.values import Begun, Cut, Fixed, Last, StatePart, TimeRows, Value, latest

Operands = Sequence[Value]
Found = Value | list[Value | None]
Rule = Callable[[Cut, Node, Operands], Found]


def cut_node(cutter: Cut, node: Node, operands: Operands) -> Found:
    """The value of a node in the function of a block, given the values of its operands. For an op with several results,
    the value of each, or None for a result that a block does not know."""
    rule = RULES.get(node.op)
    if rule is not None:
        return rule(cutter, node, operands)
    if isinstance(node.op, Reduction):
        return _reduction(cutter, node, operands)
    return _aligned(cutter, node, operands)


def refuse(node: Node, reason: str, fix: str = "") -> NoReturn:
    """The error for a node that cannot be computed step by step."""
    name = node.params.get("name")
    raise errors.NotSupportedError(
        f"a function that is cut into steps cannot have {reason}",
        got=f"{node.op.name}{f' {name!r}' if name else ''}: {', '.join(map(str, node.types))}",
        expected="a value at step t that depends on steps up to t",
        fix=fix,
        where=node.where,
    )


def _checked(node: Node, operands: Operands) -> list[TimeRows]:
    """The operands that have a time axis. It is an error if any other operand is known only after the last step."""
    if any(isinstance(operand, Last) for operand in operands):
        refuse(node, "a value at each step that depends on the value after the last step")
    return [operand for operand in operands if isinstance(operand, TimeRows)]


def _some(node: Node, operands: Operands) -> list[TimeRows]:
    """The operands that have a time axis, of an op that needs one."""
    found = _checked(node, operands)
    if not found:
        refuse(node, f"{node.op.name} of a size that is the number of steps")
    return found


def _plain(node: Node, rows: TimeRows) -> TimeRows:
    """Rows whose time axis has no entries of other axes."""
    if rows.merged:
        refuse(node, "an op that takes steps apart where the time axis was reshaped together with others")
    return rows


def _together(cutter: Cut, node: Node, operands: Operands) -> tuple[list[Value], int]:
    """The operands, with their rows delayed so that all have the same lead; and that lead."""
    leads = {rows.lead for rows in operands if isinstance(rows, TimeRows)}
    lead = min(leads)
    if len(leads) > 1:
        operands = [_plain(node, item) if isinstance(item, TimeRows) else item for item in operands]
    return [cutter.delayed(i, i.lead - lead) if isinstance(i, TimeRows) else i for i in operands], lead


def _up_to_now(cutter: Cut, node: Node, rows: TimeRows) -> TimeRows:
    """The rows, delayed until there are as many as in the whole sequence. `concatenate([zero, x[:-1]])` then has no
    entry that depends on the newest row of `x`."""
    late = rows.lead - rows.more
    return cutter.delayed(_plain(node, rows), late) if late > 0 else rows


def _check_begun(node: Node, operands: Operands, lead: int) -> None:
    """Raise an error unless values of the first steps are known when rows with this lead need them."""
    if any(isinstance(operand, Begun) for operand in operands) and (lead > 0 or latest(operands) > -lead):
        refuse(node, "the value of one step in others before it", "give it to the function as an input of its own")


def _nodes(operands: Operands) -> list[Node]:
    return [operand.node for operand in operands]


def _befores(operands: Operands) -> list[Node]:
    """The operands, for the entries before the first step."""
    return [o.entry(0, o.lead) if isinstance(o, TimeRows) and o.lead > 0 else o.node for o in operands]


# ---- ops that do the same at each step -------------------------------------------------------------------------------


def _aligned(cutter: Cut, node: Node, operands: Operands) -> Value:
    given = _some(node, operands)
    if node.op.aligned is None or node.several:
        refuse(node, f"{node.op.name} of all steps at once")
    axes = set()
    for i, operand in enumerate(operands):
        if isinstance(operand, TimeRows):
            axes.add(node.op.aligned(i, node.operands[i].type, node.type, **node.params).get(operand.axis))
    (axis, *others) = axes
    if axis is None or others or sum(map(cutter.has_time, node.type.shape)) != 1:
        refuse(node, f"{node.op.name} that uses several steps at once", _fixed_size(cutter, node, given))
    return _same(cutter, node, operands, axis)


def _fixed_size(cutter: Cut, node: Node, given: Sequence[TimeRows]) -> str:
    if node.several or any(map(cutter.has_time, node.type.shape)):
        return ""
    return "give the time axis no fixed size: None in the shape of an InputLayer, a name in sj.tensor"


def _same(cutter: Cut, node: Node, operands: Operands, axis: int) -> TimeRows:
    """The op on the rows of a block; `axis` is the time axis of its result."""
    together, lead = _together(cutter, node, operands)
    _check_begun(node, operands, lead)
    first = next(rows for rows in together if isinstance(rows, TimeRows))
    made = cutter.applied(node, _nodes(together), first.more)
    before = cutter.applied(node, _befores(together), first.more, lead) if lead > 0 else None
    return replace(first, node=made, axis=axis, before=before)


def _gather(cutter: Cut, node: Node, operands: Operands) -> Value:
    source, *indices = operands
    axis = node.params["axis"]
    rows = _some(node, operands)
    ndim = max(index.node.ndim for index in indices)
    if not isinstance(source, TimeRows):
        places = {axis + ndim - i.node.ndim + i.axis for i in indices if isinstance(i, TimeRows)}
        if len(places) != 1:
            refuse(node, "indices of several steps at once")
        return _same(cutter, node, operands, places.pop())
    if axis <= source.axis < axis + len(indices):
        return _own_step(cutter, node, operands, source, ndim)
    if len(rows) > 1:
        refuse(node, "an index that differs between the steps, of another axis")
    behind = source.axis >= axis + len(indices)
    return _same(cutter, node, operands, source.axis + (ndim - len(indices)) * behind)


def _own_step(cutter: Cut, node: Node, operands: Operands, source: TimeRows, ndim: int) -> Value:
    """A value of each step, chosen by an index of that step. Along time, the index must be 0, 1, 2, ..."""
    axis = node.params["axis"]
    number = 1 + source.axis - axis
    index = origin = node.operands[number]
    while origin.op in (DIMSHUFFLE, BROADCAST_TO, EXPECT):
        origin = origin.operands[0]
    places = [k for k, dim in enumerate(index.type.shape) if cutter.has_time(dim)]
    own = origin.op is IOTA and cutter.more(origin.params["length"]) == 0 and len(places) == 1
    if not own or any(isinstance(o, TimeRows) and (o.lead or o.more or o.merged) for o in operands):
        refuse(node, "an index that chooses steps")
    found = [TimeRows(index, places[0]) if i == number else operand for i, operand in enumerate(operands)]
    result = {axis + ndim - i.node.ndim + i.axis for i in found[1:] if isinstance(i, TimeRows)}
    if len(result) != 1:
        refuse(node, "indices of several steps at once")
    return _same(cutter, node, found, result.pop())


def _along(cutter: Cut, node: Node, operands: Operands) -> Value:
    """An op along an axis that its result lacks, such as `argmax`."""
    (rows,) = _some(node, operands)
    if rows.axis == node.params["axis"]:
        refuse(node, f"{node.op.name} of all steps at once")
    return _same(cutter, node, operands, rows.axis - (rows.axis > node.params["axis"]))


def _in_last(count: int) -> Rule:
    """The rule of an op on the `count` last axes, which does the same for all indices of the others."""

    def rule(cutter: Cut, node: Node, operands: Operands) -> Value:
        rows = _some(node, operands)
        before = {operand.ndim - count for operand in node.operands}
        if len({r.axis for r in rows}) > 1 or len(before) > 1 or rows[0].axis >= min(before):
            refuse(node, f"{node.op.name} of all steps at once")
        return _same(cutter, node, operands, rows[0].axis)

    return rule


def _ranked(cutter: Cut, node: Node, operands: Operands) -> Value:
    """Some entries of each row in order."""
    x, ranks = operands
    if not isinstance(x, TimeRows) or isinstance(ranks, TimeRows) or x.axis >= node.ndim - 1:
        refuse(node, f"{node.op.name} of all steps at once")
    return _same(cutter, node, operands, x.axis)


def _reshape(cutter: Cut, node: Node, operands: Operands) -> Value:
    (rows,) = _some(node, operands)
    before, after = _sides(node.operands[0].type.shape, rows.axis)
    before, after = before * rows.outer, rows.inner * after
    shape = tuple(map(cutter.of_many, node.params["shape"]))
    places = [axis for axis, dim in enumerate(shape) if cutter.has_time(dim)]
    if len(places) != 1:
        refuse(node, "a reshape that spreads the steps over several axes")
    (axis,) = places
    left, right = _sides(shape, axis)
    outer, inner = before // left, after // right
    whole = outer * (cutter.steps + rows.more) * inner
    if outer * left != before or inner * right != after or whole != shape[axis]:
        refuse(node, "a reshape that mixes steps")
    return replace(_same(cutter, node, operands, axis), outer=outer, inner=inner)


def _sides(shape: Sequence[types.Dimension], axis: int) -> tuple[types.Dimension, types.Dimension]:
    return types.product(shape[:axis]), types.product(shape[axis + 1 :])


# ---- values of no step -----------------------------------------------------------------------------------------------


def _iota(cutter: Cut, node: Node, operands: Operands) -> Value:
    more = cutter.more(node.params["length"])
    if more is None:
        refuse(node, "numbers of which there are not as many as steps")
    lead = max(more, 0)
    numbers = IOTA(length=cutter.steps) + (cutter.counted() + lead)
    return TimeRows(numbers, 0, lead, more, IOTA(length=lead) if lead else None)


def _size(cutter: Cut, node: Node, operands: Operands) -> Value:
    now = ir.as_dim(cutter.counted() + ir.SIZE(dim=cutter.steps))
    return Last(ir.dim_node(types.substitute(node.params["dim"], {cutter.time: now})))


def _broadcast(cutter: Cut, node: Node, operands: Operands) -> Value:
    if _checked(node, operands):
        return _aligned(cutter, node, operands)
    places = [axis for axis, dim in enumerate(node.params["shape"]) if cutter.has_time(dim)]
    more = cutter.more(node.params["shape"][places[0]])
    if len(places) != 1 or more is None:
        refuse(node, "an array whose size is not the number of steps")
    lead = max(more, 0)
    _check_begun(node, operands, lead)
    before = cutter.applied(node, _nodes(operands), more, lead) if lead else None
    return TimeRows(cutter.applied(node, _nodes(operands), more), places[0], lead, more, before)


def _expect(cutter: Cut, node: Node, operands: Operands) -> Value:
    return operands[0]


# ---- earlier steps ---------------------------------------------------------------------------------------------------


def _slice(cutter: Cut, node: Node, operands: Operands) -> Value:
    (rows,) = _some(node, operands)
    axis = rows.axis
    start, length = (cutter.of_many(node.params[key][axis]) for key in ("start", "length"))
    step = node.params["step"][axis]
    if not cutter.has_time(start) and (start, step) == (0, 1) and length == node.operands[0].type.shape[axis]:
        return _same(cutter, node, operands, axis)
    _plain(node, rows)
    if step != 1 and length != 1:
        refuse(node, "steps in another order, or every other one", "reverse or pick steps outside of the function")
    more, late = cutter.more(length), cutter.more(start)
    rest = _others(node, rows.node, axis)
    if isinstance(start, int) and more is not None:
        lead = rows.lead - start
        return TimeRows(rest, axis, lead, more, None if rows.before is None else _others(node, rows.before, axis))
    if isinstance(start, int) and isinstance(length, int) and start + length <= rows.lead:
        return Fixed(_others(node, rows.entry(start, start + length), axis))
    if isinstance(start, int) and isinstance(length, int):
        first = cutter.first(rows, start, length)
        return replace(first, node=_others(node, first.node, axis))
    if late is not None and isinstance(length, int):
        count = max(rows.lead - late - 1, 0)
        seen = _others(node, cutter.history(rows, count), axis)
        return Last(window(seen, axis, cutter.steps + count - (rows.lead - late), length))
    refuse(node, "a part of the steps whose place depends on how many there are")


def _others(node: Node, x: Node, axis: int) -> Node:
    """The slices of the axes other than that of time."""
    start, length, step = (list(node.params[key]) for key in ("start", "length", "step"))
    start[axis], length[axis], step[axis] = 0, x.type.shape[axis], 1
    if not any(start) and tuple(length) == x.type.shape and all(s == 1 for s in step):
        return x
    return SLICE(x, start=tuple(start), length=tuple(length), step=tuple(step))


def _concatenate(cutter: Cut, node: Node, operands: Operands) -> Value:
    axis, (rows, *others) = node.params["axis"], _some(node, operands)
    if rows.axis != axis:
        return _aligned(cutter, node, operands)
    if others or not isinstance(operands[-1], TimeRows):
        refuse(node, "rows behind the last step")
    heads = _nodes(operands[:-1])
    head = heads[0] if len(heads) == 1 else CONCATENATE(*heads, axis=axis)
    _check_begun(node, operands[:-1], rows.lead + types.as_int(head.type.shape[axis]))
    return _padded(cutter, node, rows, head)


def _set_slice(cutter: Cut, node: Node, operands: Operands) -> Value:
    whole, part = operands
    axis = _some(node, operands)[0].axis
    start, step = (node.params[key] for key in ("start", "step"))
    alone = all(start[a] == 0 and step[a] == 1 for a in range(node.ndim) if a != axis)
    if not isinstance(whole, TimeRows) or not isinstance(part, TimeRows) or whole.axis != part.axis:
        refuse(node, "a part of the steps replaced")
    if start[axis] == 0 and step[axis] == 1 and whole.more == part.more:
        return _same(cutter, node, operands, axis)
    shapes = zip(*(operand.type.shape for operand in node.operands), strict=True)
    full = all(n == m for a, (n, m) in enumerate(shapes) if a != axis)
    constant = node.operands[0].op is BROADCAST_TO
    if not (alone and full and constant and isinstance(start[axis], int) and step[axis] == 1):
        refuse(node, "a part of the steps replaced")
    if start[axis] + part.more != whole.more:
        refuse(node, "rows behind the last step", "pad in front of the first step only: as many rows as are read back")
    padding = cutter.applied(node.operands[0], list(node.operands[0].operands), whole.more, start[axis])
    return _padded(cutter, node, part, padding)


def _padded(cutter: Cut, node: Node, rows: TimeRows, head: Node) -> TimeRows:
    """Rows with others in front. Those in front of what comes at the first step are known before it."""
    rows = _plain(node, rows)
    count = types.as_int(head.type.shape[rows.axis])
    if count and rows.lead == -count:  # as many as come before the first of the rows
        number = cutter.numbers()
        own = GATHER(head, ir.apply(MINIMUM, number, count - 1), axis=rows.axis)
        made = where(along(number < count, rows.axis, rows.node.ndim), own, rows.node)
        return replace(rows, node=made, lead=0, more=rows.more + count)
    if rows.lead < 0:
        refuse(node, "rows in front of what needs a later step", "put them in front of the input of what needs it")
    before = head if rows.lead == 0 else CONCATENATE(head, rows.entry(0, rows.lead), axis=rows.axis)
    return replace(rows, lead=rows.lead + count, more=rows.more + count, before=before)


def _windows(cutter: Cut, node: Node, operands: Operands) -> Value:
    (rows,) = _some(node, operands)
    axes = node.params["axes"]
    if rows.axis not in axes:
        return _aligned(cutter, node, operands)
    _plain(node, rows)
    k = axes.index(rows.axis)
    size, step, dilation = (node.params[key][k] for key in ("size", "step", "dilation"))
    if step != 1 or not isinstance(size, int):
        refuse(node, "windows that are several steps apart")
    reach = types.as_int(extent(size, dilation)) - 1
    longer = cutter.history(rows, reach)
    made = node.op(longer, **node.params)
    before = node.op(rows.entry(0, rows.lead), **node.params) if rows.lead > reach else None
    return TimeRows(made, rows.axis, rows.lead - reach, rows.more - reach, before)


# ---- all steps up to now ---------------------------------------------------------------------------------------------


def _reduction(cutter: Cut, node: Node, operands: Operands) -> Value:
    (rows,) = _some(node, operands)
    op = node.op
    assert isinstance(op, Reduction)
    if rows.axis not in node.params["axes"]:
        return _aligned(cutter, node, operands)
    rows = _up_to_now(cutter, node, rows)
    if rows.lead != rows.more:
        refuse(node, f"the {op.name} of some of the steps")
    kind = rows.node.dtype
    if rows.lead < 0:  # the first steps have none of the rows
        late = along(cutter.numbers() < -rows.lead, rows.axis, rows.node.ndim)
        rows = replace(rows, node=where(late, ir.constant(np.asarray(op.initial(kind), kind)), rows.node))
    if rows.lead <= 0:
        identity = ir.constant(np.asarray(op.initial(node.dtype), node.dtype))
        initial = BROADCAST_TO(identity, shape=node.type.shape)
    else:
        initial = op(rows.entry(0, rows.lead), **node.params)
    state = cutter.state(op.name, initial)
    if op.empty:
        state.after = op.join(state.before, op(rows.node, **node.params))
    else:  # a block may have no step
        shape = list(rows.node.type.shape)
        shape[rows.axis] = 1
        until = broadcast_to(expand(state.before, node.params["axes"]), shape)
        state.after = op(CONCATENATE(until, rows.node, axis=rows.axis), **node.params)
    return Last(state.after)


def _scan(cutter: Cut, node: Node, operands: Operands) -> list[Value | None]:
    roles, params = Roles.of(node), node.params
    inits, xs, consts = roles.split(operands)
    if params["reverse"]:
        refuse(node, "a loop from the last step to the first")
    if roles.until:
        refuse(node, "a loop over the steps that ends early")
    more = cutter.more(params["length"])
    if more is None or not all(isinstance(x, TimeRows) and x.axis == 0 and not x.merged for x in xs):
        refuse(
            node,
            "a loop that does not go over the steps",
            "say which axis of the inputs is time, as by time=1 for inputs (batch, time, features)",
        )
    given = [*inits, *consts]
    if not all(isinstance(value, Fixed | Begun) for value in given):
        refuse(node, "a loop whose start or whose constants depend on the steps")
    if any(atom is cutter.time for inner in params["body"].nodes() for atom in ir.atoms_of(inner)):
        refuse(node, "a loop whose step uses the number of steps")
    now = [_up_to_now(cutter, node, x) if isinstance(x, TimeRows) else x for x in xs]
    together, lead = _together(cutter, node, now) if xs else ([], max(more, 0))
    _check_begun(node, given, lead)
    skipped = max(-lead, 0)
    if skipped and roles.lags:
        refuse(node, "a loop with taps far back that reads the sequence ahead")
    begin = _nodes(inits)
    rows_before: Sequence[Node | None] = [None] * len(node.types)
    if lead > 0:
        early = ir.parts(cutter.applied(node, [*begin, *_befores(together), *_nodes(consts)], more, lead))
        begin, rows_before = list(early[: roles.carries]), early
    label = params["name"] or "carry"
    names = [f"{label}_{i}" if roles.carries > 1 else label for i in range(roles.carries)]
    fed = [init in cutter.fed for init in node.operands[: roles.carries]]
    states: list[StatePart | None] = []
    before = []
    for is_fed, name, value, start in zip(fed, names, inits, begin, strict=True):
        own = None if is_fed else cutter.state(name, zeros_like(start) if isinstance(value, Begun) else start)
        states.append(own)
        if own is not None:
            start = where(cutter.counted() <= skipped, start, own.before) if isinstance(value, Begun) else own.before
        before.append(start)
    if skipped:
        made = _skipping(cutter, node, before, _nodes(together), _nodes(consts), skipped)
    else:
        made = cutter.applied(node, [*before, *_nodes(together), *_nodes(consts)], more)
    results = ir.parts(made)
    for state, after in zip(states, results, strict=False):
        if state is not None:
            state.after = after
    stacked = zip(results[roles.carries :], rows_before[roles.carries :], strict=True)
    ended: list[Value | None] = [Last(result) if lead == more else None for result in results[: roles.carries]]
    return [*ended, *(TimeRows(ys, 0, lead, more, early) for ys, early in stacked)]


def _skipping(
    cutter: Cut, node: Node, inits: Sequence[Node], xs: Sequence[Node], consts: Sequence[Node], count: int
) -> Node:
    """A loop over the steps of a block, in which the carries stay as they are in the first `count` of all steps."""
    inputs, outputs = node.params["body"].opened()
    carries, rows, fixed = Roles.of(node).split(inputs)
    number = ir.new_input(types.Type(np.dtype("int64")))
    kept = [where(number < count, old, new) for old, new in zip(carries, outputs, strict=False)]
    body = ir.Graph.of([*carries, *rows, number, *fixed], [*kept, *outputs[len(carries) :]])
    params = {**{key: node.params[key] for key in KEPT}, "length": cutter.steps}
    with errors.located(node.where):
        return scan_node(body, inits, [*xs, cutter.numbers()], consts, **params)


RULES: dict[ir.Op, Rule] = {
    ir.SIZE: _size,
    IOTA: _iota,
    BROADCAST_TO: _broadcast,
    EXPECT: _expect,
    GATHER: _gather,
    RESHAPE: _reshape,
    SLICE: _slice,
    CONCATENATE: _concatenate,
    SET_SLICE: _set_slice,
    WINDOWS: _windows,
    ARGMAX: _along,
    ARGMIN: _along,
    SORT: _in_last(1),
    ARGSORT: _in_last(1),
    WHERE_TRUE: _in_last(1),
    **dict.fromkeys((RANKED, ARGRANKED, PARTITION, ARGPARTITION), _ranked),
    **dict.fromkeys((SOLVE, TRIANGULAR_SOLVE, CHOLESKY, DET, LOGABSDET, DET_SIGN), _in_last(2)),
    SCAN: _scan,
}
