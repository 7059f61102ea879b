"""Fourier transforms as ONNX's `DFT`, which takes and gives pairs of floats along the last axis."""

from __future__ import annotations

import numpy as np

from scanjit.ir import Node
from scanjit.onnx.exporting.shapes import window
from scanjit.onnx.exporting.writer import Writer

_DFT = 17
"""The op set that brought it; since 20, the axis is an input."""


def transform(w: Writer, node: Node, real: str, imaginary: str) -> str:
    """The transform of two parts. ONNX divides the inverse one."""
    found = _dft(w, node, _pairs(w, node, real, imaginary), node.params["sign"] > 0)
    return found if node.params["sign"] < 0 else w.op("Mul", found, w.cast(w.dim(node.type.shape[-2]), node.dtype))


def half_spectrum(w: Writer, node: Node, x: str) -> str:
    """The transform of real numbers."""
    return _dft(w, node, w.unsqueeze(x, node.ndim - 1), False, half=True)


def from_half_spectrum(w: Writer, node: Node, real: str, imaginary: str) -> str:
    """The inverse transform: of the whole spectrum, made of the half."""
    axis, length = node.ndim - 1, node.params["length"]
    mirrored = [(axis, (length - 1) // 2, (length - 1) // 2, -1)]
    real = w.op("Concat", real, window(w, real, mirrored), axis=axis)
    imaginary = w.op("Concat", imaginary, w.op("Neg", window(w, imaginary, mirrored)), axis=axis)
    found = _dft(w, node, _pairs(w, node, real, imaginary), True)
    first = w.op("Squeeze", window(w, found, [(axis + 1, 0, 1, 1)]), w.ints(axis + 1))
    return w.op("Mul", first, w.cast(w.dim(length), node.dtype))


def _pairs(w: Writer, node: Node, real: str, imaginary: str) -> str:
    axis = node.operands[0].ndim
    return w.op("Concat", *(w.unsqueeze(part, axis) for part in (real, imaginary)), axis=axis)


def _dft(w: Writer, node: Node, pairs: str, inverse: bool, half: bool = False) -> str:
    """A transform along the last axis but one, of a tensor with an axis in front of it."""
    axis = node.operands[0].ndim - 1
    if w.opset < _DFT:
        raise w.refuse(node, "ONNX has Fourier transforms since op set 17", fix="export(..., opset=18)")
    alone = axis == 0
    pairs, axis = (w.unsqueeze(pairs, 0), 1) if alone else (pairs, axis)
    flags = {"inverse": int(inverse), "onesided": int(half)}
    if w.opset < 20:
        found = w.op("DFT", pairs, axis=axis, **flags)
    else:
        found = w.op("DFT", pairs, "", w.constant(axis, np.int64), **flags)
    return w.op("Squeeze", found, w.ints(0)) if alone else found
