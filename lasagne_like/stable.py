"""Logarithms of probabilities, which stay finite where a probability is rounded to 0.

For x = -1000, `sigmoid(x)` is 0 in floating point, and its logarithm -inf. The functions here look at the expression:
they compute the logarithm of `sigmoid(x)` from x, which gives -1000.
"""

from collections.abc import Callable
from typing import Any

import scanjit as sj

__all__ = ["log", "log1m", "log_odds"]


def _made_by(function: Callable[..., sj.Node], node: sj.Node, operands: int = 1) -> bool:
    """Whether a node is `function` of its operands. Equal expressions are one node, so calling it gives the same
    node."""
    fits = len(node.operands) == operands and all(_broadcasts(x, node) for x in node.operands)
    return fits and function(*node.operands) is node


def _broadcasts(x: sj.Node, node: sj.Node) -> bool:
    """Whether an elementwise function of `x` can have the type of a node."""
    fits = x.dtype == node.dtype and x.ndim == node.ndim
    return fits and all(m in (1, n) for m, n in zip(x.type.shape, node.type.shape, strict=True))


def _moved(function: Callable[[sj.Node], sj.Node], node: sj.Node) -> sj.Node | None:
    """`function` of a node that reshapes, transposes or slices x: `function(x)` moved in the same way. None for other
    nodes."""
    if not node.op.moves_data or len(node.operands) != 1:
        return None
    return node.op(function(node.operands[0]), **node.params)


def log(p: Any) -> sj.Node:
    """`log(p)`; of a sigmoid or a softmax it is computed from their input.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.stable import log
    >>> sj.function([], log(sj.softmax([0.0, -1000.0])), mode="reference")()
    array([    0., -1000.])
    """
    node = sj.as_tensor(p)
    if _made_by(sj.sigmoid, node):
        return sj.log_sigmoid(node.operands[0])
    if _made_by(sj.exp, node):
        return node.operands[0]
    if _made_by(sj.divide, node, 2) and _made_by(sj.exp, node.operands[0]):
        return log(node.operands[0]) - sj.log(node.operands[1])
    moved = _moved(log, node)
    return sj.log(node) if moved is None else moved


def log1m(p: Any) -> sj.Node:
    """`log(1 - p)`; of a sigmoid it is computed from its input.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.stable import log1m
    >>> sj.function([], log1m(sj.sigmoid([1000.0])), mode="reference")()
    array([-1000.])
    """
    node = sj.as_tensor(p)
    if _made_by(sj.sigmoid, node):
        return sj.log_sigmoid(-node.operands[0])
    moved = _moved(log1m, node)
    return sj.log(1 - node) if moved is None else moved


def log_odds(p: Any) -> sj.Node:
    """`log(p / (1 - p))`; of a sigmoid it is the input.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.stable import log_odds
    >>> sj.function([], log_odds(sj.sigmoid([1000.0])), mode="reference")()
    array([1000.])
    """
    node = sj.as_tensor(p)
    if _made_by(sj.sigmoid, node):
        return node.operands[0]
    moved = _moved(log_odds, node)
    return sj.log(node / (1 - node)) if moved is None else moved
