"""`mixed`: products whose operands are rounded to bfloat16, or to integers of 8 bits."""

import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ops.narrow import to_bfloat16 as rounded
from scanjit.runtime import host
from scanjit.target import target_for
from tests.export.support import exported
from tests.lstm import lstm_outputs

rng = np.random.default_rng(0)
START = rng.bit_generator.state


@pytest.fixture(autouse=True)
def own_numbers() -> None:
    """Each test has the same numbers, whichever tests ran before it."""
    weights()
    rng.bit_generator.state = START


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (rng.normal(size=shape) * scale).astype(np.float32)


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return rounded(a).astype(float) @ rounded(b).astype(float)


def by_integers(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product with integers of 8 bits, a scale for each row and column."""
    p, q = (np.abs(x).max(axis, keepdims=True, initial=0).astype(float) for x, axis in ((a, -1), (b, -2)))
    p, q = (np.where(x == 0, 1, x) / 127 for x in (p, q))
    return (np.rint(a / p) @ np.rint(b / q)) * p * q


def multiplied(f: sj.CompiledFunction[Any], packs: str = "pairs of bfloat16") -> int:
    """How many products of packs a function computes."""
    return str(f.explain()).count(f"multiplies {packs}")


# ---- products --------------------------------------------------------------------------------------------------------


@pytest.mark.quick(3)
@pytest.mark.parametrize("terms", [15, 16, 17, 40, 257, pytest.param(1000, marks=pytest.mark.slow)])
def test_products(terms: int) -> None:
    a, b = normal(7, terms), normal(terms, 33)
    wanted = exact(a, b)
    for known in (True, False):
        x = sj.tensor((None, terms if known else None), dtype="float32")
        y = sj.tensor((terms if known else None, None), dtype="float32")
        f = sj.mixed(sj.function([x, y], x @ y))
        assert multiplied(f) == (0 if known and terms < 16 else 1)
        bound = 1e-6 * np.abs(a) @ np.abs(b)
        assert (np.abs(f(a, b) - wanted) <= bound).all()
        np.testing.assert_array_equal(f(a, b), sj.mixed(sj.function([x, y], x @ y, mode="emulate"))(a, b))


@pytest.mark.quick(3)
@pytest.mark.parametrize("terms", [15, 16, 18, 40, 257, pytest.param(1000, marks=pytest.mark.slow)])
def test_products_of_integers(terms: int) -> None:
    a, b = normal(7, terms), normal(terms, 33)
    a[2], b[:, 4], a[3] = 0, 0, a[3] * 1e-35
    wanted = by_integers(a, b)
    for known in (True, False):
        x = sj.tensor((None, terms if known else None), dtype="float32")
        y = sj.tensor((terms if known else None, None), dtype="float32")
        f = sj.mixed(sj.function([x, y], x @ y), weights="int8")
        assert multiplied(f, "quads of int8") == (0 if known and terms < 16 else 1)
        got = f(a, b)
        unsure = np.abs(got - wanted) > 1e-5 * np.abs(wanted).max()  # a number next to a tie may be rounded otherwise
        assert (
            unsure.mean() < 0.02 and np.abs(got - a @ b).max() < 0.01 * np.abs(a).max() * np.abs(b).max() * terms**0.5
        )
        for mode in ("emulate", "reference"):
            same = sj.mixed(sj.function([x, y], x @ y, mode=mode), weights="int8")(a, b)
            np.testing.assert_allclose(same, got, rtol=1e-6, atol=1e-30)


def test_products_of_every_form() -> None:
    a, b, c = normal(5, 3, 24), normal(5, 24, 4), normal(24)
    cases: list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = [
        (lambda a, b: a @ b, (a, b)),
        (lambda a, b: np.einsum("bik,bkj->ij", a, b), (a, b)),
        (lambda a, b: np.einsum("bik,bkj->bji", a, b), (a, b)),
        (lambda a, c: a @ c, (a, c)),
        (lambda c, d: c @ d, (c, c[::-1].copy())),
        (lambda a, b: np.tensordot(a, b, ((0, 2), (0, 1))), (a, b)),
        (lambda a, b: a[:, ::-1, ::2] @ b[:, 1::2], (a, b)),
    ]
    for f, args in cases:
        wanted = f(*(rounded(x).astype(float) for x in args))
        got = sj.mixed(f)(*args)
        assert np.abs(got - wanted).max() <= 2e-6 * max(np.abs(wanted).max(), 24)
        assert np.abs(sj.mixed(f, weights="int8")(*args) - wanted).max() <= 0.1 * np.abs(wanted).max()


@pytest.mark.parametrize("terms", [16, 17, 24, pytest.param(257, marks=pytest.mark.slow)])
def test_pairs_are_taken_apart_where_that_is_faster(terms: int) -> None:
    """A product reads the left numbers, and takes the right pairs apart: the same bits as those of whole pairs."""
    a, b, c = normal(7, terms), normal(terms, 33), normal(terms)
    cases: list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = [
        (lambda a, b: a @ b, (a, b)),
        (lambda a, b: (a.T @ b.T).T, (b, a)),
        (lambda b, a: b.T @ a.T, (b, a)),
        (lambda a, c: a @ c, (a, c)),
        (lambda c, b: c @ b, (c, b)),
        (lambda c, d: c @ d, (c, c[::-1].copy())),
        (lambda a, b: a[:, ::-1] @ b, (a, b)),
    ]
    for f, args in cases:
        found = {}
        for name in ("znver4", "sapphirerapids"):
            features = "+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx512bf16,+avx2,+fma"
            with host.using(target_for("x86_64-unknown-linux-gnu", name, features)) as target:
                g = sj.mixed(sj.jit(f, mode="emulate"))
                found[target.multiplies_pairs] = g(*args)
        np.testing.assert_array_equal(found[False], found[True])
        assert np.abs(found[True] - f(*(rounded(x).astype(float) for x in args))).max() < 1e-5 * terms


def test_which_processors_multiply_pairs() -> None:
    features = "+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx512bf16,+avx2,+fma"
    fast = {name: target_for("x86_64-linux-gnu", name, features).multiplies_pairs for name in ("znver5", "cooperlake")}
    assert fast == {"znver5": True, "cooperlake": False}
    assert not target_for("x86_64-linux-gnu", "znver4", "+avx2,+fma").multiplies_pairs
    assert target_for("aarch64-linux-gnu", features="+bf16").multiplies_pairs
    assert not target_for("aarch64-linux-gnu").multiplies_pairs


def test_a_state_is_rounded_where_it_is_made(capsys: Any) -> None:
    """A step of an LSTM is one nest: it rounds the state that it makes, and reads the one that the step before made."""
    shapes = (None, 5, 10), (10, 96), (24, 96)
    x, W, R = (sj.tensor(shape, "float32", name) for name, shape in zip("xWR", shapes, strict=True))
    features = "+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx2,+fma"  # the four sums of a step share 32 registers
    with host.using(target_for("x86_64-unknown-linux-gnu", "sapphirerapids", features)):
        f = sj.mixed(sj.function([x, W, R], lstm_outputs(x, W, R), mode="emulate"))
        sj.dprint(f, stage="blocks")
    step = capsys.readouterr().out.partition("for step ")[2]
    assert step.count("nest ") == 1 and "mul_apart(" in step and "round_bfloat16(" in step


def test_no_terms_no_rows_and_values_that_are_not_finite() -> None:
    f = sj.mixed(sj.jit(lambda a, b: a @ b))
    assert (f(normal(2, 0), normal(0, 3)) == 0).all() and f(normal(0, 20), normal(20, 3)).shape == (0, 3)
    a, b = normal(3, 20), normal(20, 4)
    a[0, 3], a[1, 4], a[2, 5], b[5, 0] = np.nan, np.inf, 0.5, 3e38
    with np.errstate(all="ignore"):
        wanted = exact(a, b)
    got = f(a, b)
    whole = sj.mixed(sj.jit(lambda a, b: a @ b), weights="int8")
    assert (whole(normal(2, 0), normal(0, 3)) == 0).all() and whole(normal(0, 20), normal(20, 3)).shape == (0, 3)
    assert np.isnan(whole(a, b)[0]).all() and np.isfinite(whole(a, b)[2]).all()
    assert np.isnan(got[0]).all() and (np.isinf(got[1]) == np.isinf(wanted[1])).all()
    np.testing.assert_allclose(got[2], wanted[2], rtol=1e-5)


def test_convolutions_and_products_of_float64_stay() -> None:
    x, w = sj.tensor((2, 3, 40), dtype="float32"), sj.tensor((5, 3, 7), dtype="float32")
    f = sj.function([x, w], sj.conv1d(x, w))
    args = normal(2, 3, 40), normal(5, 3, 7)
    np.testing.assert_array_equal(sj.mixed(f)(*args), f(*args))
    m = sj.matrix("m", dtype="float64")
    g, value = sj.function([m], m @ m), rng.normal(size=(20, 20))
    np.testing.assert_array_equal(sj.mixed(g)(value), g(value))


# ---- loops, gradients, branches --------------------------------------------------------------------------------------

H, I = 24, 10


def loss(x: Any, W: Any, R: Any) -> Any:
    return (lstm_outputs(x, W, R) ** 2).sum()


@functools.cache
def weights() -> tuple[np.ndarray, ...]:
    rng.bit_generator.state = START
    return normal(9, 5, I), normal(I, 4 * H, scale=0.3), normal(H, 4 * H, scale=0.2)


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


def test_a_loop_and_its_gradient() -> None:
    plain = sj.value_and_grad(loss, argnums=(1, 2))
    value, slopes = plain(*weights())
    f = sj.mixed(plain)
    got, found = f(*weights())
    assert 0 < abs(got - value) < 1e-3 * value
    assert all(0 < relative(a, b) < 2e-2 for a, b in zip(found, slopes, strict=True))
    assert multiplied(f.function(*weights())) >= 4  # the step's, its gradient's and those of the weights
    for mode in ("reference", "emulate"):
        again, others = sj.jit(lambda *args: f(*args), mode=mode)(*weights())
        assert abs(again - got) < 1e-6 * got
        assert all(relative(a, b) < 2e-3 for a, b in zip(others, found, strict=True))  # ties may be rounded otherwise


def test_integers_in_a_loop() -> None:
    plain, f = sj.jit(lstm_outputs), sj.mixed(lstm_outputs, weights="int8")
    assert relative(f(*weights()), plain(*weights())) < 0.1
    assert multiplied(f.function(*weights()), "quads of int8") >= 1
    for mode in ("reference", "emulate"):
        again = sj.jit(lambda *args: f(*args), mode=mode)(*weights())
        # A number next to a tie may be rounded otherwise
        np.testing.assert_allclose(again, f(*weights()), rtol=0, atol=2e-2)


@pytest.mark.parametrize("format", ["bfloat16", "int8"])
def test_threads_make_no_difference(format: Any) -> None:
    args = normal(30, 40, I), *weights()[1:]
    f = sj.mixed(sj.value_and_grad(loss, argnums=(0, 1, 2)), weights=format)
    results = []
    for sj.config.threads in (1, 2, 3, 8):
        results.append(f(*args))
    for value, slopes in results[1:]:
        assert value == results[0][0]
        assert all((a == b).all() for a, b in zip(slopes, results[0][1], strict=True))


def test_derivatives_of_what_is_mixed() -> None:
    """The derivative of rounding counts as 1."""
    mixed = sj.mixed(loss)
    _, inside = sj.mixed(sj.value_and_grad(loss, argnums=(1, 2)))(*weights())
    _, outside = sj.value_and_grad(mixed, argnums=(1, 2))(*weights())
    assert all(relative(a, b) < 1e-2 for a, b in zip(outside, inside, strict=True))

    @sj.jit
    def curve(w: Any) -> Any:
        (slope,) = sj.grad(mixed(weights()[0], w, weights()[2]), [w])
        return sj.grad((slope**2).sum(), w)

    assert np.isfinite(curve(weights()[1])).all()


def test_a_state_that_is_rounded_in_each_step_but_not_at_first() -> None:
    """Without a step, the last state is the first one, which need not be rounded."""
    w, h = normal(20, 20, scale=0.2), normal(3, 20)
    x = sj.tensor((None, 3, 20), dtype="float32")
    for mode in ("numba", "reference"):
        states = sj.scan(lambda row, h: (row + h) @ w, x, sj.constant(h))
        f = sj.mixed(sj.function([x], sj.concatenate([sj.constant(h)[None], states])[-1] @ w, mode=mode))
        np.testing.assert_allclose(f(normal(0, 3, 20)), exact(h, w), rtol=1e-4, atol=1e-5)


def test_branches_and_batches_of_problems() -> None:
    w = normal(20, 6)
    f = sj.mixed(lambda x: sj.ifelse(x.sum() > 0, lambda: x @ w, lambda: -(x @ w)))
    for x in (np.abs(normal(3, 20)), -np.abs(normal(3, 20))):
        np.testing.assert_allclose(f(x), np.sign(x.sum()) * exact(x, w), rtol=1e-5)
    many = sj.mixed(sj.vmap(lambda x, w: x @ w))
    a, b = normal(4, 3, 20), normal(4, 20, 5)
    np.testing.assert_allclose(many(a, b), exact(a, b), rtol=1e-4, atol=1e-5)


# ---- functions -------------------------------------------------------------------------------------------------------


def test_an_optimizer_works_on_weights_of_full_precision() -> None:
    W = sj.shared(normal(16, 4), "W")
    x = sj.tensor((None, 16), dtype="float32")
    cost = ((x @ W) ** 2).mean()
    f = sj.mixed(sj.function([x], cost, updates={W: W - 1e-4 * sj.grad(cost, W)}, name="train"))
    before, data = W.get_value(), normal(32, 16)
    first = f(data)
    moved = np.abs(W.get_value() - before).max()
    assert f.name == "train" and 0 < moved < 2**-9  # a step that weights of bfloat16 would not make
    for _ in range(200):
        last = f(data)
    assert last < 0.99 * first


def test_it_is_saved_and_pickled(tmp_path: Any) -> None:
    x, w = sj.matrix("x", dtype="float32"), sj.shared(normal(20, 5))
    f, data = sj.mixed(sj.function([x], x @ w)), normal(3, 20)
    f.save(tmp_path / "f.sj")
    for other in (sj.load(tmp_path / "f.sj"), pickle.loads(pickle.dumps(f))):
        np.testing.assert_array_equal(other(data), f(data))
        assert multiplied(other) == 1
    np.testing.assert_allclose(exported(f, tmp_path / "package").model(data), f(data), rtol=1e-4, atol=1e-5)
    g = pickle.loads(pickle.dumps(sj.mixed(loss)))
    assert g(*weights()) == sj.mixed(loss)(*weights())


def test_settings_of_jit_are_kept() -> None:
    @functools.partial(sj.jit, mode="reference", static_argnums=1)
    def power(x: Any, n: int) -> Any:
        return x @ x if n == 2 else x

    f, x = sj.mixed(power), normal(16, 16)
    assert f.mode == "reference" and f.__name__ == "power"
    np.testing.assert_allclose(f(x, 2), exact(x, x), rtol=1e-4, atol=1e-5)
    assert f(x, 1) is not x and (f(x, 1) == x).all()


def test_what_is_given_stays() -> None:
    """Products that make the arguments of a mixed function are not mixed."""
    half = sj.mixed(lambda y: y + 1)
    f, x = sj.jit(lambda x: half(x @ x)), normal(20, 20)
    np.testing.assert_array_equal(f(x), sj.jit(lambda x: x @ x + 1)(x))


def test_mixed_twice_is_mixed_once() -> None:
    x, data = sj.matrix("x", dtype="float32"), normal(20, 20)
    once = sj.mixed(sj.function([x], x @ x))
    np.testing.assert_array_equal(sj.mixed(once)(data), once(data))


def test_wrong_arguments() -> None:
    expected = r"the format of weights is unknown\n.*'float8'\n.*'bfloat16' or 'int8'(.|\n)*test_mixed.py"
    with pytest.raises(sj.ArgumentError, match=expected):
        sj.mixed(loss, weights="float8")  # type: ignore[call-overload]
    with pytest.raises(sj.ArgumentError, match=r"mixed takes a function\n.*3"):
        sj.mixed(3)  # type: ignore[call-overload]
