"""Loops over a few numbers in vectors and small matrices become loops over numbers.

In a step `P = F @ P @ F.T + Q` of matrices of 2 x 2, each op would be a loop of its own, and the next one would wait
for its stores. Written entry by entry, the step is straight lines, with all carries in registers.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import TypeAlias

import numpy as np

from scanjit import errors, types
from scanjit.ir import CONSTANT, ORIGINS, Node, constant, new_input, replace, walk
from scanjit.ops.contraction import CONTRACT
from scanjit.ops.elementwise import ADD, MAXIMUM, MINIMUM, MUL
from scanjit.ops.index import GATHER
from scanjit.ops.promotion import Elementwise
from scanjit.ops.reduction import Reduction
from scanjit.ops.samples import FLOATS
from scanjit.ops.scan import SCAN
from scanjit.ops.scan_batch import ended
from scanjit.ops.shape import CONCATENATE, RESHAPE, SET_SLICE, SLICE
from scanjit.ops.sorting import SORT, UNWORD, WORD, exchanges
from scanjit.ops.stretch import constant_value
from scanjit.ops.view import DIMSHUFFLE, View
from scanjit.rewrite.alike import Alike
from scanjit.rewrite.engine import Note, in_bodies, map_scans
from scanjit.rewrite.loop import Finished, OpenCarry, OpenScan, Y
from scanjit.types import Dimension
from scanjit.walks import top_down

MOST_READ = 128
"""A step reads at most this many numbers of a tensor."""
MOST_WORK = 140
"""A step has at most this many operations on entries of vectors. With vectors, several are done at a time, but parts of
vectors must be moved."""
LOOKUP = 8
"""An element of a table of numbers counts as so many."""
WIDE = 8
"""An operation on an entry of at least so many counts twice: most lanes of a vector would be used."""
EXPENSIVE = 20
"""An elementwise op of at least this cost is better done for all entries of a vector at once."""
LONG = 64
"""So is one that takes so long for all entries together, one after the other."""

Entries: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.object_]]"
"""A node for each entry of a tensor."""
Places: TypeAlias = Mapping[Node, tuple[OpenCarry, int]]
"""The entries of carries that are in order, each with its carry and its place in the order."""


def by_entries(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Write the steps of loops entry by entry, if they are short and mix the entries of vectors or matrices. A loop and
    its gradient are both written so, or neither: otherwise they could not share stretches of steps."""
    outputs = in_bodies(outputs, lambda inner: by_entries(inner, notes))
    scans = [node for node in walk(outputs) if node.op is SCAN]
    short = {scan for scan in scans if _fits(OpenScan.of(scan))}
    pairs = list(_gradients(scans)) if short else []
    while unlike := [pair for pair in pairs if not short.issuperset(pair) and not short.isdisjoint(pair)]:
        short = short.difference(*unlike)
    alike = Alike(_changed)
    return map_scans(outputs, lambda old, scan: alike(scan, notes) if old in short else None) if short else outputs


def _gradients(scans: Sequence[Node]) -> Iterator[tuple[Node, Node]]:
    """Maps loops that go back through the steps of another loop, which they read, to one such loop."""
    for scan in scans:
        if scan.params["reverse"]:
            for node in top_down(scan.operands, lambda node: () if node.op is SCAN else node.args):
                if node.op is SCAN and not node.params["reverse"]:
                    yield scan, node


def _changed(scan: Node, notes: list[Note]) -> dict[int, Node]:
    with errors.located(scan.where):
        notes.append(Note("by_entries", scan.where, "a short step is computed number by number"))
        return _by_entries(OpenScan.of(scan))


def _fits(loop: OpenScan) -> bool:
    """Whether a step is short, and an op in it needs several entries of a carry."""
    order, work, mixes = walk(loop.outputs), 0, False
    moving = loop.depends(carry.inner for carry in loop.carries)
    if loop.stop is not None and not loop.xs and not loop.ys:
        before, after = [carry.inner for carry in loop.carries], [carry.new for carry in loop.carries]
        if ended(before, after, loop.stop) is not None:
            moving.discard(loop.stop)  # such a loop ends for each entry by itself
    if any(carry.lag is not None for carry in loop.carries):
        return False
    for node in order:
        if node.several or node.applied.sizes or not all(isinstance(dim, int) for dim in node.type.shape):
            return False
        size = _size(node)
        if size == 0:
            return False
        if node.op in ORIGINS or node.op is CONSTANT:
            if size > MOST_READ:
                return False
        elif isinstance(node.op, Elementwise):
            if size > 1 and (node.op.cost >= EXPENSIVE or size * node.op.cost >= LONG):
                return False
            work += size * node.op.cost * _weight(size) if size > 1 else 0
        elif node.op is CONTRACT and node.dtype != np.bool_:
            # (n, k) @ (k, m) are n * k * m products
            work += math.isqrt(size * _size(*node.operands)) * _weight(size)
        elif isinstance(node.op, Reduction):
            work += _size(*node.operands) * _weight(_size(*node.operands))
        elif node.op is SORT and (node.type.kind.integral or node.dtype in FLOATS):
            # two operations for each pair of words, and what floats cost to be words
            length = types.as_int(node.type.shape[-1])
            words = (WORD.cost + UNWORD.cost) * length if node.type.kind.floating else 0
            work += size // length * (2 * len(list(exchanges(length))) + words)
        elif _is_lookup(node):
            work += LOOKUP
        elif not isinstance(node.op, View) and node.op not in (RESHAPE, CONCATENATE, SET_SLICE):
            return False
        joins = isinstance(node.op, Reduction) or node.op in (CONTRACT, CONCATENATE, SET_SLICE, SLICE, SORT)
        mixes = mixes or (joins and node in moving)
    return mixes and work <= MOST_WORK


def _is_lookup(node: Node) -> bool:
    """Whether a node is one element of a short table of numbers. (With a long one, most lanes of vectors are used.)"""
    return node.op is GATHER and node.operands[0].op is CONSTANT and not node.ndim and _size(node.operands[0]) < WIDE


def _weight(size: int) -> int:
    return 2 if size >= WIDE else 1


def _size(*nodes: Node) -> int:
    total = types.product(dim for node in nodes for dim in node.type.shape)
    assert isinstance(total, int)
    return total


def _by_entries(loop: OpenScan) -> dict[int, Node]:
    """The results of the loop over numbers."""
    old, ends, ys = loop.carries, loop.ends, loop.ys
    known: dict[Node, Entries] = {}
    loop.carries = []
    carried: list[list[OpenCarry]] = []
    places: dict[Node, tuple[OpenCarry, int]] = {}
    for carry in old:
        inits = _outside(carry.init, 0, carry.inner.type.shape)
        own = [OpenCarry(init, symbol := new_input(init.type), symbol, None) for init in inits.flat]
        known[carry.inner] = _array((c.inner for c in own), inits.shape)
        if way := _way(carry):
            places |= {part.inner: (carry, place) for place, part in enumerate(own[::way])}
        carried.append(own)
    for inputs, add, first in ((loop.xs, loop.x, 1), (loop.consts, loop.const, 0)):
        for operand, inner in list(inputs.items()):
            if not inner.ndim:
                known[inner] = _array([inner], ())
                continue
            del inputs[operand]
            rows = _outside(operand, first, inner.type.shape)
            known[inner] = _array((row if row.op is CONSTANT else add(row) for row in rows.flat), rows.shape)
    for node in walk([*(carry.new for carry in old), *ys, *ends]):
        if node not in known:
            known[node] = _entries(node, [known[arg] for arg in node.operands], places)
    for carry, own in zip(old, carried, strict=True):
        for part, new in zip(own, known[carry.new].flat, strict=True):
            part.new = new
        loop.carries += own
    in_words = _in_words(loop.carries)
    stored = {y: _array(replace(list(known[y].flat), in_words), known[y].shape) for y in ys}
    loop.stop = replace([known[ends[0]].item()], in_words)[0] if ends else None
    for i, result in enumerate(loop.results):
        if isinstance(result, Y):
            loop.results[i] = partial(_stacked, stored[result.node])
        else:
            place = next(k for k, carry in enumerate(old) if carry is result)
            loop.results[i] = partial(_last, carried[place], known[old[place].inner])
    loop.results += map(Y, dict.fromkeys(node for y in ys for node in stored[y].flat))
    return loop.finish().parts()


def _in_words(carries: Sequence[OpenCarry]) -> dict[Node, Node]:
    """Carry the words of floats that steps put in order, so that no step makes them again. Returns what nodes of the
    step become."""
    changed: dict[Node, Node] = {}
    for carry in carries:
        if carry.new.op is UNWORD:
            word = new_input(carry.new.operands[0].type)
            changed |= {WORD(carry.inner): word, carry.inner: UNWORD(word)}
            carry.init, carry.inner, carry.new = WORD(carry.init), word, carry.new.operands[0]
    for carry, new in zip(carries, replace([carry.new for carry in carries], changed), strict=True):
        carry.new = new
    return changed


def _stacked(entries: Entries, finished: Finished) -> Node:
    return _joined([finished.y(node) for node in entries.flat], entries.shape)


def _last(carries: Sequence[OpenCarry], entries: Entries, finished: Finished) -> Node:
    found = ((finished.carry(carry), entry.dtype) for carry, entry in zip(carries, entries.flat, strict=True))
    return _joined([x if x.dtype == dtype else UNWORD(x) for x, dtype in found], entries.shape)


def _joined(parts: Sequence[Node], shape: tuple[int, ...]) -> Node:
    """A tensor of its entries, each of which may have an axis of time."""
    if not shape:
        return parts[0]
    lead = parts[0].type.shape
    columns = [DIMSHUFFLE(part, order=(*range(len(lead)), None)) for part in parts]
    return RESHAPE(CONCATENATE(*columns, axis=len(lead)), shape=(*lead, *shape))


def _outside(node: Node, first: int, inside: Sequence[Dimension]) -> Entries:
    """The entries of a node outside of the loop, along all axes but the `first` ones. The step may know more sizes of
    these than the node does."""
    shape = tuple(map(types.as_int, inside))
    value = constant_value(node) if first == 0 else None
    if value is not None:
        return _array((constant(x, node.dtype) for x in np.broadcast_to(value, shape).flat), shape)
    parts = []
    for index in np.ndindex(shape):
        ones = {"length": (*node.type.shape[:first], *(1 for _ in shape)), "step": (1,) * node.ndim}
        part = SLICE(node, start=(*(0 for _ in range(first)), *index), **ones) if shape else node
        parts.append(DIMSHUFFLE(part, order=tuple(range(first))) if shape else part)
    return _array(parts, shape)


def _entries(node: Node, operands: Sequence[Entries], places: Places) -> Entries:
    """The entries of a node, from the entries of its operands. An op that moves data moves entries."""
    op, shape = node.op, tuple(dim for dim in node.type.shape if isinstance(dim, int))
    if op is CONSTANT:
        return _outside(node, 0, shape)
    if isinstance(op, Elementwise):
        given = np.broadcast_arrays(*operands)
        return _array((op(*args, **node.params) for args in zip(*(x.flat for x in given), strict=True)), shape)
    if isinstance(op, Reduction):
        (x,), axes = operands, node.params["axes"]
        rows = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(_size(node), -1)
        return _array((reduce(op.join, row) for row in rows), shape)
    if op is CONTRACT:
        left, right = operands
        return _array(_products(left, right, **node.params), shape)
    if op is GATHER:
        return _array([op(node.operands[0], *(index.item() for index in operands[1:]), **node.params)], ())
    if op is SORT:
        rows = operands[0].reshape(-1, shape[-1])
        return _array(itertools.chain.from_iterable(_sorted(row.tolist(), places) for row in rows), shape)
    return op.reference(*operands, **node.params)


def _sorted(row: Sequence[Node], places: Places) -> list[Node]:
    """The nodes of a row in order. One that comes to others that are in order is put between them."""
    floats = row[0].type.kind.floating
    words = [WORD(x) if floats else x for x in row]
    for carry in dict.fromkeys(places[x][0] for x in row if x in places):
        low = {places[x][1]: word for x, word in zip(row, words, strict=True) if x in places and places[x][0] is carry}
        new = [word for x, word in zip(row, words, strict=True) if x not in places or places[x][0] is not carry]
        if len(new) == 1 and len(low) == len(row) - 1:
            ordered = [low[place] for place in sorted(low)]
            bounded = [*(MINIMUM(word, new[0]) for word in ordered), new[0]]
            words = [bounded[0], *(MAXIMUM(*pair) for pair in zip(ordered, bounded[1:], strict=True))]
            break
    else:
        for i, j in exchanges(len(words)):
            words[i], words[j] = MINIMUM(words[i], words[j]), MAXIMUM(words[i], words[j])
    return [UNWORD(word) if floats else word for word in words]


def _way(carry: OpenCarry) -> int:
    """1 if the entries of a carry are in order in all steps, -1 if they are in the reverse order, otherwise 0."""
    start, rows, way = constant_value(carry.init), carry.new, 1
    while rows.op is SLICE and isinstance(step := rows.params["step"][-1], int):
        rows, way = rows.operands[0], way if step > 0 else -way
    if start is None or rows.op is not SORT or rows.ndim != 1:
        return 0
    first = WORD.reference(start) if rows.type.kind.floating else start
    words = np.broadcast_to(first, types.as_ints(carry.inner.type.shape))[::way]
    return way if np.all(words[:-1] <= words[1:]) else 0


def _products(
    a: Entries, b: Entries, left: tuple[int, ...], right: tuple[int, ...], out: tuple[int, ...]
) -> Iterable[Node]:
    """The sums of products of a contraction, in the order of its entries."""
    sizes = dict(zip((*left, *right), (*a.shape, *b.shape), strict=True))
    summed = [label for label in sizes if label not in out]
    for index in itertools.product(*(range(sizes[label]) for label in out)):
        at = dict(zip(out, index, strict=True))
        terms = []
        for inner in itertools.product(*(range(sizes[label]) for label in summed)):
            at |= dict(zip(summed, inner, strict=True))
            terms.append(MUL(a[tuple(at[x] for x in left)], b[tuple(at[x] for x in right)]))
        yield reduce(ADD, terms)


def _array(nodes: Iterable[Node], shape: tuple[int, ...]) -> Entries:
    return np.fromiter(nodes, object).reshape(shape)
