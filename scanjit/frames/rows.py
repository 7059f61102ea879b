"""The rows of each series in a long frame, in the order of time."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scanjit import errors


class SeriesRows(NamedTuple):
    """The rows of a frame, by series. Series are numbered as they first appear in the frame.

    `order` has the rows of the first series in the order of time, then those of the second one, and so on. `starts` and
    `lengths` say which part of it is a series'. `firsts` is the topmost row of each series in the frame."""

    order: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    firsts: np.ndarray

    def places(self, series: np.ndarray, steps: int) -> np.ndarray:
        """(series, steps): the row of each step. Steps after the end of a series have its last row."""
        within = np.minimum(np.arange(steps), self.lengths[series, None] - 1)
        return self.order[self.starts[series, None] + within]


def narwhals() -> Any:
    """The package that reads frames."""
    try:
        return importlib.import_module("narwhals.stable.v2")
    except ImportError as error:
        raise ImportError("frames are read with narwhals: pip install 'scanjit[frames]'") from error


def opened(frame: Any) -> Any:
    """A frame, as narwhals' own."""
    try:
        return narwhals().from_native(frame, eager_only=True)
    except narwhals().exceptions.DuplicateError as error:
        raise errors.ArgumentError("two columns of the frame have the same name", got=str(error)) from None
    except TypeError:
        raise errors.ArgumentError(
            "this is no frame whose rows are in memory",
            got=f"a {type(frame).__module__}.{type(frame).__name__}",
            expected="a DataFrame of pandas or polars, or another one that narwhals knows",
            fix="read it into memory: frame.collect()" if hasattr(frame, "collect") else "",
        ) from None


def named(names: Any, what: str) -> list[str]:
    """One name or several, as a list. `what` is the argument, for the error."""
    found = [names] if isinstance(names, str) else list(names) if np.iterable(names) else []
    if not found:
        raise errors.ArgumentError(f"{what} must be the name of a column, or several", got=repr(names))
    return found


def check_columns(frame: Any, names: Sequence[str]) -> None:
    """Raise an error if the frame does not have these columns."""
    for name in names:
        if name not in frame.columns:
            index = narwhals().maybe_get_index(frame)
            raise errors.ArgumentError(
                f"the frame has no column {name!r}",
                expected=", ".join(map(str, frame.columns)),
                fix="make its index a column: frame.reset_index()" if name in getattr(index, "names", ()) else "",
            )


def rows_of(frame: Any, ids: Sequence[str], time: str | None) -> SeriesRows:
    """The rows of each series. Without the name of a time, they are in order as they stand."""
    keys = [*ids, *([] if time is None else [time])]
    check_columns(frame, keys)
    if len(set(keys)) < len(keys):
        raise errors.ArgumentError("id and time name a column twice", got=", ".join(map(str, keys)))
    for name in ids:
        _check_present(frame, name, "an id")
    firsts, series = np.unique(_topmost(frame, ids), return_inverse=True)
    order = np.argsort(series, kind="stable") if time is None else _by_time(frame, ids, time, series)
    lengths = np.bincount(series, minlength=len(firsts))
    return SeriesRows(order, np.cumsum(lengths) - lengths, lengths, firsts)


def _topmost(frame: Any, ids: Sequence[str]) -> np.ndarray:
    """For each row, the topmost row with the same id."""
    columns = [narwhals().col(name).alias(f"id {i}") for i, name in enumerate(ids)]
    numbered = frame.select(columns).with_row_index("row")
    return numbered.select(narwhals().col("row").min().over([f"id {i}" for i in range(len(ids))]))["row"].to_numpy()


def _by_time(frame: Any, ids: Sequence[str], time: str, series: np.ndarray) -> np.ndarray:
    """The rows, by series and time."""
    nw = narwhals()
    if frame[time].dtype in (nw.String, nw.Categorical, nw.Object):
        raise errors.ArgumentError(
            f"the times in {time!r} have no order",
            got=f"{frame[time].dtype}",
            expected="dates, times, numbers, or categories with an order",
            fix="make times of text: pandas.to_datetime(...), or .str.to_datetime()",
        )
    _check_present(frame, time, "a time")
    by_time = frame.select(nw.col(time).alias("time")).with_row_index("row").sort("time", "row")["row"].to_numpy()
    order = by_time[np.argsort(series[by_time], kind="stable")]
    times = frame[time][order]
    again = (times[1:].to_numpy() == times[:-1].to_numpy()) & (series[order[1:]] == series[order[:-1]])
    if again.any():
        row = int(order[1:][again][0])
        raise errors.ArgumentError(
            f"a series has two rows for one time, of which row {row} of the frame is the second",
            got=", ".join(f"{name}: {frame[name][row]}" for name in (*ids, time)),
            expected="each id and time once",
            fix="take one of each: drop_duplicates(...) or group_by(...); time=None takes rows as they stand",
        )
    return order


def _check_present(frame: Any, name: str, what: str) -> None:
    column = frame[name]
    missing = column.is_null()
    if column.dtype.is_float():
        missing = missing | column.is_nan().fill_null(True)
    if missing.any():
        raise errors.ArgumentError(
            f"{what} is missing in the column {name!r}",
            got=f"{missing.sum()} of {len(column)} rows, row {missing.to_numpy().argmax()} the first",
            fix="leave out these rows, or fill them in",
        )


def numbers(frame: Any, name: str) -> np.ndarray:
    """A column of numbers. Where entries are missing they are NaN, and the column is one of floats."""
    nw, column = narwhals(), frame[name]
    dtype = column.dtype
    if not (dtype.is_numeric() or dtype == nw.Boolean):
        raise errors.ArgumentError(
            f"the column {name!r} has no numbers", got=f"{dtype}", expected="numbers, or True and False"
        )
    if dtype.is_decimal() or (column.null_count() and not dtype.is_float()):
        column = column.cast(nw.Float64)
    return np.ascontiguousarray(column.to_numpy())
