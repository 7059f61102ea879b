"""Threads: the same bits however many there are, from several callers at once, and after a fork."""

import concurrent.futures
import os
import threading

import numpy as np
import pytest

import scanjit as sj
from scanjit.config import config
from scanjit.runtime import threads as workers
from scanjit.schedule import parallel


@pytest.fixture(autouse=True)
def small_programs_count_as_large(monkeypatch):
    monkeypatch.setattr(parallel, "SMALLEST_PROGRAM", 0.0)
    monkeypatch.setattr(parallel, "SMALLEST_STRETCH", 0.0)
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
        for a, b in zip(one, run(network, threads, args), strict=True):
            np.testing.assert_array_equal(a, b)


def test_several_callers_at_once(network):
    cases = [arguments(seed=s) for s in range(12)]
    wanted = [run(network, 1, args) for args in cases]
    config.threads = 2
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for one, found in zip(wanted, pool.map(lambda args: network(*args), cases), strict=True):
            for a, b in zip(one, found, strict=True):
                np.testing.assert_array_equal(a, b)


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


def test_small_programs_stay_on_one_thread(network, monkeypatch):
    monkeypatch.setattr(parallel, "SMALLEST_PROGRAM", 1e12)
    monkeypatch.setattr(workers, "run", lambda *_: pytest.fail("a small program was given to several threads"))
    run(network, 2, arguments(batch=3, hidden=9))


def test_the_setting_is_checked():
    with pytest.raises(sj.errors.ArgumentError, match=r"config\.threads"):
        config.threads = -1
    with pytest.raises(sj.errors.ArgumentError, match=r"config\.threads"):
        config.threads = "two"


class Interrupted:
    """Stands in for a semaphore of a worker: the first time, a signal comes right after the method named."""

    def __init__(self, semaphore, method):
        self.semaphore, self.method, self.left = semaphore, method, 1

    def __getattr__(self, name):
        def call():
            getattr(self.semaphore, name)()
            if name == self.method and self.left:
                self.left -= 1
                raise KeyboardInterrupt

        return call


@pytest.mark.parametrize("at, method", [("wake", "release"), ("done", "acquire")])
@pytest.mark.parametrize("which", [0, 1])
def test_an_interrupt_leaves_no_worker_waiting_for_the_others(at, method, which):
    """Between the first worker's waking and the end of the last: all parts are done, once, then it is raised."""
    team, meeting, ran = workers._Team(), threading.Barrier(3), []

    def work(table, number, count):
        meeting.wait(timeout=20)
        ran.append((table, number, count))

    team.run(work, 1, 3)
    worker = team.workers[which]
    setattr(worker, at, Interrupted(getattr(worker, at), method))
    with pytest.raises(KeyboardInterrupt):
        team.run(work, 2, 3)
    assert sorted(ran[3:]) == [(2, number, 3) for number in range(3)]
    assert not team.busy.locked()
    for table in (3, 4):
        team.run(work, table, 3)
        assert sorted(ran[-3:]) == [(table, number, 3) for number in range(3)]
