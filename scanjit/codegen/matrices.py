"""Sums of products that registers compute which hold matrices (see `simd.matrices`)."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scanjit.codegen.frame import IN_LOOP, Frame, Point
from scanjit.codegen.places import SCRATCH
from scanjit.codegen.space import split_joined
from scanjit.codegen.values import Values
from scanjit.ops.narrow import MUL_PAIRS
from scanjit.schedule.nests import Access, Apply, Load, NestLoop, Value, reductions_in
from scanjit.schedule.tiles.matrices import operands
from scanjit.schedule.tiles.products import far_rows
from scanjit.target import MATRIX_ROW_BYTES
from scanjit.types import Dimension


def multiply_matrices(frame: Frame, values: Values, rows: NestLoop, sums: str) -> None:
    """Write the lines that put the sums of a register tile into memory, from the address `sums` on: row by row, and in
    each row vector by vector, those of all reductions side by side."""
    reductions, tile, terms, level = reductions_in(frame.nest.values), frame.tile, _terms(frame), frame.level[rows]
    count = frame.remember(level, _many_rows, "many", _many_rows(frame, rows))
    if frame.recall(level, multiply_matrices) is None:
        frame.scopes[level].add(f"begin_matrices({count}, {frame.size(terms.size)})")
        frame.memos[level][multiply_matrices] = count
    begun = [reduction.init for reduction in reductions if reduction.init is not None]
    if begun:
        with _each_row(frame, rows, count) as row:
            for place, (v, init) in enumerate(itertools.product(range(tile.vectors), begun)):
                text = values.value(init, Point(IN_LOOP, v, tile.lanes))
                at = f"{sums} + {row}*{MATRIX_ROW_BYTES * tile.vectors * len(reductions)} + {MATRIX_ROW_BYTES * place}"
                frame.scope.add(f"store({at}, {text})")
    elif far := far_rows(frame.nest, rows):
        with _each_row(frame, rows, count):
            for access in far:
                frame.fetch(access, IN_LOOP)
    frame.scope.add(f"begin_sums{_registers(frame)}({sums}, {int(bool(begun))})")
    frame.scope.add(_products(frame)("0", frame.size(_steps(terms.size))))
    frame.scope.add(f"end_sums{_registers(frame)}({sums})")


class Meanwhile:
    """The sums of the next tile of a group, which registers compute in the turns of the loop over the rows of this one.
    An instruction for registers takes long, and does little that other instructions wait for."""

    def __init__(self, frame: Frame, rows: NestLoop) -> None:
        self.frame, self._lane = frame, frame.nest.space[-1]
        assert frame.group is not None
        width, present = frame.tile.lanes * frame.tile.vectors, frame.index[self._lane, 0]
        steps, many = frame.size(_steps(_terms(frame).size)), frame.recall(frame.level[rows], _many_rows)
        frame.scope.add(f"begin_sums{_registers(frame)}({frame.address(SCRATCH, 0)}, 0)")
        self._next = frame.line("next", f"{present} + {width}")
        self._steps = frame.line("steps", f"{steps}*min(({frame.group[1]} - {present} - 1)//{width}, 1)")
        self._each = frame.remember(frame.level[rows], Meanwhile, "each", f"({steps} + {many} - 1)//{many}")
        self._far = far_rows(frame.nest, rows)
        with frame.inside(None, self._lane, self._next):
            self._products = _products(frame)

    def turn(self, turn: str) -> None:
        """The lines of a turn."""
        first = f"{turn}*{self._each}"
        self.frame.scope.add(self._products(first, f"min({first} + {self._each}, {self._steps})"))
        with self.frame.inside(None, self._lane, self._next):
            for access in self._far:
                self.frame.fetch(access, IN_LOOP)

    def end(self) -> None:
        """Put the sums into memory."""
        self.frame.scope.add(f"end_sums{_registers(self.frame)}({self.frame.address(SCRATCH, 0)})")


def _many_rows(frame: Frame, rows: NestLoop) -> str:
    """How many rows a tile has."""
    return f"min({frame.tile.row_block}, {frame.bounds(rows)[1]} - {frame.index[rows, 0]})"


def _registers(frame: Frame) -> int:
    """How many registers hold sums."""
    return frame.tile.vectors * len(reductions_in(frame.nest.values))


def _steps(terms: Dimension) -> Dimension:
    """How many matrices hold so many terms."""
    return -(-terms // (MATRIX_ROW_BYTES // 4))


def _terms(frame: Frame) -> NestLoop:
    """The loop over the terms of all sums."""
    (terms,) = reductions_in(frame.nest.values)[0].loops
    return terms


def _products(frame: Frame) -> Callable[[str, str], str]:
    """The line that adds the products of some matrices to the sums: of those from a first one to a last one, which is
    left out."""
    reductions, tile, terms = reductions_in(frame.nest.values), frame.tile, _terms(frame)
    left, rights = operands(frame.nest, reductions[0])[0], [operands(frame.nest, r)[1].access for r in reductions]
    with frame.inside(None, terms, "0"):
        at, _ = frame.vector(left.access, Point())
        columns = [frame.vector(right, Point(0, v, tile.lanes))[0] for v in range(tile.vectors) for right in rights]
    steps = _step(frame, left.access, tile.row_loops[-1]), frame.size(terms.size), _step(frame, rights[0], terms)
    name, given = f"add_products{len(columns)}_{_kind(reductions[0].term, left)}", ", ".join([at, *steps, *columns])
    return lambda first, stop: f"{name}({first}, {stop}, {given})"


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
