"""A nest as Python source: a function of addresses and sizes. It has scalars, addresses and SIMD values, but no
arrays."""

from collections.abc import Callable

from scanjit.codegen.apart import parts
from scanjit.codegen.columns import write_columns
from scanjit.codegen.frame import Frame
from scanjit.codegen.general import general
from scanjit.codegen.looks import looking
from scanjit.codegen.reduce import reduction
from scanjit.codegen.source import Source
from scanjit.codegen.space import Space
from scanjit.codegen.stores import store_tile
from scanjit.codegen.strips import write_strips
from scanjit.codegen.time import TimeInside
from scanjit.codegen.transposed import crossed, in_blocks, write_transposed
from scanjit.codegen.values import Values
from scanjit.schedule.nests import Likeness, Nest

Write = Callable[[Nest], Source]


class NestSources:
    """The sources of the nests of one program. Nests that are alike have one source, which is written once."""

    def __init__(self) -> None:
        self._likeness: dict[Nest, Likeness] = {}
        self._first: dict[tuple[Write, object], tuple[Likeness, Source]] = {}
        self._apart: dict[Nest, list[Source]] = {}

    def of(self, nest: Nest) -> Source:
        """The source of a nest."""
        return self._once(nest, nest_source)

    def apart(self, nest: Nest) -> list[Source]:
        """The sources of the parts of a nest, if the parts need at most half as many different sources; otherwise the
        source of the whole nest. Sizes are arguments if possible (see `codegen.general`)."""
        if nest not in self._apart:
            some = [self._once(part, self._general) for part in parts(nest)]
            few = len(some) > 1 and 2 * len({source.digest for source in some}) > len(some)
            self._apart[nest] = [self._once(nest, self._general)] if few else some
        return self._apart[nest]

    def _general(self, nest: Nest) -> Source:
        form = general(nest)
        return self.of(nest) if form is None else form.called(self.of(form.nest), nest)

    def _once(self, nest: Nest, write: Write) -> Source:
        """The result of `write` for a nest. It is called once for nests that are alike."""
        own = self._likeness.get(nest)
        if own is None:
            own = self._likeness[nest] = Likeness(nest)
        found = self._first.get((write, own.key))
        if found is None:
            found = self._first[write, own.key] = own, write(nest)
        known, source = found
        return source if known is own else source.called(known.names_in(own), nest.tile)


def nest_source(nest: Nest) -> Source:
    """The source of a nest. Equal nests of different programs give equal text, and so the same kernel."""
    down = crossed(nest)
    frame = Frame(nest if down is None else in_blocks(nest))
    values, tile = Values(frame, reduction), frame.tile
    if nest.time is not None and tile.strips:
        write_strips(frame, values, nest.time)
    elif nest.time is not None:
        Space(frame, TimeInside(frame, values, nest.time).write).write(values)
    elif tile.strips:
        write_columns(frame, values)
    elif down is not None:
        write_transposed(frame, values, down)
    else:
        Space(frame, lambda: store_tile(frame, values)).write(values)
    frame.pop(1)
    names = ["begin", "end"] if tile.split is not None else []
    names += ["low", "high"] if tile.own is not None and tile.own is not tile.split else []
    names += ["line"] if looking(frame.function, tile) else []
    return frame.parameters.source(nest.label, frame.function.text(1), names, tile=tile)
