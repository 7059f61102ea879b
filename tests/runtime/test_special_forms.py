"""Code that only some calls run, by their sizes or values: in files, forked processes, other threads and interrupts."""

from __future__ import annotations

import os
import pickle
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import scanjit as sj
from tests.at_once import at_once
from tests.interrupts.kinds import Kind
from tests.interrupts.storm import interrupt


class Special(NamedTuple):
    """A program, the shapes of its arguments for several calls, and what its source or its explanation has."""

    make: Callable[..., Any]
    dims: Sequence[tuple[str, ...]]
    sizes: Sequence[dict[str, int]]
    words: str


LENGTHS = [{"T": 9, "N": n} for n in (1, 3, 8, 9, 40)]
ROWS = [{"B": rows, "N": n} for rows, n in ((1, 5), (3, 5), (4, 5), (20, 33), (20, 301))]


def _learned(x: Any, w: Any) -> Any:
    rows = sj.scan(lambda x, w: w + 0.1 * (1.0 - x @ w) * x, x, w)
    return [rows, *sj.grad(rows.sum(), [x, w])]


def _guessed(x: Any, w: Any) -> Any:
    return sj.scan(lambda x, w: w + sj.where(x @ w <= 0, 1.0, 0.0) * x, x, w)


def _states(x: Any, r: Any) -> Any:
    return sj.scan(lambda row, h: sj.tanh(r @ h + row), x, sj.zeros((x.shape[1],)))


VECTORS, MATRICES = [("T", "N"), ("N",)], [("T", "N"), ("N", "N")]
SPECIAL = {
    "rows of one vector": Special(_learned, VECTORS, LENGTHS, r"if 0 < \w+ <= \d+:"),
    "guessed choices": Special(_guessed, VECTORS, LENGTHS, r"if any_of\("),
    "few rows": Special(lambda x, w: x @ w, [("B", "N"), ("N", "N")], ROWS, "rows of B are computed one by one"),
    "operands kept in all steps": Special(_states, MATRICES, LENGTHS, "once, before the loop"),
    "spectra side by side": Special(lambda x: sj.irfft(sj.rfft(x)), [("B", "N")], ROWS, "transpose_f64"),
    "rows sorted by brief words": Special(sj.argsort, [("B", "N")], ROWS, "done = 1"),
}


@pytest.fixture(params=SPECIAL)
def calls(request: pytest.FixtureRequest) -> tuple[Any, list[tuple[list[np.ndarray], Any]]]:
    """A function, and arguments of several calls with their results."""
    special = SPECIAL[request.param]
    inputs = [sj.tensor(dims, "float64", f"x{i}") for i, dims in enumerate(special.dims)]
    f = sj.function(inputs, special.make(*inputs))
    assert re.search(special.words, f.source + f.explain()), "the program has no such form"
    rng, found = np.random.default_rng(0), []
    for sizes in special.sizes:
        given = [rng.standard_normal([sizes[dim] for dim in dims]) for dims in special.dims]
        found.append((given, f(*given)))
    return f, found


def right(f: Any, found: Sequence[tuple[list[np.ndarray], Any]]) -> bool:
    """Whether all results have the same bits."""
    for given, results in found:
        again = f(*given)
        pairs = zip(again, results, strict=True) if isinstance(results, list) else [(again, results)]
        if any(a.tobytes() != b.tobytes() for a, b in pairs):
            return False
    return True


def test_files_and_pickles(calls: Any, tmp_path: Path) -> None:
    f, found = calls
    f.save(tmp_path / "f.sj")
    assert right(sj.load(tmp_path / "f.sj"), found)
    assert right(pickle.loads(pickle.dumps(f)), found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forks(calls: Any) -> None:
    f, found = calls
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if right(f, found) else 2
        finally:
            os._exit(status)
    assert right(f, found)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_calls_at_once(calls: Any) -> None:
    f, found = calls

    def call(first: int) -> bool:
        return all(right(f, [found[(first + turn) % len(found)]]) for turn in range(20))

    assert all(at_once(4, call))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
@pytest.mark.parametrize("threads", [1, 2])
def test_interrupts(calls: Any, threads: int) -> None:
    f, found = calls

    def call() -> None:
        for given, _ in found:
            f(*given)

    assert not interrupt(Kind("", call, threads, check=lambda: right(f, found)), 20)
