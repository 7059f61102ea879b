"""Markov switching: how probable each regime is at each step (Hamilton, 1989; Kim, 1994)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from scanjit.ir import Node
from scanjit.loops import scan
from scanjit.tensor import as_tensor, concatenate, log, minimum, stop_gradient, where
from scanjit.tensor.variables import inexact


class Regimes(NamedTuple):
    """The probabilities of the regimes, given the data up to each step, and given the data before it, both (steps,
    regimes); and the logarithm of the likelihood of each step's data, given those before."""

    filtered: Node
    predicted: Node
    log_likelihood: Node


def regime_filter(log_densities: Any, transition: Any, first: Any) -> Regimes:
    """How probable each regime is, given the data so far.

    Parameters
    ----------
    log_densities : tensor_like
        (steps, regimes): the logarithm of the density of a step's data in each regime.
    transition : tensor_like
        (regimes, regimes): the probability to go from a regime (row) to another (column).
    first : tensor_like
        (regimes,): the probabilities before the first step's data.

    Returns
    -------
    Regimes
        `filtered`, `predicted`, `log_likelihood`.

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> found = sj.jit(sj.timeseries.regime_filter)
    >>> densities = np.array([[0.8, 0.1], [0.1, 0.8]])
    >>> found(np.log(densities), np.full((2, 2), 0.5), np.array([0.5, 0.5])).filtered.round(3)
    array([[0.889, 0.111],
           [0.111, 0.889]])
    """
    log_densities, transition = inexact(log_densities), as_tensor(transition)
    largest = float(np.log(np.finfo(log_densities.dtype).max)) / 2

    def step(densities: Node, predicted: Node) -> tuple[Node, Node, Node, Node]:
        # Regimes that cannot be do not count: beside one that explains the data far better, all others would be 0.
        highest = stop_gradient(where(predicted > 0, densities, -np.inf).max())
        weights = predicted * np.exp(minimum(densities - highest, largest))
        total = weights.sum()
        filtered = weights / total
        return filtered @ transition, filtered, predicted, highest + log(total)

    found = scan(step, sequences=log_densities, outputs_info=[inexact(first), None, None, None])
    return Regimes(*found[1:])


def regime_smoother(found: Regimes, transition: Any) -> Node:
    """How probable each regime is, given all data.

    Parameters
    ----------
    found : Regimes
        What `regime_filter` returned.
    transition : tensor_like
        As for `regime_filter`.

    Returns
    -------
    Node
        (steps, regimes).

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> @sj.jit
    ... def smoothed(densities, transition):
    ...     found = sj.timeseries.regime_filter(np.log(densities), transition, np.array([0.5, 0.5]))
    ...     return sj.timeseries.regime_smoother(found, transition)
    >>> smoothed(np.array([[0.5, 0.5], [0.1, 0.8]]), np.array([[0.9, 0.1], [0.1, 0.9]])).round(3)
    array([[0.189, 0.811],
           [0.111, 0.889]])
    """
    transition = as_tensor(transition)

    def step(filtered: Node, predicted: Node, later: Node) -> Node:
        return filtered * (transition @ where(predicted > 0, later / predicted, 0))

    last = found.filtered[-1]
    before: Node = scan(
        step,
        sequences=[found.filtered[:-1], found.predicted[1:]],
        outputs_info=last,
        go_backwards=True,
    )
    return concatenate([before[::-1], last[None]])
