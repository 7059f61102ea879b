"""Small calls are made in one step of machine code."""

import ctypes
import gc
import inspect
import os
import sys
import weakref
from typing import Any
from unittest import mock

import numpy as np
import pytest

import scanjit as sj
from scanjit import errors
from scanjit.arrays import named_dtype
from scanjit.config import WATCHED, config
from scanjit.runtime import compiled, layout, native
from scanjit.runtime.compiled import CompiledStage
from scanjit.runtime.workspace import Workspace
from scanjit.symbol import Tensor
from tests.at_once import at_once


@pytest.fixture
def other_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Filled with a 1 for each call that is not made in one step."""
    found: list[int] = []
    run = CompiledStage._run_in_way

    def counted(*args: Any) -> Any:
        found.append(1)
        return run(*args)

    monkeypatch.setattr(CompiledStage, "_run_in_way", counted)
    return found


X = sj.vector("x")


@pytest.mark.parametrize("outputs", [sj.sort(X), sj.cumsum(X), [sj.exp(X), X.sum()], {"a": X[1:], "b": 2 * X}])
def test_the_second_call_with_the_same_shapes_is_made_in_one_step(outputs: Any, other_calls: list[int]) -> None:
    f, g = sj.function([X], outputs), sj.function([X], outputs, mode="reference")
    for n in (5, 5, 7, 7, 5):
        x = np.random.default_rng(n).standard_normal(n)
        before = len(other_calls)
        for found, wanted in zip(*map(_leaves, (f(x), g(x))), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-13)
            assert found.dtype == wanted.dtype
            assert found.base is None or found.base is not x
        f(x)
        assert len(other_calls) - before <= 1
    assert len(other_calls) == 3  # where the shapes change


def _leaves(results: Any) -> list[np.ndarray]:
    return (
        list(results.values()) if isinstance(results, dict) else [*results] if isinstance(results, list) else [results]
    )


def test_arguments_of_other_kinds_are_converted_and_checked(other_calls: list[int]) -> None:
    f = sj.function([X], X + 1.0)
    f(np.zeros(2))
    for x in ([1.0, 2.0], np.array([1, 2]), np.array([1.0, 0.0, 2.0])[::2], np.arange(1, 3, dtype=np.float32)):
        np.testing.assert_array_equal(f(x), [2.0, 3.0])
    np.testing.assert_array_equal(f(x=np.array([1.0, 2.0])), [2.0, 3.0])
    for wrong in (np.zeros((2, 1)), np.zeros(2, complex), None):
        with pytest.raises(errors.ScanjitError):
            f(wrong)
    with pytest.raises(errors.ArgumentError):
        f()
    with pytest.raises(errors.ArgumentError):
        f(np.zeros(2), np.zeros(2))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_taken_and_given_in_one_step(dtype: str, other_calls: list[int]) -> None:
    z: Tensor = sj.vector("z", dtype)
    f, g = sj.function([z], 2 * z), sj.function([X, z], {"a": [2 * z], "b": X})
    x, value = np.ones(2), np.array([1 + 2j, 3j, -1], dtype)
    f(value), g(x, value)
    before = len(other_calls)
    found = f(value), g(x, value)["a"][0]
    assert len(other_calls) == before
    for each in found:
        np.testing.assert_array_equal(each, 2 * value)
        assert each.dtype == dtype
    for other in (value.real, [1, 3j, -1], np.repeat(value, 2)[::2], value.astype(value.dtype.newbyteorder())):
        np.testing.assert_array_equal(f(other), 2 * np.asarray(other))
    for wrong in (value.view(value.real.dtype).reshape(3, 2), value.reshape(1, 3), value.astype("clongdouble")):
        with pytest.raises(errors.ScanjitError):
            f(wrong)


def test_tables_that_follow_from_sizes_are_made_in_the_first_call_alone(other_calls: list[int]) -> None:
    """The roots of unity of a length. Other lengths have their own, also long ones with 300 KB of memory."""
    x = sj.tensor((None, None), "float64", "x")
    f = sj.function([x], np.fft.fft(x))
    for rows, n in ((1, 12), (2, 12), (1, 12), (1, 1024), (1, 30), (1, 12)):
        value = np.random.default_rng(n).standard_normal((rows, n))
        for _ in range(4):
            before = len(other_calls)
            np.testing.assert_allclose(f(value), np.fft.fft(value), rtol=1e-12, atol=1e-12)
        assert len(other_calls) == before


def test_shared_variables_are_read_anew_in_each_call(other_calls: list[int]) -> None:
    w = sj.shared(np.ones(3), "w")
    f = sj.function([X], X * w + 1.0)
    f(np.ones(3))
    before = len(other_calls)
    for value in (2.0, 3.0):
        w.set_value(np.full(3, value))
        np.testing.assert_array_equal(f(np.ones(3)), [value + 1.0] * 3)
    assert len(other_calls) == before


def test_calls_at_once_have_no_frame_of_python() -> None:
    f, x = sj.function([X], X + 1.0), np.ones(2)
    f(x)
    found: list[str] = []
    sys.setprofile(lambda frame, event, of: found.append(frame.f_code.co_name) if event == "call" else None)
    try:
        f(x)
    finally:
        sys.setprofile(None)
    assert not found


def test_calls_of_other_forms_are_made_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    y = sj.vector("y")
    f, g, x = sj.function([X, y], X - y), sj.function([X, y], X - y), np.array([3.0, 2.0])
    for _ in range(2):
        for found in (f(x, y=x), f(y=x, x=x), f(*[x, x], **{}), f(x, [3.0, 2.0]), type(f).__call__(f, x, x)):
            np.testing.assert_array_equal(found, [0.0, 0.0])
        for args, named in (((x,), {}), ((x, x, x), {}), ((x, x), {"y": x}), ((x,), {"z": x})):
            with pytest.raises(errors.ArgumentError, match="takes 2 arguments"):
                f(*args, **named)
    with pytest.raises(TypeError, match="CompiledFunction"):
        type(f).__call__(x, x)
    assert list(inspect.signature(f).parameters) == ["args", "named"]
    for name in ("check_finite", "profile"):
        with monkeypatch.context() as there:
            there.setattr(config, name, True)
            if name == "check_finite":
                with pytest.raises(errors.NonFiniteError):
                    f(x * np.inf, x)
            else:
                f(x, x)
        assert np.isposinf(f(np.array([np.inf]), x[:1]))
    assert f.profile().calls == 1
    np.testing.assert_array_equal(g(x, x), f(x, x))


def test_a_setting_that_is_deleted_has_no_effect_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = sj.function([X], X + 1.0), np.array([np.inf])
    f(x)
    monkeypatch.delitem(vars(config), "check_finite", raising=False)
    frames: list[str] = []
    with mock.patch.object(config, "check_finite", True), pytest.raises(errors.NonFiniteError):
        f(x)
    sys.setprofile(lambda frame, event, of: frames.append(frame.f_code.co_name) if event == "call" else None)
    try:
        f(x)
    finally:
        sys.setprofile(None)
    assert not frames


def test_what_machine_code_reads_lives_as_long_as_python() -> None:
    f, x = sj.function([X], X + 1.0), np.ones(2)
    f(x)
    assert any(each is WATCHED for each in native.native()._kept_for_calls)


def test_calls_keep_no_references() -> None:
    f = sj.function([X], X + 1.0)
    x, other = np.ones(2), np.ones(2, np.float32)
    kept = x, other, f, X, {"x": x}
    f(x), f(x)
    before = [sys.getrefcount(each) for each in kept]
    for _ in range(10):
        f(x), f(other), f(**kept[4])
        with pytest.raises(errors.ArgumentError):
            f(x, other)
    assert [sys.getrefcount(each) for each in kept] == before
    whole = weakref.ref(f)
    del f, kept
    gc.collect()
    assert whole() is None


def test_an_error_that_code_reports_is_raised_and_the_next_call_is_right() -> None:
    i = sj.vector("i", "int64")
    f = sj.function([X, i], X[i])
    x = np.arange(3.0)
    for _ in range(3):
        np.testing.assert_array_equal(f(x, np.array([2, 0])), [2.0, 0.0])
        with pytest.raises(errors.OutOfBoundsError):
            f(x, np.array([3, 0]))


def test_assertions_and_checks_of_values_hold() -> None:
    f = sj.function([X], sj.assert_(X.sum() > 0, sj.log(X), "the sum is not positive"))
    for _ in range(2):
        np.testing.assert_array_equal(f(np.ones(2)), np.zeros(2))
        with pytest.raises(errors.ScanjitError, match="the sum is not positive"):
            f(-np.ones(2))
    config.check_finite = True
    try:
        with pytest.raises(errors.NonFiniteError):
            f(np.array([0.0, 1.0]))
    finally:
        config.check_finite = False


def test_a_table_that_another_call_uses_is_left_alone(monkeypatch: pytest.MonkeyPatch, other_calls: list[int]) -> None:
    made: list[Workspace] = []

    def workspace() -> Workspace:
        made.append(Workspace())
        return made[-1]

    monkeypatch.setattr(compiled, "Workspace", workspace)
    f = sj.function([X], sj.sort(X))
    x = np.array([2.0, 1.0])
    f(x)
    own = made[0]
    other_calls.clear()
    own.entries[own.status + 1] = 1
    np.testing.assert_array_equal(f(x), [1.0, 2.0])
    assert other_calls == [1]
    own.entries[own.status + 1] = 0
    np.testing.assert_array_equal(f(x), [1.0, 2.0])
    assert other_calls == [1]


def test_brief_programs_keep_the_lock_and_functions_of_users_never_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that users compiled may wait for another thread of Python."""
    address = ctypes.cast(ctypes.pythonapi.PyGILState_Check, ctypes.c_void_p).value
    assert address is not None
    has_lock = sj.from_numba(ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(address), result="int32")
    i = sj.vector("i", "int32")

    def found() -> list[int]:
        f = sj.function([i], has_lock(i))
        return [int(f(np.zeros(1, np.int32))[0]) for _ in range(3)]

    assert found() == [0, 0, 0]
    monkeypatch.setattr(layout, "PREFIX", "no guest has this name")
    assert found() == [0, 1, 1]  # the first call is not made in one step
    monkeypatch.setattr(compiled, "BRIEF", 1)
    assert found() == [0, 0, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_parent_and_its_child_have_work_memory_of_their_own(other_calls: list[int]) -> None:
    """Both call the function in one step, at the same time."""
    f = sj.function([X], sj.cumsum(sj.sort(X * X)))
    given = np.random.default_rng(0).standard_normal((40, 6000))
    wanted = [f(x) for x in given]
    (sized,) = f.executable.stages[0].known.values()  # type: ignore[attr-defined]
    assert 2**16 < sized.workspace <= compiled.MOST_OWN
    other_calls.clear()

    def right(order: int) -> bool:
        pairs = list(zip(given, wanted, strict=True))[::order]
        return all(np.array_equal(f(x), found) for _ in range(10) for x, found in pairs) and not other_calls

    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if right(-1) else 2
        finally:
            os._exit(status)
    assert right(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_several_threads_call_one_function() -> None:
    f = sj.function([X], sj.cumsum(sj.sort(X)))

    def many(seed: int) -> bool:
        x = np.random.default_rng(seed).standard_normal(200)
        wanted = np.cumsum(np.sort(x))
        return all(np.allclose(f(x), wanted) for _ in range(300))

    assert all(at_once(4, many))


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int8", "bool", "bfloat16"])
def test_every_dtype(dtype: str, other_calls: list[int]) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    x: Tensor = sj.vector("x", dtype)
    f = sj.function([x], x[::-1])
    value = np.array([1, 0, 1]).astype(named_dtype(dtype))
    for _ in range(3):
        np.testing.assert_array_equal(f(value), value[::-1])
        assert f(value).dtype == value.dtype
    assert len(other_calls) == 1  # the first
