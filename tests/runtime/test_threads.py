"""Threads: the same bits however many there are, from several callers at once, and after a fork."""

import _thread
import concurrent.futures
import ctypes
import functools
import itertools
import math
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import scanjit as sj
from scanjit.config import config
from scanjit.schedule.cost import rates
from scanjit.schedule.threads import waves
from tests import workers
from tests.alarms import Stop, alarms, raising
from tests.scripts import python
from tests.workers import nobody_works


@pytest.fixture(autouse=True)
def small_programs_count_as_large(monkeypatch):
    monkeypatch.setattr(rates, "WAKING", 0.0)
    monkeypatch.setattr(rates, "LEAST_GAIN", 0.0)
    before = config.threads
    yield
    config.threads = before


@pytest.fixture(scope="module")
def network():
    """A tanh RNN with an output layer and gradients: products, elementwise nests, sums, a loop that stops early."""
    x = sj.tensor(("T", "B", 5), "float32", "x")
    w, r = sj.tensor((5, "H"), "float32", "w"), sj.tensor(("H", "H"), "float32", "r")
    h = sj.scan(
        lambda a, h: np.tanh(a @ w + h @ r), sequences=x, outputs_info=sj.zeros((x.shape[1], w.shape[1]), "float32")
    )
    early = sj.scan(lambda s: (s * 1.5, sj.until(s > 40.0)), outputs_info=w.sum() * 0 + 1, n_steps=50)
    cost = (h * h).sum() + sj.softmax(h, axis=2).max()
    return sj.function([x, w, r], [h, cost, early, *sj.grad(cost, [x, w, r])])


def arguments(batch=7, hidden=70, seed=0):
    rng = np.random.default_rng(seed)
    shapes = (4, batch, 5), (5, hidden), (hidden, hidden)
    return [(rng.standard_normal(shape) * 0.3).astype("float32") for shape in shapes]


def run(f, threads, args):
    config.threads = threads
    return f(*args)


@pytest.mark.parametrize("batch, hidden", [(7, 70), (1, 33), (16, 64), (1, 1)])
def test_results_do_not_depend_on_the_number_of_threads(network, batch, hidden):
    args = arguments(batch, hidden)
    one = run(network, 1, args)
    for threads in (2, 3, 5):
        np.testing.assert_equal(one, run(network, threads, args))
    assert workers.count() >= 1 and nobody_works()


@pytest.mark.parametrize("columns", [16, 24, 40, "N"])
def test_sums_of_columns_that_threads_keep_do_not_depend_on_their_number(monkeypatch, columns):
    """A thread's own columns begin anywhere. Those that fill no tile were summed in another order."""
    x, size = sj.tensor((16, columns), "float32", "x"), 24 if columns == "N" else columns
    y = sj.scan(lambda s: sj.sin(s.sum(0) * 0.5 + s), [], x, n_steps=9)[-1]
    f = sj.function([x], y)
    given = np.random.default_rng(0).standard_normal((16, size)).astype("float32")
    (one,) = [run(f, 1, [given])]
    for meeting in (rates.MEETING, 0.0):  # threads keep their columns, or share each step
        monkeypatch.setattr(rates, "MEETING", meeting)
        f = sj.function([x], y)
        for threads in (1, 2, 3, 5):
            np.testing.assert_array_equal(run(f, threads, [given]), one)


def test_several_callers_at_once(network):
    cases = [arguments(seed=s) for s in range(12)]
    wanted = [run(network, 1, args) for args in cases]
    config.threads = 2
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for one, found in zip(wanted, pool.map(lambda args: network(*args), cases), strict=True):
            np.testing.assert_equal(one, found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork(network):
    args = arguments()
    wanted = run(network, 2, args)
    child = os.fork()
    if child == 0:
        same = all(np.array_equal(a, b) for a, b in zip(wanted, network(*args), strict=True))
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


def compiled(step, states):
    """A function of three layers with these steps and its gradient, and cases with their results on one thread."""
    x, (w, r) = sj.tensor(("T", "B", 24), "float32", "x"), [sj.tensor((24, 96), "float32") for _ in range(2)]
    y = x
    for _ in range(3):
        y = sj.scan(
            functools.partial(step, w, r), y, [sj.zeros((x.shape[1], 24), "float32")] * states, return_list=True
        )[0]
    f, rng = sj.function([x, w, r], [y, sj.grad((y * y).sum(), x)]), np.random.default_rng(2)
    weights = [(rng.standard_normal((24, 96)) * 0.2).astype("float32") for _ in range(2)]
    cases = [[rng.standard_normal((T, B, 24)).astype("float32"), *weights] for T, B in ((90, 1), (33, 2), (7, 5))]
    return f, [(args, [part.tobytes() for part in run(f, 1, args)]) for args in cases]


def simple(w, r, row, h):
    return np.tanh(row @ w[:, :24] + h @ r[:, :24])


def lstm(w, r, row, h, c):
    """Threads do not meet between the products of the gates."""
    i, f, g, o = (row @ w[:, 24 * k : 24 * k + 24] + h @ r[:, 24 * k : 24 * k + 24] for k in range(4))
    c = sj.sigmoid(f) * c + sj.sigmoid(i) * np.tanh(g)
    return sj.sigmoid(o) * np.tanh(c), c


@pytest.fixture(scope="module")
def layers():
    return compiled(simple, 1)


@pytest.fixture(scope="module")
def gates():
    return compiled(lstm, 2)


@pytest.fixture(params=["waves", "no meetings"])
def sharing(request, monkeypatch):
    """A function whose threads share much: it runs in waves of short blocks, or without meetings between products of
    which all threads compute some columns."""
    f, cases = request.getfixturevalue({"waves": "layers", "no meetings": "gates"}[request.param])
    waving = request.param == "waves"
    gain, meeting = (math.inf, 1.0) if waving else (0.0, 0.0)
    for where, name, value in ((waves, "GAIN", gain), (waves, "SHORTEST", 2), (rates, "MEETING", meeting)):
        monkeypatch.setattr(where, name, value)
    for stage in f.executable.stages:
        stage.forget()
        stage.choices.clear()
    run(f, 2, cases[0][0])
    if waving:
        assert "blocks of" in f.explain().split("side by side in turns")[1]
    else:
        assert "threads share each step" in f.explain()
        assert re.search(r"while (piece\d+) >= 0:\n( +contract\w*\(.*\n){2,} +\1 = next_piece", f.source)
    yield f, cases
    for stage in f.executable.stages:
        stage.forget()
        stage.choices.clear()


def same(f, case):
    args, wanted = case
    return [part.tobytes() for part in f(*args)] == wanted


def test_several_callers_while_the_number_of_threads_changes(sharing):
    f, cases = sharing
    ended = threading.Event()

    def change():
        for config.threads in itertools.cycle((2, 1, 3, 5)):
            if ended.wait(1e-4):
                return

    changing = threading.Thread(target=change)
    changing.start()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda case: same(f, case), cases * 60))
    ended.set()
    changing.join()
    assert all(found) and nobody_works()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forks_in_the_middle_of_calls(sharing):
    f, cases = sharing
    config.threads = 2
    ended, found = threading.Event(), []

    def call():
        while not ended.is_set():
            found.extend(same(f, case) for case in cases)

    calling = threading.Thread(target=call)
    calling.start()
    codes = []
    for _ in range(12):
        child = os.fork()
        if child == 0:
            os._exit(0 if all(same(f, case) for case in cases) else 1)
        codes.append(os.waitpid(child, 0)[1])
    ended.set()
    calling.join()
    assert all(found) and found and set(codes) == {0}


def test_a_pickle_computes_the_same_bits(sharing):
    f, cases = sharing
    again = pickle.loads(pickle.dumps(f))
    for config.threads in (3, 2, 1):
        assert all(same(again, case) for case in cases)


def test_small_programs_stay_on_one_thread(network, monkeypatch):
    monkeypatch.setattr(rates, "WAKING", 1e12)
    monkeypatch.setattr(rates, "LEAST_GAIN", 1.0)
    given = []

    def watch(part):
        inner = part._run
        monkeypatch.setattr(part, "_run", lambda *args: (given.append(args[2]), inner(*args)))

    for stage in network.executable.stages:
        watch(stage)
    run(network, 2, arguments(batch=3, hidden=9))
    assert set(given) == {1}


def test_the_setting_is_checked():
    with pytest.raises(sj.errors.ArgumentError, match=r"config\.threads"):
        config.threads = -1
    with pytest.raises(sj.errors.ArgumentError, match=r"config\.threads"):
        config.threads = "two"


# ---- what Python wants while a call runs -----------------------------------------------------------------------------

ENDLESS = 1.0
"""An argument for which the loop of `endless` does not end."""


@pytest.fixture(scope="module")
def endless():
    """A function of how long to run, with a variable that a call updates."""
    x, count = sj.matrix("x"), sj.shared(0, "count")
    out = sj.while_loop(lambda h: h.min() > 0, lambda h: np.tanh(h) * 0 + x, x)
    f = sj.function([x], out, updates={count: count + 1})
    f(np.full((300, 200), -1.0))
    return f, count


LENGTH = sj.tensor((), "int64", "n")


def long_loops():
    """Programs that are one loop, of a length that an argument gives: each would run for minutes at least."""
    n, one = LENGTH, sj.constant(1.0)
    count = sj.arange(n)
    return {
        "a loop over time": sj.scan(lambda h: np.tanh(h), outputs_info=one, n_steps=n)[-1],
        "a linear recurrence": sj.scan(lambda h: 0.5 * h + 1, outputs_info=one, n_steps=n)[-1],
        "a loop with a product": sj.scan(
            lambda h: np.tanh(h @ h + sj.ones((9, 9))), outputs_info=sj.zeros((9, 9)), n_steps=n
        )[-1],
        "loops in a loop": sj.scan(
            lambda h: sj.scan(lambda g: np.tanh(g + 0.1), outputs_info=h, n_steps=n)[-1], outputs_info=one, n_steps=n
        )[-1],
        "a sum": (count * 0.5).sum(),
        "the largest": (count % 7).max(),
        "where it is": sj.argmax(count % 7),
    }


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", long_loops())
@pytest.mark.parametrize("threads", [1, 2])
def test_every_kind_of_loop_ends(name, threads):
    f = LONG.setdefault(name, sj.function([LENGTH], long_loops()[name]))
    f(3)
    with pytest.raises(Stop), alarms(raising, 0.02):
        run(f, threads, [2**40])
    assert nobody_works()


LONG = {}


@pytest.mark.parametrize("threads", [1, 3])
def test_a_handler_that_raises_ends_a_call(endless, threads):
    f, count = endless
    before = int(count.get_value())
    with pytest.raises(Stop), alarms(raising, 0.02):
        run(f, threads, [np.full((300, 200), ENDLESS)])
    assert int(count.get_value()) == before and nobody_works()
    run(f, threads, [np.full((300, 200), -1.0)])
    assert int(count.get_value()) == before + 1


def test_a_handler_that_raises_nothing_runs_while_the_call_goes_on(endless):
    f, _ = endless
    times, nested = [], []

    def handler(*_):
        times.append(1)
        nested.append(f(np.full((300, 200), -1.0)))  # a call in the middle of a call
        if len(times) == 3:
            raise Stop
        signal.setitimer(signal.ITIMER_REAL, 0.02)  # not before: in emulation, a call takes longer than this

    with pytest.raises(Stop), alarms(handler, 0.02):
        run(f, 2, [np.full((300, 200), ENDLESS)])
    assert len(times) == 3 and all((x == -1).all() for x in nested) and nobody_works()


def test_an_exception_sent_to_another_thread_ends_its_call(endless):
    f, _ = endless
    ended, started = [], threading.Event()

    def call():
        started.set()
        try:
            f(np.full((300, 200), ENDLESS))
        except Stop:
            ended.append(nobody_works())

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    started.wait()
    while thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Stop))
        thread.join(0.1)
    assert ended in ([True], [])  # (none, if it came before the call)


def test_ctrl_c_goes_to_the_main_thread_alone(endless):
    f, _ = endless
    results = []
    x = np.full((300, 200), ENDLESS)

    def call():
        with pytest.raises(Stop):
            f(x)
        results.append("stopped")

    thread = threading.Thread(target=call)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        _thread.interrupt_main()
        thread.join()
    assert thread.is_alive() and not results
    while thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Stop))
        thread.join(0.1)
    assert results == ["stopped"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_call_in_the_child_of_a_fork_can_be_ended(endless):
    f, _ = endless
    child = os.fork()
    if child == 0:
        try:
            with alarms(raising, 0.02):
                run(f, 2, [np.full((300, 200), ENDLESS)])
        except Stop:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


IN_A_THREAD_AT_THE_END = """
import threading, time, numpy as np, scanjit as sj
from scanjit.runtime import native

class Late:
    def __del__(self, wait=time.sleep):
        wait(0.3)

x = sj.matrix("x")
f = sj.function([x], sj.while_loop(lambda h: h.min() > 0, lambda h: np.tanh(h) * 0 + x, x))
f(-np.ones((300, 200)))
threading.Thread(target=f, args=(np.ones((300, 200)),), daemon=True).start()
time.sleep(0.2)
native._made["late"] = Late()  # deleted after what the threads use: they run on without that
print("end")
"""


def test_a_process_ends_while_a_thread_calls():
    done = subprocess.run([sys.executable, "-c", IN_A_THREAD_AT_THE_END], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems make threads beyond this limit")
def test_without_new_threads_the_caller_does_all_of_it():
    """As many workers as can be had, and none, if they are too few."""
    pytest.importorskip("resource")
    code = (
        "import resource, numpy as np, scanjit as sj; from tests import workers; x = sj.matrix('x')\n"
        "f = sj.function([x], np.tanh(x).sum(0)); a = np.ones((1000, 600)); sj.config.threads = 1; one = f(a)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1, 1)); sj.config.threads = 60; two = f(a)\n"
        "assert workers.count() < 59 and not workers.busy() and (one == two).all(); print('ok')"
    )
    assert python(code) == "ok\n"


PLACES = """
import ctypes, os
import numpy as np
import scanjit as sj
from scanjit.runtime.native import native
from scanjit.runtime.structures import TeamFields
from scanjit.schedule.cost import rates

rates.WAKING = rates.LEAST_GAIN = 0.0
allowed = os.sched_getaffinity(0)
here = ctypes.CDLL(None).sched_getcpu
own = lambda: set(os.listdir("/proc/self/task"))
x = np.ones((20, 8, 64), "float32")
f = sj.jit(lambda x: sj.scan(lambda x, h: np.tanh(x + h @ sj.ones((64, 64), "float32")), x, x[0]))
sj.config.threads = 1
f(x)
before = own()
team = TeamFields.from_address(native().team)
"""


NOWHERE_ELSE = sys.platform != "linux" or (os.cpu_count() or 1) < 2


@pytest.mark.skipif(NOWHERE_ELSE, reason="there is nowhere else to be")
def test_workers_leave_its_core_to_the_thread_that_calls():
    code = """
    sj.config.threads = 2
    f(x)
    helping = own() - before
    masks = lambda: [os.sched_getaffinity(int(each)) for each in helping]
    left = []
    for core in sorted(allowed)[:2] * 2:
        os.sched_setaffinity(0, {core})  # moves this thread, which may then run everywhere again
        os.sched_setaffinity(0, allowed)
        team.crowded, first = 0, here()
        f(x)
        left.append(allowed - {first} in masks())
    assert any(left)  # a busy system may move this thread at any time
    assert os.sched_getaffinity(0) == allowed

    team.crowded = team.ticks + 1000
    f(x)
    assert all(mask == allowed for mask in masks())
    """
    python(PLACES + textwrap.dedent(code))


@pytest.mark.skipif(NOWHERE_ELSE, reason="there is nowhere else to be")
def test_workers_that_are_interrupted_run_everywhere():
    """Here, after the first interruption."""
    code = """
    import subprocess, sys, time
    sj.config.threads = 2
    large = np.ones((1000, 64, 64), "float32")
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in allowed]
    try:
        end = time.monotonic() + 60
        while not team.crowded:
            f(large)
            assert time.monotonic() < end
    finally:
        for each in busy:
            each.kill()
    """
    once = "from scanjit.runtime import team_source; team_source.TEAM_NUMBERS |= {'WATCHED': 0, 'SHORT': 10**12}\n"
    python(once + PLACES + textwrap.dedent(code))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="there is no affinity")
def test_workers_stay_where_the_process_may_run():
    code = """
    core = {min(allowed)}
    os.sched_setaffinity(0, core)
    sj.config.threads = 3
    f(x)
    assert len(own() - before) >= 2 and all(os.sched_getaffinity(int(each)) == core for each in own() - before)
    """
    python(PLACES + textwrap.dedent(code))
