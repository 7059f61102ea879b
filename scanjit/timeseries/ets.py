"""Exponential smoothing in all its forms: error, trend, season (Hyndman et al., 2008)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from scanjit import errors
from scanjit.ir import Node, is_number
from scanjit.loops import scan
from scanjit.tensor import isnan, log, where, zeros
from scanjit.tensor.numbers import number, vector
from scanjit.tensor.variables import inexact

FORMS = ("add", "mul", None)


class Smoothing(NamedTuple):
    """For each step: the expected value, and the error (for `error="mul"` relative to the expected value). The level,
    trend and season after each step. The logarithm of the likelihood of all steps."""

    fitted: Node
    errors: Node
    level: Node
    trend: Node
    season: Node
    log_likelihood: Node


def ets(
    series: Any,
    level: Any,
    smooth_level: Any,
    *,
    trend: Any = None,
    smooth_trend: Any = 0.0,
    damping: Any = 1.0,
    season: Any = None,
    smooth_season: Any = 0.0,
    error: str = "add",
    trend_form: str | None = None,
    season_form: str | None = None,
) -> Smoothing:
    """Exponential smoothing of a series.

    Parameters
    ----------
    series : tensor_like
        One entry a step. NaN is a missing entry: the states go on as expected.
    level, trend, season : tensor_like
        The states before the first step: numbers, and for the season a vector of one period. Its first entry belongs to
        the first step.
    smooth_level, smooth_trend, smooth_season : tensor_like
        By which part of an error each state changes.
    damping : tensor_like
        The factor of the trend from step to step.
    error, trend_form, season_form : {"add", "mul"}
        Whether errors, trend and season are added or multiplied. None for no trend or no season, which is also what
        `trend=None` and `season=None` say; with a trend or a season the default is "add".

    A season that is multiplied changes by the error divided by the level before the step, as Hyndman et al. write;
    statsmodels divides by the level after it.

    Returns
    -------
    Smoothing
        `fitted`, `errors`, `level`, `trend`, `season` for each step, and `log_likelihood`, a number: that of normal
        errors with the variance for which it is highest.

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> smooth = sj.jit(lambda series: sj.timeseries.ets(series, 1.0, 0.5).fitted)
    >>> smooth(np.array([1.0, 3.0, np.nan, 2.0]))
    array([1., 1., 2., 2.])
    """
    trend_form = _form("trend_form", trend_form, trend)
    season_form = _form("season_form", season_form, season)
    errors.check_known("the form of the error", error, ("add", "mul"))
    idle = {"smooth_trend": (smooth_trend, 0, trend_form), "damping": (damping, 1, trend_form)}
    for name, (value, nothing, form) in (idle | {"smooth_season": (smooth_season, 0, season_form)}).items():
        if form is None and not (is_number(value) and value == nothing):
            of = "season" if name == "smooth_season" else "trend"
            raise errors.ArgumentError(f"{name} has no effect without a {of}", fix=f"give the first state: {of}=...")
    series = inexact(vector(series, "series"))
    added, zero = season_form != "mul", zeros((), series.dtype)
    turning = vector(season, "season").astype(series.dtype) if season_form else zero
    if turning.type.shape in ((0,), (1,)):
        raise errors.ArgumentError(
            "a season has a state for each step of a period", got=turning.type, expected="at least two"
        )

    def step(value: Node, level: Node, trend: Node, season: Node) -> tuple[Node, ...]:
        base, pace = _expected(level, trend, damping, trend_form)
        fitted = base + season if added else base * season
        missed = where(isnan(value), 0, where(isnan(value), 0, value) - fitted)
        share = missed if added else missed / season
        later = pace + smooth_trend * (share / level if trend_form == "mul" else share) if trend_form else trend
        turned = season + smooth_season * (missed if added else missed / base) if season_form else season
        return base + smooth_level * share, later, turned, fitted, missed if error == "add" else missed / fitted

    found = scan(
        step,
        sequences=series,
        outputs_info=[
            zero + number(level, "level"),
            zero + (number(trend, "trend") if trend_form else 0),
            {"initial": turning, "taps": [-turning.shape[0]]} if season_form else zero,
            None,
            None,
        ],
    )
    levels, trends, seasons, fitted, missed = found
    likelihood = _log_likelihood(missed, isnan(series), log(abs(fitted)) if error == "mul" else zero)
    return Smoothing(fitted, missed, levels, trends, seasons, likelihood)


def _expected(level: Node, trend: Node, damping: Any, form: str | None) -> tuple[Node, Node]:
    """The level that is expected next, and the trend."""
    if form is None:
        return level, trend
    pace = trend * damping if form == "add" else trend**damping
    return (level + pace if form == "add" else level * pace), pace


def _log_likelihood(missed: Node, absent: Node, widths: Node) -> Node:
    count = (1 - absent.astype(missed.dtype)).sum()
    variance = (missed**2).sum() / count
    return -count / 2 * (log(2 * np.pi * variance) + 1) - where(absent, 0, widths).sum()


def _form(name: str, form: str | None, first: Any) -> str | None:
    if form not in FORMS or (form is None) < (first is None):
        raise errors.ArgumentError(
            f"{name} is unknown" if form not in FORMS else f"{name} needs the first state",
            got=repr(form),
            expected="'add', 'mul' or None",
        )
    return form or (None if first is None else "add")
