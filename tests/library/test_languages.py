"""Exported libraries called from C++, Rust, Go and R."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.scripts import printed

CPP = """\
#include <cstdint>
#include <cstdio>
#include <vector>
#include "sum.h"

int main()
{
    const float x[] = {1, 2, 3, 4};
    float out[4];
    sum_state state;
    const sum_sizes sizes = {2};
    const sum_inputs inputs = {x};
    const sum_outputs outputs = {out};
    std::vector<unsigned char> room(sum_workspace(&sizes) + SUM_ALIGNMENT);
    const auto shift = SUM_ALIGNMENT - reinterpret_cast<std::uintptr_t>(room.data()) % SUM_ALIGNMENT;
    sum_state_init(&state);
    for (int call = 0; call < 3; call++)
        if (const int status = sum_run(&sizes, &inputs, &outputs, &state, room.data() + shift, room.size() - shift))
            return std::puts(sum_error(status)), 1;
    std::printf("%g %g %g %g %g\\n", out[0], out[1], out[2], out[3], state.calls[0]);
}
"""
RUST = """\
mod sum;
use sum::*;

fn main() {
    let x = [1f32, 2., 3., 4.];
    let mut out = [0f32; 4];
    let sizes = sum_sizes { T: 2 };
    let inputs = sum_inputs { x: x.as_ptr() };
    let outputs = sum_outputs { output: out.as_mut_ptr() };
    unsafe {
        let mut state: sum_state = std::mem::zeroed();
        assert_eq!(sum_state_size(), std::mem::size_of::<sum_state>());
        assert_eq!(sum_state_init(&mut state), SUM_OK);
        let bytes = sum_workspace(&sizes);
        let layout = std::alloc::Layout::from_size_align(bytes, SUM_ALIGNMENT).unwrap();
        let room = std::alloc::alloc(layout);
        for _ in 0..3 {
            assert_eq!(sum_run(&sizes, &inputs, &outputs, &mut state, room.cast(), bytes), SUM_OK);
        }
        println!("{} {} {} {} {}", out[0], out[1], out[2], out[3], state.calls[0]);
        let status = sum_run(&sizes, &inputs, &outputs, &mut state, room.cast(), bytes - 1);
        assert_ne!(status, SUM_OK);
        assert!(std::ffi::CStr::from_ptr(sum_error(status)).to_str().unwrap().len() > 10);
    }
}
"""
GO = """\
package main

// #cgo LDFLAGS: ${SRCDIR}/sum_code.o
// #include <stdlib.h>
// #include "sum.h"
import "C"

import (
	"fmt"
	"unsafe"
)

func main() {
	// C holds these addresses, so the memory is C's, not Go's
	memory := (*[4]C.float)(C.malloc(16))
	found := (*[4]C.float)(C.malloc(16))
	*memory = [4]C.float{1, 2, 3, 4}
	sizes := C.sum_sizes{T: 2}
	inputs, outputs := C.sum_inputs{x: &memory[0]}, C.sum_outputs{output: &found[0]}
	var state C.sum_state
	C.sum_state_init(&state)
	bytes := C.sum_workspace(&sizes)
	room := C.aligned_alloc(C.SUM_ALIGNMENT, (bytes+C.SUM_ALIGNMENT-1)/C.SUM_ALIGNMENT*C.SUM_ALIGNMENT)
	defer C.free(room)
	defer C.free(unsafe.Pointer(memory))
	defer C.free(unsafe.Pointer(found))
	for i := 0; i < 3; i++ {
		if status := C.sum_run(&sizes, &inputs, &outputs, &state, room, bytes); status != C.SUM_OK {
			panic(C.GoString(C.sum_error(status)))
		}
	}
	fmt.Println(found[0], found[1], found[2], found[3], state.calls[0])
	if C.sum_run(&sizes, &inputs, &outputs, &state, room, bytes-1) != C.SUM_WORKSPACE {
		panic("too small a workspace")
	}
}
"""
R_GLUE = """\
#include <stdlib.h>
#include "sum.h"

static sum_state state;

void start(void)
{
    sum_state_init(&state);
}

/* x is what R calls a matrix of 2 rows and *steps columns: C reads it row by row, as (steps, 2). */
void run(const double *x, const int *steps, double *y, double *calls, int *status)
{
    const sum_sizes sizes = {*steps};
    const sum_inputs inputs = {x};
    const sum_outputs outputs = {y};
    const size_t bytes = sum_workspace(&sizes);
    void *room = aligned_alloc(SUM_ALIGNMENT, (bytes + SUM_ALIGNMENT - 1) / SUM_ALIGNMENT * SUM_ALIGNMENT);
    *status = sum_run(&sizes, &inputs, &outputs, &state, room, bytes);
    *calls = (double)state.calls[0];
    free(room);
}
"""
R = """\
dyn.load("glue.so")
x <- matrix(c(1, 2, 3, 4), nrow = 2)
invisible(.C("start"))
for (i in 1:3)
    found <- .C("run", x, as.integer(2), y = x * 0, calls = 0, status = integer(1))
stopifnot(found$status == 0)
cat(found$y, found$calls)
"""


def exported(folder: Path, dtype: str = "float32") -> Any:
    x, calls = sj.tensor(("T", 2), dtype, "x"), sj.shared(np.float32(0), "calls")
    f = sj.function([x], sj.cumsum(x, axis=0), updates={calls: calls + 1})
    sj.export_library(f, folder, "sum", kind="object")
    return f


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_cpp(tmp_path: Path) -> None:
    exported(tmp_path)
    (tmp_path / "main.cpp").write_text(CPP)
    printed("cc", "-std=c99", "-c", "sum.c", folder=tmp_path)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    printed("c++", *flags, "main.cpp", "sum.o", "sum_code.o", "-o", "main", folder=tmp_path)
    assert printed("./main", folder=tmp_path).split() == ["1", "2", "4", "6", "3"]


@pytest.mark.skipif(shutil.which("rustc") is None or shutil.which("cc") is None, reason="needs rustc and a C compiler")
def test_rust(tmp_path: Path) -> None:
    exported(tmp_path)
    (tmp_path / "main.rs").write_text(RUST)
    printed("cc", "-std=c99", "-fPIC", "-c", "sum.c", folder=tmp_path)
    printed("ar", "rcs", "libsum.a", "sum.o", "sum_code.o", folder=tmp_path)
    command = "rustc --edition 2021 -D warnings -L . -l static=sum main.rs -o main"
    printed(*command.split(), folder=tmp_path)
    assert printed("./main", folder=tmp_path).split() == ["1", "2", "4", "6", "3"]


@pytest.mark.skipif(shutil.which("go") is None or shutil.which("cc") is None, reason="needs Go and a C compiler")
def test_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported(tmp_path)
    (tmp_path / "example.c").unlink()  # cgo compiles all C files of a folder
    (tmp_path / "main.go").write_text(GO)
    (tmp_path / "go.mod").write_text("module main\n\ngo 1.19\n")
    monkeypatch.setenv("CGO_LDFLAGS_ALLOW", r".*\.o")
    monkeypatch.setenv("GOFLAGS", "-mod=mod -p=2")
    printed("go", "build", "-o", "main", ".", folder=tmp_path)
    assert printed("./main", folder=tmp_path).split() == ["1", "2", "4", "6", "3"]


@pytest.mark.skipif(shutil.which("Rscript") is None or shutil.which("cc") is None, reason="needs R and a C compiler")
def test_r(tmp_path: Path) -> None:
    exported(tmp_path, "float64")
    (tmp_path / "glue.c").write_text(R_GLUE)
    (tmp_path / "main.R").write_text(R)
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fPIC", "-shared"]
    printed("cc", *flags, "glue.c", "sum.c", "sum_code.o", "-o", "glue.so", folder=tmp_path)
    assert printed("Rscript", "main.R", folder=tmp_path).split() == ["1", "2", "4", "6", "3"]
