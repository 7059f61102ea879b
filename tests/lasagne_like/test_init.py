"""Initializers against the statistics and bounds that their formulas promise."""

from collections.abc import Callable

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like import init


def test_normal_and_uniform_have_the_moments_asked_for() -> None:
    sample = init.Normal(std=0.1, mean=2.0).sample((300, 200))
    assert abs(sample.mean() - 2.0) < 0.002 and abs(sample.std() - 0.1) < 0.002
    sample = init.Uniform(range=(1.0, 2.0)).sample((300, 200))
    assert 1 <= sample.min() < 1.001 and 1.999 < sample.max() <= 2
    sample = init.Uniform(std=0.5, mean=3.0).sample((300, 200))
    assert abs(sample.mean() - 3.0) < 0.01 and abs(sample.std() - 0.5) < 0.005
    assert init.Uniform(0.2).range == (-0.2, 0.2)


@pytest.mark.parametrize(
    "initializer, shape, std",
    [
        (init.GlorotNormal(), (100, 300), np.sqrt(2 / 400)),
        (init.GlorotNormal("relu"), (100, 300), np.sqrt(4 / 400)),
        (init.GlorotUniform(gain=2.0), (100, 300), 2 * np.sqrt(2 / 400)),
        (init.GlorotUniform(), (50, 20, 9), np.sqrt(2 / (70 * 9))),
        (init.GlorotNormal(c01b=True), (20, 3, 3, 50), np.sqrt(2 / (70 * 9))),
        (init.HeNormal(), (200, 100), np.sqrt(1 / 200)),
        (init.HeUniform("relu"), (200, 100), np.sqrt(2 / 200)),
        (init.HeNormal(), (100, 20, 9), np.sqrt(1 / 180)),
        (init.HeUniform(c01b=True), (20, 3, 3, 60), np.sqrt(1 / 180)),
    ],
)
def test_scaled_initializers(initializer: init.Initializer, shape: tuple[int, ...], std: float) -> None:
    sample = initializer(shape)
    assert sample.shape == shape
    assert abs(sample.std() / std - 1) < 0.03
    assert abs(sample.mean()) < 0.05 * std
    if "Uniform" in type(initializer).__name__:
        assert abs(sample).max() <= np.sqrt(3) * std


def test_constant_and_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (init.Constant(1.5)((2, 3)) == 1.5).all()
    monkeypatch.setattr(sj.config, "floatX", "float32")
    kinds = (init.Constant, init.Normal, init.GlorotUniform, init.HeNormal, init.Sparse, init.Orthogonal)
    for each in (kind() for kind in kinds):
        assert each((4, 3)).dtype == np.float32


def test_sparse_has_a_fixed_number_of_entries_in_each_column() -> None:
    sample = init.Sparse(0.25, std=0.5)((40, 30))
    assert ((sample != 0).sum(axis=0) == 10).all()
    assert abs(sample[sample != 0].std() - 0.5) < 0.06
    with pytest.raises(RuntimeError, match=r"\(2, 3, 4\)"):
        init.Sparse()((2, 3, 4))


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (4, 2, 6)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    w = init.Orthogonal("relu")(shape).reshape(shape[0], -1)
    gram = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    np.testing.assert_allclose(gram, 2 * np.eye(len(gram)), atol=1e-12)


def test_errors_name_the_shape() -> None:
    for each in (init.GlorotUniform(), init.HeNormal(), init.Orthogonal()):
        with pytest.raises(RuntimeError, match=r"\(3,\)"):
            each((3,))
    with pytest.raises(RuntimeError, match="4 dimensions"):
        init.GlorotUniform(c01b=True)((3, 4))
    with pytest.raises(ValueError, match="'tanh'"):
        init.GlorotUniform("tanh")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: init.Normal("a"), "std of Normal must be a number that is at least 0, got 'a'"),
        (lambda: init.Normal(0.1, None), "mean of Normal must be a number, got None"),
        (lambda: init.Uniform("a"), "range of Uniform must be a number, got 'a'"),
        (lambda: init.Uniform((1, 2, 3)), r"range of Uniform must be a number or two bounds, got \(1, 2, 3\)"),
        (lambda: init.Uniform(std=-1), "std of Uniform must be a number that is at least 0, got -1"),
        (lambda: init.Constant("a"), "val of Constant must be a number, got 'a'"),
        (lambda: init.Constant([[1], [2]])((3, 2)), r"val of Constant has shape \(2, 1\), which does not fit \(3, 2\)"),
        (lambda: init.Constant(np.ones((5, 3, 2)))((3, 2)), r"val of Constant has shape \(5, 3, 2\)"),
        (lambda: init.Sparse(2), "sparsity of Sparse must be a number that is at least 0 and at most 1, got 2"),
        (lambda: init.Sparse(0.1, "a"), "std of Sparse must be a number that is at least 0, got 'a'"),
        (lambda: init.GlorotUniform(None), "gain of GlorotUniform must be a number, got None"),
        (lambda: init.Orthogonal([1]), r"gain of Orthogonal must be a number, got \[1\]"),
        (lambda: init.Glorot(3), "initializer of Glorot must be a class or function"),
        (lambda: init.He(init.Normal()), "initializer of He must be a class or function"),
    ],
)
def test_errors_name_the_argument(make: Callable[[], object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_makes_samples_reproducible(make: type) -> None:
    samples = []
    for _ in range(2):
        lasagne.random.set_rng(make(7))
        assert isinstance(lasagne.random.get_rng(), np.random.Generator | np.random.RandomState)
        shapes = [each((6, 4)) for each in (init.Normal(), init.HeUniform(), init.Sparse(), init.Orthogonal())]
        samples.append([*shapes, np.array(lasagne.random.new_seed())])
    for first, second in zip(*samples, strict=True):
        np.testing.assert_array_equal(first, second)


def test_the_global_generator_is_the_default_one() -> None:
    lasagne.random.set_rng(np.random)
    np.random.seed(3)
    first = init.Normal()((3, 3))
    np.random.seed(3)
    np.testing.assert_array_equal(first, init.Normal()((3, 3)))
    with pytest.raises(TypeError, match="numpy"):
        lasagne.random.set_rng(1234)
