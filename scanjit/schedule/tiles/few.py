"""Products of few rows, or of one column.

To copy the right operand into panels takes as long as to compute several rows. So if rows are few, the operand is read
where it is, and rows are computed one by one. And a vector of one column is almost empty: a product of one column has
lanes along its sums, as the product of a matrix with a vector has.

Take `x @ w` for an `x` of any number of rows. A call may have one row, as a prediction has, or the thousand rows of a
batch. There are two forms: more forms would be faster for some numbers of rows, and each takes time to compile.
"""

from dataclasses import replace as changed

from scanjit import types
from scanjit.schedule.nests import Access, Nest, NestLoop, Position
from scanjit.schedule.tiles.form import NestForm
from scanjit.schedule.tiles.merge import merge_loops
from scanjit.schedule.tiles.products import packable, reductions_of
from scanjit.types import Atom, Dimension

FEW = 3
"""At most this many rows are few."""


def forms(nest: Nest, notes: list[str]) -> list[NestForm]:
    """The forms of a nest for one column, for few rows, and for all else, as far as the sizes are not known now. The
    list is empty if there is no choice: there are no rows, or a right operand is packed once for many calls."""
    if nest.time is not None or nest.sequential or len(nest.space) != 2:
        return []
    (rows, lane), found = nest.space, [packable(reduction, nest.space[-1]) for reduction in reductions_of(nest)]
    rights = [each.right.access for each in found if each is not None and not each.matrices]
    if not found or len(rights) < len(found) or any(right.buffer.fixed for right in rights):
        return []
    made, rest = list[NestForm](), _yes(FEW - rows.size)
    few = changed(nest, few_rows=True)
    if isinstance(rows.size, int):  # a register tile of so many rows packs no rows of vectors
        few = few if any(right.strides[lane] != 1 for right in rights) else nest
    else:
        notes.append(f"nest {nest.label}: at most {FEW} rows of {rows.size} are computed one by one")
    column = types.as_atom(lane.size)
    one: Dimension = 0
    if column is not None and not column.args and not any(isinstance(value, Position) for value in nest.values):
        notes.append(f"nest {nest.label}: lanes along the sums if {lane.size} is 1")
        one = _yes(1 - lane.size) * types.minimum(lane.size, 1)
        made.append(NestForm(_with_one(nest, column), one))
    made += [NestForm(few, rest * (1 - one)), NestForm(nest, (1 - rest) * (1 - one))]
    return [form for form in made if form.when != 0]


def _yes(number: Dimension) -> Dimension:
    """1 if a number is not negative, else 0."""
    return types.minimum(types.maximum(number + 1, 0), 1)


def _with_one(nest: Nest, size: Atom) -> Nest:
    """The nest for calls in which a size is 1."""
    loops: dict[NestLoop, NestLoop] = {}

    def known(dim: Dimension) -> Dimension:
        return types.substitute(dim, {size: 1})

    def loop(old: NestLoop) -> NestLoop:
        return loops.setdefault(old, NestLoop(known(old.size)))

    def access(old: Access) -> Access:
        return Access(old.buffer, known(old.offset), {loop(each): known(step) for each, step in old.strides.items()})

    return merge_loops(nest.rebuilt(access, loop, map(loop, nest.space)))
