"""The machine code that calls compiled programs, as text for LLVM. `native` compiles it, and says what it is for."""

import re

from scanjit.codegen.places import SYNC_WORDS
from scanjit.runtime.addresses import CLASS_FIELD, DATA_FIELD
from scanjit.runtime.arguments import READY
from scanjit.runtime.machine_text import expanded
from scanjit.runtime.table import STATUS_WORDS
from scanjit.runtime.team_text import IDLE_TICKS, TEAM_STRUCTS, TEAM_TEXT, TICK
from scanjit.schedule.threads.teams import MOST_TEAMS

_STRUCTS = {
    "blas": "ptr get, ptr set, i64 calls, i32 before",
    "array": "ptr data, i32 axes, ptr sizes, ptr steps, ptr base, ptr dtype, i32 flags",
    "status": f"i64 failed, i64 running, [{STATUS_WORDS - 2} x i64] -",
}
"""What lies in memory besides the team.

`blas` holds OpenBLAS's functions for its number of threads, how many `calls` with LAPACK run, and how many threads it
had `before`.

`array` is what NumPy keeps of an array behind the header of the object.

The `status` lies behind the table of a program: what code reports if it `failed`, and whether a call made by
`scanjit_call` is `running` with that table.
"""

_TEXT = """
@blas = internal global %blas zeroinitializer

declare i64 @PyLong_AsSsize_t(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyBytes_AsString(ptr)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @CLOCK()

define void @scanjit_set_blas(ptr %get, ptr %set) {
  set blas.get @blas, %get
  set blas.set @blas, %set
  ret void
}

; ---- calls. Python's lock is held when they begin and end

define internal void @fill(i64 %table, ptr %places, ptr %given, i64 %many, ptr %more) {
  %entries = inttoptr i64 %table to ptr
  %count = load i64, ptr %places
  br label %check
check:
  %pair = phi ptr [ %places, %0 ], [ %after, %one ]
  %left = phi i64 [ %count, %0 ], [ %less, %one ]
  %end = icmp eq i64 %left, 0
  br i1 %end, label %done, label %next
next:
  %first = getelementptr i64, ptr %pair, i64 1
  %after = getelementptr i64, ptr %pair, i64 2
  %entry = load i64, ptr %first
  %number = load i64, ptr %after
  %is_given = icmp slt i64 %number, %many
  br i1 %is_given, label %tuple, label %list
tuple:
  %argument = call ptr @PyTuple_GetItem(ptr %given, i64 %number)
  br label %one
list:
  %behind = sub i64 %number, %many
  %item = call ptr @PyList_GetItem(ptr %more, i64 %behind)
  br label %one
one:
  %array = phi ptr [ %argument, %tuple ], [ %item, %list ]
  %field = getelementptr i8, ptr %array, i64 DATA_FIELD
  %data = load i64, ptr %field
  %place = getelementptr i64, ptr %entries, i64 %entry
  store i64 %data, ptr %place
  %less = sub i64 %left, 1
  br label %check
done:
  ret void
}

define internal ptr @item(ptr %args, i64 %number) {
  %place = getelementptr ptr, ptr %args, i64 %number
  %object = load ptr, ptr %place
  ret ptr %object
}

define internal i64 @word(ptr %args, i64 %number) {
  %object = call ptr @item(ptr %args, i64 %number)
  %value = call i64 @PyLong_AsSsize_t(ptr %object)
  ret i64 %value
}

define ptr @scanjit_alike(ptr %self, ptr %args, i64 %given) {
  %list = call ptr @item(ptr %args, i64 0)
  %facts = call ptr @PyBytes_AsString(ptr %list)
  %tuple = call ptr @item(ptr %args, i64 1)
  %alike = call i1 @alike(ptr %facts, ptr %tuple)
  %truth = zext i1 %alike to i64
  %result = call ptr @PyBool_FromLong(i64 %truth)
  ret ptr %result
}

define internal i1 @alike(ptr %facts, ptr %tuple) {
  %class = load ptr, ptr %facts
  %second = getelementptr i64, ptr %facts, i64 1
  %third = getelementptr i64, ptr %facts, i64 2
  %wanted = load i64, ptr %second
  %count = call i64 @PyTuple_Size(ptr %tuple)
  %as_many = icmp eq i64 %count, %wanted
  br i1 %as_many, label %next, label %end
next:
  %i = phi i64 [ 0, %0 ], [ %i1, %same ]
  %fact = phi ptr [ %third, %0 ], [ %more, %same ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %end, label %look
look:
  %object = call ptr @PyTuple_GetItem(ptr %tuple, i64 %i)
  %i1 = add i64 %i, 1
  %before = getelementptr i8, ptr %object, i64 CLASS_FIELD
  %its_class = load ptr, ptr %before
  %is_array = icmp eq ptr %its_class, %class
  br i1 %is_array, label %inside, label %end
inside:
  %array = getelementptr i8, ptr %object, i64 DATA_FIELD
  %its_dtype = get array.dtype %array
  %its_axes = get array.axes %array
  %its_flags = get array.flags %array
  %dtype = load ptr, ptr %fact
  %at_axes = getelementptr i64, ptr %fact, i64 1
  %at_sizes = getelementptr i64, ptr %fact, i64 2
  %axes = load i64, ptr %at_axes
  %found = sext i32 %its_axes to i64
  %flags = and i32 %its_flags, READY
  %is_dtype = icmp eq ptr %its_dtype, %dtype
  %is_rank = icmp eq i64 %found, %axes
  %is_ready = icmp eq i32 %flags, READY
  %is_both = and i1 %is_dtype, %is_rank
  %is_like = and i1 %is_both, %is_ready
  br i1 %is_like, label %sizes, label %end
sizes:
  %its_sizes = get array.sizes %array
  %more = getelementptr i64, ptr %at_sizes, i64 %axes
  br label %size
size:
  %k = phi i64 [ 0, %sizes ], [ %k1, %one ]
  %last = icmp eq i64 %k, %axes
  br i1 %last, label %same, label %one
one:
  %k1 = add i64 %k, 1
  %here = getelementptr i64, ptr %its_sizes, i64 %k
  %there = getelementptr i64, ptr %at_sizes, i64 %k
  %its_size = load i64, ptr %here
  %size_before = load i64, ptr %there
  %is_size = icmp eq i64 %its_size, %size_before
  br i1 %is_size, label %size, label %end
same:
  br label %next
end:
  %alike = phi i1 [ 0, %0 ], [ 1, %next ], [ 0, %look ], [ 0, %inside ], [ 0, %one ]
  ret i1 %alike
}

define ptr @scanjit_call(ptr %self, ptr %args, i64 %given) {
  %bytes = call ptr @item(ptr %args, i64 0)
  %makers = call ptr @item(ptr %args, i64 1)
  %tick = call ptr @item(ptr %args, i64 2)
  %tuple = call ptr @item(ptr %args, i64 4)
  %words = call ptr @PyBytes_AsString(ptr %bytes)
  %second = getelementptr i64, ptr %words, i64 1
  %third = getelementptr i64, ptr %words, i64 2
  %places = getelementptr i64, ptr %words, i64 3
  %count = load i64, ptr %places
  %pairs = mul i64 %count, 2
  %length = add i64 %pairs, 1
  %facts = getelementptr i64, ptr %places, i64 %length
  %fit = call i1 @alike(ptr %facts, ptr %tuple)
  br i1 %fit, label %list, label %missed
list:
  %many = call i64 @PyTuple_Size(ptr %makers)
  %made = call ptr @PyList_New(i64 %many)
  %full = icmp eq ptr %made, null
  br i1 %full, label %nothing, label %next
next:
  %i = phi i64 [ 0, %list ], [ %i1, %put ]
  %i1 = add i64 %i, 1
  %all = icmp eq i64 %i, %many
  br i1 %all, label %take, label %one
one:
  %maker = call ptr @PyTuple_GetItem(ptr %makers, i64 %i)
  %new = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %maker, ptr null)
  %none = icmp eq ptr %new, null
  br i1 %none, label %raise, label %put
put:
  call i32 @PyList_SetItem(ptr %made, i64 %i, ptr %new)
  br label %next
take:
  %program = load ptr, ptr %words
  %table = load i64, ptr %second
  %behind = load i64, ptr %third
  %entries = inttoptr i64 %table to ptr
  %status = getelementptr i64, ptr %entries, i64 %behind
  %mine = change acq_rel status.running %status, 0 to 1
  br i1 %mine, label %run, label %drop
run:
  %arity = call i64 @PyTuple_Size(ptr %tuple)
  call void @fill(i64 %table, ptr %places, ptr %tuple, i64 %arity, ptr %made)
  %used = call i64 @run(ptr %program, i64 %table, i64 1, ptr %tick)
  %failed = get status.failed %status
  set status.failed %status, 0
  set release status.running %status, 0
  %raised = icmp slt i64 %used, 0
  br i1 %raised, label %raise, label %ran
ran:
  %right = icmp eq i64 %failed, 0
  br i1 %right, label %return, label %drop
return:
  ret ptr %made
raise:
  call void @Py_DecRef(ptr %made)
  br label %nothing
nothing:
  ret ptr null
drop:
  call void @Py_DecRef(ptr %made)
  br label %missed
missed:
  %false = call ptr @PyBool_FromLong(i64 0)
  ret ptr %false
}

define ptr @scanjit_run(ptr %self, ptr %args, i64 %given) {
  %code = call i64 @word(ptr %args, i64 0)
  %program = inttoptr i64 %code to ptr
  %table = call i64 @word(ptr %args, i64 1)
  %threads = call i64 @word(ptr %args, i64 2)
  %tick = call ptr @item(ptr %args, i64 3)
  %list = call i64 @word(ptr %args, i64 4)
  %places = inttoptr i64 %list to ptr
  %arrays = call ptr @item(ptr %args, i64 5)
  call void @fill(i64 %table, ptr %places, ptr null, i64 0, ptr %arrays)
  %both = call i64 @run(ptr %program, i64 %table, i64 %threads, ptr %tick)
  %raised = icmp slt i64 %both, 0
  br i1 %raised, label %raise, label %return
raise:
  ret ptr null
return:
  %result = call ptr @PyLong_FromSsize_t(i64 %both)
  ret ptr %result
}

define internal i64 @run(ptr %program, i64 %table, i64 %threads, ptr %tick) {
  %line = alloca %line, align 64
  %place = ptrtoint ptr %line to i64
  %team = load ptr, ptr @team
  %others = call i64 @begin(ptr %team)
  %now = get monotonic team.ticks %team
  set line.number %line, %team
  set line.expected %line, %now
  set line.function %line, @look
  set line.loops %line, 0
  set line.total %line, 0
  set line.ended %line, 0
  set line.team %line, null
  set line.tick %line, %tick
  set line.table %line, %table
  %start = call i64 @CLOCK()
  set line.met %line, %start
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %ask, label %alone
ask:
  %free = change acq_rel team.busy %team, 0 to 1
  br i1 %free, label %gather, label %alone
gather:
  %workers = sub i64 %threads, 1
  %there = call i64 @hire(ptr %team, i64 %workers)
  %enough = icmp sge i64 %there, %workers
  br i1 %enough, label %together, label %few
few:
  set release team.busy %team, 0
  br label %alone
together:
  set team.stop %team, 0
  set line.team %line, %team
  %released = call ptr @PyEval_SaveThread()
  set line.state %line, %released
  %first = get team.place %team
  %shares = mul i64 %threads, 64
  %used = add i64 %shares, 256
  br label %clear
clear:
  %k = phi i64 [ 0, %together ], [ %k1, %clear ]
  %offset = mul i64 %k, PLACE_BYTES
  %here = getelementptr i8, ptr %first, i64 %offset
  call void @llvm.memset.p0.i64(ptr %here, i8 0, i64 %used, i1 0)
  %k1 = add i64 %k, 1
  %cleared = icmp sge i64 %k1, PLACES
  br i1 %cleared, label %give, label %clear
give:
  br label %one
one:
  %i = phi i64 [ 0, %give ], [ %i1, %next ]
  %slot = at team.slots %team, i64 %i
  set slot.program %slot, %program
  set slot.table %slot, %table
  set slot.threads %slot, %threads
  %awakes = change acq_rel slot.given %slot, 3 to 1
  br i1 %awakes, label %next, label %call
call:
  set release slot.given %slot, 1
  %wake = get slot.wake %slot
  call void @PyThread_release_lock(ptr %wake)
  br label %next
next:
  %i1 = add i64 %i, 1
  %all_given = icmp sge i64 %i1, %workers
  br i1 %all_given, label %work, label %one
work:
  call void %program(i64 %table, i64 0, i64 %threads, i64 %place)
  br label %wait
wait:
  %j = phi i64 [ 0, %work ], [ %j1, %following ]
  %other = at team.slots %team, i64 %j
  %never = change acq_rel slot.given %other, 1 to 3
  br i1 %never, label %forget, label %ends
forget:
  set release slot.table %other, 0
  br label %following
ends:
  %done = get slot.done %other
  call i32 @PyThread_acquire_lock(ptr %done, i32 1)
  br label %following
following:
  %j1 = add i64 %j, 1
  %all = icmp sge i64 %j1, %workers
  br i1 %all, label %dismiss, label %wait
dismiss:
  %mine = get line.state %line
  call void @PyEval_RestoreThread(ptr %mine)
  set release team.busy %team, 0
  br label %end
alone:
  %left = call ptr @PyEval_SaveThread()
  set line.state %line, %left
  call void %program(i64 %table, i64 0, i64 1, i64 %place)
  %own = get line.state %line
  call void @PyEval_RestoreThread(ptr %own)
  br label %end
end:
  %many = phi i64 [ %threads, %dismiss ], [ 1, %alone ]
  %running = at team.running %team
  atomicrmw sub ptr %running, i64 1 seq_cst
  %shifted = shl i64 %others, 8
  %both = or i64 %shifted, %many
  %error = call ptr @PyErr_Occurred()
  %raised = icmp ne ptr %error, null
  %result = select i1 %raised, i64 -1, i64 %both
  ret i64 %result
}

define ptr @scanjit_run_with_blas(ptr %self, ptr %args, i64 %given) {
  %get = get blas.get @blas
  %set = get blas.set @blas
  %calls = get blas.calls @blas
  %more = add i64 %calls, 1
  set blas.calls @blas, %more
  %first = icmp eq i64 %calls, 0
  br i1 %first, label %one, label %run
one:
  %before = call i32 %get()
  set blas.before @blas, %before
  call void %set(i32 1)
  br label %run
run:
  %result = call ptr @scanjit_run(ptr %self, ptr %args, i64 %given)
  %now = get blas.calls @blas
  %last = icmp eq i64 %now, 1
  %less = sub i64 %now, 1
  %forked = icmp slt i64 %less, 0
  %left = select i1 %forked, i64 0, i64 %less
  set blas.calls @blas, %left
  br i1 %last, label %restore, label %end
restore:
  %many = get blas.before @blas
  call void %set(i32 %many)
  br label %end
end:
  ret ptr %result
}
"""
"""The functions, in LLVM's language and four words more, which `machine_text` explains."""


def native_text(triple: str) -> str:
    """The text for a machine."""
    text = f"{TEAM_TEXT}{_TEXT}".replace("IDLE", str(IDLE_TICKS)).replace("MICROSECONDS", str(int(TICK * 1e6)))
    text = text.replace("CLOCK", f"llvm.read{'cycle' if triple.startswith('x86_64') else 'steady'}counter")
    text = text.replace("DATA_FIELD", str(DATA_FIELD)).replace("PLACE_BYTES", str(8 * SYNC_WORDS))
    text = text.replace("CLASS_FIELD", str(CLASS_FIELD)).replace("READY", str(READY))
    return expanded(text.replace("PLACES", str(1 + MOST_TEAMS)), TEAM_STRUCTS | _STRUCTS)


def python_functions() -> list[str]:
    """The functions of Python's that the text calls."""
    return re.findall(r"declare .* @(Py\w+)", TEAM_TEXT + _TEXT)
