"""The hidden Markov model against all paths of states, one by one."""

import itertools

import numpy as np
import pytest

import scanjit as sj


@pytest.fixture
def hmm(read_example):
    return read_example("hmm")


def all_paths(start, moves, emissions):
    """Every path of states, and the likelihood of it together with what was seen."""
    length, states = emissions.shape
    for path in itertools.product(range(states), repeat=length):
        likelihood = start[path[0]] * np.prod([moves[i, j] for i, j in itertools.pairwise(path)])
        yield path, likelihood * np.prod([emissions[t, i] for t, i in enumerate(path)])


def distributions(rng, *shape):
    return rng.dirichlet(np.ones(shape[-1]), shape[:-1])


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_against_all_paths(hmm, mode, rng):
    start, moves, emissions = distributions(rng, 3), distributions(rng, 3, 3), rng.uniform(size=(5, 3))
    paths, likelihoods = zip(*all_paths(start, moves, emissions), strict=True)
    paths, likelihoods = np.array(paths), np.array(likelihoods)

    symbols = [sj.vector("start"), sj.matrix("moves"), sj.matrix("emissions")]
    logs = [np.log(x) for x in symbols]
    total = hmm.log_likelihood(*logs)
    path, best = hmm.viterbi(*logs)
    states, pairs = sj.grad(total, [logs[2], logs[1]])
    outputs = [total, states, pairs, path, best]
    total, states, pairs, path, best = sj.function(symbols, outputs, mode=mode)(start, moves, emissions)

    np.testing.assert_allclose(total, np.log(likelihoods.sum()), rtol=1e-12)
    weights = likelihoods / likelihoods.sum()
    one_hot = np.eye(3)[paths]  # (paths, time, states)
    np.testing.assert_allclose(states, np.einsum("p,pti->ti", weights, one_hot), rtol=1e-10)
    wanted = np.einsum("p,pti,ptj->ij", weights, one_hot[:, :-1], one_hot[:, 1:])
    np.testing.assert_allclose(pairs, wanted, rtol=1e-10)
    np.testing.assert_array_equal(path, paths[likelihoods.argmax()])
    np.testing.assert_allclose(best, np.log(likelihoods.max()), rtol=1e-12)


def test_a_step_of_baum_and_welch_against_all_paths(hmm, rng):
    values = [distributions(rng, 2), distributions(rng, 2, 2), distributions(rng, 2, 6)]
    games = rng.integers(0, 6, (3, 4))
    start, moves, faces = np.zeros(2), np.zeros((2, 2)), np.zeros((2, 6))
    for game in games:
        pairs = list(all_paths(values[0], values[1], values[2].T[game]))
        total = sum(likelihood for _, likelihood in pairs)
        for path, likelihood in pairs:
            start[path[0]] += likelihood / total
            for i, j in itertools.pairwise(path):
                moves[i, j] += likelihood / total
            for i, face in zip(path, game, strict=True):
                faces[i, face] += likelihood / total
    parameters = [sj.shared(value) for value in values]
    hmm.compile_baum_welch(parameters, "reference")(games)
    for found, counts in zip(parameters, (start, moves, faces), strict=True):
        np.testing.assert_allclose(found.get_value(), counts / counts.sum(axis=-1, keepdims=True), rtol=1e-10)


def test_the_example(hmm, capsys):
    hmm.main(["--steps", "small", "--mode", "reference"])  # asserts itself that the likelihood never falls
    assert "fair die stays" in capsys.readouterr().out
