"""Products of few rows, or of few columns.

To copy the right operand into panels takes as long as to compute several rows. So if rows are few, the operand is read
where it is, and a register tile has one row. If columns are few, a tile has one vector of them: the others would be
empty.

Take `x @ w` for an `x` of any number of rows. A call may have one row, as a prediction has, or the thousand rows of a
batch. There are three variants: more would be faster for some sizes, and each takes time to compile. All of them add
the terms of a sum in the same order.
"""

from dataclasses import replace as changed

from scanjit import types
from scanjit.schedule.nests import Access, Few, Nest
from scanjit.schedule.tiles.estimates import lanes_of
from scanjit.schedule.tiles.products import packable, reductions_of
from scanjit.schedule.tiles.variant import Variant
from scanjit.target import Target
from scanjit.types import Dimension

FEW = 3
"""At most this many rows are few."""


def variants(nest: Nest, target: Target, notes: list[str]) -> list[Variant]:
    """The nest for few rows, for few columns, and for many of both, as far as these numbers are not known now. The list
    is empty if there is nothing to decide in a call, or if a right operand is packed once for many calls. Where one of
    the numbers of rows, columns and terms is known, the others are seldom few, as numbers of samples or of steps: only
    a single product then has a variant, for few rows."""
    if nest.time is not None or nest.sequential or not 2 <= len(nest.space) <= 3:
        return []
    (*batch, rows, lane), found = nest.space, [packable(r, nest.space[-1]) for r in reductions_of(nest)]
    rights = [each.right.access for each in found if each is not None and list(each.matrices) == batch]
    if not found or len(rights) < len(found) or any(right.buffer.fixed for right in rights):
        return []
    few = dict[Few, Dimension]()
    anything = not any(isinstance(size, int) for size in (rows.size, lane.size, _terms(nest)))
    if (anything or not batch) and types.as_atom(rows.size) and all(right.strides[lane] == 1 for right in rights):
        notes.append(f"nest {nest.label}: at most {FEW} rows of {rows.size} are computed one by one")
        few["rows"] = _at_most(rows.size, FEW) * (1 if batch else _near(nest, rights, target))
    if anything and types.as_atom(lane.size) is not None:
        lanes = lanes_of(nest, target)
        notes.append(f"nest {nest.label}: at most {lanes} columns of {lane.size} are one vector")
        few["columns"] = _at_most(lane.size, lanes)
    made: list[Variant] = []
    rest: Dimension = 1
    for name, when in sorted(few.items(), reverse=not batch):  # a batch has no panels that few rows could spare
        made, rest = [*made, Variant(changed(nest, few=name), rest * when)], rest * (1 - when)
    return [*made, Variant(nest, rest)] if made else []


def _terms(nest: Nest) -> Dimension:
    """The number of terms of a sum."""
    return types.product(loop.size for loop in reductions_of(nest)[0].loops)


def _at_most(size: Dimension, most: int) -> Dimension:
    """1 if a size is at most a number, else 0."""
    return types.minimum(types.maximum(most + 1 - size, 0), 1)


def _near(nest: Nest, rights: list[Access], target: Target) -> Dimension:
    """1 if right operands fit into the second-level cache. Others are packed always: a tile reads a piece of each row,
    which no processor foresees."""
    nbytes = _terms(nest) * nest.space[-1].size * sum(right.buffer.dtype.itemsize for right in rights)
    return 1 - types.minimum(nbytes // (target.level2_bytes + 1), 1)
