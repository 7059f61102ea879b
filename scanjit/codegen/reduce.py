"""Reductions: accumulators, the loops that fill them, and lanes joined at the end."""

from collections.abc import Sequence

import numpy as np

from scanjit import types
from scanjit.codegen.ahead import Ahead
from scanjit.codegen.best import UNLIKE, divides, search
from scanjit.codegen.frame import Frame, Point, ValueOf
from scanjit.codegen.guard import open_guard
from scanjit.codegen.names import INT64, number, suffix
from scanjit.codegen.space import MANY
from scanjit.kinds import kind_of
from scanjit.ops import Reduction
from scanjit.ops.elementwise import MUL
from scanjit.ops.extremes import ArgReduction
from scanjit.ops.promotion import Elementwise
from scanjit.ops.stretch import SUM
from scanjit.schedule.nests import Apply, Reduce, finds_first, reductions_in, walk_values
from scanjit.schedule.tiles.products import factors
from scanjit.signatures import DType
from scanjit.types import Dimension

CHUNK = 256
"""How many elements (or vectors) are summed before their sum is added to the total."""

BESIDE = 4
"""So many vectors are combined side by side, if each waits long for the one before."""
MOST_BESIDE = 3
"""At most so many reductions: the vectors of more fill all registers, and do not wait for each other anyway."""
LEAST = 2
"""There must be at least so many times as many: otherwise it takes longer to join them than to wait."""
PAIRED = range(6, 9)
"""Extreme elements among so many are compared in pairs. Among fewer, a processor often guesses which is the best."""
MOST_BITS = 62
"""The first of at most so many truth values is found among their bits."""
MOST_VECTORS = 8
"""So is the extreme element in at most so many vectors, which stay in registers until it is known."""
CHEAP = 4
"""The terms of a short loop are written one after the other if each takes at most this many operations."""

Totals = dict[tuple[Reduce, Point], list[str]]
"""The variables that hold the results of reductions so far, at each point."""


def reduction(frame: Frame, value_of: ValueOf, value: Reduce, point: Point) -> str:
    """The variable that holds the result of a reduction. If it is not written yet, it is written together with all
    other reductions over the same loops that can be computed by now."""
    own = Point(point.row, point.vector, 1) if frame.tile.horizontal else point
    found = _known(frame, value, own)
    if found is None:
        Together(frame, value_of, value).write()
        found = _known(frame, value, own)
        assert found is not None
    if own.width == point.width:
        return found
    level = frame.level_of(frame.depends(value))
    return frame.remember(level, (value, 0, 0, point.width), "v", f"spread_x{point.width}({found})")


def _known(frame: Frame, value: Reduce, point: Point) -> str | None:
    return frame.recall(len(frame.scopes) - 1, ("reduced", value, point))


class Together:
    """Writes reductions that share their loops and their guard."""

    def __init__(self, frame: Frame, value_of: ValueOf, value: Reduce) -> None:
        self.frame, self.value_of, self.loops, self.loop = frame, value_of, value.loops, value.loops[-1]
        alike = reductions_in(frame.nest.values)
        alike = [other for other in alike if other.loops == value.loops and other.guard is value.guard]
        self._ready(value, value)  # first: those that it needs are not written once more beside it
        self.reductions = [other for other in alike if self._ready(other, value)]
        width = frame.tile.lanes if frame.tile.horizontal else 0
        self.points = [Point(p.row, p.vector, width or p.width) for p in frame.points()]
        self.in_bits = set[Reduce]()

    def _ready(self, other: Reduce, value: Reduce) -> bool:
        """Whether all reductions that a reduction's term needs are written. For `value` itself, they are written
        now."""
        for inner in reductions_in(walk_values([other.term])):
            for point in self.frame.points():
                if _known(self.frame, inner, point) is None:
                    if other is not value:
                        return False
                    self.value_of(inner, point)
        return _known(self.frame, other, self.frame.points()[0]) is None

    def write(self) -> None:
        """Write the loops, and remember the results."""
        frame, depth = self.frame, len(self.frame.scopes)
        lane, frame.lane = frame.lane, self.loop if frame.tile.horizontal else frame.lane
        found = {r: other for r in self.reductions if (other := self._finds(r)) is not None}
        own = [r for r in self.reductions if r not in found]
        self.in_bits = self._of_masks(own)
        totals = {(r, p): self._begin(r, p) for row in self._rows() for r in own for p in row}
        if all(loop.size != 0 for loop in self.loops):
            self._guard(0)
            for loop in self.loops[:-1]:
                frame.loop(loop, "k", ("0", frame.size(loop.size)))
            self._guard(1)
            self._last_loop(totals)
            frame.pop(depth)
        frame.lane = lane
        totals |= {(r, p): totals[other, p][:1] for r, other in found.items() for p in self.points}
        for (r, p), names in totals.items():
            self._end(r, p, names)

    def _rows(self) -> list[list[Point]]:
        """The points of each row. A row's reductions are written one after the other, so that a left operand needs a
        register only for its own."""
        rows: dict[int, list[Point]] = {}
        for point in self.points:
            rows.setdefault(point.row, []).append(point)
        return list(rows.values())

    def _finds(self, reduction: Reduce) -> Reduce | None:
        """The argmax (or argmin) of the same terms, which finds the maximum (or minimum) as well; None if there is
        none."""
        if _compared(reduction) != reduction.dtype:
            return None
        places = [other for other in self.reductions if other.term is reduction.term]
        return next((other for other in places if getattr(other.op, "best", None) is reduction.op), None)

    def _guard(self, depth: int) -> None:
        open_guard(self.frame, self.value_of, self.reductions[0], depth, self.points)

    # ---- loops -------------------------------------------------------------------------------------------------------

    def _last_loop(self, totals: Totals) -> None:
        """The innermost loop: one element at a time, or a vector at a time and a masked tail."""
        lanes = self.frame.tile.lanes if self.frame.tile.horizontal else 1
        size = self.loop.size
        if self.frame.nest.few == "squares":
            self._squares(totals)
            return
        if size in self.frame.tile.brief:
            self._brief(totals, lanes)
            return
        if self.frame.tile.horizontal and all(self._stops_early(r) for r, _ in totals):
            self._firsts(totals, lanes)
            return
        if isinstance(size, int) and self._looks_for_places([r for r, _ in totals]):
            if all(r in self.in_bits for r, _ in totals):
                self._extremes(totals, size)
                return
            if size in PAIRED and lanes == 1 and self._cost(self.reductions) <= CHEAP:
                self._tournaments(totals, size)
                return
        full = size // lanes * lanes
        start, (reduction, point) = self.frame.size(full), next(iter(totals))
        if lanes > 1 and len(totals) == 1 and divides(reduction, lanes):
            done = search(self.frame, self.value_of, reduction, point, totals[reduction, point])
            self.terms(totals, done, start, lanes)
            start = f"max({done}, {start})"
        elif full != 0:
            self._vectors(totals, full, lanes)
        if lanes > 1 and not (isinstance(size, int) and size == full):
            self.terms(totals, start, self.frame.size(size), lanes, masked=True)

    def _looks_for_places(self, reductions: Sequence[Reduce]) -> bool:
        """Whether all reductions are an argmax or argmin along one loop, at one point."""
        alone = self.frame.tile.horizontal and len(self.points) == 1 and len(self.loops) == 1
        return alone and all(isinstance(r.op, ArgReduction) and r.guard is None for r in reductions)

    def _of_masks(self, reductions: Sequence[Reduce]) -> set[Reduce]:
        """The reductions that look for the place of a few elements of vectors, which is found among the bits of
        masks."""
        tile, size = self.frame.tile, self.loop.size
        brief = size in tile.brief
        most = size if isinstance(size, int) else tile.lanes * tile.wide if brief else MOST_BITS + 1
        if not tile.horizontal or tile.lanes == 1 or most > MOST_BITS:
            return set()
        extremes = not brief and most <= MOST_VECTORS * tile.lanes and self._looks_for_places(reductions)
        return {r for r in reductions if extremes or finds_first(r)}

    def _elements(self, reduction: Reduce, point: Point, size: int) -> list[tuple[str, int]]:
        """The vectors of a few elements of which one is looked for, each with its place. What is missing in the last
        one is no better than any element, and comes behind them."""
        frame, dtype = self.frame, _compared(reduction)
        name, elements = suffix(dtype, point.width), list[tuple[str, int]]()
        assert isinstance(reduction.op, ArgReduction)
        for k in range(0, size, point.width):
            with frame.inside(None, self.loop, str(k)):
                mask = frame.line("mask", f"head_x{point.width}({size - k})") if size - k < point.width else None
                frame.masks[-1] = None if mask is None else [mask]
                term = self.value_of(reduction.term, point)
                term = term if dtype == reduction.term.dtype else f"cast_{name}({term})"
                if mask is not None:
                    term = f"select({mask}, {term}, splat_{name}({number(reduction.op.best.initial(dtype))}))"
                elements.append((frame.line("b", term), k))
        return elements

    def _extremes(self, totals: Totals, size: int) -> None:
        """The places of extreme elements among a few vectors: the best element is found, and then looked for among
        the bits of masks. NaN is rare, and looked for apart."""
        frame = self.frame
        for (reduction, point), (best, bits) in totals.items():
            assert isinstance(reduction.op, ArgReduction)
            elements = self._elements(reduction, point, size)
            left = [b for b, _ in elements]
            while len(left) > 1:
                pairs = zip(left[::2], left[1::2], strict=False)
                better = [frame.line("b", f"select({b} {reduction.op.sign} {a}, {b}, {a})") for a, b in pairs]
                left = [*better, *left[2 * len(better) :]]
            (most,) = left
            frame.scope.add(f"{best} = {most}")
            count = point.width // 2
            while count > 0:  # all lanes get the best one
                other = frame.line("other", f"partners{count}({most}, {most})")
                most = frame.line("most", f"select({other} {reduction.op.sign} {most}, {other}, {most})")
                count //= 2
            found = " | ".join(f"lane_bits({b} == {most}) << {k}" for b, k in elements)
            frame.scope.add(f"{bits} = {found}")
            if kind_of(_compared(reduction)).floating:
                with frame.inside(f"if any_of({' | '.join(f'isnan({b})' for b, _ in elements)}):"):
                    frame.scope.add(f"{bits} = {' | '.join(f'lane_bits(isnan({b})) << {k}' for b, k in elements)}")
                    frame.scope.add(f"{best} = splat_{suffix(_compared(reduction), point.width)}(nan)")

    def _tournaments(self, totals: Totals, size: int) -> None:
        """The places of extreme elements among a few: each two of them are compared, then each two of the better ones.
        One after the other, each would wait for the one before. NaN is rare, and looked for apart."""
        frame = self.frame
        for (reduction, point), (best, place) in totals.items():
            assert isinstance(reduction.op, ArgReduction)
            elements = [
                (b, f"splat_{suffix(INT64, point.width)}({k})") for b, k in self._elements(reduction, point, size)
            ]
            left = elements
            while len(left) > 1:
                pairs = list(zip(left[::2], left[1::2], strict=False))
                tests = [frame.line("better", f"{b} {reduction.op.sign} {a}") for (a, _), (b, _) in pairs]
                chosen = [
                    (frame.line("b", f"select({test}, {b}, {a})"), frame.line("k", f"select({test}, {j}, {i})"))
                    for test, ((a, i), (b, j)) in zip(tests, pairs, strict=True)
                ]
                left = [*chosen, *left[2 * len(pairs) :]]
            frame.scope.add(f"{best} = {left[0][0]}")
            frame.scope.add(f"{place} = {left[0][1]}")
            if kind_of(_compared(reduction)).floating:
                with frame.inside(f"if any_of({' | '.join(f'isnan({b})' for b, _ in elements)}):"):
                    for b, j in reversed(elements):
                        frame.scope.add(f"{place} = select(isnan({b}), {j}, {place})")
                        frame.scope.add(f"{best} = select(isnan({b}), {b}, {best})")

    def _stops_early(self, reduction: Reduce) -> bool:
        """Whether a reduction is the first place at which something is true, and what follows is not looked at: it may
        be long, and reports no errors."""
        reports = any(part.reports for part in walk_values([reduction.term]))
        return finds_first(reduction) and reduction not in self.in_bits and not reports

    def _firsts(self, totals: Totals, lanes: int) -> None:
        """The places of the first elements of which something is true. What follows is not looked at. (A branch ends
        the loop: a processor guesses the place, and does not wait for what is true there.)"""
        frame, depth, size = self.frame, len(self.frame.scopes), self.loop.size
        whole, nowhere = size // lanes * lanes, frame.size(size)
        for (reduction, point), (first,) in totals.items():
            answer, place = reduction.term.operands[0], frame.line("place", nowhere)
            at = frame.loop(self.loop, "k", ("0", frame.size(whole)), lanes)
            frame.masks[-1] = None
            hit = self.value_of(answer, point)
            bits = frame.line("bits", f"lane_bits({hit})") if lanes > 1 else ""
            frame.push(f"if {bits} != 0:" if bits else f"if any_of({hit}):")
            frame.scope.add(f"{place} = {at} + first_bit({bits})" if bits else f"{place} = {at}")
            frame.scope.add("break")
            frame.pop(depth)
            if whole != size:
                with frame.inside(f"if {place} == {nowhere}:", self.loop, frame.size(whole)):
                    mask = frame.line("mask", f"head_x{lanes}({nowhere} - {frame.size(whole)})")
                    frame.masks[-1] = [mask]
                    bits = f"lane_bits({self.value_of(answer, point)} & {mask})"
                    frame.scope.add(f"{place} = min({frame.size(whole)} + first_bit({bits}), {nowhere})")
            frame.scope.add(f"{first} = splat_{suffix(reduction.dtype, point.width)}({place})")

    def _squares(self, totals: Totals) -> None:
        """The terms of operands that have neighbours along the loop, and lanes along another one: square blocks of them
        are transposed. A vector that is not full, and terms that fill no block, are read element by element."""
        frame, lane, lanes, depth = self.frame, self.frame.lane, self.frame.tile.lanes, len(self.frame.scopes)
        assert lane is not None
        size, point = frame.size(self.loop.size), self.points[0]
        done = frame.line("done", "0")
        frame.push(f"if {frame.counter(lane, point)} + {lanes} <= {frame.size(lane.size)}:")
        frame.scope.add(f"{done} = {size}//{lanes}*{lanes}")
        first = frame.loop(self.loop, "k", ("0", done), lanes)
        loads = {load: None for r in self.reductions for load in factors(r) or ()}
        squares = {load: frame.turned(load, point) for load in loads if lane in load.access.strides}
        inside = len(frame.scopes)
        for k in range(lanes):
            with frame.inside(None, self.loop, f"({first} + {k})"):
                for load, square in squares.items():
                    text = f"load_{suffix(load.dtype, lanes)}({square} + {k * lanes * load.dtype.itemsize})"
                    frame.remember(inside, (load, 0, 0, lanes), "x", text)
                self._add(totals)
        frame.pop(depth)
        self.terms(totals, done, size)

    def _brief(self, totals: Totals, lanes: int) -> None:
        """The terms of a loop that has at least one, and at most as many as the vectors of a row have lanes: these
        vectors, or one term after the other without a loop, so that LLVM knows which lanes of a vector in a register
        they need."""
        frame, size, depth = self.frame, self.frame.size(self.loop.size), len(self.frame.scopes)
        if lanes > 1:
            for vector in range(frame.tile.wide):
                self.terms(totals, None, size, lanes, masked=True, first=vector * lanes)
        elif self.reductions[0].guard is not None or self._cost(self.reductions) > CHEAP or len(frame.nest.space) > 1:
            self.terms(totals, "0", size)
        else:
            for k in range(frame.tile.lanes * frame.tile.wide):
                frame.push(f"if {size} > {k}:" if k else None, self.loop, str(k))
                self._add(totals)
                frame.memos[-1] = {}  # the next term stands in this scope
            frame.pop(depth)

    def _cost(self, reductions: Sequence[Reduce]) -> int:
        """How many operations the terms take."""
        inside = walk_values([reduction.term for reduction in reductions])
        return sum(value.cost for value in inside if isinstance(value, Apply))

    def _vectors(self, totals: Totals, full: Dimension, step: int) -> None:
        """The loops over whole vectors. If each waits long for the one before, there are first several at a time."""
        frame, many = self.frame, self._side_by_side(len(totals))
        if many == 1:
            self._chunks(totals, full, step, 1)
            return
        width = many * step
        whole = full // width * width * types.minimum(full // (LEAST * width), 1)
        if whole != 0:
            with frame.inside(None if isinstance(whole, int) else f"if {frame.size(whole)} > 0:"):
                self._chunks(totals, whole, step, many)
        if whole != full:
            self.terms(totals, frame.size(whole), frame.size(full), step, most=LEAST * many - 1)

    def _side_by_side(self, totals: int) -> int:
        """How many vectors are combined side by side: several if the loop does little but wait for floats.

        One for a first value, which is the first operand; and for products that share rows in register tiles, as rows
        that are computed one by one have the same order of terms."""
        tile, alike = self.frame.tile, self.reductions
        if tile.rows is not None or alike[0].guard is not None or totals > MOST_BESIDE:
            return 1
        if not all(isinstance(r.op, Reduction) and r.init is None and self._cost([r]) <= CHEAP for r in alike):
            return 1
        alone = tile.horizontal and tile.vectors == 1
        waits = any(kind_of(r.dtype).floating for r in alike) and (alone or all(factors(r) is None for r in alike))
        return max(BESIDE // self._points_beside(), 1) if waits else 1

    def _points_beside(self) -> int:
        """How many points are computed together. Where threads begin between two tiles, the number of threads decides
        which columns fill a whole tile and which are left. All of them then count as the points of a whole tile, so
        that each sum has the same order in every call."""
        frame, tile = self.frame, self.frame.nest.tile
        if tile is None or frame.lane is None:
            return len(self.points)
        splits = tile.split is frame.lane and tile.unit % (tile.lanes * tile.vectors) != 0
        return tile.row_block * tile.vectors if splits or tile.own is frame.lane else len(self.points)

    def _chunks(self, totals: Totals, stop: Dimension, step: int, many: int) -> None:
        """The loop over turns of `many` vectors. A long sum of floats is the sum of chunks, so that its rounding error
        grows with the length of a chunk plus the number of chunks, not with their product."""
        frame, stretch = self.frame, CHUNK * step * many
        sums = [r for r in self.reductions if r.op is SUM and kind_of(r.dtype).floating]
        chain = len(sums) > 0 and sums[0].init is not None and len(sums[0].loops) == 1
        if not sums or chain or frame.tile.rows is not None or (isinstance(stop, int) and stop <= stretch):
            end = frame.size(stop)
            if many > 1 and isinstance(stop, int) and stop // (many * step) >= MANY:  # LLVM would write all turns
                end = frame.parameters.number_of(self.loop, stop)
            self._turns(totals, "0", end, step, many)
            return
        start = frame.fresh("chunk")
        with frame.inside(f"for {start} in range(0, {frame.size(stop)}, {stretch}):"):
            parts = {(r, point): self.empty(r, point) for point in self.points for r in sums}
            self._turns(totals | parts, start, f"min({start} + {stretch}, {frame.size(stop)})", step, many)
            for key, (part,) in parts.items():
                (total,) = totals[key]
                frame.scope.add(f"{total} = {total} + {part}")

    def _turns(self, totals: Totals, start: str, stop: str, step: int, many: int) -> None:
        """One loop over turns of `many` vectors, each with accumulators of its own, which are joined behind it."""
        if many == 1:
            self.terms(totals, start, stop, step)
            return
        frame, depth = self.frame, len(self.frame.scopes)
        beside = [totals, *({(r, p): self.empty(r, p) for r, p in totals} for _ in range(many - 1))]
        name = frame.loop(self.loop, "k", (start, stop), many * step)
        if frame.tile.horizontal:
            frame.masks[-1] = None
        for k, each in enumerate(beside):
            with frame.inside(None, self.loop, f"({name} + {k * step})" if k else name):
                self._add(each)
        frame.pop(depth)
        while len(beside) > 1:
            others = beside[len(beside) // 2 :]
            for to, other in zip(beside, others, strict=False):
                for key, (total,) in to.items():
                    text = "{0} | {1}" if key[0] in self.in_bits else key[0].op.combine  # type: ignore[attr-defined]
                    text = text.replace("{0}", total)
                    frame.scope.add(f"{total} = {text.replace('{1}', other[key][0])}")
            beside = beside[: len(beside) // 2]

    def terms(
        self,
        totals: Totals,
        start: str | None,
        stop: str,
        step: int = 1,
        masked: bool = False,
        first: int = 0,
        most: int | None = None,
    ) -> None:
        """One loop over elements or vectors, at most `most` of them, which are added to the totals. If `start` is None,
        it is the vector from `first` on, without a loop."""
        frame, depth, name = self.frame, len(self.frame.scopes), str(first)
        ahead = Ahead(frame, self.reductions, self.loop)
        if start is None:
            frame.push(None, self.loop, name)
        else:
            name = frame.loop(self.loop, "k", (start, stop), step, 1 if masked else most)
        if masked:
            left = frame.size(self.loop.size) + ("" if name == "0" else f" - {name}")
            frame.masks[-1] = [frame.line("mask", f"head_x{step}({left})")]
        elif frame.tile.horizontal:
            frame.masks[-1] = None
        self._guard(2)
        ahead.write(name)
        self._add(totals)
        frame.pop(depth)

    def _add(self, totals: Totals) -> None:
        """Combine the accumulators with the terms at the present point of the loop."""
        for (reduction, point), names in totals.items():
            mask = self.frame.mask(point) if self.frame.tile.horizontal else None
            if reduction in self.in_bits and not isinstance(reduction.op, ArgReduction):
                hit = self.value_of(reduction.term.operands[0], point)
                some = hit if mask is None else f"{hit} & {mask}"
                self.frame.scope.add(f"{names[0]} |= lane_bits({some}) << {self.frame.counter(self.loop, point)}")
                continue
            for total, text in zip(names, self._combined(reduction, point, names), strict=True):
                text = text if mask is None else f"select({mask}, {text}, {total})"
                self.frame.scope.add(f"{total} = {text}")

    # ---- one reduction -----------------------------------------------------------------------------------------------

    def _begin(self, reduction: Reduce, point: Point) -> list[str]:
        """The first accumulators: with `init`, if the reduction has one."""
        if reduction.init is None:
            return self.empty(reduction, point)
        total = self.frame.fresh("acc")
        self.frame.scope.add(f"{total} = {self.value_of(reduction.init, point)}")
        return [total]

    def empty(self, reduction: Reduce, point: Point) -> list[str]:
        """Accumulators with the value of an empty reduction."""
        if reduction in self.in_bits and not isinstance(reduction.op, ArgReduction):
            return [self.frame.line("bits", "0")]
        if isinstance(reduction.op, ArgReduction):
            dtype = _compared(reduction)
            place = "0" if reduction in self.in_bits else f"splat_{suffix(INT64, point.width)}(0)"
            worst = f"splat_{suffix(dtype, point.width)}({number(reduction.op.best.initial(dtype))})"
            return [self.frame.line("best", worst), self.frame.line("place", place)]
        assert isinstance(reduction.op, Reduction)
        initial = number(np.asarray(reduction.op.initial(reduction.dtype)).astype(reduction.dtype))
        return [self.frame.line("acc", f"splat_{suffix(reduction.dtype, point.width)}({initial})")]

    def _combined(self, reduction: Reduce, point: Point, names: list[str]) -> list[str]:
        """The accumulators, combined with the term at this point."""
        if isinstance(reduction.op, ArgReduction):
            return self._better(reduction, reduction.op, point, names)
        assert isinstance(reduction.op, Reduction)
        (total,) = names
        term = reduction.term
        if reduction.op is SUM and isinstance(term, Apply) and term.op is MUL and kind_of(term.dtype).floating:
            left, right = (self.value_of(arg, point) for arg in term.args)
            return [f"fma({left}, {right}, {total})"]
        plus = term.op.plus if isinstance(term, Apply) and isinstance(term.op, Elementwise) else None
        if reduction.op is SUM and isinstance(term, Apply) and plus is not None:
            return [plus.format(*(self.value_of(arg, point) for arg in term.args), total=total)]
        return [reduction.op.combine.replace("{0}", total).replace("{1}", self.value_of(term, point))]

    def _better(self, reduction: Reduce, op: ArgReduction, point: Point, names: list[str]) -> list[str]:
        """The accumulators of argmax or argmin: the first of the best elements, or the first NaN if there is one."""
        best, place = names
        term, dtype = self.value_of(reduction.term, point), _compared(reduction)
        if dtype != reduction.term.dtype:
            term = self.frame.line("b", f"cast_{suffix(dtype, point.width)}({term})")
        better = f"{term} {op.sign} {best}"
        if kind_of(dtype).floating:  # the first NaN is better than all numbers, and nothing is better than it
            better = f"~({term} {UNLIKE[op.sign]} {best}) & ({best} == {best})"
        chosen = self.frame.line("better", better)
        here = f"splat_{suffix(INT64, point.width)}({self.frame.counter(self.loop, point)})"
        return [f"select({chosen}, {term}, {best})", f"select({chosen}, {here}, {place})"]

    def _end(self, reduction: Reduce, point: Point, names: list[str]) -> None:
        """Join the lanes of a horizontal reduction, and remember the result."""
        result, own = names[-1], point
        if self.frame.tile.horizontal:
            own = Point(point.row, point.vector, 1)
            if point.width > 1:
                result = self.frame.line("total", self._joined(reduction, point, names))
        self.frame.memos[-1]["reduced", reduction, own] = result

    def _joined(self, reduction: Reduce, point: Point, names: list[str]) -> str:
        """One result of all lanes. Each lane of argmax or argmin knows its best element, and where the vector with that
        element began."""
        if reduction in self.in_bits:
            size = self.frame.size(self.loop.size)
            return f"splat_{suffix(reduction.dtype, 1)}(first_bit({names[-1]} | 1 << {size}))"
        if isinstance(reduction.op, Reduction):
            one = self.loop.size in self.frame.tile.brief and self.frame.tile.wide == 1
            if reduction.op is SUM and one and reduction.dtype.itemsize >= 4:
                return self._few_added(names[-1], point.width)
            return f"{reduction.op.horizontal}({names[-1]})"
        assert isinstance(reduction.op, ArgReduction)
        best, place = names
        most = self.frame.line("most", f"spread_x{point.width}({reduction.op.best.horizontal}({best}))")
        nan = f" | isnan({best})" if kind_of(_compared(reduction)).floating else ""
        index = suffix(INT64, point.width)
        nowhere = f"splat_{index}({number(kind_of(INT64).limits[1])})"
        return f"reduce_min(select(({best} == {most}){nan}, {place} + iota_{index}(0), {nowhere}))"

    def _few_added(self, lanes: str, width: int) -> str:
        """The sum of the lanes of a loop that may have fewer terms than a vector has lanes. There is a branch for each
        half: it adds as many lanes as can have terms. A processor guesses which branch it takes. If it selected one of
        all these sums instead, it would wait for the longest."""
        frame, depth = self.frame, len(self.frame.scopes)
        total, size = frame.line("total", f"lane0({lanes})"), frame.size(self.loop.size)
        while width > 1:
            some, count = lanes, width // 2
            frame.push(f"if {size} > {count}:")
            while count > 0:
                some = frame.line("some", f"{some} + partners{count}({some}, {some})")
                count //= 2
            frame.scope.add(f"{total} = opaque(lane0({some}))")  # LLVM would compute all of them
            frame.pop(len(frame.scopes) - 1)
            width //= 2
            if width > 1:
                frame.push("else:")
        frame.pop(depth)
        return total


def _compared(reduction: Reduce) -> DType:
    """The dtype in which argmax compares."""
    dtype = reduction.term.dtype
    return np.dtype("int8") if kind_of(dtype).is_mask else dtype
