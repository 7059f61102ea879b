"""How much stack the machine code of a library needs."""

from __future__ import annotations

from pathlib import Path

import pytest

import scanjit as sj
from scanjit.errors import ArgumentError
from scanjit.library.stack import worst_stack


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "target", ["host", "x86_64-windows", "aarch64-linux", "armv7-linux", "riscv64-linux", "cortex-m4"]
)
def test_memory_on_the_stack_is_seen(tmp_path: Path, target: str) -> None:
    """A long row is sorted with a short row, its places, and the parts that wait on the stack."""
    x = sj.vector("x")
    f = sj.function([x], sj.argsort(x), mode="emulate")
    try:
        sj.export_library(f, tmp_path, target=target, kind="object")
    except ArgumentError as error:
        pytest.skip(f"this LLVM has no {target}: {error}")
    (line,) = (line for line in (tmp_path / "README.md").read_text().splitlines() if "bytes of stack" in line)
    assert int(line.split("at most ")[1].split()[0].replace(",", "")) >= 1024 * 8


def test_what_is_called_counts() -> None:
    text = """
main:
    pushq %rbx
    subq $100, %rsp
    callq small
    callq "a large one"
small:
    pushq %rbx
"a large one":
    subq $1000, %rsp
    andq $-64, %rsp
    callq small
"""
    assert worst_stack(text, ["main"]) == 8 + 100 + 1000 + 64 + 8
    assert worst_stack("main:\n    local.get 0\n", ["main"]) is None
