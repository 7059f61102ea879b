"""Exports for other processors and systems, built by `zig cc`, run by emulators: within the bounds of rounding."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.target import target_for
from tests.library.models import CASES, compare
from tests.library.support import STRICT, Built
from tests.library.undefined import needed
from tests.scripts import printed

pytestmark = pytest.mark.skipif(find_spec("ziglang") is None, reason="needs the package ziglang")
ZIG = [sys.executable, "-m", "ziglang", "cc"]
EMULATED = {
    "aarch64-linux": ("aarch64-linux-musl", "aarch64"),
    "riscv64-linux": ("riscv64-linux-musl", "riscv64"),
    "armv7-linux": ("arm-linux-musleabihf", "arm"),
    "x86_64-windows": ("x86_64-windows-gnu", "windows"),
}
COMMANDS = {"windows": ("wine64", "wine", "/usr/lib/wine/wine64")}
"""What runs programs, where it is not `qemu-` and the name."""


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "threads", 1)


def emulator(name: str) -> str:
    commands = COMMANDS.get(name, (f"qemu-{name}-static", f"qemu-{name}"))
    for command in commands:
        if shutil.which(command):
            return command
    pytest.skip(f"needs {commands[-1]}")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if i == 0 else pytest.mark.slow) for i, name in enumerate(CASES)]
)
def test_zig_builds_what_python_computes(name: str, tmp_path: Path) -> None:
    case = CASES[name]()
    compare(case, Built(case.f, tmp_path, ZIG, STRICT), exactly=True)


LEVELS = ("x86-64-v2", "x86-64-v3")


@pytest.mark.parametrize(
    ("name", "level"),
    [
        pytest.param(name, level, marks=() if i == k else pytest.mark.slow)
        for i, name in enumerate(CASES)
        for k, level in enumerate(LEVELS)
    ],
)
def test_levels_of_x86(name: str, level: str, tmp_path: Path) -> None:
    case = CASES[name]()
    compare(case, Built(case.f, tmp_path, ZIG, target=level), exactly=False)


@pytest.mark.slow
@pytest.mark.parametrize("target", EMULATED)
@pytest.mark.parametrize("name", CASES)
def test_other_processors(name: str, target: str, tmp_path: Path) -> None:
    triple, processor = EMULATED[target]
    run = emulator(processor)
    case = CASES[name]()
    built = Built(case.f, tmp_path, [*ZIG, "-target", triple, "-static"], STRICT, [run], target=target)
    compare(case, built, exactly=False)
    assert not needed(tmp_path, target)


@pytest.mark.parametrize(
    ("weights", "feature", "codes"),
    [("int8", "i8mm", [0x4E809C00]), ("bfloat16", "bf16", [0x6EC0FC00, 0x2EC0FC00])],
    ids=["usdot", "bfmlalt and bfmlalb"],
)
def test_products_of_few_bits_on_arm(weights: Any, feature: str, codes: list[int], tmp_path: Path) -> None:
    """The same bits as here, by the processor's instructions for them and by others."""
    run, rng = emulator("aarch64"), np.random.default_rng(0)
    x, w = sj.tensor((3, 40), dtype="float32"), sj.tensor((40, 5), dtype="float32")
    f = sj.mixed(sj.function([x, w], x @ w), weights=weights)
    args = rng.normal(size=(3, 40)).astype("float32"), rng.normal(size=(40, 5)).astype("float32")
    for has, features in ((False, "+neon"), (True, f"+neon,+{feature}")):
        folder, target = tmp_path / str(has), target_for("aarch64-unknown-linux-gnu", features=features)
        compiler = [*ZIG, "-target", "aarch64-linux-musl", "-static"]
        built = Built(f, folder, compiler, STRICT, [run], target=target)
        (found,), _ = built.call(*args)
        np.testing.assert_array_equal(found, f(*args))
        (path,) = folder.glob("*_code*.o")
        words = np.frombuffer(path.read_bytes()[: path.stat().st_size // 4 * 4], "<u4") & 0xFFE0FC00
        assert all((code in words) == has for code in codes)


@pytest.mark.slow
def test_macos_links(tmp_path: Path) -> None:
    """There is no emulator of this system. (What runs in one is linked too.)"""
    case = CASES["amplifier"]()
    sj.export_library(case.f, tmp_path, kind="object", target="arm64-macos")
    files = ["example.c", "model.c", "model_code.o", "-o", "example"]
    printed(*ZIG, "-target", "aarch64-macos", *STRICT, *files, folder=tmp_path)
