"""Kernels: generated functions on integers and addresses, compiled or taken from the cache, loaded once a process.

There is one way into memory, from object code, whether it was compiled just now or years ago; and the way from the
disk does not import Numba.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import linecache
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from scanjit.errors import InternalError
from scanjit.runtime import cache


class Unit(NamedTuple):
    """What a kernel is compiled from.

    `symbol` is the name that the object code exports; `externals` maps the name of each kernel that is called to its
    symbol and its number of arguments; `path` is where the source can be found.
    """

    name: str
    source: str
    path: str
    symbol: str
    externals: Mapping[str, tuple[str, int]]


class Kernel:
    """A compiled function of integers (sizes, strides, addresses) that returns nothing.

    Calling it from Python releases the GIL. It trusts its arguments: a wrong address ends the process.

    Attributes
    ----------
    name, source : as given to `kernel`.
    externals : the kernels that it calls, by name, with their numbers of arguments.
    arity : the number of arguments.
    path : a real file with the source, where the cache can be written.
    symbol : the name that the object code exports; unique to this source, generator, Numba and CPU.
    address : where its code is.
    compiled : whether this process compiled it (or found it in the cache).
    seconds : how long that took; 0 when it came from the cache.
    """

    def __init__(self, unit: Unit, externals: Mapping[str, int], arity: int, address: int, seconds: float) -> None:
        self.name, self.source, self.path, self.symbol = unit.name, unit.source, unit.path, unit.symbol
        self.externals, self.arity, self.address = dict(externals), arity, address
        self.compiled, self.seconds = seconds > 0, seconds
        self._unit = unit

    @functools.cached_property
    def call(self) -> Callable[..., None]:
        """The bare C function: the fastest way to call it from Python."""
        return ctypes.CFUNCTYPE(None, *[ctypes.c_ssize_t] * self.arity)(self.address)

    def __call__(self, *arguments: int) -> None:
        if len(arguments) != self.arity:  # ctypes lets superfluous ones pass
            raise TypeError(f"the kernel {self.name} takes {self.arity} arguments, got {len(arguments)}")
        self.call(*arguments)

    def asm(self) -> str:
        """The assembly of its code, compiled anew for the purpose."""
        from scanjit.runtime import compiler

        with _lock:
            return compiler.to_assembly(self._unit)

    def __repr__(self) -> str:
        origin = f"compiled in {self.seconds:.2f} s" if self.compiled else "from the cache"
        return f"<kernel {self.name}({self.arity}) {origin}, {self.path}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return kernel, (self.source, self.name, self.externals)


def kernel(source: str, name: str, externals: Mapping[str, int] | None = None) -> Kernel:
    """The kernel with this source: from this process, from the cache, or compiled; whichever comes first.

    Parameters
    ----------
    source : the text of a Python module that defines `def <name>(a, b, ...)`. All arguments are of the size of a
        pointer; it returns nothing and cannot raise. Each of its variables has one type throughout.
    name : an identifier; one name, one source: it should contain a digest of its content.
    externals : the other kernels that the source calls, already made, each with its number of arguments.

    Raises
    ------
    InternalError : the source does not compile, calls something that is not there, or has another kernel's name.

    Notes
    -----
    Safe to call from any thread, and in the child of a fork. Several processes may make the same kernel at once.
    """
    externals = {} if externals is None else externals
    found = _kernels.get(name)
    if found is None:
        with _lock:
            found = _kernels.get(name)
            if found is None:
                found = _kernels[name] = _make(source, name, externals)
    if found.source != source or found.externals != dict(externals):
        raise InternalError(f"two different kernels are called {name}", where=found.path, fix="name them by content")
    return found


def compile_count() -> int:
    """How many kernels this process has compiled; those from the cache do not count."""
    return _compilations


# One lock for all names, not one for each: Numba compiles one function at a time anyway, and loading takes 0.1 ms.
# Whoever forks holds it, so that a child never starts with a half-made kernel, or with a lock that nobody will open.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)

_kernels: dict[str, Kernel] = {}
_compilations = 0


def _make(source: str, name: str, externals: Mapping[str, int]) -> Kernel:
    if not name.isidentifier():
        raise InternalError("the name of a kernel has to be an identifier", got=repr(name))
    callees = {callee: _callee(callee, arity, name) for callee, arity in sorted(externals.items())}
    facts = (cache.version(), name, source, sorted((k.name, k.symbol, k.arity) for k in callees.values()))
    key = hashlib.sha256(repr(facts).encode()).hexdigest()[:20]
    store, stem = cache.default(), f"{name[:100]}_{key}"
    unit = Unit(
        name=name,
        source=source,
        path=store.source(stem, source) or _in_memory(stem, source),
        symbol=f"scanjit_{name}_{key}",
        externals={callee: (k.symbol, k.arity) for callee, k in callees.items()},
    )
    entry, seconds = store.load(stem), 0.0
    if entry is None or entry.metadata.get("symbol") != unit.symbol:
        entry, seconds = _compile(unit)
        store.store(stem, entry)
    address = _loader.load(unit, entry)
    return Kernel(unit, externals, entry.metadata["arity"], address, seconds)


def _callee(name: str, arity: int, caller: str) -> Kernel:
    callee = _kernels.get(name)
    if callee is None or callee.arity != arity:
        raise InternalError(
            f"the kernel {caller} calls {name}, which is not there in this form",
            got=f"a kernel of {callee.arity} arguments" if callee else "no such kernel",
            expected=f"a kernel of {arity} arguments, made before",
        )
    return callee


def _in_memory(stem: str, source: str) -> str:
    """A name under which tracebacks find the source where no file can be written."""
    path = f"<scanjit {stem}>"
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    return path


def _compile(unit: Unit) -> tuple[cache.Entry, float]:
    global _compilations
    from scanjit.runtime import compiler  # only now: it imports Numba, which takes half a second

    start = time.perf_counter()
    code, arity, undefined = compiler.to_object(unit)
    _compilations += 1
    return cache.Entry(
        {"symbol": unit.symbol, "arity": arity, "undefined": undefined}, code
    ), time.perf_counter() - start


class _Loader:
    """Object code into memory, for the rest of the process: somebody may hold an address of it."""

    def __init__(self) -> None:
        self._engine: Any = None

    def load(self, unit: Unit, entry: cache.Entry) -> int:
        """The address of a kernel; raises InternalError if it needs a symbol that does not exist."""
        from llvmlite import binding as llvm

        # LLVM would end the process at an unknown symbol, so it never gets to see one.
        undefined = entry.metadata["undefined"]
        missing = [name for name in undefined if llvm.address_of_symbol(name) is None]
        if any(name.startswith("scanjit_lapack_") for name in missing):
            from scanjit.runtime import lapack

            lapack.provide(missing)
            missing = [name for name in missing if llvm.address_of_symbol(name) is None]
        if missing:
            _find_more_symbols()
            missing = [name for name in missing if llvm.address_of_symbol(name) is None]
        if missing:
            raise InternalError(f"the kernel {unit.name} needs symbols that do not exist", got=missing, where=unit.path)

        if self._engine is None:
            # One engine for all kernels: it takes 4 ms to make, and each object 0.1 ms to add.
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(entry.payload))
        self._engine.finalize_object()
        address = int(self._engine.get_function_address(unit.symbol))
        if not address:
            raise InternalError(f"the object code of {unit.name} does not define it", where=unit.path)
        llvm.add_symbol(unit.symbol, address)
        return address


def _find_more_symbols() -> None:
    """Make known what a process has not loaded by itself: the C library's mathematics, and Numba's helpers."""
    from llvmlite import binding as llvm

    if sys.platform.startswith("linux"):
        with contextlib.suppress(RuntimeError):
            llvm.load_library_permanently("libm.so.6")
    from numba.core.registry import cpu_target

    _ = cpu_target.target_context  # making it registers them


_loader = _Loader()
