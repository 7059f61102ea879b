"""Numbers that functions of vectors read from memory, in kernels whose sums fill most registers.

LLVM would load each number into a register of its own. Of sixteen registers, the numbers of `tanh` leave none for its
values: it then loads them again for each vector, with one more instruction for each address, and puts some on the
stack. An instruction that reads a number from memory needs neither. Where a function is all that a loop computes, most
of its numbers stay in registers, and reading them from memory would often take longer.
"""

import functools

from llvmlite import ir

from scanjit.kinds import Kind

from .llvm_calls import I64
from .llvm_values import constant, opaque


class Body(ir.IRBuilder):
    """Writes the body of a function that reads numbers from memory: from a table of its own, a vector for each."""

    def __init__(self, function: ir.Function):
        super().__init__(function.append_basic_block("entry"))
        self._numbers: dict[str, ir.Value] = {}
        self._operands: set[ir.Instruction] = set()
        self._table = ir.GlobalVariable(function.module, ir.LiteralStructType([]), f"{function.name}.numbers")
        self._table.linkage, self._table.global_constant, self._table.align = "internal", True, 64

    def reads(self, kind: Kind, lanes: int) -> bool:
        """Whether the numbers of such a vector are read from memory: those of floats that fill a register."""
        fills = lanes * kind.bits == 8 * self._nbytes
        return fills and kind.floating and not kind.is_half

    def number(self, kind: Kind, lanes: int, number: float) -> ir.Value:
        """A vector of the table, with the number in all lanes."""
        known = constant(kind, lanes, number)
        self._numbers.setdefault(known.get_reference(), known)
        place = list(self._numbers).index(known.get_reference())
        address = self.add(self._start, I64(place * self._nbytes))
        pointer = self.inttoptr(address, known.type.as_pointer())
        found = self.load(pointer)
        found.align = self._nbytes
        found.set_metadata("invariant.load", self.module.add_metadata([]))
        self._operands |= {address, pointer, found}
        return found

    def end(self) -> set[ir.Instruction]:
        """Write the table. Returns the instructions that only read its numbers: they become operands of others."""
        numbers = list(self._numbers.values())
        form = ir.LiteralStructType([each.type for each in numbers])
        self._table.value_type, self._table.initializer = form, ir.Constant(form, numbers)
        return self._operands

    @property
    def _nbytes(self) -> int:
        return self.module.target.register_bytes

    @functools.cached_property
    def _start(self) -> ir.Value:
        """The address of the table, which LLVM does not know: it would know what lies there, too."""
        with self.goto_entry_block():
            return opaque(self, self.ptrtoint(self._table, I64))
