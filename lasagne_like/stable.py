"""Logarithms of probabilities without rounding to log(0), where the expression shows what they came from."""

from __future__ import annotations

from typing import Any

import scanjit as sj

__all__ = ["log", "log1m", "log_odds"]


def log(p: Any) -> sj.Node:
    """`log(p)`; of a sigmoid, of a softmax and of a reshaped one it is computed from what they were applied to.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.stable import log
    >>> sj.function([], log(sj.softmax([0.0, -1000.0])), mode="reference")()
    array([    0., -1000.])
    """
    node = sj.as_tensor(p)
    kind, operands = node.op.name, node.operands
    if kind == "sigmoid":
        return sj.log_sigmoid(operands[0])
    if kind == "exp":
        return operands[0]
    if kind == "div" and operands[0].op.name == "exp":
        return operands[0].operands[0] - sj.log(operands[1])
    if kind == "reshape":
        return sj.reshape(log(operands[0]), node.shape)
    return sj.log(node)


def log1m(p: Any) -> sj.Node:
    """`log(1 - p)`; of a sigmoid it is computed from what that was applied to.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.stable import log1m
    >>> sj.function([], log1m(sj.sigmoid([1000.0])), mode="reference")()
    array([-1000.])
    """
    node = sj.as_tensor(p)
    if node.op.name == "reshape":
        return sj.reshape(log1m(node.operands[0]), node.shape)
    return sj.log_sigmoid(-node.operands[0]) if node.op.name == "sigmoid" else sj.log(1 - node)


def log_odds(p: Any) -> sj.Node:
    """`log(p / (1 - p))`; of a sigmoid it is what that was applied to.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.stable import log_odds
    >>> sj.function([], log_odds(sj.sigmoid([1000.0])), mode="reference")()
    array([1000.])
    """
    node = sj.as_tensor(p)
    return node.operands[0] if node.op.name == "sigmoid" else sj.log(node / (1 - node))
