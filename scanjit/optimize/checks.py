"""Checks of the arguments of the functions of this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scanjit import errors
from scanjit.arrays import array_of, check_unmasked
from scanjit.config import config
from scanjit.kinds import holds_numbers
from scanjit.loops.step import check_takes
from scanjit.loops.structure import function_location
from scanjit.optimize.method import Box


def variables(given: Any, batched: bool) -> np.ndarray:
    """The variables of a problem as a vector, or those of many problems as the rows of a matrix."""
    if not isinstance(batched, bool | np.bool):
        raise errors.ArgumentError("batched must be True or False", got=repr(batched))
    x = _array(given, "the start", "give as many variables for each problem")
    if not holds_numbers(x.dtype) or np.iscomplexobj(x):
        raise errors.ArgumentError("the start is no array of real numbers", got=f"{given!r} ({type(given).__name__})")
    if x.dtype not in ("float32", "float64"):
        x = x.astype(config.floatX)
    if x.ndim != 1 + batched or x.shape[-1] == 0:
        raise errors.ArgumentError(
            "the variables have the wrong shape",
            got=x.shape,
            expected="a matrix with a row for each problem" if batched else "a vector of one element or more",
            fix=_other_shape(x, batched),
        )
    if len(x) == 0:
        raise errors.ArgumentError("the batch has no problems", got=f"variables of shape {x.shape}")
    return x


def listed(given: Any, name: str) -> tuple[Any, ...]:
    """`args` or `common`, which are lists."""
    if not isinstance(given, list | tuple):
        raise errors.ArgumentError(f"{name} must be a list of arrays", got=type(given).__name__, fix="write [data]")
    return tuple(given)


def checked_args(args: Any, x: np.ndarray, batched: bool) -> tuple[np.ndarray, ...]:
    """The data as arrays, with one entry for each problem."""
    pad = "pad them: with NaN, which kalman_filter reads as missing, or with a mask as another entry of args"
    arrays = tuple(_array(arg, f"args[{i}]", pad) for i, arg in enumerate(listed(args, "args")))
    for i, array in enumerate(arrays):
        if not holds_numbers(array.dtype):
            raise errors.ArgumentError(
                f"args[{i}] has no numbers", got=f"{type(args[i]).__name__}, whose entries are {array.dtype}"
            )
        if batched and array.shape[:1] != x.shape[:1]:
            raise errors.ArgumentError(
                f"args[{i}] needs one entry a problem in its first axis",
                got=f"shape {array.shape}",
                expected=f"{len(x)} problems, as the variables have",
                fix="give what all problems share in `common`",
            )
    return arrays


def _other_shape(x: np.ndarray, batched: bool) -> str:
    if batched:
        return "give each problem its start: np.tile(start, (problems, 1))" if x.ndim == 1 else ""
    return "pass batched=True for many problems" if x.ndim == 2 else ""


def _array(given: Any, name: str, fix: str) -> np.ndarray:
    """A given value as an array. `fix` says what to do about rows of different lengths."""
    check_unmasked(given, name)

    def refused(why: str) -> errors.ArgumentError:
        if isinstance(given, list | tuple):
            return errors.ArgumentError(f"the rows of {name} have different lengths", fix=fix)
        return errors.ArgumentError(f"{name} is no array of numbers ({why})", got=type(given).__name__)

    return array_of(given, refused)


def box(bounds: Any, x: np.ndarray) -> Box:
    """The bounds as two arrays of the shape of the variables."""
    count = x.shape[-1]
    given = [(None, None)] * count if bounds is None else bounds
    try:
        pairs = [(-np.inf if low is None else low, np.inf if high is None else high) for low, high in given]
        lower, upper = np.array(pairs, x.dtype).reshape(count, 2).T
    except (TypeError, ValueError):
        raise errors.ArgumentError(
            "bounds are one pair (lower, upper) a variable", got=repr(bounds), expected=f"{count} pairs of numbers"
        ) from None
    if not (lower <= upper).all():
        raise errors.ArgumentError("a lower bound is above its upper bound, or is NaN", got=repr(bounds))
    return Box(*(np.ascontiguousarray(np.broadcast_to(side, x.shape)) for side in (lower, upper)))


def called(fn: Callable[..., Any], x: Any, args: Sequence[Any], common: Sequence[Any]) -> Any:
    """What a loss, or another function of the variables and the data, gives."""
    given = [f"{len(args)} of args" if args else "", f"{len(common)} of common" if common else ""]
    check_takes(
        fn,
        [x, *args, *common],
        f"{getattr(fn, '__name__', 'the loss')} does not take the arguments that it gets",
        got=", ".join(["x", *filter(None, given)]),
        fix="",
        where=function_location(fn),
    )
    return fn(x, *args, *common)
