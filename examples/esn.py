"""An echo state network that foresees the weather of Lorenz.

A large recurrent network of random weights is driven by a series and never trained. Its states echo what came in, and
a linear readout of them, found by ridge regression in one go, says the next value (Jaeger, 2001). Fed with what it says
itself, it goes on alone: for some time it follows the very path of Lorenz's equations (1963), and after that it still
draws their butterfly.

    python examples/esn.py                               # in some seconds
    python examples/esn.py --plot lorenz.png             # a picture of it (needs matplotlib)
    python examples/esn.py --steps small                 # all in small, in a moment
"""

import argparse
import time

import numpy as np
from support import picture

import scanjit as sj

DT = 0.02
LYAPUNOV = 0.906  # errors grow as exp(0.906 * time): the largest Lyapunov exponent of the system


def lorenz(count, first=(1.0, 1.0, 1.0), skip=1000):
    """Places on the attractor, `DT` apart, scaled to a deviation of one: (count, 3)."""

    def velocity(p):
        x, y, z = p
        return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    places, h = [np.array(first)], DT / 4
    for _ in range(4 * (count + skip) - 1):
        p = places[-1]
        k1 = velocity(p)
        k2 = velocity(p + h / 2 * k1)
        k3 = velocity(p + h / 2 * k2)
        places.append(p + h / 6 * (k1 + 2 * k2 + 2 * k3 + velocity(p + h * k3)))
    values = np.array(places)[4 * skip :: 4]
    return (values - values.mean(axis=0)) / values.std(axis=0)


def reservoir(random, units, inputs=3, radius=0.9, density=0.05, strength=0.3):
    """Random weights: of the units (a few connections each, scaled to a spectral radius), of inputs, and biases."""
    W = random.normal(size=(units, units)) * (random.uniform(size=(units, units)) < max(density, 3 / units))
    W *= radius / np.abs(np.linalg.eigvals(W)).max()
    return W, random.uniform(-strength, strength, (inputs, units)), random.uniform(-strength, strength, units)


def update(u, h, weights):
    """The next state."""
    W, W_in, bias = weights
    return np.tanh(h @ W + u @ W_in + bias)


def features(h):
    """What the readout sees of states: them, and the squares of every other one, without which x and -x look alike."""
    return np.concatenate([h, h[..., ::2] ** 2], axis=-1)


def compile_listening(weights, mode="numba"):
    """A function of a series (time, inputs) and a state: all states, (time, units)."""
    series, first = sj.tensor((None, len(weights[1])), name="series"), sj.vector("first")
    states = sj.scan(lambda u, h: update(u, h, weights), series, first)
    return sj.function([series, first], states, name="listen", mode=mode)


def compile_dreaming(weights, mode="numba"):
    """A function of (readout, state, count): what the network says when it hears only itself, (count, outputs)."""
    units, outputs = weights[0].shape[0], weights[1].shape[0]
    readout, first, count = sj.matrix("readout"), sj.tensor((units,), name="first"), sj.lscalar("count")
    readout_of = sj.specify_shape(readout, (units + (units + 1) // 2, outputs))

    def step(h):
        said = features(h) @ readout_of
        return said, update(said, h, weights)

    said, _ = sj.scan(step, outputs_info=[None, first], n_steps=count)
    return sj.function([readout, first, count], said, name="dream", mode=mode)


def ridge(X, Y, penalty):
    """The weights W for which |X W - Y|**2 + penalty * |W|**2 is least."""
    return np.linalg.solve(X.T @ X + penalty * np.eye(X.shape[1]), X.T @ Y)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="An echo state network that foresees the weather of Lorenz.")
    parser.add_argument("--steps", default="8000", help="how many values to learn from; 'small' for a quick run")
    parser.add_argument("--units", type=int, default=400, help="how many units the network has")
    parser.add_argument("--mode", default="numba", choices=["numba", "reference", "emulate"])
    parser.add_argument("--plot", help="save a picture to this file")
    options = parser.parse_args(arguments)
    small = options.steps == "small"
    count, units, begin, ahead = (800, 60, 100, 200) if small else (int(options.steps), options.units, 200, 1000)

    series = lorenz(count + ahead)
    weights = reservoir(np.random.default_rng(0), units)
    start = time.perf_counter()
    listen, dream = compile_listening(weights, options.mode), compile_dreaming(weights, options.mode)
    print(f"compiled in {time.perf_counter() - start:.1f} s")

    start = time.perf_counter()
    states = listen(series[:count], np.zeros(units))
    heard = time.perf_counter()
    X, Y = features(states[begin:-1]), series[begin + 1 : count]
    readout = ridge(X, Y, penalty=1e-6)
    learned = time.perf_counter()
    error = np.sqrt(np.mean((X @ readout - Y) ** 2))
    print(f"{count} values heard in {heard - start:.2f} s, a readout of {units} units found in {learned - heard:.2f} s")
    print(f"one step ahead, it is off by {error:.1e} (where the deviation is 1)")

    truth, said = series[count:], dream(readout, states[-1], ahead)
    off = np.sqrt(((said - truth) ** 2).mean(axis=1))
    valid = int(np.argmax(off > 0.4)) if (off > 0.4).any() else ahead
    print(
        f"by itself, it follows for {valid} steps: {valid * DT:.1f} units of time, in which a small error grows",
        end=" ",
    )
    print(f"{np.exp(LYAPUNOV * valid * DT):.0f} times")
    if options.plot:
        with picture(options.plot, rows=3, height=1.6) as rows:
            for axes, name, a, b in zip(rows, "xyz", truth.T, said.T, strict=True):
                axes.plot(np.arange(ahead) * DT, a, label="Lorenz")
                axes.plot(np.arange(ahead) * DT, b, "--", label="the network")
                axes.set_ylabel(name)
            rows[0].legend(loc="upper right", ncols=2)
    assert error < (0.05 if small else 1e-3)
    if not small and count >= 8000:
        assert valid * DT * LYAPUNOV > 2


if __name__ == "__main__":
    main()
