"""`minimize`: fit one problem, or thousands side by side."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from scanjit import errors
from scanjit.contents import captured
from scanjit.optimize.checks import box, checked_args, listed, variables
from scanjit.optimize.lbfgs import LBFGS
from scanjit.optimize.method import Box, Method, State, mapped
from scanjit.optimize.newton import GaussNewton, Newton
from scanjit.optimize.programs import Programs
from scanjit.optimize.result import RUNNING, SINGULAR, TOO_MANY, Result
from scanjit.optimize.trust import Trust
from scanjit.runtime import bars
from scanjit.runtime.jit import value_and_grad
from scanjit.tensor.variables import integer

METHODS: Mapping[str, Method] = {
    "newton": Newton(),
    "lbfgs": LBFGS(),
    "gauss-newton": GaussNewton(),
    "trust": Trust(),
}

SMALLEST = 16
"""A batch is made no smaller than this: problems that have ended fill it up, or copies of the last problem."""


FEWEST, GROUP_BYTES = 64, 1 << 19
"""A large batch is fitted in groups of problems whose data have this many bytes together, but of no fewer problems than
this."""
FIRST_STEPS = 4
"""`progress` is called after this many steps for the first time, and then several times a second."""


def minimize(
    loss: Callable[..., Any],
    start: Any,
    args: Sequence[Any] = (),
    *,
    method: str = "newton",
    batched: bool = False,
    common: Sequence[Any] = (),
    bounds: Any = None,
    tolerance: float | None = None,
    max_steps: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """The variables for which a loss is least: of one problem, or of many at once.

    Parameters
    ----------
    loss : callable
        `loss(x, *args, *common)` of symbols, for one problem: `x` is the vector of its variables, `args` are its data.
        It returns a scalar; for "gauss-newton" the vector whose half sum of squares is to be least. It is compiled
        once, and anew when numbers or arrays from outside that it uses have changed.
    start : array_like
        The first variables: a vector; with `batched=True` a matrix with one row a problem.
    args : sequence of array_like
        The data of a problem. With `batched=True`, each has a leading axis of problems. Series of different lengths are
        padded, and come with a mask or with their lengths.
    method : {"newton", "lbfgs", "gauss-newton", "trust"}
        "newton" computes the matrix of second derivatives, for up to some tens of variables. "lbfgs" computes gradients
        alone: cheaper steps, and more of them; for many variables, and where the loss is dear. "gauss-newton" is for
        sums of squares. "trust" multiplies second derivatives by vectors: for many variables, where "lbfgs" is slow.
    batched : bool
        Whether these are many problems. Each ends by itself; those that have ended cost little more time.
    common : sequence of array_like
        What all problems share: it has no axis of problems.
    bounds : sequence of (lower, upper), optional
        One pair a variable, the same for all problems; None or infinity where there is no bound.
    tolerance : float, optional
        A problem has converged when no entry of its gradient is larger than this times `max(1, abs(fun))`, with the
        least `abs(fun)` so far. Entries of variables that are kept at a bound do not count. By default 1.3e-6 in
        float64 and 2.5e-3 in float32.
    max_steps : int, optional
        How often the loss may be computed: by default 200 to 2,000 times, as fits the method.
    progress : callable, optional
        Called with the number of problems that have ended, and that of all, whenever some more have ended. Without it,
        a batch that takes more than a second shows these numbers as a bar (see `config.progress`).

    Returns
    -------
    Result
        `x`, `fun`, `jac`, `hess_inv`, `nit`, `nfev`, `status`, `success` and `message`, as of SciPy; of many problems,
        arrays with one entry each. No problem raises an error: its `status` says how it ended. What is found for a
        problem does not depend on which others are there.

    See Also
    --------
    standard_errors : how sure the variables are.
    for_scipy : a loss for SciPy's own optimizers.

    Examples
    --------
    The decay of three series, each from its own start:

    >>> import numpy as np
    >>> import scanjit as sj
    >>> def loss(x, series):
    ...     level, decay = x
    ...     fitted = sj.scan(lambda h: h * decay, outputs_info=level, n_steps=series.shape[0])
    ...     return ((fitted - series) ** 2).sum()
    >>> series = np.array([[1.0, 0.5, 0.25], [2.0, 1.8, 1.62], [0.3, 0.3, 0.3]])
    >>> found = sj.optimize.minimize(loss, np.full((3, 2), 0.6), [series], batched=True)
    >>> found.x[:, 1].round(3).tolist(), found.success.tolist()
    ([0.5, 0.9, 1.0], [True, True, True])
    """
    errors.check_known("the method of minimize", method, METHODS)
    if not callable(loss):
        raise errors.ArgumentError("minimize takes a loss: a function of symbols", got=repr(loss))
    chosen = METHODS[method]
    x = variables(start, batched)
    arrays, shared = checked_args(args, x, batched), listed(common, "common")
    tolerance = float(np.finfo(x.dtype).eps) ** 0.375 if tolerance is None else tolerance
    if not (isinstance(tolerance, float | int | np.number) and tolerance >= 0):
        raise errors.ArgumentError("tolerance must be a number, 0 or more", got=repr(tolerance))
    if not (progress is None or callable(progress)):
        raise errors.ArgumentError("progress must be a function of two numbers", got=repr(progress))
    limit = min(chosen.steps if max_steps is None else integer(max_steps, "max_steps", 1), 2**60)
    programs = _programs(loss, captured(loss), chosen, batched)
    with bars.Count(f"minimize {getattr(loss, '__name__', '')}".strip(), len(x), "problems") as count:
        told = progress or ((lambda ended, all: count.tell(ended)) if batched and bars.seen() else None)
        starts, found = (x, box(bounds, x)), []
        for first, last in _groups(arrays, len(x)) if batched else [(0, 0)]:
            own, sides = _rows_of(starts, slice(first, last)) if batched else starts
            data = tuple(_last_axis(array[first:last]) for array in arrays) if batched else arrays
            tell = (lambda ended, _, first=first: told(first + ended, len(x))) if told and batched else told
            found.append(_run(programs, own, sides, data, shared, float(tolerance), limit, tell))
    state, inverse = found[0] if len(found) == 1 else mapped(lambda *parts: np.concatenate(parts), *found)
    return _result(state, inverse)


def _groups(args: tuple[np.ndarray, ...], count: int) -> list[tuple[int, int]]:
    """The first and the last problem (exclusive) of each part of a batch. The data of a part fit into a cache."""
    each = sum(arg.nbytes for arg in args) // count
    parts = -(-count // max(FEWEST, GROUP_BYTES // max(each, 1)))
    return [(count * i // parts, count * (i + 1) // parts) for i in range(parts)]


@functools.lru_cache(maxsize=64)
def _programs(loss: Callable[..., Any], content: str, method: Method, batched: bool) -> Programs:
    """The programs for a loss. They are made once, and anew when what the loss uses from outside has changed."""
    return Programs(loss, method, batched)


def _run(
    programs: Programs,
    x: np.ndarray,
    sides: Box,
    args: tuple[np.ndarray, ...],
    common: tuple[Any, ...],
    tolerance: float,
    limit: int,
    progress: Callable[[int, int], None] | None,
) -> tuple[State, np.ndarray | None]:
    """Step until all problems have ended. When only half of them still run, these become a batch of their own."""
    asked = count = len(x) if programs.batched else 1
    if programs.batched and asked < SMALLEST:  # what is compiled for few problems rounds otherwise
        count = SMALLEST
        repeated = np.minimum(np.arange(count), asked - 1)
        (x, sides), args = _rows_of((x, sides), repeated), _columns_of(args, repeated)
    state = programs.start(x, sides, args, common, tolerance)
    taken, pace = 1, limit if progress is None else FIRST_STEPS
    while True:
        running = np.flatnonzero(state.status == RUNNING)
        if progress is not None:
            progress(asked - int((running < asked).sum()), asked)
        if not len(running) or taken >= limit:
            break
        rows = _rows(running, count) if len(running) < count else None
        part = (state, sides, args) if rows is None else (*_rows_of((state, sides), rows), _columns_of(args, rows))
        enough = len(running) // 2 if count > SMALLEST else 0
        before = time.perf_counter()
        steps, part = programs.go_on(*part, common, tolerance, enough, min(pace, limit - taken))
        state = part if rows is None else _with_rows(state, rows, part)
        taken += int(steps)
        if pace < limit:
            pace = max(1, min(2 * pace, int(pace * bars.OFTEN / (time.perf_counter() - before))))
    # A gradient that is zero at the start may be that of a loss of nothing: of a series without any data.
    doubtful = (state.nit == 0) & Result.converged(state.status) & (state.best.jac == 0).all(axis=-1)
    if doubtful.any():
        beside = programs.start(x + np.maximum(abs(x), 1) / 8, sides, args, common, tolerance).best
        flat = doubtful & (beside.fun == state.best.fun) & (beside.jac == 0).all(axis=-1)
        state = state._replace(status=np.where(flat, SINGULAR, state.status))
    found = state, programs.end(state, sides, args, common)
    return found if asked == count else _rows_of(found, np.arange(asked))


def _rows(running: np.ndarray, count: int) -> np.ndarray:
    """The problems of the next batch: those that run, and others if these are few."""
    if len(running) >= SMALLEST:
        return running
    ended = np.ones(count, bool)
    ended[running] = False
    return np.sort(np.concatenate([running, np.flatnonzero(ended)[: SMALLEST - len(running)]]))


def _rows_of(value: Any, rows: Any) -> Any:
    """Some rows of each array of a nested tuple."""
    return mapped(lambda array: array[rows], value)


def _last_axis(array: np.ndarray) -> np.ndarray:
    """A copy of an array whose first axis is the last one."""
    return np.ascontiguousarray(np.moveaxis(array, 0, -1))


def _columns_of(args: tuple[np.ndarray, ...], columns: np.ndarray) -> tuple[np.ndarray, ...]:
    """Some problems of the data, which have their axis last."""
    return tuple(array[..., columns] for array in args)


def _with_rows(whole: Any, rows: Any, part: Any) -> Any:
    """The nested tuple of arrays with these rows replaced."""

    def replaced(array: np.ndarray, new: np.ndarray) -> np.ndarray:
        array = array.copy()
        array[rows] = new
        return array

    return mapped(replaced, whole, part)


def _result(state: State, inverse: np.ndarray | None) -> Result:
    best, status = state.best, state.status
    status = np.where(status == RUNNING, TOO_MANY, status)
    if inverse is not None:
        singular = Result.converged(status) & ~np.isfinite(inverse).all(axis=(-2, -1))
        status = np.where(singular, SINGULAR, status)
    return Result(best.x, best.fun, best.jac, inverse, state.nit, state.nfev, status)


def for_scipy(loss: Callable[..., Any]) -> dict[str, Any]:
    """A loss for `scipy.optimize.minimize`: a function that returns value and gradient, and the argument that says so.

    Parameters
    ----------
    loss : callable
        As for `minimize`.

    Returns
    -------
    dict
        `fun` and `jac`, for `scipy.optimize.minimize(**for_scipy(loss), x0=start, args=...)`.

    Examples
    --------
    >>> import scanjit as sj
    >>> given = sj.optimize.for_scipy(lambda x: ((x - 3.0) ** 2).sum())
    >>> given["jac"], given["fun"]([1.0, 3.0])
    (True, (array(4.), array([-4.,  0.])))
    """
    return {"fun": value_and_grad(loss), "jac": True}
