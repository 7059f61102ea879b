"""Draws evaluated in the modes of `function`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.simd import cpu

SEED = 20260


def drawn(build: Callable[[sj.random.Stream], Any], mode: str = "reference", calls: int = 1, seed: int = SEED) -> Any:
    """What the draws that `build` makes give in the last of so many calls."""
    stream = sj.random.Stream(seed)
    compiled = sj.function([], build(stream), mode=mode)
    for _ in range(calls - 1):
        compiled()
    return compiled()


def identical(got: Any, expected: Any) -> None:
    """The same to the last bit, in lists too."""
    if isinstance(expected, list | tuple):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            identical(a, b)
    else:
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


@contextmanager
def registers(monkeypatch: pytest.MonkeyPatch, size: int) -> Iterator[None]:
    """While inside, vector registers have so many bytes."""
    with monkeypatch.context() as patch:
        patch.setenv(cpu.VECTOR_BYTES_VARIABLE, str(size))
        cpu.vector_bytes.cache_clear()
        try:
            yield
        finally:
            cpu.vector_bytes.cache_clear()
