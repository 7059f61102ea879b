"""What is made of weights: once for each of their values, and in the form that one row asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.compare import all_close
from tests.fuzz.check import Config

UNITS = 20


def step(rows: Any, **config: Any) -> tuple[Any, list[sj.SharedVariable], list[np.ndarray]]:
    """One step of a recurrent cell for some rows: with weights that are put together from parts."""
    rng = np.random.default_rng(0)
    parts = [sj.shared(rng.standard_normal((UNITS, UNITS)), name) for name in "uvw"]
    x, h = sj.tensor((rows, UNITS), name="x"), sj.tensor((rows, UNITS), name="h")
    r = sj.concatenate(parts[:2], 1)
    z = x @ parts[2] + (h @ r)[:, :UNITS]
    f = sj.function([x, h], [sj.tanh(z), (h @ r)[:, UNITS:]], **config)
    return f, parts, [rng.standard_normal((1, UNITS)) for _ in range(2)]


@pytest.mark.parametrize("rows", [1, "B", None])
def test_weights_are_packed_once_a_value_whatever_is_known_of_the_rows(rows: Any) -> None:
    with Config(width=64).active():
        f, parts, arrays = step(rows, mode="emulate")
    expected, *_ = step(rows, mode="reference")
    kept = next(line for line in f.explain().splitlines() if "once for each value" in line)
    assert kept.count("pack") == 2
    for _ in range(3):
        all_close(f(*arrays), expected(*arrays))
    new = np.full((UNITS, UNITS), 0.5)
    parts[1].set_value(new)
    np.testing.assert_allclose(f(*arrays)[1], arrays[1] @ new)


def test_a_batch_of_one_has_a_form_of_its_own() -> None:
    with Config(width=64).active():
        named, fixed = (step(rows, mode="emulate")[0] for rows in ("B", 1))
        main = named.source.split("from scanjit.simd")[1]
    assert main.count(" == 1:") == main.count("else:") == 2
    tiles = [line for line in fixed.explain().splitlines() if "nest" in line and "lanes" in line]
    assert len(tiles) == 2
    assert not any("along the reductions" in line for line in tiles)


def test_operands_that_change_are_not_packed_for_one_row() -> None:
    x, w = sj.tensor((1, UNITS)), sj.tensor((UNITS, UNITS))
    f = sj.function([x, w], x @ w, mode="emulate")
    assert "packed" not in f.explain()


def test_a_part_that_changes_is_written_in_every_call() -> None:
    """One of several statements that write a buffer reads an argument: all of them run in every call."""
    a, x = sj.shared(np.arange(6.0).reshape(2, 3)), sj.matrix("x")
    f = sj.function([x], sj.concatenate([a * 2, x]) @ np.ones((3, 2)), mode="emulate")
    for value in (1.0, 2.0):
        got = f(np.full((1, 3), value))
        np.testing.assert_array_equal(got[:, 0], [6.0, 24.0, 3 * value])


def test_constants_are_packed_once() -> None:
    x, w = sj.matrix("x"), np.arange(12.0).reshape(3, 4)
    f = sj.function([x], x @ sj.concatenate([w, -w], 1), mode="emulate")
    assert "pack: once for each value" in f.explain()
    for scale in (1.0, 2.0):
        np.testing.assert_array_equal(f(np.eye(3) * scale), np.concatenate([w, -w], 1) * scale)


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_what_depends_on_sizes_of_a_call_is_made_in_every_call(mode: str) -> None:
    """A loop of doublings over constants, as many as an argument has rows; and rows of one size in all."""
    x, n = sj.matrix("x"), sj.scalar("n", "int64")
    doubled = sj.scan(lambda h: h * 2.0, outputs_info=sj.constant(1.0), n_steps=n)[-1]
    spread = sj.broadcast_to(sj.constant(np.array([1.0, 2.0])), (x.shape[0], 2))
    total = (sj.reshape(sj.arange(x.size), x.shape) * 2)[:, 0].sum() + spread.sum()
    f = sj.function([x, n], [doubled, total], mode=mode)
    for rows, steps in ((2, 3), (3, 6), (2, 1), (6, 4)):
        columns = 6 // rows
        expected = [2.0**steps, sum(2 * columns * i for i in range(rows)) + 3 * rows]
        assert [v.tolist() for v in f(np.zeros((rows, columns)), steps)] == expected


def test_calls_with_other_sizes_and_values_in_turn() -> None:
    """What a workspace remembers is for its sizes and its values alone."""
    w, x = sj.shared(np.arange(6.0).reshape(2, 3), "w"), sj.matrix("x")
    f = sj.function([x], (x @ w).sum(0) @ w.T)
    for rows, scale in ((1, 1.0), (1, 1.0), (3, 1.0), (1, 2.0), (1, 2.0), (3, 2.0), (40, 2.0), (1, 2.0), (1, -1.0)):
        value = np.arange(6.0).reshape(2, 3) * scale
        if w.get_value()[0, 1] != scale:
            w.set_value(value)
        given = np.arange(2.0 * rows).reshape(rows, 2)
        np.testing.assert_allclose(f(given), (given @ value).sum(0) @ value.T)


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_roots_of_unity_are_computed_once_for_each_length(mode: str, rng: np.random.Generator) -> None:
    """Calls whose lengths change have the roots of their own lengths."""
    x, y = sj.matrix("x"), sj.vector("y")
    functions = []
    for threads in (1, 2):
        with Config(threads=threads).active():
            functions.append(sj.function([x, y], [sj.rfft(x), sj.fft(y), sj.irfft(sj.rfft(y), y.shape[0])], mode=mode))
    assert "roots: once for each length" in functions[0].explain()
    for n, m in ((8, 5), (8, 5), (9, 5), (9, 8), (8, 8), (34, 8), (34, 1)):
        a, b = rng.standard_normal((3, n)), rng.standard_normal(m)
        for f, threads in zip(functions, (1, 2), strict=True):
            with Config(threads=threads).active():
                found = f(a, b)
            all_close(found, (np.fft.rfft(a), np.fft.fft(b), b), atol=1e-12)
