"""Along which loop lanes run in convolutions; rows of several loops; filters packed once."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host
from scanjit.schedule.nests import Access, Buffer, NestLoop, joined
from scanjit.schedule.tiles.products import depth_of
from scanjit.target import target_for
from scanjit.target.value import AVX512
from tests.fuzz.check import Config


def convolution(
    declared: tuple[Any, ...],
    filters: tuple[int, ...],
    mode: str,
    bias: bool = False,
    dtype: str = "float32",
    **how: Any,
) -> tuple[Any, np.ndarray]:
    """A convolution of a tensor, declared with such a shape, with shared filters; and the filters."""
    rng = np.random.default_rng(sum(filters))
    values = rng.integers(-3, 4, filters).astype(dtype)
    x, w = sj.tensor(declared, dtype, "x"), sj.shared(values)
    y = (sj.conv1d if len(filters) == 3 else sj.conv2d)(x, w, **how)
    if bias:
        y = sj.maximum(y + sj.shared(np.arange(filters[0], dtype=dtype)).reshape((-1,) + (1,) * (len(filters) - 2)), 0)
    return sj.function([x], y, mode=mode), values


def compare(shape: tuple[int, ...], filters: tuple[int, ...], config: Config, **how: Any) -> None:
    """Named and fixed sizes against the reference interpreter."""
    x = np.random.default_rng(1).integers(-3, 4, shape).astype(how.get("dtype", "float32"))
    names = ("B", shape[1], *("n", "m")[: len(shape) - 2])
    expected = convolution(shape, filters, "reference", **how)[0](x)
    for declared in (shape, names, (shape[0], *names[1:]), ("B", *shape[1:])):
        with config.active():
            f, _ = convolution(declared, filters, config.mode, **how)
            np.testing.assert_array_equal(f(x), expected, err_msg=f"{declared} of {shape}")


@pytest.mark.quick(3)
@pytest.mark.parametrize("length", [5, 7, 20, 37, 300])
@pytest.mark.parametrize("threads", [1, 3])
def test_values_whatever_is_known_of_the_length(length: int, threads: int) -> None:
    config = Config(width=64, threads=threads)
    compare((3, 5, length), (18, 5, 3), config, subsample=2)
    compare((1, 2, length), (33, 2, 5), config, bias=True)
    compare((2, 4, length), (6, 2, 2), config, num_groups=2, filter_dilation=2, border_mode="full")


@pytest.mark.parametrize("width", [64, 16])
def test_values_of_images(width: int) -> None:
    for (n, m), bias in itertools.product(((3, 4), (6, 19)), (False, True)):
        compare((2, 3, n, m), (17, 3, 3, 2), Config(width=width), bias=bias)
    compare((2, 3, 9, 8), (20, 3, 2, 2), Config(width=width), subsample=(2, 3), dtype="float64")
    compare((2, 3, 4, 5), (8, 3, 1, 1), Config(width=width), border_mode=(1, 0))


def test_values_compiled() -> None:
    compare((2, 40, 7), (18, 40, 3), Config("numba", threads=2), bias=True)


def test_terms_in_blocks() -> None:
    """More terms than a block has, of filters that are packed whole."""
    compare((2, 12, 6), (17, 12, 3), Config(width=64, small=True))
    compare((2, 12, 40), (17, 12, 3), Config(width=64, small=True), bias=True)


@pytest.mark.parametrize("config", [Config(width=64), Config("numba")], ids=["emulated", "compiled"])
def test_gradients_whose_filters_are_several_axes(config: Config, rng: np.random.Generator) -> None:
    """Of filters (o, c, k), the gradient of the input sums over o and k: memory has c between them."""
    w = sj.shared(rng.integers(-3, 4, (6, 33, 2, 3)).astype("float32"))
    arrays = [rng.integers(-3, 4, shape).astype("float32") for shape in ((2, 33, 5, 5), (2, 6, 4, 3))]
    found = []
    for how, names in (("reference", "nm"), (config.mode, "nm"), (config.mode, (5, 5))):
        x, g = sj.tensor((2, 33, *names), "float32"), sj.tensor((2, 6, "p", "q"), "float32")
        with config.active():
            f = sj.function([x, g], sj.vjp(sj.conv2d(x, w), x, g), mode=how)
            found.append(f(*arrays))
    assert config.width is None or "pack: once for each value" in f.explain()
    for got in found[1:]:
        np.testing.assert_array_equal(got, found[0])


@pytest.mark.parametrize("length", [3, 16, 64])
def test_nobody_relies_on_what_one_form_alone_packs(length: int) -> None:
    """Two products with one right operand, of which the first has two variants, and one of these packs it."""
    rng = np.random.default_rng(length)
    weights, arrays = rng.standard_normal((64, 40)), [rng.standard_normal(shape) for shape in ((40, length), (7, 40))]
    x, v = sj.tensor((40, "n")), sj.tensor((7, 40))
    with Config(width=64).active():
        f = sj.function([x, v], [sj.dot(sj.shared(weights), x), sj.dot(v, x)], mode="emulate")
        got = f(*arrays)
    assert "whichever fills vectors" in f.explain()
    for value, wanted in zip(got, (weights @ arrays[0], arrays[1] @ arrays[0]), strict=True):
        np.testing.assert_allclose(value, wanted)


# ---- what is decided -------------------------------------------------------------------------------------------------


def explained(declared: tuple[Any, ...], filters: tuple[int, ...], **how: Any) -> str:
    """What is decided for a Zen 4, whichever processor this is."""
    features = ",".join(f"+{name}" for name in AVX512)
    with host.using(target_for("x86_64-unknown-linux-gnu", "znver4", features)):
        return convolution(declared, filters, "emulate", **how)[0].explain()


def along(text: str) -> list[str]:
    """The loops that lanes run along, of each nest."""
    return re.findall(r"stores over .* x (.*?);", text)


def tiles(text: str) -> list[str]:
    """The tiles of nests, without their loops; of so few columns that fill no tile, a fixed one has less vectors."""
    lines = [re.sub(r" over .*?;", ";", line) for line in text.splitlines() if "stores over" in line]
    return [re.sub(r" \d vectors", "", line) for line in lines]


@pytest.mark.parametrize("length", [129, 255, 256, 257, 640])
def test_knowing_a_length_decides_nothing_where_filters_are_strided(length: int) -> None:
    filters = (64, 8, 16)
    fixed, named, of_any = (
        explained((batch, 8, n), filters, subsample=8) for batch, n in ((4, length), (4, "n"), ("B", "n"))
    )
    assert tiles(fixed) == tiles(named) == tiles(of_any)
    assert all("pack: once for each value" in text for text in (fixed, named, of_any))


@pytest.mark.parametrize("step", [2, 3])
def test_no_number_is_loaded_alone_where_filters_are_many(step: int) -> None:
    """However many terms a sum has: with lanes along places, each vector would be loaded number by number."""
    for channels, width in ((8, 3), (64, 5), (128, 9)):
        x, w = sj.tensor(("B", channels, "n"), "float32", "x"), sj.tensor((64, channels, width), "float32", "w")
        with Config(width=32).active():
            text = sj.function([x, w], sj.conv1d(x, w, subsample=step, filter_flip=False), mode="emulate").explain()
        assert set(along(text)) == {"64"}, (channels, width)


@pytest.mark.parametrize("length", [6, 18, 40, 258, 260, 1000])
def test_a_named_length_has_the_form_of_the_fixed_one(length: int) -> None:
    """Where it depends on the length, each form is there. A fixed one may have tiles of another shape."""
    filters = (64, 32, 3)
    fixed, named = explained((4, 32, length), filters), explained((4, 32, "n"), filters)
    assert "lanes along n - 2 or 64, whichever fills vectors" in named
    assert along(named) == ["n - 2", "64"]
    assert along(fixed) in ([str(length - 2)], ["64"])


def test_filters_of_many_terms_are_packed_whole() -> None:
    """Not in blocks of terms, of which each call packs all."""
    for terms in (300, 1500):
        text = explained(("B", terms, "n"), (32, terms, 3), subsample=2)
        assert "pack: once for each value" in text
        assert f"panels (2, {3 * terms}, 1, 16)" in text
        assert ("made in blocks" in text) == (3 * terms >= 4096)


@pytest.mark.parametrize("columns", [2, 3, 8])
@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_packed_columns_have_no_lanes_along_the_sum(mode: str, columns: int) -> None:
    """Where few columns lie in panels, the numbers of a column are not every second one of them."""
    rng = np.random.default_rng(columns)
    w, values = rng.normal(size=(2, columns, 3)).astype("float32"), rng.normal(size=(4, 2, 3)).astype("float32")
    x = sj.tensor(("rows", "depth", 3), "float32", "x")
    turned = sj.specify_shape(sj.shared(w, shape=w.shape), (x.shape[1], columns, 3))[:, :, ::-1]
    with Config(width=64).active():
        found = sj.function([x], sj.einsum("abj,bkj->ak", x, turned), mode=mode)(values)
    np.testing.assert_allclose(found, np.einsum("abj,bkj->ak", values, w[:, :, ::-1]), rtol=1e-5, atol=1e-5)


def test_operands_that_change_are_not_packed_in_place_of_weights() -> None:
    x, w = sj.tensor((64, "n"), "float32"), sj.shared(np.ones((64, 64), "float32"))
    with Config(width=64).active():
        few = sj.function([x], w @ x, mode="emulate").explain()
    assert "pack: once for each value" in few


# ---- the order of terms ----------------------------------------------------------------------------------------------


def test_depth_of_turned_and_sparse_operands() -> None:
    c, k, lane = NestLoop(5), NestLoop(3), NestLoop(8)
    buffer = Buffer(np.dtype("float32"), (8, 5, 3), "constant")

    def depth(of_c: int, of_k: int) -> Any:
        return depth_of(Access(buffer, 0, {lane: 15, c: of_c, k: of_k}), [c, k])

    assert (depth(3, 1).loops, depth(3, 1).steps, depth(3, 1).size) == ((c, k), (1,), 15)
    assert depth(1, 5).loops == (k, c)
    turned = depth(3, -1)
    assert turned.against == (False, True)
    assert turned.strides(16) == {c: 48, k: -16}
    assert turned.start(16) == 32
    assert depth(6, 2).steps == (2,)
    assert (depth(4, 1).sizes, depth(4, 1).steps, depth(4, 1).start(16)) == ((5, 3), (4, 1), 0)


def test_joined_loops_count_as_one() -> None:
    assert joined([NestLoop(3), NestLoop(5)]).size == 15


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_elements_that_lie_apart_are_stored_in_narrow_vectors(dtype: str, rng: np.random.Generator) -> None:
    """Rows of every length up to two vectors. No store has a mask."""
    x, y = sj.tensor(("M", "L"), dtype, "x"), sj.tensor(("M", "N"), dtype, "y")
    f, wanted = (sj.function([x, y], x[:, ::2].set(2 * y), mode=mode) for mode in ("emulate", "reference"))
    for n in range(34):
        args = [rng.standard_normal((3, size)).astype(dtype) for size in (2 * n, n)]
        np.testing.assert_array_equal(f(*args), wanted(*args))
    (text,) = (part for part in f.source.split("\n\n\n") if "store_strided" in part and "def " in part)
    assert "head_x" not in text
