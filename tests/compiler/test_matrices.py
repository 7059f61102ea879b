"""Programs whose products of bfloat16 and int8 are computed in registers for matrices (see `simd.matrices`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host
from scanjit.schedule.tiles import matrices
from tests.fuzz.check import Config
from tests.targets import with_matrices

TARGET = with_matrices()


@pytest.fixture(autouse=True)
def short_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers are used for sums of any number of quads, and compute the next tile's meanwhile."""
    monkeypatch.setattr(matrices, "LEAST_QUADS", 0)
    monkeypatch.setattr(matrices, "FEW_PACKS", 0)


Case = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]
CASES: dict[str, Case] = {
    "plain": (lambda a, b: a @ b, ((20, 33), (33, 48))),
    "odd columns": (lambda a, b: a @ b, ((5, 64), (64, 100))),
    "rows of three axes": (lambda a, b: a @ b, ((3, 7, 32), (32, 64))),
    "rows in another order": (lambda a, b: a.transpose(1, 0, 2) @ b, ((3, 7, 32), (32, 64))),
    "a batch": (lambda a, b: a @ b, ((2, 9, 32), (2, 32, 32))),
    "turned": (lambda a, b: a @ b.T, ((17, 40), (35, 40))),
    "a turned left operand": (lambda a, b: a.T @ b, ((40, 17), (40, 32))),
    "a turned left operand of many columns": (lambda a, b: a.T @ b, ((40, 17), (40, 144))),
    "one row": (lambda a, b: a @ b, ((1, 40), (40, 64))),
    "four products": (
        lambda a, b: (a @ b[:, :40]) * (a @ b[:, 40:80]) + (a @ b[:, 80:120]) * (a @ b[:, 120:]),
        ((18, 50), (50, 160)),
    ),
    "right operands of other widths": (
        lambda a, b: (a @ b[:, :32]) * (a @ (b[:, 32:64] * 2)),
        ((6, 20), (20, 96)),
    ),
    "five products": (lambda a, b: sum((a @ b[:, k::5]) * k for k in range(5)), ((18, 50), (50, 160))),
    "long sums": (lambda a, b: a @ b, ((18, 1100), (1100, 272))),
    "no terms": (lambda a, b: a @ b, ((9, 0), (0, 32))),
    "a step": (
        lambda a, b: sj.scan(lambda x, h: abs(x + h @ b), a, sj.zeros((a.shape[1], 24), "float32")),
        ((4, 19, 24), (24, 24)),
    ),
}


@pytest.mark.parametrize("weights", ["bfloat16", "int8"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_programs(name: str, known: bool, weights: str, rng: np.random.Generator) -> None:
    """With sizes that are known and that are not, emulated: as with other instructions."""
    f, shapes = CASES[name]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    sizes = [shape if known else (None,) * len(shape) for shape in shapes]
    found = []
    for target in (TARGET, replace(TARGET, has_matrices=False)):
        with host.using(target):
            symbols = [sj.tensor(size, "float32") for size in sizes]
            g = sj.mixed(sj.function(symbols, f(*symbols), mode="emulate"), weights=weights)
        found.append(g(*arrays))
    if weights == "int8":
        np.testing.assert_array_equal(*found)
    else:
        np.testing.assert_allclose(*found, rtol=2e-5, atol=2e-5 * max(shapes[0]))


@pytest.mark.parametrize("weights", ["bfloat16", "int8"])
def test_registers_are_used(weights: str) -> None:
    """A step of an LSTM multiplies four right matrices at a time; 16 rows behind the sums are computed one by one."""
    xs, w = sj.tensor(("T", "B", 128), "float32"), sj.tensor((32, 128), "float32")

    def step(x: Any, h: Any, c: Any) -> Any:
        i, f, o, u = sj.split(x + h @ w, 4, axis=1)
        c = sj.sigmoid(f) * c + sj.sigmoid(i) * sj.tanh(u)
        return sj.sigmoid(o) * sj.tanh(c), c

    with host.using(TARGET):
        hs, _ = sj.scan(step, xs, [sj.zeros((xs.shape[1], 32), "float32")] * 2)
        f = sj.mixed(sj.function([xs, w], hs, mode="emulate"), weights=weights)
        source = f.source
    kind = {"bfloat16": "bf16", "int8": "u8i8"}[weights]
    assert f"add_products4_{kind}(" in source
    assert ("dot_" in source) is (weights == "int8")  # sums of integers for one row are the same in vectors
    assert "16 rows x 1 vectors lie in registers for matrices" in str(f.explain())


def test_the_first_factor_may_be_the_right_operand(rng: np.random.Generator) -> None:
    """This gradient is the transpose of `dy.T @ x`. So the integers without sign are those of columns."""
    x, w = (sj.tensor((None, None), "float32") for _ in range(2))
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((40, 48), (48, 32))]
    found = []
    for target in (TARGET, replace(TARGET, has_matrices=False)):
        with host.using(target):
            gradient = sj.grad((sj.tanh(x @ w) ** 2).sum(), w)
            f = sj.mixed(sj.function([x, w], gradient, mode="emulate"), weights="int8")
            assert ("add_products4_i8u8(" in f.source) == target.has_matrices
        found.append(f(*arrays))
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-5)


def test_weights_of_gradients_are_computed_in_registers() -> None:
    """`x.T @ dy`: the terms of a row of `x.T` are copied, so that they are neighbours."""
    x, w = sj.tensor(("B", 48), "float32"), sj.tensor((48, 256), "float32")
    with host.using(TARGET):
        f = sj.mixed(sj.function([x, w], sj.grad((sj.tanh(x @ w) ** 2).sum(), [w]), mode="emulate"))
        assert f.source.count("add_products4_bf16(") >= 2 and "dot_bf16" not in f.source


@pytest.mark.parametrize("weights", ["bfloat16", "int8"])
def test_masked_rows(weights: str, rng: np.random.Generator) -> None:
    """Steps that a mask leaves out keep their state, whatever else is computed of their rows."""
    x, m, w = sj.tensor(("T", "B", 24), "float32"), sj.tensor(("T", "B"), "bool"), sj.tensor((24, 24), "float32")

    def step(x: Any, m: Any, h: Any) -> Any:
        return sj.where(m[:, None], abs(x + h @ w), h)

    arrays = rng.standard_normal((6, 19, 24)).astype("float32"), rng.random((6, 19)) < 0.5, np.eye(24, dtype="float32")
    found = []
    for target in (TARGET, replace(TARGET, has_matrices=False)):
        with host.using(target):
            hs = sj.scan(step, [x, m], sj.zeros((x.shape[1], 24), "float32"))
            f = sj.mixed(sj.function([x, m, w], hs, mode="emulate"), weights=weights)
        assert ("add_products" in f.source) is target.has_matrices
        found.append(f(*arrays))
    np.testing.assert_allclose(*found, rtol=2e-5, atol=2e-5)


@pytest.mark.skipif(not host.target().has_matrices, reason="the processor has no registers for matrices")
@pytest.mark.parametrize("weights", ["bfloat16", "int8"])
@pytest.mark.parametrize("batch", [1, 3, 16, 40])
def test_bits_do_not_depend_on_threads(weights: str, batch: int, rng: np.random.Generator) -> None:
    xs, w = sj.tensor(("T", "B", 128), "float32"), sj.tensor((128, 128), "float32")
    hs = sj.scan(lambda x, h: sj.tanh(x + h @ w), xs, sj.zeros((xs.shape[1], 128), "float32"))
    f = sj.mixed(sj.function([xs, w], hs), weights=weights)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((5, batch, 128), (128, 128))]
    found = []
    for threads in (1, 2, 3, 8):
        sj.config.threads = threads
        found.append(f(*arrays).view(np.int32))
    np.testing.assert_array_equal(found, [found[0]] * 4)


def test_sums_of_few_quads_stay_in_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for terms, used in ((124, False), (128, True)):
        x, w = sj.tensor(("B", terms), "float32"), sj.tensor((terms, 64), "float32")
        with host.using(TARGET):
            f = sj.mixed(sj.function([x, w], x @ w, mode="emulate"), weights="int8")
        assert ("add_products" in f.source) is used


@pytest.mark.parametrize("columns", [97, 300])
@pytest.mark.parametrize("weights", ["bfloat16", "int8"])
def test_sums_that_are_computed_meanwhile(
    weights: str, columns: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """They have the same bits as sums that are computed before the lines behind them."""
    x, w = sj.tensor((None, None, 150), "float32"), sj.shared(rng.standard_normal((150, columns)).astype(np.float32))
    outputs = [sj.tanh(x @ w) + 1, abs(x[0] @ w[:, :40]) * (x[0] @ w[:, 40:80])]
    found = []
    for few, threads in ((1000, 1), (0, 1), (0, 3)):
        monkeypatch.setattr(matrices, "FEW_PACKS", few)
        with Config(threads=threads, small=True).active(), host.using(TARGET):
            found.append(sj.mixed(sj.function([x], outputs, mode="emulate"), weights=weights))
        # sums of integers are scaled by numbers of columns, which are computed once for all rows: no tile comes next
        assert ("steps0 = " in found[-1].source) is (few == 0 and weights == "bfloat16")
    for steps, batch in ((2, 1), (1, 16), (1, 35), (1, 5), (1, 0)):
        given = rng.standard_normal((steps, batch, 150)).astype(np.float32)
        first, *others = (f(given) for f in found)
        for other in others:
            np.testing.assert_equal(other, first)


def test_nothing_looks_for_interrupts_between_sizes_and_products() -> None:
    """A look may run a signal handler, which may set other sizes for products of its own."""
    x, w = sj.tensor(("B", "K"), "float32"), sj.tensor(("K", "N"), "float32")
    y = x @ w
    for k in range(40):  # many lines for each row of a tile
        y = sj.tanh(y * k + x[:, :1]) + sj.exp(y)
    with host.using(TARGET):
        source = sj.mixed(sj.function([x, w], y, mode="emulate")).source
    assert "begin_matrices(" in source
    for part in source.split("begin_matrices(")[1:]:
        first, *lines = part.splitlines()[1:]
        indent = len(first) - len(first.lstrip())
        inside = list(itertools.takewhile(lambda line, indent=indent: line.startswith(" " * indent), lines))
        assert any("add_products" in line for line in inside)
        assert not any("interrupted" in line for line in (first, *inside))
