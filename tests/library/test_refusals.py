"""What no library can hold is refused, with the reason and the user's line, before anything is written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.errors import ArgumentError, NotSupportedError


def printing(x: Any) -> Any:
    return sj.print_(x, "x") + 1


def asserting(x: Any) -> Any:
    return sj.assert_(x.sum() > 0, x, "not above 0")


def in_a_step(x: Any) -> Any:
    return sj.scan(lambda row, h: sj.print_(h + row, "h"), x, sj.constant(0.0))


def factors(x: Any) -> Any:
    return sj.cholesky(x[:, None] * x + 10 * sj.eye(x.shape[0]))


def own_size(x: Any) -> Any:
    return sj.arange(sj.cast(x.sum(), "int64")) * 1.0


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (printing, "calls Python"),
        (asserting, "calls Python"),
        (in_a_step, "calls Python"),
        (factors, "LAPACK"),
        (own_size, "computes a size"),
    ],
)
def test_refused_with_the_line(tmp_path: Path, made: Any, why: str) -> None:
    x = sj.vector("x")
    f = sj.function([x], made(x), mode="reference" if made is own_size else "emulate")
    line = made.__code__.co_firstlineno + 1
    with pytest.raises(NotSupportedError, match=why) as caught:
        sj.export_library(f, tmp_path / "new", kind="object")
    assert f"test_refusals.py:{line}" in str(caught.value)
    assert not (tmp_path / "new").exists()


def test_equal_loops_are_refused_with_the_line_of_their_own(tmp_path: Path) -> None:
    x = sj.vector("x")
    kept = sj.scan(lambda row, h: sj.print_(h - row, "same"), sj.vector("z"), sj.constant(0.0))
    h = sj.scan(lambda row, h: sj.print_(h - row, "same"), x, sj.constant(0.0))
    line = test_equal_loops_are_refused_with_the_line_of_their_own.__code__.co_firstlineno + 3
    with pytest.raises(NotSupportedError, match=rf"in the `scan` at .*test_refusals.py:{line}"):
        sj.export_library(sj.function([x], h, mode="emulate"), tmp_path / "new", kind="object")
    assert kept is not h


def test_a_guest_is_refused(tmp_path: Path) -> None:
    numba = pytest.importorskip("numba")
    guest = sj.from_numba(numba.njit(lambda x: x + 1.0), result="float64")
    x = sj.vector("x")
    with pytest.raises(NotSupportedError, match="from_numba"):
        sj.export_library(sj.function([x], guest(x), mode="reference"), tmp_path / "new", kind="object")


def test_wrong_arguments(tmp_path: Path) -> None:
    x = sj.tensor(("T", 2), name="x")
    f = sj.function([x], x + np.ones(2), mode="emulate")
    names: list[Any] = ["a b", "_x", "", "for", None, 3]
    sizes: list[Any] = [{"B": 3}, {"T": -1}, {"T": 2.5}, {"T": "3"}, {"T": True}, {"T": 2**63}, {3: 3}, ["T"]]
    targets: list[Any] = [None, 3, [1], [None], {}]
    wrong: list[dict[str, Any]] = [
        *({"name": each} for each in names),
        *({"sizes": each} for each in sizes),
        *({"target": each} for each in targets),
        *({"threads": each} for each in (None, "2", 2.0, True, 0, -1, 1000)),
        *({"kind": each} for each in ("dll", None, ["object"])),
        *({"kind": kind, "target": name} for kind in ("shared", "wheel") for name in ("wasm32", "cortex-m4")),
    ]
    for given in wrong:
        with pytest.raises(ArgumentError):
            sj.export_library(f, tmp_path / "new", **{"kind": "object", **given})
    (tmp_path / "file").write_text("kept")
    for path in (None, 3, tmp_path / "file"):
        with pytest.raises(ArgumentError):
            sj.export_library(f, path, kind="object")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="compiled function"):
        sj.export_library(lambda x: x, tmp_path / "new")  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "file").read_text() == "kept"
    sj.export_library(f, tmp_path, kind="object", sizes={"T": np.int64(3)})
    with pytest.raises(ArgumentError, match="overwrite"):
        sj.export_library(f, tmp_path, kind="object")
    sj.export_library(f, tmp_path, kind="object", overwrite=True)


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("false") is None, reason="needs a C compiler")
def test_a_compiler_that_fails_leaves_what_was_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    x = sj.vector("x")
    one, two = (sj.function([x], x + k, mode="emulate") for k in (1, 2))
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "notes").write_text("kept")
    sj.export_library(one, tmp_path / "old")
    before = {path: path.is_dir() or path.read_bytes() for path in tmp_path.rglob("*")}
    monkeypatch.setenv("CC", "false")
    for folder in (tmp_path / "old", tmp_path / "new" / "one"):
        with pytest.raises(ArgumentError, match="the C compiler does not"):
            sj.export_library(two, folder, overwrite=True)
    assert {path: path.is_dir() or path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_numpy_has_no_bfloat16(tmp_path: Path) -> None:
    x = sj.tensor(("T",), "bfloat16", "x")
    with pytest.raises(ArgumentError, match="NumPy alone"):
        sj.export_library(sj.function([x], x[::-1], mode="emulate"), tmp_path / "new", kind="wheel")
    assert not (tmp_path / "new").exists()
