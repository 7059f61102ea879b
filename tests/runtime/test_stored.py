"""`mixed(stored=...)`: what a gradient keeps of the forward pass lies in 16 bits."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.arrays import named_dtype
from tests.compare import same_for_any_threads
from tests.export.support import exported
from tests.lstm import lstm_outputs

pytest.importorskip("ml_dtypes")
MODES = ["reference", "emulate", "numba"]
BOUNDS = {"bfloat16": 2**-7, "float16": 2**-10}
"""The errors of gradients, beside the largest entry."""
H = 12


def normal(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def loss(x: Any, W: Any, R: Any) -> Any:
    return (lstm_outputs(x, W, R)[-1] ** 2).sum()


def weights(steps: int = 20) -> tuple[np.ndarray, ...]:
    return normal(0, steps, 6, 5), normal(1, 5, 4 * H, scale=0.4), normal(2, H, 4 * H, scale=0.3)


def errors(found: Any, exact: Any) -> list[float]:
    return [float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(found, exact, strict=True)]


def exact_slopes() -> Any:
    f = sj.jit(sj.value_and_grad(loss, argnums=(0, 1, 2)), mode="reference")
    return f(*(x.astype(np.float64) for x in weights()))


@pytest.mark.quick(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stored", BOUNDS)
def test_gradients_beside_those_of_float64(stored: Any, mode: Any) -> None:
    """Of a function whose gradient is there, and of one whose gradient comes later."""
    value, slopes = exact_slopes()
    inside = sj.mixed(sj.value_and_grad(loss, argnums=(0, 1, 2)), weights=None, stored=stored)
    later = sj.value_and_grad(sj.mixed(loss, weights=None, stored=stored), argnums=(0, 1, 2))
    found = [sj.jit(lambda *args: f(*args), mode=mode)(*weights()) for f in (inside, later)]  # noqa: B023
    for got, gradients in found:
        assert abs(got - value) < 1e-5 * abs(value)  # the forward pass is not rounded
        assert all(1e-5 < error < BOUNDS[stored] for error in errors(gradients, slopes))
    assert max(errors(found[0][1], found[1][1])) < 1e-6


@pytest.mark.parametrize("weights_in", [None, "bfloat16"])
def test_half_the_memory(weights_in: Any) -> None:
    x, W, R = (
        sj.tensor(shape, "float32", name) for shape, name in ((("T", 16, 5), "x"), ((5, 48), "W"), ((12, 48), "R"))
    )
    cost = loss(x, W, R)
    f = sj.function([x, W, R], [cost, *sj.grad(cost, [W, R])], mode="emulate")

    def nbytes(stored: Any) -> int:
        return sj.mixed(f, weights=weights_in, stored=stored).memory(T=4000).workspace

    row = 4000 * 16 * 12  # the loop stores 6 values of float32
    assert nbytes(None) - nbytes("bfloat16") > 0.9 * 6 * 2 * row
    if weights_in is None:
        assert nbytes("bfloat16") < 0.55 * nbytes(None)
        assert "as bfloat16: sigmoid, tanh" in str(sj.mixed(f, None, "bfloat16").explain())


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_products_widen_what_they_load(mode: Any) -> None:
    """Left and right operands of 16 bits, whole and transposed, beside operands of float32."""
    for half in BOUNDS:
        a, b = sj.tensor((None, 37), half, "a"), sj.tensor((37, None), half, "b")
        c = sj.tensor((None, 37), "float32", "c")
        wide = [x.astype("float32") for x in (a, b)]
        products = [wide[0] @ wide[1], c @ wide[1], wide[0] @ c.T, wide[1].T @ wide[0].T, (wide[0] * 1).sum(axis=1)]
        f = sj.function([a, b, c], products, mode=mode)
        assert "nest cast" not in str(f.explain())
        p, q, r = (normal(k, *shape) for k, shape in enumerate([(19, 37), (37, 33), (19, 37)]))
        p, q = p.astype(named_dtype(half)), q.astype(named_dtype(half))
        u, v = p.astype(np.float64), q.astype(np.float64)
        for got, wanted in zip(f(p, q, r), [u @ v, r @ v, u @ r.T, v.T @ u.T, u.sum(axis=1)], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", MODES)
def test_a_value_that_is_rounded_and_read_at_once(mode: Any) -> None:
    """One nest stores the rounded value and computes with it: what it computes with is rounded too."""
    x = sj.vector("x", "float32")
    y = x.astype("bfloat16")
    f = sj.function([x], [y, y.astype("float32") + 1, y.astype("float32")[::-1] * 2], mode=mode)
    given = normal(0, 300)
    rounded = given.astype(named_dtype("bfloat16"))
    wide = rounded.astype(np.float32)
    for got, wanted in zip(f(given), [rounded, wide + 1, wide[::-1] * 2], strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got.astype(np.float32), wanted.astype(np.float32))


# ---- loops of all kinds ----------------------------------------------------------------------------------------------


def until(x: Any, w: Any) -> Any:
    def step(row: Any, h: Any) -> Any:
        h = np.tanh(row + h @ w)
        return h, sj.until(h.sum() > 3)

    return (sj.scan(step, x, sj.zeros((4,), x.dtype))[-1] ** 2).sum()


def lagged(x: Any, w: Any) -> Any:
    info = {"initial": sj.zeros((3, 4), x.dtype), "taps": [-3, -1]}
    return (sj.scan(lambda row, far, near: np.tanh(row + far + near @ w), x, info) ** 2).sum()


def nested(x: Any, w: Any) -> Any:
    def step(row: Any, h: Any) -> Any:
        return sj.scan(lambda k: np.tanh(k @ w + row), outputs_info=h, n_steps=3)[-1]

    return (sj.scan(step, x, sj.zeros((4,), x.dtype)) ** 2).sum()


def branched(x: Any, w: Any) -> Any:
    def step(row: Any, h: Any) -> Any:
        return sj.ifelse(h.sum() > 0, lambda: np.tanh(row + h @ w), lambda: np.sin(row - h @ w))

    return (sj.scan(step, x, sj.zeros((4,), x.dtype)) ** 2).sum()


def with_checkpoints(x: Any, w: Any) -> Any:
    states = sj.scan(lambda row, h: np.tanh(row + h @ w), x, sj.zeros((4,), x.dtype), checkpoint="sqrt")
    return (states**2).sum()


def truncated(x: Any, w: Any) -> Any:
    states = sj.scan(lambda row, h: np.tanh(row + h @ w), x, sj.zeros((4,), x.dtype), truncate_gradient=5)
    return (states[-1] ** 2).sum()


def in_a_batch(x: Any, w: Any) -> Any:
    run = sj.vmap(lambda x: sj.scan(lambda row, h: np.tanh(row + h @ w), x, sj.zeros((4,), x.dtype)))
    return (run(sj.stack([x, 2 * x])) ** 2).sum()


def backwards(x: Any, w: Any) -> Any:
    states = sj.scan(lambda row, h: np.tanh(row + h @ w), x, sj.zeros((4,), x.dtype), go_backwards=True)
    return (states**2).sum()


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "program", [until, lagged, nested, branched, with_checkpoints, truncated, in_a_batch, backwards]
)
def test_loops(program: Any) -> None:
    args = normal(3, 17, 4, scale=0.5), normal(4, 4, 4, scale=0.5)
    slope = sj.value_and_grad(program, argnums=(0, 1))
    value, slopes = sj.jit(slope, mode="reference")(*(x.astype(np.float64) for x in args))
    for f in (
        sj.mixed(slope, None, "bfloat16"),
        sj.value_and_grad(sj.mixed(program, None, "bfloat16"), argnums=(0, 1)),
    ):
        for mode in ("reference", "emulate"):
            got, found = sj.jit(lambda *args: f(*args), mode=mode)(*args)  # noqa: B023
            assert abs(got - value) < 1e-5 * abs(value)
            assert all(0 < error < 2**-6 for error in errors(found, slopes))


def test_derivatives_of_order_two() -> None:
    def curve(program: Any) -> Any:
        def squares(x: Any, w: Any) -> Any:
            return (sj.value_and_grad(program, argnums=1)(x, w)[1] ** 2).sum()

        return sj.value_and_grad(squares, argnums=1)

    args = normal(3, 9, 4, scale=0.5), normal(4, 4, 4, scale=0.5)
    _, exact = sj.jit(curve(backwards), mode="reference")(*(x.astype(np.float64) for x in args))
    for f in (sj.mixed(curve(backwards), None, "bfloat16"), curve(sj.mixed(backwards, None, "bfloat16"))):
        for mode in ("reference", "emulate"):
            (error,) = errors([sj.jit(lambda *args: f(*args), mode=mode)(*args)[1]], [exact])  # noqa: B023
            assert 0 < error < 2**-5


def test_float64_and_whole_numbers_stay() -> None:
    def program(x: Any) -> Any:
        states, counts = sj.scan(lambda row, h, n: (np.tanh(row + h) * n, n + 1), x, [sj.zeros((), x.dtype), 1])
        return (states * counts).sum()

    f = sj.value_and_grad(program)
    np.testing.assert_equal(sj.mixed(f, None, "bfloat16")(np.ones(5)), f(np.ones(5)))


# ---- functions -------------------------------------------------------------------------------------------------------


def test_the_same_bits_for_any_threads() -> None:
    args = normal(0, 30, 40, 5), *weights()[1:]
    f = sj.mixed(sj.value_and_grad(loss, argnums=(0, 1, 2)), "bfloat16", "bfloat16")
    same_for_any_threads(lambda: [*(found := f(*args))[:1], *found[1]])


def test_it_is_saved_pickled_and_exported(tmp_path: Path) -> None:
    x, W, R = (sj.tensor(array.shape, "float32") for array in weights())
    f = sj.mixed(sj.function([x, W, R], sj.grad(loss(x, W, R), [W, R])), None, "bfloat16")
    f.save(tmp_path / "f.sj")
    wanted = f(*weights())
    for other in (sj.load(tmp_path / "f.sj"), pickle.loads(pickle.dumps(f))):
        np.testing.assert_equal(other(*weights()), wanted)
    slopes = exported(f, tmp_path / "package").model
    reference = sj.mixed(sj.function([x, W, R], sj.grad(loss(x, W, R), [W, R]), mode="reference"), None, "bfloat16")
    assert max(errors(slopes(*weights()), reference(*weights()))) < 1e-5
    later = pickle.loads(pickle.dumps(sj.mixed(loss, None, "bfloat16")))
    assert max(errors(sj.value_and_grad(later, argnums=(1, 2))(*weights())[1], wanted)) < 1e-6


def test_what_is_given_stays() -> None:
    """A loop that makes an argument of a mixed function keeps what it kept."""
    half = sj.mixed(lambda y: (y**2).sum(), None, "bfloat16")

    def program(x: Any, w: Any) -> Any:
        return half(sj.scan(lambda row, h: np.tanh(row + h @ w), x, sj.zeros((4,), x.dtype)))

    args = normal(3, 17, 4), normal(4, 4, 4)

    def plain(x: Any, w: Any) -> Any:
        return (sj.scan(lambda row, h: np.tanh(row + h @ w), x, sj.zeros((4,), x.dtype)) ** 2).sum()

    (_, found), (_, wanted) = (sj.value_and_grad(f, argnums=1)(*args) for f in (program, plain))
    np.testing.assert_array_equal(found, wanted)


def test_wrong_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(sj.ArgumentError, match=r"the format of what a gradient keeps is unknown(.|\n)*'int8'"):
        sj.mixed(loss, stored="int8")  # type: ignore[call-overload]
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    with pytest.raises(sj.NotSupportedError, match=r"scanjit\[bfloat16\]"):
        sj.mixed(loss, stored="bfloat16")
