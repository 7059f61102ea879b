"""Right operands of products that are fetched ahead: where, how far, and that results stay the same."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host
from scanjit.runtime.function import CompiledFunction
from scanjit.target import Target, target_for
from tests.compare import all_close
from tests.fuzz.check import Config

FEATURES = "+avx512f,+avx512vl,+avx512dq,+avx512bw"
INTEL = target_for("x86_64-unknown-linux-gnu", "sapphirerapids", FEATURES)
OWN, NEXT = r"prefetch\(q\d+ \+ k\d+\*\d+ \+ \d+\)", r"prefetch\(next\d+ \+ k\d+\*share\d+\)"


def product(terms: int, columns: int) -> CompiledFunction[Any]:
    """The product of some rows and a matrix, and something that is computed of it."""
    x, w = sj.tensor(("B", terms), "float32"), sj.tensor((terms, columns), "float32")
    return sj.function([x, w], sj.tanh(x @ w), mode="emulate")


@pytest.mark.parametrize(
    ("target", "terms", "columns", "own", "later"),
    [
        (INTEL, 320, 64, True, False),
        (INTEL, 320, 1280, True, True),
        (INTEL, 32, 64, False, False),  # a panel fits into the first cache
        (INTEL, 32, 16384, False, False),
        (replace(INTEL, name="znver4"), 320, 1280, False, False),
        (replace(INTEL, name=""), 320, 1280, False, False),
    ],
)
def test_what_is_fetched(target: Target, terms: int, columns: int, own: bool, later: bool) -> None:
    with host.using(target):
        f = product(terms, columns)
        source = f.source
        assert (re.search(OWN, source) is not None, re.search(NEXT, source) is not None) == (own, later)
        words = "the next terms and panels fetched ahead" if later else "the next terms fetched ahead"
        assert (words in str(sj.dprint(f, file="str", stage="blocks"))) == own


def test_panels_that_stay_near_are_read_by_all_rows_first() -> None:
    """Where a panel fits into the first cache, the loop over the rows stands inside that over the columns."""
    for terms, inside in ((32, True), (320, False)):
        with host.using(INTEL):
            source = product(terms, 512).source
        assert (source.index("for j0") < source.index("for i0")) == inside


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_the_same(dtype: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With caches so small that everything is fetched ahead; one row, few rows, and no rows at all."""
    small = replace(INTEL, level1_bytes=64, level2_bytes=256)
    x, w, u = sj.tensor((None, None, 9), dtype), sj.tensor((9, 70), dtype), sj.tensor((70, 70), dtype)
    states = sj.scan(lambda row, h: sj.tanh(row @ w + h @ u), x, sj.zeros((x.shape[1], 70), dtype))
    outputs = [states, *sj.grad((states**2).sum(), [w, u, x])]
    reference = sj.function([x, w, u], outputs, mode="reference")
    found = []
    for target in (small, replace(small, name="")):
        with Config(threads=threads, small=True).active(), host.using(target):
            found.append(sj.function([x, w, u], outputs, mode="emulate"))
    assert [re.search(NEXT, f.source) is not None for f in found] == [True, False]
    rng = np.random.default_rng(0)
    for steps, batch in ((0, 3), (2, 0), (3, 1), (3, 4), (2, 13)):
        given = [rng.standard_normal(shape).astype(dtype) / 3 for shape in ((steps, batch, 9), (9, 70), (70, 70))]
        all_close(found[0](*given), reference(*given), rtol=1e-4, atol=1e-5)
