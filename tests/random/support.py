"""Draws evaluated in the modes of `function`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import scanjit as sj

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
