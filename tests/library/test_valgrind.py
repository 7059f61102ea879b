"""Exports under valgrind: nothing reads memory that nobody wrote, writes outside, or leaks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scanjit.runtime import host
from tests.library.models import CASES
from tests.library.support import STRICT, Built
from tests.scripts import printed

pytestmark = pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("cc") is None or not host.target().is_x86,
    reason="needs valgrind, a C compiler, and a processor of the family x86-64",
)
VALGRIND = ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", "--show-leak-kinds=all"]
VALGRIND += ["--errors-for-leak-kinds=all"]


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", CASES)
def test_nothing_reads_what_nobody_wrote(name: str, tmp_path: Path) -> None:
    """The driver leaves the workspace as malloc gives it. Valgrind knows no AVX-512, so the code is for AVX2."""
    case = CASES[name]()
    built = Built(case.f, tmp_path, flags=[*STRICT, "-g", "-DUNSET"], before=VALGRIND, target="x86-64-v3")
    built.call(*case.args, calls=min(case.calls, 3))
    assert built.status == 0 and not built.said, built.said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["garch", "characters"])
def test_the_example(name: str, tmp_path: Path) -> None:
    Built(CASES[name]().f, tmp_path, target="x86-64-v3")
    printed("cc", *STRICT, "-g", "example.c", "model.c", "model_code.o", "-lm", "-o", "example", folder=tmp_path)
    done = subprocess.run([*VALGRIND, "./example"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
