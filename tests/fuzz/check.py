"""Whether a program computes the same everywhere: generated code against the reference interpreter."""

from __future__ import annotations

import contextlib
import functools
import math
import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from scanjit import errors, ir
from scanjit.codegen import guard as row_order, reduce
from scanjit.ir import Node
from scanjit.kinds import kind_of
from scanjit.ops.promotion import Elementwise
from scanjit.rewrite import pipeline
from scanjit.runtime import emulation, front as backend, host, processors, reference, workspace
from scanjit.runtime.function import function
from scanjit.runtime.table import EntryTable
from scanjit.schedule.cost import rates
from scanjit.schedule.nests import OwnRows, verify as verifier
from scanjit.schedule.threads import rows, waves
from scanjit.schedule.tiles import columns
from scanjit.schedule.time import long_sums, slots
from scanjit.simd import emulate
from scanjit.simd.emulate import Allocations
from scanjit.simd.emulated_races import Races
from tests.fuzz.programs import Program
from tests.targets import with_vectors

WIDTHS = (64, 32, 16, 4)
BASE = {
    "float16": (2.0**-10, 2.0**-14),
    "bfloat16": (2.0**-7, 2.0**-9),
    "float32": (2e-4, 2e-5),
    "float64": (1e-9, 1e-10),
}
"""Tolerances that need no explanation: relative, absolute."""
ODD_UNIT = 3
"""The rows that a thread keeps are several times so many: no multiple of the rows of most register tiles."""
NOISE = {"float16": 2.0**-10, "float32": 2.0**-21, "float64": 2.0**-50}
USER_ERRORS = (errors.OutOfBoundsError, errors.ScanError, errors.ShapeError)


class Mismatch(AssertionError):
    """Generated code computes something else than the reference."""


@dataclass(frozen=True)
class Config:
    """How a program is run: the mode, with or without rewriting, the bytes of a vector (None: the CPU's)."""

    mode: str = "emulate"
    rewrite: bool = True
    width: int | None = None
    shared: bool = False
    """Whether temporaries lie in one workspace, as they do when compiled; else each is an allocation of its own."""
    threads: int = 1
    small: bool = False
    """Whether blocks of time and stretches of long sums are so small that there are several of them."""
    cheap: bool | None = None
    """Whether meetings of threads cost nothing, so that there are loops whose rows they do not keep, too. None: if
    temporaries are allocations of their own."""
    ended: Callable[[], bool] = bool
    """Whether the call is to end: threads then wait for nobody."""

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Build functions this way."""
        target = host.target() if self.width is None else with_vectors(self.width)
        if self.small:
            target = replace(target, level1_bytes=100, level2_bytes=400)
        with pytest.MonkeyPatch.context() as patch, host.using(target):
            patch.setattr(pipeline, "VERIFY", True)
            patch.setattr(verifier, "VERIFY", True)
            if not self.rewrite:
                patch.setattr(backend, "rewrite", lambda outputs: SimpleNamespace(outputs=list(outputs), notes=[]))
            patch.setattr(emulation, "emulate", _planned if self.shared else _spoiled)
            if self.small:
                patch.setattr(long_sums, "LEAST", 2)
                patch.setattr(slots, "BLOCKS", 1)
                patch.setattr(reduce, "CHUNK", 4)
                for name, value in {"TERMS": 3, "LEAST_TERMS": 2, "LEAST_BYTES": 1, "SCRATCH_BYTES": 256}.items():
                    patch.setattr(columns, name, value)
                patch.setattr(row_order, "MOST_ROWS", 3)
            if self.threads > 1:
                patch.setattr(rates, "SMALLEST_NEST", 0)
                if not self.shared if self.cheap is None else self.cheap:
                    patch.setattr(rates, "MEETING", 0.0)
                    patch.setattr(waves, "GAIN", math.inf)
                    patch.setattr(waves, "SHORTEST", 1)
                patch.setattr(rows, "OwnRows", lambda size, unit, kept: OwnRows(size, ODD_UNIT, kept))
                _in_turns(patch, self.threads, self.ended)
            guard = Guard()
            patch.setattr(workspace, "zeros", guard.memory)
            yield
            guard.check()

    def __str__(self) -> str:
        return f"{self.mode}, rewriting {'on' if self.rewrite else 'off'}, {self.width or 'native'} bytes" + (
            (", planned memory" if self.shared else "")
            + (f", {self.threads} threads" if self.threads > 1 else "")
            + (", small blocks" if self.small else "")
        )


_emulate = emulation.emulate


def _spoiled(code: Any, table: Any, sized: Any, arrays: Sequence[np.ndarray], made: Sequence[np.ndarray]) -> int:
    """The emulation, with results that are garbage until they are written."""
    for array in made:
        array.reshape(-1).view(np.uint8)[...] = 0xA5
    return _emulate(code, table, sized, arrays, made)


def _planned(code: Any, table: Any, sized: Any, arrays: Sequence[np.ndarray], made: Sequence[np.ndarray]) -> int:
    """The emulation, with all temporaries where they are planned to lie in one workspace."""

    class Workspace(Allocations):
        def __init__(self) -> None:
            super().__init__()
            self.offsets = iter(sized.offsets)
            self.base = self.add(np.full(sized.workspace, 0xA5, np.uint8), name="workspace")

        def allocate(self, nbytes: int, name: str | None = None, tracked: bool = True) -> int:
            if name == "stack":
                return super().allocate(nbytes, name, tracked)
            return self.base + next(self.offsets)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emulation, "Allocations", Workspace)
        return _spoiled(code, table, sized, arrays, made)


@dataclass
class _Place:
    """Where threads share work: what is known there, how many shares are computed, in which work each was begun last,
    how many shares there were in all works that a thread has left, and who waits."""

    heard: npt.NDArray[np.int32]
    computed: int = 0
    begun: dict[int, int] = field(default_factory=dict)
    base: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    waiting: list[int] = field(default_factory=list)

    def take(self, thread: int, share: int) -> bool:
        """Whether a thread may begin a share."""
        if self.begun.get(share, 0) > self.base[thread]:
            return False
        self.begun[share] = self.base[thread] + 1
        return True


class _Turns:
    """Threads that run one at a time, each for a few nests, or to where it meets others; the last one first. Once the
    call has `ended`, nobody waits."""

    def __init__(self, count: int, races: Races, ended: Callable[[], bool]) -> None:
        self.races, self.ended = races, ended
        self.go = [threading.Semaphore(0) for _ in range(count)]
        self.paused = threading.Semaphore(0)
        self.ready = deque(reversed(range(count)))
        self.places: dict[int, _Place] = {}
        self.errors: list[BaseException] = []
        self.chance = random.Random(count)

    def run(self, work: Callable[[int], None]) -> None:
        """Call `work` in every thread."""

        def main(number: int) -> None:
            self.go[number].acquire()
            try:
                work(number)
            except BaseException as error:
                self.errors.append(error)
            self.paused.release()

        for number in range(len(self.go)):
            threading.Thread(target=main, args=(number,), name=str(number), daemon=True).start()
        while self.ready:
            self.races.running = self.ready.popleft()
            self.go[self.races.running].release()
            self.paused.acquire()
            if self.errors:
                raise self.errors[0]
            if not self.ready and self.ended():
                for place in self.places.values():
                    self.ready.extend(place.waiting)
                    place.waiting.clear()
        if any(place.waiting for place in self.places.values()):
            raise Mismatch("some threads ended while others wait for them")

    def rest(self) -> None:
        """Let the other threads go on for a while, perhaps."""
        if self.chance.random() < 0.5:
            self.ready.append(self._number())
            self._pause()

    # Threads share work as `simd.memory.first_share` says; at random, one is late and others take over its share.

    def first(self, address: int, thread: int, threads: int, shares: int) -> int:
        """The share to begin with."""
        if threads == 1:
            return thread
        place = self._place(address)
        if self.chance.random() < 0.2:
            self.ready.append(self._number())
            self._pause()
        if thread < shares and place.take(thread, thread):
            return thread
        return self._others(place, thread, shares)

    def next(self, address: int, thread: int, threads: int, shares: int, help_others: bool = True) -> int:
        """The share to go on with, after one."""
        if threads == 1:
            return -1
        place = self._place(address)
        place.computed += 1
        self.races.tell(place.heard)
        if place.computed == place.base[thread] + shares:
            self.ready.extend(sorted(place.waiting, reverse=True))
            place.waiting.clear()
        return self._others(place, thread, shares if help_others else 0, shares)

    def wait_for_first(self, address: int, thread: int, threads: int) -> None:
        """Where all threads wait for the first."""
        if thread == 0:
            self.next(address, thread, threads, 1, help_others=False)
        elif threads > 1:
            self._others(self._place(address), thread, 0, 1)

    def _others(self, place: _Place, thread: int, helped: int, shares: int | None = None) -> int:
        shares = helped if shares is None else shares
        if place.computed < place.base[thread] + shares and not self.ended():
            for share in range(helped):
                if self.chance.random() < 0.5 and place.take(thread, share):
                    return share
            place.waiting.append(self._number())
            self._pause()
        place.base[thread] += shares
        self.races.hear(place.heard)
        return -1

    def _place(self, address: int) -> _Place:
        return self.places.setdefault(address, _Place(self.races.place()))

    def _pause(self) -> None:
        self.paused.release()
        self.go[self._number()].acquire()

    @staticmethod
    def _number() -> int:
        return int(threading.current_thread().name)


def _in_turns(patch: pytest.MonkeyPatch, count: int, ended: Callable[[], bool]) -> None:
    """Emulate with several threads, and look for races."""
    load = emulation.load_source
    turns: list[_Turns] = []

    def load_source(source: str, memory: Allocations, filename: str = "") -> dict[str, Any]:
        found = load(source, memory, filename)
        kind, made = filename.partition("_")[0], found[filename]
        if kind == "function":
            found[filename] = functools.partial(start, made, memory)
        elif kind not in ("branch", "step"):
            found[filename] = functools.partial(pausing, made)
        return found

    def start(
        function: Callable[..., None], memory: Allocations, table: int, thread: int, threads: int, line: int
    ) -> None:
        memory.races = Races(count)
        turns.append(_Turns(count, memory.races, ended))
        turns[-1].run(lambda number: function(table, number, count, line))

    def pausing(nest: Callable[..., None], *arguments: Any) -> None:
        turns[-1].rest()
        nest(*arguments)

    patch.setattr(emulation, "load_source", load_source)
    first = lambda address, thread, threads, shares, line: turns[-1].first(address, thread, threads, shares)
    following = lambda address, thread, threads, shares, line: turns[-1].next(address, thread, threads, shares)
    barrier = lambda address, thread, threads, line: turns[-1].next(address, thread, threads, threads, False)
    wait = lambda address, thread, threads, line: turns[-1].wait_for_first(address, thread, threads)
    patched = {"_first_share": first, "_next_share": following, "_barrier": barrier, "_wait_for_first": wait}
    for name, each in patched.items():
        patch.setattr(emulate, name, each)
    patch.setattr(processors, "count", lambda: count)
    patch.setattr(EntryTable, "lives_for", lambda table, threads: table.lives)  # programs are small, and yet shared


class Guard:
    """The workspaces of compiled programs: around all memory lie bytes that nothing may change."""

    MARGIN, PATTERN = 256, 0xA5

    def __init__(self) -> None:
        self.given: list[tuple[np.ndarray, int, int]] = []

    def memory(self, nbytes: int) -> np.ndarray:
        """Garbage instead of zeros, on which no result may depend, guarded."""
        whole = np.full(nbytes + 2 * self.MARGIN + 64, self.PATTERN, np.uint8)
        start = -whole.ctypes.data % 64 + self.MARGIN
        self.given.append((whole, start, start + nbytes))
        return whole[start : start + nbytes]

    def check(self) -> None:
        """Raise if anything was written outside."""
        for whole, start, stop in self.given:
            if np.any(whole[:start] != self.PATTERN) or np.any(whole[stop:] != self.PATTERN):
                raise Mismatch(f"compiled code wrote outside of {stop - start} bytes")


@dataclass
class Outcome:
    """What came of checks: how many runs, and of what kind."""

    runs: int = 0
    raised: int = 0
    unstable: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def spent(self, what: str, start: float) -> None:
        """Add the time since `start`."""
        self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - start

    def add(self, other: Outcome) -> None:
        """Add another outcome."""
        self.runs, self.raised, self.unstable = (
            self.runs + other.runs, self.raised + other.raised, self.unstable + other.unstable
        )  # fmt: skip
        for what, seconds in other.seconds.items():
            self.seconds[what] = self.seconds.get(what, 0.0) + seconds


def configs_of(seed: int, numba: bool = False) -> list[Config]:
    """How the program of a seed is run."""
    found = [
        Config(
            width=WIDTHS[seed % 4],
            shared=seed % 3 == 1,
            small=seed % 5 == 2,
            threads={2: 2, 4: 3}.get(seed % 7, 1),
            cheap=seed % 3 != 1 or seed % 2 == 0,
        )
    ]
    if seed % 3 == 0:
        found.append(Config(rewrite=False, width=WIDTHS[(seed // 4) % 4]))
    if numba:
        found.append(Config("numba"))
    return found


def check(p: Program, configs: Sequence[Config], runs: int = 2) -> Outcome:
    """Run a program in all these ways, with several sizes. Raises `Mismatch`, or what the compiler raises."""
    outcome = Outcome()
    rng = np.random.default_rng(p.seed)
    start = time.perf_counter()
    oracle = function(p.inputs, p.outputs, mode="reference")
    outcome.spent("reference build", start)
    functions = []
    for config in configs:
        start = time.perf_counter()
        made = built(p, p.outputs, config)
        if made is None:
            outcome.raised += 1
        else:
            functions.append((config, made))
        outcome.spent(f"{config.mode} build", start)
    for sizes in p.bindings(rng, runs if p.sizes else 1):
        arguments = p.draw(rng, sizes)
        start = time.perf_counter()
        expected = outcome_of(oracle, arguments)
        outcome.spent("reference run", start)
        for config, compiled in functions:
            start = time.perf_counter()
            got = computed(p, compiled, config, arguments)
            outcome.spent(f"{config.mode} run", start)
            outcome.runs += 1
            where = f"{config}; sizes {[int(n) for n in sizes.values()]}"
            compare(p, arguments, expected, got, where, outcome)
    return outcome


def compare(p: Program, arguments: list[np.ndarray], expected: Any, got: Any, where: str, outcome: Outcome) -> None:
    """Raise `Mismatch` if results, or the errors in their place, differ by more than rounding explains."""
    if isinstance(expected, Exception) or isinstance(got, Exception):
        outcome.raised += 1
        if not _unread(p, arguments, expected, got):
            _same_error(p, arguments, expected, got, where)
    elif not all(agree(a, b) for a, b in zip(got, expected, strict=True)):
        outcome.unstable += 1
        _within_noise(p, arguments, expected, got, where)


def built(p: Program, outputs: Sequence[Node], config: Config) -> Any:
    """Outputs of the inputs of a program as a function that is run in one of these ways. Checks share it. None where it
    is refused for a size that a step computes, which some derivatives of a `while_loop` in a step need. What the
    compiler finds out that no call can do, such as `x[-1]` of no rows, is an error of each call."""
    key = (config, *p.inputs, *outputs)
    if key not in p.built:
        try:
            with config.active():
                p.built[key] = function(p.inputs, outputs, mode=config.mode)
        except USER_ERRORS as error:
            p.built[key] = _Impossible(error)
        except errors.NotSupportedError as error:
            if error.what != "a size inside a step of a scan depends on a value computed in that step":
                raise
            p.built[key] = None
            p.features.add(f"refused, rewriting {'on' if config.rewrite else 'off'}")
    return p.built[key]


class _Impossible(NamedTuple):
    """In place of a compiled function: no call of it can succeed."""

    error: Exception

    def __call__(self, *arguments: np.ndarray) -> Any:
        raise self.error

    def explain(self) -> str:
        return ""


def computed(p: Program, compiled: Any, config: Config, arguments: Sequence[np.ndarray]) -> Any:
    """What a function that was `built` computes of these arguments. Checks that draw the same ones share it."""
    key = compiled, *((a.dtype, a.shape, a.tobytes()) for a in arguments)
    if key not in p.computed:
        with config.active():
            p.computed[key] = outcome_of(compiled, arguments)
    return p.computed[key]


def outcome_of(compiled: Any, arguments: Sequence[np.ndarray]) -> Any:
    """The results, or the error that a user may cause."""
    with np.errstate(all="ignore"):
        try:
            return compiled(*arguments)
        except USER_ERRORS as error:
            return error


def _unread(p: Program, arguments: list[np.ndarray], expected: Any, got: Any) -> bool:
    """Whether the reference raised for an element that no output depends on, and which compiled code never reads."""
    if isinstance(got, Exception) or not isinstance(expected, errors.OutOfBoundsError):
        return False
    plain, conditions_hold = reference._apply, reference.sizes.check

    def check_sizes(*given: Any) -> None:
        with contextlib.suppress(errors.OutOfBoundsError):  # of a place that is a size: `ys[-1]` of no rows
            conditions_hold(*given)

    def computed(fill: int) -> Any:
        def apply(node: Node, operands: Sequence[Any], params: dict[str, Any]) -> Any:
            if node.op.name == "slice" and min(params["start"], default=0) < 0:
                return np.full(params["length"], fill, node.dtype)
            try:
                return plain(node, operands, params)
            except errors.OutOfBoundsError:
                if node.op.name == "scatter" and not np.size(operands[1]):
                    return np.array(operands[0])
                if node.op.name == "scatter":
                    return np.full(np.shape(operands[0]), fill, node.dtype)
                if node.op.name != "gather":
                    raise
                shape = np.broadcast_shapes(*(np.shape(i) for i in operands[1:]))
                axis, whole = params["axis"], np.shape(operands[0])
                return np.full((*whole[:axis], *shape, *whole[axis + len(operands) - 1 :]), fill, node.dtype)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reference, "_apply", apply)
            patch.setattr(reference.sizes, "check", check_sizes)
            with np.errstate(all="ignore"):
                return reference.evaluate(p.outputs, dict(zip(p.inputs, arguments, strict=True)))

    try:
        first, second = computed(0), computed(1)
    except errors.OutOfBoundsError:
        return False
    unread = all(agree(a, b) for a, b in zip(first, second, strict=True))
    return unread and all(agree(a, b, _coarse(b)) for a, b in zip(got, first, strict=True))


def _coarse(values: np.ndarray) -> float:
    """What rounding may add up to, where the reference cannot be run with noise to find out."""
    if values.dtype.kind != "f":
        return 0.0
    return 1e-3 * float(np.max(np.abs(values[np.isfinite(values)]), initial=0.0))


def _same_error(p: Program, arguments: list[np.ndarray], expected: Any, got: Any, where: str) -> None:
    if isinstance(expected, Exception) and isinstance(got, Exception):
        return  # which of several errors comes first is nobody's promise
    if any(isinstance(_noisy(p, arguments, k), Exception) is isinstance(got, Exception) for k in range(4)):
        return  # rounding decides whether there is an error: where a size is computed, say
    if isinstance(got, Exception):
        raise Mismatch(f"{where}: raised {got!r} where the reference computed") from got
    raise Mismatch(f"{where}: computed where the reference raised {expected!r}") from expected


def agree(got: np.ndarray, expected: np.ndarray, slack: Any = 0.0) -> bool:
    """Whether an array is as expected: integers and bools exactly, floats to rounding, NaN in the same places."""
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return False
    if not kind_of(got.dtype).floating:
        return bool(np.array_equal(got, expected))
    relative, absolute = BASE[str(got.dtype)]
    with np.errstate(all="ignore"):
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        close = np.abs(got.astype(float) - expected) <= absolute + relative * np.abs(expected.astype(float)) + slack
    return bool(np.all(same | close))


NOISES = (4, 64)
"""How often the reference computes with noise: a few times, and often before anything is called wrong. Four samples may
agree by chance on which side of a comparison a sum lies that is 2 but for rounding."""


def _within_noise(p: Program, arguments: list[np.ndarray], expected: Any, got: Any, where: str) -> None:
    """What differs must be what rounding explains: as much differs when the reference computes with noise."""
    for count in NOISES:
        samples = [_noisy(p, arguments, k) for k in range(count)]
        if any(isinstance(sample, Exception) for sample in samples):
            return  # rounding decides whether it can be computed at all
        spreads = [[sample[i] for sample in samples] for i in range(len(expected))]
        wrong = [i for i, found in enumerate(spreads) if not _explained(got[i], expected[i], found)]
        if not wrong:
            return
    a, b = got[wrong[0]], expected[wrong[0]]
    if a.dtype != b.dtype or a.shape != b.shape:
        raise Mismatch(f"{where}: output {wrong[0]} is {a.dtype}{a.shape} instead of {b.dtype}{b.shape}")
    raise Mismatch(f"{where}: output {wrong[0]} of type {p.outputs[wrong[0]].type}\n{_shown(a, b)}")


def _explained(a: np.ndarray, b: np.ndarray, samples: Sequence[np.ndarray]) -> bool:
    """Whether `a` differs from the expected `b` by no more than what the reference computes with noise does."""
    if agree(a, b):
        return True
    if a.dtype != b.dtype:
        return False
    if any(sample.shape != b.shape for sample in samples):
        return True  # rounding decides its very size: where a loop stops, say
    if a.shape != b.shape:
        return False
    with np.errstate(all="ignore"):
        spread = np.max([np.abs(np.asarray(sample, float) - np.asarray(b, float)) for sample in samples], axis=0)
        spread = np.where(np.isnan(spread), np.inf, spread)
    if a.dtype.kind != "f":
        return bool(np.all((a == b) | (spread > 0)))
    within = (np.isnan(a) & np.isnan(b)) | ~np.isfinite(spread) | _close(a, b, spread)
    return agree(a, b, 32 * spread) or bool(np.all(within))


def _close(a: np.ndarray, b: np.ndarray, spread: np.ndarray) -> np.ndarray:
    relative, absolute = BASE[str(a.dtype)]
    with np.errstate(all="ignore"):
        return (a == b) | (np.abs(a.astype(float) - b) <= absolute + relative * np.abs(b.astype(float)) + 32 * spread)


def _shown(a: np.ndarray, b: np.ndarray) -> str:
    with np.printoptions(precision=9, threshold=40):
        return f"got\n{a!r}\nexpected\n{b!r}"


def _noisy(p: Program, arguments: list[np.ndarray], k: int) -> Any:
    """The reference, with a little noise in each inexact operand and result of arithmetic; or the error it raises."""
    rng = np.random.default_rng(k)

    def shaken(value: np.ndarray, always: bool = False) -> np.ndarray:
        value = np.asarray(value)
        if value.dtype.kind != "f":
            return value
        scaled = value * 16
        exact = (scaled == np.rint(scaled)) & (np.abs(value) < 2**16)
        noise = 1 + NOISE[str(value.dtype)] * rng.uniform(-1, 1, value.shape)
        return np.where(exact & (not always), value, value * noise).astype(value.dtype)

    def apply(node: Node, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        arithmetic = isinstance(node.op, Elementwise) or node.op.name in ("sum", "prod", "contract", "scatter")
        if not arithmetic or node.op.name in ("where", "cast", "stop_gradient"):
            return plain(node, operands, params)
        result = plain(node, [shaken(v) for v in operands], params)
        return shaken(result, isinstance(node.op, Elementwise) and node.op.cost >= 8)

    plain = reference._apply
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "_apply", apply)
        return outcome_of(
            lambda *given: reference.evaluate(p.outputs, dict(zip(p.inputs, given, strict=True))), arguments
        )


def localized(p: Program, fails: Callable[[Program], object]) -> str:
    """The first node, in the order of computation, for which a check fails when it is computed alone."""
    for node in ir.walk(p.outputs):
        if node.op is ir.INPUT or node.several:
            continue
        smaller = replace(p, outputs=[node])
        try:
            fails(smaller)
        except Exception as error:
            from scanjit.show import listing

            try:
                shown = listing(node)
            except Exception as other:
                shown = f"(cannot be shown: {other!r})"
            return f"first at {node!r}: {type(error).__name__}: {str(error)[:1500]}\n{shown}"
    return "no node fails alone"
