"""Packing right operands of products into panels, as Python source.

All sizes and steps are arguments: few functions pack everything. One copies rows whose elements are neighbours, another
one a matrix that lies transposed; each operand of a pack is a call.
"""

from __future__ import annotations

from scanjit import types
from scanjit.codegen.names import suffix
from scanjit.codegen.source import Parameters, Source
from scanjit.schedule.nests import NestLoop, Pack, Ref, Tile
from scanjit.types import Dimension

STREAMS = 8
"""Rows that are copied of one panel before the next: neighbouring panels come from neighbouring memory, so that many
rows are read as streams, which processors foresee; of more streams they lose track."""
DEEP = 16
"""Rows that are copied at a time where the source lies transposed: a panel comes from few lines of memory, each read as
a stream while the panel is written from its begin to its end."""


def pack_sources(pack: Pack, lanes: int) -> list[Source]:
    """For each source of a pack, the function that copies `source[k, n]` into `[n block][k][its group][lane]`, padded
    by zeros."""
    return [_PackWriter(pack, group, lanes).source() for group in range(len(pack.sources))]


class _PackWriter:
    """Writes the lines that pack one source."""

    def __init__(self, pack: Pack, group: int, lanes: int) -> None:
        self.ref: Ref = pack.sources[group]
        self.width, self.lanes, self.size = pack.width, lanes, pack.target.dtype.itemsize
        self.name, self.parameters = suffix(pack.target.dtype, lanes), Parameters()
        self.parameters.addresses[pack.target, group * pack.width] = "panels"
        self.parameters.addresses[self.ref.buffer, self.ref.offset] = "source"
        *self.terms, self.columns = self.ref.shape
        self.depth = self._number("depth", types.product(self.terms))
        self.stop = self._number("columns", self.columns)
        self.apart = self._number("apart", len(pack.sources) * self.size)
        """The bytes from an element of a row of panels to the next one, if the row belonged to this source alone."""
        *self.down, across = (
            stride * self.size if axis < len(self.terms) else stride for axis, stride in enumerate(self.ref.strides)
        )
        self.contiguous = across == 1
        self.across = str(self.size) if self.contiguous else self._number("across", across * self.size)

    def _number(self, name: str, dim: Dimension) -> str:
        """An argument, under a name of its own, whatever the other arguments are."""
        return self.parameters.numbers.setdefault((name, dim), name)

    def source(self) -> Source:
        """The function. Threads share the panels."""
        lines = ["    " + line for line in self._lines()]
        tile = Tile(split=NestLoop(self.columns), unit=self.width)
        return self.parameters.source("pack", lines, ["begin", "end", "line"], tile=tile)

    def _lines(self) -> list[str]:
        """The loops over pieces of panels. A whole piece of a source that lies transposed is copied in blocks."""
        transposed = len(self.down) == 1 and self.ref.strides[0] == 1 and not self.contiguous
        transposed = transposed and self.lanes > 1 and DEEP % self.lanes == 0
        deep = DEEP if transposed else STREAMS
        down = [f"for first in range(0, {self.depth}, {deep}):", f"    last = min(first + {deep}, {self.depth})"]
        panels, look = f"for j in range(begin, end, {self.width}):", ["    if interrupted(line):", "        return"]
        full = f"j + {self.width} <= {self.stop}"
        if transposed:
            outer = [panels, *look, *("    " + line for line in down)]
            rows = [f"if last - first == {DEEP} and {full}:", *_inside(self._blocks())]
            rows += ["else:", *_inside(self._rows(masked=True))]
        else:
            outer = [down[0], *look, down[1], "    " + panels]
            rows = self._rows(masked=True)
            if self.contiguous:
                rows = [f"if {full}:", *_inside(self._rows(masked=False)), "else:", *_inside(rows)]
        return outer + _inside(_inside(rows))

    def _rows(self, masked: bool) -> list[str]:
        """Copy the rows of a piece, one after the other."""
        lines = [f"row = panels + (j*{self.depth} + k*{self.width})*{self.apart}"]
        counters = ["k"]
        for axis, size in enumerate(reversed(self.terms[1:])):
            outer, inner, many = f"outer{axis}", f"inner{axis}", self._number(f"many{axis}", size)
            lines += [f"{outer} = {counters[0]}//{many}", f"{inner} = {counters[0]} - {outer}*{many}"]
            counters[:1] = [outer, inner]
        steps = [self._number(f"step{axis}", step) for axis, step in enumerate(self.down)]
        terms = [f"{counter}*{step}" for counter, step in zip(counters, steps, strict=True)]
        lines.append(f"column = {' + '.join(['source', *terms])} + j*{self.across}")
        for v in range(0, self.width, self.lanes):
            place = "column" + (f" + {v}*{self.across}" if v else "")
            mask = f"head_x{self.lanes}({self.stop} - j{f' - {v}' if v else ''})"
            if not self.contiguous:
                value = f"load_strided_{self.name}({place}, {self.across}, {mask})"
            else:
                value = f"load_masked_{self.name}({place}, {mask})" if masked else f"load_{self.name}({place})"
            lines.append(f"store({_past('row', v * self.size)}, {value})")
        return ["for k in range(first, last):", *_inside(lines)]

    def _blocks(self) -> list[str]:
        """Copy a whole piece, block by block."""
        lines = [
            f"row = panels + (j*{self.depth} + first*{self.width})*{self.apart}",
            f"column = source + first*{self.size} + j*{self.across}",
        ]
        step = f"{self.width}*{self.apart}"
        for k in range(0, DEEP, self.lanes):
            for v in range(0, self.width, self.lanes):
                down = _past(f"row + {k}*{step}" if k else "row", v * self.size)
                past = (f" + {v}*{self.across}" if v else "") + (f" + {k * self.size}" if k else "")
                lines.append(f"transpose_{self.name}({down}, {step}, column{past}, {self.across})")
        return lines


def _past(place: str, nbytes: int) -> str:
    return f"{place} + {nbytes}" if nbytes else place


def _inside(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]
