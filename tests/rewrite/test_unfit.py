"""Sizes that a step computes and that do not fit are errors, also where rewriting needs no op that would notice."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import walk

X, M = np.arange(1.0, 6.0), np.arange(12.0).reshape(3, 4)
Program = Callable[[Any, Any, Any], Any]
PROGRAMS: dict[str, tuple[Program, list[int], list[int]]] = {
    "of_ones": (lambda k, x, m: sj.ones(k)[-1], [1, 2], [0, -1]),
    "of_counted": (lambda k, x, m: sj.arange(k)[-3], [3, 5], [0, 2]),
    "of_counted_down": (lambda k, x, m: sj.arange(k, 10)[0], [3, 9], [10, 11]),
    "of_a_formula": (lambda k, x, m: (sj.ones(k) * x[0] + sj.arange(k))[-1], [3, 5], [0]),
    "of_a_choice": (lambda k, x, m: sj.where(sj.arange(k) > 2, 1.0, x[0])[2], [3, 5], [0, 2]),
    "of_some": (lambda k, x, m: x[:k][2], [3, 5], [0, 2]),
    "of_the_others": (lambda k, x, m: x[k:][-1], [0, 4], [5]),
    "of_some_backwards": (lambda k, x, m: x[:k][::-1][-1], [1, 4], [0]),
    "of_a_slice_of_counted": (lambda k, x, m: sj.arange(k)[::2][1], [3, 5], [0, 2]),
    "of_a_slice_of_ones": (lambda k, x, m: sj.ones(k)[1:][0], [2, 5], [0, 1]),
    "of_differences": (lambda k, x, m: sj.diff(sj.arange(k))[0], [2, 5], [1]),
    "of_a_view": (lambda k, x, m: sj.full((3, k), x[0]).T[-1].sum(), [1, 5], [0]),
    "of_a_new_axis": (lambda k, x, m: sj.arange(k)[None, :][0, -1], [1, 5], [0]),
    "of_an_identity": (lambda k, x, m: sj.eye(k)[2, 1], [3, 5], [0, 2]),
    "of_an_outer_product": (lambda k, x, m: sj.outer(x, sj.ones(k))[0, -1], [1, 5], [0]),
    "of_a_product": (lambda k, x, m: (sj.ones((k, 2)) @ m[:2])[-1, 0], [1, 5], [0]),
    "of_repeated": (lambda k, x, m: sj.repeat(x[0], k)[-1], [1, 5], [0]),
    "of_stacked": (lambda k, x, m: sj.stack([sj.ones(k), sj.zeros(k)])[0, -1], [1, 5], [0]),
    "of_a_loop": (lambda k, x, m: sj.scan(lambda r: r * 2, sj.arange(k))[-1], [1, 5], [0]),
    "set": (lambda k, x, m: sj.zeros(k)[2].set(1.0)[2], [3, 5], [0, 2]),
    "set_last": (lambda k, x, m: sj.arange(k)[-1].set(1)[-1], [3, 5], [0]),
    "taken": (lambda k, x, m: sj.take(sj.ones(k), 2), [3, 5], [0, 2]),
    "reshaped": (lambda k, x, m: sj.ones(k).reshape((2, 2)).sum(), [4], [3, 5]),
    "broadcast": (lambda k, x, m: sj.broadcast_to(sj.arange(k), (2, 3))[1, 2], [3], [2, 4]),
    "added": (lambda k, x, m: (sj.ones(k) + x[:4]).sum(), [4], [3, 5]),
    "chosen": (lambda k, x, m: sj.where(sj.ones(k) > 0, x, 0.0)[0], [5], [2, 6]),
    "joined": (lambda k, x, m: sj.stack([sj.ones(k), x])[0, -1], [5], [0, 4]),
    "multiplied": (lambda k, x, m: sj.ones(k) @ x, [5], [4, 6]),
    "multiplied_by_ones": (lambda k, x, m: x[:k] @ sj.ones(3), [3], [2, 4]),
    "steps": (lambda k, x, m: sj.scan(lambda h: h * 2.0, None, x[0], n_steps=sj.minimum(k, 4)).sum(), [0, 5], [-1]),
    "row_of_an_until": (
        lambda k, x, m: sj.scan(lambda h: (h * 2.0, sj.until(h > k)), None, x[0], n_steps=4)[2],
        [5, 7],
        [0, -1],
    ),
    "in_a_branch": (lambda k, x, m: sj.ifelse(k < 9, lambda: sj.ones(k)[-1], lambda: x[0]), [1, 9], [0]),
    "in_no_branch": (lambda k, x, m: sj.ifelse(k > 9, lambda: x[:k][2], lambda: x[0]), [0, 3], []),
    "in_an_inner_step": (lambda k, x, m: sj.scan(lambda h: h + x[:k][2], None, x[0], n_steps=3)[-1], [3], [0, 2]),
    "in_an_inner_step_alone": (
        lambda k, x, m: sj.scan(lambda r: x[:r][1], sj.arange(2, 4) * sj.minimum(k, 1))[-1],
        [1, 3],
        [0],
    ),
    "in_a_while_loop": (
        lambda k, x, m: sj.while_loop(lambda s: s[1] < 3, lambda s: (s[0] + x[: s[1] + k][1], s[1] + 1), (x[0], 0))[0],
        [2, 3],
        [0, 1],
    ),
    "in_a_gradient": (lambda k, x, m: sj.grad(x[:k][2] ** 2, x).sum(), [3, 5], [0, 2]),
}


def made(program: Program, state: bool, mode: Any) -> Any:
    ks, x, m = sj.vector("ks", "int64"), sj.tensor((5,), "float64", "x"), sj.tensor((3, 4), "float64", "m")
    step = lambda k, *h: program(k, x, m) + (0.5 * h[0] if h else 0.0) + 0.0 * m[0, 0] + 0.0 * x[0]
    ys = sj.scan(step, ks, sj.constant(0.0) if state else None)
    return sj.function([ks, x, m], ys, mode=mode)


@pytest.mark.quick(8)
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_size_that_does_not_fit(name: str, state: bool) -> None:
    program, fitting, others = PROGRAMS[name]
    mode = "numba" if name in ("of_ones", "added", "in_a_while_loop") else "emulate"
    f, reference = (made(program, state, each) for each in (mode, "reference"))
    np.testing.assert_allclose(f(fitting, X, M), reference(fitting, X, M), rtol=1e-13)
    for k in others:
        messages = []
        for function in (reference, f):
            with pytest.raises((sj.ShapeError, sj.OutOfBoundsError, sj.ScanError)) as found:
                function([fitting[0], k], X, M)
            messages.append((type(found.value), str(found.value)))
        assert messages[0] == messages[1]


FAR = 10**10
OUTSIDE: dict[str, Program] = {
    "far": lambda k, x, m: x[:k][FAR],
    "third": lambda k, x, m: x[:k][2],
    "third_last": lambda k, x, m: x[:k][-3],
    "far_back": lambda k, x, m: x[:k][-FAR],
    "backwards": lambda k, x, m: x[:k][::-1][-7],
    "down_to": lambda k, x, m: x[:k:-1][1],
    "far_down": lambda k, x, m: x[:k:-1][FAR],
    "sum_down_to": lambda k, x, m: x[:k:-1].sum(),
    "of_the_others": lambda k, x, m: x[k:][FAR],
    "every_other": lambda k, x, m: x[:k][::2][FAR],
    "of_two_slices": lambda k, x, m: x[:k][1000:][2000],
    "slice": lambda k, x, m: x[:k][FAR : FAR + 3].sum(),
    "row": lambda k, x, m: m[:k][FAR].sum(),
    "column": lambda k, x, m: m[:, :k][:, 2].sum(),
    "of_a_view": lambda k, x, m: m[:k].T[1, FAR],
    "taken": lambda k, x, m: sj.take(x[:k], [0, FAR]).sum(),
    "broadcast": lambda k, x, m: sj.broadcast_to(x[:k], (3, 7))[1, 5],
    "joined": lambda k, x, m: sj.concatenate([x[:k], x[k:]])[FAR],
    "stacked": lambda k, x, m: sj.stack([x[:k], 2 * x[:k]])[1, FAR],
    "summed": lambda k, x, m: sj.cumsum(x[:k])[7],
    "multiplied": lambda k, x, m: (m[:k] @ m.T)[FAR, 0],
    "set": lambda k, x, m: x[:k][2].set(1.0).sum(),
    "set_far": lambda k, x, m: x[:k][FAR].set(1.0).sum(),
    "added_far_back": lambda k, x, m: x[:k][-FAR].inc(1.0).sum(),
    "set_slice": lambda k, x, m: x[:k][2:4].set(sj.ones(2)).sum(),
    "added_to_a_row": lambda k, x, m: m[:k][7].inc(1.0).sum(),
    "examples": lambda k, x, m: sj.vmap(lambda row: row[:k][FAR])(m).sum(),
    "examples_without_entries": lambda k, x, m: sj.vmap(lambda row: row[FAR])(m[:, :k]).sum(),
    "in_an_inner_step": lambda k, x, m: sj.scan(lambda row: row[:k][FAR], m).sum(),
    "in_an_inner_recurrence": lambda k, x, m: sj.scan(lambda r, h: h + r * x[:k][FAR], x, 0.0 * k).sum(),
    "in_a_while_loop": lambda k, x, m: sj.while_loop(
        lambda s: s[1] < k, lambda s: (s[0] + x[: s[1] + 1][FAR], s[1] + 1), (0.0 * k, k - k)
    )[0],
    "in_a_branch": lambda k, x, m: sj.ifelse(k > 3, lambda: x[:k][FAR], lambda: 0.0 * k),
    "in_a_branch_of_long_ones": lambda k, x, m: sj.ifelse(x.shape[0] > 4, lambda: x[:k][4], lambda: 0.0 * k),
    "in_a_gradient": lambda k, x, m: sj.grad(x[:k][2] ** 2 + x.sum() ** 2, x).sum(),
}


def outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except (sj.ShapeError, sj.OutOfBoundsError, sj.ScanError) as error:
        return type(error).__name__, str(error)


@pytest.mark.quick(8)
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("name", OUTSIDE)
def test_nothing_outside_of_arrays_of_any_size_is_read(name: str, state: bool) -> None:
    ks, x, m = sj.vector("ks", "int64"), sj.vector("x"), sj.matrix("m")
    step = lambda k, *h: OUTSIDE[name](k, x, m) + (0.5 * h[0] if h else 0.0)
    ys = sj.scan(step, ks, sj.constant(0.0) if state else None)
    compiled: Any = "numba" if name in ("far", "set_far", "in_a_branch") else "emulate"
    f, reference = (sj.function([ks, x, m], ys, mode=mode) for mode in (compiled, "reference"))
    for n, shape in ((0, (3, 4)), (2, (2, 0)), (5, (0, 0)), (9, (8, 9))):
        args = np.arange(1.0, 1.0 + n), np.ones(shape)
        for numbers in ([], [0], [5, 3], [-2]):
            found, wanted = outcome(f, numbers, *args), outcome(reference, numbers, *args)
            if isinstance(wanted, tuple):
                assert found == wanted
            else:
                np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_a_size_that_always_fits_costs_nothing() -> None:
    step = lambda x, h: h + sj.while_loop(lambda s: s > 1.0, lambda s: 0.5 * s, x + h)
    x = sj.vector("x")
    made: Any = sj.function([x], sj.scan(step, x, sj.constant(0.0)), mode="emulate").executable
    (outer,) = (node for node in walk(made.outputs) if node.op.name == "scan")
    assert outer.params["carries"] == 1


def test_a_size_without_a_limit_is_refused_in_words() -> None:
    ks = sj.vector("ks", "int64")
    for first, words in ((None, "the steps of a loop"), (sj.constant(0.0), "give the size a limit")):
        step = lambda k, *h: sj.ones(k).mean() + sum(h)
        with pytest.raises(sj.NotSupportedError, match=words) as found:
            sj.function([ks], sj.scan(step, ks, first), mode="emulate")
        assert "use a mask over the full size" in str(found.value)


def test_a_refusal_names_the_size_also_where_a_step_may_not_run() -> None:
    ks, x = sj.vector("ks", "int64"), sj.vector("x")
    with pytest.raises(sj.NotSupportedError, match="give the size a limit") as found:
        sj.function([ks, x], sj.scan(lambda k: (x[:k] + sj.ones(7)).sum(), ks), mode="emulate")
    assert "x.shape[0]" in str(found.value)
