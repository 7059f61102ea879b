"""Sizes that no memory holds, settings that are none, and files that are not what they should be: a clear error."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import scanjit as sj
from scanjit.loops.entries import outputs
from scanjit.loops.scan import build

MODES = ("reference", "emulate", "numba")
TOO_LARGE = "larger than any memory"


@pytest.mark.parametrize(
    "make",
    [
        lambda: sj.zeros((2**40, 2**40)),
        lambda: sj.zeros((2**64,)),
        lambda: sj.tensor((None, 2**32, 2**32)),
        lambda: sj.eye(2**40),
        lambda: sj.tensor((3, 2**61)).reshape((-1,)),
        lambda: sj.zeros((2**31, 1)) @ sj.zeros((1, 2**32)),
    ],
)
def test_known_sizes_are_refused_where_they_are_written(make):
    with pytest.raises(sj.ShapeError, match=TOO_LARGE) as caught:
        make()
    assert "test_beyond_sense.py" in str(caught.value)


def programs():
    """Programs of a size, each with arguments for which it would need more memory than there is."""
    n, x = sj.lscalar("n"), sj.vector("x")
    yield [n], sj.zeros((n, n)), [2**31]
    yield [n], sj.zeros((n, n), "int8") + 1, [2**32]  # whose bytes an int64 counts as none
    yield [n], sj.scan(lambda h: h * 0.5, outputs_info=1.0, n_steps=n), [2**62]
    yield [n], sj.arange(n) * 3 + n, [2**62]
    yield [n, x], sj.broadcast_to(x, (n, x.shape[0])) * 2, [2**61, np.ones(4)]
    yield [n], (sj.arange(n)[:, None] @ sj.arange(n)[None, :]).sum(), [2**40]


@pytest.mark.parametrize("mode", ["reference", "emulate"])
@pytest.mark.parametrize("program", list(programs()), ids=lambda program: program[1].op.name)
def test_sizes_of_a_call(program, mode):
    inputs, output, given = program
    f = sj.function(inputs, output, mode=mode)
    with pytest.raises((sj.ShapeError, MemoryError)) as caught:
        f(*given)
    assert TOO_LARGE in str(caught.value) or "Unable to allocate" in str(caught.value)
    with np.errstate(all="ignore"):
        f(3, *given[1:])  # and it works on


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_bounds_of_slices_that_have_no_place_in_memory(mode):
    """NumPy clips them."""
    x, a = sj.vector("x"), sj.lscalar("a")
    lowest, highest = -(2**63), 2**63 - 1
    f = sj.function([x, a], [x[:a], x[a:][::-1][:1].sum(), x[a : a + 2].sum()], mode=mode)
    assert [np.sum(part) for part in f([1.0, 2.0], lowest)] == [0.0, 2.0, 0.0]
    g = sj.function([x, a], x[-a:], mode=mode)
    assert g([1.0, 2.0], 1).tolist() == [2.0] and g([1.0, 2.0], highest).tolist() == [1.0, 2.0]
    if mode == "reference":
        assert f([1.0, 2.0], highest)[1] == 0.0 and g([1.0, 2.0], lowest).tolist() == []
    else:  # generated code adds such a bound to an address
        for beyond, bound in ((f, highest), (g, lowest)):
            with pytest.raises(sj.ShapeError, match="more than 64 bits"):
                beyond([1.0, 2.0], bound)


@pytest.mark.parametrize("mode", MODES)
def test_a_number_of_steps_that_no_word_holds(mode):
    """The opposite of the lowest number is one too large, as a size."""
    n = sj.lscalar("n")
    loop = build(lambda h: h * 0.5, [], outputs([1.0]), [], sj.maximum(-n, 0), stack=False)
    f = sj.function([n], loop.parts[0], mode=mode)
    with pytest.raises(sj.ShapeError, match="more than 64 bits"):
        f(-(2**63))
    assert f(-2) == 0.25


def test_sizes_that_only_a_program_knows():
    x = sj.vector("x")
    with pytest.raises(sj.ShapeError, match=TOO_LARGE):
        sj.function([x], np.repeat(x, 2**62))
    cost = sj.scan(lambda h: h * x.sum(), outputs_info=1.0, n_steps=2**62)[-1]
    with pytest.raises(sj.ShapeError, match=TOO_LARGE):
        sj.function([x], sj.grad(cost, x))
    with pytest.raises(sj.ScanError, match=r"(?s)n_steps is larger than a loop can count.*18446744073709551616"):
        sj.scan(lambda h: h * 0.5, outputs_info=1.0, n_steps=2**64)


@pytest.mark.quick(3)
@pytest.mark.parametrize("text", ["abc", "-1", "65", "1.5", "2 3", "9" * 5000, "٣"])
def test_a_number_of_threads_that_is_none(text):
    run = subprocess.run(
        [sys.executable, "-c", "import scanjit"],
        env=os.environ | {"SCANJIT_NUM_THREADS": text, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert run.returncode and "SCANJIT_NUM_THREADS is not a number of threads" in run.stderr, run.stderr


class Own:
    """An array by its own means, all of which give the memory that it keeps."""

    def __init__(self, way):
        self.buffer = np.ones(3)
        if way == "interface":
            self.__array_interface__ = self.buffer.__array_interface__
        elif way == "old":
            self.__class__ = type("Old", (), {"__array__": lambda self, dtype=None: self.buffer})
        elif way == "new":
            self.__class__ = type("New", (), {"__array__": lambda self, dtype=None, copy=None: self.buffer})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("way", ["interface", "old", "new"])
def test_a_value_is_nobody_elses_memory(way):
    own = [Own(way) for _ in range(4)]
    first, second = sj.shared(own[0]), sj.shared(np.zeros(3))
    second.set_value(own[1])
    constant = sj.constant(own[2])
    x = sj.vector("x")
    updated = sj.shared(np.zeros(3))
    same = sj.function([x], x, updates={updated: x}, mode="reference")(own[3])
    for each in own:
        each.buffer[:] = 7
    assert sj.function([], constant + 0, mode="reference")().tolist() == [1, 1, 1]
    for value in (first, second, updated):
        assert value.get_value().tolist() == [1, 1, 1]
    assert same.tolist() == [1, 1, 1]


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
def test_files_are_written_as_the_umask_says_and_without_changing_it(tmp_path):
    """To ask for the umask is to set it: another thread's files would be made with what it is then."""
    before, seen, done = os.umask(0o027), set(), threading.Event()

    def other():
        while not done.is_set():
            with open(tmp_path / "other", "wb"):
                pass
            seen.add(os.stat(tmp_path / "other").st_mode & 0o777)
            os.unlink(tmp_path / "other")

    thread = threading.Thread(target=other)
    try:
        thread.start()
        for _ in range(50):
            with sj.replace_file(tmp_path / "f") as file:
                file.writelines([b"12", memoryview(b"3")])
    finally:
        done.set()
        thread.join()
        os.umask(before)
    assert (tmp_path / "f").read_bytes() == b"123" and os.stat(tmp_path / "f").st_mode & 0o777 == 0o640
    assert seen == {0o640} and os.listdir(tmp_path) == ["f"]
