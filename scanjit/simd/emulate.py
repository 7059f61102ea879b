"""Generated code as plain Python: vectors are NumPy arrays and every access to memory is checked. Never imports Numba.

>>> memory = Allocations()
>>> x, y = np.arange(4.0), np.zeros(4)
>>> source = "from scanjit.simd import load_f64x4, store, exp\\ndef kernel(x, y): store(y, exp(load_f64x4(x)))"
>>> program = load_source(source, memory)
>>> program["kernel"](memory.add(x), memory.add(y))
"""

import builtins
import functools
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from scanjit.kinds import KINDS, Kind
from scanjit.ops.guest import PREFIX

from . import emulated_guest, emulated_lapack, emulated_matrices, narrow, table
from .emulated_memory import Allocations, MemoryFault
from .lanes import Lanes, select
from .names import parse
from .numpy_lanes import NumpyLanes, splat_array

Emulated = Callable[..., Any]
_BOOL, _I64 = KINDS["bool"], KINDS["i64"]


def _vector(value: Any) -> NumpyLanes:
    if not isinstance(value, NumpyLanes):
        raise TypeError(f"expected a vector, got {type(value).__name__}")
    return value


def _array(value: Any, kind: Kind, lanes: int, wanted: str) -> Any:
    """The array of a vector of this kind with `lanes` lanes."""
    if not isinstance(value, NumpyLanes) or value.kind is not kind or value.lanes != lanes:
        shown = value.type_name if isinstance(value, NumpyLanes) else type(value).__name__
        raise TypeError(f"expected {wanted} of {lanes} lanes, got {shown}")
    return value.array


def _mask(value: Any, lanes: int) -> Any:
    return _array(value, _BOOL, lanes, "a mask")


def _lane_bits(mask: Any) -> int:
    packed = np.packbits(_mask(mask, _vector(mask).lanes), bitorder="little").tobytes()
    return int.from_bytes(packed, "little", signed=len(packed) == 8)


def _compress(value: Any, mask: Any) -> NumpyLanes:
    """The chosen lanes, and zeros behind them."""
    found = np.zeros_like(_vector(value).array)
    some = value.array[_mask(mask, value.lanes)]
    found[: len(some)] = some
    return NumpyLanes(found, value.kind)


def _to_ends(value: Any, mask: Any) -> NumpyLanes:
    x, chosen = _vector(value).array, _mask(mask, value.lanes)
    return NumpyLanes(np.concatenate([x[chosen], x[~chosen][::-1]]), value.kind)


def _offsets(value: Any, lanes: int) -> Any:
    return _array(value, _I64, lanes, "offsets")


def _table_function(name: str) -> Emulated:
    evaluate, arity, families = table.FUNCTIONS[name][:3]

    def emulated(*args: Any) -> Lanes:
        if len(args) != arity:
            raise TypeError(f"{name} takes {arity} operands, got {len(args)}")
        for first in args:
            if type(first) is NumpyLanes:
                break
        else:
            raise TypeError(f"{name}: no operand is a vector")
        if first.kind.family not in families:
            raise TypeError(f"{name} is not defined for {first.kind.name} vectors")
        return evaluate(*map(first.like, args))

    emulated.__name__ = name
    return emulated


def _suffixed(base: str, kind: Kind, lanes: int, memory: Allocations) -> Emulated:
    def wrap(array: Any) -> NumpyLanes:
        return NumpyLanes(array, kind)

    def splat(value: Any) -> NumpyLanes:
        if isinstance(value, NumpyLanes):
            if value.lanes != 1 or value.kind is not kind:
                raise TypeError(f"expected a number or one lane of {kind.name}, got {value.type_name}")
            value = value.array[0]
        elif not kind.floating and isinstance(value, float):
            raise TypeError(f"a float for {kind.name} lanes")
        return wrap(splat_array(value, kind, lanes))

    def iota(start: int) -> NumpyLanes:
        return wrap(np.arange(lanes, dtype=kind.dtype) + splat_array(start, kind, lanes))

    def cast(value: Any) -> NumpyLanes:
        if _vector(value).lanes != lanes:
            raise TypeError(f"{value.type_name} has not {lanes} lanes")
        return _vector(value).cast(kind)

    def bitcast(value: Any) -> NumpyLanes:
        given = _vector(value)
        if given.kind is _BOOL or kind is _BOOL or given.lanes != lanes or given.kind.bits != kind.bits:
            raise TypeError(f"no bit cast from {given.type_name} to {kind.name}x{lanes}")
        return given.bitcast(kind)

    def load_strided(address: int, stride: int, mask: Any) -> NumpyLanes:
        return wrap(memory.gather(kind, lanes, address, np.arange(lanes) * stride, _mask(mask, lanes)))

    def transpose(target: int, target_step: int, source: int, source_step: int) -> None:
        rows = np.array([memory.load(kind, lanes, source + i * source_step) for i in range(lanes)])
        for i in range(lanes):
            memory.store(kind, target + i * target_step, rows[:, i].copy())

    functions: dict[str, Emulated] = {
        "load": lambda address: wrap(memory.load(kind, lanes, address)),
        "load_masked": lambda address, mask: wrap(memory.load_masked(kind, lanes, address, _mask(mask, lanes))),
        "broadcast": lambda address: wrap(memory.load(kind, 1, address).repeat(lanes)),
        "load_strided": load_strided,
        "load_every_second": lambda address, mask: load_strided(address, 2 * kind.size, mask),
        "load_every_fourth": lambda address, mask: load_strided(address, 4 * kind.size, mask),
        "load_backwards": lambda address, mask: load_strided(address, -kind.size, mask),
        "gather": lambda address, offsets, mask: wrap(
            memory.gather(kind, lanes, address, _offsets(offsets, lanes), _mask(mask, lanes))
        ),
        "transpose": transpose,
        "splat": splat,
        "iota": iota,
        "cast": cast,
        "bitcast": bitcast,
    }
    return functions[base]


def _lanes_only(base: str, lanes: int) -> Emulated:
    def head(count: int) -> NumpyLanes:
        return NumpyLanes(np.arange(lanes) < count, _BOOL)

    def spread(value: Any) -> NumpyLanes:
        if _vector(value).lanes != 1:
            raise TypeError(f"expected one lane, got {value.type_name}")
        return NumpyLanes(value.array.repeat(lanes), value.kind)

    return {"head": head, "spread": spread}[base]


def _lane(value: Any, k: int) -> NumpyLanes:
    if not 0 <= k < _vector(value).lanes:
        raise IndexError(f"lane {k} of {value.type_name}")
    return NumpyLanes(value.array[k : k + 1], value.kind)


def _lane_i64(value: Any, k: int) -> int:
    if _vector(value).kind.floating:
        raise TypeError(f"{value.type_name} holds no integers")
    return int(_lane(value, k).array[0])


def _concat(a: Any, b: Any) -> NumpyLanes:
    return NumpyLanes(np.concatenate([_vector(a).array, a.like(_vector(b)).array]), a.kind)


def _shuffle(name: str, x: Any, other: Any) -> NumpyLanes:
    fewest, chosen = table.SHUFFLES[name]
    lanes = _vector(x).lanes
    if lanes < fewest:
        raise TypeError(f"{x.type_name} has fewer than {fewest} lanes")
    return NumpyLanes(np.concatenate([x.array, x.like(_vector(other)).array])[chosen(lanes)], x.kind)


def _dot(function: Callable[..., Lanes], kind: Kind, packed: int, total: Any, *operands: Any) -> Lanes:
    """A sum of products. The last `packed` operands are packed numbers, the others have one kind."""
    lanes = len(_array(total, kind, _vector(total).lanes, kind.name))
    for place, x in enumerate(operands, packed - len(operands)):
        _array(x, *((KINDS["i32"], lanes, "packed numbers") if place >= 0 else (kind, lanes, kind.name)))
    return function(total, *operands)


def _barrier(address: int, thread: int, threads: int, line: int) -> None:
    if threads != 1:
        raise ValueError("the emulation runs one thread")


def _wait_for_first(address: int, thread: int, threads: int, line: int) -> None:
    _barrier(address, thread, threads, line)  # a function of its own: tests of several threads replace both


def _first_share(address: int, thread: int, threads: int, shares: int, line: int) -> int:
    _barrier(address, thread, threads, line)
    return thread


def _next_share(address: int, thread: int, threads: int, shares: int, line: int) -> int:
    return -1


_WORK = threading.local()
"""The work that this thread shares with others now: the pieces that are `left` for it, and the `end` of its piece."""


def _first_piece(place: int, thread: int, threads: int, low: int, high: int, unit: int, turns: int, line: int) -> int:
    _WORK.left = _pieces(place, thread, threads, range(low, high, unit), turns, line)
    return _next_piece(line)


def _next_piece(line: int) -> int:
    begin, _WORK.end = next(_WORK.left, (-1, -1))
    return begin


def _piece_end(line: int) -> int:
    end: int = _WORK.end
    return end


def _pieces(place: int, thread: int, threads: int, loop: range, turns: int, line: int) -> Iterator[tuple[int, int]]:
    """The pieces of a loop that one thread computes, each with its bounds."""
    shares = min(threads, len(loop))
    share = _first_share(place, thread, threads, shares, line) if shares else -1
    while share >= 0:
        mine = loop[len(loop) * share // shares : len(loop) * (share + 1) // shares]
        end = min(mine.stop, loop.stop)
        for begin in range(mine.start, end, turns or max(end - mine.start, 1)):
            yield begin, min(begin + turns, end) if turns else end
        share = _next_share(place, thread, threads, shares, line)


def _plain(name: str, memory: Allocations) -> Emulated:
    routine, _, kind = name.rpartition("_")
    if name in {"begin_matrices", "end_matrices", *table.MATRICES, *table.MATRIX_SUMS}:
        return emulated_matrices.resolve(name, memory)
    if routine in emulated_lapack.FUNCTIONS:
        return emulated_lapack.resolve(routine, KINDS[kind], memory)

    def store(address: int, value: Any) -> None:
        memory.store(_vector(value).kind, address, value.array)

    def store_masked(address: int, value: Any, mask: Any) -> None:
        memory.store_masked(_vector(value).kind, address, value.array, _mask(mask, value.lanes))

    def store_strided(address: int, stride: int, value: Any, mask: Any) -> None:
        offsets = np.arange(_vector(value).lanes) * stride
        memory.scatter(value.kind, address, offsets, value.array, _mask(mask, value.lanes))

    def scatter(address: int, offsets: Any, value: Any, mask: Any) -> None:
        lanes = _vector(value).lanes
        memory.scatter(value.kind, address, _offsets(offsets, lanes), value.array, _mask(mask, lanes))

    functions: dict[str, Emulated] = {
        "store": store,
        "store_masked": store_masked,
        "store_strided": store_strided,
        "scatter": scatter,
        "load_i64": memory.load_i64,
        "store_i64": memory.store_i64,
        "report": memory.store_i64,
        "peek_i64": memory.peek_i64,
        "prefetch": lambda address: None,
        "clock": time.perf_counter_ns,
        "pause": lambda: None,
        "keep_branch": lambda: None,
        "stack": lambda nbytes: memory.allocate(nbytes, "stack", tracked=False),  # rows may end in what nobody wrote
        "barrier": _barrier,
        "wait_for_first": _wait_for_first,
        "first_share": lambda *operands: _first_share(*operands) if operands[3] else operands[1],
        "next_share": lambda *operands: _next_share(*operands) if operands[3] else -1,
        "first_piece": _first_piece,
        "piece_end": _piece_end,
        "next_piece": _next_piece,
        "interrupted": lambda line: False,  # Python runs, and so do its signal handlers
        "interrupted_at": lambda line, *where: False,
        "begin_loop": lambda line, steps, early: None,
        "count_steps": lambda line, steps: None,
        "end_loop": lambda line: None,
        "select": lambda mask, yes, no: select(_vector(mask), yes, no),
        "select_freely": lambda mask, yes, no: select(_vector(mask), yes, no),
        "any_of": lambda mask: bool(_mask(mask, _vector(mask).lanes).any()),
        "all_of": lambda mask: bool(_mask(mask, _vector(mask).lanes).all()),
        "count_lanes": lambda mask: int(_mask(mask, _vector(mask).lanes).sum()),
        "lane_bits": _lane_bits,
        "first_bit": lambda bits: (bits & -bits).bit_length() - 1 if bits else 64,
        "compress": _compress,
        "to_ends": _to_ends,
        "lane": _lane,
        "lane0": lambda value: _lane(value, 0),
        "lane_i64": _lane_i64,
        "concat_lanes": _concat,
        "opaque": _vector,
        "dot_bf16": functools.partial(_dot, narrow.dot_bf16, KINDS["f32"], 2),
        "dot_apart": functools.partial(_dot, narrow.dot_apart, KINDS["f32"], 1),
        "dot_i8": functools.partial(_dot, narrow.dot_i8, KINDS["i32"], 2),
    }
    return functions[name]


def resolve(name: str, memory: Allocations) -> Emulated:
    """The emulated form of a public name of `scanjit.simd`.

    Parameters
    ----------
    name : str
        Such as ``"load_f32x16"`` or ``"tanh"``.
    memory : Allocations
        What loads and stores access.

    Raises
    ------
    AttributeError
        If there is no such name.
    """
    if name in table.FUNCTIONS:
        return _table_function(name)
    if name in table.PLAIN:
        return _plain(name, memory)
    if name in table.SHUFFLES:
        return lambda x, other: _shuffle(name, x, other)
    parsed = parse(name)
    if parsed.base.startswith(PREFIX):
        return emulated_guest.resolve(parsed, memory)
    if parsed.lanes is not None:
        if parsed.base in table.SUFFIXED and parsed.kind is not None:
            return _suffixed(parsed.base, parsed.kind, parsed.lanes, memory)
        if parsed.base in table.LANES_ONLY and parsed.kind is None:
            return _lanes_only(parsed.base, parsed.lanes)
    raise AttributeError(f"scanjit.simd has no {name!r}")


class EmulatedModule:
    """Stands in for `scanjit.simd`: attributes are the emulated functions, made when first asked for."""

    def __init__(self, memory: Allocations):
        self._memory = memory

    def __getattr__(self, name: str) -> Emulated:
        if name.startswith("__"):
            raise AttributeError(name)
        function = resolve(name, self._memory)
        setattr(self, name, function)
        return function


def namespace(memory: Allocations) -> dict[str, Any]:
    """Globals in which generated source can be executed.

    Its ``from scanjit.simd import ...`` finds the emulation; every other import is the usual one.

    Parameters
    ----------
    memory : Allocations
        What loads and stores access.
    """
    module = EmulatedModule(memory)

    def import_(name: str, *args: Any, **kwargs: Any) -> Any:
        fromlist = args[2] if len(args) > 2 else kwargs.get("fromlist")
        if name == "scanjit.simd" and fromlist:
            return module
        return builtins.__import__(name, *args, **kwargs)

    return {"__builtins__": {**vars(builtins), "__import__": import_}}


def quiet(function: Emulated) -> Emulated:
    """The function with NumPy's floating-point warnings off, as compiled code has none."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    return call


@functools.lru_cache(maxsize=1024)
def _compiled(source: str, filename: str) -> types.CodeType:
    return compile(source, filename, "exec")


def load_source(source: str, memory: Allocations, filename: str = "<generated>") -> dict[str, Any]:
    """Execute generated source in the emulation.

    Parameters
    ----------
    source : str
        A Python file.
    memory : Allocations
        What its loads and stores access.
    filename : str
        Its name in tracebacks.

    Returns
    -------
    dict
        Its globals; the functions that it defines run without NumPy's warnings.
    """
    result = namespace(memory)
    exec(_compiled(source, filename), result)
    for name, value in list(result.items()):
        if isinstance(value, types.FunctionType) and value.__globals__ is result:
            result[name] = quiet(value)
    return result


__all__ = ["Allocations", "MemoryFault", "load_source", "namespace", "quiet", "resolve"]
