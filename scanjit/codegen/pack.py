"""Packing a right operand of products into panels, as Numba source."""

from __future__ import annotations

from scanjit.codegen.names import suffix
from scanjit.codegen.nest import Source, finished
from scanjit.schedule.program import Buffer, Pack
from scanjit.types import Dimension


def pack_source(pack: Pack, lanes: int) -> Source:
    """The source that copies `source[k, n]` into `[n block][k][group][lane]`, padded by zeros."""
    dtype, size = pack.target.dtype, pack.target.dtype.itemsize
    name, groups = suffix(dtype, lanes), len(pack.sources)
    addresses: dict[tuple[Buffer, Dimension], str] = {(pack.target, 0): "panels"}
    numbers: dict[Dimension, str] = {}

    def number(dim: Dimension) -> str:
        return str(dim) if isinstance(dim, int) else numbers.setdefault(dim, f"n{len(numbers)}")

    depth, columns = (number(d) for d in pack.sources[0].shape)
    body = [f"for j in range(0, {columns}, {pack.width}):", f"    for k in range({depth}):"]
    body.append(f"        row = panels + (j*{depth} + k*{pack.width})*{groups * size}")
    for g, source in enumerate(pack.sources):
        base = addresses.setdefault((source.buffer, source.offset), f"source{g}")
        down, across = source.strides
        for v in range(pack.width // lanes):
            column = f"j + {v * lanes}" if v else "j"
            mask = f"head_x{lanes}({columns} - {column.replace('+', '-')})"
            address = f"{base} + k*{number(down * size)} + ({column})*{number(across * size)}"
            if across == 1:
                value = f"load_masked_{name}({address}, {mask})"
            else:
                value = f"load_strided_{name}({address}, {number(across * size)}, {mask})"
            body.append(f"        store(row + {(g * pack.width + v * lanes) * size}, {value})")
    return finished("pack", ["    " + line for line in body], addresses, numbers)
