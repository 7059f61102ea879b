"""The log-likelihood of a GARCH(1,1) model, and its gradient: `h = p0 + p1*r**2 + p2*h`, summed `log(h) + r**2/h`."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases.common import Case


def case(quick: bool) -> Case:
    """The model, and what it is measured on."""
    T = 300 if quick else 100_000
    return Case(
        name="GARCH(1,1)",
        sizes={"T": T},
        arguments=[np.array([0.1, 0.1, 0.8]), np.random.default_rng(0).standard_normal(T)],
        graph=graph,
        by_numpy=by_numpy,
        by_numpy_with_gradient=by_numpy_with_gradient,
        module="garch_numba",
        wrt=[0],
        cost=lambda value, _: float(value),
        tolerance=1e-9,
        chain=T,
    )


# ---- scanjit ---------------------------------------------------------------------------------------------------------


def graph(T: int | None, unroll: int | bool, gradient: bool) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs."""
    import scanjit as sj

    p, r = sj.tensor((3,), "float64", "p"), sj.tensor((T or "T",), "float64", "r")

    def step(r_t: Any, h: Any) -> Any:
        h = p[0] + p[1] * r_t * r_t + p[2] * h
        return h, sj.log(h) + r_t * r_t / h

    _, terms = sj.scan(step, r, [1.0, None], unroll=unroll)
    total = terms.sum()
    return [p, r], [total, sj.grad(total, p)] if gradient else [total]


# ---- by hand ---------------------------------------------------------------------------------------------------------


def variances(p: np.ndarray, r: np.ndarray) -> np.ndarray:
    """The recurrence alone, which NumPy cannot do at once; Python's own floats are the fastest way."""
    p2, h = float(p[2]), 1.0
    found = []
    for known in (p[0] + p[1] * r * r).tolist():
        h = known + p2 * h
        found.append(h)
    return np.array(found)


def by_numpy(p: np.ndarray, r: np.ndarray) -> list[np.ndarray]:
    """The loop in NumPy: the sum."""
    h = variances(p, r)
    return [np.asarray((np.log(h) + r * r / h).sum())]


def by_numpy_with_gradient(p: np.ndarray, r: np.ndarray) -> list[np.ndarray]:
    """The loop in NumPy, and back: the sum and its gradient."""
    h = variances(p, r)
    square = r * r
    p2, d = float(p[2]), 0.0
    found = []
    for known in ((1 - square / h) / h)[::-1].tolist():
        d = known + p2 * d
        found.append(d)
    dh = np.array(found[::-1])
    before = np.concatenate([[1.0], h[:-1]])
    return [np.asarray((np.log(h) + square / h).sum()), np.array([dh.sum(), dh @ square, dh @ before])]
