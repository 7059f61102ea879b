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
    """The source that copies `source[k, n]` into `[n block][k][group][lane]`, padded by zeros. In a batch, panels of
    matrices follow each other, and threads share the panels of all."""
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
        self.batch = pack.batch
        *self.terms, self.columns = self.sources[0].shape[len(self.batch) :]
        self.whole = (self.columns + (self.width - 1)) // self.width * self.width
        self.depth = self._number("depth", types.product(self.terms))
        self.stop = self._number("columns", self.columns)
        self.apart = len(self.sources) * self.size
        """The bytes from an element of a row of panels to the next one of the same source."""
        self.at = "at" if self.batch else "j"
        """The first column of a panel in its matrix."""

    def _number(self, name: str, dim: Dimension) -> str:
        """An argument, under a name of its own, whatever the other arguments are."""
        return self.parameters.numbers.setdefault((name, dim), name)

    def _steps(self, group: int) -> tuple[str, ...]:
        """The bytes from an element of a source to the next one along each axis. Sources that lie alike share them."""
        strides, size = self.sources[group].strides, self._size(group)
        like = next(g for g, ref in enumerate(self.sources) if ref.strides == strides and self._size(g) == size)
        *down, across = (stride * size for stride in strides[len(self.batch) :])
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
        columns = types.product(self.batch) * self.whole if self.batch else self.columns
        tile = Tile(split=NestLoop(columns), unit=self.width)
        return self.parameters.source("pack", indented(self._lines()), ["begin", "end", "line"], tile=tile)

    def _lines(self) -> list[str]:
        """The loops over pieces of panels. A whole piece whose sources all lie transposed is copied in blocks."""
        contiguous = all(ref.strides[-1] == 1 for ref in self.sources)
        transposed = all(len(self.terms) == 1 and ref.strides[-2] == 1 != ref.strides[-1] for ref in self.sources)
        transposed = transposed and self.lanes > 1 and DEEP % self.lanes == 0
        transposed = transposed and all(ref.buffer.dtype == self.dtype for ref in self.sources)
        deep = DEEP if transposed else max(STREAMS // len(self.sources), 1)
        down = [f"for first in range(0, {self.depth}, {deep}):", f"    last = min(first + {deep}, {self.depth})"]
        panels, look = [f"for j in range(begin, end, {self.width}):", *indented(self._matrix())], indented(LOOK)
        full = f"{self.at} + {self.width} <= {self.stop}"
        if transposed:
            outer = [*panels, *look, *indented(down)]
            rows = [f"if last - first == {DEEP} and {full}:", *indented(self._blocks())]
            rows += ["else:", *indented(self._rows(masked=True))]
        else:
            outer = [down[0], *look, down[1], *indented(panels)]
            rows = self._rows(masked=True)
            if contiguous:
                rows = [f"if {full}:", *indented(self._rows(masked=False)), "else:", *indented(rows)]
        return outer + indented(rows, 2)

    def _matrix(self) -> list[str]:
        """Lines that find out, in a batch, which matrix a panel belongs to, and where this begins in each source."""
        if not self.batch:
            return []
        whole = self._number("whole", self.whole)
        lines = [f"matrix = j//{whole}", f"at = j - matrix*{whole}"]
        counters, split = self._split("matrix", self.batch, "matrix_")
        lines += split
        for group, base in enumerate(self.bases):
            steps = [step * self._size(group) for step in self.sources[group].strides[: len(self.batch)]]
            names = [self._number(f"between{group}_{axis}", step) for axis, step in enumerate(steps)]
            moved = [f"{counter}*{name}" for counter, name in zip(counters, names, strict=True)]
            lines.append(f"{self._base(group)} = {' + '.join([base, *moved])}")
        return lines

    def _base(self, group: int) -> str:
        """Where the matrix that is copied lies in a source."""
        return f"inside{group}" if self.batch else self.bases[group]

    def _split(self, counter: str, sizes: Sequence[Dimension], prefix: str) -> tuple[list[str], list[str]]:
        """The counters of axes with these sizes, and the lines that compute them from one counter of all elements."""
        counters, lines = [counter], list[str]()
        for axis, size in enumerate(reversed(sizes[1:])):
            outer, inner, many = (f"{prefix}{name}{axis}" for name in ("outer", "inner", "many"))
            many = self._number(many, size)
            lines += [f"{outer} = {counters[0]}//{many}", f"{inner} = {counters[0]} - {outer}*{many}"]
            counters[:1] = [outer, inner]
        return counters, lines

    def _rows(self, masked: bool) -> list[str]:
        """Copy the rows of a piece, one after the other."""
        counters, lines = self._split("k", self.terms, "")
        lines.insert(0, f"row = panels + (j*{self.depth} + k*{self.width})*{self.apart}")
        for group in range(len(self.sources)):
            lines += self._row(group, counters, masked)
        return ["for k in range(first, last):", *indented(lines)]

    def _row(self, group: int, counters: Sequence[str], masked: bool) -> list[str]:
        """Copy one row of a source."""
        *steps, across = self._steps(group)
        terms = [f"{counter}*{step}" for counter, step in zip(counters, steps, strict=True)]
        lines = [f"column = {' + '.join([self._base(group), *terms])} + {self.at}*{across}"]
        for v in range(0, self.width, self.lanes):
            place = "column" + (f" + {v}*{across}" if v else "")
            mask = f"head_x{self.lanes}({self.stop} - {self.at}{f' - {v}' if v else ''})"
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
        for group in range(len(self.sources)):
            _, across = self._steps(group)
            lines.append(f"column = {self._base(group)} + first*{self.size} + {self.at}*{across}")
            for k in range(0, DEEP, self.lanes):
                for v in range(0, self.width, self.lanes):
                    down = _past("row", k * step + (group * self.width + v) * self.size)
                    past = (f" + {v}*{across}" if v else "") + (f" + {k * self.size}" if k else "")
                    lines.append(f"transpose_{self.name}({down}, {step}, column{past}, {across})")
        return lines


def _past(place: str, nbytes: int) -> str:
    return f"{place} + {nbytes}" if nbytes else place
