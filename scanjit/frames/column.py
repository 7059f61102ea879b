"""`scan`: a column that is computed row by row from the values and from a state of the row's group."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from scanjit import errors
from scanjit.batching import vmap
from scanjit.config import config
from scanjit.contents import captured
from scanjit.frames.rows import SeriesRows, check_columns, named, numbers, opened, rows_of
from scanjit.frames.series import series_ids, with_columns
from scanjit.ir import Node
from scanjit.kinds import holds_numbers
from scanjit.loops import scan as loop
from scanjit.loops.step import check_takes
from scanjit.loops.structure import function_location
from scanjit.runtime.jit import Jitted, jit
from scanjit.tensor import arange, as_tensor, where
from scanjit.tensor.looping import check_callable


def scan(
    step: Callable[..., Any],
    frame: Any,
    values: str | Sequence[str],
    outputs: Mapping[str, Any],
    *,
    id: str | Sequence[str] = "unique_id",
    time: str | None = "ds",
    states: MutableMapping[Any, dict[str, Any]] | None = None,
) -> Any:
    """Columns that are computed row by row, with a state for each group.

    Parameters
    ----------
    step : callable
        `step(*values, *states)` of symbols: the numbers of one row, and what the step before in this group returned.
        It returns one symbol an output, in their order.
    frame : DataFrame
        Of pandas or polars, or another one that narwhals knows.
    values : str or sequence of str
        The columns that the step reads. Missing values are NaN; integers stay integers where none is missing.
    outputs : mapping
        The names of the new columns, and their states before the first row of a group. None for one that is no state:
        the next step does not get it. A state that is an array is carried, and is no column.
    id : str or sequence of str
        The column that says to which group a row belongs; or some.
    time : str, optional
        The column by which each group is sorted. None if rows are in order as they stand.
    states : dict, optional
        By id (a tuple for several columns), the state of each group after its last row, by the names of outputs. Groups
        go on from there, and it is changed: give the same dictionary with each chunk of a frame, in the order of time,
        and the results are those for the whole frame, to the last bit.

    Returns
    -------
    DataFrame
        The frame, in its order and with its index, with the new columns.

    Raises
    ------
    ArgumentError
        If an id or a time is missing, or a group has two rows for one time.

    Examples
    --------
    Balances of cards: a purchase above the limit is refused.

    >>> import pandas as pd, scanjit as sj
    >>> def buy(amount, balance):
    ...     accepted = balance + amount <= 100
    ...     return sj.where(accepted, balance + amount, balance), accepted
    >>> bought = pd.DataFrame({"card": ["a", "b", "a", "a"], "amount": [60.0, 30.0, 50.0, 10.0]})
    >>> states = {}
    >>> sj.frames.scan(
    ...     buy, bought, "amount", {"balance": 0.0, "accepted": None}, id="card", time=None, states=states
    ... )
      card  amount  balance  accepted
    0    a    60.0     60.0      True
    1    b    30.0     30.0      True
    2    a    50.0     60.0     False
    3    a    10.0     70.0      True
    >>> float(states["a"]["balance"])
    70.0
    """
    given = opened(frame)
    ids, names = named(id, "id"), named(values, "values")
    _check(step, outputs, states)
    check_columns(given, names)
    rows = rows_of(given, ids, time)
    columns = [numbers(given, name) for name in names]
    groups = series_ids(given, ids, rows)
    known: Mapping[Any, dict[str, Any]] = {} if states is None else states
    begin = {name: _states(name, first, groups, known, columns) for name, first in outputs.items() if first is not None}
    program = _program(step, captured(step), tuple((name, name in begin) for name in outputs))
    found, ends = _run(program, rows, columns, list(begin.values()))
    shown = {name: array for name, array in zip(outputs, found, strict=True) if _is_column(name, array, begin)}
    result = with_columns(given, shown)
    if states is not None:
        for i, group in enumerate(groups):
            states[group] = {name: end[i] for name, end in zip(begin, ends, strict=True)}
    return result


def _check(step: Any, outputs: Any, states: Any) -> None:
    check_callable(step)
    if not isinstance(outputs, Mapping) or not outputs:
        raise errors.ArgumentError(
            "outputs are the names of new columns, and their first states", got=repr(outputs), expected="{'name': 0.0}"
        )
    if not (states is None or isinstance(states, MutableMapping)):
        raise errors.ArgumentError("states must be a dict, which is changed", got=type(states).__name__)


def _states(
    name: str, first: Any, groups: Sequence[Any], known: Mapping[Any, dict[str, Any]], columns: Sequence[np.ndarray]
) -> np.ndarray:
    """The states of all groups, for one output, before their first row here."""
    floats = [column.dtype for column in columns if np.issubdtype(column.dtype, np.floating)] or [
        np.dtype(config.floatX)
    ]
    start = np.asarray(first, np.result_type(*floats) if isinstance(first, float) else None)
    _check_state(name, start, start.shape)
    carried = [_state(name, known[group], group, start.shape) if group in known else start for group in groups]
    return np.stack(carried) if carried else np.empty((0, *start.shape), start.dtype)


def _state(name: str, states: Any, group: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The state of an output, as an earlier chunk left it."""
    if not isinstance(states, Mapping) or name not in states:
        raise errors.ArgumentError(
            f"states has no {name!r} for the group {group!r}",
            got=repr(states),
            fix="begin with an empty dict, and give the same one for each chunk",
        )
    state = np.asarray(states[name])
    _check_state(name, state, shape)
    return state


def _check_state(name: str, state: np.ndarray, shape: tuple[int, ...]) -> None:
    if not holds_numbers(state.dtype) or state.shape != shape:
        raise errors.ArgumentError(
            f"a state of the output {name!r} is no number, or has another shape than its first one",
            got=f"{state.dtype} of shape {state.shape}",
            expected=f"numbers of shape {shape}",
        )


def _run(
    program: Jitted[..., Any], rows: SeriesRows, columns: Sequence[np.ndarray], begin: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Each output, by the rows of the frame; and the states of the groups after their last row."""
    found: list[np.ndarray] = []
    ends = [state.copy() for state in begin]
    for groups, steps in _similar(rows.lengths):
        places = rows.places(groups, steps).T
        lengths = rows.lengths[groups]
        outputs, lasts = program(tuple(column[places] for column in columns), lengths, tuple(s[groups] for s in begin))
        found = found or [np.empty((len(rows.order), *output.shape[2:]), output.dtype) for output in outputs]
        there = np.arange(steps)[:, None] < lengths
        for whole, output in zip(found, outputs, strict=True):
            whole[places[there]] = output[there]
        for whole, last in zip(ends, lasts, strict=True):
            whole[groups] = last
    return found, ends


def _similar(lengths: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Groups with similar numbers of rows, so that few steps are padded; and how many steps they take together.

    There are always at least two groups and two steps, because code that is compiled for one rounds differently.
    """
    digits = np.frexp(lengths)[1]
    for size in np.unique(digits) if len(digits) else [0]:
        groups = np.flatnonzero(digits == size)
        yield np.resize(groups, 2) if len(groups) == 1 else groups, max(2, int(lengths[groups].max(initial=0)))


@functools.lru_cache(maxsize=64)
def _program(step: Callable[..., Any], content: str, outputs: tuple[tuple[str, bool], ...]) -> Jitted[..., Any]:
    """The compiled loop over the rows of groups side by side. Arrays of values are (steps, groups). `outputs` has the
    names of outputs, and whether they are states."""

    def of_all(values: tuple[Node, ...], lengths: Node, begin: tuple[Node, ...]) -> Any:
        states = iter(begin)
        found = loop(
            lambda now, *given: vmap(functools.partial(_one, step, outputs, len(values), now))(lengths, *given),
            sequences=[arange(values[0].shape[0]), *values],
            outputs_info=[next(states) if fed else None for _, fed in outputs],
        )
        found = found if isinstance(found, tuple | list) else [found]
        return list(found), [part[-1] for part, (_, fed) in zip(found, outputs, strict=True) if fed]

    return jit(of_all)


def _one(
    step: Callable[..., Any], outputs: Sequence[tuple[str, bool]], count: int, now: Node, length: Node, *given: Node
) -> tuple[Node, ...]:
    """What a step gives for one group. After the last row of the group, its states stay."""
    check_takes(
        step,
        given,
        "the step does not take the values and the states",
        got=f"{count} values and {len(given) - count} states",
        fix="",
        where=function_location(step),
    )
    found = step(*given)
    parts = list(found) if isinstance(found, tuple | list) else [found]
    if len(parts) != len(outputs):
        raise errors.ArgumentError(
            "the step returns another number of results than there are outputs", got=len(parts), expected=len(outputs)
        )
    states, kept = iter(given[count:]), []
    for value, (name, fed) in zip(parts, outputs, strict=True):
        part = as_tensor(value)
        if fed:
            state = next(states)
            part = where(now < length, value, state)
            if part.dtype != state.dtype:
                raise errors.DtypeError(
                    f"the state of the output {name!r} begins with another dtype than the step returns",
                    got=f"{part.dtype} from the step",
                    expected=f"{state.dtype}, as in the beginning",
                    fix="begin with 0.0 for floats, or return sj.cast(value, ...)",
                )
        kept.append(part)
    return tuple(kept)


def _is_column(name: str, array: np.ndarray, states: Mapping[str, np.ndarray]) -> bool:
    """Whether an output is a column: a state that is an array is none."""
    if array.ndim > 1 and name not in states:
        raise errors.ArgumentError(
            f"the output {name!r} cannot be a column: a column has one number for each row",
            got=f"an array of shape {array.shape[1:]} for each row",
        )
    return array.ndim == 1
