"""The code of a program in one of its forms, ready to be called."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from scanjit.codegen import Generated
from scanjit.runtime.table import Table
from scanjit.schedule import Program


@dataclass(frozen=True, eq=False)
class Form:
    """The code in which some nests compute one row, and the others several at a time.

    Attributes
    ----------
    code, table : what was generated, and which entry of its table is what.
    arguments : the entries of arguments that are no shared variables, each with the number of the argument.
    kernels : the compiled functions, the main one last; none where the code is not compiled.
    main : the address of the main function.
    """

    code: Generated
    table: Table
    arguments: list[tuple[int, int]]
    kernels: Sequence[Any]
    main: int

    @classmethod
    def of(cls, program: Program, code: Generated, kernels: Sequence[Any], shared: Collection[int]) -> Form:
        """The form that has this code. The arguments with these numbers are `shared` variables."""
        table = Table.of(program, code)
        arguments = [(entry, i) for entry, i in table.inputs if i not in shared]
        return cls(code, table, arguments, kernels, kernels[-1].address if kernels else 0)


def compiled(code: Generated) -> list[Any]:
    """The kernels of all functions, the main one last."""
    from scanjit.runtime.kernels import kernels

    arity = {source.name: source.arity for source in code.functions}
    return kernels([(f.text, f.name, {name: arity[name] for name in f.calls}) for f in code.functions])
