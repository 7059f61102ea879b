"""Files of weights that Keras writes, `.weights.h5`: HDF5, whose groups are layers. Reading them takes h5py."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.importers.arrays import as_array

__all__ = ["read_keras_h5"]

_MOST_TIMES = 1032
"""An array may be this many times larger than its data in the file: deflate compresses no better. (HDF5 does not store
what was never written, so without this limit a small file could make an array of any size.)"""


def read_keras_h5(path: str | os.PathLike[str]) -> dict[str, list[np.ndarray]]:
    """The weights in a file that Keras's `model.save_weights("model.weights.h5")` wrote, for each layer.

    Nothing is read from other files: links to them are an error.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict
        From the paths of layers to their arrays in Keras's order: "layers/lstm/cell" for an `LSTM`, of which
        `keras.from_weights` makes a layer, "layers/bidirectional/forward_layer/cell" and ".../backward_layer/cell" for
        the two directions of a `Bidirectional`, whose lists you join.

    Raises
    ------
    ImportError
        If h5py is not installed.
    FormatError
        If Keras did not write this file.

    Examples
    --------
    >>> from lasagne_like.importers import keras, read_keras_h5
    >>> weights = read_keras_h5("model.weights.h5")  # doctest: +SKIP
    >>> keras.from_weights(weights["layers/lstm/cell"])  # doctest: +SKIP
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError("files of Keras are read with h5py: pip install 'scanjit[keras]'") from error
    with open(path, "rb"):  # a missing file, or one without permission, is an OSError
        pass
    try:
        with h5py.File(path, "r") as file:
            return dict(_lists(file, "", h5py, path))
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        if isinstance(error, sj.FormatError) or sj.from_signal_handler(error):
            raise
        raise _bad(path, f"it is not what HDF5 has: {error}") from None


def _lists(group: Any, place: str, h5py: Any, path: Any) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The path and the arrays of each group that has variables."""
    for name in group:
        inner = f"{place}/{name}" if place else name
        if type(group.get(name, getlink=True)) is not h5py.HardLink:
            raise _bad(path, f"{inner!r} is a link, perhaps to another file")
        item = group[name]
        if not isinstance(item, h5py.Group):
            continue
        if name == "vars":
            if found := _variables(item, inner, h5py, path):
                yield place, found
        elif inner.count("/") < 64:  # hard links may form a cycle
            yield from _lists(item, inner, h5py, path)
        else:
            raise _bad(path, "its groups are nested without end")


def _variables(group: Any, place: str, h5py: Any, path: Any) -> list[np.ndarray]:
    """The arrays "0", "1", ... of a group."""
    found = []
    for name in map(str, range(len(group))):
        item = group[name] if type(group.get(name, getlink=True)) is h5py.HardLink else None
        if not isinstance(item, h5py.Dataset) or item.external or item.is_virtual:
            raise _bad(path, f"{place}/{name} is no array of its own")
        if item.nbytes > _MOST_TIMES * item.id.get_storage_size():
            raise _bad(path, f"{place}/{name} of shape {item.shape} has {item.id.get_storage_size()} bytes in the file")
        found.append(as_array(item[()], f"{place}/{name}"))
    return found


def _bad(path: Any, why: str) -> sj.FormatError:
    return sj.FormatError(f"{os.fspath(path)} cannot be read: {why}")
