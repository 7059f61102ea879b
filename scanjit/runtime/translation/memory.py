"""What functions do that call kernels, but no kernel does: read and write fields of structures and words of memory,
call functions of the process, and give integers.

`slot.given` is a field of the `slot` whose address a variable of this name holds (`line.team.stop`: of the `team` whose
address is in `line.team`). A field of several words stands for its address. `words[k]` is a word behind an address. All
values have 64 bits. Four functions make one step that other threads see as a whole: `get(place)` and `put(place,
value)`; `add(place, value)`, which gives the value before; and `change(place, before, after)`, which puts `after` where
`before` is, and says whether it was there.
"""

import ast
import ctypes
from collections.abc import Collection, Mapping, Sequence

from scanjit.runtime.translation import integers
from scanjit.runtime.translation.expressions import Expressions, Writer
from scanjit.runtime.translation.instructions import Instructions, KernelValue
from scanjit.simd.types import INT
from scanjit.target import Target

_ATOMIC = """
define internal i64 @get(i64 %place) alwaysinline {
  %at = inttoptr i64 %place to ptr
  %value = load atomic i64, ptr %at seq_cst, align 8
  ret i64 %value
}
define internal i64 @put(i64 %place, i64 %value) alwaysinline {
  %at = inttoptr i64 %place to ptr
  store atomic i64 %value, ptr %at release, align 8
  ret i64 %value
}
define internal i64 @add(i64 %place, i64 %value) alwaysinline {
  %at = inttoptr i64 %place to ptr
  %before = atomicrmw add ptr %at, i64 %value seq_cst
  ret i64 %before
}
define internal i64 @change(i64 %place, i64 %before, i64 %after) alwaysinline {
  %at = inttoptr i64 %place to ptr
  %found = cmpxchg ptr %at, i64 %before, i64 %after seq_cst seq_cst
  %was = extractvalue { i64, i1 } %found, 1
  %done = zext i1 %was to i64
  ret i64 %done
}
"""
_ATOMIC_NAMES = ("get", "put", "add", "change")
_VECTORLESS = {"clock", "interrupted", "pause"}
_BUILT_IN = {*_VECTORLESS, "max", "min", "stack"}
_WORD = KernelValue(INT, "8", 8)


class MemoryWriter:
    """Writes the instructions that reach memory and other functions.

    Parameters
    ----------
    instructions : where they are written.
    target : the machine that they are for.
    structures : by the names that variables have which hold their addresses. `home` is at a place of its own.
    functions : the names of the functions in the source.
    outside : the names of the functions of the process.

    Attributes
    ----------
    expressions : writes all expressions.
    """

    def __init__(
        self,
        instructions: Instructions,
        target: Target,
        structures: Mapping[str, type[ctypes.Structure]],
        functions: Collection[str],
        outside: Collection[str],
    ) -> None:
        self._to, self._structures, self._functions, self._outside = instructions, structures, functions, outside
        loaded = lambda _, expression: self._loaded(expression)
        writers: dict[type, Writer] = {ast.Attribute: loaded, ast.Subscript: loaded}
        writers |= {ast.Name: self._name, ast.Call: self._call}
        self.expressions = Expressions(instructions, {}, _VECTORLESS, target, {}, writers)

    def store(self, place: ast.Attribute | ast.Subscript, value: KernelValue) -> None:
        """Store a value in a field or a word."""
        pointer = self._pointer(self._place(place)[0])
        self._to.do(f"store i64 {value.text}, ptr {pointer}")

    def _place(self, expression: ast.expr) -> tuple[KernelValue, int]:
        """The address of a field or a word, and its bytes."""
        integer = self.expressions.integer
        if isinstance(expression, ast.Subscript):
            offset, size = integers.binary(self._to, "mul", integer(expression.slice), _WORD), 8
        elif isinstance(expression, ast.Attribute):
            holder = expression.value
            name = holder.attr if isinstance(holder, ast.Attribute) else ast.unparse(holder)
            field = getattr(self._structures[name], expression.attr)
            offset, size = KernelValue(INT, str(field.offset), field.offset), field.size
        else:
            raise TypeError(f"no place in memory: {ast.unparse(expression)}")
        # (an address is computed where it is used: there, an instruction that loads adds the offset)
        return self._to.get(INT, f"add i64 {integer(expression.value).text}, {offset.text}"), size

    def _pointer(self, address: KernelValue) -> str:
        return self._to.get(INT, f"inttoptr i64 {address.text} to ptr").text

    def _loaded(self, expression: ast.expr) -> KernelValue:
        place, size = self._place(expression)
        if size > 8:
            return place
        value = self._to.get(INT, f"load i{8 * size}, ptr {self._pointer(place)}")
        return value if size == 8 else self._to.get(INT, f"sext i{8 * size} {value.text} to i64")

    def _name(self, expressions: Expressions, expression: ast.Name) -> KernelValue:
        if expression.id == "home":
            nbytes = ctypes.sizeof(self._structures["home"])
            self._to.include({"home": f"@home = internal global [{nbytes} x i8] zeroinitializer, align 8"})
        if expression.id == "home" or expression.id in self._functions:
            return KernelValue(INT, f"ptrtoint (ptr @{expression.id} to i64)")
        return self._to.read(expression.id)

    def _call(self, expressions: Expressions, expression: ast.Call) -> KernelValue:
        """The result of a call: of a function of the source or of the process, or of one at a known address."""
        name = expression.func.id if isinstance(expression.func, ast.Name) else ""
        if name in _BUILT_IN:
            return expressions.call(expression)
        given: Sequence[KernelValue] = [
            self._place(each)[0] if name in (*_ATOMIC_NAMES, "at") and not i else expressions.integer(each)
            for i, each in enumerate(expression.args)
        ]
        if name == "at":
            return given[0]
        if name in _ATOMIC_NAMES:
            self._to.include({"atomic": _ATOMIC})
        if name in self._outside:
            self._to.include({name: f"declare i64 @{name}({', '.join(['i64'] * len(given))})"})
        known = name in self._outside or name in self._functions or name in _ATOMIC_NAMES
        callee = f"@{name}" if known else self._pointer(expressions.integer(expression.func))
        return self._to.get(INT, f"call i64 {callee}({', '.join(f'i64 {each.text}' for each in given)})")
