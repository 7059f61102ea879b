"""A neural ODE: a network that is the law of motion of a spiral.

A point moves on a spiral, and is measured with noise. A small network says how fast it moves at each place; Runge and
Kutta's method of fourth order, in a scan, makes paths of that; and the gradient goes through all its stages. The
network learns from short pieces of the path, and then draws the whole spiral from its first point (after the example of
Chen, Rubanova, Bettencourt and Duvenaud, "Neural ordinary differential equations", 2018).

    python examples/neural_ode.py                        # in some seconds
    python examples/neural_ode.py --plot spiral.png      # a picture of it (needs matplotlib)
    python examples/neural_ode.py --steps small          # all in small, in a moment
"""

import argparse
import time

import numpy as np
from support import picture

import lasagne_like as lasagne
import scanjit as sj

SPIRAL = np.array([[-0.1, 2.0], [-2.0, -0.1]])
FIRST = np.array([2.0, 0.0])


def rk4(velocity, y, dt):
    """Where a point is after a time of dt: it moves with velocity(place)."""
    k1 = velocity(y)
    k2 = velocity(y + dt / 2 * k1)
    k3 = velocity(y + dt / 2 * k2)
    k4 = velocity(y + dt * k3)
    return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def path(velocity, first, count, dt):
    """The places of points that begin at `first` (points, 2): (count, points, 2), the first not among them."""
    return sj.scan(lambda y: rk4(velocity, y, dt), outputs_info=first, n_steps=count)


def measure(random, count, dt, noise=0.01):
    """The spiral, one place in each step of time, true and measured."""
    places = [FIRST]
    for _ in range(count - 1):
        places.append(rk4(lambda y: (y**3) @ SPIRAL.T, places[-1], dt))
    return np.array(places), np.array(places) + noise * random.normal(size=(count, 2))


def network(units):
    """A function from places to velocities, and its parameters. It sees the cubes of the places as well."""
    glorot = lasagne.init.GlorotUniform()
    values = [glorot.sample((4, units)), np.zeros(units), 0.1 * glorot.sample((units, 2)), np.zeros(2)]
    W1, b1, W2, b2 = params = [sj.shared(v.astype(sj.config.floatX)) for v in values]
    return lambda y: np.tanh(np.concatenate([y, y**3 / 4], axis=1) @ W1 + b1) @ W2 + b2, params


def compile_training(velocity, params, dt, mode):
    """A function of (first places, those that follow, rate) that trains and returns the squared error before it."""
    first, following, rate = sj.matrix("first"), sj.tensor3("following"), sj.scalar("rate")
    error = ((path(velocity, first, following.shape[0], dt) - following) ** 2).mean()
    updates = lasagne.updates.adam(error, params, rate)
    return sj.function([first, following, rate], error, updates=updates, name="train", mode=mode)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="A neural ODE: a network that is the law of motion of a spiral.")
    parser.add_argument("--steps", default="5000", help="how many steps of training; 'small' for a quick run")
    parser.add_argument("--mode", default="numba", choices=["numba", "reference", "emulate"])
    parser.add_argument("--plot", help="save a picture to this file")
    options = parser.parse_args(arguments)
    small = options.steps == "small"
    steps, count, units, window, batch = (150, 200, 16, 5, 16) if small else (int(options.steps), 1000, 48, 50, 32)

    dt, random = 0.025, np.random.default_rng(0)
    lasagne.random.set_rng(np.random.default_rng(1))
    true, measured = measure(random, count, dt)
    velocity, params = network(units)
    start = time.perf_counter()
    train = compile_training(velocity, params, dt, options.mode)
    y = sj.matrix("y")
    draw = sj.function([y], path(velocity, y, count - 1, dt), name="draw", mode=options.mode)
    print(f"compiled in {time.perf_counter() - start:.1f} s")

    start, errors = time.perf_counter(), []
    for i in range(steps):
        places = random.integers(0, count - window, batch)
        pieces = measured[places + np.arange(window + 1)[:, None]]
        errors.append(train(pieces[0], pieces[1:], 0.02 * (1 - i / steps)))
        if (i + 1) % (steps // 10 or 1) == 0:
            recent = np.sqrt(np.mean(errors[-100:]))
            print(f"step {i + 1:5}   error of pieces {recent:.4f}   {time.perf_counter() - start:5.1f} s")

    drawn = np.concatenate([FIRST[None], draw(FIRST[None])[:, 0]])
    off = np.sqrt(((drawn - true) ** 2).sum(axis=1))
    print(f"the spiral from its first point alone: off by {off.mean():.3f} on average, by {off[-1]:.3f} at its end")
    if options.plot:
        with picture(options.plot, width=5, height=5) as axes:
            axes.plot(*measured.T, ".", ms=3, color="0.7", label="measured")
            axes.plot(*true.T, "k", lw=1, label="the spiral")
            axes.plot(*drawn.T, "--", label="by the network, from the first point")
            axes.legend()
    assert np.mean(errors[-10:]) < 0.5 * errors[0]
    if not small and steps >= 5000:
        assert off.mean() < 0.4


if __name__ == "__main__":
    main()
