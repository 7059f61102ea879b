"""Results of one function beside those of another."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import scanjit as sj


def all_close(
    found: Iterable[Any], wanted: Iterable[Any], rtol: float = 1e-7, atol: float = 0.0, err_msg: str = ""
) -> None:
    """Whether results are near those that are wanted, one by one."""
    for one, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, right, rtol=rtol, atol=atol, err_msg=err_msg)


def same_for_any_threads(f: Callable[..., Any], *given: Any, threads: Iterable[int] = (1, 2, 3, 8)) -> Any:
    """What a function gives: the same bits for any number of threads."""
    first = None
    for sj.config.threads in threads:
        results = f(*given)
        first = results if first is None else first
        for one, other in zip(first, results, strict=True):
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    return first
