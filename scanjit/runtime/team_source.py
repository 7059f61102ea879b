"""The machine code of the threads that run programs: the clock, the workers, and how a thread looks whether it is to
end. `native` says what it is for."""

import ctypes
import os
import sys

from scanjit.runtime.sharing_source import PATIENCE
from scanjit.runtime.structures import SlotFields, TeamFields

TICK = 0.05
"""Seconds between two ticks of the clock thread."""
IDLE_TICKS = 20
"""After this many ticks without a call, the clock thread sleeps."""
WATCHED = 100_000
"""A worker counts its interruptions anew after it has computed for this many microseconds."""
SHORT = 8_000
"""If Linux interrupted the worker more often than once in this many microseconds, other programs need the cores too."""
CROWDED_TICKS = 20
"""For this many ticks after that, workers run on all cores."""

TEAM_NUMBERS = {
    "MICROSECONDS": int(TICK * 1e6),
    "IDLE_TICKS": IDLE_TICKS,
    "TEAM_BYTES": ctypes.sizeof(TeamFields),
    "SLOT_BYTES": ctypes.sizeof(SlotFields),
    "NO_THREAD": 0xFFFFFFFF,
    "PATIENCE": PATIENCE,
    "PROCESSORS": os.cpu_count() or 1,
    "NO_CORE": -1,
    "WATCHED": WATCHED,
    "SHORT": SHORT,
    "CROWDED_TICKS": CROWDED_TICKS,
    # Linux: the bytes of a set of cores, and of what it tells about a thread; the word there that counts interruptions
    "CORES_BYTES": 128,
    "USAGE_BYTES": 144,
    "THIS_THREAD": 1,
    "INTERRUPTIONS": 17,
}
_CAN_MOVE = sys.platform == "linux" and all(
    hasattr(ctypes.pythonapi, name)
    for name in ("sched_getcpu", "sched_getaffinity", "pthread_setaffinity_np", "getrusage")
)
_MOVE = """

def make_way(team):
    core = NO_CORE
    if get(team.ticks) >= team.crowded:
        core = sched_getcpu() & 0xFFFFFFFF
    if core != team.core and core < 8*CORES_BYTES:
        team.core = core
        cores = stack(CORES_BYTES)
        if (sched_getaffinity(0, CORES_BYTES, cores) & 0xFFFFFFFF) == 0:
            if core != NO_CORE:
                bits = cores + 8*(core >> 6)
                bits[0] = bits[0] & ~(1 << (core & 63))
            for i in range(team.workers):
                slot = team.slots + i*SLOT_BYTES
                pthread_setaffinity_np(slot.thread, CORES_BYTES, cores)


def look_around(usage, before):
    getrusage(THIS_THREAD, usage)
    spent = 1000000*(usage[0] + usage[2] - before[0] - before[2]) + usage[1] + usage[3] - before[1] - before[3]
    if spent >= WATCHED:
        if (usage[INTERRUPTIONS] - before[INTERRUPTIONS])*SHORT > spent:
            home.team.crowded = get(home.team.ticks) + CROWDED_TICKS
        memcpy(before, usage, USAGE_BYTES)
"""
_STAY = """

def make_way(team):
    pass


def look_around(usage, before):
    pass
"""
_SOURCE = """
# ---- for Python: a new team (of a new process)


def scanjit_new_team(place):
    home.team = (PyMem_RawCalloc(1, TEAM_BYTES + 64) + 63) & -64
    home.team.place = place
    if home.calls != 0:
        home.calls = 0
        home.set(home.before)
    return home.team


# ---- looking


def told(line, step, element, elements):
    return 1


def look(line, step, element, elements):
    if line.ended:
        return 1
    PyEval_RestoreThread(line.state)
    line.expected = get(line.number[0])
    line.step = step
    line.element = element
    line.elements = elements
    fine = ticked(line)
    line.state = PyEval_SaveThread()
    if fine:
        return 0
    line.ended = 1
    line.expected = -1
    if line.team:
        put(line.team.stop, 1)
    return 1


def ticked(line):
    result = 0
    address = PyLong_FromSsize_t(line)
    if address:
        result = PyObject_CallOneArg(line.tick, address)
        Py_DecRef(address)
    if result:
        Py_DecRef(result)
        return 1
    return 0


def over(line):
    raised = stack(24)
    PyErr_Fetch(raised, raised + 8, raised + 16)
    line.function = 0
    ticked(line)
    if raised[0]:
        PyErr_Restore(raised[0], raised[1], raised[2])


# ---- the clock


def ticking(team):
    idle = 0
    while True:
        PyThread_acquire_lock_timed(team.nap, MICROSECONDS, 0)
        add(team.ticks, 1)
        idle += 1
        if get(team.running) > 0:
            idle = 0
        if idle == IDLE_TICKS:
            change(team.asleep, 0, 1)
            if get(team.running) <= 0 or not change(team.asleep, 1, 0):
                PyThread_acquire_lock(team.alarm, 1)
            idle = 0


def begin(team):
    others = add(team.running, 1)
    if not team.started:
        team.started = 1
        team.alarm = closed_lock()
        team.nap = closed_lock()
        PyThread_start_new_thread(ticking, team)
    elif get(team.asleep) and change(team.asleep, 1, 0):
        PyThread_release_lock(team.alarm)
    return others


def closed_lock():
    lock = PyThread_allocate_lock()
    PyThread_acquire_lock(lock, 1)
    return lock


# ---- workers


def first_look(threads):
    if threads <= PROCESSORS:
        return 0
    return PATIENCE


def working(slot):
    usage = stack(USAGE_BYTES)
    before = stack(USAGE_BYTES)
    memset(before, 0, USAGE_BYTES)
    while True:
        PyThread_acquire_lock(slot.wake, 1)
        looks = 0
        while looks < PATIENCE or not change(slot.given, 3, 0):
            if get(slot.given) == 1 and change(slot.given, 1, 2):
                slot.program(slot.table, slot.number, slot.threads, slot)
                put(slot.table, 0)
                put(slot.given, 3)
                PyThread_release_lock(slot.done)
                looks = first_look(slot.threads)
                look_around(usage, before)
            pause()
            looks += 1


def hire(team, wanted):
    while team.workers < wanted:
        slot = team.slots + team.workers*SLOT_BYTES
        line = slot
        line.number = at(team.stop)
        line.expected = 0
        line.function = told
        slot.wake = closed_lock()
        slot.done = closed_lock()
        slot.number = team.workers + 1
        slot.thread = PyThread_start_new_thread(working, slot)
        if (slot.thread & NO_THREAD) == NO_THREAD:
            break
        team.workers = slot.number
        team.core = NO_CORE
    return team.workers
"""
TEAM_SOURCE = _SOURCE + (_MOVE if _CAN_MOVE else _STAY)
"""Linux may wake a worker on the core of the thread that makes the call, and leave both there while other cores are
idle. So a call lets workers run on all of its cores but the one where it begins itself (`make_way`).

It does not do so for a second (`CROWDED_TICKS`) after Linux has interrupted a worker for other threads. Else two
programs that share two cores take twice as long as with one thread each, and neither gains from being the first to use
one thread."""
