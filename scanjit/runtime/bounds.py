"""Explains an index out of bounds, or a size that does not fit.

Compiled code reports only that there was one. The reference interpreter then runs with the same values, and says which
index it was, on which axis, of which size, and in which step."""

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


class _Enough(Exception):
    """Raised when the reference interpreter has run for `SECONDS`."""


class _Limited(Watch):
    """A watch that ends a run after `SECONDS`."""

    def __init__(self) -> None:
        self._end = time.monotonic() + SECONDS

    def computed(self, node: Node, operands: Sequence[Any], value: Any, at: At) -> None:
        if time.monotonic() > self._end:
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
    except (errors.OutOfBoundsError, errors.FunctionError, errors.ShapeError, errors.ScanError) as found:
        return found
    except (errors.ScanjitError, _Enough):  # of several errors, another one comes first there
        pass
    return error
