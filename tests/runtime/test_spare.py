"""The memory of results that nobody needs any more is used for later results."""

import ctypes
import gc
import os
import pickle
import subprocess
import sys
import tracemalloc
import weakref

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import spare
from scanjit.runtime.spare import LARGE, keeper
from scanjit.runtime.spare_source import MOST_BYTES
from scanjit.runtime.structures import MOST_BLOCKS
from tests.at_once import at_once

ROWS = 3 * LARGE // 8


@pytest.fixture(scope="module")
def doubled():
    x = sj.vector("x")
    return sj.function([x], 2 * x, name="doubled")


@pytest.fixture(autouse=True)
def empty():
    """Nothing is spare when a test begins."""
    gc.collect()
    held = [keeper().empty((block,), np.dtype("u1")) for block in sorted(sizes(), reverse=True)]
    assert keeper().spare.count == 0
    yield
    del held


def sizes() -> list[int]:
    """The bytes of the blocks that are spare."""
    kept = keeper().spare
    return [ctypes.c_int64.from_address(block - 8).value for block in kept.blocks[: kept.count]]


def at(array):
    return array.ctypes.data


def test_a_later_result_lies_where_an_earlier_one_lay(doubled):
    y = doubled(np.ones(ROWS))
    first, alive = at(y), weakref.ref(y)
    del y
    assert alive() is None and sizes() == [8 * ROWS]
    z = doubled(np.full(ROWS, 3.0))
    assert at(z) == first and sizes() == [] and (z == 6).all()


def test_what_somebody_holds_stays(doubled):
    y = doubled(np.ones(ROWS))
    view, buffer = y[5:9], memoryview(y)
    first = at(y)
    del y
    others = [doubled(np.full(ROWS, k)) for k in range(2, 6)]
    assert all(at(other) != first for other in others) and len({at(other) for other in others}) == 4
    assert (view == 2).all()
    del view
    assert sizes() == [] and buffer[7] == 2
    buffer.release()
    assert sizes() == [8 * ROWS]


def test_results_are_arrays_like_others(doubled):
    y = doubled(np.arange(ROWS))
    assert y.flags.owndata and y.base is None and y.flags.writeable and y.flags.c_contiguous
    assert (pickle.loads(pickle.dumps(y)) == y).all()
    y.resize(2 * ROWS, refcheck=False)
    assert (y[:ROWS] == 2 * np.arange(ROWS)).all() and (y[ROWS:] == 0).all()
    y.resize(7, refcheck=False)
    assert (y == 2 * np.arange(7)).all()
    y = doubled(np.ones(ROWS))
    first, y.flags.writeable = at(y), False
    del y
    z = doubled(np.ones(ROWS))
    assert at(z) == first and z.flags.writeable


def test_small_results_are_left_to_numpy(doubled):
    short = doubled(np.ones(LARGE // 8 - 1))
    del short
    assert sizes() == []
    short = doubled(np.ones(LARGE // 8))
    del short
    assert sizes() == [LARGE]


def test_a_block_serves_results_that_are_a_little_smaller(doubled):
    first = at(doubled(np.ones(ROWS)))
    smaller = doubled(np.ones(ROWS * 15 // 16))
    assert at(smaller) == first
    del smaller
    assert sizes() == [8 * ROWS]  # as large as it was
    much_smaller = doubled(np.ones(ROWS * 13 // 16))
    larger = doubled(np.ones(ROWS + 1))
    assert sizes() == [8 * ROWS] and first not in (at(much_smaller), at(larger))


def test_the_oldest_blocks_go_first():
    made = [keeper().empty((LARGE + 2**20 * k,), np.dtype("u1")) for k in range(MOST_BLOCKS + 3)]
    while made:
        made.pop(0)
    assert sizes() == [LARGE + 2**20 * k for k in range(3, MOST_BLOCKS + 3)][-len(sizes()) :]
    assert keeper().spare.count <= MOST_BLOCKS and sum(sizes()) == keeper().spare.bytes <= MOST_BYTES


def test_no_more_bytes_are_kept_than_promised():
    big = MOST_BYTES // 2 + 1
    first, second = (keeper().empty((big,), np.dtype("u1")) for _ in range(2))
    del first
    assert sizes() == [big]
    del second
    assert sizes() == [big] and keeper().spare.bytes == big
    huge = keeper().empty((MOST_BYTES + 1,), np.dtype("u1"))
    del huge
    assert sizes() == [big]


def test_what_cannot_be_had_is_an_error_of_memory_and_gives_blocks_back(doubled):
    short = doubled(np.ones(ROWS))
    del short
    assert len(sizes()) == 1
    with pytest.raises(MemoryError):
        keeper().empty((2**62,), np.dtype("u1"))
    assert sizes() == []


def test_blocks_begin_at_different_places_within_pages():
    made = [keeper().empty((LARGE,), np.dtype("u1")) for _ in range(4)]
    assert sorted(at(array) % 4096 for array in made) == [0, 1024, 2048, 3072]


def test_calloc_and_other_sizes_of_items():
    zeros = keeper()._context.run(np.zeros, (LARGE,), np.dtype("f4"))
    assert not zeros.any() and sizes() == []
    zeros[:] = 1
    del zeros
    assert sizes() == [4 * LARGE]
    again = keeper()._context.run(np.zeros, (LARGE,), np.dtype("f4"))
    assert not again.any() and sizes() == []


def test_tracemalloc_sees_results(doubled):
    tracemalloc.start()
    try:
        y = doubled(np.ones(ROWS))
        current = tracemalloc.get_traced_memory()[0]
        del y
        assert current - tracemalloc.get_traced_memory()[0] >= 8 * ROWS
    finally:
        tracemalloc.stop()


def test_an_array_may_be_made_while_another_is(doubled):
    """A finalizer may call a function while `empty` runs."""
    inside = keeper()._context.run(doubled, np.ones(ROWS))
    assert (inside == 2).all()


def test_threads_never_share_a_block(doubled):
    def work(i):
        return all((doubled(np.full(ROWS, k)) == 2 * k).all() for k in range(1000 * i, 1000 * i + 300))

    assert all(at_once(4, work)) and keeper().spare.busy == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_has_its_own_blocks(doubled):
    y = doubled(np.ones(ROWS))
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            del y
            failed = int((doubled(np.full(ROWS, 4.0)) != 8).any())
        finally:
            os._exit(failed)
    assert os.waitpid(child, 0)[1] == 0
    assert (y == 2).all()


def test_updates_leave_the_old_values_for_the_next():
    w = sj.shared(np.zeros(ROWS), "w")
    step = sj.function([], [], updates={w: w + 1}, name="step")
    step()
    places = set()
    for _ in range(6):
        step()
        places.add(at(w.get_value(borrow=True)))
    assert len(places) == 2 and (w.get_value() == 7).all()


def test_arrays_may_outlive_the_interpreter():
    text = f"""
import sys, numpy as np, scanjit as sj
x = sj.vector("x")
f = sj.function([x], 2 * x)
sys.kept = f(np.ones({ROWS}))
class Late:
    def __del__(self): self.array = None
late = Late(); late.array = f(np.ones({ROWS})); late.me = late
np.kept = late
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_makers_follow_sizes():
    assert spare.maker((LARGE,), np.dtype("u1")).func == keeper().empty
    for shape, dtype in (((LARGE - 1,), np.dtype("u1")), ((), np.dtype("f8")), ((2, 0, 3), np.dtype([("a", "f4")]))):
        before = sys.getrefcount(dtype)
        make = spare.maker(shape, dtype)
        made = [make() for _ in range(3)]
        assert all(each.shape == shape and each.dtype is dtype and each.base is None for each in made)
        assert len({each.ctypes.data for each in made if each.size}) in (0, 3)
        del make, made
        assert sys.getrefcount(dtype) == before
