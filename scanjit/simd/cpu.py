"""What the CPU at hand offers. Needs llvmlite only: a process that runs cached kernels never imports Numba."""

from __future__ import annotations

import functools
import os

import llvmlite.binding as llvm

from .kinds import kind_of

VECTOR_BYTES_VARIABLE = "SCANJIT_VECTOR_BYTES"


@functools.cache
def features() -> frozenset[str]:
    """Names of the CPU features that compiled code may use.

    ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` are honoured because they decide what Numba's target emits; asking for
    an instruction that it does not know would turn one fma into a call of libm.
    """
    listed = os.environ.get("NUMBA_CPU_FEATURES")
    if listed is not None:
        return frozenset(item[1:] for item in listed.split(",") if item.startswith("+"))
    if os.environ.get("NUMBA_CPU_NAME") == "generic":
        return frozenset({"sse2"} if is_x86() else {"neon"} if is_arm64() else set())
    try:
        return frozenset(name for name, present in llvm.get_host_cpu_features().items() if present)
    except RuntimeError:  # LLVM cannot tell on this platform
        return frozenset()


@functools.cache
def _architecture() -> str:
    return llvm.get_process_triple().split("-")[0]


def is_x86() -> bool:
    """Whether this is an x86-64 machine."""
    return _architecture() in ("x86_64", "amd64")


def is_arm64() -> bool:
    """Whether this is a 64-bit Arm machine."""
    return _architecture() in ("aarch64", "arm64")


@functools.cache
def has_fma() -> bool:
    """Whether fused multiply-add is an instruction (without it a fused operation would call libm)."""
    return is_arm64() or "fma" in features()


@functools.cache
def vector_bytes() -> int:
    """Bytes of one vector register, or less than 16 where there are no vectors.

    The environment variable ``SCANJIT_VECTOR_BYTES`` (4, 8, 16, 32 or 64) overrides it.
    """
    override = os.environ.get(VECTOR_BYTES_VARIABLE)
    if override:
        if override not in ("4", "8", "16", "32", "64"):
            raise ValueError(f"{VECTOR_BYTES_VARIABLE} must be 4, 8, 16, 32 or 64, got {override!r}")
        return int(override)
    if is_x86():
        have = features()
        if {"avx512f", "avx512vl", "avx512dq", "avx512bw"} <= have:
            return 64
        return 32 if "avx2" in have else 16
    return 16 if is_arm64() else 8


def registers() -> int:
    """How many vector registers there are."""
    return 32 if vector_bytes() == 64 or is_arm64() else 16


@functools.cache
def name() -> str:
    """What LLVM calls the processor that code is made for."""
    return os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()


def lanes(dtype: object) -> int:
    """Lanes of one register for elements of `dtype` (1 when ``vector_bytes()`` is below 16).

    Parameters
    ----------
    dtype : str or numpy.dtype
        A short kind name (``"f32"``) or anything that names a NumPy dtype.
    """
    width = vector_bytes()
    return width // kind_of(dtype).size if width >= 16 else 1


def describe() -> str:
    """One line for cache keys and reports: register width and the features that change what is emitted."""
    return f"{_architecture()} vectors={vector_bytes()} fma={int(has_fma())} {','.join(sorted(features()))}"
