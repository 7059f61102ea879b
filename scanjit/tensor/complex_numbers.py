"""The parts of complex numbers, their angles and conjugates."""

from math import pi
from typing import TYPE_CHECKING

from scanjit.ir import COMPLEX, Node
from scanjit.ops.functions import ARCTAN2
from scanjit.ops.parts import is_complex
from scanjit.ops.stretch import zeros_like
from scanjit.symbol import TensorLike
from scanjit.tensor.names import defined
from scanjit.tensor.variables import as_tensor


def real(x: TensorLike) -> Node:
    """The real part of complex numbers. What is real already stays as it is.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.real([1 + 2j, 3.0]), mode="reference")()
    array([1., 3.])
    """
    x = as_tensor(x)
    return x.args[0] if is_complex(x) else x


def imag(x: TensorLike) -> Node:
    """The imaginary part of complex numbers; zeros for what is real.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.imag([1 + 2j, 3.0]), mode="reference")()
    array([2., 0.])
    """
    x = as_tensor(x)
    return x.args[1] if is_complex(x) else zeros_like(x)


def conj(x: TensorLike) -> Node:
    """The complex conjugate: the imaginary part with the other sign.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.conj([1 + 2j, 3.0]), mode="reference")()
    array([1.-2.j, 3.-0.j])
    """
    x = as_tensor(x)
    return COMPLEX(x.args[0], -x.args[1]) if is_complex(x) else x


def angle(x: TensorLike, deg: bool = False) -> Node:
    """The angle of complex numbers, between -pi and pi; with `deg`, in degrees.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.angle([1j, 1 - 1j], deg=True), mode="reference")()
    array([ 90., -45.])
    """
    x = as_tensor(x)
    found = ARCTAN2(*ARCTAN2.prepare((imag(x), real(x))))
    return found * (180 / pi) if deg else found


conjugate = conj

if not TYPE_CHECKING:  # they cannot compute it
    __all__ = ["conjugate", *defined(globals())]
