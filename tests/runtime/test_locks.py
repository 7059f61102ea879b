"""Exceptions that come from outside, as a signal handler raises them: all or nothing is done, and no lock stays held.

CPython runs signal handlers where a call begins and where one has returned. `interrupted_at` raises there, at each of
these places in turn.
"""

import contextlib
import os
import signal
import sys
import threading

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime.locks import holding
from scanjit.runtime.shared import commit


class Interrupt(BaseException):
    """What no code of ours handles."""


class Late(Exception):
    """What some code of ours handles."""


def interrupted_at(place, call, kind=Interrupt):
    """Call a function and raise at its n-th place; says whether there is one."""
    seen = -1

    def profile(frame, event, argument):
        nonlocal seen
        if event in ("call", "c_return"):
            seen += 1
            if seen == place:
                sys.setprofile(None)
                raise kind

    try:
        sys.setprofile(profile)
        call()
    except kind:
        return True
    finally:
        sys.setprofile(None)
    return False


def everywhere(call, kind=Interrupt):
    """Raise at each place of a call in turn, and let the caller look after each."""
    place = 0
    while interrupted_at(place, call, kind):
        yield place
        place += 1
    assert place > 3


def held(locks):
    """The locks that another thread cannot have."""
    found = []

    def look():
        for lock in locks:
            if lock.acquire(blocking=False):
                lock.release()
            else:
                found.append(lock)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return found


def test_locks_are_given_back_wherever_an_exception_comes():
    locks = [threading.RLock() for _ in range(3)]
    for place in everywhere(lambda: holding(locks, min, 1, 2)):
        assert not held(locks), place
    assert holding(locks, lambda: len(held(locks))) == 3


def test_locks_of_the_caller_stay_held():
    locks = [threading.RLock() for _ in range(3)]
    with locks[1]:
        for place in everywhere(lambda: holding(locks, min, 1, 2)):
            assert held(locks) == [locks[1]], place


def test_an_exception_while_waiting_for_a_lock_leaves_the_others():
    """And does not give back the one that somebody else holds."""
    locks = [threading.RLock() for _ in range(3)]
    waiting, stop = threading.Event(), threading.Event()

    def hold():
        with locks[1]:
            waiting.set()
            stop.wait()

    class Counted:
        """The last lock, which nobody gets to."""

    thread = threading.Thread(target=hold)
    thread.start()
    waiting.wait()
    waiter = threading.Thread(target=lambda: _swallow(Interrupt, lambda: holding(locks, Counted)))
    waiter.start()
    while not held(locks[:1]):
        pass
    _raise_in(waiter, Interrupt)
    stop.set()
    waiter.join()
    thread.join()
    assert not held(locks)


def _swallow(kind, call):
    with contextlib.suppress(kind):
        call()


def _raise_in(thread, kind):
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(kind))


@pytest.fixture(scope="module", params=["reference", "numba"])
def counting(request):
    """Variables, and a function that adds one to each."""
    variables = [sj.shared(0, f"v{i}") for i in range(12)]
    add = sj.function([], updates={v: v + 1 for v in variables}, mode=request.param)
    add()
    return variables, add


def numbers(variables):
    return {int(v.get_value(borrow=True)) for v in variables}


def test_updates_are_made_all_or_none_wherever_an_exception_comes(counting):
    variables, add = counting
    before = numbers(variables)
    for place in everywhere(add):
        after = numbers(variables)
        assert len(after) == 1 and after.pop() - before.pop() in (0, 1), place
        assert not held([v._lock for v in variables]), place
        before = numbers(variables)


def test_setting_a_value_is_done_or_not(counting):
    (v, *_), _ = counting
    v.set_value(-1)
    for place in everywhere(lambda: v.set_value(-2)):
        assert int(v.get_value()) in (-1, -2) and not held([v._lock]), place
        v.set_value(-1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_child_of_a_fork_sees_all_updates_of_a_call_or_none(counting):
    variables, add = counting
    for v in variables:
        v.set_value(0)
    done = threading.Event()

    def loop():
        while not done.is_set():
            add()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=loop)
    thread.start()
    try:
        for _ in range(30):
            child = os.fork()
            if child == 0:
                os._exit(0 if len(numbers(variables)) == 1 else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_child_of_a_fork_traces_what_another_thread_was_tracing():
    inside, go_on = threading.Event(), threading.Event()

    @sj.jit(mode="reference")
    def doubled(x):
        inside.set()
        go_on.wait()
        return 2 * x

    thread = threading.Thread(target=doubled, args=(1.0,))
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        go_on.set()
        os._exit(0 if doubled(3.0) == 6.0 else 1)
    go_on.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_values_that_are_freed_run_no_code_in_the_middle_of_an_update(counting):
    """What a user hung on an old value may raise, fork, or look at the variables."""
    variables, _ = counting
    seen = []

    class Guest(np.ndarray):
        def __del__(self):
            seen.append(numbers(variables))

    for v in variables:
        v._array = np.array(5).view(Guest)
    seen.clear()
    commit(variables, [np.array(6)] * len(variables))
    assert seen == [{6}] * len(variables)


@pytest.mark.parametrize("convert", [sj.shared, sj.constant, lambda value: sj.shared([[1.0]]).set_value(value)])
def test_an_exception_from_outside_is_no_fault_of_a_value(convert):
    """Whatever its class, wherever it comes: it is what is raised. What the value itself raises is an error of ours."""

    class Own:
        def __array__(self, *_, **__):
            raise Late

    for _ in everywhere(lambda: convert([[1.0]]), Late):
        pass
    with pytest.raises(sj.ScanjitError):
        convert(Own())
