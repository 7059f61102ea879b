"""Spare memory: results lie where earlier results lay that nobody needs any more.

The system hands out new memory page by page, when it is first written, and clears it. That takes up to ten times as
long as a loop of few operations takes to write its results. So the memory of large results is kept when their arrays
end, `MOST_BYTES` of it in a process, and later results get it. The arrays are NumPy's own in all respects: NumPy lets a
program say where the data of new arrays come from (NEP 49), and asks the same functions to free them.
"""

import contextvars
import ctypes
import importlib
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from scanjit.runtime.native import native
from scanjit.runtime.structures import SpareFields

LARGE = 1 << 17
"""Results of fewer bytes are made as NumPy makes arrays: C libraries keep the memory of those themselves."""
_EMPTY, _SET_HANDLER, _GET_HANDLER = 184, 304, 305
"""The places of these functions in NumPy's interface for C, which are the same in all its versions."""


class _Allocator(ctypes.Structure):
    """NumPy's `PyDataMemAllocator`."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("context", "take", "zeros", "resize", "give")]


class _Handler(ctypes.Structure):
    """NumPy's `PyDataMem_Handler`."""

    _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator)]


def _python(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_capsule = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_NAME = b"mem_handler"


def _interface() -> Any:
    """The addresses of the functions of NumPy's interface for C."""
    interface = importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API
    return ctypes.cast(_pointer(interface, None), ctypes.POINTER(ctypes.c_void_p))


class Keeper:
    """What makes arrays in spare memory. It lives as long as the process: arrays may end at any time."""

    def __init__(self) -> None:
        table = _interface()
        get = ctypes.PYFUNCTYPE(ctypes.py_object)(table[_GET_HANDLER])
        use = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])
        self._context = contextvars.Context()
        self._usual = self._context.run(get)
        usual = _Handler.from_address(_pointer(self._usual, _NAME)).allocator
        self.spare = SpareFields(*(getattr(usual, name) or 0 for name in ("context", "take", "give")))
        at = native().address
        self._handler = _Handler(
            b"scanjit",
            1,
            _Allocator(
                ctypes.addressof(self.spare),
                *(at(f"scanjit_{name}") for name in ("take", "zeros", "resize", "give")),
            ),
        )
        self._context.run(use, _capsule(ctypes.addressof(self._handler), _NAME, None))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array of any values."""
        try:
            return self._context.run(np.empty, shape, dtype)
        except RuntimeError:  # we are inside already: a finalizer runs
            return np.empty(shape, dtype)


_made: dict[None, Keeper] = {}


def keeper() -> Keeper:
    """The keeper of this process, made when it is first needed."""
    return _made.get(None) or _made.setdefault(None, Keeper())


def maker(shape: tuple[int, ...], dtype: np.dtype) -> Callable[[], np.ndarray]:
    """What makes the array of a result."""
    if prod(shape) * dtype.itemsize >= LARGE:
        return partial(keeper().empty, shape, dtype)
    return native().empty(_interface()[_EMPTY], shape, dtype)  # half of the time of `np.empty`
