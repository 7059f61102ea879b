"""Tensors and dtypes of ONNX files as arrays and dtypes, and back.

Files are not trusted. A file must hold as much data as a shape asks for before an array of that shape is made. Data in
other files is read only if they are in the model's folder.
"""

import math
import os
from typing import Any

import numpy as np

from scanjit import errors, types
from scanjit.onnx.extra import package
from scanjit.types import Type

DTYPES: dict[int, np.dtype] = {
    1: np.dtype("float32"),
    2: np.dtype("uint8"),
    3: np.dtype("int8"),
    5: np.dtype("int16"),
    6: np.dtype("int32"),
    7: np.dtype("int64"),
    9: np.dtype("bool"),
    10: np.dtype("float16"),
    11: np.dtype("float64"),
}
"""The dtypes by their numbers in `TensorProto.DataType`; bfloat16, which NumPy lacks, is number 16."""
BFLOAT16 = 16
_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
_FIELDS = {1: "float_data", 7: "int64_data", 11: "double_data"}
_EXTERNAL = 1
_MOST_AXES = 64


def number_of(dtype: Any) -> int:
    """The number of a dtype."""
    dtype = np.dtype(dtype)
    return BFLOAT16 if dtype.name == "bfloat16" else _NUMBERS[dtype]


def dtype_of(number: int, subject: str) -> np.dtype:
    """The dtype with this number, or an error that names it."""
    if number == BFLOAT16:
        return types.dtype_of("bfloat16")
    if number not in DTYPES:
        names = {value: name for name, value in package().TensorProto.DataType.items()}
        raise errors.DtypeError(
            f"{subject} has a dtype that is not supported",
            got=names.get(number, f"the number {number}").lower(),
            expected="one of " + ", ".join(map(str, [*DTYPES.values(), "bfloat16"])),
        )
    return DTYPES[number]


def array_of(tensor: Any, folder: str | None) -> np.ndarray:
    """The array that a `TensorProto` holds. `folder` is that of the model; None if it has none."""
    subject = f"the tensor {tensor.name!r}"
    dtype = dtype_of(tensor.data_type, subject)
    shape = tuple(tensor.dims)
    if len(shape) > _MOST_AXES or any(n < 0 for n in shape):
        raise errors.FormatError(f"the shape of {subject} is not valid", got=shape[: _MOST_AXES + 1])
    if tensor.HasField("segment"):
        raise errors.NotSupportedError(f"{subject} is split into segments")
    count = math.prod(shape)
    kept = np.dtype("uint16") if Type(dtype).is_half else dtype  # a half is kept as its bits
    if tensor.data_location == _EXTERNAL:
        flat = np.frombuffer(_external(tensor, subject, count * dtype.itemsize, folder), kept.newbyteorder("<"))
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data  # each access copies it
        _check_count(subject, shape, count * dtype.itemsize, len(raw), "bytes")
        flat = np.frombuffer(raw, kept.newbyteorder("<"))
    else:
        values = getattr(tensor, _FIELDS.get(tensor.data_type, "int32_data"))
        _check_count(subject, shape, count, len(values), "numbers")
        flat = np.array(values, np.dtype("int32") if tensor.data_type not in _FIELDS else dtype)
    with np.errstate(all="ignore"):
        return flat.astype(kept).view(dtype).reshape(shape)


def _check_count(subject: str, shape: tuple[int, ...], expected: int, got: int, unit: str) -> None:
    if expected != got:
        raise errors.FormatError(
            f"{subject} holds another number of {unit} than its shape asks for",
            got=got,
            expected=f"{expected}, for the shape {shape}",
        )


# ---- data beside a model ---------------------------------------------------------------------------------------------


def _external(tensor: Any, subject: str, nbytes: int, folder: str | None) -> bytes:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if folder is None:
        raise errors.FormatError(
            f"{subject} is kept in another file, and a model that is given as bytes has no folder to look in",
            got=entries.get("location"),
            fix="load the model by its path",
        )
    path = _inside(folder, entries.get("location", ""), subject)
    offset, length = (
        _number(entries.get(key, default), subject) for key, default in (("offset", "0"), ("length", "-1"))
    )
    size = os.path.getsize(path)
    length = size - offset if length < 0 else length
    if offset < 0 or length != nbytes or offset + length > size:
        raise errors.FormatError(
            f"{subject} is kept in a file that does not hold it",
            got=f"bytes {offset} to {offset + length} of {size} in {path}",
            expected=f"{nbytes} bytes",
        )
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


def _inside(folder: str, location: str, subject: str) -> str:
    """The path of a file that must be below a folder, after links are resolved."""
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, location)) if "\0" not in location else ""
    outside = not location or os.path.isabs(location) or not path.startswith(os.path.join(root, ""))
    if outside or not os.path.isfile(path):
        place = "not inside the model's folder" if outside else "missing"
        raise errors.FormatError(
            f"{subject} is kept in another file, which is {place}",
            got=repr(location),
            expected=f"a file below {root}",
        )
    return path


def _number(text: str, subject: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise errors.FormatError(f"{subject} is kept in another file, at a place that is no number", got=text) from None
