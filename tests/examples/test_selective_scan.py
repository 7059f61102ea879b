"""The selective scan against a loop by hand, and against the layer of the library."""

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj


@pytest.fixture
def example(read_example):
    return read_example("selective_scan")


def by_hand(u, delta, A, B, C):
    """One sequence, one feature and one state after the other."""
    time, batch, features = u.shape
    y = np.zeros_like(u)
    for b in range(batch):
        for d in range(features):
            for n in range(A.shape[1]):
                h = 0.0
                for t in range(time):
                    h = np.exp(delta[t, b, d] * A[d, n]) * h + delta[t, b, d] * u[t, b, d] * B[t, b, n]
                    y[t, b, d] += C[t, b, n] * h
    return y


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_against_a_loop_by_hand(example, mode, rng):
    T, B, D, N = 5, 2, 3, 4
    arrays = [rng.normal(size=shape) for shape in [(T, B, D), (T, B, D), (D, N), (T, B, N), (T, B, N)]]
    arrays[1], arrays[2] = np.exp(arrays[1]), -np.exp(arrays[2])
    symbols = [sj.tensor(shape) for shape in [("T", "B", D), ("T", "B", D), (D, N), ("T", "B", N), ("T", "B", N)]]
    run = sj.function(symbols, example.selective_scan(*symbols), mode=mode)
    np.testing.assert_allclose(run(*arrays), by_hand(*arrays), rtol=1e-10)


def test_against_the_cell_of_the_library(example, rng):
    lasagne.random.set_rng(rng)
    cell = lasagne.cells.S6(num_states=3, rank=2, skip=lasagne.init.Constant(0.0))
    l_in = lasagne.layers.InputLayer((None, None, 4))
    theirs = lasagne.layers.get_output(lasagne.layers.RNNLayer(l_in, cell))
    u = l_in.input_var.transpose(1, 0, 2)
    delta = sj.softplus(u @ cell.W_in_to_delta @ cell.W_delta + cell.b_delta)
    ours = example.selective_scan(u, delta, -np.exp(cell.A_log), u @ cell.W_in_to_B, u @ cell.W_in_to_C)
    found = sj.function([l_in.input_var], [ours.transpose(1, 0, 2), theirs], mode="reference")(
        rng.normal(size=(2, 5, 4))
    )
    np.testing.assert_allclose(*found, rtol=1e-10)


def test_the_task(example):
    sequences, wanted = example.generate(np.random.default_rng(0), 20, places=9, letters=3)
    assert sequences.shape == (20, 12) and (sequences[:, 9:] == example.QUESTION).all()
    for sequence, word in zip(sequences, wanted, strict=True):
        read = sequence[:9]
        np.testing.assert_array_equal(read[read > 0], word)


def test_the_example(example):
    example.main(["--steps", "small", "--mode", "reference"])  # asserts itself that it learns
