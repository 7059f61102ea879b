"""What an index out of bounds, or a size that does not fit, was. Compiled code reports only that there was one; the
reference interpreter, run with the same values, says the index, the axis, its size and the step."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scanjit import errors
from scanjit.ir import Node
from scanjit.runtime import reference
from scanjit.runtime.watch import At, Watch

SECONDS = 2.0
"""How long the reference interpreter may look for the index."""


class _Enough(Exception):
    """The time is over."""


class _Limited(Watch):
    """Ends a run that takes too long."""

    def __init__(self) -> None:
        self._end = time.monotonic() + SECONDS

    def computed(self, node: Node, operands: Sequence[Any], value: Any, at: At) -> None:
        if time.monotonic() > self._end:
            raise _Enough


def explained(
    error: errors.ScanjitError, outputs: Sequence[Node], values: Mapping[Node, np.ndarray]
) -> errors.ScanjitError:
    """The error of a compiled call, in the words of the reference interpreter.

    Parameters
    ----------
    error : what is returned if the reference does not come to it in time.
    outputs : what was computed.
    values : of the inputs and shared variables.
    """
    try:
        reference.evaluate(outputs, values, [_Limited()])
    except (errors.OutOfBoundsError, errors.ShapeError, errors.ScanError) as found:
        return found
    except (errors.ScanjitError, _Enough):  # of several errors, another one comes first there
        pass
    return error
