"""Random programs as libraries, in memory between pages that nobody may touch: Python's bits, or an error in both."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import scanjit as sj
from tests.fuzz.check import outcome_of
from tests.fuzz.programs import program
from tests.library.support import GUARDED, Built, same

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.mark.parametrize("seed", [2, 15, 26])
def test_the_bits_of_python(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "threads", 1)
    p, rng = program(seed), np.random.default_rng(seed)
    f = sj.function(p.inputs, p.outputs)
    built = Built(f, tmp_path, flags=GUARDED)
    for sizes in p.bindings(rng, 2):
        arguments = p.draw(rng, sizes)
        wanted = outcome_of(f, arguments)
        found, _ = built.call(*arguments)
        assert (built.status != 0) == isinstance(wanted, Exception)
        if not built.status:
            for one, other in zip(found, wanted, strict=True):
                same(one, other)
