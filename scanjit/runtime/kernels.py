"""Kernels: generated functions of integers and addresses, compiled or taken from the cache, loaded once in a process.

All of them are loaded from object code, whether it was compiled just now or years ago.
"""

import contextlib
import ctypes
import functools
import hashlib
import linecache
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from scanjit.errors import ArgumentError, InternalError
from scanjit.ops.guest import GUESTS, LINKED, PASSING
from scanjit.runtime import cache, host, processors, waiting
from scanjit.runtime.claims import Claims
from scanjit.runtime.native import native
from scanjit.runtime.recipe import GeneratedFunction
from scanjit.runtime.undisturbed import Abandoned, undisturbed
from scanjit.runtime.unit import Unit
from scanjit.runtime.waiting import Progress
from scanjit.target import Target

Wanted = tuple[str, str, Mapping[str, int]]
"""The source of a kernel, its name, and the kernels that it calls, each with its number of arguments."""


class Kernel:
    """A compiled function of integers (sizes, strides, addresses) that returns nothing.

    Calling it from Python releases the GIL. It trusts its arguments: a wrong address ends the process.

    Attributes
    ----------
    name, source : as given to `kernel`.
    externals : the kernels that it calls, by name, with their numbers of arguments.
    arity : the number of arguments.
    path : a real file with the source, if the cache can be written.
    symbol : the name that the object code exports; unique to this source, generator, LLVM and CPU.
    stem : the beginning of the names of its files in the cache; as unique.
    address : where its code is in memory.
    compiled : whether this process compiled it (or found it in the cache).
    seconds : how long that took; 0 if it came from the cache.
    """

    def __init__(
        self, unit: Unit, target: Target, externals: Mapping[str, int], arity: int, address: int, seconds: float
    ) -> None:
        self.name, self.source, self.path, self.symbol = unit.name, unit.source, unit.path, unit.symbol
        self.externals, self.arity, self.address, self.stem = dict(externals), arity, address, unit.stem
        self.compiled, self.seconds = seconds > 0, seconds
        self._unit, self._target = unit, target

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

        def assemble(abandoned: Callable[[], bool]) -> str:
            with _lock:
                return compiler.to_assembly(self._unit, self._target)

        return undisturbed(assemble)

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
    return kernels([(source, name, {} if externals is None else externals)])[0]


def kernels(wanted: Sequence[Wanted]) -> list[Kernel]:
    """Several kernels, each of which may call those before it.

    Kernels that must be compiled are compiled side by side, in threads of their own, so that an interrupt leaves
    neither LLVM nor the cache in the middle of something.
    """
    target = host.target()
    if target.triple != host.TRIPLE:
        raise ArgumentError(
            "this machine cannot run what is made for another one", got=target.triple, expected=host.TRIPLE, where=""
        )
    if any((name, target.code) not in _kernels for _, name, _ in wanted):
        undisturbed(functools.partial(_make_missing, wanted, target))
    for source, name, externals in wanted:
        found = _kernels[name, target.code]
        if found.source != source or found.externals != dict(externals):
            raise InternalError(
                f"two different kernels are called {name}", where=found.path, fix="name them by content"
            )
    return [_kernels[name, target.code] for _, name, _ in wanted]


def restored(functions: Sequence[GeneratedFunction]) -> list[Kernel] | None:
    """The kernels of functions that an earlier process compiled. None if the source of one is not in the cache, or does
    not match its name."""
    store, arity = cache.default(), {function.name: function.arity for function in functions}
    wanted: list[Wanted] = []
    for function in functions:
        text = store.text(function.stem)
        if text is None or not arity.keys() >= set(function.calls):
            return None
        wanted.append((text, function.name, {callee: arity[callee] for callee in function.calls}))
    with contextlib.suppress(InternalError):
        planned = units(wanted, host.target())
        if all(planned[function.name].stem == function.stem for function in functions):
            found = kernels(wanted)
            if all(each.arity == function.arity for each, function in zip(found, functions, strict=True)):
                return found
    return None


def compile_count() -> int:
    """How many kernels this process has compiled; those from the cache do not count."""
    return _compilations


# One lock for all names, not one for each: all processors compile what one caller wants, and loading takes 0.1 ms.
# Whoever forks holds it, so that a child never starts with a half-made kernel, or with a lock that nobody will open.
_lock = threading.RLock()
_held_by_fork: list[Any] = []


def _before_fork() -> None:
    """Hold our lock, then that of llvmlite. (Threads that export, or that compile with Numba, hold only llvmlite's.)"""
    _lock.acquire()
    if (ffi := sys.modules.get("llvmlite.binding.ffi")) is not None:
        ffi.lib._lock.__enter__()
        _held_by_fork.append(ffi.lib._lock)


def _after_fork() -> None:
    while _held_by_fork:
        _held_by_fork.pop().__exit__()
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)

_kernels: dict[tuple[str, tuple[str, str, str, bool]], Kernel] = {}
"""The kernels by name, and by everything in the target that decides object code."""
_compilations = 0


def units(wanted: Sequence[Wanted], target: Target) -> dict[str, Unit]:
    """The units from which kernels are compiled, by name. Their sources are written into the cache; nothing is
    compiled.

    Examples
    --------
    An object file for another machine, which nobody here could load:

    >>> from scanjit.runtime import compiler
    >>> from scanjit.target import target_for
    >>> there = target_for("x86_64-pc-windows-msvc")
    >>> source = "from scanjit.simd import store_i64\\ndef answer_1(place): store_i64(place, 42)"
    >>> unit = units([(source, "answer_1", {})], there)["answer_1"]
    >>> compiler.to_object([unit], there)[:2].hex()  # what a COFF file for x86-64 begins with
    '6486'
    """
    found: dict[str, Unit] = {}
    for source, name, externals in wanted:
        if name not in found:
            found[name] = _unit(source, name, externals, found, target)
    return found


def _make_missing(wanted: Sequence[Wanted], target: Target, abandoned: Callable[[], bool]) -> None:
    with _lock:
        missing = [each for each in wanted if (each[1], target.code) not in _kernels]
        _make(units(missing, target), target, waiting.current() or Progress(""), abandoned)


def _make(units: Mapping[str, Unit], target: Target, progress: Progress, abandoned: Callable[[], bool]) -> None:
    entries = {name: entry for name, unit in units.items() if (entry := _kept(unit)) is not None}
    seconds: dict[str, float] = {}
    missing = [unit for name, unit in units.items() if name not in entries]
    for unit, entry, spent in _compiled(missing, target, progress, abandoned):
        entries[unit.name], seconds[unit.name] = entry, spent
    for name, unit in units.items():
        externals = {callee: arity for callee, (_, arity) in unit.externals.items()}
        for callee, arity in externals.items():
            _callee(callee, arity, name, target)
        address = _load(unit, entries[name])
        arity = entries[name].metadata["arity"]
        made = Kernel(unit, target, externals, arity, address, seconds.get(name, 0.0))
        _kernels[name, target.code] = made


def _kept(unit: Unit) -> cache.CacheEntry | None:
    """The object code of a unit from the cache."""
    entry = cache.default().load(unit.stem)
    return entry if entry is not None and entry.metadata.get("symbol") == unit.symbol else None


def _unit(source: str, name: str, externals: Mapping[str, int], planned: Mapping[str, Unit], target: Target) -> Unit:
    if not (name.isidentifier() and name.isascii()):
        raise InternalError("the name of a kernel has to be an identifier of ASCII letters", got=repr(name))
    callees = {}
    for callee, arity in sorted(externals.items()):
        symbol = planned[callee].symbol if callee in planned else _callee(callee, arity, name, target).symbol
        callees[callee] = symbol, arity
    facts = (cache.version(target), name, source, [(callee, *found) for callee, found in callees.items()])
    key = hashlib.sha256(repr(facts).encode()).hexdigest()[:20]
    stem = f"{name[:100]}_{key}"
    path = (PASSING not in source and cache.default().source(stem, source)) or _in_memory(stem, source)
    return Unit(name, source, path, f"scanjit_{name}_{key}", callees, stem)


def _callee(name: str, arity: int, caller: str, target: Target) -> Kernel:
    callee = _kernels.get((name, target.code))
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


def _compiled(
    units: Sequence[Unit], target: Target, progress: Progress, abandoned: Callable[[], bool]
) -> list[tuple[Unit, cache.CacheEntry, float]]:
    """Compile units, and leave them in the cache. Returns each with its object code and the seconds that compiling it
    took: 0 if another process did.

    LLVM takes most of the time, and releases Python's lock meanwhile. So this thread translates one unit after the
    other, and a thread for each other processor has LLVM compile what is translated; then this one helps them. (If all
    threads translated, one would do so while the others wait for the lock, and their processors with them.) The longest
    units are first, so that all threads end together. The machine code that calls kernels comes before them, if this
    process does not have it yet. What other processes compile at this moment comes last: then it is there. Raises what
    was raised first, and `Abandoned` if nobody waits any more."""
    global _compilations
    if not units:
        return []
    progress.kernels += len(units)
    found: list[tuple[Unit, cache.CacheEntry, float]] = []
    elsewhere: dict[str, Unit] = {}
    errors: list[BaseException] = []
    jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()

    def work() -> None:
        """Do the jobs up to the first None."""
        try:
            while (job := jobs.get()) is not None and not (errors or abandoned()):
                job()
        except BaseException as error:
            errors.append(error)

    def end(unit: Unit, rest: Callable[[], tuple[cache.CacheEntry, float]]) -> None:
        found.append((unit, *rest()))
        progress.done += 1
        claims.end(unit.stem)

    with Claims(cache.default().directory) as claims, _lock_passed_on_soon():
        jobs.put(native)
        threads = _started(work, min(processors.count() - 1, len(units)))
        try:
            for unit in sorted(units, key=lambda unit: len(unit.source), reverse=True):
                if errors or abandoned():
                    break
                if claims.take(unit.stem):
                    jobs.put(functools.partial(end, unit, _begun(unit, target, progress)))
                else:
                    elsewhere[unit.stem] = unit
        except BaseException as error:
            errors.append(error)
        for _ in range(1 + len(threads)):
            jobs.put(None)
        work()
        for thread in threads:
            thread.join()
        for stem in claims.wait([] if errors else list(elsewhere), abandoned):
            end(elsewhere[stem], _begun(elsewhere[stem], target, progress))
    if abandoned():
        raise Abandoned
    if errors:
        raise errors[0]
    _compilations += sum(spent > 0 for _, _, spent in found)
    return found


@contextlib.contextmanager
def _lock_passed_on_soon() -> Iterator[None]:
    """A context in which a thread that waits for Python's lock gets it after half a millisecond instead of five: one
    that calls LLVM wants it for a moment again and again, while the one that translates never gives it up by itself."""
    usual = sys.getswitchinterval()
    soon = min(usual, 0.0005)
    sys.setswitchinterval(soon)
    try:
        yield
    finally:
        if math.isclose(sys.getswitchinterval(), soon):  # else somebody has set it meanwhile
            sys.setswitchinterval(usual)


def _begun(unit: Unit, target: Target, progress: Progress) -> Callable[[], tuple[cache.CacheEntry, float]]:
    """Translate a unit. Returns what has LLVM compile it, and then gives its object code, and the seconds that all of
    this took: 0 if it is in the cache by now."""
    if (kept := _kept(unit)) is not None:
        progress.kept += 1
        return lambda: (kept, 0.0)
    from scanjit.runtime import compiler

    begin = time.perf_counter()
    translated = compiler.translate(unit, target)
    seconds = time.perf_counter() - begin

    def rest() -> tuple[cache.CacheEntry, float]:
        begin = time.perf_counter()
        code, undefined = compiler.to_load(translated)
        entry = cache.CacheEntry({"symbol": unit.symbol, "arity": translated.arity, "undefined": undefined}, code)
        spent = seconds + time.perf_counter() - begin
        progress.kept += PASSING not in unit.source and cache.default().store(unit.stem, entry)
        return entry, spent

    return rest


def _started(work: Callable[[], None], count: int) -> list[threading.Thread]:
    """Threads that do this work: `count`, or fewer if the system allows no more."""
    threads: list[threading.Thread] = []
    with contextlib.suppress(RuntimeError):
        for i in range(count):
            thread = threading.Thread(target=work, name=f"scanjit-compiler-{i}", daemon=True)
            thread.start()
            threads.append(thread)
    return threads


@functools.cache
def _engine() -> Any:
    """LLVM's engine that loads object code. There is one for all kernels: it takes 4 ms to make, and 0.1 ms to add an
    object. Loaded code stays until the process ends, since somebody may hold an address in it."""
    return host.new_engine()


def _load(unit: Unit, entry: cache.CacheEntry) -> int:
    """Load object code into memory. Returns the address of the kernel; InternalError if it needs a symbol that does not
    exist."""
    from llvmlite import binding as llvm

    engine = _engine()  # LLVM finds what this process has loaded only once there is an engine
    # LLVM would end the process at an unknown symbol, so it never gets to see one.
    missing = _missing(entry.metadata["undefined"])
    if any(name.startswith("scanjit_lapack_") for name in missing):
        from scanjit.runtime import lapack

        lapack.provide(missing)
        missing = _missing(missing)
    if any(name.startswith("scanjit_together_") for name in missing):
        native()
        missing = _missing(missing)
    for name in missing:
        if (guest := GUESTS.get(name.removeprefix(LINKED))) is not None:
            llvm.add_symbol(name, guest.address())
    missing = _missing(missing)
    if missing:
        _find_more_symbols()
        missing = _missing(missing)
    if missing:
        raise InternalError(f"the kernel {unit.name} needs symbols that do not exist", got=missing, where=unit.path)
    engine.add_object_file(llvm.ObjectFileRef.from_data(entry.payload))
    engine.finalize_object()
    address = int(engine.get_function_address(unit.symbol))
    if not address:
        raise InternalError(f"the object code of {unit.name} does not define it", where=unit.path)
    llvm.add_symbol(unit.symbol, address)
    return address


def _missing(symbols: Sequence[str]) -> list[str]:
    """Those of these symbols that LLVM does not know."""
    from llvmlite import binding as llvm

    return [name for name in symbols if llvm.address_of_symbol(name) is None]


def _find_more_symbols() -> None:
    """Let LLVM look in the C library, where it has not found it by itself."""
    from llvmlite import binding as llvm

    from scanjit.simd import c_library

    for name in filter(None, c_library.names()):
        with contextlib.suppress(RuntimeError):
            llvm.load_library_permanently(name)
