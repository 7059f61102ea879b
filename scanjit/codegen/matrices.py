"""Sums of products that registers compute which hold matrices (see `simd.matrices`)."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from scanjit.codegen.frame import IN_LOOP, Frame, Point
from scanjit.codegen.space import split_joined
from scanjit.codegen.values import Values
from scanjit.ops.narrow import MUL_PAIRS
from scanjit.schedule.nests import Access, Apply, Load, NestLoop, Value, reductions_in
from scanjit.schedule.tiles.matrices import operands
from scanjit.schedule.tiles.products import far_rows
from scanjit.target import MATRIX_ROW_BYTES


def multiply_matrices(frame: Frame, values: Values, rows: NestLoop, sums: str) -> None:
    """Write the call that puts the sums of a register tile into memory, from the address `sums` on: row by row, and in
    each row vector by vector, those of all reductions side by side."""
    reductions, tile = reductions_in(frame.nest.values), frame.tile
    (terms,) = reductions[0].loops
    first, stop, level = frame.index[rows, 0], frame.bounds(rows)[1], frame.level[rows]
    count, size = f"min({tile.row_block}, {stop} - {first})", frame.size(terms.size)
    if frame.recall(level, multiply_matrices) is None:
        frame.scopes[level].add(f"begin_matrices({count}, {size})")
        frame.memos[level][multiply_matrices] = count
    nbytes, begun = MATRIX_ROW_BYTES, [reduction.init for reduction in reductions if reduction.init is not None]
    if begun:
        with _each_row(frame, rows, count) as row:
            for place, (v, init) in enumerate(itertools.product(range(tile.vectors), begun)):
                text = values.value(init, Point(IN_LOOP, v, tile.lanes))
                frame.scope.add(
                    f"store({sums} + {row}*{nbytes * tile.vectors * len(reductions)} + {nbytes * place}, {text})"
                )
    elif far := far_rows(frame.nest, rows):
        with _each_row(frame, rows, count):
            for access in far:
                frame.fetch(access, IN_LOOP)
    left, rights = operands(frame.nest, reductions[0])[0], [operands(frame.nest, r)[1].access for r in reductions]
    with frame.inside(None, terms, "0"):
        at, _ = frame.vector(left.access, Point())
        columns = [frame.vector(right, Point(0, v, tile.lanes))[0] for v in range(tile.vectors) for right in rights]
    steps = _step(frame, left.access, tile.row_loops[-1]), size, _step(frame, rights[0], terms)
    given = ", ".join([sums, str(int(bool(begun))), at, *steps, *columns])
    frame.scope.add(f"multiply_matrices{len(columns)}_{_kind(reductions[0].term, left)}({given})")


def _kind(product: Value, left: Load) -> str:
    """What the packs of a product hold. Its first factor, whose integers have no sign, may be the right operand."""
    if isinstance(product, Apply) and product.op is MUL_PAIRS:
        return "bf16"
    return "u8i8" if product.operands[0] is left else "i8u8"


def _step(frame: Frame, access: Access, loop: NestLoop) -> str:
    return frame.size(access.strides[loop] * access.buffer.dtype.itemsize)


@contextmanager
def _each_row(frame: Frame, rows: NestLoop, count: str) -> Iterator[str]:
    """A loop over the rows of a tile, inside which their number is `IN_LOOP`. Yields its counter."""
    turn, first = frame.fresh("turn"), frame.index[rows, 0]
    with frame.inside(f"for {turn} in range({count}):", rows, turn, frame.tile.row_block):
        frame.index[rows, IN_LOOP] = frame.line("row", f"{first} + {turn}")
        split_joined(frame, rows, IN_LOOP)
        yield turn
