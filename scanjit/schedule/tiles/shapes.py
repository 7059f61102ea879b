"""The shapes of register tiles."""

import math
from collections.abc import Iterable, Mapping

from scanjit import types
from scanjit.schedule.nests import NestLoop
from scanjit.target import Shape, Target
from scanjit.types import Dimension

USUAL = (4, 8, 16, 32, 64)
"""Numbers of rows that stand for all, if the number is not known."""
USUAL_COLUMNS = (8, 16, 32, 64, 128)
"""Numbers of columns that stand for all, if the number is not known."""
EVEN = 0.1
"""What a row counts for that one of two threads computes and the other one waits for. (They may share columns.)"""
IN_FLIGHT = 6
"""About this many multiply-adds that do not wait for each other keep a core busy."""


def shape(
    products: int,
    rows: NestLoop | None,
    target: Target,
    columns: NestLoop | None = None,
    lanes: int = 1,
    lefts: int = 1,
    apart: bool = False,
) -> Shape:
    """The rows and vectors of the fastest register tile for `products` products over some rows.

    If all of them have one right operand, and each has a left operand of its own, there are several `lefts`. Their rows
    share the vectors of the right operand, as the rows of one product do: a tile of 2 rows for two products takes as
    long as one of 4 rows for one product.

    If numbers of right operands are taken `apart`, as those of pairs are, each vector needs two registers beside the
    sums.

    A tile of 4 rows is slower than one of 5 if there are 5 rows, as its second tile is almost empty; and if there are
    20, or 20 in each of some steps, as two threads cannot share 5 tiles evenly. If the number of columns is not known,
    a tile of 8 rows and 2 vectors is faster than one of 4 and 4, as rows may be short.
    """
    if rows is None:
        return 1, max(1, 4 // products)
    speeds = _speeds(products, lefts, target, apart)
    widths = (max(columns.size, 1),) if columns is not None and isinstance(columns.size, int) else USUAL_COLUMNS

    def fastest(sizes: tuple[int, ...]) -> Shape:
        """The tile with the least mean cost of a multiply-add, for these numbers of rows."""

        def mean_cost(shape: Shape) -> float:
            block, vectors = shape
            alone = speeds.get((block, 1), speeds[shape] * min(1.0, block * products / IN_FLIGHT))
            across = 1 / speeds[shape]
            if columns is not None:
                some_left = left_apart(columns.size, lanes, vectors, target)
                across = _mean(_across(n, lanes, vectors, across, 1 / alone if some_left else None) for n in widths)
            return across * _mean((_taken(n, block) + EVEN * _waited(n, block)) / n for n in sizes)

        block, vectors = min(speeds, key=mean_cost)
        return min(block, max(sizes)), vectors

    if isinstance(rows.size, int):
        return fastest((max(rows.size, 1),))
    found = fastest(USUAL)
    of_step = math.gcd(*(factor for _, factor in types.terms(rows.size)))
    return fastest((of_step,)) if _waited(of_step, found[0]) else found


def vectors_of_one_row(products: int, columns: Dimension, lanes: int, target: Target) -> int:
    """How many vectors the tile of one row has, for each of so many products whose right operands are read where they
    are: as many as half of the registers hold, as long pieces of rows come faster than short ones. One, if there may be
    fewer columns."""
    vectors = max(1, target.registers // 2 // products)
    return vectors if isinstance(columns, int) and columns >= vectors * lanes else 1


def _speeds(products: int, lefts: int, target: Target, apart: bool) -> Mapping[Shape, float]:
    """The speeds of the tiles of products, by the rows and vectors of each. If right operands are taken apart, those
    whose sums, parts of vectors and two left elements fit the registers."""
    found = target.tiles.get(products, {})
    if lefts == products:
        one = target.tiles.get(1, {})
        found = {(rows // lefts, vectors): s for (rows, vectors), s in one.items() if rows % lefts == 0} or found
    if apart:
        fits = lambda rows, vectors: (products * rows + 2) * vectors + 2 <= target.registers
        found = {shape: speed for shape, speed in found.items() if fits(*shape)}
    return found or {(1, 1): 1.0}


def sums_side_by_side(sums: int, target: Target) -> int:
    """How many vectors of columns are summed at a time, with `sums` sums of each column. Rows of a wide array lie in
    different pages of memory, where it takes as long to find one vector of a row as four."""
    most = max(target.most_sums // sums, 1)
    return min(4, 1 << most.bit_length() - 1)


def left_apart(size: Dimension, lanes: int, vectors: int, target: Target) -> bool:
    """Whether the vectors that are left after whole tiles of `vectors` vectors are computed apart from these: if
    threads can then share them more evenly, or if whole tiles are faster without masks."""
    return (vectors > 1 and _uneven(size, lanes, vectors)) or masks_cost(size, lanes, vectors, target)


def left_at_a_time(sums: int, vectors: int, target: Target) -> int:
    """How many vectors that are left after whole tiles of `vectors` vectors are computed at a time, if each has so many
    sums: two, if the sums of one are too few to keep a core busy."""
    return 2 if vectors > 2 and sums < IN_FLIGHT and not target.has_avx512 else 1


def masks_cost(size: Dimension, lanes: int, vectors: int, target: Target) -> bool:
    """Whether whole tiles are faster without the masks of others. Where masks are no registers of their own, they take
    registers that sums need; and some processors take long to load or store some lanes of a vector."""
    if lanes == 1 or (isinstance(size, int) and size < lanes) or types.remainder(size, lanes * vectors) == 0:
        return False
    return not (target.has_avx512 if vectors > 1 else target.has_masks)


def _uneven(size: Dimension, lanes: int, vectors: int) -> bool:
    """Whether tiles of `vectors` vectors are partly empty, or cannot be shared evenly by two threads: each thread would
    compute 5 % more vectors than with tiles of one vector."""
    if not isinstance(size, int):
        return False
    tiles, singles = -(-size // (lanes * vectors)), -(-size // lanes)
    return -(-tiles // 2) * vectors > 1.05 * -(-singles // 2)


def _across(size: int, lanes: int, vectors: int, whole: float, alone: float | None) -> float:
    """The cost of a full vector of a row of `size` columns, if a vector takes `whole` in a tile. Vectors that are left
    after whole tiles take `alone` each; if that is None, they take a whole tile."""
    count = -(-size // lanes)
    if alone is None:
        taken = -(-count // vectors) * vectors * whole
    else:
        taken = count // vectors * vectors * whole + count % vectors * alone
    return taken * lanes / size


def _taken(size: int, block: int) -> int:
    """How many rows the tiles of `size` rows have: 8 for 5 rows, in two tiles of 4."""
    return -(-size // block) * block


def _waited(size: int, block: int) -> int:
    """How many rows one of two threads waits for, if they share the tiles. It is 0 if these are at most a tenth of all
    rows. For example, 20 rows are five tiles of 4 rows. One thread computes three tiles, the other one computes two and
    waits for 4 rows. A single tile is not shared."""
    more = _taken(size, 2 * block) - _taken(size, block)
    return more if size > block and 10 * more > size else 0


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
