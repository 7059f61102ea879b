"""Where the best element of a long row lies, for `argmax` and `argmin`.

A stretch of elements is compared with the best one so far, as a whole. This takes one comparison for each vector. Only
if one of them is better, the best element of the stretch is computed, and the stretch is remembered. Rows have few such
stretches, unless they go up or down. At the end, the place is looked for in the stretch that was remembered last. The
last stretch of a row may begin in the one before it.
"""

from scanjit.codegen.frame import Frame, Point, ValueOf
from scanjit.codegen.names import INT64, number, suffix
from scanjit.kinds import kind_of
from scanjit.ops.reduce import ArgReduction
from scanjit.schedule.nests import Apply, Reduce, walk_values

VECTORS = 4
"""The number of vectors in a stretch. Twice as many take 0.93 of the time for rows of 50,000 and more, but 1.2 for rows
of 1,000, and leave rows of less than 512 float32 undivided."""
STRETCHES = 4
"""Shorter rows are not divided."""
UNLIKE = {">": "<=", "<": ">="}
"""The comparison that is false where another one is true, and false for NaN."""
_NOWHERE = 1 << 62


def divides(reduction: Reduce, lanes: int) -> bool:
    """Whether rows may be divided into stretches: if they may be long, and if their elements need no arithmetic. Some
    elements are computed several times."""
    plain = not any(isinstance(value, Apply) for value in walk_values([reduction.term]))
    size = reduction.loops[-1].size
    long = not isinstance(size, int) or size >= STRETCHES * VECTORS * _width(reduction, lanes)
    return isinstance(reduction.op, ArgReduction) and len(reduction.loops) == 1 and plain and long


def _width(reduction: Reduce, lanes: int) -> int:
    """The lanes of a vector of elements that is as large as `lanes` places."""
    return lanes * INT64.itemsize // reduction.term.dtype.itemsize


def search(frame: Frame, value_of: ValueOf, reduction: Reduce, point: Point, names: list[str]) -> str:
    """Give the accumulators `names` the best element of a long row and its place. Returns the variable of how many
    elements are done: all of a long row, none of a short one."""
    assert isinstance(reduction.op, ArgReduction)
    op, loop, dtype, lanes = reduction.op, reduction.loops[0], reduction.term.dtype, point.width
    width = _width(reduction, lanes)
    length, wide, size = VECTORS * width, Point(point.row, point.vector, width), frame.size(loop.size)
    done, depth = frame.line("done", "0"), len(frame.scopes)

    def terms(start: str, step: Point, down: int = 0) -> tuple[str, str]:
        """Open the loop over a stretch. Returns a vector of terms, and where it begins."""
        frame.loop(loop, "k", (start, f"{start} + {length}"), step.width, length // step.width, down)
        return value_of(reduction.term, step), frame.counter(loop, step)

    frame.push(f"if {size} >= {STRETCHES * length}:")
    worst = f"splat_{suffix(dtype, width)}({number(op.best.initial(dtype))})"
    best, first, stretch = frame.line("best", worst), frame.line("first", "0"), frame.fresh("stretch")
    inside = len(frame.scopes)
    frame.push(f"for {stretch} in range(0, {size}, {length}):")
    start, better = frame.line("start", f"min({stretch}, {size} - {length})"), frame.line("better", f"{best} != {best}")
    body = len(frame.scopes)
    term, _ = terms(start, wide)
    frame.scope.add(f"{better} = {better} | ~({term} {UNLIKE[op.sign]} {best})")
    frame.pop(body)
    known = f" & ({best} == {best})" if kind_of(dtype).floating else ""  # nothing is better than NaN
    frame.push(f"if any_of({better}{known}):")
    most = frame.line("most", worst)
    body = len(frame.scopes)
    term, _ = terms(start, wide)
    frame.scope.add(f"{most} = {op.best.combine.replace('{0}', most).replace('{1}', term)}")
    frame.pop(body)
    frame.scope.add(f"{best} = spread_x{width}({op.best.horizontal}({most}))")
    frame.scope.add(f"{first} = {start}")
    frame.pop(inside)
    total, place = names
    frame.scope.add(f"{total} = spread_x{lanes}(lane0({best}))")
    frame.scope.add(f"{place} = splat_{suffix(INT64, lanes)}({_NOWHERE})")
    term, here = terms(first, point, down=1)
    found = f"({term} == {total})" + (f" | isnan({term})" if known else "")  # there is NaN only if it is the best
    frame.scope.add(f"{place} = select({found}, splat_{suffix(INT64, lanes)}({here}), {place})")
    frame.pop(inside)
    frame.scope.add(f"{done} = {size}")
    frame.pop(depth)
    return done
