"""The types of everything that differs from op to op. Among the layers up to `ops`, only this file uses `Any` as a
type.

An op has parameters of its own: `axes` for a sum; `start`, `length` and `step` for a slice. So no type says in advance
which arguments the rule of an op takes.
"""

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

import numpy as np

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]
"""An array of any dtype and shape."""
DType = np.dtype[Any]
"""A dtype of NumPy's."""
Parameter = Any
"""The value of a parameter of an op: a number, a dtype, a tuple, a dimension, a graph..."""
Params = dict[str, Parameter]
"""The parameters of a node, by their names."""
Sample = tuple[tuple[Any, ...], Params]
"""One call of an op: its operands and its parameters."""
Samples = Iterable[Sample]
"""The calls from which the tests of an op are generated."""
Value = Any
"""An array, or a scalar of NumPy's."""
NodeBelow = Any
"""A node, for code in the layers above `ir`, which defines its class."""
Attribute = Any
"""An attribute of a node that a higher layer adds, such as the method `sum`."""

Result = TypeVar("Result", covariant=True)


class OpFunction(Protocol[Result]):
    """A function that belongs to an op. It takes operands (or their types), and the op's parameters by their names."""

    def __call__(self, *operands: Any, **params: Any) -> Result: ...


Reference = OpFunction[Any]
"""The function that computes an op with NumPy: it returns an array, a scalar of NumPy's, or a tuple of these."""
