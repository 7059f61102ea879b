"""Where is it, and where was it? A Kalman filter, the smoother after it, and what they learn from data.

A state moves by itself, with noise (x = A x_ + noise of covariance Q), and is seen with noise (y = C x + noise of
covariance R). The filter (Kalman, 1960) says at each step what is known of the state from what was seen so far, the
smoother (Rauch, Tung and Striebel, 1965) what is known from all of it, both with covariances. Steps at which nothing
was seen are NaN. The covariances are updated in Joseph's form, which keeps them symmetric and positive.

1. The level of the Nile, 1871-1970 (the data of Cobb, 1978): how much of what changes from year to year is the river,
   and how much is the measuring? The likelihood comes out of the filter, Newton's method finds both variances by its
   gradient.
2. A boat on a lake whose position is measured now and then: the state has four numbers, position and velocity.

    python examples/kalman.py                            # in some seconds
    python examples/kalman.py --plot kalman.png          # a picture of it (needs matplotlib)
    python examples/kalman.py --steps small              # the boat sails for less long
"""

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
from support import newton, picture

import scanjit as sj

NILE = """
1120 1160 963 1210 1160 1160 813 1230 1370 1140 995 935 1110 994 1020 960 1180 799 958 1140 1100 1210 1150 1250 1260
1220 1030 1100 774 840 874 694 940 833 701 916 692 1020 1050 969 831 726 456 824 702 1120 1100 832 764 821 768 845 864
862 698 845 744 796 1040 759 781 865 845 944 984 897 822 1010 771 676 649 846 812 742 801 1040 860 874 848 890 744 749
838 1050 918 986 797 923 975 815 1020 906 901 1170 912 746 919 718 714 740
"""


class Model(NamedTuple):
    """A state of n numbers of which m are seen. Each field is an array or a symbol."""

    A: Any  # (n, n): how the state moves
    C: Any  # (m, n): what is seen of it
    Q: Any  # (n, n): the covariance of what moves it besides
    R: Any  # (m, m): the covariance of what disturbs the measurement
    mean: Any  # (n,): what is known before anything is seen
    cov: Any  # (n, n)


def kalman_filter(model, seen):
    """What is known of the state at each step before and after looking, and the log likelihood of what is seen.

    `seen` is (time, m). Returns means and covariances before (as expected from the past), after, and (time,) terms.
    """
    A, C, Q, R, _, _ = model
    identity = np.eye(A.shape[0])

    def step(y, mean, cov):
        known = ~np.isnan(y).any()
        error = np.where(known, y - C @ mean, 0.0)
        S = C @ cov @ C.T + R
        K = np.where(known, sj.solve(S, C @ cov).T, 0.0)
        after, left = mean + K @ error, identity - K @ C
        cov_after = left @ cov @ left.T + K @ R @ K.T
        surprise = error @ sj.solve(S, error) + sj.slogdet(S).logabsdet + len(C) * np.log(2 * np.pi)
        return A @ after, A @ cov_after @ A.T + Q, after, cov_after, np.where(known, -0.5 * surprise, 0.0)

    start = [model.mean, model.cov, None, None, None]
    next_means, next_covs, means, covs, terms = sj.scan(step, sequences=seen, outputs_info=start)
    before = [
        np.concatenate([first[None], rest[:-1]]) for first, rest in zip(start, (next_means, next_covs), strict=False)
    ]
    return before, [means, covs], terms


def smoother(model, before, after):
    """What is known of the state at each step from all that is seen: means (time, n), covariances (time, n, n)."""

    def step(mean, cov, mean_next, cov_next, smooth_mean, smooth_cov):
        G = sj.solve(cov_next, model.A @ cov).T
        new_cov = cov + G @ (smooth_cov - cov_next) @ G.T
        return mean + G @ (smooth_mean - mean_next), new_cov

    sequences = [x[:-1] for x in after] + [x[1:] for x in before]
    last = [x[-1] for x in after]
    results = sj.scan(step, sequences=sequences, outputs_info=last, go_backwards=True)
    return [np.concatenate([x[::-1], end[None]]) for x, end in zip(results, last, strict=True)]


def compile_analysis(model, mode="numba"):
    """A function of (time, m) measurements: means and covariances by the filter, by the smoother, log likelihood."""
    seen = sj.tensor((None, model.C.shape[0]), name="seen")
    before, after, terms = kalman_filter(model, seen)
    return sj.function([seen], [*after, *smoother(model, before, after), terms.sum()], name="analysis", mode=mode)


def local_level(log_variances, first=0.0):
    """A number that wanders, seen with noise; of where it was before, nothing is known."""
    wander, noise = (np.exp(log_variances[i]).reshape(1, 1) for i in range(2))
    one = np.ones((1, 1))
    return Model(A=one, C=one, Q=wander, R=noise, mean=np.array([first]), cov=1e7 * one)


def fit_local_level(series, mode="numba"):
    """The variances (wandering, noise) under which the series is most likely, and the steps that it took.

    The first value only says where the level is: it is no measure of the model, and is not counted.
    """
    logs, seen = sj.vector("logs"), sj.tensor((None, 1), name="seen")
    _, _, terms = kalman_filter(local_level(logs), seen)
    loss = -terms[1:].mean()
    derivatives = [loss, sj.grad(loss, logs), sj.hessian(loss, logs)]
    loss, derivatives = (sj.function([logs, seen], outputs, mode=mode) for outputs in (loss, derivatives))
    start, column = np.log([0.1 * np.nanvar(series), np.nanvar(series)]), series[:, None]
    found, steps = newton(lambda x: loss(x, column), lambda x: derivatives(x, column), start)
    return np.exp(found), steps


def boat(dt=1.0, push=0.1, noise=4.0):
    """Position and velocity in the plane, pushed by random forces; the position is seen with a deviation of `noise`."""
    two, zero = np.eye(2), np.zeros((2, 2))
    return Model(
        A=np.block([[two, dt * two], [zero, two]]),
        C=np.block([two, zero]),
        Q=push**2 * np.block([[dt**3 / 3 * two, dt**2 / 2 * two], [dt**2 / 2 * two, dt * two]]),
        R=noise**2 * two,
        mean=np.zeros(4),
        cov=np.diag([100.0, 100.0, 1.0, 1.0]),
    )


def simulate(random, model, count):
    """States (count, n) and what is seen of them (count, m)."""
    states, n, m = [random.multivariate_normal(model.mean, model.cov)], *model.C.shape[::-1]
    for noise in random.multivariate_normal(np.zeros(n), model.Q, count - 1):
        states.append(model.A @ states[-1] + noise)
    return np.array(states), np.array(states) @ model.C.T + random.multivariate_normal(np.zeros(m), model.R, count)


def nile(mode):
    """Fit the local level model to the Nile: its values, and levels with their deviations by filter and smoother."""
    series = np.array(NILE.split(), float)
    variances, steps = fit_local_level(series, mode)
    model = local_level(np.log(variances))
    means, _, smooth_means, smooth_covs, _ = compile_analysis(model, mode)(series[:, None])
    print(f"the Nile: variance of the river {variances[0]:.1f}, of measuring {variances[1]:.1f} ({steps} steps)")
    np.testing.assert_allclose(variances, [1469.1, 15098.5], rtol=1e-3)  # as Durbin and Koopman (2001) found them
    return series, means[:, 0], smooth_means[:, 0], np.sqrt(smooth_covs[:, 0, 0])


def sail(count, mode):
    """Follow a boat that is out of sight for a while: its track, measurements, the track by filter and smoother."""
    model, random = boat(), np.random.default_rng(3)
    states, seen = simulate(random, model, count)
    seen[count // 2 : count // 2 + 20] = np.nan
    means, _, smooth_means, smooth_covs, _ = compile_analysis(model, mode)(seen)
    off = lambda positions: np.sqrt(np.nanmean(((positions - states[:, :2]) ** 2).sum(axis=1)))
    print(f"the boat: measurements are off by {off(seen):.2f}, the filter by {off(means[:, :2]):.2f},", end=" ")
    print(f"the smoother by {off(smooth_means[:, :2]):.2f}")
    expected = np.sqrt(np.trace(smooth_covs[:, :2, :2], axis1=1, axis2=2).mean())
    print(f"          ({expected:.2f} is what the smoother expects of itself)")
    assert off(smooth_means[:, :2]) < off(means[:, :2])
    return states[:, :2], seen, means[:, :2], smooth_means[:, :2]


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description="A Kalman filter, the smoother after it, and what they learn from data."
    )
    parser.add_argument("--steps", default="1000", help="how long the boat sails; 'small' for a quick run")
    parser.add_argument("--mode", default="numba", choices=["numba", "reference", "emulate"])
    parser.add_argument("--plot", help="save a picture to this file")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    series, level, smooth, deviation = nile(options.mode)
    track, seen, followed, smoothed = sail(100 if options.steps == "small" else int(options.steps), options.mode)
    print(f"in {time.perf_counter() - start:.1f} s")
    if options.plot:
        with picture(options.plot, rows=2) as (river, lake):
            years = np.arange(1871, 1971)
            river.plot(years, series, ".", color="0.6", label="the Nile")
            river.plot(years, level, "--", lw=1, label="filter")
            river.plot(years, smooth, label="smoother")
            river.fill_between(years, smooth - 2 * deviation, smooth + 2 * deviation, alpha=0.2)
            middle = slice(len(track) // 2 - 40, len(track) // 2 + 60)
            for positions, style, label in [
                (seen, ".", "seen"), (track, "k-", "the boat"), (followed, "--", "filter"), (smoothed, "-", "smoother"),
            ]:  # fmt: skip
                lake.plot(*positions[middle].T, style, lw=1, label=label)
            for axes in (river, lake):
                axes.legend()


if __name__ == "__main__":
    main()
