"""`batch`: the series of a long frame side by side, and results about them as a frame again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scanjit import errors
from scanjit.config import config
from scanjit.frames.rows import SeriesRows, check_columns, named, narwhals, numbers, opened, rows_of
from scanjit.optimize import Result

SHOWN = ("fun", "nit", "nfev", "status", "message")
"""The fields of a result of `minimize` that a frame shows, besides the variables."""


def batch(
    frame: Any,
    id: str | Sequence[str] = "unique_id",
    time: str | None = "ds",
    values: str | Sequence[str] = ("y",),
    *,
    pad: float = np.nan,
) -> Batch:
    """The series of a long frame as padded arrays.

    Parameters
    ----------
    frame : DataFrame
        Of pandas or polars, or another one that narwhals knows: a row for each id and time, in any order.
    id : str or sequence of str
        The column that says to which series a row belongs; or some, such as `["shop", "product"]`.
    time : str, optional
        The column by which each series is sorted. None if rows are in order as they stand.
    values : str or sequence of str
        The columns of numbers.
    pad : float
        What stands after the end of a series. By default NaN: `kalman_filter`, `arma` and `ets` read it as missing.
        Columns of integers become floats then, of `config.floatX`. With a whole number they stay integers.

    Returns
    -------
    Batch
        Arrays with a row a series, by the names of their columns. Series stand in the order in which they first appear
        in the frame. Missing values are NaN.

    Raises
    ------
    ArgumentError
        If an id or a time is missing, or a series has two rows for one time.

    Examples
    --------
    >>> import numpy as np, pandas as pd, scanjit as sj
    >>> frame = pd.DataFrame({"unique_id": ["a", "a", "b"], "ds": [1, 2, 1], "y": [1.0, 3.0, 5.0]})
    >>> series = sj.frames.batch(frame)
    >>> series["y"], series.lengths
    (array([[ 1.,  3.],
           [ 5., nan]]), array([2, 1]))
    >>> series.frame({"mean": np.nanmean(series["y"], axis=1)})
      unique_id  mean
    0         a   2.0
    1         b   5.0
    >>> series.frame({"double": 2 * series["y"]})
      unique_id  ds  double
    0         a   1     2.0
    1         a   2     6.0
    2         b   1    10.0
    """
    given = opened(frame)
    ids, columns = named(id, "id"), named(values, "values")
    if not isinstance(pad, int | float | np.number):
        raise errors.ArgumentError("pad must be a number", got=repr(pad))
    check_columns(given, columns)
    rows = rows_of(given, ids, time)
    keys = given.select([*ids, *([] if time is None else [time])])
    return Batch(keys, ids, rows, {name: _padded(name, numbers(given, name), rows, pad) for name in columns})


class Batch:
    """The series of a frame, made by `batch`. `batch["y"]` is the array of the column y: (series, steps).

    Parameters
    ----------
    keys : DataFrame
        The columns of ids and times, as narwhals' frame.
    id_columns : sequence of str
        Which of them are ids.
    rows : Rows
        Which rows of the frame each series has.
    arrays : mapping
        The padded arrays.

    Attributes
    ----------
    ids : list
        The id of each series; a tuple where there are several columns of ids.
    lengths : ndarray of int
        How many steps each series has.
    mask : ndarray of bool
        (series, steps): True for the steps of a series, False after its end.

    Examples
    --------
    >>> import pandas as pd, scanjit as sj
    >>> frame = pd.DataFrame({"shop": ["a", "a", "b"], "day": [1, 2, 1], "sold": [1, 3, 5]})
    >>> sj.frames.batch(frame, "shop", "day", ["sold"])
    Batch of 2 series of up to 2 steps: sold
    """

    def __init__(
        self, keys: Any, id_columns: Sequence[str], rows: SeriesRows, arrays: Mapping[str, np.ndarray]
    ) -> None:
        self._keys, self._id_columns, self._rows, self._arrays = keys, list(id_columns), rows, dict(arrays)
        self.lengths = rows.lengths
        self.ids = series_ids(keys, self._id_columns, rows)
        self.mask = np.arange(_longest(rows)) < self.lengths[:, None]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            raise errors.ArgumentError(
                "the series have no column of this name", got=repr(name), expected=", ".join(self._arrays)
            )
        return self._arrays[name]

    def __repr__(self) -> str:
        return f"Batch of {len(self)} series of up to {self.mask.shape[1]} steps: {', '.join(self._arrays)}"

    def frame(self, results: Any, names: Sequence[str] | None = None) -> Any:
        """Results as a frame of the kind that was given.

        Parameters
        ----------
        results : mapping or Result
            The names of columns, and arrays. Arrays of shape (series,) make a frame with a row a series. Arrays of
            shape (series, steps) make one with a row for each row of the frame that was given, in its order; a frame
            of pandas has its index again. Several names in a tuple share an array, whose last axis they are:
            `{("level", "trend"): states}`. A `Result` of `sj.optimize.minimize` shows its variables, `fun`, `nit`,
            `nfev`, `status` and `message`.
        names : sequence of str, optional
            The names of the variables of a `Result`; by default `x[0]`, `x[1]`, ...

        Returns
        -------
        DataFrame
            Ids (and times, where results are step by step), and a column for each name.

        Raises
        ------
        ArgumentError
            If an array has another shape, or some results are of series and others of steps.
        """
        columns = _columns(results, names)
        shapes = {name: array.shape for name, array in columns.items()}
        known = self.mask.shape[:1], self.mask.shape
        for name, shape in shapes.items():
            if shape not in known:
                raise errors.ArgumentError(
                    f"the result {name!r} has another shape",
                    got=shape,
                    expected=f"{known[0]}: one number a series, or {known[1]}: one a step",
                    fix="several numbers each have a tuple of names: {('a', 'b'): array}"
                    if shape[:-1] in known
                    else "",
                )
            if name in self._keys.columns:
                raise errors.ArgumentError(f"a result has the name of a column of the frame: {name!r}")
        if len(set(shapes.values())) > 1:
            raise errors.ArgumentError(
                "some results are of series, others of steps",
                got=", ".join(f"{name}: {shape}" for name, shape in shapes.items()),
                fix="make a frame of each",
            )
        if known[1] in shapes.values():
            return with_columns(self._keys, {name: self._flat(array) for name, array in columns.items()})
        one_each = narwhals().maybe_reset_index(self._keys[self._rows.firsts, self._id_columns])
        return with_columns(one_each, columns)

    def _flat(self, array: np.ndarray) -> np.ndarray:
        """An array of steps, by the rows of the frame."""
        flat = np.empty(len(self._keys), array.dtype)
        flat[self._rows.order] = array[self.mask]
        return flat


def with_columns(frame: Any, columns: Mapping[str, np.ndarray]) -> Any:
    """The user's kind of frame, with more columns."""
    nw = narwhals()
    made = []
    for name, array in columns.items():
        text = array.dtype == object
        given = array.tolist() if text else np.ascontiguousarray(array)
        made.append(nw.new_series(name, given, nw.String if text else None, backend=frame.implementation))
    return frame.with_columns(made).to_native()


def series_ids(frame: Any, ids: Sequence[str], rows: SeriesRows) -> list[Any]:
    """The id of each series."""
    found = frame[rows.firsts, list(ids)]
    return found[ids[0]].to_list() if len(ids) == 1 else found.rows()


def _longest(rows: SeriesRows) -> int:
    return int(rows.lengths.max(initial=0))


def _padded(name: str, column: np.ndarray, rows: SeriesRows, pad: float) -> np.ndarray:
    whole = not np.issubdtype(column.dtype, np.floating)
    dtype = np.dtype(config.floatX) if whole and np.isnan(pad) else column.dtype
    with np.errstate(all="ignore"):
        end = np.array(pad).astype(dtype)
    if whole and end != pad and not np.isnan(pad):
        raise errors.ArgumentError(
            f"pad does not fit the column {name!r}", got=repr(pad), expected=f"a number of {dtype}"
        )
    steps = _longest(rows)
    there = np.arange(steps) < rows.lengths[:, None]
    return np.where(there, column[rows.places(np.arange(len(rows.lengths)), steps)].astype(dtype), end)


def _columns(results: Any, names: Sequence[str] | None) -> dict[str, np.ndarray]:
    """Results, a column a name."""
    if isinstance(results, Result):
        count = results.x.shape[-1]
        names = [f"x[{i}]" for i in range(count)] if names is None else named(names, "names")
        results = {tuple(names): results.x} | {name: getattr(results, name) for name in SHOWN}
    elif names is not None:
        raise errors.ArgumentError("names are those of a Result of minimize", got=f"{names!r} for other results")
    if not isinstance(results, Mapping):
        raise errors.ArgumentError("results have names", got=type(results).__name__, expected="{'name': array}")
    columns: dict[str, np.ndarray] = {}
    for name, given in results.items():
        array, several = np.asarray(given), isinstance(name, tuple)
        if several and array.shape[-1:] != (len(name),):
            raise errors.ArgumentError(
                f"{len(name)} names share an array with another last axis",
                got=array.shape,
                expected=", ".join(map(str, name)),
            )
        for i, part in enumerate(name if several else [name]):
            if part in columns:
                raise errors.ArgumentError("two results have the same name", got=repr(part))
            columns[part] = array[..., i] if several else array
    return columns
