"""Who waits for a call is told how many steps its loop over time has made, in a terminal and in a notebook only."""

from __future__ import annotations

import ctypes
import itertools
import signal
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import scanjit as sj
from scanjit.config import config
from scanjit.runtime import bars
from scanjit.runtime.compiled import CompiledStage
from scanjit.runtime.steps import Steps
from scanjit.schedule.cost import rates
from scanjit.simd import emulate
from scanjit.simd.line import LineFields
from tests.alarms import alarms
from tests.terminals import Terminal, without_tqdm

Noted = list[tuple[str, int, int]]


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Noted:
    """What emulated code notes: of a loop that begins how many steps it has, and whether it may end early; then how
    many steps are made; and that it has ended."""
    found: Noted = []
    own = {
        "begin_loop": lambda line, steps, early: found.append(("begin", steps, early)),
        "count_steps": lambda line, steps: found.append(("made", steps, 0)),
        "end_loop": lambda line: found.append(("end", 0, 0)),
    }
    real = emulate.resolve
    monkeypatch.setattr(emulate, "resolve", lambda name, memory: own.get(name) or real(name, memory))
    return found


def one_loop(noted: Noted, steps: int, made: range | list[int], early: bool = False) -> None:
    """Take what was noted of one loop, from its beginning to its end. (Blocks of time note their first step twice.)"""
    end = noted.index(("end", 0, 0))
    found = [note for note, _ in itertools.groupby(noted[:end])]
    assert found == [("begin", steps, early), *(("made", k, 0) for k in made)]
    del noted[: end + 1]


def products(x: sj.Node, w: sj.Node, **options: object) -> sj.Node:
    """A loop whose steps are products: no nest can make them all."""
    return sj.scan(lambda row, h: np.tanh(row + h @ w), x, sj.zeros((2, 3)), **options)


X, W = sj.tensor(("T", 2, 3), "float64", "x"), sj.matrix("w", "float64")
ROWS, WEIGHTS = np.ones((7, 2, 3)), np.eye(3)


def test_the_steps_of_a_loop_and_of_its_gradient(noted: Noted) -> None:
    h = products(X, W)
    f = sj.function([X, W], [h, sj.grad((h * h).sum(), W)], mode="emulate")
    f(ROWS, WEIGHTS)
    one_loop(noted, 7, range(7))
    one_loop(noted, 7, range(7))
    assert not noted


@pytest.mark.parametrize("backwards", [False, True])
def test_blocks_of_time(noted: Noted, backwards: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each block, and in it, the steps since the beginning."""
    monkeypatch.setattr("scanjit.schedule.time.blocks._size", lambda chain, nests, near: 3)
    v = sj.matrix("v", "float64")
    h = sj.scan(lambda row, h: np.tanh(row @ v + h @ W), X, sj.zeros((2, 3)), go_backwards=backwards)[-1]
    f = sj.function([X, v, W], h, mode="emulate")
    assert "block0" in f.source
    f(ROWS, WEIGHTS, WEIGHTS)
    one_loop(noted, 7, range(7))
    assert not noted


def test_checkpoints(noted: Noted) -> None:
    """Of the loop of the gradient, what is made again is not counted: its steps are, since the beginning."""
    h = products(X, W, checkpoint=3)
    f = sj.function([X, W], sj.grad((h[-1] ** 2).sum(), W), mode="emulate")
    assert "block1" in f.source
    f(np.ones((8, 2, 3)), WEIGHTS)
    one_loop(noted, 8, range(8))
    one_loop(noted, 8, range(8))  # in the first block, 2 steps, nothing is made again
    assert not noted


def test_of_loops_in_loops_the_outer_one(noted: Noted) -> None:
    def step(row: sj.Node, h: sj.Node) -> sj.Node:
        return sj.scan(lambda h: np.tanh(row + h @ W), outputs_info=h, n_steps=4)[-1]

    f = sj.function([X, W], sj.scan(step, X, sj.zeros((2, 3)))[-1], mode="emulate")
    f(ROWS, WEIGHTS)
    one_loop(noted, 7, range(7))
    assert not noted


def test_a_loop_that_ends_early(noted: Noted) -> None:
    h = sj.scan(lambda row, h: (np.tanh(row + h @ W), sj.until(h.sum() > 0)), X, sj.zeros((2, 3)), return_list=False)
    f = sj.function([X, W], h[-1], mode="emulate")
    f(ROWS, WEIGHTS)
    one_loop(noted, 7, range(2), early=True)


@pytest.mark.parametrize("unroll, made", [(3, [0, 3, 6]), (True, range(7))])
def test_unrolled_loops(noted: Noted, unroll: int | bool, made: range | list[int]) -> None:
    x = sj.tensor((7, 2, 3), "float64", "x") if unroll is True else X
    f = sj.function([x, W], products(x, W, unroll=unroll)[-1], mode="emulate")
    f(ROWS, WEIGHTS)
    one_loop(noted, 7, made)
    assert not noted


def test_loops_side_by_side(noted: Noted, monkeypatch: pytest.MonkeyPatch) -> None:
    f = sj.function([X, W], products(X, W) + products(X, W, go_backwards=True), mode="emulate")
    assert "branch" in f.source
    f(ROWS, WEIGHTS)
    one_loop(noted, 7, range(7))
    one_loop(noted, 7, range(7))
    assert not noted


def test_a_nest_that_makes_all_steps_tells_them_itself(noted: Noted) -> None:
    n = sj.scalar("n", "int64")
    f = sj.function([n], sj.scan(lambda h: 3.7 * h * (1 - h), outputs_info=0.3, n_steps=n)[-1], mode="emulate")
    assert "interrupted_at(line, stretch0, 0, 0)" in f.source
    f(5)
    assert noted == [("begin", 5, 0), ("end", 0, 0)]


def test_of_many_elements_it_tells_which(noted: Noted) -> None:
    start, n = sj.vector("start", "float64"), sj.scalar("n", "int64")
    f = sj.function([start, n], sj.scan(lambda h: h * h, outputs_info=start, n_steps=n)[-1], mode="emulate")
    assert "interrupted_at(line, stretch" in f.source and ", end)" in f.source


# ---- what is shown ---------------------------------------------------------------------------------------------------


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr(bars, "OFTEN", 0.01)
    return Terminal.instead_of_stderr(monkeypatch)


class Call:
    """A call whose clock ticks when it is told to."""

    def __init__(self, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps, self.now = steps, 100.0
        self.line = LineFields(table=1, function=1, step=-1, done=-1)
        monkeypatch.setattr("scanjit.runtime.steps.time.monotonic", lambda: self.now)

    def tick(self, seconds: float, **words: int) -> None:
        """Let so many seconds pass, with a tick in each half of one; then these words are in the line."""
        for name, value in words.items():
            setattr(self.line, name, value)
        end = self.now + seconds
        while self.now < end:
            self.now += 0.5
            self.steps(ctypes.addressof(self.line))

    def end(self) -> None:
        """Tell that it has ended, as machine code does."""
        self.line.function = 0
        self.steps(ctypes.addressof(self.line))
        self.line.function = 1

    def shows(self) -> str:
        """What the bar shows."""
        (call,) = self.steps.running.values()
        state = call.state()
        return "" if state is None else state[0]


@pytest.mark.parametrize(
    "words, shown",
    [
        ({"done": 1_200}, "train: step 1,200 of 50,000, 6 s"),
        ({"done": 1_200, "early": 1}, "train: step 1,200 of at most 50,000, 6 s"),
        ({"done": 3, "loops": 2}, "train, loop 2: step 3 of 50,000, 6 s"),
        ({"step": 4}, "train: step 4 of 50,000, 6 s"),
        ({"step": 4, "element": 16, "elements": 64}, "train: step 4 of 50,000, element 17 of 64, 6 s"),
        ({"done": 2, "step": 4, "element": 16, "elements": 64}, "train: step 2 of 50,000, 6 s"),
    ],
)
def test_the_line(words: dict[str, int], shown: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    without_tqdm(monkeypatch)
    call = Call(Steps("train"), monkeypatch)
    call.tick(6, **{"loops": 1, "total": 50_000, **words})
    terminal.wait_for(shown)
    call.end()
    terminal.wait_for_nothing()
    assert not call.steps.running


def test_a_bar_of_tqdm(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    call = Call(Steps("train"), monkeypatch)
    call.tick(6, loops=1, total=50, done=12)
    terminal.wait_for("train: step 12 of 50, 6 s |")
    call.end()
    terminal.wait_for_nothing()


def test_a_look_that_does_not_know_the_step_leaves_it_as_it_was(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Call(Steps("train"), monkeypatch)
    call.tick(2, loops=1, total=9, step=4)
    call.tick(2, step=-1)
    assert call.shows() == "train: step 4 of 9, 4 s"
    call.tick(2, total=0)
    assert call.shows() == "train: 6 s"  # the loop has ended, the call has not
    call.end()


def test_a_call_without_a_loop_shows_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    started = count_bars(monkeypatch)
    Call(Steps("train"), monkeypatch).tick(6)
    assert not started


def test_calls_under_a_second_show_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    started = count_bars(monkeypatch)
    call = Call(Steps("train"), monkeypatch)
    call.tick(0.5, loops=1, total=9, done=3)
    call.end()
    call.tick(0.5)
    assert not started


def test_a_call_that_ended_unseen_is_not_taken_for_the_next_one(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table may lie at the same address."""
    started = count_bars(monkeypatch)
    call = Call(Steps("train"), monkeypatch)
    call.tick(0.5, loops=1, total=9, done=3)
    call.now += 10
    call.tick(0.5)
    assert not started


def test_the_bar_of_a_call_that_ended_unseen_is_taken_away(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    without_tqdm(monkeypatch)
    call = Call(Steps("train"), monkeypatch)
    call.tick(2, loops=1, total=9, done=3)
    terminal.wait_for("train: step 3 of 9, 2 s")
    call.now += 10
    terminal.wait_for_nothing()


def test_it_can_be_turned_off(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    started = count_bars(monkeypatch)
    monkeypatch.setattr(config, "progress", False)
    Call(Steps("train"), monkeypatch).tick(6, loops=1, total=9, done=3)
    assert not started


def count_bars(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The bars that are shown from now on; none of them is drawn."""
    found: list[object] = []
    monkeypatch.setattr(bars, "Watcher", lambda shown, stream: found.append(shown))
    return found


def test_a_stream_that_is_closed_ends_no_call(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    without_tqdm(monkeypatch)
    call, failed = Call(Steps("train"), monkeypatch), threading.Event()

    def write(text: str) -> int:
        failed.set()
        raise BrokenPipeError

    monkeypatch.setattr(terminal, "write", write)
    call.tick(2, loops=1, total=9, done=3)
    assert failed.wait(20)
    call.tick(2)
    call.end()


def test_a_terminal_that_takes_no_more_text_stops_no_call(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    without_tqdm(monkeypatch)
    call, resume = Call(Steps("train"), monkeypatch), threading.Event()
    monkeypatch.setattr(terminal, "write", lambda text: resume.wait(20))
    call.tick(2, loops=1, total=9, done=3)
    call.tick(2)
    call.end()
    assert not call.steps.running and not resume.is_set()
    resume.set()


# ---- in calls --------------------------------------------------------------------------------------------------------

N = sj.scalar("n", "int64")


@pytest.fixture
def at_once(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "SILENT", 0.0)
    monkeypatch.setattr(rates, "WAKING", 0.0)
    without_tqdm(monkeypatch)


def run_until(call: Callable[[int], object], done: Callable[[], bool]) -> None:
    """Call with more and more steps until something is seen."""
    steps, deadline = 1000, time.monotonic() + 60
    while not done() and time.monotonic() < deadline:
        call(steps)
        steps *= 4
    assert done()


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_loop_of_products(threads: int, terminal: Terminal) -> None:
    config.threads = threads
    h = sj.scan(lambda h: np.tanh(1 + h @ W), outputs_info=sj.zeros((2, 3)), n_steps=N)[-1]
    f = sj.function([W, N], h, name="train")
    run_until(lambda n: f(WEIGHTS, n), lambda: "train: step " in terminal.getvalue())
    terminal.wait_for_nothing()


@pytest.mark.usefixtures("at_once")
def test_a_nest_of_all_steps_under_jit(terminal: Terminal) -> None:
    @sj.jit
    def logistic(n: sj.Node) -> sj.Node:
        return sj.scan(lambda h: 3.7 * h * (1 - h), outputs_info=0.3, n_steps=n)[-1]

    run_until(lambda n: logistic(np.int64(n)), lambda: "logistic: step " in terminal.getvalue())


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("steps", [10**12, np.array(10**12)])
def test_an_interrupt_takes_the_bar_away(steps: int | np.ndarray, terminal: Terminal) -> None:
    f = sj.function([N], sj.scan(lambda h: 3.7 * h * (1 - h), outputs_info=0.3, n_steps=N)[-1], name="train")
    f(3)

    def stop(number: int, frame: object) -> None:
        if "train: step " in terminal.getvalue():
            signal.setitimer(signal.ITIMER_REAL, 0)  # once is enough: a second one would stop the test
            raise KeyboardInterrupt

    with alarms(stop, 0.05, 0.05), pytest.raises(KeyboardInterrupt):
        f(steps)
    stage = f.executable.stages[0]  # type: ignore[attr-defined]
    assert isinstance(stage, CompiledStage) and not stage.steps.running
    terminal.wait_for_nothing()


@pytest.mark.usefixtures("at_once")
def test_calls_of_two_threads_are_two(terminal: Terminal) -> None:
    f = sj.function([N], sj.scan(lambda h: 3.7 * h * (1 - h), outputs_info=0.3, n_steps=N)[-1], name="train")
    steps = f.executable.stages[0].steps  # type: ignore[attr-defined]
    most, end = 0, threading.Event()

    def calls() -> None:
        while not end.is_set():
            f(50_000_000)

    threads = [threading.Thread(target=calls) for _ in range(2)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while most < 2 and time.monotonic() < deadline:
        most = max(most, len(steps.running))
        time.sleep(0.001)
    end.set()
    for thread in threads:
        thread.join()
    assert most == 2 and not steps.running


def test_under_pytest_nothing_is_shown() -> None:
    assert bars.seen() is None or sys.stderr.isatty()
