"""What several examples need: Newton's method, and pictures."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from scanjit.plot import library


def newton(loss, derivatives, where, tolerance=1e-9, most=100):
    """Where a loss is least, and in how many steps it was found.

    `loss(x)` is a number, `derivatives(x)` that number with its gradient and Hessian. Where the loss is not convex, a
    step is as if the curvature had the other sign; one that makes the loss larger is halved.
    """
    for step in range(most):
        value, slope, curvature = derivatives(where)
        if np.abs(slope).max() < tolerance:
            return where, step
        sizes, axes = np.linalg.eigh(curvature)
        move = -axes @ (axes.T @ slope / np.maximum(np.abs(sizes), 1e-6))
        length = min(1.0, 2.0 / np.abs(move).max())
        while loss(where + length * move) > value + 1e-4 * length * (slope @ move) and length > 1e-10:
            length /= 2
        where = where + length * move
    raise ArithmeticError(f"no minimum found in {most} steps: the slope is still {np.abs(slope).max():.1e}")


@contextmanager
def picture(path: str, rows: int = 1, width: float = 9.0, height: float = 3.0) -> Iterator[Any]:
    """The axes of a picture, or an array of them if it has several rows; saved to the file when the block ends."""
    library("").use("Agg")
    pyplot = library("pyplot")
    figure, axes = pyplot.subplots(rows, figsize=(width, height * rows), layout="constrained")
    yield axes
    figure.savefig(path)
    pyplot.close(figure)
    print(f"see {path}")
