"""Products of few rows. To copy the right operand into panels takes as long as to compute several rows. So if rows are
few, the operand is read where it is, and rows are computed one by one.

Take `x @ w` for an `x` of any number of rows. A call may have one row, as a prediction has, or the thousand rows of a
batch. There are two forms: more forms would be faster for some numbers of rows, and each takes time to compile.
"""

from dataclasses import replace as changed

from scanjit import types
from scanjit.schedule.nests import Nest
from scanjit.schedule.tiles.form import NestForm
from scanjit.schedule.tiles.products import packable, reductions_of

FEW = 3
"""At most this many rows are few."""


def forms(nest: Nest, notes: list[str]) -> list[NestForm]:
    """The forms of a nest for few rows and for many: both, if the number of rows is not known now. The list is empty if
    there is no choice: there are no rows, or a right operand is packed once for many calls."""
    if nest.time is not None or nest.sequential or len(nest.space) != 2:
        return []
    (rows, lane), found = nest.space, [packable(reduction, nest.space[-1]) for reduction in reductions_of(nest)]
    rights = [each.right.access for each in found if each is not None and not each.matrices]
    if not found or len(rights) < len(found) or any(right.buffer.fixed for right in rights):
        return []
    few = NestForm(changed(nest, few_rows=True), types.minimum(types.maximum(FEW + 1 - rows.size, 0), 1))
    if not isinstance(rows.size, int):
        notes.append(f"nest {nest.label}: at most {FEW} rows of {rows.size} are computed one by one")
        return [few, NestForm(nest, 1 - few.when)]
    gathered = any(right.strides[lane] != 1 for right in rights)
    return [few] if gathered and few.when == 1 else []  # a register tile of so many rows packs no rows of vectors
