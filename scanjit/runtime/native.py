"""Calls compiled programs: starts a program, lends it threads, and ends it early if Python asks for that.

A signal handler may raise an exception between any two calls in Python code. So all that a call has to do whatever
happens (wake threads, wait for them, give them back) is a function of machine code, written here for LLVM.

While it runs, Python does not. A clock thread counts ticks. A program looks at the count every so often
(`simd.interrupted`), which costs it a load from memory. When it has changed, the thread that made the call takes
Python's lock and makes one step in Python: there, signal handlers run (in the main thread), and exceptions arrive that
other threads send. If that raises, all threads of the program end, and the call raises what was raised.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import Any

from scanjit.config import MOST_THREADS

TICK = 0.05
"""Seconds between two ticks of the clock thread."""
IDLE_TICKS = 20
"""After so many ticks without a call, the clock thread sleeps."""

# What a thread has to do with Python: a *line*, whose address is the last argument of a program, and of its nests. It
# begins with the address of a number, what the number should be, and the function to call when it is another one; that
# function says whether to end. The line of the calling thread looks at the clock, those of workers at `stop`.
#
# A *slot* is a worker: its line, the locks that it waits for and that it opens when it is done, and what to run.
_TEXT = """
%line = type { ptr, i64, ptr, i64, ptr, ptr }  ; number, expected, function, whether to end, Python's state, team
%slot = type { %line, ptr, ptr, ptr, i64, i64, i64, [4 x i64] }  ; wake, done, program, table, number, threads
%team = type { i64, [7 x i64],                                   ; ticks
               i64, i64, i64, ptr, ptr, [3 x i64],  ; calls that run, asleep, started, what wakes it, what it naps on
               i64, i64, i64, [5 x i64],            ; busy, stop, workers
               [WORKERS x %slot] }

@team = internal global ptr null
@step = internal global ptr null
@blas = internal global { ptr, ptr, i64, i32 } zeroinitializer  ; get and set threads; calls that run, threads before

declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyMem_RawCalloc(i64, i64)
declare ptr @PyThread_allocate_lock()
declare i32 @PyThread_acquire_lock(ptr, i32)
declare i32 @PyThread_acquire_lock_timed(ptr, i64, i32)
declare void @PyThread_release_lock(ptr)
declare i32 @PyThread_start_new_thread(ptr, ptr)

; ---- for Python: a new team (of a new process), the function that is a step in Python, OpenBLAS's functions

define i64 @scanjit_new_team() {
  %size = ptrtoint ptr getelementptr (%team, ptr null, i32 1) to i64
  %memory = call ptr @PyMem_RawCalloc(i64 1, i64 %size)
  store ptr %memory, ptr @team
  %address = ptrtoint ptr %memory to i64
  %counts = getelementptr { ptr, ptr, i64, i32 }, ptr @blas, i32 0, i32 2
  %calls = load i64, ptr %counts
  %none = icmp eq i64 %calls, 0
  br i1 %none, label %done, label %restore
restore:
  store i64 0, ptr %counts
  %befores = getelementptr { ptr, ptr, i64, i32 }, ptr @blas, i32 0, i32 3
  %before = load i32, ptr %befores
  %places = getelementptr { ptr, ptr, i64, i32 }, ptr @blas, i32 0, i32 1
  %set = load ptr, ptr %places
  call void %set(i32 %before)
  br label %done
done:
  ret i64 %address
}

define void @scanjit_set_step(ptr %function) {
  store ptr %function, ptr @step
  ret void
}

define void @scanjit_set_blas(ptr %get, ptr %set) {
  store ptr %get, ptr @blas
  %place = getelementptr { ptr, ptr, i64, i32 }, ptr @blas, i32 0, i32 1
  store ptr %set, ptr %place
  ret void
}

; ---- looking

define internal i64 @told(ptr %line) {
  ret i64 1
}

define internal i64 @look(ptr %line) {
  %ended = getelementptr %line, ptr %line, i32 0, i32 3
  %before = load i64, ptr %ended
  %known = icmp ne i64 %before, 0
  br i1 %known, label %end, label %python
python:
  %place = getelementptr %line, ptr %line, i32 0, i32 4
  %state = load ptr, ptr %place
  call void @PyEval_RestoreThread(ptr %state)
  %ticks = load ptr, ptr %line
  %now = load atomic i64, ptr %ticks monotonic, align 8
  %expected = getelementptr %line, ptr %line, i32 0, i32 1
  store i64 %now, ptr %expected
  %function = load ptr, ptr @step
  %result = call ptr @PyObject_CallNoArgs(ptr %function)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %stop, label %on
on:
  call void @Py_DecRef(ptr %result)
  %same = call ptr @PyEval_SaveThread()
  store ptr %same, ptr %place
  ret i64 0
stop:
  %kept = call ptr @PyEval_SaveThread()
  store ptr %kept, ptr %place
  store i64 1, ptr %ended
  store i64 -1, ptr %expected
  %member = getelementptr %line, ptr %line, i32 0, i32 5
  %team = load ptr, ptr %member
  %alone = icmp eq ptr %team, null
  br i1 %alone, label %end, label %others
others:
  %flag = getelementptr %team, ptr %team, i32 0, i32 9
  store atomic i64 1, ptr %flag release, align 8
  br label %end
end:
  ret i64 1
}

; ---- the clock

define internal void @clock(ptr %team) {
  %ticks = getelementptr %team, ptr %team, i32 0, i32 0
  %running = getelementptr %team, ptr %team, i32 0, i32 2
  %asleep = getelementptr %team, ptr %team, i32 0, i32 3
  %alarms = getelementptr %team, ptr %team, i32 0, i32 5
  %naps = getelementptr %team, ptr %team, i32 0, i32 6
  %alarm = load ptr, ptr %alarms
  %nap = load ptr, ptr %naps
  br label %awake
awake:
  br label %tick
tick:
  %idle = phi i64 [ 0, %awake ], [ %more, %look ]
  call i32 @PyThread_acquire_lock_timed(ptr %nap, i64 MICROSECONDS, i32 0)
  atomicrmw add ptr %ticks, i64 1 monotonic
  %calls = load atomic i64, ptr %running seq_cst, align 8
  %none = icmp sle i64 %calls, 0
  br i1 %none, label %look, label %awake
look:
  %more = add i64 %idle, 1
  %long = icmp sge i64 %more, IDLE
  br i1 %long, label %sleep, label %tick
sleep:
  store atomic i64 1, ptr %asleep seq_cst, align 8
  %again = load atomic i64, ptr %running seq_cst, align 8
  %still = icmp sle i64 %again, 0
  br i1 %still, label %wait, label %take
take:
  %pair = cmpxchg ptr %asleep, i64 1, i64 0 seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %awake, label %wait
wait:
  call i32 @PyThread_acquire_lock(ptr %alarm, i32 1)
  br label %awake
}

define internal void @begin(ptr %team) {
  %running = getelementptr %team, ptr %team, i32 0, i32 2
  atomicrmw add ptr %running, i64 1 seq_cst
  %started = getelementptr %team, ptr %team, i32 0, i32 4
  %there = load i64, ptr %started
  %known = icmp ne i64 %there, 0
  br i1 %known, label %ready, label %start
start:
  store i64 1, ptr %started
  %alarm = call ptr @closed()
  %nap = call ptr @closed()
  %alarms = getelementptr %team, ptr %team, i32 0, i32 5
  %naps = getelementptr %team, ptr %team, i32 0, i32 6
  store ptr %alarm, ptr %alarms
  store ptr %nap, ptr %naps
  call i32 @PyThread_start_new_thread(ptr @clock, ptr %team)
  ret void
ready:
  %asleep = getelementptr %team, ptr %team, i32 0, i32 3
  %sleeps = load atomic i64, ptr %asleep seq_cst, align 8
  %quiet = icmp eq i64 %sleeps, 0
  br i1 %quiet, label %done, label %wake
wake:
  %pair = cmpxchg ptr %asleep, i64 1, i64 0 seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %ring, label %done
ring:
  %bells = getelementptr %team, ptr %team, i32 0, i32 5
  %bell = load ptr, ptr %bells
  call void @PyThread_release_lock(ptr %bell)
  br label %done
done:
  ret void
}

define internal ptr @closed() {
  %lock = call ptr @PyThread_allocate_lock()
  call i32 @PyThread_acquire_lock(ptr %lock, i32 1)
  ret ptr %lock
}

; ---- workers

define internal void @worker(ptr %slot) {
  %wakes = getelementptr %slot, ptr %slot, i32 0, i32 1
  %dones = getelementptr %slot, ptr %slot, i32 0, i32 2
  %programs = getelementptr %slot, ptr %slot, i32 0, i32 3
  %tables = getelementptr %slot, ptr %slot, i32 0, i32 4
  %numbers = getelementptr %slot, ptr %slot, i32 0, i32 5
  %manys = getelementptr %slot, ptr %slot, i32 0, i32 6
  %wake = load ptr, ptr %wakes
  %done = load ptr, ptr %dones
  %number = load i64, ptr %numbers
  %line = ptrtoint ptr %slot to i64
  br label %wait
wait:
  call i32 @PyThread_acquire_lock(ptr %wake, i32 1)
  %program = load ptr, ptr %programs
  %table = load i64, ptr %tables
  %threads = load i64, ptr %manys
  call void %program(i64 %table, i64 %number, i64 %threads, i64 %line)
  store atomic i64 0, ptr %tables release, align 8
  call void @PyThread_release_lock(ptr %done)
  br label %wait
}

define internal i64 @hire(ptr %team, i64 %wanted) {
  %count = getelementptr %team, ptr %team, i32 0, i32 10
  %stop = getelementptr %team, ptr %team, i32 0, i32 9
  br label %more
more:
  %have = load i64, ptr %count
  %enough = icmp sge i64 %have, %wanted
  br i1 %enough, label %end, label %new
new:
  %slot = getelementptr %team, ptr %team, i32 0, i32 12, i64 %have
  %wake = call ptr @closed()
  %done = call ptr @closed()
  %next = add i64 %have, 1
  %expected = getelementptr %slot, ptr %slot, i32 0, i32 0, i32 1
  %function = getelementptr %slot, ptr %slot, i32 0, i32 0, i32 2
  %wakes = getelementptr %slot, ptr %slot, i32 0, i32 1
  %dones = getelementptr %slot, ptr %slot, i32 0, i32 2
  %numbers = getelementptr %slot, ptr %slot, i32 0, i32 5
  store ptr %stop, ptr %slot
  store i64 0, ptr %expected
  store ptr @told, ptr %function
  store ptr %wake, ptr %wakes
  store ptr %done, ptr %dones
  store i64 %next, ptr %numbers
  %thread = call i32 @PyThread_start_new_thread(ptr @worker, ptr %slot)
  %failed = icmp eq i32 %thread, -1
  br i1 %failed, label %end, label %hired
hired:
  store i64 %next, ptr %count
  br label %more
end:
  %found = load i64, ptr %count
  ret i64 %found
}

; ---- calls. Python's lock is held when they begin and end

define void @scanjit_run(ptr %program, i64 %table, i64 %threads) {
  %line = alloca %line, align 64
  %place = ptrtoint ptr %line to i64
  %team = load ptr, ptr @team
  call void @begin(ptr %team)
  %now = load atomic i64, ptr %team monotonic, align 8
  %expected = getelementptr %line, ptr %line, i32 0, i32 1
  %function = getelementptr %line, ptr %line, i32 0, i32 2
  %ended = getelementptr %line, ptr %line, i32 0, i32 3
  %state = getelementptr %line, ptr %line, i32 0, i32 4
  %member = getelementptr %line, ptr %line, i32 0, i32 5
  store ptr %team, ptr %line
  store i64 %now, ptr %expected
  store ptr @look, ptr %function
  store i64 0, ptr %ended
  store ptr null, ptr %member
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %ask, label %alone
ask:
  %busy = getelementptr %team, ptr %team, i32 0, i32 8
  %pair = cmpxchg ptr %busy, i64 0, i64 1 acq_rel monotonic
  %free = extractvalue { i64, i1 } %pair, 1
  br i1 %free, label %gather, label %alone
gather:
  %workers = sub i64 %threads, 1
  %there = call i64 @hire(ptr %team, i64 %workers)
  %enough = icmp sge i64 %there, %workers
  br i1 %enough, label %together, label %few
few:
  store atomic i64 0, ptr %busy release, align 8
  br label %alone
together:
  %stop = getelementptr %team, ptr %team, i32 0, i32 9
  store i64 0, ptr %stop
  store ptr %team, ptr %member
  %released = call ptr @PyEval_SaveThread()
  store ptr %released, ptr %state
  br label %give
give:
  %i = phi i64 [ 0, %together ], [ %i1, %give ]
  %slot = getelementptr %team, ptr %team, i32 0, i32 12, i64 %i
  %wakes = getelementptr %slot, ptr %slot, i32 0, i32 1
  %programs = getelementptr %slot, ptr %slot, i32 0, i32 3
  %tables = getelementptr %slot, ptr %slot, i32 0, i32 4
  %manys = getelementptr %slot, ptr %slot, i32 0, i32 6
  store ptr %program, ptr %programs
  store i64 %table, ptr %tables
  store i64 %threads, ptr %manys
  %wake = load ptr, ptr %wakes
  call void @PyThread_release_lock(ptr %wake)
  %i1 = add i64 %i, 1
  %given = icmp sge i64 %i1, %workers
  br i1 %given, label %work, label %give
work:
  call void %program(i64 %table, i64 0, i64 %threads, i64 %place)
  br label %wait
wait:
  %j = phi i64 [ 0, %work ], [ %j1, %wait ]
  %other = getelementptr %team, ptr %team, i32 0, i32 12, i64 %j
  %dones = getelementptr %slot, ptr %other, i32 0, i32 2
  %done = load ptr, ptr %dones
  call i32 @PyThread_acquire_lock(ptr %done, i32 1)
  %j1 = add i64 %j, 1
  %all = icmp sge i64 %j1, %workers
  br i1 %all, label %dismiss, label %wait
dismiss:
  %mine = load ptr, ptr %state
  call void @PyEval_RestoreThread(ptr %mine)
  store atomic i64 0, ptr %busy release, align 8
  br label %end
alone:
  %left = call ptr @PyEval_SaveThread()
  store ptr %left, ptr %state
  call void %program(i64 %table, i64 0, i64 1, i64 %place)
  %own = load ptr, ptr %state
  call void @PyEval_RestoreThread(ptr %own)
  br label %end
end:
  %running = getelementptr %team, ptr %team, i32 0, i32 2
  atomicrmw sub ptr %running, i64 1 seq_cst
  ret void
}

define void @scanjit_run_with_blas(ptr %program, i64 %table, i64 %threads) {
  %get = load ptr, ptr @blas
  %places = getelementptr { ptr, ptr, i64, i32 }, ptr @blas, i32 0, i32 1
  %counts = getelementptr { ptr, ptr, i64, i32 }, ptr @blas, i32 0, i32 2
  %befores = getelementptr { ptr, ptr, i64, i32 }, ptr @blas, i32 0, i32 3
  %set = load ptr, ptr %places
  %calls = load i64, ptr %counts
  %more = add i64 %calls, 1
  store i64 %more, ptr %counts
  %first = icmp eq i64 %calls, 0
  br i1 %first, label %one, label %run
one:
  %before = call i32 %get()
  store i32 %before, ptr %befores
  call void %set(i32 1)
  br label %run
run:
  call void @scanjit_run(ptr %program, i64 %table, i64 %threads)
  %now = load i64, ptr %counts
  %last = icmp eq i64 %now, 1
  %less = sub i64 %now, 1
  %forked = icmp slt i64 %less, 0
  %left = select i1 %forked, i64 0, i64 %less
  store i64 %left, ptr %counts
  br i1 %last, label %restore, label %end
restore:
  %many = load i32, ptr %befores
  call void %set(i32 %many)
  br label %end
end:
  ret void
}
"""

_PYTHON = (
    "PyEval_SaveThread PyEval_RestoreThread PyObject_CallNoArgs Py_DecRef PyMem_RawCalloc PyThread_allocate_lock "
    "PyThread_acquire_lock PyThread_acquire_lock_timed PyThread_release_lock PyThread_start_new_thread"
).split()

Run = Callable[[int, int, int], None]
"""Takes a program's address, its table's address and the number of threads. Raises what a signal handler raises
meanwhile."""


def _step_in_python() -> None:
    """Called by the thread of a call when the clock has ticked. Python runs signal handlers as it begins."""


class Native:
    """The functions of this machine code, and the memory that the threads of this process share (the team)."""

    def __init__(self) -> None:
        from llvmlite import binding as llvm

        for name in _PYTHON:
            llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
        text = _TEXT.replace("WORKERS", str(MOST_THREADS)).replace("IDLE", str(IDLE_TICKS))
        module = llvm.parse_assembly(text.replace("MICROSECONDS", str(int(TICK * 1e6))))
        module.verify()
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        word = ctypes.c_ssize_t
        self.run: Run = self._function("scanjit_run", None, word, word, word)
        self.run_with_blas: Run = self._function("scanjit_run_with_blas", None, word, word, word)
        self.set_blas = self._function("scanjit_set_blas", None, word, word)
        self._new_team = self._function("scanjit_new_team", word)
        self._function("scanjit_set_step", None, ctypes.py_object)(_step_in_python)
        self.team = 0
        self.new_team()

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        """A ctypes function that is called with Python's lock held and passes exceptions on."""
        return ctypes.PYFUNCTYPE(result, *arguments)(self._engine.get_function_address(name))

    def new_team(self) -> None:
        """Start with no workers and no clock, as a new process does. The old team's memory is kept: a call that forked
        may still use it."""
        self.team = self._new_team()

    def word(self, place: int) -> int:
        """One number in the memory of the team."""
        return ctypes.c_int64.from_address(self.team + 8 * place).value


@functools.cache
def native() -> Native:
    """The machine code of this process, compiled when it is first needed."""
    return Native()


def _after_fork() -> None:
    if native.cache_info().currsize:
        native().new_team()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
