"""Where LAPACK is found, what else it may be, and that it runs on one thread."""

from __future__ import annotations

import ctypes
import itertools
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import scanjit as sj
from scanjit.codegen import lapack_calls
from scanjit.kinds import Kind
from scanjit.ops.systems import TRIANGULAR_SOLVE
from scanjit.runtime import lapack
from scanjit.runtime.native import running, silent
from scanjit.simd import emulated_lapack
from scanjit.simd.emulated_memory import Allocations
from tests.scripts import python


def test_every_routine_is_found() -> None:
    from scanjit.simd.lapack import ROUTINES

    assert all(lapack.address(name) for name in ROUTINES)


def test_scipy_offers_them_too() -> None:
    pytest.importorskip("scipy")
    assert lapack._in_scipy("dpotrf") and lapack._in_scipy("strsm") and lapack._in_scipy("nothing") is None


def test_none_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lapack, "_libraries", lambda: ())
    monkeypatch.setattr(lapack, "_in_scipy", lambda name: None)
    with pytest.raises(sj.NotSupportedError, match="LAPACK"):
        lapack.address.__wrapped__("dpotrf")


@pytest.mark.parametrize("block", [1, 3, 256])
def test_pivots_of_32_bits(block: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """As a library writes them whose integers are of 32 bits: two in the place of one."""

    def getrf(memory: Allocations, kind: Kind, m: int, n: int, a: int, step: int, pivots: int) -> int:
        wide = memory.allocate(8 * n)
        info = emulated_lapack.getrf(memory, kind, m, n, a, step, wide)
        found = [memory.load_i64(wide + 8 * i) for i in range(n)] + [0] * n
        for i in range((n + 1) // 2):
            memory.store_i64(pivots + 8 * i, found[2 * i] | found[2 * i + 1] << 32)
        return info

    monkeypatch.setattr(lapack_calls, "BLOCK", block)
    a = sj.matrix("a")
    f = sj.function([a], [sj.inv(a), sj.det(a)], mode="emulate")
    monkeypatch.setitem(emulated_lapack.FUNCTIONS, "getrf", getrf)
    for n in (1, 2, 7, 10):
        value = rng.normal(size=(n, n))
        inverse, det = f(value)
        np.testing.assert_allclose(inverse, np.linalg.inv(value), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(det, np.linalg.det(value), rtol=1e-8)


def system(rng: np.random.Generator, n: int, lower: bool, trans: bool, unit: bool) -> tuple[np.ndarray, np.ndarray]:
    """A matrix of which a triangular system uses a triangle, and the matrix of that system."""
    whole = rng.normal(size=(n, n)) / n + 2 * np.eye(n)
    used = np.tril(whole) if lower else np.triu(whole)
    if unit:
        np.fill_diagonal(used, 1)
    return whole, used.T if trans else used


def check_systems(sizes: Sequence[int], mode: str) -> None:
    """All kinds of triangular systems, and factors."""
    rng = np.random.default_rng(1)
    a, b = sj.tensor(("n", "n"), name="a"), sj.tensor(("n", "m"), name="b")
    kinds = list(itertools.product([False, True], repeat=3))
    solutions = [TRIANGULAR_SOLVE(a, b, lower=lower, trans=trans, unit=unit) for lower, trans, unit in kinds]
    solve = sj.function([a, b], solutions, mode=mode)
    factors = sj.function([a, b], [sj.inv(a), sj.solve(a, b), sj.cholesky(a @ a.T)], mode=mode)
    for n in sizes:
        right = rng.normal(size=(n, 5))
        for k, kind in enumerate(kinds):
            whole, used = system(rng, n, *kind)
            np.testing.assert_allclose(used @ solve(whole, right)[k], right, rtol=1e-9, atol=1e-9)
        value = rng.normal(size=(n, n))
        inverse, solution, factor = factors(value, right)
        np.testing.assert_allclose(inverse @ value, np.eye(n), atol=1e-7)
        np.testing.assert_allclose(value @ solution, right, atol=1e-7)
        np.testing.assert_allclose(factor @ factor.T, value @ value.T, atol=1e-9)
        np.testing.assert_array_equal(factor, np.tril(factor))


@pytest.mark.parametrize("block", [1, 3])
def test_systems_in_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lapack_calls, "BLOCK", block)
    monkeypatch.setattr(lapack_calls, "SOLVED", 1)  # and so many right sides at a time
    check_systems((1, 3, 4, 10), "emulate")


def test_systems_of_more_than_one_block() -> None:
    check_systems((257, 600), "numba")


def test_each_block_looks_whether_to_end() -> None:
    a, b = sj.matrix("a"), sj.matrix("b")
    for result, looks in ((sj.cholesky(a), 2), (sj.det(a), 2), (sj.solve_triangular(a, b), 1)):
        (kernel,) = [part for part in sj.function([a, b], result).source.split("\ndef ") if "info = " in part]
        assert kernel.count("    if interrupted(line):") == looks


def test_a_matrix_without_a_factor_in_its_last_block() -> None:
    a = sj.matrix("a")
    value = np.eye(300)
    value[299, 299] = -1.0
    found = sj.function([a], sj.cholesky(a))(value)
    assert np.isnan(found[np.tril_indices(300)]).all() and not found[np.triu_indices(300, 1)].any()


@pytest.fixture
def two_threads() -> Iterator[Callable[[], int]]:
    """OpenBLAS with two threads: the function that says how many it uses."""
    controls = lapack.controls()
    if controls is None:
        pytest.skip("not OpenBLAS")
    get, set_ = controls
    before = get()
    set_(2)
    yield get
    set_(before)


Looking = Callable[[Callable[[], object]], None]


@pytest.fixture
def while_running() -> Looking:
    """A function that calls another one in the middle of two programs with LAPACK, one in the other."""
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_ssize_t] * 4)
    run = running(with_lapack=True)

    def looking(look: Callable[[], object]) -> None:
        inner = call(lambda *_: look())
        inner_address = ctypes.cast(inner, ctypes.c_void_p).value
        places = array("q", [0])
        at = places.buffer_info()[0]
        outer = call(lambda *_: run(inner_address or 0, 0, 1, silent, at, []))
        run(ctypes.cast(outer, ctypes.c_void_p).value or 0, 0, 1, silent, at, [])

    return looking


def test_one_thread_while_a_function_runs(two_threads: Callable[[], int], while_running: Looking) -> None:
    seen = []
    while_running(lambda: seen.append(two_threads()))
    assert seen == [1] and two_threads() == 2


def test_numpy_with_its_library_inside_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a wheel for macOS; and nothing is to be had from the module for linear algebra."""
    package = tmp_path / "numpy"
    (package / ".dylibs").mkdir(parents=True)
    for place in (package / ".dylibs/libscipy_openblas64_.dylib", package / ".dylibs/libgfortran.5.dylib"):
        place.touch()
    here = SimpleNamespace(__file__=str(package / "__init__.py"), linalg=np.linalg)
    monkeypatch.setattr(lapack, "np", here)
    monkeypatch.setattr(lapack.ctypes, "CDLL", lambda path: path)
    assert lapack._libraries.__wrapped__()[1:] == (str(package / ".dylibs/libscipy_openblas64_.dylib"),)


@pytest.mark.parametrize("name", ["dpotrf$NEWLAPACK$ILP64", "dpotrf$NEWLAPACK", "scipy_dpotrf_64_", "dpotrf_"])
def test_names_in_accelerate_and_openblas(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @ctypes.CFUNCTYPE(None)
    def routine() -> None: ...

    monkeypatch.setattr(lapack, "_libraries", lambda: (object(), SimpleNamespace(**{name: routine})))
    assert lapack.address.__wrapped__("dpotrf") == ctypes.cast(routine, ctypes.c_void_p).value


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_child_of_a_fork_is_not_left_with_one_thread(
    two_threads: Callable[[], int], while_running: Looking
) -> None:
    children = []

    def fork() -> None:
        child = os.fork()
        if child == 0:
            seen = []
            while_running(lambda: seen.append(two_threads()))
            os._exit(0 if seen == [1] and two_threads() == 2 else 1)
        children.append(child)

    while_running(fork)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0


def test_calls_at_once_and_threads_give_the_same_bits() -> None:
    a = sj.tensor(("n", "n"))
    f = sj.function([a], sj.inv(a))
    values = [np.random.default_rng(k).normal(size=(60, 60)) for k in range(8)]
    alone = [f(value) for value in values]
    with ThreadPoolExecutor(4) as pool:
        np.testing.assert_equal(alone, list(pool.map(f, values)))


PROGRAM = """
import sys
import numpy as np
import scanjit as sj
a = sj.tensor(("n", "n"))
f = sj.function([a], sj.inv(a))
print(np.array_equal(f(2 * np.eye(3)), np.eye(3) / 2), "numba" in sys.modules)
"""


def test_a_process_without_numba_finds_it() -> None:
    """The kernels are in the cache: the test before this one made them, or the first of two runs does."""
    for _ in range(2):
        found = python(PROGRAM).split()
        if found == ["True", "False"]:
            return
    assert found == ["True", "False"]
