"""Fit a recurrence to data by gradient descent.

Eight pendulums, all of one make, are pushed by known forces while their angles are measured, with noise. How stiff, how
damped and how sensitive is that make? The physics is a Python function of one step. `scan` loops it over time, `grad`
differentiates through the loop, `function` compiles it all, and gradient descent (Adam) finds the three numbers.

    python examples/fit_recurrence.py                    # 1000 time steps, 300 steps of descent
    python examples/fit_recurrence.py --steps small      # the same in small, in a moment
"""

import argparse
import time

import numpy as np

import scanjit as sj

TRUE = np.array([4.0, 0.5, 1.5])
GUESS = np.array([2.0, 1.0, 1.0])
NAMES = ("stiffness", "damping", "sensitivity")
DT = 0.05


def step(force, angle, speed, parameters):
    """The pendulums a moment later. It computes with arrays, and with symbols as well."""
    stiffness, damping, sensitivity = parameters[0], parameters[1], parameters[2]
    speed = speed + DT * (sensitivity * force - stiffness * np.sin(angle) - damping * speed)
    return angle + DT * speed, speed


def angles_with_numpy(forces, parameters):
    """The recurrence as a plain Python loop."""
    angle = speed = np.zeros(forces.shape[1])
    angles = []
    for force in forces:
        angle, speed = step(force, angle, speed, parameters)
        angles.append(angle)
    return np.array(angles)


def angles_with_scanjit(forces, parameters):
    """The same recurrence as a symbol: any number of time steps, any number of pendulums."""
    rest = sj.zeros(forces.shape[1])
    angles, _speeds = sj.scan(step, sequences=forces, outputs_info=[rest, rest], non_sequences=parameters)
    return angles


def compile_descent(mode, rate=0.05):
    """A function of (forces, measured) that makes one step of Adam and returns the loss before it."""
    forces, measured = sj.matrix("forces"), sj.matrix("measured")
    parameters = sj.shared(GUESS, "parameters")
    loss = ((angles_with_scanjit(forces, parameters) - measured) ** 2).mean()
    slope = sj.grad(loss, parameters)

    count = sj.shared(0.0, "count")
    mean, square = sj.shared(np.zeros(3), "mean"), sj.shared(np.zeros(3), "square")
    t = count + 1.0
    new_mean = 0.9 * mean + 0.1 * slope
    new_square = 0.99 * square + 0.01 * slope**2
    change = rate * (new_mean / (1.0 - 0.9**t)) / (np.sqrt(new_square / (1.0 - 0.99**t)) + 1e-8)
    updates = {parameters: parameters - change, mean: new_mean, square: new_square, count: t}

    return sj.function([forces, measured], loss, updates=updates, name="descend", mode=mode), parameters


def measure(length, pendulums):
    """Forces that change now and then, so gentle that no pendulum turns over; and the angles as measured."""
    random = np.random.default_rng(0)
    forces = 0.7 * np.repeat(random.normal(size=(length // 20, pendulums)), 20, axis=0)
    return forces, angles_with_numpy(forces, TRUE) + 0.05 * random.normal(size=forces.shape)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Fit a recurrence to data by gradient descent.")
    parser.add_argument("--steps", default="300", help="how many steps of descent; 'small' for a quick run")
    parser.add_argument("--mode", default="numba", choices=["numba", "reference", "emulate"])
    options = parser.parse_args(arguments)
    small = options.steps == "small"
    steps = 100 if small else int(options.steps)
    forces, measured = measure(length=100 if small else 1000, pendulums=4 if small else 8)

    start = time.perf_counter()
    descend, parameters = compile_descent(options.mode)
    print(f"compiled in {time.perf_counter() - start:.2f} s: {descend}\n")
    print(descend.explain())

    first = descend(forces, measured)
    start = time.perf_counter()
    for _ in range(steps):
        loss = descend(forces, measured)
    per_step = (time.perf_counter() - start) / steps

    start = time.perf_counter()
    angles_with_numpy(forces, TRUE)
    numpy_alone = time.perf_counter() - start

    found = parameters.get_value()
    print(f"{'':12}  true    guess   found")
    for name, *values in zip(NAMES, TRUE, GUESS, found, strict=True):
        print(f"{name:12}" + "".join(f"{value:7.3f} " for value in values))
    print(f"\nloss {first:.4f} -> {loss:.4f} in {steps} steps of descent over {forces.shape[0]} time steps")
    print(f"one step of descent, value and gradient:      {1e3 * per_step:9.3f} ms")
    print(f"the loop in NumPy, the value alone:           {1e3 * numpy_alone:9.3f} ms")
    if small or steps >= 300:
        np.testing.assert_allclose(found, TRUE, atol=0.1)


if __name__ == "__main__":
    main()
