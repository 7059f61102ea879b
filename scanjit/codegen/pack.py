"""Packing right operands of products into panels, as Python source.

All sizes and steps are arguments: few functions pack everything. They differ in how many sources there are, and in
whether the elements of a row are neighbours or the matrices lie transposed.
"""

from collections.abc import Sequence

from scanjit import types
from scanjit.codegen.lines import LOOK, indented
from scanjit.codegen.names import suffix
from scanjit.codegen.source import Parameters, Source
from scanjit.schedule.nests import NestLoop, Pack, Tile
from scanjit.target import Target
from scanjit.types import Dimension

STREAMS = 8
"""Rows (of all sources) that are copied of one panel before the next: neighbouring panels come from neighbouring
memory, so that many rows are read as streams, which processors foresee; of more streams they lose track."""
DEEP = 16
"""Rows that are copied at a time where the sources lie transposed: a panel comes from few lines of memory, each read as
a stream while the panel is written from its begin to its end."""


def pack_source(pack: Pack, target: Target) -> Source:
    """The source that copies `source[k, n]` into `[n block][k][group][lane]`, padded by zeros."""
    lanes = min(target.lanes(pack.target.dtype.itemsize), max(pack.width, 1))
    return _PackWriter(pack, lanes).source()


class _PackWriter:
    """Writes the lines of a pack."""

    def __init__(self, pack: Pack, lanes: int) -> None:
        self.sources = pack.sources
        self.width, self.lanes, self.size = pack.width, lanes, pack.target.dtype.itemsize
        self.name, self.parameters = suffix(pack.target.dtype, lanes), Parameters()
        self.dtype = pack.target.dtype
        places = self.parameters.addresses
        places[pack.target, 0] = "panels"
        self.bases = [places.setdefault((ref.buffer, ref.offset), f"source{g}") for g, ref in enumerate(self.sources)]
        *self.terms, self.columns = self.sources[0].shape
        self.depth = self._number("depth", types.product(self.terms))
        self.stop = self._number("columns", self.columns)
        self.apart = len(self.sources) * self.size
        """The bytes from an element of a row of panels to the next one of the same source."""

    def _number(self, name: str, dim: Dimension) -> str:
        """An argument, under a name of its own, whatever the other arguments are."""
        return self.parameters.numbers.setdefault((name, dim), name)

    def _steps(self, group: int) -> tuple[str, ...]:
        """The bytes from an element of a source to the next one along each axis. Sources that lie alike share them."""
        strides, size = self.sources[group].strides, self._size(group)
        like = next(g for g, ref in enumerate(self.sources) if ref.strides == strides and self._size(g) == size)
        *down, across = (stride * size for stride in strides)
        names = [self._number(f"step{like}_{axis}", step) for axis, step in enumerate(down)]
        return *names, str(size) if strides[-1] == 1 else self._number(f"across{like}", across)

    def _size(self, group: int) -> int:
        """The bytes of an element of a source, which may be a float of 16 bits."""
        return self.sources[group].buffer.dtype.itemsize

    def _loaded(self, group: int, how: str, *arguments: str) -> str:
        """A vector of a source, as elements of the panels."""
        kept = self.sources[group].buffer.dtype
        text = f"{how}_{suffix(kept, self.lanes)}({', '.join(arguments)})"
        return text if kept == self.dtype else f"cast_{self.name}({text})"

    def source(self) -> Source:
        """The function. Threads share the panels."""
        tile = Tile(split=NestLoop(self.columns), unit=self.width)
        return self.parameters.source("pack", indented(self._lines()), ["begin", "end", "line"], tile=tile)

    def _lines(self) -> list[str]:
        """The loops over pieces of panels. A whole piece whose sources all lie transposed is copied in blocks."""
        contiguous = all(ref.strides[-1] == 1 for ref in self.sources)
        transposed = all(len(ref.strides) == 2 and ref.strides[0] == 1 != ref.strides[1] for ref in self.sources)
        transposed = transposed and self.lanes > 1 and DEEP % self.lanes == 0
        transposed = transposed and all(ref.buffer.dtype == self.dtype for ref in self.sources)
        deep = DEEP if transposed else max(STREAMS // len(self.sources), 1)
        down = [f"for first in range(0, {self.depth}, {deep}):", f"    last = min(first + {deep}, {self.depth})"]
        panels, look = f"for j in range(begin, end, {self.width}):", indented(LOOK)
        full = f"j + {self.width} <= {self.stop}"
        if transposed:
            outer = [panels, *look, *indented(down)]
            rows = [f"if last - first == {DEEP} and {full}:", *indented(self._blocks())]
            rows += ["else:", *indented(self._rows(masked=True))]
        else:
            outer = [down[0], *look, down[1], "    " + panels]
            rows = self._rows(masked=True)
            if contiguous:
                rows = [f"if {full}:", *indented(self._rows(masked=False)), "else:", *indented(rows)]
        return outer + indented(rows, 2)

    def _rows(self, masked: bool) -> list[str]:
        """Copy the rows of a piece, one after the other."""
        lines = [f"row = panels + (j*{self.depth} + k*{self.width})*{self.apart}"]
        counters = ["k"]
        for axis, size in enumerate(reversed(self.terms[1:])):
            outer, inner, many = f"outer{axis}", f"inner{axis}", self._number(f"many{axis}", size)
            lines += [f"{outer} = {counters[0]}//{many}", f"{inner} = {counters[0]} - {outer}*{many}"]
            counters[:1] = [outer, inner]
        for group in range(len(self.sources)):
            lines += self._row(group, counters, masked)
        return ["for k in range(first, last):", *indented(lines)]

    def _row(self, group: int, counters: Sequence[str], masked: bool) -> list[str]:
        """Copy one row of a source."""
        *steps, across = self._steps(group)
        terms = [f"{counter}*{step}" for counter, step in zip(counters, steps, strict=True)]
        lines = [f"column = {' + '.join([self.bases[group], *terms])} + j*{across}"]
        for v in range(0, self.width, self.lanes):
            place = "column" + (f" + {v}*{across}" if v else "")
            mask = f"head_x{self.lanes}({self.stop} - j{f' - {v}' if v else ''})"
            if self.sources[group].strides[-1] != 1:
                value = self._loaded(group, "load_strided", place, across, mask)
            elif masked:
                value = self._loaded(group, "load_masked", place, mask)
            else:
                value = self._loaded(group, "load", place)
            lines.append(f"store({_past('row', (group * self.width + v) * self.size)}, {value})")
        return lines

    def _blocks(self) -> list[str]:
        """Copy a whole piece, block by block."""
        lines = [f"row = panels + (j*{self.depth} + first*{self.width})*{self.apart}"]
        step = self.width * self.apart
        for group, base in enumerate(self.bases):
            _, across = self._steps(group)
            lines.append(f"column = {base} + first*{self.size} + j*{across}")
            for k in range(0, DEEP, self.lanes):
                for v in range(0, self.width, self.lanes):
                    down = _past("row", k * step + (group * self.width + v) * self.size)
                    past = (f" + {v}*{across}" if v else "") + (f" + {k * self.size}" if k else "")
                    lines.append(f"transpose_{self.name}({down}, {step}, column{past}, {across})")
        return lines


def _past(place: str, nbytes: int) -> str:
    return f"{place} + {nbytes}" if nbytes else place
