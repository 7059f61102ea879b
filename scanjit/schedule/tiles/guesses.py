"""Choices that are branches, because a loop over time would wait long for their conditions.

In `w + where(y * (x @ w) <= 0, y, 0) * x`, each step waits for the sum of the step before. If the choice is a branch, a
processor guesses which way it goes and begins with the next step. Only if the guess is wrong, it waits, and begins
anew. What is not chosen is not computed either.

Whether guesses are mostly right depends on the data. So a nest with time has its steps in several forms: with a branch
for each choice, with branches for conditions of carries alone, and without branches. It takes the form that was fastest
in the last stretches of steps. `codegen.decisions` writes those with branches.

In a loop of several nests, which has its steps once, choices are branches only where guesses are often right: if one of
the two values is nothing, as in a step that changes nothing, or a term that is 0. Two other values, such as 1 and -1,
come about equally often, and guesses are wrong. So they are if a step has several conditions: one of the guesses is
wrong in most steps.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from scanjit.kinds import kind_of
from scanjit.ops.elementwise import GREATER, LESS, MAXIMUM, MINIMUM, WHERE
from scanjit.ops.promotion import CAST
from scanjit.records import replace
from scanjit.schedule.nests import (
    Apply,
    Buffer,
    Literal,
    Load,
    Nest,
    Reduce,
    Register,
    TimeLoop,
    Value,
    loops_of,
    walk_values,
)
from scanjit.target import Target
from scanjit.walks import top_down

MOST = 12
"""A step with more choices than this is written once: its branches would be long, and some of the guesses wrong."""
LONGEST = 200
"""So is one of more values than this."""


def condition_of(value: Value) -> Value | None:
    """The condition of a choice between floats: of `where`, or a truth value that becomes 0.0 or 1.0. None for other
    values."""
    if not isinstance(value, Apply) or not kind_of(value.dtype).floating:
        return None
    if value.op is WHERE or (value.op is CAST and kind_of(value.args[0].dtype).is_mask):
        return value.args[0]
    return None


def in_forms(nest: Nest, target: Target) -> Nest:
    """A nest with time, and the choices that are branches in one of the forms of its steps. There are none if it has
    one form, as no step waits for a choice. A bound of an integer that is carried is such a choice."""
    if nest.time is None or nest.space or nest.lanewise is not None or nest.until is not None:
        return nest
    if not target.is_x86:  # others have no such clock
        return nest
    chosen = nest.rebuilt(values={value: _as_choice(value) for value in walk_values(nest.updates) if _is_bound(value)})
    found = tuple(value for value in chosen.values if _is_choice(value) and _varies(value))
    if len(found) > MOST or len(chosen.values) > LONGEST:
        return nest
    needed = set(walk_values(chosen.updates))
    waiting = any(value in needed and _waits(value.operands[0]) for value in found)
    return replace(chosen, guessed=found) if waiting else nest


def _is_bound(value: Value) -> bool:
    """Whether a value is an integer that waits, or a number if it is beyond that."""
    whole = isinstance(value, Apply) and value.op in (MAXIMUM, MINIMUM) and kind_of(value.dtype).integral
    return whole and any(isinstance(operand, Literal) for operand in value.operands) and _waits(value)


def _as_choice(value: Value) -> Value:
    """A bound as a choice."""
    assert isinstance(value, Apply)
    larger = Apply(np.dtype("bool"), GREATER if value.op is MAXIMUM else LESS, value.args, {})
    return Apply(value.dtype, WHERE, (larger, *value.args), {})


def _is_choice(value: Value) -> bool:
    return (isinstance(value, Apply) and value.op is WHERE) or condition_of(value) is not None


def _waits(condition: Value) -> bool:
    """Whether a condition depends on a register."""
    return any(isinstance(part, Register) for part in walk_values([condition]))


def _varies(value: Value) -> bool:
    """Whether a value depends on the step."""
    return any(isinstance(part, Register) or loops_of(part) for part in walk_values([value]))


def _may_be_0(choice: Value) -> bool:
    """Whether one of the values to choose from is 0."""
    return len(choice.operands) == 1 or any(isinstance(arg, Literal) and arg.number == 0 for arg in choice.operands)


def with_guesses(loop: TimeLoop) -> TimeLoop:
    """A loop in whose nests some choices are branches: those that are the same at all points of a nest, and wait for a
    sum (or another reduction) of what earlier steps stored."""
    nests = [statement for statement in loop.suite if isinstance(statement, Nest)]
    reducing = [nest for nest in nests if any(isinstance(value, Reduce) for value in nest.values)]
    if not reducing:
        return loop
    reads: dict[Buffer, set[Buffer]] = {}
    for nest in nests:
        loaded = _loaded(nest.roots)
        for store in nest.stores:
            reads.setdefault(store.access.buffer, set()).update(loaded)
    sums = {store.access.buffer for nest in reducing for store in nest.stores}
    suite = [
        replace(each, guessed=_waiting(each, sums, reads)) if isinstance(each, Nest) else each for each in loop.suite
    ]
    return replace(loop, suite=tuple(suite))


def _loaded(values: Iterable[Value]) -> set[Buffer]:
    return {access.buffer for value in walk_values(list(values)) for access in value.accesses}


def _waiting(nest: Nest, sums: set[Buffer], reads: Mapping[Buffer, set[Buffer]]) -> tuple[Value, ...]:
    """The choices of a nest that wait for a reduction, if all have the same condition; else none."""
    if nest.time is not None:
        return nest.guessed
    found = []
    for value in nest.values:
        condition = condition_of(value)
        if condition is None or loops_of(condition):
            continue
        others = [arg for arg in value.operands if arg is not condition]
        if not _is_late([condition], sums) or _is_late(others, sums):
            continue
        waiting = {store.access.buffer for store in nest.stores if value in walk_values([store.value])}
        same = any(isinstance(arg, Load) and arg.access.buffer in waiting for arg in others)
        needed = top_down(_loaded([condition]), lambda buffer: reads.get(buffer, ()))
        if (same or _may_be_0(value)) and not waiting.isdisjoint(needed):
            found.append(value)
    return tuple(found) if len(set(map(condition_of, found))) == 1 else ()


def _is_late(values: Iterable[Value], sums: set[Buffer]) -> bool:
    """Whether values are computed from a reduction."""
    parts = walk_values(list(values))
    return any(isinstance(part, Reduce) for part in parts) or not _loaded(parts).isdisjoint(sums)
