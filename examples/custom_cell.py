"""A recurrent cell of one's own, in fifteen lines, at full speed.

The cell says what parameters it has and what one step is, in NumPy's words. `RNNLayer` loops over it, with masks,
stacks, both directions and all; gradients and compiled code are made from the step, as they are for the LSTM that
comes with the library. Both learn to be a memory of switches: each of several inputs is sometimes pushed up or down,
and the output has to say how each was pushed last.

    python examples/custom_cell.py                       # in some seconds
    python examples/custom_cell.py --steps small         # all in small, in a moment
"""

import argparse
import time

import numpy as np

import lasagne_like as lasagne
import scanjit as sj


class MinimalGatedUnit(lasagne.cells.Cell):
    """One gate that both forgets and takes in (Zhou et al., 2016)."""

    def __init__(self, num_units, **kwargs):
        super().__init__(**kwargs)
        self.state_shape = (num_units,)

    def make_params(self, input_shape):
        sizes = (input_shape[0] + self.state_shape[0], *self.state_shape)
        self.W_gate = self.add_param(lasagne.init.GlorotUniform(), sizes, name="W_gate")
        self.W_hid = self.add_param(lasagne.init.GlorotUniform(), sizes, name="W_hid")

    def step(self, x, h):
        gate = sj.sigmoid(np.concatenate([x, h], axis=1) @ self.W_gate)
        h = (1 - gate) * h + gate * np.tanh(np.concatenate([x, gate * h], axis=1) @ self.W_hid)
        return h, h


def generate(random, batch, length, switches):
    """Pushes (batch, time, switches), and where the switches are after them."""
    shape = (batch, length, switches)
    pushes = random.choice([-1.0, 1.0], shape) * (random.uniform(size=shape) < 0.1)
    states = np.zeros(shape)
    for t in range(length):
        states[:, t] = np.where(pushes[:, t] != 0, pushes[:, t], states[:, t - 1] if t else 0)
    return pushes.astype(sj.config.floatX), states.astype(sj.config.floatX)


def compile_training(cell, switches, rate=0.01):
    """A function of (pushes, states) that makes one step of Adam and returns the squared error before it."""
    l_in, states = lasagne.layers.InputLayer((None, None, switches)), sj.tensor3("states")
    l_rnn = lasagne.layers.RNNLayer(l_in, cell)
    l_out = lasagne.layers.DenseLayer(l_rnn, switches, nonlinearity=None, num_leading_axes=2)
    error = lasagne.objectives.squared_error(lasagne.layers.get_output(l_out), states).mean()
    updates = lasagne.updates.adam(error, lasagne.layers.get_all_params(l_out, trainable=True), rate)
    return sj.function([l_in.input_var, states], error, updates=updates), lasagne.layers.count_params(l_rnn)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="A recurrent cell of one's own, in fifteen lines, at full speed.")
    parser.add_argument("--steps", default="400", help="how many steps of training; 'small' for a quick run")
    options = parser.parse_args(arguments)
    small = options.steps == "small"
    steps, batch, length, units, switches = (300, 8, 12, 16, 2) if small else (int(options.steps), 32, 50, 64, 3)

    sj.config.floatX = "float32"
    lasagne.random.set_rng(np.random.default_rng(1))
    print(f"{'':20}{'parameters':>12}{'compiled in':>14}{'a step':>12}{'per parameter':>16}{'squared error':>16}")
    for cell in (MinimalGatedUnit(units), lasagne.cells.LSTM(units)):
        random = np.random.default_rng(0)
        start = time.perf_counter()
        train, parameters = compile_training(cell, switches)
        compiled = time.perf_counter() - start

        errors, times = [], []
        for _ in range(steps):
            pushes, states = generate(random, batch, length, switches)
            start = time.perf_counter()
            errors.append(train(pushes, states))
            times.append(time.perf_counter() - start)
        step, error = np.median(times), np.mean(errors[-5:])
        print(
            f"{type(cell).__name__:20}{parameters:12}{compiled:12.1f} s{1e3 * step:9.2f} ms"
            f"{1e9 * step / parameters:13.1f} ns{error:16.4f}"
        )
        if small or steps >= 400:
            assert error < 0.2 * np.mean(states**2)


if __name__ == "__main__":
    main()
