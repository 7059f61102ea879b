"""The target of code unless another one is given: the machine that this process runs on.

Only this file and `caches` ask the machine.
"""

import ctypes
import functools
import os
import sys
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm

from scanjit import errors
from scanjit.runtime.caches import cache_sizes
from scanjit.scoped import scoped
from scanjit.target import Target, target_for

TRIPLE: str = llvm.get_process_triple()
WIDTHS = ("4", "8", "16", "32", "64")
"""The values that `SCANJIT_VECTOR_BYTES` may have."""
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18
"""A system call of Linux on x86-64, what it is to do, and for which registers."""

_chosen_target: ContextVar[Target | None] = ContextVar("target", default=None)


def target() -> Target:
    """The target that `using` gives; else this machine.

    Environment variables may describe this machine differently: `SCANJIT_VECTOR_BYTES` says how many bytes its vectors
    have, `NUMBA_CPU_NAME` and `NUMBA_CPU_FEATURES` which processor it has.
    """
    return _chosen_target.get() or _host(
        *map(os.environ.get, ("SCANJIT_VECTOR_BYTES", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"))
    )


def using(given: Target) -> AbstractContextManager[Target]:
    """While inside, functions are compiled for a target that this machine can run.

    Examples
    --------
    >>> from dataclasses import replace
    >>> with using(replace(target(), vector_bytes=16)) as narrow:
    ...     print(narrow.lanes(4), target() is narrow)
    4 True
    """
    return scoped(_chosen_target, given)


def new_engine() -> Any:
    """An engine of LLVM that loads object code into this process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


@functools.cache
def _host(width: str | None, name: str | None, features: str | None) -> Target:
    if width and width not in WIDTHS:
        raise errors.ArgumentError(
            "the environment variable SCANJIT_VECTOR_BYTES is no width of vectors",
            got=repr(width),
            expected=f"one of {', '.join(WIDTHS)}, or nothing",
            where="",
        )
    if features is None:
        features = "" if name == "generic" else _features()
    name = name or llvm.get_host_cpu_name()
    sizes = cache_sizes()
    found = target_for(TRIPLE, name, features, int(width) if width else None, sizes.get(1), sizes.get(2))
    known = found.vector_bytes == 64 and found.has("amx-bf16", "amx-int8")
    return replace(found, has_matrices=known and _may_use_matrices())


def _may_use_matrices() -> bool:
    """Ask Linux for the matrix registers of x86-64, for this process and those that it forks. Other systems are not
    asked."""
    if not sys.platform.startswith("linux"):
        return False
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA) == 0


def names() -> tuple[str, str, str]:
    """LLVM's names for this machine: its triple, its processor, and the features that it has and lacks."""
    return TRIPLE, llvm.get_host_cpu_name(), _features()


def _features() -> str:
    try:
        return str(llvm.get_host_cpu_features().flatten())
    except RuntimeError:  # LLVM cannot tell on this system
        return ""
