"""Exported libraries called from C++ and Rust."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj

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


def exported(folder: Path) -> Any:
    x, calls = sj.tensor(("T", 2), "float32", "x"), sj.shared(np.float32(0), "calls")
    f = sj.function([x], sj.cumsum(x, axis=0), updates={calls: calls + 1})
    sj.export_library(f, folder, "sum", kind="object")
    return f


def ran(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_cpp(tmp_path: Path) -> None:
    exported(tmp_path)
    (tmp_path / "main.cpp").write_text(CPP)
    ran(["cc", "-std=c99", "-c", "sum.c"], tmp_path)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    ran(["c++", *flags, "main.cpp", "sum.o", "sum_code.o", "-o", "main"], tmp_path)
    assert ran(["./main"], tmp_path).split() == ["1", "2", "4", "6", "3"]


@pytest.mark.skipif(shutil.which("rustc") is None or shutil.which("cc") is None, reason="needs rustc and a C compiler")
def test_rust(tmp_path: Path) -> None:
    exported(tmp_path)
    (tmp_path / "main.rs").write_text(RUST)
    ran(["cc", "-std=c99", "-fPIC", "-c", "sum.c"], tmp_path)
    ran(["ar", "rcs", "libsum.a", "sum.o", "sum_code.o"], tmp_path)
    ran(
        ["rustc", "--edition", "2021", "-D", "warnings", "-L", ".", "-l", "static=sum", "main.rs", "-o", "main"],
        tmp_path,
    )
    assert ran(["./main"], tmp_path).split() == ["1", "2", "4", "6", "3"]
