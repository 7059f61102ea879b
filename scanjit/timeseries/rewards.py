"""Sums of rewards to come: discounted returns, generalized advantages, V-trace. Time is the first axis."""

from __future__ import annotations

from typing import Any, NamedTuple

from scanjit.ir import Node
from scanjit.loops import scan
from scanjit.tensor import as_tensor, concatenate, minimum, zeros_like


def discounted_returns(rewards: Any, discount: Any, last: Any = 0.0, ended: Any = None) -> Node:
    """The sum of the rewards to come at each step, each worth `discount` times what one a step earlier is.

    Parameters
    ----------
    rewards : tensor_like
        One entry a step; further axes are a batch.
    discount : tensor_like
        What a reward is worth one step later.
    last : tensor_like
        The value of the state after the last step.
    ended : tensor_like, optional
        1 where a step was the last one of its episode: nothing comes after it.

    Returns
    -------
    Node
        Of the shape of `rewards`.

    Examples
    --------
    >>> import scanjit as sj
    >>> f = sj.jit(lambda rewards: sj.timeseries.discounted_returns(rewards, 0.5))
    >>> f([1.0, 0.0, 4.0])
    array([2., 2., 4.])
    """
    rewards = as_tensor(rewards)
    keeps = discount * _going(rewards, ended)
    return _from_the_end(rewards, keeps, last)


def advantages(rewards: Any, values: Any, discount: Any, decay: Any, last: Any = 0.0, ended: Any = None) -> Node:
    """Generalized advantages (Schulman et al., 2016): how much better each step was than its state's value said.

    Parameters
    ----------
    rewards, discount, ended : as for `discounted_returns`.
    values : tensor_like
        The value of the state at each step.
    decay : tensor_like
        How much of the advantages of later steps counts: 0 for one step, 1 for all.
    last : tensor_like
        The value of the state after the last step.

    Returns
    -------
    Node
        Of the shape of `rewards`.

    Examples
    --------
    >>> import scanjit as sj
    >>> f = sj.jit(lambda rewards, values: sj.timeseries.advantages(rewards, values, 0.5, 1.0))
    >>> f([1.0, 0.0, 4.0], [2.0, 1.0, 4.0])
    array([0., 1., 0.])
    """
    rewards, values = as_tensor(rewards), as_tensor(values)
    keeps = discount * _going(rewards, ended)
    surprises = rewards + keeps * _next(values, last) - values
    return _from_the_end(surprises, decay * keeps, 0.0)


class VTrace(NamedTuple):
    """Targets for the values of the states, and the advantages for the gradient of the policy."""

    values: Node
    advantages: Node


def v_trace(
    ratios: Any,
    rewards: Any,
    values: Any,
    discount: Any,
    last: Any = 0.0,
    ended: Any = None,
    clip: float = 1.0,
    clip_advantages: float = 1.0,
) -> VTrace:
    """V-trace (Espeholt et al., 2018): values and advantages of one policy from the steps of another.

    Parameters
    ----------
    ratios : tensor_like
        The probability of each action by the policy that learns, over that by the policy that acted.
    rewards, discount, ended : as for `discounted_returns`.
    values : tensor_like
        The value of the state at each step.
    last : tensor_like
        The value of the state after the last step.
    clip, clip_advantages : float
        No ratio counts more than this, in the values and in the advantages.

    Returns
    -------
    VTrace
        `values` and `advantages`, of the shape of `rewards`. No gradient should go through them: see `stop_gradient`.

    Examples
    --------
    >>> import scanjit as sj
    >>> f = sj.jit(lambda ratios, rewards, values: sj.timeseries.v_trace(ratios, rewards, values, 0.5).values)
    >>> f([1.0, 2.0], [1.0, 4.0], [0.0, 0.0])
    array([3., 4.])
    """
    ratios, rewards, values = as_tensor(ratios), as_tensor(rewards), as_tensor(values)
    keeps = discount * _going(rewards, ended)
    clipped = minimum(ratios, clip)
    surprises = clipped * (rewards + keeps * _next(values, last) - values)
    targets = values + _from_the_end(surprises, keeps * minimum(ratios, 1.0), 0.0)
    better = minimum(ratios, clip_advantages) * (rewards + keeps * _next(targets, last) - values)
    return VTrace(targets, better)


def _from_the_end(added: Node, keeps: Node, last: Any) -> Node:
    """total[t] = added[t] + keeps[t] * total[t + 1]"""
    first = zeros_like(added[0]) + last
    sums: Node = scan(
        lambda now, keep, later: now + keep * later, sequences=[added, keeps], outputs_info=first, go_backwards=True
    )
    return sums[::-1]


def _going(rewards: Node, ended: Any) -> Node:
    return zeros_like(rewards) + 1 if ended is None else zeros_like(rewards) + (1 - as_tensor(ended))


def _next(values: Node, last: Any) -> Node:
    return concatenate([values[1:], (zeros_like(values[0]) + last)[None]])
