"""Which nests of a step threads compute one after the other, without a meeting in between.

These follow each other, are shared alike, and none touches the memory that another one writes. Examples are the
products of the gates of an LSTM.
"""

from collections.abc import Sequence

from scanjit.codegen.common import Common, StatementPlace
from scanjit.schedule.nests import Buffer, Nest, Statement


def without_meetings(statements: Sequence[Statement], common: Common, at: StatementPlace) -> list[list[Statement]]:
    """The statements, with nests of a step in one list if threads compute them without a meeting in between."""
    found: list[list[Statement]] = []
    for statement in statements:
        if found and at.counted and common.timed is None and _joins(statement, found[-1], common):
            found[-1].append(statement)
        else:
            found.append([statement])
    return found


def _joins(statement: Statement, others: Sequence[Statement], common: Common) -> bool:
    """Whether threads need not meet between these nests and the next one."""
    alike = [_shared_alike(each, common) for each in (statement, others[0])]
    if None in alike or alike[0] != alike[1]:
        return False
    touched = {(buffer, writes) for other in others for buffer, _, writes in other.refs()}
    own = {(buffer, writes) for buffer, _, writes in statement.refs()}
    return not any(
        (writes or wrote) and _in_one_place(buffer, other, common) for buffer, writes in own for other, wrote in touched
    )


def _in_one_place(a: Buffer, b: Buffer, common: Common) -> bool:
    """Whether two buffers may share memory: they are one, or two temporaries that are not in use at one time."""
    lives = common.program.lives
    return a is b or (a in lives and b in lives and (lives[a].last < lives[b].first or lives[b].last < lives[a].first))


def _shared_alike(statement: Statement, common: Common) -> object:
    """A key that is equal for nests which threads share alike; None for other statements, and for nests that threads
    share in another way."""
    program, tile = common.program, statement.tile if isinstance(statement, Nest) else None
    if not isinstance(statement, Nest) or tile is None or tile.split is None or statement.time is not None:
        return None
    if tile.rest or statement in program.once or statement in program.pieces:
        return None
    single = program.single.get(statement)
    of_one = None if single is None or single.tile is None or tile.rows is None else (tile.rows.size, single.tile.unit)
    rows = None if tile.own is None else (tile.own.size, tile.each)
    return tile.split.size, tile.unit, tile.split is tile.own, rows, of_one
