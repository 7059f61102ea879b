"""Where the best element of a long row lies, for `argmax` and `argmin`.

The best element of a block of a row is found first, in several vectors side by side, and compared with the best one so
far. If it is better, the block is remembered. Rows have few such blocks, unless they go up or down. At the end, the
place is looked for in the block that was remembered last, stretch by stretch, and in the first stretch that has it.
The last stretch of a row may begin in the one before it.
"""

from scanjit.codegen.frame import Frame, Point, ValueOf
from scanjit.codegen.names import INT64, number, suffix
from scanjit.kinds import kind_of
from scanjit.ops.extremes import ArgReduction
from scanjit.schedule.nests import Apply, Reduce, walk_values

VECTORS = 4
"""The number of vectors in a stretch."""
BLOCK = 64
"""The number of stretches in a block: it is in the first cache when the place is looked for."""
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
    """Give the accumulators `names` the best element of a long row and its place. Returns the variable that says how
    many elements were looked at: all if the row is long, none if it is short."""
    assert isinstance(reduction.op, ArgReduction)
    op, loop, dtype, lanes = reduction.op, reduction.loops[0], reduction.term.dtype, point.width
    width = _width(reduction, lanes)
    length, wide, size = VECTORS * width, Point(point.row, point.vector, width), frame.size(loop.size)
    done, depth, floating = frame.line("done", "0"), len(frame.scopes), kind_of(dtype).floating

    def terms(start: str) -> list[str]:
        """The vectors of terms of a stretch."""
        found = []
        for k in range(0, length, width):
            with frame.inside(None, loop, f"({start} + {k})" if k else start):
                found.append(frame.line("b", value_of(reduction.term, wide)))
        return found

    def better(a: str, b: str) -> str:
        """The better one of two numbers."""
        return f"select({a} {op.sign} {b}, {a}, {b})"

    def is_it(term: str, total: str) -> str:
        """Whether a term is the best one: there is NaN only if it is the best."""
        return f"({term} == {total})" + (f" | isnan({term})" if floating else "")

    frame.push(f"if {size} >= {STRETCHES * length}:")
    worst = f"splat_{suffix(dtype, width)}({number(op.best.initial(dtype))})"
    best, first = frame.line("best", worst), frame.line("first", "0")
    outer, block, stretch = len(frame.scopes), frame.fresh("block"), frame.fresh("stretch")
    frame.push(f"for {block} in range(0, {size}, {BLOCK * length}):")
    most = [frame.line("most", worst) for _ in range(VECTORS)]
    odd = frame.line("odd", f"{best} != {best}") if floating else ""
    with frame.inside(f"for {stretch} in range({block}, min({block} + {BLOCK * length}, {size}), {length}):"):
        found = terms(frame.line("start", f"min({stretch}, {size} - {length})"))
        for one, term in zip(most, found, strict=True):
            frame.scope.add(f"{one} = {better(term, one)}")
        if floating:  # NaN is looked for apart, in two vectors with one comparison
            frame.scope.add(f"{odd} = {' | '.join([odd, *(f'isnan({term})' for term in found)])}")
    while len(most) > 1:
        most = [frame.line("most", better(*pair)) for pair in zip(most[::2], most[1::2], strict=True)]
    test = f"({most[0]} {op.sign} {best})"
    if floating:  # nothing is better than NaN
        test = f"({test} | {odd}) & ({best} == {best})"
    with frame.inside(f"if any_of({test}):"):
        frame.scope.add(f"{best} = spread_x{width}({op.best.horizontal}({most[0]}))")
        if floating:
            with frame.inside(f"if any_of({odd}):"):
                frame.scope.add(f"{best} = splat_{suffix(dtype, width)}(nan)")
        frame.scope.add(f"{first} = {block}")
    frame.pop(outer)
    hit, end = frame.line("hit", f"{best} < {best}"), frame.line("end", f"min({first} + {BLOCK * length}, {size})")
    # Of this condition LLVM makes a branch: a processor guesses that the next turn comes, and does not wait.
    with frame.inside(f"while {first} < {end} and not any_of({hit}):"):
        start = frame.line("start", f"min({first}, {size} - {length})")
        frame.scope.add(f"{hit} = {' | '.join(f'({is_it(term, best)})' for term in terms(start))}")
        frame.scope.add(f"{first} = {first} + {length}")
    frame.scope.add(f"{first} = min({first}, {size}) - {length}")
    total, place = names
    frame.scope.add(f"{total} = spread_x{lanes}(lane0({best}))")
    frame.scope.add(f"{place} = splat_{suffix(INT64, lanes)}({_NOWHERE})")
    frame.loop(loop, "k", (first, f"{first} + {length}"), lanes, length // lanes, down=1)
    term, here = value_of(reduction.term, point), frame.counter(loop, point)
    text = f"select({is_it(term, total)}, splat_{suffix(INT64, lanes)}({here}), {place})"
    frame.scope.add(f"{place} = {text}")
    frame.pop(outer)
    frame.scope.add(f"{done} = {size}")
    frame.pop(depth)
    return done
