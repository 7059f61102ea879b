"""Left operands whose terms lie far apart are copied: the bits stay the same."""

from __future__ import annotations

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host
from scanjit.schedule.tiles import lefts
from scanjit.target import target_for, target_named
from tests.compare import all_close
from tests.fuzz.check import Config
from tests.pairs import pairwise
from tests.targets import with_vectors

AVX2 = target_for("x86_64-linux-gnu", features="+avx2,+fma")
COPIED = "a left operand is copied"


@pytest.mark.quick(3)
@pairwise(sizes=[("T", "B", 12, "N"), (9, 4, 12, 20), ("T", 4, "M", "N")], dtype=["float32", "float64"], threads=[1, 3])
def test_copies_have_the_same_bits(
    sizes: tuple[int | str, ...], dtype: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    time, batch, rows, columns = sizes
    x, y = sj.tensor((time, batch, rows), dtype), sj.tensor((time, batch, columns), dtype)
    axes = [[0, 1], [0, 1]]
    outputs = [sj.tensordot(x, y, axes), sj.tensordot(x[::-1], y, axes), sj.tensordot(sj.tanh(x), sj.exp(y), axes) + 1]
    with Config(threads=threads).active(), host.using(AVX2):
        plain = sj.function([x, y], outputs, mode="emulate")
        for name, value in {"LONG": 8, "WIDE": 4, "FEW_ROWS": 2}.items():
            monkeypatch.setattr(lefts, name, value)
        copied = sj.function([x, y], outputs, mode="emulate")
        rng = np.random.default_rng(0)
        assert copied.explain().count(COPIED) >= 2
        for some in ((9, 4, 12, 20), (0, 4, 12, 20), (1, 4, 12, 20), (5, 4, 12, 3)):
            if all(isinstance(size, str) or size == n for size, n in zip(sizes, some, strict=True)):
                a, b = (rng.standard_normal((*some[:2], n)).astype(dtype) for n in some[2:])
                np.testing.assert_equal(copied(a, b), plain(a, b))
                np.testing.assert_allclose(copied(a, b)[1], np.tensordot(a[::-1], b, axes), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lanes", [8, 1])
@pytest.mark.parametrize("threads", [1, 2])
def test_copies_in_blocks_of_steps(threads: int, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of the weights goes along with the steps: each block of steps copies its own rows. (With one lane,
    threads share the columns of the gradient of `x` as they share the rows of the copy.)"""
    for name, value in {"LONG": 0, "WIDE": 4, "FEW_ROWS": 2}.items():
        monkeypatch.setattr(lefts, name, value)
    x, w, u = sj.tensor((None, None, 10), "float32"), *(sj.tensor((10, 10), "float32") for _ in range(2))
    states = sj.scan(lambda row, h: sj.tanh(row @ u + h @ w), x, sj.zeros((x.shape[1], 10), "float32"))
    outputs = sj.grad((states**2).sum(), [w, u, x])
    reference = sj.function([x, w, u], outputs, mode="reference")
    with Config(threads=threads, small=True).active(), host.using(AVX2 if lanes == 8 else with_vectors(4)):
        f = sj.function([x, w, u], outputs, mode="emulate")
        assert COPIED in f.explain()
        rng = np.random.default_rng(1)
        for steps, batch in ((0, 3), (1, 1), (7, 3), (16, 2), (5, 5)):
            given = [rng.standard_normal(shape, np.float32) / 3 for shape in ((steps, batch, 10), (10, 10), (10, 10))]
            all_close(f(*given), reference(*given), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("batch", [None, 1, 4, 7])
@pytest.mark.parametrize("threads", [1, 2])
def test_pairs_of_steps_and_rows(batch: int | None, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of bfloat16 that are added over steps and rows: their terms are one loop, and both numbers of a left
    pair are copied."""
    for name, value in {"LONG": 0, "WIDE": 4, "FEW_ROWS": 2}.items():
        monkeypatch.setattr(lefts, name, value)
    x, y, g = (sj.tensor((None, batch, n), "float32", name) for name, n in zip("xyg", (10, 10, 32), strict=True))
    axes = [[0, 1], [0, 1]]
    outputs = [sj.tensordot(x, g, axes), sj.tensordot(y, g, axes)]
    with Config(threads=threads, small=True).active(), host.using(AVX2):
        f = sj.mixed(sj.function([x, y, g], outputs, mode="emulate"), weights="bfloat16")
        kernel = f.source[f.source.index("def contract_pairs") :].split("\ndef ")[0]
        assert kernel.count("for k") == 1
        assert f.explain().count(COPIED) == 2
        rng = np.random.default_rng(1)
        for steps in (0, 1, 7, 16):
            rows = 3 if batch is None else batch
            given = [rng.standard_normal((steps, rows, n)).astype(np.float32) for n in (10, 10, 32)]
            wanted = [np.tensordot(a, given[2], axes) for a in given[:2]]
            all_close(f(*given), wanted, atol=0.02 * (1 + steps * rows) ** 0.5 + 0.02)


def test_two_products_of_pairs_share_vectors() -> None:
    """The gradients of two weights are one nest. A register tile has two vectors, as it loads two numbers for each row
    of each product."""
    x, (w, r) = sj.tensor((None, None, 32), "float32"), (sj.tensor((32, 32), "float32", name) for name in "wr")
    states = sj.scan(lambda row, h: sj.tanh(row @ w + h @ r), x, sj.zeros((x.shape[1], 32), "float32"))
    with host.using(AVX2):
        gradient = sj.function([x, w, r], sj.grad((states**2).sum(), [w, r]), mode="emulate")
        kernels = sj.mixed(gradient, weights="bfloat16").source.split("\ndef ")
        (both,) = (text for text in kernels if text.startswith("contract_pairs_") and "begun" in text)
        assert both.count("= dot_apart(") == 8
        assert both.count("= load_i32x8(") == 2


@pytest.mark.parametrize(
    ("left", "columns", "target"),
    [
        ((100, 64), 256, AVX2),  # short sums
        ((1000, 8), 256, AVX2),  # few rows
        ((1000, 64), 64, AVX2),  # few columns
        ((1000, 64), 256, target_named("x86-64-v4")),  # large register tiles
    ],
)
def test_what_is_not_copied(left: tuple[int, int], columns: int, target: object) -> None:
    x, y = sj.tensor(left, "float32"), sj.tensor((left[0], columns), "float32")
    assert target is not None
    with host.using(target):  # type: ignore[arg-type]
        assert COPIED not in sj.function([x, y], x.T @ y, mode="emulate").explain()


def test_neighbours_are_not_copied() -> None:
    x, y = sj.tensor((64, 1000), "float32"), sj.tensor((1000, 256), "float32")
    with host.using(AVX2):
        assert COPIED not in sj.function([x, y], x @ y, mode="emulate").explain()
        assert COPIED in sj.function([x, y], x.reshape((1000, 64)).T @ y, mode="emulate").explain()
