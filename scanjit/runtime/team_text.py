"""The machine code of the threads that run programs, as text for LLVM: the clock, the workers, and how a thread looks
whether it is to end. `native` says what it is for."""

from scanjit.config import MOST_THREADS

TICK = 0.05
"""Seconds between two ticks of the clock thread."""
IDLE_TICKS = 20
"""After this many ticks without a call, the clock thread sleeps."""
WORK_WORDS = 16
"""A line has this many words for the work that its thread shares with others. It ends where a line of the cache
does."""

TEAM_STRUCTS = {
    "line": "ptr number, i64 expected, ptr function, i64 loops, i64 total, i64 early, i64 done, i64 step, "
    "i64 element, i64 elements, i64 ended, ptr state, ptr team, ptr tick, i64 table, i64 met, "
    f"[{WORK_WORDS} x i64] work",
    "slot": "%line line, ptr wake, ptr done, ptr program, i64 table, i64 number, i64 threads, i64 given, i64 -",
    "team": "i64 ticks, [7 x i64] -, i64 running, i64 asleep, i64 started, ptr alarm, ptr nap, [3 x i64] -, "
    f"i64 busy, i64 stop, i64 workers, ptr place, [4 x i64] -, [{MOST_THREADS} x %slot] slots",
}
"""What lies in memory, one structure after the other: the type of each field and its name. Empty space (-) keeps what
several threads write in cache lines of its own.

A *line* connects a thread with Python. Its address is the last argument of a program, and of its nests. It holds the
address of a `number`, and the value that is `expected` there. When the number has another value, the thread calls the
`function`, which says whether to end. The number of the calling thread is the clock's `ticks`; that of a worker is
`stop`. `ended` says whether a signal handler raised something, `state` is what Python gave for its lock, and `team` is
where `stop` is (null if there are no workers).

A line also says how far its thread is. The main function writes how many `loops` over time have begun. Of the one that
runs it writes how many steps it has in `total` (0 if none runs), whether it may end `early`, and how many steps are
`done` (-1 if a nest makes them all). Such a nest tells the `function` at which `step` it is, and for which `element` of
so many `elements`. `tick` is what Python calls with the address of the line when the clock has ticked, `table` that of
the call. Where threads meet, they note in `met` when that was. `work` is what the thread shares with others just now
(`simd.sharing.first_piece`).

A *slot* is a worker: its line, the lock `wake` that it waits for, the lock `done` that it opens when it has run a
program, and what to run. `given` is 1 if there is something to run, 2 while it runs, 3 if the call has ended before the
worker woke, 0 else.

A *team* is what the threads of a process share: the clock (its `ticks`, how many calls are `running`, whether it is
`asleep` and was `started`, the lock `alarm` that wakes it and the lock `nap` that it waits for between ticks), and the
workers (whether a call uses them, whether they are to `stop`, how many there are, and the `place` in memory where
they and the calling thread share work).
"""

TEAM_TEXT = """
@team = internal global ptr null

declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyLong_FromSsize_t(i64)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare void @Py_DecRef(ptr)
declare ptr @PyMem_RawCalloc(i64, i64)
declare ptr @PyThread_allocate_lock()
declare i32 @PyThread_acquire_lock(ptr, i32)
declare i32 @PyThread_acquire_lock_timed(ptr, i64, i32)
declare void @PyThread_release_lock(ptr)
declare i32 @PyThread_start_new_thread(ptr, ptr)

; ---- for Python: a new team (of a new process)

define i64 @scanjit_new_team() {
  %size = ptrtoint ptr getelementptr (%team, ptr null, i32 1) to i64
  %room = add i64 %size, 64
  %memory = call ptr @PyMem_RawCalloc(i64 1, i64 %room)
  %given = ptrtoint ptr %memory to i64
  %above = add i64 %given, 63
  %address = and i64 %above, -64
  %team = inttoptr i64 %address to ptr
  store ptr %team, ptr @team
  %calls = get blas.calls @blas
  %none = icmp eq i64 %calls, 0
  br i1 %none, label %done, label %restore
restore:
  set blas.calls @blas, 0
  %before = get blas.before @blas
  %set = get blas.set @blas
  call void %set(i32 %before)
  br label %done
done:
  ret i64 %address
}

define void @scanjit_set_place(ptr %place) {
  %team = load ptr, ptr @team
  set team.place %team, %place
  ret void
}

; ---- looking

define internal i64 @told(ptr %line, i64 %step, i64 %element, i64 %elements) {
  ret i64 1
}

define internal i64 @look(ptr %line, i64 %step, i64 %element, i64 %elements) {
  %before = get line.ended %line
  %known = icmp ne i64 %before, 0
  br i1 %known, label %end, label %python
python:
  %state = get line.state %line
  call void @PyEval_RestoreThread(ptr %state)
  %ticks = get line.number %line
  %now = load atomic i64, ptr %ticks monotonic, align 8
  set line.expected %line, %now
  set line.step %line, %step
  set line.element %line, %element
  set line.elements %line, %elements
  %place = ptrtoint ptr %line to i64
  %address = call ptr @PyLong_FromSsize_t(i64 %place)
  %full = icmp eq ptr %address, null
  br i1 %full, label %stop, label %tick
tick:
  %function = get line.tick %line
  %result = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %function, ptr %address, ptr null)
  call void @Py_DecRef(ptr %address)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %stop, label %on
on:
  call void @Py_DecRef(ptr %result)
  %same = call ptr @PyEval_SaveThread()
  set line.state %line, %same
  ret i64 0
stop:
  %kept = call ptr @PyEval_SaveThread()
  set line.state %line, %kept
  set line.ended %line, 1
  set line.expected %line, -1
  %team = get line.team %line
  %alone = icmp eq ptr %team, null
  br i1 %alone, label %end, label %others
others:
  set release team.stop %team, 1
  br label %end
end:
  ret i64 1
}

; ---- the clock

define internal void @clock(ptr %team) {
  %ticks = at team.ticks %team
  %alarm = get team.alarm %team
  %nap = get team.nap %team
  br label %awake
awake:
  br label %tick
tick:
  %idle = phi i64 [ 0, %awake ], [ %more, %look ]
  call i32 @PyThread_acquire_lock_timed(ptr %nap, i64 MICROSECONDS, i32 0)
  atomicrmw add ptr %ticks, i64 1 monotonic
  %calls = get seq_cst team.running %team
  %none = icmp sle i64 %calls, 0
  br i1 %none, label %look, label %awake
look:
  %more = add i64 %idle, 1
  %long = icmp sge i64 %more, IDLE
  br i1 %long, label %sleep, label %tick
sleep:
  set seq_cst team.asleep %team, 1
  %again = get seq_cst team.running %team
  %still = icmp sle i64 %again, 0
  br i1 %still, label %wait, label %take
take:
  %mine = change seq_cst team.asleep %team, 1 to 0
  br i1 %mine, label %awake, label %wait
wait:
  call i32 @PyThread_acquire_lock(ptr %alarm, i32 1)
  br label %awake
}

define internal i64 @begin(ptr %team) {
  %running = at team.running %team
  %others = atomicrmw add ptr %running, i64 1 seq_cst
  %there = get team.started %team
  %known = icmp ne i64 %there, 0
  br i1 %known, label %ready, label %start
start:
  set team.started %team, 1
  %alarm = call ptr @closed()
  %nap = call ptr @closed()
  set team.alarm %team, %alarm
  set team.nap %team, %nap
  call i32 @PyThread_start_new_thread(ptr @clock, ptr %team)
  ret i64 %others
ready:
  %sleeps = get seq_cst team.asleep %team
  %quiet = icmp eq i64 %sleeps, 0
  br i1 %quiet, label %done, label %wake
wake:
  %mine = change seq_cst team.asleep %team, 1 to 0
  br i1 %mine, label %ring, label %done
ring:
  %bell = get team.alarm %team
  call void @PyThread_release_lock(ptr %bell)
  br label %done
done:
  ret i64 %others
}

define internal ptr @closed() {
  %lock = call ptr @PyThread_allocate_lock()
  call i32 @PyThread_acquire_lock(ptr %lock, i32 1)
  ret ptr %lock
}

; ---- workers

define internal void @worker(ptr %slot) {
  %wake = get slot.wake %slot
  %done = get slot.done %slot
  %number = get slot.number %slot
  %line = ptrtoint ptr %slot to i64
  br label %wait
wait:
  call i32 @PyThread_acquire_lock(ptr %wake, i32 1)
  br label %try
try:
  %mine = change acq_rel slot.given %slot, 1 to 2
  br i1 %mine, label %run, label %late
late:
  %over = change acq_rel slot.given %slot, 3 to 0
  br i1 %over, label %wait, label %try
run:
  %program = get slot.program %slot
  %table = get slot.table %slot
  %threads = get slot.threads %slot
  call void %program(i64 %table, i64 %number, i64 %threads, i64 %line)
  set release slot.table %slot, 0
  set release slot.given %slot, 0
  call void @PyThread_release_lock(ptr %done)
  br label %wait
}

define internal i64 @hire(ptr %team, i64 %wanted) {
  %stop = at team.stop %team
  br label %more
more:
  %have = get team.workers %team
  %enough = icmp sge i64 %have, %wanted
  br i1 %enough, label %end, label %new
new:
  %slot = at team.slots %team, i64 %have
  %wake = call ptr @closed()
  %done = call ptr @closed()
  %next = add i64 %have, 1
  set line.number %slot, %stop
  set line.expected %slot, 0
  set line.function %slot, @told
  set slot.wake %slot, %wake
  set slot.done %slot, %done
  set slot.number %slot, %next
  %thread = call i32 @PyThread_start_new_thread(ptr @worker, ptr %slot)
  %failed = icmp eq i32 %thread, -1
  br i1 %failed, label %end, label %hired
hired:
  set team.workers %team, %next
  br label %more
end:
  %found = get team.workers %team
  ret i64 %found
}
"""
"""The functions, in LLVM's language and four words more, which `machine_text` explains."""
