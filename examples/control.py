"""Control of a system in continuous time: van Loan's discretisation, an LQR, and a square-root Kalman filter.

An inverted pendulum falls unless a motor pushes it. Noise pushes it too, and only its angle is seen, with errors, at
times that are `interval` apart.

- The system between two times is a matrix exponential, and so is the covariance of what the noise does meanwhile
  (C. van Loan, "Computing integrals involving the matrix exponential", 1978).
- The motor's rule is linear in the estimated state. Its gain is the fixed point of Riccati's equation, found by a loop
  of unknown length; so is the gain of the estimate.
- A square-root Kalman filter gives the likelihood of what was seen. Its gradient goes through the matrix exponential:
  so the length of the pendulum is found.

    python examples/control.py                 # in some seconds
    python examples/control.py --steps small   # all in small, in a moment
"""

import argparse

import numpy as np
from support import newton

import scanjit as sj

GRAVITY = 9.81


def discretised(A, B, Q, interval):
    """F, G and W of the system `dx = (A x + B u) dt + dw`, `dw` of covariance `Q dt`, over an interval in which u is
    constant: `x' = F x + G u + w`, w of covariance W."""
    n, inputs = B.shape
    hold = sj.concatenate([sj.concatenate([A, B], axis=1), sj.zeros((inputs, n + inputs), A.dtype)])
    whole = sj.expm(hold * interval)
    noise = sj.expm(sj.concatenate([sj.concatenate([-A, Q], 1), sj.concatenate([sj.zeros_like(A), A.T], 1)]) * interval)
    F, G = whole[:n, :n], whole[:n, n:]
    W = noise[n:, n:].T @ noise[:n, n:]
    return F, G, (W + W.T) / 2


def lqr(F, G, Q, R, most=1000):
    """The gain K and the cost-to-go P of the regulator: `u = -K x` makes the sum of `x' Q x + u' R u` least."""

    def riccati(P):
        K = np.linalg.solve(R + G.T @ P @ G, G.T @ P @ F)
        found = Q + F.T @ P @ (F - G @ K)
        found = (found + found.T) / 2
        return found, sj.until(abs(found - P).max() <= 1e-12 * abs(found).max())

    P = sj.scan(riccati, outputs_info=[Q + 0 * F], n_steps=most)[-1]
    return np.linalg.solve(R + G.T @ P @ G, G.T @ P @ F), P


def pendulum(length):
    """A and B of an inverted pendulum that a motor pushes, with some friction; states are angle and speed."""
    A = sj.stack([sj.as_tensor([0.0, 1.0]), sj.stack([GRAVITY / length, -0.1 + 0 * length])])
    return A, sj.stack([0 * length, 1 / length**2])[:, None]


def likelihood(length, seen, pushed, interval, push_noise, error):
    """The logarithm of the likelihood of the angles `seen`, given how the motor `pushed` before each."""
    A, B = pendulum(length)
    F, G, W = discretised(A, B, np.diag([1e-6, push_noise]), interval)
    model = sj.timeseries.StateSpace(
        F, np.array([[1.0, 0.0]]), W, np.array([[error]]), np.zeros(2), 0.1 * np.eye(2), state_offset=pushed @ G.T
    )
    return sj.timeseries.kalman_filter(seen[:, None], model, form="square-root").log_likelihood.sum()


def run(K, L, F, G, W, steps, error, random):
    """The angles that are seen while the motor follows its rule, how it pushed, and the last state."""
    x, estimate, root, seen, pushed = np.array([0.2, 0.0]), np.zeros(2), np.linalg.cholesky(W), [], []
    for _ in range(steps):
        seen.append(x[0] + np.sqrt(error) * random.normal())
        pushed.append(-K @ estimate)
        estimate = F @ estimate + G @ pushed[-1] + L * (seen[-1] - estimate[0])
        x = F @ x + G @ pushed[-1] + root @ random.normal(size=2)
    return np.array(seen), np.array(pushed), x


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", default="large", choices=("small", "large"))
    parser.add_argument("--mode", default="numba")
    given = parser.parse_args(arguments)
    steps, interval, push_noise, error, length = (60 if given.steps == "small" else 600), 0.05, 0.05, 1e-4, 0.7

    @sj.jit(mode=given.mode)
    def designed(length):
        A, B = pendulum(length)
        F, G, W = discretised(A, B, np.diag([1e-6, push_noise]), interval)
        K, _ = lqr(F, G, np.eye(2), np.array([[0.1]]))
        L, _ = lqr(F.T, np.array([[1.0], [0.0]]), W, np.array([[error]]))
        return K, L[0], F, G, W

    K, L, F, G, W = designed(length)
    seen, pushed, last = run(K, L, F, G, W, steps, error, np.random.default_rng(0))
    largest = abs(np.linalg.eigvals(F - G @ K)).max()
    print(f"gain {K.round(2)}: each step multiplies what is left of a deviation by {largest:.2f}")

    cost = lambda logs: -likelihood(np.exp(logs[0]), seen, pushed, interval, push_noise, error)
    x = sj.vector("x")
    slope = sj.grad(cost(x), x)
    value = sj.function([x], cost(x), mode=given.mode)
    all_of = sj.function([x], [cost(x), slope, sj.hessian(cost(x), x)], mode=given.mode)
    found, count = newton(value, all_of, np.log([1.0]), 1e-5)
    print(f"a pendulum of {length} m: found {np.exp(found[0]):.3f} m, in {count} steps of Newton's method")
    assert abs(last[0]) < 0.5 and abs(np.exp(found[0]) - length) < (0.2 if given.steps == "small" else 0.07)


if __name__ == "__main__":
    main()
