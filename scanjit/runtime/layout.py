"""The data that a call needs about a stage, besides the addresses of its kernels: numbers and dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scanjit.ops.guest import PREFIX
from scanjit.records import record
from scanjit.runtime.table import EntryTable
from scanjit.schedule.nests import LapackCall, Program, jobs_of
from scanjit.schedule.threads.sharing import StatementCosts, statement_costs
from scanjit.schedule.threads.split import Piece
from scanjit.types import Dimension

if TYPE_CHECKING:
    # the front end, which is not imported at run time: a recipe from the cache does not need it
    from scanjit.codegen.generate import Generated


@record
class Layout:
    """What is the same in all calls.

    Attributes
    ----------
    table : what each entry of the table that generated code reads stands for.
    results : where each result lies: the number of a buffer for results, the offset there, and the shape.
    costs : the costs of each statement, which decide how threads share it.
    pieces : how nests are computed a piece at a time.
    kept_from : the arguments that statements that run once read: the numbers of shared variables.
    kept_sizes : the sizes that the results of these statements depend on.
    has_lapack : whether LAPACK is called.
    has_guests : whether functions are called that users compiled.
    near_bytes : the size of a core's second-level cache.
    """

    table: EntryTable
    results: list[tuple[int, Dimension, tuple[Dimension, ...]]]
    costs: tuple[StatementCosts, ...]
    pieces: list[Piece]
    kept_from: list[int]
    kept_sizes: list[Dimension]
    has_lapack: bool
    has_guests: bool
    near_bytes: int

    @classmethod
    def of(cls, program: Program, code: Generated) -> Layout:
        """The layout of a program, and of the code that was generated from it."""
        costs = statement_costs(program)
        table = EntryTable.of(program, code, costs)
        results = [(table.out_buffers.index(ref.buffer), ref.offset, ref.shape) for ref in program.outputs]
        has_lapack = any(isinstance(job, LapackCall) for job in jobs_of(program.suite))
        has_guests = any(PREFIX in function.text for function in code.functions)
        read = {buffer for statement in program.once for buffer, writes in statement.touched if not writes}
        kept_from = [i for i, buffer in enumerate(program.inputs) if buffer in read]
        near_bytes = program.target.level2_bytes
        return cls(table, results, costs, code.pieces, kept_from, code.kept_sizes, has_lapack, has_guests, near_bytes)
