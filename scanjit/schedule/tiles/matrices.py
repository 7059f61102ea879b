"""Products of packs whose sums stay in registers that hold matrices: Intel's AMX (see `simd.matrices`).

A register holds the sums of 16 rows and a vector of columns. To multiply 16 packs of each row takes as long as 16
multiply-adds of vectors, for 512 products of bfloat16 in each. So a tile has one register of rows, and up to four of
columns: of one product, or one vector of each of several products with the same left operand.

Rows that a mask does not want are computed, too: to leave them out takes about as long.
"""

from collections.abc import Sequence

from scanjit import types
from scanjit.kinds import kind_of
from scanjit.records import replace
from scanjit.schedule.nests import Apply, Load, Nest, NestLoop, Program, Reduce, Statement, Tile
from scanjit.schedule.threads.split import with_split
from scanjit.schedule.tiles.choose import group_of, near_tiles
from scanjit.schedule.tiles.products import factors, is_of_packs, reductions_of
from scanjit.target import MATRIX_ROWS, Target
from scanjit.types import Dimension

SUMS = 4
"""How many registers hold sums. The others hold operands."""
FEW_PACKS = 64
"""Sums of so few packs take less time than to divide them among the turns of a loop saves."""
LEAST_QUADS = 32
"""Sums of fewer quads take as long in vectors, which multiply them in one instruction, too."""


def in_matrices(program: Program) -> Program:
    """The program whose products of packs are computed in registers that hold matrices, if the target has them."""
    if not program.target.has_matrices:
        return program
    notes: list[str] = []
    return program.with_suite(_suite(program.suite, program.target, notes), notes)


def _suite(suite: Sequence[Statement], target: Target, notes: list[str]) -> list[Statement]:
    found: list[Statement] = []
    for statement in suite:
        if isinstance(statement, Nest) and (tile := _tile(statement, target)) is not None:
            notes.append(
                f"nest {statement.label}: {MATRIX_ROWS} rows x {tile.vectors} vectors lie in registers for matrices"
            )
            found.append(replace(statement, tile=tile))
        else:
            found.append(statement.with_suites(*(_suite(inner, target, notes) for inner in statement.suites)))
    return found


def operands(nest: Nest, reduction: Reduce) -> tuple[Load, Load]:
    """The left operand of a product of packs, and the right one, along which lanes run."""
    left, right = sorted(factors(reduction) or (), key=lambda load: nest.space[-1] in load.access.strides)
    return left, right


def _tile(nest: Nest, target: Target) -> Tile | None:
    """The tile of a nest whose sums are products of packs with one left operand; None for other nests. Of several loops
    that are joined, it has the rows of the last one if those of all do not lie in equal steps."""
    old, reductions = nest.tile, reductions_of(nest)
    if old is None or old.rows is None or old.horizontal or old.lanes * 4 != target.vector_bytes:
        return None
    fits = lambda rows: all(_fits(reduction, nest, rows, old.lanes) for reduction in reductions)
    rows = next(filter(fits, (old.rows, *old.rows.parts[-1:])), None)
    if rows is None or not 1 <= len(reductions) <= SUMS:
        return None
    lefts, rights = (
        [load.access for load in some] for some in zip(*(operands(nest, r) for r in reductions), strict=True)
    )
    (terms,) = reductions[0].loops
    kinds = {(r.term.op if isinstance(r.term, Apply) else None, r.loops, r.init is None) for r in reductions}
    if len(kinds) > 1 or len(set(lefts)) > 1 or len({right.strides[terms] for right in rights}) > 1:
        return None
    panels = all(right.panel is not None for right in rights)
    vectors = _vectors(nest.space[-1].size, old.lanes, SUMS // len(reductions), panels)
    used = any(not isinstance(store.value, Reduce) for store in nest.stores)
    several = not isinstance(terms.size, int) or terms.size > FEW_PACKS
    place = nest, reductions, rows, old.lanes * vectors, target.near_bytes
    group = near_tiles(*place)  # long: only the first tile of a group waits for its own sums
    meanwhile = used and several and group != 1 and all(reduction.init is None for reduction in reductions)
    group = group if meanwhile else group_of(*place)
    tile = Tile(old.lanes, vectors, rows, MATRIX_ROWS, group=group, matrices=True, meanwhile=meanwhile)
    return with_split(nest, tile)


def _vectors(size: Dimension, lanes: int, most: int, panels: bool) -> int:
    """How many vectors of columns a tile has. If right operands lie in no panels, no tile reaches beyond them."""
    if not panels:
        return next(vectors for vectors in range(most, 0, -1) if types.remainder(size, vectors * lanes) == 0)
    return min(most, max(-(-size // lanes), 1)) if isinstance(size, int) else most


def _fits(reduction: Reduce, nest: Nest, rows: NestLoop, lanes: int) -> bool:
    """Whether a reduction is such a product. The packs of a row of its left operand are neighbours, and its rows lie in
    equal steps. Its right operand lies in panels, or has whole vectors of columns."""
    loads, lane = factors(reduction), nest.space[-1]
    if loads is None or not is_of_packs(reduction):
        return False
    if len(reduction.loops) != 1:
        return False
    (terms,), (left, right) = reduction.loops, (load.access for load in operands(nest, reduction))
    if kind_of(reduction.dtype).integral and isinstance(terms.size, int) and terms.size < LEAST_QUADS:
        return False
    if lane in left.strides or left.panel is not None or any(load.when != 1 for load in loads):
        return False
    parts, steps = rows.parts or (rows,), left.strides
    apart = [inner.size * steps.get(inner, 0) for inner in parts[1:]]
    even = all(steps.get(outer) == step for outer, step in zip(parts[:-1], apart, strict=True))
    if not even or steps.get(terms) != 1 or parts[-1] not in steps:
        return False
    whole = right.strides.get(lane) == 1 and types.remainder(lane.size, lanes) == 0
    return (right.panel is lane or whole) and terms in right.strides and right.strides.keys().isdisjoint(parts)
