"""From a scheduled program to source."""

from scanjit.codegen.common import Common, StatementPlace
from scanjit.codegen.source import Source
from scanjit.codegen.statements import StatementWriter
from scanjit.records import record
from scanjit.schedule.nests import Buffer, Job, Program
from scanjit.schedule.threads.split import Piece
from scanjit.types import Dimension


@record(eq=True)
class Generated:
    """The source of a program.

    Attributes
    ----------
    functions : the functions, each behind those that it calls. The last one is the main function.
    table : what the caller puts into the table: addresses of buffers, and values of dimensions. An entry is there once
        for each function that reads it.
    timed : the statements whose time is taken. The buffer `PROFILE` gets two numbers for each, ticks and runs.
    pieces : how nests run a piece at a time. Their `turns` are in `table`.
    kept_sizes : the sizes that the results of statements that run once depend on.
    """

    functions: list[Source]
    table: tuple[Buffer | Dimension, ...]
    timed: list[Job]
    pieces: list[Piece]
    kept_sizes: list[Dimension]

    @property
    def main(self) -> Source:
        """The function to call, with the address of the table."""
        return self.functions[-1]


def generate(program: Program, label: str = "main", profile: bool = False) -> Generated:
    """Generate the source of a program. With `profile`, the code takes the time of each statement. Statements that run
    once are left out in calls in which the entry `PREPARED` of the table is not 0."""
    common = Common(program, [] if profile else None)
    writer = StatementWriter(common)
    writer.write(program.suite, StatementPlace())
    main = writer.source(label, StatementPlace())
    functions = [*common.functions.values(), main]
    return Generated(functions, main.table, common.timed or [], common.pieces, list(common.kept_sizes))
