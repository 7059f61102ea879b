"""Left operands of products that are copied first, because their terms lie far apart in memory.

In `x.T @ y`, the neighbours of an element of the left operand are other rows of it, and its next term lies a row of `x`
further on. A register tile of a few rows then reads a line of memory for each term, and uses a few numbers of it. Where
sums are long, no line is still in the first cache when the next rows need it.

Registers that hold matrices read the terms of a row as neighbours. So there, left operands of packs are copied also if
sums are short.
"""

from collections.abc import Sequence

from scanjit import types
from scanjit.schedule.nests import Access, Blocks, Buffer, Load, Nest, NestLoop, Program, Reduce, Statement, Store
from scanjit.schedule.tiles.apply import with_tile
from scanjit.schedule.tiles.pack import with_room
from scanjit.schedule.tiles.products import Depth, depth_of, factors, is_of_packs, may_overlap, packable, reductions_of
from scanjit.target import Target
from scanjit.types import Dimension

LONG = 256
"""Lines of so many terms do not stay in the first cache, next to the right operand."""
WIDE = 128
"""With fewer columns than this, a copied element is not read often enough."""
FEW_ROWS = 8
"""As many rows lie in a line or two."""


def with_lefts(program: Program) -> Program:
    """The program in which left operands whose terms lie far apart are copied, so that the terms are neighbours."""
    if program.target.registers > 16 and not program.target.has_matrices:
        return program  # larger register tiles take longer for a term, and the next line comes meanwhile
    notes: list[str] = []
    return program.with_suite(_suite(program.suite, program.target, (), notes), notes)


def _suite(suite: Sequence[Statement], target: Target, around: Sequence[Blocks], notes: list[str]) -> list[Statement]:
    """These statements, with copies before their nests. Steps of loops are left as they are."""
    result: list[Statement] = []
    for statement in suite:
        if isinstance(statement, Blocks):
            result.append(statement.with_suites(_suite(statement.suite, target, (*around, statement), notes)))
            continue
        if isinstance(statement, Nest):
            copies, statement = _copied(statement, target, around)
            if copies:
                notes.append(f"nest {statement.label}: a left operand is copied, so that its terms are neighbours")
            result += copies
        result.append(statement)
    return result


def _copied(nest: Nest, target: Target, around: Sequence[Blocks]) -> tuple[list[Nest], Nest]:
    """Nests that copy left operands of a nest, and the nest that reads the copies."""
    copies, new = [], dict[Access, Access]()
    for reduction in reductions_of(nest):
        for left in _far_apart(nest, reduction, target):
            if left.access not in new:
                copy, new[left.access] = _copy(nest, reduction, left, target, around)
                copies.append(copy)
    return copies, nest.rebuilt(lambda access: new.get(access, access)) if new else nest


def _copy(nest: Nest, reduction: Reduce, left: Load, target: Target, around: Sequence[Blocks]) -> tuple[Nest, Access]:
    """A nest that copies a left operand, and where the copy is read."""
    rows, depth = _rows(nest), depth_of(left.access, reduction.loops)
    assert rows is not None
    batch = [loop for loop in left.access.strides if loop is not rows and loop not in reduction.loops]
    sizes = (*(loop.size for loop in batch), rows.size, depth.size)
    buffer = Buffer(left.access.buffer.dtype, with_room(sizes, around), "temporary", "rows")
    loops, steps = tuple(map(NestLoop, sizes)), [types.product(sizes[i + 1 :]) for i in range(len(sizes))]
    first = left.access.offset - depth.start(depth.steps[-1])
    apart = (*(left.access.strides[loop] for loop in batch), 1, depth.steps[-1])
    source = Access(left.access.buffer, first, dict(zip(loops, apart, strict=True)))
    store = Store(Access(buffer, 0, dict(zip(loops, steps, strict=True))), Load(buffer.dtype, source))
    between = dict(zip((*batch, rows), steps, strict=False))
    copy = with_tile(Nest(loops, (store,), "transpose"), target, once=True)
    return copy, Access(buffer, depth.start(1), {**between, **depth.strides(1)})


def _far_apart(nest: Nest, reduction: Reduce, target: Target) -> Sequence[Load]:
    """The left operands of a product, if it pays to copy them."""
    rows, packs = _rows(nest), target.has_matrices and is_of_packs(reduction)
    if rows is None or (found := packable(reduction, nest.space[-1])) is None or (target.registers > 16 and not packs):
        return ()
    size, columns = found.depth.size, nest.space[-1].size
    large = _large(rows.size, FEW_ROWS) and _large(size, 0 if packs else LONG) and _large(columns, WIDE)
    lefts = [load for load in factors(reduction) or () if load is not found.right]
    return lefts if large and all(_lies_apart(left, rows, reduction, found.depth) for left in lefts) else ()


def _lies_apart(left: Load, rows: NestLoop, reduction: Reduce, depth: Depth) -> bool:
    """Whether the terms of a left operand lie far apart, in the order of those of the right one, and rows lie side by
    side."""
    own, steps = depth_of(left.access, reduction.loops), left.access.strides
    if left.access.panel is not None or left.widens or left.when != 1 or not {rows, *reduction.loops} <= steps.keys():
        return False
    if len(steps) > 1 + len(reduction.loops) and may_overlap(left.access):
        return False
    return len(own.sizes) == 1 and steps[rows] == 1 and own.steps[-1] not in (1, -1) and own.loops == depth.loops


def _rows(nest: Nest) -> NestLoop | None:
    """The rows of the nest's register tile, if they are those of one loop."""
    tile = nest.tile
    return None if tile is None or tile.horizontal or tile.rows is None or tile.rows.parts else tile.rows


def _large(size: Dimension, least: int) -> bool:
    return not isinstance(size, int) or size > least
