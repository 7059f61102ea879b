"""`Stream`: the same numbers in every mode and arrangement, other ones in every draw and call; states and errors."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ops import random as ops
from scanjit.random import Stream
from scanjit.runtime import host
from tests.random.support import SEED, drawn, identical
from tests.targets import with_vectors


def several(stream: Stream) -> list[Any]:
    return [
        stream.normal((3, 5)),
        stream.normal((2, 9), dtype="float32"),
        stream.uniform((17,)),
        stream.uniform((17,), dtype="float32"),
        stream.bernoulli((19,), 0.4),
        stream.bernoulli((2, 3, 4), 0.4, "float32"),
        stream.integers(-3, 4, (11,)),
        stream.categorical(p=[0.2, 0.0, 0.8], shape=(9,)),
        stream.permutation(7),
        stream.choice(6, (2, 2)),
        stream.choice(6, (2, 2), replace=False),
    ]


# ---- the same numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_modes_agree(mode: str) -> None:
    for calls in (1, 2):
        identical(drawn(several, mode, calls), drawn(several, "reference", calls))


@pytest.mark.quick(2)
@pytest.mark.parametrize("size", [4, 16, 32, 64])
def test_widths_of_vectors_agree(size: int) -> None:
    with host.using(with_vectors(size)):
        identical(drawn(several, "emulate"), drawn(several, "reference"))


def test_numbers_of_threads_agree() -> None:
    def build(stream: Stream) -> list[Any]:
        states = sj.scan(lambda h: 0.5 * h + stream.normal(h.shape), outputs_info=np.zeros((40, 50)), n_steps=30)
        return [stream.normal((300, 401), dtype="float32"), states]

    results = []
    for sj.config.threads in (1, 3):
        results.append(drawn(build, "numba"))
    identical(results[0], results[1])
    identical(results[0][0], drawn(build)[0])


@pytest.mark.parametrize("mode", ["reference", "emulate"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (1, 1), (0, 3), (3, 0), (2, 1, 3), (1, 7)])
def test_shapes(shape: tuple[int, ...], mode: str) -> None:
    """An element's number depends on its place in row-major order alone, whether sizes are known or not."""
    x = sj.tensor((None,) * len(shape))
    for dtype in ("float64", "float32"):
        flat = drawn(lambda s, dtype=dtype: s.normal((int(np.prod(shape)),), dtype=dtype))
        known = drawn(lambda s, dtype=dtype: s.normal(shape, dtype=dtype), mode)
        symbolic = sj.function([x], Stream(SEED).normal(x.shape, dtype=dtype), mode=mode)(np.zeros(shape))
        identical(known, flat.reshape(shape))
        identical(symbolic, known)


def test_shapes_of_integer_symbols() -> None:
    n = sj.iscalar("n")
    f = sj.function([n], Stream(1).uniform((n, 2)), mode="emulate")
    identical(f(np.int32(3))[:2], sj.function([n], Stream(1).uniform((n, 2)), mode="reference")(np.int32(2)))


def test_views_and_fusion_change_nothing() -> None:
    def build(stream: Stream) -> list[Any]:
        x = stream.normal((6, 8))
        return [x, x.T, x[1::2, ::-1], (x * 2).sum(0), x[3]]

    whole, *parts = drawn(build, "emulate")
    identical(parts[:2], [whole.T, whole[1::2, ::-1]])
    identical(parts[3], whole[3])
    np.testing.assert_allclose(parts[2], (whole * 2).sum(0))


def test_the_key_is_made_of_seed_draw_and_call() -> None:
    """The definition, written out with the op's reference: what is stored today must be drawn tomorrow."""
    stream = Stream(7)
    f = sj.function([], [stream.uniform((4,)), stream.normal((4,), dtype="float32")], mode="reference")
    f()
    for number, found in enumerate(f()):
        key = ops.RANDOM_BITS.reference(np.int64(7), np.int64(number), np.int64(1))
        op = (ops.RANDOM_UNIFORM, ops.RANDOM_NORMAL)[number]
        identical(found, op.reference(key, np.int64(0), np.arange(4), dtype=found.dtype))


def test_numbers_stay_what_they_are() -> None:
    """From release to release."""
    identical(drawn(lambda s: s.uniform((2,)), seed=1), np.array([0.30801478990355124, 0.21021679114494385]))
    identical(drawn(lambda s: s.normal((2,)), seed=1), np.array([-0.6763884592000371, 0.3288519060608901]))
    identical(drawn(lambda s: s.permutation(8), seed=1), np.array([2, 6, 1, 3, 4, 7, 5, 0]))


# ---- other numbers ---------------------------------------------------------------------------------------------------


def test_draws_calls_and_seeds_differ() -> None:
    stream = Stream(3)
    f = sj.function([], [stream.uniform((50,)), stream.uniform((50,))], mode="reference")
    values = [*f(), *f(), drawn(lambda s: s.uniform((50,)), seed=4)]
    assert len(set(np.concatenate(values).tolist())) == 250


def test_one_draw_used_twice_is_one() -> None:
    stream = Stream(3)
    x = stream.normal((5,))
    a, b = sj.function([], [x, x - x], mode="emulate")()
    assert np.all(b == 0) and np.any(a != 0)


def test_functions_share_the_count_of_calls() -> None:
    stream = Stream(3)
    x = stream.uniform((3,))
    f, g = (sj.function([], x, mode="reference") for _ in range(2))
    first, second = f(), g()
    assert np.all(first != second) and stream.get_state() == (3, 2)
    stream.seed(3)
    identical([g(), f()], [first, second])


def test_functions_without_draws_do_not_count() -> None:
    stream = Stream(3)
    stream.uniform((3,))
    sj.function([], sj.ones((2,)), mode="reference")()
    assert stream.get_state() == (3, 0)


def test_updates_that_are_given_take_precedence() -> None:
    stream = Stream(3)
    x = stream.uniform((3,))
    frozen = sj.function([], x, updates={stream.state: stream.state}, mode="emulate")
    identical(frozen(), frozen())
    assert stream.get_state() == (3, 0)


def test_draws_in_updates_count_too() -> None:
    stream, noise = Stream(3), sj.shared(np.zeros(2))
    f = sj.function([], updates={noise: stream.normal((2,))}, mode="reference")
    f()
    first = noise.get_value()
    f()
    assert stream.get_state() == (3, 2) and np.all(noise.get_value() != first)


def test_givens_replace_the_state() -> None:
    stream = Stream(3)
    state = sj.ivector("state").astype("int64")
    x = stream.uniform((3,))
    given = sj.lvector("state")
    f = sj.function([given], x, givens={stream.state: given}, mode="reference")
    identical(f(np.array([3, 0])), drawn(lambda s: s.uniform((3,)), seed=3))
    identical(f(np.array([3, 1])), drawn(lambda s: s.uniform((3,)), calls=2, seed=3))
    assert stream.get_state() == (3, 0) and state.dtype == np.int64


def test_jit() -> None:
    stream = Stream(5)
    f = sj.jit(lambda x: x + stream.normal(x.shape), mode="reference")
    first = f(np.zeros(4))
    assert np.all(f(np.zeros(4)) != first)
    stream.seed(5)
    identical(f(np.zeros(4)), first)
    assert f(np.zeros(2)).shape == (2,)


def test_two_streams_of_one_seed_are_alike() -> None:
    identical(drawn(several, seed=2**64 - 1), drawn(several, seed=2**64 - 1))


def test_after_an_error_the_state_is_as_before() -> None:
    stream, i = Stream(3), sj.lscalar("i")
    f = sj.function([i], stream.uniform((3,))[i], mode="reference")
    with pytest.raises(sj.OutOfBoundsError):
        f(5)
    assert stream.get_state() == (3, 0)


# ---- states ----------------------------------------------------------------------------------------------------------


def test_states() -> None:
    stream = Stream(2**63 + 5)
    f = sj.function([], stream.normal((3,)), mode="reference")
    f()
    state = stream.get_state()
    assert state == (2**63 + 5, 1)
    later = [f(), f()]
    stream.set_state(state)
    identical([f(), f()], later)
    assert "3 calls" in repr(stream)


def test_seeds_of_the_system_differ() -> None:
    assert Stream().get_state() != Stream().get_state()
    assert Stream(np.int32(4)).get_state() == (4, 0)


def test_pickles() -> None:
    stream = Stream(3)
    f = sj.function([], stream.normal((3,)), mode="reference")
    f()
    again, other = pickle.loads(pickle.dumps((f, stream)))
    identical([again(), again()], [f(), f()])
    assert other.get_state() == (3, 3)
    new = [sj.function([], one.normal((3,)), mode="reference") for one in (other, stream)]
    identical(new[0](), new[1]())


# ---- parameters ------------------------------------------------------------------------------------------------------


def test_location_and_scale() -> None:
    z = drawn(lambda s: s.normal((2, 3)))
    u = drawn(lambda s: s.uniform((2, 3)))
    loc, scale = np.array([[1.0], [2.0]]), np.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(drawn(lambda s: s.normal((2, 3), loc, scale), "emulate"), loc + scale * z, rtol=1e-14)
    np.testing.assert_allclose(drawn(lambda s: s.normal(loc=loc, scale=scale)), loc + scale * z, rtol=1e-14)
    np.testing.assert_allclose(drawn(lambda s: s.uniform((2, 3), -2, 4)), -2 + 6 * u, rtol=1e-14)
    np.testing.assert_allclose(drawn(lambda s: s.uniform((2, 3), 0, scale)), scale * u, rtol=1e-14)


def test_dtypes() -> None:
    stream = Stream(1)
    narrow = sj.vector("narrow", "float32")
    assert stream.normal((2,)).dtype == np.float64
    assert stream.normal(loc=narrow).dtype == np.float32
    assert stream.normal(loc=narrow, scale=2.0).dtype == np.float32
    assert stream.normal(loc=narrow, dtype="float64").dtype == np.float64
    assert stream.uniform(low=0, high=sj.vector("wide")).dtype == np.float64
    assert stream.bernoulli((2,), 0.5).dtype == np.bool_
    assert stream.bernoulli(p=narrow, dtype="int8").dtype == np.int8
    assert stream.integers(5, dtype="int32").dtype == np.int32
    assert stream.integers(-128, 128, dtype="int8").dtype == np.int8
    assert stream.categorical(np.zeros(128), dtype="int8").dtype == np.int8
    assert stream.categorical(narrow, dtype="int32").dtype == np.int32
    sj.config.floatX = "float32"
    assert stream.normal((2,)).dtype == np.float32


def test_probabilities_at_their_ends() -> None:
    p = sj.vector("p")
    f = sj.function([p], Stream(1).bernoulli((100, 5), p), mode="emulate")
    found = f(np.array([0.0, 1.0, -3.0, 2.0, np.nan]))
    assert [set(column.tolist()) for column in found.T] == [{False}, {True}, {False}, {True}, {False}]


def test_categories_of_no_probability_are_not_drawn() -> None:
    p = np.array([[0, 0.5, 0, 0.5, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0]])
    with np.errstate(divide="ignore"):
        logits = np.log(p)
    for build in (lambda s: s.categorical(p=p, shape=(500, 3)), lambda s: s.categorical(logits, shape=(500, 3))):
        found = drawn(build)
        assert set(found[:, 0].tolist()) == {1, 3} and set(found[:, 1]) == {4} and set(found[:, 2]) == {0}


def test_choice_of_rows() -> None:
    rows = np.arange(12.0).reshape(6, 2)
    for replace in (True, False):
        found = drawn(lambda s, replace=replace: s.choice(rows, (4,), replace), "emulate")
        places = drawn(lambda s, replace=replace: s.choice(6, (4,), replace))
        identical(found, rows[places])
        assert replace or len(set(places.tolist())) == 4
    identical(drawn(lambda s: s.permutation(rows), "emulate"), rows[drawn(lambda s: s.permutation(6))])
    assert drawn(lambda s: s.choice(5)).shape == ()


def test_weighted_choice_without_replacement() -> None:
    p = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
    found = drawn(lambda s: s.choice(5, (2, 2), replace=False, p=p), "emulate")
    assert sorted(found.ravel().tolist()) == [1, 2, 3, 4]


def test_permutations_of_symbolic_sizes() -> None:
    x = sj.vector("x")
    for mode in ("reference", "emulate"):
        stream = Stream()
        f = sj.function([x], stream.permutation(x), mode=mode)
        for n in (0, 1, 9):
            stream.seed(SEED)
            identical(f(np.arange(float(n))), drawn(lambda s, n=n: s.permutation(n)).astype(float))


def test_gradients_pass_to_location_and_scale() -> None:
    loc, scale, low = sj.vector("loc"), sj.vector("scale"), sj.vector("low")
    stream = Stream(1)
    z = stream.normal((3,))
    x = loc + scale * z + stream.uniform((3,), low, 2.0) + stream.bernoulli((3,), 0.5, "float64")
    f = sj.function([loc, scale, low], [*sj.grad(x.sum(), [loc, scale, low]), z], mode="emulate")
    by_loc, by_scale, by_low, value = f(*np.ones((3, 3)))
    identical([by_loc, by_scale], [np.ones(3), value])
    assert np.all((by_low > 0) & (by_low <= 1))


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "seed"])
def test_seeds_that_are_none(seed: Any) -> None:
    with pytest.raises(sj.ArgumentError, match="seed"):
        Stream(seed)
    stream = Stream(1)
    with pytest.raises(sj.ArgumentError, match="seed"):
        stream.seed(seed)
    assert stream.get_state() == (1, 0)


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda s: s.uniform((3,), 2.0, 1.0), sj.ArgumentError, "low <= high"),
        (lambda s: s.uniform(None, np.array([0.0, 2.0]), 1.0), sj.ArgumentError, "low <= high"),
        (lambda s: s.normal((3,), 0.0, -1.0), sj.ArgumentError, "0 or more"),
        (lambda s: s.bernoulli((3,), 1.5), sj.ArgumentError, "from 0 to 1"),
        (lambda s: s.bernoulli((3,), np.array([0.5, -0.1, 0.2])), sj.ArgumentError, "from 0 to 1"),
        (lambda s: s.bernoulli((3,), float("nan")), sj.ArgumentError, "from 0 to 1"),
        (lambda s: s.normal((3,), dtype="int64"), sj.DtypeError, "floats"),
        (lambda s: s.normal((3,), np.zeros(4)), sj.ShapeError, None),
        (lambda s: s.normal((-3,)), sj.ShapeError, "negative"),
        (lambda s: s.integers(3, 3), sj.ArgumentError, "no integer"),
        (lambda s: s.integers(300, dtype="int8"), sj.ArgumentError, "do not fit int8"),
        (lambda s: s.integers(-1, 5, dtype="uint8"), sj.ArgumentError, "do not fit uint8"),
        (lambda s: s.integers(np.array([3, 0]), np.array([9, 129]), dtype="int8"), sj.ArgumentError, "fit int8"),
        (lambda s: s.integers(3, dtype="bool"), sj.ArgumentError, "do not fit bool"),
        (lambda s: s.integers(-(2**63), 2**63 - 1), sj.ArgumentError, "too wide"),
        (lambda s: s.categorical(np.zeros(129), dtype="int8"), sj.ArgumentError, "do not fit int8"),
        (lambda s: s.choice(0), sj.ArgumentError, "from 0, below 0"),
        (lambda s: s.integers(2.5), sj.DtypeError, "integers"),
        (lambda s: s.categorical(), sj.ArgumentError, "neither"),
        (lambda s: s.categorical([0.5], [0.5]), sj.ArgumentError, "both"),
        (lambda s: s.categorical(p=[0.5, -0.5]), sj.ArgumentError, "negative"),
        (lambda s: s.categorical(p=[0.0, 0.0]), sj.ArgumentError, "all 0"),
        (lambda s: s.categorical(p=0.5), sj.ShapeError, "axis"),
        (lambda s: s.categorical(p=np.zeros((2, 0))), sj.ShapeError, "at least one"),
        (lambda s: s.choice(3, (4,), replace=False), sj.ScanjitError, "choice of 4 from 3"),
        (lambda s: s.choice(3, (2,), p=[0.5, 0.5]), sj.ShapeError, "probabilities"),
        (lambda s: s.permutation(2**32), sj.ArgumentError, "2\\*\\*32"),
        (lambda s: s.set_state(5), sj.ArgumentError, "state"),
    ],
)
def test_errors(build: Any, error: type[Exception], text: str | None) -> None:
    with pytest.raises(error, match=text):
        build(Stream(1))


def test_too_many_to_choose_at_run_time() -> None:
    x = sj.vector("x")
    f = sj.function([x], Stream(1).choice(x, (4,), replace=False), mode="emulate")
    assert f(np.arange(4.0)).shape == (4,)
    with pytest.raises(sj.ScanjitError, match="choice of 4 from 3"):
        f(np.arange(3.0))
