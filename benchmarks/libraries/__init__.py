"""Exported libraries beside other engines that C programs call: start, steady calls, and the worst block.

    python -m benchmarks libraries
    python -m benchmarks libraries --rtneural folder_of_its_source --rounds 5

The model is that of a guitar amplifier: an LSTM of 40 units and a dense layer, 48,000 samples a second, which come in
blocks of 64. All engines compute on one thread, in processes of their own, in turns. ONNX Runtime is that of the
package `onnxruntime`; its model needs `onnx`. RTNeural is built from its source, with each of its backends that can be.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

UNITS, BLOCK, SAMPLES = 40, 64, 4096
HERE = Path(__file__).parent
TOLERANCE = 1e-4
TARGETS = (
    "x86-64-v2",
    "x86-64-v3",
    "x86-64-v4",
    "aarch64-linux",
    "armv7-linux",
    "riscv64-linux",
    "wasm32",
    "cortex-m4",
)
FLAGS = ["-O3", "-march=native"]


class Weights(NamedTuple):
    """The weights of the model: gates are input, forget, cell, output, side by side."""

    W: np.ndarray
    R: np.ndarray
    b: np.ndarray
    out: np.ndarray

    @staticmethod
    def drawn() -> Weights:
        random = np.random.default_rng(0)
        shapes = ((1, 4 * UNITS), (UNITS, 4 * UNITS), (4 * UNITS,), (UNITS, 1))
        return Weights(*(0.2 * random.normal(size=shape).astype("float32") for shape in shapes))


class Contender(NamedTuple):
    """An engine: its program, and the file that it reads."""

    name: str
    program: Path
    path: str


def step_function(weights: Weights) -> Any:
    """The model, cut into steps."""
    import scanjit as sj

    x = sj.tensor((1, "T", 1), "float32", "x")
    W, R, b, out = (sj.shared(held, name) for held, name in zip(weights, weights._fields, strict=True))

    def step(row: Any, h: Any, c: Any) -> tuple[Any, Any]:
        z = row @ W + h @ R + b
        i, f, g, o = (z[:, UNITS * k : UNITS * (k + 1)] for k in range(4))
        c = sj.sigmoid(f) * c + sj.sigmoid(i) * sj.tanh(g)
        return sj.sigmoid(o) * sj.tanh(c), c

    zero = sj.zeros((1, UNITS), "float32")
    h, _ = sj.scan(step, x.transpose(1, 0, 2), [zero, zero], name="lstm")
    return sj.step_function(([x], x + (h @ out).transpose(1, 0, 2)), time=1)


def block_function(step: Any) -> Any:
    """The model as a function of a block, which keeps its state."""
    return step.stateful(step.initial_state(np.zeros((1, 1), "float32")), steps=True)


def onnx_model(weights: Weights, path: Path) -> None:
    """The model with ONNX's LSTM; its state goes in and out."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def gates(array: np.ndarray) -> np.ndarray:  # ONNX's order: input, output, forget, cell
        i, f, g, o = np.split(array, 4, axis=-1)
        return np.concatenate([i, o, f, g], axis=-1)

    bias = np.concatenate([gates(weights.b), np.zeros_like(weights.b)])[None]
    held = {"W": gates(weights.W).T[None], "R": gates(weights.R).T[None], "b": bias, "out": weights.out}
    held["axis"] = np.array([1], "int64")
    typed = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    nodes = [
        helper.make_node("LSTM", ["x", "W", "R", "b", "", "h", "c"], ["all", "h_next", "c_next"], hidden_size=UNITS),
        helper.make_node("Squeeze", ["all", "axis"], ["rows"]),
        helper.make_node("MatMul", ["rows", "out"], ["dense"]),
        helper.make_node("Add", ["x", "dense"], ["y"]),
    ]
    state = [1, 1, UNITS]
    graph = helper.make_graph(
        nodes,
        "amp",
        [typed("x", BLOCK, 1, 1), typed("h", *state), typed("c", *state)],
        [typed("y", BLOCK, 1, 1), typed("h_next", *state), typed("c_next", *state)],
        [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in held.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def contenders(folder: Path, weights: Weights, rtneural: Path | None) -> list[Contender]:
    """Who is here, each with its program."""
    import scanjit as sj

    step = step_function(weights)
    found = []
    for name, exported, options, flags in (
        ("library, 64 samples in a call", block_function(step), {"sizes": {"T": BLOCK}}, []),
        ("library, a sample in each call", step, {}, ["-DSTEPS"]),
    ):
        place = folder / ("steps" if flags else "block")
        sj.export_library(exported, place, "amp", kind="shared", **options)
        program = built(folder, place.name, [f"-I{place}", *flags], "exported.c")
        found.append(Contender(name, program, str(place / "libamp.so")))
    if find_spec("onnx") and (spec := find_spec("onnxruntime")) and spec.origin:
        onnx_model(weights, folder / "amp.onnx")
        for library in sorted(Path(spec.origin).parent.glob("capi/libonnxruntime.so.*")):
            found.append(Contender("ONNX Runtime's C API", built(folder, "onnx", [], "onnx_runtime.c"), str(library)))
    else:
        print("ONNX Runtime is left out: pip install onnx onnxruntime")
    if rtneural is None:
        print("RTNeural is left out: pass --rtneural")
        return found
    (folder / "weights").write_bytes(b"".join(np.ascontiguousarray(each).tobytes() for each in weights))
    systems = [f"-isystem{rtneural / 'modules' / part}" for part in ("Eigen", "xsimd/include", "json")]
    for backend, alignment in (("EIGEN", 32), ("XSIMD", 64), ("STL", 64)):
        defined = [f"-DRTNEURAL_USE_{backend}=1", f"-DRTNEURAL_DEFAULT_ALIGNMENT={alignment}"]
        try:
            program = built(folder, f"rtneural_{backend}", [f"-I{rtneural}", *systems, *defined], "rtneural.cpp")
        except subprocess.CalledProcessError as error:
            why = next((line for line in error.stderr.decode().splitlines() if "error:" in line), "it cannot be built")
            print(f"RTNeural with {backend} is left out: {why}")
            continue
        found.append(Contender(f"RTNeural ({backend.capitalize()})", program, str(folder / "weights")))
    return found


def built(folder: Path, name: str, flags: Sequence[str], source: str) -> Path:
    """A program that times an engine."""
    objects = []
    for file in ("timing.c", source):
        compiler = ["c++", "-std=c++17"] if file.endswith("cpp") else ["cc", "-std=gnu11"]
        objects.append(folder / f"{name}_{file}.o")
        command = [*compiler, *FLAGS, f"-I{HERE}", *flags, "-c", str(HERE / file), "-o", str(objects[-1])]
        subprocess.run(command, check=True, capture_output=True)
    program = folder / f"time_{name}"
    subprocess.run(["c++", *map(str, objects), "-ldl", "-lm", "-o", str(program)], check=True, capture_output=True)
    return program


def turn(folder: Path, who: Contender, blocks: int, wanted: np.ndarray) -> dict[str, float]:
    """One process: what it measured. Its first outputs are those of Python, within the tolerance."""
    command = [str(who.program), who.path, "signal", str(blocks), "found"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    error = float(abs(np.fromfile(folder / "found", "float32") - wanted).max())
    if not error < TOLERANCE:
        raise ArithmeticError(f"{who.name} is {error:.1e} away from Python's results")
    return {**json.loads(done.stdout), "error": error}


STARTED = """\
import time
began = time.perf_counter()
import numpy as np
numpy = time.perf_counter()
{setup}
x = np.fromfile("signal", "float32").reshape(1, -1, 1)[:, :64]
f(x)
first = time.perf_counter()
for _ in range(200):
    f(x)
before = time.process_time()
for _ in range(2000):
    f(x)
print(first - began, first - numpy, (time.process_time() - before) / 2000)
"""
SCANJIT = """\
import scanjit as sj
from benchmarks.libraries import Weights, block_function, step_function
sj.config.threads = 1
f = block_function(step_function(Weights.drawn()))\
"""
WHEEL = """\
import sys
sys.path.insert(0, {path!r})
from amp import amp as f\
"""


def python(folder: Path, setup: str) -> list[float]:
    """A process of Python: seconds from its start to the first result, those behind NumPy, and those of a call."""
    command = [sys.executable, "-c", STARTED.format(setup=setup)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (HERE.parents[1], os.environ.get("PYTHONPATH", ""))))}
    done = subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True)
    return [float(each) for each in done.stdout.split()]


def main(arguments: Sequence[str] = ()) -> int:
    """Print the tables."""
    import scanjit as sj

    parser = argparse.ArgumentParser(prog="python -m benchmarks libraries")
    parser.add_argument("--rtneural", type=Path, help="a folder with the source of RTNeural")
    parser.add_argument(
        "--blocks", type=int, default=15_625, help="how many blocks of 64 samples; by default a million samples"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how many turns everybody has")
    options = parser.parse_args(arguments)
    if shutil.which("cc") is None or shutil.which("c++") is None:
        print("needs a C and a C++ compiler")
        return 1
    sj.config.threads = 1
    weights = Weights.drawn()
    signal = 0.5 * np.sin(0.03 * np.arange(SAMPLES)) + 0.1 * np.random.default_rng(1).normal(size=SAMPLES)
    with tempfile.TemporaryDirectory(prefix="libraries-") as name:
        folder = Path(name)
        signal.astype("float32").tofile(folder / "signal")
        step = step_function(weights)
        wanted = block_function(step)(signal.astype("float32").reshape(1, -1, 1)).ravel()
        rivals = contenders(folder, weights, options.rtneural)
        found: list[list[dict[str, float]]] = [[] for _ in rivals]
        loads = []
        for _ in range(options.rounds):
            for who, turns in zip(rivals, found, strict=True):
                loads.append(os.getloadavg()[0])
                turns.append(turn(folder, who, options.blocks, wanted))
        loaded = f"load {min(loads):.1f} to {max(loads):.1f}"
        print(f"{options.blocks} blocks of 64 samples, {options.rounds} turns, {loaded}.")
        print("µs: medians of the turns; worst blocks of the best and of the worst turn. `alone` leaves out the blocks")
        print("in which the system stopped the thread, or gave it a page of memory.\n")
        columns = ("first result", "CPU", "median", "99.9 %", "worst", "worst alone", "error")
        print(f"{'':32}" + "".join(f"{each:>18}" for each in columns))
        for who, turns in zip(rivals, found, strict=True):
            middle = [f"{median(each[key] for each in turns):.1f}" for key in ("first", "cpu", "median", "p999")]
            spread = [
                f"{min(each[key] for each in turns):.0f} to {max(each[key] for each in turns):.0f}"
                for key in ("worst", "alone")
            ]
            cells = [*middle, *spread, f"{max(each['error'] for each in turns):.0e}"]
            print(f"{who.name:32}" + "".join(f"{each:>18}" for each in cells))
        sj.export_library(block_function(step), folder / "wheel", "amp", kind="wheel")
        print(f"\n{'':32}{'first result, ms':>18}{'behind NumPy, ms':>18}{'CPU a call, µs':>18}")
        for title, setup in (("Python", SCANJIT), ("wheel", WHEEL.format(path=_unpacked(folder / "wheel")))):
            whole, behind, call = map(median, zip(*(python(folder, setup) for _ in range(options.rounds)), strict=True))
            print(f"{title:32}{1e3 * whole:>18.1f}{1e3 * behind:>18.1f}{1e6 * call:>18.1f}")
        print("\nBytes of the step, and of a block of 64 samples:\n")
        print(f"{'':18}" + "".join(f"{each:>12}" for each in 2 * ("code", "constants", "stack")))
        for target in TARGETS:
            print(f"{target:18}" + "".join(f"{each:>12}" for each in _bytes(folder, step, target)))
        for title, place in (("a sample", "steps"), ("a block", "block")):
            library = ctypes.CDLL(str(folder / place / "libamp.so"))
            library.amp_workspace.restype = ctypes.c_size_t
            print(f"{title}: {library.amp_workspace(None)} of workspace, {library.amp_state_size()} of state")
    return 0


def _bytes(folder: Path, step: Any, target: str) -> list[str]:
    """Code, constants and stack of the step and of a block, for a target."""
    import scanjit as sj

    found = []
    for exported, sizes in ((step, {}), (block_function(step), {"T": BLOCK})):
        place = sj.export_library(exported, folder / "sizes", "amp", target, sizes, kind="object", overwrite=True)
        told = subprocess.run(["size", "-A", "amp_code.o"], cwd=place, check=False, capture_output=True, text=True)
        sections = re.findall(r"^(\.(?:text|rodata|data)\S*)\s+(\d+)", told.stdout, re.MULTILINE)
        code = sum(int(size) for name, size in sections if name.startswith(".text"))
        whole = sum(int(size) for _, size in sections) or (place / "amp_code.o").stat().st_size
        stack = re.search(r"at most ([\d,]+) bytes of stack", (place / "README.md").read_text())
        found += [str(code or whole), str(whole - code) if code else "with it", stack[1] if stack else "?"]
    return found


def _unpacked(folder: Path) -> str:
    """Where a wheel is unpacked."""
    (wheel,) = folder.glob("*.whl")
    shutil.unpack_archive(wheel, folder / "site", "zip")
    return str(folder / "site")
