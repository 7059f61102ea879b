"""Fit a GARCH(1,1) model to many series of returns, on the workers of a Dask cluster.

Without an address it starts a cluster of two processes on this machine. The series are simulated, so each fit can be
compared with the truth. At the end one part is fitted here again, which must give the same bits.

    python examples/many_series_dask.py                                    # 1,000 series in 20 parts
    python examples/many_series_dask.py --cluster tcp://scheduler:8786     # on your machines
    python examples/many_series_dask.py --series small                     # all in small

It needs Dask: pip install 'scanjit[dask]'. `--kill` ends one worker in the middle: nothing is lost.
"""

import argparse
import contextlib
import os
import signal
import threading
import time

import numpy as np

import scanjit as sj
from scanjit.timeseries import garch, normal

BOUNDS = [(1e-6, None), (0, 1), (0, 1)]


def simulate(series, days, random):
    """The parameters (constant, reaction, memory) of each series, and its returns."""
    reaction, memory = random.uniform(0.05, 0.15, series), random.uniform(0.7, 0.84, series)
    truth = np.stack([random.uniform(0.02, 0.1, series), reaction, memory], axis=1)
    returns, variance = np.empty((series, days)), truth[:, 0] / (1 - reaction - memory)
    for day in range(days):
        returns[:, day] = np.sqrt(variance) * random.normal(size=series)
        variance = truth[:, 0] + reaction * returns[:, day] ** 2 + memory * variance
    return truth, returns


def loss(theta, returns):
    constant, reaction, memory = theta
    return -normal(returns, garch(returns, constant, reaction, memory)).sum()


def fit(returns):
    """The parameters of some series: one part of the work."""
    start = np.tile([0.05, 0.1, 0.8], (len(returns), 1))
    found = sj.optimize.minimize(loss, start, [returns], batched=True, method="lbfgs", bounds=BOUNDS)
    return np.where(found.success[:, None], found.x, np.nan)


@contextlib.contextmanager
def connected(address, workers):
    """A client of Dask."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise SystemExit("this example needs Dask: pip install 'scanjit[dask]'") from error
    if address:
        with Client(address) as client:
            yield client
    else:
        options = {"threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(workers, **options) as cluster, Client(cluster) as client:
            yield client


def kill_one(client):
    """Kill a worker of this machine a moment from now."""
    process = min(client.run(os.getpid).values())
    threading.Timer(1.0, os.kill, (process, signal.SIGKILL)).start()


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Fit a GARCH model to many series on a Dask cluster.")
    parser.add_argument("--series", default="1000", help="how many series; 'small' for a quick run")
    parser.add_argument("--parts", type=int, default=20, help="into how many parts they are cut")
    parser.add_argument("--cluster", help="the address of a scheduler; by default processes of this machine")
    parser.add_argument("--workers", type=int, default=2, help="how many processes of this machine")
    parser.add_argument("--kill", action="store_true", help="kill one process in the middle")
    options = parser.parse_args(arguments)
    small = options.series == "small"
    series, days = (20, 200) if small else (int(options.series), 1000)

    truth, returns = simulate(series, days, np.random.default_rng(0))
    parts = np.array_split(returns, min(options.parts, series))
    with connected(options.cluster, options.workers) as client:
        threads = sum(client.nthreads().values())
        if options.kill and not options.cluster:
            kill_one(client)
        start = time.perf_counter()
        found = sj.parallel.map(fit, parts, client=client)
        print(f"{series} fits in {len(parts)} parts, {threads} worker threads: {time.perf_counter() - start:.1f} s")

    theta = np.concatenate(found)
    for i, name in enumerate(["constant", "reaction", "memory"]):
        error = np.nanmedian(abs(theta[:, i] - truth[:, i]))
        print(f"{name:10} about {np.median(truth[:, i]):.2f}, median error {error:.3f}")
    print(f"{np.isfinite(theta).all(axis=1).sum()} of {series} converged")
    same = np.array_equal(fit(parts[0]), found[0], equal_nan=True)
    print(f"the first part, fitted here: {'the same bits' if same else 'other bits: another kind of processor'}")
    return theta, same


if __name__ == "__main__":
    main()
