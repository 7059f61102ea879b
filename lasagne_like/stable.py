"""Logarithms of probabilities, which stay finite where a probability is rounded to 0.

For x = -1000, `sigmoid(x)` is 0 in floating point, and its logarithm -inf. The functions here look at the expression:
they compute the logarithm of `sigmoid(x)` from x, which gives -1000.
"""

from collections.abc import Callable
from typing import Any

import scanjit as sj

__all__ = ["log", "log1m", "log_odds"]

Function = Callable[[sj.Node], sj.Node]


def _made_by(function: Callable[..., sj.Node], node: sj.Node, operands: int = 1) -> bool:
    """Whether a node is `function` of its operands. Equal expressions are one node, so calling it gives the same
    node."""
    fits = len(node.operands) == operands and all(_broadcasts(x, node) for x in node.operands)
    return fits and function(*node.operands) is node


def _broadcasts(x: sj.Node, node: sj.Node) -> bool:
    """Whether an elementwise function of `x` can have the type of a node."""
    fits = x.dtype == node.dtype and x.ndim == node.ndim
    return fits and all(m in (1, n) for m, n in zip(x.type.shape, node.type.shape, strict=True))


def _exact(function: Function, p: Any, of_input: Function, otherwise: Function) -> sj.Node:
    """`function(p)`. Of a sigmoid it is `of_input` of its input. Of a node that reshapes, transposes or slices x, it is
    `function(x)` moved in the same way."""
    node = sj.as_tensor(p)
    if _made_by(sj.sigmoid, node):
        return of_input(node.operands[0])
    if node.op.moves_data and len(node.operands) == 1:
        return node.op(function(node.operands[0]), **node.params)
    return otherwise(node)


def log(p: Any) -> sj.Node:
    """`log(p)`; of a sigmoid or a softmax it is computed from their input.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.stable import log
    >>> sj.function([], log(sj.softmax([0.0, -1000.0])), mode="reference")()
    array([    0., -1000.])
    """
    return _exact(log, p, sj.log_sigmoid, _log)


def _log(node: sj.Node) -> sj.Node:
    if _made_by(sj.exp, node):
        return node.operands[0]
    if _made_by(sj.divide, node, 2) and _made_by(sj.exp, node.operands[0]):
        return log(node.operands[0]) - sj.log(node.operands[1])
    return sj.log(node)


def log1m(p: Any) -> sj.Node:
    """`log(1 - p)`; of a sigmoid it is computed from its input.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.stable import log1m
    >>> sj.function([], log1m(sj.sigmoid([1000.0])), mode="reference")()
    array([-1000.])
    """
    return _exact(log1m, p, lambda x: sj.log_sigmoid(-x), lambda p: sj.log(1 - p))


def log_odds(p: Any) -> sj.Node:
    """`log(p / (1 - p))`; of a sigmoid it is the input.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.stable import log_odds
    >>> sj.function([], log_odds(sj.sigmoid([1000.0])), mode="reference")()
    array([1000.])
    """
    return _exact(log_odds, p, lambda x: x, lambda p: sj.log(p / (1 - p)))
