"""Forecast a chaotic series with a GRU, and let it dream on.

The series is that of Mackey and Glass, with noise: how much of a blood cell is made depends on how much there was a
while ago. A GRU learns to say the next value; a linear model of the last twelve values, fitted to the same data, does
the same. Then the cell, compiled for one step a call, goes on by itself, on what it has said before.

    python examples/timeseries.py                        # in some seconds
    python examples/timeseries.py --plot forecast.png    # a picture of it (needs matplotlib)
    python examples/timeseries.py --steps small          # all in small, in a moment
"""

import argparse
import time

import numpy as np
from support import picture

import lasagne_like as lasagne
import scanjit as sj


def mackey_glass(count, random, every=60, dt=0.1, delay=17.0):
    """Values of the series, one in six units of time, moved and scaled to be around 0, and measured with noise."""
    back, length = round(delay / dt), (count + 50) * every
    x = np.full(length, 1.2)
    for t in range(back, length - 1):
        x[t + 1] = x[t] + dt * (0.2 * x[t - back] / (1 + x[t - back] ** 10) - 0.1 * x[t])
    values = x[50 * every :: every]
    return (values - values.mean()) / values.std() + 0.01 * random.normal(size=count)


def build(units):
    """Values (batch, time, 1) in, and by how much the next ones differ out."""
    l_in = lasagne.layers.InputLayer((None, None, 1))
    l_gru = lasagne.layers.GRULayer(l_in, units, name="gru")
    return l_in, l_gru, lasagne.layers.DenseLayer(l_gru, 1, nonlinearity=None, num_leading_axes=2, name="change")


def compile_training(l_in, l_out, skip):
    """A function of (values, next values, rate) that trains. The first values are not counted: they begin to tell."""
    x, following, rate = l_in.input_var, sj.tensor3("following"), sj.scalar("rate")
    predicted = x + lasagne.layers.get_output(l_out)
    error = lasagne.objectives.squared_error(predicted, following)[:, skip:].mean()
    params = lasagne.layers.get_all_params(l_out, trainable=True)
    updates = lasagne.updates.adam(error, params, learning_rate=rate)
    return sj.function([x, following, rate], error, updates=updates, name="train")


def compile_forecaster(l_gru, l_out):
    """A function that reads a series and goes on: it returns what it said at each step, and then by itself."""
    step = lasagne.cells.step_function(l_gru)

    def forecast(series, ahead):
        W, b = l_out.W.get_value(), l_out.b.get_value()
        state, said = step.initial_state(batch=1), []
        for i in range(len(series) + ahead - 1):
            value = np.array([[series[i] if i < len(series) else said[-1]]], sj.config.floatX)
            output, state = step(value, state)
            said.append(float((value + output @ W + b)[0, 0]))
        return np.array(said)

    return forecast


def linear_errors(train, test, order=12):
    """The errors of the best linear model of the last values, on the test series from `order` on."""

    def rows(series):
        past = np.lib.stride_tricks.sliding_window_view(series[:-1], order)
        return np.column_stack([past, np.ones(len(past))])

    weights = np.linalg.lstsq(rows(train), train[order:], rcond=None)[0]
    return rows(test) @ weights - test[order:]


def plot(path, times, truth, forecast):
    """Draw the forecast next to the truth."""
    with picture(path) as axes:
        axes.plot(times, truth, label="the series")
        axes.plot(times[-len(forecast) :], forecast, "--", label="the GRU, by itself")
        axes.set_xlabel("step")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Forecast a chaotic series with a GRU, and let it dream on.")
    parser.add_argument("--steps", default="1000", help="how many steps of training; 'small' for a quick run")
    parser.add_argument("--plot", help="save a picture to this file")
    options = parser.parse_args(arguments)
    small = options.steps == "small"
    steps, count, units, window, skip = (200, 400, 8, 24, 8) if small else (int(options.steps), 3000, 48, 60, 12)

    sj.config.floatX = "float32"
    random = np.random.default_rng(0)
    lasagne.random.set_rng(np.random.default_rng(1))
    series = mackey_glass(count, random)
    past, test = np.split(series, [count * 4 // 5])

    l_in, l_gru, l_out = build(units)
    start = time.perf_counter()
    train = compile_training(l_in, l_out, skip)
    forecast = compile_forecaster(l_gru, l_out)
    print(f"compiled in {time.perf_counter() - start:.1f} s")

    start = time.perf_counter()
    for i in range(steps):
        places = random.integers(0, len(past) - window, 32)[:, None] + np.arange(window)
        x, following = (past[p, None].astype(sj.config.floatX) for p in (places, places + 1))
        error = train(x, following, np.float32(0.01 * (1 - i / steps)))
        if (i + 1) % (steps // 10 or 1) == 0:
            print(f"step {i + 1:5}   error {np.sqrt(error):.4f}   {time.perf_counter() - start:5.1f} s")

    order = 12
    errors = {
        "the last value again": np.diff(test)[order - 1 :],
        "a linear model of 12": linear_errors(past, test, order),
        "the GRU": forecast(test[:-1], 1)[order - 1 :] - test[order:],
    }
    rms = {name: float(np.sqrt(np.mean(error**2))) for name, error in errors.items()}
    print("\nhow far off the next value is, on a part of the series that was not seen (its deviation is 1):")
    for name, value in rms.items():
        print(f"  {name:22}{value:8.4f}")

    heard, ahead = len(test) // 2, 20
    dreamt = forecast(test[:heard], ahead)[-ahead:]
    truth = test[heard : heard + ahead]
    print("and by itself, after so many steps:")
    for i in (1, 5, 10, 20):
        print(f"  {i:3}   the series {truth[i - 1]:7.3f}   the GRU {dreamt[i - 1]:7.3f}")
    if options.plot:
        first = heard - 60 if heard > 60 else 0
        plot(options.plot, np.arange(first, heard + ahead), test[first : heard + ahead], dreamt)
    if small or steps >= 1000:
        assert rms["the GRU"] < rms["the last value again" if small else "a linear model of 12"]


if __name__ == "__main__":
    main()
