"""Explains an index out of bounds, or a size that does not fit.

Compiled code reports only that there was one. The reference interpreter then runs with the same values, and says which
index it was, on which axis, of which size, and in which step. If an assertion fails before that, it reports the
assertion."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scanjit import errors
from scanjit.ir import Node
from scanjit.runtime import reference
from scanjit.runtime.watch import At, Watch

SECONDS = 2.0
"""The reference interpreter looks for the index for at most this many seconds."""
_PAUSE = 0.5
"""An operation that takes more seconds counts as this many. A busy machine may have stopped the process meanwhile."""


class Unfit(errors.ShapeError):
    """Raised if a branch computes a size with which it cannot be run."""


UNEXPLAINED = errors.OutOfBoundsError, errors.FunctionError, Unfit
"""The errors of compiled calls about which the reference interpreter knows more."""
_EXPLAIN = errors.OutOfBoundsError, errors.FunctionError, errors.ShapeError, errors.ScanError, errors.AssertError
"""The errors of the reference interpreter that tell more."""


class _Enough(Exception):
    """Raised when the reference interpreter has run for `SECONDS`."""


class _Limited(Watch):
    """A watch that ends a run after `SECONDS`."""

    def __init__(self) -> None:
        self._left, self._last = SECONDS, time.monotonic()

    def computed(self, node: Node, operands: Sequence[Any], value: Any, at: At) -> None:
        now = time.monotonic()
        self._left -= min(now - self._last, _PAUSE)
        self._last = now
        if self._left < 0:
            raise _Enough


def explained(
    error: errors.ScanjitError, outputs: Sequence[Node], values: Mapping[Node, np.ndarray]
) -> errors.ScanjitError:
    """The error of a compiled call, as the reference interpreter words it.

    Parameters
    ----------
    error : the compiled call's error. It is returned unchanged if the reference does not find the fault in time.
    outputs : the nodes that the call computed.
    values : the arrays of the inputs and shared variables.
    """
    try:
        reference.evaluate(outputs, values, [_Limited()])
    except _EXPLAIN as found:
        return found
    except (errors.ScanjitError, _Enough):  # of several errors, another one comes first there
        pass
    return error
