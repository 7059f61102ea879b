"""`argmax` and `argmin` of long rows, which are divided into blocks of stretches."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host
from tests.pairs import pairwise
from tests.targets import with_vectors

LENGTHS = (1, 31, 127, 128, 129, 255, 256, 257, 319, 320, 333, 2100, 20000)


def rows(rng: np.random.Generator, dtype: str, size: int) -> np.ndarray:
    """Random rows; rows with the best at one place, with ties, that go up and down, with NaN and infinities."""
    x = rng.normal(size=(10, size)) * 50
    x[1], x[2], x[3] = 7, np.arange(size), -np.arange(size)
    x[4], x[5] = np.sort(rng.integers(0, 3, size)), -np.sort(rng.integers(0, 3, size))
    if np.dtype(dtype).kind == "f":
        places = rng.integers(0, size, (4, 2))
        x[6, places[0]], x[7, places[1]] = np.nan, np.inf
        x[8], x[9] = -np.inf, np.nan
        x[8, places[2, 0]] = -np.inf if size % 2 else 3.0
    return x.astype(dtype)


@pytest.mark.parametrize("mode", ["emulate", "numba"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8"])
def test_places_and_values(dtype: str, mode: str, rng: np.random.Generator) -> None:
    x = sj.tensor(("rows", "n"), dtype)
    largest = sj.function([x], [sj.argmax(x, 1), x.max(1)], mode=mode)
    smallest = sj.function([x], sj.argmin(x, 1), mode=mode)
    assert all(f.source.count("block0 in range") == 1 for f in (largest, smallest))
    for size in LENGTHS if mode == "numba" else LENGTHS[3::4]:
        given = rows(rng, dtype, size)
        np.testing.assert_equal(largest(given), (given.argmax(1), given.max(1)))
        np.testing.assert_array_equal(smallest(given), given.argmin(1))


UNDIVIDED = {
    "short rows": lambda x, short: sj.argmax(short, 1),
    "a function": lambda x, short: sj.argmax(np.sin(x), 1),
    "a sign": lambda x, short: sj.argmin(-x, 1),
    "columns": lambda x, short: sj.argmax(x, 0),
    "no place": lambda x, short: x.max(1),
}


@pytest.mark.parametrize("case", UNDIVIDED)
def test_only_long_rows_of_plain_elements_are_divided(case: str) -> None:
    x, short = sj.matrix("x"), sj.tensor((5, 60), "float64", "short")
    inputs = [short] if case == "short rows" else [x]
    assert "stretch" not in sj.function(inputs, UNDIVIDED[case](x, short), mode="emulate").source


@pairwise(dtype=["float64", "float32", "int8"], size=[1, 8, 9, 24, 100, None], mode=["emulate", "numba"])
def test_the_first_true_answer(dtype: str, size: int | None, mode: str, rng: np.random.Generator) -> None:
    """It is the least place with a true answer, and 0 where no answer is true."""
    x = sj.tensor(("rows", size), dtype)
    found = [sj.argmax(x > 2, 1), sj.argmin(x > -3, 1), sj.argmax(x > 2, 0), sj.argmin(x > -3, 0), sj.argmax(x > 2)]
    f = sj.function([x], found, mode=mode)
    assert size in (1, 8) or "better" not in f.source
    for n in (1, 5, 40) if size is None else (size,):
        given = np.clip(rng.standard_normal((12, n)) * 3, -5, 5).astype(dtype)
        given[0], given[1] = 5, -5
        large, small = given > 2, given > -3
        wanted = large.argmax(1), small.argmin(1), large.argmax(0), small.argmin(0), large.argmax()
        np.testing.assert_equal(f(given), wanted)


@pairwise(dtype=["float64", "float32", "int64"], size=[6, 7, 8], mode=["emulate", "numba"])
def test_few_elements_are_compared_in_pairs(dtype: str, size: int, mode: str, rng: np.random.Generator) -> None:
    """In steps that change single elements, which a vector would wait for."""
    k, x, start = sj.lvector("k"), sj.vector("x", dtype), sj.tensor((size,), dtype)

    def step(k: Any, x: Any, table: Any) -> Any:
        table = table[k].set(x)
        return table, sj.argmax(table), sj.argmin(table)

    f = sj.function([k, x, start], sj.scan(step, [k, x], [start, None, None])[1:], mode=mode)
    assert "better4" in f.source
    values = [0, 1, 2, -1] if dtype == "int64" else [0.0, -0.0, 1.0, 2.0, -1.0, np.nan, np.inf, -np.inf]
    for n in (4, 8):
        places, given = rng.integers(0, size, 100), rng.choice(np.array(values[:n]), 100).astype(dtype)
        table, wanted = np.zeros(size, dtype), list[tuple[int, int]]()
        for place, value in zip(places, given, strict=True):
            table[place] = value
            wanted.append((int(table.argmax()), int(table.argmin())))
        np.testing.assert_array_equal(np.transpose(f(places, given, np.zeros(size, dtype))), wanted)


@pairwise(
    dtype=["float32", "float64", "int64", "int8", "bool"],
    size=[1, 2, 5, 8, 9, 17, 32, 33, 62, 63],
    place=["rows", "steps", "steps of unknown width"],
    mode=["emulate", "numba"],
)
def test_places_among_few(dtype: str, size: int, place: str, mode: str) -> None:
    """They are found among the bits of masks, if there are up to 62 elements in at most eight vectors."""
    x = sj.tensor(("rows", "n" if "unknown" in place else size), dtype)
    of_row = {
        "largest": lambda row: [sj.argmax(row, -1), row.max(-1)] if dtype != "bool" else [sj.argmax(row, -1)],
        "smallest": lambda row: [sj.argmin(row, -1)],
        "first": lambda row: [sj.argmax(row > 0, -1), sj.any(row > 0, -1), sj.all(row > 0, -1)],
    }
    given = rows(np.random.default_rng(0), dtype, size)
    for name, find in of_row.items():
        f, reference = (
            sj.function([x], find(x) if place == "rows" else sj.scan(find, x), mode=each)
            for each in (mode, "reference")
        )
        np.testing.assert_equal(f(given), reference(given))
        if size in (5, 17, 62) and "unknown" not in place and (name == "first" or (size < 32 and dtype != "bool")):
            assert "first_bit(" in f.source


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_the_first_true_answer_beside_a_maximum(mode: str) -> None:
    """A maximum of floats waits for them, so that several vectors are looked at side by side."""
    x = sj.tensor(("rows", 62), "float64")
    with host.using(with_vectors(32)):
        f = sj.function([x], [x.max(-1), sj.argmax(x > 2, -1)], mode=mode)
        assert f.source.count("lane_bits(") > 2
        given = np.random.default_rng(0).standard_normal((200, 62))
        np.testing.assert_equal(f(given), (given.max(-1), (given > 2).argmax(-1)))


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_errors_behind_the_first_true_answer_are_reported(mode: str) -> None:
    """All elements are looked at if that may report an error."""
    x, places = sj.vector("x"), sj.lvector("places")
    f = sj.function([x, places], sj.argmax(x[places] > 0), mode=mode)
    assert f(np.arange(3.0), np.arange(3).repeat(50)) == 50
    with pytest.raises(sj.OutOfBoundsError, match="index 3 is out of bounds"):
        f(np.arange(3.0), np.arange(4).repeat(50))
