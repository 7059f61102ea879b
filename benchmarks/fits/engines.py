"""What fits the series: for each engine and case a function that makes a call. A call gives the logarithm of the
likelihood of each series. Each is imported where its library is."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.fits.data import GARCH_START, TREND, backcast

Call = Callable[[], Any]


class Maker(NamedTuple):
    """The package that an engine needs, what makes its call, and how many series it gets."""

    package: str
    make: Callable[[np.ndarray], Call]
    series: int


# ---- scanjit ----


def _garch_loss() -> Callable[..., Any]:
    from scanjit.timeseries import garch, normal

    def loss(theta: Any, returns: Any, before: Any) -> Any:
        mean, constant, reaction, memory = theta
        errors = returns - mean
        first = constant + (reaction + memory) * before
        return -normal(errors, garch(errors, constant, reaction, memory, first=first)).sum()

    return loss


GARCH_BOUNDS = [(None, None), (1e-6, None), (0, 1), (0, 1)]


def scanjit_garch(series: np.ndarray) -> Call:
    import scanjit as sj

    loss, before, start = _garch_loss(), backcast(series), np.tile(GARCH_START, (len(series), 1))
    return lambda: (
        -sj.optimize.minimize(
            loss, start, [series, before], method="lbfgs", batched=True, bounds=GARCH_BOUNDS, tolerance=1e-5
        ).fun
    )


def loop_garch(series: np.ndarray) -> Call:
    import scanjit as sj

    loss, before, start = _garch_loss(), backcast(series), np.array(GARCH_START)

    def one(i: int) -> float:
        data = [series[i], before[i]]
        return -sj.optimize.minimize(loss, start, data, method="lbfgs", bounds=GARCH_BOUNDS, tolerance=1e-5).fun

    return lambda: [one(i) for i in range(len(series))]


def _ets_loss() -> Callable[..., Any]:
    from scanjit.timeseries import ets

    def loss(theta: Any, series: Any) -> Any:
        smooth_level, share, level, trend = theta
        return -ets(series, level, smooth_level, trend=trend, smooth_trend=smooth_level * share).log_likelihood

    return loss


def _ets_start(series: np.ndarray) -> np.ndarray:
    slopes = (series[:, 10] - series[:, 0]) / 10
    return np.stack([np.full(len(series), 0.3), np.full(len(series), 0.1), series[:, 0] - slopes, slopes], axis=1)


ETS_BOUNDS = [(1e-4, 0.9999), (1e-4, 0.9999), (None, None), (None, None)]


def scanjit_ets(series: np.ndarray) -> Call:
    import scanjit as sj

    loss, start = _ets_loss(), _ets_start(series)
    return lambda: -sj.optimize.minimize(loss, start, [series], method="lbfgs", batched=True, bounds=ETS_BOUNDS).fun


def loop_ets(series: np.ndarray) -> Call:
    import scanjit as sj

    loss, start = _ets_loss(), _ets_start(series)

    def one(i: int) -> float:
        return -sj.optimize.minimize(loss, start[i], [series[i]], method="lbfgs", bounds=ETS_BOUNDS).fun

    return lambda: [one(i) for i in range(len(series))]


def _trend_likelihood(series: Any) -> Any:
    import scanjit as sj

    model = sj.timeseries.StateSpace(
        np.array([[1.0, 1.0], [0.0, 1.0]]),
        np.array([[1.0, 0.0]]),
        np.diag([TREND["level"], TREND["trend"]]),
        np.array([[TREND["noise"]]]),
        np.zeros(2),
        1000 * np.eye(2),
    )
    return sj.timeseries.kalman_filter(series, model).log_likelihood.sum()


def scanjit_trend(series: np.ndarray) -> Call:
    import scanjit as sj

    f = sj.jit(lambda rows: sj.vmap(_trend_likelihood)(rows))
    return lambda: f(series)


def loop_trend(series: np.ndarray) -> Call:
    import scanjit as sj

    f = sj.jit(_trend_likelihood)
    return lambda: [f(row) for row in series]


# ---- others ----


def jax_garch(series: np.ndarray) -> Call:
    """`jax.vmap` of jaxopt's L-BFGS-B."""
    import jax
    import jax.numpy as jnp
    import jaxopt

    jax.config.update("jax_enable_x64", True)

    def loss(theta: Any, returns: Any, before: Any) -> Any:
        mean, constant, reaction, memory = theta
        errors = returns - mean
        first = constant + (reaction + memory) * before
        _, variances = jax.lax.scan(lambda v, square: (constant + reaction * square + memory * v, v), first, errors**2)
        return 0.5 * (jnp.log(2 * jnp.pi) + jnp.log(variances) + errors**2 / variances).sum()

    solver = jaxopt.LBFGSB(loss, maxiter=100, tol=5e-4)
    low, high = zip(*[(-np.inf if a is None else a, np.inf if b is None else b) for a, b in GARCH_BOUNDS], strict=True)

    def one(start: Any, returns: Any, before: Any) -> Any:
        box = jnp.array(low, float), jnp.array(high, float)
        return -solver.run(start, bounds=box, returns=returns, before=before).state.value

    f, start, before = jax.jit(jax.vmap(one)), np.tile(GARCH_START, (len(series), 1)), backcast(series)
    return lambda: jax.block_until_ready(f(start, series, before))


def _arch_fit(row: np.ndarray) -> float:
    import arch

    model = arch.arch_model(row, mean="Constant", vol="GARCH", rescale=False)
    return float(model.fit(disp="off", show_warning=False).loglikelihood)


def arch_garch(series: np.ndarray) -> Call:
    return lambda: [_arch_fit(row) for row in series]


def arch_processes(series: np.ndarray) -> Call:
    """In the processes of joblib, as many as the machine has processors."""
    from joblib import Parallel, delayed

    pool = Parallel(len(os.sched_getaffinity(0)))
    return lambda: pool(delayed(_arch_fit)(row) for row in series)


def statsforecast_ets(series: np.ndarray) -> Call:
    """Its C++; what AutoETS calls for one form."""
    from statsforecast.ets import ets_f

    steps = series.shape[1]

    def one(row: np.ndarray) -> float:
        found = ets_f(row, m=1, model="AAN", damped=False)
        return float(found["loglik"]) - steps / 2 * (np.log(2 * np.pi / steps) + 1)

    return lambda: [one(row) for row in series]


def statsmodels_trend(series: np.ndarray) -> Call:
    """Models are made before; a call computes likelihoods only."""
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    def model(row: np.ndarray) -> Any:
        made = UnobservedComponents(row, "local linear trend", loglikelihood_burn=0)
        made.ssm.initialize_known(np.zeros(2), 1000 * np.eye(2))
        return made

    models, parameters = [model(row) for row in series], [TREND["noise"], TREND["level"], TREND["trend"]]
    return lambda: [made.loglike(parameters) for made in models]


MAKERS: dict[str, dict[str, Maker]] = {
    "GARCH(1,1)": {
        "scanjit": Maker("scanjit", scanjit_garch, 10_000),
        "scanjit, one by one": Maker("scanjit", loop_garch, 300),
        "jax.vmap of L-BFGS-B": Maker("jaxopt", jax_garch, 1000),
        "arch, one by one": Maker("arch", arch_garch, 60),
        "arch, joblib": Maker("arch", arch_processes, 200),
    },
    "ETS(A,A,N)": {
        "scanjit": Maker("scanjit", scanjit_ets, 10_000),
        "scanjit, one by one": Maker("scanjit", loop_ets, 300),
        "statsforecast, one by one": Maker("statsforecast", statsforecast_ets, 300),
    },
    "local linear trend": {
        "scanjit": Maker("scanjit", scanjit_trend, 1000),
        "scanjit, one by one": Maker("scanjit", loop_trend, 300),
        "statsmodels, one by one": Maker("statsmodels", statsmodels_trend, 300),
    },
}
"""By case and title."""
