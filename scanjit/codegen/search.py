"""Searches in sorted rows as source: how many elements of a row come before each value of some vectors.

All lanes halve the row together, and gather what they compare with. But values are often near the one that was looked
for before, as those that are sorted themselves. So a vector is first compared with two elements, some places before and
behind the last place that was found. If its places lie between, it is compared with one element after the other there:
all lanes read the same element, which takes a tenth of the time of a gather.
"""

from collections.abc import Sequence

from scanjit.codegen.frame import Frame, Point, ValueOf
from scanjit.codegen.lines import indented
from scanjit.codegen.names import INT64, suffix
from scanjit.kinds import kind_of
from scanjit.schedule.nests import Search

NEAR = 32
"""Places that are so many elements before or behind the last one are near it. Shorter rows are never halved."""
TOGETHER = 8
"""After so many elements, it is asked whether others come before a lane."""


def search(frame: Frame, value_of: ValueOf, value: Search, points: Sequence[Point]) -> list[str]:
    """Write the search for the vectors of some points. Returns the variables that hold the places."""
    vectors = [_Vector(frame, value, point, value_of(value.item, point)) for point in points]
    scope = frame.scopes[frame.level_of(frame.depends(value))]
    for line in _lines(frame, value, vectors):
        scope.add(line)
    return [vector.found for vector in vectors]


class _Vector:
    """A vector of values to look for: the `item`, the lanes that exist (`inside`) and those that look for NaN (`odd`),
    and the places where it is `found`."""

    def __init__(self, frame: Frame, value: Search, point: Point, item: str) -> None:
        level = frame.level_of(frame.depends(value))
        self.item, self.inside, self.width = item, frame.every(point), point.width
        text, self.apart = frame.vector(value.access, point)
        self.row = frame.remember(level, ("row", text), "row", text)
        self.kind, self.long = (suffix(dtype, point.width) for dtype in (value.item.dtype, INT64))
        self.n, self.step = frame.size(value.size), frame.size(value.stride * value.access.buffer.dtype.itemsize)
        self.sign, self.found, self.x = "<=" if value.right else "<", frame.fresh("found"), frame.fresh("x")
        self.odd = frame.fresh("odd") if kind_of(value.item.dtype).floating else ""

    def before(self, x: str) -> str:
        """The lanes that an element comes before, if neither is NaN."""
        return f"({x} {self.sign} {self.item})"

    def element(self, place: str) -> str:
        """An element of the row in all lanes."""
        return f"broadcast_{self.kind}({self.row} + {place}*{self.step})"

    def any(self, lanes: str) -> str:
        """Whether there is one of these lanes."""
        return f"any_of({lanes} & {self.inside})"


def _lines(frame: Frame, value: Search, vectors: Sequence[_Vector]) -> list[str]:
    """The search for all vectors: near the last place, or by halves if one of them is not near."""
    lines = [f"{each.odd} = {each.item} != {each.item}" for each in vectors if each.odd]
    if any(each.apart != 0 for each in vectors):  # each lane has a row of its own
        return [*lines, *_halved(frame, value, vectors)]
    close, near = frame.fresh("close"), frame.remember(0, ("near", value), "near", "0")
    inner: list[str] = []
    for each in reversed(vectors):
        near_it = [*_near(frame, value, each, close, near), f"if {close}:"]
        inner = [*near_it, *indented([*_counted(frame, each, near), *inner])]
    last = vectors[-1]
    halved = [*_halved(frame, value, vectors), f"{near} = lane_i64({last.found}, {last.width - 1})"]
    return [*lines, *inner, f"if not {close}:", *indented(halved)]


def _near(frame: Frame, value: Search, each: _Vector, close: str, near: str) -> list[str]:
    """Find out whether a vector has no NaN, and whether all its places lie near the last one, or the row is short."""
    usual = f"{close} = not {each.any(each.odd)}" if each.odd else f"{close} = True"
    if isinstance(value.size, int) and value.size <= NEAR:
        return [usual]
    low, high = frame.fresh("low"), frame.fresh("high")
    far = [f"(splat_boolx{each.width}({low} > 0) & ~{each.before(each.element(f'max({low} - 1, 0)'))})"]
    far += [f"(splat_boolx{each.width}({high} < {each.n}) & {each.before(each.element(f'min({high}, {each.n} - 1)'))})"]
    lines = [
        f"{low} = max({near} - {NEAR}, 0)",
        f"{high} = min({near} + {NEAR}, {each.n})",
        f"{close} = not {each.any('(' + ' | '.join([*far, each.odd] if each.odd else far) + ')')}",
    ]
    return (
        lines if isinstance(value.size, int) else [f"if {each.n} > {NEAR}:", *indented(lines), "else:", f"    {usual}"]
    )


def _counted(frame: Frame, each: _Vector, near: str) -> list[str]:
    """Go back from the last place until all elements before `at` come before the values of all lanes. From there, count
    forward the elements that come before the value of each lane."""
    at = frame.fresh("at")
    more = each.any(each.before(each.element(at)))
    one = [
        f"{each.x} = {each.element(at)}",
        f"{each.found} = select({each.before(each.x)} & {each.inside}, {each.found} + 1, {each.found})",
        f"{at} += 1",
    ]
    return [
        f"{at} = {near}",
        f"while {at} > 0 and {each.any('~' + each.before(each.element(f'({at} - 1)')))}:",
        f"    {at} = max({at} - {TOGETHER}, 0)",
        f"{each.found} = splat_{each.long}({at})",
        f"while {at} <= {each.n} - {TOGETHER} and {more}:",
        *indented(one * TOGETHER),
        f"while {at} < {each.n} and {more}:",
        *indented(one),
        f"{near} = lane_i64({each.found}, {each.width - 1})",
    ]


def _halved(frame: Frame, value: Search, vectors: Sequence[_Vector]) -> list[str]:
    """The search by halves, and then the places of NaN: behind all elements, or behind those that are numbers."""
    lines = _by_halves(frame, [(each, each.found, each.before(each.x), each.inside) for each in vectors])
    for each in vectors:
        if each.odd:
            place, behind = f"splat_{each.long}({each.n})", list[str]()
            if not value.right:
                place = frame.fresh("place")
                behind = _by_halves(frame, [(each, place, f"{each.x} == {each.x}", f"{each.odd} & {each.inside}")])
            found = f"{each.found} = select({each.odd}, {place}, {each.found})"
            lines += [f"if {each.any(each.odd)}:", *indented([*behind, found])]
    return lines


def _by_halves(frame: Frame, vectors: Sequence[tuple[_Vector, str, str, str]]) -> list[str]:
    """Halve the row until nothing is left of it. A lane goes on in the second half if the last element `x` of the first
    half comes before its value. For each vector are given the variable for the place that is found, the lanes whose
    values `x` comes before, and the lanes that exist."""
    left, half, n = frame.fresh("left"), frame.fresh("half"), vectors[0][0].n
    gathers, moves = list[str](), list[str]()
    for each, found, before, inside in vectors:
        offsets = f"({found} + splat_{each.long}({half} - 1)) * splat_{each.long}({each.step})"
        if each.apart != 0:
            offsets += f" + iota_{each.long}(0) * splat_{each.long}({frame.size(each.apart)})"
        gathers.append(f"    {each.x} = gather_{each.kind}({each.row}, {offsets}, {inside})")
        moves.append(f"    {found} = select({before}, {found} + splat_{each.long}({half}), {found})")
    lines = [f"{found} = splat_{each.long}(0)" for each, found, _, _ in vectors]
    lines += [f"{left} = {n}", f"while {left} > 0:", f"    {half} = ({left} + 1) >> 1", *gathers, *moves]
    return [*lines, f"    {left} -= {half}"]
