"""The models that people export, built by the C compiler of this machine, and linked for a microcontroller."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import scanjit as sj
from tests.library.models import CASES, compare
from tests.library.support import GUARDED, SANITIZED, STRICT, Built
from tests.library.undefined import needed
from tests.scripts import printed


@pytest.mark.quick(2)
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("flags", [GUARDED, SANITIZED], ids=["guarded", "sanitized"])
@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_as_python(name: str, flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read or written outside of arrays, nothing is undefined in C, and no library is needed."""
    monkeypatch.setattr(sj.config, "threads", 1)
    case = CASES[name]()
    compare(case, Built(case.f, tmp_path, flags=flags), exactly=True)
    assert not needed(tmp_path, "host")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc and newlib")
@pytest.mark.parametrize("name", CASES)
def test_links_with_newlib_for_a_cortex_m(name: str, tmp_path: Path) -> None:
    sj.export_library(CASES[name]().f, tmp_path, target="cortex-m4", kind="object")
    flags = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "--specs=nosys.specs"]
    # LLVM does not note that floats go in registers
    flags += [*STRICT, "-Wl,--no-warn-mismatch"]
    files = ["example.c", "model.c", "model_code.o", "-lm", "-o", "example"]
    printed("arm-none-eabi-gcc", *flags, *files, folder=tmp_path)
