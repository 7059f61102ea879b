"""The text of a function for LLVM, as it is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from scanjit.simd.types import BOOL, INT, SimdType, Type


class Value(NamedTuple):
    """A value of a kernel: its type, what LLVM calls it, and which number it is, where that is known."""

    type: Type
    text: str
    number: bool | int | float | None = None


class Instructions:
    """The instructions of one function, and the other functions of its module.

    Parameters
    ----------
    in_memory : the variables that live in memory.

    Attributes
    ----------
    block : the block in which instructions are written.
    ended : whether it has its last instruction.
    has_vectors : whether an instruction gave a vector.
    """

    def __init__(self, in_memory: Iterable[str]) -> None:
        self._lines: list[str] = []
        self._places: list[str] = []
        self._parts: dict[str, str] = {}
        self._in_memory = frozenset(in_memory)
        self._variables: dict[str, Value] = {}
        self._numbers = 0
        self.block = "entry"
        self.ended = False
        self.has_vectors = False

    # ---- instructions and blocks

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self._lines.append(text)

    def get(self, type_: Type, text: str) -> Value:
        """An instruction with a result."""
        value = Value(type_, self.name())
        self.has_vectors = self.has_vectors or isinstance(type_, SimdType)
        self._lines.append(f"{value.text} = {text}")
        return value

    def integer(self, text: str) -> str:
        """An instruction whose result is an integer."""
        return self.get(INT, text).text

    def condition(self, text: str) -> str:
        """An instruction whose result is a condition."""
        return self.get(BOOL, text).text

    def name(self) -> str:
        """A new name for a result."""
        self._numbers += 1
        return f"%v{self._numbers}"

    def label(self, kind: str) -> str:
        """A new name for a block."""
        self._numbers += 1
        return f"{kind}{self._numbers}"

    def start(self, label: str) -> None:
        """What follows stands in this block."""
        self._lines.append(f"{label}:")
        self.block, self.ended = label, False

    def jump(self, label: str) -> None:
        """Go on in another block, unless this one has ended."""
        self.end(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """Go on in one of two blocks."""
        self.end(f"br i1 {condition}, label %{yes}, label %{no}")

    def end(self, text: str) -> None:
        """The last instruction of a block; nothing if it has one already."""
        if not self.ended:
            self._lines.append(text)
            self.ended = True

    # ---- variables

    def assign(self, name: str, value: Value) -> None:
        """Give a variable a value; TypeError if it had one of another type."""
        if name not in self._in_memory:
            self._variables[name] = value
            return
        place = self._variables.get(name)
        if place is None:
            place = self._variables[name] = Value(value.type, f"%m{len(self._places)}")
            self._places.append(f"{place.text} = alloca {value.type.text}")
        if place.type is not value.type:
            raise TypeError(f"{name} is {place.type.name}, and cannot become {value.type.name}")
        self.do(f"store {value.type.text} {value.text}, ptr {place.text}")

    def read(self, name: str) -> Value:
        """The value of a variable; TypeError if it has none."""
        found = self._variables.get(name)
        if found is None:
            raise TypeError(f"{name} has no value")
        return self.get(found.type, f"load {found.type.text}, ptr {found.text}") if name in self._in_memory else found

    # ---- the module

    def include(self, parts: Mapping[str, str]) -> None:
        """Other things of the module, by name: functions, declarations, metadata."""
        self._parts.update(parts)

    def module(self, symbol: str, parameters: Sequence[str], triple: str, data_layout: str) -> str:
        """The whole text. The function returns nothing; its arguments are called %a0, %a1, ..."""
        arguments = ", ".join(f"i64 %a{i}" for i in range(len(parameters)))
        head = [f'target triple = "{triple}"', f'target datalayout = "{data_layout}"']
        function = [f'define void @"{symbol}"({arguments}) {{', "entry:", *self._places, *self._lines, "}"]
        return "\n".join([*head, *self._parts.values(), *function])
