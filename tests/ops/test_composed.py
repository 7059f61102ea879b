"""Functions that are made of ops, under the names of NumPy and the array API: `vmap` and derivatives of order 2 of all.

The tables of cases are those of the tests that compare values with NumPy. A case is left out of the derivatives where
its point has a number that is not finite, or is a corner of the function (`CORNERS` says which).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests import test_array_api as standard
from tests.ops import test_numpy_names as names

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def _of_standard(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arrays: function(standard.XP, *arrays)


CASES: dict[str, Case] = {f"numpy {name}": case for name, case in names.CASES.items()}
CASES |= {
    f"standard {name}": (_of_standard(function), arrays)
    for name, (function, arrays) in standard.CASES.items()
    if "." in name or hasattr(standard.XP, name)
}


def flat(found: Any) -> list[Any]:
    return list(found) if isinstance(found, list | tuple) else [found]


def made(arrays: list[np.ndarray], function: Callable[..., Any], mode: Any = "reference") -> Callable[..., Any]:
    """The function for arrays like these."""
    symbols = [sj.tensor(a.shape, a.dtype) for a in arrays]
    return sj.function(symbols, [sj.as_tensor(x) for x in flat(function(*symbols))], mode=mode)


def stacked(arrays: tuple[Any, ...]) -> list[np.ndarray]:
    """Three examples: the case's own arrays, their halves (of floats), and the arrays again."""
    given = [np.asarray(a) for a in arrays]
    return [np.stack([a, a * 0.5 if a.dtype.kind == "f" else a, a]) for a in given]


@pytest.mark.quick(82)
@pytest.mark.parametrize("name", CASES)
def test_vmap(name: str) -> None:
    """The same as one by one; also where only the first argument differs among the examples."""
    function, arrays = CASES[name]
    given = stacked(arrays)
    with np.errstate(all="ignore"):
        one = made([a[0] for a in given], function)
        one_by_one = [one(*[a[i] for a in given]) for i in range(3)]
        together = made(given, sj.vmap(lambda *xs: tuple(sj.as_tensor(y) for y in flat(function(*xs)))))(*given)
        for k, found in enumerate(together):
            np.testing.assert_allclose(found, np.stack([each[k] for each in one_by_one]), rtol=1e-9, atol=1e-12)
        if len(given) > 1:
            rest = [a[0] for a in given[1:]]
            mixed = sj.vmap(
                lambda *xs: tuple(sj.as_tensor(y) for y in flat(function(*xs))), in_axes=(0, *[None] * len(rest))
            )
            one_by_one = [one(given[0][i], *rest) for i in range(3)]
            for k, found in enumerate(made([given[0], *rest], mixed)(given[0], *rest)):
                np.testing.assert_allclose(found, np.stack([each[k] for each in one_by_one]), rtol=1e-9, atol=1e-12)


CORNERS = {
    "numpy hypot zero": "the tip of a cone",
    "numpy heaviside each": "an entry is 0, where it jumps",
    "numpy select": "an entry is 0, where another choice begins",
    "numpy nansum": "an entry is 0, where another choice begins",
    "numpy logit": "0 and 1 are poles",
    "numpy divmod": "an entry is 0, where it jumps",
    "numpy around": "it jumps",
    "numpy fmod zeros float32": "what is left of a division by 0 has a slope of 1/0",
    "numpy fmod multiples": "it jumps",
    "numpy lists by name": "an entry is 0, where another choice begins",
    "numpy astype": "differences see the rounding to float32",
    "numpy sum by place": "differences see the rounding to float32",
    "numpy cov of float32": "differences see the rounding to float32",
    "numpy polyint of float32": "differences see the rounding to float32",
    "numpy add.reduce dtype": "differences see the rounding to float32",
    "numpy piecewise": "an entry is 0, where another piece begins",
    "numpy piecewise default": "an entry is 0, where another piece begins",
    "numpy kl_div": "entries are 0, where it ends",
    "numpy huber": "an entry is where the line begins",
    "numpy pseudo_huber": "delta is 0",
    "standard astype": "differences see the rounding to float32",
}
SMOOTH = [
    name
    for name, (_, arrays) in CASES.items()
    if name not in CORNERS
    and all(np.isfinite(a).all() for a in map(np.asarray, arrays))
    and any(np.asarray(a).dtype.kind == "f" for a in arrays)
]


@pytest.mark.quick(33)
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    function, arrays = CASES[name]
    point = [np.asarray(a) for a in arrays]
    with np.errstate(all="ignore"):
        sj.check_grad(lambda *xs: [sj.as_tensor(y) for y in flat(function(*xs))], point, order=2, tolerance=1e-5)


GENERATED = ["numpy interp", "numpy cross", "numpy kron", "numpy nanmean", "numpy trapezoid all places", "numpy hypot"]
GENERATED += ["numpy nanquantile", "numpy insert", "numpy gradient places", "numpy unwrap axis", "numpy cov aweights"]
GENERATED += ["numpy convolve same 6 3", "standard std", "standard linalg.svd", "standard linalg.qr", "standard sort"]


@pytest.mark.parametrize("name", GENERATED)
def test_gradients_of_examples_in_generated_code(name: str) -> None:
    function, arrays = CASES[name]

    def slope(x: Any, *rest: Any) -> Any:
        return sj.grad(sum((y * y).sum() for y in flat(function(x, *rest))), x)

    given = stacked(arrays)
    expected, found = (made(given, sj.vmap(slope), mode)(*given) for mode in ("reference", "emulate"))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9, atol=1e-11)
