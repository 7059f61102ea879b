"""Loads and stores of a nest at computed positions, as source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scanjit import types
from scanjit.codegen.frame import Frame, Point, ValueOf
from scanjit.codegen.names import INT32, INT64, suffix
from scanjit.codegen.places import STATUS
from scanjit.codegen.scope import Scope
from scanjit.kinds import kind_of
from scanjit.ops.elementwise import ADD, LESS, WHERE
from scanjit.schedule.nests import Apply, Fetch, Index, Literal, Position, Store, Value, fits_any_width
from scanjit.signatures import DType
from scanjit.types import Dimension


def fetch(frame: Frame, value_of: ValueOf, value: Fetch, point: Point) -> str:
    """The expression for a load at computed positions."""
    level = frame.level_of(frame.depends(value))
    address, step = frame.vector(value.access, point)
    once = step == 0 and all(frame.lane not in frame.depends(part) for index in value.indices for part in index.values)
    places = _Places(frame, value_of, value.code, value.dtype, point, level, once)
    first, *others = places.moved(address, value.indices)
    text = _loaded(frame, value, point, step, first, once)
    if not others:
        return text
    scope, name = frame.scopes[level], frame.fresh("x")
    scope.add(f"{name} = {text}")
    for place in others:
        inside = place.mask(frame, places.width)
        rest = Scope(f"if any_of({inside}):")
        rest.add(f"{name} = select({inside}, {_loaded(frame, value, point, step, place, once)}, {name})")
        scope.add(rest)
    return name


def in_lanes(frame: Frame, index: Value) -> bool:
    """Whether an index is computed in all lanes. An index that is the same for all lanes is computed in one of them."""
    return not {frame.lane, frame.columns}.isdisjoint(frame.depends(index)) or not fits_any_width(index)


def _loaded(frame: Frame, value: Fetch, point: Point, step: Dimension, place: _Place, once: bool) -> str:
    address, offsets, inside = place.address, place.offsets, place.mask(frame, 1 if once else point.width)
    if once:
        loaded = f"load_masked_{suffix(value.dtype, 1)}({address}, {inside})"
        return loaded if point.width == 1 else f"spread_x{point.width}({loaded})"
    name = suffix(value.dtype, point.width)
    if offsets is not None:
        if step != 0:
            long = suffix(INT64, point.width)
            offsets += f" + iota_{long}(0) * splat_{long}({frame.size(step)})"
        return f"gather_{name}({address}, {offsets}, {inside})"
    if step == value.dtype.itemsize:
        return f"load_masked_{name}({address}, {inside})"
    return f"load_strided_{name}({address}, {frame.size(step)}, {inside})"


def scatter(frame: Frame, value_of: ValueOf, store: Store, text: str, point: Point) -> None:
    """Store a variable at computed positions, or add it to what is there."""
    dtype = store.access.buffer.dtype
    address, step = frame.vector(store.access, point)
    places = _Places(frame, value_of, store.code, dtype, point, len(frame.scopes) - 1, False)
    name, steps = suffix(dtype, point.width), frame.size(step)
    add = "|" if kind_of(dtype).is_mask else "+"
    first, *others = places.moved(address, store.indices)
    for place in (first, *others):
        at, inside = place.address, " & ".join(place.inside)
        if place.offsets is not None:
            raise TypeError("lanes of a scatter must not meet in one element")
        if step not in (0, dtype.itemsize):
            inside = inside or frame.all_lanes(point.width)
            old, write = (
                f"load_strided_{name}({at}, {steps}, {inside})",
                f"store_strided({at}, {steps}, {{}}, {inside})",
            )
        elif inside:
            old, write = f"load_masked_{name}({at}, {inside})", f"store_masked({at}, {{}}, {inside})"
        else:
            old, write = f"load_{name}({at})", f"store({at}, {{}})"
        tests = place.alike if place is first else (*place.alike, *place.inside)
        scope = Scope(f"if any_of({' & '.join(tests)}):") if tests else frame.scope
        scope.add(write.format(f"{old} {add} {text}" if store.add else text))
        if tests:
            frame.scope.add(scope)


def _counted_from_both_ends(index: Index) -> Value | None:
    """What is counted from the end of an axis if it is below 0. None for other indices. (It is seldom below 0: so this
    is asked only where it is not inside.)"""
    bounded = types.not_negative(-1 * index.least) and types.not_negative(index.most)
    if not bounded or not isinstance(index.value, Apply) or index.value.op is not WHERE:
        return None
    below, behind, plain = index.value.args
    if not isinstance(below, Apply) or not isinstance(behind, Apply) or below.op is not LESS or behind.op is not ADD:
        return None
    zero, size = below.args[1], behind.args[1]
    whole = size.number if isinstance(size, Literal) else size.offset if isinstance(size, Position) else None
    moves = isinstance(size, Position) and bool(size.strides)
    same = below.args[0] is plain and behind.args[0] is plain and isinstance(zero, Literal) and zero.number == 0
    return plain if same and not moves and whole == index.size else None


class _Place(NamedTuple):
    """Where the lanes of a vector load or store.

    `offsets` has the bytes from the address for each lane; None if the lanes are side by side, or read one element.
    `inside` are masks; a lane loads or stores at all if it is in each of them. `alike` are further masks, each of all
    lanes or of none. A store tests these in a branch: some processors take ten times as long for a masked store.
    """

    address: str
    offsets: str | None
    inside: tuple[str, ...]
    alike: tuple[str, ...] = ()

    def mask(self, frame: Frame, width: int) -> str:
        """The mask of the lanes that load or store."""
        return " & ".join((*self.inside, *self.alike)) or frame.all_lanes(width)


class _Places(NamedTuple):
    """Turns computed indices into places of elements of a dtype. The lines are written in the scope number `level`.
    With `once`, one lane reads for all. An index that lies outside is reported as `code`."""

    frame: Frame
    value_of: ValueOf
    code: int
    dtype: DType
    point: Point
    level: int
    once: bool

    @property
    def width(self) -> int:
        """How many lanes the masks have."""
        return 1 if self.once else self.point.width

    def moved(self, address: str, indices: Sequence[Index]) -> list[_Place]:
        """The places that indices move an address to; usually one. If an axis may begin again inside a vector (see
        `Index.turn`), the lanes behind that point have a place of their own, which in most vectors has no lanes."""
        frame = self.frame
        varies = frame.lane is None or self.level >= frame.level.get(frame.lane, 0)
        tail = frame.mask(self.point) if varies and not self.once else None
        found = [_Place(address, None, () if tail is None else (tail,))]
        for index in indices:
            stride = frame.size(index.stride * self.dtype.itemsize)
            if self.width != 1 and frame.lane in frame.depends(index.value):
                found = [self._each(index, stride, place) for place in found]
                continue
            number, within = self._one(index)
            shifts = [(number, ())] if index.turn is None else self._around(index, number)
            found = [
                _Place(f"{at} + {shift}*{stride}", offsets, (*inside, *lanes), (*alike, *within))
                for shift, lanes in shifts
                for at, offsets, inside, alike in found
            ]
        return found

    def _around(self, index: Index, number: str) -> list[tuple[str, tuple[str, ...]]]:
        """Pairs of a shift and masks. The first shift is how far the index moves the first lane, with the lanes that it
        moves as far. The second shift is that of the other lanes, beyond the place where the axis begins again. There
        is none if all lanes are at one place. (A place without lanes may lie outside the array. A processor takes long
        to find that no lane reads there, so callers ask first whether there are lanes.)"""
        frame, width = self.frame, self.width
        assert isinstance(index.turn, Position)
        scope, size = frame.scopes[self.level], frame.size(index.size)
        start, step = frame.position(index.turn, self.point)
        left, shift = frame.fresh("left"), frame.fresh("k")
        scope.add(f"{left} = {size} - {number} - ({start})")
        both = f"splat_i64x1({number}), splat_i64x1({number} - {size})"
        scope.add(f"{shift} = lane_i64(select(splat_boolx1({left} > 0), {both}), 0)")
        if width == 1 or step == 0:
            return [(shift, ())]
        before, first, same = (frame.fresh(hint) for hint in ("before", "first", "same"))
        lanes, far = suffix(INT32, width), width * abs(types.as_int(step))
        steps = f"iota_{lanes}(0) * splat_{lanes}({step})"
        scope.add(f"{before} = {steps} < splat_{lanes}(min(max({left}, {-far}), {far}))")
        scope.add(f"{first} = splat_boolx{width}({left} > 0)")
        scope.add(f"{same} = ({before} & {first}) | (~{before} & ~{first})")
        return [(shift, (same,)), (f"({number} + {number} - {size} - {shift})", (f"~{same}",))]

    def _one(self, index: Index) -> tuple[str, tuple[str, ...]]:
        """An index that is the same for all lanes, and a mask that says whether it is inside; no mask if that is sure.
        It is checked as soon as it is known: the index of a slice once, before the loop over the elements of the slice.
        If the axis is known to have places for it, an index that lies outside is reported and becomes the first of
        these, so that no mask is needed."""
        frame, point = self.frame, self.point
        level, row, vector = frame.place(index.value, point)
        key = (*index.dims, index.value, row, vector)
        least, most = -1 * index.least, index.size - index.most
        places = types.not_negative(most - least - 1)
        known, time = frame.known_inside(level, index.some) == 1, frame.nest.time
        in_step = time is None or level >= frame.level.get(time, 0)
        plain = _counted_from_both_ends(index) if known and in_step and not index.sure else None
        part = "inside" if places else self.width
        place, within = (frame.recall(level, (*key, each)) for each in ("place", part))
        if place is None:
            alone = point if in_lanes(frame, index.value) else Point(point.row, point.vector, 1)
            text = self.value_of(index.value if plain is None else plain, alone)
            place = frame.remember(level, (*key, "place"), "k", f"lane_i64({text}, 0)")
        if index.sure and types.not_negative(index.size - 1):
            return place, ()
        if within is None:
            low, end = frame.size(least), frame.size(most)
            text = f"0 < {frame.size(index.size)}" if index.sure else f"{low} <= {place} < {end}"
            width = 1 if places else self.width
            within = frame.remember(level, (*key, part), "ok", f"splat_boolx{width}({text})")
            if plain is not None:
                below, nowhere = Scope(f"if any_of(~{within}):"), Scope(f"if any_of(~{within}):")
                below.add(f"{place} = {place} + {frame.size(index.size)}")
                below.add(f"{within} = splat_boolx{width}({text})")
                nowhere.add(f"report({frame.address(STATUS, 0)}, {self.code})")
                if places:
                    nowhere.add(f"{place} = {low}")
                below.add(nowhere)
                frame.scopes[level].add(below)
                return place, () if places else (within,)
            some = "" if known else f" & splat_boolx{width}(0 < {frame.size(index.some)})"
            outside = self._report(level, f"~{within}{some}")
            if places:  # also where no step reads anything: what is the same in all steps is read in front of them
                if some or outside is None:
                    outside = Scope(f"if any_of(~{within}):")
                    frame.scopes[level].add(outside)
                outside.add(f"{place} = {low}")
        return place, () if places else (within,)

    def _each(self, index: Index, stride: str, place: _Place) -> _Place:
        """A place moved by an index that differs from lane to lane."""
        frame, long = self.frame, suffix(INT64, self.point.width)
        vector = self.value_of(index.value, self.point)
        term = f"{self._begun_again(index, vector)} * splat_{long}({stride})"
        offsets = term if place.offsets is None else f"{place.offsets} + {term}"
        if index.sure and types.not_negative(index.size - 1):
            return place._replace(offsets=offsets)
        ok = frame.fresh("ok")
        low, end = frame.size(-1 * index.least), frame.size(index.size - index.most)
        within = f"({vector} >= splat_{long}({low})) & ({vector} < splat_{long}({end}))"
        if index.sure:
            within = f"splat_boolx{self.point.width}(0 < {frame.size(index.size)})"
        inside = place.mask(frame, self.point.width)
        frame.scopes[self.level].add(f"{ok} = {inside} & {within}")
        self._report(self.level, f"{inside} & ~{ok}")
        return _Place(place.address, offsets, (ok,))

    def _begun_again(self, index: Index, vector: str) -> str:
        """How far an index that differs from lane to lane moves each lane: `size` less where its axis has begun
        again."""
        if index.turn is None:
            return vector
        assert isinstance(index.turn, Position)
        frame, long = self.frame, suffix(INT64, self.point.width)
        start, step = frame.position(index.turn, self.point)
        size, reached = f"splat_{long}({frame.size(index.size)})", f"{vector} + splat_{long}({start})"
        if step != 0:
            reached += f" + iota_{long}(0) * splat_{long}({step})"
        return f"select({reached} < {size}, {vector}, {vector} - {size})"

    def _report(self, level: int, outside: str) -> Scope | None:
        """Report the code if a lane is outside; in front of the loop over time, only if there is a step, else in the
        scope that is returned."""
        frame, time, some = self.frame, self.frame.nest.time, ""
        if time is not None and level < frame.level.get(time, 0) and not types.not_negative(time.size - 1):
            some = f"{frame.size(time.size)} > 0 and "
        report = Scope(f"if {some}any_of({outside}):")
        report.add(f"report({frame.address(STATUS, 0)}, {self.code})")
        frame.scopes[level].add(report)
        return None if some else report
