"""The data that a call needs of a stage, besides the addresses of its kernels: numbers and dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scanjit.records import record
from scanjit.runtime.table import EntryTable
from scanjit.schedule.nests import LapackCall, Program, jobs_of
from scanjit.schedule.threads.sharing import StatementCosts, statement_costs
from scanjit.schedule.threads.split import Piece
from scanjit.types import Dimension

if TYPE_CHECKING:
    # the front end: who finds a recipe in the cache need not wait for it
    from scanjit.codegen.generate import Generated


@record
class Layout:
    """What is the same in all calls.

    Attributes
    ----------
    table : what stands where in the table that generated code reads.
    results : where each result lies: the number of a buffer for results, the offset there, and the shape.
    costs : the costs of each statement, which decide how threads share it.
    pieces : how nests are computed a piece at a time.
    kept_from : the arguments that statements that run once read: the numbers of shared variables' values.
    kept_sizes : what the results of these statements depend on, beside the values that they read.
    has_lapack : whether LAPACK is called.
    near_bytes : how large the second-level cache of a core is.
    """

    table: EntryTable
    results: list[tuple[int, Dimension, tuple[Dimension, ...]]]
    costs: tuple[StatementCosts, ...]
    pieces: list[Piece]
    kept_from: list[int]
    kept_sizes: list[Dimension]
    has_lapack: bool
    near_bytes: int

    @classmethod
    def of(cls, program: Program, code: Generated) -> Layout:
        """The layout of a program, and of the code that was generated from it."""
        costs = statement_costs(program)
        table = EntryTable.of(program, code, costs)
        results = [(table.out_buffers.index(ref.buffer), ref.offset, ref.shape) for ref in program.outputs]
        has_lapack = any(isinstance(job, LapackCall) for job in jobs_of(program.suite))
        read = {buffer for statement in program.once for buffer, _, writes in statement.all_refs() if not writes}
        kept_from = [i for i, buffer in enumerate(program.inputs) if buffer in read]
        near_bytes = program.target.level2_bytes
        return cls(table, results, costs, code.pieces, kept_from, code.kept_sizes, has_lapack, near_bytes)
