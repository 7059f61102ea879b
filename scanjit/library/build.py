"""How a library is built: the texts of its Makefile and its CMake file, and calls of a C compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from scanjit import errors
from scanjit.runtime import host
from scanjit.target import Target, target_for

MAKEFILE = """\
# make: lib{name}.a and an example. make shared: lib{name}.so. CC and CFLAGS are yours to choose.
CC = cc
AR = ar
CFLAGS = -std=c99 -O2 -Wall -Wextra -pedantic
LIBS = {libs}

all: lib{name}.a example

lib{name}.a: {name}.o {objects}
	$(AR) rcs $@ $^

{name}.o: {name}.c {name}.h
	$(CC) $(CFLAGS) -fPIC -c {name}.c -o $@

shared: lib{name}.so

lib{name}.so: {name}.o {objects}
	$(CC) -shared -o $@ $^ $(LIBS)

example: example.c lib{name}.a
	$(CC) $(CFLAGS) -o $@ example.c lib{name}.a $(LIBS)

clean:
	rm -f {name}.o lib{name}.a lib{name}.so example

.PHONY: all shared clean
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project({name} C)

# add_subdirectory(this folder); target_link_libraries(yours PRIVATE {name})
add_library({name} {name}.c {objects})
set_source_files_properties({objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
set_target_properties({name} PROPERTIES C_STANDARD 99 POSITION_INDEPENDENT_CODE ON)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
{libs}
"""


ZIG = (sys.executable, "-m", "ziglang")
"""The command of the compilers in the package ziglang."""


def compiler_for(target: Target, native: bool) -> list[str]:
    """The command of a C compiler for a target. If the target is `native`: the one that the variable `CC` names, or the
    system's. Otherwise, or if there is none: the compiler of the package ziglang."""
    if native:
        for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
            if name and shutil.which(name.split()[0]):
                return name.split()
    if find_spec("ziglang") is not None:
        return [*ZIG, "cc", *([] if native else ["-target", _zig(target)])]
    raise errors.ArgumentError(
        f"there is no C compiler for {target.triple}",
        got="neither cc, gcc nor clang" if native else "this machine's compilers make code for itself",
        fix="pip install ziglang, or pass kind='object', which needs no compiler",
        where="",
    )


def is_native(target: Target) -> bool:
    """Whether a target has the architecture and the system of this machine, so that its compilers make code for it
    without further options."""
    return _zig(target) == _zig(target_for(host.TRIPLE))


def _zig(target: Target) -> str:
    """The name of a target for zig's option `-target`."""
    architecture, *rest = target.triple.split("-")
    system = "-".join(rest)
    if "windows" in system:
        return f"{architecture}-windows-gnu"
    if "darwin" in system or "macos" in system:
        return f"{architecture.replace('arm64', 'aarch64')}-macos"
    if "linux" in system:
        return f"{architecture.replace('armv7', 'arm')}-linux-{'musleabihf' if 'eabihf' in system else 'musl'}"
    return "wasm32-freestanding" if architecture.startswith("wasm") else target.triple


def call(command: Sequence[str], folder: Path) -> None:
    """Run a compiler in a folder; an `ArgumentError` with the end of its messages if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise errors.ArgumentError(
            "the C compiler does not make the library", got=" ".join(command), fix=done.stderr[-2000:], where=""
        )


def library(command: Sequence[str], folder: Path, name: str, objects: Sequence[str], kind: str, target: Target) -> None:
    """Build `libname.a` if `kind` is "static", otherwise the shared library, with a compiler's command."""
    position = [] if "windows" in target.triple else ["-fPIC"]
    call([*command, "-std=c99", "-O2", *position, "-c", f"{name}.c", "-o", f"{name}.o"], folder)
    if kind == "static":
        archiver = ["ar"] if "ziglang" not in command else [*ZIG, "ar"]
        (folder / f"lib{name}.a").unlink(missing_ok=True)
        call([*archiver, "rcs", f"lib{name}.a", f"{name}.o", *objects], folder)
    else:
        call([*command, "-shared", "-o", shared_name(name, target), f"{name}.o", *objects, "-lm"], folder)
    (folder / f"{name}.o").unlink()


def shared_name(name: str, target: Target) -> str:
    """The file name of a shared library."""
    if "windows" in target.triple:
        return f"{name}.dll"
    return f"lib{name}.dylib" if "apple" in target.triple else f"lib{name}.so"
