"""The bytes of the weights of a model, made a piece at a time, so that the weights are never copied as a whole."""

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from scanjit.onnx import tensors
from scanjit.onnx.extra import package
from scanjit.records import record

_PIECE = 1 << 22
"""Bytes that are laid out at a time. With fewer, the columns that a piece takes of each row are less than a page, and
the processor looks up another page for every few numbers."""
_ROWS = 64
"""The rows of a matrix that are transposed at a time, so that all of their columns stay in the cache."""
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
"""The numbers of fields of ModelProto, GraphProto and TensorProto."""


@record
class Upright:
    """Matrices side by side, transposed, with an axis of size 1 in front."""

    matrices: Sequence[np.ndarray]

    @property
    def shape(self) -> tuple[int, int, int]:
        return 1, sum(m.shape[1] for m in self.matrices), len(self.matrices[0])

    @property
    def dtype(self) -> np.dtype:
        return self.matrices[0].dtype


Weight = np.ndarray | Upright


def nbytes(weight: Weight) -> int:
    """The bytes of a weight."""
    return math.prod(weight.shape) * weight.dtype.itemsize


def pieces(weight: Weight) -> Iterator[memoryview]:
    """The bytes of a weight. A piece may be overwritten when the next one is asked for."""
    if isinstance(weight, np.ndarray):
        yield np.ascontiguousarray(weight).reshape(-1).view(np.uint8).data
        return
    rows = weight.shape[2]
    block = np.empty((max(_PIECE // max(rows * weight.dtype.itemsize, 1), 1), rows), weight.dtype)
    for matrix in weight.matrices:
        for start in range(0, matrix.shape[1], len(block)):
            part = matrix[:, start : start + len(block)]
            made = block[: part.shape[1]]
            for row in range(0, rows, _ROWS):
                made[:, row : row + _ROWS] = part[row : row + _ROWS].T
            yield made.reshape(-1).view(np.uint8).data


def add(model: Any, weights: Mapping[str, Weight]) -> None:
    """Add the weights to a ModelProto as initializers."""
    for name, weight in weights.items():
        whole = io.BytesIO()
        whole.writelines(pieces(weight))
        model.graph.initializer.add(**_head(name, weight), raw_data=whole.getvalue())


def encoded(model: Any, weights: Mapping[str, Weight], beside: str | None) -> Iterator[bytes | memoryview]:
    """The bytes of a ModelProto with these weights. If there is a file `beside` it, that file has the data of all
    weights, one after the other."""
    heads, length, offset = [], 0, 0
    for name, weight in weights.items():
        size = nbytes(weight)
        tensor = package().TensorProto(**_head(name, weight))
        apart = beside is not None and size > 0  # runtimes fail to read nothing at the end of a file
        if apart:
            tensor.data_location = tensor.EXTERNAL
            for key, value in (("location", beside), ("offset", offset), ("length", size)):
                tensor.external_data.add(key=key, value=str(value))
        head, within = tensor.SerializeToString(), 0
        if not apart:
            head, within = head + _begins(_RAW_DATA, size), size
        heads.append(_begins(_INITIALIZER, len(head) + within) + head)
        length, offset = length + len(heads[-1]) + within, offset + size
    graph = model.graph.SerializeToString()
    model.ClearField("graph")
    yield model.SerializeToString() + _begins(_GRAPH, len(graph) + length) + graph
    for head, weight in zip(heads, weights.values(), strict=True):
        yield head
        if beside is None:
            yield from pieces(weight)


def _head(name: str, weight: Weight) -> dict[str, Any]:
    """The fields of a TensorProto without its data."""
    return {"name": name, "data_type": tensors.number_of(weight.dtype), "dims": weight.shape}


def _begins(field: int, length: int) -> bytes:
    """How a field of so many bytes begins in a protocol buffer: with its number and kind, and the length in groups of 7
    bits, of which each but the last has its highest bit set."""
    found = bytearray([field << 3 | 2])
    while length > 127:
        found.append(length & 127 | 128)
        length >>= 7
    return bytes([*found, length])
