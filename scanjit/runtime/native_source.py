"""The machine code that calls compiled programs. `native` compiles it, and says what it is for."""

from scanjit.codegen.places import SYNC_WORDS
from scanjit.runtime.arguments import READY
from scanjit.schedule.threads.teams import MOST_TEAMS
from scanjit.simd.line import LINE_BYTES

NATIVE_NUMBERS = {
    "READY": READY,
    "LINE_BYTES": LINE_BYTES,
    "PLACES": 1 + MOST_TEAMS,
    "PLACE_BYTES": 8 * SYNC_WORDS,
}
NATIVE_SOURCE = """
def scanjit_set_blas(get_threads, set_threads):
    home.get = get_threads
    home.set = set_threads


# ---- calls. Python's lock is held when they begin and end


def fill(table, places, given, many, more):
    for i in range(places[0]):
        number = places[2*i + 2]
        if number < many:
            array = PyTuple_GetItem(given, number)
        else:
            array = PyList_GetItem(more, number - many)
        table[places[2*i + 1]] = array.data


def alike(facts, values):
    if PyTuple_Size(values) != facts[1]:
        return 0
    fact = facts + 16
    for i in range(facts[1]):
        array = PyTuple_GetItem(values, i)
        if array.kind != facts[0] or array.dtype != fact[0] or array.axes != fact[1]:
            return 0
        if (array.flags & READY) != READY:
            return 0
        for k in range(fact[1]):
            if array.sizes[k] != fact[k + 2]:
                return 0
        fact += 8*fact[1] + 16
    return 1


def scanjit_alike(facts, values):
    return PyBool_FromLong(alike(PyBytes_AsString(facts), values))


def scanjit_empty(facts, nothing):
    words = PyBytes_AsString(PyTuple_GetItem(facts, 0))
    dtype = PyTuple_GetItem(facts, 1)
    Py_IncRef(dtype)
    return words[0](words[1], words + 16, dtype, 0)


def results(makers):
    made = PyList_New(PyTuple_Size(makers))
    if made:
        for i in range(PyTuple_Size(makers)):
            array = PyObject_CallNoArgs(PyTuple_GetItem(makers, i))
            if array == 0:
                Py_DecRef(made)
                return 0
            PyList_SetItem(made, i, array)
    return made


def scanjit_call(facts, values):
    words = PyBytes_AsString(PyTuple_GetItem(facts, 0))
    places = words + 32
    ready = places + 16*places[0] + 8
    if not alike(ready + 8*ready[0] + 8, values):
        return PyBool_FromLong(0)
    made = results(PyTuple_GetItem(facts, 1))
    if made == 0:
        return 0
    table = words[1]
    status = table + 8*words[2]
    returned = 0
    if change(status.running, 0, 1):
        fill(table, places, values, PyTuple_Size(values), made)
        used = run(words[0], table, 1, PyTuple_GetItem(facts, 2), words[3])
        failed = status.failed
        status.failed = 0
        if used >= 0 and failed == 0:
            for i in range(ready[0]):
                table[ready[i + 1]] = 1
            put(status.running, 0)
            returned = PyObject_CallOneArg(PyTuple_GetItem(facts, 3), made)
        else:
            put(status.running, 0)
            if used >= 0:
                returned = PyBool_FromLong(0)
    else:
        returned = PyBool_FromLong(0)
    Py_DecRef(made)
    return returned


def scanjit_begin_calls(at_once, otherwise, no, watched):
    home.at_once = at_once
    home.otherwise = otherwise
    home.no = no
    home.watched = watched


def scanjit_called(self, values, named):
    watched = home.watched
    if named == 0 and watched[0] == 0:
        found = PyObject_GetAttr(self, home.at_once)
        if found == 0:
            return 0
        if found != home.no:
            returned = PyObject_CallOneArg(found, values)
            Py_DecRef(found)
            if returned != home.no:
                return returned
        Py_DecRef(home.no)
    given = PyTuple_New(PyTuple_Size(values) + 1)
    if given == 0:
        return 0
    Py_IncRef(self)
    PyTuple_SetItem(given, 0, self)
    for i in range(PyTuple_Size(values)):
        value = PyTuple_GetItem(values, i)
        Py_IncRef(value)
        PyTuple_SetItem(given, i + 1, value)
    returned = PyObject_Call(home.otherwise, given, named)
    Py_DecRef(given)
    return returned


def word(object):
    return PyLong_AsSsize_t(object)


def scanjit_run(self, args, given):
    fill(word(args[1]), word(args[4]), 0, 0, args[5])
    both = run(word(args[0]), word(args[1]), word(args[2]), args[3], 0)
    if both < 0:
        return 0
    return PyLong_FromSsize_t(both)


def run(program, table, threads, tick, brief):
    line = stack(LINE_BYTES)
    memset(line, 0, LINE_BYTES)
    team = home.team
    others = begin(team)
    line.number = at(team.ticks)
    began = get(team.ticks)
    line.expected = began
    line.function = look
    line.tick = tick
    line.table = table
    line.met = clock()
    if has_workers(team, threads - 1):
        line.team = team
        run_together(line, program, threads)
    elif brief:
        line.number = at(line.expected)
        program(table, 0, 1, line)
    else:
        threads = 1
        line.state = PyEval_SaveThread()
        program(table, 0, 1, line)
        PyEval_RestoreThread(line.state)
    add(team.running, -1)
    if line.expected != began:
        over(line)
    if PyErr_Occurred():
        return -1
    return others << 8 | threads


def has_workers(team, wanted):
    if wanted < 1 or not change(team.busy, 0, 1):
        return 0
    if hire(team, wanted) >= wanted:
        return 1
    put(team.busy, 0)
    return 0


def run_together(line, program, threads):
    team = line.team
    team.stop = 0
    make_way(team)
    line.state = PyEval_SaveThread()
    for k in range(PLACES):
        memset(team.place + k*PLACE_BYTES, 0, 64*threads + 256)
    for i in range(threads - 1):
        slot = team.slots + i*SLOT_BYTES
        slot.program = program
        slot.table = line.table
        slot.threads = threads
        if not change(slot.given, 3, 1):
            put(slot.given, 1)
            PyThread_release_lock(slot.wake)
    program(line.table, 0, threads, line)
    for i in range(threads - 1):
        slot = team.slots + i*SLOT_BYTES
        if change(slot.given, 1, 3):
            put(slot.table, 0)
        else:
            looks = first_look(threads)
            while looks < PATIENCE and get(slot.given) == 2:
                pause()
                looks += 1
            PyThread_acquire_lock(slot.done, 1)
    PyEval_RestoreThread(line.state)
    put(team.busy, 0)


def scanjit_run_with_blas(self, args, given):
    if home.calls == 0:
        home.before = home.get()
        home.set(1)
    home.calls = home.calls + 1
    result = scanjit_run(self, args, given)
    last = home.calls == 1
    home.calls = max(home.calls - 1, 0)
    if last:
        home.set(home.before)
    return result
"""
