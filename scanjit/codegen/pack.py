"""Packing a right operand of products into panels, as Python source."""

from __future__ import annotations

from scanjit import types
from scanjit.codegen.names import suffix
from scanjit.codegen.source import Parameters, Source
from scanjit.schedule.nests import NestLoop, Pack, Tile
from scanjit.types import Dimension

STREAMS = 8
"""Rows (of all sources) that are copied of one panel before the next: neighbouring panels come from neighbouring
memory, so that many rows are read as streams, which processors foresee; of more streams they lose track."""
DEEP = 16
"""Rows that are copied at a time where the sources lie transposed: a panel comes from few lines of memory, each read as
a stream while the panel is written from its begin to its end."""


def pack_source(pack: Pack, lanes: int) -> Source:
    """The source that copies `source[k, n]` into `[n block][k][group][lane]`, padded by zeros."""
    writer = _PackWriter(pack, lanes)
    lines = ["    " + line for line in writer.lines()]
    tile = Tile(split=NestLoop(pack.sources[0].shape[-1]), unit=pack.width)
    return writer.parameters.source("pack", lines, ["begin", "end", "line"], tile=tile)


class _PackWriter:
    """Writes the lines of a pack."""

    def __init__(self, pack: Pack, lanes: int) -> None:
        self.pack, self.lanes, self.size = pack, lanes, pack.target.dtype.itemsize
        self.name, self.width = suffix(pack.target.dtype, lanes), pack.width * len(pack.sources)
        self.parameters = Parameters({(pack.target, 0): "panels"})
        self.number, places = self.parameters.number, self.parameters.addresses
        self.bases = [places.setdefault((s.buffer, s.offset), f"source{g}") for g, s in enumerate(pack.sources)]

    @property
    def sizes(self) -> tuple[Dimension, Dimension]:
        """How many terms and columns there are."""
        *terms, columns = self.pack.sources[0].shape
        return types.product(terms), columns

    def lines(self) -> list[str]:
        """The loops over pieces of panels. A piece whose sources all lie transposed is copied in square blocks."""
        depth, columns = self.sizes
        transposed = all(len(s.strides) == 2 and s.strides[0] == 1 != s.strides[1] for s in self.pack.sources)
        transposed = transposed and self.lanes > 1 and DEEP % self.lanes == 0
        deep = DEEP if transposed else max(STREAMS // len(self.pack.sources), 1)
        down = f"for first in range(0, {self.number(depth)}, {deep}):"
        last = f"last = min(first + {deep}, {self.number(depth)})"
        panels = f"for j in range(begin, end, {self.pack.width}):"
        rows = ["for k in range(first, last):", *("    " + line for line in self._row())]
        if transposed:
            whole = f"if last - first == {DEEP} and j + {self.pack.width} <= {self.number(columns)}:"
            rows = [whole, *("    " + line for line in self._blocks()), "else:", *("    " + line for line in rows)]
        look = ["    if interrupted(line):", "        return"]
        if transposed:
            outer = [panels, *look, "    " + down, "        " + last]
        else:
            outer = [down, *look, "    " + last, "    " + panels]
        return outer + ["        " + line for line in rows]

    def _row(self) -> list[str]:
        """Copy one row of a panel."""
        depth, columns = self.sizes
        whole = isinstance(columns, int) and columns % self.pack.width == 0
        lines = [
            f"row = panels + (j*{self.number(depth)} + k*{self.pack.width})*{self.width // self.pack.width * self.size}"
        ]
        counters = ["k"]
        for axis, size in enumerate(reversed(self.pack.sources[0].shape[1:-1])):
            outer, inner = f"outer{axis}", f"inner{axis}"
            lines += [f"{outer} = {counters[0]}//{self.number(size)}"]
            lines += [f"{inner} = {counters[0]} - {outer}*{self.number(size)}"]
            counters[:1] = [outer, inner]
        for g, source in enumerate(self.pack.sources):
            *down, across = (self.number(stride * self.size) for stride in source.strides)
            terms = [f"{k}*{step}" for k, step in zip(counters, down, strict=True)]
            lines.append(f"column = {' + '.join([self.bases[g], *terms])} + j*{across}")
            for v in range(0, self.pack.width, self.lanes):
                place = "column" + (f" + {self.number(v * source.strides[-1] * self.size)}" if v else "")
                mask = f"head_x{self.lanes}({self.number(columns)} - j{f' - {v}' if v else ''})"
                if source.strides[-1] != 1:
                    value = f"load_strided_{self.name}({place}, {across}, {mask})"
                else:
                    value = f"load_{self.name}({place})" if whole else f"load_masked_{self.name}({place}, {mask})"
                lines.append(f"store(row + {(g * self.pack.width + v) * self.size}, {value})")
        return lines

    def _blocks(self) -> list[str]:
        """Copy a whole piece of a panel, block by block."""
        depth, _ = self.sizes
        row = self.width * self.size
        lines = [f"row = panels + (j*{self.number(depth)} + first*{self.pack.width})*{row // self.pack.width}"]
        for g, source in enumerate(self.pack.sources):
            across = self.number(source.strides[1] * self.size)
            lines.append(f"column = {self.bases[g]} + first*{self.size} + j*{across}")
            for k in range(0, DEEP, self.lanes):
                for v in range(0, self.pack.width, self.lanes):
                    down = k * row + (g * self.pack.width + v) * self.size
                    past = f" + {self.number(v * source.strides[1] * self.size)}" if v else ""
                    past += f" + {k * self.size}" if k else ""
                    lines.append(f"transpose_{self.name}(row + {down}, {row}, column{past}, {across})")
        return lines
