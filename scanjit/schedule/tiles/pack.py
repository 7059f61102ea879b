"""Right operands of products, copied into panels of full vectors: which of them, and before which loop."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial

from scanjit import types
from scanjit.records import record, replace as changed
from scanjit.schedule.nests import Access, Blocks, Buffer, Nest, Pack, Program, Ref, Statement, Tile
from scanjit.schedule.tiles.products import Product, packable, reductions_of
from scanjit.target import Target
from scanjit.types import Dimension


def with_packs(program: Program) -> Program:
    """The program with its packs, which copy right operands of products into panels. A pack that is the same in all
    turns of a loop stands before the loop. Nests that need the same pack share it."""
    writer = _Writer(program.target)
    return program.with_suite(writer.suite(program.suite, None), writer.notes)


@record(frozen=False)
class _Open:
    """A suite, while packs are put among its statements.

    Parameters
    ----------
    around : the statement that it is the suite of; None for that of the program.
    written : the buffers that `around` writes.
    step : whether it is a step of a loop, or a branch; otherwise it is the suite of the program or of a block.
    statements : the statements written so far.
    """

    around: Statement | None
    written: set[Buffer]
    step: bool
    statements: list[Statement] = field(default_factory=list)

    def can_leave(self, pack: Pack) -> bool:
        """Whether a pack may stand before the statement around, because it is the same in all turns. If that is a block
        which runs at most once, packs that must be made in each call stay inside: the block may not run at all."""
        if self.around is None or any(source.buffer in self.written for source in pack.sources):
            return False
        if isinstance(self.around, Blocks) and types.not_negative(1 - self.around.total) and not pack.target.fixed:
            return False
        return set(types.atoms(*self.around.counters)).isdisjoint(types.atoms(*pack.dims))


class _Writer:
    """Puts packs among statements. `open` has the suites that are being written, the outermost first."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.open: list[_Open] = []
        self.notes: list[str] = []

    def suite(self, statements: Sequence[Statement], around: Statement | None) -> list[Statement]:
        """The statements of a suite with their packs, without those packs that stand further outside."""
        written = set() if around is None else around.written_buffers
        self.open.append(_Open(around, written, around is not None and not isinstance(around, Blocks)))
        for statement in statements:
            made = (
                pack_operands(statement, partial(self.place, statement))
                if isinstance(statement, Nest)
                else statement.with_suites(*(self.suite(suite, statement) for suite in statement.suites))
            )
            self.open[-1].statements.append(made)
        return self.open.pop().statements

    def place(self, nest: Nest, pack: Pack, product: Product) -> Pack | None:
        """Put a pack where it is made once for as many turns as possible. Returns the pack, or an earlier one that
        holds the same; None if it does not pay."""
        level = len(self.open) - 1
        while self.open[level].can_leave(pack):
            level -= 1
        steps = [i for i, suite in enumerate(self.open) if suite.step]
        inner = max(steps, default=0)
        (terms,) = with_room((product.depth.size,), [suite.around for suite in self.open[1:]])
        if level >= inner and not pays(nest, product, not steps, self.target, terms):
            return None
        home = self.open[level].statements
        same = next((other for other in home if isinstance(other, Pack) and _equal(pack, other)), None)
        if same is not None and _written_since(same, home):
            same = None
        if same is None:
            shape = with_room(pack.target.shape, [suite.around for suite in self.open[1 : level + 1]])
            pack = pack if shape == pack.target.shape else changed(pack, target=changed(pack.target, shape=shape))
            home.append(pack)
            where = "before it" if level >= inner else "once, before the loop"
            self.notes.append(f"nest {nest.label}: {len(pack.sources)} right operands are packed {where}")
        return same or pack


def _written_since(pack: Pack, suite: Sequence[Statement]) -> bool:
    """Whether a statement behind a pack writes one of its sources."""
    sources = {source.buffer for source in pack.sources}
    behind = suite[next(i for i, statement in enumerate(suite) if statement is pack) + 1 :]
    return any(writes and buffer in sources for statement in behind for buffer, writes in statement.touched)


def with_room(shape: Sequence[Dimension], around: Sequence[Statement | None]) -> tuple[Dimension, ...]:
    """A shape for the longest block of the blocks around, the outermost first. A size may grow or fall with the place
    where a block begins: the last block of a loop may have no steps."""
    for blocks in reversed(around):
        moves = set(types.atoms(*shape))
        if isinstance(blocks, Blocks) and not moves.isdisjoint(map(types.as_atom, (blocks.count, blocks.first))):
            longest = types.minimum(blocks.size, blocks.total)
            for dim, most in ((blocks.count, longest), (blocks.first, blocks.total)):
                for atom in types.atoms(dim):
                    least, largest = ([types.substitute(size, {atom: end}) for size in shape] for end in (0, most))
                    shape = [*map(types.maximum, least, largest)]
    return tuple(shape)


def pack_operands(nest: Nest, place: Callable[[Pack, Product], Pack | None]) -> Nest:
    """The nest that reads its right operands in panels. Right operands of products with the same left operand lie in
    one panel, with a vector of each in turn. `place` puts a pack into the program (it is given one of the products),
    and returns the pack to read; None for a product that is to read its operand where it is."""
    if nest.tile is None or nest.tile.horizontal or not nest.space or nest.few == "squares":
        return nest
    groups: dict[object, list[Product]] = {}
    written = nest.written_buffers
    for reduction in reductions_of(nest):
        found = packable(reduction, nest.space[-1])
        if found is not None and found.right.access.buffer not in written:
            left, depth = found.left.access, found.depth
            at = left.buffer, left.offset, frozenset(left.strides.items())
            groups.setdefault((depth.loops, depth.against, len(depth.sizes), found.batch, at), []).append(found)
    new: dict[Access, Access] = {}
    for members in groups.values():
        pack, accesses = _pack(nest, nest.tile, members)
        if (placed := place(pack, members[0])) is not None:
            new |= {old: changed(access, buffer=placed.target) for old, access in accesses.items()}
    return nest.rebuilt(lambda access: new.get(access, access)) if new else nest


def _pack(nest: Nest, tile: Tile, members: Sequence[Product]) -> tuple[Pack, Mapping[Access, Access]]:
    lane, size, width, group = nest.space[-1], members[0].depth.size, tile.lanes, len(members)
    batch = members[0].batch
    panels = (lane.size + (width - 1)) // width, size, group, width
    shape = (*(loop.size for loop in batch), *panels)
    fixed = all(product.right.access.buffer.fixed for product in members)
    target = Buffer(members[0].right.dtype, shape, "temporary", "panels", fixed=fixed)
    between = {loop: types.product(shape[i + 1 :]) for i, loop in enumerate(batch)}
    sources = []
    accesses = {}
    for g, (_, right, depth, _) in enumerate(members):
        old, first = right.access, right.access.offset - depth.start(depth.steps[-1])
        sizes = (*(loop.size for loop in batch), *depth.sizes, lane.size)
        steps = (*(old.strides[loop] for loop in batch), *depth.steps, old.strides[lane])
        sources.append(Ref(old.buffer, first, sizes, steps))
        apart = group * width
        strides = {**between, lane: size * group, **depth.strides(apart)}
        accesses[old] = Access(target, g * width + depth.start(apart), strides, panel=lane)
    return Pack(tuple(sources), target, width), accesses


def _equal(a: Pack, b: Pack) -> bool:
    """Whether two packs have equal contents."""
    return (a.width, len(a.sources)) == (b.width, len(b.sources)) and all(
        x.buffer is y.buffer and x.offset == y.offset and x.shape == y.shape and x.strides == y.strides
        for x, y in zip(a.sources, b.sources, strict=True)
    )


ROWS_OF_GATHERED = 16
"""A product with at least this many rows saves time if its right operand is packed in each step, also if the operand is
one of a batch whose vectors would be gathered."""
ROWS_OF_CONTIGUOUS = 64
"""The same for one of a batch whose vectors are contiguous: packing saves less there, and writes all matrices again."""
ROWS_OF_A_CALL = {True: 24, False: 6}
"""The same for an operand whose vectors are contiguous and that is packed in each call, with and without AVX-512."""

ROWS_OF_NEAR = 128
"""The same, with AVX-512, for one of which a register tile reads columns that stay in the second-level cache as they
lie."""
WAY = 2**17
"""So many bytes apart, two places share a set of the second-level cache."""


def pays(nest: Nest, product: Product, once: bool, target: Target, terms: Dimension) -> bool:
    """Whether it pays to pack an operand in every step or call: enough rows read it. For one row, it pays only if the
    operand is packed once for many calls. `once` says that this is done in each call, and not in each step. The product
    has at most so many `terms`.

    An example: matrices of a batch with 32 rows each are packed if they lie transposed, but not if their rows are
    contiguous.
    """
    right = product.right.access
    if right.buffer.fixed or nest.tile is None or nest.tile.rows is None:
        return right.buffer.fixed
    size, gathered = nest.tile.rows.size, right.strides[nest.space[-1]] != 1
    if product.batch:
        return size >= (ROWS_OF_GATHERED if gathered else ROWS_OF_CONTIGUOUS) if isinstance(size, int) else gathered
    least = ROWS_OF_A_CALL[target.has_avx512] if once else ROWS_OF_GATHERED
    if once and target.has_avx512 and _stays_near(nest.tile, product, terms, target):
        least = ROWS_OF_NEAR
    return gathered or (size >= least if isinstance(size, int) else once and nest.few != "rows")


def _stays_near(tile: Tile, product: Product, terms: Dimension, target: Target) -> bool:
    """Whether the columns that a register tile reads of a right operand stay in the second-level cache. Rows that lie a
    power of two apart, or a multiple of one, share few sets of it."""
    (step, *others), most = product.depth.steps, types.upper_bound(terms)
    if others or most is None or not isinstance(step, int):
        return False
    itemsize = product.right.access.buffer.dtype.itemsize
    room = max(math.gcd(step * itemsize, WAY), tile.lanes * tile.vectors * itemsize)
    return most * room < target.level2_bytes
