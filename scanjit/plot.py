"""Pictures of what functions cost and compute, drawn with matplotlib: `pip install 'scanjit[plot]'`.

Each function draws into the `ax` that it is given, or makes a figure, and returns the Axes: change what you like there.
Nothing depends on colour alone.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from scanjit import errors
from scanjit.arrays import array_of
from scanjit.kinds import holds_numbers
from scanjit.show.identifiers import writable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scanjit.runtime.footprint import Memory
    from scanjit.runtime.function import CompiledFunction
    from scanjit.runtime.profile import Profile

__all__ = ["history", "memory", "profile", "runs", "states"]

_DARK, _LIGHT = "#08306b", "#9ecae1"
_STYLES = ("-", "--", ":", "-.")
_MARKS = "os^Dvx"
_NAMED = 40
"""The most statements or temporaries that are drawn or named one by one."""


def profile(profile: Profile | CompiledFunction[Any], ax: Axes | None = None) -> Axes:
    """Draw how long each statement of a function takes, and the part of it that the machine needs at least.

    Parameters
    ----------
    profile : Profile or CompiledFunction
        What `f.profile()` returned; or `f`, of which some calls were profiled.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Two bars a statement, in milliseconds a call: measured, and the limit of the machine. The slowest is at the top.
        If there are more than 40 statements, the others are one bar.

    Raises
    ------
    ArgumentError
        If no call was profiled.

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> x = sj.vector("x")
    >>> f = sj.function([x], sj.exp(x).sum(), name="total")
    >>> sj.config.profile = True
    >>> y = f(np.zeros(1000))
    >>> sj.config.profile = False
    >>> ax = sj.plot.profile(f)
    >>> ax.get_xlabel()
    'milliseconds a call'
    """
    found: Any = profile
    found = found if hasattr(found, "lines") else _asked(found, "profile")
    lines = sorted(found.lines, key=lambda line: -line.seconds)
    bars = [(line.label, line.seconds, line.limit) for line in lines[:_NAMED]]
    if rest := lines[_NAMED:]:
        bars.append((f"{len(rest)} others", sum(line.seconds for line in rest), sum(line.limit for line in rest)))
    axes, places, per = _axes(ax, height=1.2 + 0.3 * len(bars)), range(len(bars)), 1e3 / max(found.calls, 1)
    measured, limits = ([bar[i] * per for bar in bars] for i in (1, 2))
    axes.barh(places, measured, color=_LIGHT, edgecolor=_DARK, label="measured")
    axes.barh(places, limits, height=0.35, color=_DARK, label="limit of the machine")
    axes.set_yticks(places, [_plain(bar[0]) for bar in bars])
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds a call")
    axes.set_title(_plain(f"{found.name}: {found.seconds * per:.3g} ms a call"))
    axes.legend(loc="lower right")
    return axes


def memory(memory: Memory | CompiledFunction[Any], ax: Axes | None = None, **sizes: int) -> Axes:
    """Draw what lies in the workspace of a function while it runs: each temporary from the first statement that
    needs it to the last.

    Parameters
    ----------
    memory : Memory or CompiledFunction
        What `f.memory(...)` returned; or `f`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.
    **sizes : int
        The sizes that the types of the inputs name, as for `f.memory`, if `f` is given.

    Returns
    -------
    matplotlib.axes.Axes
        A rectangle a temporary: to the right the statements, in the order in which they run (those of a loop once); up
        the place in the workspace, in megabytes. The largest ones are named. What is white could be used by others.

    Raises
    ------
    ArgumentError
        If a size is missing, or in mode="reference", where nothing is planned.

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> x, w = sj.tensor(("T", 64), name="x"), sj.tensor((64, 64), name="w")
    >>> h = sj.scan(lambda row, h: np.tanh(row + h @ w), x, sj.zeros(64))
    >>> f = sj.function([x, w], sj.grad(h.sum(), w), mode="emulate")
    >>> ax = sj.plot.memory(f, T=10_000)
    >>> ax.get_ylabel()
    'place in the workspace, MB'
    """
    found: Any = memory
    if not hasattr(found, "temporaries"):
        found = _asked(found, "memory", sizes)
    elif sizes:
        raise errors.ArgumentError("sizes are for functions; the memory of a call is known", got=", ".join(sizes))
    axes = _axes(ax, height=4.0)
    largest = sorted((t for t in found.temporaries if t.nbytes), key=lambda t: -t.nbytes)
    high = max((t.offset + t.nbytes for t in largest), default=0)
    end = max((t.last + 1 for t in largest), default=1)
    for i, t in enumerate(largest):
        place = (t.first, t.offset / 1e6), t.last + 1 - t.first, t.nbytes / 1e6
        axes.add_patch(library("patches").Rectangle(*place, facecolor=_LIGHT, edgecolor=_DARK))
        if i < _NAMED and t.nbytes > 0.04 * high:
            middle = (t.first + t.last + 1) / 2, (t.offset + t.nbytes / 2) / 1e6
            axes.annotate(_plain(t.name), middle, ha="center", va="center", size="small", clip_on=True)
    axes.axhline(high / 1e6, color=_DARK, linestyle="--", label=f"workspace, {found.workspace / 1e6:.3g} MB")
    axes.set_xlim(0, end)
    axes.set_ylim(0, high * 1.15 / 1e6 or 1.0)
    axes.xaxis.set_major_locator(library("ticker").MaxNLocator(integer=True))
    axes.set_xlabel("statement")
    axes.set_ylabel("place in the workspace, MB")
    axes.set_title(_plain(f"{found.name}: {found.peak / 1e6:.3g} MB with the results"))
    axes.legend(loc="upper right")
    return axes


def history(history: Any, ax: Axes | None = None) -> Axes:
    """Draw how losses and other scores changed while a model was trained.

    Parameters
    ----------
    history : mapping or sequence
        The name of each score with its values, one an epoch, such as `lasagne_like.training.History`, or Keras's
        `fit(...).history`; or the values of one alone.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A line a score; the first epoch is 1. Epochs without a value (NaN) are left out, so that a score of every fifth
        epoch is a line too; a cross at the lower edge marks an infinite one.

    Raises
    ------
    ArgumentError
        If there is no score, or a score is no sequence of numbers.

    Examples
    --------
    >>> import scanjit as sj
    >>> ax = sj.plot.history({"training": [0.9, 0.5, 0.4], "held out": [1.0, 0.7, 0.8]})
    >>> [line.get_label() for line in ax.lines]
    ['training', 'held out']
    """
    given = history if isinstance(history, Mapping) else {"loss": history}
    scores = {str(name): _numbers(values, f"the score {name!r}") for name, values in given.items()}
    if not any(map(len, scores.values())):
        raise errors.ArgumentError("a history without an epoch cannot be drawn", got=repr(history))
    axes = _axes(ax)
    for i, (name, values) in enumerate(scores.items()):
        epochs, known = np.arange(1, len(values) + 1), np.isfinite(values)
        look = {"linestyle": _STYLES[i % len(_STYLES)], "color": f"C{i}", "marker": _MARKS[i % len(_MARKS)]}
        axes.plot(epochs[known], values[known], **look, markevery=0.1, label=_plain(name))
        if np.isinf(values).any():
            where = epochs[np.isinf(values)]
            axes.plot(where, np.zeros(len(where)), "x", color=f"C{i}", transform=axes.get_xaxis_transform())
    axes.set_xlabel("epoch")
    axes.set_ylabel(_plain(next(iter(scores))) if len(scores) == 1 else "score")
    axes.xaxis.set_major_locator(library("ticker").MaxNLocator(integer=True))
    axes.legend()
    return axes


def states(states: Any, ax: Axes | None = None) -> Axes:
    """Draw the states of a loop as a heat map over time.

    Parameters
    ----------
    states : array, list of arrays, or mapping from names to arrays
        What `scan` returned, for one sequence: of shape (steps, units) or (steps,). Take one of a batch by
        `states[:, 0]`. Several states, such as `[h, c]` or `{"h": h, "c": c}`, are drawn one above the other.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Time goes to the right, a row is a unit; a bar says what the colours mean. Values that are NaN or infinite are
        red; their steps are marked above, and the title says which is the first.

    Raises
    ------
    ArgumentError
        If the array has other axes, or no element.

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> waves = sj.jit(lambda rates: sj.scan(lambda h: h + rates, outputs_info=sj.zeros(3), n_steps=50))
    >>> ax = sj.plot.states(np.sin(waves(np.array([0.1, 0.2, 0.3]))))
    >>> ax.get_xlabel(), ax.images[0].get_array().shape
    ('step', (3, 50))
    """
    several = isinstance(states, list | tuple) and all(isinstance(x, np.ndarray) and x.ndim for x in states)
    named = states if isinstance(states, Mapping) else dict(enumerate(states)) if several else {"": states}
    found = {name: _units(state) for name, state in named.items()}
    if len({units.shape[1] for units in found.values()}) != 1:
        lengths = ", ".join(f"{name}: {units.shape[1]}" for name, units in found.items())
        raise errors.ArgumentError("the states that are drawn have the same number of steps", got=lengths or "no state")
    rows = np.concatenate(list(found.values()))
    bad = ~np.isfinite(rows)
    axes = _axes(ax)
    colours = library("").colormaps["cividis"].with_extremes(bad="red")
    limits = {"vmin": 0.0, "vmax": 1.0} if bad.all() else {}
    image = axes.imshow(
        np.ma.array(rows, mask=bad), cmap=colours, aspect="auto", origin="lower", interpolation="nearest", **limits
    )
    axes.figure.colorbar(image, ax=axes, label="value")
    axes.set_xlabel("step")
    axes.set_ylabel("unit")
    if isinstance(states, Mapping):
        starts = np.cumsum([0, *map(len, found.values())])
        axes.set_yticks((starts[:-1] + starts[1:] - 1) / 2, [_plain(str(name)) for name in found])
        axes.hlines(starts[1:-1] - 0.5, -0.5, rows.shape[1] - 0.5, color="white")
        axes.set_ylabel("state")
    else:
        axes.yaxis.set_major_locator(library("ticker").MaxNLocator(integer=True))
    if bad.any():
        steps = np.flatnonzero(bad.any(axis=0))
        axes.plot(steps, np.full(len(steps), 0.97), "rv", mec="white", transform=axes.get_xaxis_transform())
        axes.set_title(f"red, in the steps that are marked: NaN or infinite, first in step {steps[0]}")
    return axes


def _units(states: Any) -> np.ndarray:
    """A row of float64 for each unit of a state."""
    values = array_of(states)
    if not holds_numbers(values.dtype) or np.iscomplexobj(values) or values.ndim not in (1, 2) or not values.size:
        raise errors.ArgumentError(
            "the states of one sequence are drawn, as numbers of shape (steps, units)",
            got=f"{values.dtype}{values.shape}",
            fix="take one sequence of a batch: states[:, 0]" if values.ndim > 2 else "",
        )
    return values.reshape(len(values), -1).T.astype("float64")


def runs(runs: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Compare runs of benchmarks: how many times as fast as in the first run each row is in the others.

    Parameters
    ----------
    runs : mapping
        The name of each run, and what it measured: the path of a file that `python -m benchmarks --json` wrote (the
        times of scanjit are taken), or a mapping from the name of each row to its seconds.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A mark a row and run, for rows that the first run has too; 1 is as fast as in the first run, 2 twice as fast.

    Raises
    ------
    ArgumentError
        If there are fewer than two runs, no row is in the first run and in another, or a time is not positive.
    FormatError, OSError
        If a file is another one, or cannot be read.

    Examples
    --------
    >>> import scanjit as sj
    >>> ax = sj.plot.runs({"before": {"LSTM": 0.004, "GRU": 0.003}, "after": {"LSTM": 0.002, "GRU": 0.003}})
    >>> ax.lines[0].get_xdata()
    array([2., 1.])
    """
    given: Any = runs
    if not isinstance(given, Mapping) or len(given) < 2:
        raise errors.ArgumentError(
            "two runs or more are compared",
            got=repr(given),
            expected='names and files, as {"before": "before.json", "after": "after.json"}',
        )
    (first, base), *others = ((name, _seconds(name, run)) for name, run in given.items())
    rows = [row for row in base if any(row in run for _, run in others)]
    if not rows:
        raise errors.ArgumentError(f"no row of the run {first!r} is in another run", got=", ".join(base) or "no row")
    axes = _axes(ax, height=1.2 + 0.25 * len(rows))
    for i, (name, run) in enumerate(others):
        places = [place for place, row in enumerate(rows) if row in run]
        speeds = np.array([base[rows[place]] / run[rows[place]] for place in places])
        axes.plot(speeds, places, _MARKS[i % len(_MARKS)], color=f"C{i}", label=_plain(name))
    axes.axvline(1, color="gray", linestyle=":", label=_plain(first))
    axes.set_yticks(range(len(rows)), map(_plain, rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(library("ticker").LogFormatter())
    axes.set_xlabel(_plain(f"speed, times that of {first} (log scale)"))
    axes.legend()
    return axes


def _seconds(name: str, run: Any) -> dict[str, float]:
    """The seconds of each row of a run."""
    if not isinstance(run, str | os.PathLike | Mapping):
        raise errors.ArgumentError(f"the run {name!r} is no file and no mapping from rows to seconds", got=repr(run))
    found = dict(run) if isinstance(run, Mapping) else dict(_read(Path(run)))
    for row, seconds in found.items():
        if not (isinstance(seconds, int | float | np.number) and 0 < seconds < float("inf")):
            raise errors.ArgumentError(
                f"a row of the run {name!r} has no time", got=f"{row}: {seconds!r}", expected="seconds, more than 0"
            )
    return {str(row): float(seconds) for row, seconds in found.items()}


def _read(path: Path) -> Iterator[tuple[str, float]]:
    """The name and the seconds of each row in a file of `python -m benchmarks --json`."""
    try:
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            passed = row["times"].get("scanjit", {}).get("passed")
            if passed:
                sizes = " ".join(f"{key}={value:,}" for key, value in row["sizes"].items())
                yield f"{row['case']}, {row['kind']}: {sizes}, {row['dtype']}", median(passed)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.FormatError("this is no file of python -m benchmarks --json", got=str(path)) from error


def _asked(function: Any, what: str, sizes: Mapping[str, int] | None = None) -> Any:
    """The profile or the memory that a compiled function reports."""
    if not hasattr(function, what):
        raise errors.ArgumentError(
            f"the {what} of a compiled function is drawn",
            got=f"{function!r} ({type(function).__name__})",
            expected=f"f.{what}(), or f",
            fix="of a jitted function, draw that for some arguments: f.function(*args)",
        )
    return getattr(function, what)(**(sizes or {}))


def _numbers(values: Any, what: str) -> np.ndarray:
    """A sequence of numbers as float64."""
    try:
        array = np.asarray(values, "float64")
    except (TypeError, ValueError):
        array = np.zeros(())
    if array.ndim != 1:
        raise errors.ArgumentError(f"{what} is no sequence of numbers", got=repr(values))
    return array


def _axes(ax: Any, height: float = 3.5) -> Any:
    """The Axes that the user gave, or those of a new figure."""
    kind = library("axes").Axes
    if ax is None:
        return library("pyplot").subplots(figsize=(8.0, height), layout="constrained")[1]
    if not isinstance(ax, kind):
        raise errors.ArgumentError(
            "ax is no Axes of matplotlib",
            got=f"{type(ax).__name__}",
            fix="pass one of the Axes that plt.subplots() makes",
        )
    return ax


def library(name: str) -> Any:
    """A module of matplotlib, or matplotlib itself for an empty name.

    Raises
    ------
    ImportError
        If it is not installed; the error says how to install it.
    """
    try:
        return importlib.import_module(f"matplotlib.{name}".rstrip("."))
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'scanjit[plot]'") from error


def _plain(text: str) -> str:
    """A text with its dollar signs escaped: matplotlib takes text between dollar signs for a formula."""
    return writable(text).replace("$", r"\$")
