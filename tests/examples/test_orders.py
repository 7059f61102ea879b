"""A particle filter, beam search, a loss for rankings and a soft sort, beside plain NumPy and exhaustive search."""

import itertools

import numpy as np
import pytest

import scanjit as sj


@pytest.fixture
def orders(read_example):
    return read_example("orders")


@pytest.mark.parametrize("mode", ["reference", "numba"])
def test_the_particle_filter_beside_numpy(orders, mode, rng: np.random.Generator):
    count, length = 40, 15
    y, first, noise, offsets = sj.vector("y"), sj.tensor((count,)), sj.tensor(("T", count)), sj.vector("offsets")
    f = sj.function([y, first, noise, offsets], orders.particle_filter(y, first, noise, offsets), mode=mode)
    data = [rng.normal(size=shape) for shape in (length, count, (length, count))] + [rng.random(length)]
    means, total, particles = [], 0.0, data[1]
    for seen, moves, offset in zip(data[0], data[2], data[3], strict=True):
        particles = 0.9 * particles + moves
        likely = np.exp(-0.5 * (seen - particles) ** 2) / np.sqrt(2 * np.pi)
        weights, total = likely / likely.sum(), total + np.log(likely.mean())
        means.append((weights * particles).sum())
        drawn = np.searchsorted(np.cumsum(weights), (np.arange(count) + offset) / count)
        particles = particles[np.minimum(drawn, count - 1)]
    found = f(*data)
    np.testing.assert_allclose(found[0], means, rtol=1e-8)
    np.testing.assert_allclose(found[1], total, rtol=1e-8)


def test_the_particle_filter_beside_the_exact_one(orders, rng: np.random.Generator):
    """Of a linear model with normal noise, the Kalman filter gives the likelihood."""
    length, count = 10, 4000
    y, first, noise, offsets = sj.vector("y"), sj.tensor((count,)), sj.tensor(("T", count)), sj.vector("offsets")
    f = sj.function([y, first, noise, offsets], orders.particle_filter(y, first, noise, offsets))
    seen = rng.normal(size=length)
    mean, variance, exact = 0.0, 1.0, 0.0
    for value in seen:
        mean, variance = 0.9 * mean, 0.81 * variance + 1
        exact -= 0.5 * (np.log(2 * np.pi * (variance + 1)) + (value - mean) ** 2 / (variance + 1))
        gain = variance / (variance + 1)
        mean, variance = mean + gain * (value - mean), (1 - gain) * variance
    means, total = f(seen, rng.normal(size=count), rng.normal(size=(length, count)), rng.random(length))
    assert abs(total - exact) < 0.2 and abs(means[-1] - mean) < 0.1


@pytest.mark.quick(2)
@pytest.mark.parametrize("mode", ["reference", "numba"])
@pytest.mark.parametrize("width", [2, 30])
def test_beam_search(orders, mode, width, rng: np.random.Generator):
    kinds, length = 3, 3
    start, moves = sj.tensor((kinds,), name="start"), sj.tensor(("T", kinds, kinds), name="moves")
    f = sj.function([start, moves], orders.beam_search(start, moves, width), mode=mode)
    given = np.log(rng.dirichlet(np.ones(kinds))), np.log(rng.dirichlet(np.ones(kinds), (length, kinds)))

    def score(path):
        return given[0][path[0]] + sum(given[1][t, a, b] for t, (a, b) in enumerate(itertools.pairwise(path)))

    paths, scores = f(*given)
    real = scores > -np.inf
    np.testing.assert_allclose([score(path) for path in paths.T[real]], scores[real])
    assert (np.diff(scores[real]) <= 0).all()
    if width == 30:  # wide enough that nothing is lost
        best = sorted((score(path) for path in itertools.product(range(kinds), repeat=length + 1)), reverse=True)
        np.testing.assert_allclose(scores, best[:width])


def test_the_loss_of_rankings(orders, rng: np.random.Generator):
    scores, labels = rng.normal(size=6), rng.permutation(6).astype("float64")
    order = np.argsort(-labels)
    wanted = -sum(np.log(np.exp(scores[i]) / np.exp(scores[order[k:]]).sum()) for k, i in enumerate(order))
    a, b = sj.vector("scores"), sj.vector("labels")
    f = sj.function([a, b], orders.ranking_loss(a, b), mode="reference")
    np.testing.assert_allclose(f(scores, labels), wanted)
    sj.check_grad(lambda a: orders.ranking_loss(a, sj.constant(labels)), [scores])


def test_the_soft_sort(orders):
    x = np.array([2.0, 9.0, 4.0, -1.0])
    a = sj.vector("x")
    f = sj.function([a], orders.soft_sort(a, 1e-3), mode="reference")
    np.testing.assert_allclose(f(x), [9, 4, 2, -1])
    sj.check_grad(lambda x: orders.soft_sort(x, 2.0), [x])


def test_the_program(orders, capsys):
    orders.main(["--steps", "small"])
    printed = capsys.readouterr().out
    assert "particle filter" in printed and "order of the labels: True" in printed
