"""The source of one function, and the arguments that it needs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import NamedTuple

from scanjit.codegen.names import imports
from scanjit.records import record, replace
from scanjit.schedule.nests import Buffer, Correspondence, Tile
from scanjit.show.identifiers import identifier
from scanjit.types import Dimension


class RowRange(NamedTuple):
    """How to call a function that goes over a range of rows (see `codegen.general`). There are `size` rows. If threads
    share the points of a row, `steps` has the bytes from one point to the next for each address, and `points` is the
    position of the number of points among the function's numbers. Otherwise `steps` is None."""

    size: Dimension
    steps: tuple[int, ...] | None
    points: int


@record(eq=True)
class Source:
    """The source of a function.

    Its first parameters are `addresses`, then `numbers`. A function that runs statements has neither: it takes a
    `table` of them, the number of its thread, and counters. The last parameters of a nest are the ranges that its
    thread computes: of the tile's `split` loop, and of its `own` rows if that is another loop. If it `looks` whether to
    end, the line of its thread follows.
    """

    name: str
    text: str
    arity: int
    addresses: tuple[tuple[Buffer, Dimension], ...]
    numbers: tuple[Dimension, ...]
    calls: tuple[str, ...]
    tile: Tile
    looks: bool
    table: tuple[Buffer | Dimension, ...] = ()
    rows: RowRange | None = None

    @property
    def digest(self) -> str:
        """The end of its name, which is equal for functions with equal text."""
        return self.name.rpartition("_")[2]

    def called(self, names: Correspondence, tile: Tile | None) -> Source:
        """The same function with the arguments for statements that are alike; for a nest, with its tile."""
        addresses = tuple([names.place(buffer, offset) for buffer, offset in self.addresses])
        numbers = tuple(map(names.size, self.numbers))
        rows = None if self.rows is None else self.rows._replace(size=names.size(self.rows.size))
        table = tuple([names.buffer(each) if isinstance(each, Buffer) else names.size(each) for each in self.table])
        return replace(self, addresses=addresses, numbers=numbers, tile=tile or Tile(), table=table, rows=rows)


@record
class Parameters:
    """The names of a function's parameters: addresses of positions in buffers, and numbers. A number may belong to an
    owner, such as a buffer or loop. Equal numbers of two owners are two parameters, so that the text is the same for
    nests in which they differ."""

    addresses: dict[tuple[Buffer, Dimension], str] = field(default_factory=dict)
    numbers: dict[tuple[object, Dimension], str] = field(default_factory=dict)

    def address(self, buffer: Buffer, offset: Dimension) -> str:
        """The parameter that holds the address of a position in a buffer."""
        return self.addresses.setdefault((buffer, offset), f"p{len(self.addresses)}")

    def number(self, dim: Dimension) -> str:
        """A dimension as text: a literal, or a parameter."""
        return str(dim) if isinstance(dim, int) else self.number_of(None, dim)

    def number_of(self, owner: object, dim: Dimension) -> str:
        """The parameter that holds a dimension."""
        return self.numbers.setdefault((owner, dim), f"n{len(self.numbers)}")

    def source(
        self,
        label: str,
        lines: Sequence[str],
        more: Sequence[str],
        calls: Sequence[str] = (),
        tile: Tile | None = None,
        table: Sequence[Buffer | Dimension] = (),
        inside: Mapping[str, Source] = MappingProxyType({}),
    ) -> Source:
        """The source of a function with these parameters and `more`: imports, and a function whose name ends with a
        digest of its text. The functions in `inside`, which it calls, stand in the same source."""
        names = [*self.addresses.values(), *self.numbers.values(), *more]
        head, signature = imports(lines, frozenset([*calls, *inside])), f"({', '.join(names)}):"
        digest = hashlib.sha256("\n".join([*head, signature, *lines]).encode()).hexdigest()[:12]
        name = f"{identifier(label, 'nest').rstrip('_')}_{digest}"
        others = [line for source in inside.values() for line in (source.text, "")]
        text = "\n".join([*others, *head, "", "", f"def {name}{signature}", *(lines or ["    return"]), ""])
        places, sizes = tuple(self.addresses), tuple(dim for _, dim in self.numbers)
        looks = "line" in more
        return Source(name, text, len(names), places, sizes, tuple(calls), tile or Tile(), looks, tuple(table))
