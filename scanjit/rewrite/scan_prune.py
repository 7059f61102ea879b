"""Remove from loops everything that they do not need: results that nobody uses, carries that never change, one of two
equal carries, and sequences that are the same in every step. Small constants move into the body. Loops of no step or of
one step vanish."""

from collections.abc import Mapping, Sequence

from scanjit import errors
from scanjit.ir import CONSTANT, ORIGINS, PART, Node, replace, walk
from scanjit.ops.roles import oldest, renewed
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import SLICE, row
from scanjit.ops.stretch import BROADCAST_TO, broadcast_to, full
from scanjit.ops.view import DIMSHUFFLE, View, as_row, only_row
from scanjit.rewrite.alike import Alike
from scanjit.rewrite.engine import Note, in_bodies, map_scans
from scanjit.rewrite.loop import OpenCarry, OpenScan, Y
from scanjit.rewrite.match import is_free
from scanjit.types import Type
from scanjit.walks import grown

_NAME = "prune"
_ROUNDS = 20


def prune(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Drop the carries, stacks and operands of loops that nobody uses. Repeated, since a loop that needs less reads
    less from the loops before it."""
    alike = Alike(_pruned)
    for _ in range(_ROUNDS):
        before = outputs
        used = used_parts(outputs)
        outputs = map_scans(outputs, lambda old, scan: alike(scan, notes, frozenset(used[old])))  # noqa: B023
        if all(a is b for a, b in zip(before, outputs, strict=True)):
            break
    return in_bodies(outputs, lambda inner: prune(inner, notes))


def used_parts(outputs: list[Node]) -> dict[Node, set[int]]:
    """For each scan: the results that something uses."""
    found: dict[Node, set[int]] = {}
    for node in walk(outputs):
        if node.op is SCAN:
            found[node] = set()
        elif node.op is PART and node.args[0].op is SCAN:
            found[node.args[0]].add(node.params["index"])
    return found


def _pruned(scan: Node, notes: list[Note], used: frozenset[int]) -> Mapping[int, Node] | None:
    length, until = scan.params["length"], scan.params["until"]
    if isinstance(length, int) and length <= 1 and not until and length >= 0:
        return _short(scan, notes)
    loop = OpenScan.of(scan)
    facts: list[str] = []
    _dead(loop, used, facts)
    for step in (_operands, _constant_carries, equal_carries, _known_ys):
        facts += step(loop)
    notes += [Note(_NAME, scan.where, fact) for fact in dict.fromkeys(facts)]
    return loop.finish().parts()


# ---- loops of no step, or one ----------------------------------------------------------------------------------------


def _short(scan: Node, notes: list[Note]) -> Mapping[int, Node]:
    """scan of 0 steps -> its initial values; scan of 1 step -> its body."""
    loop = OpenScan.of(scan)
    with errors.located(scan.where):
        if scan.params["length"] == 0:
            notes.append(Note(_NAME, scan.where, "the loop has no step: its results are its initial values"))
            ys = [full(0, t.shape, t.dtype) for t in scan.types[len(loop.carries) :]]
            return dict(enumerate([*(c.init for c in loop.carries), *ys]))
        notes.append(Note(_NAME, scan.where, "the loop has one step: it is done in place"))
        reverse = scan.params["reverse"]
        mapping = {c.inner: c.init if c.lag is None else oldest(c.init, reverse) for c in loop.carries}
        mapping |= {inner: x for x, inner in loop.consts.items()}
        mapping |= {inner: row(x, 0) for x, inner in loop.xs.items()}
        new = replace(loop.outputs, mapping)
        for i, carry in enumerate(loop.carries):
            new[i] = new[i] if carry.lag is None else renewed(carry.init, new[i], reverse)
        ys = [as_row(y) for y in new[len(loop.carries) :]]
        found: dict[int, Node] = {}
        by_node = dict(zip(loop.ys, ys, strict=True))
        for i, result in enumerate(loop.results):
            found[i] = by_node[result.node] if isinstance(result, Y) else new[i]
        return found


# ---- results that nobody uses ----------------------------------------------------------------------------------------


def _dead(loop: OpenScan, used: frozenset[int], facts: list[str]) -> None:
    """Drop ys that nobody uses, and carries on which nothing that is used depends."""
    needed = [r.node for i, r in enumerate(loop.results) if isinstance(r, Y) and i in used]
    roots = [*needed, *loop.ends]

    def read(live: Sequence[int]) -> list[int]:
        seen = set(walk([*roots, *(loop.carries[i].new for i in live)]))
        return [i for i, c in enumerate(loop.carries) if c.inner in seen]

    live = set(grown((i for i in range(len(loop.carries)) if i in used), read))
    dropped = (
        len(loop.carries) - len(live) + sum(isinstance(r, Y) and i not in used for i, r in enumerate(loop.results))
    )
    if dropped:
        facts.append(f"{dropped} results that nothing uses were dropped")
    gone = {id(c) for i, c in enumerate(loop.carries) if i not in live}
    loop.results = [
        None if (id(r) in gone or (isinstance(r, Y) and i not in used)) else r for i, r in enumerate(loop.results)
    ]
    loop.carries = [c for i, c in enumerate(loop.carries) if i in live]


# ---- operands --------------------------------------------------------------------------------------------------------


def _operands(loop: OpenScan) -> list[str]:
    """broadcast(x) over time -> a constant;  constants, and views of constants -> made in the body, unless they are
    sizes."""
    facts: list[str] = []
    for operand, inner in list(loop.xs.items()):
        if operand.op is BROADCAST_TO:
            _stretched_sequence(loop, operand, inner, facts)
    changed = True
    while changed:
        changed = False
        for operand, inner in list(loop.consts.items()):
            is_size = inner.dim_atom is not None and isinstance(operand.op, View)
            made = None if is_size else _inside(loop, operand)
            if made is not None:
                del loop.consts[operand]
                loop.substitute({inner: made})
                changed = True
    return facts


def _stretched_sequence(loop: OpenScan, operand: Node, inner: Node, facts: list[str]) -> None:
    (base,) = operand.operands
    row = loop._inside(Type(operand.dtype, operand.type.shape[1:]))
    if base.ndim < operand.ndim:
        made = loop.const(base)
    elif base.type.shape[0] == 1 and operand.type.shape[0] != 1:
        made = loop.const(only_row(base))
    else:
        del loop.xs[operand]
        loop.substitute({inner: broadcast_to(loop.x(base), row.shape)})
        return
    facts.append("a sequence is the same in every step: it is a constant")
    del loop.xs[operand]
    loop.substitute({inner: broadcast_to(made, row.shape)})


def _inside(loop: OpenScan, operand: Node) -> Node | None:
    """A constant operand made in the body: small constants, sizes, views of other constants."""
    if operand.op in (DIMSHUFFLE, BROADCAST_TO, SLICE) and not operand.applied.sizes:
        return operand.op(loop.const(operand.operands[0]), **operand.params)
    if is_free(operand) and not any(node.op in ORIGINS or node.applied.sizes for node in walk([operand])):
        return operand
    return None


# ---- carries ---------------------------------------------------------------------------------------------------------


def _constant_carries(loop: OpenScan) -> list[str]:
    """A carry that never changes -> a constant; its final value is the initial one (also after no step)."""
    facts: list[str] = []
    found = True
    while found:
        found = False
        outside = loop.outside()
        for carry in list(loop.carries):
            same = carry.new is carry.inner or outside.get(carry.new) is carry.init
            if carry.lag is None and (same or (carry.new.op is CONSTANT and carry.new is carry.init)):
                loop.carries = [c for c in loop.carries if c is not carry]
                loop.results = [carry.init if r is carry else r for r in loop.results]
                made = _inside(loop, carry.init)
                loop.substitute({carry.inner: loop.const(carry.init) if made is None else made})
                facts.append("a carry never changes: it is a constant")
                found = True
                break
    return facts


def equal_carries(loop: OpenScan) -> list[str]:
    """Carries with the same initial value and the same update -> one carry.

    First, all carries with the same initial value are taken for equal. Then those whose updates differ under this
    assumption are separated, until nothing changes."""
    groups: dict[tuple[Node, bool], list[OpenCarry]] = {}
    for carry in loop.carries:
        groups.setdefault((carry.init, carry.lag is None), []).append(carry)
    classes = [group for group in groups.values() if len(group) > 1]
    while classes:
        first = {c.inner: group[0].inner for group in classes for c in group[1:]}
        members = [c for group in classes for c in group]
        new = iter(replace([c.new for c in members], first))
        parted: list[list[OpenCarry]] = []
        for group in classes:
            by_update: dict[Node, list[OpenCarry]] = {}
            for carry in group:
                by_update.setdefault(next(new), []).append(carry)
            parted += by_update.values()
        done = len(parted) == len(classes)
        classes = [group for group in parted if len(group) > 1]
        if done:
            break
    for group in classes:
        for carry in group[1:]:
            loop.results = [group[0] if r is carry else r for r in loop.results]
            loop.carries = [c for c in loop.carries if c is not carry]
    loop.substitute({c.inner: group[0].inner for group in classes for c in group[1:]})
    return ["two carries are always equal: they are one" for group in classes for _ in group[1:]]


# ---- ys that are known outside ---------------------------------------------------------------------------------------


def _known_ys(loop: OpenScan) -> list[str]:
    """A y that is a row of a sequence -> the sequence;  one that is the same in every step -> broadcast over time."""
    facts: list[str] = []
    rows = {inner: operand for operand, inner in loop.xs.items()}
    varying = {c.inner for c in loop.carries} | set(rows)
    for i, result in enumerate(loop.results):
        if not isinstance(result, Y):
            continue
        known = None
        if result.node in rows:
            known = rows[result.node]
            facts.append("a result is a sequence that the loop reads: it is taken from there")
        elif varying.isdisjoint(walk([result.node])):
            type_ = loop.scan.types[i]
            known = broadcast_to(replace([result.node], loop.outside())[0], type_.shape)
            facts.append("a result is the same in every step: it is made outside of the loop")
        if known is not None:
            loop.results[i] = known
    return facts
