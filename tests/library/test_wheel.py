"""Wheels: the function in a Python without scanjit."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

import scanjit as sj
from tests.scripts import python

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
PROGRAM = """\
import sys, numpy as np
from filter import filter, variables
before = set(sys.modules)
x = np.load("x.npy")
for _ in range(3):
    found = filter(x[::-1], 2)
np.savez("found.npz", y=found["y"], z=found["more"][0], total=variables["total"])
for wrong, error in (((x, 9), IndexError), ((x[0], 0), ValueError), ((x.astype(str), 0), TypeError)):
    try:
        filter(*wrong)
    except error:
        continue
    raise SystemExit(f"{wrong} is no {error}")
assert variables["total"] == np.load("found.npz")["total"]
assert not {"scanjit", "numba", "llvmlite"} & set(sys.modules)
"""


def test_a_wheel_needs_numpy_alone(tmp_path: Path) -> None:
    x, i = sj.tensor(("T", 3), name="x"), sj.scalar("i", "int64")
    total = sj.shared(0.0, "total")
    y = sj.scan(lambda row, h: 0.5 * h + row, x, sj.zeros(3))
    f = sj.function([x, i], {"y": y, "more": [(y[-1] * (1 + 2j))[i]]}, updates={total: total + y.sum()}, name="filter")
    sj.export_library(f, tmp_path, name="filter", kind="wheel")
    (path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "site")
    data = np.random.default_rng(0).normal(size=(50, 3))
    np.save(tmp_path / "x.npy", data)
    python(f"import sys; sys.path.insert(0, 'site')\n{PROGRAM}", folder=tmp_path)
    wanted = [f(data[::-1], 2) for _ in range(3)][-1]
    with np.load(tmp_path / "found.npz") as found:
        assert np.array_equal(found["y"], wanted["y"]) and found["z"] == wanted["more"][0]
        assert found["total"] == total.get_value()
