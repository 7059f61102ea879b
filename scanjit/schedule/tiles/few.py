"""Products of few rows. To copy the right operand into panels takes as long as to compute several rows. So if rows are
few, the operand is read where it is, and a register tile has one row.

Take `x @ w` for an `x` of any number of rows. A call may have one row, as a prediction has, or the thousand rows of a
batch. There are two variants: more of them would be faster for some numbers of rows, and each takes time to compile.
Both add the terms of a sum in the same order.
"""

from dataclasses import replace as changed

from scanjit import types
from scanjit.schedule.nests import Nest
from scanjit.schedule.tiles.products import packable, reductions_of
from scanjit.schedule.tiles.variant import Variant
from scanjit.target import Target

FEW = 3
"""At most this many rows are few."""


def variants(nest: Nest, target: Target, notes: list[str]) -> list[Variant]:
    """The nest for few rows and for many, if that is not known now. The list is empty if there is nothing to decide in
    a call: there are no rows, a right operand is packed once for many calls, or its rows are no vectors. The rows of
    all steps of a batch count as many. What does not fit into the second-level cache is packed always: a tile reads a
    piece of each row, which no processor foresees."""
    if nest.time is not None or nest.sequential or len(nest.space) != 2 or types.as_atom(nest.space[0].size) is None:
        return []
    (rows, lane), found = nest.space, [packable(reduction, nest.space[-1]) for reduction in reductions_of(nest)]
    rights = [each.right.access for each in found if each is not None and not each.matrices]
    if not found or len(rights) < len(found):
        return []
    if any(right.buffer.fixed or right.strides[lane] != 1 for right in rights):
        return []
    terms = types.product(loop.size for loop in reductions_of(nest)[0].loops)
    nbytes = terms * lane.size * sum(right.buffer.dtype.itemsize for right in rights)
    far = types.minimum(nbytes // (target.level2_bytes + 1), 1)
    few = types.minimum(types.maximum(FEW + 1 - rows.size, 0), 1) * (1 - far)
    notes.append(f"nest {nest.label}: at most {FEW} rows of {rows.size} are computed one by one")
    return [Variant(changed(nest, few_rows=True), few), Variant(nest, 1 - few)]
