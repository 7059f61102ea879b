"""The text of a function for LLVM, while it is written."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from scanjit.runtime.translation.variables import in_memory, parameters_of
from scanjit.simd.inlined import metadata
from scanjit.simd.register_masks import IN_REGISTER
from scanjit.simd.types import HELD_MASK, INT, SimdType, Type, mask_type

HIDING = "@llvm.expect.i64"
"""A function that returns its first argument."""
RARE = '!{!"branch_weights", i32 1, i32 1000}'
"""Says of a branch that its first block is rarely run."""
ALIGNED = '!{!"llvm.loop.align", i32 64}'
"""Says of a loop that it begins at a multiple of 64 bytes. Many processors keep decoded instructions by such lines: a
turn of a few instructions takes up to 1.7 times as long if they reach over the end of a line."""


class KernelValue(NamedTuple):
    """A value of a kernel.

    `text` is its name for LLVM. `number` is its value, if that is known. `loops` says how many of the loops around it
    change it: 0 for an argument, 1 for the counter of an outermost loop. An address of memory on the stack also has its
    `stack`: the name of the memory, and the offset in it. A value that is `beyond` another one by a number has both.
    """

    type: Type
    text: str
    number: bool | int | float | None = None
    loops: int = 0
    stack: tuple[str, int] | None = None
    beyond: tuple[KernelValue, int] | None = None


class Instructions:
    """The instructions of one function, and the other functions of its module. With `held_masks`, variables in memory
    hold masks of one lane in both of their forms.

    An instruction without effects is written once where its result is known, and before the loops that do not change
    it: LLVM would find out the same, but it takes longer than to write, read and optimise the function without.

    Parameters
    ----------
    loaded : whether the function will be loaded into this process, at any distance from those that it calls.

    Attributes
    ----------
    block : the block in which instructions are written.
    ended : whether it has its last instruction.
    has_vectors : whether an instruction gave a vector, or one is a constant.
    has_stack : whether there is memory on the stack.
    room : the bytes of each memory on the stack, by its name.
    parts : the other things in the module, by name.
    """

    def __init__(self, loaded: bool = False, held_masks: bool = False) -> None:
        self.loaded, self._held_masks = loaded, held_masks
        self._callees: dict[str, str] = {}
        self._lines: list[str | list[str]] = []  # a list is filled later
        self._places: list[str] = []
        self._in_memory: set[str] = set()
        self._variables: dict[str, KernelValue] = {}
        self._known: dict[str, KernelValue] = {}  # results of instructions without effects, by their text
        self._scopes: list[list[str]] = [[]]  # for each block of statements around: what is known in it alone
        self._loops: list[tuple[list[str], list[str]]] = []  # for each loop around: the lines and the scope before it
        self._numbers = 0
        self.block = "entry"
        self.ended = False
        self.has_vectors = False
        self.has_stack = False
        self.room: dict[str, int] = {}
        self.parts: dict[str, str] = {}

    # ---- instructions

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self._lines.append(text)

    def get(self, type_: Type, text: str) -> KernelValue:
        """An instruction with a result, which may be another one each time it runs."""
        value = self._named(type_, len(self._loops))
        self._lines.append(f"{value.text} = {text}")
        return value

    def pure(self, type_: Type, text: str, *operands: KernelValue) -> KernelValue:
        """An instruction without effects, whose result depends only on its operands."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._named(type_, max([each.loops for each in operands], default=0))
            line = f"{found.text} = {text}"
            if found.loops < len(self._loops):
                lines, scope = self._loops[found.loops]
                lines.append(line)
            else:
                scope = self._scopes[-1]
                self._lines.append(line)
            scope.append(text)
        return found

    def hidden(self, number: KernelValue) -> KernelValue:
        """The same integer. LLVM sees how it is computed only once it chooses instructions; none is for this."""
        self.include({HIDING: f"declare i64 {HIDING}(i64, i64)"})
        return self.get(INT, f"call i64 {HIDING}(i64 {number.text}, i64 0)")

    def _named(self, type_: Type, loops: int) -> KernelValue:
        self.has_vectors = self.has_vectors or isinstance(type_, SimdType)
        self._numbers += 1
        return KernelValue(type_, f"%v{self._numbers}", None, loops)

    # ---- blocks

    def label(self, kind: str) -> str:
        """A new name for a block."""
        self._numbers += 1
        return f"{kind}{self._numbers}"

    def start(self, label: str) -> None:
        """Let the lines from now on stand in this block."""
        self._lines.append(f"{label}:")
        self.block, self.ended = label, False

    def jump(self, label: str) -> None:
        """Go on in another block, unless this one has ended."""
        self.end(f"br label %{label}")

    def branch(self, condition: KernelValue, yes: str, no: str, rare: bool = False, aligns: bool = False) -> None:
        """Go on in one of two blocks. If the first one is `rare`, LLVM puts it behind the others. If this branch goes
        back to the beginning of a loop, and `aligns`, the loop begins at the beginning of a line."""
        notes = f", !prof {self._metadata(RARE)}" if rare else ""
        if aligns:
            notes += f", !llvm.loop {self._metadata(f'distinct !{{itself, {self._metadata(ALIGNED)}}}')}"
        self.end(f"br i1 {condition.text}, label %{yes}, label %{no}{notes}")

    def _metadata(self, text: str) -> str:
        """The number of a piece of metadata, which may contain `itself`."""
        number, text = metadata(text)
        self.include({number: f"{number} = {text.replace('itself', number)}"})
        return number

    def end(self, text: str) -> None:
        """The last instruction of a block; nothing if it has one already."""
        if not self.ended:
            self._lines.append(text)
            self.ended = True

    @contextlib.contextmanager
    def sometimes(self) -> Iterator[None]:
        """A context for code that does not always run: its results are not known afterwards."""
        self._scopes.append([])
        yield
        for text in self._scopes.pop():
            del self._known[text]

    @contextlib.contextmanager
    def loop(self) -> Iterator[None]:
        """A context for the loop that begins with the next block."""
        before: list[str] = []
        self._lines.append(before)
        self._loops.append((before, self._scopes[-1]))
        with self.sometimes():
            yield
        self._loops.pop()

    def counter(self) -> tuple[KernelValue, list[str]]:
        """An integer that has another value in each turn of this loop, and the line for its instruction, which is known
        when the loop has ended."""
        line: list[str] = []
        self._lines.append(line)
        return self._named(INT, len(self._loops)), line

    def stack(self, nbytes: int) -> KernelValue:
        """The address of `nbytes` bytes that belong to this run of the function."""
        name = f"%s{len(self._places)}"
        self._places.append(f"{name} = alloca [{nbytes} x i8], align 64")
        self.room[name] = nbytes
        self.has_stack = True
        return self.on_stack(name, 0)

    def on_stack(self, name: str, offset: int) -> KernelValue:
        """The address at an offset from the beginning of some memory on the stack."""
        return self.pure(INT, f"ptrtoint ptr {self.at(name, offset).text} to i64")._replace(stack=(name, offset))

    def at(self, name: str, offset: int) -> KernelValue:
        """The same address as a pointer."""
        return self.pure(INT, f"getelementptr i8, ptr {name}, i64 {offset}")

    # ---- variables

    def begin(self, function: ast.FunctionDef) -> None:
        """Begin a function: none of its variables has a value yet."""
        self._variables, self._in_memory = {}, in_memory(function.body, parameters_of(function))

    @contextlib.contextmanager
    def inside(self, function: ast.FunctionDef) -> Iterator[None]:
        """A context for code of another function. The variables of the present one are hidden meanwhile."""
        hidden = self._variables, self._in_memory
        self.begin(function)
        yield
        self._variables, self._in_memory = hidden

    def assign(self, name: str, value: KernelValue) -> None:
        """Give a variable a value; TypeError if it had one of another type."""
        if name not in self._in_memory:
            self._variables[name] = value
            return
        if value.type is HELD_MASK and not self._held_masks:
            value = self.get(mask_type(1), f"extractvalue {HELD_MASK.text} {value.text}, 0")
        if self._held_masks and value.type is mask_type(1):
            value = self._held(value)
        place = self._variables.get(name)
        if place is None:
            place = self._variables[name] = KernelValue(value.type, f"%m{len(self._places)}")
            self._places.append(f"{place.text} = alloca {value.type.text}")
        if place.type is not value.type:
            raise TypeError(f"{name} is {place.type.name}, and cannot become {value.type.name}")
        self.do(f"store {value.type.text} {value.text}, ptr {place.text}")

    def _held(self, mask: KernelValue) -> KernelValue:
        """A mask of one lane in both forms."""
        form, lanes = HELD_MASK.text, "<2 x i1>"
        first = self.get(HELD_MASK, f"insertelement {lanes} undef, i1 {mask.text}, i32 0").text
        wide = self.get(HELD_MASK, f"sext {lanes} {first} to {IN_REGISTER}").text
        bit = self.get(HELD_MASK, f"insertvalue {form} undef, i1 {mask.text}, 0").text
        return self.get(HELD_MASK, f"insertvalue {form} {bit}, {IN_REGISTER} {wide}, 1")

    def read(self, name: str) -> KernelValue:
        """The value of a variable; TypeError if it has none."""
        found = self._variables.get(name)
        if found is None:
            raise TypeError(f"{name} has no value")
        return self.get(found.type, f"load {found.type.text}, ptr {found.text}") if name in self._in_memory else found

    # ---- the module

    def callee(self, function: str) -> str:
        """How to call a function. Code that is `loaded` finds its address in memory: the function may be further away
        than a call can reach. LLVM would do the same for each call, but without optimisation that takes it three times
        as long as all other instructions."""
        if not self.loaded:
            return function
        return self._callees.setdefault(function, f"%f{len(self._callees)}")

    def include(self, parts: Mapping[str, str]) -> None:
        """Add other things to the module, by name: functions, declarations, metadata."""
        self.parts.update(parts)

    def function(self, symbol: str, parameters: Sequence[str], result: str = "void") -> list[str]:
        """The lines of the function. Its arguments are called %a0, %a1, ..."""
        arguments = ", ".join(f"i64 %a{i}" for i in range(len(parameters)))
        lines = [line for each in self._lines for line in ([each] if isinstance(each, str) else each)]
        return [f'define {result} @"{symbol}"({arguments}) {{', "entry:", *self._places, *self._found(), *lines, "}"]

    def module(self, symbol: str, parameters: Sequence[str], triple: str, data_layout: str) -> str:
        """The whole text. The function returns nothing."""
        head = [f'target triple = "{triple}"', f'target datalayout = "{data_layout}"']
        return "\n".join([*head, *self.parts.values(), *self._addresses(), *self.function(symbol, parameters)])

    def _addresses(self) -> list[str]:
        """The addresses of the functions that are called through them, and where these addresses lie."""
        addresses = f"[{len(self._callees)} x ptr] [{', '.join(f'ptr {name}' for name in self._callees)}]"
        found = [f"@addresses = internal constant {addresses}", "@place = internal global ptr @addresses"]
        return found if self._callees else []

    def _found(self) -> list[str]:
        """The instructions that load these addresses."""
        found = ["%place = load ptr, ptr @place"] if self._callees else []
        for i, name in enumerate(self._callees.values()):
            found += [f"{name}.at = getelementptr ptr, ptr %place, i64 {i}", f"{name} = load ptr, ptr {name}.at"]
        return found
