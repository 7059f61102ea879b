"""`assert_` and `print_`: check a condition or print a value while a function runs."""

from typing import Any

from scanjit import errors
from scanjit.ir import Node, as_node
from scanjit.ops.probe import ASSERT, PRINT
from scanjit.symbol import TensorLike

__all__ = ["assert_", "print_"]


def assert_(cond: TensorLike, x: TensorLike, message: str = "") -> Node:
    """`x`, after a check: if a condition does not hold, the call of the function raises an error.

    Parameters
    ----------
    cond : tensor of bool
        Must be true everywhere.
    x : tensor
        What is passed on. The condition is checked wherever this result is used, in steps of loops and in branches that
        run too; a result that nothing needs is not computed, and its condition not checked.
    message : str
        What the error says.

    Returns
    -------
    Node
        Of the type of `x`.

    Raises
    ------
    AssertError
        When a function runs: with the message, the condition, the line of this call, and the step of the loops around.
        In mode="reference" at once; compiled functions go through to the end first (and shared variables stay as they
        were). A loop of which a condition is checked stores one number a step.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> f = sj.function([x], sj.sqrt(sj.assert_(x >= 0, x, "only what is positive has a root")), mode="reference")
    >>> f([4.0])
    array([2.])
    >>> f([4.0, -1.0])
    Traceback (most recent call last):
        ...
    scanjit.errors.AssertError: only what is positive has a root
      got:      x >= 0.0 is false
      ...
    """
    condition = as_node(cond)
    if not condition.type.kind.is_mask:
        raise errors.DtypeError(
            "the condition of assert_, its first argument, must be of bools",
            got=repr(condition),
            fix="compare it: x > 0",
        )
    return ASSERT(as_node(x), condition, message=_text(message))


def print_(x: TensorLike, message: str = "") -> Node:
    """`x`, printed each time that a function runs. In a loop, it is printed in every step, with the number of the step.

    Parameters
    ----------
    x : tensor
        What is printed and passed on. It is printed wherever this result is used; what a gradient computes again is not
        printed again, and a batch made by `vmap` is printed as a whole.
    message : str
        What is written before the value; if empty, the expression.

    Returns
    -------
    Node
        Of the type of `x`.

    Notes
    -----
    In mode="reference" each value is printed when it is computed. Compiled functions print at the end of the call, in
    the same order: a loop stores the values of all its steps for this. If such a call ends in another error (an index
    out of bounds), nothing is printed.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> h = sj.scan(lambda row, h: sj.print_(0.5 * h + row, "h"), x, sj.constant(0.0), name="decay")
    >>> y = sj.function([x], h, mode="emulate")([8.0, 2.0])
    h, in step 0 of scan 'decay': 8.0
    h, in step 1 of scan 'decay': 6.0
    """
    return PRINT(as_node(x), message=_text(message))


def _text(message: Any) -> str:
    if not isinstance(message, str):
        raise errors.ArgumentError("the message is a text", got=f"{message!r} ({type(message).__name__})")
    return message
