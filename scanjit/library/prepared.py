"""Computes, when the library is made, the values that depend on constants alone, such as packed weights."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np

from scanjit.codegen.generate import generate
from scanjit.records import replace
from scanjit.runtime.emulation import emulate
from scanjit.runtime.front import MadeStage
from scanjit.runtime.layout import Layout
from scanjit.runtime.sized import sized
from scanjit.schedule.nests import Buffer, Lifetime, Program, Ref
from scanjit.schedule.threads.sharing import sharing
from scanjit.schedule.threads.teams import ALONE
from scanjit.types import Atom, Dimension, Numbers

MOST_BYTES = 2**26
"""Results of more bytes are computed in each call instead: to emulate their code would take minutes."""


def prepared(made: MadeStage, fixed: Mapping[Atom, int], values: Mapping[int, np.ndarray]) -> Layout:
    """The layout of a program, where the results of the statements that run once are constants. It is the program's own
    layout if these results depend on a size of the call, or have more than `MOST_BYTES`.

    Parameters
    ----------
    made : the program, and its code.
    fixed : the sizes that are the same in all calls.
    values : the arguments that are the same in all calls, by their positions.
    """
    program, layout = made.program, made.layout
    table = layout.table
    number = Numbers(fixed)
    try:
        many = sum(number(life.nbytes) for life in table.lives[: table.lasting])
        for dim in layout.kept_sizes:
            number(dim)
    except KeyError:
        return layout
    if not table.lasting or many > MOST_BYTES:
        return layout
    results = _results(program, fixed, values)
    kept = [life.buffer for life in table.lives[: table.lasting]]
    constants = [(i, results[kept[which]]) for i, which in table.temporaries if which < table.lasting]
    read = {buffer for s in program.suite if s not in program.once for buffer, writes in s.touched if not writes}
    unread = {i for i, which in table.inputs if program.inputs[which] not in read and which in values}
    numbers: list[tuple[Dimension, list[int]]] = [(1, table.ready), (0, sorted(unread))]
    changed = replace(
        table,
        lives=table.lives[table.lasting :],
        temporaries=[(i, which - table.lasting) for i, which in table.temporaries if which >= table.lasting],
        lasting=0,
        constants=[*table.constants, *constants],
        inputs=[(i, which) for i, which in table.inputs if i not in unread],
        numbers=[*table.numbers, *numbers],
        ready=[],
    )
    return replace(layout, table=changed)


def _results(program: Program, fixed: Mapping[Atom, int], values: Mapping[int, np.ndarray]) -> dict[Buffer, np.ndarray]:
    """The values of the buffers that the statements that run once leave for all calls. Their code is emulated in
    Python, because it may be for another machine."""
    inside = {buffer for s in program.once for buffer, _ in s.touched if buffer.kind == "temporary"}
    own = [buffer for buffer in inside if buffer not in program.lasting]
    first = replace(
        program,
        suite=program.once,
        outputs=tuple(Ref.whole(buffer) for buffer in program.lasting),
        once=(),
        lasting=(),
        lifetimes=tuple(Lifetime(buffer, 0, sys.maxsize) for buffer in own),
    )
    code = generate(first, "once")
    layout = Layout.of(first, code)
    number = Numbers(fixed)
    known = sized(layout, number, sharing(layout.costs, number, ALONE, layout.near_bytes))
    made = [np.zeros_like(make()) for make in known.buffers]
    none = np.zeros(1, np.int8)
    emulate(code, layout.table, known, [values.get(i, none) for i in range(len(program.inputs))], made)
    return dict(zip(layout.table.out_buffers, made, strict=True))
