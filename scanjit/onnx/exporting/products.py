"""Products: as Conv or MatMul if they are such, else as Einsum."""

import numpy as np

from scanjit.ir import Node
from scanjit.onnx.exporting.convolutions import conv
from scanjit.onnx.exporting.writer import Writer
from scanjit.ops.contraction import einsum_text


def contract(w: Writer, node: Node, a: str, b: str) -> str:
    """A sum of products over shared labels."""
    kind = node.type.kind
    convolved = conv(w, node, b)
    if convolved is not None:
        return convolved
    if kind.is_mask:
        found = _product(w, node, w.cast(a, np.int32), w.cast(b, np.int32))
        return w.op("Greater", found, w.constant(0, np.int32))
    if kind.integral and kind.size < 4:
        return w.cast(_product(w, node, w.cast(a, np.int32), w.cast(b, np.int32)), node.dtype)
    return _product(w, node, a, b)


def _product(w: Writer, node: Node, a: str, b: str) -> str:
    left, right, out = (list(node.params[key]) for key in ("left", "right", "out"))
    both = [label for label in left if label in right]
    summed, batch = [x for x in both if x not in out], [x for x in both if x in out]
    rows, columns = [x for x in left if x not in right], [x for x in right if x not in left]
    several_rows = len(rows) > 1 and bool(batch)
    if len(summed) != 1 or len(columns) > 1 or several_rows or (batch and not (rows and columns)):
        return _einsum(w, left, right, out, a, b)
    if not (rows and columns):  # some runtimes compute a transpose wrongly before a product with a vector
        return _with_vector(w, left, right, out, a, b)
    a = w.transpose(a, [left.index(x) for x in (*batch, *rows, *summed)])
    b = w.transpose(b, [right.index(x) for x in (*batch, *summed, *columns)])
    made = [*batch, *rows, *columns]
    return w.transpose(w.op("MatMul", a, b), [made.index(x) for x in out])


def _with_vector(w: Writer, left: list[int], right: list[int], out: list[int], a: str, b: str) -> str:
    """A product in which the labels of one operand are all summed over."""
    if len(left) == 1:
        left, right, a, b = right, left, b, a
    kept = [label for label in left if label in out]
    if kept == out and left == right:
        return w.op("MatMul", a, b)
    if kept == out and left[-1:] == right:  # as a column, since the matrix may come from a transpose
        last = w.ints(-1)
        return w.op("Squeeze", w.op("MatMul", a, w.op("Unsqueeze", b, last)), last)
    if kept == out and left[:1] == right and len(left) == 2:
        return w.op("MatMul", b, a)
    return _einsum(w, left, right, out, a, b)


def _einsum(w: Writer, left: list[int], right: list[int], out: list[int], a: str, b: str) -> str:
    return w.op("Einsum", a, b, equation=einsum_text([left, right], out))
