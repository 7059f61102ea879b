"""The result of `minimize`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from scanjit.records import record

RUNNING, CONVERGED, AT_BOUND, TOO_MANY, NOT_FINITE, NO_DESCENT, SINGULAR = -1, 0, 1, 2, 3, 4, 5

MESSAGES = {
    CONVERGED: "converged: the gradient is zero within the tolerance",
    AT_BOUND: "converged at a bound: the gradient of all other variables is zero within the tolerance",
    TOO_MANY: "max_steps evaluations were not enough",
    NOT_FINITE: "the loss or its derivatives are not finite at the start",
    NO_DESCENT: "no descent: no step makes the loss smaller, and the gradient is not zero",
    SINGULAR: "the gradient is zero, but the loss does not rise in all directions: a saddle, or no single minimum",
}


@record
class Result:
    """The minimum that was found, under SciPy's names. Of a batch, each has one entry a problem.

    Attributes
    ----------
    x : ndarray
        Where the loss is least.
    fun, jac : ndarray
        The loss there, and its gradient.
    hess_inv : ndarray or None
        The inverse of the second derivatives, or of what the method has for them. 0 for variables at a bound; NaN if
        the derivatives are not positive definite. None for a method without a matrix.
    nit, nfev : ndarray of int
        How many steps were taken, and how often the loss and its derivatives were computed.
    status : ndarray of int
        0: converged. 1: converged at a bound. 2: `max_steps` were not enough. 3: not finite at the start.
        4: no descent. 5: singular: a saddle, or no single minimum.
    """

    x: np.ndarray
    fun: Any
    jac: np.ndarray
    hess_inv: np.ndarray | None
    nit: Any
    nfev: Any
    status: Any

    @property
    def success(self) -> Any:
        """Whether it converged."""
        return self.converged(self.status)

    @staticmethod
    def converged(status: Any) -> Any:
        """Whether a status is that of a problem that converged."""
        return (status == CONVERGED) | (status == AT_BOUND)

    @property
    def message(self) -> Any:
        """The status in words."""
        if np.ndim(self.status) == 0:
            return MESSAGES[int(self.status)]
        return np.array([MESSAGES[status] for status in self.status.tolist()], object)

    def __repr__(self) -> str:
        if np.ndim(self.status):
            converged, evaluations = int(np.sum(self.success)), int(np.sum(self.nfev))
            return f"Result of {len(self.status)} problems: {converged} converged, {evaluations} evaluations"
        rows = {"message": self.message, "success": self.success}
        rows |= {field.name: getattr(self, field.name) for field in fields(self)}
        width = max(map(len, rows))
        texts = {name: str(value).replace("\n", "\n" + " " * (width + 2)) for name, value in rows.items()}
        return "\n".join(f"{name:>{width}}: {text}" for name, text in texts.items())
