"""Packing a right operand of products into panels, as Numba source."""

from __future__ import annotations

from dataclasses import replace

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
    body = [f"for j in range(begin, end, {pack.width}):", f"    for k in range({depth}):"]
    body.append(f"        row = panels + (j*{depth} + k*{pack.width})*{groups * size}")
    for g, source in enumerate(pack.sources):
        base = addresses.setdefault((source.buffer, source.offset), f"source{g}")
        down, across = (number(stride * size) for stride in source.strides)
        body.append(f"        column = {base} + k*{down} + j*{across}")
        for v in range(pack.width // lanes):
            past = f" + {number(v * lanes * source.strides[1] * size)}" if v else ""
            mask = f"head_x{lanes}({columns} - j{f' - {v * lanes}' if v else ''})"
            if source.strides[1] == 1:
                value = f"load_masked_{name}(column{past}, {mask})"
            else:
                value = f"load_strided_{name}(column{past}, {across}, {mask})"
            body.append(f"        store(row + {(g * pack.width + v * lanes) * size}, {value})")
    names = [*addresses.values(), *numbers.values(), "begin", "end"]
    packed = finished("pack", ["    " + line for line in body], names, tuple(addresses), tuple(numbers))
    return replace(packed, split=(pack.sources[0].shape[1], pack.width))
