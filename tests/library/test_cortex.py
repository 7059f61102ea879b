"""A model of an amplifier on a microcontroller: a Cortex-M4, emulated."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import scanjit as sj
from tests.library.cortex import LINKER, PROGRAM
from tests.library.models import amplifier
from tests.scripts import printed

CALLS = 30
needed = ("arm-none-eabi-gcc", "qemu-system-arm")


@pytest.mark.skipif(not all(map(shutil.which, needed)), reason=f"needs {' and '.join(needed)}")
def test_a_cortex_m4_computes_what_python_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "threads", 1)
    case = amplifier()
    sj.export_library(case.f, tmp_path, target="cortex-m4", kind="object")
    given = ", ".join(f"{value:.9g}f" for value in case.args[0].ravel())
    text = PROGRAM.replace("$GIVEN", given).replace("$CALLS", str(CALLS)).replace("$BYTES", "65536")
    (tmp_path / "program.c").write_text(text)
    (tmp_path / "program.ld").write_text(LINKER)
    flags = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-O2", "-std=c99", "-nostartfiles"]
    flags += ["-Wl,--no-warn-mismatch"]  # LLVM does not note that floats go in registers; none goes in or out of calls
    files = ["program.c", "model.c", "model_code.o", "-T", "program.ld", "-o", "program"]
    printed(needed[0], *flags, *files, folder=tmp_path)
    run = ["qemu-system-arm", "-M", "mps2-an386", "-nographic", "-semihosting", "-kernel", "program"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    words = [int(line, 16) for line in (done.stdout + done.stderr).split()]
    assert words[-1] == 0 and len(words) == CALLS + 1
    found = np.array(words[:-1], "uint32").view("float32")
    wanted = np.array([case.f(*case.args) for _ in range(CALLS)]).ravel()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert found[0] != found[-1]
    text_bytes = int(printed("arm-none-eabi-size", "program", folder=tmp_path).splitlines()[1].split()[0])
    assert text_bytes < 60_000  # the weights are 26 kB of it
