"""Results whose size the function computes: the caller gives memory for the most that it can be."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.library.pages import linked, told
from tests.library.support import GUARDED, STRICT, Built, same
from tests.scripts import printed, python

compiled = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def rows_until(x: Any, most: Any = None) -> Any:
    """Rows of a loop that ends when the first column is above 3."""
    step = lambda row, h: (h + row, sj.until((h + row)[0] > 3.0))
    return sj.scan(step, x, sj.zeros(x.shape[1]), n_steps=most)


def functions() -> Any:
    """Functions, each with arguments of several calls."""
    x, n = sj.tensor(("T", 2), name="x"), sj.scalar("n", "int64")
    one = np.abs(np.random.default_rng(0).normal(size=(300, 2)))
    long, short, none = [0.001 * one], [one], [one[:0]]
    ends = rows_until(x)
    count = sj.cast(x[:, 0].sum(), "int64")
    yield sj.function([x], ends), [long, short, none]
    yield sj.function([x], {"all": 2 * ends + 1, "total": ends.sum(axis=0), "same": ends}), [long, short, none]
    yield sj.function([x], x[:count]), [long, short, none, [-one]]
    yield sj.function([x], [x[count:].T @ x[count:], x[count:]]), [long, short, none, [-one]]
    yield sj.function([x, n], ends[: sj.minimum(n, 7)].T), [[one, 2], [one, 100], [one, -1], [one[:0], 5]]
    half = ends[::2]
    yield sj.function([x], sj.scan(lambda row, h: sj.tanh(row + 0.5 * h), half, sj.zeros(2))), [long, short, none]
    yield sj.function([x], sj.concatenate([ends, x])), [long, short, none]
    yield sj.function([x], [x[count::-1], x[:count:-2]]), [long, short, none, [-one]]


FUNCTIONS = list(functions())


@pytest.mark.quick(3)
@compiled
@pytest.mark.parametrize("which", range(len(FUNCTIONS)))
def test_the_bits_of_python(which: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "threads", 1)
    f, calls = FUNCTIONS[which]
    built = Built(f, tmp_path, flags=GUARDED)
    for args in calls:
        wanted = f(*args)
        found, _ = built.call(*args)
        assert built.status == 0, built.said
        leaves = list(wanted.values()) if isinstance(wanted, dict) else wanted if isinstance(wanted, list) else [wanted]
        for one, other in zip(found, leaves, strict=True):
            same(one, np.ascontiguousarray(other))


def test_a_part_of_what_has_no_bound_has_none(tmp_path: Path) -> None:
    x = sj.vector("x")
    free = sj.arange(sj.cast(x.sum(), "int64"))
    for part in (free[::2], free[1::3], free[::-2], sj.concatenate([x, free[::2]])):
        f = sj.function([x], part, mode="emulate")
        with pytest.raises(sj.NotSupportedError, match="computes a size"):
            sj.export_library(f, tmp_path / "new", kind="object")


@compiled
def test_the_example_prints_the_rows_that_there_are(tmp_path: Path) -> None:
    x = sj.tensor(("T", 2), name="x")
    sj.export_library(sj.function([x], rows_until(x + 4)), tmp_path, "rows", kind="object")
    text = (tmp_path / "rows.h").read_text()
    assert "output; /* float64[at most T, 2] */" in text and "output_shape; /* int64[2]: the shape of output */" in text
    printed("cc", *STRICT, "example.c", "rows.c", "rows_code.o", "-lm", "-o", "example", folder=tmp_path)
    shown = printed("./example", folder=tmp_path)
    assert [line.split(": ")[0] for line in shown.splitlines()] == ["output[0]", "output[1]"]


@compiled
def test_a_wheel(tmp_path: Path) -> None:
    x = sj.tensor(("T", 2), name="x")
    f = sj.function([x], {"rows": rows_until(x), "first": x[: sj.cast(x.sum(), "int64")]}, name="rows")
    sj.export_library(f, tmp_path, "rows", kind="wheel")
    (path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "site")
    data = np.random.default_rng(0).uniform(size=(50, 2))
    np.save(tmp_path / "x.npy", data)
    script = "import sys; sys.path.insert(0, 'site'); import numpy as np; from rows import rows; "
    script += "np.savez('found.npz', **rows(np.load('x.npy')))"
    python(script, folder=tmp_path)
    wanted = f(data)
    with np.load(tmp_path / "found.npz") as found:
        assert all(np.array_equal(found[key], wanted[key]) for key in wanted)


@pytest.mark.slow
@linked
def test_a_module_for_pages(tmp_path: Path) -> None:
    x = sj.tensor(("T", 2), name="x")
    f = sj.function([x], {"rows": rows_until(x)})
    sj.export_library(f, tmp_path, "rows", kind="wasm")
    data = np.random.default_rng(0).uniform(size=(50, 2))
    found = told(
        tmp_path,
        """
        import { load } from "./rows.js";
        const { rows, rows_shape } = (await load()).run({ x: given[0] });
        tell([rows.shape, [...rows], [...rows_shape].map(Number)]);
        """,
        data,
    )
    wanted = f(data)["rows"]
    assert found[0] == found[2] == list(wanted.shape)
    np.testing.assert_allclose(np.reshape(found[1], wanted.shape), wanted, rtol=1e-12)
