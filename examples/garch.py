"""How restless is a market? GARCH(1,1) by maximum likelihood, with Newton's method.

The variance of today's return follows from yesterday's (Bollerslev, 1986): v = omega + alpha * e_**2 + beta * v_,
where e is how far a return is off the mean mu. A scan loops over the days, and everything else is a derivative of its
result: the gradient and the Hessian of the likelihood find the four parameters in some ten steps, the Hessian there
gives their standard errors, and the slopes of each day's likelihood give errors that hold when returns are not normal
(Bollerslev and Wooldridge, 1992).

    python examples/garch.py                             # 5000 returns made here, in some seconds
    python examples/garch.py --file returns.txt          # your own, in per cent, one a line
    python examples/garch.py --plot garch.png            # a picture of it (needs matplotlib)
    python examples/garch.py --steps small               # all in small, in a moment
"""

import argparse
import time
from pathlib import Path

import numpy as np
from support import newton, picture

import scanjit as sj

NAMES = ("mu", "omega", "alpha", "beta")
TRUE = np.array([0.05, 0.04, 0.09, 0.88])


def simulate(random, count, parameters=TRUE):
    """Returns of a market with these parameters, which began a while before the first one."""
    mu, omega, alpha, beta = parameters
    variance, returns = omega / (1 - alpha - beta), np.empty(count + 500)
    for day, shock in enumerate(random.normal(size=len(returns))):
        returns[day] = mu + np.sqrt(variance) * shock
        variance = omega + alpha * (returns[day] - mu) ** 2 + beta * variance
    return returns[500:]


def backcast(returns):
    """What stands for the square and for the variance of the day before the first: of the first 75 days, fading."""
    weights = 0.94 ** np.arange(min(75, len(returns)))
    return np.average((returns - returns.mean())[: len(weights)] ** 2, weights=weights)


def likelihoods(parameters, returns, before):
    """The logarithm of each day's likelihood, and its variance: symbols."""
    mu, omega, alpha, beta = (parameters[i] for i in range(4))
    squares = (returns - mu) ** 2
    yesterday = np.concatenate([before.reshape(1), squares[:-1]])
    variances = sj.scan(lambda square, v: omega + alpha * square + beta * v, yesterday, before)
    return -0.5 * (np.log(2 * np.pi) + np.log(variances) + squares / variances), variances


def natural(free):
    """The parameters from four numbers (or symbols) of any size: omega, alpha, beta > 0 and alpha + beta < 1."""
    persistence, share = 1 / (1 + np.exp(-free[2])), 1 / (1 + np.exp(-free[3]))
    return np.stack([free[0], np.exp(free[1]), persistence * share, persistence * (1 - share)])


def free(parameters):
    """The inverse of `natural`."""
    mu, omega, alpha, beta = parameters
    odds = lambda p: np.log(p / (1 - p))
    return np.array([mu, np.log(omega), odds(alpha + beta), odds(alpha / (alpha + beta))])


def compile_likelihood(mode):
    """Functions of (free parameters, returns, variance before): the mean of -log likelihood, and its derivatives."""
    where, returns, before = sj.vector("where"), sj.vector("returns"), sj.scalar("before")
    loss = -likelihoods(natural(where), returns, before)[0].mean()
    inputs = [where, returns, before]
    derivatives = [loss, sj.grad(loss, where), sj.hessian(loss, where)]
    functions = [(loss, "loss"), (derivatives, "derivatives")]
    return [sj.function(inputs, outputs, name=name, mode=mode) for outputs, name in functions]


def compile_information(mode):
    """A function of (parameters, returns, variance before): likelihoods, their slopes, the Hessian, variances."""
    parameters, returns, before = sj.vector("parameters"), sj.vector("returns"), sj.scalar("before")
    days, variances = likelihoods(parameters, returns, before)
    slopes = sj.vmap(lambda direction: sj.jvp(days, parameters, direction))(sj.eye(4))
    hessian = sj.hessian(days.sum(), parameters)
    outputs = [days, slopes, hessian, variances]
    return sj.function([parameters, returns, before], outputs, name="information", mode=mode)


def fit(returns, mode="numba"):
    """A dictionary: parameters, standard errors of both kinds, log likelihood, variances, and the steps it took."""
    before = backcast(returns)
    loss, derivatives = compile_likelihood(mode)
    start = free([returns.mean(), 0.1 * returns.var(), 0.1, 0.8])
    found, steps = newton(
        lambda where: loss(where, returns, before), lambda where: derivatives(where, returns, before), start
    )
    parameters = natural(found)
    days, slopes, hessian, variances = compile_information(mode)(parameters, returns, before)
    inverse = np.linalg.inv(-hessian)
    return {
        "parameters": parameters,
        "errors": np.sqrt(np.diag(inverse)),
        "robust": np.sqrt(np.diag(inverse @ (slopes @ slopes.T) @ inverse)),
        "likelihood": days.sum(),
        "variances": variances,
        "steps": steps,
    }


def read(path):
    """The numbers in a text file."""
    try:
        returns = np.loadtxt(Path(path), ndmin=1)
    except (OSError, ValueError) as error:
        raise SystemExit(f"cannot read returns from {path}: {error}") from error
    if returns.ndim != 1 or len(returns) < 100 or not np.isfinite(returns).all() or returns.std() == 0:
        raise SystemExit(f"{path} must have one column of at least 100 numbers, not all the same")
    return returns


def main(arguments=None):
    parser = argparse.ArgumentParser(description="GARCH(1,1) by maximum likelihood, with Newton's method.")
    parser.add_argument("--steps", default="5000", help="how many returns to make; 'small' for a quick run")
    parser.add_argument("--file", help="read the returns from this file, in per cent, one a line")
    parser.add_argument("--mode", default="numba", choices=["numba", "reference", "emulate"])
    parser.add_argument("--plot", help="save a picture to this file")
    options = parser.parse_args(arguments)
    count = 600 if options.steps == "small" else int(options.steps)
    returns = read(options.file) if options.file else simulate(np.random.default_rng(0), count)

    start = time.perf_counter()
    result = fit(returns, options.mode)
    print(f"{len(returns)} returns, {result['steps']} steps of Newton's method, {time.perf_counter() - start:.1f} s")
    print(f"log likelihood {result['likelihood']:.4f}\n")
    print(f"{'':8}{'estimate':>10}{'std. error':>12}{'robust':>10}" + ("" if options.file else f"{'true':>10}"))
    for i, name in enumerate(NAMES):
        row = f"{name:8}{result['parameters'][i]:10.4f}{result['errors'][i]:12.4f}{result['robust'][i]:10.4f}"
        print(row + ("" if options.file else f"{TRUE[i]:10.4f}"))
    if options.plot:
        with picture(options.plot) as axes:
            axes.plot(returns, lw=0.5, color="0.6", label="returns")
            axes.plot(2 * np.sqrt(result["variances"]), label="two standard deviations")
            axes.plot(-2 * np.sqrt(result["variances"]), color="C0")
            axes.set_xlabel("day")
            axes.legend()
    if not options.file:
        assert (np.abs(result["parameters"] - TRUE) < 4 * result["errors"]).all()


if __name__ == "__main__":
    main()
