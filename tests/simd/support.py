"""What the tests of the SIMD package share: one generated program, compiled and emulated."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scanjit.kinds import KINDS
from scanjit.runtime import host
from scanjit.runtime.compiler import to_assembly
from scanjit.runtime.kernels import Kernel, kernel, units
from scanjit.simd import emulate
from scanjit.target import Target

FLOATS = ("f32", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
INTEGERS = (*SIGNED, "u8")
NATIVE = {name: host.target().lanes(kind.size) for name, kind in KINDS.items()}


def source_of(imports: Sequence[str], parameters: Sequence[str], body: Sequence[str]) -> str:
    """A generated file with one function named kernel."""
    lines = [f"from scanjit.simd import {', '.join(imports)}", "", f"def kernel({', '.join(parameters)}):"]
    return "\n".join(lines + ["    " + line for line in body]) + "\n"


def compiled(source: str) -> Kernel:
    """The kernel of a generated file, a function of addresses and sizes."""
    name = f"kernel_{hashlib.sha256(source.encode()).hexdigest()[:12]}"
    return kernel(source.replace("def kernel(", f"def {name}("), name)


def run_compiled(source: str, arguments: Sequence[Any]) -> None:
    """Compile and call with the addresses of arrays."""
    compiled(source)(*[a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments])


def run_emulated(source: str, arguments: Sequence[Any]) -> None:
    """Run in the emulation with checked memory."""
    memory = emulate.Allocations()
    program = emulate.load_source(source, memory)
    program["kernel"](*[memory.add(a) if isinstance(a, np.ndarray) else a for a in arguments])


def assembly(source: str, target: Target) -> str:
    """What a generated file becomes for a target."""
    (unit,) = units([(source, "kernel", {})], target).values()
    return to_assembly(unit, target)


def special_values(kind: str) -> np.ndarray:
    """Edges of a float kind."""
    info = np.finfo(KINDS[kind].dtype)
    positive = [
        0.0, info.smallest_subnormal, info.smallest_subnormal * 3, info.tiny, info.tiny * 0.75, info.eps, info.eps / 4,
        0.1, 0.5, np.sqrt(0.5), 1 - info.epsneg, 1.0, 1 + info.eps, 1.5, 2.0, 2.5, np.e, np.pi, 10.0, 100.0,
        info.max / 2, info.max, np.inf,
    ]  # fmt: skip
    return np.array([*positive, *(-np.array(positive)), np.nan]).astype(KINDS[kind].dtype)


def same(a: np.ndarray, b: np.ndarray, ulp: float = 0) -> np.ndarray:
    """Equal elements: NaN with NaN, zeros of one sign, floats within `ulp` units of `b`."""
    if a.dtype.kind != "f":
        return np.asarray(a == b)
    with np.errstate(all="ignore"):
        exact = (a == b) & (np.signbit(a) == np.signbit(b))
        near = np.abs(a - b) <= ulp * np.abs(np.spacing(b))
    return exact | (np.isnan(a) & np.isnan(b)) | (near & (b != 0))


Reference = Callable[..., Any]
