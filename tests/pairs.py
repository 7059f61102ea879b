"""Few combinations of many choices: `pairwise` in place of several `pytest.mark.parametrize`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import pytest


def pairwise(**choices: Iterable[Any]) -> pytest.MarkDecorator:
    """A mark that runs a test with some of the combinations of values: any two values of two arguments meet in one of
    them. A fault seldom needs three choices at once, and all combinations take many times as long.

    >>> pairwise(size=[1, 2], mode=["numba", "emulate"], known=[False, True]).args
    (('size', 'mode', 'known'), [(1, 'numba', False), (1, 'emulate', True), (2, 'numba', True), (2, 'emulate', False)])
    """
    values = [list(some) for some in choices.values()]
    every = {one: set(combinations(enumerate(one), 2)) for one in product(*(range(len(some)) for some in values))}
    left, chosen = set().union(*every.values()), list[tuple[int, ...]]()
    while left:
        chosen.append(max(every, key=lambda one: len(every[one] & left)))
        left -= every[chosen[-1]]
    cases = [tuple(some[i] for some, i in zip(values, one, strict=True)) for one in sorted(chosen)]
    return pytest.mark.parametrize(tuple(choices), cases)
