"""Calls compiled programs: starts a program, lends it threads, and ends it early if Python asks for that.

A signal handler may raise an exception between any two calls in Python code. So everything that a call must do in any
case (wake threads, wait for them, give them back) is one function of machine code. Its source is in `native_source` and
`team_source`, in the language of kernels and a few words more (`translation.memory`). The functions with which kernels
share work (`simd.sharing`) belong to it.

While a program runs, its threads do not have Python's lock, unless it is brief. A clock thread counts ticks. A program
looks at the count every so often (`simd.interrupted`), which costs it a load from memory. When the count has changed,
the thread that made the call takes the lock and makes one step in Python. There, signal handlers run (in the main
thread), and exceptions arrive that other threads send. If that raises, all threads of the program end, and the call
raises the same exception. The step is a call of a function that the caller gave: it may tell somebody how far the
program is (see `steps`).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from scanjit.codegen.places import SYNC_WORDS
from scanjit.config import WATCHED
from scanjit.runtime import cache, host
from scanjit.runtime.native_source import NATIVE_NUMBERS, NATIVE_SOURCE
from scanjit.runtime.sharing_source import sharing_source
from scanjit.runtime.spare_source import SPARE_NUMBERS, SPARE_SOURCE
from scanjit.runtime.structures import STRUCTURES
from scanjit.runtime.team_source import TEAM_NUMBERS, TEAM_SOURCE
from scanjit.schedule.threads.teams import MOST_TEAMS

T = TypeVar("T")
Tick = Callable[[int], None]
"""Called by the thread of a call, with the address of its `LineFields`, when the clock has ticked. Python runs signal
handlers as it begins. If that has happened, it is called once more when the program has ended; `function` is 0 then."""


def silent(line: int) -> None:
    """A tick of a call that tells nobody how far it is."""


Run = Callable[[int, int, int, Tick, int, list[np.ndarray]], int]
"""Takes the address of a program, the address of its table, the number of threads, the function to call when the clock
has ticked, and where the arrays stand in the table: the address of their `places` (how many there are, then pairs of an
entry and of the number of an array), and the arrays. Raises the exception of the tick, or of a signal handler
meanwhile.

Returns how many threads ran the program, plus 256 times how many other calls ran when it began.
"""


Alike = Callable[[tuple[Any, ...]], bool]
"""Says whether values are NumPy arrays of some dtypes and shapes, which code takes as they are."""


class _Method(ctypes.Structure):
    """Python's `PyMethodDef`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    ]


_FASTCALL, _ONE, _NONE, _ANY = 0x80, 0x8, 0x4, 0x3
"""The flags of a builtin function: it takes an array of objects, and how many there are; it takes one; or none; or a
tuple of objects and a dict of those with names."""
_new_builtin = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Method), ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_new_method = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.POINTER(_Method))(
    ("PyDescr_NewMethod", ctypes.pythonapi)
)
_SIGNATURE = b"__call__($self, /, *args, **named)\n--\n\n"


def _source() -> str:
    """The source of this machine code, with numbers in place of names in capitals."""
    numbers = {**NATIVE_NUMBERS, **TEAM_NUMBERS, **SPARE_NUMBERS}
    source = f"{TEAM_SOURCE}{NATIVE_SOURCE}{SPARE_SOURCE}"
    return re.sub(rf"\b({'|'.join(numbers)})\b", lambda name: str(numbers[name[0]]), source)


class Native:
    """The functions of this machine code, and the memory that the threads of this process share (the team)."""

    def __init__(self) -> None:
        from llvmlite import binding as llvm

        source = _source()
        outside = re.findall(r"\b(?:Py|mem|sched_|pthread_|getrusage)\w*(?=\()", source)
        for name in outside:
            if name.startswith("Py"):
                llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
        target, store = host.target(), cache.default()
        offsets = [getattr(each, name).offset for each in STRUCTURES.values() for name, *_ in each._fields_]
        facts = source, sharing_source(target), offsets, cache.version(target), host.TRIPLE
        stem = f"native_{hashlib.sha256(repr(facts).encode()).hexdigest()[:20]}"
        entry = store.load(stem, "native")
        if entry is None:
            from scanjit.runtime import compiler, translation

            parts = translation.functions_together(target)
            names = [name for name in parts if name.startswith("scanjit_together_")]
            parts |= translation.functions(source, STRUCTURES, outside, target)
            text = "\n".join(parts.values()).replace('define internal i64 @"scanjit_', 'define i64 @"scanjit_')
            entry = cache.CacheEntry({"together": names}, compiler.plain_object(text, target))
            store.store(stem, entry, "native")
        self._engine = host.new_engine()
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(entry.payload))
        self._engine.finalize_object()
        for name in entry.metadata["together"]:
            llvm.add_symbol(name, self._engine.get_function_address(name))
        word = ctypes.c_ssize_t
        flags = {"run": _FASTCALL, "run_with_blas": _FASTCALL, "call": _ONE, "alike": _ONE, "empty": _NONE}
        self._methods = {
            name: _Method(name.encode(), self.address(f"scanjit_{name}"), flag, None) for name, flag in flags.items()
        }
        self._call = _Method(b"__call__", self.address("scanjit_called"), _ANY, _SIGNATURE)
        self.run: Run = self._builtin("run")
        self.run_with_blas: Run = self._builtin("run_with_blas")
        self.set_blas = self._function("scanjit_set_blas", None, word, word)
        self._begin_calls = self._function("scanjit_begin_calls", None, *[ctypes.py_object] * 3, word)
        self._new_team = self._function("scanjit_new_team", word, word)
        self._places: list[Any] = []
        self.new_team()
        # Threads may still run this code, and meet at its places, while Python frees all modules at its end.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def address(self, name: str) -> int:
        """The address of a function."""
        return self._engine.get_function_address(name)

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        """A ctypes function that is called with Python's lock held and passes exceptions on."""
        return ctypes.PYFUNCTYPE(result, *arguments)(self.address(name))

    def _builtin(self, name: str, facts: object = None) -> Any:
        """A builtin function of Python's, which is given `facts` in each call. To call one takes a third of the time
        that a ctypes function takes."""
        return _new_builtin(ctypes.byref(self._methods[name]), facts, None)

    def alike(self, facts: array[int]) -> Alike:
        """What says whether values are the arrays of these words: the address of the class `numpy.ndarray`, how many
        values there are, and for each the address of its dtype, the number of its axes, and their sizes."""
        return self._builtin("alike", facts.tobytes())

    def empty(self, function: int, shape: Sequence[int], dtype: np.dtype) -> Callable[[], np.ndarray]:
        """What makes arrays of any values. `function` is the address of NumPy's `PyArray_Empty`."""
        return self._builtin("empty", (array("q", [function, len(shape), *shape]).tobytes(), dtype))

    def call(
        self,
        words: array[int],
        makers: tuple[Callable[[], np.ndarray], ...],
        tick: Tick,
        finish: Callable[[list[np.ndarray]], T],
        kept: object,
    ) -> Callable[[tuple[Any, ...]], T | Literal[False]]:
        """What makes whole calls on one thread, from the arguments. It raises what `Run` raises. It returns False if
        the arguments are not those of the words, if another call uses the table, or if code reports an error.

        Parameters
        ----------
        words : the address of a program, the address of its table, how many words behind that its status lies, whether
            the program is so brief that the thread keeps Python's lock and does not look whether to end, the `places`
            of `Run`, how many entries of the table are 1 from the first call on, these entries, and the words of
            `alike`.
        makers : make the arrays for the results.
        tick : the tick of `Run`.
        finish : makes what a call returns from the results.
        kept : what is to live as long, since the table lies in it.
        """
        return self._builtin("call", (words.tobytes(), makers, tick, finish, kept))

    def called(self, kind: type, at_once: str, otherwise: Callable[..., Any]) -> Any:
        """The method `__call__` of a class, without a frame of Python's.

        Parameters
        ----------
        kind : the class.
        at_once : the attribute with what `call` has made, or False.
        otherwise : the method for calls that are not made at once: those with names, or while the config says to watch
            them, or for which the attribute is False or returns False.
        """
        name = sys.intern(at_once)
        self._kept_for_calls = name, otherwise, WATCHED  # modules are freed before the last calls at Python's end
        self._begin_calls(name, otherwise, False, WATCHED.buffer_info()[0])
        return _new_method(kind, ctypes.byref(self._call))

    def new_team(self) -> None:
        """Start with no workers and no clock, as a new process does. The old team's memory is kept: a call that forked
        may still use it."""
        self._places.append(ctypes.create_string_buffer(8 * SYNC_WORDS * (1 + MOST_TEAMS) + 64))
        self.place = -(-ctypes.addressof(self._places[-1]) // 64) * 64
        self.team = self._new_team(self.place)


_made: dict[None, Native] = {}


def native() -> Native:
    """The machine code of this process, compiled when it is first needed, or taken from the cache.

    There is one: a program's workers must be those that wait at its meeting place. Threads that need it first at the
    same time may each make one; all use the one that is there first.
    """
    return _made.get(None) or _made.setdefault(None, Native())


def running(with_lapack: bool = False) -> Run:
    """The function that runs programs: `run(program, table, threads, tick)` calls the main function at the address
    `program` on this number of threads. While another program uses the workers, it calls it on the caller's thread
    alone.

    If Python wants to raise something meanwhile (Ctrl-C), all threads end, and `run` raises it; it raises nothing else.
    OpenBLAS uses one thread while programs with LAPACK run.
    """
    if not with_lapack:
        return native().run
    from scanjit.runtime import lapack  # imports simd

    controls = lapack.controls()
    if controls is None:
        return native().run
    native().set_blas(*(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in controls))
    return native().run_with_blas


def _after_fork() -> None:
    for made in _made.values():
        made.new_team()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
