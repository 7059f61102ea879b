"""Rows as vectors that have one element of each row, and back, as Python source: square blocks are transposed."""

from scanjit.codegen.lines import indented
from scanjit.ops.passes import Number

SIDES = 16, 8, 4
"""The sides that blocks may have."""


def turned(
    kind: str, size: int, lanes: int, count: Number, rows: str, vectors: str, apart: Number, into: bool, step: str = ""
) -> list[str]:
    """Lines that copy `lanes` rows of `count` elements into vectors that lie `apart`, or back. The last block may begin
    before the end of the one before it. Rows that are shorter than any block are copied element by element.

    Parameters
    ----------
    kind, size : the name of the elements, such as "f64", and their bytes.
    count : how many elements a row has, as a number or as text.
    step : the bytes from one row to the next. If it is not given, rows lie behind each other.
    rows, vectors : the addresses of the first row and of the first vector.
    into : whether rows are copied into vectors; otherwise vectors into rows.
    """
    row, name, mask = step or f"({count})*{size}", f"{kind}x{lanes}", f"head_x{lanes}({lanes})"
    there, here = f"{vectors} + i*{apart}", f"{rows} + i*{size}"
    copied = f"store({there}, load_strided_{name}({here}, {row}, {mask}))"
    if not into:
        copied = f"store_strided({here}, {row}, load_{name}({there}), {mask})"
    single = [f"for i in range({count}):", f"    {copied}"]

    def blocks(side: int) -> list[str]:
        at_row, at_vector = f"{rows} + g*{row} + i*{size}", f"{vectors} + i*{apart} + g*{size}"
        ends = (at_vector, str(apart), at_row, row) if into else (at_row, row, at_vector, str(apart))
        copied = [f"for g in range(0, {lanes}, {side}):", f"    transpose_{kind}x{side}({', '.join(ends)})"]
        if isinstance(count, int) and count % side == 0:
            return [f"for i in range(0, {count}, {side}):", *indented(copied)]
        return [f"for k in range(0, {count}, {side}):", f"    i = min(k, {count} - {side})", *indented(copied)]

    sides = [side for side in SIDES if side <= lanes]
    if isinstance(count, int):
        return next((blocks(side) for side in sides if side <= count), single)
    lines = [line for side in sides for line in (f"elif {count} >= {side}:", *indented(blocks(side)))]
    return [lines[0].removeprefix("el"), *lines[1:], "else:", *indented(single)] if lines else single
