"""Statements that are alike: they differ only in the buffers, loops and sizes that they name.

The two directions of a layer consist of such nests, and so do the layers of a stack, whose loops are alike as a whole.
What is written for one statement serves another one that is alike, under other names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import singledispatch
from operator import attrgetter
from types import MappingProxyType

import numpy as np

from scanjit import errors, types
from scanjit.records import record, replace
from scanjit.schedule.nests.buffers import Buffer
from scanjit.schedule.nests.loops import NestLoop
from scanjit.schedule.nests.nest import nests_of
from scanjit.schedule.nests.plan import Plan
from scanjit.schedule.nests.statement import Statement
from scanjit.schedule.nests.steps import TimeLoop
from scanjit.schedule.nests.values import Access, Value, walk_values
from scanjit.types import Atom, Dim, Dimension


@record
class Correspondence:
    """The names in one statement, each with the name of the same thing in another one that is alike. If they are alike
    wherever their elements lie, `offsets` has pairs for each buffer: an offset in this statement, and the one that
    stands for it in the other."""

    buffers: Mapping[Buffer, Buffer]
    atoms: Mapping[Atom, Dimension]
    offsets: Mapping[Buffer, Sequence[tuple[Dimension, Dimension]]] = MappingProxyType({})

    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer of the other statement in the place of this one. A buffer that neither names, such as the scratch
        memory of a thread, is the same for both."""
        return self.buffers.get(buffer, buffer)

    def size(self, dim: Dimension) -> Dimension:
        """The dimension in the other statement."""
        return types.substitute(dim, self.atoms)

    def place(self, buffer: Buffer, offset: Dimension) -> tuple[Buffer, Dimension]:
        """The place in the other statement of an offset in a buffer."""
        if buffer not in self.offsets:
            return self.buffer(buffer), self.size(offset)
        for here, there in self.offsets[buffer]:
            if isinstance(apart := offset - here, int):
                return self.buffer(buffer), there + apart
        raise errors.InternalError(f"{buffer.name} has an offset that no access of the statement has")


class Likeness:
    """Statements with numbers in place of the names of their buffers, loops and sizes.

    They are alike if their `key` is the same. The key leaves out plans, titles of loops, and the names, kinds and sizes
    of buffers. More can be added to it.

    With `anywhere`, they are alike wherever their elements lie. The key then has of an offset in a buffer only how many
    elements behind another one it lies, if that is a number; and how many behind the beginning of a row, if rows have
    room at the end. This is enough for nests, whose functions take addresses: those of a loop that goes forwards are
    like those of one that goes backwards.
    """

    def __init__(self, *statements: Statement, anywhere: bool = False) -> None:
        self._anywhere = anywhere
        self._offsets: dict[Buffer, list[Dimension]] = {}
        self._buffers: dict[Buffer, int] = {}
        self._atoms: dict[Atom, int] = {}
        self.numbers: dict[object, tuple[int]] = {}
        """The numbers of parts that are compared by identity. They are tuples, because an int stands for itself."""
        self.parts: list[object] = []
        every = nests_of(statements)
        steps = [root for nest in every if nest.lanewise is not None for root in nest.lanewise.roots]
        roots = [root for nest in every for root in nest.roots]
        for value in walk_values([*roots, *steps]):  # operands first: none is described inside another value
            self.code(value)
        self.add(*statements)

    def add(self, *parts: object) -> None:
        """Add parts to the key, as what is alike must have these alike, too."""
        self.parts += self.codes(parts)

    @property
    def key(self) -> tuple[object, ...]:
        """What is the same for statements that are alike."""
        return tuple(self.parts)

    @property
    def buffers(self) -> list[Buffer]:
        """The buffers that are named, in the order of their numbers."""
        return list(self._buffers)

    def names_in(self, other: Likeness) -> Correspondence:
        """The names in these statements, each with the name of the same thing in `other`, which is alike."""
        atoms = zip(self._atoms, other._atoms, strict=True)
        buffers = dict(zip(self._buffers, other._buffers, strict=True))
        names = {old: types.dim_of(new) for old, new in atoms if old is not new}
        pairs = {b: list(zip(some, other._offsets[buffers[b]], strict=True)) for b, some in self._offsets.items()}
        return Correspondence(buffers, names, pairs)

    def code(self, part: object) -> object:
        """What stands for a part of a statement in the key."""
        coder = _CODERS[type(part)]
        return part if coder is None else coder(part, self)

    def codes(self, parts: Iterable[object]) -> list[object]:
        """What stands for each of some parts."""
        return [part if (coder := _CODERS[type(part)]) is None else coder(part, self) for part in parts]

    def buffer(self, buffer: Buffer) -> tuple[int, object, object]:
        """The number of a buffer, its dtype, and the lengths of its rows without and with room for full vectors, if it
        has such room."""
        row = None if buffer.row is None else (self.code(buffer.row), self.code(buffer.shape[-1]))
        return self._buffers.setdefault(buffer, len(self._buffers)), buffer.dtype, row

    def offset(self, buffer: Buffer, offset: Dimension) -> object:
        """What stands for an offset in a buffer."""
        if not self._anywhere:
            return self.code(offset)
        row = None if buffer.row is None else self.code(types.remainder(offset, buffer.shape[-1]))
        others = self._offsets.setdefault(buffer, [])
        for number, other in enumerate(others):
            if isinstance(apart := offset - other, int):
                return number, apart, row
        others.append(offset)
        return len(others) - 1, 0, row

    def atom(self, atom: Atom) -> object:
        """The number and the kind of a size or value; the kind of a function, and the codes of its arguments."""
        if atom.args:
            return atom.kind, *self.codes(atom.args)
        return self._atoms.setdefault(atom, len(self._atoms)), atom.kind


class _Coders(dict[type, "Callable[[object, Likeness], object] | None"]):
    """Maps the type of a part to the function that gives its code, or to None if such parts stand for themselves, as an
    int does. There are many parts, and `singledispatch` is slow."""

    def __missing__(self, kind: type) -> Callable[[object, Likeness], object] | None:
        plain = _code.dispatch(kind) is _code.dispatch(object) and not is_dataclass(kind)
        self[kind] = None if plain else _code.dispatch(kind)
        return self[kind]


_CODERS = _Coders()
_MEMBERS: dict[type, Callable[[object], tuple[object, ...]]] = {}
"""Maps the type of a part to the function that gives the values of its fields."""


@singledispatch
def _code(part: object, writer: Likeness) -> object:
    """What stands for a part in the key of a likeness."""
    return _content(part, writer)


@_code.register
def _(part: Value | NestLoop | Dim, writer: Likeness) -> object:
    """The number of a part that is compared by identity. The part is described when it gets its number."""
    found = writer.numbers.get(part)
    if found is None:
        found = writer.numbers[part] = (len(writer.numbers),)
        writer.parts.append((found, _terms(part, writer) if isinstance(part, Dim) else _content(part, writer)))
    return found


@_code.register
def _(buffer: Buffer, writer: Likeness) -> object:
    return writer.buffer(buffer)


@_code.register(tuple)
def _(parts: tuple[object, ...], writer: Likeness) -> object:
    return tuple(writer.codes(parts))


@_code.register(dict)
@_code.register(MappingProxyType)
def _(parts: Mapping[object, object], writer: Likeness) -> object:
    return tuple(writer.codes([part for pair in parts.items() for part in pair]))


@_code.register(float)
@_code.register(bool)
@_code.register(np.generic)
def _(number: object, writer: Likeness) -> object:
    return repr(number)  # `==` is true for 0.0 and -0.0, and false for two NaN


@_code.register
def _(access: Access, writer: Likeness) -> object:
    buffer, (strides, panel) = access.buffer, writer.codes((access.strides, access.panel))
    return writer.buffer(buffer), writer.offset(buffer, access.offset), strides, panel


@_code.register
def _(plan: Plan, writer: Likeness) -> object:
    return None


@_code.register
def _(loop: TimeLoop, writer: Likeness) -> object:
    return _content(replace(loop, title=""), writer)


def _content(part: object, writer: Likeness) -> object:
    """The type of a part, and the codes of all that it consists of."""
    kind = type(part)
    if kind not in _MEMBERS:
        names = [field.name for field in fields(part)] if is_dataclass(part) else ["size", "parts"]
        _MEMBERS[kind] = attrgetter(*names)
    return kind, *writer.codes(_MEMBERS[kind](part))


def _terms(dim: Dim, writer: Likeness) -> object:
    """The terms of a dimension."""
    for function in types.functions_in([dim]):  # arguments first, so that none is described inside a function
        writer.codes(function.args)
    return tuple([(*[writer.atom(atom) for atom in monomial], factor) for monomial, factor in dim.terms])
