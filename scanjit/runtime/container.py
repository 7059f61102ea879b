"""Files that hold a JSON text and arrays. They are zip archives, as NumPy's .npz files are, with a checksum.

The archive holds `scanjit-function.json` and then `arrays/0.npy`, `arrays/1.npy`..., all uncompressed: other programs
can read it (`numpy.load` too). Its comment, which is the end of the file, is the SHA-256 of all that comes before.

Reading runs nothing that a file says, and takes no more memory than a small multiple of the file's size.
"""

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scanjit import errors, types
from scanjit.runtime.files import replace_file

_TEXT = "scanjit-function.json"
_BEFORE_NAME = 30  # bytes of the header of an entry of a zip archive, before its name
_COMMENT = b"sha256 of what comes before: "
_DIGEST = 64  # characters
_LONGEST_HEADER = 4096
_NEVER = (1980, 1, 1, 0, 0, 0)  # equal contents are equal files


def write(path: str | os.PathLike[str], content: Any, arrays: Sequence[np.ndarray]) -> None:
    """Write a file. If that fails, an older file of this name stays as it was."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(_TEXT, _NEVER), json.dumps(content, allow_nan=False, separators=(",", ":")))
        for i, array in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(_name(i), _NEVER), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
        archive.comment = _COMMENT + b"0" * _DIGEST
    # after an error, too, nothing holds the buffer
    with packed.getbuffer()[:-_DIGEST] as data, replace_file(path) as file:
        file.writelines([data, hashlib.sha256(data).hexdigest().encode()])


def _name(i: int) -> str:
    return f"arrays/{i}.npy"


def read(path: str | os.PathLike[str]) -> tuple[Any, list[np.ndarray]]:
    """The JSON text and the arrays of a file.

    Raises
    ------
    FormatError
        If it is not a complete file that `write` made.
    OSError
        If it cannot be read.
    """
    shown = os.fsdecode(path)
    data = Path(shown).read_bytes()
    if data[_BEFORE_NAME : _BEFORE_NAME + len(_TEXT)] != _TEXT.encode() or data[:2] != b"PK":
        raise errors.FormatError("this file is no saved function", got=repr(shown))
    body = memoryview(data)[:-_DIGEST]
    if hashlib.sha256(body).hexdigest().encode() != data[-_DIGEST:]:
        raise errors.FormatError(
            "this saved function is not whole: its checksum is another than that of its content",
            got=f"{shown!r}, {len(data)} bytes",
            fix="take another copy of the file: it was cut or changed after it was written",
        )
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return _unpacked(archive, len(data))


def _unpacked(archive: zipfile.ZipFile, size: int) -> tuple[Any, list[np.ndarray]]:
    entries = archive.infolist()
    if [entry.filename for entry in entries] != [_TEXT, *map(_name, range(len(entries) - 1))]:
        raise errors.FormatError("the entries of a saved function are not those that it has")
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise errors.FormatError("an entry of a saved function is compressed")
    if sum(entry.file_size for entry in entries) > size:
        raise errors.FormatError("the entries of a saved function are larger than the file")
    text, *arrays = (archive.read(entry) for entry in entries)
    return json.loads(text), [_array(data) for data in arrays]


_OF_BFLOAT16 = np.dtype("V2")
"""The dtype that NumPy writes for an array of bfloat16: elements of two bytes, about which it knows nothing."""


def _array(data: bytes) -> np.ndarray:
    """The array of a .npy file. NumPy's own reader is not used: it allocates as much memory as a header claims."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise errors.FormatError("an array of a saved function is of another format than it should be")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file, _LONGEST_HEADER)
    if dtype == _OF_BFLOAT16:
        dtype = types.dtype_of("bfloat16")
    rest = memoryview(data)[file.tell() :]
    if fortran or not types.is_in_memory(dtype) or len(rest) != math.prod(shape) * dtype.itemsize:
        raise errors.FormatError("an array of a saved function is not of the type that it should be", got=dtype)
    return np.frombuffer(rest, dtype).reshape(shape)
