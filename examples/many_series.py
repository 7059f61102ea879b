"""From a frame to a plot: fit a GARCH(1,1) to 1,000 series of returns, and see how long shocks last.

The series are real where the package arch is installed, which brings daily prices of the S&P 500, the NASDAQ and oil:
windows of them, some shorter than others. Else they are simulated. A long frame of pandas or polars has a row for
each series and day; `sj.frames.batch` turns it into arrays, `minimize` fits all series side by side, and the results
become a frame again.

    python examples/many_series.py                      # 1,000 series, in some seconds
    python examples/many_series.py --plot lives.png     # a picture of it (needs matplotlib)
    python examples/many_series.py --series small       # all in small, in a moment

It needs narwhals and pandas or polars: pip install "scanjit[frames]" pandas
"""

import argparse
import importlib
import importlib.util
import time

import numpy as np
from support import picture

import scanjit as sj
from scanjit.timeseries import garch, normal

DAYS = 500
BOUNDS = [(None, None), (1e-6, None), (0, 1), (0, 1)]
NAMES = ["mean", "constant", "reaction", "memory"]


def real(count):
    """Windows of the returns of three indices, in per cent: names, days and numbers of each row. None without arch."""
    if importlib.util.find_spec("arch") is None:
        return None
    parts = []
    for source, column in [("sp500", "Adj Close"), ("nasdaq", "Adj Close"), ("wti", "DCOILWTICO")]:
        prices = importlib.import_module(f"arch.data.{source}").load()[column].dropna()
        prices = prices[prices > 0]
        returns, days = 100 * np.diff(np.log(prices.to_numpy())), prices.index.to_numpy()[1:]
        each = -(-count // 3)
        for i, begin in enumerate(np.linspace(0, len(returns) - DAYS, each).astype(int)):
            length = DAYS - 7 * (i % 30)  # as if some were listed later
            window = slice(begin + DAYS - length, begin + DAYS)
            parts.append(
                (np.full(length, f"{source} {days[begin].astype('M8[D]')} {i}"), days[window], returns[window])
            )
    return tuple(np.concatenate(column) for column in zip(*parts[:count], strict=True))


def simulated(count):
    """The same of markets that do not exist."""
    random = np.random.default_rng(0)
    memory = random.uniform(0.7, 0.9, count)
    variance, returns = np.full(count, 1.0), random.normal(size=(DAYS, count))
    for day in range(DAYS):
        returns[day] *= np.sqrt(variance)
        variance = 0.05 + 0.08 * returns[day] ** 2 + memory * variance
    days = np.datetime64("2020-01-01", "ns") + np.arange(DAYS) * np.timedelta64(1, "D")
    kept = np.arange(DAYS)[:, None] >= 7 * (np.arange(count) % 30)
    names = np.array([f"market {i}" for i in range(count)])
    return tuple(np.broadcast_to(part, kept.shape)[kept] for part in (names, days[:, None], returns))


def long_frame(count):
    """A frame of pandas, or else of polars, with a row for each series and day."""
    library = "pandas" if importlib.util.find_spec("pandas") else "polars"
    names, days, returns = real(count) or simulated(count)
    return importlib.import_module(library).DataFrame({"unique_id": names, "ds": days, "y": returns})


def loss(theta, returns, there):
    """Minus the logarithm of the likelihood of a series. After its end, `there` is False."""
    mean, constant, reaction, memory = theta
    errors = sj.where(there, returns - mean, 0)
    variances = garch(errors, constant, reaction, memory, first=(errors**2).sum() / there.sum())
    return -sj.where(there, normal(errors, variances), 0).sum()


def fit(frame):
    """Parameters and status of each series, and the volatility of each day: two frames."""
    series = sj.frames.batch(frame, pad=0.0)
    start = np.tile([0.0, 0.05, 0.1, 0.85], (len(series), 1))
    start[:, 1] *= (series["y"] ** 2).sum(axis=1) / series.lengths  # the larger the returns, the larger the constant
    data = [series["y"], series.mask]
    found = sj.optimize.minimize(loss, start, data, method="lbfgs", batched=True, bounds=BOUNDS)
    volatility = sj.jit(sj.vmap(deviations))(found.x, *data)
    return series.frame(found, names=NAMES), series.frame({"volatility": volatility})


def deviations(theta, returns, there):
    """The deviation of each day."""
    errors = sj.where(there, returns - theta[0], 0)
    return np.sqrt(garch(errors, theta[1], theta[2], theta[3], first=(errors**2).sum() / there.sum()))


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Fit a GARCH(1,1) to many series of a frame.")
    parser.add_argument("--series", default="1000", help="how many series; 'small' for a quick run")
    parser.add_argument("--plot", help="save a picture to this file")
    options = parser.parse_args(arguments)
    frame = long_frame(30 if options.series == "small" else int(options.series))

    begin = time.perf_counter()
    fitted, volatility = fit(frame)
    print(f"{len(fitted)} series, {len(frame)} rows: {time.perf_counter() - begin:.1f} s, with compiling")
    print(fitted.head())
    messages, counts = np.unique(fitted["message"].to_numpy().astype(str), return_counts=True)
    for message, number in zip(messages, counts, strict=True):
        print(f"{number:6}  {message}")
    good = fitted["status"].to_numpy() <= 1
    persistence = (fitted["reaction"].to_numpy() + fitted["memory"].to_numpy())[good]
    with np.errstate(divide="ignore"):
        lives = np.log(0.5) / np.log(np.clip(persistence, 1e-3, 1 - 1e-6))
    print(f"half of a shock is gone after {np.median(lives):.0f} days, in half of the series")
    if options.plot:
        with picture(options.plot) as axes:
            axes.hist(np.clip(lives, 0, 200), bins=40)
            axes.set_xlabel("days after which half of a shock is gone (200 and more in the last bar)")
            axes.set_ylabel("series")
    assert good.mean() > 0.9 and len(volatility) == len(frame)
    assert np.isfinite(volatility["volatility"].to_numpy()).all()


if __name__ == "__main__":
    main()
