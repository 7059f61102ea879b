"""The adding problem: remember two numbers among many, and add them.

Each sequence is of noise, and two of its steps are marked: one in the first half, one in the second. The sum of the
numbers there is asked for after the last step. The sequences differ in length, so a mask says where each one ends.
Guessing 1, the mean, has a squared error of 1/6; a recurrent layer that remembers does a lot better.

    python examples/adding_problem.py                    # a GRU, in some seconds
    python examples/adding_problem.py --cell lstm
    python examples/adding_problem.py --steps small      # all in small, in a moment
"""

import argparse
import time

import numpy as np

import lasagne_like as lasagne
import scanjit as sj

LAYERS = {"gru": lasagne.layers.GRULayer, "lstm": lasagne.layers.LSTMLayer}


def generate(random, batch, longest):
    """Numbers with marks beside them (batch, time, 2), the mask (batch, time), and the sums (batch,)."""
    lengths = random.integers(longest * 3 // 4, longest + 1, batch)
    mask = np.arange(longest) < lengths[:, None]
    numbers, marks = random.uniform(size=(batch, longest)), np.zeros((batch, longest))
    rows = np.arange(batch)
    first, second = random.integers(0, lengths // 2), random.integers(lengths // 2, lengths)
    marks[rows, first] = marks[rows, second] = 1
    sums = numbers[rows, first] + numbers[rows, second]
    return [array.astype(sj.config.floatX) for array in (np.stack([numbers - 0.5, marks], axis=2), mask, sums)]


def build(kind, units):
    """The network as Lasagne builds it, and its input layers."""
    l_in, l_mask = lasagne.layers.InputLayer((None, None, 2)), lasagne.layers.InputLayer((None, None))
    l_rnn = LAYERS[kind](l_in, units, mask_input=l_mask, only_return_final=True, name=kind)
    l_out = lasagne.layers.DenseLayer(l_rnn, 1, nonlinearity=None, b=lasagne.init.Constant(1.0), name="sum")
    return l_in, l_mask, l_out


def compile_functions(l_in, l_mask, l_out, rate):
    """Functions of (numbers and marks, mask, sums) that train and that only look: both return the squared error."""
    sums = sj.vector("sums")
    error = lasagne.objectives.squared_error(lasagne.layers.get_output(l_out)[:, 0], sums).mean()
    params = lasagne.layers.get_all_params(l_out, trainable=True)
    grads = lasagne.updates.total_norm_constraint(sj.grad(error, params), max_norm=1.0)
    inputs = [l_in.input_var, l_mask.input_var, sums]
    train = sj.function(inputs, error, updates=lasagne.updates.adam(grads, params, learning_rate=rate), name="train")
    return train, sj.function(inputs, error, name="evaluate")


def main(arguments=None):
    parser = argparse.ArgumentParser(description="The adding problem: remember two numbers among many, and add them.")
    parser.add_argument("--cell", default="gru", choices=LAYERS)
    parser.add_argument("--steps", default="600", help="how many steps of training; 'small' for a quick run")
    parser.add_argument("--length", type=int, default=50, help="of the longest sequences")
    options = parser.parse_args(arguments)
    small = options.steps == "small"
    steps, longest, units = (300, 8, 16) if small else (int(options.steps), options.length, 48)

    sj.config.floatX = "float32"
    random = np.random.default_rng(0)
    lasagne.random.set_rng(np.random.default_rng(1))
    start = time.perf_counter()
    train, evaluate = compile_functions(*build(options.cell, units), rate=0.01)
    print(f"compiled in {time.perf_counter() - start:.1f} s")

    start, test = time.perf_counter(), generate(random, 1000, longest)
    for i in range(steps):
        train(*generate(random, 64, longest))
        if (i + 1) % (steps // 10 or 1) == 0:
            print(f"step {i + 1:5}   squared error {evaluate(*test):.4f}   {time.perf_counter() - start:5.1f} s")

    error, guess = float(evaluate(*test)), float(np.var(test[2]))
    print(f"\nsquared error of the {options.cell}: {error:.4f}; of guessing the mean: {guess:.4f}")
    if small or steps >= 600:
        assert error < (0.5 if small else 0.1) * guess


if __name__ == "__main__":
    main()
