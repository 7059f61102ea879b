"""A nest as Python source: a function of addresses and sizes. It has scalars, addresses and SIMD values, but no
arrays."""

from __future__ import annotations

from collections.abc import Callable

from scanjit.codegen.apart import parts
from scanjit.codegen.columns import write_columns
from scanjit.codegen.frame import Frame
from scanjit.codegen.general import general
from scanjit.codegen.looks import looking
from scanjit.codegen.reduce import reduction
from scanjit.codegen.source import Source
from scanjit.codegen.space import Space
from scanjit.codegen.stores import begin_tiles, store_tile
from scanjit.codegen.strips import Strips
from scanjit.codegen.time import TimeInside
from scanjit.codegen.transposed import crossed, in_blocks, write_transposed
from scanjit.codegen.values import Values
from scanjit.schedule.nests import Likeness, Nest


class NestSources:
    """The sources of the nests of one program. Nests that are alike have the same sources, which are written once."""

    def __init__(self) -> None:
        self._likeness: dict[Nest, Likeness] = {}
        self._first: dict[tuple[Write, object], tuple[Likeness, list[Source]]] = {}
        self._found: dict[tuple[Write, Nest], list[Source]] = {}

    def of(self, nest: Nest) -> Source:
        """The source of a nest."""
        return self._once(NestSources._whole, nest)[0]

    def apart(self, nest: Nest) -> list[Source]:
        """The sources of the parts of a nest, if the parts need at most half as many different sources; otherwise the
        source of the whole nest. Sizes are arguments if possible (see `codegen.general`)."""
        return self._once(NestSources._in_parts, nest)

    def _whole(self, nest: Nest) -> list[Source]:
        return [nest_source(nest)]

    def _in_parts(self, nest: Nest) -> list[Source]:
        some = [self._once(NestSources._general, part)[0] for part in parts(nest)]
        few = len(some) > 1 and 2 * len({source.digest for source in some}) > len(some)
        return self._once(NestSources._general, nest) if few else some

    def _general(self, nest: Nest) -> list[Source]:
        found = general(nest)
        return [self.of(nest) if found is None else found.called(self.of(found.nest), nest)]

    def _once(self, write: Write, nest: Nest) -> list[Source]:
        """The result of `write` for a nest. It is called once for nests that are alike."""
        found = self._found.get((write, nest))
        if found is None:
            own = self._likeness.get(nest)
            if own is None:
                own = self._likeness[nest] = Likeness(nest, anywhere=True)
            first = self._first.get((write, own.key))
            if first is None:
                first = self._first[write, own.key] = own, write(self, nest)
            known, found = first
            if known is not own:
                names = known.names_in(own)
                found = [source.called(names, nest.tile) for source in found]
            self._found[write, nest] = found
        return found


Write = Callable[[NestSources, Nest], list[Source]]


def nest_source(nest: Nest) -> Source:
    """The source of a nest. Equal nests of different programs give equal text, and so the same kernel."""
    down = crossed(nest)
    frame = Frame(nest if down is None else in_blocks(nest))
    values, tile = Values(frame, reduction), frame.tile
    if nest.time is not None and tile.strips:
        Strips(frame, values, nest.time).write()
    elif nest.time is not None:
        Space(frame, TimeInside(frame, values, nest.time).write).write(values)
    elif tile.strips:
        write_columns(frame, values)
    elif down is not None:
        write_transposed(frame, values, down)
    else:
        Space(frame, lambda: store_tile(frame, values), begin_tiles(frame, values)).write(values)
    frame.pop(1)
    if tile.matrices:
        frame.scope.add("end_matrices()")
    names = ["begin", "end"] if tile.split is not None else []
    names += ["low", "high"] if tile.own is not None and tile.own is not tile.split else []
    names += ["line"] if looking(frame.function, tile) else []
    return frame.parameters.source(nest.label, frame.function.text(1), names, tile=tile)
