"""Steps of rows that lie across, a vector of rows at a time (see `scanjit.schedule.tiles.across`)."""

from collections.abc import Callable

from scanjit.codegen.frame import Frame, Point, Turned
from scanjit.codegen.square import turned
from scanjit.kinds import kind_of
from scanjit.ops.passes import Number
from scanjit.schedule.nests import Access, NestLoop
from scanjit.schedule.tiles.across import LEAST_LANES, across

PIECE = 64
"""So many steps are turned together."""


def is_across(frame: Frame) -> bool:
    """Whether steps of this nest read or write rows that lie across, in enough lanes."""
    return frame.tile.lanes >= LEAST_LANES and frame.lane is not None and bool(across(frame.nest))


def write_across(frame: Frame, time: NestLoop, steps: Callable[[str, str, int, int], None]) -> None:
    """Write a loop over pieces of time. Before the steps of a piece, which `steps` writes, what they read is turned;
    behind them, what they have written."""
    size, found, depth = frame.size(time.size), across(frame.nest), len(frame.scopes)
    first = frame.fresh("first")
    frame.push(f"for {first} in range(0, {size}, {PIECE}):", time, first)
    count: Number = PIECE if isinstance(time.size, int) and time.size % PIECE == 0 else ""
    count = time.size if isinstance(time.size, int) and time.size < PIECE else count
    count = count or frame.line("count", f"min({size} - {first}, {PIECE})")
    low = frame.line("low", f"{size} - {first} - {count}") if frame.nest.reverse else first
    frame.index[time, 0] = low
    written = {store.access for store in frame.nest.stores}
    places = [(access, point, _square(frame, access, point, low)) for access in found for point in frame.points()]
    targets = {(access, point): frame.line("row", frame.vector(access, point)[0]) for access, point, _ in places}
    for access, point, square in places:
        if access not in written:
            _turn(frame, access, point, targets[access, point], square.address, count, True)
        frame.squares[access, point.vector] = square
    inside = len(frame.scopes)
    steps(first, f"{first} + {count}", 1, PIECE)
    frame.pop(inside)
    for access, point, square in places:
        if access in written:
            _turn(frame, access, point, targets[access, point], square.address, count, False)
    frame.squares.clear()
    frame.pop(depth)


def _square(frame: Frame, access: Access, point: Point, low: str) -> Turned:
    """Memory on the stack for one vector of each step."""
    step = point.width * access.buffer.dtype.itemsize
    key = ("square", access, point.vector, point.width)
    return Turned(frame.remember(0, key, "square", f"stack({PIECE * step})"), low, step)


def _turn(frame: Frame, access: Access, point: Point, row: str, square: str, count: Number, into: bool) -> None:
    """Copy the elements of a vector of rows into vectors of steps, or back. If the rows fill no vector, they are first
    (or last) copied into a block on the stack that has room for a full one."""
    dtype, lanes, apart = access.buffer.dtype, point.width, frame.vector(access, point)[1]
    kind, size, step, mask = kind_of(dtype).name, dtype.itemsize, frame.size(apart), frame.mask(point)
    if mask is None:
        lines = turned(kind, size, lanes, count, row, square, lanes * size, into, step)
    else:
        home = frame.remember(0, ("rows", dtype, lanes), "rows", f"stack({lanes * PIECE * size})")
        here, there = f"{row} + g*{step} + i*{size}", f"{home} + g*{PIECE * size} + i*{size}"
        target, source = (there, here) if into else (here, there)
        copied = [
            f"for g in range(count_lanes({mask})):",
            f"    for i in range(0, {count} - {lanes - 1}, {lanes}):",
            f"        store({target}, load_{kind}x{lanes}({source}))",
            f"    i = ({count})//{lanes}*{lanes}",
            f"    inside = head_x{lanes}({count} - i)",
            f"    store_masked({target}, load_masked_{kind}x{lanes}({source}, inside), inside)",
        ]
        squares = turned(kind, size, lanes, count, home, square, lanes * size, into, str(PIECE * size))
        lines = [*copied, *squares] if into else [*squares, *copied]
    for line in lines:
        frame.scope.add(line)
