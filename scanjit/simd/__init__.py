"""Vectors in generated code: loads, arithmetic, masks and vector math, with an emulation in NumPy.

Generated code imports what it uses by name, and the names state the type where one is needed::

    from scanjit.simd import load_f32x16, store, tanh

Functions are made when first asked for. Importing this package does not import llvmlite: a process that runs kernels in
plain Python (`scanjit.simd.emulate`) never pays for it.
"""

from typing import Any

from scanjit.ops.guest import PREFIX

from . import table
from .names import parse


def is_public(name: str) -> bool:
    """Whether `name` is one of the package's functions. It does not import llvmlite."""
    if name in table.FUNCTIONS or name in table.PLAIN or name in table.SHUFFLES:
        return True
    try:
        parsed = parse(name)
    except ValueError:
        return False
    if parsed.base.startswith(PREFIX):
        return (parsed.lanes is None) == (parsed.kind is None)
    if parsed.lanes is None:
        return False
    if parsed.kind is None:
        return parsed.base in table.LANES_ONLY
    return parsed.base in table.SUFFIXED and not (parsed.base == "iota" and not parsed.kind.integral)


def __getattr__(name: str) -> Any:
    if not is_public(name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import intrinsics

    return globals().setdefault(name, intrinsics.make(name))
