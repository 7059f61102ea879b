"""Places in sorted rows. ONNX has no op that finds them: they are found in steps, each half as long as the one before
it."""

import numpy as np

from scanjit import types
from scanjit.ir import Node, constant, dim_node
from scanjit.onnx.exporting.writer import Writer
from scanjit.ops.elementwise import where
from scanjit.ops.index import GATHER
from scanjit.ops.shape import IOTA, SET_SLICE, window
from scanjit.ops.sorting import comes_before
from scanjit.ops.stretch import full
from scanjit.ops.view import along
from scanjit.tensor.looping import scanned
from scanjit.types import Dimension

FARTHEST = 48
"""A row of unknown length has at most two to the power of this elements."""


def searched(w: Writer, node: Node, *operands: str) -> str:
    """How many elements of sorted rows come before numbers."""
    rows, v = node.operands
    size, steps = rows.type.shape[-1], _steps(rows.type.shape[-1])
    lengths = window(constant(2 ** np.arange(FARTHEST - 1, -1, -1, dtype=np.int64)), 0, FARTHEST - steps, steps)
    begin, least = full(0, node.type.shape, "int64"), types.maximum(size, 1)
    if least != size:  # nobody uses what is read of a row without elements
        room = full(0, (*rows.type.shape[:-1], least), rows.dtype)
        rows = SET_SLICE(room, rows, start=(0,) * rows.ndim, step=(1,) * rows.ndim)

    def further(found: Node, length: Node, rows: Node, v: Node) -> Node:
        """The place after one more step, if all of its elements come before those of `v`."""
        there = found + length
        inside = there <= dim_node(size)
        places = [along(IOTA(length=n), axis, v.ndim) for axis, n in enumerate(rows.type.shape[:-1])]
        last = GATHER(rows, *places, where(inside, there - 1, 0), axis=0)
        return where(inside & comes_before(last, v, node.params["side"]), there, found)

    return w.write([scanned(lengths, begin, further, [rows, v])[-1]])[0]


def _steps(size: Dimension) -> Dimension:
    """As many as the size has binary digits; at least 1."""
    if isinstance(size, int):
        return max(size.bit_length(), 1)
    found: Dimension = 1
    for power in range(1, FARTHEST):
        found = types.minimum(size // 2**power, 1) + found
    return found
