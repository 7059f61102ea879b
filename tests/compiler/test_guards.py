"""Masked products in generated code: the values, and that what a mask excludes is not computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.codegen import guard
from scanjit.rewrite import pipeline
from scanjit.simd import emulate

T, H = 4, 10
MASKS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "holes": lambda rng, batch: rng.random((T, batch)) < 0.4,
    "lengths": lambda rng, batch: np.arange(T)[:, None] < rng.integers(0, T + 1, batch),
    "left padding": lambda rng, batch: np.arange(T)[:, None] >= rng.integers(0, T + 1, batch),
    "nothing": lambda rng, batch: np.zeros((T, batch), bool),
    "everything": lambda rng, batch: np.ones((T, batch), bool),
}


def layer(dtype: str, mode: str, gradient: bool = True, threads: int = 1) -> Any:
    """A masked recurrence with a gate: outputs, and the gradients of everything."""
    x, m = sj.tensor(("T", "B", H), dtype, "x"), sj.tensor(("T", "B"), "bool", "m")
    w, r = sj.tensor((H, 2 * H), dtype, "w"), sj.tensor((H, 2 * H), dtype, "r")

    def step(x_t: Any, m_t: Any, h: Any) -> Any:
        z = x_t @ w + h @ r
        gate = sj.sigmoid(z[:, :H])
        return sj.where(m_t[:, None], gate * h + (1 - gate) * sj.tanh(z[:, H:]), h)

    hs = sj.scan(step, [x, m], sj.zeros((x.shape[1], H), dtype))
    outputs = [hs, *sj.grad(sj.sum(hs * sj.cos(hs)), [x, w, r])] if gradient else [hs]
    return sj.function([x, m, w, r], outputs, mode=mode)


def arguments(dtype: str, batch: int, mask: str, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    x, w, r = (rng.normal(size=shape).astype(dtype) for shape in ((T, batch, H), (H, 2 * H), (H, 2 * H)))
    return [x, MASKS[mask](rng, batch), w * 0.3, r * 0.3]


@pytest.fixture(scope="module")
def layers() -> Callable[..., Any]:
    known: dict[tuple[Any, ...], Any] = {}

    def find(*key: Any) -> Any:
        if key not in known:
            known[key] = layer(*key)
        return known[key]

    return find


@pytest.mark.quick(3)
@pytest.mark.parametrize("batch", [1, 3, 17, 40])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_emulated(layers: Callable[..., Any], dtype: str, batch: int) -> None:
    for mask in MASKS if batch < 40 else ("holes",):
        given = arguments(dtype, batch, mask)
        for got, wanted in zip(layers(dtype, "emulate")(*given), layers(dtype, "reference")(*given), strict=True):
            np.testing.assert_allclose(
                got, wanted, *((2e-4, 2e-5) if dtype == "float32" else (1e-9, 1e-11)), err_msg=mask
            )


def test_more_rows_than_are_put_in_order_together(layers: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_ROWS", 6)
    given = arguments("float64", 17, "holes")
    for got, wanted in zip(layer("float64", "emulate")(*given), layers("float64", "reference")(*given), strict=True):
        np.testing.assert_allclose(got, wanted, 1e-9, 1e-11)


def test_compiled(layers: Callable[..., Any]) -> None:
    for batch in (1, 7, 40):
        for mask in MASKS:
            given = arguments("float32", batch, mask)
            for got, wanted in zip(
                layers("float32", "numba")(*given), layers("float32", "reference")(*given), strict=True
            ):
                np.testing.assert_allclose(got, wanted, 2e-4, 2e-5, err_msg=mask)


def test_the_same_bits_as_without_guards(layers: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out would have added zeros."""
    guarded = layers("float32", "emulate")
    passes = tuple(entry for entry in pipeline.LOOPS if entry[0] != "guards")
    monkeypatch.setattr(pipeline, "LOOPS", passes)
    plain = layer("float32", "emulate")
    for mask in MASKS:
        given = arguments("float32", 7, mask)
        np.testing.assert_equal(guarded(*given), plain(*given))


@pytest.fixture
def additions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the additions of emulated products. Other sums are no multiply-adds here."""
    monkeypatch.setattr("scanjit.codegen.frame.multiply_adds", lambda nest, tile: {})
    count = [0]
    load = emulate.load_source

    def counted(*args: Any) -> Any:
        module = load(*args)
        if "fma" in module:
            fma = module["fma"]

            def counting(*vectors: Any) -> Any:
                count[0] += 1
                return fma(*vectors)

            module["fma"] = counting
        return module

    monkeypatch.setattr("scanjit.runtime.emulation.load_source", counted)
    return count


def test_what_is_masked_is_not_computed(additions: list[int]) -> None:
    found, emulated = {}, layer("float64", "emulate")
    for mask in ("nothing", "lengths", "everything"):
        x, _, w, r = arguments("float64", 40, mask)
        lengths = np.arange(40) % 3
        keep = np.arange(T)[:, None] < (lengths if mask == "lengths" else np.full(40, T * (mask == "everything")))
        additions[0] = 0
        emulated(x, keep, w, r)
        found[mask] = additions[0]
    assert found["nothing"] == 0
    assert 0.24 < found["lengths"] / found["everything"] < 0.27  # a quarter of the steps count; rows go in tiles


def test_nan_where_nobody_looks(layers: Callable[..., Any]) -> None:
    """Padding may hold anything: what the reference keeps free of it stays free of it."""
    x, m, w, r = arguments("float64", 17, "holes")
    x[~m] = np.nan
    for got, wanted in zip(layers("float64", "emulate")(x, m, w, r), layers("float64", "reference")(x, m, w, r),
                           strict=True):  # fmt: skip
        fine = np.isfinite(wanted)
        np.testing.assert_allclose(got[fine], wanted[fine], 1e-9, 1e-11)


def test_explain_names_them(layers: Callable[..., Any]) -> None:
    assert "leaves out rows where a mask is false" in layers("float64", "emulate").explain()


def test_a_mask_of_every_element_of_a_narrow_result(rng: np.random.Generator) -> None:
    """Lanes run along the sum then, and a register tile has several columns, each with a mask of its own."""
    x, r, mask = sj.tensor(("B", 12), "float32"), sj.tensor((3, 12), "float32"), sj.tensor(("B", 3), "bool")
    f = sj.function([x, r, mask], sj.where(mask, x @ r.T, 0), mode="emulate")
    assert "leaves out rows" in f.explain() and "columns" in f.explain()
    for batch in (1, 2, 9):
        given = [rng.integers(-3, 4, shape).astype("float32") for shape in ((batch, 12), (3, 12))]
        for first in (False, True):
            chosen = np.tile([first, not first, True], (batch, 1))
            np.testing.assert_array_equal(f(*given, chosen), np.where(chosen, given[0] @ given[1].T, 0))
