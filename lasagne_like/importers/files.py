"""Files of named arrays: `.npz` and safetensors. No code in a file is run, and a malformed file is an error."""

from __future__ import annotations

import json
import math
import os
import struct
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.importers.arrays import as_array, is_bfloat16

__all__ = ["read_npz", "read_safetensors", "write_npz", "write_safetensors"]

Path = str | os.PathLike[str]

# ---- npz -------------------------------------------------------------------------------------------------------------


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an `.npz` file.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    dict
        From names to arrays.

    Raises
    ------
    FormatError
        If it is not an `.npz` file, if it is truncated, or if it has Python objects, which only `pickle` could read.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from lasagne_like.importers import read_npz, write_npz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "weights.npz")
    ...     write_npz(path, {"rnn/kernel": np.ones((2, 2))})
    ...     list(read_npz(path))
    ['rnn/kernel']
    """
    found = {}
    with open(path, "rb") as stream:
        if not stream.read(6).startswith((b"PK", b"\x93NUMPY")):
            raise unreadable(path, "it is not an .npz file")
        stream.seek(0)
        what = "it"
        try:
            archive = np.load(stream, allow_pickle=False)
            if isinstance(archive, np.lib.npyio.NpzFile):
                for name in archive.files:
                    what = repr(name)
                    found[name] = archive[name]
        except sj.not_from_signal_handler(Exception) as error:  # zipfile and NumPy raise anything for a malformed file
            raise unreadable(path, f"{what} cannot be read as an array of an .npz file: {error}") from None
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise unreadable(path, "it is an .npy file with one array, not an .npz file")
    return found


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to an `.npz` file. After an error, a file that was there before is as it was.

    Parameters
    ----------
    path : str or path
    arrays : mapping from names to arrays

    Examples
    --------
    See `read_npz`.

    >>> from lasagne_like.importers import write_npz
    """
    _check_names(arrays)
    named = {name: as_array(value, name) for name, value in arrays.items()}
    for name in named:
        if "\0" in name:  # a zero byte ends the name in the file
            raise ValueError(f"the name {name!r} has a zero byte, which names in .npz files cannot have")
    with sj.replace_file(path) as file, zipfile.ZipFile(file, "w") as archive:  # numpy.savez does not accept all names
        for name, array in named.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _check_names(arrays: Any) -> None:
    if not isinstance(arrays, Mapping):
        raise TypeError(f"arrays must be a mapping from names to arrays, got a {type(arrays).__name__}")
    for name in arrays:
        if not isinstance(name, str):
            raise TypeError(f"names of arrays must be strings, got {name!r}")


# ---- safetensors -----------------------------------------------------------------------------------------------------

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
_NAMES = {np.dtype(text): name for name, text in _DTYPES.items()}
_LONGEST_HEADER = 100_000_000


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of a safetensors file.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    dict
        From names to arrays. Arrays of bfloat16 become float32.

    Raises
    ------
    FormatError
        If it is not a safetensors file, if it is truncated, or if its header is wrong: offsets that overlap, leave
        holes or lie outside of the file, sizes that do not fit, or unknown dtypes.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from lasagne_like.importers import read_safetensors, write_safetensors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     write_safetensors(path, {"rnn.weight_ih_l0": np.ones((8, 3), np.float32)})
    ...     read_safetensors(path)["rnn.weight_ih_l0"].shape
    (8, 3)
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = file.read(8)
        if len(first) < 8:
            raise unreadable(path, f"it has {size} bytes, fewer than the 8 bytes of the header's length")
        (length,) = struct.unpack("<Q", first)
        if length > min(size - 8, _LONGEST_HEADER):
            raise unreadable(path, f"its header should have {length} bytes, but the file has {size}")
        header = _header(path, file.read(length))
        data = file.read()
    found, end = {}, 0
    for start, stop, name, entry in _ranges(path, header, len(data)):
        if start != end:
            raise unreadable(path, f"{name!r} begins at byte {start}, but the array before it ends at byte {end}")
        found[name] = _array(path, name, entry, data[start:stop])
        end = stop
    if end != len(data):
        raise unreadable(path, f"it has {len(data) - end} bytes behind the last array")
    return {name: found[name] for name in header if name in found}


def _header(path: Path, text: bytes) -> dict[str, Any]:
    """The header, a JSON object. Repeated names are an error."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            raise ValueError("a name occurs twice")
        return dict(pairs)

    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except sj.not_from_signal_handler(ValueError, RecursionError) as error:
        raise unreadable(path, f"its header cannot be read: {error}") from None
    if not isinstance(header, dict):
        raise unreadable(path, "its header is not a JSON object")
    return header


def _ranges(path: Path, header: Mapping[str, Any], size: int) -> list[tuple[int, int, str, Any]]:
    """The first byte, the end, the name and the entry of each array, in the order of the file."""
    ranges = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        offsets: Any = entry.get("data_offsets") if isinstance(entry, dict) else None
        if not _are_sizes(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= size:
            raise unreadable(path, f"{name!r} has the offsets {offsets!r}, but there are {size} bytes of data")
        ranges.append((*offsets, name, entry))
    return sorted(ranges, key=lambda item: item[:2])


def _array(path: Path, name: str, entry: Mapping[str, Any], data: bytes) -> np.ndarray:
    code: Any = entry.get("dtype")
    shape: Any = entry.get("shape")
    if not isinstance(code, str) or code not in (*_DTYPES, "BF16"):
        raise unreadable(path, f"{name!r} has the unknown dtype {code!r}")
    if not _are_sizes(shape) or len(shape) > 32:
        raise unreadable(path, f"{name!r} has the shape {shape!r}, which is not a list of sizes")
    dtype = np.dtype("<u2" if code == "BF16" else _DTYPES[code])
    if math.prod(shape) * dtype.itemsize != len(data):
        raise unreadable(
            path, f"{name!r} has {len(data)} bytes, which do not fit its dtype {code} and shape {tuple(shape)}"
        )
    array = np.frombuffer(data, dtype).reshape(shape)
    if code == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    if code == "BOOL":
        return array.view(np.uint8) != 0  # NumPy's bools must not have other bytes than 0 and 1
    return array.astype(dtype.newbyteorder("="))


def _are_sizes(value: Any) -> bool:
    """Whether a value from JSON is a list of sizes."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 2**63 for item in value)


def write_safetensors(path: Path, arrays: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays to a safetensors file. After an error, a file that was there before is as it was.

    Parameters
    ----------
    path : str or path
    arrays : mapping from names to arrays
    metadata : mapping from strings to strings, optional
        Further entries of the header.

    Examples
    --------
    See `read_safetensors`.

    >>> from lasagne_like.importers import write_safetensors
    """
    _check_names(arrays)
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    parts, end = [], 0
    for name, value in arrays.items():
        sj.check_unmasked(value, name)
        if is_bfloat16(value):  # its bits are the upper halves of those of a float32
            array = (as_array(value, name).view(np.uint32) >> 16).astype(np.uint16)
            code: str | None = "BF16"
        else:
            array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
            code = _NAMES.get(array.dtype.newbyteorder("<"))
        if code is None or name == "__metadata__":
            raise ValueError(f"safetensors has no dtype for {name!r}, which has {array.dtype}")
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [end, end + len(data)]}
        parts.append(data)
        end += len(data)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)  # this aligns the data
    with sj.replace_file(path) as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def unreadable(path: Path, why: str) -> sj.FormatError:
    """The error about a file that cannot be read."""
    return sj.FormatError(f"{os.fspath(path)} cannot be read: {why}")
