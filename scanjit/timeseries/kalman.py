"""Kalman filter and smoother, with missing data and changing matrices (Kalman, 1960; Rauch et al., 1965)."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Any, NamedTuple

import numpy as np

from scanjit import errors
from scanjit.ir import Node
from scanjit.loops import scan
from scanjit.ops.stretch import constant_value
from scanjit.tensor import (
    as_tensor,
    cast,
    cholesky,
    concatenate,
    diagonal,
    expand_dims,
    eye,
    inv,
    isnan,
    log,
    slogdet,
    solve,
    specify_shape,
    sqrt,
    stop_gradient,
    swapaxes,
    where,
    zeros_like,
)
from scanjit.tensor.numbers import real, within
from scanjit.tensor.variables import inexact
from scanjit.timeseries.densities import LOG_TAU
from scanjit.timeseries.roots import lower, root


class StateSpace(NamedTuple):
    """A linear model of states and observations with normal errors.

    `state[t+1] = transition @ state[t] + state_offset + error of covariance state_noise`
    `y[t] = observation @ state[t] + offset + error of covariance noise`

    Each matrix, and each offset, may have a leading axis of steps, as long as the observations. `mean` and `covariance`
    are what is known of the state of the first step before its observation. `covariance=None` says that nothing is
    known: only `form="information"` can begin with that.

    A negative variance in `state_noise`, `noise` or `covariance` is an error. If a call computes it, the likelihood is
    NaN.

    A matrix of one entry that is a symbol is `sj.as_tensor([[v]])`; a diagonal one is `sj.diag(v)`.
    """

    transition: Any
    observation: Any
    state_noise: Any
    noise: Any
    mean: Any
    covariance: Any
    state_offset: Any = 0.0
    offset: Any = 0.0


class Filtered(NamedTuple):
    """The state of each step: as estimated from the observations up to it, and from those before it. And the logarithm
    of the likelihood of each observation, given those before."""

    mean: Node
    covariance: Node
    predicted_mean: Node
    predicted_covariance: Node
    log_likelihood: Node


class Smoothed(NamedTuple):
    """The state of each step, as estimated from all observations."""

    mean: Node
    covariance: Node


class _Step(NamedTuple):
    """A step's matrices and observation. A missing entry has rows without information: zeros, and a variance of 1.
    `seen` counts all other entries. It is NaN if a variance is negative."""

    transition: Node
    observation: Node
    state_noise: Node
    noise: Node
    state_offset: Node
    value: Node
    seen: Node


Known = tuple[Node, Node]
"""The knowledge about a state: its mean and covariance, or the two arrays that a form has in their place."""


def kalman_filter(observations: Any, model: StateSpace, form: str = "covariance") -> Filtered:
    """What is known of the states of a linear model, step by step.

    Parameters
    ----------
    observations : tensor_like
        (steps, entries), or (steps,) for one entry. NaN is a missing entry. Series of different lengths are padded with
        it: padded steps add nothing to the likelihood.
    model : StateSpace
    form : {"covariance", "square-root", "information"}
        How uncertainty is kept. As a covariance (in Joseph's form, which stays positive). As a triangular root of it,
        which keeps twice as many digits. As its inverse, which may be 0 where nothing is known. Then transitions,
        `noise` and `covariance` must have an inverse, or the likelihood is NaN; means that are not determined yet are
        NaN, and observations until then add nothing to the likelihood.

    Returns
    -------
    Filtered
        `mean` and `predicted_mean` (steps, states), `covariance` and `predicted_covariance` (steps, states, states),
        `log_likelihood` (steps,).

    Examples
    --------
    A random walk that is seen with errors, once not at all:

    >>> import numpy as np, scanjit as sj
    >>> @sj.jit
    ... def walk(y):
    ...     one = np.ones((1, 1))
    ...     model = sj.timeseries.StateSpace(one, one, one, one, np.zeros(1), one)
    ...     return sj.timeseries.kalman_filter(y, model).mean[:, 0]
    >>> walk(np.array([2.0, np.nan, 4.0])).round(3)
    array([1.   , 1.   , 3.143])
    """
    errors.check_known("the form of the filter", form, _FORMS)
    begin, observe, move, shown = _FORMS[form]
    observations = inexact(real(observations, "observations"))
    sequences, per_step, fixed = _taken(observations, model)

    def step(*given: Node) -> tuple[Node, ...]:
        *parts, one, other = given
        now = _present(dict(zip(per_step, parts, strict=True)) | fixed)
        known = one, other
        updated, likelihood = observe(known, now)
        return *move(updated, now), *shown(updated), *shown(known), likelihood

    first = begin(fixed["mean"], fixed.get("covariance"))
    found = scan(step, sequences=sequences, outputs_info=[*first, *[None] * 5])
    return Filtered(*found[2:])


def kalman_smoother(observations: Any, model: StateSpace, form: str = "covariance") -> Smoothed:
    """What is known of the states of a linear model by all observations, also by later ones.

    Steps whose mean is NaN in the filter, since it is not determined yet, are NaN here too.

    Parameters
    ----------
    observations, model, form : as for `kalman_filter`.

    Returns
    -------
    Smoothed
        `mean` (steps, states), `covariance` (steps, states, states).

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> @sj.jit
    ... def walk(y):
    ...     one = np.ones((1, 1))
    ...     model = sj.timeseries.StateSpace(one, one, one, one, np.zeros(1), one)
    ...     return sj.timeseries.kalman_smoother(y, model).mean[:, 0]
    >>> walk(np.array([2.0, np.nan, 4.0])).round(3)
    array([1.429, 2.286, 3.143])
    """
    found = kalman_filter(observations, model, form)
    transition = as_tensor(model.transition)
    moves = transition[:-1] if transition.ndim == 3 else None

    def step(*given: Node) -> tuple[Node, Node]:
        mean, covariance, expected, uncertainty, *move, later, spread = given
        gain = swapaxes(solve(uncertainty, (move[0] if move else transition) @ covariance), -1, -2)
        return mean + gain @ (later - expected), covariance + gain @ (spread - uncertainty) @ gain.T

    last = found.mean[-1], found.covariance[-1]
    sequences = [found.mean[:-1], found.covariance[:-1], found.predicted_mean[1:], found.predicted_covariance[1:]]
    before = scan(
        step, sequences=sequences + ([] if moves is None else [moves]), outputs_info=list(last), go_backwards=True
    )
    return Smoothed(*(concatenate([part[::-1], end[None]]) for part, end in zip(before, last, strict=True)))


ROUNDING = 400
"""Information that is this many times the relative spacing of floats is no more than what rounding leaves."""
_AXES = {
    "transition": ("states", "states"),
    "observation": ("entries", "states"),
    "state_noise": ("states", "states"),
    "noise": ("entries", "entries"),
    "mean": ("states",),
    "covariance": ("states", "states"),
    "state_offset": ("states",),
    "offset": ("entries",),
}
"""What the axes of each part of a model are, without the one of steps."""
_FIRST = ("mean", "covariance")
"""The parts of a model that are about its first step."""
_VARIANCES = ("state_noise", "noise", "covariance")
"""The parts whose diagonals are variances."""


def _taken(observations: Node, model: StateSpace) -> tuple[list[Node], list[str], dict[str, Node]]:
    """The tensors that a loop reads step by step, with their names; and those that are the same in all steps."""
    if not isinstance(model, StateSpace):
        raise errors.ArgumentError("the model of a filter is a StateSpace", got=type(model).__name__)
    if observations.ndim not in (1, 2):
        raise errors.ShapeError("observations are (steps,) or (steps, entries)", got=observations.type)
    values = observations if observations.ndim == 2 else expand_dims(observations, 1)
    known = {name: value for name, value in model._asdict().items() if value is not None or name != "covariance"}
    parts = {name: _part(name, value, values.dtype) for name, value in known.items()}
    steps, entries = values.shape
    if not isinstance(entries, int):
        entries = parts["observation"].shape[-2]
    sizes = {"states": parts["transition"].shape[-1], "entries": entries}
    per_step = {"value": specify_shape(values, (None, entries), "observations")}
    fixed: dict[str, Node] = {}
    for name, part in parts.items():
        axes = _AXES[name]
        moves = part.ndim > len(axes)
        if part.ndim:
            part = specify_shape(part, (*[steps] * moves, *(sizes[axis] for axis in axes)), name)
        (per_step if moves else fixed)[name] = part
    return list(per_step.values()), list(per_step), fixed


def _part(name: str, given: Any, dtype: Any) -> Node:
    """A part of a model as a tensor of the number of axes that it may have."""
    part, rank = real(given, name), len(_AXES[name])
    allowed = [rank] if name in _FIRST else [rank, rank + 1, 0] if rank == 1 else [rank, rank + 1]
    if part.ndim not in allowed:
        raise errors.ShapeError(
            f"{name} has another number of axes",
            got=part.ndim,
            expected=f"{rank}" if name in _FIRST else f"{rank}, or {rank + 1} with one of steps",
            fix="one entry is a matrix too: sj.as_tensor([[v]])" if rank == 2 and part.ndim < 2 else "",
        )
    known = constant_value(part)
    if name in _VARIANCES and known is not None:
        within(np.diagonal(known, axis1=-2, axis2=-1) if known.ndim > 1 else known, f"a variance in {name}")
    return cast(part, dtype)


def _present(parts: dict[str, Node]) -> _Step:
    absent = isnan(parts["value"])
    observation = where(absent[:, None], 0, parts["observation"])
    value = where(absent, 0, where(absent, 0, parts["value"]) - parts["offset"])
    unit = eye(value.shape[0], dtype=value.dtype)
    noise = where(absent[:, None] | absent, unit, parts["noise"])
    transition = parts["transition"]
    offset = zeros_like(transition[0]) + parts["state_offset"]
    variances = [diagonal(parts[name]) for name in _VARIANCES if name in parts]
    seen = where(concatenate(variances).min() < 0, nan, (1 - cast(absent, value.dtype)).sum())
    return _Step(transition, observation, parts["state_noise"], noise, offset, value, seen)


def _likelihood(now: _Step, log_det: Node, squares: Node) -> Node:
    return -(now.seen * LOG_TAU + log_det + squares) / 2


# ---- uncertainty as a covariance ----


def _begin(mean: Node, covariance: Node | None) -> Known:
    if covariance is None:
        raise errors.ArgumentError("a model that knows nothing of its first state needs form='information'", got="None")
    return mean, covariance


def _observe(known: Known, now: _Step) -> tuple[Known, Node]:
    mean, covariance = known
    missed = now.value - now.observation @ mean
    cross = now.observation @ covariance
    spread = cross @ now.observation.T + now.noise
    gain = solve(spread, cross).T
    left = eye(mean.shape[0], dtype=mean.dtype) - gain @ now.observation
    updated = mean + gain @ missed, left @ covariance @ left.T + gain @ now.noise @ gain.T
    return updated, _likelihood(now, slogdet(spread)[1], missed @ solve(spread, missed))


def _move(known: Known, now: _Step) -> Known:
    mean, covariance = known
    return now.transition @ mean + now.state_offset, now.transition @ covariance @ now.transition.T + now.state_noise


# ---- as a triangular root of it ----


def _begin_root(mean: Node, covariance: Node | None) -> Known:
    mean, covariance = _begin(mean, covariance)
    return mean, root(covariance)


def _observe_root(known: Known, now: _Step) -> tuple[Known, Node]:
    mean, half = known
    entries = now.value.shape[0]
    rows = concatenate([root(now.noise), now.observation @ half], axis=1)
    below = concatenate([zeros_like(now.observation.T), half], axis=1)
    joint = lower(concatenate([rows, below]))
    spread, cross, left = joint[:entries, :entries], joint[entries:, :entries], joint[entries:, entries:]
    missed = solve(spread, now.value - now.observation @ mean)
    log_det = 2 * log(abs(diagonal(spread))).sum()
    return (mean + cross @ missed, left), _likelihood(now, log_det, missed @ missed)


def _move_root(known: Known, now: _Step) -> Known:
    mean, half = known
    joint = lower(concatenate([now.transition @ half, root(now.state_noise)], axis=1))
    return now.transition @ mean + now.state_offset, joint


def _of_root(known: Known) -> Known:
    return known[0], known[1] @ known[1].T


# ---- as its inverse, with the inverse times the mean ----


def _begin_information(mean: Node, covariance: Node | None) -> Known:
    if covariance is None:
        return zeros_like(mean), zeros_like(eye(mean.shape[0], dtype=mean.dtype))
    matrix = inv(covariance)
    return matrix @ mean, matrix


def _observe_information(known: Known, now: _Step) -> tuple[Known, Node]:
    vector, matrix = known
    weights = solve(now.noise, now.observation).T
    updated = vector + weights @ now.value, matrix + weights @ now.observation
    before, after = _squares(vector, matrix), _squares(*updated)
    log_det = slogdet(now.noise)[1] + after.log_det - before.log_det
    squares = now.value @ solve(now.noise, now.value) + before.squares - after.squares
    nothing = 0 * (now.seen + updated[1].sum())  # NaN where a covariance or a transition has no inverse
    return updated, where(before.determined & after.determined, _likelihood(now, log_det, squares), nothing)


class _Mean(NamedTuple):
    """Whether information determines a mean; the squares of the mean, weighted by the information; and the determinant
    of the information."""

    determined: Node
    squares: Node
    log_det: Node


def _squares(vector: Node, matrix: Node) -> _Mean:
    determined, regular = _regular(matrix)
    return _Mean(determined, vector @ solve(regular, vector), slogdet(regular)[1])


def _regular(matrix: Node) -> tuple[Node, Node]:
    """Whether information determines a mean: what it says of each state, given the states before, is more than rounding
    leaves. And the information, or ones if not: a singular matrix has no derivatives, not even times 0."""
    known = stop_gradient(matrix)
    own = diagonal(known)
    units = sqrt(where(own > 0, own, 1))
    shares = diagonal(cholesky(known / units / units[:, None])) ** 2  # NaN if it determines nothing
    determined = (shares > ROUNDING * float(np.finfo(known.dtype).eps)).all()
    return determined, where(determined, matrix, eye(matrix.shape[0], dtype=matrix.dtype))


def _move_information(known: Known, now: _Step) -> Known:
    vector, matrix = known
    back = inv(now.transition)
    moved = back.T @ matrix @ back
    left = inv(eye(vector.shape[0], dtype=vector.dtype) + moved @ now.state_noise)
    later = left @ moved
    return left @ (back.T @ vector) + later @ now.state_offset, later


def _of_information(known: Known) -> Known:
    vector, matrix = known
    determined, regular = _regular(matrix)
    covariance = inv(regular)
    return where(determined, covariance @ vector, nan), where(determined, covariance, nan)


_FORMS: dict[str, tuple[Callable[..., Any], ...]] = {
    "covariance": (_begin, _observe, _move, lambda known: known),
    "square-root": (_begin_root, _observe_root, _move_root, _of_root),
    "information": (_begin_information, _observe_information, _move_information, _of_information),
}
