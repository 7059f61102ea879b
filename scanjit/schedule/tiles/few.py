"""Products of few rows, or of few columns.

To copy the right operand into panels takes as long as to compute several rows. So if rows are few, the operand is read
where it is, and a register tile has one row, of many vectors if there are so many columns. If columns are few, a tile
has one vector of them: the others would be empty.

An operand that does not fit into the second-level cache is packed for two rows already, since each row reads it anew.
A tile for one row must read long pieces of it: the processor does not foresee which short piece comes next.

If the terms of an operand are neighbours, as in `x @ w.T` for few rows, or in `x @ w` for a `w` of one column, lanes
run along the other axis of this operand. It is read in square blocks, which are transposed.

Take `x @ w` for an `x` of any number of rows. A call may have one row, as a prediction has, or the thousand rows of a
batch. There are up to four variants: more would be faster for some sizes, and each takes time to compile. All of them
add the terms of a sum in the same order.
"""

from scanjit import types
from scanjit.ops.elementwise import MUL
from scanjit.records import replace as changed
from scanjit.schedule.nests import Access, Apply, Few, Load, Nest, NestLoop
from scanjit.schedule.tiles import shapes
from scanjit.schedule.tiles.estimates import lanes_of
from scanjit.schedule.tiles.lanes import Variant
from scanjit.schedule.tiles.products import factors, packable, reductions_of
from scanjit.target import Target
from scanjit.types import Dimension

LEAST_BYTES = 4
"""Squares are of elements of at least this size: those of smaller ones would be hundreds of instructions."""
LEAST_LANES = 8
"""Smaller squares take longer than what they spare."""
FEW = 3
"""At most this many rows are few."""
LONG_PIECE = 256
"""Where a right operand does not fit into the second-level cache, a tile reads at least this many bytes of its rows."""


def variants(nest: Nest, target: Target, notes: list[str]) -> list[Variant]:
    """The nest for few rows, for few columns, and for many of both. A number that is known needs no variants. The list
    is empty if there is nothing to decide in a call, or if a right operand is packed once for many calls.

    Of the numbers of rows, columns and terms, one may be known. The others are then mostly numbers of samples or steps,
    which are seldom few. So only a single product has a variant then, for few rows."""
    if nest.time is not None or nest.sequential or not 2 <= len(nest.space) <= 3:
        return []
    (*batch, rows, lane), found = nest.space, [packable(r, nest.space[-1]) for r in reductions_of(nest)]
    rights = [each.right.access for each in found if each is not None and list(each.batch) == batch]
    if not found or len(rights) < len(found) or any(right.buffer.fixed for right in rights):
        return []
    made: list[Variant] = []
    rest: Dimension = 1

    def add(variant: Nest, when: Dimension) -> None:
        nonlocal rest
        made.append(Variant(variant, rest * when))
        rest = rest * (1 - when)

    anything = not any(isinstance(size, int) for size in (rows.size, lane.size, _terms(nest)))
    few_rows = (anything or not batch) and types.as_atom(rows.size) is not None
    lanes = lanes_of(nest, target)
    squares = lanes >= LEAST_LANES
    if few_rows and squares and in_squares(nest, lane):
        notes.append(f"nest {nest.label}: for at most {FEW} rows of {rows.size}, squares are transposed")
        add(changed(nest, few="squares", lane=lane), _at_most(rows.size, FEW))
    if anything and types.as_atom(lane.size) is not None and squares and not batch and in_squares(nest, rows):
        notes.append(f"nest {nest.label}: for one column of {lane.size}, squares are transposed")
        one = types.minimum(lane.size, 1) * _at_most(lane.size, 1)
        add(changed(_without(nest, lane), few="squares", lane=rows), one)
    few = dict[Few, Dimension]()
    if few_rows and all(right.strides[lane] == 1 for right in rights):
        notes.append(f"nest {nest.label}: at most {FEW} rows of {rows.size} are computed one by one")
        far = 0 if batch or not _in_long_pieces(nest, len(found), target) else _at_most(rows.size, 1)
        near = 1 if batch else _near(nest, rights, target)
        few["rows"] = _at_most(rows.size, FEW) * near + far * (1 - near)
    if anything and types.as_atom(lane.size) is not None:
        notes.append(f"nest {nest.label}: at most {lanes} columns of {lane.size} are one vector")
        few["columns"] = _at_most(lane.size, lanes)
    for name, when in sorted(few.items(), reverse=not batch):  # a batch has no panels that few rows could spare
        add(changed(nest, few=name), when)
    return [*made, Variant(nest, rest)] if made else []


def _without(nest: Nest, one: NestLoop) -> Nest:
    """A nest without a loop that has one turn."""

    def access(old: Access) -> Access:
        return changed(old, strides={loop: step for loop, step in old.strides.items() if loop is not one})

    return nest.rebuilt(access, space=[loop for loop in nest.space if loop is not one])


def in_squares(nest: Nest, lane: NestLoop) -> bool:
    """Whether the sums of a nest can read the operands along which lanes run in square blocks: the terms of each are
    neighbours."""
    reductions = reductions_of(nest)
    return all(
        len(r.loops) == 1
        and r.guard is None
        and isinstance(r.term, Apply)
        and r.term.op is MUL
        and all(_in_square(load, lane, r.loops[0]) for load in factors(r) or ())
        for r in reductions
    )


def _in_square(load: Load, lane: NestLoop, terms: NestLoop) -> bool:
    """Whether an operand has neighbours along the terms, or no lanes."""
    steps, plain = load.access.strides, load.when == 1 and not load.widens and load.dtype.itemsize >= LEAST_BYTES
    return steps.get(lane, 0) == 0 or (plain and steps.get(terms) == 1 and steps[lane] != 1)


def _terms(nest: Nest) -> Dimension:
    """The number of terms of a sum."""
    return types.product(loop.size for loop in reductions_of(nest)[0].loops)


def _at_most(size: Dimension, most: int) -> Dimension:
    """1 if a size is at most a number, else 0."""
    return types.minimum(types.maximum(most + 1 - size, 0), 1)


def _near(nest: Nest, rights: list[Access], target: Target) -> Dimension:
    """1 if right operands fit into the second-level cache, else 0."""
    nbytes = _terms(nest) * nest.space[-1].size * sum(right.buffer.dtype.itemsize for right in rights)
    return 1 - types.minimum(nbytes // (target.level2_bytes + 1), 1)


def _in_long_pieces(nest: Nest, products: int, target: Target) -> bool:
    """Whether a tile of one row reads long pieces of the rows of right operands."""
    vectors = shapes.vectors_of_one_row(products, nest.space[-1].size, lanes_of(nest, target), target)
    return vectors * target.vector_bytes >= LONG_PIECE
