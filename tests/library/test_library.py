"""Exported libraries, built with a C compiler, beside the same functions in Python: bit by bit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import types
from scanjit.library.dims import Sizes
from scanjit.library.model import level
from scanjit.runtime import host
from tests.library.support import GUARDED, SANITIZED, Built, same
from tests.lstm import lstm_outputs

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "threads", 1)


def lstm(units: int = 12) -> Any:
    x = sj.tensor(("T", "B", 5), "float32", "x")
    w, r = sj.tensor((5, 4 * units), "float32", "W"), sj.tensor((units, 4 * units), "float32", "R")
    h = lstm_outputs(x, w, r)
    return sj.function([x, w, r], [h, h[-1], *sj.grad((h * h).sum(), [w, r])])


def arrays(*shapes: tuple[int, ...], dtype: str = "float32") -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.normal(size=shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("flags", [GUARDED, SANITIZED], ids=["guarded", "sanitized"])
def test_an_lstm_and_its_gradient(tmp_path: Path, flags: list[str]) -> None:
    """Nothing is read or written outside of arrays, and nothing is undefined in C."""
    f = lstm()
    built = Built(f, tmp_path, flags=flags)
    for T, B in ((1, 1), (7, 3), (300, 2), (2, 300)):
        given = arrays((T, B, 5), (5, 48), (12, 48))
        found, _ = built.call(*given)
        for one, other in zip(found, f(*given), strict=True):
            same(one, other)


def test_numbers_that_python_decides_in_each_call(tmp_path: Path) -> None:
    """Threads may keep series of their own, each with a copy of what holds one: a library has one copy."""
    x = sj.tensor(("T", "B"), name="x")
    f = sj.function([x], [sj.cumsum(x, axis=1), sj.grad((sj.cumsum(x, axis=1) ** 2).sum(), x)])
    built = Built(f, tmp_path, flags=GUARDED)
    for shape in ((1, 1), (3, 300), (300, 2)):
        (given,) = arrays(shape, dtype="float64")
        found, _ = built.call(given)
        for one, other in zip(found, f(given), strict=True):
            same(one, other)


def test_several_arguments_and_results(tmp_path: Path) -> None:
    x, n = sj.tensor(("N", 3), "float64", "x"), sj.tensor(("N",), "int32", "for")
    flag, scale = sj.tensor((), "bool", "flag"), sj.scalar("scale", "float64")
    twice = x * scale
    f = sj.function(
        [x, n, flag, scale],
        {
            "a": twice,
            "again": twice,
            "given": x,
            "row": twice[0],
            "sum": n.sum(),
            "int": sj.where(flag, n, -n),
            "last": x[-1:],
        },
    )
    built = Built(f, tmp_path)
    for N in (1, 300):
        given = [*arrays((N, 3), dtype="float64"), np.arange(N, dtype="int32"), np.array(N > 1), np.array(0.5)]
        for one, other in zip(built.call(*given)[0], f(*given).values(), strict=True):
            same(one, other)


def test_sizes_may_be_fixed_zero_or_unfit(tmp_path: Path) -> None:
    x, y = sj.matrix("x"), sj.tensor(("N", 2), name="y")
    f = sj.function([x, y], [x @ y, y.sum(0)], name="product")
    built = Built(f, tmp_path, sizes={"N": 4})
    given = arrays((3, 4), (4, 2), dtype="float64")
    for one, other in zip(built.call(*given)[0], f(*given), strict=True):
        same(one, other)
    same(built.call(np.zeros((0, 4)), given[1])[0][0], np.zeros((0, 2)))
    built.call(np.zeros((3, 5)), given[1])
    assert built.status <= -100 and "must be equal" in built.said and "test_library.py:" in built.said


def test_an_index_out_of_bounds_is_a_status(tmp_path: Path) -> None:
    x, i, total = sj.vector("x"), sj.tensor((None,), "int64", "i"), sj.shared(1.0, "total")
    f = sj.function([x, i], x[i], updates={total: total + x[i].sum()})
    built = Built(f, tmp_path)
    found, state = built.call(np.arange(5.0), [4, 0])
    same(found[0], np.array([4.0, 0.0]))
    same(state[0], np.array(5.0))
    _, state = built.call(np.arange(5.0), [4, 5], calls=3)
    assert built.status > 0 and "out of bounds (test_library.py:" in built.said
    same(state[0], np.array(1.0))


def test_training_with_an_optimizer_and_random_numbers(tmp_path: Path) -> None:
    import lasagne_like as lasagne

    random = np.random.default_rng(1)
    x, y = sj.matrix("x", "float32"), sj.matrix("y", "float32")
    w = sj.shared(random.normal(size=(3, 2)).astype("float32"), "w")
    stream = sj.random.Stream(3)
    noise = stream.normal(x.shape, dtype="float32")
    loss = (((x + 0.1 * noise) @ w - y) ** 2).mean()
    updates = lasagne.updates.adam(loss, [w], 0.01)
    f = sj.function([x, y], loss, updates=updates)
    before = {variable: variable.get_value() for variable in f.graph.variables}
    built = Built(f, tmp_path)
    given = arrays((20, 3), (20, 2))
    found, state = built.call(*given, calls=5)
    for _ in range(5):
        wanted = f(*given)
    same(found[0], wanted)
    names = [each.label for each, _ in built.face.state]
    assert len(state) == len(f.graph.updates) == len(names) > 4
    for one, (variable, _) in zip(state, sorted(f.graph.updates, key=lambda pair: pair[0].serial), strict=True):
        same(one, variable.get_value())
    sj.set_values(before)


def test_an_argument_may_be_a_size(tmp_path: Path) -> None:
    n, start = sj.scalar("n", "int64"), sj.scalar("start")
    h = sj.scan(lambda h: 1.5 * h, outputs_info=start, n_steps=n)
    f = sj.function([n, start], h)
    built = Built(f, tmp_path)
    for steps in (1, 300):
        same(built.call(steps, 0.5)[0][0], f(steps, 0.5))


def test_complex_numbers_are_pairs(tmp_path: Path) -> None:
    z = sj.tensor(("N",), "complex128", "z")
    f = sj.function([z], [z * z, abs(z)])
    built = Built(f, tmp_path)
    given = np.array([1 + 2j, -3j, 0.5])
    found, _ = built.call(given.view("f8").reshape(-1, 2))
    same(found[0].reshape(-1).view("c16"), f(given)[0])
    same(found[1], f(given)[1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_their_bits(tmp_path: Path, dtype: str) -> None:
    x, kept = sj.tensor(("T", 3), dtype, "x"), sj.shared(np.arange(3, dtype="float32"), "kept")
    low = sj.shared(np.arange(3).astype(x.dtype), "low")
    h = sj.scan(lambda row, h: 0.5 * h + row, x, sj.cast(kept, dtype))
    f = sj.function([x], h, updates={kept: kept + 1, low: h[-1]})
    given = np.random.default_rng(0).normal(size=(20, 3)).astype(x.dtype)
    built = Built(f, tmp_path, flags=GUARDED)
    (found,), state = built.call(given, calls=2)
    assert built.status == 0 and "uint16_t" in (tmp_path / "model.h").read_text()
    f(given)
    same(found, f(given))
    for one, variable in zip(state, f.graph.variables, strict=True):
        same(one, variable.get_value())


def test_weights_are_packed_when_the_library_is_made(tmp_path: Path) -> None:
    """A step with batch 1 does not copy its weights in each call."""
    units = 128
    x, h = sj.tensor((1, 3), "float32", "x"), sj.tensor((1, units), "float32", "h")
    w, r = (sj.shared(a * np.float32(0.1)) for a in arrays((3, units), (units, units)))
    count = sj.shared(np.int64(0), "count")
    f = sj.function([x, h], sj.tanh(x @ w + h @ r), updates={count: count + 1})
    built = Built(f, tmp_path)
    given = arrays((1, 3), (1, units))
    found, state = built.call(*given, calls=3)
    same(found[0], f(*given))
    same(state[0], np.int64(3))
    made = level(built.face, f.graph, "", host.target(), 1)
    (stage,) = made.stages
    assert stage.layout.table.lasting == 0
    assert sum(int(life.nbytes) for life in stage.layout.table.lives) < 4 * units * units


def test_loops_whose_end_is_computed(tmp_path: Path) -> None:
    """The number of steps is known when a stage of the program has run."""
    x, i = sj.tensor(("N",), name="x"), sj.tensor((), "int64", "i")
    root = sj.while_loop(lambda r: abs(r * r - x.sum()) > 1e-9, lambda r: 0.5 * (r + x.sum() / r), sj.constant(1.0))
    steps = sj.scan(lambda h: 0.5 * h + 1, outputs_info=x, n_steps=sj.cast(x[0], "int64"))[-1]
    total = sj.shared(0.0, "total")
    f = sj.function([x, i], [root, x[i] * root, steps], updates={total: total + root})
    built = Built(f, tmp_path, flags=SANITIZED)
    for N in (1, 300):
        given = (np.linspace(5, 6, N), 0)
        found, state = built.call(*given)
        before = total.get_value()
        for one, other in zip(found, f(*given), strict=True):
            same(one, other)
        same(state[0], total.get_value() - before)
        total.set_value(0.0)
    built.call(np.linspace(5, 6, 3), 7)
    assert built.status > 0
    built.call(np.array([0.0]), 0)
    assert built.status <= -100 and "test_library.py:" in built.said


def test_lines_of_sizes_do_not_depend_on_which_was_made_first() -> None:
    def lines(*order: str) -> list[str]:
        made = {name: types.anonymous_size() for name in order}
        sizes = Sizes({types.as_atom(dim): f"sizes->{name}" for name, dim in made.items()})
        m, n = made["m"], made["n"]
        last = sizes.text(types.minimum(n, m) * n + 3 * n * m - m // 2 + n // 2 + types.maximum(m - n, 0) + m + n)
        return [*sizes.lines, last]

    assert lines("m", "n") == lines("n", "m")
