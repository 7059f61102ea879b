"""Keras's files of weights, `.weights.h5`. They are HDF5 files with a group for each layer. h5py must be installed."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.importers.arrays import as_array
from lasagne_like.importers.files import Path, unreadable

__all__ = ["read_keras_h5"]

_MOST_TIMES = 1032
"""The largest ratio of the bytes of an array to its bytes in the file: deflate cannot compress more than this.

HDF5 does not store elements that were never written. Without this limit, a small file could make an array of any
size."""


def read_keras_h5(path: Path) -> dict[str, list[np.ndarray]]:
    """Read the weights from a file that Keras's `model.save_weights("model.weights.h5")` wrote.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    dict
        From the path of each layer in the file to its list of arrays, which `keras.from_weights` takes. The path of an
        `LSTM` is "layers/lstm/cell". A `Bidirectional` has the two paths "layers/bidirectional/forward_layer/cell" and
        "layers/bidirectional/backward_layer/cell"; concatenate their lists.

    Raises
    ------
    ImportError
        If h5py is not installed.
    FormatError
        If it is no such file, if it has no arrays (as one that Keras 2 wrote, whose groups have other names), or if it
        has a link to another file.

    Examples
    --------
    >>> from lasagne_like.importers import keras, read_keras_h5
    >>> weights = read_keras_h5("model.weights.h5")  # doctest: +SKIP
    >>> keras.from_weights(weights["layers/lstm/cell"])  # doctest: +SKIP
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError("reading Keras's files needs h5py: pip install 'scanjit[keras]'") from error
    with open(path, "rb") as opened:  # this raises an OSError for a missing file, or one without permission
        if opened.read(4) == b"PK\3\4":
            raise unreadable(path, "it is an archive, as a .keras file is: take model.weights.h5 out of it")
    try:
        with h5py.File(path, "r") as file:
            found = dict(_lists(file, "", h5py, path))
    except sj.FormatError:
        raise
    except sj.not_from_signal_handler(OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise unreadable(path, f"it cannot be read as HDF5: {error}") from None
    if not found:
        raise unreadable(path, "it has no arrays where save_weights of Keras 3 writes them: call that")
    return found


def _lists(group: Any, place: str, h5py: Any, path: Any) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The path and the arrays of each group that has variables."""
    for name in group:
        inner = f"{place}/{name}" if place else name
        if type(group.get(name, getlink=True)) is not h5py.HardLink:
            raise unreadable(path, f"{inner!r} is a link, which may lead to another file")
        item = group[name]
        if not isinstance(item, h5py.Group):
            continue
        if name == "vars":
            if found := _variables(item, inner, h5py, path):
                yield place, found
        elif inner.count("/") < 64:  # hard links may form a cycle
            yield from _lists(item, inner, h5py, path)
        else:
            raise unreadable(path, "its groups are nested more than 64 levels deep")


def _variables(group: Any, place: str, h5py: Any, path: Any) -> list[np.ndarray]:
    """The arrays "0", "1", ... of a group."""
    found = []
    for name in map(str, range(len(group))):
        item = group[name] if type(group.get(name, getlink=True)) is h5py.HardLink else None
        if not isinstance(item, h5py.Dataset) or item.external or item.is_virtual:
            raise unreadable(path, f"{place}/{name} is not an array that is stored in this file")
        if item.nbytes > _MOST_TIMES * item.id.get_storage_size():
            raise unreadable(
                path,
                f"{place}/{name} has only {item.id.get_storage_size()} bytes in the file, too few for its shape "
                f"{item.shape}",
            )
        found.append(as_array(item[()], f"{place}/{name}"))
    return found
