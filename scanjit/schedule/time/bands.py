"""Some points at a time, through several scans and what stands between them.

Take 2,000 series of 1,000 steps, and a gradient that needs the state `h` of every step:

    h[t+1, n] = tanh(a[n] * h[t, n] + x[t, n])     a scan
    loss[n] = sum over t of h[t+1, n]              a nest
    da[n] = ...                                    a scan backwards, which reads all of `h`

No statement reads or writes anything of one series while it computes another. In bands of 64 series, the program is

    for first in 0, 64, 128, ...:      `Blocks`
        h = ...                        1,000 steps of 64 series
        loss[first:first+64] = ...
        da[first:first+64] = ...

and `h` has 64 columns, which stay in the cache, instead of 2,000. Several threads take bands of their own,
each with a copy of `h`.

Linear scans, such as running sums, fill vectors with the steps of one series (see `scanjit.schedule.tiles.linear`).
Where the number of series is not known, a second `Blocks` is for calls with fewer of them than a vector has lanes: each
of its bands is one series. If a step reads the series side by side, as in columns, it is for calls with one series.
Scans over rows that lie across (see `scanjit.schedule.tiles.across`) need no bands. Their second `Blocks` is for calls
with few or with long rows. It is written where all stretches of time are known: a scan goes along with the sums that
read it, in either `Blocks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet

from scanjit import types
from scanjit.ops import Reduction
from scanjit.records import record, replace as changed
from scanjit.schedule.lower import maps
from scanjit.schedule.nests import (
    Access,
    Blocks,
    Buffer,
    Load,
    Nest,
    NestLoop,
    OwnRows,
    Program,
    Ref,
    Statement,
    Store,
    Value,
    reductions_in,
    row_major,
    walk_values,
)
from scanjit.schedule.threads.rows import own_loop
from scanjit.schedule.tiles.across import across
from scanjit.schedule.tiles.estimates import lanes_of, long_rows
from scanjit.schedule.tiles.linear import linear
from scanjit.schedule.tiles.products import factors
from scanjit.schedule.time.flow import Flow, plan_of, scans_of
from scanjit.target import Target
from scanjit.types import Dimension

LEAST_POINTS = 64
"""A band has at least this many points of the loop that lanes run along: vectors for several threads."""
LEAST_ROWS = 8
"""A band has at least this many iterations of any other loop."""
LEAST_PIECE = 512
"""A band has at least this many points if scans go through rows of an argument, of which a band is a piece: processors
foresee which memory comes next only in long pieces."""
MOST_CACHES = 5
"""Such scans run in bands only if a band of `LEAST_PIECE` points needs at most this many times `near_bytes`."""


def in_bands(program: Program) -> Program:
    """The program in bands: a scan, and the nests that read what it stores, go through all steps for one band of
    points, then for the next."""
    suite, notes, tried = list(program.suite), list[str](), set[Dimension]()
    while (group := _next_group(suite, tried)) is not None:
        suite = list(group.flow.statements)
        band = group.band(program.target)
        if band is not None:
            suite = group.cut(band, program.target)
            names = ", ".join(sorted({buffer.name for buffer in group.short}))
            scans = len(scans_of(group.members))
            notes.append(f"{scans} scans go through all steps for {band} points at a time, with memory for {names}")
    return program.with_suite(suite, notes)


def filled_with_steps(scan: Nest, target: Target) -> list[Statement]:
    """A scan; if its rows lie across, once more for calls in which lanes run along its steps. These are calls with long
    rows, or with few points, which then go one at a time."""
    if scan.time is None or not _fits(scan) or not across(scan):
        return [scan]
    long = long_rows(scan, lanes_of(scan, target))
    if not isinstance(long, int):
        in_rows, turned = changed(scan, lane=scan.time), changed(scan, lane=scan.space[-1])
        return [_once(long, in_rows), _once(1 - long, turned)]
    for size in _sizes(scan) if long == 0 else ():
        members, steps = _never_meeting([scan], size)
        banded = any(atom.kind == "counter" for atom in types.atoms(size))
        if members and not banded:
            group = _Group(Flow.of([scan], set()), size, members, steps)
            if (few := group.few(target)) is not None:
                return [group.bands(1, few), _once(1 - types.minimum(few, 1), scan)]
    return [scan]


def _once(when: Dimension, nest: Nest) -> Blocks:
    """A nest that runs in calls in which `when` is 1, and not in those in which it is 0."""
    return Blocks(when, 1, types.counter("first"), types.counter("rows"), (nest,))


@record(eq=True)
class _Group:
    """Nests whose points never meet.

    Parameters
    ----------
    flow : the suite.
    size : how many points there are.
    members : the nests, in order; each maps to its loop over the points.
    steps : the distance between two points, for each buffer that the members write.
    """

    flow: Flow
    size: Dimension
    members: Mapping[Nest, NestLoop]
    steps: Mapping[Buffer, Dimension]

    @property
    def short(self) -> dict[Buffer, int]:
        """The buffers that only members use, each with its axis over the points."""
        found: dict[Buffer, int] = {}
        for buffer, step in self.steps.items():
            axes = zip(buffer.shape, row_major(buffer.shape), strict=True)
            axis = next((i for i, (size, along) in enumerate(axes) if size == self.size and along == step), None)
            if (
                axis is not None
                and buffer in self.flow.temporaries
                and self.members.keys() >= {*self.flow.using[buffer]}
            ):
                found[buffer] = axis
        return found

    @property
    def pays(self) -> bool:
        """Whether a scan and another member share a short buffer with a number for each step and point. If there is
        only one scan, all such buffers that it stores must be short: else it is cut into stretches of time, which needs
        less memory."""
        flow, short = self.flow, self.short.keys()
        scans = [nest for nest in self.members if nest.time is not None]
        stacks = {a.buffer for scan in scans for a, _ in scan.accesses if scan.time in a.strides}
        if len(scans) == 1 and not stacks & flow.writes[scans[0]] <= short:
            return False
        used = {nest: stacks & short & (flow.writes[nest] | flow.reads[nest]) for nest in self.members}
        return any(not used[scan].isdisjoint(used[nest]) for scan in scans for nest in used if nest is not scan)

    def band(self, target: Target) -> Dimension | None:
        """How many points are computed at a time: as many as read and write `near_bytes` of short buffers. None if
        these are certainly all points."""
        point = sum((buffer.nbytes // self.size for buffer in self.short), start=0)
        scans = [(nest, loop) for nest, loop in self.members.items() if nest.time is not None]
        least, near = LEAST_ROWS, target.near_bytes // types.maximum(point, 1)
        fits: Dimension = 1
        if all(loop is nest.space[-1] for nest, loop in scans):
            least = LEAST_POINTS
            if any(self._goes_through_rows(*scan) for scan in scans):
                least, fits = LEAST_PIECE, types.minimum(near // (LEAST_PIECE // MOST_CACHES), 1)
        band = types.maximum(near // least, 1) * least * fits + self.size * (1 - fits)
        return None if types.not_negative(band - self.size) else types.minimum(band, self.size)

    def _goes_through_rows(self, scan: Nest, points: NestLoop) -> bool:
        """Whether a scan goes through the rows of a buffer that is not short, such as an argument. A band is then a
        piece of each row."""
        outside = [access for access, _ in scan.accesses if access.buffer not in self.short]
        return any(access.strides.get(points) == 1 and scan.time in access.strides for access in outside)

    def cut(self, band: Dimension, target: Target) -> list[Statement]:
        """The statements of the suite, with the members in bands."""
        few = self.few(target)
        single = [] if few is None else [self.bands(1, few)]
        return self._around([*single, self.bands(band, self.size if few is None else self.size - few)])

    def _around(self, made: Sequence[Statement]) -> list[Statement]:
        """The statements of the suite: those that members need, what is `made` of the members, and the rest."""
        before, after = list[Statement](), list[Statement]()
        for statement in self.flow.statements:
            if statement not in self.members:
                later = not self.flow.below[statement].isdisjoint(self.members)
                (after if later else before).append(statement)
        return [*before, *made, *after]

    def few(self, target: Target) -> Dimension | None:
        """The number of points in calls with so few points that they fill no vector, else 0. None if vectors cannot be
        filled with steps instead. If the points of a step lie side by side in an argument, a vector that is not full
        takes no longer than one point, whose steps lie apart."""
        scans = [(nest, loop) for nest, loop in self.members.items() if nest.time is not None]
        beside = any(self._goes_through_rows(*scan) for scan in scans)
        lanes = max(lanes_of(scan, target) for scan, _ in scans)
        alone = self._band(1, types.counter("first"), 1)
        fewer = types.minimum(types.maximum(min(lanes, 2 if beside else lanes) - self.size, 0), 1)
        linear_alone = all(linear(alone.nest(scan, loop)) is not None for scan, loop in scans)
        return self.size * fewer if linear_alone and not isinstance(fewer, int) else None

    def bands(self, band: Dimension, total: Dimension) -> Blocks:
        """The members in bands of `band` points, for `total` points in all."""
        first, count = types.counter("first"), types.counter("points")
        made = self._band(band, first, 1 if band == 1 else count)
        inside = tuple(made.nest(nest, loop) for nest, loop in self.members.items())
        size = types.maximum(band, 1)
        rows = OwnRows(-(-total // size), 1, types.counter("apart"), types.anonymous_size("copies"))
        return Blocks(total, size, first, count, inside, own_rows=rows, copy=types.counter("copy"))

    def _band(self, band: Dimension, first: Dimension, count: Dimension) -> _Band:
        shapes = {b: (*b.shape[:axis], band, *b.shape[axis + 1 :]) for b, axis in self.short.items()}
        short = {buffer: changed(buffer, shape=shape) for buffer, shape in shapes.items()}
        return _Band(self.size, self.steps, short, band, first, count)


@record(eq=True)
class _Band:
    """The `count` points from `first` on, of `size` points that lie `steps` apart in each buffer. Buffers in `short`
    are replaced by others, which hold `band` points."""

    size: Dimension
    steps: Mapping[Buffer, Dimension]
    short: Mapping[Buffer, Buffer]
    band: Dimension
    first: Dimension
    count: Dimension

    def nest(self, nest: Nest, points: NestLoop) -> Nest:
        """The nest for these points."""
        new = NestLoop(self.count)
        alone = self.count == 1

        def loops(loop: NestLoop) -> NestLoop:
            return new if loop is points else loop

        def access(old: Access) -> Access:
            moved = {loop: self._length(old.buffer, step) for loop, step in old.strides.items()}
            offset = self._offset(old.buffer, old.offset, old.strides.get(points, 0))
            strides = {loops(loop): step for loop, step in moved.items() if not (alone and loop is points)}
            return changed(old, buffer=self.short.get(old.buffer, old.buffer), offset=offset, strides=strides)

        space = [loops(loop) for loop in nest.space if not (alone and loop is points)]
        made = nest.rebuilt(access, loops, space)
        return made if nest.plan is None else changed(made, plan=nest.plan.moved(self._ref))

    def _ref(self, ref: Ref) -> Ref:
        """Where these points of a tensor lie."""
        step = self.steps[ref.buffer]
        axes = list(zip(ref.shape, ref.strides, strict=True))
        shape = tuple(self.count if axis == (self.size, step) else axis[0] for axis in axes)
        strides = tuple(self._length(ref.buffer, along) for along in ref.strides)
        return Ref(self.short.get(ref.buffer, ref.buffer), self._offset(ref.buffer, ref.offset, step), shape, strides)

    def _offset(self, buffer: Buffer, offset: Dimension, step: Dimension) -> Dimension:
        return self._length(buffer, offset) if buffer in self.short else offset + self.first * step

    def _length(self, buffer: Buffer, old: Dimension) -> Dimension:
        """The same distance in a buffer, of which a replaced one has shorter rows."""
        if buffer not in self.short:
            return old
        row = self.size * self.steps[buffer]
        inside = types.remainder(old, row)
        return old if inside == old else (old - inside) // row * (self.band * self.steps[buffer]) + inside


def _next_group(suite: Sequence[Statement], tried: set[Dimension]) -> _Group | None:
    """The next group that pays, of nests with points of a size that was not `tried` before."""
    flow = _flow(suite)
    for size in (size for scan in scans_of(suite) if isinstance(scan, Nest) for size in _sizes(scan)):
        if size not in tried:
            tried.add(size)
            apart = [part for statement in suite for part in _split_sums(flow, statement, size)]
            group = _group(_flow(apart), size)
            if group.pays:
                return group
    return None


def _flow(suite: Sequence[Statement]) -> Flow:
    buffers = {buffer for s in suite for buffer, _ in s.touched}
    return Flow.of(suite, {buffer for buffer in buffers if buffer.kind == "temporary"})


def _split_sums(flow: Flow, statement: Statement, size: Dimension) -> list[Statement]:
    """A nest, split if it sums over all points something that several scans need or make: first nests that sum over the
    steps of each point, then one that sums their results over all points."""
    scans = [scan for scan in scans_of(flow.below[statement]) if not flow.is_alone(scan)]
    sizes = {size, *(plan_of(scan).length for scan in scans)}
    if statement not in flow.nests or not scans or any(loop.size in sizes for loop in flow.nests[statement].space):
        return [statement]
    nest, values = flow.nests[statement], dict[Value, Value]()
    stores: dict[NestLoop, list[Store]] = {}
    for value in reductions_in(nest.values):
        points, *rest = sorted(value.loops, key=lambda loop: loop.size != size)
        nested = bool(reductions_in(walk_values([value.term])))
        plain = isinstance(value.op, Reduction) and value.guard is None and value.init is None and not nested
        if plain and points.size == size and (rest or value.term.dtype == value.dtype):
            space = (*nest.space, points)
            whole = Ref.whole(Buffer(value.dtype, tuple(loop.size for loop in space), "temporary", "part"))
            part = maps.place(whole, maps.identity(space))
            each = changed(value, loops=tuple(rest), whole=True) if rest else value.term
            stores.setdefault(points, []).append(Store(part, each))
            values[value] = changed(value, loops=(points,), term=Load(value.dtype, part))
    parts = [Nest((*nest.space, points), tuple(found), nest.label) for points, found in stores.items()]
    return [*parts, nest.rebuilt(values=values) if values else nest]


def _sizes(scan: Nest) -> Iterator[Dimension]:
    """The sizes of the loops of a scan other than time."""
    yield from (loop.size for loop in scan.space if not isinstance(loop.size, int) or loop.size > LEAST_ROWS)


def _group(flow: Flow, size: Dimension) -> _Group:
    """The nests over so many points that never meet."""
    members, steps = _never_meeting([s for s in flow.statements if isinstance(s, Nest) and _fits(s)], size)
    later: set[Statement] = set()
    inside: dict[Nest, NestLoop] = {}
    for statement in flow.statements:
        below = flow.below[statement]
        if isinstance(statement, Nest) and statement in members and below.isdisjoint(later):
            inside[statement] = members[statement]
        elif not below.isdisjoint(inside) or not below.isdisjoint(later):
            later.add(statement)
    return _connected(_Group(flow, size, inside, steps))


def _fits(nest: Nest) -> bool:
    """Whether a nest may be a member: each point stores at its own place, and can be computed twice."""
    return not nest.sequential and nest.repeatable and not any(store.add for store in nest.stores)


def _never_meeting(nests: Sequence[Nest], size: Dimension) -> tuple[dict[Nest, NestLoop], dict[Buffer, Dimension]]:
    """The nests whose points never meet, each with its loop over the points, and the distance of points in the buffers
    that they write. Nests whose points meet in a buffer that they write themselves are left out first, so that others
    may still read this buffer."""
    nests = [nest for nest in nests if own_loop(nest, size, nest.written_buffers, {}) is not None]
    while True:
        written = set[Buffer]().union(*(nest.written_buffers for nest in nests))
        steps: dict[Buffer, Dimension] = {}
        found: dict[Nest, NestLoop] = {}
        for nest in nests:
            own = own_loop(nest, size, written, steps)
            if own is not None and own[1] == 1 and own[0].size == size and not _shares(nest, own[0]):
                found[nest] = own[0]
        if len(found) == len(nests):
            return found, steps
        nests = list(found)


def _shares(nest: Nest, points: NestLoop) -> bool:
    """Whether a nest has a product in which points share an operand: that is better computed for many points."""
    products = (factors(value) for value in reductions_in(nest.values))
    return any(points not in load.access.strides for loads in products for load in loads or ())


def _connected(group: _Group) -> _Group:
    """The group with only those nests that share a buffer with its scans, directly or through other nests of the
    group."""
    flow, used = group.flow, set[Buffer]()
    members: AbstractSet[Nest] = set()
    for scan in scans_of(group.members):
        used |= flow.writes[scan]
    while True:
        more = {
            nest
            for nest in group.members
            if not used.isdisjoint(flow.writes[nest] | (flow.reads[nest] & group.steps.keys()))
        }
        if more == members:
            return changed(group, members={nest: loop for nest, loop in group.members.items() if nest in members})
        members = more
        used = used.union(*(flow.writes[nest] | (flow.reads[nest] & group.steps.keys()) for nest in members))
